"""`liftlog jetstream`: the door for programs written for NATS JetStream, in a process of its own."""

from __future__ import annotations

import argparse
import asyncio
import signal

from liftlog import eventlog
from liftlog.commands.common import add_client_options, connect, nats_login, print_json, run
from liftlog.config import DEFAULT_DOMAIN, check_domain


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = subparsers.add_parser("jetstream", help="answer programs written for NATS JetStream")
    actions = group.add_subparsers(dest="action", required=True)
    serve = actions.add_parser(
        "serve",
        help="answer them, beside the cluster's nodes",
        description="Nodes do the same with [jetstream] enabled = true; several doors share the work.",
    )
    serve.add_argument(
        "--leaf", default="", metavar="URL", help="leaf node port of NATS: without it no consumers are served"
    )
    check = actions.add_parser("check", help="say what a door would answer on this NATS")
    for parser, work in ((serve, _serve), (check, _check)):
        parser.add_argument("--domain", default=DEFAULT_DOMAIN, metavar="NAME", help="(default liftlog)")
        add_client_options(parser)
        parser.set_defaults(run=lambda args, work=work: run(work(args)))


async def _serve(args: argparse.Namespace) -> int:
    # Imported here, as below: a usage error must not pay for it.
    from liftlog.jetstream.beside import serve_door
    from liftlog.jetstream.door import DoorPlace

    check_domain(args.domain, "--domain")
    eventlog.set_up("json" if args.json else "text", 0)
    over = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, over.set)

    def opened(bare: bool) -> None:
        if args.json:
            print_json({"event": "ready", "domain": args.domain, "bare": bare})

    # The first connection fails as every command's does: with one line, and exit code 2.
    await (await connect(args)).close()
    place = DoorPlace(args.domain, leaf=args.leaf, login=nats_login(args))
    await serve_door(lambda: connect(args), place, over, opened)
    return 0


async def _check(args: argparse.Namespace) -> int:
    from liftlog.jetstream.door import Door, DoorPlace

    check_domain(args.domain, "--domain")
    async with await connect(args) as client:
        door = Door(client, DoorPlace(args.domain))
        bare = await door.serves_bare()
        if args.json:
            print_json({"domain": args.domain, "bare": bare})
        else:
            print(f"a door of cluster '{args.cluster}' answers on {door.served(bare)}")
    return 0
