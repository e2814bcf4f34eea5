"""The truth about markers (R24): messages that leaders store where the last one of a subject goes.

    MarkerLeft   in a stream that leaves markers: when an entry names a message for its time or its age alone,
                 and that is no marker, a committed message of its subject is left, or has rolled it up
    MarkerDue    what lies before a committed marker, of its subject, is gone by a committed entry, or below
                 where a copy begins (C3), or over its time or too old by the marker's own stamp; and what it
                 says that it stands for is the last of these that no entry names, and no marker
"""

from __future__ import annotations

from collections.abc import Collection

from liftlog.options.headers import LAST_OF_SUBJECT
from liftlog.options.marking import MAX_AGE, REASON, is_marker
from liftlog.types import Record
from liftlog_sim.truth.asked import newer_of_subject, over_at
from liftlog_sim.truth.invariants import PartitionTruth, Violation

MARKS = REASON + b": " + MAX_AGE
STANDS_FOR = LAST_OF_SUBJECT + b": "


def check_left(data: PartitionTruth, offset: int, gone: Collection[int]) -> None:
    """An entry names this message for its time, and these are gone by it and those before it. Raises
    Violation.
    """
    record = data.contents.committed[offset]
    if record is None or is_marker(record.headers):
        return
    data.checks["MarkerLeft"] += 1
    older = (data.contents.committed[at] for at in range(offset) if at not in gone)
    if any(one is not None and one.subject == record.subject for one in older):
        return
    if not newer_of_subject(data, offset, gone):
        subject = record.subject.decode()
        text = f"partition {data.id}: offset {offset} goes for its time, nothing of {subject!r} is left"
        raise Violation("MarkerLeft", f"{text}, and no marker is there")


def check_due(data: PartitionTruth, marker: Record, gone: Collection[int], age_ms: int) -> None:
    """A marker is committed, when so much is gone by what is committed of the journal, or lies below where a
    copy begins. `age_ms`: the least age at which messages of the stream ever were to go; 0: they were not.
    Raises Violation.
    """
    data.checks["MarkerDue"] += 1
    lines = marker.headers.split(b"\r\n")
    named = next((int(line[len(STANDS_FOR) :]) - 1 for line in lines if line.startswith(STANDS_FOR)), -1)
    where = f"partition {data.id}: the marker at offset {marker.offset} is stored"
    last = -1
    for offset in range(marker.offset):
        record = data.contents.committed[offset]
        if record is None or record.subject != marker.subject or offset in gone:
            continue
        too_old = age_ms > 0 and record.timestamp_ms < marker.timestamp_ms - age_ms
        if not too_old and over_at(data, offset) > marker.timestamp_ms:
            raise Violation("MarkerDue", f"{where}, and takes offset {offset}, which is to stay")
        last = offset
    if last >= 0 and is_marker(data.contents.committed[last].headers):  # type: ignore[union-attr]
        raise Violation("MarkerDue", f"{where} for offset {last}, which is a marker")
    if named >= 0 and last not in (-1, named):
        raise Violation("MarkerDue", f"{where} for offset {named}, and the last one is {last}")


def stored_by_leader(record: Record | None) -> bool:
    """Whether it is a marker."""
    return record is not None and MARKS in record.headers
