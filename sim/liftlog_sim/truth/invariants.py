"""What must always hold, each condition under its own name, checked against what *should* be so.

The simulator sees everything, so it can keep the truth that no node has: which records are committed, in
which order, who was told so, and what readers saw. That truth ("ghost state") is built only from what nodes
do: the first node that claims a record committed makes it so, and from then on every other claim must agree.

A log is compared by its *epoch history*: at which offset each epoch begins, and where the log ends. That is
enough, because `PartitionTruth.appended` verifies for each (epoch, offset) that only one record was ever
appended there; so two logs with equal histories up to an offset have equal content up to it. Comparing two
histories costs the length of the list of epochs, not of the log, and is done only when something changed.

Which there are, and what each says: `names.py`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence

from liftlog.core.metadata.records import PartitionState
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.format import CorruptBatch, decode_records
from liftlog.messages import AckPublishes
from liftlog.types import Batch, CompactionPolicy, EpochStart, PartitionId, Record
from liftlog_sim.devices.copies import DiskCopy
from liftlog_sim.truth.contents import Contents, ContentsFinding, fold
from liftlog_sim.truth.leader_acks import LeaderAcks
from liftlog_sim.truth.leaders_log import LeadersLog
from liftlog_sim.truth.message_ids import StoredIds
from liftlog_sim.truth.names import (
    COMPACTION_INVARIANTS,
    FINAL_INVARIANTS,
    GROUP_INVARIANTS,
    OWN_CHECKS,
    RECOVERY_INVARIANTS,
    SICK_INVARIANTS,
    SNAPSHOT_INVARIANTS,
    STEP_INVARIANTS,
)
from liftlog_sim.truth.processors import StoredCursors
from liftlog_sim.truth.producers import StoredNumbers

CRC_START, CRC_END = 16, 20
"""Where a batch's checksum lies (liftlog/format.py): it stands for the content."""


def crc_of(frame: bytes) -> int:
    return int.from_bytes(frame[CRC_START:CRC_END], "little")


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
                *GROUP_INVARIANTS,
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
        "first",
        "history",
        "hw",
        "id",
        "ids",
        "isr",
        "latest_seen",
        "leader_acks",
        "leaders",
        "numbers",
        "processors",
        "purge_asked",
        "purged",
        "purged_in",
        "repeated",
        "seen",
        "version",
    )

    def __init__(self, partition: PartitionId, checks: Checks) -> None:
        self.id = partition
        self.checks = checks.counts
        self.first = 0
        """C7: where every copy begins; what lies below never was."""
        self.hw = 0
        self.history: list[EpochStart] = []
        self.committed_in: dict[int, int] = {}
        """Where the committed prefix ended when each epoch last extended it."""
        self.leaders: dict[int, tuple[int, int]] = {}
        self.elected_with: dict[int, LeadersLog] = {}
        """What the leader of each epoch began with."""
        self.contents = Contents()
        self.ids = StoredIds()
        self.numbers = StoredNumbers()
        self.processors = StoredCursors()
        self.acked: list[tuple[int, int, int]] = []
        """(epoch, first offset, end) of acknowledged runs, in the order of acknowledgement, merged."""
        self.repeated: list[tuple[int, int, int]] = []
        """L7: (epoch, epoch of the record, its offset) of what was said in an epoch to be there already."""
        self.acked_end = 0
        self.leader_acks = LeaderAcks()
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

    def begins_at(self, first: int) -> None:
        """C7: nothing is known yet. What lies below counts as purged before anybody led."""
        self.first = self.hw = self.purge_asked = self.purged = self.purged_in[0] = first
        self.contents.begins_at(first)

    def begun(self, node: int, start: int) -> None:
        """A copy that is somebody begins at `start`. LogStartMonotone."""
        self.checks["LogStartMonotone"] += 1
        if start < self.first:
            text = f"the log of node {node} begins at {start}, and the first offset is {self.first}"
            raise Violation("LogStartMonotone", f"partition {self.id}: {text}")

    @property
    def candidates(self) -> tuple[int, ...]:
        """Whom the group may elect without an operator's word (R16)."""
        return (*self.isr, *self.eligible)

    # -- who leads -----------------------------------------------------------------------------------------

    @property
    def newest_leader(self) -> int:
        """The node that leads in the newest epoch; 0: nobody ever did. One that was paused may have begun to
        lead in an older epoch later.
        """
        return self.leaders[max(self.leaders)][0] if self.leaders else 0

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
        """A replica appends a batch: one content for each epoch and offset. OneLeaderPerEpoch.

        One that nobody can read again is what only a parcel that was believed makes (L8). ParcelWhole.
        """
        self.checks["OneLeaderPerEpoch"] += 1
        epoch, base, count = batch.epoch, batch.base_offset, batch.count
        crc = crc_of(batch.data)
        if self.contents.is_known(epoch, base, count, crc):
            return
        try:
            records = decode_records(batch)
        except CorruptBatch as error:
            text = f"node {node} appends a batch at {base} that cannot be read: {error}"
            raise Violation("ParcelWhole", f"partition {self.id}: {text}") from None
        offset = self.contents.appended(epoch, base, count, crc, records)
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
        before = [row for told_in, *row in self.repeated if told_in < epoch]
        repeated = [(written_in, offset, offset + 1) for written_in, offset in before]
        for acked_epoch, first, end in [*self.acked, *repeated]:
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
        known, self.hw = self.hw, hw
        self.contents.commit(self.history, hw)
        if self.ids.window_ms:
            self._ids_committed(known)
        self.committed_in[epoch] = hw
        for newer, (leader, _) in self.leaders.items():
            if newer > epoch:
                self._complete(leader, newer, hw)
        return True

    def _ids_committed(self, known: int) -> None:
        """What is committed from `known` on was not before. StoredOnce, TimesInOrder, ProducedOnce,
        ProducedInOrder, RunsFenced, OutputsOnce.
        """
        for offset in range(known, self.hw):
            record = self.contents.committed[offset]
            if record is None:
                continue
            self.checks["StoredOnce"] += 1
            self.checks["TimesInOrder"] += 1
            for name in ("ProducedOnce", "ProducedInOrder", "RunsFenced", "OutputsOnce"):
                self.checks[name] += 1
            finding = self.ids.committed(offset, record)
            finding = finding or self.numbers.committed(offset, record, self.ids.window_ms)
            finding = finding or self.processors.committed(offset, record, self.ids.window_ms)
            if finding is not None:
                raise Violation(finding.invariant, f"partition {self.id}: {finding.text}")

    def on_isr_member(
        self, node: int, history: Sequence[EpochStart], durable_leo: int, start: int = 0
    ) -> None:
        """The durable log of a member of the committed ISR, or of one that is eligible. CommittedOnISR."""
        self.checks["CommittedOnISR"] += 1
        durable_leo, start = max(durable_leo, self.first), max(start, self.first)
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

    def told(
        self, node: int, acks: AckPublishes, durable_leo: int, history: Sequence[EpochStart] = ()
    ) -> None:
        """A leader with this log, which is durable up to there, answers publishers. LeaderAckDurable, if they
        want its word and no more (R4).
        """
        first = acks.offsets_from
        # What was there already may be of an earlier epoch (L7).
        epoch = epoch_at(history, first) if acks.duplicate else acks.epoch
        if not acks.by_leader:
            if acks.duplicate:
                self.repeated.append((acks.epoch, epoch, first))
            else:
                self.acknowledged(epoch, first, acks.end)
            return
        self.checks["LeaderAckDurable"] += 1
        problem = self.leader_acks.given(acks, epoch, durable_leo)
        if problem:
            raise Violation("LeaderAckDurable", f"partition {self.id}: node {node} {problem}")

    def acknowledged(self, epoch: int, first: int, end: int) -> None:
        """``first .. end - 1`` are told to be committed. Bookkeeping for NoAckedRecordLost."""
        if self.acked and self.acked[-1][0] == epoch and self.acked[-1][2] == first:
            self.acked[-1] = (epoch, self.acked[-1][1], end)
        else:
            self.acked.append((epoch, first, end))
        if end > self.acked_end:
            self.acked_end = end

    def acked_in_the_end(self) -> int:
        """Everybody is well again: what was ever acknowledged is committed, in the epoch of its ack, also
        where the log has lost its front since. NoAckedRecordLost. Returns how many records are gone that had
        a leader's word and no more. LeaderAckDurable.
        """
        lost, problem = self.leader_acks.lost(self.history, self.hw, self.elected_with, epoch_at)
        if problem:
            raise Violation("LeaderAckDurable", f"partition {self.id}: {problem}")
        self.checks["NoAckedRecordLost"] += 1
        repeated = [(epoch, offset, offset + 1) for _, epoch, offset in self.repeated]
        for epoch, first, end in [*self.acked, *repeated]:
            for offset in (first, end - 1):
                found = epoch_at(self.history, offset) if offset < self.hw else 0
                if found != epoch:
                    raise Violation(
                        "NoAckedRecordLost",
                        f"partition {self.id}: offset {offset} was acknowledged in epoch {epoch}, "
                        f"in the end {describe(self.history, self.hw)} is committed",
                    )
        return lost

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

    def read_position(self, server: int, epoch: int, hw: int, seen_epoch: int, seen_hw: int) -> None:
        """A reader that has seen such an epoch and HW got an answer of these. ConsistentRead."""
        self.checks["ConsistentRead"] += 1
        if epoch < seen_epoch:
            raise Violation(
                "ConsistentRead",
                f"partition {self.id}: node {server} answers out of epoch {epoch} to a reader "
                f"that has seen {seen_epoch}",
            )
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
