"""Where does the time go between a message and its ack? One group after the other is followed through a node.

A *group* is what one read from a socket brought and one append stores: messages from NATS on a leader,
batches from the leader on a follower. At most one is followed at a time, and seldom, so that what this costs
does not grow with the load. The times between its stages are counted in buckets, and told with the node's
counters:

    breakdown.leader.sync.57 = 12        12 groups of a leader waited 2^(57/4) to 2^(58/4) microseconds for it

    leader      parse, step, queue, write, sync, out, followers, ack; whole = from the read to the ack
    follower    parse, step, queue, write, sync, report; whole = from the read to the report

`queue` is the wait for the group before it, `out` the wait until each follower has asked for the batch,
`followers` from then until the last one of them has said that it is durable, as the leader sees it: the way
there and back included. `sync` and `out` + `followers` go on at the same time. All of it is one process's
clock.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

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
from liftlog.types import RAFT_LOG, PartitionId

LEADER, FOLLOWER = "leader", "follower"
STAGES = {
    LEADER: ("parse", "step", "queue", "write", "sync", "out", "followers", "ack", "whole"),
    FOLLOWER: ("parse", "step", "queue", "write", "sync", "report", "whole"),
}
PREFIX = "breakdown"
SAMPLE_EVERY_MS = 5.0
GIVEN_UP_MS = 10_000.0
"""A group that has not ended by then is not followed any longer: its leader is another one, or it was cut."""
PER_DOUBLING = 4


class GroupTimes(NamedTuple):
    """When a group of storage jobs began, was written, and was synced, by the monotonic clock."""

    begun_ms: float
    written_ms: float
    synced_ms: float


NO_TIMES = GroupTimes(0.0, 0.0, 0.0)


class _Sample:
    """The group that is followed."""

    __slots__ = ("append", "appended_ms", "begun_ms", "heard_ms", "read_ms", "role", "sent_ms", "stored")

    def __init__(self, role: str, append: AppendLog, read_ms: float, begun_ms: float, now_ms: float) -> None:
        self.role = role
        self.append = append
        self.read_ms = read_ms
        self.begun_ms = begun_ms
        self.appended_ms = now_ms
        self.stored = NO_TIMES
        self.sent_ms: dict[int, float] = {}
        self.heard_ms: dict[int, float] = {}

    @property
    def log(self) -> PartitionId:
        return self.append.log

    @property
    def end(self) -> int:
        return self.append.batches[-1].end_offset


class Breakdown:
    """Watches a node's steps. `now_ms`: its monotonic clock; `begun_ms`: when the present step began."""

    def __init__(self, now_ms: Callable[[], float], begun_ms: Callable[[], float]) -> None:
        self._now_ms = now_ms
        self._begun_ms = begun_ms
        self._read_ms = 0.0
        self._times = NO_TIMES
        self._sample: _Sample | None = None
        self._answered_ms: float | None = None
        """When the step began that answers the group."""
        self._next_ms = 0.0
        self._counts: Counter[tuple[str, str, int]] = Counter()

    # -- what it is told -----------------------------------------------------------------------------------

    def reading(self) -> None:
        """A read from a socket has just brought something."""
        self._read_ms = self._now_ms()

    def stored(self, times: GroupTimes) -> None:
        """The events that come now are of a storage group with these times."""
        self._times = times

    def observe(self, event: Event | None, outcome: Outcome) -> None:
        """A step, as observers see it: before its effects are carried out."""
        sample = self._sample
        if sample is None:
            if type(event) is Published or type(event) is Received:
                self._begin(event, outcome)
        elif self._begun_ms() > sample.appended_ms + GIVEN_UP_MS:
            self._sample = None
        elif sample.role is LEADER:
            self._lead(sample, event, outcome)
        else:
            self._follow(sample, event, outcome)

    def flushed(self) -> None:
        """Everything that the last steps asked for has left this process."""
        sample, answered_ms = self._sample, self._answered_ms
        if sample is not None and answered_ms is not None:
            self._sample = self._answered_ms = None
            self._count(sample, answered_ms, self._now_ms())

    @property
    def counters(self) -> dict[str, int]:
        """How many groups fell into which bucket of each stage."""
        return {f"{PREFIX}.{role}.{stage}.{place}": n for (role, stage, place), n in self._counts.items()}

    # -- one group -----------------------------------------------------------------------------------------

    def _begin(self, event: Published | Received, outcome: Outcome) -> None:
        begun_ms = self._begun_ms()
        if begun_ms < self._next_ms:
            return
        append = next((effect for effect in outcome.effects if type(effect) is AppendLog), None)
        if append is None or append.log == RAFT_LOG or not append.batches:
            return
        self._next_ms = begun_ms + SAMPLE_EVERY_MS
        role = LEADER if type(event) is Published else FOLLOWER
        sample = self._sample = _Sample(role, append, self._read_ms, begun_ms, self._now_ms())
        if role is LEADER:
            self._lead(sample, event, outcome)

    def _lead(self, sample: _Sample, event: Event | None, outcome: Outcome) -> None:
        self._note_durable(sample, event)
        if type(event) is Received and type(event.message) in (Fetch, FetchProgress):
            told: Fetch | FetchProgress = event.message  # type: ignore[assignment]
            if told.partition == sample.log and told.durable_leo >= sample.end:
                sample.heard_ms.setdefault(event.sender, self._read_ms)
        for effect in outcome.effects:
            if type(effect) is Send:
                reply = effect.message
                if type(reply) is FetchReply and reply.batches and reply.partition == sample.log:
                    sample.sent_ms.setdefault(effect.to, self._now_ms())
            elif self._answers(effect, sample):
                self._answered_ms = self._begun_ms()

    def _follow(self, sample: _Sample, event: Event | None, outcome: Outcome) -> None:
        self._note_durable(sample, event)
        for effect in outcome.effects:
            if type(effect) is Send and type(effect.message) in (Fetch, FetchProgress):
                told: Fetch | FetchProgress = effect.message  # type: ignore[assignment]
                if told.partition == sample.log and told.durable_leo >= sample.end:
                    self._answered_ms = self._begun_ms()

    def _note_durable(self, sample: _Sample, event: Event | None) -> None:
        if type(event) is Durable and event.ticket == sample.append.ticket:
            sample.stored = self._times

    @staticmethod
    def _answers(effect: Effect, sample: _Sample) -> bool:
        if type(effect) is not AckPublishes or effect.partition != sample.log or effect.by_leader:
            return False
        return effect.offsets_from < sample.end <= effect.end

    def _count(self, sample: _Sample, answered_ms: float, now_ms: float) -> None:
        stored = sample.stored
        if stored.begun_ms < sample.appended_ms:
            # Of a log that needs no sync, or it was rebuilt meanwhile: there is nothing to compare.
            stored = GroupTimes(sample.appended_ms, sample.appended_ms, sample.appended_ms)
        stages = {
            "parse": sample.begun_ms - sample.read_ms,
            "step": sample.appended_ms - sample.begun_ms,
            "queue": stored.begun_ms - sample.appended_ms,
            "write": stored.written_ms - stored.begun_ms,
            "sync": stored.synced_ms - stored.written_ms,
            "whole": now_ms - sample.read_ms,
        }
        if sample.role is LEADER:
            stages["ack"] = now_ms - answered_ms
            if sample.sent_ms:
                sent_ms = max(sample.sent_ms.values())
                stages["out"] = sent_ms - sample.appended_ms
                stages["followers"] = max(sample.heard_ms.values(), default=sent_ms) - sent_ms
        else:
            stages["report"] = now_ms - answered_ms
        self._counts.update((sample.role, stage, bucket_of(ms)) for stage, ms in stages.items())


def bucket_of(duration_ms: float) -> int:
    """Number of the bucket that counts this duration; 0 up to a microsecond."""
    return max(0, math.floor(PER_DOUBLING * math.log2(max(duration_ms * 1000, 1.0))))


def highest_ms(bucket: int) -> float:
    """The greatest duration that a bucket counts."""
    return float(2 ** ((bucket + 1) / PER_DOUBLING)) / 1000


class StageTimes(NamedTuple):
    """Durations of one stage, in milliseconds: at most a fifth more than they were."""

    name: str
    groups: int
    p50_ms: float
    p90_ms: float
    p99_ms: float


def read_counters(after: dict[str, int], before: dict[str, int]) -> dict[str, list[StageTimes]]:
    """Role -> its stages in order, of the groups between two answers of a node; no role that had none."""
    found: dict[str, dict[str, Counter[int]]] = {LEADER: {}, FOLLOWER: {}}
    for name, count in after.items():
        prefix, _, rest = name.partition(".")
        new = count - before.get(name, 0)
        if prefix == PREFIX and new > 0:
            role, stage, place = rest.split(".")
            found[role].setdefault(stage, Counter())[int(place)] += new
    return {
        role: [_stage(stage, stages[stage]) for stage in STAGES[role] if stage in stages]
        for role, stages in found.items()
        if stages
    }


def _stage(name: str, counts: Counter[int]) -> StageTimes:
    total = counts.total()

    def at(share: float) -> float:
        seen = 0
        for place in sorted(counts):
            seen += counts[place]
            if seen >= share * total:
                return highest_ms(place)
        return 0.0

    return StageTimes(name, total, at(0.50), at(0.90), at(0.99))
