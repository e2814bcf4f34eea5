"""The truth about mirrors (R28).

    MirrorIsPrefix    what a mirror has committed, its origin has committed at the same offset; where the
                      mirror has no record, the origin's is gone, and the mirror's journal says so, if it
                      has one (`truth/removals.py`)
"""

from __future__ import annotations

from liftlog.types import NUMBER_MAX
from liftlog_sim.truth.invariants import PartitionTruth, Violation
from liftlog_sim.truth.removals import DeletionTruth


def mirrored(
    mirror: PartitionTruth,
    origin: PartitionTruth,
    before: int,
    start: int,
    deletions: DeletionTruth,
) -> None:
    """More of a mirror is committed than what lies below `before`. `start`: where that copy of the origin
    begins which begins last; `deletions`: of the origin. Raises Violation(MirrorIsPrefix).
    """
    known = origin.contents.committed
    for offset in range(before, mirror.hw):
        record = mirror.contents.committed[offset]
        if offset >= origin.hw:
            what = "nothing" if record is None else repr(record.value)
            text = f"has committed {what} at offset {offset}, and its origin {origin.id} ends at {origin.hw}"
        elif record is None:
            if offset < start or known[offset] is None or deletions.end_of(offset) < NUMBER_MAX:
                continue
            text = f"has nothing at offset {offset}, where its origin {origin.id} has a record"
        elif record == known[offset]:
            continue
        else:
            text = f"has {record.value!r} at offset {offset}, and its origin {origin.id} has another record"
        raise Violation("MirrorIsPrefix", f"partition {mirror.id} {text}")
