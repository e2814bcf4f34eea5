"""The truth about deleted messages: what the committed journal of a partition names (ADR 0062).

    SameVisible          what a copy hides, having heeded its journal up to an offset, is exactly what the
                         committed entries below that offset name
    DeletedStaysDeleted  no answer holds a message that an entry names which the asker had seen, or been told
                         of, or which the answer says to be heeded; every message that is missing is named by
                         a committed entry
    NothingElseGone, PurgeTakesAll    see `truth/asked.py`
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.core.consumers.entries import is_consumers
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.replica.removal.entries import (
    Named,
    Outlived,
    RemovedRuns,
    Restated,
    RolledUp,
    decode_entry,
)
from liftlog.core.replica.replica import Replica
from liftlog.format import decode_records
from liftlog.messages import PurgeSubjectsRequest, SubjectsPurged
from liftlog.options.headers import ALL_BEFORE, rolled_up_by
from liftlog.types import NUMBER_MAX, Batch, PartitionId, StreamConfig
from liftlog_sim.truth.asked import AskedDeletions, left_of, newer_of_subject, over_at, was_rolled_up
from liftlog_sim.truth.fronts import FrontLeast, front_of, over_front, size_from
from liftlog_sim.truth.interest import WantedMessages
from liftlog_sim.truth.invariants import PartitionTruth, Violation, epoch_at
from liftlog_sim.truth.marked import check_due, check_left, stored_by_leader
from liftlog_sim.truth.metadata import MetadataTruth
from liftlog_sim.truth.queues import DoneWith
from liftlog_sim.truth.restatements import Restatements


def logs_of(metadata: Metadata, partition: PartitionId) -> tuple[PartitionId, ...]:
    """The data, and the journal if there is one."""
    paired = metadata.by_id[partition.stream].config.has_journal
    return (partition, partition.journal) if paired else (partition,)


class DeletionTruth:
    """Of one partition. `data`, `journal`: the truth about these logs. `asked`: what clients wanted to go.
    `starts`: where that copy begins now which begins last. `limits`: what streams were to keep, when that
    was least (R22, R25), which are work queues (R26), and which ever went by interest (R27).
    """

    __slots__ = (
        *("_furthest", "_judged", "_limits", "_named", "_promised", "_starts", "_taken"),
        *("asked", "data", "done_with", "journal", "restated", "restatements", "told", "wanted"),
    )

    def __init__(
        self,
        data: PartitionTruth,
        journal: PartitionTruth,
        limits: MetadataTruth | None = None,
        starts: Callable[[], int] = lambda: 0,
    ) -> None:
        self.data = data
        self.journal = journal
        self._starts = starts
        self._furthest = 0
        """Where any copy was ever seen to begin."""
        self._limits = limits if limits is not None else MetadataTruth()
        self.done_with = DoneWith(data)
        self.wanted = WantedMessages(data)
        self.asked = AskedDeletions()
        self.restatements = Restatements()
        self.restated = 0
        """C3: from where on a committed restatement says all again: no copy's journal begins later."""
        self.told = 0
        """The greatest journal offset that somebody was told with a deletion."""
        self._named: dict[Named, int] = {}
        """Of each record that is named: by the entry below which offset first."""
        self._promised: dict[Named, int] = {}
        """R28: the same of what a mirror's leaders have said to be empty before anything of it was committed:
        nothing may have come of it, as that leader went."""
        self._taken = 0
        self._judged: dict[tuple[int, int], tuple[int, int]] = {}

    def named(self) -> dict[Named, int]:
        """By what is committed so far."""
        committed = self.journal.contents.committed
        if self._taken < len(committed):
            self._furthest = max(self._furthest, self._starts())
        for offset in range(self._taken, len(committed)):
            record = committed[offset]
            self._taken = offset + 1
            data = record.value or b"" if record is not None else b""
            if record is None:
                continue
            if is_consumers(data):
                self.done_with.take(data, offset + 1)
                self.wanted.take(offset, data)
                self.restatements.of_consumer(offset, data)
                continue
            entry = decode_entry(data)
            if isinstance(entry, RemovedRuns):
                self._take(entry, offset + 1, record.timestamp_ms)
            elif isinstance(entry, RolledUp):
                self.restatements.come_to(offset, entry)
                self._rolled_up(entry, offset + 1)
            elif isinstance(entry, Outlived):
                self.restatements.come_to(offset, entry)
                self._outlived(entry, offset + 1)
            elif isinstance(entry, Restated):
                self._restated(offset, entry)
        return self._named

    def _restated(self, offset: int, entry: Restated) -> None:
        """An entry is committed that says all again. RestatedForNews."""
        self.restated = max(self.restated, entry.begin)
        self.journal.checks["RestatedForNews"] += 1
        epoch = epoch_at(self.journal.history, offset)
        if problem := self.restatements.restated(epoch, entry.begin):
            raise Violation("RestatedForNews", f"the journal of partition {self.data.id} {problem}")

    def grown(self, before: int) -> None:
        """More of the data is committed than what lies below offset `before`. HoldsNoMore, MarkerDue."""
        stream = self.data.id.stream
        if self.of_mirror:
            self._keep_promises(before)
        if most := self._limits.subject_room.get(stream, 0):
            self._furthest = max(self._furthest, self._starts())
            self.data.checks["HoldsNoMore"] += 1
            if problem := self.over_limit(most, self._furthest):
                raise Violation("HoldsNoMore", f"{problem}, and to refuse more")
        if (room := self._limits.byte_room.get(stream, NUMBER_MAX)) < NUMBER_MAX:
            self._furthest = max(self._furthest, self._starts())
            self.data.checks["HoldsNoMore"] += 1
            if problem := self._over_full(room, self._furthest):
                raise Violation("HoldsNoMore", problem)
        for record in self.data.contents.committed[before:] if stream in self._limits.marking else ():
            if record is not None and stored_by_leader(record):
                age_ms = self._limits.front_limits.get(stream, FrontLeast()).age_ms
                gone = self._gone()
                self._furthest = max(self._furthest, self._starts())
                check_due(self.data, record, gone.union(range(self._furthest)), age_ms)

    def _gone(self) -> set[int]:
        """The offsets that are named."""
        return {offset for offset, _ in self.named()}

    @property
    def of_mirror(self) -> bool:
        """R28: whether this is a mirror's, or was."""
        return self.data.id.stream in self._limits.mirrors

    def _keep_promises(self, before: int) -> None:
        """R28: what is empty in a mirror was said to be, and nothing else."""
        self.named()
        for offset in range(before, self.data.hw):
            named = offset, epoch_at(self.data.history, offset)
            end, record = self._promised.get(named, 0), self.data.contents.committed[offset]
            if end and record is not None:
                text = f"offset {offset}, where its mirror has a record of epoch {named[1]}"
                raise Violation("NothingElseGone", f"partition {self.data.id}: an entry names {text}")
            if end:
                self._named[named] = end
            elif record is None and named not in self._named:
                text = f"has nothing at offset {offset}, of epoch {named[1]}, and its journal does not say so"
                raise Violation("MirrorIsPrefix", f"mirror {self.data.id} {text}")

    def _promises(self, named: Named) -> bool:
        """Whether this is about what is not committed: of records of other epochs nothing comes of it."""
        offset, epoch = named
        return self.of_mirror and (
            offset >= self.data.hw or epoch_at(self.data.history, offset) != epoch or self._is_empty(offset)
        )

    def _is_empty(self, offset: int) -> bool:
        return self.data.contents.committed[offset] is None

    def end_of(self, offset: int) -> int:
        """By the journal below which offset the committed record there is gone; NUMBER_MAX: it is not."""
        return self.named().get((offset, epoch_at(self.data.history, offset)), NUMBER_MAX)

    def _take(self, entry: RemovedRuns, end: int, written_ms: int) -> None:
        """An entry is committed, which its leader wrote at this time of his. NothingElseGone."""
        stream, limits = self.data.id.stream, self._limits
        keeps = limits.subject_limits.get(stream, 0)
        least = limits.front_limits.get(stream, FrontLeast())
        marks = stream in limits.marking
        any_limit = keeps or any(least) or marks
        ours = {named[0] for named in entry.named() if any_limit and named not in self._named}
        gone = {offset for offset, _ in (*self._named, *entry.named())} if any_limit else set[int]()
        if self.is_queue:
            # R26: who counts does not wait for acks that are on their way.
            gone -= {offset for offset, _ in self.done_with.ends}
        if any(named not in self._named for named in entry.named()):
            self.restatements.says_more(end - 1)
        for named in entry.named():
            if named in self._named:
                continue
            self.journal.checks["NothingElseGone"] += 1
            if self._promises(named):
                self._promised.setdefault(named, end)
                continue
            problem = self.asked.unasked(named[0], self.data, self._named)
            if problem and self.is_queue and (named[0], entry.epoch) in self.done_with.ends:
                problem = ""
            if problem and self.by_interest and entry.done_with and named[0] < self.data.hw:
                wants = self.wanted.by(named[0])
                problem = f"{problem}; consumer {wants!r} is to be given it" if wants else ""
            if problem and was_rolled_up(self.data, named[0]):
                problem = ""
            if problem and least._replace(age_ms=0).takes(named[0], written_ms, self.data, gone, ours):
                problem = ""
            if problem and keeps and named[0] < self.data.hw:
                newer = newer_of_subject(self.data, named[0], gone)
                problem = "" if newer >= keeps else f"{problem}; of its subject {newer} newer ones are left"
            if problem and (
                over_at(self.data, named[0]) <= written_ms
                or least.takes(named[0], written_ms, self.data, gone, ours)
            ):
                problem = ""
                if marks:
                    check_left(self.data, named[0], gone)
            if not problem and epoch_at(self.data.history, named[0]) != entry.epoch:
                problem = f"offset {named[0]} of epoch {entry.epoch}, where no such record is committed"
            if problem:
                text = f"partition {self.data.id}: the entry below journal offset {end} names {problem}"
                raise Violation("NothingElseGone", text)
            self._named[named] = end

    def _rolled_up(self, said: RolledUp, end: int) -> None:
        """An entry is committed that says up to where roll-ups were acted on. RollUpHolds."""
        if epoch_at(self.data.history, said.through - 1) == said.epoch:
            self.journal.checks["RollUpHolds"] += 1
            left = self._left_before(self._furthest, said.through)
            if left:
                raise Violation("RollUpHolds", f"{left}, though the entry below journal offset {end} says no")

    def _outlived(self, said: Outlived, end: int) -> None:
        """An entry is committed that says below where none is left that has a time to live. TtlHolds."""
        if epoch_at(self.data.history, said.through - 1) == said.epoch:
            self.journal.checks["TtlHolds"] += 1
            left = self._overdue(self._furthest, said.through, NUMBER_MAX - 1)
            if left:
                raise Violation("TtlHolds", f"{left}, though the entry below journal offset {end} says no")

    def overdue(self, start: int, now_ms: int) -> str:
        """R24: what is left from `start` on that was over its time then; empty if nothing is."""
        self.named()
        return self._overdue(start, self.data.hw, now_ms)

    def _overdue(self, start: int, end: int, now_ms: int) -> str:
        gone = {offset for offset, _ in self._named}
        for offset in range(start, min(end, self.data.hw)):
            over_ms = over_at(self.data, offset)
            if over_ms <= now_ms and offset not in gone:
                return f"partition {self.data.id}: offset {offset} is left, which was to go at {over_ms} ms"
        return ""

    @property
    def is_queue(self) -> bool:
        """R26: whether this is a work queue's."""
        return self.data.id.stream in self._limits.queues

    @property
    def frees(self) -> bool:
        """R26, R27: whether the front goes up to the first message that is left."""
        return self.is_queue or self.by_interest

    @property
    def by_interest(self) -> bool:
        """R27: whether messages of this stream were ever to go so."""
        return self.data.id.stream in self._limits.interests

    def unwanted(self, start: int) -> str:
        """R27: what is left from `start` on that no consumer wants; empty if nothing is."""
        left = self.wanted.unwanted(start, self._gone())
        return f"partition {self.data.id}: offset {left[0]} is left, which nobody wants" if left else ""

    def acked(self, journal: int, start: int) -> None:
        """A client was told of an ack by the journal below this offset; copies begin at `start` or below.
        WorkQueueHolds.
        """
        if self.is_queue:
            self.done_with.holds(self.named(), journal, start)

    def done_and_left(self, start: int) -> str:
        """R26: what is left from `start` on with which a consumer is done; empty if nothing is."""
        left = self.done_with.left(self.named(), self.journal.hw, start)
        return f"partition {self.data.id}: offset {left[0]} is left, which is done with" if left else ""

    def front(self) -> int:
        """R26, R27: the first message that is left."""
        return front_of(self.data.first, self.data.hw, self._gone())

    def purged(self, request: PurgeSubjectsRequest, reply: SubjectsPurged, start: int) -> None:
        """A client was told that a purge is done; copies begin at `start` or below. PurgeTakesAll."""
        self.journal.checks["PurgeTakesAll"] += 1
        left = left_of(request, start, reply.journal, self.data, self.named())
        if len(left) > request.keep or reply.journal > self.journal.hw or request.below > self.data.hw:
            raise Violation(
                "PurgeTakesAll",
                f"partition {self.data.id}: what matches {request.pattern!r} below {request.below} is said "
                f"to be gone but for {request.keep}, by the journal below {reply.journal} of "
                f"{self.journal.hw}; left are {left}",
            )

    def over_limit(self, keeps: int, start: int) -> str:
        """Which subject has more messages than so many, at `start` and above; empty if none has."""
        gone = self._gone()
        counts: dict[bytes, int] = {}
        for offset in range(start, self.data.hw):
            record = self.data.contents.committed[offset]
            if record is not None and offset not in gone:
                counts[record.subject] = counts.get(record.subject, 0) + 1
        over = [f"{subject.decode()} has {count}" for subject, count in counts.items() if count > keeps]
        return f"partition {self.data.id} is to keep {keeps} of a subject; {over[0]}" if over else ""

    def over_front(self, config: StreamConfig, start: int, now_ms: int) -> str:
        """R25: what limits by number and age should have taken, at `start` and above; empty if nothing."""
        return over_front(config, start, now_ms, self.data, self._gone())

    def over_full(self, most: int) -> str:
        """C6: whether what is left has more bytes than may be; empty if it has not."""
        return self._over_full(most, self._starts())

    def _over_full(self, most: int, start: int) -> str:
        size = size_from(start, self.data, self._gone())
        return f"partition {self.data.id} is to hold {most} bytes; it has {size}" if size > most else ""

    def shown_in(self, start: int, end: int) -> list[int]:
        """Which committed offsets of [start, end) no entry names."""
        gone = self._gone()
        return [offset for offset in range(start, min(end, self.data.hw)) if offset not in gone]

    def left_before(self, start: int) -> str:
        """R23: what is left from `start` on that lies before a roll-up of it; empty if nothing is."""
        self.named()
        return self._left_before(start, self.data.hw)

    def _left_before(self, start: int, end: int) -> str:
        """As `left_before`, by the entries so far, of roll-ups below `end`."""
        gone, subjects, every = {offset for offset, _ in self._named}, set[bytes](), False
        for offset in reversed(range(start, min(end, self.data.hw))):
            record = self.data.contents.committed[offset]
            if record is None:
                continue
            if offset not in gone and (every or record.subject in subjects):
                return f"partition {self.data.id}: offset {offset} is left, which lies before a roll-up of it"
            what = rolled_up_by(record.headers)
            every |= what == ALL_BEFORE
            if what:
                subjects.add(record.subject)
        return ""

    def same_visible(self, node: int, run: int, data: Replica, journal: Replica) -> None:
        """What a copy hides was looked at. SameVisible."""
        removed = journal.removed
        assert removed is not None
        place, now = (node, run), (removed.folded, data.log_start)
        if self._judged.get(place) == now or data.state != "ready" or journal.state != "ready":
            return
        if journal.log_start and not removed.is_known:
            return  # It reads again what was said before its journal began, and shows nothing yet.
        self._judged[place] = now
        self.journal.checks["SameVisible"] += 1
        start = data.log_start
        hidden = {named for named in removed.named() if named[0] >= start}
        said = [*self.named().items(), *self._promised.items()]
        meant = {one for one, end in said if end <= removed.folded and one[0] >= start}
        if removed.folded > self.journal.hw or hidden != meant:
            raise Violation(
                "SameVisible",
                f"partition {data.id}: node {node}, with its journal heeded up to {removed.folded} of "
                f"{self.journal.hw}, hides {sorted(hidden - meant)}, which nothing names, and shows "
                f"{sorted(meant - hidden)}",
            )

    def answered(self, offset: int, journal: int) -> None:
        """A client was told that a message is gone for who knows the journal up to there.
        DeletedStaysDeleted.
        """
        self.journal.checks["DeletedStaysDeleted"] += 1
        ends = [end for (named, _), end in self.named().items() if named == offset]
        if not ends or min(ends) > journal or journal > self.journal.hw:
            raise Violation(
                "DeletedStaysDeleted",
                f"partition {self.journal.id.partition}: offset {offset} is said to be deleted below journal "
                f"offset {journal}; {self.journal.hw} are committed, and name it at {ends}",
            )

    def read(
        self, truth: PartitionTruth, server: int, batch: Batch, position: int, seen: int, heeded: int
    ) -> None:
        """A reader that has seen the journal up to `seen` got a batch with an answer that heeds it up to
        `heeded`; it skips what lies below its position. ConsistentRead, NoSilentGap, DeletedStaysDeleted.
        """
        for name in ("ConsistentRead", "NoSilentGap", "DeletedStaysDeleted"):
            truth.checks[name] += 1
        base, end, epoch = batch.base_offset, batch.end_offset, batch.epoch
        if end > truth.hw or {epoch_at(truth.history, base), epoch_at(truth.history, end - 1)} != {epoch}:
            text = f"node {server} serves offsets {base}..{end - 1} of epoch {epoch}, below the HW {truth.hw}"
            raise Violation("ConsistentRead", f"partition {truth.id}: {text}")
        named, committed = self.named(), truth.contents.committed
        found = {record.offset: record for record in decode_records(batch)}
        for offset in range(max(base, position), end):
            record, by = found.get(offset), named.get((offset, epoch), 0)
            if record is not None and record != committed[offset]:
                text = f"node {server} serves another record at offset {offset} than the committed one"
                raise Violation("ConsistentRead", f"partition {truth.id}: {text}")
            if record is None and not by:
                text = f"node {server} leaves out offset {offset}, which no committed entry names"
                raise Violation("NoSilentGap", f"partition {truth.id}: {text}")
            if record is None and by > heeded and committed[offset] is not None:
                raise Violation(
                    "DeletedStaysDeleted",
                    f"partition {truth.id}: node {server} leaves out offset {offset}, deleted below journal "
                    f"offset {by}, and says that it heeds {heeded}: who reads on elsewhere may see it again",
                )
            if record is not None and 0 < by <= max(seen, heeded):
                raise Violation(
                    "DeletedStaysDeleted",
                    f"partition {truth.id}: node {server} serves offset {offset}, deleted below journal "
                    f"offset {by}, to a reader that has seen {seen}, and says that it heeds {heeded}",
                )

