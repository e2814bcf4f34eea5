"""`liftlog activity`: a stream that tells what happens in the cluster (N12)."""

from __future__ import annotations

import argparse
import datetime

from liftlog.client.activity import ToldEvent, activity, activity_stream
from liftlog.client.bounds import At, Start
from liftlog.commands.common import (
    add_client_options,
    connect,
    duration_ms,
    natural,
    positive_count,
    print_json,
    run,
)
from liftlog.commands.pubsub import TIME_FORMS, parse_start
from liftlog.core.metadata.activity import EVENTS_MISSING
from liftlog.terminal import printable
from liftlog.types import LiftlogError, StreamConfig

NAME = "__activity"
RETENTION_MS = 30 * 24 * 3600 * 1000
"""For so long events are kept, if nobody says otherwise."""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = subparsers.add_parser("activity", help="a stream that tells what happens in the cluster")
    actions = group.add_subparsers(dest="action", required=True)
    on = actions.add_parser("on", help=f"make the stream, {NAME}: from now on it is told")
    on.add_argument("--replicas", type=natural, default=0, metavar="N", help="(default: as other streams)")
    on.add_argument(
        "--retention-ms",
        type=duration_ms,
        default=RETENTION_MS,
        metavar="D",
        help="for how long events are kept, such as 7d; 0 = for ever (default 30d)",
    )
    add_client_options(on)
    on.set_defaults(run=lambda args: run(_on(args)))
    off = actions.add_parser("off", help="remove the stream, with all that it tells")
    add_client_options(off)
    off.set_defaults(run=lambda args: run(_off(args)))
    watch = actions.add_parser("watch", help="what has happened, and what happens, one line an event")
    watch.add_argument("--from", dest="start", default="earliest", metavar="WHERE", help=TIME_FORMS)
    watch.add_argument("--filter", metavar="PATTERN", help=f"of subjects, such as '{NAME}.node.*'")
    watch.add_argument("--count", type=positive_count, metavar="N", help="stop after so many events")
    watch.add_argument("--no-follow", action="store_true", help="stop at the end of what is there")
    add_client_options(watch)
    watch.set_defaults(run=lambda args: run(_watch(args)))


async def _on(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        there = [info.config.name for info in await client.streams() if info.config.activity is True]
        if there:
            raise LiftlogError(f"stream '{there[0]}' tells it already: liftlog activity watch")
        config = StreamConfig(
            NAME,
            f"{NAME}.>",
            replication_factor=args.replicas,
            retention_ms=args.retention_ms,
            activity=True,
        )
        await client.create_stream(config)
    if args.json:
        print_json({"stream": NAME})
    else:
        print(f"stream '{NAME}' tells what happens from now on: liftlog activity watch")
    return 0


async def _off(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        name = activity_stream(await client.streams()).config.name
        await client.delete_stream(name)
    if args.json:
        print_json({"deleted": name})
    else:
        print(f"removed stream '{name}': what happens is not told any more")
    return 0


async def _watch(args: argparse.Namespace) -> int:
    what, number = parse_start(args.start)
    start: Start = At(number) if what == "time" else number if what == "offset" else what
    left = args.count
    async with await connect(args) as client:
        stream = activity_stream(await client.streams())
        follow = not args.no_follow
        async for one in activity(client, stream, start=start, follow=follow, filter=args.filter):
            if args.json:
                print_json({"offset": one.offset, "timestamp_ms": one.timestamp_ms, **one.body})
            else:
                print(line_of(one), flush=True)
            left = left - 1 if left is not None else None
            if left == 0:
                break
    return 0


def line_of(one: ToldEvent) -> str:
    """An event for people."""
    moment = datetime.datetime.fromtimestamp(one.timestamp_ms / 1000, datetime.UTC)
    body = one.body
    parts = [moment.strftime("%Y-%m-%dT%H:%M:%SZ"), str(one.id), one.event]
    if one.event == EVENTS_MISSING:
        parts.append(f"some of what has happened up to {one.id} had no room: list the streams anew")
    if body.get("stream"):
        parts.append(str(body["stream"]))
    if body.get("node"):
        parts.append(f"node {body['node']}")
    if body.get("level"):
        parts.append(f"level {body['level']}")
    if body.get("detail"):
        parts.append(str(body["detail"]))
    parts += [_changed(change) for change in body.get("partitions", ())]
    if body.get("more"):
        parts.append(f"and {body['more']} partitions more")
    return printable("  ".join(parts).encode())


def _changed(change: dict[str, object]) -> str:
    led = f"led by {change['leader']} in epoch {change['epoch']}"
    leader = led if change["leader"] else "without a leader"
    isr = change["isr"]
    in_sync = " ".join(map(str, isr)) if isinstance(isr, list) else ""
    return f"[{change['stream']}/{change['partition']}: {leader}, in sync {in_sync or 'nobody'}]"
