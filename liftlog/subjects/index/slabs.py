"""A slab of a subject file: which subjects lie at some offsets, and what each message counts for, as bytes.

     0  u32  crc        CRC-32C of the log's identity and of bytes 4 to the end
     4  u16  magic
     6  u8   version
     7  u8   kind       0 every offset has a message | 1 `place` says which have one
     8  u64  first      it is about the offsets [first, end), at most SLAB_OFFSETS of them
    16  u64  end
    24  u32  messages
    28  u32  subjects   different ones
    32  u64  words      that the subjects' bytes take
    40  u64  text       for each of these words: a subject begins with a new one and is padded with zeros
        u32  size       for each message
        u16  subject    for each message: which one of this slab's it has
        u16  place      for each message, rising: its offset less `first`; of kind 1 only
        u16  length     for each subject

All numbers are little-endian. A slab says all that an index needs to know of these offsets, and stands on no
other slab: the subjects have no numbers but its own. It is laid out so that nothing is done for each subject
alone when it is taken in; that costs a tenth of a microsecond for each. It is derived from the log, and
believed only if every number in it is possible.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from google_crc32c import extend as crc32c_extend
from google_crc32c import value as crc32c
from numpy.typing import NDArray

from liftlog.subjects.index.interface import SlabDamaged
from liftlog.subjects.index.table import WORD, Offsets, PackedSubjects, word_counts

SLAB_OFFSETS = 1 << 15

MAGIC = 0x4C50
VERSION = 1
DENSE, SPARSE = 0, 1
HEAD = struct.Struct("<IHBBQQIIQ")
_CRC_BYTES = 4


@dataclass(frozen=True, slots=True)
class Slab:
    """Of the offsets [first, end). `subjects`: each one once. `numbers`: for each message which it has."""

    first: int
    end: int
    offsets: Offsets
    numbers: NDArray[np.int64]
    sizes: NDArray[np.uint32]
    subjects: PackedSubjects

    def messages(self) -> Iterator[tuple[int, bytes, int]]:
        """Offset, subject and size of each message."""
        words, lengths = self.subjects
        ends = np.cumsum(word_counts(lengths)).tolist()
        begins = [0, *ends[:-1]]
        places = zip(begins, ends, lengths.tolist(), strict=True)
        texts = [words[begin:end].tobytes()[:length] for begin, end, length in places]
        rows = zip(self.offsets.tolist(), self.numbers.tolist(), self.sizes.tolist(), strict=True)
        return ((offset, texts[number], size) for offset, number, size in rows)

    def starting(self, first: int) -> Slab:
        """The same without what lies below an offset."""
        kept = slice(int(np.searchsorted(self.offsets, first)), None)
        return Slab(
            max(self.first, first),
            self.end,
            self.offsets[kept],
            self.numbers[kept],
            self.sizes[kept],
            self.subjects,
        )


def encode_slab(slab: Slab, identity: bytes) -> bytes:
    """The bytes of a slab of one log."""
    dense = len(slab.offsets) == slab.end - slab.first
    arrays = (
        slab.subjects.words.astype("<u8", copy=False),
        slab.sizes.astype("<u4", copy=False),
        slab.numbers.astype("<u2"),
        (slab.offsets[:0] if dense else slab.offsets - slab.first).astype("<u2"),
        slab.subjects.lengths.astype("<u2"),
    )
    head = HEAD.pack(
        0,
        MAGIC,
        VERSION,
        DENSE if dense else SPARSE,
        slab.first,
        slab.end,
        len(slab.offsets),
        len(slab.subjects.lengths),
        len(slab.subjects.words),
    )
    checked = b"".join((head[_CRC_BYTES:], *(array.tobytes() for array in arrays)))
    return int(crc32c_extend(crc32c(identity), checked)).to_bytes(_CRC_BYTES, "little") + checked


def decode_slab(data: bytes, identity: bytes, first: int, end: int, unchecked: bool = False) -> Slab:
    """The slab of these offsets. Raises SlabDamaged: what is wrong with it.

    `unchecked`: the planted bug `subject_file_unchecked`.
    """
    if len(data) < HEAD.size:
        raise SlabDamaged("it ends within its head")
    crc, magic, version, kind, its_first, its_end, messages, subjects, words = HEAD.unpack_from(data)
    if crc32c_extend(crc32c(identity), data[_CRC_BYTES:]) != crc and not unchecked:
        raise SlabDamaged("its checksum is wrong, or it is another log's")
    if magic != MAGIC or version != VERSION or kind not in (DENSE, SPARSE):
        raise SlabDamaged(f"it is of version {version} and kind {kind}, which this liftlog does not read")
    if (its_first, its_end) != (first, end) or not 0 < end - first <= SLAB_OFFSETS:
        raise SlabDamaged(f"it is about the offsets {its_first} to {its_end}, not {first} to {end}")
    sparse = messages if kind == SPARSE else 0
    if len(data) != HEAD.size + WORD * words + 6 * messages + 2 * sparse + 2 * subjects:
        raise SlabDamaged(f"it is {len(data)} bytes long, and says otherwise")
    at = HEAD.size + WORD * words
    text = np.frombuffer(data, "<u8", words, HEAD.size).astype(np.uint64, copy=False)
    sizes = np.frombuffer(data, "<u4", messages, at).astype(np.uint32, copy=False)
    numbers = np.frombuffer(data, "<u2", messages, at + 4 * messages).astype(np.int64)
    places = np.frombuffer(data, "<u2", sparse, at + 6 * messages).astype(np.int64)
    lengths = np.frombuffer(data, "<u2", subjects, at + 6 * messages + 2 * sparse).astype(np.int64)
    if kind == DENSE:
        places = np.arange(messages)
    slab = Slab(first, end, first + places, numbers, sizes, PackedSubjects(text, lengths))
    _check(slab, places)
    return slab


def _check(slab: Slab, places: Offsets) -> None:
    count = len(slab.subjects.lengths)
    if len(places) and (int(places[-1]) >= slab.end - slab.first or (np.diff(places) <= 0).any()):
        raise SlabDamaged("its places do not rise, or lie beyond its end")
    if int(slab.numbers.max(initial=-1)) >= count:
        raise SlabDamaged("a message has a subject that is not there")
    if int(word_counts(slab.subjects.lengths).sum()) != len(slab.subjects.words):
        raise SlabDamaged("its subjects do not fill their words")
