"""So many messages of a subject stay, the newest (R22): the leader finds which ones go, and writes that.

    look     a tick after more was committed: of all that is committed, which messages are not among the
             newest N of their subject? The subject index says it (S1), some chunks of offsets at a time
    write    what it names goes into the journal, as runs of offsets, an entry for each answer (R21); the next
             part is asked for when that is committed

Whoever counts knows what is on its way: the journal is committed and heeded to its end when the index is
asked, and if another entry was written meanwhile the answer is not used, and it is asked again. A look is
about what was committed when it began; what comes meanwhile is the next one's. A new leader looks at
everything: so nothing is to be remembered of what the one before has found, and not written. A limit that was
lowered is one that is looked at anew. What is gone stays gone.

Copies evaluate nothing: all hide what the entries name. The model is `subject_limits`.
"""

from __future__ import annotations

from liftlog.core.replica.removal.entries import RUNS_MAX
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.removal.subjectpurge import SubjectPurges
from liftlog.core.replica.state.asking import ask_subjects, index_reaches
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.pausing import Pause
from liftlog.messages import BEYOND_NEWEST, SubjectsFolded, SubjectsTold
from liftlog.types import NO_OFFSET


class SubjectLimits:
    """Of the leader of a journal, in one epoch."""

    __slots__ = (
        *("_at", "_ctx", "_data", "_done", "_keep", "_purges", "_removed"),
        *("_pause", "_question", "_until", "asked", "log"),
    )

    def __init__(self, log: LogState, data: LogState, removed: Removed, purges: SubjectPurges) -> None:
        """`log`: the journal. `purges`: who else writes what goes."""
        self.log = log
        self._ctx = log.ctx
        self._data = data
        self._removed = removed
        self._purges = purges
        self._keep = 0
        self._done = 0
        """Of what was committed below, no subject has more than `_keep`."""
        self._at = 0
        self._until = 0
        """The look that is under way: what goes below it is written up to `_at`; 0 = there is none."""
        self._pause = Pause(self._ctx)
        self._question = (0, 0, 0, 0)
        """What the index was asked about, and where what is to be gone ended then."""
        self.asked = 0
        """The question that storage has; 0 = none."""

    @property
    def through(self) -> int:
        """Of what lies below, all is written that goes by this limit."""
        config = self._data.config
        keep = config.keeps_of_subject if config is not None else 0
        if not keep:
            return self._data.hw
        return self._done if keep == self._keep else 0

    def tick(self) -> None:
        """Begin to look, if there is anything to look at; at most once a tick."""
        config = self._data.config
        keep = config.keeps_of_subject if config is not None else 0
        if keep != self._keep:
            self._keep, self._done, self._until = keep, 0, 0
        more = self._done < self._data.hw and not self._pause.on
        if keep and more and not self._until:
            self._at, self._until = 0, self._data.hw
            if self._ctx.mutants.limit_looks_from_last and self._done:
                self._at = self._done
        self.go_on()

    def _may_write(self) -> bool:
        """Whether this leader says what is gone."""
        return self._purges.refusal(self._data) is None

    def go_on(self) -> None:
        """Ask the index for the next part, if nothing is to be waited for."""
        purges, data, removed, ctx = self._purges, self._data, self._removed, self._ctx
        if not self._until or self.asked or purges.counts or not self._may_write():
            return
        if not index_reaches(data, self._until):
            return
        waits_for = max(purges.written, removed.committed)
        if not removed.is_known or not ctx.decides(("R22.on-its-way", removed.folded >= waits_for)):
            return
        self._question = self._state()
        self.asked = ask_subjects(
            self.log,
            data,
            what=BEYOND_NEWEST,
            least=self._until,
            until=self._until,
            offset=self._at,
            limit=RUNS_MAX,
            gone=removed.hidden(data.history) if not ctx.mutants.limit_counts_deleted else None,
            keep=self._keep,
        )

    def _state(self) -> tuple[int, int, int, int]:
        return self._keep, self._at, self._until, self._purges.written

    def told(self, event: SubjectsTold | SubjectsFolded) -> bool:
        """The answer to the question `asked`. Whether an entry was written."""
        self.asked = 0
        purges, writes = self._purges, False
        if isinstance(event, SubjectsFolded):
            self._data.index.reached(event.folded, event.ready)
        elif event.error:
            self._leave_alone()
        elif self._until and self._still():
            writes = purges.write(event.runs, self._data.history)
            if writes:
                self._ctx.mark("R22.limited")
            self._at = event.place
            if event.place == NO_OFFSET:
                self._done, self._until = self._until, 0
        self.go_on()
        return writes

    def folded(self, event: SubjectsFolded) -> None:
        """Storage has gone on with the index, or says why it cannot."""
        if self._until and (event.error or event.folded < 0):
            self._leave_alone()
        self.go_on()

    def _leave_alone(self) -> None:
        """The look is over, and another one begins from the start."""
        self._ctx.mark("R22.paused")
        self._until = 0
        self._pause.begin()

    def _still(self) -> bool:
        """Whether what was counted is what there is: nothing was written meanwhile that deletes."""
        same = self._question == self._state()
        return self._may_write() and not self._purges.counts and self._ctx.decides(("R22.meanwhile", same))
