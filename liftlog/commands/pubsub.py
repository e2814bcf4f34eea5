"""`liftlog pub` and `liftlog sub`: publish with acks, read from anywhere in a stream."""

from __future__ import annotations

import argparse
import asyncio
import base64
import contextlib
import datetime
import os
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator

from liftlog.client import (
    EARLIEST,
    LATEST,
    NEW,
    TIME,
    Client,
    PublishResult,
    Reader,
    RequestFailed,
    Unreachable,
)
from liftlog.client.publisher import NOBODY
from liftlog.commands.asking import look_at
from liftlog.commands.common import (
    add_client_options,
    connect,
    note,
    positive_count,
    print_json,
    read_file,
    run,
)
from liftlog.core.metadata.subjects import matches, partition_subject
from liftlog.terminal import printable
from liftlog.types import LiftlogError, Record

WINDOW = 5000
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
    publish.add_argument("--quiet", action="store_true", help="print the summary only")
    add_client_options(publish)
    publish.set_defaults(run=lambda args: run(_publish(args)))
    read = subparsers.add_parser("sub", help="read a stream from an offset or a time on")
    read.add_argument("stream", metavar="STREAM")
    read.add_argument("--from", dest="start", default=EARLIEST, metavar="WHERE", help=TIME_FORMS)
    read.add_argument(
        "--partition",
        type=int,
        metavar="N",
        help="only this one (default: all, one after the other; with --follow all at once, added ones too)",
    )
    read.add_argument("--count", type=positive_count, metavar="N", help="stop after so many records")
    read.add_argument("--follow", action="store_true", help="go on with what comes later")
    read.add_argument(
        "--replica", type=positive_count, default=0, metavar="NODE", help="read from this node only"
    )
    read.add_argument("--raw", action="store_true", help="print values only, one per line, as they are")
    add_client_options(read)
    read.set_defaults(run=lambda args: run(_subscribe(args)))


# -- pub ---------------------------------------------------------------------------------------------------


def _values(args: argparse.Namespace) -> Iterator[list[bytes]]:
    """The messages, in groups: what is there at once, so that a slow pipe is not waited for."""
    yield [message.encode() for message in args.messages]
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
    if args.tombstone and not (args.messages or args.file or args.stdin):
        args.messages = [""]
    if not args.messages and not args.file and not args.stdin:
        raise LiftlogError("nothing to publish; give messages as arguments, or --stdin, or --file FILE")
    results = ResultPrinter(args)
    values = _values(args)
    async with await connect(args) as client:
        timeout_ms = int(args.timeout * 1000)
        async with client.publisher(
            results.add, window=WINDOW, ack_timeout_ms=timeout_ms, insist=True
        ) as publisher:
            tag = 0
            # Lines may come slowly, from a pipe: acks must arrive while we wait for the next ones.
            while (group := await asyncio.to_thread(next, values, None)) is not None:
                for value in group:
                    await publisher.send(tag, args.subject, value, headers)
                    tag += 1
        why = await why_not_stored(client, args.subject) if results.failed else ""
    return results.finish(args.subject, why)


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
        if matches(partition_subject(stream.config.subject, index), subject)
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
    if args.key is None:
        if args.tombstone:
            raise LiftlogError("--tombstone deletes a key; name it with --key KEY")
        return None
    if args.key != args.key.strip() or not args.key.isprintable():
        raise LiftlogError(f"--key {args.key!r}: a key travels in a NATS header; use printable text, trimmed")
    return {"Liftlog-Key": args.key, **({"Liftlog-Tombstone": "1"} if args.tombstone else {})}


class ResultPrinter:
    """Prints each ack as it comes, and remembers what went wrong."""

    def __init__(self, args: argparse.Namespace) -> None:
        self._json = args.json
        self._quiet = args.quiet
        self._stored = 0
        self.failed = 0
        self._first_error = ""
        self._last: PublishResult | None = None

    def add(self, result: PublishResult) -> None:
        if result.outcome == "ok":
            self._stored += 1
            self._last = result
        else:
            self.failed += 1
            self._first_error = self._first_error or result.error
        if self._quiet:
            return
        if self._json:
            print_json(result._asdict())
        elif result.outcome == "ok":
            print(f"{result.stream} partition {result.partition} offset {result.offset} epoch {result.epoch}")

    def finish(self, subject: str, why: str) -> int:
        """The exit code. Raises LiftlogError if something was not acknowledged; `why`: what explains it."""
        if self.failed:
            total = self.failed + self._stored
            error = "" if self._first_error == NOBODY else f"{self._first_error}; "
            raise LiftlogError(
                f"{self.failed} of {total} messages to '{subject}' were not acknowledged: {error}{why}"
            )
        if self._quiet and self._json:
            print_json({"stored": self._stored})
        elif self._quiet and self._last is not None:
            print(f"stored {self._stored} messages, the last at offset {self._last.offset}")
        return 0


# -- sub ---------------------------------------------------------------------------------------------------


async def _subscribe(args: argparse.Namespace) -> int:
    what, number = parse_start(args.start)
    left = args.count
    async with await connect(args) as client:
        stream = await client.stream(args.stream)
        indexes = range(len(stream.partitions)) if args.partition is None else [args.partition]
        readers = [client.reader(stream, index, node=args.replica) for index in indexes]
        if what == "offset":
            readers = await _not_past_the_end(readers, number, args.stream)
        if args.follow and args.partition is None:
            start = number if what == "offset" else what
            await _follow(args, client.follow(stream, start, timestamp_ms=number, node=args.replica))
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


async def _follow(args: argparse.Namespace, found: AsyncGenerator[tuple[int, Record]]) -> None:
    """Print all partitions' records as they come, up to --count."""
    left = args.count
    async with contextlib.aclosing(found):
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


def parse_start(text: str) -> tuple[str, int]:
    """What --from says: ("earliest" | "latest" | "new", 0), ("offset", n) or ("time", Unix ms)."""
    if text in (EARLIEST, LATEST, NEW):
        return text, 0
    if text.isdigit():
        return "offset", int(text)
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        raise LiftlogError(f"--from {text!r} is not understood; use {TIME_FORMS}") from None
    if moment.tzinfo is None:
        moment = moment.astimezone()
    return TIME, int(moment.timestamp() * 1000)


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
