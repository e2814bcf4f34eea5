"""So many messages of a subject a partition holds at most; it refuses more, and lets no old ones go (C6).

Its leader counts what is before a message in its own log, committed or not, without what it heeds to be gone
(R21): what the subject index counts (S1), and what was noted behind that (L9). So no more are ever there,
however leaders change. A refusal rests on what is committed and counted alone, by what is gone now. Who finds
no room otherwise waits, with those that wait for the last of their subject, until all before it is committed
and in the index, and is counted anew: what is not committed may be cut, and then nobody was told no for it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.state.log import LogState

NOT_NOTING = -1
OFFSET_BYTES = 40
"""What a note takes for each offset of its subject, about."""
Asked = tuple[int, int]
"""How much was heeded to be gone, and where the log began, when the index was asked."""


class SubjectRoom:
    """Of one leadership."""

    __slots__ = (
        *("_answers", "_asked", "_below", "_ctx", "_log", "_needs", "_newer", "_older", "_removed"),
        *("begin", "size"),
    )

    def __init__(self, log: LogState) -> None:
        self._log = log
        self._ctx = log.ctx
        self._removed: Removed | None = None
        self.begin = NOT_NOTING
        """What is appended is noted from here on."""
        self._older: dict[bytes, list[int]] = {}
        self._newer: dict[bytes, list[int]] = {}
        self.size = 0
        """What notes take, in bytes."""
        self._answers: dict[bytes, int] = {}
        self._below = 0
        """What the index says: so many there are of each subject that lie below."""
        self._asked: Asked = (0, 0)
        self._needs: dict[bytes, int] = {}
        """Who asks for these subjects again waits until all below is committed."""

    def heed(self, removed: Removed) -> None:
        """The partition has a journal, which says that these are gone."""
        self._removed = removed

    @property
    def most(self) -> int:
        """So many there may be; 0: any number."""
        config = self._log.config
        return 0 if config is None else config.holds_of_subject

    # -- notes ------------------------------------------------------------------------------------------

    def begin_here(self) -> None:
        """From now on notes are complete, if there is anything to count."""
        self._older, self._newer, self.size = {}, {}, 0
        self._needs.clear()
        self.begin = self._log.leo if self.most else NOT_NOTING

    def follow(self) -> None:
        """The limit may be new, or no more."""
        if (self.begin == NOT_NOTING) == bool(self.most):
            self.begin_here()

    def appended(self, subject: bytes, place: int) -> None:
        """A message of it lies there now."""
        if self.begin != NOT_NOTING and self.most:
            self._newer.setdefault(subject, []).append(place)
            self.size += OFFSET_BYTES

    def turn(self) -> None:
        """The index has what the older notes have."""
        self._older, self._newer = self._newer, {}
        self.size = OFFSET_BYTES * sum(map(len, self._older.values()))

    # -- what the index is asked, and says --------------------------------------------------------------

    def holds_back(self, subjects: Sequence[bytes]) -> bool:
        """Whether what these wait for is not committed yet."""
        return any(self._needs.get(subject, 0) > self._log.hw for subject in subjects)

    def needed_for(self, subjects: Sequence[bytes]) -> int:
        """Below which offset the index is to have everything."""
        return max(self.begin, 0, *(self._needs.get(subject, 0) for subject in subjects))

    def asks(self) -> bool:
        """The index is asked now. Whether it is to count."""
        self._asked = self._now()
        return self.most > 0

    def _now(self) -> Asked:
        return self._removed.folded if self._removed is not None else 0, self._log.log_start

    def told(self, subjects: Sequence[bytes], counts: Sequence[int], below: int) -> None:
        """Its answer, which holds until `judged`."""
        self._answers, self._below = dict(zip(subjects, counts, strict=True)) if counts else {}, below
        for subject in self._answers:
            self._needs.pop(subject, None)

    def judged(self) -> None:
        """What the index has said is no longer to be gone by."""
        self._answers, self._below = {}, 0

    # -- judging ----------------------------------------------------------------------------------------

    def fits(self, subject: bytes, taken: int, more: int, place: int) -> bool | None:
        """Whether so many more of a subject may be stored, behind `taken` ones that are to be stored with
        them, below `place`. None: it is to be counted, again.
        """
        if more > self.most:
            return False
        counted = self._answers.get(subject)
        if counted is None or self._below < self.begin:
            return None
        noted = 0 if self._ctx.mutants.subject_room_by_index else self._noted(subject) + taken
        if self._ctx.decides(("C6.full-subject", counted + noted + more <= self.most)):
            return True
        sure = counted + more > self.most and self._asked == self._now() and self._heeds_all()
        if self._ctx.decides(("C6.subject-uncommitted", sure)):
            return False
        self._ctx.mark("C6.subject-waits")
        self._needs[subject] = max(self._needs.get(subject, 0), place)
        return None

    def _noted(self, subject: bytes) -> int:
        """How many lie behind what the index has counted, and are there."""
        start = max(self._below, self._log.log_start)
        noted: Collection[int] = (*self._older.get(subject, ()), *self._newer.get(subject, ()))
        return sum(offset >= start and not self._is_gone(offset) for offset in noted)

    def _heeds_all(self) -> bool:
        """Somebody may have been told of a deletion since the index was asked, and rely on it."""
        return self._removed is None or self._removed.heeds_all

    def _is_gone(self, offset: int) -> bool:
        return self._removed is not None and self._removed.is_gone(offset)
