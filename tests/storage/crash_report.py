"""How many crash points were tried: counted by the tests, printed at the end of the run."""

from __future__ import annotations

from collections import Counter

TRIED: Counter[str] = Counter()
"""By kind of crash."""
