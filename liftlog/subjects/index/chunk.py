"""A sealed chunk: which subjects lie where in 65,536 offsets, as bytes. All numbers are little-endian.

     0  u32  crc          CRC-32C of the log's identity and of bytes 4 to the end
     4  u16  magic
     6  u8   version
     7  u8   kind         0 whole | 1 stripped: the log starts behind it, its subjects alone are kept
     8  u64  number       with 2^bits offsets each, it is about [number * 2^bits, (number + 1) * 2^bits)
    16  u64  before       number of the chunk before it, plus one; 0: there is none
    24  u32  known        how many subjects had come before this chunk
    28  u32  chain        CRC-32C of all those subjects, in their order
    32  u32  fresh        subjects that come here for the first time: numbers [known, known + fresh)
    36  u32  fresh_bytes  their bytes
    40  u32  distinct     subjects that there are in it
    44  u32  messages
    48  u32  bits         16, but in tests
    52  u32  sid          for each of the distinct ones, rising: its number
        u16  count        for each: its messages in this chunk, less one
        u16  distance     for each: between the chunk so many before this one, and this one, it did not come;
                          0: it did not come before at all
        u16  place        for each message, by subject, then rising: its offset within the chunk
        u16  length       for each of the fresh ones
        u8   text         of all of them

What was appended is in it, removed or not, and it never changes: a chunk is sealed once its messages are
committed. A chunk is derived from the log. It is believed only if every number in it is possible; otherwise
ChunkDamaged is raised and it is made again.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np
from google_crc32c import extend as crc32c_extend
from google_crc32c import value as crc32c
from numpy.typing import NDArray

from liftlog.subjects.index.filters import Mask
from liftlog.subjects.index.interface import ChunkDamaged
from liftlog.subjects.index.table import Sids

Places = NDArray[np.int64]
"""Offsets less the first one of their chunk."""
Column = NDArray[np.uint32]
"""For each place of a chunk the number of its subject, or NONE."""

CHUNK_BITS = 16
NONE = 0xFFFF_FFFF
"""In a column: no message was appended here."""
FAR = 0xFFFF

MAGIC = 0x4C49
VERSION = 1
WHOLE, STRIPPED = 0, 1
HEAD = struct.Struct("<IHBBQQIIIIIII")
_CRC_BYTES = 4


@dataclass(frozen=True, slots=True)
class FreshSubjects:
    """Subjects that come for the first time, in their order, as a chunk has them."""

    lengths: NDArray[np.uint16]
    text: bytes

    @classmethod
    def of(cls, subjects: list[bytes]) -> FreshSubjects:
        return cls(np.array([len(subject) for subject in subjects], "<u2"), b"".join(subjects))

    def __len__(self) -> int:
        return len(self.lengths)

    def subjects(self) -> list[bytes]:
        lengths = self.lengths.astype(np.int64)
        ends = np.cumsum(lengths)
        return [
            self.text[start:end] for start, end in zip((ends - lengths).tolist(), ends.tolist(), strict=True)
        ]

    def chained(self, chain: int) -> int:
        """The checksum of all subjects up to these, from that of those before."""
        return int(crc32c_extend(chain, self.lengths.tobytes() + self.text))


@dataclass(frozen=True, slots=True)
class Chunk:
    """A chunk that was read, or is to be written."""

    bits: int
    number: int
    before: int
    """The number of the chunk before it; -1: there is none."""
    known: int
    chain: int
    fresh: FreshSubjects
    is_stripped: bool
    sids: NDArray[np.uint32]
    distances: NDArray[np.uint16]
    starts: Places
    """Where the places of each subject start; one more, for the end of the last."""
    places: NDArray[np.uint16]

    @property
    def counts(self) -> Places:
        return np.diff(self.starts)

    @property
    def lasts(self) -> Places:
        """The greatest place of each subject."""
        return self.places[self.starts[1:] - 1].astype(np.int64)

    def of(self, sid: int) -> Places:
        """The places of a subject, rising."""
        row = self.row(sid)
        if row < 0:
            return np.zeros(0, np.int64)
        return self.places[self.starts[row] : self.starts[row + 1]].astype(np.int64)

    def matching(self, mask: Mask) -> Places:
        """The places of all subjects of a mask, rising."""
        hit = mask[self.sids]
        if not hit.any():
            return np.zeros(0, np.int64)
        return np.sort(self.places[np.repeat(hit, self.counts)]).astype(np.int64)

    def row(self, sid: int) -> int:
        """Where a subject stands among those of the chunk; -1: it is not there."""
        row = int(np.searchsorted(self.sids, sid))
        return row if row < len(self.sids) and int(self.sids[row]) == sid else -1

    def came_before(self, sid: int) -> int:
        """The number of a chunk before which the subject did not come between that one and this; if it is not
        in this chunk, of the one before. -1: it did not come before.
        """
        row = self.row(sid)
        if row < 0:
            return self.number - 1
        distance = int(self.distances[row])
        return self.number - distance if distance else -1

    def column(self) -> Column:
        """The same, by place: an array of its own."""
        column = np.full(1 << self.bits, NONE, np.uint32)
        column[self.places] = np.repeat(self.sids, self.counts)
        return column


def of_column(
    column: Column, number: int, before: int, known: int, chain: int, fresh: FreshSubjects, seen: Sids
) -> Chunk:
    """The chunk of a column, which has a power of two of places.

    `seen`: by subject, the number of the chunk where it came last, or -1.
    """
    bits = len(column).bit_length() - 1
    places = np.flatnonzero(column != NONE)
    its = column[places]
    order = np.argsort(its, kind="stable")
    ordered = its[order]
    starts = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1]))) if len(its) else places
    sids = ordered[starts]
    # What was cut may have left a number that is too high: it is only where the search begins.
    last = np.minimum(seen[sids], number - 1)
    return Chunk(
        bits=bits,
        number=number,
        before=before,
        known=known,
        chain=chain,
        fresh=fresh,
        is_stripped=False,
        sids=sids,
        distances=np.where(last < 0, 0, np.minimum(number - last, FAR)).astype(np.uint16),
        starts=np.concatenate((starts, [len(its)])),
        places=places[order].astype(np.uint16),
    )


def stripped(bits: int, number: int, before: int, known: int, chain: int, fresh: FreshSubjects) -> Chunk:
    """What is kept of a chunk when the log starts behind it."""
    return Chunk(
        bits=bits,
        number=number,
        before=before,
        known=known,
        chain=chain,
        fresh=fresh,
        is_stripped=True,
        sids=np.zeros(0, np.uint32),
        distances=np.zeros(0, np.uint16),
        starts=np.zeros(1, np.int64),
        places=np.zeros(0, np.uint16),
    )


def encode_chunk(chunk: Chunk, identity: bytes) -> bytes:
    head = HEAD.pack(
        0,
        MAGIC,
        VERSION,
        STRIPPED if chunk.is_stripped else WHOLE,
        chunk.number,
        chunk.before + 1,
        chunk.known,
        chunk.chain,
        len(chunk.fresh),
        len(chunk.fresh.text),
        len(chunk.sids),
        len(chunk.places),
        chunk.bits,
    )
    parts = (
        head[_CRC_BYTES:],
        chunk.sids.astype("<u4").tobytes(),
        (chunk.counts - 1).astype("<u2").tobytes(),
        chunk.distances.astype("<u2").tobytes(),
        chunk.places.astype("<u2").tobytes(),
        chunk.fresh.lengths.tobytes(),
        chunk.fresh.text,
    )
    body = b"".join(parts)
    crc: int = crc32c_extend(crc32c(identity), body)
    return crc.to_bytes(_CRC_BYTES, "little") + body


def decode_chunk(data: bytes | memoryview, number: int, identity: bytes, bits: int = CHUNK_BITS) -> Chunk:
    """Raises ChunkDamaged unless these are the bytes of this chunk of this log."""
    if len(data) < HEAD.size:
        raise ChunkDamaged(number, f"it has {len(data)} bytes, fewer than its head")
    crc, magic, version, kind, its, before, known, chain, fresh, fresh_bytes, distinct, messages, its_bits = (
        HEAD.unpack_from(data)
    )
    if crc != crc32c_extend(crc32c(identity), bytes(data[_CRC_BYTES:])):
        raise ChunkDamaged(number, "its checksum is wrong, or it is another log's")
    if (magic, version) != (MAGIC, VERSION) or kind not in (WHOLE, STRIPPED):
        raise ChunkDamaged(number, f"it is of kind {magic:#x}, {version}, {kind}, which is not known")
    if its_bits != bits:
        raise ChunkDamaged(number, f"it has 2^{its_bits} offsets, and should have 2^{bits}")
    if its != number or before > number or known + fresh > NONE:
        raise ChunkDamaged(number, f"it says that it is chunk {its} behind chunk {before - 1}")
    sizes = [HEAD.size, 4 * distinct, 2 * distinct, 2 * distinct, 2 * messages, 2 * fresh, fresh_bytes]
    ends = np.cumsum(sizes)
    if messages > 1 << bits or distinct > messages or int(ends[-1]) != len(data):
        raise ChunkDamaged(number, f"it has {len(data)} bytes, and needs {int(ends[-1])}")
    if kind == STRIPPED and messages:
        raise ChunkDamaged(number, "the log starts behind it, and it has messages")
    counts = np.frombuffer(data, "<u2", distinct, int(ends[1])).astype(np.int64) + 1
    chunk = Chunk(
        bits=bits,
        number=number,
        before=before - 1,
        known=known,
        chain=chain,
        fresh=FreshSubjects(np.frombuffer(data, "<u2", fresh, int(ends[4])), bytes(data[int(ends[5]) :])),
        is_stripped=kind == STRIPPED,
        sids=np.frombuffer(data, "<u4", distinct, int(ends[0])),
        distances=np.frombuffer(data, "<u2", distinct, int(ends[2])),
        starts=np.concatenate(([0], np.cumsum(counts))),
        places=np.frombuffer(data, "<u2", messages, int(ends[3])),
    )
    _check_numbers(chunk, known + fresh)
    return chunk


def _check_numbers(chunk: Chunk, known: int) -> None:
    """Every number in it can be: what relies on it needs no checks of its own."""
    sids, places, starts = chunk.sids, chunk.places, chunk.starts
    if int(chunk.fresh.lengths.sum(dtype=np.int64)) != len(chunk.fresh.text):
        raise ChunkDamaged(chunk.number, "the lengths of its subjects do not add up to their bytes")
    if int(starts[-1]) != len(places):
        raise ChunkDamaged(chunk.number, "its counts do not add up to its messages")
    if len(sids) and (int(sids[-1]) >= known or bool((sids[1:] <= sids[:-1]).any())):
        raise ChunkDamaged(chunk.number, "its subjects do not rise, or are not known")
    if len(places):
        falls = np.flatnonzero(places[1:] <= places[:-1]) + 1
        if int(places.max()) >= 1 << chunk.bits:
            raise ChunkDamaged(chunk.number, "a message lies behind its end")
        taken = np.zeros(1 << chunk.bits, np.bool_)
        taken[places] = True
        heads = np.zeros(len(places) + 1, np.bool_)
        heads[starts] = True
        if int(np.count_nonzero(taken)) != len(places) or not bool(heads[falls].all()):
            raise ChunkDamaged(chunk.number, "a subject's places do not rise, or two messages have one")
    if int(chunk.distances.max(initial=0)) > chunk.number:
        raise ChunkDamaged(chunk.number, "a subject came before the first chunk")
