"""What `liftlog stream ls` and `info` tell of streams: what they listen on, what they keep, who leads."""

from __future__ import annotations

import argparse

from msgspec import UNSET

from liftlog.api.plain import to_plain
from liftlog.client import Client, RequestFailed
from liftlog.client.direct import NodesClient
from liftlog.commands.asking import add_node_options, who_answers
from liftlog.commands.clusterview import ago, slow_nodes
from liftlog.commands.common import add_client_options, connect, print_json, print_table, run
from liftlog.commands.mirrors import copies
from liftlog.commands.streamoptions import LOG_DEFAULTS, LOG_OPTIONS
from liftlog.groups.streams import INTERNAL
from liftlog.messages import ERR_NOT_FOUND, StreamInfo, StreamInfoReply
from liftlog.terminal import printable
from liftlog.types import StreamConfig


def add_views(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    ls = actions.add_parser("ls", help="list all streams")
    ls.add_argument("--all", action="store_true", help=f"{INTERNAL}... too, which liftlog keeps for itself")
    add_client_options(ls)
    ls.set_defaults(run=lambda args: run(_list(args)))
    info = actions.add_parser("info", help="one stream: leaders, in-sync replicas")
    info.add_argument("name", metavar="NAME")
    info.add_argument(
        "--linearizable",
        action="store_true",
        help="with everything that was decided before: waits for a quorum (default: as a node knows it)",
    )
    add_node_options(info)
    info.set_defaults(run=lambda args: run(_info(args)))


def listens_on(config: StreamConfig) -> str:
    """What a stream listens on."""
    subjects = ", ".join(f"'{subject}'" for subject in config.subjects)
    return f"subjects {subjects}" if len(config.subjects) > 1 else f"subject {subjects}"


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
        print(f"stream '{config.name}' (id {info.id}) on {listens_on(config)}")
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
        print_partitions(info)
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


def print_partitions(info: StreamInfo) -> None:
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
