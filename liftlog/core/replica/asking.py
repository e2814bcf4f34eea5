"""What a leader asks its partition's subject index (S1): it has to reach far enough, and a node asks only so
many questions at once.
"""

from __future__ import annotations

from liftlog.core.replica.indexstate import KEPT_MS
from liftlog.core.replica.state import JOBS_WAIT, LogState


def index_reaches(data: LogState, least: int) -> bool:
    """Whether the index has everything below `least`. If it has not, storage is to go on with it."""
    if data.index.has(least):
        return True
    data.index.want(least, data.ctx.ticks_of(KEPT_MS))
    data.touch(JOBS_WAIT)
    return False


def question_number(asker: LogState) -> int:
    """The number of a question of this log's leader, which is asked now; 0: it has to wait."""
    number = asker.ctx.new_ticket()
    return number if asker.ctx.reads.begin_fold(asker.id, number, lasts=True) else 0
