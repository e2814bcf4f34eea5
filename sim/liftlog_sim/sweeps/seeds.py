"""What the verbs that go through many seeds share: which seeds, and how far they have come."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from liftlog.types import LiftlogError

TOLD_FROM = 500
"""Who looks at no terminal is told how far it is, of so many seeds and more,"""
TOLD_TIMES = 20
"""so often."""


def parse_seeds(text: str) -> range:
    """``A:B`` as a range. Raises LiftlogError."""
    first, colon, end = text.partition(":")
    try:
        seeds = range(int(first), int(end)) if colon else range(int(first), int(first) + 1)
    except ValueError:
        raise LiftlogError(f"--seeds '{text}' is not A:B; for example 0:1000") from None
    if not seeds:
        raise LiftlogError(f"--seeds '{text}' names no seed; for example 0:1000")
    return seeds


@contextlib.contextmanager
def progress(total: int, *, enabled: bool) -> Iterator[Any]:
    """A progress bar on a terminal, elsewhere a line from time to time; failures are printed above it."""
    if not enabled:
        yield lambda line: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("seeds", total=total)

        def advance(line: str) -> None:
            if line:
                bar.console.print(line, soft_wrap=True, highlight=False)
            bar.advance(task)
            done, every = int(bar.tasks[task].completed), total // TOLD_TIMES
            if not console.is_terminal and total >= TOLD_FROM and done % every == 0 and done < total:
                minutes = (bar.tasks[task].elapsed or 0.0) / 60
                text = f"{done} of {total} seeds after {minutes:.1f} minutes"
                console.print(text, soft_wrap=True, highlight=False)

        yield advance
