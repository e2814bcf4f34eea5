"""A message may roll up those before it (R23): with `Nats-Rollup: sub` the older ones of its subject go, with
`all` the older ones of its partition. The leader finds out which these are, and writes that.

    find    the leader goes through what is committed, in order, and looks for the header
    write   what the subject index has before the roll-up (S1) goes into the journal, as runs of offsets, an
            entry for each answer (R21), and no more than some dozens on their way
    say     when nothing is left of what was found, an entry says up to where the data was gone through

Only what is committed is looked at, and a roll-up takes what lies before it, whatever came since: so it means
the same whenever it is acted on, and twice is harmless. A new leader begins where the newest entry says that
the data was gone through, which stands behind all that had to be written for that; and at the log's start,
where none does or the entry is about records that an operator gave up: it names their epoch.

Copies evaluate nothing: all hide what the entries name. The model is `roll_ups`.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.core.replica.removal.entries import RUNS_MAX, RolledUp
from liftlog.core.replica.removal.passage import UNKNOWN, Passage, SaidThrough
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.removal.subjectpurge import SubjectPurges
from liftlog.core.replica.state.asking import ask_subjects, index_reaches
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.pausing import Pause
from liftlog.core.replica.state.role import LeaderState
from liftlog.messages import MATCHING_RUNS, LogRead, SubjectsFolded, SubjectsTold
from liftlog.options.headers import ALL_BEFORE, ROLLUP, rolled_up_by
from liftlog.types import NO_OFFSET, Record

FOUND_MAX = 1000
"""So many roll-ups are found, about, before they are acted on."""
AHEAD_MAX = 64
"""So many entries at most are on their way."""
SAID_EVERY = 10_000
"""So many messages are gone through, without a roll-up, before that is said."""
EVERY_SUBJECT = ">"


class RollUps:
    """Of the leader of a journal, in one epoch."""

    __slots__ = (
        *("_ctx", "_data", "_found", "_log", "_pause", "_place"),
        *("_purges", "_removed", "_said", "asked", "passage"),
    )

    def __init__(
        self,
        log: LogState,
        leading: LeaderState,
        data: LogState,
        removed: Removed,
        purges: SubjectPurges,
        moved: Callable[[], None],
    ) -> None:
        """`log`: the journal. `purges`: who else writes what goes. `moved`: whom to tell that entries were
        written.
        """
        self._log = log
        self._ctx = log.ctx
        self._data = data
        self._removed = removed
        self._purges = purges
        self.passage = Passage(data, ROLLUP, self._find, lambda: len(self._found) < FOUND_MAX)
        self._said = SaidThrough(log, leading, data, RolledUp, moved)
        self._found: dict[str, int] = {}
        """What is still to be acted on, of what lies below: what matches the pattern, and lies before the
        offset, is to go.
        """
        self._place = 0
        """What goes by the first of them below here is written."""
        self._pause = Pause(self._ctx)
        self.asked = 0
        """The question that storage has about subjects; 0 = none."""

    @property
    def through(self) -> int:
        """Of what lies below, all is written that goes by roll-ups."""
        config = self._data.config
        if config is None or not config.rolls_up:
            return self._data.hw
        return self._said.through if self._found else self.passage.at

    # -- what is to be done next -----------------------------------------------------------------------

    def go_on(self) -> None:
        """Act on what is found, or look further, if nothing is to be waited for."""
        ctx, config = self._ctx, self._data.config
        on = config is not None and config.rolls_up
        if not on or self.passage.request or self.asked or self._pause.on:
            return
        if self._purges.counts or self._purges.refusal(self._data) is not None:
            return
        if self._said.through == UNKNOWN:
            if not self._removed.heeds_all:
                return
            self._said.begin(self._begin())
        if not self._found:
            if not self.passage.go_on(self._until):
                self._leave_alone()
            if ctx.mutants.roll_up_said_first:
                self._say(1)
        if self._found:
            self._ask()
        elif not self.passage.request:
            self._say(SAID_EVERY)

    def _begin(self) -> int:
        """Where the leader before this one has come to, as far as that is said."""
        said, passage = self._removed.rolled_up, self.passage
        if self._ctx.mutants.roll_ups_not_inherited:
            return passage.begin(self._data.hw)
        if said is None:
            return passage.begin(0)
        ours = passage.is_of_ours(said)
        return passage.begin(said.through if self._ctx.decides(("R23.other-records", ours)) else 0)

    @property
    def _until(self) -> int:
        """Up to where is looked."""
        data = self._data
        return data.leo if self._ctx.mutants.roll_up_uncommitted else data.hw

    # -- finding ---------------------------------------------------------------------------------------

    def on_read(self, event: LogRead) -> None:
        """Storage has read a slice, or could not."""
        if not self.passage.on_read(event, self._until):
            self._leave_alone()
        self.go_on()

    def _find(self, record: Record) -> None:
        """An older roll-up of the same adds nothing to a newer one."""
        what = rolled_up_by(record.headers)
        if not what:
            return
        if what == ALL_BEFORE:
            self._found.clear()
        self._found[EVERY_SUBJECT if what == ALL_BEFORE else record.subject.decode()] = record.offset

    def _leave_alone(self) -> None:
        self._ctx.mark("R23.paused")
        self._pause.begin()

    # -- writing ---------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """What is there before the first of them."""
        data, ctx = self._data, self._ctx
        if self._log.leo - self._log.hw > AHEAD_MAX:
            return
        pattern, offset = next(iter(self._found.items()))
        least = min(offset, data.hw)
        if not index_reaches(data, least):
            return
        self.asked = ask_subjects(
            self._log,
            data,
            what=MATCHING_RUNS,
            least=least,
            until=data.hw if ctx.mutants.roll_up_takes_newer else offset,
            offset=self._place,
            limit=RUNS_MAX,
            gone=self._removed.hidden(data.history),
            pattern=pattern,
        )

    def told(self, event: SubjectsTold | SubjectsFolded) -> bool:
        """The answer to the question `asked`. Whether an entry was written."""
        self.asked = 0
        purges, writes = self._purges, False
        if isinstance(event, SubjectsFolded):
            self._data.index.reached(event.folded, event.ready)
        elif event.error:
            self._leave_alone()
        elif self._found and not purges.counts and purges.refusal(self._data) is None:
            writes = purges.write(event.runs, self._data.history)
            if writes:
                self._ctx.mark("R23.rolled-up")
            self._place = event.place
            if event.place == NO_OFFSET:
                del self._found[next(iter(self._found))]
                self._place = 0
            if not self._found:
                self._say(1)
        self.go_on()
        return writes

    def folded(self, event: SubjectsFolded) -> None:
        """Storage has gone on with the index, or says why it cannot."""
        if self._found and (event.error or event.folded < 0):
            self._leave_alone()
        self.go_on()

    def _say(self, least: int) -> None:
        """Write up to where the data is gone through, if that is so much more than what was said."""
        if self._said.say(self.passage.at, least):
            self._ctx.mark("R23.said")
