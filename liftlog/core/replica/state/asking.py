"""What a leader asks its partition's subject index (S1): it has to reach far enough, and a node asks only so
many questions at once.
"""

from __future__ import annotations

from liftlog.core.replica.state.indexstate import KEPT_MS
from liftlog.core.replica.state.log import JOBS_WAIT, LogState
from liftlog.messages import AskSubjects
from liftlog.offsets import OffsetSet


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


def ask_subjects(
    asker: LogState,
    data: LogState,
    *,
    what: str,
    least: int,
    until: int,
    offset: int = 0,
    limit: int = 0,
    gone: OffsetSet | None,
    keep: int = 0,
    pattern: str = "",
    patterns: tuple[str, ...] = (),
) -> int:
    """Ask, with the fields of an `AskSubjects`. Returns the question's number; 0: it has to wait."""
    number = question_number(asker)
    if number:
        asker.ctx.effects.append(
            AskSubjects(
                log=data.id,
                request=number,
                least=least,
                what=what,
                pattern=pattern,
                offset=offset,
                limit=limit,
                until=until,
                gone=gone,
                keep=keep,
                patterns=patterns,
            )
        )
    return number
