"""`liftlog stream lag`: how far a mirror is behind its origin (R28)."""

from __future__ import annotations

import argparse
from typing import NamedTuple

from liftlog.client.client import Client
from liftlog.commands.common import add_client_options, connect, print_json, print_table, run
from liftlog.core.metadata.origins import is_origin, standstill
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


class Lags(NamedTuple):
    """Of a mirror; `problem`: why nothing comes, empty if it does."""

    origin: str
    partitions: list[Lag]
    problem: str


async def lags(client: Client, name: str) -> Lags:
    """How far a mirror is behind its origin, by partition. Raises LiftlogError."""
    mirror = await client.stream(name)
    if not mirror.config.mirrors:
        raise LiftlogError(f"stream '{name}' is no mirror: see 'liftlog stream info {name}'")
    there = {info.config.name: info for info in await client.streams()}
    origin = there.get(mirror.config.mirrors)
    if origin is None or not is_origin(mirror.id, origin.id):
        raise LiftlogError(f"mirror '{name}': {standstill(mirror.config, None)}")
    found = []
    for partition in range(len(mirror.partitions)):
        end = await _end(client, mirror, partition)
        found.append(Lag(partition, end, await _end(client, origin, partition)))
    return Lags(origin.config.name, found, standstill(mirror.config, origin.config))


async def _lag(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        told = await lags(client, args.name)
    if args.json:
        partitions = [{**one._asdict(), "behind": one.behind} for one in told.partitions]
        print_json(
            {"mirror": args.name, "origin": told.origin, "partitions": partitions, "problem": told.problem}
        )
    else:
        rows: list[list[object]] = [
            [one.partition, one.end, one.origin_end, one.behind] for one in told.partitions
        ]
        print_table(rows, ["PARTITION", "END", f"END OF {told.origin}", "BEHIND"])
        if told.problem:
            print(f"nothing is copied: {told.problem}")
    return 0
