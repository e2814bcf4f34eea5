"""The index by columns: what it refuses, what it does about damage, and how it is at its real size."""

from __future__ import annotations

import subprocess
import sys
from random import Random

import pytest

from liftlog.subjects.grammar import PatternRefused
from liftlog.subjects.index.chunk import CHUNK_BITS
from liftlog.subjects.index.columns import FOLD, ColumnIndex, open_index
from liftlog.subjects.index.interface import ChunkDamaged, SubjectIndex, SubjectIndexFull
from liftlog.subjects.index.plain import PlainIndex
from tests.subjects.index.index_harness import BITS, IDENTITY, MemoryStore, all_pages, assert_alike, runs_of

SIZE = 1 << BITS


def both(first: int = 0) -> tuple[MemoryStore, ColumnIndex, PlainIndex]:
    store = MemoryStore()
    return store, ColumnIndex(store, IDENTITY, 1, first=first, bits=BITS), PlainIndex(first)


def filled(chunks: int = 5) -> tuple[MemoryStore, ColumnIndex, PlainIndex]:
    """All full and sealed; a rare subject lies in the first chunk only."""
    store, real, plain = both()
    for index in (real, plain):
        index.append(0, [b"rare", *[b"a.%d" % (offset % 7) for offset in range(1, chunks * SIZE)]])
    assert real.seal(real.next) == chunks == real.sealed_chunks
    return store, real, plain


def test_what_is_appended_gathers_until_there_is_enough() -> None:
    _, real, _ = both()
    for offset in range(FOLD - 1):
        real.append(offset, [b"a"])
    assert (real.last(b"a"), real.count(b"a"), real.messages) == (FOLD - 2, FOLD - 1, FOLD - 1)
    assert not len(real._table)
    real.append(FOLD - 1, [b"a"])
    assert len(real._table) == 1 and real.count(b"a") == FOLD


def test_subjects_come_in_the_order_of_their_first_messages() -> None:
    for index in both()[1:]:
        index.append(0, [b"c", b"a", b"b", b"a"])
        assert index.subjects(">").subjects == ((b"c", 1), (b"a", 2), (b"b", 1))
        page = index.subjects("*", limit=2)
        assert page.place is not None and index.subjects("*", page.place).subjects == ((b"b", 1),)


@pytest.mark.parametrize("which", [1, 2])
def test_what_cannot_be_is_refused_and_changes_nothing(which: int) -> None:
    index = both(first=5)[which]
    assert isinstance(index, ColumnIndex | PlainIndex)
    index.append(5, [b"a", b"b"])
    with pytest.raises(ValueError, match="messages at 6 do not follow what is indexed, which ends at 7"):
        index.append(6, [b"c"])
    with pytest.raises(ValueError, match="do not follow"):
        index.append(1 << 53, [b"c"])
    for offset in (4, 8):
        with pytest.raises(
            ValueError, match=rf"a cut at {offset} is not within the indexed offsets \[5, 7\]"
        ):
            index.cut(offset)
        with pytest.raises(ValueError, match=f"a start at {offset} is not within"):
            index.start(offset)
    for place, limit in ((-1, 1), (0, 0)):
        with pytest.raises(ValueError, match="no page begins at"):
            index.subjects(">", place, limit)
    for ask in (index.subjects, index.last_match, lambda text: index.next_match(text, 5)):
        with pytest.raises(PatternRefused, match="is no pattern"):
            ask("a..b")
    assert (index.first, index.next, index.messages, index.last(b"b")) == (5, 7, 2, 6)


def test_a_full_index_keeps_what_is_to_be_entered_and_goes_on_when_that_is_cut() -> None:
    index = ColumnIndex(MemoryStore(), IDENTITY, 1, memory_max=20_000, bits=BITS)
    index.append(0, [b"a.%d" % number for number in range(50)])
    index.fold()
    index.append(50, [b"b.%d" % number for number in range(1000)])
    for _ in range(2):
        with pytest.raises(SubjectIndexFull, match="let it have more, or do without it for this stream"):
            index.count_from(">", 0)
    assert index.messages == 1050 and index.last(b"b.999") == 1049
    index.cut(60)
    assert index.count_from("b.*", 0) == 10 and index.count_from(">", 0) == 60


def test_a_damaged_chunk_is_refused_by_its_number_and_made_again_from_the_log() -> None:
    store, real, plain = filled()
    real.cut(5 * SIZE - 3)
    plain.cut(5 * SIZE - 3)
    assert real.remove([(20, 25)]) == plain.remove([(20, 25)]) == 5
    store.chunks[1] = store.chunks[1][:-1]
    real._chunks._cached.clear()
    with pytest.raises(ChunkDamaged, match=r"chunk 1 of the subject index is damaged") as raised:
        real.next_match("a.*", SIZE)
    number = raised.value.number
    assert real.count(b"a.3") == plain.count(b"a.3"), "what is about a subject needs no chunk"
    real.repair(number, runs_of(plain, number * SIZE, (number + 1) * SIZE))
    assert_alike(real, plain, [b"rare", *[b"a.%d" % number for number in range(8)]])


def test_a_search_goes_on_past_a_chunk_that_was_made_again_without_what_it_had() -> None:
    store, real, plain = filled()
    for index in (real, plain):
        index.append(5 * SIZE, [b"rare"] * SIZE * 2)
        index.seal(7 * SIZE) if isinstance(index, ColumnIndex) else None
        index.remove([(5 * SIZE, 7 * SIZE)])
    for number in (5, 6):
        store.drop(number)
        real._chunks._cached.clear()
        real.repair(number, [])
    assert real.last(b"rare") == plain.last(b"rare") == 0
    assert_alike(real, plain, [b"rare"])


def test_only_a_sealed_chunk_is_repaired_and_only_with_messages_that_it_can_have() -> None:
    _, real, plain = filled()
    real.append(real.next, [b"open"])
    with pytest.raises(ValueError, match="chunk 5 is not sealed"):
        real.repair(5, [])
    for offset, subjects in ((SIZE, [b"never seen"]), (SIZE - 1, [b"rare"]), (SIZE, [b"rare"] * (SIZE + 1))):
        with pytest.raises(ValueError, match="are not those of which chunk 1 was made"):
            real.repair(1, [(offset, subjects)])
    real.cut(5 * SIZE)
    assert_alike(real, plain, [b"rare"])


def test_a_cut_that_comes_to_a_damaged_chunk_has_cut_what_is_above_it() -> None:
    store, real, plain = filled()
    store.chunks[2] = b""
    real._chunks._cached.clear()
    with pytest.raises(ChunkDamaged) as raised:
        real.cut(SIZE)
    assert raised.value.number == 2 and real.next == 3 * SIZE
    plain.cut(3 * SIZE)
    real.repair(2, runs_of(plain, 2 * SIZE, 3 * SIZE))
    assert_alike(real, plain, [b"rare", b"a.1"])
    for index in (real, plain):
        index.cut(SIZE)
        index.append(SIZE, [b"new"])
    assert_alike(real, plain, [b"rare", b"a.1", b"new"])


def test_a_start_keeps_the_subjects_of_what_it_leaves_behind() -> None:
    store, real, plain = filled()
    whole = sum(map(len, store.chunks.values()))
    for index in (real, plain):
        index.start(4 * SIZE + 2)
    assert store.numbers() == [0, 4], "no subject came first in the others"
    assert sum(map(len, store.chunks.values())) < whole / 2
    real, damaged = open_index(store, IDENTITY, 9, first=4 * SIZE + 2, leo=5 * SIZE, bits=BITS)
    assert damaged is None and real.next == 5 * SIZE
    assert_alike(real, plain, [b"rare", *[b"a.%d" % number for number in range(8)]])


def test_what_a_filter_matched_is_forgotten_with_the_subjects_that_are_cut() -> None:
    for index in both()[1:]:
        index.append(0, [b"a.1", b"a.2", b"b.1"])
        assert all_pages(index, "a.*", 10) == {b"a.1": 1, b"a.2": 1}
        index.cut(1)
        index.append(1, [b"b.2", b"a.3"])
        assert all_pages(index, "a.*", 10) == {b"a.1": 1, b"a.3": 1}
        assert index.next_match("a.*", 1) == 2


def test_a_chunk_that_is_missing_is_noticed() -> None:
    store, _, plain = filled()
    store.drop(2)
    real, damaged = open_index(store, IDENTITY, 9, first=0, leo=5 * SIZE, bits=BITS)
    assert damaged is not None and damaged.number == 3 and "chunk 2 is missing before it" in str(damaged)
    assert store.numbers() == [0, 1] and real.next == 2 * SIZE
    for base, subjects in runs_of(plain, real.next, plain.next):
        real.append(base, subjects)
    assert_alike(real, plain, [b"rare"])


def test_chunks_above_the_end_of_the_log_are_dropped_and_those_of_another_log_too() -> None:
    store, _, _ = filled()
    real, damaged = open_index(store, IDENTITY, 9, first=0, leo=3 * SIZE + 5, bits=BITS)
    assert damaged is None and real.next == 3 * SIZE and store.numbers() == [0, 1, 2]
    real, damaged = open_index(store, b"another", 9, first=0, leo=3 * SIZE, bits=BITS)
    assert damaged is not None and (real.next, real.messages, store.numbers()) == (0, 0, [])


def test_at_its_real_size_it_is_the_same_before_and_after_it_is_sealed_and_opened() -> None:
    """Three chunks of 65,536, asked with the answers of a plain walk over a list."""
    draw = Random(1)
    count = 3 << CHUNK_BITS
    log = [b"app.%d.e%d" % (draw.randrange(9), draw.randrange(20_000)) for _ in range(count)]
    store = MemoryStore()
    index = ColumnIndex(store, IDENTITY, 1)
    base = 0
    while base < count:
        some = log[base : base + draw.randrange(1, 9000)]
        index.append(base, some)
        base += len(some)
    gone = sorted({draw.randrange(count) for _ in range(30_000)})
    assert index.remove([(offset, offset + 1) for offset in gone]) == len(gone)
    left = set(range(count)).difference(gone)
    hits = [offset for offset in sorted(left) if log[offset].startswith(b"app.3.")]
    names = [log[draw.randrange(count)] for _ in range(100)]
    lasts = {name: max((o for o in left if log[o] == name), default=None) for name in names[:20]}

    def check(index: SubjectIndex) -> None:
        assert index.messages == len(left) and index.count_from("app.3.*", 0) == len(hits)
        for place in (0, 70_000, 150_000, count - 10):
            above = [offset for offset in hits if offset >= place]
            assert index.count_from("app.3.>", place) == len(above)
            assert index.next_match("app.3.>", place) == (above[0] if above else None)
        assert index.last_match("app.3.*") == hits[-1]
        assert {name: index.last(name) for name in lasts} == lasts
        assert sum(all_pages(index, "app.3.*", 1000).values()) == len(hits)

    check(index)
    assert index.seal(count) == 3 and store.numbers() == [0, 1, 2]
    check(index)
    removed = [(offset, offset + 1) for offset in gone]
    again, damaged = open_index(store, IDENTITY, 2, first=0, leo=count, removed=removed)
    assert damaged is None and again.next == count
    check(again)


def test_what_does_not_use_an_index_does_not_load_numpy() -> None:
    program = (
        "import sys, liftlog.cli, liftlog.bench.command, liftlog.commands.serve, liftlog.core.node\n"
        "import liftlog.subjects.index.interface, liftlog.subjects.index.plain\n"
        "assert 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
