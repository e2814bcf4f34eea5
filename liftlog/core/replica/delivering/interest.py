"""Interest (R27): a message is gone when every consumer that is to be given it is done with it, and at once
where none is. The leader looks which messages nobody wants, and writes that.

    due     looked at is what was committed, once; again what a consumer is done with, when the entry of that
            is folded; and everything when a consumer is deleted, or a leader is new
    wanted  a consumer wants what is pending with it, and what lies at its position and above, as far as its
            filters match: where such a consumer has not come so far yet, the subject index is asked (S1)
    write   what nobody wants goes into the journal, as runs of offsets (R21), as what consumers are done with
            (R26): so nothing is counted anew for it

It goes by what is folded of consumers. What is written and not folded yet makes no message wanted, but for a
consumer that is made: the leader waits while that is under way, and asks the index again if one was made
since. Nothing is remembered beside the journal: a new leader looks at everything, when it knows all that it
inherited. What was delivered as often as it may be is done with; a dead letter is when it is stored (K9).

Copies evaluate nothing: all hide what the entries name. The model is `interest`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

from liftlog.core.consumers.state import Consumer
from liftlog.core.replica.removal.entries import RUNS_MAX
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.removal.subjectpurge import SubjectPurges
from liftlog.core.replica.state.asking import ask_subjects, index_reaches
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.pausing import Pause
from liftlog.core.replica.state.role import LeaderState
from liftlog.messages import MATCHING_RUNS, Named, SubjectsFolded, SubjectsTold, runs_of
from liftlog.offsets import CHUNK, OffsetSet
from liftlog.types import NO_OFFSET, NUMBER_MAX, OffsetRange

AHEAD_MAX = 64
"""So many entries at most are on their way."""


class Making(Protocol):
    """Who makes consumers."""

    @property
    def is_making(self) -> bool:
        """Whether the entry of one is written, and not folded, or of other filters of one."""
        ...


class LookedAt(NamedTuple):
    """Offsets [start, end) that are looked at. `patterns`: what consumers want of all of them that have not
    come there yet. `numbers`: which consumers there were, and with which filters.
    """

    start: int
    end: int
    patterns: tuple[str, ...]
    numbers: tuple[tuple[int, tuple[str, ...]], ...]


class Interest:
    """Of one leader, in one epoch. `log`: the journal; `office`: of the data."""

    __slots__ = (
        *("_at", "_ctx", "_data", "_due", "_ended", "_log", "_looking", "_making", "_office", "_on"),
        *("_pause", "_purges", "_removed", "_seen", "_window", "asked"),
    )

    def __init__(
        self,
        log: LogState,
        data: LogState,
        office: LeaderState,
        removed: Removed,
        purges: SubjectPurges,
        making: Making,
    ) -> None:
        """`purges`: who else writes what goes. `making`: who makes consumers."""
        self._log = log
        self._ctx = log.ctx
        self._data = data
        self._office = office
        self._removed = removed
        self._purges = purges
        self._making = making
        self._on = False
        self._seen = 0
        """What lies below was due once."""
        self._ended: list[tuple[int, list[Named]]] = []
        """What is due when the journal is folded up to there: a consumer is done with it then."""
        self._due = OffsetSet()
        self._looking = OffsetSet()
        """What is looked at now, from `_at` on; what becomes due meanwhile is looked at behind it."""
        self._at = 0
        self._window: LookedAt | None = None
        """What the index was asked about."""
        self._pause = Pause(self._ctx)
        self.asked = 0
        """The question that storage has; 0 = none."""

    # -- what is due -----------------------------------------------------------------------------------

    @property
    def is_on(self) -> bool:
        """Whether messages of this stream go so."""
        config = self._data.config
        return config is not None and config.interest is True

    def ended(self, offsets: Sequence[int], end: int) -> None:
        """An entry that ends there says that a consumer is done with these."""
        if self.is_on:
            self._ended.append((end, runs_of(sorted(offsets))))

    def look_again(self) -> None:
        """A consumer is no more, or has other filters, by what is folded: it may have been the last one that
        wanted some.
        """
        self._due.add(self._data.log_start, self._seen)

    def tick(self) -> bool:
        """A tick of a leader that serves consumers. Whether entries were written."""
        data, was_on, self._on = self._data, self._on, self.is_on
        if not self._on:
            return False
        if not was_on:
            # What a consumer was done with before is not known to this.
            self._ended.append((self._log.leo, [(data.log_start, data.hw - data.log_start)]))
            self._seen = data.hw
            if self._ctx.mutants.interest_not_inherited:
                self._ended.clear()
        self._due.add(self._seen, data.hw)
        self._seen = max(self._seen, data.hw)
        folded = self._removed.folded
        for start, length in (run for end, runs in self._ended if end <= folded for run in runs):
            self._due.add(start, start + length)
        self._ended = [one for one in self._ended if one[0] > folded]
        return self._go_on()

    # -- looking ---------------------------------------------------------------------------------------

    def _may_look(self) -> bool:
        """Whether this leader says now what is gone."""
        if not self._due and not self._looking:
            return False
        if not self._on or self.asked or self._office.no_promise or self._purges.counts:
            return False
        if self._log.leo - self._log.hw > AHEAD_MAX or not self._removed.is_known:
            return False
        return self._ctx.decides(("R27.making", not self._making.is_making))

    def _go_on(self) -> bool:
        """Look at what is due, as far as nothing is to be waited for. Whether entries were written."""
        wrote = False
        while self._may_look():
            window = self._next()
            if window is None:
                break
            if window.patterns and next(self._unwanted(window, ()), None) is not None:
                self._ask(window)
                break
            wrote |= self._take(window, (), window.end)
        return wrote

    def _next(self) -> LookedAt | None:
        """The first offsets that are due, if there are any, up to where another consumer comes in."""
        first = next(self._looking.runs(self._at, NUMBER_MAX), None)
        if first is None:
            self._looking, self._due, self._at = self._due, OffsetSet(), self._data.log_start
            first = next(self._looking.runs(self._at, NUMBER_MAX), None)
            if first is None:
                return None
        start, end = first.start, min(first.start + CHUNK, self._seen)
        patterns: list[str] = []
        for one in self._consumers():
            begins, theirs = max(one.position, one.since), one.config.patterns
            if theirs and self._ctx.mutants.interest_forgets_filters:
                continue
            if begins <= start:
                patterns += theirs or (">",)
            elif begins < end:
                end = begins
        return LookedAt(start, end, tuple(dict.fromkeys(patterns)), self._numbers())

    def _consumers(self) -> list[Consumer]:
        there = list(self._removed.consumers.by_number.values())
        return there[:1] if self._ctx.mutants.interest_of_one else there

    def _numbers(self) -> tuple[tuple[int, tuple[str, ...]], ...]:
        there = self._removed.consumers.by_number
        return tuple((number, one.config.patterns) for number, one in there.items())

    def _unwanted(self, window: LookedAt, matching: Sequence[OffsetRange]) -> Iterator[OffsetRange]:
        """What of these is due, and there, and is wanted by nobody. `matching`: what the index says."""
        start, end = window.start, window.end
        if ">" in window.patterns:
            return
        held = OffsetSet()
        for run in matching:
            held.add(*run)
        for one in self._consumers():
            held.add_all(one.lasts, max(start, one.position), min(end, one.since))
            for offset in self._pending_in(one.pending, start, end):
                held.add(offset, offset + 1)
        hidden = self._removed.hidden(self._data.history)
        for run in self._looking.runs(max(start, self._data.log_start), end):
            for there in hidden.missing_runs(*run):
                yield from held.missing_runs(*there)

    def _pending_in(self, pending: dict[int, int], start: int, end: int) -> list[int]:
        """Which of those that are looked at are among these."""
        if self._ctx.mutants.interest_takes_pending:
            return []
        if len(pending) <= self._looking.count(start, end):
            return [offset for offset in pending if start <= offset < end]
        runs = self._looking.runs(start, end)
        return [offset for run in runs for offset in range(*run) if offset in pending]

    def _take(self, window: LookedAt, matching: Sequence[OffsetRange], end: int) -> bool:
        """These are looked at. Whether entries were written: of the ones that nobody wants."""
        unwanted = self._unwanted(window._replace(end=end), matching)
        runs = tuple(islice(unwanted, RUNS_MAX))
        more = next(unwanted, None)
        self._at = end if more is None else more.start
        if not self._purges.write(runs, self._data.history, done_with=True):
            return False
        self._ctx.mark("R27.unwanted")
        return True

    # -- asking ----------------------------------------------------------------------------------------

    def _ask(self, window: LookedAt) -> None:
        """Which of these match the filters of consumers that have not come there yet."""
        data = self._data
        if self._pause.on or not index_reaches(data, window.end):
            return
        self._window = window
        self.asked = ask_subjects(
            self._log,
            data,
            what=MATCHING_RUNS,
            least=window.end,
            until=window.end,
            offset=window.start,
            limit=RUNS_MAX,
            gone=self._removed.hidden(data.history),
            patterns=window.patterns,
        )

    def told(self, event: SubjectsTold | SubjectsFolded) -> bool:
        """The answer to the question `asked`. Whether entries were written."""
        self.asked = 0
        window, self._window = self._window, None
        if isinstance(event, SubjectsFolded):
            self._data.index.reached(event.folded, event.ready)
            return self._go_on()
        if event.error or window is None:
            self._leave_alone()
            return False
        if not self._may_look():
            return False
        if not self._ctx.decides(("R27.meanwhile", window.numbers == self._numbers())):
            return self._go_on()
        self._ctx.mark("R27.asked")
        end = window.end if event.place == NO_OFFSET else event.place
        wrote = self._take(window, event.runs, end)
        return self._go_on() or wrote

    def folded(self, event: SubjectsFolded) -> None:
        """Storage has gone on with the index, or says why it cannot; it is asked at a tick."""
        if self._on and (event.error or event.folded < 0):
            self._leave_alone()

    def _leave_alone(self) -> None:
        self._ctx.mark("R27.paused")
        self._pause.begin()
