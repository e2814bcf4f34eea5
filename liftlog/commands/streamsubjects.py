"""`liftlog stream get` and `liftlog stream subjects`: what a stream has of a subject (S1)."""

from __future__ import annotations

import argparse

from liftlog.commands.common import add_client_options, connect, natural, print_json, print_table, run
from liftlog.commands.pubsub import record_to_plain
from liftlog.terminal import printable
from liftlog.types import LiftlogError


def add_subject_actions(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    get = actions.add_parser("get", help="a message: the last of a subject, or the next of a filter")
    get.add_argument("name", metavar="NAME")
    which = get.add_mutually_exclusive_group(required=True)
    which.add_argument("--last-by-subject", metavar="SUBJECT", help="the last one with exactly this subject")
    which.add_argument(
        "--next-by-subject", metavar="FILTER", help="the next one, from --offset on, that a filter matches"
    )
    get.add_argument(
        "--offset", type=natural, default=0, metavar="N", help="for --next-by-subject (default 0)"
    )
    get.add_argument("--partition", type=natural, default=0, metavar="N", help="for --next-by-subject")
    add_client_options(get)
    get.set_defaults(run=lambda args: run(_get(args)))
    subjects = actions.add_parser("subjects", help="the subjects of a stream, with their messages counted")
    subjects.add_argument("name", metavar="NAME")
    subjects.add_argument("filter", metavar="FILTER", nargs="?", default=">", help="such as 'orders.*.new'")
    subjects.add_argument(
        "--partition", type=natural, metavar="N", help="of this one alone (default: of all)"
    )
    add_client_options(subjects)
    subjects.set_defaults(run=lambda args: run(_subjects(args)))


async def _get(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        if args.last_by_subject is not None:
            found = await client.last(args.name, args.last_by_subject)
            what = f"subject '{args.last_by_subject}'"
        else:
            found = await client.next_matching(args.name, args.next_by_subject, args.offset, args.partition)
            what = f"filter '{args.next_by_subject}' at offset {args.offset} or above"
    if found is None:
        raise LiftlogError(f"stream '{args.name}' has no message of {what}")
    partition, record = found
    if args.json:
        print_json(record_to_plain(partition, record))
    else:
        print(f"partition {partition} offset {record.offset} subject {printable(record.subject)}")
        print("(a deletion: no value)" if record.value is None else printable(record.value))
    return 0


async def _subjects(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        counts = await client.subjects(args.name, args.filter, args.partition)
    rows = sorted(counts.items())
    if args.json:
        print_json(
            [
                {"subject": subject.decode("utf-8", "backslashreplace"), "messages": count}
                for subject, count in rows
            ]
        )
    elif not rows:
        print(f"stream '{args.name}' has no message that '{args.filter}' matches")
    else:
        print_table([[printable(subject), count] for subject, count in rows], ["SUBJECT", "MESSAGES"])
        print(f"{sum(counts.values())} messages, {len(rows)} subjects")
    return 0
