"""The owner of a log's subject index answers as a scan of the log does, whatever happens to the log (S1)."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from liftlog.format import compress, decode_records, encode_records
from liftlog.messages import (
    MATCHES_FROM,
    MATCHING_RUNS,
    NEWEST_BYTES,
    NEWEST_MATCHES,
    AppendLog,
    AskLasts,
    AskSubjects,
    CompactLog,
    Event,
    FoldSubjects,
    LastsTold,
    LogOpened,
    LogRead,
    MoveLogStart,
    OpenLog,
    ReadLog,
    RebuildLog,
    RepairLog,
    ResetLog,
    StorageJob,
    SubjectsFolded,
    SubjectsTold,
    TrashLog,
    TruncateLog,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.offsets import OffsetSet
from liftlog.storage.layout import SUBJECTS_SUFFIX
from liftlog.storage.log import Log
from liftlog.subjects.index.plain import PlainIndex
from liftlog.types import (
    NO_OFFSET,
    Batch,
    CompactionPolicy,
    LogOptions,
    OffsetRange,
    PartitionId,
    Record,
    Ticket,
)
from tests.storage.storage_harness import LOG, new_disk, start

OPTIONS = LogOptions(segment_bytes=500)
EAGER = CompactionPolicy(dirty_ratio_percent=0, tombstone_retention_ms=0, map_bytes=1 << 16)
MEMORY = 64 << 20
SUBJECTS = [b"a", b"a.b", b"b", b"b.b", b"\xff"]
FILTERS = [">", "a", "*", "*.b", "a.>", "c"]
ROW = st.tuples(
    st.sampled_from(SUBJECTS), st.sampled_from([None, b"k", b"l"]), st.sampled_from([None, b"v", b"w" * 90])
)
Row = tuple[bytes, bytes | None, bytes | None]


def batch(base: int, rows: list[Row], codec: str = "none", epoch: int = 1, log: PartitionId = LOG) -> Batch:
    records = [
        Record(base + place, 1000 + base + place, subject, b"", b"", key, value)
        for place, (subject, key, value) in enumerate(rows)
    ]
    return compress(log, encode_records(log, epoch, records), codec)


class Owner:
    """An engine with one log, asked by jobs."""

    def __init__(self) -> None:
        self.disk = new_disk()
        self.engine, _ = start(self.disk)
        self.tickets = 0
        self.gone = OffsetSet()
        """What was deleted (R21)."""
        self.sizes: dict[int, int] = {}
        """What the messages count for that the last scan has found."""
        self.do(OpenLog(LOG, options=OPTIONS))

    def restart(self, mutants: Mutants = NO_MUTANTS) -> None:
        """The process is killed and a new one goes on."""
        self.disk.kill()
        self.engine, _ = start(self.disk, mutants)
        self.do(OpenLog(LOG, options=OPTIONS))

    def subject_files(self) -> list[str]:
        return [path for path in self.disk.files() if path.endswith(SUBJECTS_SUFFIX)]

    def ticket(self) -> Ticket:
        self.tickets += 1
        return Ticket(self.tickets)

    def do(self, job: StorageJob) -> list[Event]:
        return [*self.engine.write([job]), *self.engine.sync()]

    @property
    def log(self) -> Log:
        return self.engine._logs[LOG]

    def append(self, rows: list[Row], codec: str = "none", epoch: int = 1) -> None:
        self.do(AppendLog(LOG, [batch(self.log.leo, rows, codec, epoch)], self.ticket()))

    def fold(self, below: int, max_bytes: int = 200, memory: int = MEMORY) -> SubjectsFolded:
        """Slice after slice, until the index is ready up to there."""
        for _ in range(10_000):
            (event,) = self.do(FoldSubjects(LOG, below, max_bytes, memory))
            assert isinstance(event, SubjectsFolded) and event.request == 0
            if event.error or (event.ready and event.folded >= below):
                return event
        raise AssertionError("the fold does not end")

    def ask(
        self,
        what: str,
        pattern: str,
        offset: int = 0,
        *,
        least: int = 0,
        limit: int = 1000,
        until: int = 0,
        patterns: tuple[str, ...] = (),
    ) -> SubjectsTold | SubjectsFolded:
        job = AskSubjects(LOG, 5, least, what, pattern, offset, limit)
        job.until, job.gone, job.patterns = until, self.gone.copy(), patterns
        (event,) = self.do(job)
        assert isinstance(event, SubjectsTold | SubjectsFolded) and event.request == 5
        return event

    def told(self, what: str, pattern: str, offset: int = 0, least: int = 0) -> SubjectsTold:
        event = self.ask(what, pattern, offset, least=least)
        assert isinstance(event, SubjectsTold) and not event.error, event
        return event

    def scan(self, below: int) -> PlainIndex:
        """The definition, from every record of the log that lies below an offset."""
        log = self.log
        plain, sizes = PlainIndex(log.log_start), dict[int, int]()
        offset = log.log_start
        while offset < below:
            (read,) = self.do(ReadLog(LOG, 9, offset, log.leo, 1))
            assert isinstance(read, LogRead) and not read.error, read
            for record in decode_records(read.batches[0]):
                if plain.next <= record.offset < below:
                    plain.append(record.offset, [record.subject])
                    sizes[record.offset] = 30 + len(record.subject) + len(record.value or b"")
            offset = read.batches[0].end_offset
        plain.append(max(below, plain.next), [])
        plain.remove(self.gone.runs(0, below))
        self.sizes = {offset: size for offset, size in sizes.items() if offset not in self.gone}
        return plain

    def check(self, below: int) -> None:
        """All questions, against a scan."""
        if isinstance(self.ask("last", "a"), SubjectsFolded):
            # Less is gone than before: it is begun anew.
            assert not self.fold(below).error
        plain = self.scan(below)
        (lasts,) = self.do(AskLasts(LOG, 6, below, list(SUBJECTS)))
        found = [plain.last(subject) for subject in SUBJECTS]
        offsets = [NO_OFFSET if offset is None else offset for offset in found]
        assert lasts == LastsTold(LOG, 6, below, list(SUBJECTS), offsets)
        for pattern in FILTERS:
            self.check_purges(plain, pattern, below)
        for until in {below, (plain.first + below) // 2}:
            for most in (0, 31, 100, 10_000):
                self.check_bytes(most, until)
        for subject in SUBJECTS:
            if subject != b"\xff":
                told = self.told("last", subject.decode(), least=below)
                last = plain.last(subject)
                assert told.offset == (NO_OFFSET if last is None else last), subject
                assert (told.folded, told.first) == (below, self.log.log_start)
        for pattern in FILTERS:
            told = self.told("subjects", pattern)
            assert dict(told.subjects) == dict(plain.subjects(pattern).subjects)
            assert told.messages == sum(count for _, count in told.subjects)
            assert told.size == sum(self.sizes.values())
            for offset in {plain.first, (plain.first + below) // 2, max(plain.first, below - 1)}:
                found = plain.next_match(pattern, offset)
                assert self.told("next", pattern, offset).offset == (NO_OFFSET if found is None else found)


    def check_bytes(self, most: int, until: int) -> None:
        """What a leader asks that limits by bytes."""
        told = self.ask(NEWEST_BYTES, "", limit=most, until=until)
        sizes = {offset: size for offset, size in self.sizes.items() if offset < until}
        assert isinstance(told, SubjectsTold) and told.size == sum(sizes.values())
        stays = [size for offset, size in sizes.items() if offset >= told.place]
        assert sum(stays) <= most
        more = [offset for offset in sizes if offset < told.place]
        assert not more or sum(stays) + sizes[max(more)] > most

    def check_purges(self, plain: PlainIndex, pattern: str, below: int) -> None:
        """What a leader asks that purges by subject."""
        matching = [offset for run in plain.runs(pattern, 0, below) for offset in range(*run)]
        at, found = plain.first, list[int]()
        while at != NO_OFFSET:
            told = self.ask(MATCHING_RUNS, pattern, at, limit=2, until=below)
            assert isinstance(told, SubjectsTold) and len(told.runs) <= 2
            assert told.place == NO_OFFSET or at < told.place < below
            found += [offset for run in told.runs for offset in range(*run)]
            at = told.place
        assert found == matching
        either = {pattern, FILTERS[0]}
        told = self.ask(MATCHING_RUNS, "", plain.first, limit=1000, until=below, patterns=tuple(either))
        assert isinstance(told, SubjectsTold) and told.place == NO_OFFSET
        all_matching = {at for one in either for run in plain.runs(one, 0, below) for at in range(*run)}
        assert [at for run in told.runs for at in range(*run)] == sorted(all_matching)
        counted = self.ask(MATCHES_FROM, "", at := plain.first, patterns=(pattern, "of.nobody"))
        assert isinstance(counted, SubjectsTold) and counted.messages == plain.count_from(pattern, at)
        for keep in (1, 3, 100):
            told = self.ask(NEWEST_MATCHES, pattern, limit=keep, until=below)
            assert isinstance(told, SubjectsTold)
            assert told.messages == min(keep, len(matching)) and told.place == NO_OFFSET
            assert told.offset == (matching[-keep] if keep <= len(matching) else NO_OFFSET)


class OwnedIndex(RuleBasedStateMachine):
    """One log: what is committed is never cut, but by `unclean`."""

    @initialize()
    def begin(self) -> None:
        self.owner = Owner()
        self.hw = 0
        self.epoch = 1
        self.whole: dict[int, Row] = {}
        """What was committed at each offset: what a peer that never compacted still has."""

    def commit_to(self, hw: int) -> None:
        self.hw = hw

    @rule(rows=st.lists(ROW, min_size=1, max_size=5), codec=st.sampled_from(["none", "zstd"]))
    def append(self, rows: list[Row], codec: str) -> None:
        self.whole.update(enumerate(rows, self.owner.log.leo))
        self.owner.append(rows, codec, self.epoch)

    @rule(groups=st.lists(st.lists(ROW, min_size=1, max_size=4), min_size=3, max_size=7))
    def publish(self, groups: list[list[Row]]) -> None:
        for rows in groups:
            self.append(rows, "none")
        self.hw = self.owner.log.leo

    @rule(back=st.integers(0, 3))
    def commit(self, back: int) -> None:
        self.hw = max(self.hw, self.owner.log.leo - back)

    @rule(slices=st.integers(1, 3))
    def fold_some(self, slices: int) -> None:
        for _ in range(slices):
            self.owner.do(FoldSubjects(LOG, self.hw, 150, MEMORY))

    @rule()
    def look(self) -> None:
        event = self.owner.fold(self.hw)
        assert not event.error, event
        self.owner.check(self.hw)

    @rule()
    def cut(self) -> None:
        """What is not committed is cut."""
        self.epoch += 1
        self.owner.do(TruncateLog(LOG, self.hw, self.owner.ticket()))

    @precondition(lambda self: self.hw > self.owner.log.log_start)
    @rule(part=st.floats(0, 1))
    def unclean(self, part: float) -> None:
        """What is committed is cut, with the group's consent."""
        start = self.owner.log.log_start
        self.hw = start + int((self.hw - start) * part)
        left = OffsetSet()
        left.add_all(self.owner.gone, 0, self.hw)
        self.owner.gone = left
        self.cut()

    @rule(part=st.floats(0, 1), length=st.integers(1, 4))
    def delete(self, part: float, length: int) -> None:
        """Committed messages are gone (R21)."""
        begin = int(self.hw * part)
        self.owner.gone.add(begin, min(begin + length, self.hw))

    @rule(part=st.sampled_from([0.0, 0.3, 0.6, 1.0]))
    def purge(self, part: float) -> None:
        start = self.owner.log.log_start
        self.owner.do(MoveLogStart(LOG, start + int((self.hw - start) * part)))

    @rule(slices=st.integers(1, 40), max_bytes=st.sampled_from([150, 1 << 20]))
    def compact(self, slices: int, max_bytes: int) -> None:
        for _ in range(slices):
            self.owner.do(CompactLog(LOG, EAGER, self.hw, self.hw, 1 << 40, max_bytes))

    @rule(power=st.booleans(), seed=st.integers(0, 1000))
    def restart(self, power: bool, seed: int) -> None:
        """What is in subject files comes back, unless the power goes before it is on the disk."""
        if power:
            self.owner.disk.power_loss(Random(seed))
        self.owner.restart()

    @precondition(lambda self: self.owner.subject_files())
    @rule(place=st.floats(0, 1), part=st.floats(0, 0.999), bit=st.integers(0, 7))
    def decay(self, place: float, part: float, bit: int) -> None:
        paths = [path for path in self.owner.subject_files() if self.owner.disk.content(path)]
        if paths:
            path = paths[int(place * (len(paths) - 1))]
            self.owner.disk.flip(path, int(part * len(self.owner.disk.content(path))), bit)

    @rule(jump=st.integers(0, 5))
    def reset(self, jump: int) -> None:
        self.hw = self.owner.log.leo + jump
        self.owner.do(ResetLog(LOG, self.hw, (), self.owner.ticket()))

    @rule()
    def rebuild(self) -> None:
        """A sync had failed: a new file takes the log's place."""
        (event,) = self.owner.do(RebuildLog(LOG, self.hw))
        assert isinstance(event, LogOpened)
        self.epoch += 1

    @precondition(lambda self: self.owner.log.sealed)
    @rule(part=st.floats(0, 1), length=st.integers(1, 6))
    def repair(self, part: float, length: int) -> None:
        """A part of the committed log is damaged; a peer that never compacted has it."""
        log = self.owner.log
        begin = log.log_start + int((min(self.hw, log.sealed[-1].end_offset) - log.log_start) * part)
        lost = OffsetRange(begin, min(begin + length, self.hw, log.sealed[-1].end_offset))
        if lost.start >= lost.end:
            return
        segment = log.segment_of(lost.start)
        lost = OffsetRange(lost.start, min(lost.end, segment.end_offset))
        epoch = log.epochs.epoch_before(lost.end)
        log.note_damage(lost)
        rows = [self.whole[offset] for offset in range(lost.start, lost.end)]
        self.owner.do(RepairLog(LOG, lost, [batch(lost.start, rows, "none", epoch)], lost.end))


TestOwnedIndex = OwnedIndex.TestCase
TestOwnedIndex.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


def owner_with(count: int) -> Owner:
    owner = Owner()
    for number in range(count):
        owner.append([(SUBJECTS[number % 4], b"k%d" % (number % 3), b"v" * 40)])
    return owner


def test_S1_a_question_is_not_answered_before_the_index_has_all_that_it_needs() -> None:
    owner = owner_with(10)
    assert owner.ask("last", "a", least=0) == SubjectsFolded(LOG, -1, False, request=5)
    assert owner.do(FoldSubjects(LOG, 10, 1, MEMORY, begin=False)) == [SubjectsFolded(LOG, -1, False)]
    (slice_,) = owner.do(FoldSubjects(LOG, 10, 1, MEMORY))
    assert isinstance(slice_, SubjectsFolded) and 0 < slice_.folded < 10
    assert owner.ask("last", "a", least=10) == SubjectsFolded(LOG, slice_.folded, True, request=5)
    owner.fold(7)
    assert owner.do(AskLasts(LOG, 5, 8, [b"a"])) == [SubjectsFolded(LOG, 7, True, request=5)]
    told = owner.told("last", "a", least=7)
    assert (told.offset, told.folded) == (4, 7), "nothing that is not committed is in it"


def test_S1_what_compaction_removes_is_counted_no_more() -> None:
    owner = owner_with(40)
    owner.fold(40)
    before = owner.told("subjects", ">").messages
    for _ in range(60):
        owner.do(CompactLog(LOG, EAGER, 40, 0, 1 << 40, 1 << 20))
    behind = owner.ask("subjects", ">")
    assert isinstance(behind, SubjectsFolded) and not behind.ready, "a thinned range is looked at first"
    owner.fold(40)
    assert 3 <= owner.told("subjects", ">").messages < before == 40
    owner.check(40)


def test_S1_an_index_ends_with_its_log() -> None:
    owner = owner_with(6)
    owner.fold(6)
    for job in (
        ResetLog(LOG, 6, (), owner.ticket()),
        TrashLog(LOG),
    ):
        assert owner.told("subjects", ">")
        owner.do(job)
        if isinstance(job, TrashLog):
            owner.do(OpenLog(LOG, options=OPTIONS))
        assert isinstance(owner.ask("subjects", ">"), SubjectsFolded)
        owner.append([(b"c.new", None, b"")])
        owner.fold(owner.log.leo)
        assert owner.told("subjects", ">").subjects == [(b"c.new", 1)]


def test_S1_damage_ends_the_fold_and_is_told() -> None:
    owner = owner_with(30)
    owner.log.note_damage(OffsetRange(3, 4))
    event = owner.fold(30)
    assert event.error and event.damage == OffsetRange(3, 4)


def test_S1_the_coldest_index_makes_room_and_one_that_is_too_large_says_so() -> None:
    owner = owner_with(5)
    other = PartitionId(7, 1)
    owner.do(OpenLog(other, options=OPTIONS))
    owner.do(AppendLog(other, [batch(0, [(b"z", None, b"")], log=other)], owner.ticket()))
    owner.fold(5)
    one = owner.engine._subjects.memory
    owner.do(FoldSubjects(other, 1, 1000, one * 3))
    assert owner.told("last", "b").offset == 2
    owner.do(FoldSubjects(other, 1, 1000, one + one // 2))
    assert isinstance(owner.ask("last", "b"), SubjectsFolded), "it was asked before the other one was folded"
    event = owner.fold(5, memory=1000)
    assert event.full and "may take" in event.error
    assert owner.engine._subjects.memory == one


def test_S1_the_next_match_is_looked_for_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog.storage.subjectindexes.STEP_OFFSETS", 4)
    owner = owner_with(14)
    owner.append([(b"q", None, b"")])
    owner.fold(15)
    told = owner.told("next", "q", 1)
    assert (told.offset, told.place) == (NO_OFFSET, 5)
    told = owner.told("next", "q", 12)
    assert (told.offset, told.place) == (14, NO_OFFSET)
    told = owner.told("next", "nobody", 12)
    assert (told.offset, told.place) == (NO_OFFSET, NO_OFFSET)


def test_S1_pages_of_subjects_follow_each_other() -> None:
    owner = owner_with(12)
    owner.fold(12)
    first = owner.ask("subjects", ">", 0, limit=3)
    assert isinstance(first, SubjectsTold) and len(first.subjects) == 3 and first.messages == 12
    second = owner.ask("subjects", ">", first.place, limit=3)
    assert isinstance(second, SubjectsTold) and second.place == NO_OFFSET
    assert second.index == first.index
    assert dict([*first.subjects, *second.subjects]) == dict.fromkeys(SUBJECTS[:4], 3)


def test_S1_a_thinned_range_waits_until_the_index_begins_where_its_log_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A purge of more than one slice moves an index's start by, and a compaction before it."""
    monkeypatch.setattr("liftlog.storage.subjectindexes.STEP_OFFSETS", 2)
    owner = owner_with(40)
    owner.fold(40)
    for _ in range(40):
        owner.do(CompactLog(LOG, EAGER, 40, 40, 1 << 40, 1 << 20))
    owner.do(MoveLogStart(LOG, 20))
    assert not owner.fold(40).error
    assert dict(owner.told("subjects", ">").subjects) == dict(owner.scan(40).subjects(">").subjects)
