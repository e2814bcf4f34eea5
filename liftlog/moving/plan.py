"""What is to be made of a stream: judged by the door's own page (`liftlog.jetstream.configs`), before
anything is copied.

While it is being copied the target has none of the limits that take messages from its front or refuse them,
and one subject more: on that come the packets, and its are the fillers, messages that keep the place of
those that are gone. A note says whose copy it is. The last alteration gives it what the origin has, and it is
ready. A limit of messages of a subject it has from the start: it takes no others than the origin's did.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec
from msgspec import UNSET

from liftlog.jetstream.configs import JsStreamConfig, read_notes, to_stream_config
from liftlog.jetstream.errors import JsError
from liftlog.moving.origin import OriginStream
from liftlog.subjects.grammar import matches
from liftlog.types import FIRST_OFFSET_MOST, LiftlogError, StreamConfig

NOTE_MOVING, NOTE_MOVED = "moving", "moved"
PACKET_PREFIX = "liftlog.moving."
WINDOW_MS = 100
"""The shortest window of message ids: a stream without one refuses messages that have an id."""
BUCKETS = ("KV_", "OBJ_")
"""How streams are called that are buckets: their names stand in their subjects too."""


class MoveWishes(NamedTuple):
    """What the user wants otherwise than it is. `fields`: of the configuration. `left_out`: headers that are
    not copied. `time_header`: a header that each message gets, with its time at the origin; empty: none.
    `renumber`: the first message that is there gets sequence 1.
    """

    name: str = ""
    fields: Mapping[str, Any] = {}
    left_out: frozenset[bytes] = frozenset()
    time_header: str = ""
    renumber: bool = False
    skipped_consumers: frozenset[str] = frozenset()


class Provenance(msgspec.Struct, frozen=True):
    """Whose copy a stream is, as its note says. `shift`: by so much its sequences are lower. `compared`: up
    to this offset it was found to be what the origin had. `first`: where it begins (C7).
    """

    stream: str
    created: str
    shift: int = 0
    compared: int = 0
    first: int = 0

    @property
    def note(self) -> str:
        return msgspec.json.encode(self).decode()

    def offset(self, seq: int) -> int:
        return seq - 1 - self.shift

    def seq(self, offset: int) -> int:
        return offset + 1 + self.shift


class MovePlan(NamedTuple):
    """`ready`: the target as it is to be; `staged`: as it is while it is copied."""

    ready: StreamConfig
    staged: StreamConfig
    provenance: Provenance
    packet_subject: str

    @property
    def name(self) -> str:
        return self.ready.name


def time_ms(text: str) -> int:
    """A time as JetStream writes it, in ms since 1970; 0 for none."""
    try:
        moment = datetime.datetime.fromisoformat(text)
    except ValueError:
        return 0
    return max(0, int(moment.timestamp() * 1000))


def wanted_config(origin: OriginStream, wishes: MoveWishes) -> JsStreamConfig:
    """The configuration that the target is to have, as JetStream says it. Raises LiftlogError."""
    if "name" in wishes.fields:
        raise LiftlogError("--set name: say with --as NAME how the stream is to be called here")
    if "first_seq" in wishes.fields:
        raise LiftlogError("--set first_seq: sequences stay what they are, or begin at 1 with --renumber")
    # A copy begins with the first message that is there, whatever came before it.
    fields = {**origin.config, "first_seq": 0, **wishes.fields}
    fields = {field: value for field, value in fields.items() if value is not None}
    name = fields["name"] = wishes.name or str(fields.get("name", ""))
    if wishes.name and wishes.name != origin.config.get("name") and wishes.name.startswith(BUCKETS):
        text = f"'{origin.config.get('name')}' cannot become bucket '{name}'"
        raise LiftlogError(f"{text}: a bucket's name is in its subjects; move it under its own name")
    try:
        config = msgspec.convert(fields, JsStreamConfig)
    except msgspec.ValidationError as error:
        raise LiftlogError(
            f"the configuration of '{origin.config.get('name')}' cannot be read here: {error}; leave that "
            "out with --set FIELD=null"
        ) from None
    if config.retention != "limits":
        raise LiftlogError(
            f"'{name}' has retention '{config.retention}': its messages are its consumers' alone, and cannot "
            "be copied; let them finish, and create the stream here"
        )
    if copied := "sources" if config.sources else "mirror" if config.mirror else "":
        raise LiftlogError(
            f"'{name}' has '{copied}': move what it copies, and create the stream here, to copy that; or "
            f"move it as a stream of its own, with --set {copied}=null"
        )
    return config


def plan_move(origin: OriginStream, wishes: MoveWishes, there: Provenance | None) -> MovePlan:
    """What is to be made; `there`: what a target says that was begun. Raises LiftlogError with the sentence
    that the door has for what cannot be.
    """
    config = wanted_config(origin, wishes)
    try:
        ready = to_stream_config(config, time_ms(origin.created))
    except JsError as error:
        text = f"'{config.name}' cannot be moved as it is: {error.description}"
        raise LiftlogError(f"{text}; have it otherwise here with --set FIELD=VALUE") from None
    before = max(0, origin.state.first_seq - 1)
    shift, first = (before, 0) if wishes.renumber else (0, min(before, FIRST_OFFSET_MOST))
    begun = Provenance(str(origin.config["name"]), origin.created, shift, compared=first, first=first)
    provenance = there or begun
    if there is not None and there.shift and not wishes.renumber:
        raise LiftlogError(f"the copy '{ready.name}' was begun with --renumber: go on with that")
    ready = msgspec.structs.replace(ready, first_offset=provenance.first or UNSET)
    packets = PACKET_PREFIX + ready.name
    more = tuple(ready.subjects[1:])
    if not any(matches(pattern, packets) for pattern in ready.subjects):
        more += (packets,)
    staged = msgspec.structs.replace(
        ready,
        more_subjects=more or UNSET,
        retention_ms=0,
        retention_bytes=0,
        retention_messages=0,
        messages_max=UNSET,
        bytes_max=UNSET,
        subject_messages_max=UNSET,
        marker_ttl_ms=UNSET,
        dedupe_window_ms=WINDOW_MS,
        deny_delete=UNSET,
        deny_purge=UNSET,
        sealed=UNSET,
        notes=((NOTE_MOVING, provenance.note),),
    )
    moved = msgspec.structs.replace(ready, notes=(*read_notes(ready).items(), (NOTE_MOVED, provenance.note)))
    return MovePlan(moved, staged, provenance, packets)


def provenance_of(config: StreamConfig, note: str) -> Provenance | None:
    """What a stream's note says; None: it has none."""
    text = read_notes(config).get(note)
    return None if text is None else msgspec.json.decode(text, type=Provenance)
