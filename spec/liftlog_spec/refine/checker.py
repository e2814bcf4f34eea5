"""Checks a whole run: every step of every replica of every partition, in one order.

    refinement = Refinement()
    for step in steps:            # liftlog.trace.replica_lines, in an order that keeps causes before effects
        refinement.take(step)     # raises Mismatch

After the first mismatch of a partition nothing more is said about it, nor after a copy has come to end where
it does not know the epochs any more: everything there is damaged, with the index that told them, and what
followed was cut. The model's copies know what they have; this one begins anew where its leader can tell (R6).
"""

from __future__ import annotations

from collections.abc import Iterable

from liftlog.trace.replica_lines import GroupStep, ReplicaState, ReplicaStep, Step
from liftlog.types import PartitionId
from liftlog_spec.refine.abstract import LOG, PROGRESS, Abstract, Disagreement
from liftlog_spec.refine.group import GroupPart
from liftlog_spec.refine.replica import JournalPart, ReplicaPart
from liftlog_spec.refine.runs import epoch_before
from liftlog_spec.refine.shifted import shifted

DELETION, MISMATCH, UNKNOWN_END = "a deletion", "a mismatch", "an end of unknown epochs"


class Mismatch(Exception):
    """A step that the model does not explain. The text names node, partition, event, action and reason."""

    def __init__(self, step: Step, disagreement: Disagreement, done: list[str]) -> None:
        event = step.cause.event if isinstance(step, ReplicaStep) else f"applies {step.command} {step.index}"
        if isinstance(step, ReplicaStep) and step.cause.letter is not None:
            letter = step.cause.letter
            event = f"{event} {letter.kind} from node {letter.sender}"
        before = f" (after {', '.join(done)})" if done else ""
        place = f"node {step.node}, partition {step.partition}, step {step.number}"
        super().__init__(f"{place} ({event}){before}: {disagreement}")
        self.step = step
        self.node = step.node
        self.action = disagreement.action
        self.finding = disagreement.finding


class PartitionRefinement:
    """One partition, from its creation to its deletion."""

    def __init__(self, first: GroupStep, counts: dict[str, int]) -> None:
        if not first.replicas or first.after is None:
            raise Disagreement("", "the trace does not begin with the partition's creation")
        self.abstract = Abstract(tuple(sorted(first.replicas)), first.minimum, counts)
        self.group = GroupPart(self.abstract, first)
        self.other: PartitionRefinement | None = None
        """Of the partition's other log, if there is one."""
        self._first = first.first
        self._kind = JournalPart if first.partition.is_journal else ReplicaPart
        self.replicas = [self._part(place) for place in range(len(first.replicas))]
        self._of = dict(zip(self.abstract.members, self.replicas, strict=True))

    def take(self, step: Step) -> bool:
        """Explain a step; whether that was by any action. Raises Disagreement."""
        done = self.abstract.done
        done.clear()
        if self._first:
            step = shifted(step, self._first)
        if type(step) is ReplicaStep:
            self._of[step.node].take(step, self.replicas)
        else:
            self.group.take(step)  # type: ignore[arg-type]
            for place in range(len(self.replicas), len(self.abstract.members)):
                replica = self._part(place)
                self.replicas.append(replica)
                self._of[self.abstract.members[place]] = replica
        return bool(done)

    def _part(self, place: int) -> ReplicaPart:
        return self._kind(self.abstract, self.group, place, self._lags_elsewhere)

    def pair(self, other: PartitionRefinement) -> None:
        """The two logs of one partition: each is held to the model alone, but for whom the other one needs
        to be removed (R11).
        """
        self.other = other

    def _lags_elsewhere(self, lead: int, who: int) -> bool:
        other, members = self.other, self.abstract.members
        if other is None or who < 0:
            return False
        abstract = other.abstract
        place, lagging = abstract.place[members[lead]], abstract.place[members[who]]
        return bool(abstract.state[PROGRESS][place][lagging] < len(abstract.state[LOG][place]))

    def knows_its_end(self, node: int, after: ReplicaState) -> bool:
        """Whether a damaged copy has the epoch at its end that it has in the model (D2)."""
        start, end = after.damage[-1]
        log = self.abstract.state[LOG][self.abstract.place[node]]
        if after.state != "ready" or not (max(start, after.log_start) < after.leo <= end):
            return True
        last = after.history[-1][0] if after.history else 0
        return epoch_before(log, max(0, after.leo - self._first)) == self.abstract.epochs.get(last, -1)


class Refinement:
    """All partitions of a run. `only`: check these alone. `counts`: how often each action was taken."""

    def __init__(self, only: Iterable[PartitionId] = ()) -> None:
        self.only = frozenset(only)
        self.counts: dict[str, int] = {}
        self.outside: dict[str, int] = {}
        """Steps that the model does not contain, by what they are."""
        self.lines = 0
        """Lines about replicas, `stutters` of which are no action; `commands`: lines about the group."""
        self.stutters = 0
        self.commands = 0
        self.partitions: dict[PartitionId, PartitionRefinement] = {}
        self._over: dict[PartitionId, str] = {}
        """Partitions that nobody is held to any more, and since when."""

    @property
    def actions(self) -> int:
        return sum(self.counts.values())

    def take(self, step: Step) -> None:
        """Explain one line. Raises Mismatch."""
        partition = step.partition
        known = self.partitions.get(partition)
        if known is not None and type(step) is ReplicaStep:
            self.lines += 1
            try:
                if not known.take(step):
                    self.stutters += 1
            except Disagreement as disagreement:
                raise self._mismatch(step, disagreement) from None
            after = step.after
            if after is not None and after.damage and not known.knows_its_end(step.node, after):
                self._end(partition, UNKNOWN_END)
        else:
            self._take_rare(step, partition)

    def _take_rare(self, step: Step, partition: PartitionId) -> None:
        """A line about the group, or about a partition that is not known or is over."""
        if self.only and partition not in self.only:
            return
        if partition in self._over:
            self._count_outside(f"after {self._over[partition]}")
            return
        if isinstance(step, ReplicaStep):
            self.lines += 1
        else:
            self.commands += 1
        try:
            if isinstance(step, GroupStep) and step.after is None:
                self._end(partition, DELETION)
            elif partition not in self.partitions:
                if not isinstance(step, GroupStep):
                    raise Disagreement("", "a replica of a partition that was never created")
                begun = self.partitions[partition] = PartitionRefinement(step, self.counts)
                data = self.partitions.get(partition.partition)
                if data is not None and data is not begun:
                    data.pair(begun)
                    begun.pair(data)
            else:
                self.partitions[partition].take(step)
        except Disagreement as disagreement:
            raise self._mismatch(step, disagreement) from None

    def _mismatch(self, step: Step, disagreement: Disagreement) -> Mismatch:
        known = self.partitions.get(step.partition)
        done = list(known.abstract.done) if known is not None else []
        self._end(step.partition, MISMATCH)
        return Mismatch(step, disagreement, done)

    def _end(self, partition: PartitionId, why: str) -> None:
        """Nobody is held to anything any more."""
        self._over[partition] = why
        self.partitions.pop(partition, None)
        self._count_outside(why)

    def _count_outside(self, what: str) -> None:
        self.outside[what] = self.outside.get(what, 0) + 1
