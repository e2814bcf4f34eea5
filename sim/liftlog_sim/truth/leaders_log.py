"""A leader's log as it was when it began to lead, kept in little room: a run may see thousands of leaders,
and most of what they began with is committed already.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from liftlog.types import EpochStart


class LeadersLog(NamedTuple):
    """Its history begins as the committed one does for `common` entries, which are never changed; then comes
    `rest`. `start`, `leo`: where the log began and ended.
    """

    common: int
    rest: tuple[EpochStart, ...]
    start: int
    leo: int

    @classmethod
    def of(
        cls, history: Sequence[EpochStart], committed: Sequence[EpochStart], start: int, leo: int
    ) -> LeadersLog:
        common, shorter = 0, min(len(history), len(committed))
        while common < shorter and history[common] == committed[common]:
            common += 1
        return cls(common, tuple(history[common:]), start, leo)

    def history(self, committed: Sequence[EpochStart]) -> list[EpochStart]:
        """The whole of it."""
        return [*committed[: self.common], *self.rest]
