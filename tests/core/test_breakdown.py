"""Where a message's time goes: stages of a leader's and a follower's group, by a clock of the test's own."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from liftlog.messages import (
    AckPublishes,
    AppendLog,
    Durable,
    Effect,
    Event,
    Fetch,
    FetchProgress,
    FetchReply,
    Outcome,
    Published,
    Received,
    Send,
)
from liftlog.real.breakdown import (
    FOLLOWER,
    GIVEN_UP_MS,
    LEADER,
    SAMPLE_EVERY_MS,
    STAGES,
    Breakdown,
    GroupTimes,
    StageTimes,
    bucket_of,
    highest_ms,
    read_counters,
)
from liftlog.types import Batch, Message, PartitionId, Ticket

LOG = PartitionId(5, 0)
BATCH = Batch(10, 2, 1, b"")
APPEND = AppendLog(LOG, [BATCH], Ticket(7))
PUBLISHED = Published(LOG, 1, [Message(b"s", b"r", b"", b"v")] * 2, 0)
ACKS = AckPublishes(LOG, "s", 1, 9, 10, [b"r", b"r"])


def fetch(durable: int) -> Fetch:
    return Fetch(LOG, 1, 3, 1, offset=12, durable_leo=durable, last_epoch=1, max_bytes=1)


def reply(batches: list[bytes]) -> FetchReply:
    return FetchReply(
        LOG, 1, 3, 1, 0, hw=0, log_start=0, leader_leo=12, end_epoch=0, end_offset=0, batches=batches
    )


@dataclass
class Node:
    """A node's steps, each at a time of the test's choice."""

    now_ms: float = 1000.0
    begun_ms: float = 0.0
    breakdown: Breakdown = field(init=False)

    def __post_init__(self) -> None:
        self.breakdown = Breakdown(lambda: self.now_ms, lambda: self.begun_ms)

    def step(self, event: Event, *effects: Effect, lasts_ms: float = 0.0, flush_ms: float = 0.0) -> None:
        self.begun_ms = self.now_ms
        self.now_ms += lasts_ms
        self.breakdown.observe(event, Outcome(list(effects)))
        self.now_ms += flush_ms
        self.breakdown.flushed()

    def read(self, after_ms: float, parse_ms: float = 0.0) -> None:
        self.now_ms += after_ms
        self.breakdown.reading()
        self.now_ms += parse_ms

    def stored(self, queue_ms: float, write_ms: float, sync_ms: float) -> None:
        begun = self.now_ms + queue_ms
        self.now_ms = begun + write_ms + sync_ms
        self.breakdown.stored(GroupTimes(begun, begun + write_ms, self.now_ms))

    def stages(self, role: str) -> dict[str, StageTimes]:
        found = read_counters(self.breakdown.counters, {})
        return {stage.name: stage for stage in found.get(role, [])}


def near(stage: StageTimes, duration_ms: float) -> bool:
    return stage.groups == 1 and duration_ms <= stage.p50_ms + 1e-9 <= duration_ms * 1.2 + 0.002


def test_a_leaders_group_is_followed_to_its_ack() -> None:
    node = Node()
    node.read(0, parse_ms=0.1)
    node.step(PUBLISHED, APPEND, Send(2, reply([b"x"])), lasts_ms=0.2)
    node.read(1)
    node.step(Received(3, fetch(10)), Send(3, reply([b"x"])))
    node.stored(queue_ms=0.5, write_ms=0.05, sync_ms=2)
    node.step(Durable(Ticket(7)))
    node.read(3)
    node.step(Received(2, fetch(12)))
    node.read(4)
    node.step(Received(3, FetchProgress(LOG, 1, 3, 12, 12, 1)), ACKS, flush_ms=0.3)
    stages = node.stages(LEADER)
    assert tuple(stages) == STAGES[LEADER]
    wanted = {"parse": 0.1, "step": 0.2, "queue": 1.5, "write": 0.05, "sync": 2, "out": 1, "followers": 9.55,
              "ack": 0.3, "whole": 11.15}  # fmt: skip
    assert [name for name, ms in wanted.items() if not near(stages[name], ms)] == []


def test_a_follower_s_group_is_followed_to_its_report() -> None:
    node = Node()
    node.read(0, parse_ms=0.1)
    node.step(Received(1, reply([b"x"])), APPEND, Send(1, fetch(10)), lasts_ms=0.2)
    node.stored(queue_ms=0, write_ms=0.05, sync_ms=2)
    node.step(Durable(Ticket(7)), Send(1, FetchProgress(LOG, 1, 3, 12, 12, 1)), flush_ms=0.3)
    stages = node.stages(FOLLOWER)
    assert tuple(stages) == STAGES[FOLLOWER]
    wanted = {"parse": 0.1, "step": 0.2, "write": 0.05, "sync": 2, "report": 0.3, "whole": 2.65}
    assert [name for name, ms in wanted.items() if not near(stages[name], ms)] == []


def test_one_group_at_a_time_is_followed_and_seldom() -> None:
    node = Node()

    def group(number: int) -> None:
        append = AppendLog(LOG, [Batch(number, 1, 1, b"")], Ticket(number))
        node.step(PUBLISHED, append)
        node.stored(0, 0, 0.1)
        node.step(Durable(Ticket(number)), AckPublishes(LOG, "s", 1, 9, number, [b"r"]))

    for number in range(100):
        group(number)
    assert node.stages(LEADER)["whole"].groups == 1 + int(99 * 0.1 / SAMPLE_EVERY_MS)


def test_a_group_that_never_ends_is_given_up() -> None:
    node = Node()
    node.step(PUBLISHED, APPEND)
    node.now_ms += GIVEN_UP_MS + 1
    node.step(PUBLISHED)
    node.read(0)
    node.step(PUBLISHED, APPEND)
    node.stored(0, 0, 1)
    node.step(Durable(Ticket(7)), ACKS)
    assert node.stages(LEADER)["whole"].p99_ms < 2


@given(st.floats(0.001, 1e6))
def test_a_bucket_tells_a_fifth_too_much_at_most(duration_ms: float) -> None:
    told = highest_ms(bucket_of(duration_ms))
    assert duration_ms <= told * (1 + 1e-9) and told <= duration_ms * 1.2


def test_only_what_came_between_two_answers_counts() -> None:
    before = {"breakdown.leader.sync.30": 5, "storage.groups": 9}
    after = {"breakdown.leader.sync.30": 5, "breakdown.leader.sync.40": 2, "breakdown.follower.step.3": 1}
    found = read_counters(after, before)
    assert found == {
        LEADER: [StageTimes("sync", 2, highest_ms(40), highest_ms(40), highest_ms(40))],
        FOLLOWER: [StageTimes("step", 1, highest_ms(3), highest_ms(3), highest_ms(3))],
    }
