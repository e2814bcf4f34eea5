"""How long a NATS server may say nothing before its connection counts as lost (N2, N5).

It is asked by a PING in each interval. The PONG stands behind all messages that the server had sent or kept
for us by then, some 64 MB at most, and a node that has little processor time may take many intervals to get
to it. To give the connection up then loses these messages, of which nobody ever hears: so any byte is a sign
of life. A server that sends us messages and reads none of ours would never be found out by that, so that a
PONG must come too, if much later.
"""

from __future__ import annotations

from liftlog.real.nats_handshake import ConnectionLost

SILENT_MAX = 2
"""After more intervals without a byte the server is taken for gone."""
UNANSWERED_MAX = 30
"""And after more without a PONG."""


class Silence:
    """Of one connection."""

    __slots__ = ("_silent", "_unanswered")

    def __init__(self) -> None:
        self._silent = 0
        """Intervals that have begun since a byte came."""
        self._unanswered = 0

    def heard(self) -> None:
        """Something came."""
        self._silent = 0

    def answered(self) -> None:
        """A PONG came."""
        self._unanswered = 0

    def pass_interval(self) -> None:
        """Raises ConnectionLost."""
        self._silent += 1
        self._unanswered += 1
        if self._silent > SILENT_MAX or self._unanswered > UNANSWERED_MAX:
            raise ConnectionLost("the server stopped answering")
