"""`liftlog import`: move a stream that lies elsewhere into this cluster (docs/moving.md)."""

from __future__ import annotations

import argparse
import asyncio
import json
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from liftlog.commands.common import (
    add_client_options,
    connect,
    note,
    positive_count,
    positive_seconds,
    print_json,
    run,
)
from liftlog.nats_login import NatsLogin
from liftlog.types import LiftlogError

if TYPE_CHECKING:
    from liftlog.moving.copying import StreamCopying
    from liftlog.moving.move import Move, Moved, Outlook
    from liftlog.moving.plan import MoveWishes
    from liftlog.moving.positions import MovedConsumer

EXIT_DIFFERS = 1
LOGIN = {
    "--from-credentials": "log in to the origin's NATS with this credentials file",
    "--from-nkey": "log in there with the nkey whose seed is in this file",
    "--from-ca": "believe its certificates if they are of this CA, and speak TLS",
    "--from-cert": "show it this client certificate",
    "--from-key": "the certificate's key, if it is in a file of its own",
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    group = subparsers.add_parser("import", help="move streams from a running JetStream into this cluster")
    kinds = group.add_subparsers(dest="kind", required=True)
    parser = kinds.add_parser(
        "jetstream",
        help="move a stream of nats-server's JetStream, with its sequences and consumers",
        description="Copies the stream, compares both, makes its consumers, and opens it. It may be ended at "
        "any place: the same command goes on. See docs/moving.md.",
    )
    parser.add_argument("stream", metavar="STREAM", help="its name there; of a bucket: KV_name, OBJ_name")
    parser.add_argument("--from", dest="origin", metavar="URL", required=True, help="NATS of the origin")
    parser.add_argument("--domain", default="", metavar="NAME", help="JetStream domain of the origin")
    parser.add_argument("--as", dest="name", default="", metavar="NAME", help="its name here")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument(
        "--follow", action="store_true", help="keep the copy near the origin until this command is ended"
    )
    parser.add_argument(
        "--set",
        dest="fields",
        action="append",
        default=[],
        type=_field_and_value,
        metavar="FIELD=VALUE",
        help="have another value here in JetStream's configuration, such as num_replicas=1 or placement=null",
    )
    parser.add_argument(
        "--drop-header", action="append", default=[], metavar="NAME", help="leave a header out of all copies"
    )
    parser.add_argument(
        "--skip-consumer", action="append", default=[], metavar="NAME", help="do not make this consumer here"
    )
    parser.add_argument(
        "--time-header", default="", metavar="NAME", help="a header that says a message's time at the origin"
    )
    parser.add_argument(
        "--renumber", action="store_true", help="let the first message that is there have sequence 1"
    )
    parser.add_argument(
        "--gaps-max",
        type=positive_count,
        default=5_000_000,
        metavar="N",
        help="fill the places of at most so many messages that are gone (default 5000000)",
    )
    parser.add_argument(
        "--give-up-after",
        type=positive_seconds,
        default=60.0,
        metavar="SECONDS",
        help="without progress, when one of both does not answer (default 60)",
    )
    for option, text in LOGIN.items():
        parser.add_argument(option, metavar="FILE", type=Path, help=text)
    add_client_options(parser)
    parser.set_defaults(run=lambda args: run(_import(args)))


def _origin_login(args: argparse.Namespace) -> NatsLogin:
    return NatsLogin(*(getattr(args, option[2:].replace("-", "_")) for option in LOGIN))


def _field_and_value(text: str) -> tuple[str, Any]:
    """A field, and what stands behind the "=": JSON, or else a text. Raises ArgumentTypeError."""
    name, sign, value = text.partition("=")
    if not name or not sign:
        raise argparse.ArgumentTypeError(f"{text!r} sets no field: say FIELD=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _wishes(args: argparse.Namespace) -> MoveWishes:
    from liftlog.moving.plan import MoveWishes

    header = args.time_header
    if header and not (header.isascii() and header.replace("-", "").replace("_", "").isalnum()):
        raise LiftlogError(f"--time-header {header!r}: use letters, digits, '-' and '_'")
    return MoveWishes(
        name=args.name,
        fields=dict(args.fields),
        left_out=frozenset(name.encode() for name in args.drop_header),
        time_header=header,
        renumber=args.renumber,
        skipped_consumers=frozenset(args.skip_consumer),
    )


async def _import(args: argparse.Namespace) -> int:
    # Imported here: a usage error must not pay for it.
    from liftlog.moving.copying import MoveBounds
    from liftlog.moving.move import Differs, Move
    from liftlog.moving.origin import JetStreamOrigin, OriginPlace

    def tell(event: str, text: str, **numbers: object) -> None:
        if args.json:
            print_json({"event": event, "text": text, **numbers})
        else:
            note(text)

    wishes = _wishes(args)
    bounds = MoveBounds(args.gaps_max, args.give_up_after)
    place = OriginPlace(args.origin, args.stream, args.domain, _origin_login(args))
    async with await connect(args) as client, JetStreamOrigin(place) as origin:
        move = Move(origin, client, wishes, bounds, tell)
        try:
            outlook = await move.outlook()
            _show_outlook(args, outlook)
            if args.dry_run:
                return 0
            stop = asyncio.Event()
            return await _carry_out(args, move, await move.begin(outlook, stop), stop)
        except Differs as error:
            if args.json:
                print_json({"event": "differs", "text": str(error)})
            note(f"liftlog: {error}")
            return EXIT_DIFFERS


async def _carry_out(
    args: argparse.Namespace, move: Move, copying: StreamCopying, stop: asyncio.Event
) -> int:
    """Follow, or move. A signal ends either where it is."""
    work = move.follow(copying) if args.follow else move.cut_over(copying)
    working: asyncio.Task[int | Moved] = asyncio.ensure_future(work)
    asked = 0

    def end() -> None:
        nonlocal asked
        asked += 1
        stop.set()
        if asked > 1:
            working.cancel()

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, end)
    try:
        done = await working
    except asyncio.CancelledError:
        raise LiftlogError("it was ended; start it again, and it goes on where it is") from None
    if isinstance(done, int):
        text = f"the copy ends at sequence {done}; with --follow it goes on, without it is opened"
        print(text) if not args.json else print_json({"event": "ended", "text": text, "sequence": done})
        return 0
    return _show_moved(args, copying.plan.name, done)


def _show_outlook(args: argparse.Namespace, outlook: Outlook) -> None:
    """What is there, and what will be."""
    plan, origin = outlook.plan, outlook.origin
    state = origin.state
    made, left = outlook.consumers
    if args.json:
        print_json(
            {
                "event": "plan",
                "stream": plan.name,
                "subjects": plan.ready.subjects,
                "messages": state.messages,
                "bytes": state.bytes,
                "first": state.first_seq,
                "last": state.last_seq,
                "fillers": outlook.fillers,
                "begun": outlook.begun,
                "consumers": [one.name for one in made],
                "left_out": left,
            }
        )
        return
    lines = [
        f"'{plan.provenance.stream}' has {state.messages} messages ({state.bytes} bytes), sequences "
        f"{state.first_seq} to {state.last_seq}, created {origin.created}",
        f"here it is stream '{plan.name}' on {' '.join(plan.ready.subjects)}, with replication factor "
        f"{plan.ready.replication_factor}" + (", and begun already" if outlook.begun else ""),
    ]
    if plan.provenance.shift:
        lines.append(f"sequences are {plan.provenance.shift} lower here")
    if outlook.fillers:
        text = "sequences have no message any more: fillers take their places, and are deleted"
        lines.append(f"{outlook.fillers} {text}")
    lines += [f"consumer '{one.name}' {_where(one)}" for one in made]
    if left:
        lines.append(f"not made here: {', '.join(left)} (ephemeral ones are made by programs)")
    for line in lines:
        note(line)


def _where(one: MovedConsumer) -> str:
    """Where a consumer goes on."""
    if one.anew:
        return "begins anew: it has not had anything"
    again = f"; up to {one.again} that it has acked above that come again" if one.again else ""
    return f"goes on at sequence {one.next_seq}{again}"


def _show_moved(args: argparse.Namespace, name: str, moved: Moved) -> int:
    """What became of it, and what to do now."""
    if args.json:
        print_json(
            {
                "event": "moved",
                "stream": name,
                "messages": moved.messages,
                "last": moved.last_seq,
                "consumers": [one.name for one in moved.consumers.made],
                "late": moved.late,
                "digest": moved.digest,
            }
        )
    else:
        consumers = f", consumers: {', '.join(one.name for one in moved.consumers.made)}"
        print(
            f"stream '{name}' is ready: {moved.messages} messages, up to sequence {moved.last_seq}"
            + (consumers if moved.consumers.made else "")
        )
        note("now have programs use this cluster (docs/jetstream.md), and delete the origin's at last")
    if moved.late:
        note(
            f"liftlog: the origin has got {moved.late} messages since: they are not in the copy; read them "
            f"from sequence {moved.last_seq + 1} on"
        )
        return EXIT_DIFFERS
    return 0
