"""Messages that are no messages: a status in the header block, and nothing in the body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PENDING_MESSAGES = "Nats-Pending-Messages"
PENDING_BYTES = "Nats-Pending-Bytes"
LAST_CONSUMER = "Nats-Last-Consumer"
LAST_STREAM = "Nats-Last-Stream"
STALLED = "Nats-Consumer-Stalled"


class Status(NamedTuple):
    """`text` is what clients compare: it is nats-server's, letter by letter."""

    code: int
    text: str

    def block(self, headers: Mapping[str, object] | None = None) -> bytes:
        """The header block."""
        lines = [f"NATS/1.0 {self.code} {self.text}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


IDLE = Status(100, "Idle Heartbeat")
FLOW_CONTROL = Status(100, "FlowControl Request")
NO_MESSAGES = Status(404, "No Messages")
REQUEST_TIMEOUT = Status(408, "Request Timeout")
MAX_WAITING = Status(409, "Exceeded MaxWaiting")
TOO_LARGE = Status(409, "Message Size Exceeds MaxBytes")
BATCH_COMPLETED = Status(409, "Batch Completed")
CONSUMER_DELETED = Status(409, "Consumer Deleted")
PUSH_BASED = Status(409, "Consumer is push based")
LEADERSHIP_CHANGE = Status(409, "Leadership Change")
SERVER_SHUTDOWN = Status(409, "Server Shutdown")
NEEDS_API_LEVEL = Status(412, "Required Api Level")


def bad_request(why: object) -> Status:
    return Status(400, f"Bad Request - {why}")


def unserved(messages: int, size: int) -> dict[str, object]:
    """What was asked for and not given: clients count with it what else is to come (ADR-37 of NATS)."""
    return {PENDING_MESSAGES: messages, PENDING_BYTES: size}


def last_given(consumer_seq: int, stream_seq: int) -> dict[str, object]:
    """Of a heartbeat: by this clients see whether they have missed something."""
    return {LAST_CONSUMER: consumer_seq, LAST_STREAM: stream_seq}
