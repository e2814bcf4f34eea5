"""`liftlog stream`: create, alter, pause, remove; `elect`, the explicit election (R16)."""

from __future__ import annotations

import argparse

from msgspec import UNSET

from liftlog.api.plain import to_plain
from liftlog.client import Client, RequestFailed
from liftlog.client.registry import differences
from liftlog.commands.common import (
    add_client_options,
    connect,
    natural,
    node_number,
    note,
    positive_count,
    print_json,
    run,
)
from liftlog.commands.mirrors import add_mirror_actions, with_partitions
from liftlog.commands.moves import add_moves
from liftlog.commands.streamoptions import (
    LOG_OPTIONS,
    add_alterable,
    add_log_options,
    add_max_payload,
    add_notes,
    add_sharing,
)
from liftlog.commands.streamremovals import add_removals
from liftlog.commands.streamsubjects import add_subject_actions
from liftlog.commands.streamview import add_views, listens_on, print_partitions
from liftlog.messages import ERR_EXISTS, StreamChanges
from liftlog.types import LiftlogError, StreamConfig


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = subparsers.add_parser("stream", help="create, list, inspect, alter, purge and remove streams")
    actions = group.add_subparsers(dest="action", required=True)
    create = actions.add_parser("create", help="attach a named, replicated log to a NATS subject")
    create.add_argument("name", metavar="NAME")
    create.add_argument("subject", metavar="SUBJECT", nargs="?", default="", help="wildcards allowed")
    create.add_argument(
        "--subject",
        dest="subject_options",
        metavar="SUBJECT",
        action="append",
        default=[],
        help="the same, as an option; given again, the stream listens on several, with one partition",
    )
    create.add_argument(
        "--replicas",
        type=positive_count,
        default=0,
        metavar="N",
        help="copies of each partition (default 3, or as many as the cluster has nodes)",
    )
    create.add_argument("--partitions", type=positive_count, default=1, metavar="N")
    create.add_argument(
        "--min-insync-replicas",
        "--min-insync",
        type=positive_count,
        default=0,
        metavar="N",
        help="replicas that must be in sync for a commit (default 2 with three or more replicas, else 1)",
    )
    add_max_payload(create, 1024 * 1024, " (default %(default)s)")
    add_sharing(create)
    add_notes(create, "something for yourself, which is told with the stream")
    add_log_options(create)
    _finish(create, _create)
    add_views(actions)
    alter = actions.add_parser(
        "alter", help="change how long a stream keeps records, how it is written, how many partitions it has"
    )
    alter.add_argument("name", metavar="NAME")
    add_alterable(alter)
    _finish(alter, _alter)
    for name, paused, text in (
        ("pause", True, "let its leaders unsubscribe: nothing is taken, publishers hear 'no responders'"),
        ("resume", False, "let them subscribe again"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("name", metavar="NAME")
        _finish(action, lambda args, paused=paused: _pause(args, paused))
    add_removals(actions)
    add_subject_actions(actions)
    add_moves(actions)
    add_mirror_actions(actions)
    remove = actions.add_parser("rm", help="remove a stream; its data goes to each node's trash")
    remove.add_argument("name", metavar="NAME")
    _finish(remove, _remove)
    elect = actions.add_parser("elect", help="make a replica the leader of a partition")
    elect.add_argument("name", metavar="NAME")
    elect.add_argument("partition", metavar="PARTITION", type=natural)
    elect.add_argument("node", metavar="NODE", type=node_number)
    elect.add_argument(
        "--unclean",
        action="store_true",
        help="accept a replica that may lack committed data: what it lacks is lost for good",
    )
    _finish(elect, _elect)


def _finish(parser: argparse.ArgumentParser, action: object) -> None:
    add_client_options(parser)
    parser.set_defaults(run=lambda args: run(action(args)))  # type: ignore[operator]


GIVEN_UP = (
    "durability os: records are acknowledged before they are synced; "
    "those of the last seconds are lost if the machines of all in-sync replicas lose power"
)


async def _create(args: argparse.Namespace) -> int:
    given = filter(None, (args.subject, *args.subject_options))
    subject, *more = dict.fromkeys(given) or (args.name,)
    config = StreamConfig(
        name=args.name,
        subject=subject,
        more_subjects=tuple(more) or UNSET,
        notes=args.notes,
        partitions=args.partitions,
        replication_factor=args.replicas,
        min_insync_replicas=args.min_insync_replicas,
        ack_reply=not args.no_ack_reply,
        queue_group=args.queue_group,
        mirror=args.mirror,
        sources=tuple(args.sources) or UNSET,
        starts=args.starts,
        mirror_filter=args.mirror_filter,
        max_payload_bytes=args.max_payload_bytes,
        **{field: getattr(args, field) for field in LOG_OPTIONS},
    )
    if config.durability == "os":
        note(GIVEN_UP)
    async with await connect(args) as client:
        config = await with_partitions(client, config)
        try:
            info = await client.create_stream(config)
        except RequestFailed as error:
            if error.code != ERR_EXISTS:
                raise
            raise LiftlogError(await _exists(client, config)) from None
    if args.json:
        print_json(to_plain(info))
    else:
        print(f"created stream '{args.name}' on {listens_on(config)}")
        print_partitions(info)
    return 0


async def _exists(client: Client, wanted: StreamConfig) -> str:
    """In what the stream that is there differs from the one that was to be created."""
    found = differences(wanted, (await client.stream(wanted.name)).config)
    told = ", ".join(
        f"{name} is {'not set' if value is None else repr(value)}" for name, value in found.items()
    )
    return (
        f"stream '{wanted.name}' exists with another configuration ({told}): alter it with "
        f"'liftlog stream alter {wanted.name}', or choose another name"
    )


async def _alter(args: argparse.Namespace) -> int:
    values = {name: getattr(args, name) for name in StreamChanges.__struct_fields__}
    changes = StreamChanges(**values)
    if not changes.named:
        raise LiftlogError(
            "nothing to alter is given; see 'liftlog stream alter --help' for what can be altered, "
            "the rest is fixed when the stream is created"
        )
    async with await connect(args) as client:
        detail = await client.alter_stream(args.name, changes)
    if args.json:
        print_json({"altered": args.name, "changes": changes.named, "detail": detail})
    else:
        print(f"stream '{args.name}': {detail}")
    return 0


async def _pause(args: argparse.Namespace, paused: bool) -> int:
    async with await connect(args) as client:
        await client.alter_stream(args.name, StreamChanges(paused=paused))
    text = "is resumed: its leaders subscribe again"
    if paused:
        text = "is paused: its leaders unsubscribe, and what is published meanwhile is not taken"
    if args.json:
        print_json({"paused" if paused else "resumed": args.name})
    else:
        print(f"stream '{args.name}' {text}")
    return 0


async def _remove(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        await client.delete_stream(args.name)
    if args.json:
        print_json({"removed": args.name})
    else:
        print(f"removed stream '{args.name}'")
    return 0


async def _elect(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        detail = await client.elect(args.name, args.partition, args.node, args.unclean)
    if args.json:
        print_json({"elected": args.node, "name": args.name, "partition": args.partition, "detail": detail})
    else:
        print(detail or f"node {args.node} leads partition {args.partition} of '{args.name}'")
    return 0
