"""Bytes that liftlog sends to a NATS server: CONNECT, acknowledgements, refusals; and the URL behind it all.

An acknowledgement is JSON on the publisher's reply subject, with exactly the keys of JetStream's: `stream`
and `seq`, which is the offset plus one; strict clients refuse any other. A message that asks for it with the
header `Liftlog-Ack: full` gets what liftlog means beside them (R4): `offset`, `partition`, `epoch` and the
`incarnation` of its leader. Refusals follow JetStream too: `error` with exactly three keys inside, `stream`,
and `seq` 0; whoever asked for the full ack gets `partition`, `epoch` and `liftlog`, our own code and outcome,
beside them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from liftlog import headers, messages
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
    messages.ERR_HEADER: (400, 10003),
    messages.ERR_WRONG_STREAM: (400, 10060),
    messages.ERR_TTL_DISABLED: (400, 10166),
    messages.ERR_ROLLUP_DISABLED: (500, 10111),
    messages.ERR_COUNTER_DISABLED: (400, 10168),
    messages.ERR_BATCH_DISABLED: (400, 10174),
    messages.ERR_SCHEDULE_DISABLED: (400, 10188),
    messages.ERR_SOURCE_HEADER: (400, 10227),
}
"""JetStream's (HTTP-like code, error code) for each of ours, from nats-server's errors.json."""

HEADER_CODES = frozenset(code for _, code, _ in headers.NOT_HONOURED) | {messages.ERR_WRONG_STREAM}
"""L4: what the message's headers ask for is not done here."""

FAILS = HEADER_CODES | {
    messages.ERR_TOO_LARGE,
    messages.ERR_INVALID,
    messages.ERR_NOT_FOUND,
    messages.ERR_EXISTS,
}
"""N4: refusals that follow from committed configuration, or from what no leader does. Every other error
leaves the outcome open.
"""


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
    """All the PUBs of one `AckPublishes`. An empty reply subject gets nothing, but takes up its offset."""
    plain = b'{"stream":%b,"seq":%%d}' % json.dumps(acks.stream).encode().replace(b"%", b"%%")
    start, replies, full = acks.offsets_from, acks.replies, acks.full
    if full is None:
        return _numbered(plain, 1, start, replies)
    whole = plain[:-1] + b',"offset":%%d,"partition":%d,"epoch":%d,"incarnation":%d}' % (
        acks.partition.index,
        acks.epoch,
        acks.incarnation,
    )
    if all(full):
        return _numbered(whole, 2, start, replies)
    plainly = [b"" if wants else reply for reply, wants in zip(replies, full, strict=True)]
    wholly = [reply if wants else b"" for reply, wants in zip(replies, full, strict=True)]
    return _numbered(plain, 1, start, plainly) + _numbered(whole, 2, start, wholly)


def _numbered(template: bytes, places: int, start: int, replies: list[bytes]) -> bytes:
    """PUBs of `template`, which has a place for seq = offset + 1, and perhaps a second one for the offset.

    Built with one format operation for each run of offsets that have equally many digits, since then all the
    payloads are equally long: about 0.4 µs an ack.
    """
    fixed = len(template) - template.count(b"%%") - 2 * places
    parts = []
    position, count = 0, len(replies)
    while position < count:
        first = start + position
        digits, next_digits = len(str(first)), len(str(first + 1))
        # Up to here offset and seq keep their number of digits; at 9, 99, ... the run is one long.
        limit = first + 1 if next_digits > digits else 10**digits - 1
        run = min(count, limit - start)
        wanted = replies[position:run]
        position = run
        seqs: Sequence[int] = range(first + 1, first + len(wanted) + 1)
        if b"" in wanted:
            seqs = [seq for seq, reply in zip(seqs, wanted, strict=True) if reply]
            wanted = [reply for reply in wanted if reply]
        size = fixed + next_digits + (digits if places == 2 else 0)
        line = b"PUB %%b %d\r\n%b\r\n" % (size, template)
        if places == 1:
            values = chain.from_iterable(zip(wanted, seqs, strict=True))
        else:
            values = chain.from_iterable(zip(wanted, seqs, [seq - 1 for seq in seqs], strict=True))
        parts.append((line * len(wanted)) % tuple(values))
    return b"".join(parts)


def refusals(refusal: messages.RefusePublishes) -> bytes:
    """All the PUBs of one `RefusePublishes` (N4, N6, L4)."""
    http_code, error_code = ERROR_CODES.get(refusal.code, (500, 10077))
    error = {"code": http_code, "err_code": error_code, "description": refusal.description}
    plain: dict[str, object] = {"error": error, "stream": refusal.stream, "seq": 0}
    whole = plain | {
        "partition": refusal.partition.index,
        "epoch": refusal.epoch,
        "liftlog": {"code": refusal.code, "outcome": "fail" if refusal.code in FAILS else "info"},
    }
    tails = []
    for body in (plain, whole):
        payload = json.dumps(body, separators=(",", ":")).encode()
        tails.append(b" %d\r\n%b\r\n" % (len(payload), payload))
    wants = refusal.full or [False] * len(refusal.replies)
    return b"".join(
        [b"PUB " + reply + tails[full] for reply, full in zip(refusal.replies, wants, strict=True) if reply]
    )
