"""`liftlog group`: consumer groups, whose members share the partitions of streams (G1-G5)."""

from __future__ import annotations

import argparse

from liftlog.commands.common import add_client_options, connect, natural, print_json, print_table, run
from liftlog.types import LiftlogError


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = subparsers.add_parser("group", help="consumer groups: members, partitions, lag; reset, remove")
    actions = group.add_subparsers(dest="action", required=True)
    ls = actions.add_parser("ls", help="all groups, with their members and what is left to do")
    add_client_options(ls)
    ls.set_defaults(run=lambda args: run(_list(args)))
    info = actions.add_parser("info", help="who owns which partition, and how far the group is")
    info.add_argument("name", metavar="NAME")
    add_client_options(info)
    info.set_defaults(run=lambda args: run(_info(args)))
    reset = actions.add_parser("reset", help="have a group go on elsewhere, while nobody reads there")
    reset.add_argument("name", metavar="NAME")
    reset.add_argument("stream", metavar="STREAM")
    reset.add_argument("--to", required=True, metavar="WHERE", help="'earliest', 'new' or an offset")
    reset.add_argument("--partition", type=natural, default=None, metavar="N", help="(default: all)")
    add_client_options(reset)
    reset.set_defaults(run=lambda args: run(_reset(args)))
    remove = actions.add_parser("rm", help="remove a group without members, with its positions")
    remove.add_argument("name", metavar="NAME")
    add_client_options(remove)
    remove.set_defaults(run=lambda args: run(_remove(args)))


async def _list(args: argparse.Namespace) -> int:
    rows: list[list[object]] = []
    async with await connect(args) as client:
        for name in await client.groups():
            state = await client.group_state(name)
            lag = sum(one.lag for one in await client.group_lag(name))
            rows.append([name, " ".join(sorted(state.streams)), len(state.members), state.generation, lag])
    heads = ["NAME", "STREAMS", "MEMBERS", "GENERATION", "LAG"]
    if args.json:
        print_json([dict(zip([head.lower() for head in heads], row, strict=True)) for row in rows])
    elif not rows:
        print("no groups; a group begins with its first member: docs/groups.md")
    else:
        print_table(rows, heads)
    return 0


async def _info(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        state = await client.group_state(args.name)
        lags = await client.group_lag(args.name)
    if args.json:
        members = {id: {"name": one.name, "session_ms": one.session_ms} for id, one in state.members.items()}
        partitions = [one._asdict() for one in lags]
        print_json({"generation": state.generation, "members": members, "partitions": partitions})
        return 0
    print(f"group '{args.name}', generation {state.generation}, {len(state.members)} members")
    rows: list[list[object]] = []
    for one in lags:
        cursor = one.cursor if one.cursor >= 0 else "-"
        rows.append([one.stream, one.partition, one.owner or "-", one.generation, cursor, one.end, one.lag])
    print_table(rows, ["STREAM", "PARTITION", "OWNER", "GENERATION", "CURSOR", "END", "LAG"])
    return 0


async def _reset(args: argparse.Namespace) -> int:
    where = args.to
    if where not in ("earliest", "new"):
        if not where.isdecimal():
            raise LiftlogError(f"--to {where}: say earliest, new or an offset")
        where = int(where)
    async with await connect(args) as client:
        await client.reset_group(args.name, args.stream, where, args.partition)
    if args.json:
        print_json({"reset": args.name, "to": where})
    else:
        print(f"group '{args.name}' goes on in '{args.stream}' at {where}")
    return 0


async def _remove(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        await client.delete_group(args.name)
    if args.json:
        print_json({"deleted": args.name})
    else:
        print(f"there is no group '{args.name}' any more")
    return 0
