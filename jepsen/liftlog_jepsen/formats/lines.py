"""Help for formats that are read line by line: numbered lines, values, and processes for operations."""

from __future__ import annotations

import re
from collections.abc import Iterator

from liftlog_jepsen.events import BadHistory
from liftlog_jepsen.formats.edn import cut

_INT = re.compile(r"[+-]?[0-9]{1,4000}")

TAKES = frozenset(
    {
        "pop",
        "deq",
        "dequeue",
        "poll",
        "peek",
        "top",
        "front",
        "take",
        "read",
        "deletemin",
        "delete_min",
    }
    | {f"{what}_{where}" for what in ("pop", "peek") for where in ("front", "back")}
)
"""Methods without an argument, whose value is their result."""


def numbered(text: str, comment: str) -> Iterator[tuple[int, str]]:
    """(number from 1, line without spaces around it) of each line that is neither empty nor a comment."""
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped and not stripped.startswith(comment):
            yield number, stripped


def broken(source: str, number: int, expected: str, found: str) -> BadHistory:
    return BadHistory(f"{source} line {number}: expected {expected}, found {cut(found)}")


def value_of(text: str) -> int | str:
    """A number if it is written as one, else the text."""
    return int(text) if _INT.fullmatch(text) else text


class Processes:
    """Numbers for processes that have names, and for what one does while it still does something else."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._used: set[int] = set()
        self._next = 0

    def number(self, name: str) -> int:
        """The number of the process `name`: itself if it is a number."""
        if name not in self._numbers:
            self._numbers[name] = int(name) if name.isdecimal() and len(name) < 19 else self.fresh()
            self._used.add(self._numbers[name])
        return self._numbers[name]

    def fresh(self) -> int:
        """A number that nobody has."""
        self._next = max(self._next, 1_000_000)
        while self._next in self._used:
            self._next += 1
        self._used.add(self._next)
        return self._next
