"""Whether the leader of a partition may serve its consumers yet (K5, K7).

It goes by what its two logs had when it was elected, which has to be committed and folded.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.core.consumers.entries import Rewound
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.messages import ERR_NOT_READY, ErrorReply

Write = Callable[[Rewound], int]
"""Writes it into the journal: where it ends there."""


class Inherited:
    """Of one leader, in one epoch. `log`, `leading`: of the journal."""

    __slots__ = ("_ctx", "_data", "_leading", "_log", "_office", "_removed", "_serves_from")

    def __init__(
        self, log: LogState, leading: LeaderState, data: LogState, office: LeaderState, removed: Removed
    ) -> None:
        self._log = log
        self._ctx = log.ctx
        self._leading = leading
        self._data = data
        self._office = office
        self._removed = removed
        self._serves_from: int | None = None
        """K5: served is when the journal is folded up to there; None: that is not known yet."""

    def serves(self, write: Write) -> bool:
        """Whether who waits may be given something."""
        may = not self._office.no_promise
        return may and self._is_committed() and self._is_folded() and self._caught_up(write)

    def heeds(self) -> bool:
        """K7: whether all is folded of what is committed: somebody may have been told of a deletion by it."""
        return self._ctx.decides(("K7.folded", self._removed.folded >= self._log.hw))

    def refusal(self, write: Write) -> ErrorReply | None:
        """Why this leader does not serve, or not yet."""
        ctx = self._ctx
        text = self._office.no_promise or self._removed.problem
        if not text:
            if not ctx.decides(("K5.inherited", self._is_committed()), ("K5.folded", self._is_folded())):
                text = "the new leader does not know yet what it inherited; try again"
            elif not self._caught_up(write):
                text = "data were lost, and consumers are set back by that; try again"
        if not text:
            return None
        ctx.mark("K5.not-ready")
        return ErrorReply(ERR_NOT_READY, text, True, ctx.node)

    def _is_committed(self) -> bool:
        """Whether all that either log had at the election is."""
        data = self._data.hw >= self._office.epoch_start
        return data and self._log.hw >= self._leading.epoch_start

    def _is_folded(self) -> bool:
        """Whether all that the journal had then is."""
        removed = self._removed
        return removed.is_known and not removed.problem and removed.folded >= self._leading.epoch_start

    def _caught_up(self, write: Write) -> bool:
        """Whether no consumer says that offsets were delivered which this leader's data never had (R14)."""
        data, office = self._data, self._office
        if self._serves_from is None:
            self._serves_from = 0
            for consumer in self._removed.consumers.by_number.values():
                inherited = [entry for entry in data.history.entries if entry.epoch < office.epoch]
                to = consumer.parts_from(inherited, office.epoch_start, data.log_start)
                if to is not None:
                    self._ctx.mark("K5.rewound")
                    self._serves_from = write(Rewound(consumer.number, to))
        return self._removed.folded >= self._serves_from
