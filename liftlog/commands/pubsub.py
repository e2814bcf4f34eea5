"""`liftlog pub` and `liftlog sub`: publish with acks, read from anywhere in a stream."""

from __future__ import annotations

import argparse
import asyncio
import base64
import datetime
import os
import sys
from collections.abc import AsyncIterator, Iterator
from typing import Literal

from liftlog.bounds import TTL_LEAST_MS, TTL_MOST_MS
from liftlog.client import (
    EARLIEST,
    END,
    FOREVER,
    LATEST,
    NEW,
    TIME,
    At,
    BatchRecord,
    Client,
    PublishResult,
    Reader,
    RequestFailed,
    Start,
    StreamReading,
    Unreachable,
)
from liftlog.client.publisher import (
    INFO,
    LEADER,
    NOBODY,
    OK,
    POLICIES,
    ROLLUPS,
    SENT,
    expecting,
    expecting_last,
    identified,
    living,
    rolling_up,
)
from liftlog.client.streams import key_headers
from liftlog.commands import share
from liftlog.commands.asking import look_at
from liftlog.commands.common import (
    UNITS_MS,
    add_client_options,
    connect,
    duration_ms,
    natural,
    node_number,
    note,
    positive_count,
    print_json,
    read_file,
    run,
)
from liftlog.core.metadata.subjects import listened_to
from liftlog.messages import ERR_FAILED, ERR_FULL, ERR_OVERLOAD
from liftlog.parcel import RECORDS_MAX
from liftlog.subjects.grammar import matches
from liftlog.terminal import printable
from liftlog.types import NO_OFFSET, LiftlogError, Record

WINDOW = 5000
TOLD_IN_FULL = (ERR_FULL, ERR_OVERLOAD, ERR_FAILED)
"""Refusals that say themselves what is the matter; others leave it to the cluster's state."""
LOOK_TIMEOUT_MS = 3000
"""How long is looked for the reason why something was not stored."""
STDIN_BYTES = 256 * 1024
TIME_FORMS = "earliest, latest, new, an offset, or a time such as 2026-01-31T12:00:00+00:00"


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    publish = subparsers.add_parser("pub", help="publish messages and wait for their acks")
    publish.add_argument("subject", metavar="SUBJECT")
    publish.add_argument("messages", metavar="MESSAGE", nargs="*")
    publish.add_argument("--stdin", action="store_true", help="one message per line of standard input")
    publish.add_argument("--file", metavar="FILE", help="the whole file as one message")
    publish.add_argument("--key", metavar="KEY", help="the messages' key, for compacted streams")
    publish.add_argument(
        "--tombstone", action="store_true", help="with --key: delete the key; the message has no value"
    )
    publish.add_argument(
        "--ack",
        choices=POLICIES,
        default="all",
        help="wait until all in sync have a message (default), until its leader has it, or for none",
    )
    publish.add_argument(
        "--expected-offset",
        type=natural,
        metavar="N",
        help="store the first message at this offset of its partition or not at all, and each that follows "
        "behind the one before",
    )
    publish.add_argument(
        "--expect-last-of-subject",
        type=_last_offset,
        metavar="N",
        help="store the only message, or batch, if the last one of the subject has this offset, or, for "
        "none, if there is none",
    )
    publish.add_argument(
        "--message-id",
        metavar="ID",
        help="of the only message: store it once, however often it is sent, while the stream remembers ids",
    )
    _add_removing(publish)
    publish.add_argument(
        "--producer",
        metavar="NAME",
        help="number the messages as this producer's: each is stored once and in order, while the stream "
        "remembers producers (--dedupe-window); who begins later under the name replaces this one",
    )
    publish.add_argument(
        "--batch",
        type=positive_count,
        metavar="N",
        help=f"send N messages (up to {RECORDS_MAX}) in one, stored together or not at all",
    )
    publish.add_argument("--quiet", action="store_true", help="print the summary only")
    add_client_options(publish)
    publish.set_defaults(run=lambda args: run(_publish(args)))
    read = subparsers.add_parser("sub", help="read a stream from an offset or a time on")
    read.add_argument("stream", metavar="STREAM")
    read.add_argument("--from", dest="start", default=EARLIEST, metavar="WHERE", help=TIME_FORMS)
    read.add_argument(
        "--partition",
        type=natural,
        metavar="N",
        help="only this one (default: all, one after the other; with --follow all at once, added ones too)",
    )
    read.add_argument("--count", type=positive_count, metavar="N", help="stop after so many records")
    read.add_argument("--follow", action="store_true", help="go on with what comes later")
    read.add_argument(
        "--replica", type=node_number, default=0, metavar="NODE", help="read from this node only"
    )
    read.add_argument(
        "--filter", metavar="PATTERN", help="only what is on subjects such as 'orders.*.paid' or 'orders.>'"
    )
    read.add_argument(
        "--key", action="append", default=[], metavar="KEY", help="only what has this key; may be repeated"
    )
    read.add_argument("--raw", action="store_true", help="print values only, one per line, as they are")
    share.add_options(read)
    add_client_options(read)
    read.set_defaults(run=lambda args: run(_subscribe(args)))


def _add_removing(publish: argparse.ArgumentParser) -> None:
    """Which messages are deleted for this one, and when it is itself (R23, R24)."""
    publish.add_argument(
        "--rollup",
        choices=ROLLUPS,
        help="of the only message: delete older ones, of its subject (sub) or of the partition (all), of a "
        "stream with --allow-rollup",
    )
    publish.add_argument(
        "--ttl",
        type=time_to_live,
        metavar="TIME",
        help="of the only message: delete it when it is so old, such as 90s, 0: never, of a stream with "
        "--allow-ttl",
    )


def time_to_live(text: str) -> int:
    """`--ttl`: milliseconds; 0: for ever."""
    found = duration_ms(text)
    if found and not TTL_LEAST_MS <= found <= TTL_MOST_MS:
        most = TTL_MOST_MS // UNITS_MS["d"]
        raise argparse.ArgumentTypeError(f"{text}: a message lives 1s to {most}d, or 0: for ever")
    return found


# -- pub ---------------------------------------------------------------------------------------------------


def _values(args: argparse.Namespace) -> Iterator[list[bytes]]:
    """The messages, in groups: what is there at once, so that a slow pipe is not waited for."""
    # What the shell handed over, in whatever encoding: a value is bytes.
    yield [os.fsencode(message) for message in args.messages]
    if args.file:
        yield [read_file(args.file)]
    if args.stdin:
        rest = b""
        while data := os.read(sys.stdin.fileno(), STDIN_BYTES):
            *lines, rest = (rest + data).split(b"\n")
            yield [line.removesuffix(b"\r") for line in lines]
        if rest:
            yield [rest]


async def _publish(args: argparse.Namespace) -> int:
    headers = _headers(args)
    given = bool(args.messages) + bool(args.file) + args.stdin
    if args.tombstone:
        if given:
            raise LiftlogError("--tombstone deletes the key: such a message has no value; leave it out")
        args.messages = [""]
    elif given != 1:
        ways = "give messages as arguments, or --stdin, or --file FILE"
        raise LiftlogError(f"{ways}, one of them" if given else f"nothing to publish; {ways}")
    if args.stdin and sys.stdin is None:
        raise LiftlogError("--stdin: standard input is closed; leave it out, or give a file with < FILE")
    if args.message_id is not None and (args.stdin or len(args.messages) > 1):
        raise LiftlogError("--message-id is the id of one message; publish each with its own")
    if args.rollup is not None and (args.stdin or args.batch or len(args.messages) > 1):
        raise LiftlogError("--rollup is of one message; publish the others on their own")
    if args.ttl is not None and (args.stdin or args.batch or len(args.messages) > 1):
        raise LiftlogError("--ttl is of one message; publish each with its own")
    several = args.stdin or len(args.messages) > (args.batch or 1)
    if args.expect_last_of_subject is not None and several:
        raise LiftlogError("--expect-last-of-subject is of one message or batch; publish each with its own")
    if args.batch and args.batch > RECORDS_MAX:
        raise LiftlogError(f"--batch {args.batch}: a batch has {RECORDS_MAX} messages at most")
    if args.batch and args.message_id is not None:
        raise LiftlogError("--message-id is not for a batch; leave --batch out, or the id")
    if args.producer is not None:
        _check_producer(args)
    results = ResultPrinter(args)
    values = _values(args)
    async with await connect(args) as client:
        timeout_ms = int(args.timeout * 1000)
        async with client.publisher(
            results.add,
            window=WINDOW,
            ack_timeout_ms=timeout_ms,
            insist=True,
            ack=args.ack,
            producer=args.producer or "",
        ) as publisher:
            tag = 0
            # Lines may come slowly, from a pipe: acks must arrive while we wait for the next ones.
            while (group := await asyncio.to_thread(next, values, None)) is not None:
                for some in _parts(group, args.batch or 1):
                    place = None if args.expected_offset is None else args.expected_offset + tag
                    expected = {**expecting(place), **expecting_last(args.expect_last_of_subject)}
                    results.sizes[tag] = len(some)
                    if args.batch:
                        records = _records_of(args, some)
                        await publisher.send_batch(tag, args.subject, records, expected)
                    else:
                        options = {**expected, **identified(args.message_id), **rolling_up(args.rollup)}
                        wanted = {**(headers or {}), **options, **living(args.ttl)} or None
                        await publisher.send(tag, args.subject, some[0], wanted)
                    tag += len(some)
        why = await why_not_stored(client, args.subject) if results.unexplained else ""
    return results.finish(args.subject, why)


def _last_offset(text: str) -> int:
    """Of a subject's last message; none: it has none."""
    return NO_OFFSET if text == "none" else natural(text)


def _check_producer(args: argparse.Namespace) -> None:
    """Raises LiftlogError for what does not go together with --producer."""
    if not args.producer:
        raise LiftlogError("--producer: the name is empty; give one, or leave it out")
    if args.message_id is not None:
        raise LiftlogError("--producer numbers messages, --message-id names one; leave one of them out")
    if args.expected_offset is not None:
        raise LiftlogError("--producer and --expected-offset both say what comes before; leave one out")


def _parts(group: list[bytes], size: int) -> Iterator[list[bytes]]:
    """What is there at once, in parts of so many."""
    for begin in range(0, len(group), size):
        yield group[begin : begin + size]


def _records_of(args: argparse.Namespace, values: list[bytes]) -> list[BatchRecord]:
    """The records of a batch; a key and a tombstone are theirs, and no headers."""
    key = None if args.key is None else args.key.encode()
    return [BatchRecord(None if args.tombstone else value, key) for value in values]


async def why_not_stored(client: Client, subject: str) -> str:
    """What is known of the cluster that explains why a subject's messages get no ack."""
    try:
        view = await look_at(client, LOOK_TIMEOUT_MS)
    except (Unreachable, RequestFailed):
        return f"no node of cluster '{client.cluster}' answers on this NATS; see 'liftlog cluster status'"
    listening = [
        stream.config.name
        for stream in view.streams
        for index in range(stream.config.partitions)
        if any(matches(pattern, subject) for pattern in listened_to(stream.config, index))
    ]
    if not listening and view.controller:
        return "no stream listens on this subject; see 'liftlog stream ls' for streams and their subjects"
    name = listening[0] if listening else ""
    if any(stream.config.name == name and stream.config.read_only for stream in view.streams):
        return ""  # The refusal has said so.
    if any(stream.config.name == name and stream.config.paused for stream in view.streams):
        return f"stream '{name}' is paused; take messages again with: liftlog stream resume {name}"
    for problem in view.problems:
        if not view.controller or f"'{name}'" in problem:
            known = (
                f"stream '{name}' listens on it otherwise" if name else "no stream is known to listen on it"
            )
            return f"{problem} ({known}); see 'liftlog cluster status'"
    return f"stream '{name}' has a leader that may listen on it by now; try again"


def _headers(args: argparse.Namespace) -> dict[str, str] | None:
    """The headers that make a key and a tombstone (C1)."""
    if args.key is None and args.tombstone:
        raise LiftlogError("--tombstone deletes a key; name it with --key KEY")
    return key_headers(args.key, args.tombstone) or None


class ResultPrinter:
    """Prints each ack as it comes, and remembers what went wrong."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._json = args.json
        self._quiet = args.quiet
        self._stored = 0
        self._sent = 0
        self._failed = 0
        self._first: PublishResult | None = None
        """The first that was not stored."""
        self.sizes: dict[int, int] = {}
        """By tag, how many messages were sent together, until it is known what became of them."""
        self._last: PublishResult | None = None

    def add(self, result: PublishResult) -> None:
        size = self.sizes.pop(result.tag)
        if result.outcome in (OK, LEADER):
            self._stored += size
            self._last = result
        elif result.outcome == SENT:
            self._sent += size
        else:
            self._failed += size
            self._first = self._first or result
        if self._quiet:
            return
        if self._json:
            print_json(result._asdict())
        elif result.outcome in (OK, LEADER):
            alone = ", by its leader alone" if result.outcome == LEADER else ""
            end = f" to {result.offset + size - 1}" if result.records else ""
            place = f"{result.stream} partition {result.partition} offset {result.offset}{end}"
            again = ", where it was stored before" if result.duplicate else ""
            print(f"{place} epoch {result.epoch}{alone}{again}")

    @property
    def unexplained(self) -> bool:
        """Whether the first failure says nothing of its cause, so that the cluster's state has to."""
        first = self._first
        if first is None or first.next_offset >= 0 or first.last_offset is not None:
            return False
        return first.error == NOBODY or (first.outcome == INFO and first.code not in TOLD_IN_FULL)

    def finish(self, subject: str, why: str) -> int:
        """The exit code. Raises LiftlogError if something was not acknowledged; `why`: what explains it."""
        if self._first is not None:
            total = self._failed + self._stored
            error = "" if self._first.error == NOBODY and why else self._first.error
            if self._first.next_offset >= 0:
                why = f"read up to there, decide anew, and say --expected-offset {self._first.next_offset}"
            if (last := self._first.last_offset) is not None:
                shown = "none" if last == NO_OFFSET else last
                why = f"look at that, decide anew, and say --expect-last-of-subject {shown}"
            what = f"{self._failed} of {total} messages to '{subject}' were not acknowledged"
            if total > 1:
                what += f", the first is number {self._first.tag + 1}"
            raise LiftlogError(f"{what}: {'; '.join(text for text in (error, why) if text)}")
        if self._sent and not self._json:
            print(f"sent {self._sent} messages; nobody says what became of them")
        elif self._quiet and self._json:
            print_json({"sent": self._sent} if self._sent else {"stored": self._stored})
        elif self._quiet and self._last is not None:
            last = self._last.offset + max(0, self._last.records - 1)
            print(f"stored {self._stored} messages, the last at offset {last}")
        return 0


# -- sub ---------------------------------------------------------------------------------------------------


async def _subscribe(args: argparse.Namespace) -> int:
    if args.raw and args.json:
        raise LiftlogError("--raw prints values alone, --json whole records; give one of them")
    share.check_options(args)
    what, number = parse_start(args.start)
    left = args.count
    async with await connect(args) as client:
        stream = await client.stream(args.stream)
        if args.group is not None:
            await share.read_as_member(
                client, args, lambda message: _print_record(args, message.partition, message.record)
            )
            return 0
        indexes = range(len(stream.partitions)) if args.partition is None else [args.partition]
        readers = [client.reader(stream, index, node=args.replica) for index in indexes]
        if what == "offset":
            readers = await _not_past_the_end(readers, number, args.stream)
        if args.filter is not None or args.key or (args.follow and args.partition is None):
            start: Start = At(number) if what == TIME else number if what == "offset" else what
            replica: Literal["leader"] | int = args.replica or "leader"
            reading = await client.read(
                stream,
                args.partition,
                start=start,
                until=FOREVER if args.follow else END,
                replica=replica,
                filter=args.filter,
                keys=args.key,
            )
            await _follow(args, reading)
            return 0
        for reader in readers:
            async for record in _records(client, reader, what, number, args.follow):
                _print_record(args, reader.partition.index, record)
                left = left - 1 if left is not None else None
                if left == 0:
                    return 0
        if not args.json and sys.stdout.isatty():
            note("end of the stream; --follow waits for more")
    return 0


async def _follow(args: argparse.Namespace, found: StreamReading) -> None:
    """Print all partitions' records as they come, up to --count."""
    left = args.count
    async with found:
        async for partition, record in found:
            _print_record(args, partition, record)
            left = left - 1 if left is not None else None
            if left == 0:
                return


async def _not_past_the_end(readers: list[Reader], offset: int, stream: str) -> list[Reader]:
    """Those whose partition reaches to `offset`, with a note about the others. Raises if there are none."""
    found, past = [], []
    for reader in readers:
        end = await reader.offset(NEW)
        if offset <= end:
            found.append(reader)
        else:
            past.append(f"partition {reader.partition.index} of '{stream}' ends at offset {end}")
    if past and not found:
        raise LiftlogError(
            f"--from {offset} is past the end: {', '.join(past)}, which the next message gets; "
            "'--from new --follow' waits for it"
        )
    for text in past:
        note(f"{text}: nothing to read there from {offset} on")
    return found


async def _records(
    client: Client, reader: Reader, what: str, number: int, follow: bool
) -> AsyncIterator[Record]:
    start: str | int = what
    if what == "offset":
        start = number
    elif what == TIME:
        start = await reader.offset(TIME, number)
    async for record in reader.records(start, follow=follow):
        yield record


def parse_start(text: str) -> tuple[Literal["earliest", "latest", "new", "offset", "time"], int]:
    """What --from says: ("earliest" | "latest" | "new", 0), ("offset", n) or ("time", Unix ms)."""
    for word in (EARLIEST, LATEST, NEW):
        if text == word:
            return word, 0
    if text.isascii() and text.isdigit():
        return "offset", int(text)
    try:
        moment = datetime.datetime.fromisoformat(text)
        if moment.tzinfo is None:
            moment = moment.astimezone()
        return TIME, int(moment.timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        # The first and the last year have no moment in every time zone.
        raise LiftlogError(f"--from {text!r} is not understood; use {TIME_FORMS}") from None


def _print_record(args: argparse.Namespace, partition: int, record: Record) -> None:
    value = record.value if record.value is not None else b""
    if args.raw:
        sys.stdout.buffer.write(value + b"\n")
        sys.stdout.buffer.flush()
    elif args.json:
        print_json(record_to_plain(partition, record))
    else:
        subject = printable(record.subject)
        print(f"{partition}/{record.offset}  {subject}  {printable(value)}", flush=True)


def record_to_plain(partition: int, record: Record) -> dict[str, object]:
    """A record as a JSON object; bytes that are not UTF-8 go to `value_base64`."""
    plain: dict[str, object] = {
        "partition": partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "subject": record.subject.decode("utf-8", "replace"),
    }
    if record.headers:
        plain["headers"] = record.headers.decode("utf-8", "replace")
    if record.key is not None:
        plain["key"] = record.key.decode("utf-8", "replace")
    if record.value is None:
        plain["value"] = None
    else:
        try:
            plain["value"] = record.value.decode()
        except UnicodeDecodeError:
            plain["value_base64"] = base64.b64encode(record.value).decode()
    return plain
