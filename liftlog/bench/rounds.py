"""Alternating rounds: what is compared runs in turns, so that a slow minute of the machine hits everybody.

A round runs every contender once; the order turns from round to round. Compared are medians, and the median
of the ratios within the rounds, which a drift of the machine does not move.
"""

from __future__ import annotations

import gc
import os
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class System(Protocol):
    """A server that is measured. `port`: where the load generator connects. `folder`: where its logs lie."""

    name: str
    folder: Path

    @property
    def port(self) -> int: ...

    @property
    def pids(self) -> list[int]: ...

    def start(self) -> None: ...

    def stored(self) -> int | None:
        """How many messages the stream holds: must be at least what was acked; None = it keeps none."""
        ...


@dataclass(frozen=True, slots=True)
class Figure:
    """One contender's rate over the rounds, and how it compares with the reference in the same rounds."""

    median: float
    least: float
    greatest: float
    ratio: float
    """Median over the rounds of its rate over the reference's; 1 for the reference itself."""

    @property
    def spread(self) -> float:
        return (self.greatest - self.least) / self.median


def ratios(mine: Sequence[float], its: Sequence[float]) -> list[float]:
    """Ours over its, round by round."""
    return [one / max(other, 1e-9) for one, other in zip(mine, its, strict=True)]


def median_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """The spread is (max - min) / median."""
    middle = statistics.median(values)
    return middle, (max(values) - min(values)) / middle


def turns(names: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Round 0 is for warming up; then so many that count. Who comes first changes from round to round."""
    for number in range(rounds + 1):
        turn = number % len(names)
        for name in (*names[turn:], *names[:turn]):
            yield number, name


def alternate(
    contenders: dict[str, Callable[[], float]], reference: str, rounds: int, progress: Callable[[str], None]
) -> dict[str, Figure]:
    """Run every contender `rounds` times, after one round that does not count; each returns its rate."""
    names = list(contenders)
    rates: dict[str, list[float]] = {name: [] for name in names}
    for number, name in turns(names, rounds):
        progress(f"round {number} of {rounds}: {name}" if number else f"warming up: {name}")
        # Nobody pays for what another has left to write or to collect.
        os.sync()
        gc.collect()
        rate = contenders[name]()
        if number:
            rates[name].append(rate)
    return {
        name: Figure(
            statistics.median(found),
            min(found),
            max(found),
            statistics.median(mine / its for mine, its in zip(found, rates[reference], strict=True)),
        )
        for name, found in rates.items()
    }
