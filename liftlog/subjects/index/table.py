"""Subjects to small numbers: a hash table whose keys and columns are arrays.

A subject's number, its *sid*, is how many others came before it. Its bytes lie in an arena of 8-byte words,
padded with zeros; `places` says where, and how long it is. A slot of the table has 32 bits of the subject's
hash and its number plus one; slots follow each other where they collide. A hit is believed only when all
words and the length are equal, so the table is exact whatever the hash is worth.

Thousands of subjects are looked up together, a few instructions for each; one alone by plain Python over the
same arrays, since numpy asks a microsecond for each call. The hash is keyed, so that whoever chooses subjects
does not choose their slots.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from liftlog.subjects.index.interface import SubjectIndexFull

Words = NDArray[np.uint64]
Sids = NDArray[np.int64]
Offsets = NDArray[np.int64]

WORD = 8
LENGTH_MAX = 0xFFFF
"""Of a subject, in bytes: what a record's head can say."""
SUBJECTS_MAX = 0xFFFF_FFF0

_SHORT_WORDS = 8
"""Subjects of up to so many words share a matrix; longer ones get wider ones."""
_LENGTH_BITS = np.uint64(16)
_LENGTH_MASK = np.uint64(LENGTH_MAX)
_LOW = np.uint64(0xFFFF_FFFF)
_HASH_BITS = np.uint64(32)
_GONE = _LOW
"""In the low half of a slot: there was a subject, and whoever looks further goes on."""
_MASK64 = (1 << 64) - 1
_MIX = 0xD6E8_FEB8_6659_FD93
_MIX64 = np.uint64(_MIX)
_COLUMNS = 4
"""By subject: where it lies, and what the index keeps beside it."""
_FULLEST = 0.6
"""Share of slots that may be taken before the table grows."""


class PackedSubjects(NamedTuple):
    """Subjects as the arena has them: `words` one behind the other, padded, and how many bytes each has."""

    words: Words
    lengths: Sids


class SubjectTable:
    """Subjects numbered in the order in which they came."""

    __slots__ = ("_arena", "_count", "_end", "_factors", "_places", "_slots", "_taken", "memory_max")

    def __init__(self, key: int, memory_max: int) -> None:
        """`key`: of the hash. `memory_max`: bytes that the table may take."""
        self.memory_max = memory_max
        self._factors = _factors(key, LENGTH_MAX // WORD + 2)
        self._arena: Words = np.zeros(64, np.uint64)
        self._end = 0
        """Words of the arena that are in use."""
        self._places: Words = np.zeros(16, np.uint64)
        self._slots: Words = np.zeros(64, np.uint64)
        self._count = 0
        self._taken = 0
        """Slots that are not empty."""

    def __len__(self) -> int:
        return self._count

    @property
    def memory(self) -> int:
        """Bytes that it takes."""
        return self._arena.nbytes + self._places.nbytes + self._slots.nbytes

    # --- one subject ------------------------------------------------------------------------------------

    def find(self, subject: bytes) -> int:
        """The number of a subject; -1: it has none."""
        length = len(subject)
        if length > LENGTH_MAX:
            return -1
        count = _word_count(length)
        words = struct.unpack(f"={count}Q", subject.ljust(count * WORD, b"\0"))
        factors = self._factors
        mixed = length * int(factors[0])
        for position, word in enumerate(words, 1):
            mixed += word * int(factors[position])
        hashed = _finish(mixed & _MASK64)
        slots, mask = self._slots, len(self._slots) - 1
        slot = hashed & mask
        while True:
            entry = int(slots[slot])
            if not entry:
                return -1
            number = (entry & 0xFFFF_FFFF) - 1
            if entry >> 32 == hashed and number < self._count and self.subject(number) == subject:
                return number
            slot = (slot + 1) & mask

    def subject(self, sid: int) -> bytes:
        """The bytes of the subject with a number."""
        place = int(self._places[sid])
        start, length = place >> 16, place & LENGTH_MAX
        return self._arena[start : start + _word_count(length)].tobytes()[:length]

    def texts(self, first: int, end: int) -> tuple[NDArray[np.uint16], bytes]:
        """Of those with numbers [first, end): their lengths, and their bytes one behind the other."""
        if first == end:
            return np.zeros(0, np.uint16), b""
        data, starts, ends = self.spans(first, end)
        begin, stop = int(starts[0]), self._end_of(end) * WORD
        kept = np.ones(stop - begin, np.bool_)
        padded = np.append(starts[1:], stop)
        for pad in range(WORD):
            zeros = ends + pad
            kept[zeros[zeros < padded] - begin] = False
        return (ends - starts).astype(np.uint16), data[begin:stop][kept].tobytes()

    def packed(self, sids: Sids) -> PackedSubjects:
        """The subjects with these numbers."""
        places = self._places[sids]
        lengths = (places & _LENGTH_MASK).astype(np.int64)
        starts = (places >> _LENGTH_BITS).astype(np.int64)
        return PackedSubjects(_gathered(self._arena, starts, word_counts(lengths)), lengths)

    def _end_of(self, count: int) -> int:
        """Words of the arena that the first `count` subjects take."""
        return int(self._places[count] >> _LENGTH_BITS) if count < self._count else self._end

    # --- many -------------------------------------------------------------------------------------------

    def find_all(self, subjects: Sequence[bytes]) -> Sids:
        """The numbers of many subjects; -1 for each that has none."""
        return self._look_up(subjects)[0]

    def intern(self, subjects: Sequence[bytes]) -> Sids:
        """The numbers of many subjects; one that is new gets the next. Raises SubjectIndexFull, having
        changed nothing.
        """
        sids, lengths, hashes = self._look_up(subjects)
        unknown = np.flatnonzero(sids < 0)
        if len(unknown):
            fresh: dict[bytes, int] = {}
            firsts = []
            numbers = []
            for position in unknown.tolist():
                subject = subjects[position]
                number = fresh.get(subject)
                if number is None:
                    number = fresh[subject] = self._count + len(fresh)
                    firsts.append(position)
                numbers.append(number)
            self._add(_pack(list(fresh), lengths[firsts]), hashes[firsts])
            sids[unknown] = numbers
        return sids

    def intern_packed(self, subjects: PackedSubjects) -> Sids:
        """The numbers of subjects of which no two are equal; one that is new gets the next. Raises
        SubjectIndexFull, and ValueError if two new ones are equal, having changed nothing.
        """
        words, lengths = subjects
        counts = word_counts(lengths)
        starts = np.cumsum(counts) - counts
        sids = np.empty(len(lengths), np.int64)
        hashes = np.empty(len(lengths), np.uint64)
        width, narrower = 1, 0
        while narrower < int(counts.max(initial=0)):
            some = np.flatnonzero((counts > narrower) & (counts <= width))
            if len(some):
                keys = _padded(words, starts[some], counts[some], width)
                sids[some], hashes[some] = self._look_up_within(keys, lengths[some], width)
            narrower, width = width, width * 2
        unknown = np.flatnonzero(sids < 0)
        if len(unknown):
            new = PackedSubjects(_gathered(words, starts[unknown], counts[unknown]), lengths[unknown])
            _check_different(new, hashes[unknown])
            sids[unknown] = np.arange(self._count, self._count + len(unknown))
            self._add(new, hashes[unknown])
        return sids

    def cut(self, count: int) -> None:
        """Forget all but the first `count` subjects."""
        if count >= self._count:
            return
        low = self._slots & _LOW
        self._slots[(low > np.uint64(count)) & (low != _GONE)] = _GONE
        self._end = int(self._places[count] >> _LENGTH_BITS)
        self._count = count

    def spans(self, first: int, end: int) -> tuple[NDArray[np.uint8], Offsets, Offsets]:
        """For those with numbers [first, end): bytes of the arena, and in them where each starts and ends."""
        places = self._places[first:end]
        starts = (places >> _LENGTH_BITS).astype(np.int64) * WORD
        return self._arena.view(np.uint8), starts, starts + (places & _LENGTH_MASK).astype(np.int64)

    def _look_up(self, subjects: Sequence[bytes]) -> tuple[Sids, Sids, Words]:
        """Numbers, lengths, and hashes."""
        keys = np.array(subjects, dtype=f"S{_SHORT_WORDS * WORD}")
        lengths = np.strings.str_len(keys)
        # An array of strings cuts what is too long for it, and drops zeros at the end. If nothing is missing
        # in sum, nothing is missing in any.
        if int(lengths.sum()) == len(b"".join(subjects)):
            width = _word_count(int(lengths.max(initial=0)))
            sids, hashes = self._look_up_within(_as_words(keys), lengths, width)
            return sids, lengths, hashes
        lengths = _lengths(subjects)
        sids = np.empty(len(lengths), np.int64)
        hashes = np.empty(len(lengths), np.uint64)
        width, narrower = 1, -1
        while narrower < int(lengths.max()):
            some = np.flatnonzero((lengths > narrower) & (lengths <= width * WORD))
            if len(some):
                picked = [subjects[position] for position in some.tolist()]
                keys = np.array(picked, dtype=f"S{width * WORD}")
                sids[some], hashes[some] = self._look_up_within(_as_words(keys), lengths[some], width)
            narrower, width = width * WORD, width * 2
        return sids, lengths, hashes

    def _look_up_within(self, words: Words, lengths: Sids, width: int) -> tuple[Sids, Words]:
        """Numbers and hashes of subjects that have at most `width` words each, a row for each."""
        factors = self._factors
        mixed = lengths.astype(np.uint64)
        mixed *= factors[0]
        columns = [np.ascontiguousarray(words[:, position]) for position in range(width)]
        for position, column in enumerate(columns, 1):
            mixed += column * factors[position]
        mixed ^= mixed >> _HASH_BITS
        mixed *= _MIX64
        mixed >>= _HASH_BITS
        return self._probe(columns, lengths, mixed), mixed

    def _probe(self, columns: list[Words], lengths: Sids, hashes: Words) -> Sids:
        """From slot to slot, all together, until each is found or has come to an empty slot."""
        sids = np.full(len(lengths), -1, np.int64)
        mask = len(self._slots) - 1
        slots = (hashes & np.uint64(mask)).astype(np.int64)
        wanted = hashes.astype(np.uint32)
        rows = np.arange(len(lengths))
        while len(rows):
            entries = self._slots.take(slots).astype("<u8", copy=False).view("<u4")
            # An empty slot, and one that was given up, come out as numbers that are too large.
            numbers = entries[0::2] - np.uint32(1)
            alike = entries[1::2] == wanted
            alike &= numbers < self._count
            hits = np.flatnonzero(alike)
            if len(hits):
                found = numbers[hits].astype(np.int64)
                here = rows[hits]
                same = self._same(columns, lengths, here, found)
                if not same.all():
                    alike[hits[~same]] = False
                    here, found = here[same], found[same]
                sids[here] = found
            left = np.flatnonzero(~alike & (entries[0::2] != 0))
            rows, wanted = rows[left], wanted[left]
            slots = slots[left] + 1 & mask
        return sids

    def _same(self, columns: list[Words], lengths: Sids, rows: Sids, numbers: Sids) -> NDArray[np.bool_]:
        """Whether the subjects of these rows are those with these numbers."""
        places = self._places.take(numbers)
        its = lengths.take(rows)
        same: NDArray[np.bool_] = (places & _LENGTH_MASK).view(np.int64) == its
        starts = (places >> _LENGTH_BITS).view(np.int64)
        least = _word_count(int(its.min()))
        for position, column in enumerate(columns):
            equal = self._arena.take(starts, mode="clip") == column.take(rows)
            if position >= least:
                equal |= its <= position * WORD
            same &= equal
            starts += 1
        return same

    # --- growth -----------------------------------------------------------------------------------------

    def _add(self, new: PackedSubjects, hashes: Words) -> None:
        counts = word_counts(new.lengths)
        self._make_room(len(counts), len(new.words))
        ends = self._end + np.cumsum(counts)
        self._arena[self._end : int(ends[-1])] = new.words
        first, self._count = self._count, self._count + len(counts)
        self._places[first : self._count] = (ends - counts).astype(np.uint64) << _LENGTH_BITS
        self._places[first : self._count] |= new.lengths.astype(np.uint64)
        self._end = int(ends[-1])
        numbers = np.arange(first + 1, self._count + 1, dtype=np.uint64)
        _enter(self._slots, hashes << _HASH_BITS | numbers)
        self._taken += len(counts)

    def _make_room(self, subjects: int, words: int) -> None:
        count, end = self._count + subjects, self._end + words
        arena = _grown(len(self._arena), end)
        places = _grown(len(self._places), count)
        slots = len(self._slots)
        if self._taken + subjects > _FULLEST * slots:
            # Those that were forgotten leave their slots behind: without them it may be large enough.
            while count > _FULLEST / 2 * slots:
                slots *= 2
        planned = (arena + places * _COLUMNS + slots) * WORD
        if count > SUBJECTS_MAX or planned > self.memory_max:
            raise SubjectIndexFull(
                f"the subject index would take {planned:,} bytes for {count:,} subjects, and may take"
                f" {self.memory_max:,}: let it have more, or do without it for this stream"
            )
        self._arena = _longer(self._arena, arena)
        self._places = _longer(self._places, places)
        if self._taken + subjects > _FULLEST * len(self._slots):
            low = self._slots & _LOW
            entries = self._slots[(low != 0) & (low != _GONE)]
            self._slots = np.zeros(slots, np.uint64)
            _enter(self._slots, entries)
            self._taken = len(entries)


def _enter(slots: Words, entries: Words) -> None:
    """Give each entry, none of which is there, a slot of its own behind where its hash points."""
    mask = np.uint64(len(slots) - 1)
    places = entries >> _HASH_BITS & mask
    while len(entries):
        free = slots[places] == 0
        slots[places[free]] = entries[free]
        # Of several that wanted the same slot one has got it.
        left = slots[places] != entries
        entries = entries[left]
        places = (places[left] + np.uint64(1)) & mask


def _lengths(subjects: Sequence[bytes]) -> Sids:
    lengths = np.fromiter(map(len, subjects), np.int64, len(subjects))
    if lengths.max(initial=0) > LENGTH_MAX:
        raise ValueError(f"a subject has more than {LENGTH_MAX} bytes: no record holds it")
    return lengths


def word_counts(lengths: Sids) -> Sids:
    """How many words subjects of these lengths take."""
    counts: Sids = np.maximum(1, lengths + (WORD - 1) >> 3)
    return counts


def _pack(subjects: list[bytes], lengths: Sids) -> PackedSubjects:
    widths = (word_counts(lengths) * WORD).tolist()
    padded = b"".join([one.ljust(width, b"\0") for one, width in zip(subjects, widths, strict=True)])
    return PackedSubjects(np.frombuffer(padded, np.uint64), lengths)


def _as_words(keys: NDArray[np.bytes_]) -> Words:
    return keys.view(np.uint64).reshape(len(keys), keys.itemsize // WORD)


def _gathered(words: Words, starts: Offsets, counts: Sids) -> Words:
    """So many words from each of these places on, one behind the other."""
    ends = np.cumsum(counts)
    within = np.arange(int(counts.sum())) - np.repeat(ends - counts, counts)
    gathered: Words = words[np.repeat(starts, counts) + within]
    return gathered


def _padded(words: Words, starts: Offsets, counts: Sids, width: int) -> Words:
    """A row of `width` words for each subject, those that it has not zero."""
    columns = np.arange(width)
    rows: Words = words.take(starts[:, None] + columns, mode="clip")
    if int(counts.min()) < width:
        rows[columns >= counts[:, None]] = 0
    return rows


def _check_different(subjects: PackedSubjects, hashes: Words) -> None:
    """Raises ValueError if two of these are equal."""
    order = np.argsort(hashes, kind="stable")
    alike = np.flatnonzero(hashes[order][1:] == hashes[order][:-1])
    if not len(alike):
        return
    counts = word_counts(subjects.lengths)
    starts = np.cumsum(counts) - counts
    texts = []
    for row in np.unique(np.concatenate((order[alike], order[alike + 1]))).tolist():
        text = subjects.words[starts[row] : starts[row] + counts[row]].tobytes()
        texts.append(text[: subjects.lengths[row]])
    if len(set(texts)) < len(texts):
        raise ValueError("a subject is there twice")


def _word_count(length: int) -> int:
    return max(1, (length + WORD - 1) // WORD)


def _grown(capacity: int, needed: int) -> int:
    return capacity if needed <= capacity else max(needed, capacity + capacity // 2)


def _longer(array: Words, capacity: int) -> Words:
    if capacity == len(array):
        return array
    longer = np.zeros(capacity, np.uint64)
    longer[: len(array)] = array
    return longer


def _finish(mixed: int) -> int:
    return ((mixed ^ mixed >> 32) * _MIX & _MASK64) >> 32


def _factors(key: int, count: int) -> Words:
    """Odd factors for each word of a subject, by splitmix64 from a key."""
    with np.errstate(over="ignore"):
        states = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
        states += np.uint64(key & _MASK64)
        states = (states ^ states >> np.uint64(30)) * np.uint64(0xBF58_476D_1CE4_E5B9)
        states = (states ^ states >> np.uint64(27)) * np.uint64(0x94D0_49BB_1331_11EB)
        return (states ^ states >> np.uint64(31)) | np.uint64(1)
