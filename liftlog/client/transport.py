"""What a reader needs of its client: to ask a node, and to learn where nodes are and who leads.

The client makes readers; a reader knows its client only by this.
"""

from __future__ import annotations

from typing import Protocol

from liftlog.messages import ClientMessage, ClientReply, StreamInfo


class Transport(Protocol):
    """See the module. Calls raise Unreachable or RequestFailed."""

    async def call(self, node: int, address: str, request: ClientMessage, timeout_s: float) -> ClientReply:
        """Ask one node over TCP."""
        ...

    async def addresses(self, refresh: bool = False, timeout_ms: int = 0) -> dict[int, str]:
        """Where clients reach each node; asked for again if `refresh`, for at most `timeout_ms`, 0 = the
        client's own time limit."""
        ...

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo:
        """What one stream is now, its leaders among it; 0 = the client's own time limit."""
        ...
