"""How long a message is to stay: the header `Nats-TTL` (R24), as nats-server reads it.

    Nats-TTL: 90          whole seconds
    Nats-TTL: 1h30m       a duration of Go's: numbers with units, ns us ms s m h
    Nats-TTL: never       it stays; in any case of letters

At least one second, and no more than such a duration can say, some 292 years. nats-server cuts a duration
to whole seconds; here it is what it says, to the millisecond above.
"""

from __future__ import annotations

import re
from functools import lru_cache

from liftlog.bounds import TTL_LEAST_MS, TTL_MOST_MS
from liftlog.types import StreamConfig

TTL = b"Nats-TTL"
TTL_LINE = TTL + b":"
"""How a line begins that has one."""
NEVER = b"never"
STAYS = 0
"""The time of a message that is to stay: as that of one that says nothing."""
_LINE_END = b"\r\n"

_UNITS_NS = {
    **{"ns": 1, "us": 1000, "\N{MICRO SIGN}s": 1000, "\N{GREEK SMALL LETTER MU}s": 1000},
    **{"ms": 1_000_000, "s": 1_000_000_000, "m": 60_000_000_000, "h": 3_600_000_000_000},
}
_PART = re.compile(r"([0-9]{0,19})(?:\.([0-9]{0,19}))?(ns|us|\u00b5s|\u03bcs|ms|s|m|h)")
_SECONDS = re.compile(rb"[0-9]{1,19}")
TEXT_BYTES_MAX = 100

NONE, ENDS, ANY = 0, 1, 2
"""What a stream takes: no time to live; any but `never`, since it lets messages go by age; any."""


def taken_by(config: StreamConfig) -> int:
    """Which times a stream takes: what it lets go by age cannot be promised to stay."""
    if not config.has_ttl:
        return NONE
    return ENDS if config.retention_ms else ANY


@lru_cache(maxsize=256)
def lifetime_ms(value: bytes) -> int | None:
    """What the header's value says, in ms; STAYS for `never`; None if it is no time that a message can
    have.
    """
    if value.lower() == NEVER:
        return STAYS
    found = int(value) * 1000 if _SECONDS.fullmatch(value) else -(-_duration_ns(value) // 1_000_000)
    return found if TTL_LEAST_MS <= found <= TTL_MOST_MS else None


def _duration_ns(value: bytes) -> int:
    """A duration as Go writes it; 0 if it is none."""
    try:
        text = value[:TEXT_BYTES_MAX].decode().removeprefix("+")
    except UnicodeDecodeError:
        return 0
    total = place = 0
    while place < len(text):
        found = _PART.match(text, place)
        if found is None:
            return 0
        whole, part, unit = found.groups(default="")
        if not whole and not part:
            return 0
        total += int(whole or "0") * _UNITS_NS[unit]
        total += int(part or "0") * _UNITS_NS[unit] // 10 ** len(part)
        place = found.end()
    return total if len(value) <= TEXT_BYTES_MAX else 0


def stored_lifetime(headers: bytes) -> int:
    """How long a stored record is to stay, by its headers, in ms; STAYS: they do not say that it goes."""
    begins = headers.find(_LINE_END + TTL_LINE)
    if begins < 0:
        return STAYS
    begins += len(_LINE_END + TTL_LINE)
    value, _, _ = headers[begins:].partition(_LINE_END)
    return lifetime_ms(value.strip()) or STAYS
