"""How many bytes there are, and which messages are too many of them (R25): the subject index says it (S1).

Asked when all that is written to be gone is committed and heeded, about what is committed and others have
gone through. What it says is used if nothing was written meanwhile that deletes; else it is asked again.
Where the index cannot be made, nothing goes by this limit for `PAUSE_MS`, and then it is tried again.
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.removal.subjectpurge import SubjectPurges
from liftlog.core.replica.state.asking import ask_subjects, index_reaches
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.pausing import Pause
from liftlog.messages import NEWEST_BYTES, SubjectsFolded, SubjectsTold


class SizeQuestion(NamedTuple):
    """What was asked: of messages below `until`, when entries that delete ended at `written`."""

    until: int
    folded: int
    written: int
    log_start: int
    most: int


class ByteLimits:
    """Of the leader of a journal, in one epoch."""

    __slots__ = ("_ctx", "_data", "_fits", "_log", "_pause", "_purges", "_question", "_removed", "asked")

    def __init__(self, log: LogState, data: LogState, removed: Removed, purges: SubjectPurges) -> None:
        """`log`: the journal. `purges`: who else writes what goes."""
        self._ctx = log.ctx
        self._log = log
        self._data = data
        self._removed = removed
        self._purges = purges
        self._question: SizeQuestion | None = None
        self._fits: SizeQuestion | None = None
        """As it was when there were not too many."""
        self._pause = Pause(self._ctx)
        self.asked = 0
        """The question that storage has; 0 = none."""

    def ask(self, until: int, most: int) -> None:
        """Whether the messages below `until` are more than `most` bytes, if that is not known already. The
        caller has seen that nothing is on its way to be gone.
        """
        data, ctx = self._data, self._ctx
        question = self._about(until, most)
        if not most or self.asked or question == self._fits or self._pause.on:
            return
        if index_reaches(data, until):
            self._question = question
            self.asked = ask_subjects(
                self._log,
                data,
                what=NEWEST_BYTES,
                least=until,
                until=until,
                limit=most,
                gone=self._removed.hidden(data.history) if not ctx.mutants.bytes_count_deleted else None,
            )

    def _about(self, until: int, most: int) -> SizeQuestion:
        data = self._data
        return SizeQuestion(until, self._removed.folded, self._purges.written, data.log_start, most)

    def told(self, event: SubjectsTold | SubjectsFolded, most: int) -> int:
        """The answer to the question `asked`: what lies below here goes, by a limit of `most`; 0: nothing."""
        self.asked = 0
        question = self._question
        if isinstance(event, SubjectsFolded):
            self._data.index.reached(event.folded, event.ready)
        elif event.error:
            self._leave_alone()
        elif question is not None:
            if not event.place:
                self._fits = question
            same = question.most == most and question.written == self._purges.written
            return event.place if self._ctx.decides(("R25.meanwhile", same)) else 0
        return 0

    def folded(self, event: SubjectsFolded) -> None:
        """Storage has gone on with the index, or says why it cannot."""
        config = self._data.config
        limits = config is not None and config.retention_bytes > 0
        if limits and (event.error or event.folded < 0):
            self._leave_alone()

    def _leave_alone(self) -> None:
        self._ctx.mark("R25.bytes-paused")
        self._pause.begin()
