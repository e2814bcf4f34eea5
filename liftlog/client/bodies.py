"""Requests and answers of the API as JSON, on the side of a client."""

from __future__ import annotations

import json
from typing import TypeVar

import msgspec

from liftlog.api.plain import from_plain
from liftlog.client.errors import RequestFailed
from liftlog.messages import ErrorReply
from liftlog.types import LiftlogError

T = TypeVar("T")


def as_json(operation: str, body: object) -> bytes:
    """Raises LiftlogError for text that is none, as a command line in another encoding brings it."""
    try:
        return json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        text = str(error.object[error.start : error.end]).encode("utf-8", "surrogateescape")
        raise LiftlogError(f"{operation}: names and subjects are UTF-8, which {text!r} is not") from None


def decode_answer(payload: bytes, kind: type[T]) -> T:
    """An API answer as a `kind`. Raises RequestFailed if it is an error."""
    try:
        body = json.loads(payload)
        if "error" in body:
            ours = body["liftlog"]
            error = ErrorReply(ours["code"], body["error"]["description"], ours["retryable"], ours["leader"])
            raise RequestFailed(error.code, error.description, error.retryable, error.leader)
        return from_plain(kind, body)
    except (ValueError, KeyError, TypeError, RecursionError, msgspec.ValidationError) as error:
        raise LiftlogError(f"a server's answer is not understood ({error}); do the versions match?") from None
