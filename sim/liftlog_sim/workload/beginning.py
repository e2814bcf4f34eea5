"""Which subjects of a stream a copy is to have, and from where on (R28, R29)."""

from __future__ import annotations

from msgspec import UNSET, UnsetType

from liftlog.messages.copying import Start, elsewhere
from liftlog.types import StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.clock import WALL_START_MS
from liftlog_sim.workload.targets import WORDS

STARTED_SHARE, BY_TIME_SHARE, FILTERED_SHARE = 0.3, 0.3, 0.4
OFFSET_MOST, EARLIER_MS = 40, 20_000


def some_filter(draws: Draws, config: StreamConfig) -> str:
    """Empty: all."""
    if not config.subject.endswith("*") or draws.random() < 0.5:
        return ""
    return f"{config.subject[:-1]}{draws.choice(WORDS)}"


def some_start(draws: Draws, now_ms: int) -> str:
    """An offset that may be there or not yet, or a time; empty: nothing is said."""
    if draws.random() >= STARTED_SHARE:
        return ""
    if draws.random() < BY_TIME_SHARE:
        return str(Start(time_ms=max(1, now_ms - draws.randrange(EARLIER_MS))))
    return str(Start(offset=draws.randrange(OFFSET_MOST)))


def mirror_filter(draws: Draws, config: StreamConfig) -> str | UnsetType:
    """Of the whole stream mostly."""
    return (some_filter(draws, config) if draws.random() < FILTERED_SHARE else "") or UNSET


def starts(draws: Draws, names: list[str], now_ms: int) -> tuple[tuple[str, str], ...] | UnsetType:
    """With some of them. `now_ms`: of the world; nodes' clocks begin elsewhere than the other cluster's."""
    found = [
        (name, some_start(draws.part(name), now_ms + (0 if elsewhere(name) is not None else WALL_START_MS)))
        for name in names
    ]
    return tuple(one for one in found if one[1]) or UNSET
