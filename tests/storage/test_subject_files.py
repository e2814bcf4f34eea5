"""A subject file saves the reading of its segment; one that is not of that segment is never believed (S1)."""

from __future__ import annotations

from collections.abc import Callable
from errno import EIO, ENOSPC
from itertools import count
from random import Random

import pytest

from liftlog.messages import CompactLog, FoldSubjects, MoveLogStart, SubjectsFolded, TruncateLog
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.storage.index import IndexHead
from liftlog.storage.inspect import LEFTOVER, inspect_log
from liftlog.storage.layout import SUBJECTS_SUFFIX, TEMPORARY_SUFFIX, log_directory
from liftlog.storage.sealing import Sealer
from liftlog.storage.segment import Cursor
from liftlog.storage.subjectfiles import CorruptSubjects, Foot, encode_foot, read_foot, read_slab
from liftlog_sim.devices.disk import SimulatedCrash
from tests.storage.storage_harness import LOG, SMALL, StorageEngine
from tests.storage.test_subject_indexes import EAGER, MEMORY, SUBJECTS, Owner

MESSAGES = 24


def filled() -> Owner:
    """A log of several segments, with keys, and its index made once."""
    owner = Owner()
    for number in range(MESSAGES):
        owner.append([(SUBJECTS[number % 4], b"k%d" % (number % 3), b"v" * 40)], epoch=1)
    assert not owner.fold(MESSAGES).error
    assert len(owner.log.sealed) > 3
    return owner


def copy_of(owner: Owner) -> Owner:
    """Another one, with a disk like this one's, whose process was killed."""
    other = Owner()
    other.disk.restore(owner.disk.image())
    other.gone = owner.gone.copy()
    other.tickets = owner.tickets
    return other


def check_after_restart(owner: Owner, mutants: Mutants = NO_MUTANTS) -> None:
    """A new process answers all questions as a scan does."""
    owner.restart(mutants)
    event = owner.fold(owner.log.leo)
    assert not event.error, event
    owner.check(owner.log.leo)


class Reads:
    """Counts what is read of segments, by the batch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.batches = 0
        take = Cursor.take

        def counted(cursor: Cursor) -> object:
            self.batches += 1
            return take(cursor)

        monkeypatch.setattr(Cursor, "take", counted)


def test_S1_each_complete_segment_gets_a_file_and_a_new_process_reads_that(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    owner = filled()
    bases = [f"{segment.base_offset:020d}{SUBJECTS_SUFFIX}" for segment in owner.log.sealed]
    assert owner.subject_files() == [f"{log_directory(LOG)}/{name}" for name in bases]
    owner.restart()
    in_last = owner.log.leo - owner.log.sealed[-1].end_offset
    reads = Reads(monkeypatch)
    (event,) = owner.do(_fold(owner))
    assert event == SubjectsFolded(LOG, MESSAGES, True, filed=True)
    assert reads.batches == in_last
    owner.check(MESSAGES)


def _fold(owner: Owner) -> FoldSubjects:
    return FoldSubjects(LOG, owner.log.leo, 1 << 20, MEMORY)


def test_S1_slices_of_any_size_take_a_slab_each() -> None:
    owner = filled()
    owner.restart()
    assert owner.fold(MESSAGES, max_bytes=1).ready
    owner.check(MESSAGES)


def test_S1_the_file_of_a_segment_that_grows_is_written_once_it_is_complete() -> None:
    owner = Owner()
    for number in range(MESSAGES):
        owner.append([(SUBJECTS[number % 4], None, b"v" * 40)])
        assert not owner.fold(owner.log.leo).error
    assert len(owner.subject_files()) == len(owner.log.sealed)
    unfinished = [path for path in owner.disk.files() if path.endswith(TEMPORARY_SUFFIX)]
    assert len(unfinished) <= 1
    check_after_restart(owner)


def test_S1_what_was_deleted_is_in_the_file_and_in_no_answer() -> None:
    owner = filled()
    owner.gone.add(3, 9)
    check_after_restart(owner)
    owner.gone.add(0, 2)
    owner.check(MESSAGES)


def test_S1_a_file_that_begins_at_the_logs_start_serves_later_starts() -> None:
    owner = Owner()
    for number in range(MESSAGES):
        owner.append([(SUBJECTS[number % 4], None, b"v" * 40)])
    owner.do(MoveLogStart(LOG, 1))
    assert not owner.fold(MESSAGES).error
    foot = read_foot(owner.disk, LOG, owner.subject_files()[0])
    assert (foot.first, foot.segment.base_offset) == (1, 0)
    owner.do(MoveLogStart(LOG, 2))
    owner.restart()
    (event,) = owner.do(_fold(owner))
    assert isinstance(event, SubjectsFolded) and event.filed
    owner.check(MESSAGES)


def test_S1_a_file_goes_with_its_segment() -> None:
    owner = filled()
    start = owner.log.sealed[2].base_offset
    owner.do(MoveLogStart(LOG, start))
    assert len(owner.subject_files()) == len(owner.log.sealed)
    owner.do(TruncateLog(LOG, owner.log.sealed[1].base_offset + 1, owner.ticket()))
    assert len(owner.subject_files()) == len(owner.log.sealed)
    check_after_restart(owner)


def test_S1_compaction_takes_the_files_of_what_it_rewrites() -> None:
    owner = filled()
    _compact(owner)
    bases = {segment.base_offset for segment in owner.log.sealed}
    left = {int(path.rpartition("/")[2].partition(".")[0]) for path in owner.subject_files()}
    assert left < {*bases, *range(MESSAGES)} and 0 not in left
    check_after_restart(owner)
    assert len(owner.subject_files()) == len(owner.log.sealed)
    check_after_restart(owner)


def _compact(owner: Owner) -> None:
    for _ in range(60):
        owner.do(CompactLog(LOG, EAGER, owner.log.leo, owner.log.leo, 1 << 40, 1 << 20))


def _cut_and_grow(owner: Owner) -> None:
    """What was committed is cut, and other messages come (an unclean election)."""
    base = owner.log.sealed[1].base_offset
    owner.do(TruncateLog(LOG, base + 1, owner.ticket()))
    while owner.log.leo < MESSAGES:
        owner.append([(b"b.b", None, b"w" * 40)], epoch=2)


@pytest.mark.parametrize("act", [_compact, _cut_and_grow])
def test_S1_a_file_that_stayed_behind_is_not_believed(act: Callable[[Owner], None]) -> None:
    owner = filled()
    kept = {path: owner.disk.content(path) for path in owner.subject_files()}
    act(owner)
    for path, content in kept.items():
        _put(owner, path, content)
    check_after_restart(owner)


def _put(owner: Owner, path: str, content: bytes) -> None:
    file = owner.disk.open(path, create=True)
    file.truncate(0)
    file.append([content])
    file.close()


@pytest.mark.parametrize("act", [_compact, _cut_and_grow])
def test_S1_a_planted_bug_believes_it(act: Callable[[Owner], None]) -> None:
    mutants = Mutants(subject_file_stale=True)
    owner = filled()
    owner.restart(mutants)
    act(owner)
    with pytest.raises(AssertionError):
        check_after_restart(owner, mutants)


def test_S1_any_flipped_bit_is_noticed() -> None:
    owner = filled()
    path = owner.subject_files()[1]
    content = owner.disk.content(path)
    for byte in range(len(content)):
        other = copy_of(owner)
        other.disk.flip(path, byte, byte % 8)
        with pytest.raises(CorruptSubjects):
            foot = read_foot(other.disk, LOG, path)
            for place in foot.slabs:
                read_slab(other.disk, LOG, path, place)
        if byte % 7 == 0:
            check_after_restart(other)


def test_S1_a_file_may_be_cut_anywhere_or_be_gone() -> None:
    owner = filled()
    path = owner.subject_files()[1]
    content = owner.disk.content(path)
    for length in range(0, len(content), 5):
        other = copy_of(owner)
        _put(other, path, content[:length])
        check_after_restart(other)
    other = copy_of(owner)
    other.disk.remove(path)
    check_after_restart(other)


def test_S1_a_file_of_another_segment_or_log_is_not_believed() -> None:
    owner = filled()
    first, second = owner.subject_files()[:2]
    _put(owner, first, owner.disk.content(second))
    check_after_restart(owner)


def _make_anew(owner: Owner) -> None:
    """The index, of a log without a subject file."""
    for path in owner.subject_files():
        owner.disk.remove(path)
    owner.fold(MESSAGES)


def _purge(owner: Owner) -> None:
    owner.do(MoveLogStart(LOG, owner.log.sealed[2].base_offset + 1))


@pytest.mark.slow
@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("act", [_make_anew, _compact, _cut_and_grow, _purge])
def test_S1_D4_the_process_may_die_at_every_call(act: Callable[[Owner], None], power: bool) -> None:
    whole = filled()
    for number in count(1):
        owner = copy_of(whole)
        owner.restart()
        owner.disk.crash_after(number)
        try:
            act(owner)
        except SimulatedCrash:
            if power:
                owner.disk.power_loss(Random(number))
            check_after_restart(owner)
            continue
        break
    assert number > 10


def test_S1_D5_a_disk_that_refuses_costs_the_file_and_nothing_else() -> None:
    whole = filled()
    for path in whole.subject_files():
        whole.disk.remove(path)
    for operation in ("open", "append", "rename", "remove"):
        for error in (EIO, ENOSPC):
            owner = copy_of(whole)
            owner.restart()
            owner.disk.fail_next(operation, error, TEMPORARY_SUFFIX)
            assert not owner.fold(MESSAGES).error
            owner.check(MESSAGES)
            check_after_restart(owner)


def test_S1_V8_an_encrypted_log_has_no_such_files_and_believes_none() -> None:
    owner = filled()
    owner.disk.kill()
    nonces = count()
    sealer = Sealer(b"k" * 32, lambda: next(nonces).to_bytes(12, "big"))
    owner.engine = StorageEngine(owner.disk, SMALL, NO_MUTANTS, sealer, take_over_open_logs=True)
    owner.engine.recover(1, "disk-1", 99)
    (event,) = owner.do(_fold(owner))
    assert isinstance(event, SubjectsFolded) and event.ready and not event.filed
    there = owner.subject_files()
    for number in range(MESSAGES):
        owner.append([(SUBJECTS[number % 4], None, b"v" * 40)])
    assert not owner.fold(owner.log.leo).error
    assert owner.subject_files() == there


def _findings(owner: Owner) -> list[tuple[str, str]]:
    """Of a look at the log by `liftlog log verify`."""
    found = inspect_log(owner.disk, LOG, None, lambda read: None).report.findings
    return [(finding.path, finding.what) for finding in found if finding.kind == LEFTOVER]


def test_S1_verify_compares_each_file_with_its_segment() -> None:
    owner = filled()
    owner.gone.add(3, 9)
    owner.check(MESSAGES)
    owner.disk.kill()
    first, second, third, fourth = owner.subject_files()[:4]
    assert [path for path, _ in _findings(owner) if path.endswith(SUBJECTS_SUFFIX)] == []
    owner.disk.flip(first, 60, 1)
    owner.disk.flip(second, len(owner.disk.content(second)) - 30, 1)
    _put(owner, third, owner.disk.content(fourth))
    orphan = f"{log_directory(LOG)}/{9999:020d}{SUBJECTS_SUFFIX}"
    _put(owner, orphan, b"")
    reasons = dict(_findings(owner))
    assert "byte 0: its checksum is wrong" in reasons[first]
    assert "the foot's checksum does not match" in reasons[second]
    assert "does not describe the segment" in reasons[third]
    assert reasons[orphan] == "the subject file of a segment that is not there"
    owner.restart()
    assert not owner.disk.exists(orphan)


def test_S1_verify_sees_a_file_that_tells_another_message() -> None:
    owner = filled()
    path = owner.subject_files()[0]
    foot = read_foot(owner.disk, LOG, path)
    other = Owner()
    for number in range(foot.segment.end_offset):
        other.append([(SUBJECTS[(number + 1) % 4], b"k%d" % (number % 3), b"v" * 40)])
    while other.log.leo < MESSAGES:
        other.append([(b"a", None, b"v" * 40)])
    assert not other.fold(MESSAGES).error
    data = other.disk.content(other.subject_files()[0])
    its = read_foot(other.disk, LOG, other.subject_files()[0])
    assert its.segment.end_offset == foot.segment.end_offset
    swapped = foot_with(data, its, foot.segment)
    _put(owner, path, swapped)
    (reason,) = [what for at, what in _findings(owner) if at == path]
    assert "the message at 0 is another one" in reason


def foot_with(data: bytes, foot: Foot, head: IndexHead) -> bytes:
    """The same file, with another segment named in its foot."""
    last = foot.slabs[-1]
    return data[: last.position + last.length] + encode_foot(LOG, Foot(foot.first, head, foot.slabs))
