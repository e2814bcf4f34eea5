"""A slab of a subject file is believed if it is what was written, and only then; it enters what it says."""

from __future__ import annotations

import struct
from collections.abc import Callable

import numpy as np
import pytest
from google_crc32c import extend, value
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.subjects.index.columns import ColumnIndex
from liftlog.subjects.index.interface import SlabDamaged, SubjectIndexFull
from liftlog.subjects.index.sizes import MessageSizes
from liftlog.subjects.index.slabs import HEAD, SLAB_OFFSETS, Slab, decode_slab, encode_slab
from liftlog.subjects.index.table import PackedSubjects, SubjectTable
from tests.subjects.index.index_harness import MemoryStore

IDENTITY = b"a log"
BITS = 4
SUBJECTS = st.one_of(
    st.sampled_from([b"", b"a", b"a.b", b"c.eight.b", b"\0", b"a\0", b"x" * 8, b"x" * 70]),
    st.binary(max_size=40),
)
ROWS = st.lists(st.one_of(st.none(), SUBJECTS), max_size=60)


def index_of(rows: list[bytes | None], first: int = 0) -> ColumnIndex:
    index = ColumnIndex(MemoryStore(), IDENTITY, 77, first=first, bits=BITS)
    for offset, subject in enumerate(rows, first):
        index.append(offset, [] if subject is None else [subject])
    index.append(first + len(rows), [])
    return index


def slab_of(rows: list[bytes | None], first: int = 0, index: ColumnIndex | None = None) -> Slab:
    sizes = [30 + len(row) for row in rows if row is not None]
    slab = (index or index_of(rows, first)).slab(first, first + len(rows), sizes)
    assert slab is not None
    return slab


def answers(index: ColumnIndex) -> object:
    page = dict(index.subjects(">", limit=1000).subjects)
    lasts = {subject: index.last(subject) for subject in page}
    return page, lasts, index.messages, index.runs(">", index.first, index.next), index.next


@settings(deadline=None, max_examples=200)
@given(ROWS, ROWS, st.integers(0, 40), st.integers(0, 70))
def test_an_index_enters_a_slab_as_it_does_the_messages(
    before: list[bytes | None], rows: list[bytes | None], first: int, skipped: int
) -> None:
    rows = [*rows, b"last"]
    at = first + len(before)
    data = encode_slab(slab_of(rows, at), IDENTITY)
    slab = decode_slab(data, IDENTITY, at, at + len(rows))
    told = [(at + place, row, 30 + len(row)) for place, row in enumerate(rows) if row is not None]
    assert list(slab.messages()) == told
    index, sizes = index_of(before, first), MessageSizes(BITS)
    kept = min(skipped, len(rows))
    index.append(at + kept, [])
    index.append_slab(slab.starting(at + kept))
    sizes.append_slab(slab.starting(at + kept).offsets, slab.starting(at + kept).sizes)
    assert answers(index) == answers(index_of([*before, *[None] * kept, *rows[kept:]], first))
    assert sizes.total == sum(size for offset, _, size in told if offset >= at + kept)
    index.append(index.next, [b"more", b"a"])
    assert index.last(b"a") == index.next - 1


def test_what_was_removed_is_in_the_slab_and_what_the_start_has_passed_is_known_to_be_missing() -> None:
    rows: list[bytes | None] = [b"a", b"b", None, b"a"] * 8
    index = index_of(rows)
    index.remove([(0, 2)])
    assert list(slab_of(rows, index=index).messages())[:2] == [(0, b"a", 31), (1, b"b", 31)]
    index.start(20)
    assert index.slab(0, len(rows), [1] * 24) is None


GOOD = encode_slab(slab_of([b"a", None, b"b.c", b"a", b""]), IDENTITY)


def test_each_flipped_bit_and_each_length_is_refused() -> None:
    for byte in range(len(GOOD)):
        data = bytearray(GOOD)
        data[byte] ^= 1 << byte % 8
        with pytest.raises(SlabDamaged):
            decode_slab(bytes(data), IDENTITY, 0, 5)
        with pytest.raises(SlabDamaged):
            decode_slab(GOOD[:byte], IDENTITY, 0, 5)
    for identity, first, end in ((b"another", 0, 5), (IDENTITY, 1, 5), (IDENTITY, 0, 6)):
        with pytest.raises(SlabDamaged):
            decode_slab(GOOD, identity, first, end)


def altered(alter: Callable[[list[int]], None], tail: bytes = b"") -> bytes:
    """The good slab with other numbers in its head, under a good checksum."""
    fields = list(HEAD.unpack_from(GOOD))
    alter(fields)
    data = HEAD.pack(*fields) + (tail or GOOD[HEAD.size :])
    return struct.pack("<I", extend(value(IDENTITY), data[4:])) + data[4:]


def body(numbers: list[int], places: list[int], lengths: list[int]) -> bytes:
    words = 3
    return b"".join(
        (
            bytes(8 * words),
            np.zeros(4, "<u4").tobytes(),
            np.array(numbers, "<u2").tobytes(),
            np.array(places, "<u2").tobytes(),
            np.array(lengths, "<u2").tobytes(),
        )
    )


@pytest.mark.parametrize(
    "data",
    [
        altered(lambda fields: fields.__setitem__(2, 9)),
        altered(lambda fields: fields.__setitem__(3, 7)),
        altered(lambda fields: fields.__setitem__(6, 3)),
        altered(lambda fields: None, body([0, 1, 3, 0], [0, 2, 3, 4], [1, 1, 1])),
        altered(lambda fields: None, body([0, 1, 2, 0], [0, 2, 2, 4], [1, 1, 1])),
        altered(lambda fields: None, body([0, 1, 2, 0], [0, 2, 3, 5], [1, 1, 1])),
        altered(lambda fields: None, body([0, 1, 2, 0], [0, 2, 3, 4], [1, 9, 1])),
    ],
)
def test_impossible_numbers_under_a_good_checksum_are_refused(data: bytes) -> None:
    with pytest.raises(SlabDamaged):
        decode_slab(data, IDENTITY, 0, 5)


def test_a_subject_that_is_there_twice_is_refused_and_nothing_entered() -> None:
    twice = PackedSubjects(np.zeros(2, np.uint64), np.array([1, 1]))
    slab = Slab(0, 2, np.arange(2), np.array([0, 1]), np.zeros(2, np.uint32), twice)
    index = index_of([])
    with pytest.raises(SlabDamaged, match="twice"):
        index.append_slab(slab)
    assert (index.next, index.messages, index.known_subjects) == (0, 0, 0)


def test_a_slab_has_no_more_offsets_than_its_numbers_can_say() -> None:
    subjects = PackedSubjects(np.zeros(1, np.uint64), np.array([1]))
    one = np.zeros(1, np.int64)
    slab = Slab(0, SLAB_OFFSETS + 1, one, one, np.zeros(1, np.uint32), subjects)
    with pytest.raises(SlabDamaged):
        decode_slab(encode_slab(slab, IDENTITY), IDENTITY, 0, SLAB_OFFSETS + 1)


@settings(deadline=None)
@given(st.lists(SUBJECTS, max_size=30), st.lists(SUBJECTS, unique=True, max_size=30))
def test_a_table_gives_packed_subjects_the_numbers_that_it_gives_texts(
    known: list[bytes], subjects: list[bytes]
) -> None:
    source, packed, plain = (SubjectTable(key, 1 << 20) for key in (1, 2, 2))
    numbers = source.intern(subjects) if subjects else np.zeros(0, np.int64)
    for table in (packed, plain):
        if known:
            table.intern(known)
    found = packed.intern_packed(source.packed(numbers))
    assert found.tolist() == (plain.intern(subjects).tolist() if subjects else [])
    assert [packed.subject(number) for number in found.tolist()] == subjects
    assert len(packed) == len(plain)


def test_equal_hashes_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "liftlog.subjects.index.table._factors", lambda key, count: np.zeros(count, np.uint64)
    )
    subjects = [b"%d" % number for number in range(40)]
    source, table = SubjectTable(1, 1 << 20), SubjectTable(2, 1 << 20)
    packed = source.packed(source.intern(subjects))
    assert table.intern_packed(packed).tolist() == list(range(40))
    assert table.intern_packed(packed).tolist() == list(range(40))


def test_a_table_that_is_full_takes_nothing_of_a_slab() -> None:
    source, table = SubjectTable(1, 1 << 20), SubjectTable(2, 4000)
    packed = source.packed(source.intern([b"%d" % number for number in range(400)]))
    with pytest.raises(SubjectIndexFull):
        table.intern_packed(packed)
    assert len(table) == 0
