"""A chunk is believed if it is what was written, and only then."""

from __future__ import annotations

import dataclasses
import struct

import numpy as np
import pytest
from google_crc32c import extend, value
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.subjects.index.chunk import (
    HEAD,
    NONE,
    Chunk,
    FreshSubjects,
    decode_chunk,
    encode_chunk,
    of_column,
    stripped,
)
from liftlog.subjects.index.interface import ChunkDamaged

BITS = 6
IDENTITY = b"a log"
FRESH = [b"a.b", b"", b"c"]


def chunk_of(rows: list[int], number: int = 5) -> Chunk:
    """Subjects 0 to 6 by place; NONE: no message. Three are new, so four were known."""
    column = np.full(1 << BITS, NONE, np.uint32)
    column[: len(rows)] = rows
    seen = np.array([-1, 4, 0, 9, -1, -1, -1])
    return of_column(
        column, number, before=number - 1, known=4, chain=77, fresh=FreshSubjects.of(FRESH), seen=seen
    )


GOOD = chunk_of([0, 1, 1, NONE, 6, 2, 3, 0, NONE, 5])


def same(left: Chunk, right: Chunk) -> bool:
    fields = [field.name for field in dataclasses.fields(Chunk) if field.name != "fresh"]
    return left.fresh.subjects() == right.fresh.subjects() and all(
        np.array_equal(getattr(left, name), getattr(right, name)) for name in fields
    )


@settings(deadline=None)
@given(st.lists(st.sampled_from([0, 1, 2, 3, 4, 5, 6, NONE]), max_size=1 << BITS))
def test_what_is_read_is_what_was_written(rows: list[int]) -> None:
    chunk = chunk_of(rows)
    read = decode_chunk(encode_chunk(chunk, IDENTITY), 5, IDENTITY, BITS)
    assert same(read, chunk)
    column = [*rows, *[NONE] * ((1 << BITS) - len(rows))]
    assert read.column().tolist() == column
    for sid in range(8):
        assert read.of(sid).tolist() == [place for place, its in enumerate(column) if its == sid]
    mask = np.array([True, False, True, False, False, True, True])
    hit = [place for place, its in enumerate(column) if its != NONE and mask[its]]
    assert read.matching(mask).tolist() == hit


def test_each_subject_knows_where_it_came_before() -> None:
    assert [GOOD.came_before(sid) for sid in range(4)] == [-1, 4, 0, 4], "9 is too high: it was cut"
    assert GOOD.came_before(4) == 4, "it is not here: look at the one before"
    far = dataclasses.replace(chunk_of([0, 2], number=100_000))
    assert (
        decode_chunk(encode_chunk(far, IDENTITY), 100_000, IDENTITY, BITS).came_before(2) == 100_000 - 0xFFFF
    )


def test_a_stripped_chunk_has_its_subjects() -> None:
    chunk = stripped(BITS, 5, before=4, known=4, chain=77, fresh=FreshSubjects.of(FRESH))
    read = decode_chunk(encode_chunk(chunk, IDENTITY), 5, IDENTITY, BITS)
    assert read.is_stripped and read.fresh.subjects() == FRESH and not len(read.places)


def test_every_flipped_bit_and_every_cut_is_found() -> None:
    good = encode_chunk(GOOD, IDENTITY)
    for place in range(len(good)):
        for bit in range(8):
            bad = bytearray(good)
            bad[place] ^= 1 << bit
            with pytest.raises(ChunkDamaged, match="chunk 5 of the subject index is damaged"):
                decode_chunk(bytes(bad), 5, IDENTITY, BITS)
        with pytest.raises(ChunkDamaged, match="make it again from the log"):
            decode_chunk(good[:place], 5, IDENTITY, BITS)
    with pytest.raises(ChunkDamaged):
        decode_chunk(good + b"\0", 5, IDENTITY, BITS)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ChunkDamaged):
        decode_chunk(data, 5, IDENTITY, BITS)
    with pytest.raises(ChunkDamaged):
        decode_chunk(signed(b"\0" * 4 + data), 5, IDENTITY, BITS)


@settings(deadline=None)
@given(st.data())
def test_a_chunk_with_a_good_checksum_and_changed_bytes_is_refused_or_can_be_used(
    data: st.DataObject,
) -> None:
    bad = bytearray(encode_chunk(GOOD, IDENTITY))
    for _ in range(data.draw(st.integers(1, 4))):
        bad[data.draw(st.integers(4, len(bad) - 1))] = data.draw(st.integers(0, 255))
    try:
        chunk = decode_chunk(signed(bytes(bad)), 5, IDENTITY, BITS)
    except ChunkDamaged:
        return
    known = chunk.known + len(chunk.fresh)
    if known < 1 << 20:
        assert chunk.matching(np.ones(known, np.bool_)).tolist() == sorted(chunk.places.tolist())
    assert np.count_nonzero(chunk.column() != NONE) == len(chunk.places)
    for sid in chunk.sids.tolist():
        places = chunk.of(sid)
        assert len(places) and (np.diff(places) > 0).all()
        assert -1 <= chunk.came_before(sid) < 5
    assert sum(map(len, chunk.fresh.subjects())) == len(chunk.fresh.text)


def signed(data: bytes) -> bytes:
    """With the checksum that these bytes should have."""
    return struct.pack("<I", extend(value(IDENTITY), data[4:])) + data[4:]


def test_another_log_another_place_and_another_size_are_refused() -> None:
    good = encode_chunk(GOOD, IDENTITY)
    with pytest.raises(ChunkDamaged, match="or it is another log's"):
        decode_chunk(good, 5, b"another", BITS)
    with pytest.raises(ChunkDamaged, match="it says that it is chunk 5"):
        decode_chunk(good, 6, IDENTITY, BITS)
    with pytest.raises(ChunkDamaged, match=r"it has 2\^6 offsets, and should have 2\^16"):
        decode_chunk(good, 5, IDENTITY)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"sids": [0, 1, 2, 3, 6, 5]}, "subjects do not rise"),
        ({"sids": [0, 1, 2, 3, 5, 7]}, "are not known"),
        ({"places": [0, 7, 2, 1, 5, 6, 9, 4]}, "places do not rise"),
        ({"places": [0, 7, 1, 2, 5, 6, 9, 9]}, "two messages have one"),
        ({"places": [0, 7, 1, 2, 5, 6, 9, 64]}, "lies behind its end"),
        ({"distances": [0, 1, 6, 1, 0, 0]}, "came before the first chunk"),
        ({"before": 5}, "behind chunk 5"),
        ({"is_stripped": True}, "and it has messages"),
        ({"fresh": FreshSubjects(np.array([3, 1, 1], "<u2"), b"a.bc")}, "do not add up to their bytes"),
        ({"starts": [0, 2, 4, 5, 6, 7, 9]}, "do not add up to its messages"),
    ],
)
def test_numbers_that_cannot_be_are_refused_though_the_checksum_is_right(
    change: dict[str, object], problem: str
) -> None:
    assert (GOOD.sids.tolist(), GOOD.places.tolist()) == ([0, 1, 2, 3, 5, 6], [0, 7, 1, 2, 5, 6, 9, 4])
    arrays = {"sids": "u4", "places": "u2", "distances": "u2", "starts": "i8"}
    changed = {
        name: np.array(each, arrays[name]) if name in arrays else each for name, each in change.items()
    }
    data = encode_chunk(dataclasses.replace(GOOD, **changed), IDENTITY)
    with pytest.raises(ChunkDamaged, match=problem):
        decode_chunk(data, 5, IDENTITY, BITS)


@pytest.mark.parametrize(("place", "byte"), [(4, 0), (6, 2), (7, 9)], ids=["magic", "version", "kind"])
def test_a_kind_that_is_not_known_is_refused(place: int, byte: int) -> None:
    bad = bytearray(encode_chunk(GOOD, IDENTITY))
    bad[place] = byte
    with pytest.raises(ChunkDamaged, match="which is not known"):
        decode_chunk(signed(bytes(bad)), 5, IDENTITY, BITS)


def test_the_head_is_as_long_as_the_page_says() -> None:
    assert HEAD.size == 52
