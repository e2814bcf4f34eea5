"""The truth about mirrors (R28).

    MirrorIsPrefix    what a mirror has committed, its origin has committed at the same offset; where the
                      mirror has no record, the origin's is gone, or is none that it takes, and the mirror's
                      journal says so, if it has one (`truth/removals.py`)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from liftlog.types import NUMBER_MAX, Record
from liftlog_sim.devices.elsewhere import FarStream
from liftlog_sim.truth.invariants import PartitionTruth, Violation
from liftlog_sim.truth.metadata import Naming
from liftlog_sim.truth.removals import DeletionTruth


def mirrored(
    mirror: PartitionTruth,
    origin: PartitionTruth,
    before: int,
    start: int,
    deletions: DeletionTruth,
    takes: Callable[[Record], bool],
) -> None:
    """More of a mirror is committed than what lies below `before`. `start`: where that copy of the origin
    begins which begins last; `deletions`: of the origin; `takes`: whether the mirror has such a record.
    Raises Violation(MirrorIsPrefix).
    """
    known = origin.contents.committed
    for offset in range(before, mirror.hw):
        record = mirror.contents.committed[offset]
        if offset >= origin.hw:
            what = "nothing" if record is None else repr(record.value)
            text = f"has committed {what} at offset {offset}, and its origin {origin.id} ends at {origin.hw}"
        elif record is None:
            original = known[offset]
            if original is None or not takes(original):
                continue
            if offset < start or deletions.end_of(offset) < NUMBER_MAX:
                continue
            text = f"has nothing at offset {offset}, where its origin {origin.id} has a record"
        elif not takes(record):
            text = f"has {record.subject!r} at offset {offset}, which it does not take"
        elif record == known[offset]:
            continue
        else:
            text = f"has {record.value!r} at offset {offset}, and its origin {origin.id} has another record"
        raise Violation("MirrorIsPrefix", f"partition {mirror.id} {text}")


def mirrored_afar(
    mirror: PartitionTruth,
    naming: Naming | None,
    afar: Mapping[str, FarStream],
    before: int,
    takes: Callable[[Record], bool],
) -> None:
    """The same of a mirror of another cluster's stream: of the one that its configuration names."""
    origin = afar.get(naming.identity) if naming is not None else None
    if naming is None or origin is None:
        text = "names no origin that there ever was, and has committed something"
        raise Violation("MirrorIsPrefix", f"partition {mirror.id} {text}")
    if naming.partitions != len(origin.logs):
        text = f"{naming.partitions} partitions, and its origin {naming.identity} {len(origin.logs)}"
        raise Violation("MirrorIsPrefix", f"mirror {mirror.id.stream} has {text}")
    log = origin.logs[mirror.id.index]
    for offset in range(before, mirror.hw):
        record = mirror.contents.committed[offset]
        if offset >= len(log.records):
            text = f"ends behind offset {offset}, and its origin {naming.identity} at {len(log.records)}"
        elif record is None and (there := log.has(offset)) is not None and takes(there):
            text = f"has nothing at offset {offset}, where its origin {naming.identity} has a record"
        elif record not in (None, log.records[offset]):
            text = f"has {record!r} at offset {offset}, and its origin {naming.identity} has another record"
        elif record is not None and not takes(record):
            text = f"has {record.subject!r} at offset {offset}, which it does not take"
        else:
            continue
        raise Violation("MirrorIsPrefix", f"partition {mirror.id} {text}")
