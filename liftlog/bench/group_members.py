"""Members of a group for `liftlog bench groups`: one process with some of them.

It prints a JSON line when all have joined, and one for the first message of each grant. It ends with its
input, and without a word to the group.

Run as ``python -m liftlog.bench.group_members '{"url": "nats://...", ...}'``.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

from liftlog.client.client import Client
from liftlog.client.grouping import GroupReading
from liftlog.types import LiftlogError


@dataclass(frozen=True, slots=True)
class MemberWork:
    url: str
    cluster: str
    secret_file: str
    group: str
    stream: str
    session_ms: int
    members: int


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


async def work_as(member: GroupReading) -> None:
    """Take messages for ever, and tell the first of each grant."""
    known: set[tuple[int, int]] = set()
    async for message in member:
        grant = (message.partition, message.generation)
        if grant not in known:
            known.add(grant)
            say(member=member.id, partition=grant[0], generation=grant[1], at_s=time.monotonic())


async def run_members(work: MemberWork) -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(
            await Client.connect(work.url, cluster=work.cluster, secret_file=work.secret_file)
        )
        members = [
            client.group(work.group, [work.stream], session_ms=work.session_ms) for _ in range(work.members)
        ]
        await asyncio.gather(*(stack.enter_async_context(member) for member in members))
        say(joined=[member.id for member in members])
        working = [asyncio.create_task(work_as(member)) for member in members]
        over = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        done, _ = await asyncio.wait([*working, over], return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        # The bench is over, and with it the cluster: there is nobody to say goodbye to.
        os._exit(0)


def main(arguments: Sequence[str]) -> int:
    try:
        asyncio.run(run_members(MemberWork(**json.loads(arguments[0]))))
    except LiftlogError as error:
        say(error=str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
