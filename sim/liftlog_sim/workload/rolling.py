"""Messages that roll up those before them (R23), of streams that have a journal."""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.types import StreamConfig
from liftlog_sim.chance.draws import Draws

ROLL_UP_SHARE, ALL_SHARE = 0.15, 0.1
"""How many messages roll up others, and how many of these all of the partition."""
REFUSED = b"Nats-Rollup: "
"""L4: of streams without a journal."""
NO_SUCH = b"Nats-Rollup: some"
"""What such a header may not say where it is allowed."""


def roll_up_lines(config: StreamConfig, draws: Draws) -> Sequence[bytes]:
    """The header of a message that rolls up others; none: it does not."""
    if not config.rolls_up or draws.random() >= ROLL_UP_SHARE:
        return ()
    return (b"Nats-Rollup: all" if draws.random() < ALL_SHARE else b"Nats-Rollup: sub",)


def strange(config: StreamConfig, line: bytes) -> bytes:
    """A header that is to be refused, of a message for this stream."""
    return NO_SUCH if line.startswith(REFUSED) and config.has_journal else line
