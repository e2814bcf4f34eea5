"""What a log says of producers that number their messages: newest run, next number, last places (L2).

A line says what the records of a window of the log say, read in order: it is made anew out of them by each
leader. Reading never refuses: what is in the log counts. Only who takes a message asks (`verdict`).
"""

from __future__ import annotations

from array import array
from typing import NamedTuple

from liftlog.options.cursors import InputCursor
from liftlog.options.numbered import Numbered

PLACES = 1024
"""Of so many of its last messages a producer is told where they lie: so many may wait for answers at once."""


class Lies(NamedTuple):
    """The message is there already, at `offset`, and takes `span` offsets."""

    offset: int
    span: int


class Fenced(NamedTuple):
    """The producer has a newer run, `run`."""

    run: int


class NotDue(NamedTuple):
    """Number `due` comes first. `known`: the run is; else it has to begin with 0."""

    due: int
    known: bool


class TooOld(NamedTuple):
    """It is there, and nobody knows where: remembered is the run from `first` on."""

    first: int


Verdict = Lies | Fenced | NotDue | TooOld | None
"""None: it is due."""


class _Line:
    """`offsets`, `spans`: of the last messages of the run, up to `due`. `cursor`: that of the last one (L10);
    `before`: of the one before it; `begins`: of message 0 of the run.
    """

    __slots__ = ("before", "begins", "cursor", "due", "newest_ms", "offsets", "run", "spans")

    def __init__(
        self, run: int, due: int, cursor: InputCursor | None, begins: InputCursor | None
    ) -> None:
        self.run = run
        self.due = due
        self.newest_ms = 0
        self.cursor = cursor
        self.before: InputCursor | None = None
        self.begins = begins
        self.offsets = array("q")
        self.spans = array("H")

    def heard(self, stamp_ms: int, cursor: InputCursor | None) -> None:
        self.newest_ms = stamp_ms
        self.before, self.cursor = self.cursor, cursor

    def add(self, offset: int, span: int) -> None:
        if len(self.offsets) >= 2 * PLACES:
            del self.offsets[:PLACES], self.spans[:PLACES]
        self.offsets.append(offset)
        self.spans.append(span)
        self.due += 1

    def place_of(self, sequence: int) -> Lies | TooOld:
        """Of a message before the one that is due."""
        back = self.due - sequence
        if back > min(PLACES, len(self.offsets)):
            return TooOld(self.due - min(PLACES, len(self.offsets)))
        return Lies(self.offsets[-back], self.spans[-back])


class ProducerTable:
    """Lines by producer; the one that was heard of last stands last."""

    __slots__ = ("_lines", "window_ms")

    def __init__(self, window_ms: int) -> None:
        self.window_ms = window_ms
        self._lines: dict[bytes, _Line] = {}

    def __len__(self) -> int:
        return len(self._lines)

    def pass_to(self, now_ms: int) -> None:
        """It is so late, and never earlier any more: forget who was silent for the length of the window."""
        while self._lines:
            producer = next(iter(self._lines))
            if now_ms < self._lines[producer].newest_ms + self.window_ms:
                return
            del self._lines[producer]

    def knows(self, producer: bytes) -> bool:
        return producer in self._lines

    def drop_oldest(self) -> None:
        """Forget who was silent for longest, whether that is long enough or not."""
        if self._lines:
            del self._lines[next(iter(self._lines))]

    def verdict(self, numbered: Numbered) -> Verdict:
        """What a leader says to this message, if the log has nothing but what was added."""
        line = self._lines.get(numbered.producer)
        if line is None or line.run < numbered.run:
            return None if numbered.sequence == 0 else NotDue(0, known=False)
        if line.run > numbered.run:
            return Fenced(line.run)
        if numbered.sequence < line.due:
            return line.place_of(numbered.sequence)
        return None if numbered.sequence == line.due else NotDue(line.due, known=True)

    def cursor_of(self, producer: bytes, below: int | None = None) -> InputCursor | None:
        """How far the processor is, by its last message (L10); None: nothing is known of it. `below`: by the
        one before that, if it is not below this offset.
        """
        line = self._lines.get(producer)
        if line is None:
            return None
        if below is not None and line.offsets and line.offsets[-1] >= below:
            return line.before
        return line.cursor

    def begins_at(self, producer: bytes) -> InputCursor | None:
        """With which cursor the newest run of a processor was opened; None: nobody remembers."""
        line = self._lines.get(producer)
        return None if line is None else line.begins

    def add(
        self, numbered: Numbered, offset: int, span: int, stamp_ms: int, cursor: InputCursor | None = None
    ) -> None:
        """The message lies there, and has this time; records come in the order of their offsets."""
        producer, run, sequence = numbered
        line = before = self._lines.pop(producer, None)
        if line is None or line.run < run or (line.run == run and line.due < sequence):
            begins = cursor if sequence == 0 else None
            line = _Line(run, sequence, None if before is None else before.cursor, begins)
        self._lines[producer] = line
        if line.run == run and line.due == sequence:
            line.add(offset, span)
        line.heard(stamp_ms, cursor)
