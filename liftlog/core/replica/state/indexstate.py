"""What a replica knows of its log's subject index, which storage has, and how far it is to go (S1).

An index is begun when somebody asks, and kept up for `KEPT_MS` after the last question, a tick at a time, so
that the next one does not wait. What is known here is a hint: storage looks itself before it answers.
"""

from __future__ import annotations

KEPT_MS = 600_000
"""For so long after a question an index follows its log."""


class SubjectIndexState:
    """`folded`: everything below is entered, -1 = nothing is known; `ready`: and may be answered from.
    `goal`: up to where it is wanted; 0 = nobody wants it. `awaited`: a question waits for it. Only `LogState`
    has one.
    """

    __slots__ = ("awaited", "folded", "goal", "kept_ticks", "ready")

    def __init__(self) -> None:
        self.folded = -1
        self.ready = False
        self.goal = 0
        self.kept_ticks = 0
        self.awaited = False

    def lost(self) -> None:
        """The log is another one, or parts of it were cut: nothing is known any more."""
        self.folded = -1
        self.ready = False
        self.goal = 0

    def has(self, offset: int) -> bool:
        """Whether it can be asked about everything below an offset, as far as is known."""
        return self.ready and self.folded >= offset

    def want(self, offset: int, kept_ticks: int) -> None:
        """Somebody asks about what lies below an offset."""
        self.goal = max(self.goal, offset)
        self.kept_ticks = kept_ticks
        self.awaited = True

    def nobody_waits(self) -> None:
        """It may be kept up, and is not to be begun anew, until somebody asks."""
        self.awaited = False

    def is_due(self, settled: int) -> bool:
        """Whether storage is to go on with it; what is to be entered lies below `settled`."""
        return (self.goal > 0 or self.kept_ticks > 0) and not self.has(min(self.goal, settled))

    def reached(self, folded: int, ready: bool) -> None:
        """Storage has said how far it is."""
        self.folded = folded
        self.ready = ready

    def given_up(self) -> None:
        """It cannot go on: who asks next begins anew."""
        self.lost()
        self.kept_ticks = 0

    def tick(self, settled: int) -> None:
        """A tick has passed: as long as it is kept up it is to have what is committed by now."""
        if self.kept_ticks > 0:
            self.kept_ticks -= 1
            self.goal = max(self.goal, settled)
