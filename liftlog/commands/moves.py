"""`liftlog stream move` and `liftlog stream moves`: copies of a partition go to other nodes (R20)."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Iterator
from typing import NamedTuple

from liftlog.commands.asking import add_node_options, look_at, who_answers
from liftlog.commands.clusterview import ClusterView
from liftlog.commands.common import add_client_options, connect, note, print_json, print_table, run
from liftlog.messages import PartitionInfo, StreamInfo

BETWEEN_LOOKS_S = 1.0
"""How fast copies come on is seen from two looks, so far apart."""


def add_moves(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    move = actions.add_parser(
        "move",
        help="have the copies of a partition on other nodes",
        description="The new nodes fetch the partition and join its in-sync set; when all of them are in it, "
        "those that are not named give their copies up. Messages are taken all the time.",
    )
    move.add_argument("name", metavar="NAME")
    move.add_argument("partition", metavar="PARTITION", type=int)
    where = move.add_mutually_exclusive_group(required=True)
    where.add_argument(
        "--to",
        metavar="NODES",
        type=_nodes,
        default=[],
        help="all nodes that are to have a copy, the one first that is to lead, such as 4,2,3",
    )
    where.add_argument(
        "--cancel", action="store_true", help="leave the copies where they were before the move under way"
    )
    add_client_options(move)
    move.set_defaults(run=lambda args: run(_move(args)))
    moves = actions.add_parser("moves", help="which partitions are being moved, and how far they are")
    add_node_options(moves)
    moves.set_defaults(run=lambda args: run(_moves(args)))


def _nodes(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        wrong = f"{text!r} names no nodes; write their numbers, such as 4,2,3"
        raise argparse.ArgumentTypeError(wrong) from None


async def _move(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        detail = await client.move_replicas(args.name, args.partition, args.to)
    where = "back to where they were" if args.cancel else f"to nodes {', '.join(map(str, args.to))}"
    said = detail or f"its copies go {where}; 'liftlog stream moves' tells how far they are"
    if args.json:
        print_json({"stream": args.name, "partition": args.partition, "to": args.to, "detail": detail})
    else:
        print(f"stream '{args.name}' partition {args.partition}: {said}")
    return 0


class Copying(NamedTuple):
    """One copy that a move has begun: how many records it has, of how many."""

    stream: str
    partition: PartitionInfo
    node: int
    have: int
    of: int

    @property
    def key(self) -> tuple[str, int, int]:
        return self.stream, self.partition.index, self.node


async def _moves(args: argparse.Namespace) -> int:
    async with await who_answers(args) as client:
        first = await look_at(client)
        before = {copying.key: copying.have for copying in copies_under_way(first)}
        if before:
            await asyncio.sleep(BETWEEN_LOOKS_S)
        view = await look_at(client) if before else first
    if not view.controller:
        note(view.headline())
    found = list(copies_under_way(view))
    leaving = [(stream.config.name, partition) for stream, partition in _moved(view)]
    rates = {copying.key: (copying.have - before.get(copying.key, copying.have)) for copying in found}
    if args.json:
        print_json(
            [
                {
                    "stream": name,
                    "partition": partition.index,
                    "replicas": partition.replicas,
                    "target": partition.target,
                    "isr": partition.isr,
                    "dropping": partition.dropping,
                    "copies": [
                        {"node": one.node, "have": one.have, "of": one.of, "per_s": rates[one.key]}
                        for one in found
                        if one.stream == name and one.partition.index == partition.index
                    ],
                }
                for name, partition in leaving
            ]
        )
    elif not leaving:
        print("nothing is being moved")
    else:
        _print_moves(leaving, found, rates)
    return 0


def _moved(view: ClusterView) -> Iterator[tuple[StreamInfo, PartitionInfo]]:
    for stream in view.streams:
        for partition in stream.partitions:
            if partition.target or partition.dropping:
                yield stream, partition


def copies_under_way(view: ClusterView) -> Iterator[Copying]:
    """Those that are not in sync yet, of nodes that answer."""
    for stream, partition in _moved(view):
        ends = {
            node: replica
            for node, answer in view.answers.items()
            for replica in answer.replicas
            if replica.partition == (stream.id, partition.index)
        }
        end = max((ends[node].leo for node in partition.isr if node in ends), default=0)
        start = max((ends[node].log_start for node in partition.isr if node in ends), default=0)
        for node in partition.adding:
            if node not in partition.isr and node in ends:
                have = max(0, ends[node].durable_leo - start)
                yield Copying(stream.config.name, partition, node, have, max(end - start, have))


def _print_moves(
    moved: list[tuple[str, PartitionInfo]], found: list[Copying], rates: dict[tuple[str, int, int], int]
) -> None:
    rows: list[list[object]] = []
    for name, partition in moved:
        copies = [one for one in found if (one.stream, one.partition.index) == (name, partition.index)]
        rows.append(
            [
                name,
                partition.index,
                " ".join(map(str, partition.replicas)),
                " ".join(map(str, partition.target)) or "over",
                " ".join(map(str, partition.isr)),
                "; ".join(how_far(one, rates[one.key]) for one in copies) or "-",
                " ".join(map(str, partition.dropping)) or "-",
            ]
        )
    print_table(rows, ["STREAM", "PARTITION", "REPLICAS", "TO", "ISR", "COPYING", "DROPPING"])


def how_far(copying: Copying, per_s: int) -> str:
    """A new copy's share of the records, and how long the rest takes at this rate."""
    share = 100 * copying.have // copying.of if copying.of else 100
    left = copying.of - copying.have
    if not left:
        time = "joining"
    elif per_s <= 0:
        time = "waits"
    else:
        time = f"{-(-left // per_s)} s left"
    return f"node {copying.node} {share}% of {copying.of} records, {time}"
