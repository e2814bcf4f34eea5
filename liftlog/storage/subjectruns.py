"""The subjects of a batch's records, with their offsets and sizes: what a subject index is made of.

Nothing here decodes a record: the walk reads the fixed heads and the subjects behind them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from liftlog.format import (
    LENGTH_FIELD_BYTES,
    RECORD_HEAD_BYTES,
    SPARSE_RECORD_HEAD_BYTES,
    CorruptBatch,
    plain_payload,
    read_header,
)
from liftlog.sizes import message_bytes
from liftlog.types import Batch

SubjectRun = tuple[int, list[bytes], list[int]]
"""An offset, the subjects of the records there and behind it, without a gap, and what each counts for."""

_DENSE = struct.Struct("<IiHHIii")
_SPARSE = struct.Struct("<IIiHHIii")


def subject_runs(batch: Batch, start: int, end: int) -> list[SubjectRun]:
    """Of the records at offsets [start, end) of an open batch. Control batches have none (M1).

    Raises CorruptBatch if the records do not fill the batch; MissingCodec.
    """
    header = read_header(batch.data)
    if header.control:
        return []
    payload, position = plain_payload(header, batch.data), 0
    base_offset, sparse = header.base_offset, header.sparse
    unpack = _SPARSE.unpack_from if sparse else _DENSE.unpack_from
    text_from = SPARSE_RECORD_HEAD_BYTES if sparse else RECORD_HEAD_BYTES
    place = -1
    runs: list[SubjectRun] = []
    due = -1
    try:
        for _ in range(header.records):
            if sparse:
                length, place, _, subject_bytes, _, headers, _, value = unpack(payload, position)
            else:
                length, _, subject_bytes, _, headers, _, value = unpack(payload, position)
                place += 1
            offset = base_offset + place
            if start <= offset < end:
                begin = position + text_from
                subject = payload[begin : begin + subject_bytes]
                if offset != due:
                    runs.append((offset, [], []))
                runs[-1][1].append(subject)
                runs[-1][2].append(message_bytes(subject_bytes, headers, max(value, 0)))
                due = offset + 1
            position += LENGTH_FIELD_BYTES + length
    except struct.error:
        position = -1
    if position != len(payload):
        raise CorruptBatch(f"the records of the batch at {base_offset} do not fill it")
    return runs


def joined_runs(batches: Iterable[Batch], start: int, end: int) -> list[SubjectRun]:
    """Of the records at offsets [start, end) of batches that follow each other. Raises as `subject_runs`."""
    joined: list[SubjectRun] = []
    for batch in batches:
        for run in subject_runs(batch, start, min(batch.end_offset, end)):
            if joined and joined[-1][0] + len(joined[-1][1]) == run[0]:
                joined[-1][1].extend(run[1])
                joined[-1][2].extend(run[2])
            else:
                joined.append(run)
    return joined


def gaps_between(runs: list[SubjectRun], start: int, end: int) -> list[tuple[int, int]]:
    """The offsets of [start, end) that are in none of the runs, as ranges [first, end)."""
    gaps = []
    due = start
    for offset, subjects, _ in runs:
        if offset > due:
            gaps.append((due, offset))
        due = offset + len(subjects)
    if due < end:
        gaps.append((due, end))
    return gaps
