"""The truth about processors: outputs that are committed are those of the input below the cursor (L10).

    OutputsOnce      what is committed of a processor, in order, is what comes of each position of its input
                     up to the cursor of its last message, each once; and an opening has that cursor

While the processor is remembered, as all of producers is (`producers.py`). A run that was forgotten, and that
a late opening has opened once more, goes on from what it was told the first time: nothing is promised of its
outputs. What comes of a position is known here: so many outputs, perhaps none (`outputs_of`). Values say
whose output they are.
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.options.cursors import InputCursor
from liftlog.options.numbered import stored_number
from liftlog.types import NO_OFFSET, Record
from liftlog_sim.truth.message_ids import IdsFinding

MARK = b"-out"
"""Stands in the value of each output, behind what makes it unique."""
NAME = b"proc-"
"""How the names of processors begin."""


def outputs_of(position: int) -> int:
    """How many outputs a position of the input has."""
    return (position * 5 + 3) % 4


def output_value(unique: bytes, position: int, nth: int) -> bytes:
    """An output as it is sent."""
    return b"%b%b.%d.%d" % (unique, MARK, position, nth)


class Output(NamedTuple):
    """The `nth` output of a position."""

    position: int
    nth: int


def _output_in(value: bytes | None) -> Output | None:
    _, mark, rest = (value or b"").partition(MARK + b".")
    if not mark:
        return None
    position, _, nth = rest.partition(b".")
    return Output(int(position), int(nth))


class _Last(NamedTuple):
    """The last message of a processor."""

    cursor: InputCursor
    at_ms: int
    again: bool
    """Of a run that was opened before, and forgotten."""
    life: int
    """Where the opening lies with which the processor began, or began again when it was forgotten."""


class StoredCursors:
    """Of one partition, in the order in which records are committed."""

    __slots__ = ("_last", "_lives", "_opened", "_unjudged", "_wanted")

    def __init__(self) -> None:
        self._last: dict[bytes, _Last] = {}
        self._lives: dict[int, int] = {}
        """Of each opening, by its offset."""
        self._opened: dict[bytes, int] = {}
        """The newest run that was opened, by processor."""
        self._unjudged = 0
        """So many records that follow are outputs of which nothing is promised."""
        self._wanted: list[Output] = []
        """The outputs that have to follow, the next one last."""

    def cursor(self, producer: bytes) -> InputCursor | None:
        """How far a processor is, by all that was ever committed."""
        last = self._last.get(producer)
        return None if last is None else last.cursor

    def life(self, opening: int) -> int:
        """Where the opening lies with which its processor began: since then it has not been forgotten.
        NO_OFFSET: it is not committed.
        """
        return self._lives.get(opening, NO_OFFSET)

    def committed(self, offset: int, record: Record, window_ms: int) -> IdsFinding | None:
        """This record is the next one that is committed; what is wrong with that, if anything."""
        output, number = _output_in(record.value), stored_number(record.headers)
        problem = ""
        if number is not None and number.numbered.producer.startswith(NAME):
            opens = number.numbered.sequence == 0
            problem = self._message(offset, record, number.cursor, opens, window_ms)
        if not problem and self._unjudged:
            self._unjudged -= 1
            return None
        if not problem and output is not None:
            wanted = self._wanted.pop() if self._wanted else None
            problem = "" if output == wanted else f"{output} is here, where {wanted} belongs"
        if not problem and self._wanted and output is None:
            problem = f"{self._wanted[-1]} is missing before it"
        return IdsFinding("OutputsOnce", f"offset {offset}: {problem}") if problem else None

    def _message(
        self, offset: int, record: Record, cursor: InputCursor | None, opens: bool, window_ms: int
    ) -> str:
        """A message of a processor, or the first record of one: which outputs have to follow."""
        number = stored_number(record.headers)
        if self._wanted:
            return f"{self._wanted[-1]} is missing before it"
        if number is None or cursor is None or cursor.position < 0:
            return "a message of a processor without its cursor"
        producer = number.numbered.producer
        last = self._last.get(producer)
        if last is not None and record.timestamp_ms >= last.at_ms + window_ms:
            last = None
        run = number.numbered.run
        again = last is not None and last.again
        if opens:
            again = (last is None or again) and run <= self._opened.get(producer, -1)
        self._opened[producer] = max(run, self._opened.get(producer, -1))
        life = offset if last is None else last.life
        self._last[producer] = _Last(cursor, record.timestamp_ms, again, life)
        if opens:
            self._lives[offset] = life
        if last is None:
            return ""
        if not cursor.is_of_input_of(last.cursor):
            return f"{producer.decode()} is at {cursor}, and was at {last.cursor}"
        if opens:
            same = cursor == last.cursor
            return "" if same else f"{producer.decode()} begins at {cursor}, and had come to {last.cursor}"
        if cursor.position < last.cursor.position:
            return f"{producer.decode()} goes back from {last.cursor} to {cursor}"
        if again:
            self._unjudged = number.span
            return ""
        self._wanted = [
            Output(position, nth)
            for position in range(last.cursor.position, cursor.position)
            for nth in range(outputs_of(position))
        ][::-1]
        return ""
