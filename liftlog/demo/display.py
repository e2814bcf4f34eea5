"""How the demo shows itself: a heading for each part and a progress bar while it works.

Where there is no terminal, lines take the bar's place. All of it goes to stderr; stdout gets the summary.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

PLAIN_STEP = 0.25
"""Without a terminal a line is printed each time this share of the work is done."""


class Bar:
    """Progress of one task. `advance` may be called often; it repaints or prints only now and then."""

    def __init__(self, console: Console, text: str, total: int, progress: Progress | None) -> None:
        self._console = console
        self._text = text
        self._total = total
        self._done = 0
        self._printed = 0.0
        self._progress = progress
        self._task = progress.add_task(text, total=total) if progress is not None else None
        self._started_s = time.monotonic()

    def advance(self, count: int = 1) -> None:
        self.update(self._done + count)

    def update(self, done: int) -> None:
        self._done = done
        if self._progress is not None and self._task is not None:
            self._progress.update(self._task, completed=done)
            return
        share = min(1.0, done / self._total)
        if self._printed < 1 and (share == 1 or share >= self._printed + PLAIN_STEP):
            self._printed = share
            seconds = time.monotonic() - self._started_s
            self._console.print(f"  {self._text}: {done:,} of {self._total:,} ({seconds:.0f} s)")

    def note(self, text: str) -> None:
        """A line above the bar."""
        self._console.print(f"  {text}", markup=False, soft_wrap=True)


class Display:
    """The demo's voice."""

    def __init__(self) -> None:
        self._console = Console(stderr=True, highlight=False)

    def heading(self, text: str) -> None:
        self._console.print(f"\n[bold]{text}[/bold]")

    def line(self, text: str) -> None:
        self._console.print(f"  {text}", markup=False, soft_wrap=True)

    def table(self, header: tuple[str, str], rows: Sequence[tuple[str, str]]) -> None:
        table = Table(box=box.SIMPLE, padding=(0, 1))
        table.add_column(header[0])
        table.add_column(header[1], justify="right")
        for row in rows:
            table.add_row(*row)
        self._console.print(table)

    @contextmanager
    def bar(self, text: str, total: int) -> Iterator[Bar]:
        if not self._console.is_terminal:
            yield Bar(self._console, text, total, None)
            return
        columns = (TextColumn("  {task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=self._console, transient=True) as progress:
            yield Bar(self._console, text, total, progress)

    @contextmanager
    def busy(self, text: str) -> Iterator[None]:
        """Something whose end cannot be foreseen."""
        if not self._console.is_terminal:
            self.line(f"{text} ...")
            yield
            return
        with self._console.status(f"  {text}"):
            yield
