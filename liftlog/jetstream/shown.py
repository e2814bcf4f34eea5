"""Which streams the door shows: those of one partition whose messages can be deleted."""

from __future__ import annotations

from liftlog.client.client import Client
from liftlog.client.errors import RequestFailed
from liftlog.jetstream.errors import STREAM_NOT_FOUND
from liftlog.messages import ERR_NOT_FOUND, StreamInfo


def is_shown(info: StreamInfo) -> bool:
    """Whether a stream is one that the door shows."""
    return len(info.partitions) == 1 and info.config.has_journal


async def find_stream(client: Client, name: str) -> StreamInfo:
    """The stream of this name. Raises JsError, "stream not found", for one that the door does not show too;
    LiftlogError.
    """
    try:
        info = await client.stream(name)
    except RequestFailed as error:
        if error.code != ERR_NOT_FOUND:
            raise
        raise STREAM_NOT_FOUND.because() from None
    if not is_shown(info):
        raise STREAM_NOT_FOUND.because()
    return info


async def shown_streams(client: Client) -> list[StreamInfo]:
    """All of them, by name."""
    shown = [info for info in await client.streams() if is_shown(info)]
    return sorted(shown, key=lambda info: info.config.name)
