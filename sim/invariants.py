"""What must always hold, each condition under its own name, checked against what *should* be so.

The simulator sees everything, so it can keep the truth that no node has: which records are committed, in
which order, who was told so, and what readers saw. That truth ("ghost state") is built only from what nodes
do: the first node that claims a record committed makes it so, and from then on every other claim must agree.

A log is compared by its *epoch history*: at which offset each epoch begins, and where the log ends. That is
enough, because `PartitionTruth.appended` verifies for each (epoch, offset) that only one content was ever
appended there; so two logs with equal histories up to an offset have equal content up to it. Comparing two
histories costs the length of the list of epochs, not of the log, and is done only when something changed.

    OneLeaderPerEpoch    an epoch is led by one incarnation of one node, and has one content (R1)
    LogMatching          logs agree below every HW that anybody claims (R2, R6, R8)
    CommittedOnISR       every member of the committed ISR has the committed prefix durable (R2, R5, R7, R9,
    R10) NoAckedRecordLost    whoever begins to lead has every record that was acknowledged or committed (R4,
    R16) ConsistentRead       what a reader saw at an offset stays so, and what it saw never goes backward
    (R3) ElectionSafety       a Raft term has one leader (M1)
    RaftLogMatching      Raft entries of equal index and term are equal, with everything before them (M1)
    LeaderCompleteness   a new Raft leader has every committed entry (M1)
    StateMachineSafety   no two nodes commit different entries at one index (M1)
    NodeInvariant        no node finds a condition of its own violated
    NodeError            no node raises anything else

and, once everything has been healed: Convergence (every partition led, writable, with all its replicas in
sync) and ReplicasEqual (the same bytes on each).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from liftlog.types import Entry, EpochStart, PartitionId

STEP_INVARIANTS = (
    "OneLeaderPerEpoch",
    "LogMatching",
    "CommittedOnISR",
    "NoAckedRecordLost",
    "ConsistentRead",
    "ElectionSafety",
    "RaftLogMatching",
    "LeaderCompleteness",
    "StateMachineSafety",
)
FINAL_INVARIANTS = ("Convergence", "ReplicasEqual")
OWN_CHECKS = ("NodeInvariant", "NodeError")


class Violation(Exception):
    """An invariant does not hold. `invariant` is its name, the text says what was found."""

    def __init__(self, invariant: str, finding: str) -> None:
        super().__init__(f"{invariant}: {finding}")
        self.invariant = invariant
        self.finding = finding


def epoch_at(history: Sequence[EpochStart], offset: int) -> int:
    """The epoch of the record at `offset`, by an epoch history; 0 if the history begins later."""
    position = bisect_right(history, offset, key=_start) - 1
    return history[position].epoch if position >= 0 else 0


def _start(entry: EpochStart) -> int:
    return entry.start


def prefix_of(history: Sequence[EpochStart], end: int) -> list[EpochStart]:
    """The part of a history that speaks of offsets below `end`."""
    return list(history[: bisect_right(history, end - 1, key=_start)])


def describe(history: Sequence[EpochStart], end: int) -> str:
    """A history in one line: ``[1@0 3@17 .. 25]`` is epoch 1 from 0, epoch 3 from 17, end 25."""
    return "[" + " ".join(f"{entry.epoch}@{entry.start}" for entry in history) + f" .. {end}]"


class Checks:
    """How often each invariant was evaluated: a condition that was never looked at proves nothing."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = {name: 0 for name in (*STEP_INVARIANTS, *FINAL_INVARIANTS, *OWN_CHECKS)}


class PartitionTruth:
    """The truth about one partition. `hw` and `history`: the committed prefix; it only ever grows."""

    __slots__ = (
        "acked",
        "acked_end",
        "checks",
        "committed_in",
        "contents",
        "elected_with",
        "history",
        "hw",
        "id",
        "isr",
        "leaders",
        "seen",
        "version",
    )

    def __init__(self, partition: PartitionId, checks: Checks) -> None:
        self.id = partition
        self.checks = checks.counts
        self.hw = 0
        self.history: list[EpochStart] = []
        self.committed_in: dict[int, int] = {}
        """Where the committed prefix ended when each epoch last extended it."""
        self.leaders: dict[int, tuple[int, int]] = {}
        self.elected_with: dict[int, tuple[list[EpochStart], int]] = {}
        """For each epoch, the history and the end of its leader's log when it began to lead."""
        self.contents: dict[tuple[int, int], tuple[int, int]] = {}
        self.acked: list[tuple[int, int, int]] = []
        """(epoch, first offset, end) of acknowledged runs, in the order of acknowledgement, merged."""
        self.acked_end = 0
        self.seen: dict[int, tuple[int, int]] = {}
        self.isr: tuple[int, ...] = ()
        self.version = -1

    # -- who leads -----------------------------------------------------------------------------------------

    def led(self, epoch: int, node: int, incarnation: int) -> bool:
        """A node acts as leader of `epoch`; True the first time. OneLeaderPerEpoch."""
        self.checks["OneLeaderPerEpoch"] += 1
        known = self.leaders.get(epoch)
        if known is None:
            self.leaders[epoch] = (node, incarnation)
            return True
        if known != (node, incarnation):
            raise Violation(
                "OneLeaderPerEpoch",
                f"partition {self.id}: epoch {epoch} was led by node {known[0]} in incarnation {known[1]}, "
                f"now node {node} in incarnation {incarnation} leads it",
            )
        return False

    def appended(self, node: int, epoch: int, base: int, count: int, crc: int) -> None:
        """A replica appends a batch: one content for each epoch and offset. OneLeaderPerEpoch."""
        self.checks["OneLeaderPerEpoch"] += 1
        content = (count, crc)
        known = self.contents.setdefault((epoch, base), content)
        if known != content:
            raise Violation(
                "OneLeaderPerEpoch",
                f"partition {self.id}: node {node} appends another batch at offset {base} of epoch {epoch} "
                f"than was written there before",
            )

    def elected(self, node: int, epoch: int, history: Sequence[EpochStart], leo: int) -> None:
        """A node begins to lead: it must have what was acknowledged and committed before. NoAckedRecordLost.

        Only earlier ones: a node that lags behind takes up leaderships that have long been succeeded, and
        what its successors committed it need not have.
        """
        self.checks["NoAckedRecordLost"] += 1
        for acked_epoch, first, end in self.acked:
            if acked_epoch < epoch and (
                leo < end
                or epoch_at(history, first) != acked_epoch
                or epoch_at(history, end - 1) != acked_epoch
            ):
                raise Violation(
                    "NoAckedRecordLost",
                    f"partition {self.id}: node {node} leads epoch {epoch} without the acknowledged offsets "
                    f"{first}..{end - 1} of epoch {acked_epoch}; its log is {describe(history, leo)}",
                )
        self.elected_with[epoch] = (list(history), leo)
        committed = max((hw for before, hw in self.committed_in.items() if before < epoch), default=0)
        self._complete(node, epoch, committed)

    def _complete(self, node: int, epoch: int, committed: int) -> None:
        """The leader of `epoch` began with everything that was committed, in earlier epochs, below
        `committed`.
        """
        self.checks["NoAckedRecordLost"] += 1
        history, leo = self.elected_with[epoch]
        if leo < committed or prefix_of(history, committed) != prefix_of(self.history, committed):
            raise Violation(
                "NoAckedRecordLost",
                f"partition {self.id}: node {node} leads epoch {epoch} from the log "
                f"{describe(history, leo)}, but "
                f"{describe(prefix_of(self.history, committed), committed)} was committed in earlier epochs",
            )

    # -- what is committed ---------------------------------------------------------------------------------

    def claimed(self, node: int, epoch: int, history: Sequence[EpochStart], hw: int, leo: int) -> bool:
        """A replica's HW has moved: it claims, in `epoch`, its log committed below `hw`. LogMatching.

        Returns whether the committed prefix grew.
        """
        self.checks["LogMatching"] += 1
        common = hw if hw < self.hw else self.hw
        if leo < hw or prefix_of(history, common) != prefix_of(self.history, common):
            raise Violation(
                "LogMatching",
                f"partition {self.id}: node {node} claims {describe(history, leo)} committed below {hw}, "
                f"but {describe(self.history, self.hw)} is",
            )
        if hw <= self.hw:
            return False
        self.hw = hw
        self.history = prefix_of(history, hw)
        self.committed_in[epoch] = hw
        for newer, (leader, _) in self.leaders.items():
            if newer > epoch:
                self._complete(leader, newer, hw)
        return True

    def on_isr_member(self, node: int, history: Sequence[EpochStart], durable_leo: int) -> None:
        """The durable log of a member of the committed ISR. CommittedOnISR."""
        self.checks["CommittedOnISR"] += 1
        if durable_leo < self.hw or prefix_of(history, self.hw) != self.history:
            raise Violation(
                "CommittedOnISR",
                f"partition {self.id}: node {node} is in the ISR {self.isr} with the durable log "
                f"{describe(prefix_of(history, durable_leo), durable_leo)}, "
                f"but {describe(self.history, self.hw)} is committed",
            )

    # -- what clients saw ----------------------------------------------------------------------------------

    def acknowledged(self, epoch: int, first: int, end: int) -> None:
        """A leader tells publishers that it stored ``first .. end - 1``. Bookkeeping for
        NoAckedRecordLost.
        """
        if self.acked and self.acked[-1][0] == epoch and self.acked[-1][2] == first:
            self.acked[-1] = (epoch, self.acked[-1][1], end)
        else:
            self.acked.append((epoch, first, end))
        if end > self.acked_end:
            self.acked_end = end

    def read(self, server: int, epoch: int, base: int, end: int, crc: int) -> None:
        """A reader received a batch. ConsistentRead."""
        self.checks["ConsistentRead"] += 1
        known = self.seen.setdefault(base, (epoch, crc))
        if known != (epoch, crc):
            raise Violation(
                "ConsistentRead",
                f"partition {self.id}: node {server} serves another batch at offset {base} (epoch {epoch}) "
                f"than a reader saw there before (epoch {known[0]})",
            )
        if end > self.hw or epoch_at(self.history, base) != epoch:
            raise Violation(
                "ConsistentRead",
                f"partition {self.id}: node {server} serves offsets {base}..{end - 1} of epoch {epoch}, "
                f"but {describe(self.history, self.hw)} is committed",
            )

    def read_position(self, server: int, hw: int, seen_hw: int) -> None:
        """A reader that has seen `seen_hw` got an answer with `hw`. ConsistentRead."""
        self.checks["ConsistentRead"] += 1
        if hw < seen_hw:
            raise Violation(
                "ConsistentRead",
                f"partition {self.id}: node {server} answers with HW {hw} to a reader "
                f"that has seen {seen_hw}",
            )

    def latest(self, server: int, latest: int, acked_before: int) -> None:
        """A client that asked for the latest offset got it. ConsistentRead."""
        self.checks["ConsistentRead"] += 1
        if latest + 1 < acked_before:
            raise Violation(
                "ConsistentRead",
                f"partition {self.id}: node {server} answers that {latest} is the latest offset, "
                f"but {acked_before - 1} had been acknowledged before the request",
            )


class RaftTruth:
    """The truth about the metadata group."""

    __slots__ = ("checks", "committed_in", "committed_terms", "elected_with", "entries", "leaders")

    def __init__(self, checks: Checks) -> None:
        self.checks = checks.counts
        self.leaders: dict[int, int] = {}
        self.entries: dict[tuple[int, int], tuple[int, bytes]] = {}
        self.committed_terms: list[int] = []
        self.committed_in: dict[int, int] = {}
        """The commit index that each term has reached."""
        self.elected_with: dict[int, list[int]] = {}
        """For each term that had a leader, the terms of the entries in that leader's log when it was
        elected.
        """

    def led(self, term: int, node: int) -> bool:
        """A node acts as Raft leader of `term`; True the first time. ElectionSafety."""
        self.checks["ElectionSafety"] += 1
        known = self.leaders.get(term)
        if known is None:
            self.leaders[term] = node
            return True
        if known != node:
            raise Violation(
                "ElectionSafety", f"term {term} was led by node {known}, now node {node} leads it"
            )
        return False

    def appended(self, node: int, log: Sequence[Entry], first: int) -> None:
        """A node appended the entries from index `first` on. RaftLogMatching.

        Equal (index, term) must mean equal data and an equal term before; by induction everything before is
        equal then.
        """
        for position in range(first - 1, len(log)):
            self.checks["RaftLogMatching"] += 1
            entry = log[position]
            found = (log[position - 1].term if position else 0, entry.data)
            known = self.entries.setdefault((entry.index, entry.term), found)
            if known != found or entry.index != position + 1:
                raise Violation(
                    "RaftLogMatching",
                    f"node {node} has entry {entry.index} of term {entry.term} after one of term {found[0]}; "
                    f"elsewhere it comes after term {known[0]} or differs",
                )

    def elected(self, node: int, term: int, log: Sequence[Entry]) -> None:
        """A node begins to lead: it must have every entry committed in earlier terms. LeaderCompleteness.

        Later ones may have been committed already, if this node learns late that it was elected.
        """
        self.elected_with[term] = [entry.term for entry in log]
        self._complete(
            node, term, max((i for before, i in self.committed_in.items() if before < term), default=0)
        )

    def _complete(self, node: int, term: int, index: int) -> None:
        """The leader of `term` had the committed entry `index`; by RaftLogMatching all before it then,
        too.
        """
        self.checks["LeaderCompleteness"] += 1
        if index == 0:
            return
        had = self.elected_with[term]
        committed_term = self.committed_terms[index - 1]
        if len(had) < index or had[index - 1] != committed_term:
            found = f"an entry of term {had[index - 1]}" if len(had) >= index else "nothing"
            raise Violation(
                "LeaderCompleteness",
                f"node {node} leads term {term}, elected with {found} at index {index}, "
                f"where an entry of term {committed_term} is committed",
            )

    def committed(self, node: int, term: int, log: Sequence[Entry], before: int, commit: int) -> None:
        """A node, in `term`, moved its commit index from `before` to `commit`. StateMachineSafety.

        What is committed only now, in an older term, the leaders of newer terms must have had when they were
        elected. LeaderCompleteness.
        """
        terms = self.committed_terms
        known = len(terms)
        for index in range(before + 1, commit + 1):
            self.checks["StateMachineSafety"] += 1
            if index > len(log):
                raise Violation(
                    "StateMachineSafety", f"node {node} commits index {index}, which it does not have"
                )
            entry_term = log[index - 1].term
            if index > len(terms):
                terms.append(entry_term)
            elif terms[index - 1] != entry_term:
                raise Violation(
                    "StateMachineSafety",
                    f"node {node} commits an entry of term {entry_term} at index {index}, "
                    f"where one of term {terms[index - 1]} is committed",
                )
        if commit > known:
            self.committed_in[term] = commit
            for newer, leader in self.leaders.items():
                if newer > term:
                    self._complete(leader, newer, commit)
