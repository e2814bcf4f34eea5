"""The subject index answers what its definition answers, whatever happens to the log and to its chunks."""

from __future__ import annotations

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from liftlog.subjects.index.columns import ColumnIndex, open_index
from liftlog.subjects.index.plain import PlainIndex
from tests.subjects.index.index_harness import (
    BITS,
    IDENTITY,
    MemoryStore,
    all_pages,
    assert_alike,
    removed_of,
    runs_of,
)

TOKENS = st.sampled_from([b"a", b"b", b"c", b"", b"*", b">", b"a*", b"\xff", b"x" * 70, b"y" * 300])
SUBJECTS = st.one_of(
    st.sampled_from([b"a", b"a.b", b"b.a.a"]),
    st.lists(TOKENS, min_size=1, max_size=4).map(b".".join),
    st.binary(max_size=3),
)
ROWS = st.one_of(st.lists(SUBJECTS, max_size=6), st.lists(SUBJECTS, min_size=9, max_size=40))


class Indexes(RuleBasedStateMachine):
    """`plain` is the definition, and the log that chunks are made again from."""

    def __init__(self) -> None:
        super().__init__()
        self.store = MemoryStore()
        self.subjects: dict[bytes, None] = {b"never": None}

    @initialize(first=st.sampled_from([0, 0, 5, 16, 1 << 33]), key=st.integers(0, 1 << 64))
    def begin(self, first: int, key: int) -> None:
        self.key = key
        self.plain = PlainIndex(first)
        self.real = ColumnIndex(self.store, IDENTITY, key, first=first, bits=BITS)

    def offset(self, data: st.DataObject) -> int:
        return data.draw(st.integers(self.plain.first, self.plain.next))

    @rule(rows=ROWS, gap=st.sampled_from([0, 0, 0, 0, 1, 7, 40]), times=st.sampled_from([1, 2, 5]))
    def append(self, rows: list[bytes], gap: int, times: int) -> None:
        for _ in range(times):
            base = self.plain.next + gap
            self.plain.append(base, rows)
            self.real.append(base, rows)
        self.subjects.update(dict.fromkeys(rows))

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        leo = self.offset(data)
        self.plain.cut(leo)
        self.real.cut(leo)

    @rule(least=st.integers(1, 30))
    def cut_a_little(self, least: int) -> None:
        leo = max(self.plain.first, self.plain.next - least)
        self.plain.cut(leo)
        self.real.cut(leo)

    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        low, high = self.plain.first - 3, self.plain.next + 3
        ends = st.tuples(st.integers(low, high), st.integers(low, high))
        runs = data.draw(st.lists(ends, min_size=1, max_size=5))
        assert self.real.remove(iter(runs)) == self.plain.remove(runs)

    @rule(data=st.data())
    def remove_the_last_of_a_subject(self, data: st.DataObject) -> None:
        subject = data.draw(st.sampled_from(list(self.subjects)))
        last = self.plain.last(subject)
        if last is not None:
            assert self.real.remove([(last, last + 1)]) == self.plain.remove([(last, last + 1)]) == 1

    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        first = self.offset(data)
        if data.draw(st.integers(0, 2)):
            first = self.plain.first + (first - self.plain.first) // 4
        self.plain.start(first)
        self.real.start(first)

    @rule(data=st.data(), most=st.sampled_from([None, None, 1, 2]))
    def seal(self, data: st.DataObject, most: int | None) -> None:
        below = max(self.offset(data), self.offset(data))
        done = self.real.seal(below, most)
        assert most is None or done <= most
        self.store.fail = False

    @rule()
    def seal_all(self) -> None:
        self.real.seal(self.plain.next)
        assert self.real.seal(self.plain.next) == 0

    @rule()
    def a_write_fails(self) -> None:
        self.store.fail = True
        try:
            self.real.seal(self.plain.next)
        except OSError:
            return
        assert self.store.fail
        self.store.fail = False

    @rule()
    def fold(self) -> None:
        self.real.fold()

    @rule()
    def forget_what_was_read(self) -> None:
        self.real._chunks._cached.clear()

    @rule()
    def reload(self) -> None:
        """Another run of the process finds the chunks; nothing is wrong with them."""
        assert self.reopened() is None

    def reopened(self) -> int | None:
        """The number of the chunk that was damaged."""
        plain = self.plain
        self.real, damaged = open_index(
            self.store,
            IDENTITY,
            self.key + 1,
            first=plain.first,
            leo=plain.next,
            removed=removed_of(plain),
            bits=BITS,
        )
        assert plain.first <= self.real.next <= plain.next
        for base, rows in runs_of(plain, self.real.next, plain.next):
            self.real.append(base, rows)
        self.real.append(plain.next, [])
        return None if damaged is None else damaged.number

    @precondition(lambda self: self.store.chunks)
    @rule(data=st.data(), how=st.sampled_from(["flip", "shorten", "empty", "of another"]))
    def reload_with_a_damaged_chunk(self, data: st.DataObject, how: str) -> None:
        number = self.damage(data, how)
        assert self.reopened() == number
        assert all(other < number for other in self.store.chunks)

    @precondition(lambda self: self.store.chunks)
    @rule(data=st.data())
    def reload_without_a_chunk(self, data: st.DataObject) -> None:
        """What is behind it is found out, if it matters."""
        del self.store.chunks[data.draw(st.sampled_from(self.store.numbers()))]
        self.reopened()

    @precondition(lambda self: self.store.chunks)
    @rule(data=st.data(), how=st.sampled_from(["flip", "shorten", "missing"]))
    def repair(self, data: st.DataObject, how: str) -> None:
        """What was removed is not in the log any more, from which the chunk is made again."""
        whole = [number for number in self.store.numbers() if self.real._chunks.is_sealed(number)]
        if whole:
            number = self.damage(data, how, whole)
            self.real._chunks._cached.clear()
            base = number << BITS
            self.real.repair(number, runs_of(self.plain, base, base + (1 << BITS)))

    def damage(self, data: st.DataObject, how: str, among: list[int] | None = None) -> int:
        number = data.draw(st.sampled_from(among or self.store.numbers()))
        good = self.store.chunks[number]
        place = data.draw(st.integers(0, len(good) - 1))
        if how == "flip":
            bad = bytearray(good)
            bad[place] ^= 1 << data.draw(st.integers(0, 7))
            self.store.chunks[number] = bytes(bad)
        elif how == "of another":
            other = data.draw(st.sampled_from(self.store.numbers()))
            self.store.chunks[number] = self.store.chunks[other] if other != number else b""
        elif how == "missing":
            del self.store.chunks[number]
        else:
            self.store.chunks[number] = good[:place] if how == "shorten" else b""
        return number

    @rule()
    def ask_everything(self) -> None:
        assert_alike(self.real, self.plain, self.subjects)

    @rule(data=st.data())
    def ask_for_a_subject(self, data: st.DataObject) -> None:
        """Such a question does not fold what has gathered."""
        subject = data.draw(st.sampled_from(list(self.subjects)))
        assert self.real.last(subject) == self.plain.last(subject)
        assert self.real.count(subject) == self.plain.count(subject)

    @rule(pattern=st.sampled_from(["a.*", ">", "*.b"]))
    def ask_by_a_filter(self, pattern: str) -> None:
        """Few filters, so that what is kept of one is used again."""
        assert all_pages(self.real, pattern, 5) == all_pages(self.plain, pattern, 1000)

    @rule(data=st.data())
    def leave_behind_and_reload(self, data: st.DataObject) -> None:
        """All is sealed, the log starts later, and another run has to do with what is left."""
        self.real.seal(self.plain.next)
        self.start(data)
        self.reload()

    @invariant()
    def they_count_alike(self) -> None:
        if hasattr(self, "real"):
            real, plain = self.real, self.plain
            assert (real.first, real.next, real.messages) == (plain.first, plain.next, plain.messages)

    def teardown(self) -> None:
        if hasattr(self, "real"):
            self.ask_everything()


TestIndexes = Indexes.TestCase
TestIndexes.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


class ManyIndexes(Indexes):
    """The same, for as long as one may wait."""


TestManyIndexes = pytest.mark.nightly(ManyIndexes.TestCase)
TestManyIndexes.settings = settings(max_examples=600, stateful_step_count=50, deadline=None)
