"""An outbox: what a program decides in SQLite is published once.

The program writes its decision, and the message that tells of it, in one transaction. A relay publishes the
messages under ids, and forgets each when it is stored. If it dies in between, it publishes the message again
under the same id, and the stream has it already: for as long as that remembers ids.
"""

import asyncio
import os
import sqlite3
import sys

from liftlog.client import Client
from liftlog.types import StreamConfig

NATS = os.environ.get("LIFTLOG_NATS", "nats://127.0.0.1:4222")


def decide(database: sqlite3.Connection) -> None:
    """Book something and note what is to be told: both, or none."""
    with database:
        database.execute("CREATE TABLE IF NOT EXISTS bookings (room TEXT)")
        database.execute(
            "CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY AUTOINCREMENT, what TEXT)"
        )
        for room in ("blue", "green", "red"):
            database.execute("INSERT INTO bookings VALUES (?)", (room,))
            database.execute("INSERT INTO outbox (what) VALUES (?)", (f"{room} is booked",))


async def relay(client: Client, database: sqlite3.Connection, forgetful: bool = False) -> None:
    """Publish what is in the outbox, oldest first. `forgetful`: as one that dies before it has noted that."""
    for number, what in database.execute("SELECT id, what FROM outbox ORDER BY id").fetchall():
        while True:
            result = await client.publish("bookings", what.encode(), message_id=f"outbox/{number}")
            if result.outcome == "ok":
                break
            print(f"{result.error}; again", file=sys.stderr)
        print(f"{what}: offset {result.offset}" + (", was there" if result.duplicate else ""))
        if not forgetful:
            with database:
                database.execute("DELETE FROM outbox WHERE id = ?", (number,))


async def main() -> None:
    database = sqlite3.connect(sys.argv[1] if len(sys.argv) > 1 else "bookings.sqlite")
    decide(database)
    async with await Client.connect(NATS) as client:
        if "bookings" not in {stream.config.name for stream in await client.streams()}:
            await client.create_stream(StreamConfig("bookings", "bookings", dedupe_window_ms=86_400_000))
        await relay(client, database, forgetful=True)
        await relay(client, database)
    database.close()


asyncio.run(main())
