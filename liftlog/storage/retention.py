"""What retention lets go (C3): whole segments at the front of a log.

Theory. A segment goes when nothing in it has to be kept: by age, when its youngest record is too old; by
bytes and by messages, when what follows it is enough by itself. So a log keeps at least what was promised and
up to one segment more. Segments go from the front only, since a log has no gaps; the first that has to stay
ends it. The active segment goes by age only, when all of it is too old: nothing else would ever end it while
nobody publishes, which a partition that is full waits for (C6).

Everything at or above `limit` stays, which is the HW or less: what is not committed anywhere else must not be
forgotten here. Nor is it counted as what follows: the next leader may have it cut off, and readers would be
left with less than was promised.

What the next leader needs stays all the same (L7): message ids are found in the log alone.

A limit on messages counts offsets, also those whose records compaction has removed.
"""

from __future__ import annotations

from liftlog.storage.log import Log
from liftlog.types import NUMBER_MAX, RetentionPolicy


def new_start(
    log: Log,
    policy: RetentionPolicy,
    limit: int,
    now_ms: int,
    needed_from: int = NUMBER_MAX,
    gone_below: int = 0,
) -> int:
    """Where the log may begin: the log start as it is, or the end of the last segment that goes. What lies at
    or above `needed_from` stays. Whole segments below `gone_below` go whatever the policy says (R25).
    """
    start = log.log_start
    following_bytes = bytes_below(log, limit)
    for segment in log.sealed:
        following_bytes -= segment.size
        if segment.end_offset > min(limit, needed_from):
            break
        too_old = policy.retention_ms and segment.greatest_ms < now_ms - policy.retention_ms
        enough_bytes = policy.retention_bytes and following_bytes >= policy.retention_bytes
        messages = min(limit, log.leo) - segment.end_offset
        enough_messages = policy.retention_messages and messages >= policy.retention_messages
        gone = segment.end_offset <= gone_below
        if not (too_old or enough_bytes or enough_messages or gone):
            break
        start = max(start, segment.end_offset)
    active = log.segment_of(log.leo)
    idle = policy.retention_ms and active.greatest_ms < now_ms - policy.retention_ms
    idle = idle or log.leo <= gone_below
    return log.leo if idle and active.base_offset <= start and log.leo <= min(limit, needed_from) else start


def bytes_below(log: Log, offset: int) -> int:
    """Bytes of the segment files that surely hold only what is below `offset`.

    Short by less than the spacing of an index, where that is in memory, else by a segment.
    """
    total = 0
    for segment in (*log.sealed, log.segment_of(log.leo)):
        if segment.end_offset <= offset:
            total += segment.size
        elif segment.holds_index:
            entry = segment.index.find(offset)
            total += segment.index.positions[entry] if entry >= 0 else 0
    return total
