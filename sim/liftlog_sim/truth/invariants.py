"""What must always hold, each condition under its own name, checked against what *should* be so.

The simulator sees everything, so it can keep the truth that no node has: which records are committed, in
which order, who was told so, and what readers saw. That truth ("ghost state") is built only from what nodes
do: the first node that claims a record committed makes it so, and from then on every other claim must agree.

A log is compared by its *epoch history*: at which offset each epoch begins, and where the log ends. That is
enough, because `PartitionTruth.appended` verifies for each (epoch, offset) that only one record was ever
appended there; so two logs with equal histories up to an offset have equal content up to it. Comparing two
histories costs the length of the list of epochs, not of the log, and is done only when something changed.

    OneLeaderPerEpoch    an epoch is led by one incarnation of one node, and has one content (R1)
    LogMatching          logs agree below every HW that anybody claims (R2, R6, R8)
    CommittedOnISR       every member of the committed ISR, and whoever is eligible, has the committed prefix
                         durable (R2, R5, R7, R9, R10, R13)
    NoAckedRecordLost    whoever begins to lead has every record that was acknowledged or committed (R4, R16)
    ConsistentRead       what a reader saw at an offset stays so, and what it saw never goes backward (R3)
    NoSilentGap          a reader misses no offset but those that compaction may take (D2, C1)
    HeadersHeeded        a message that asks for what is not done here is neither acknowledged nor stored; an
                         ack has the keys that its message asked for (R4, L4)
    OneAnswer            one message is answered by one stream at most (N9)
    NothingHeldBack      a leader has committed whatever its maximal ISR has durably (R2)
    ReadyIsSubscribed    a leader that the group takes for ready has had its subscription in NATS (N1)
    TimeLookup           a lookup by time finds the first record at or after it that is left
    NoFalseDamage        damage is found where something was damaged only: nobody inflicts it on himself (D4)
    FencedInTime         no leader takes or answers later, by its own clock, than its lease after it sent the
                         last heartbeat that was answered (N2)
    SilentBeforeReplaced no session ends before the lease of the node that lives in it is over (N2)
    WholeSessions        no session ends before the session timeout, or, with a hint, the lease and its
                         margin, have passed since it began or was renewed (R15, N2)
    NoFailoverWithoutCause  short pauses, connections that break, and false hints move no office
    PromptFailover       soon after a kill others lead, without the dead one; both in quiet worlds only
    ReadsBounded         no more reads wait for a disk than its node's limits allow (L3)
    AtomicStateFiles     a start finds each state file whole: the old content or the new (D4)
    LogStartMonotone     a log start goes back by a reset only, and what was purged is never read again (C3)
    ReaderSawEveryLastValue  a reader that got from the front to the HW saw the last value of each key (C4)
    Subsequence, FoldPreserved, NoResurrection, CompactionHorizon, TombstoneSafe
                         what a copy may lack, see `truth/contents.py` (C1, C2)
    RetentionKeeps       what retention lets go is no more than its policy allows (C3)
    MetadataReads        what a client is told of streams was so at one moment since it asked (M1)
    CommandOnce          a metadata command takes effect at most once (M3)
    CommandAsMeant       what a client's command changes was there while its author waited (I1, M3), a spare
                         gets the vote of who is gone (M2); both are judged in `truth/authors.py`
    OnlyAsAltered        a stream's configuration is changed by an alteration only, in what that names (R19)
    LevelForAll          the feature level rises when every node can follow, see `watching/levels.py` (U2)
    TimePasses           nothing goes on for ever at one moment (L5); the kernel tells
    PausedTakesNothing   no leader of a stream that it has seen paused takes more than was on its way (N1)
    ReadOnlyRefused      no leader stores messages of a stream that it has seen made read-only (R19)
    ElectionSafety       a Raft term has one leader (M1)
    RaftLogMatching      Raft entries of equal index and term are equal, with everything before them (M1)
    LeaderCompleteness   a new Raft leader has every committed entry (M1)
    StateMachineSafety   no two nodes commit different entries at one index (M1)
    SnapshotOfCommitted  a snapshot ends with a committed entry, and no log begins behind its end (M1p)
    SnapshotState        who goes on from a snapshot has what the commands up to its end have made (M1p)
    CommittedSurvives    a recovery goes on with all committed commands, if a disk that is left has them (M5)
    OldMemberKept        a disk that a recovery left out takes part in nothing, and keeps what it holds (M5)
    Refinement           every step of a replica is a step of the model (liftlog_spec/refine), if so run
    SlowKeepsMinimum, ProbationServed
                         who is slow does not come and go, see `watching/paces.py` (R17, R18)
    SickIsAlone          one sick node is not everybody's latency, see `runs/sickness.py` (R17, R18)
    HonestHeard          what a working peer sends is not refused (V1 to V4)
    NoInputEndsNode      what a stranger or a broken peer sends ends no node, now or at its next start (V5)
    NodeInvariant        no node finds a condition of its own violated
    NodeError            no node raises anything else

and, once everything has been healed: Convergence (every partition led, writable, with all its replicas in
sync), DamageRepaired (nothing that was damaged is left) and ReplicasEqual (the same bytes on each, or, where
replicas compact on their own, the same values).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from liftlog.core.metadata.records import PartitionState
from liftlog.core.replica.role_state import LeaderState
from liftlog.core.replica.state import LogState
from liftlog.format import decode_records
from liftlog.types import Batch, CompactionPolicy, EpochStart, PartitionId, Record
from liftlog_sim.devices.copies import DiskCopy
from liftlog_sim.truth.contents import Contents, ContentsFinding, fold
from liftlog_sim.truth.leaders_log import LeadersLog

STEP_INVARIANTS = (
    "OneLeaderPerEpoch",
    "LogMatching",
    "CommittedOnISR",
    "NoAckedRecordLost",
    "ConsistentRead",
    "NoSilentGap",
    "HeadersHeeded",
    "OneAnswer",
    "NothingHeldBack",
    "ReadyIsSubscribed",
    "TimeLookup",
    "LogStartMonotone",
    "NoFalseDamage",
    "AtomicStateFiles",
    "FencedInTime",
    "SilentBeforeReplaced",
    "WholeSessions",
    "NoFailoverWithoutCause",
    "PromptFailover",
    "ReadsBounded",
    "CommandOnce",
    "CommandAsMeant",
    "OnlyAsAltered",
    "LevelForAll",
    "TimePasses",
    "PausedTakesNothing",
    "ReadOnlyRefused",
    "ElectionSafety",
    "RaftLogMatching",
    "LeaderCompleteness",
    "StateMachineSafety",
    "MetadataReads",
    "RetentionKeeps",
    "Refinement",
    "SlowKeepsMinimum",
    "ProbationServed",
    "HonestHeard",
    "NoInputEndsNode",
)
COMPACTION_INVARIANTS = (
    "ReaderSawEveryLastValue",
    "Subsequence",
    "FoldPreserved",
    "NoResurrection",
    "CompactionHorizon",
    "TombstoneSafe",
)
"""Checked where streams are compacted only."""
FINAL_INVARIANTS = ("Convergence", "DamageRepaired", "ReplicasEqual")
SNAPSHOT_INVARIANTS = ("SnapshotOfCommitted", "SnapshotState")
"""Checked where the metadata group takes snapshots."""
RECOVERY_INVARIANTS = ("CommittedSurvives", "OldMemberKept")
"""Checked where clusters are recovered from a total loss."""
SICK_INVARIANTS = ("SickIsAlone",)
"""Checked where nothing happens but that one node is sick."""
OWN_CHECKS = ("NodeInvariant", "NodeError")


CRC_FIELD = slice(16, 20)
"""Where a batch's checksum lies (liftlog/format.py): it stands for the content."""


def crc_of(frame: bytes) -> int:
    return int.from_bytes(frame[CRC_FIELD], "little")


class Violation(Exception):
    """An invariant does not hold. `invariant` is its name, the text says what was found. `at_us`: when, in
    simulated time, if that was before now."""

    def __init__(self, invariant: str, finding: str, at_us: int | None = None) -> None:
        super().__init__(f"{invariant}: {finding}")
        self.invariant = invariant
        self.finding = finding
        self.at_us = at_us


def epoch_at(history: Sequence[EpochStart], offset: int) -> int:
    """The epoch of the record at `offset`, by an epoch history; 0 if the history begins later."""
    position = bisect_right(history, offset, key=_start) - 1
    return history[position].epoch if position >= 0 else 0


def _start(entry: EpochStart) -> int:
    return entry.start


def prefix_of(history: Sequence[EpochStart], end: int) -> list[EpochStart]:
    """The part of a history that speaks of offsets below `end`."""
    return list(history[: bisect_right(history, end - 1, key=_start)])


def agree(one: Sequence[EpochStart], other: Sequence[EpochStart], start: int, end: int) -> bool:
    """Whether two histories say the same of offsets [start, end); earlier ones may be forgotten."""
    if start >= end:
        return True
    if start <= 0:
        return prefix_of(one, end) == prefix_of(other, end)
    if epoch_at(one, start) != epoch_at(other, start):
        return False
    return [e for e in prefix_of(one, end) if e.start > start] == [
        e for e in prefix_of(other, end) if e.start > start
    ]


def describe(history: Sequence[EpochStart], end: int) -> str:
    """A history in one line: ``[1@0 3@17 .. 25]`` is epoch 1 from 0, epoch 3 from 17, end 25."""
    return "[" + " ".join(f"{entry.epoch}@{entry.start}" for entry in history) + f" .. {end}]"


class Checks:
    """How often each invariant was evaluated: a condition that was never looked at proves nothing."""

    __slots__ = ("counts",)

    def __init__(self) -> None:
        self.counts = dict.fromkeys(
            (
                *STEP_INVARIANTS,
                *COMPACTION_INVARIANTS,
                *SNAPSHOT_INVARIANTS,
                *RECOVERY_INVARIANTS,
                *SICK_INVARIANTS,
                *FINAL_INVARIANTS,
                *OWN_CHECKS,
            ),
            0,
        )


class PartitionTruth:
    """The truth about one partition. `hw` and `history`: the committed prefix; it only ever grows."""

    __slots__ = (
        "acked",
        "acked_end",
        "checks",
        "committed_in",
        "contents",
        "elected_with",
        "eligible",
        "history",
        "hw",
        "id",
        "isr",
        "latest_seen",
        "leaders",
        "purge_asked",
        "purged",
        "purged_in",
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
        self.elected_with: dict[int, LeadersLog] = {}
        """What the leader of each epoch began with."""
        self.contents = Contents()
        self.acked: list[tuple[int, int, int]] = []
        """(epoch, first offset, end) of acknowledged runs, in the order of acknowledgement, merged."""
        self.acked_end = 0
        self.seen: dict[int, tuple[int, int]] = {}
        """(epoch, checksum) of batches that a reader saw and that were found right, by their base offset."""
        self.latest_seen = -1
        """The greatest latest offset that a client was told."""
        self.purged = 0
        """Everything below is gone for ever: a purge of it was answered."""
        self.purged_in: dict[int, int] = {}
        """The same, by the greatest epoch that had been led by then."""
        self.purge_asked = 0
        """Greatest offset that anybody asked to purge up to."""
        self.isr: tuple[int, ...] = ()
        self.eligible: tuple[int, ...] = ()
        self.version = -1

    @property
    def candidates(self) -> tuple[int, ...]:
        """Whom the group may elect without an operator's word (R16)."""
        return (*self.isr, *self.eligible)

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

    def appended(self, node: int, batch: Batch) -> None:
        """A replica appends a batch: one content for each epoch and offset. OneLeaderPerEpoch."""
        self.checks["OneLeaderPerEpoch"] += 1
        epoch, base, count = batch.epoch, batch.base_offset, batch.count
        crc = crc_of(batch.data)
        if self.contents.is_known(epoch, base, count, crc):
            return
        offset = self.contents.appended(epoch, base, count, crc, decode_records(batch))
        if offset >= 0:
            raise Violation(
                "OneLeaderPerEpoch",
                f"partition {self.id}: node {node} appends another record at offset {offset} "
                f"of epoch {epoch} than was written there before",
            )

    def elected(
        self, node: int, epoch: int, history: Sequence[EpochStart], leo: int, start: int = 0, known: int = 0
    ) -> None:
        """A node begins to lead: it must have what was acknowledged and committed before. NoAckedRecordLost.

        Only earlier ones: a node that lags behind takes up leaderships that have long been succeeded, and
        need not know what its successors committed or purged. Below `known` it knows that it is damaged.
        """
        self.checks["NoAckedRecordLost"] += 1
        purged = max((before for done, before in self.purged_in.items() if done < epoch), default=0)
        if start < purged:
            raise Violation(
                "LogStartMonotone",
                f"partition {self.id}: node {node} leads epoch {epoch} from {start}; {purged} were purged",
            )
        start = max(start, known)
        for acked_epoch, first, end in self.acked:
            first = max(first, start)
            if first >= end or acked_epoch >= epoch:
                continue
            if (
                leo < end
                or epoch_at(history, first) != acked_epoch
                or epoch_at(history, end - 1) != acked_epoch
            ):
                raise Violation(
                    "NoAckedRecordLost",
                    f"partition {self.id}: node {node} leads epoch {epoch} without the acknowledged offsets "
                    f"{first}..{end - 1} of epoch {acked_epoch}; its log is {describe(history, leo)}",
                )
        self.elected_with[epoch] = LeadersLog.of(history, self.history, start, leo)
        committed = max((hw for before, hw in self.committed_in.items() if before < epoch), default=0)
        self._complete(node, epoch, committed)

    def _complete(self, node: int, epoch: int, committed: int) -> None:
        """The leader of `epoch` began with everything that was committed, in earlier epochs, below
        `committed`.
        """
        self.checks["NoAckedRecordLost"] += 1
        log = self.elected_with[epoch]
        history, start, leo = log.history(self.history), log.start, log.leo
        if leo < committed or not agree(history, self.history, start, committed):
            raise Violation(
                "NoAckedRecordLost",
                f"partition {self.id}: node {node} leads epoch {epoch} from the log "
                f"{describe(history, leo)}, but "
                f"{describe(prefix_of(self.history, committed), committed)} was committed in earlier epochs",
            )

    # -- what is committed ---------------------------------------------------------------------------------

    def claimed(
        self, node: int, epoch: int, history: Sequence[EpochStart], hw: int, leo: int, start: int = 0
    ) -> bool:
        """A replica's HW has moved: it claims, in `epoch`, its log committed below `hw`. LogMatching.

        Returns whether the committed prefix grew.
        """
        self.checks["LogMatching"] += 1
        common = hw if hw < self.hw else self.hw
        if leo < hw or not agree(history, self.history, start, common):
            raise Violation(
                "LogMatching",
                f"partition {self.id}: node {node} claims {describe(history, leo)} committed below {hw}, "
                f"but {describe(self.history, self.hw)} is",
            )
        if hw <= self.hw:
            return False
        last = self.history[-1].epoch if self.history else 0
        # Behind damage an epoch may seem to begin again (D2).
        self.history += [one for one in prefix_of(history, hw) if one.start >= self.hw and one.epoch > last]
        self.hw = hw
        self.contents.commit(self.history, hw)
        self.committed_in[epoch] = hw
        for newer, (leader, _) in self.leaders.items():
            if newer > epoch:
                self._complete(leader, newer, hw)
        return True

    def on_isr_member(
        self, node: int, history: Sequence[EpochStart], durable_leo: int, start: int = 0
    ) -> None:
        """The durable log of a member of the committed ISR, or of one that is eligible. CommittedOnISR."""
        self.checks["CommittedOnISR"] += 1
        if durable_leo < self.hw or not agree(history, self.history, start, self.hw):
            outside = node in self.eligible
            place = f"is eligible beside the ISR {self.isr}" if outside else f"is in the ISR {self.isr}"
            raise Violation(
                "CommittedOnISR",
                f"partition {self.id}: node {node} {place} with the durable log "
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

    def acked_in_the_end(self) -> None:
        """Everybody is well again: what was ever acknowledged is committed, in the epoch of its ack, also
        where the log has lost its front since. NoAckedRecordLost.
        """
        self.checks["NoAckedRecordLost"] += 1
        for epoch, first, end in self.acked:
            for offset in (first, end - 1):
                found = epoch_at(self.history, offset) if offset < self.hw else 0
                if found != epoch:
                    raise Violation(
                        "NoAckedRecordLost",
                        f"partition {self.id}: offset {offset} was acknowledged in epoch {epoch}, "
                        f"in the end {describe(self.history, self.hw)} is committed",
                    )

    def read(self, server: int, batch: Batch, compact: bool) -> None:
        """A reader received a batch. ConsistentRead, NoSilentGap."""
        self.checks["ConsistentRead"] += 1
        self.checks["NoSilentGap"] += 1
        epoch, base, end = batch.epoch, batch.base_offset, batch.end_offset
        crc = crc_of(batch.data)
        if self.seen.get(base) == (epoch, crc):
            return
        if end > self.hw or epoch_at(self.history, base) != epoch or epoch_at(self.history, end - 1) != epoch:
            raise Violation(
                "ConsistentRead",
                f"partition {self.id}: node {server} serves offsets {base}..{end - 1} of epoch {epoch}, "
                f"but {describe(self.history, self.hw)} is committed",
            )
        self.read_records(server, base, end, decode_records(batch), compact)
        self.seen[base] = (epoch, crc)

    def read_records(
        self, server: int, base: int, end: int, records: Sequence[Record], compact: bool
    ) -> None:
        """A reader received these records of offsets [base, end). ConsistentRead, NoSilentGap."""
        committed = self.contents.committed
        found = {record.offset: record for record in records}
        for offset in range(base, end):
            record = found.get(offset)
            if record is not None and record != committed[offset]:
                raise Violation(
                    "ConsistentRead",
                    f"partition {self.id}: node {server} serves another record at offset {offset} "
                    f"than the committed one",
                )
            if record is None and not (compact and self.contents.may_be_missing(offset)):
                raise Violation(
                    "NoSilentGap",
                    f"partition {self.id}: node {server} serves offsets {base}..{end - 1} without {offset}, "
                    f"which compaction may not take",
                )

    def skipped(self, server: int, first: int, end: int) -> None:
        """An answer leaves out offsets altogether. NoSilentGap."""
        raise Violation("NoSilentGap", f"partition {self.id}: node {server} skips offsets {first}..{end - 1}")

    def read_below_purge(self, server: int, first: int, purged: int) -> None:
        """An answer to a request made when everything below `purged` was gone begins at `first`."""
        self.checks["LogStartMonotone"] += 1
        if first < purged:
            raise Violation(
                "LogStartMonotone",
                f"partition {self.id}: node {server} serves offset {first}, "
                f"but everything below {purged} was purged before it was asked",
            )

    def log_start_moved(self, node: int, start: int, before: int, most: int) -> None:
        """A replica's durable log start is `start`; it was `before` and may be `most`. LogStartMonotone."""
        self.checks["LogStartMonotone"] += 1
        if start > most:
            raise Violation(
                "LogStartMonotone",
                f"partition {self.id}: the log of node {node} begins at {start}, "
                f"but nothing at or above {most} may go",
            )
        if start < before:
            raise Violation(
                "LogStartMonotone",
                f"partition {self.id}: the log of node {node} began at {before}, now it begins at {start}",
            )

    def purge_done(self, before: int, starts: dict[int, int]) -> None:
        """A purge was answered; `starts`: the log starts of the running members of the ISR."""
        self.checks["LogStartMonotone"] += 1
        self.purged = max(self.purged, before)
        self.purged_in[max(self.leaders, default=0)] = self.purged
        for node, start in starts.items():
            if start < before:
                raise Violation(
                    "LogStartMonotone",
                    f"partition {self.id}: everything below {before} is purged, it was answered, "
                    f"but the log of node {node}, in the ISR, begins at {start}",
                )

    def found_time(self, timestamp_ms: int, offset: int, start: int, sure_below: int, compact: bool) -> None:
        """A lookup by time was answered by a copy from `start` on whose HW was at least `sure_below`.

        TimeLookup.
        """
        self.checks["TimeLookup"] += 1
        committed = self.contents.committed
        for earlier in range(start, min(offset, len(committed))):
            record = committed[earlier]
            kept = not (compact and self.contents.may_be_missing(earlier))
            if record is not None and kept and record.timestamp_ms >= timestamp_ms:
                raise Violation(
                    "TimeLookup",
                    f"partition {self.id}: offset {offset} was found for time {timestamp_ms}, "
                    f"but offset {earlier} has time {record.timestamp_ms}",
                )
        record = committed[offset] if offset < sure_below else None
        if record is not None and record.timestamp_ms < timestamp_ms:
            raise Violation(
                "TimeLookup",
                f"partition {self.id}: offset {offset} was found for time {timestamp_ms}, "
                f"but it has time {record.timestamp_ms}",
            )

    def saw_all(self, start: int, end: int, found: dict[bytes, Record]) -> None:
        """A reader got from `start` to `end`: its last record of each key. ReaderSawEveryLastValue."""
        self.checks["ReaderSawEveryLastValue"] += 1
        finding = self.contents.judge_fold(start, end, found)
        if finding is not None:
            raise Violation(
                "ReaderSawEveryLastValue",
                f"partition {self.id}: a reader got from {start} to {end}: {finding.text}",
            )

    # -- what copies hold ----------------------------------------------------------------------------------

    def copy_seen(
        self,
        node: int,
        copy: DiskCopy,
        offsets: tuple[int, int],
        clean_point: int,
        now_ms: int,
        policy: CompactionPolicy,
    ) -> None:
        """What a replica holds of a compacted stream between its log start and its HW was looked at.

        See `truth/contents.py`.
        """
        start, end = offsets[0], min(self.hw, offsets[1])
        contents = self.contents
        judgements: tuple[Callable[[], ContentsFinding | None], ...] = (
            lambda: contents.judge_records((start, end), copy, compact=True),
            lambda: contents.judge_fold(start, end, fold(copy.in_order(), start, end)),
            lambda: contents.judge_horizon(start, clean_point, copy),
            lambda: contents.judge_tombstones(start, end, copy, now_ms, policy.tombstone_retention_ms),
        )
        for name in COMPACTION_INVARIANTS[1:]:
            self.checks[name] += 1
        for judge in judgements:
            finding = judge()
            if finding is not None:
                text = f"partition {self.id}, copy of node {node}: {finding.text}"
                raise Violation(finding.invariant, text)

    def read_position(self, server: int, hw: int, seen_hw: int) -> None:
        """A reader that has seen `seen_hw` got an answer with `hw`. ConsistentRead."""
        self.checks["ConsistentRead"] += 1
        if hw < seen_hw:
            raise Violation(
                "ConsistentRead",
                f"partition {self.id}: node {server} answers with HW {hw} to a reader "
                f"that has seen {seen_hw}",
            )

    def latest(self, server: int, latest: int, acked_before: int, seen_before: int) -> None:
        """A client that asked for the latest offset got it. `acked_before`, `seen_before`: what had been
        acknowledged and told when it asked. ConsistentRead.
        """
        self.checks["ConsistentRead"] += 1
        # Of a log that retention has emptied it is where the next record will be, which no record has: the
        # next leader, whose log may begin before that, tells a smaller one.
        self.latest_seen = max(self.latest_seen, min(latest, self.hw - 1))
        if latest < seen_before or latest > max(self.hw, self.purge_asked):
            raise Violation(
                "ConsistentRead",
                f"partition {self.id}: node {server} answers that {latest} is the latest offset; "
                f"{seen_before} was told to somebody before the request, and {self.hw} records are committed",
            )
        if latest + 1 < acked_before:
            raise Violation(
                "ConsistentRead",
                f"partition {self.id}: node {server} answers that {latest} is the latest offset, "
                f"but {acked_before - 1} had been acknowledged before the request",
            )


def never_subscribed(state: PartitionState) -> Violation:
    """The group takes a leader for ready whose subscription NATS never had. ReadyIsSubscribed."""
    return Violation(
        "ReadyIsSubscribed",
        f"the group takes node {state.leader} for ready to lead partition {state.id} in epoch {state.epoch}, "
        "but NATS never had its subscription",
    )


def nothing_held_back(node: int, log: LogState, leading: LeaderState) -> None:
    """After each step a leader has committed all that it may, by what it knows itself; else what is stored
    everywhere waits for the next message, perhaps for ever. NothingHeldBack. Raises Violation.
    """
    record = leading.record
    if len(record.isr) < record.min_insync:
        return
    everywhere = leading.least_durable(leading.maximal_isr(), log.durable_leo)
    if everywhere > log.hw:
        raise Violation(
            "NothingHeldBack",
            f"node {node} leads partition {log.id} in epoch {leading.epoch} with the HW {log.hw}, although "
            f"the ISR {list(leading.maximal_isr())} has everything below {everywhere} durably",
        )
