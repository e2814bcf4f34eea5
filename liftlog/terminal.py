"""What long commands show while they work: a live line on a terminal, plain lines everywhere else.

Progress goes to stderr and results to stdout, so that a pipe or a file gets the results only.
"""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.status import Status
from rich.table import Table

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
