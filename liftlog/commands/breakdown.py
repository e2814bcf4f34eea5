"""`liftlog cluster breakdown`: where messages wait on each node of a cluster that runs, over some seconds."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from liftlog.commands.asking import Asks, add_node_options, ask_all, who_answers
from liftlog.commands.breakdownview import BreakdownView, compare
from liftlog.commands.common import positive_seconds, print_json, run
from liftlog.terminal import Activity


def add_breakdown(actions: Any) -> None:
    breakdown = actions.add_parser(
        "breakdown",
        help="where messages wait between the read from a socket and the ack, on each node",
        description="Asks every node twice what it has counted, and prints what came in between. The nodes "
        "count all the time; asking costs them nothing.",
    )
    breakdown.add_argument(
        "--seconds", metavar="S", type=positive_seconds, default=10.0, help="time between (default 10)"
    )
    add_node_options(breakdown)
    breakdown.set_defaults(run=lambda args: run(_breakdown(args)))


async def _breakdown(args: argparse.Namespace) -> int:
    async with await who_answers(args) as client:
        with Activity() as activity:
            activity.show(f"counting for {args.seconds:g} s")
            view = await watch(client, lambda: asyncio.sleep(args.seconds))
    if args.json:
        print_json(view.to_json())
    else:
        print("\n".join(view.lines))
    return 0 if view.nodes else 1


async def watch(client: Asks, meanwhile: Callable[[], Awaitable[object]]) -> BreakdownView:
    """What passes through every node while this goes on. Raises Unreachable if no node answers."""
    loop = asyncio.get_running_loop()
    before, silent_before = await ask_all(client)
    began_s = loop.time()
    await meanwhile()
    took_s = loop.time() - began_s
    after, silent = await ask_all(client, known=before.keys() | silent_before)
    return compare(
        {node: answer.counters for node, answer in before.items()},
        {node: answer.counters for node, answer in after.items()},
        silent | silent_before,
        took_s,
    )
