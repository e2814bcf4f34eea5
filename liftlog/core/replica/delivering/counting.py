"""How many messages are to come for consumers with filters (K8): the leader counts what is not counted yet.

    count     what is in memory is looked at here, so that who is at the end of the log asks nobody
    ask       else the subject index is (S1), for what lies behind what is counted: each committed message is
              counted once for a consumer, and delivered ones are taken off
    anew      when something is gone, all that is to come is counted again: it may have been among them. What
              a work queue's consumers are done with never was (R26)

One question of a partition at a time. Who waits for a count goes by one that was asked for after it came,
even if more is committed by then, or gone: so nobody waits for ever on a busy partition. Where the index
cannot be made nothing is counted for `PAUSE_MS`, and who asks is told so.
"""

from __future__ import annotations

from liftlog.core.consumers.choosing import matching
from liftlog.core.consumers.flight import Flight
from liftlog.core.consumers.tally import FlightTally, Moment
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.state.asking import index_reaches, question_number
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.pausing import Pause
from liftlog.format import CorruptBatch
from liftlog.messages import MATCHES_FROM, AskSubjects, SubjectsFolded, SubjectsTold
from liftlog.types import LiftlogError

COUNT_BYTES = 64 * 1024
"""So much in memory is looked at at once."""


class Counting:
    """Of the leader of a journal, in one epoch."""

    __slots__ = (
        *("_asked_of", "_ctx", "_data", "_log", "_pause", "_removed", "_wanted"),
        *("asked", "questions"),
    )

    def __init__(self, log: LogState, data: LogState, removed: Removed) -> None:
        """`log`: the journal."""
        self._log = log
        self._ctx = log.ctx
        self._data = data
        self._removed = removed
        self._wanted: dict[int, Flight] = {}
        """Who is to be counted for, by number."""
        self._asked_of: tuple[Flight, FlightTally, int, int, Moment] | None = None
        """For whom the index is asked, what it is added to, where that was then, and what was counted; and
        what was gone.
        """
        self._pause = Pause(self._ctx)
        self.asked = 0
        """The question that storage has; 0 = none."""
        self.questions = 0
        """So many were asked so far."""

    def is_known(self, flight: Flight, since: int) -> bool:
        """Whether it is counted what is to come: now, or by a question that was asked after the first `since`
        ones. If it is not, it will be. Also if nobody can tell, where the index cannot be made.
        """
        if not flight.filters or flight.tally.question > since or self._is_counted(flight):
            return True
        self._wanted[flight.consumer.number] = flight
        self._ask()
        return self._is_off

    @property
    def _is_off(self) -> bool:
        return self._pause.on

    def to_come(self, flight: Flight) -> int:
        """How many messages are not delivered yet, by the last count; -1: nobody can tell."""
        data = self._data
        begin, since = max(flight.ahead, data.log_start), flight.consumer.since
        lasts = sum(self._there(start, stop) for start, stop in flight.consumer.lasts.runs(begin, since))
        if flight.filters:
            unknown = flight.tally.moment is None or (self._is_off and not self._is_counted(flight))
            return -1 if unknown else lasts + flight.tally.matches
        return lasts + self._there(max(begin, since), data.hw)

    def behind(self, flight: Flight) -> int:
        """As `to_come`, of whom something was just delivered. Nobody can tell either if something is gone
        since it was counted: the position may have passed over that.
        """
        counted = not flight.filters or self._is_counted(flight)
        return self.to_come(flight) if counted or flight.tally.moment == self._now() else -1

    def _there(self, start: int, end: int) -> int:
        """How many messages of these are not deleted."""
        gone = sum(run.end - run.start for run in self._removed.hidden(self._data.history).runs(start, end))
        return max(0, end - start) - gone

    def _now(self) -> Moment:
        return self._data.log_start, self._removed.others

    def _begun(self, flight: Flight) -> tuple[int, int]:
        """What is counted that still holds: (matches, up to where)."""
        tally = flight.tally
        if tally.moment != self._now() and not self._ctx.mutants.counted_once:
            return 0, max(flight.ahead, self._data.log_start, flight.consumer.since)
        return tally.matches, max(tally.upto, flight.ahead, flight.consumer.since)

    def _is_counted(self, flight: Flight) -> bool:
        """Whether all is that is committed, as far as it is in memory."""
        data, (matches, start) = self._data, self._begun(flight)
        if start < data.hw:
            batches = data.cached(start, data.hw, COUNT_BYTES)
            if not batches or batches[-1].end_offset < data.hw:
                return False
            try:
                shown = self._removed.visible(data.id, batches)
                found = [one for batch in shown for one in matching(batch, flight.counted, start)]
            except (CorruptBatch, LiftlogError):
                return False
            matches += sum(one < data.hw for one in found)
            self._ctx.mark("K8.counted")
        flight.tally.stands(matches, max(start, data.hw), self._now())
        return True

    def _ask(self) -> None:
        """Ask the index for the next one, if nothing is to be waited for."""
        data, ctx = self._data, self._ctx
        if self.asked or self._is_off or not self._wanted:
            return
        if not index_reaches(data, data.hw):
            return
        number = question_number(self._log)
        if not number:
            return
        flight = self._wanted.pop(next(iter(self._wanted)))
        matches, start = self._begun(flight)
        self.asked, self._asked_of = number, (flight, flight.tally, flight.ahead, matches, self._now())
        self.questions += 1
        ctx.effects.append(
            AskSubjects(
                log=data.id,
                request=number,
                least=data.hw,
                what=MATCHES_FROM,
                pattern="",
                offset=start,
                limit=0,
                gone=self._removed.hidden(data.history),
                patterns=flight.consumer.config.patterns,
            )
        )

    def told(self, event: SubjectsTold | SubjectsFolded) -> None:
        """The answer to the question `asked`."""
        self.asked = 0
        if isinstance(event, SubjectsFolded):
            self._data.index.reached(event.folded, event.ready)
        elif event.error:
            self._leave_alone()
        elif self._asked_of is not None:
            flight, tally, ahead, matches, moment = self._asked_of
            if flight.ahead == ahead and flight.tally is tally:
                self._ctx.mark("K8.asked")
                flight.tally.stands(matches + event.messages, event.folded, moment, self.questions)
        self._asked_of = None
        self._ask()

    def folded(self, event: SubjectsFolded) -> None:
        """Storage has gone on with the index, or says why it cannot."""
        if self._wanted and (event.error or event.folded < 0):
            self._leave_alone()
        self._ask()

    def tick(self) -> None:
        """Ask what could not be asked before."""
        self._ask()

    def remove(self, number: int) -> None:
        """The consumer is no more."""
        self._wanted.pop(number, None)

    def _leave_alone(self) -> None:
        self._ctx.mark("K8.paused")
        self._wanted.clear()
        self._pause.begin()
