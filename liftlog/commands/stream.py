"""`liftlog stream`: create, list, inspect, remove; and `elect`, the explicit election (R14, R16)."""

from __future__ import annotations

import argparse

from liftlog.api.plain import to_plain
from liftlog.commands.common import add_client_options, connect, positive_count, print_json, print_table, run
from liftlog.messages import StreamInfo
from liftlog.types import StreamConfig


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = subparsers.add_parser("stream", help="create, list, inspect and remove streams")
    actions = group.add_subparsers(dest="action", required=True)
    create = actions.add_parser("create", help="attach a named, replicated log to a NATS subject")
    create.add_argument("name", metavar="NAME")
    create.add_argument("subject", metavar="SUBJECT", nargs="?", default="", help="wildcards allowed")
    create.add_argument("--subject", dest="subject_option", metavar="SUBJECT", help="the same, as an option")
    create.add_argument("--replicas", type=positive_count, default=1, metavar="N")
    create.add_argument("--partitions", type=positive_count, default=1, metavar="N")
    create.add_argument(
        "--min-insync",
        type=int,
        default=0,
        metavar="N",
        help="replicas that must be in sync for a commit (default 2 with three or more replicas, else 1)",
    )
    create.add_argument("--max-payload", type=positive_count, default=1024 * 1024, metavar="BYTES")
    create.add_argument(
        "--no-ack-reply",
        action="store_true",
        help="never answer publishers: for subjects whose replies belong to a request/reply service",
    )
    _finish(create, _create)
    _finish(actions.add_parser("ls", help="list all streams"), _list)
    info = actions.add_parser("info", help="one stream: leaders, in-sync replicas")
    info.add_argument("name", metavar="NAME")
    _finish(info, _info)
    remove = actions.add_parser("rm", help="remove a stream; its data goes to each node's trash")
    remove.add_argument("name", metavar="NAME")
    _finish(remove, _remove)
    elect = actions.add_parser("elect", help="make a replica the leader of a partition")
    elect.add_argument("name", metavar="NAME")
    elect.add_argument("partition", metavar="PARTITION", type=int)
    elect.add_argument("node", metavar="NODE", type=positive_count)
    elect.add_argument(
        "--unclean",
        action="store_true",
        help="accept a replica that may lack committed data: what it lacks is lost for good",
    )
    _finish(elect, _elect)


def _finish(parser: argparse.ArgumentParser, action: object) -> None:
    add_client_options(parser)
    parser.set_defaults(run=lambda args: run(action(args)))  # type: ignore[operator]


async def _create(args: argparse.Namespace) -> int:
    config = StreamConfig(
        name=args.name,
        subject=args.subject_option or args.subject or args.name,
        partitions=args.partitions,
        replication_factor=args.replicas,
        min_insync_replicas=args.min_insync,
        ack_reply=not args.no_ack_reply,
        max_payload_bytes=args.max_payload,
    )
    async with await connect(args) as client:
        info = await client.create_stream(config)
    if args.json:
        print_json(to_plain(info))
    else:
        print(f"created stream '{args.name}' on subject '{config.subject}'")
        _print_partitions(info)
    return 0


async def _list(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        streams = await client.streams()
    if args.json:
        print_json([to_plain(stream) for stream in streams])
    elif not streams:
        print("no streams; create one with: liftlog stream create NAME SUBJECT")
    else:
        rows: list[list[object]] = [
            [
                stream.config.name,
                stream.config.subject,
                stream.config.partitions,
                stream.config.replication_factor,
                " ".join(str(partition.leader or "-") for partition in stream.partitions),
            ]
            for stream in streams
        ]
        print_table(rows, ["NAME", "SUBJECT", "PARTITIONS", "REPLICAS", "LEADERS"])
    return 0


async def _info(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        info = await client.stream(args.name)
    if args.json:
        print_json(to_plain(info))
    else:
        config = info.config
        print(f"stream '{config.name}' (id {info.id}) on subject '{config.subject}'")
        print(
            f"replicas {config.replication_factor}, "
            f"at least {config.min_insync_replicas or 'default'} in sync; "
            f"payload up to {config.max_payload_bytes} bytes; "
            f"publishers are {'' if config.ack_reply else 'not '}answered"
        )
        _print_partitions(info)
    return 0


def _print_partitions(info: StreamInfo) -> None:
    rows: list[list[object]] = [
        [
            partition.index,
            partition.leader or "none",
            partition.epoch,
            " ".join(map(str, partition.replicas)),
            " ".join(map(str, partition.isr)) or "none",
            " ".join(map(str, partition.eligible)) or "-",
            "yes" if partition.ready else "no",
        ]
        for partition in info.partitions
    ]
    print_table(rows, ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "ELIGIBLE", "READY"])


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
