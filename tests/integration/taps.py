"""A line between two TCP ports on which a test listens."""

from __future__ import annotations

from types import TracebackType

from tests.integration.proxy import Proxy


class Tap(Proxy):
    """Passes connections to `target`, host:port on this machine, on, and keeps what it saw. A context."""

    def __init__(self, target: str) -> None:
        self.seen = bytearray()
        """Of all connections, in both directions."""
        super().__init__(int(target.rpartition(":")[2]))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def passed(self, data: bytes) -> None:
        with self._lock:
            self.seen += data

    def __enter__(self) -> Tap:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
