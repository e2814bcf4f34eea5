"""What the tests tried, counted while they run and printed at the end of the run."""

from __future__ import annotations

from collections import Counter

TRIED: Counter[str] = Counter()
"""Crash points by kind of crash."""
FLIPS: Counter[str] = Counter()
"""Flipped bits by what came of them."""
CUTS: Counter[str] = Counter()
"""Files that were cut short or deleted, by what came of it."""


def lines() -> list[str]:
    """One line for each counter that has something to tell."""
    told = (("crash points tried", TRIED), ("bits flipped", FLIPS), ("files cut or deleted", CUTS))
    found = []
    for title, counter in told:
        if counter:
            kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(counter.items()))
            found.append(f"{title}: {sum(counter.values())} ({kinds})")
    return found
