"""Options of `stream create` and `stream alter` beside those of the log: subjects, notes, denials, bounds."""

from __future__ import annotations

import argparse
import datetime
from typing import Any

from msgspec import UNSET

from liftlog.commands.common import duration_ms, name_and_value, natural, size_bytes
from liftlog.messages.copying import Start, start_of


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


def add_switch(parser: argparse._ActionsContainer, name: str, text: str) -> None:
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


def add_denials(parser: argparse.ArgumentParser) -> None:
    """What nobody can do any more (R19)."""
    for name, what in (("--deny-delete", "single messages be deleted"), ("--deny-purge", "it be purged")):
        add_switch(parser, name, f"let nobody ask that {what}; cannot be taken back")


def add_batches(parser: argparse._ActionsContainer) -> None:
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


def add_first_offset(create: argparse.ArgumentParser) -> None:
    """Where its partitions begin (C7)."""
    create.add_argument(
        "--first-offset",
        type=natural,
        default=UNSET,
        metavar="N",
        help="give the first message of each partition this offset, not 0; cannot be altered later",
    )


def add_bounds(parser: argparse.ArgumentParser, none: str = "") -> None:
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


def add_marker_ttl(parser: argparse._ActionsContainer, none: str = "") -> None:
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


def add_other_notes(alter: argparse.ArgumentParser) -> None:
    """Those that a stream is to have, or none."""
    notes = alter.add_mutually_exclusive_group()
    add_notes(notes, "these notes, in place of all that are there")
    notes.add_argument("--no-notes", dest="notes", action="store_const", const=(), help="no notes any more")


def add_sealing(alter: argparse.ArgumentParser) -> None:
    """R19: the end of a stream's writing."""
    add_switch(alter, "--sealed", "take no message any more, and let nobody delete or purge any, for ever")


def add_end_of_mirror(alter: argparse.ArgumentParser) -> None:
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


def add_subjects(alter: argparse.ArgumentParser) -> None:
    """What a stream is to listen on (N10)."""
    alter.add_argument(
        "--subjects",
        nargs="+",
        action=_Subjects,
        metavar="SUBJECT",
        help="listen on these from now on, and on no others; of a stream of one partition",
    )
    alter.set_defaults(subject=UNSET, more_subjects=UNSET)
