"""`liftlog cursor`: positions in streams that the cluster keeps under names (G6)."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Coroutine
from typing import Any

from liftlog.commands.common import add_client_options, connect, natural, print_json, print_table, run
from liftlog.types import LiftlogError


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = subparsers.add_parser("cursor", help="positions that the cluster keeps: set, look at, remove")
    actions = group.add_subparsers(dest="action", required=True)
    setting = actions.add_parser("set", help="set a cursor, wherever it was")
    _name(setting)
    setting.add_argument("offset", type=natural, metavar="OFFSET", help="the first record that is not done")
    _finish(setting, _set)
    getting = actions.add_parser("get", help="where a cursor stands")
    _name(getting)
    _finish(getting, _get)
    ls = actions.add_parser("ls", help="all cursors, or those of one name")
    ls.add_argument("name", metavar="NAME", nargs="?", default="")
    add_client_options(ls)
    ls.set_defaults(run=lambda args: run(_list(args)))
    remove = actions.add_parser("rm", help="remove a cursor")
    _name(remove)
    _finish(remove, _remove)


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("stream", metavar="STREAM")


def _finish(
    parser: argparse.ArgumentParser, work: Callable[[argparse.Namespace], Coroutine[Any, Any, int]]
) -> None:
    parser.add_argument("--partition", type=natural, default=0, metavar="N", help="(default 0)")
    add_client_options(parser)
    parser.set_defaults(run=lambda args: run(work(args)))


async def _set(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        await client.set_cursor(args.name, args.stream, args.partition, args.offset)
    _show(args, args.offset)
    return 0


async def _get(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        offset = await client.fetch_cursor(args.name, args.stream, args.partition)
    if offset is None:
        raise LiftlogError(
            f"no cursor '{args.name}' in partition {args.partition} of '{args.stream}'; set one with: "
            f"liftlog cursor set {args.name} {args.stream} OFFSET --partition {args.partition}"
        )
    _show(args, offset)
    return 0


def _show(args: argparse.Namespace, offset: int) -> None:
    if args.json:
        place = {"name": args.name, "stream": args.stream, "partition": args.partition}
        print_json({**place, "offset": offset})
    else:
        print(f"cursor '{args.name}' in partition {args.partition} of '{args.stream}': offset {offset}")


async def _list(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        found = await client.cursors(args.name)
    if args.json:
        print_json([one._asdict() for one in found])
    elif not found:
        print("no cursors; set one with: liftlog cursor set NAME STREAM OFFSET")
    else:
        rows: list[list[object]] = [[one.name, one.stream, one.partition, one.offset] for one in found]
        print_table(rows, ["NAME", "STREAM", "PARTITION", "OFFSET"])
    return 0


async def _remove(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        await client.delete_cursor(args.name, args.stream, args.partition)
    if args.json:
        print_json({"deleted": args.name})
    else:
        print(f"there is no cursor '{args.name}' in partition {args.partition} of '{args.stream}' any more")
    return 0
