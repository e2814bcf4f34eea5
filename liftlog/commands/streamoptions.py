"""Options of `liftlog stream create` and `liftlog stream alter`."""

from __future__ import annotations

import argparse
import datetime
from collections.abc import Callable
from typing import Any

from msgspec import UNSET

from liftlog.commands.common import duration_ms, name_and_value, natural, positive_count, size_bytes
from liftlog.messages.copying import Start, start_of
from liftlog.types import StreamConfig

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
INTEREST = "delete each message when every consumer that is to be given it is done, and at once when none is"


class _Pairs(argparse.Action):
    """One more pair."""

    def __call__(
        self, parser: object, given: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        before = getattr(given, self.dest)
        setattr(given, self.dest, (*(() if before is UNSET else before), values))


class _Subjects(argparse.Action):
    """The first of several subjects, and the others."""

    def __call__(
        self, parser: object, given: argparse.Namespace, values: Any, option_string: str | None = None
    ) -> None:
        given.subject, given.more_subjects = values[0], tuple(values[1:])


def _add_switch(parser: argparse._ActionsContainer, name: str, text: str) -> None:
    """What is there when it is named; UNSET otherwise."""
    parser.add_argument(name, action="store_const", const=True, default=UNSET, help=text)


def add_sharing(create: argparse.ArgumentParser) -> None:
    """Who else gets a message, and who answers it (N8, N9, N11)."""
    create.add_argument(
        "--no-ack-reply",
        action="store_true",
        help="never answer publishers: for subjects whose replies belong to a request/reply service",
    )
    create.add_argument(
        "--queue-group",
        default=UNSET,
        metavar="GROUP",
        help="share what comes with the streams of this group: each message goes to one of them",
    )
    create.add_argument(
        "--mirror",
        default=UNSET,
        metavar="ORIGIN[@CLUSTER]",
        help="have what this stream has, at the same offsets, and take nothing else; of another CLUSTER that "
        "the nodes' configurations name ([clusters.CLUSTER])",
    )
    create.add_argument(
        "--source",
        dest="sources",
        action="append",
        default=[],
        type=source_argument,
        metavar="STREAM[:FILTER]",
        help="have what this stream has, of the subjects of FILTER if there is one, and take nothing else; "
        "may be given again",
    )
    create.add_argument(
        "--mirror-filter",
        default=UNSET,
        metavar="SUBJECTS",
        help="of a mirror: have what is of these subjects alone; the other offsets stay empty",
    )
    create.add_argument(
        "--copy-from", **_STARTS, help="begin there with what is copied of this stream; may be given again"
    )


def start_argument(text: str) -> tuple[str, str]:
    """Of which stream, and an offset, or a time in milliseconds."""
    name, equals, start = text.partition("=")
    if not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not understood; use STREAM=START")
    if start_of(start) is not None:
        return name, start
    try:
        moment = datetime.datetime.fromisoformat(start)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{start!r} is not understood; use an offset, or a time, as in 2026-11-28T10:00:00Z"
        ) from None
    if moment.tzinfo is None:
        moment = moment.astimezone()
    return name, str(Start(time_ms=int(moment.timestamp() * 1000)))


_STARTS: dict[str, Any] = {
    "dest": "starts",
    "action": _Pairs,
    "default": UNSET,
    "type": start_argument,
    "metavar": "STREAM=START",
}


def source_argument(text: str) -> tuple[str, str]:
    """Name and filter; an empty one lets everything pass."""
    name, _, filter = text.partition(":")
    return name, filter


def _add_denials(parser: argparse.ArgumentParser) -> None:
    """What nobody can do any more (R19)."""
    for name, what in (("--deny-delete", "single messages be deleted"), ("--deny-purge", "it be purged")):
        _add_switch(parser, name, f"let nobody ask that {what}; cannot be taken back")


def _add_batches(parser: argparse._ActionsContainer) -> None:
    """Whether messages may come in batches (L11), or in fast ones (L12)."""
    parser.add_argument(
        "--allow-batches",
        action=argparse.BooleanOptionalAction,
        default=UNSET,
        help="store messages with the header Nats-Batch-Id together or not at all, or refuse them",
    )
    parser.add_argument(
        "--allow-fast-batches",
        action=argparse.BooleanOptionalAction,
        default=UNSET,
        help="ack messages of JetStream's fast batches many at a time, or refuse them",
    )


def _add_first_offset(create: argparse.ArgumentParser) -> None:
    """Where its partitions begin (C7)."""
    create.add_argument(
        "--first-offset",
        type=natural,
        default=UNSET,
        metavar="N",
        help="give the first message of each partition this offset, not 0; cannot be altered later",
    )


def _add_bounds(parser: argparse.ArgumentParser, none: str = "") -> None:
    """How much a partition holds (C6)."""
    parser.add_argument(
        "--messages-max",
        type=natural,
        default=UNSET,
        metavar="N",
        help=f"refuse new messages while a partition holds so many, rather than drop old ones{none}",
    )
    parser.add_argument(
        "--bytes-max",
        type=size_bytes,
        default=UNSET,
        metavar="BYTES",
        help=f"the same of so many bytes of messages, of a stream with --removal{none}",
    )
    parser.add_argument(
        "--subject-messages-max",
        type=natural,
        default=UNSET,
        metavar="N",
        help=f"the same of so many messages of one subject, of a stream with --removal{none}",
    )


def _add_marker_ttl(parser: argparse._ActionsContainer, none: str = "") -> None:
    """What stays where the last message of a subject goes (R24)."""
    parser.add_argument(
        "--marker-ttl",
        dest="marker_ttl_ms",
        type=duration_ms,
        default=UNSET,
        metavar="TIME",
        help="leave a marker for so long, as 1h, where the last message of a subject goes for its time or "
        f"age, of a stream with --allow-ttl and --allow-rollup{none}",
    )


def add_notes(parser: argparse._ActionsContainer, text: str) -> None:
    """Pairs for the owner of a stream."""
    parser.add_argument(
        "--note",
        dest="notes",
        type=name_and_value,
        action=_Pairs,
        default=UNSET,
        metavar="NAME=VALUE",
        help=f"{text}; any number of times",
    )


def _add_other_notes(alter: argparse.ArgumentParser) -> None:
    """Those that a stream is to have, or none."""
    notes = alter.add_mutually_exclusive_group()
    add_notes(notes, "these notes, in place of all that are there")
    notes.add_argument("--no-notes", dest="notes", action="store_const", const=(), help="no notes any more")


def _add_sealing(alter: argparse.ArgumentParser) -> None:
    """R19: the end of a stream's writing."""
    _add_switch(alter, "--sealed", "take no message any more, and let nobody delete or purge any, for ever")


def _add_end_of_mirror(alter: argparse.ArgumentParser) -> None:
    """R28, R29: a copy becomes a stream of its own, or copies others."""
    alter.add_argument(
        "--no-mirror",
        dest="mirror",
        action="store_const",
        const="",
        default=UNSET,
        help="copy nothing any more, and take messages, for ever",
    )
    alter.add_argument(
        "--copy-from", **_STARTS, help="begin there with this source; these, in place of all that are said"
    )
    sources = alter.add_mutually_exclusive_group()
    sources.add_argument(
        "--source",
        dest="sources",
        action=_Pairs,
        default=UNSET,
        type=source_argument,
        metavar="STREAM[:FILTER]",
        help="of a stream that has sources: these, in place of all that there are; any number of times",
    )
    sources.add_argument(
        "--no-sources",
        dest="sources",
        action="store_const",
        const=(),
        default=UNSET,
        help="copy nothing any more, and take messages, for ever",
    )
    # Leaders alone say which streams of other clusters these are (R28).
    alter.set_defaults(origins=UNSET)


def _add_subjects(alter: argparse.ArgumentParser) -> None:
    """What a stream is to listen on (N10)."""
    alter.add_argument(
        "--subjects",
        nargs="+",
        action=_Subjects,
        metavar="SUBJECT",
        help="listen on these from now on, and on no others; of a stream of one partition",
    )
    alter.set_defaults(subject=UNSET, more_subjects=UNSET)


def add_log_options(create: argparse.ArgumentParser) -> None:
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
    _add_bounds(create)
    _add_first_offset(create)
    _add_subject_limit(create)
    _add_switch(
        create,
        "--allow-rollup",
        "let messages with the header Nats-Rollup delete older ones, of a stream with --removal",
    )
    _add_switch(
        create,
        "--allow-ttl",
        "let messages say with the header Nats-TTL when they are to go, of a stream with --removal",
    )
    _add_marker_ttl(create)
    _add_batches(create)
    _add_dedupe(create)
    option("segment-bytes", size_bytes, "BYTES", "size of a segment file (default 64MiB)")
    option("segment-ms", duration_ms, "MS", "greatest span of time in a segment")
    option("segment-records", positive_count, "N", "greatest number of records in a segment")
    _add_switch(
        create,
        "--removal",
        "let single messages be deleted (stream delete-message); cannot be altered later",
    )
    _add_switch(
        create,
        "--work-queue",
        "delete each message when its consumer is done with it, of a stream with --removal; cannot be "
        "altered later",
    )
    _add_switch(create, "--interest", INTEREST)
    _add_denials(create)
    create.add_argument(
        "--codec", choices=("none", "zstd", "lz4"), default="none", help="compress batches (default none)"
    )
    create.add_argument(
        "--durability",
        choices=("sync", "os"),
        default="sync",
        help="when a record counts as stored: synced to disk (default), or handed to the operating system",
    )


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


def add_max_payload(parser: argparse.ArgumentParser, default: object, more: str) -> None:
    parser.add_argument(
        "--max-payload",
        dest="max_payload_bytes",
        type=positive_count,
        default=default,
        metavar="BYTES",
        help=f"headers and payload of the largest message that is taken{more}",
    )


def add_alterable(alter: argparse.ArgumentParser) -> None:
    """What `StreamChanges` names; what is not given stays as it is."""

    def option(name: str, kind: Callable[[str], object], metavar: str, text: str) -> None:
        alter.add_argument(f"--{name}", type=kind, default=UNSET, metavar=metavar, help=text)

    option("retention-ms", duration_ms, "MS", "drop segments whose records are all older; 0 = never")
    option("retention-bytes", size_bytes, "BYTES", "drop old segments beyond this size; 0 = never")
    option("retention-messages", natural, "N", "drop old segments beyond so many messages; 0 = never")
    _add_switch(
        alter,
        "--compact",
        "keep the last record of every key from now on; cannot be switched off again",
    )
    option("min-compaction-lag-ms", duration_ms, "MS", "leave younger records alone")
    option("dirty-ratio-percent", int, "N", "compact when so much was never compacted")
    option("tombstone-retention-ms", duration_ms, "MS", "how long deletions stay readable")
    _add_bounds(alter, "; 0 = any number")
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
    _add_marker_ttl(alter, "; 0 = none")
    _add_batches(alter)
    _add_dedupe(alter, ", 0 = none", ", 0 = the default")
    option("segment-bytes", size_bytes, "BYTES", "size of a segment file, from the next one on")
    option("segment-ms", duration_ms, "MS", "greatest span of time in a segment; 0 = any")
    option("segment-records", natural, "N", "greatest number of records in a segment; 0 = any")
    option("codec", str, "CODEC", "compress batches from now on: none, zstd or lz4")
    add_max_payload(alter, UNSET, ", from now on")
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
    _add_subjects(alter)
    _add_denials(alter)
    _add_sealing(alter)
    _add_end_of_mirror(alter)
    _add_other_notes(alter)
    alter.set_defaults(paused=UNSET)
    way = alter.add_mutually_exclusive_group()
    _add_switch(way, "--read-only", "refuse messages; what is there is kept and read as before")
    way.add_argument(
        "--read-write", dest="read_only", action="store_const", const=False, help="take messages again"
    )
