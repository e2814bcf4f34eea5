"""What can go wrong for a client, each as a `LiftlogError` with one clear line."""

from __future__ import annotations

from liftlog.types import LiftlogError


class RequestFailed(LiftlogError):
    """A server refused a request. `code` is one of the ERR_* names of `liftlog.messages`."""

    def __init__(self, code: str, description: str, retryable: bool = False, leader: int = 0) -> None:
        super().__init__(description)
        self.code = code
        self.retryable = retryable
        self.leader = leader


class Unreachable(LiftlogError):
    """NATS, a node or the whole cluster does not answer."""
