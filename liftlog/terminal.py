"""What long commands show while they work: a live line on a terminal, plain lines everywhere else.

Progress goes to stderr and results to stdout, so that a pipe or a file gets the results only. Large numbers,
which nobody should have to count the zeros of, are typed as they are shown: 250k, 100M.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from decimal import Decimal
from types import TracebackType

from rich import box
from rich.console import Console
from rich.status import Status
from rich.table import Table

_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]+)?)([kMG]?)")
_UNITS = {"": 1, "k": 1_000, "M": 1_000_000, "G": 1_000_000_000}
WIDEST = 400
"""Columns that a table of figures may take."""


def printable(data: bytes) -> str:
    """Somebody else's bytes as text that no terminal takes for a command: what does not print is escaped.

    Escape sequences can rename windows, hide text, and on some terminals type for the user; marks that turn
    the direction of writing make text look like another. Bytes that are not UTF-8 show as \\xNN.
    """
    text = data.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() or one == "\t" else _escape(one) for one in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()


def large_number(text: str) -> int:
    """A whole number such as 1000, 250k or 1.5M, as an option gets it. Raises ArgumentTypeError."""
    found = _NUMBER.fullmatch(text)
    number = found and Decimal(found[1]) * _UNITS[found[2]]
    if number is None or number != int(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number such as 1000, 250k or 100M")
    return int(number)


def figure_table(title: str | None, columns: Sequence[str]) -> Table:
    """A table of figures: names in its first column, numbers in the others."""
    first, *numbers = columns
    table = Table(title=title, title_justify="left", box=box.SIMPLE, padding=(0, 1), pad_edge=False)
    table.add_column(first, no_wrap=True)
    for column in numbers:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def print_figures(console: Console, table: Table) -> None:
    """The whole table: where it is wider than the terminal, or a file's 80 columns, no figure is cut."""
    width = console.width
    needed = console.measure(table, options=console.options.update(max_width=WIDEST)).maximum
    console.width = max(width, needed)
    console.print(table)
    console.width = width


class Activity:
    """Use as a context manager; call `show` with what is being done now."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)
        self._status: Status | None = None
        self._last = ""

    def __enter__(self) -> Activity:
        if self._console.is_terminal:
            self._status = self._console.status("")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()

    def show(self, text: str) -> None:
        """Replace the live line; elsewhere print a line, unless it is the one that was printed last."""
        if self._status is not None:
            self._status.update(text)
        elif text != self._last:
            self._console.print(text, markup=False, soft_wrap=True)
        self._last = text
