"""Of whom it is said that nobody listens there any more: hints of the network port, never proofs (N2).

A hint shortens how long somebody may be silent before others act, and that is all: whoever is heard is none
of whom it is said any more. It may be late, missing or false.
"""

from __future__ import annotations


class Hints:
    """Written by its transitions only."""

    __slots__ = ("_lost",)

    def __init__(self) -> None:
        self._lost: dict[int, None] = {}

    def __contains__(self, node: int) -> bool:
        """Whether a host has said, since this node was heard last, that nobody listens there."""
        return node in self._lost

    def __bool__(self) -> bool:
        return bool(self._lost)

    # -- transitions -----------------------------------------------------------------------------------

    def lost(self, node: int) -> bool:
        """True if that is news."""
        news = node not in self._lost
        self._lost[node] = None
        return news

    def heard(self, node: int) -> None:
        """A message of it came, or a connection to it stands."""
        self._lost.pop(node, None)
