"""How an answer is written: an object with its type; times in RFC 3339 that end in Z; durations in ns."""

from __future__ import annotations

import datetime
from typing import Any, ClassVar

import msgspec

from liftlog.jetstream.errors import JsError

TYPE_PREFIX = "io.nats.jetstream.api.v1."
ZERO_TIME = "0001-01-01T00:00:00Z"
"""What stands for no time."""
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000


class JsAnswer(msgspec.Struct, omit_defaults=False):
    """The base of what handlers return. `kind`: the middle of the type that JetStream names."""

    kind: ClassVar[str] = ""


class JsPage(JsAnswer):
    """A page of a list: `total` are there in all, those from number `offset` on are told, at most `limit`."""

    total: int
    offset: int
    limit: int


class SuccessAnswer(JsAnswer):
    success: bool = True


def encode_answer(answer: JsAnswer, kind: str = "") -> bytes:
    """The bytes of an answer."""
    fields: dict[str, Any] = {"type": f"{TYPE_PREFIX}{kind or answer.kind}_response"}
    fields |= msgspec.to_builtins(answer)
    return msgspec.json.encode(fields)


def encode_error(error: JsError, verb: str) -> bytes:
    """The bytes of an answer to `verb` that is an error. Clients accept no other key in `error`."""
    what = {"code": error.code, "err_code": error.err_code, "description": error.description}
    return msgspec.json.encode({"type": f"{TYPE_PREFIX}{kind_of(verb)}_response", "error": what})


def kind_of(verb: str) -> str:
    """The middle of the type of answers to a verb."""
    return KINDS.get(verb, verb.lower().replace(".", "_"))


KINDS = {
    "INFO": "account_info",
    "CONSUMER.DURABLE.CREATE": "consumer_create",
    "CONSUMER.LEADER.STEPDOWN": "consumer_leader_stepdown",
    "STREAM.PEER.REMOVE": "stream_remove_peer",
}


def rfc3339(timestamp_ms: int) -> str:
    """A time in ms since 1970, as JetStream writes it."""
    seconds, ms = divmod(timestamp_ms, 1000)
    moment = datetime.datetime(1970, 1, 1) + datetime.timedelta(seconds=seconds)
    fraction = f".{ms:03d}".rstrip("0") if ms else ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}{fraction}Z"
