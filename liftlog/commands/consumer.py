"""`liftlog consumer`: durable consumers of a stream's partitions, which have their messages acked (K1-K8)."""

from __future__ import annotations

import argparse
from datetime import datetime

from msgspec import to_builtins
from msgspec.structs import asdict

from liftlog.client.reader import EARLIEST, NEW, TIME
from liftlog.commands.common import (
    add_client_options,
    connect,
    duration_ms,
    name_and_value,
    natural,
    positive_count,
    print_json,
    print_table,
    run,
)
from liftlog.commands.pubsub import record_to_plain
from liftlog.messages import (
    DELIVER_ALL,
    DELIVER_FROM,
    DELIVER_LAST,
    DELIVER_LASTS,
    DELIVER_NEW,
    DELIVER_TIME,
    FILTERS_MAX,
    ConsumerConfig,
    ConsumerInfo,
)
from liftlog.terminal import printable
from liftlog.types import LiftlogError

DEFAULTS = ConsumerConfig()
FLOOR = "floor"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = subparsers.add_parser("consumer", help="durable consumers: make, look at, pull from, remove")
    actions = group.add_subparsers(dest="action", required=True)
    add = actions.add_parser("add", help="make a consumer; one that is there as it is said is left as it is")
    _name(add)
    add.add_argument(
        "--deliver",
        default=DELIVER_ALL,
        metavar="WHERE",
        help=f"where it begins: {DELIVER_ALL!r} (default), {DELIVER_NEW!r}, {DELIVER_LAST!r}, "
        f"{DELIVER_LASTS!r}, an offset, or a time such as 2026-05-01T12:00:00Z",
    )
    add.add_argument(
        "--ack-wait",
        type=duration_ms,
        default=DEFAULTS.ack_wait_ms,
        metavar="TIME",
        help="what is not acked for so long is given again (default 30s)",
    )
    add.add_argument(
        "--backoff",
        type=_durations,
        default=DEFAULTS.backoff_ms,
        metavar="TIMES",
        help="in place of --ack-wait for the first deliveries of a message, such as 1s,10s,1m",
    )
    _add_limits(add)
    add.add_argument(
        "--filter",
        action="append",
        default=[],
        metavar="PATTERN",
        help=f"only messages whose subjects match; up to {FILTERS_MAX} times (default: all)",
    )
    add.add_argument(
        "--inactive",
        type=duration_ms,
        default=0,
        metavar="TIME",
        help="remove it when nobody has used it for so long (default: never)",
    )
    add.add_argument(
        "--note",
        action="append",
        type=name_and_value,
        default=[],
        metavar="NAME=VALUE",
        help="something for yourself, which is told with the consumer",
    )
    _finish(add, _add)
    _add_alter(actions)
    ls = actions.add_parser("ls", help="the consumers of a partition")
    ls.add_argument("stream", metavar="STREAM")
    _finish(ls, _list)
    info = actions.add_parser("info", help="one consumer: how far it is, what waits for an ack")
    _name(info)
    _finish(info, _info)
    following = actions.add_parser("next", help="pull messages, print them, and ack them")
    _name(following)
    following.add_argument("--count", type=positive_count, default=1, metavar="N", help="so many (default 1)")
    following.add_argument("--wait", type=duration_ms, default=1000, metavar="TIME", help="(default 1s)")
    following.add_argument("--no-ack", action="store_true", help="leave them to be given again")
    _finish(following, _next)
    reset = actions.add_parser("reset", help="have a consumer begin again somewhere else")
    _name(reset)
    reset.add_argument(
        "--to",
        required=True,
        metavar="WHERE",
        help=f"{FLOOR!r} (the first message that is not done), {EARLIEST!r}, {NEW!r}, an offset, or a time "
        "such as 2026-05-01T12:00:00Z",
    )
    _finish(reset, _reset)
    remove = actions.add_parser("rm", help="remove a consumer, with all that is known of it")
    _name(remove)
    _finish(remove, _remove)


def _add_limits(add: argparse.ArgumentParser) -> None:
    add.add_argument(
        "--max-deliver",
        type=natural,
        default=DEFAULTS.max_deliver,
        metavar="N",
        help="give up a message that was given so often (default 0: never)",
    )
    add.add_argument(
        "--dead-letter",
        default="",
        metavar="SUBJECT",
        help="publish there what was given up or terminated; it is done when a stream has stored it there",
    )
    add.add_argument(
        "--max-ack-pending",
        type=positive_count,
        default=DEFAULTS.max_ack_pending,
        metavar="N",
        help="so many messages may wait for their ack (default 1000)",
    )


def _add_alter(actions: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    alter = actions.add_parser("alter", help="have a consumer wait otherwise, filter, or pause")
    _name(alter)
    alter.add_argument("--ack-wait", type=duration_ms, metavar="TIME")
    alter.add_argument("--backoff", type=_durations, metavar="TIMES")
    alter.add_argument("--max-deliver", type=natural, metavar="N")
    alter.add_argument("--dead-letter", metavar="SUBJECT", help="'' for none")
    alter.add_argument("--max-ack-pending", type=positive_count, metavar="N")
    given = "in place of all filters: only what matches, of what it has not come to yet; '' for all"
    alter.add_argument("--filter", action="append", metavar="PATTERN", help=given)
    gone = "remove it when nobody has used it for so long; 0 = never"
    alter.add_argument("--inactive", type=duration_ms, metavar="TIME", help=gone)
    said = "in place of all"
    alter.add_argument("--note", action="append", type=name_and_value, metavar="NAME=VALUE", help=said)
    alter.add_argument("--pause", metavar="UNTIL", help="deliver nothing before then; 'now' ends a pause")
    _finish(alter, _alter)


def _durations(text: str) -> tuple[int, ...]:
    """Several durations, in milliseconds."""
    return tuple(duration_ms(each) for each in text.split(","))


def _name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("stream", metavar="STREAM")
    parser.add_argument("name", metavar="NAME")


def _finish(parser: argparse.ArgumentParser, work: object) -> None:
    parser.add_argument("--partition", type=natural, default=0, metavar="N", help="(default 0)")
    add_client_options(parser)
    parser.set_defaults(run=lambda args: run(work(args)))  # type: ignore[operator]


def _config(args: argparse.Namespace) -> ConsumerConfig:
    where, offset, timestamp_ms = args.deliver, 0, 0
    if where.isdecimal():
        where, offset = DELIVER_FROM, int(where)
    elif where not in (DELIVER_ALL, DELIVER_NEW, DELIVER_LAST, DELIVER_LASTS):
        where, timestamp_ms = DELIVER_TIME, _moment("--deliver", where)
    return ConsumerConfig(
        ack_wait_ms=args.ack_wait,
        max_deliver=args.max_deliver,
        max_ack_pending=args.max_ack_pending,
        deliver=where,
        offset=offset,
        filter=args.filter[0] if args.filter else "",
        backoff_ms=args.backoff,
        filters=tuple(args.filter[1:]),
        notes=tuple(args.note),
        timestamp_ms=timestamp_ms,
        inactive_ms=args.inactive,
        dead_letter=args.dead_letter,
    )


def _moment(option: str, text: str) -> int:
    """An instant, in milliseconds since 1970."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        say = "one of the words that its help names, or a time such as 2026-05-01T12:00:00Z"
        raise LiftlogError(f"{option} {text}: say {say}") from None
    if moment.tzinfo is None:
        raise LiftlogError(f"{option} {text}: say of which zone that is, such as {text}Z")
    return max(0, round(moment.timestamp() * 1000))


def _plain(info: ConsumerInfo) -> dict[str, object]:
    return {**asdict(info), "config": to_builtins(asdict(info.config))}


def _show(args: argparse.Namespace, infos: list[ConsumerInfo], whole: object) -> None:
    if args.json:
        print_json(whole)
        return
    heads = ["NAME", "NUMBER", "FLOOR", "POSITION", "SEQUENCE", "ACK PENDING", "AGAIN", "TO COME"]
    heads += ["ACK WAIT MS", "MAX DELIVER"]
    rows: list[list[object]] = []
    for one in infos:
        config = one.config
        places = one.name, one.number, one.floor, one.position, one.sequence, one.ack_pending, one.redelivered
        to_come = one.num_pending if one.num_pending >= 0 else "-"
        rows.append([*places, to_come, config.ack_wait_ms, config.max_deliver or "-"])
    print_table(rows, heads)
    for one in infos:
        if one.dead:
            why = f": {one.dead_problem}" if one.dead_problem else ""
            print(f"{one.name}: {one.dead} dead messages wait to be stored at {one.config.dead_letter}{why}")


async def _add(args: argparse.Namespace) -> int:
    config = _config(args)
    async with await connect(args) as client:
        made = await client.consumer(args.stream, args.name, config=config, partition=args.partition)
        info = await made.info()
    _show(args, [info], _plain(info))
    return 0


async def _alter(args: argparse.Namespace) -> int:
    asked = {
        "ack_wait_ms": args.ack_wait,
        "backoff_ms": args.backoff,
        "max_deliver": args.max_deliver,
        "dead_letter": args.dead_letter,
        "max_ack_pending": args.max_ack_pending,
        "inactive_ms": args.inactive,
        "notes": tuple(args.note) if args.note else None,
    }
    changes = {name: value for name, value in asked.items() if value is not None}
    if args.filter is not None:
        changes |= {"filter": args.filter[0], "filters": tuple(args.filter[1:])}
    if args.pause is not None:
        changes["pause_until_ms"] = 0 if args.pause == "now" else _moment("--pause", args.pause)
    if not changes:
        raise LiftlogError("say what to alter; see: liftlog consumer alter --help")
    async with await connect(args) as client:
        consumer = await client.consumer(args.stream, args.name, partition=args.partition)
        info = await consumer.alter(**changes)
    _show(args, [info], _plain(info))
    return 0


async def _reset(args: argparse.Namespace) -> int:
    word, timestamp_ms, offset = args.to, 0, None
    if word.isdecimal():
        offset = int(word)
    elif word not in (FLOOR, EARLIEST, NEW):
        word, timestamp_ms = TIME, _moment("--to", word)
    async with await connect(args) as client:
        stream = await client.stream(args.stream)
        if offset is None and word != FLOOR:
            offset = await client.reader(stream, args.partition).offset(word, timestamp_ms)
        await client.reset_consumer(stream, args.name, offset, partition=args.partition)
        info = await (await client.consumer(stream, args.name, partition=args.partition)).info()
    _show(args, [info], _plain(info))
    return 0


async def _list(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        infos = await client.consumers(args.stream, partition=args.partition)
    _show(args, infos, [_plain(one) for one in infos])
    return 0


async def _info(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        info = await (await client.consumer(args.stream, args.name, partition=args.partition)).info()
    _show(args, [info], _plain(info))
    return 0


async def _next(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        consumer = await client.consumer(args.stream, args.name, partition=args.partition)
        found = await consumer.fetch(args.count, wait_ms=args.wait)
        for record, count, *_ in found:
            if args.json:
                print_json({**record_to_plain(args.partition, record), "delivered": count})
            else:
                value = "(a deletion: no value)" if record.value is None else printable(record.value)
                place = f"offset {record.offset} subject {printable(record.subject)}"
                print(f"{place} delivered {count}: {value}")
        if found and not args.no_ack:
            again = await consumer.ack(*found)
            if again:
                raise LiftlogError(f"not acked, and to be given again: offsets {again}")
    if not found and not args.json:
        print("no message came")
    return 0


async def _remove(args: argparse.Namespace) -> int:
    async with await connect(args) as client:
        await client.delete_consumer(args.stream, args.name, partition=args.partition)
    if args.json:
        print_json({"deleted": args.name})
    else:
        print(f"consumer '{args.name}' is removed")
    return 0
