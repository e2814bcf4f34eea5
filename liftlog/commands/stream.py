"""`liftlog stream`: create, list, inspect, alter, purge, remove; `elect`, the explicit election (R16)."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from msgspec import UNSET

from liftlog.api.plain import to_plain
from liftlog.client import Client, RequestFailed
from liftlog.client.direct import NodesClient
from liftlog.client.registry import differences
from liftlog.commands.asking import add_node_options, who_answers
from liftlog.commands.clusterview import ago, slow_nodes
from liftlog.commands.common import (
    add_client_options,
    connect,
    duration_ms,
    natural,
    node_number,
    note,
    positive_count,
    print_json,
    print_table,
    run,
    size_bytes,
)
from liftlog.commands.mirrors import add_mirror_actions, copies, with_partitions
from liftlog.commands.moves import add_moves
from liftlog.commands.streamoptions import (
    add_batches,
    add_bounds,
    add_denials,
    add_end_of_mirror,
    add_first_offset,
    add_marker_ttl,
    add_notes,
    add_other_notes,
    add_sealing,
    add_sharing,
    add_subjects,
    add_switch,
)
from liftlog.commands.streamsubjects import add_subject_actions
from liftlog.groups.streams import INTERNAL
from liftlog.messages import ERR_EXISTS, ERR_NOT_FOUND, StreamChanges, StreamInfo, StreamInfoReply
from liftlog.terminal import printable
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
    create.add_argument("--max-payload", type=positive_count, default=1024 * 1024, metavar="BYTES")
    add_sharing(create)
    add_notes(create, "something for yourself, which is told with the stream")
    _add_log_options(create)
    _finish(create, _create)
    ls = actions.add_parser("ls", help="list all streams")
    ls.add_argument("--all", action="store_true", help=f"{INTERNAL}... too, which liftlog keeps for itself")
    _finish(ls, _list)
    info = actions.add_parser("info", help="one stream: leaders, in-sync replicas")
    info.add_argument("name", metavar="NAME")
    info.add_argument(
        "--linearizable",
        action="store_true",
        help="with everything that was decided before: waits for a quorum (default: as a node knows it)",
    )
    add_node_options(info)
    info.set_defaults(run=lambda args: run(_info(args)))
    alter = actions.add_parser(
        "alter", help="change how long a stream keeps records, how it is written, how many partitions it has"
    )
    alter.add_argument("name", metavar="NAME")
    _add_alterable(alter)
    _finish(alter, _alter)
    for name, paused, text in (
        ("pause", True, "let its leaders unsubscribe: nothing is taken, publishers hear 'no responders'"),
        ("resume", False, "let them subscribe again"),
    ):
        action = actions.add_parser(name, help=text)
        action.add_argument("name", metavar="NAME")
        _finish(action, lambda args, paused=paused: _pause(args, paused))
    _add_taking_away(actions)
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


def _add_taking_away(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """What takes messages away: of a log's front, or one."""
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
    _finish(purge, _purge)
    delete = actions.add_parser(
        "delete-message", help="delete one message of a stream that was created with --removal"
    )
    delete.add_argument("name", metavar="NAME")
    delete.add_argument("--partition", type=natural, default=0, metavar="N")
    delete.add_argument("--offset", type=natural, required=True, metavar="OFFSET", help="of the message")
    _finish(delete, _delete_message)


LOG_DEFAULTS = StreamConfig("", "")
LOG_OPTIONS = (
    "retention_ms",
    "retention_bytes",
    "retention_messages",
    "compact",
    "min_compaction_lag_ms",
    "dirty_ratio_percent",
    "tombstone_retention_ms",
    "dedupe_window_ms",
    "dedupe_ids_max",
    "messages_max",
    *("bytes_max", "subject_messages_max"),
    "removal",
    "max_messages_per_subject",
    "allow_rollup",
    "allow_ttl",
    "marker_ttl_ms",
    *("allow_batches", "allow_fast_batches"),
    "work_queue",
    "interest",
    "segment_bytes",
    "segment_ms",
    "segment_records",
    "codec",
    "durability",
    "deny_delete",
    "deny_purge",
    "first_offset",
)
"""Fields of `StreamConfig` that have an option of the same name; what they may be is judged by the server."""


def _add_log_options(create: argparse.ArgumentParser) -> None:
    """How long records are kept, and how the log is written."""

    def option(name: str, kind: Callable[[str], object], metavar: str, text: str) -> None:
        field = name.replace("-", "_")
        create.add_argument(
            f"--{name}", type=kind, default=getattr(LOG_DEFAULTS, field), metavar=metavar, help=text
        )

    option("retention-ms", duration_ms, "MS", "drop segments whose records are all older, such as 7d")
    option("retention-bytes", size_bytes, "BYTES", "drop old segments beyond this size, such as 10GiB")
    option("retention-messages", positive_count, "N", "drop old segments beyond so many messages")
    create.add_argument(
        "--compact",
        action="store_true",
        help="keep the last record of every key (header Liftlog-Key; Liftlog-Tombstone deletes one)",
    )
    option("min-compaction-lag-ms", duration_ms, "MS", "leave younger records alone")
    option("dirty-ratio-percent", int, "N", "compact when so much was never compacted (default 50)")
    option("tombstone-retention-ms", duration_ms, "MS", "how long deletions stay readable (default 1d)")
    add_bounds(create)
    add_first_offset(create)
    _add_subject_limit(create)
    add_switch(
        create,
        "--allow-rollup",
        "let messages with the header Nats-Rollup delete older ones, of a stream with --removal",
    )
    add_switch(
        create,
        "--allow-ttl",
        "let messages say with the header Nats-TTL when they are to go, of a stream with --removal",
    )
    add_marker_ttl(create)
    add_batches(create)
    _add_dedupe(create)
    option("segment-bytes", size_bytes, "BYTES", "size of a segment file (default 64MiB)")
    option("segment-ms", duration_ms, "MS", "greatest span of time in a segment")
    option("segment-records", positive_count, "N", "greatest number of records in a segment")
    add_switch(
        create,
        "--removal",
        "let single messages be deleted (stream delete-message); cannot be altered later",
    )
    add_switch(
        create,
        "--work-queue",
        "delete each message when its consumer is done with it, of a stream with --removal; cannot be "
        "altered later",
    )
    add_switch(create, "--interest", INTEREST)
    add_denials(create)
    create.add_argument(
        "--codec", choices=("none", "zstd", "lz4"), default="none", help="compress batches (default none)"
    )
    create.add_argument(
        "--durability",
        choices=("sync", "os"),
        default="sync",
        help="when a record counts as stored: synced to disk (default), or handed to the operating system",
    )


INTEREST = "delete each message when every consumer that is to be given it is done, and at once when none is"


def _add_subject_limit(parser: argparse.ArgumentParser, none: str = "") -> None:
    """How many messages of a subject stay in a partition (R22)."""
    parser.add_argument(
        "--max-messages-per-subject",
        type=natural,
        default=UNSET,
        metavar="N",
        help=f"delete older messages of a subject than its newest N, of a stream with --removal{none}",
    )


def _add_dedupe(parser: argparse.ArgumentParser, none: str = "", default: str = "") -> None:
    """How long message ids and producers are remembered, and how many (L7, L2)."""
    parser.add_argument(
        "--dedupe-window",
        dest="dedupe_window_ms",
        type=duration_ms,
        default=UNSET,
        metavar="TIME",
        help="store a message with the same Nats-Msg-Id, or number of its producer, once for so long, as "
        f"2m{none}",
    )
    parser.add_argument(
        "--dedupe-ids-max",
        type=natural,
        default=UNSET,
        metavar="N",
        help=f"remember at most so many ids, and producers, in each partition (default 1000000){default}",
    )


def _add_alterable(alter: argparse.ArgumentParser) -> None:
    """What `StreamChanges` names; what is not given stays as it is."""

    def option(name: str, kind: Callable[[str], object], metavar: str, text: str) -> None:
        alter.add_argument(f"--{name}", type=kind, default=UNSET, metavar=metavar, help=text)

    option("retention-ms", duration_ms, "MS", "drop segments whose records are all older; 0 = never")
    option("retention-bytes", size_bytes, "BYTES", "drop old segments beyond this size; 0 = never")
    option("retention-messages", natural, "N", "drop old segments beyond so many messages; 0 = never")
    add_switch(
        alter,
        "--compact",
        "keep the last record of every key from now on; cannot be switched off again",
    )
    option("min-compaction-lag-ms", duration_ms, "MS", "leave younger records alone")
    option("dirty-ratio-percent", int, "N", "compact when so much was never compacted")
    option("tombstone-retention-ms", duration_ms, "MS", "how long deletions stay readable")
    add_bounds(alter, "; 0 = any number")
    _add_subject_limit(alter, "; 0 = all of them")
    alter.add_argument(
        "--allow-rollup",
        action=argparse.BooleanOptionalAction,
        default=UNSET,
        help="let messages with the header Nats-Rollup delete older ones, of a stream with --removal, or no "
        "longer",
    )
    alter.add_argument(
        "--allow-ttl",
        action=argparse.BooleanOptionalAction,
        default=UNSET,
        help="let messages say with the header Nats-TTL when they are to go, of a stream with --removal",
    )
    alter.add_argument(
        "--interest", action=argparse.BooleanOptionalAction, default=UNSET, help=f"{INTEREST}, or no longer"
    )
    add_marker_ttl(alter, "; 0 = none")
    add_batches(alter)
    _add_dedupe(alter, ", 0 = none", ", 0 = the default")
    option("segment-bytes", size_bytes, "BYTES", "size of a segment file, from the next one on")
    option("segment-ms", duration_ms, "MS", "greatest span of time in a segment; 0 = any")
    option("segment-records", natural, "N", "greatest number of records in a segment; 0 = any")
    option("codec", str, "CODEC", "compress batches from now on: none, zstd or lz4")
    alter.add_argument(
        "--replicas",
        dest="replication_factor",
        type=positive_count,
        default=UNSET,
        metavar="N",
        help="copies of each partition: more are made on the nodes that keep least, or some are given up",
    )
    alter.add_argument(
        "--min-insync-replicas",
        type=positive_count,
        default=UNSET,
        metavar="N",
        help="copies that must be in sync for messages to be acked, from now on",
    )
    alter.add_argument(
        "--partitions",
        type=positive_count,
        default=UNSET,
        metavar="N",
        help="more partitions, never fewer: number I takes what is published to SUBJECT.I",
    )
    add_subjects(alter)
    add_denials(alter)
    add_sealing(alter)
    add_end_of_mirror(alter)
    add_other_notes(alter)
    alter.set_defaults(paused=UNSET)
    way = alter.add_mutually_exclusive_group()
    add_switch(way, "--read-only", "refuse messages; what is there is kept and read as before")
    way.add_argument(
        "--read-write", dest="read_only", action="store_const", const=False, help="take messages again"
    )


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
        max_payload_bytes=args.max_payload,
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
        print(f"created stream '{args.name}' on {_on(config)}")
        _print_partitions(info)
    return 0


def _on(config: StreamConfig) -> str:
    """What a stream listens on."""
    subjects = ", ".join(f"'{subject}'" for subject in config.subjects)
    return f"subjects {subjects}" if len(config.subjects) > 1 else f"subject {subjects}"


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


async def _list(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        streams = await client.streams()
    if not args.all:
        streams = [stream for stream in streams if not stream.config.name.startswith(INTERNAL)]
    if args.json:
        print_json([to_plain(stream) for stream in streams])
    elif not streams:
        print("no streams; create one with: liftlog stream create NAME SUBJECT")
    else:
        rows: list[list[object]] = [
            [
                stream.config.name,
                " ".join(stream.config.subjects),
                stream.config.partitions,
                stream.config.replication_factor,
                " ".join(str(partition.leader or "-") for partition in stream.partitions),
            ]
            for stream in streams
        ]
        print_table(rows, ["NAME", "SUBJECT", "PARTITIONS", "REPLICAS", "LEADERS"])
    return 0


async def _info(args: argparse.Namespace) -> int:
    async with await who_answers(args) as client:
        told = await _told(client, args.name, args.linearizable)
    info = told.streams[0]
    if args.json:
        age = {"told_by": told.told_by, "linearizable": told.linearizable, "age_ms": told.age_ms}
        print_json({**to_plain(info), **age})
    else:
        config = info.config
        print(f"stream '{config.name}' (id {info.id}) on {_on(config)}")
        print(
            f"replicas {config.replication_factor}, "
            f"of which {config.min_insync_replicas} must be in sync; "
            f"payload up to {config.max_payload_bytes} bytes; "
            f"publishers are {'' if config.ack_reply else 'not '}answered"
        )
        print(describe_log(config))
        if config.shares_in:
            print(f"queue group '{config.shares_in}': of its streams each message goes to one")
        for name, value in () if config.notes is UNSET else config.notes:
            print(f"note {printable(name.encode())}: {printable(value.encode())}")
        for line in copies(config):
            print(line)
        if config.activity is True:
            print("tells what happens in the cluster, and takes nothing else: liftlog activity watch")
        if config.sealed is True:
            print("sealed: it takes no messages any more, and none can be deleted or purged")
        elif config.read_only:
            again = f"liftlog stream alter {config.name} --read-write"
            print(f"read-only: messages are refused; take them again with: {again}")
        if config.paused:
            print(f"paused: it takes no messages; take them again with: liftlog stream resume {config.name}")
        if info.revision:
            print(f"altered last by command {info.revision}")
        _print_partitions(info)
        print(how_old(told))
    return 0


async def _told(client: Client | NodesClient, name: str, linearizable: bool) -> StreamInfoReply:
    """Of a stream; what one node does not know may exist all the same, so that a quorum is asked then."""
    if not linearizable:
        try:
            return await client.known_stream(name)
        except RequestFailed as error:
            if error.code != ERR_NOT_FOUND:
                raise
    return await client.sure_stream(name)


def how_old(told: StreamInfoReply) -> str:
    """What was told, of when it is."""
    if told.linearizable:
        return f"as of now: node {told.told_by} asked a quorum"
    if told.age_ms < 0:
        return f"as node {told.told_by} read it from its disk: it has heard no controller since it started"
    when = ago(told.age_ms)
    return f"as node {told.told_by} knows it, which heard a controller {when}; --linearizable asks a quorum"


def describe_log(config: StreamConfig) -> str:
    """What is kept and how it is written, in one line; only what differs from the defaults."""
    set_ = [
        field if value is True else f"{field} {value}"
        for field in LOG_OPTIONS
        if (value := getattr(config, field)) != getattr(LOG_DEFAULTS, field)
    ]
    return "log: " + (", ".join(set_) if set_ else "kept for ever, not compacted, synced")


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
    for partition in info.partitions:
        if partition.refusal:
            print(
                f"partition {partition.index}: NATS refuses node {partition.leader}'s subscription "
                f"({partition.refusal}); nothing is stored until the nodes' NATS user may"
            )
        for text in slow_nodes(partition):
            print(f"partition {partition.index}: {text}")


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
