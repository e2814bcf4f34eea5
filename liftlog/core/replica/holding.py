"""A partition that holds so many messages at most refuses new ones, and lets no old ones go (C6).

Its leader counts the offsets from the log start to the end of its own log, committed or not: what is not
committed yet may become so. So however leaders change, no partition comes to hold more; what a leader that
died has refused may be taken by the next one. Room comes of retention by time or size, and of purges.
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.core.context import Context
from liftlog.core.replica.state import LogState
from liftlog.messages import ERR_FULL
from liftlog.options.wishes import Wishes


class NotNow(NamedTuple):
    """The `number`-th of the messages that came cannot be taken at present: one of the ERR_* codes, and why.
    """

    number: int
    code: str
    text: str


def is_bounded(log: LogState) -> bool:
    """Whether anything is to be counted."""
    return log.config is not None and log.config.holds_most > 0


def has_room(ctx: Context, log: LogState, place: int, wish: Wishes) -> bool:
    """Whether a message may be stored that would come to lie there; a parcel as a whole."""
    config = log.config
    if config is None or not config.holds_most:
        return True
    span = 1 if ctx.mutants.full_counts_parcel_once else wish.span
    end = (log.hw if ctx.mutants.full_by_committed else place) + span
    return ctx.decides(("C6.full", end - log.log_start <= config.holds_most))


def full(log: LogState, number: int, place: int) -> NotNow:
    """What the publisher of the `number`-th message is told, which would have come to lie at `place`."""
    config = log.config
    name, most = (config.name, config.holds_most) if config is not None else ("", 0)
    text = (
        f"maximum messages exceeded: this partition holds {place - log.log_start} of {most}; let some go "
        f"(liftlog stream purge {name} --before OFFSET), or allow more: liftlog stream alter {name} "
        "--messages-max N"
    )
    return NotNow(number, ERR_FULL, text)
