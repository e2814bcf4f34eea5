"""What can be read of a stream, in the form in which `tests/golden/release-*/contents.json` has it."""

from __future__ import annotations

from liftlog.client import Client


async def contents(client: Client, name: str) -> list[list[object]]:
    """Partition, offset, key and value of all that can be read."""
    info = await client.stream(name, timeout_ms=20_000)
    found: list[list[object]] = []
    for partition in info.partitions:
        async for records in client.read_all(info, partition.index, timeout_ms=20_000):
            for one in records:
                key = None if one.key is None else one.key.decode()
                value = None if one.value is None else one.value.decode()
                found.append([partition.index, one.offset, key, value])
    return found
