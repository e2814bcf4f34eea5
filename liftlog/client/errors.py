"""What can go wrong for a client, each as a `LiftlogError` with one clear line."""

from __future__ import annotations

from collections.abc import Iterable

from liftlog.types import LiftlogError


class RequestFailed(LiftlogError):
    """A server refused a request. `code` is one of the ERR_* names of `liftlog.messages`."""

    def __init__(self, code: str, description: str, retryable: bool = False, leader: int = 0) -> None:
        super().__init__(description)
        self.code = code
        self.retryable = retryable
        self.leader = leader


class NodeTooOld(RequestFailed):
    """The node is of a release that does not know this request; it was not asked."""


class Unreachable(LiftlogError):
    """NATS, a node or the whole cluster does not answer."""


def forbids(complaints: Iterable[Exception], subject: str) -> bool:
    """Whether one of the things that NATS said against us is that we may not publish to `subject`."""
    wanted = f'"{subject.lower()}"'
    texts = (str(complaint).lower() for complaint in complaints)
    return any("permissions violation for publish" in text and wanted in text for text in texts)
