"""What the tests tried, counted while they run and printed at the end of the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

TRIED: Counter[str] = Counter()
"""Crash points by kind of crash."""
FLIPS: Counter[str] = Counter()
"""Flipped bits by what came of them."""
CUTS: Counter[str] = Counter()
"""Files that were cut short or deleted, by what came of it."""


TITLES = {"crash points tried": TRIED, "bits flipped": FLIPS, "files cut or deleted": CUTS}


def counts() -> dict[str, dict[str, int]]:
    """All counters, for another process to `add`."""
    return {title: dict(counter) for title, counter in TITLES.items()}


def add(told: Mapping[str, Mapping[str, int]]) -> None:
    """Count what another process has tried."""
    for title, counter in told.items():
        TITLES[title].update(counter)


def lines() -> list[str]:
    """One line for each counter that has something to tell."""
    found = []
    for title, counter in TITLES.items():
        if counter:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counter.items()))
            found.append(f"{title}: {sum(counter.values())} ({kinds})")
    return found
