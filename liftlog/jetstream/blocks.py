"""Publishing a header block as it is: nats-py writes blocks of its own, without status or repeated names."""

from __future__ import annotations

from nats.aio.client import Client as NatsConnection
from nats.protocol.command import hpub_cmd, pub_cmd


async def publish_block(nats: NatsConnection, subject: str, block: bytes, body: bytes = b"") -> None:
    """Publish `body` under these headers, which begin with their version line; empty = none.

    A connection that is away holds it as long as it holds anything, or drops it, as all of NATS.
    """
    if nats.is_closed or not subject:
        return
    # There is no public way: what nats-py's own `publish` does behind its checks.
    await nats._send_command(hpub_cmd(subject, "", block, body) if block else pub_cmd(subject, "", body))
    await nats._flush_pending()
