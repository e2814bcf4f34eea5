"""Messages that roll up those before them (R23), and that go after a time (R24), of streams that have a
journal.
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.options.marking import marker_ms
from liftlog.types import StreamConfig
from liftlog_sim.chance.draws import Draws

ROLL_UP_SHARE, ALL_SHARE = 0.15, 0.1
"""How many messages roll up others, and how many of these all of the partition."""
TTL_SHARE, MARKED_SHARE = 0.2, 0.7
TIMES = (b"1", b"1500ms", b"2", b"3s", b"5", b"10", b"1h")
"""How many messages say for how long they are to stay, also where the last of a subject leaves a marker, and
how long that is.
"""
REFUSED = b"Nats-Rollup: "
"""L4: of streams without a journal."""
NO_SUCH = b"Nats-Rollup: some"
TTL_REFUSED = b"Nats-TTL: "
NO_SUCH_TIME = b"Nats-TTL: 999ms"
"""What such headers may not say where they are allowed."""


def roll_up_lines(config: StreamConfig, draws: Draws) -> Sequence[bytes]:
    """The header of a message that rolls up others; none: it does not."""
    if not config.rolls_up or draws.random() >= ROLL_UP_SHARE:
        return ()
    return (b"Nats-Rollup: all" if draws.random() < ALL_SHARE else b"Nats-Rollup: sub",)


def ttl_lines(config: StreamConfig, draws: Draws) -> Sequence[bytes]:
    """The header of a message that goes after a time; none: it says nothing of that."""
    share = MARKED_SHARE if marker_ms(config) else TTL_SHARE
    if not config.has_ttl or draws.random() >= share:
        return ()
    times = TIMES if config.retention_ms else (*TIMES, b"never")
    return (b"Nats-TTL: " + draws.choice(times),)


def strange(config: StreamConfig, line: bytes) -> bytes:
    """A header that is to be refused, of a message for this stream."""
    if not config.has_journal:
        return line
    return {REFUSED: NO_SUCH, TTL_REFUSED: NO_SUCH_TIME}.get(line[: line.find(b" ") + 1], line)
