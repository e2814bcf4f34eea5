"""`liftlog stream lag`: how far a mirror is behind its origin (R28)."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from liftlog.client.client import Client
from liftlog.commands.common import add_client_options, connect, print_json, print_table, run
from liftlog.core.metadata.origins import is_origin
from liftlog.messages import StreamInfo
from liftlog.types import LiftlogError

NEW = "new"


class Lag(NamedTuple):
    """Of one partition: where its mirror ends, and where it ends itself; in this order they were asked."""

    partition: int
    end: int
    origin_end: int

    @property
    def behind(self) -> int:
        """So many offsets the mirror has not, or had not when it was asked."""
        return max(0, self.origin_end - self.end)


def add_mirror_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """What is about mirrors alone."""
    lag = actions.add_parser("lag", help="how many messages a mirror is behind its origin")
    lag.add_argument("name", metavar="NAME")
    add_client_options(lag)
    lag.set_defaults(run=lambda args: run(_lag(args)))


async def _end(client: Client, stream: StreamInfo, partition: int) -> int:
    return await client.reader(stream, partition).offset(NEW)


async def lags(client: Client, name: str) -> tuple[str, list[Lag]]:
    """The origin's name, and how far the mirror is behind it, by partition. Raises LiftlogError."""
    mirror = await client.stream(name)
    if not mirror.config.mirrors:
        raise LiftlogError(f"stream '{name}' is no mirror: see 'liftlog stream info {name}'")
    origin = await client.stream(mirror.config.mirrors)
    if not is_origin(mirror.id, origin.id):
        raise LiftlogError(
            f"the stream of which '{name}' is a mirror was removed, and '{origin.config.name}' was created "
            f"later: the mirror keeps what it has; to write to it: liftlog stream alter {name} --no-mirror"
        )
    found = []
    for partition in range(len(mirror.partitions)):
        end = await _end(client, mirror, partition)
        found.append(Lag(partition, end, await _end(client, origin, partition)))
    return origin.config.name, found


async def _lag(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        origin, found = await lags(client, args.name)
    if args.json:
        partitions = [{**one._asdict(), "behind": one.behind} for one in found]
        print_json({"mirror": args.name, "origin": origin, "partitions": partitions})
    else:
        rows: list[list[object]] = [[one.partition, one.end, one.origin_end, one.behind] for one in found]
        print_table(rows, ["PARTITION", "END", f"END OF {origin}", "BEHIND"])
    return 0
