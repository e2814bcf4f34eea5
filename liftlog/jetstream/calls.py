"""Which call a subject is: the verb, the names in it, what else was asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from liftlog.jetstream.errors import BAD_REQUEST, INVALID_JSON

T = TypeVar("T")
REQUIRED_LEVEL = "Nats-Required-Api-Level"

NAMED: dict[str, tuple[int, bool]] = {
    "INFO": (0, False),
    "STREAM.NAMES": (0, False),
    "STREAM.LIST": (0, False),
    "STREAM.CREATE": (1, False),
    "STREAM.UPDATE": (1, False),
    "STREAM.INFO": (1, False),
    "STREAM.DELETE": (1, False),
    "STREAM.PURGE": (1, False),
    "STREAM.MSG.GET": (1, False),
    "STREAM.MSG.DELETE": (1, False),
    "STREAM.SNAPSHOT": (1, False),
    "STREAM.RESTORE": (1, False),
    "STREAM.PEER.REMOVE": (1, False),
    "STREAM.LEADER.STEPDOWN": (1, False),
    "DIRECT.GET": (1, True),
    "CONSUMER.CREATE": (2, True),
    "CONSUMER.DURABLE.CREATE": (2, False),
    "CONSUMER.NAMES": (1, False),
    "CONSUMER.LIST": (1, False),
    "CONSUMER.INFO": (2, False),
    "CONSUMER.DELETE": (2, False),
    "CONSUMER.PAUSE": (2, False),
    "CONSUMER.RESET": (2, False),
    "CONSUMER.UNPIN": (2, False),
    "CONSUMER.LEADER.STEPDOWN": (2, False),
    "CONSUMER.MSG.NEXT": (2, False),
}
"""By verb: how many names follow it, and whether more may."""
OPTIONAL_NAMES = {"CONSUMER.CREATE": 1}
"""Verbs whose last name may be left out: how many must be there."""


class JsCall(msgspec.Struct, frozen=True):
    """One request. `rest`: what stands behind the names, such as a filter."""

    verb: str
    stream: str = ""
    consumer: str = ""
    rest: str = ""
    payload: bytes = b""
    headers: Mapping[str, str] = {}
    reply: str = ""
    subject: str = ""

    @property
    def has_object(self) -> bool:
        """Whether an object was sent, or what is meant as one: some calls pass over anything else."""
        return self.payload.lstrip()[:1] in (b"{", b"[")

    def body(self, kind: type[T]) -> T:
        """What was sent, read strictly; nothing at all stands for an empty object. Raises JsError."""
        try:
            return msgspec.json.decode(self.payload.strip() or b"{}", type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise INVALID_JSON.because(error) from None

    def needs_at_most(self, level: int) -> bool:
        """Whether the client is content with what this API level brings."""
        wanted = self.headers.get(REQUIRED_LEVEL, "0")
        return wanted.isascii() and wanted.isdigit() and int(wanted) <= level

    def anything(self) -> Any:
        """What was sent, whatever it is. Raises JsError."""
        return self.body(object)


def parse_call(subject: str, prefix: str, payload: bytes, headers: Mapping[str, str], reply: str) -> JsCall:
    """The call on a subject behind `prefix`, such as "$JS.API". Raises JsError for what is none."""
    tokens = subject[len(prefix) + 1 :].split(".")
    for length in (3, 2, 1):
        verb = ".".join(tokens[:length])
        if len(tokens) < length or verb not in NAMED:
            continue
        names, more = NAMED[verb]
        found = tokens[length:]
        if len(found) < OPTIONAL_NAMES.get(verb, names) or (len(found) > names and not more):
            break
        return JsCall(
            verb=verb,
            stream=found[0] if names >= 1 else "",
            consumer=found[1] if names >= 2 and len(found) > 1 else "",
            rest=".".join(found[names:]),
            payload=payload,
            headers=headers,
            reply=reply,
            subject=subject,
        )
    raise BAD_REQUEST.because()
