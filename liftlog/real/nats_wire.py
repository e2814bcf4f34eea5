"""Bytes that liftlog sends to a NATS server: CONNECT, acknowledgements, refusals; and the URL behind it all.

An acknowledgement is JSON on the publisher's reply subject. `stream` and `seq` make it a valid JetStream
publish acknowledgement, so that JetStream clients work unchanged; `offset`, `partition` and `epoch` are what
liftlog means (R4). Errors follow JetStream too: exactly three keys inside `error`, since clients unpack that
object; everything else stands beside it.
"""

from __future__ import annotations

import json
from itertools import chain
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from liftlog import messages
from liftlog.types import LiftlogError

DEFAULT_URL = "nats://127.0.0.1:4222"
DEFAULT_PORT = 4222

ERROR_CODES: dict[str, tuple[int, int]] = {
    messages.ERR_TOO_LARGE: (400, 10054),
    messages.ERR_INVALID: (400, 10003),
    messages.ERR_EXISTS: (400, 10058),
    messages.ERR_NOT_FOUND: (404, 10059),
    messages.ERR_OFFSET_RANGE: (400, 10071),
    messages.ERR_NO_LEADER: (503, 10008),
    messages.ERR_NOT_LEADER: (503, 10009),
    messages.ERR_NOT_READY: (503, 10008),
    messages.ERR_TOO_FEW_INSYNC: (503, 10008),
    messages.ERR_TIMEOUT: (503, 10008),
    messages.ERR_OVERLOAD: (503, 10023),
    messages.ERR_FAILED: (503, 10077),
    messages.ERR_DAMAGED: (500, 10077),
}
"""JetStream's (HTTP-like code, error code) for each of ours, from nats-server's errors.json."""

FAILS = frozenset({messages.ERR_TOO_LARGE, messages.ERR_INVALID, messages.ERR_NOT_FOUND, messages.ERR_EXISTS})
"""N4: refusals that follow from committed configuration. Every other error leaves the outcome open."""


class NatsAddress(NamedTuple):
    """Where a NATS server is and how to log in."""

    host: str
    port: int
    tls: bool
    user: str = ""
    password: str = ""
    token: str = ""

    def __str__(self) -> str:
        return f"{'tls' if self.tls else 'nats'}://{self.host}:{self.port}"


def parse_url(text: str) -> list[NatsAddress]:
    """Addresses of a comma-separated list of NATS URLs. Raises LiftlogError for anything else."""
    addresses = []
    for part in text.split(","):
        url = part.strip()
        shown = url.rsplit("@", 1)[-1]
        try:
            split = urlsplit(url if "://" in url else f"nats://{url}")
            host, port = split.hostname, split.port or DEFAULT_PORT
        except ValueError as error:
            raise LiftlogError(
                f"bad NATS URL {shown!r} ({error}); use nats://host:port or tls://host:port"
            ) from None
        if split.scheme not in ("nats", "tls") or not host:
            raise LiftlogError(f"bad NATS URL {shown!r}; use nats://host:port or tls://host:port")
        user, password = unquote(split.username or ""), unquote(split.password or "")
        if user and split.password is None:
            addresses.append(NatsAddress(host, port, split.scheme == "tls", token=user))
        else:
            addresses.append(NatsAddress(host, port, split.scheme == "tls", user, password))
    return addresses


def connect_line(address: NatsAddress, name: str, version: str, proof: dict[str, str]) -> bytes:
    """CONNECT with our options, followed by the PING whose PONG says that we are let in.

    `proof`: what `NatsLogin.proof` gave.
    """
    options: dict[str, object] = {
        "verbose": False,
        "pedantic": False,
        "tls_required": address.tls,
        "name": name,
        "lang": "python-liftlog",
        "version": version,
        "protocol": 1,
        "headers": True,
        "no_responders": True,
    }
    options.update(proof)
    if address.token:
        options["auth_token"] = address.token
    elif address.user:
        options["user"], options["pass"] = address.user, address.password
    return b"CONNECT " + json.dumps(options).encode() + b"\r\nPING\r\n"


def publish(subject: bytes, payload: bytes) -> bytes:
    """One PUB with its payload."""
    return b"PUB %b %d\r\n%b\r\n" % (subject, len(payload), payload)


def acknowledgements(acks: messages.AckPublishes) -> bytes:
    """All the PUBs of one `AckPublishes`. An empty reply subject gets nothing, but takes up its offset.

    Built with one format operation for each run of offsets that have equally many digits, since then all the
    payloads are equally long: about 0.4 µs an ack.
    """
    name = json.dumps(acks.stream).encode()
    escaped = name.replace(b"%", b"%%")
    start, replies = acks.offsets_from, acks.replies
    parts = []
    position, count = 0, len(replies)
    while position < count:
        first = start + position
        digits, next_digits = len(str(first)), len(str(first + 1))
        # Up to here offset and seq = offset + 1 keep their number of digits; at 9, 99, ... the run is one
        # long.
        limit = first + 1 if next_digits > digits else 10**digits - 1
        run = min(count, limit - start)
        wanted = replies[position:run]
        template = b'{"stream":%b,"seq":%%d,"offset":%%d,"partition":%d,"epoch":%d}' % (
            escaped,
            acks.partition.index,
            acks.epoch,
        )
        size = len(template) - name.count(b"%") - 4 + digits + next_digits
        line = b"PUB %%b %d\r\n%b\r\n" % (size, template)
        if b"" in wanted:
            numbered = [(reply, offset + 1, offset) for offset, reply in enumerate(wanted, first) if reply]
            parts.append((line * len(numbered)) % tuple(chain.from_iterable(numbered)))
        else:
            last = first + len(wanted)
            numbers = zip(wanted, range(first + 1, last + 1), range(first, last), strict=True)
            parts.append((line * len(wanted)) % tuple(chain.from_iterable(numbers)))
        position = run
    return b"".join(parts)


def error_payload(code: str, description: str, beside: dict[str, object]) -> bytes:
    """A refusal as JSON: JetStream's three keys inside `error`, ours beside it."""
    http_code, error_code = ERROR_CODES.get(code, (500, 10077))
    body: dict[str, object] = {
        "error": {"code": http_code, "err_code": error_code, "description": description},
        "liftlog": {"code": code, "outcome": "fail" if code in FAILS else "info"},
    }
    body.update(beside)
    return json.dumps(body, separators=(",", ":")).encode()


def refusals(refusal: messages.RefusePublishes) -> bytes:
    """All the PUBs of one `RefusePublishes` (N4, N6)."""
    beside: dict[str, object] = {"partition": refusal.partition.index, "epoch": refusal.epoch}
    if refusal.stream:
        beside["stream"] = refusal.stream
    payload = error_payload(refusal.code, refusal.description, beside)
    tail = b" %d\r\n%b\r\n" % (len(payload), payload)
    return b"".join([b"PUB " + reply + tail for reply in refusal.replies if reply])
