"""The subject index: a table of subjects, three columns by subject, and chunks by offset.

    last     the greatest offset of a subject; UNKNOWN: it is to be looked for in the chunks
    count    its messages
    seen     the number of the sealed chunk where it came last, from which chunks lead to those before

**What is appended is entered later.** `append` keeps the list of subjects; at `FOLD` messages, or when
somebody asks for what is not about one subject, all that has gathered is entered together, at a few hundred
nanoseconds for each message instead of some microseconds. Questions about one subject look at what has
gathered through a dictionary of their own, the *overlay*, made when the first of them comes.

**Memory** is what the subjects take (about 60 bytes each if they have 25), the open columns (4 bytes for each
offset that is not in a sealed chunk), a byte for each offset of chunks from which something was removed, a
few chunks that were read, and a byte for each subject and filter. The owner seals what is committed.

**Nothing is trusted**: a chunk that cannot be right raises ChunkDamaged with its number, and `repair` makes
it again from the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from liftlog.subjects.grammar import is_literal
from liftlog.subjects.index.chunk import CHUNK_BITS, NONE, Chunk, decode_chunk
from liftlog.subjects.index.chunks import IndexChunks, Selection
from liftlog.subjects.index.filters import Masks
from liftlog.subjects.index.interface import (
    ChunkDamaged,
    ChunkStore,
    Page,
    Run,
    SlabDamaged,
    check_appended,
    check_page,
    check_within,
    filter_tokens,
)
from liftlog.subjects.index.slabs import Slab
from liftlog.subjects.index.table import Offsets, Sids, SubjectTable

FOLD = 4096
"""Messages that gather before they are entered."""
MEMORY_MAX = 256 << 20
UNKNOWN = -1
_FIRST_ROWS = 64


class ColumnIndex:
    """A subject index over numpy's arrays and sealed chunks."""

    def __init__(
        self,
        store: ChunkStore,
        identity: bytes,
        key: int,
        first: int = 0,
        memory_max: int = MEMORY_MAX,
        bits: int = CHUNK_BITS,
    ) -> None:
        """An empty one, of a log that starts at `first`. What the store has is not read: `open_index` does.

        `identity` names the log: chunks of another one are not believed. `key` is the hash's: random, and not
        told to publishers. `memory_max`: bytes for the table of subjects. `bits`: of an offset, those within
        its chunk.
        """
        self._first = first
        self._folded = first
        self._next = first
        self._messages = 0
        self._table = SubjectTable(key, memory_max)
        self._masks = Masks(self._table)
        self._chunks = IndexChunks(store, identity, bits)
        self._last: Offsets = np.full(_FIRST_ROWS, UNKNOWN, np.int64)
        self._count: Sids = np.zeros(_FIRST_ROWS, np.int64)
        self._seen: Sids = np.full(_FIRST_ROWS, -1, np.int64)
        self._pending: list[tuple[int, Sequence[bytes]]] = []
        self._gathered = 0
        self._overlay: dict[bytes, tuple[int, int]] = {}
        """Of subjects in the first `_overlaid` of what is pending: greatest offset, and count."""
        self._overlaid = 0

    @property
    def first(self) -> int:
        return self._first

    @property
    def next(self) -> int:
        return self._next

    @property
    def messages(self) -> int:
        return self._messages + self._gathered

    @property
    def known_subjects(self) -> int:
        """Subjects that take memory: those that have come, with messages or without. Folds."""
        self.fold()
        return len(self._table)

    @property
    def sealed_chunks(self) -> int:
        return self._chunks.sealed

    @property
    def memory(self) -> int:
        """Bytes of all arrays, without the few chunks that were read last."""
        columns = self._last.nbytes + self._count.nbytes + self._seen.nbytes
        return self._table.memory + columns + self._chunks.memory + self._masks.memory

    # --- what happens to the log ------------------------------------------------------------------------

    def append(self, base_offset: int, subjects: Sequence[bytes]) -> None:
        check_appended(base_offset, len(subjects), self._next)
        self._next = base_offset + len(subjects)
        if subjects:
            self._pending.append((base_offset, subjects))
            self._gathered += len(subjects)
            if self._gathered >= FOLD:
                self.fold()

    def fold(self) -> None:
        """Enter what has gathered. Raises SubjectIndexFull, and then it is still to be entered."""
        if not self._pending:
            self._folded = self._next
            return
        if len(self._pending) == 1:
            subjects = self._pending[0][1]
        else:
            subjects = list(chain.from_iterable(some for _, some in self._pending))
        known = len(self._table)
        self._enter(self._offsets(), self._table.intern(subjects), known)
        self._folded = self._next
        self._forget_pending()

    def _enter(self, offsets: Offsets, sids: Sids, known: int) -> None:
        """Messages behind all that are entered. `known`: how many subjects had come before them."""
        self._grow(len(self._table), known)
        if len(offsets):
            self._chunks.put(offsets, sids, known)
        np.maximum.at(self._last, sids, offsets)
        np.add.at(self._count, sids, 1)
        self._messages += len(offsets)

    # --- slabs -----------------------------------------------------------------------------------------

    def slab(self, first: int, end: int, sizes: Sequence[int]) -> Slab | None:
        """What was appended to the offsets [first, end), removed or not, as a slab; None: that is not known
        any more. `sizes`: what each of these messages counts for.
        """
        self.fold()
        offsets, sids = self._chunks.appended(first, end)
        if len(offsets) != len(sizes):
            return None
        distinct, numbers = np.unique(sids, return_inverse=True)
        counted = np.array(sizes, np.uint32)
        return Slab(first, end, offsets, numbers, counted, self._table.packed(distinct))

    def append_slab(self, slab: Slab) -> None:
        """What a slab says has been appended. Raises SubjectIndexFull; SlabDamaged, with nothing entered."""
        check_appended(slab.first, slab.end - slab.first, self._next)
        self.fold()
        known = len(self._table)
        try:
            numbers = self._table.intern_packed(slab.subjects)
        except ValueError as error:
            raise SlabDamaged(str(error)) from None
        self._enter(slab.offsets, numbers[slab.numbers], known)
        self._next = self._folded = slab.end

    def cut(self, leo: int) -> None:
        check_within("a cut at", leo, self._first, self._next)
        if leo < self._folded:
            self._forget_pending()
            self._next = self._folded
            self._cut_folded(leo)
        else:
            kept = [(base, some[: leo - base]) for base, some in self._pending if base < leo]
            self._forget_pending()
            self._pending = kept
            self._gathered = sum(len(some) for _, some in kept)
        self._next = leo

    def _cut_folded(self, leo: int) -> None:
        known = self._chunks.known_at(leo, len(self._table))
        while (self._chunks.last + 1) << self._chunks.bits > leo:
            base = self._chunks.last << self._chunks.bits
            gone = self._chunks.forget_last(leo, self._seen)
            np.subtract.at(self._count, gone, 1)
            self._last[gone] = UNKNOWN
            self._messages -= len(gone)
            # If the next chunk cannot be read, this much has been done.
            self._folded = self._next = max(leo, base)
            if base <= leo:
                break
        self._folded = leo
        self._table.cut(known)
        self._masks.cut(known)

    def remove(self, runs: Iterable[Run]) -> int:
        self.fold()
        before = self._messages
        for number, some in self._by_chunk(runs):
            base = number << self._chunks.bits
            offsets, sids = self._chunks.there(number, self._first, self._next)
            if len(offsets):
                marks = np.zeros(self._chunks.size + 1, np.int64)
                np.add.at(marks, some[:, 0] - base, 1)
                np.add.at(marks, some[:, 1] - base, -1)
                picked = np.cumsum(marks)[offsets - base] > 0
                self._chunks.remove(number, offsets[picked] - base)
                self._subtract(offsets[picked], sids[picked])
        return before - self._messages

    def _by_chunk(self, runs: Iterable[Run]) -> Iterable[tuple[int, Offsets]]:
        """Chunks that there are, with the parts of the runs that lie in each."""
        wanted = np.array([run for run in runs if run[0] < run[1]], np.int64).reshape(-1, 2)
        wanted = np.clip(wanted, self._first, self._next)
        wanted = wanted[wanted[:, 0] < wanted[:, 1]]
        if not len(wanted):
            return
        firsts, order = np.sort(wanted[:, 0]), np.argsort(wanted[:, 0], kind="stable")
        # Each run up to the greatest end so far: no offset is in it that is in none before.
        ends = np.maximum.accumulate(wanted[order, 1])
        for number in self._chunks.between(int(firsts[0]), int(ends[-1])):
            base = number << self._chunks.bits
            end = base + self._chunks.size
            low, high = np.searchsorted(ends, base, side="right"), np.searchsorted(firsts, end)
            if low < high:
                yield number, np.clip(np.stack((firsts[low:high], ends[low:high]), 1), base, end)

    def start(self, first: int) -> None:
        check_within("a start at", first, self._first, self._next)
        self.fold()
        for number in self._chunks.between(self._first, first):
            self._subtract(*self._chunks.there(number, self._first, first))
            self._first = min(first, (number + 1) << self._chunks.bits)
        self._first = first
        self._chunks.strip(first, self._table)

    def _subtract(self, offsets: Offsets, sids: Sids) -> None:
        """These messages are no more."""
        np.subtract.at(self._count, sids, 1)
        self._messages -= len(sids)
        self._last[sids[self._last[sids] == offsets]] = UNKNOWN

    # --- questions --------------------------------------------------------------------------------------

    def last(self, subject: bytes) -> int | None:
        recent = self._recent(subject)
        if recent is not None:
            return recent[0]
        sid = self._table.find(subject)
        return self._last_of(sid) if sid >= 0 else None

    def count(self, subject: bytes) -> int:
        recent = self._recent(subject)
        sid = self._table.find(subject)
        return (recent[1] if recent is not None else 0) + (int(self._count[sid]) if sid >= 0 else 0)

    def subjects(self, pattern: str, place: int = 0, limit: int = 1000) -> Page:
        check_page(place, limit)
        selection = self._selected(pattern)
        if selection is None:
            return Page((), None)
        if isinstance(selection, int):
            found = [selection] if selection >= place else []
        else:
            there = selection[place:] & (self._count[place : len(self._table)] > 0)
            found = (place + np.flatnonzero(there)[: limit + 1]).tolist()
        told = tuple((self._table.subject(sid), int(self._count[sid])) for sid in found[:limit])
        return Page(told, found[limit] if len(found) > limit else None)

    def next_match(self, pattern: str, at: int, until: int | None = None) -> int | None:
        selection = self._selected(pattern)
        low = max(at, self._first)
        high = self._next if until is None else min(until, self._next)
        if selection is None or low >= high:
            return None
        for number in self._numbers(selection, low, high):
            found = self._chunks.hits(number, selection, low, high)
            if len(found):
                return int(found[0])
        return None

    def last_match(self, pattern: str, below: int | None = None) -> int | None:
        selection = self._selected(pattern)
        high = self._next if below is None else min(below, self._next)
        if selection is None or high <= self._first:
            return None
        if isinstance(selection, int):
            last = self._last_of(selection)
            if last is None or last < high:
                return last
        for number in reversed(self._numbers(selection, self._first, high)):
            found = self._chunks.hits(number, selection, self._first, high)
            if len(found):
                return int(found[-1])
        return None

    def runs(self, pattern: str, at: int, until: int) -> list[Run]:
        selection = self._selected(pattern)
        low, high = max(at, self._first), min(until, self._next)
        if selection is None or low >= high:
            return []
        numbers = self._numbers(selection, low, high)
        return _runs_of([self._chunks.hits(number, selection, low, high) for number in numbers])

    def lasts(self, pattern: str, until: int, most: int) -> list[int]:
        selection = self._selected(pattern)
        if selection is None:
            return []
        if isinstance(selection, int):
            last = self.last_match(pattern, until)
            return [] if last is None else [last]
        sids = np.flatnonzero(selection & (self._count[: len(selection)] > 0))[:most]
        known = (self._last[sids] != UNKNOWN) & (self._last[sids] < until)
        looked_for = [self._last_below(int(sid), until) for sid in sids[~known]]
        return sorted([*self._last[sids[known]].tolist(), *(last for last in looked_for if last is not None)])

    def _last_below(self, sid: int, until: int) -> int | None:
        """The greatest offset of a subject below `until`."""
        last = self._last_of(sid)
        if last is None or last < until:
            return last
        for number in self._chunks.holding(sid, int(self._seen[sid]), self._first):
            if number << self._chunks.bits >= until:
                continue
            found = self._chunks.hits(number, sid, self._first, until)
            if len(found):
                return int(found[-1])
        return None

    def beyond(self, keep: int, at: int, until: int, end: int) -> list[Run]:
        self.fold()
        excess = self._count[: len(self._table)] - keep
        for number in self._chunks.between(end, self._next) if end < self._next else ():
            np.subtract.at(excess, self._chunks.there(number, end, self._next)[1], 1)
        low, high = max(at, self._first), min(until, end, self._next)
        if low >= high or not (excess > 0).any():
            return []
        goes = [self._oldest(number, excess, low, high) for number in self._chunks.between(low, high)]
        return _runs_of(goes)

    def _oldest(self, number: int, excess: Sids, low: int, high: int) -> Offsets:
        """Of a chunk, the oldest messages of each subject, as many as it has too many; then it has less."""
        offsets, sids = self._chunks.there(number, low, high)
        picked = excess[sids] > 0
        offsets, sids = offsets[picked], sids[picked]
        order = np.argsort(sids, kind="stable")
        sorted_sids = sids[order]
        begins = np.flatnonzero(np.concatenate(([True], sorted_sids[1:] != sorted_sids[:-1])))
        lengths = np.diff(np.concatenate((begins, [len(sorted_sids)])))
        rank = np.arange(len(sorted_sids)) - np.repeat(begins, lengths)
        goes = order[rank < excess[sorted_sids]]
        np.subtract.at(excess, sids[goes], 1)
        oldest: Offsets = np.sort(offsets[goes])
        return oldest

    def count_from(self, pattern: str, at: int) -> int:
        selection = self._selected(pattern)
        low = max(at, self._first)
        if selection is None or low >= self._next:
            return 0
        if isinstance(selection, int):
            total = int(self._count[selection])
        else:
            total = int(self._count[: len(self._table)][selection].sum())
        if low - self._first <= self._next - low:
            return total - self._count_within(selection, self._first, low)
        return self._count_within(selection, low, self._next)

    def _count_within(self, selection: Selection, low: int, high: int) -> int:
        if low >= high:
            return 0
        numbers = self._numbers(selection, low, high)
        return sum(len(self._chunks.hits(number, selection, low, high)) for number in numbers)

    def _selected(self, pattern: str) -> Selection | None:
        """The subject of a literal filter, or a flag for each subject; None: nothing there matches."""
        tokens = filter_tokens(pattern)
        self.fold()
        if is_literal(tokens):
            sid = self._table.find(pattern.encode())
            return sid if sid >= 0 and self._count[sid] else None
        mask = self._masks.of(pattern)
        return mask if bool((self._count[: len(mask)][mask] > 0).any()) else None

    def _numbers(self, selection: Selection, low: int, high: int) -> list[int]:
        """Chunks of [low, high) where there may be something, in rising order."""
        numbers = self._chunks.between(low, high)
        if isinstance(selection, int) and int(self._count[selection]) * 4 < len(numbers):
            holding = self._chunks.holding(selection, int(self._seen[selection]), low)
            end = numbers[-1]
            return [number for number in holding if number <= end][::-1]
        return numbers

    def _last_of(self, sid: int) -> int | None:
        """The greatest offset of a subject among what is folded."""
        if not self._count[sid]:
            return None
        if self._last[sid] == UNKNOWN:
            for number in self._chunks.holding(sid, int(self._seen[sid]), self._first):
                found = self._chunks.hits(number, sid, self._first, self._folded)
                if len(found):
                    self._last[sid] = found[-1]
                    break
        return int(self._last[sid])

    def _recent(self, subject: bytes) -> tuple[int, int] | None:
        """Greatest offset and count of a subject among what is not folded."""
        overlay = self._overlay
        for base, subjects in self._pending[self._overlaid :]:
            for offset, its in enumerate(subjects, base):
                overlay[its] = offset, overlay[its][1] + 1 if its in overlay else 1
        self._overlaid = len(self._pending)
        return overlay.get(subject)

    # --- sealed chunks ----------------------------------------------------------------------------------

    def seal(self, below: int, most: int | None = None) -> int:
        """Write full chunks below an offset, the HW, through the port, at most so many. Returns how many."""
        self.fold()
        done = 0
        while most is None or done < most:
            number = self._chunks.sealable(min(below, self._next))
            if number < 0:
                break
            self._chunks.seal(number, self._table, self._seen)
            done += 1
        return done

    def repair(self, number: int, runs: Iterable[tuple[int, Sequence[bytes]]]) -> None:
        """Make a damaged chunk again. `runs`: what the log has of it, offsets and their subjects.

        Raises ValueError for a message that the index cannot have: of a subject that it does not know.
        """
        if not self._chunks.is_sealed(number):
            raise ValueError(f"chunk {number} is not sealed: there is nothing to repair")
        column = np.full(self._chunks.size, NONE, np.uint32)
        base = number << self._chunks.bits
        for offset, subjects in runs:
            sids = self._table.find_all(subjects)
            is_within = base <= offset <= base + self._chunks.size - len(subjects)
            if not is_within or int(sids.min(initial=0)) < 0:
                raise ValueError(f"messages at {offset} are not those of which chunk {number} was made")
            column[offset - base : offset - base + len(subjects)] = sids
        self._chunks.mend(number, column, self._table)

    def admit(self, chunk: Chunk) -> None:
        """Take a chunk of an earlier run, which follows those that there are."""
        fresh = chunk.fresh.subjects()
        known = len(self._table)
        if (self._table.find_all(fresh) >= 0).any() or len(set(fresh)) < len(fresh):
            raise ChunkDamaged(chunk.number, "a subject comes for the first time twice")
        self._chunks.admit(chunk, self._first, known)
        self._table.intern(fresh)
        self._grow(len(self._table), known)
        self._seen[chunk.sids] = chunk.number
        base = chunk.number << self._chunks.bits
        if base >= self._first:
            self._last[chunk.sids] = base + chunk.lasts
            self._count[chunk.sids] += chunk.counts
            self._messages += len(chunk.places)
        else:
            offsets, sids = self._chunks.there(chunk.number, self._first, base + self._chunks.size)
            np.maximum.at(self._last, sids, offsets)
            np.add.at(self._count, sids, 1)
            self._messages += len(sids)
        self._next = self._folded = max(self._first, (chunk.number + 1) << self._chunks.bits)

    # --- small parts ------------------------------------------------------------------------------------

    def _offsets(self) -> Offsets:
        """Of all messages that have gathered."""
        if self._next - self._pending[0][0] == self._gathered:
            return np.arange(self._next - self._gathered, self._next)
        bases = np.array([base for base, _ in self._pending], np.int64)
        lengths = np.array([len(some) for _, some in self._pending], np.int64)
        shifts = bases - (np.cumsum(lengths) - lengths)
        offsets: Offsets = np.arange(self._gathered) + np.repeat(shifts, lengths)
        return offsets

    def _forget_pending(self) -> None:
        self._pending = []
        self._gathered = 0
        self._overlay = {}
        self._overlaid = 0

    def _grow(self, count: int, known: int) -> None:
        """Columns for `count` subjects; those behind the first `known` have nothing yet."""
        if count > len(self._last):
            capacity = max(count, len(self._last) + len(self._last) // 2)
            self._last = _longer_column(self._last, capacity)
            self._count = _longer_column(self._count, capacity)
            self._seen = _longer_column(self._seen, capacity)
        self._last[known:count] = UNKNOWN
        self._count[known:count] = 0
        self._seen[known:count] = -1


def _runs_of(parts: Sequence[Offsets]) -> list[Run]:
    """Offsets that rise, those without a gap together."""
    offsets = np.concatenate(parts) if parts else np.empty(0, np.int64)
    breaks = np.flatnonzero(np.diff(offsets) != 1)
    firsts = offsets[np.concatenate(([0], breaks + 1))] if len(offsets) else offsets
    ends = offsets[np.concatenate((breaks, [-1]))] + 1 if len(offsets) else offsets
    return list(zip(firsts.tolist(), ends.tolist(), strict=True))


def _longer_column(column: NDArray[np.int64], capacity: int) -> NDArray[np.int64]:
    longer: NDArray[np.int64] = np.empty(capacity, np.int64)
    longer[: len(column)] = column
    return longer


def open_index(
    store: ChunkStore,
    identity: bytes,
    key: int,
    first: int,
    leo: int,
    removed: Iterable[Run] = (),
    memory_max: int = MEMORY_MAX,
    bits: int = CHUNK_BITS,
) -> tuple[ColumnIndex, ChunkDamaged | None]:
    """The index of a log with offsets [first, leo), from the chunks that an earlier run has sealed.

    From `next` on the caller appends what the log has. `removed`: what is gone of the offsets below, all of
    it. The second is what was wrong with the first chunk that could not be used, if there was one: it is
    dropped with all behind it, since they build on its subjects.
    """
    index = ColumnIndex(store, identity, key, first=first, memory_max=memory_max, bits=bits)
    problem: ChunkDamaged | None = None
    for number in store.numbers():
        if problem is None and (number + 1) << bits <= leo:
            try:
                index.admit(decode_chunk(store.read(number), number, identity, bits))
                continue
            except KeyError:
                problem = ChunkDamaged(number, "it is not there")
            except ChunkDamaged as damaged:
                problem = damaged
        store.drop(number)
    index.start(first)
    index.remove(removed)
    return index, problem
