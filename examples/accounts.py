"""Many accounts in one stream: each subject is a register, and only who has seen its last value sets another.

Two clerks book on the same accounts at once. Each looks at the last message of the account's subject and
writes what follows from it, to be stored only if that is the last one still.
"""

import asyncio
import os

from liftlog.client import Client
from liftlog.types import StreamConfig

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")
ACCOUNTS, BOOKINGS = ("ada", "bob"), 5


async def book(client: Client, account: str, amount: int) -> None:
    """Add to an account, however many others do so too."""
    subject = f"accounts.{account}"
    while True:
        last = await client.last("accounts", subject)
        balance = 0 if last is None else int(last.record.value or b"0")
        result = await client.publish(
            subject,
            b"%d" % (balance + amount),
            expected_last_subject_offset=-1 if last is None else last.record.offset,
        )
        if result.outcome == "ok":
            return
        if result.last_offset is None:
            # Nobody says whether it was stored. A program that must know writes a name of its own beside the
            # balance, and looks whether that is there.
            raise SystemExit(f"unknown: {result.error}")


async def clerk(client: Client) -> None:
    for _ in range(BOOKINGS):
        for account in ACCOUNTS:
            await book(client, account, 10)


async def main() -> None:
    async with await Client.connect(NATS) as client:
        if "accounts" not in {stream.config.name for stream in await client.streams()}:
            await client.create_stream(StreamConfig("accounts", "accounts.*"))
        await asyncio.gather(clerk(client), clerk(client))
        for account in ACCOUNTS:
            last = await client.last("accounts", f"accounts.{account}")
            print(account, (last.record.value or b"").decode() if last is not None else "nothing")


asyncio.run(main())
