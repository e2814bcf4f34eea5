"""A message may say for how long it is to stay (R24): with `Nats-TTL: 90` it goes 90 seconds after it came.
The leader finds out which messages are over their time, and writes that.

    find    the leader goes through what is committed, in order, and looks for the header; what is to go one
            day it keeps beside, with when, for some 100,000 messages
    write   what is over its time by this node's wall clock goes into the journal, as runs of offsets, some
            thousands in an entry (R21), and no more than some dozens of entries on their way
    say     an entry says below where none is left of those that are to go: no further than the first one that
            is kept beside

If there are more than are kept, those that are due latest are let go, and it is remembered from where on the
log is to be gone through again, when all that is kept is due later. A new leader begins where the newest
entry says, and reads again what lies behind. An entry twice is harmless.

Where the last message of a subject is to leave a marker, that is stored first (`markers.py`); what is over
stays here until it is gone, and is looked at again after a while.

A message is over its time when the clock of the leader has come so far since the time that its leader gave it
when it came. A clock that jumps ahead is not believed before it has stood for some seconds: what it shows in
between is nobody's time. Copies evaluate nothing: all hide what the entries name. The model is
`times-to-live`.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush

from liftlog.core.replica.removal.entries import RUNS_MAX, Outlived
from liftlog.core.replica.removal.markers import AGAIN_MS, OFFERED_MAX, Markers, Over, over
from liftlog.core.replica.removal.passage import UNKNOWN, Passage, SaidThrough
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.removal.subjectpurge import SubjectPurges
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.pausing import Pause
from liftlog.core.replica.state.role import LeaderState
from liftlog.messages import LogRead
from liftlog.offsets import OffsetSet
from liftlog.options.lifetime import TTL_LINE, stored_lifetime
from liftlog.types import NUMBER_MAX, OffsetRange, Record

HELD_MAX = 100_000
"""So many messages are kept beside; for a while a quarter more."""
AHEAD_MAX = 64
"""So many entries at most are on their way."""
SAID_EVERY = 10_000
"""So much further no message with a time is left before that is said, if some are left behind."""


class Lifetimes:
    """Of the leader of a journal, in one epoch."""

    __slots__ = (
        *("_again", "_ctx", "_data", "_doubts", "_held", "_log", "_look_at", "_markers", "_moved"),
        *("_named", "_pause", "_purges", "_removed", "_said", "_written", "passage"),
    )

    def __init__(
        self,
        log: LogState,
        leading: LeaderState,
        data: LogState,
        removed: Removed,
        purges: SubjectPurges,
        markers: Markers,
        moved: Callable[[], None],
    ) -> None:
        """`log`: the journal. `purges`: who else writes what goes. `markers`: who judges what may leave one.
        `moved`: whom to tell that entries were written.
        """
        self._log = log
        self._ctx = log.ctx
        self._data = data
        self._removed = removed
        self._purges = purges
        self._markers = markers
        self._moved = moved
        self.passage = Passage(data, TTL_LINE, self._find, lambda: True)
        self._held: list[tuple[int, Over]] = []
        """A heap of (when it is over by the wall clock, which message)."""
        self._again: tuple[int, int] | None = None
        """(Offset, time): from there on messages were let go, the first of which is due then."""
        self._said = SaidThrough(log, leading, data, Outlived, moved)
        """Below it none is said to be left."""
        self._named = 0
        """How many were written since."""
        self._written = 0
        """Where the newest entry ends that names some."""
        self._look_at = 0
        """When so much is gone through and written, it is looked how far that could be said."""
        self._pause = Pause(self._ctx)
        self._doubts = False
        """Whether the wall clock was doubted at the last tick."""

    def tick(self) -> None:
        """Time has passed."""
        doubts = self._ctx.wall_doubted
        if doubts and not self._doubts:
            self._ctx.mark("R24.jumped")
        self._doubts = doubts
        self.go_on()

    def go_on(self) -> None:
        """Look further, and write what is over its time, if nothing is to be waited for."""
        config = self._data.config
        if config is None or not config.has_ttl or self._purges.counts:
            return
        if self._purges.refusal(self._data) is not None:
            return
        if self._said.through == UNKNOWN:
            if not self._removed.heeds_all:
                return
            self._said.begin(self._begin())
        self._look()
        self._write()
        if self._ctx.mutants.ttl_said_first:
            self._say(self.passage.at, 1)
        elif not self._held and self._again is None:
            self._say(self.passage.at, 1 if self._named else SAID_EVERY)
        elif self.passage.at + self._named >= self._look_at:
            self._look_at = self.passage.at + self._named + SAID_EVERY
            self._say(self._first_kept(), SAID_EVERY)

    def _begin(self) -> int:
        """Where the leader before this one has come to, as far as that is said."""
        said, passage = self._removed.outlived, self.passage
        if self._ctx.mutants.ttl_not_inherited:
            return passage.begin(self._data.hw)
        if said is None:
            return passage.begin(0)
        ours = passage.is_of_ours(said)
        return passage.begin(said.through if self._ctx.decides(("R24.other-records", ours)) else 0)

    # -- finding ---------------------------------------------------------------------------------------

    def _look(self) -> None:
        """Go through what is committed; again, if something was let go that may be due next."""
        passage, until = self.passage, self._data.hw
        if passage.request or self._pause.on:
            return
        if passage.at >= until and self._is_to_go_back():
            self._ctx.mark("R24.again")
            passage.begin(self._first_kept())
            self._held.clear()
            self._again = None
        if not passage.go_on(until):
            self._leave_alone()

    def _is_to_go_back(self) -> bool:
        """Whether what was let go may be due next. What was written is to be known to be gone by then: it
        would be found again, and take the room of what is not over yet.
        """
        again, held = self._again, self._held
        if again is None or (held and held[0][0] <= again[1]):
            return False
        return self._removed.folded >= self._written

    def on_read(self, event: LogRead) -> None:
        """Storage has read a slice, or could not."""
        if not self.passage.on_read(event, self._data.hw):
            self._leave_alone()
        self.go_on()

    def _find(self, record: Record) -> None:
        lifetime = stored_lifetime(record.headers)
        if not lifetime or record.offset in self._removed.hidden(self._data.history):
            return
        stamp = record.timestamp_ms
        if self._ctx.mutants.ttl_of_whole_seconds:
            stamp -= stamp % 1000
        heappush(self._held, (stamp + lifetime, over(record, self._ctx.mutants.marker_of_marker)))
        if len(self._held) > HELD_MAX + HELD_MAX // 4:
            self._let_go()

    def _let_go(self) -> None:
        """Keep those that are due first. A sorted list is a heap."""
        self._ctx.mark("R24.let-go")
        self._held.sort()
        gone = self._held[HELD_MAX:]
        del self._held[HELD_MAX:]
        offset, due = min(one.offset for _, one in gone), gone[0][0]
        if self._again is not None:
            offset, due = min(offset, self._again[0]), min(due, self._again[1])
        self._again = (offset, due)

    def _first_kept(self) -> int:
        """Below it none is left."""
        least = min((one.offset for _, one in self._held), default=self.passage.at)
        return min(least, self.passage.at if self._again is None else self._again[0])

    def _leave_alone(self) -> None:
        self._ctx.mark("R24.paused")
        self._pause.begin()

    # -- writing ---------------------------------------------------------------------------------------

    def _write(self) -> None:
        """What is over its time, and not gone already."""
        ctx, data, held, now_ms = self._ctx, self._data, self._held, self._ctx.wall_ms
        if not held or held[0][0] > now_ms or self._log.leo - self._log.hw > AHEAD_MAX:
            return
        if not ctx.decides(("R24.clock", not ctx.wall_doubted)):
            return
        if self._markers.on:
            self._offer()
            return
        gone, found, taken = self._removed.hidden(data.history), OffsetSet(), 0
        while held and held[0][0] <= now_ms and taken < RUNS_MAX:
            offset = heappop(held)[1].offset
            taken += 1
            if offset >= data.log_start and offset not in gone:
                found.add(offset, offset + 1)
        self._named += taken
        runs = [OffsetRange(start, end) for start, end in found.runs(0, NUMBER_MAX)]
        if self._purges.write(runs, data.history):
            ctx.mark("R24.over")
            self._written = self._log.leo
            self._moved()

    def _offer(self) -> None:
        """What is over its time, and may leave a marker: it is kept until it is gone."""
        data, held, now_ms = self._data, self._held, self._ctx.wall_ms
        if self._markers.asked:
            return
        gone, some = self._removed.hidden(data.history), list[Over]()
        while held and held[0][0] <= now_ms and len(some) < OFFERED_MAX:
            one = heappop(held)[1]
            if one.offset < data.log_start or one.offset in gone:
                self._named += 1
            else:
                some.append(one)
        again_ms = now_ms + AGAIN_MS * self._markers.offer(some)
        for one in some:
            heappush(held, (again_ms, one))

    def _say(self, through: int, least: int) -> None:
        """Write below where none is left, if that is so much further than what was said."""
        if self._said.say(through, least):
            self._ctx.mark("R24.said")
            self._named = 0
