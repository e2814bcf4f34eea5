"""Bytes that liftlog sends to a NATS server: CONNECT, acknowledgements, refusals; and the URL behind it all.

An acknowledgement is JSON on the publisher's reply subject, with exactly the keys of JetStream's: `stream`
and `seq`, which is the offset plus one; strict clients refuse any other. A message that asks for it with the
header `Liftlog-Ack: full` gets what liftlog means beside them (R4): `offset`, `partition`, `epoch` and the
`incarnation` of its leader. Refusals follow JetStream too: `error` with exactly three keys inside, `stream`,
and `seq` 0; whoever asked for the full ack gets `partition`, `epoch` and `liftlog`, our own code and outcome,
beside them. Who asked for the leader's word alone is told so: `policy` is "leader" then. A parcel has one
ack: `seq` is that of its last record; in a full one `offset` is that of its first, and `count` says how many
there are (L8). So has a batch, with its `batch` id and `count` for everybody; what comes before its end is
answered with nothing (L11). Who published in Liftbridge's envelope is answered in one
(`liftlog/options/envelope.py`). Whose message is there already, by its id, is told where, and `duplicate`
true, as by JetStream; an envelope has no place for that word.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import chain
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from liftlog import messages
from liftlog.options import headers
from liftlog.options.envelope import ANY_OFFSET, INCORRECT_OFFSET, TOO_LARGE, UNKNOWN, EnvelopeAck, seal_ack
from liftlog.types import NO_OFFSET, LiftlogError

DEFAULT_URL = "nats://127.0.0.1:4222"
DEFAULT_PORT = 4222
NANOSECONDS_PER_MS = 1_000_000
PROBLEM_MAX_CHARACTERS = 300

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
    messages.ERR_FULL: (503, 10077),
    messages.ERR_DAMAGED: (500, 10077),
    messages.ERR_READ_ONLY: (400, 10109),
    messages.ERR_HEADER: (400, 10003),
    messages.ERR_ENVELOPE: (400, 10003),
    messages.ERR_ENVELOPE_DAMAGED: (400, 10003),
    messages.ERR_EXPECTED_OFFSET: (400, 10071),
    messages.ERR_EXPECTED_LAST: (400, 10071),
    messages.ERR_EXPECTED_ID: (400, 10070),
    messages.ERR_NOT_DUE: (400, 10071),
    messages.ERR_FENCED: (400, 10003),
    messages.ERR_LONG_STORED: (400, 10003),
    messages.ERR_CURSOR: (400, 10003),
    messages.ERR_NO_CURSOR: (400, 10003),
    messages.ERR_WRONG_STREAM: (400, 10060),
    messages.ERR_PARCEL: (400, 10003),
    messages.ERR_PARCEL_HERE: (503, 10008),
    messages.ERR_TTL_DISABLED: (400, 10166),
    messages.ERR_TTL_INVALID: (400, 10165),
    messages.ERR_ROLLUP_DISABLED: (500, 10111),
    messages.ERR_COUNTER_DISABLED: (400, 10168),
    messages.ERR_BATCH_DISABLED: (400, 10174),
    messages.ERR_BATCH_ID: (400, 10179),
    messages.ERR_BATCH_SEQUENCE: (400, 10175),
    messages.ERR_BATCH_COMMIT: (400, 10200),
    messages.ERR_BATCH_HEADER: (400, 10177),
    messages.ERR_BATCH_LARGE: (400, 10199),
    messages.ERR_BATCH_INCOMPLETE: (400, 10176),
    messages.ERR_BATCH_DUPLICATE: (400, 10201),
    messages.ERR_BATCH_MANY: (429, 10210),
    messages.ERR_FAST_DISABLED: (400, 10205),
    messages.ERR_FAST_PATTERN: (400, 10206),
    messages.ERR_FAST_ID: (400, 10207),
    messages.ERR_FAST_UNKNOWN: (400, 10208),
    messages.ERR_FAST_MANY: (429, 10211),
    messages.ERR_EXPECTED_WITHIN: (400, 10164),
    messages.ERR_SCHEDULE_DISABLED: (400, 10188),
    messages.ERR_SOURCE_HEADER: (400, 10227),
}
"""JetStream's (HTTP-like code, error code) for each of ours, from nats-server's errors.json."""

HEADER_CODES = frozenset(code for _, code, _ in headers.NOT_HONOURED) | {
    messages.ERR_WRONG_STREAM,
    messages.ERR_ENVELOPE,
    messages.ERR_ENVELOPE_DAMAGED,
    messages.ERR_PARCEL,
    messages.ERR_ROLLUP_DISABLED,
    messages.ERR_TTL_DISABLED,
    messages.ERR_TTL_INVALID,
    messages.ERR_BATCH_DISABLED,
    messages.ERR_BATCH_ID,
    messages.ERR_BATCH_SEQUENCE,
    messages.ERR_BATCH_COMMIT,
    messages.ERR_BATCH_HEADER,
    messages.ERR_FAST_DISABLED,
    messages.ERR_FAST_PATTERN,
    messages.ERR_FAST_ID,
    messages.ERR_EXPECTED_WITHIN,
}
"""L4, L8, L11, L12: what the message's headers or its envelope ask for is not done here."""

_ENVELOPE_ERRORS = {
    messages.ERR_TOO_LARGE: TOO_LARGE,
    messages.ERR_EXPECTED_OFFSET: INCORRECT_OFFSET,
    messages.ERR_EXPECTED_LAST: INCORRECT_OFFSET,
}
"""Liftbridge's, in an envelope's answer."""

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


def letter(message: messages.PublishLetter, reply: bytes) -> bytes:
    """One HPUB of a dead letter (K9), to be answered at `reply`."""
    size = len(message.headers), len(message.headers) + len(message.value)
    head = b"HPUB %b %b %d %d\r\n" % (message.subject.encode(), reply, *size)
    return b"%b%b%b\r\n" % (head, message.headers, message.value)


def letter_problem(headers: bytes, payload: bytes) -> str:
    """Why what is answered to a dead letter is no word that it is stored; empty if it is."""
    if headers.startswith(b"NATS/1.0 503"):
        return "no stream listens on the subject"
    try:
        told = json.loads(payload)
        problem = told.get("error")
        if problem is None and told["stream"] and int(told["seq"]) > 0:
            return ""
        return f"refused: {problem['description']}"[:PROBLEM_MAX_CHARACTERS]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return "whoever listens on the subject answers with something else than an ack"


def acknowledgements(acks: messages.AckPublishes, now_ms: int = 0) -> bytes:
    """All the PUBs of one `AckPublishes`. An empty reply subject gets nothing, but takes up its offset.

    `now_ms`: for those whose ack says when it was sent.
    """
    if acks.records:
        return _of_parcel(acks)
    if acks.enveloped is None:
        return _in_json(acks, acks.replies)
    pairs = list(zip(acks.replies, acks.enveloped, strict=True))
    plainly = _in_json(acks, [b"" if one is not None else reply for reply, one in pairs])
    enveloped = [
        publish(reply, _ack_of(acks.stream, reply, one, acks.offsets_from + place, now_ms))
        for place, (reply, one) in enumerate(pairs)
        if one is not None and reply
    ]
    return plainly + b"".join(enveloped)


def staged(told: messages.TellStaged) -> bytes:
    """All the PUBs of one `TellStaged` (L11)."""
    return b"".join(publish(reply, b"") for reply in told.replies)


def fast(told: messages.TellFast) -> bytes:
    """The PUB of one `TellFast` (L12)."""
    body: dict[str, object] = {"type": told.word, "seq": told.number}
    if told.word == "ack":
        body["msgs"] = told.other
    elif told.word == "gap":
        body = {"type": "gap", "last_seq": told.other, "seq": told.number}
    elif told.word == "err":
        code, number = ERROR_CODES.get(told.code, (500, 10077))
        body["error"] = {"code": code, "err_code": number, "description": told.text}
    else:
        body = {"stream": told.stream, "seq": told.other + 1, "batch": told.batch.decode("utf-8", "replace")}
        body["count"] = told.number
    return publish(told.reply, json.dumps(body, separators=(",", ":")).encode())


def _of_parcel(acks: messages.AckPublishes) -> bytes:
    (reply,) = acks.replies
    body: dict[str, object] = {"stream": acks.stream, "seq": acks.offsets_from + acks.records}
    if acks.full is not None and acks.full[0]:
        body |= {
            "offset": acks.offsets_from,
            "count": acks.records,
            "partition": acks.partition.index,
            "epoch": acks.epoch,
            "incarnation": acks.incarnation,
        }
    if acks.batch:
        body |= {"batch": acks.batch.decode("utf-8", "replace"), "count": acks.records}
    if acks.by_leader:
        body["policy"] = "leader"
    return publish(reply, json.dumps(body, separators=(",", ":")).encode())


def _in_json(acks: messages.AckPublishes, replies: list[bytes]) -> bytes:
    plain = b'{"stream":%b,"seq":%%d' % json.dumps(acks.stream).encode().replace(b"%", b"%%")
    end = b',"duplicate":true' if acks.duplicate else b""
    end += b',"cursor":%d' % acks.cursor if acks.cursor != NO_OFFSET else b""
    end += b',"policy":"leader"}' if acks.by_leader else b"}"
    start, full = acks.offsets_from, acks.full
    if full is None:
        return _numbered(plain + end, 1, start, replies)
    whole = plain + b',"offset":%%d,"partition":%d,"epoch":%d,"incarnation":%d' % (
        acks.partition.index,
        acks.epoch,
        acks.incarnation,
    )
    if all(full):
        return _numbered(whole + end, 2, start, replies)
    plainly = [b"" if wants else reply for reply, wants in zip(replies, full, strict=True)]
    wholly = [reply if wants else b"" for reply, wants in zip(replies, full, strict=True)]
    return _numbered(plain + end, 1, start, plainly) + _numbered(whole + end, 2, start, wholly)


def _ack_of(
    stream: str, inbox: bytes, asked: messages.EnvelopeAnswer, offset: int, now_ms: int, error: int = 0
) -> bytes:
    """An ack in Liftbridge's envelope. A refusal has the offset -1, which no record has: clients that know
    nothing of its error must not take it for the ack of offset 0.
    """
    return seal_ack(
        EnvelopeAck(
            stream=stream,
            partition_subject=asked.attached_to,
            msg_subject=asked.subject.decode("utf-8", "replace"),
            offset=offset,
            ack_inbox=inbox.decode("utf-8", "replace"),
            correlation_id=asked.correlation_id,
            policy=asked.policy,
            reception_timestamp=asked.received_ms * NANOSECONDS_PER_MS,
            commit_timestamp=now_ms * NANOSECONDS_PER_MS,
            error=error,
        )
    )


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
    ours: dict[str, object] = {
        "code": refusal.code,
        "outcome": "fail" if refusal.code in FAILS else "info",
    }
    if refusal.next_offset >= 0:
        ours["next_offset"] = refusal.next_offset
    if refusal.last_offset is not None:
        ours["last_offset"] = refusal.last_offset
    if refusal.next_sequence >= 0:
        ours["next_sequence"] = refusal.next_sequence
    if refusal.newest_run >= 0:
        ours["newest_run"] = refusal.newest_run
    whole = plain | {
        "partition": refusal.partition.index,
        "epoch": refusal.epoch,
        "liftlog": ours,
    }
    tails = []
    for body in (plain, whole):
        payload = json.dumps(body, separators=(",", ":")).encode()
        tails.append(b" %d\r\n%b\r\n" % (len(payload), payload))
    wants = refusal.full or [False] * len(refusal.replies)
    envelopes = refusal.enveloped or [None] * len(refusal.replies)
    in_envelope = _ENVELOPE_ERRORS.get(refusal.code, UNKNOWN)
    return b"".join(
        [
            b"PUB " + reply + tails[full]
            if one is None
            else publish(reply, _ack_of(refusal.stream, reply, one, ANY_OFFSET, 0, in_envelope))
            for reply, full, one in zip(refusal.replies, wants, envelopes, strict=True)
            if reply
        ]
    )
