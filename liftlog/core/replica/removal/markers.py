"""Where the last message of a subject goes for its time or age, a marker stays (R24).

    judged     which of the messages that are over are all that is left of their subjects? The subject index
               says it (S1), when the journal is committed and heeded to its end, of what is committed and
               nothing takes
    named      where another one remains they go by an entry, as without markers; so do markers themselves
    marked     for the newest of each other subject a marker is stored, which expects that one to be the last
               of its subject in the leader's whole log (L9), and rolls up what lies before it (R23): so the
               message goes when its marker is committed

Who finds what is over offers it again after a while, until it is gone. So nothing is remembered here: a
marker that is stored makes its message not the last one any more, and one that was lost, or refused since
something came meanwhile, is written when the message is offered again. The model is `markers`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.removal.subjectpurge import SubjectPurges
from liftlog.core.replica.state.asking import index_reaches, question_number
from liftlog.core.replica.state.log import LogState
from liftlog.messages import AskLasts, LastsTold, SubjectsFolded
from liftlog.offsets import OffsetSet
from liftlog.options.marking import is_marker, marker_ms, marker_of
from liftlog.subjects.grammar import publish_problem
from liftlog.types import NO_OFFSET, NUMBER_MAX, Message, OffsetRange, Record

OFFERED_MAX = 1000
"""About so many messages are judged at once: storage looks for each one's subject."""
AGAIN_MS = 500
"""After so long what is not gone is offered again."""


class Over(NamedTuple):
    """A message that is over its time. `subject`: empty if it leaves no marker."""

    offset: int
    subject: bytes


def over(record: Record, every: bool) -> Over:
    """What a record is when it goes for its time. `every`: even a marker leaves one."""
    leaves_none = is_marker(record.headers) and not every
    return Over(record.offset, b"" if leaves_none else record.subject)


class Markers:
    """Of the leader of a journal, in one epoch."""

    __slots__ = (
        *("_ctx", "_data", "_log", "_moved", "_offered", "_purges", "_removed", "_store", "_written"),
        "asked",
    )

    def __init__(
        self,
        log: LogState,
        data: LogState,
        removed: Removed,
        purges: SubjectPurges,
        store: Callable[[list[Message]], None],
        moved: Callable[[], None],
    ) -> None:
        """`log`: the journal. `purges`: who else writes what goes. `store`: has messages stored, if nothing
        is against it. `moved`: whom to tell that entries were written.
        """
        self._log = log
        self._ctx = log.ctx
        self._data = data
        self._removed = removed
        self._purges = purges
        self._store = store
        self._moved = moved
        self._offered: Sequence[Over] = ()
        self._written = 0
        """Where what is to be gone ended when it was asked."""
        self.asked = 0
        """The question that storage has; 0 = none."""

    @property
    def on(self) -> bool:
        """Whether the stream is to have any."""
        return self._stay_ms > 0

    @property
    def _stay_ms(self) -> int:
        config = self._data.config
        return marker_ms(config) if config is not None else 0

    def offer(self, some: Sequence[Over]) -> bool:
        """These are committed, and over their time. Whether they are judged now, the first so many."""
        purges, removed, ctx = self._purges, self._removed, self._ctx
        if self.asked or not some or purges.counts or purges.refusal(self._data) is not None:
            return False
        some = some[:OFFERED_MAX]
        least = max(one.offset for one in some) + 1
        if not index_reaches(self._data, least):
            return False
        waits_for = max(purges.written, removed.committed)
        if not removed.is_known or not ctx.decides(("R24.on-its-way", removed.folded >= waits_for)):
            return False
        number = question_number(self._log)
        if number:
            self.asked, self._offered, self._written = number, some, purges.written
            subjects = list(dict.fromkeys(one.subject for one in some if one.subject))
            gone = removed.hidden(self._data.history).copy()
            for offset, _ in some:
                gone.add(offset, offset + 1)
            ctx.effects.append(AskLasts(self._data.id, number, least, subjects, gone))
        return number > 0

    def behind(self, event: SubjectsFolded) -> None:
        """The index was not far enough."""
        self.asked, self._offered = 0, ()
        self._data.index.reached(event.folded, event.ready)

    def told(self, event: LastsTold) -> None:
        """The answer to the question `asked`: what remains of each subject, but for what was offered."""
        offered, self.asked, self._offered = self._offered, 0, ()
        data, purges = self._data, self._purges
        if event.error or not self.on or purges.counts or purges.refusal(data) is not None:
            return
        if not self._ctx.decides(("R24.meanwhile", self._written == purges.written)):
            return
        remains = {
            subject for subject, last in zip(event.subjects, event.offsets, strict=True) if last != NO_OFFSET
        }
        gone, named, marked = self._removed.hidden(data.history), OffsetSet(), dict[bytes, int]()
        for offset, subject in sorted(offered):
            if offset < data.log_start or offset in gone:
                continue
            goes = subject in remains or not subject or not is_literal(subject)
            if self._ctx.decides(("R24.last", goes)):
                named.add(offset, offset + 1)
                continue
            older = marked.get(subject)
            if older is not None:
                named.add(older, older + 1)
            marked[subject] = offset
        if self._ctx.mutants.marker_beside_entry:
            for offset in marked.values():
                named.add(offset, offset + 1)
        runs = [OffsetRange(start, end) for start, end in named.runs(0, NUMBER_MAX)]
        if purges.write(runs, data.history):
            self._ctx.mark("R24.over")
            self._moved()
        if marked:
            self._ctx.mark("R24.marked")
            self._store([self._marker(subject, offset) for subject, offset in marked.items()])

    def _marker(self, subject: bytes, offset: int) -> Message:
        marker = marker_of(subject, offset, self._stay_ms)
        if self._ctx.mutants.marker_unexpected:
            headers = marker.headers.replace(b"Nats-Expected-Last-", b"Nats-Was-")
            marker = marker._replace(headers=headers)
        return marker


def is_literal(subject: bytes) -> bool:
    """Whether messages on it can be rolled up by one on the same: NATS hands on a message to `orders.*`."""
    return not publish_problem(subject.decode("utf-8", "surrogateescape"))
