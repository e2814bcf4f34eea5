"""Acks as they are sent: the subject that names a delivery, and the word about it.

    $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time ns>.<pending>
    $JS.ACK.<domain>.<account>.<stream>.<consumer>.<the same five>[.<more>]

The first form is sent, both are understood. nats-py's ordered consumers understand the first one only.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import msgspec

from liftlog.jetstream.answers import NS_PER_MS
from liftlog.messages import ACK, NAK, PROGRESS, TERM

ACK_PREFIX = "$JS.ACK"
_ABOUT = r"([^.]*)\.([^.]*)" + r"\.([0-9]{1,19})" * 5
_SHORT = re.compile(rf"\$JS\.ACK\.{_ABOUT}")
_LONG = re.compile(rf"\$JS\.ACK\.[^.]*\.[^.]*\.{_ABOUT}(?:\..*)?", re.DOTALL)
_UNITS_MS = {"ns": 1e-6, "us": 1e-3, "µs": 1e-3, "ms": 1.0, "s": 1e3, "m": 6e4, "h": 3.6e6}
_PART = re.compile(r"(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|ms|s|m|h)")


class AckSubject(NamedTuple):
    """Which delivery of which message."""

    stream: str
    consumer: str
    delivered: int
    stream_seq: int
    consumer_seq: int
    timestamp_ns: int
    pending: int

    def __str__(self) -> str:
        return ack_subject(acks_of(self.stream, self.consumer), *self[2:])


def acks_of(stream: str, consumer: str) -> str:
    """How the subjects of all its acks begin; the five numbers follow."""
    return f"{ACK_PREFIX}.{stream}.{consumer}."


def ack_subject(
    begins: str, delivered: int, stream_seq: int, consumer_seq: int, timestamp_ns: int, pending: int
) -> str:
    """The subject for one ack; `begins`: `acks_of` its consumer."""
    return f"{begins}{delivered}.{stream_seq}.{consumer_seq}.{timestamp_ns}.{pending}"


def parse_ack_subject(subject: str) -> AckSubject | None:
    """What an ack is about; None if its subject is none of the two forms."""
    found = _SHORT.fullmatch(subject) or _LONG.fullmatch(subject)
    if found is None:
        return None
    stream, consumer, *numbers = found.groups()
    about = AckSubject(stream, consumer, *map(int, numbers))
    return about if about.stream_seq > 0 else None


class AckWord(NamedTuple):
    """`how`: what becomes of the message, as `SettleRequest` names it. `next`: the pull that comes along with
    it; None: none does.
    """

    how: str
    delay_ms: int = 0
    reason: str = ""
    next: bytes | None = None


class _Delay(msgspec.Struct):
    delay: int = 0


def parse_ack_word(payload: bytes) -> AckWord | None:
    """What is said; None if it is nothing that JetStream knows."""
    if payload in (b"", b"+ACK", b"+OK"):
        return AckWord(ACK)
    if payload == b"+WPI":
        return AckWord(PROGRESS)
    if payload.startswith(b"+NXT"):
        return AckWord(ACK, next=payload[4:])
    if payload.startswith(b"-NAK"):
        return AckWord(NAK, delay_ms=_delay_ms(payload[4:].strip()))
    if payload.startswith(b"+TERM"):
        return AckWord(TERM, reason=payload[5:].strip().decode("utf-8", "replace"))
    return None


def _delay_ms(text: bytes) -> int:
    """An object with a delay in ns, or a duration as Go writes it; 0 for anything else."""
    if text.startswith(b"{"):
        try:
            return max(0, msgspec.json.decode(text, type=_Delay).delay // NS_PER_MS)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return 0
    said = text.decode("utf-8", "replace")
    parts = _PART.findall(said)
    if "".join(number + unit for number, unit in parts) != said:
        return 0
    return round(sum(float(number) * _UNITS_MS[unit] for number, unit in parts))
