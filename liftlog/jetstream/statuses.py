"""Messages that are no messages: a status in the header block, and nothing in the body."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

PENDING_MESSAGES = "Nats-Pending-Messages"
PENDING_BYTES = "Nats-Pending-Bytes"
LAST_CONSUMER = "Nats-Last-Consumer"
LAST_STREAM = "Nats-Last-Stream"
STALLED = "Nats-Consumer-Stalled"


class JsStatus(NamedTuple):
    """`text` is what clients compare: it is nats-server's, letter by letter."""

    code: int
    text: str

    def block(self, headers: Mapping[str, object] | None = None) -> bytes:
        """The header block."""
        lines = [f"NATS/1.0 {self.code} {self.text}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


IDLE = JsStatus(100, "Idle Heartbeat")
FLOW_CONTROL = JsStatus(100, "FlowControl Request")
NO_MESSAGES = JsStatus(404, "No Messages")
REQUEST_TIMEOUT = JsStatus(408, "Request Timeout")
MAX_WAITING = JsStatus(409, "Exceeded MaxWaiting")
TOO_LARGE = JsStatus(409, "Message Size Exceeds MaxBytes")
BATCH_COMPLETED = JsStatus(409, "Batch Completed")
CONSUMER_DELETED = JsStatus(409, "Consumer Deleted")
PUSH_BASED = JsStatus(409, "Consumer is push based")
LEADERSHIP_CHANGE = JsStatus(409, "Leadership Change")
SERVER_SHUTDOWN = JsStatus(409, "Server Shutdown")
PIN_MISMATCH = JsStatus(423, "Nats-Pin-Id mismatch")
WRONG_PIN = JsStatus(423, "Nats-Wrong-Pin-Id")
NEEDS_API_LEVEL = JsStatus(412, "Required Api Level")


def bad_request(why: object) -> JsStatus:
    return JsStatus(400, f"Bad Request - {why}")


def unserved(messages: int, size: int) -> dict[str, object]:
    """What was asked for and not given: clients count with it what else is to come (ADR-37 of NATS)."""
    return {PENDING_MESSAGES: messages, PENDING_BYTES: size}


def last_given(consumer_seq: int, stream_seq: int) -> dict[str, object]:
    """Of a heartbeat: by this clients see whether they have missed something."""
    return {LAST_CONSUMER: consumer_seq, LAST_STREAM: stream_seq}
