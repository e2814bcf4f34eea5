"""Follow a stream for ever, and go on after a restart where the last run was.

python follow.py STATE [COUNT]: the file that remembers the place, and after how many records to stop.
The stream is that of publish_fast.py: run that first.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

from liftlog.client import FOREVER, Client

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")
if len(sys.argv) < 2:
    sys.exit("usage: python follow.py STATE [COUNT]")
STATE = Path(sys.argv[1])
COUNT = int(sys.argv[2]) if len(sys.argv) > 2 else 0


def load() -> dict[int, int]:
    """The offset to go on with, by partition; a partition that is not named is read from its front."""
    if not STATE.exists():
        return {}
    return {int(partition): offset for partition, offset in json.loads(STATE.read_text()).items()}


def save(positions: dict[int, int]) -> None:
    new = STATE.with_suffix(".new")
    new.write_text(json.dumps(positions))
    new.replace(STATE)


async def main() -> None:
    seen = 0
    async with (
        await Client.connect(NATS) as client,
        await client.read("purchases", start=load(), until=FOREVER) as reading,
    ):
        async for partition, record in reading:
            print(partition, record.offset, record.value)
            seen += 1
            # Saved after the work: what was under way at a crash is seen again, and nothing is left out.
            if seen % 100 == 0 or seen == COUNT:
                save(reading.positions)
            if seen == COUNT:
                return


asyncio.run(main())
