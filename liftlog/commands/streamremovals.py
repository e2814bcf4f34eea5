"""`liftlog stream purge` and `delete-message`: what takes messages away, of a log's front or one by one."""

from __future__ import annotations

import argparse

from liftlog.commands.common import add_client_options, connect, natural, print_json, run
from liftlog.types import LiftlogError


def add_removals(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    purge = actions.add_parser(
        "purge", help="remove the records below an offset, or the messages of some subjects, for good"
    )
    purge.add_argument("name", metavar="NAME")
    purge.add_argument("--partition", type=natural, default=0, metavar="N")
    what = purge.add_mutually_exclusive_group(required=True)
    what.add_argument(
        "--before",
        type=natural,
        metavar="OFFSET",
        help="the first offset to keep; at most the end of what is committed",
    )
    what.add_argument(
        "--subject",
        metavar="FILTER",
        help="delete the messages whose subject this matches, of a stream that was created with --removal",
    )
    purge.add_argument(
        "--keep", type=natural, metavar="N", help="with --subject: all but the newest N of them"
    )
    purge.add_argument(
        "--up-to", type=natural, metavar="OFFSET", help="with --subject: of those below this offset only"
    )
    add_client_options(purge)
    purge.set_defaults(run=lambda args: run(_purge(args)))
    delete = actions.add_parser(
        "delete-message", help="delete one message of a stream that was created with --removal"
    )
    delete.add_argument("name", metavar="NAME")
    delete.add_argument("--partition", type=natural, default=0, metavar="N")
    delete.add_argument("--offset", type=natural, required=True, metavar="OFFSET", help="of the message")
    add_client_options(delete)
    delete.set_defaults(run=lambda args: run(_delete_message(args)))


async def _purge(args: argparse.Namespace) -> int:
    if args.subject is not None:
        return await _purge_subjects(args)
    if args.keep is not None or args.up_to is not None:
        raise LiftlogError("--keep and --up-to go with --subject; --before removes all below an offset")
    async with await connect(args) as client:
        await client.purge(args.name, args.partition, args.before)
    if args.json:
        print_json({"purged": args.name, "partition": args.partition, "before": args.before})
    else:
        print(f"partition {args.partition} of '{args.name}' begins at or above offset {args.before}")
    return 0


async def _purge_subjects(args: argparse.Namespace) -> int:
    keep = args.keep or 0
    async with await connect(args) as client:
        found = await client.purge_subjects(args.name, args.partition, args.subject, keep, args.up_to)
    if args.json:
        told = {"purged": args.name, "partition": args.partition, "subject": args.subject}
        print_json(told | {"keep": keep, "messages": found})
    else:
        where = f"partition {args.partition} of '{args.name}'"
        print(f"deleted {found:,} messages of '{args.subject}' in {where}")
    return 0


async def _delete_message(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        journal = await client.delete(args.name, args.partition, args.offset)
    if args.json:
        print_json(
            {"deleted": args.name, "partition": args.partition, "offset": args.offset, "journal": journal}
        )
    else:
        print(f"deleted offset {args.offset} of partition {args.partition} of '{args.name}'")
    return 0
