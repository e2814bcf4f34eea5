"""Which record is the last of a subject, in the log of a leader and to its end (L9).

The subject index (S1) has what is committed, and follows behind. So from the first message on that asks for
it a leader *notes* the subjects of what it appends. When the index has come to where the notes begin, both
together are its log; what may be cut is in the notes alone, which end with the leadership. The model is
`expectations`.

Where messages can be deleted (R21) the last record is the last of those that are not gone, by what is
committed of the journal: nobody is judged before this leader heeds all of that. Of a subject whose noted
record is gone the notes know no other one; the index does, when it has come past that record.

A message waits here until its subject's last record is known, and others are stored meanwhile. It is refused,
to be tried again, when that takes too long, or the index cannot be made: nothing is ever guessed.

Notes that the index has come past are dropped, a generation at a time. They are bounded: if the index does
not keep up they begin anew, and who waits is refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from liftlog.core.replica.publishing.subjectroom import SubjectRoom
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.state.asking import index_reaches, question_number
from liftlog.core.replica.state.log import LogState
from liftlog.messages import AskLasts, LastsTold, SubjectsFolded
from liftlog.options.wishes import Wishes
from liftlog.parcel import record_subjects
from liftlog.types import NO_OFFSET, Message

WAIT_MS = 1000
"""For so long a message waits for the index."""
NOTES_BYTES_MAX = 16 * 1024 * 1024
NOTE_BYTES = 150
"""What a note takes beside its subject, about."""
ASKED_MAX = 1000
"""About so many subjects storage is asked at once: some milliseconds of its thread."""
NOT_NOTING = -1


class AwaitingLast(NamedTuple):
    """A message that waits for the last records of these subjects, until a tick. `size`: in bytes."""

    message: Message
    subjects: tuple[bytes, ...]
    until: int
    size: int


class JudgeNow(NamedTuple):
    """These messages wait no more. `late`: they are to be refused, for this reason; "": the last records of
    their subjects are known, for this one step.
    """

    messages: list[Message]
    size: int
    late: str = ""


NOBODY = JudgeNow([], 0)


class LastRecords:
    """Of one leadership."""

    __slots__ = (
        *("_answered_below", "_answers", "_begin", "_ctx", "_least", "_log", "_newer", "_newer_begin"),
        *("_older", "_removed", "_size", "_waiting", "counts", "request"),
    )

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._ctx = log.ctx
        self._begin = NOT_NOTING
        """The older notes begin here; the newer ones follow them."""
        self._newer_begin = NOT_NOTING
        self._older: dict[bytes, int] = {}
        self._newer: dict[bytes, int] = {}
        self._size = 0
        self._waiting: list[AwaitingLast] = []
        self._answers: dict[bytes, int] = {}
        """What the index says, while those are judged who have waited for it."""
        self._answered_below = 0
        """It says that of what lies below."""
        self._least = 0
        """What it is to have for the question that storage works on."""
        self._removed: Removed | None = None
        self.counts = SubjectRoom(log)
        """C6: how many there are of a subject."""
        self.request = 0
        """Number of the question that storage works on; 0 = none."""

    def heed(self, removed: Removed) -> None:
        """The partition has a journal, which says that these are gone."""
        self._removed = removed
        self.counts.heed(removed)

    def _heeds(self) -> bool:
        """Whether all is known to be gone that was committed to be."""
        removed = self._removed
        return removed is None or self._ctx.decides(("L9.unheeded", removed.heeds_all))

    def _is_gone(self, offset: int) -> bool:
        if self._removed is None or self._ctx.mutants.last_may_be_removed:
            return False
        return self._removed.is_gone(offset)

    # -- notes ------------------------------------------------------------------------------------------

    @property
    def noting(self) -> bool:
        return self._begin != NOT_NOTING

    def appended(self, messages: Sequence[Message], wishes: Sequence[Wishes] | None, place: int) -> None:
        """These messages have been appended at `place` and behind it."""
        if not self.noting:
            return
        notes = self._newer
        for subject in subjects_of(messages, wishes, self._ctx.mutants.last_of_parcel_unnoted):
            if subject not in notes:
                self._size += len(subject) + NOTE_BYTES
            notes[subject] = place
            self.counts.appended(subject, place)
            place += 1

    def last_of(self, subject: bytes) -> int | None:
        """The offset of a subject's last record, NO_OFFSET if it has none; None: that is not known."""
        if not self._heeds():
            return None
        last = self._noted(subject)
        if last is None or self._ctx.mutants.last_of_index_alone:
            last = self._answers.get(subject)
        elif last >= self._log.log_start and self._is_gone(last):
            # There may be an older one.
            self._ctx.mark("L9.noted-gone")
            last = self._answers.get(subject) if self._answered_below > last else None
        if last is None:
            return None
        if last < self._log.log_start:
            return NO_OFFSET
        return None if self._is_gone(last) else last

    def _noted(self, subject: bytes) -> int | None:
        return self._newer.get(subject, self._older.get(subject))

    def _begin_here(self) -> None:
        self._older, self._newer = {}, {}
        self._size = 0
        self._begin = self._newer_begin = self._log.leo
        self.counts.begin_here()

    def _follow_index(self) -> None:
        """Drop what the index has by now."""
        if not self.request and self._log.index.has(self._newer_begin):
            self._older, self._newer = self._newer, {}
            self._size = sum(len(subject) + NOTE_BYTES for subject in self._older)
            self._begin, self._newer_begin = self._newer_begin, self._log.leo
            self.counts.turn()

    # -- messages that wait -----------------------------------------------------------------------------

    @property
    def waiting(self) -> bool:
        """Whether any message does."""
        return bool(self._waiting)

    def awaits(self, message: Message) -> bool:
        """Whether this very message waits."""
        return any(one.message is message for one in self._waiting)

    def await_last(self, message: Message, subjects: tuple[bytes, ...], size: int) -> None:
        """Keep this message until the last records of these subjects are known."""
        if not self.noting:
            self._begin_here()
        self.counts.follow()
        self._ctx.mark("L9.waits")
        until = self._ctx.ticks + self._ctx.ticks_of(WAIT_MS)
        self._waiting.append(AwaitingLast(message, subjects, until, size))

    def ask(self) -> None:
        """Have storage asked, or the index go on, if anybody waits for it."""
        log = self._log
        if not self._waiting or self.request or not self._heeds():
            return
        subjects = self._asked_for()
        if not subjects:
            return
        least = self._needed_for(subjects)
        if not index_reaches(log, least) and not self._ctx.mutants.last_of_index_behind:
            return
        request = question_number(log)
        if not request:
            return
        self.request, self._least = request, least
        if self._ctx.mutants.last_of_index_behind:
            least = 0
        removed = self._removed if not self._ctx.mutants.last_may_be_removed else None
        gone = removed.hidden(log.history) if removed is not None else None
        counted = self.counts.asks()
        self._ctx.effects.append(AskLasts(log.id, request, least, subjects, gone, counted))

    def _asked_for(self) -> list[bytes]:
        """What the first ones wait for: about so much as is asked at once, all of a message or nothing."""
        found: dict[bytes, None] = {}
        for one in self._waiting:
            if found and len(found) + len(one.subjects) > ASKED_MAX:
                break
            if not self.counts.holds_back(one.subjects):
                found.update(dict.fromkeys(one.subjects))
        return list(found)

    def _needed_for(self, subjects: Sequence[bytes]) -> int:
        """Below which offset the index is to have everything."""
        least = max(self._begin, self.counts.needed_for(subjects))
        if self._removed is not None:
            noted = (self._noted(subject) for subject in subjects)
            gone = (last + 1 for last in noted if last is not None and self._is_gone(last))
            least = max(least, *gone, 0)
        return least

    def told(self, event: LastsTold) -> JudgeNow:
        """Storage's answer to what was asked: whom to judge now. `judged` is to follow at once."""
        if event.request != self.request:
            return NOBODY
        self.request = 0
        if event.error:
            return self._give_up(event.error)
        if event.folded < self._least and not self._ctx.mutants.last_of_index_behind:
            self.ask()
            return NOBODY
        self._answers = dict(zip(event.subjects, event.offsets, strict=True))
        self._answered_below = event.folded
        self.counts.told(event.subjects, event.counts, event.folded)
        told = self._answers.keys()
        known = [one for one in self._waiting if told >= set(one.subjects)]
        self._waiting = [one for one in self._waiting if not told >= set(one.subjects)]
        return JudgeNow([one.message for one in known], sum(one.size for one in known))

    def judged(self) -> None:
        """What the index has said is no longer to be gone by."""
        self._answers, self._answered_below = {}, 0
        self.counts.judged()
        self.ask()

    def behind(self, event: SubjectsFolded) -> None:
        """The index was not far enough for what was asked."""
        if event.request != self.request:
            return
        self._ctx.mark("L9.behind")
        self.request = 0
        self._log.index.reached(event.folded, event.ready)
        self.ask()

    def folded(self, event: SubjectsFolded) -> JudgeNow:
        """Storage has gone on with the index, or says why it cannot."""
        if event.error:
            return self._give_up(event.error)
        self.ask()
        return NOBODY

    def tick(self) -> JudgeNow:
        """Whom to refuse, since they have waited for too long, or too much had to be noted."""
        if not self.noting:
            return NOBODY
        self._follow_index()
        if self._size + self.counts.size > NOTES_BYTES_MAX:
            self._ctx.mark("L9.too-many")
            known = self._give_up("the subject index does not keep up with what is stored")
            self._begin_here()
            return known
        late = [one for one in self._waiting if one.until <= self._ctx.ticks]
        if late:
            self._waiting = [one for one in self._waiting if one.until > self._ctx.ticks]
            text = f"the subject index has come to offset {max(self._log.index.folded, 0)} of {self._begin}"
            if not self._heeds():
                text = "this leader does not know yet all that was deleted"
            return JudgeNow([one.message for one in late], sum(one.size for one in late), text)
        if not self._waiting and not self._log.index.kept_ticks:
            self._begin = NOT_NOTING
            self._older, self._newer = {}, {}
        self.ask()
        return NOBODY

    def silence(self) -> int:
        """Nobody is judged or told any more. What they took up."""
        size = sum(one.size for one in self._waiting)
        if self._waiting:
            self._ctx.mark("L9.silenced")
        self._waiting = []
        self.request = 0
        return size

    def _give_up(self, why: str) -> JudgeNow:
        """Nobody waits any more; what storage still says to a question comes to nobody."""
        waiting, self._waiting, self.request = self._waiting, [], 0
        return JudgeNow([one.message for one in waiting], sum(one.size for one in waiting), why)


def subjects_of(
    messages: Sequence[Message], wishes: Sequence[Wishes] | None, parcels_unopened: bool = False
) -> Iterator[bytes]:
    """The subject of each record that these become, in order."""
    if wishes is None:
        for message in messages:
            yield message.subject
        return
    for message, wish in zip(messages, wishes, strict=True):
        if wish.parcel is None:
            yield message.subject
        elif parcels_unopened:
            yield from [message.subject] * wish.span
        else:
            yield from record_subjects(wish.parcel.plain, wish.parcel.records)
