"""A stream of one partition listens on several subjects (N10)."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from liftlog.client.registry import who_listens
from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem, altered
from liftlog.core.metadata.commands import AlterStream
from liftlog.core.metadata.subjects import attached_to, collision, config_problem, foreign_to, rivalry
from liftlog.messages import (
    AlterStreamRequest,
    CreateStreamRequest,
    DoneReply,
    Drained,
    ErrorReply,
    Event,
    StreamChanges,
    StreamInfoReply,
    StreamInfoRequest,
    Subscribed,
    SubscriptionRefused,
)
from liftlog.mutants import Mutants
from liftlog.types import PartitionId, StreamConfig
from tests.core.metadata_harness import Cluster
from tests.core.node_harness import World

CONFIG = StreamConfig("orders", "orders", 1, 3, more_subjects=("bills.*", "notes.>"))
REASON = 'Permissions Violation for Subscription to "bills.*"'


class Late(World):
    """NATS' answers about the subscriptions of these numbers do not come, or say no."""

    def __init__(self, mutants: Mutants | None = None) -> None:
        self.silent: set[int] = set()
        self.refused: set[int] = set()
        self.kept_back: list[tuple[int, Event]] = []
        super().__init__(3, mutants or Mutants())

    def post(self, node: int, event: Event, delay_s: float = 0.0) -> None:
        if isinstance(event, (Subscribed, Drained)) and event.number in self.silent:
            self.kept_back.append((node, event))
            return
        if isinstance(event, Subscribed) and event.number in self.refused:
            event = SubscriptionRefused(event.partition, event.epoch, REASON, event.number)
        super().post(node, event, delay_s)

    def answer_now(self) -> None:
        """What was kept back comes."""
        self.silent.clear()
        late, self.kept_back = self.kept_back, []
        for node, event in late:
            self.step(node, event)


def started(world: World, config: StreamConfig = CONFIG) -> PartitionId:
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    world.ask(1, CreateStreamRequest(config))
    assert world.run_until(lambda: bool(world.subscriptions))
    (partition,) = world.subscriptions
    return partition


def subjects(world: World, partition: PartitionId) -> list[str]:
    return sorted(world.listened.get(partition, {}).values())


def record(world: World, partition: PartitionId) -> Any:
    return next(iter(world.nodes.values())).ctx.metadata.partitions[partition]


def change(*wanted: str) -> AlterStreamRequest:
    return AlterStreamRequest("orders", StreamChanges(subject=wanted[0], more_subjects=wanted[1:]))


def alter(world: World, *wanted: str) -> int:
    return world.ask(1, change(*wanted))


@pytest.mark.parametrize("mutant", [False, True])
def test_N10_a_leader_is_ready_when_NATS_has_confirmed_all_subjects(mutant: bool) -> None:
    world = Late(Mutants(ready_at_first_subject=mutant))
    world.silent = {2}
    partition = started(world)
    world.run(1.0)
    assert subjects(world, partition) == ["bills.*", "notes.>", "orders"]
    assert record(world, partition).ready == mutant
    world.answer_now()
    assert world.run_until(lambda: record(world, partition).ready)


def test_N10_a_subject_that_NATS_refuses_is_a_refusal_of_all() -> None:
    world = Late()
    world.refused = {1}
    partition = started(world)
    assert world.run_until(lambda: record(world, partition).refused != {})
    info = world.answer(1, StreamInfoRequest("orders"))
    assert isinstance(info, StreamInfoReply) and info.streams[0].partitions[0].refusal == REASON
    assert partition not in world.subscriptions, "nor on what it has not refused"
    world.refused = set()
    assert world.run_until(lambda: record(world, partition).ready)
    assert subjects(world, partition) == ["bills.*", "notes.>", "orders"]


def test_N10_subjects_are_altered_and_what_stays_is_not_touched() -> None:
    world = Late()
    partition = started(world)
    assert world.run_until(lambda: record(world, partition).ready)
    before = dict(world.listened[partition])
    epoch = record(world, partition).epoch
    answer = world.answer(2, change("orders", "notes.>", "tips"))
    assert answer == DoneReply("more_subjects bills.* notes.> -> notes.> tips")
    assert record(world, partition).ready and record(world, partition).epoch == epoch
    now = world.listened[partition]
    assert sorted(now.values()) == ["notes.>", "orders", "tips"]
    assert {number for number, subject in before.items() if subject != "bills.*"} < set(now)
    told = "subject orders -> tips, more_subjects notes.> tips -> none"
    assert world.answer(2, change("tips")) == DoneReply(told)
    assert subjects(world, partition) == ["tips"]
    config = world.nodes[1].ctx.metadata.streams["orders"].config
    assert config.more_subjects is UNSET and config.subjects == ("tips",)


def test_N10_all_subjects_are_asked_for_anew_with_how_large_a_message_may_be() -> None:
    world = Late()
    partition = started(world)
    assert world.run_until(lambda: record(world, partition).ready)
    before, epoch = dict(world.listened[partition]), record(world, partition).epoch
    world.silent = {5}
    larger = AlterStreamRequest("orders", StreamChanges(max_payload_bytes=2_000_000))
    number = world.ask(2, larger)
    world.run(1.0)
    assert number not in world.replies and not record(world, partition).ready
    world.answer_now()
    assert world.run_until(lambda: number in world.replies)
    assert world.replies[number] == DoneReply("max_payload_bytes 1048576 -> 2000000")
    assert record(world, partition).ready and record(world, partition).epoch == epoch
    now = world.listened[partition]
    assert sorted(now.values()) == sorted(before.values()) and not set(now) & set(before)
    assert world.answer(2, larger) == DoneReply("nothing has changed: it was so already")
    assert world.listened[partition] == now


def test_N10_an_alteration_is_answered_when_NATS_has_the_new_subjects() -> None:
    world = Late()
    partition = started(world)
    assert world.run_until(lambda: record(world, partition).ready)
    world.silent = {3}
    number = alter(world, "orders", "bills.*", "notes.>", "tips")
    world.run(1.0)
    assert number not in world.replies and not record(world, partition).ready
    world.answer_now()
    assert world.run_until(lambda: isinstance(world.replies.get(number), DoneReply))
    assert record(world, partition).ready


def test_N10_what_NATS_says_of_an_earlier_subscription_confirms_nothing() -> None:
    """`tips` was asked for, given up before it was confirmed, and asked for again."""
    world = Late()
    partition = started(world)
    assert world.run_until(lambda: record(world, partition).ready)
    world.silent = {3, 4}
    alter(world, "orders", "bills.*", "notes.>", "tips")
    assert world.run_until(lambda: "tips" in subjects(world, partition))
    alter(world, "orders", "bills.*", "notes.>")
    assert world.run_until(lambda: "tips" not in subjects(world, partition))
    alter(world, "orders", "bills.*", "notes.>", "tips")
    assert world.run_until(lambda: 4 in world.listened[partition])
    first = [(node, event) for node, event in world.kept_back if event.number == 3]
    assert len(first) == 2, "confirmed, and drained"
    for node, event in first:
        world.step(node, event)
    leader, epoch = world.subscriptions[partition]
    world.step(leader, SubscriptionRefused(partition, epoch, REASON, 3))
    world.run(1.0)
    assert not record(world, partition).ready and record(world, partition).refused == {}
    world.answer_now()
    assert world.run_until(lambda: record(world, partition).ready)


def test_N10_a_subject_that_NATS_refuses_after_it_was_given_up_is_gone() -> None:
    world = Late()
    partition = started(world)
    assert world.run_until(lambda: record(world, partition).ready)
    world.silent = {3}
    alter(world, "orders", "tips")
    assert world.run_until(lambda: "tips" in subjects(world, partition))
    number = alter(world, "orders")
    assert world.run_until(lambda: "tips" not in subjects(world, partition))
    world.run(0.5)
    assert number not in world.replies
    leader, epoch = world.subscriptions[partition]
    world.step(leader, SubscriptionRefused(partition, epoch, REASON, 3))
    assert world.run_until(lambda: isinstance(world.replies.get(number), DoneReply))
    assert record(world, partition).ready and subjects(world, partition) == ["orders"]


@pytest.mark.parametrize("mutant", [False, True])
def test_N10_a_subject_that_is_given_up_is_listened_to_no_more(mutant: bool) -> None:
    world = Late(Mutants(former_subject_kept=mutant))
    partition = started(world)
    assert world.run_until(lambda: record(world, partition).ready)
    assert isinstance(world.answer(1, change("orders", "notes.>")), DoneReply)
    assert ("bills.*" in subjects(world, partition)) == mutant


def test_N10_a_new_leader_listens_on_what_the_subjects_are_then() -> None:
    world = Late()
    partition = started(world)
    assert world.run_until(lambda: record(world, partition).ready)
    assert isinstance(world.answer(1, change("orders", "tips")), DoneReply)
    old = world.leader(partition)
    world.kill(old)
    assert world.run_until(lambda: world.leader(partition) not in (0, old) and record(world, partition).ready)
    assert subjects(world, partition) == ["orders", "tips"]


def test_N10_other_subjects_are_tried_at_once_where_NATS_had_refused() -> None:
    world = Late()
    world.refused = {1, 4, 7}
    partition = started(world)
    assert world.run_until(lambda: record(world, partition).refused != {})
    world.refused = set()
    answer = world.answer(1, change("orders", "tips"))
    assert isinstance(answer, DoneReply) and record(world, partition).refused == {}


def test_N10_a_paused_stream_listens_on_its_new_subjects_when_it_is_resumed() -> None:
    world = Late()
    partition = started(world)
    assert world.run_until(lambda: record(world, partition).ready)
    world.answer(1, AlterStreamRequest("orders", StreamChanges(paused=True)))
    assert world.run_until(lambda: partition not in world.subscriptions)
    assert isinstance(world.answer(1, change("orders", "tips")), DoneReply)
    world.run(0.5)
    assert partition not in world.subscriptions and not record(world, partition).ready
    world.answer(1, AlterStreamRequest("orders", StreamChanges(paused=False)))
    assert world.run_until(lambda: record(world, partition).ready)
    assert subjects(world, partition) == ["orders", "tips"]


def several(*names: str, partitions: int = 1) -> StreamConfig:
    return StreamConfig("s", names[0], partitions, 1, more_subjects=names[1:])


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (several("a", "b.*", "b.c"), "'b.*' and 'b.c' overlap"),
        (several("a", "a"), "'a' and 'a' overlap"),
        (several("a", "b", partitions=2), "one partition only"),
        (several("a", "b..c"), "subject 'b..c' is invalid"),
        (several("a", "$JS.API.>"), "overlaps the reserved"),
        (several("a"), "it must be left out"),
        (several(*(f"a{number}" for number in range(66))), "1 to 64"),
    ],
)
def test_N10_which_subjects_a_stream_may_have(config: StreamConfig, says: str) -> None:
    assert says in config_problem(config)




def test_N10_so_many_subjects_are_accepted() -> None:
    most = StreamConfig("s", "a", 1, 1, 1, more_subjects=tuple(f"a{number}" for number in range(64)))
    assert config_problem(most) == ""


def test_N10_which_alterations_are_refused() -> None:
    plain = StreamConfig("s", "a", 1, 1, 1)
    assert alteration_problem(plain, StreamChanges(more_subjects=("b", "c.>"))) == ""
    assert "overlap" in alteration_problem(plain, StreamChanges(more_subjects=("a",)))
    assert "one partition" in alteration_problem(plain, StreamChanges(more_subjects=("b",), partitions=2))
    one = altered(plain, StreamChanges(more_subjects=("b",)))
    assert one.subjects == ("a", "b")
    assert "one partition" in alteration_problem(one, StreamChanges(partitions=2))
    assert alteration_problem(one, StreamChanges(more_subjects=(), partitions=2)) == ""
    wide = StreamConfig("s", "a", 2, 1, 1)
    assert "cannot be altered" in alteration_problem(wide, StreamChanges(subject="b"))


def test_N10_each_subject_is_judged_beside_other_streams() -> None:
    one, other = several("a", "b.*"), StreamConfig("other", "b.c", 1, 1)
    assert "subject 'b.*' overlaps 'b.c' of stream 'other'" in rivalry(one, other)
    assert "overlaps 'b.*' of stream 's'" in rivalry(other, one)
    assert collision(one, other) == "" == collision(other, one)
    wide = StreamConfig("wide", "b", 3, 1)
    assert "collides with stream 'wide' on 'b.1'" in collision(one, wide)
    assert "collides with stream 's' on 'b.*'" in collision(wide, one)


def test_N10_an_alteration_is_judged_beside_other_streams_when_it_is_applied() -> None:
    cluster = Cluster(level=levels.NEWEST)
    cluster.create("orders")
    cluster.create("bills")
    stream = cluster.metadata.streams["orders"]

    def alter(*more: str) -> Any:
        changes = StreamChanges(more_subjects=more)
        return cluster.apply(AlterStream(cluster.request(), stream.id, "orders", stream.revision, changes))

    bills = cluster.metadata.streams["bills"].config.subject
    refused = alter(bills)
    assert refused.code == "invalid" and "of stream 'bills'" in refused.detail
    assert alter("notes").code == ""
    late = cluster.apply(cluster.creation(StreamConfig("notes", "notes", 1, 1)))
    assert late.code == "invalid" and "of stream 'orders'" in late.detail


def test_N10_nodes_of_an_older_release_never_see_several_subjects() -> None:

    cluster = Cluster(level=levels.FIRST)
    assert cluster.apply(cluster.creation(several("a", "b"))).code == "invalid"
    assert "feature level 2" in cluster.apply(cluster.creation(several("a", "b"))).detail


def test_N10_what_belongs_to_a_partition_and_where_it_came_in() -> None:
    patterns = ("orders", "bills.*")
    assert foreign_to(patterns, b"bills.x") == "" and attached_to(patterns, b"bills.x") == "bills.*"
    assert foreign_to(patterns, b"notes") == "'notes' is not within 'orders' or 'bills.*'"
    assert attached_to(patterns, b"notes") == "orders"


def test_N10_who_listens_is_found_by_each_subject() -> None:
    world = Late()
    started(world)
    info = world.answer(1, StreamInfoRequest("orders"))
    assert isinstance(info, StreamInfoReply)
    (listener,) = who_listens(info.streams, "notes.a.b")
    assert (listener.stream, listener.subject) == ("orders", "notes.>")
    assert who_listens(info.streams, "tips") == ()


def test_N10_subjects_that_overlap_are_refused_with_the_remedy() -> None:
    world = World()
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    refused = world.answer(1, CreateStreamRequest(StreamConfig("s", "a.*", 1, 3, more_subjects=("a.b",))))
    assert isinstance(refused, ErrorReply) and "leave one of them out" in refused.description
