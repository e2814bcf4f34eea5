"""What happens in the cluster, as the activity stream tells it (N12), each event once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

from liftlog.client.bounds import END, FOREVER, Start, Until
from liftlog.client.client import Client
from liftlog.client.reader import EARLIEST
from liftlog.messages import StreamInfo
from liftlog.types import LiftlogError


class ToldEvent(NamedTuple):
    """One event. `body`: all that the record says, see docs/activity.md."""

    id: int
    event: str
    offset: int
    timestamp_ms: int
    body: dict[str, Any]


def activity_stream(streams: list[StreamInfo]) -> StreamInfo:
    """Which of these is the activity stream. Raises LiftlogError if there is none."""
    for info in streams:
        if info.config.activity is True:
            return info
    raise LiftlogError("no stream tells what happens in this cluster; make one with: liftlog activity on")


async def activity(
    client: Client,
    stream: StreamInfo,
    *,
    start: Start = EARLIEST,
    follow: bool = False,
    filter: str | None = None,
) -> AsyncIterator[ToldEvent]:
    """The events of the activity stream in the order of their ids. What a new leader tells again is left out,
    and what retention has removed, too. `filter`: a pattern of subjects, as for other streams.
    """
    last = 0
    until: Until = FOREVER if follow else END
    reading = await client.read(stream, 0, start=start, until=until, on_gap=lambda gap: None, filter=filter)
    async with reading:
        async for _, record in reading:
            body = json.loads(record.value or b"{}")
            if body["id"] > last:
                last = body["id"]
                yield ToldEvent(last, body["event"], record.offset, record.timestamp_ms, body)
