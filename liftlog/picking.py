"""The records of a batch that somebody wants, by subject and by key: found, and copied, without decoding any.

One pass goes over the heads of the records. Whether a subject is wanted is remembered, so that a subject is
split and compared once and looked up afterwards. What is wanted is copied: the whole batch if nothing else is
in it, one run of bytes if the records lie side by side and are all of one time, else record by record into a
sparse batch, with the bytes that `encode_sparse` would give.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from liftlog.format import (
    CODEC_MASK,
    HEADER_BYTES,
    LENGTH_FIELD_BYTES,
    RECORD_HEAD_BYTES,
    SPARSE,
    SPARSE_RECORD_HEAD_BYTES,
    CorruptBatch,
    Header,
    build_batch,
    decode_records,
    encode_sparse,
    plain_payload,
    read_header,
)
from liftlog.mutants import Mutants
from liftlog.subjects.grammar import SEPARATOR, pattern_tokens, tokens_match
from liftlog.types import Batch, PartitionId

_DENSE = struct.Struct("<IiHHIi")
_SPARSE = struct.Struct("<IIiHHIi")
"""Heads of records, without the length of the value."""
_SPARSE_START = struct.Struct("<IIi")
_DENSE_COPIED_FROM = 8
_SPARSE_COPIED_FROM = 12
"""Behind length, place and time: from here on a record's bytes are copied."""
_LENGTH_COVERS = _SPARSE_COPIED_FROM - LENGTH_FIELD_BYTES
_LEAST_DELTA = -(1 << 31)
SUBJECTS_KNOWN = 4096
"""Of so many subjects is remembered whether they are wanted."""


class FoundRecord(NamedTuple):
    """A record that is wanted: offset less base offset, time less the batch's first, and from where to where
    the rest of it lies in the payload.
    """

    place: int
    delta: int
    begin: int
    end: int


class RecordFilter:
    """Which records: on a subject that one of the patterns matches, and with one of the keys. None given: all
    subjects, and records with any key or none. Raises PatternRefused.
    """

    __slots__ = ("_patterns", "keys", "known")

    def __init__(self, patterns: Sequence[str | Sequence[str]], keys: Sequence[bytes] = ()) -> None:
        """A pattern may be given as its tokens."""
        self._patterns = [pattern_tokens(one) if isinstance(one, str) else one for one in patterns]
        self.known: dict[bytes, bool] = {}
        self.keys = frozenset(keys)

    @property
    def by_subject(self) -> bool:
        return bool(self._patterns)

    def on(self, subject: bytes) -> bool:
        """Whether a record on this subject is wanted, as far as that goes."""
        known = self.known.get(subject)
        if known is None:
            if len(self.known) >= SUBJECTS_KNOWN:
                self.known.clear()
            tokens = subject.decode("utf-8", "replace").split(SEPARATOR)
            known = not self._patterns or any(tokens_match(one, tokens) for one in self._patterns)
            self.known[subject] = known
        return known

    def wants(self, subject: bytes, key: bytes | None) -> bool:
        """Whether a record is wanted."""
        return self.on(subject) and (not self.keys or key in self.keys)


def part_of(log: PartitionId, batch: Batch, wanted: RecordFilter, start: int, end: int) -> Batch | None:
    """What is wanted of a batch at offsets [start, end), and nothing else; None if there is nothing. What the
    system writes for itself is nobody's. Raises like `decode_records`.
    """
    header = read_header(batch.data)
    if header.control:
        return None
    payload, position = opened(header, batch.data)
    base = header.base_offset
    found = list(find(header, payload, position, wanted, start - base))
    while found and base + found[-1].place >= end:
        found.pop()
    return copied(log, batch, header, payload, found, min(end, batch.end_offset))


class Gathering:
    """S2: what is wanted of a log, batch by batch, until there is enough. `looked`: all that is wanted from
    where it began up to there is in `parts`. `full`: the next part has no room, and begins at `looked` or
    above.
    """

    __slots__ = ("_below", "_bytes", "_log", "_max_bytes", "_mutants", "_wanted", "full", "looked", "parts")

    def __init__(
        self, log: PartitionId, wanted: RecordFilter, start: int, below: int, max_bytes: int, mutants: Mutants
    ) -> None:
        self._log = log
        self._wanted = wanted
        self._below = below
        self._max_bytes = max_bytes
        self._mutants = mutants
        self._bytes = 0
        self.parts: list[Batch] = []
        self.looked = start
        self.full = False

    @property
    def done(self) -> bool:
        return self.full or self.looked >= self._below

    def take(self, batches: Sequence[Batch]) -> None:
        """The batches that follow, the first of which holds `looked`. Raises like `decode_records`: what was
        taken before stays.
        """
        for batch in batches:
            if self.done:
                return
            part = part_of(self._log, batch, self._wanted, self.looked, self._below)
            if part is not None:
                if self.parts and self._bytes + len(part.data) > self._max_bytes:
                    self.full = True
                    if self._mutants.picked_skips_the_rest:
                        self.looked = min(batch.end_offset, self._below)
                    return
                self.parts.append(part)
                self._bytes += len(part.data)
            elif self._wanted.keys and self._mutants.picked_ends_at_nothing:
                self.looked = min(batches[-1].end_offset, self._below)
                return
            self.looked = min(batch.end_offset, self._below)


def opened(header: Header, data: bytes) -> tuple[bytes, int]:
    """The plain records and where they begin in these bytes. Raises CorruptBatch, MissingCodec."""
    return (plain_payload(header, data), 0) if header.attributes & CODEC_MASK else (data, HEADER_BYTES)


def find(
    header: Header, payload: bytes, position: int, wanted: RecordFilter, first: int = 0
) -> Iterator[FoundRecord]:
    """All that are wanted, from the place `first` on. Raises CorruptBatch at the end if the records do not
    fill the batch.
    """
    sparse = header.attributes & SPARSE
    unpack = _SPARSE.unpack_from if sparse else _DENSE.unpack_from
    strings_from = SPARSE_RECORD_HEAD_BYTES if sparse else RECORD_HEAD_BYTES
    copied_from = _SPARSE_COPIED_FROM if sparse else _DENSE_COPIED_FROM
    on, keys = wanted.on if wanted.by_subject else None, wanted.keys
    known, make = wanted.known.get, tuple.__new__
    place = 0
    try:
        for number in range(header.records):
            if sparse:
                length, place, delta, subject_bytes, reply, headers, key_bytes = unpack(payload, position)
            else:
                length, delta, subject_bytes, reply, headers, key_bytes = unpack(payload, position)
                place = number
            start, begin = position, position + strings_from
            position += LENGTH_FIELD_BYTES + length
            if place < first:
                continue
            if on is not None:
                subject = payload[begin : begin + subject_bytes]
                hit = known(subject)
                if not (on(subject) if hit is None else hit):
                    continue
            if keys:
                begin += subject_bytes + reply + headers
                if key_bytes < 0 or payload[begin : begin + key_bytes] not in keys:
                    continue
            yield make(FoundRecord, (place, delta, start + copied_from, position))
    except struct.error:
        position = -1
    if position != len(payload):
        raise CorruptBatch(f"the records of the batch at offset {header.base_offset} do not fill it")


def copied(
    log: PartitionId, batch: Batch, header: Header, payload: bytes, found: list[FoundRecord], end: int
) -> Batch | None:
    """A batch of what was found in one, up to `end`; None if that is nothing."""
    if not found:
        return None
    if len(found) == header.records:
        return batch
    first, last = found[0], found[-1]
    dense = not header.attributes & (SPARSE | CODEC_MASK)
    one_time = header.first_timestamp_ms == header.last_timestamp_ms
    if dense and one_time and last.place - first.place + 1 == len(found) and not any(f[1] for f in found):
        return build_batch(
            log,
            header.base_offset + first.place,
            header.epoch,
            [payload[first.begin - _DENSE_COPIED_FROM : last.end]],
            count=len(found),
            first_ms=header.first_timestamp_ms,
            last_ms=header.last_timestamp_ms,
        )
    return _sparse(log, header, payload, found, end)


def _sparse(log: PartitionId, header: Header, payload: bytes, found: list[FoundRecord], end: int) -> Batch:
    """What was found, record by record."""
    base, count = header.base_offset, end - header.base_offset
    deltas = [one[1] for one in found]
    least = min(deltas, default=0) - deltas[0] if deltas else 0
    greatest = max(deltas, default=0) - deltas[0] if deltas else 0
    if len(found) >= count or least < _LEAST_DELTA or greatest >= -_LEAST_DELTA:
        # None is missing, or the times are counted from elsewhere: seldom, and the format knows how.
        kept = {base + one.place for one in found}
        data = build_plain(log, header, payload)
        records = [record for record in decode_records(data) if record.offset in kept]
        return encode_sparse(log, header.epoch, base, end, records)
    pack, zero = _SPARSE_START.pack, deltas[0] if deltas else 0
    parts: list[bytes] = []
    for place, delta, start, stop in found:
        parts.append(pack(stop - start + _LENGTH_COVERS, place, delta - zero))
        parts.append(payload[start:stop])
    first_ms = header.first_timestamp_ms + zero if found else 0
    return build_batch(
        log,
        base,
        header.epoch,
        parts,
        count=count,
        first_ms=first_ms,
        last_ms=first_ms + greatest,
        attributes=SPARSE,
        records=len(found),
    )


def build_plain(log: PartitionId, header: Header, payload: bytes) -> Batch:
    """The batch without its codec."""
    begin = 0 if header.attributes & CODEC_MASK else HEADER_BYTES
    return build_batch(
        log,
        header.base_offset,
        header.epoch,
        [payload[begin:]],
        count=header.count,
        first_ms=header.first_timestamp_ms,
        last_ms=header.last_timestamp_ms,
        attributes=header.attributes & SPARSE,
        records=header.records if header.sparse else 0,
    )
