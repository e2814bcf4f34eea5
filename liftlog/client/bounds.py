"""From where a stream is read, and until where."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Final, Literal

import msgspec

from liftlog.types import LiftlogError

END: Final = "end"
"""What is committed when the reading begins, and nothing that comes later."""
FOREVER: Final = "forever"
TIME_SLACK_MS = 1000
"""By how much the clocks of leaders may be behind this machine's for `until=At(...)` to miss nothing."""


class At(msgspec.Struct, frozen=True):
    """A moment by the clocks of the leaders that gave records their times, in ms since 1970 (UTC).

    As a start: the first record at or after it. As an end: what is before that one.
    """

    timestamp_ms: int

    @classmethod
    def of(cls, moment: datetime.datetime) -> At:
        """Raises LiftlogError for a time without a zone."""
        if moment.tzinfo is None:
            raise LiftlogError(
                f"the time {moment} names no time zone; use datetime.now(tz=...) or .astimezone()"
            )
        return cls(int(moment.timestamp() * 1000))


Place = Literal["earliest", "latest", "new"] | int | At
Start = Place | Mapping[int, int]
"""A number is an offset, of each partition that is read; a mapping has one for each partition, such as
`StreamReading.positions` of an earlier run, and those that it does not name are read from their front."""
Until = Literal["end", "forever"] | int | At | Mapping[int, int]
"""Offsets are exclusive. A mapping has one for each partition; those that it does not name are not read."""


def check_bounds(start: Start, until: Until, partitions: int, name: str) -> None:
    """Raises LiftlogError for bounds that no reading can have."""
    for what, bound in (("start", start), ("until", until)):
        if isinstance(bound, str | At):
            continue
        offsets = {0: bound} if isinstance(bound, int) else bound
        for index, offset in offsets.items():
            if not 0 <= index < partitions:
                raise LiftlogError(
                    f"{what} names partition {index}; stream '{name}' has partitions 0 to {partitions - 1}"
                )
            if offset < 0:
                raise LiftlogError(f"{what}: offset {offset} is negative; offsets begin at 0")
    if isinstance(start, str) and start not in ("earliest", "latest", "new"):
        raise LiftlogError(f"start {start!r}: use 'earliest', 'latest', 'new', an offset, At(ms), a mapping")
    if isinstance(until, str) and until not in (END, FOREVER):
        raise LiftlogError(f"until {until!r}: use 'end', 'forever', an offset, At(ms), a mapping")


def place_in(start: Start, partition: int) -> Place:
    """Where one partition is to be read from."""
    return start.get(partition, "earliest") if isinstance(start, Mapping) else start
