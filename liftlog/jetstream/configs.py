"""A stream's configuration as JetStream says it, and as liftlog does.

What JetStream has and liftlog has not is refused with a sentence, unless it says what is so anyway: clients
send every field, with its default.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from liftlog.jetstream.answers import NS_PER_MS, NS_PER_S
from liftlog.jetstream.copies import (
    SUBJECT_PREFIX,
    Copied,
    JsSource,
    SourceAnswer,
    is_copy,
    own_subjects,
    told_mirror,
    told_sources,
    wanted_copies,
)
from liftlog.jetstream.errors import NEGATIVE_REPLICAS, STREAM_INVALID
from liftlog.messages import StreamChanges
from liftlog.types import FIRST_OFFSET_MOST, StreamConfig
from liftlog.version import VERSION

API_LEVEL = 1
"""Reported: clients use what a level brings. 1 is message TTL with delete markers, pauses of consumers, and
priority groups, which are refused here; without it no client asks for markers.
"""
DUPLICATE_WINDOW_NS = 120 * NS_PER_S
"""JetStream's, where none is named."""
SHORTEST_NS = 100 * NS_PER_MS
"""No shorter age, and no shorter window, means anything."""
REPLICAS_MAX = 5
DESCRIPTION_MAX = 4 * 1024
SEGMENTS = 8
"""Into so many segments what a stream with limits keeps falls: whole ones go when there is too much."""
SEGMENT_MESSAGES_MIN = 256
SEGMENT_BYTES_MIN, SEGMENT_BYTES = 1024 * 1024, 64 * 1024 * 1024
"""Smaller ones cost more than they are worth."""
PAYLOAD_BYTES = 1024 * 1024
FORBIDDEN_IN_NAMES = frozenset("> *./\\\t\r\n\f ")
NAME_CHARACTERS_MAX = 255


class ConsumerLimits(msgspec.Struct, forbid_unknown_fields=True):
    """Bounds of what consumers may ask for; 0 = none."""

    inactive_threshold: int = 0
    max_ack_pending: int = 0


class JsStreamConfig(msgspec.Struct, forbid_unknown_fields=True):
    """What clients send and get. Durations in ns; -1, and mostly 0, is no limit."""

    name: str = ""
    description: str | None = None
    subjects: list[str] | None = None
    retention: Literal["limits", "interest", "workqueue"] = "limits"
    max_consumers: int = -1
    max_msgs: int = -1
    max_bytes: int = -1
    max_age: int = 0
    max_msgs_per_subject: int = -1
    max_msg_size: int = -1
    discard: Literal["old", "new"] = "old"
    discard_new_per_subject: bool | None = False
    storage: Literal["file", "memory"] = "file"
    num_replicas: int = 1
    no_ack: bool = False
    template_owner: str | None = None
    duplicate_window: int = 0
    placement: dict[str, Any] | None = None
    mirror: JsSource | None = None
    sources: list[JsSource] | None = None
    compression: Literal["none", "s2"] | None = "none"
    first_seq: int | None = 0
    subject_transform: dict[str, Any] | None = None
    republish: dict[str, Any] | None = None
    allow_direct: bool | None = None
    mirror_direct: bool | None = False
    sealed: bool = False
    deny_delete: bool = False
    deny_purge: bool = False
    allow_rollup_hdrs: bool | None = False
    consumer_limits: ConsumerLimits | None = None
    allow_msg_ttl: bool | None = False
    subject_delete_marker_ttl: int | None = 0
    allow_msg_counter: bool | None = False
    allow_atomic: bool | None = False
    allow_msg_schedules: bool | None = False
    allow_batched: bool | None = False
    persist_mode: str | None = None
    metadata: dict[str, str] | None = None


def told_metadata(needed: int = 0) -> dict[str, str]:
    """What servers say of themselves: the API level that a stream needs, and the one they have."""
    return {"_nats.level": str(API_LEVEL), "_nats.req.level": str(needed), "_nats.ver": VERSION}


class StreamConfigAnswer(msgspec.Struct):
    """The configuration in force. Only keys that every client knows."""

    name: str
    retention: str
    max_consumers: int
    max_msgs: int
    max_bytes: int
    max_age: int
    max_msgs_per_subject: int
    max_msg_size: int
    discard: str
    storage: str
    num_replicas: int
    compression: str
    allow_direct: bool
    mirror_direct: bool
    sealed: bool
    deny_delete: bool
    deny_purge: bool
    allow_rollup_hdrs: bool
    subjects: list[str] | UnsetType = UNSET
    mirror: SourceAnswer | UnsetType = UNSET
    sources: list[SourceAnswer] | UnsetType = UNSET
    duplicate_window: int | UnsetType = UNSET
    consumer_limits: dict[str, int] = msgspec.field(default_factory=dict)
    allow_msg_ttl: bool = False
    allow_atomic: bool | UnsetType = UNSET
    allow_batched: bool | UnsetType = UNSET
    first_seq: int | UnsetType = UNSET
    no_ack: bool = False
    discard_new_per_subject: bool | UnsetType = UNSET
    subject_delete_marker_ttl: int | UnsetType = UNSET
    description: str | UnsetType = UNSET
    metadata: dict[str, str] = msgspec.field(default_factory=told_metadata)


NOTE_PREFIX = "js."
NOTE_CREATED = "js.created"
"""In ms since 1970."""
NOTE_DESCRIPTION = "js.description"
NOTE_METADATA = "js.metadata"
"""JSON."""
NOTE_DISCARD = "js.discard"
NOTE_INDIRECT = "js.no_direct"
NOTE_CONSUMERS = "js.max_consumers"
NOTE_INACTIVE = "js.inactive_threshold"
NOTE_PENDING = "js.max_ack_pending"

ASKS_FOR_NOTHING: tuple[object, ...] = (None, False, 0, "", [], {}, ConsumerLimits())
NOT_THERE: dict[str, str] = {
    "republish": "republish is not supported",
    "subject_transform": "subject_transform is not supported",
    "template_owner": "template_owner is not supported",
    "placement": "placement is not supported: liftlog places copies itself",
    "allow_msg_counter": "allow_msg_counter is not supported",
    "allow_msg_schedules": "allow_msg_schedules is not supported",
    "mirror_direct": (
        "mirror_direct is not supported: a mirror may be behind, and who asks for a key would get an older "
        "value than the one that was acked; ask the mirror by its own name (allow_direct)"
    ),
}
"""Fields that are refused if they ask for anything, each with what to say. What becomes possible is struck
from here: this is the place to switch it on."""


def name_problem(name: str) -> str:
    """Why JetStream refuses a name of a stream or consumer; empty if it does not."""
    if not name or len(name) > NAME_CHARACTERS_MAX or FORBIDDEN_IN_NAMES & set(name):
        return f"a name has 1 to {NAME_CHARACTERS_MAX} characters, and none of '> * . / \\' or white space"
    return ""


def _asks_for_something(value: object) -> bool:
    """Whether a field's value does: the `nats` tool places buckets of objects in a cluster without a name."""
    if isinstance(value, dict):
        return any(one not in ASKS_FOR_NOTHING for one in value.values())
    return value not in ASKS_FOR_NOTHING


def config_problem(config: JsStreamConfig) -> str:
    """Why there cannot be such a stream, or not here; empty if there can."""
    for field, sentence in NOT_THERE.items():
        if _asks_for_something(getattr(config, field)):
            return sentence
    keeps = config.max_msgs_per_subject > 0 and not config.discard_new_per_subject
    if config.retention != "limits" and keeps:
        text = f"max_msgs_per_subject with retention {config.retention!r} is not supported"
        return f"{text}: leave one of them out"
    if config.retention != "limits" and config.sealed:
        text = f"a sealed stream with retention {config.retention!r} is not supported"
        return f"{text}: an ack takes a message away"
    if config.discard_new_per_subject and (problem := _per_subject_problem(config)):
        return problem
    if config.storage != "file":
        return f"storage {config.storage!r} is not supported: liftlog keeps messages in files"
    if config.persist_mode not in (None, "", "default"):
        return f"persist_mode {config.persist_mode!r} is not supported: acks mean synced"
    if config.num_replicas > REPLICAS_MAX:
        return f"maximum replicas is {REPLICAS_MAX}"
    if (config.first_seq or 0) > FIRST_OFFSET_MOST:
        return f"first_seq {config.first_seq} is not supported: it may be up to {FIRST_OFFSET_MOST}"
    if len(config.description or "") > DESCRIPTION_MAX:
        return f"stream description is too long, maximum allowed is {DESCRIPTION_MAX}"
    if config.deny_purge and (config.allow_rollup_hdrs or config.subject_delete_marker_ttl):
        return "roll-ups require the purge permission"
    return markers_problem(config) or times_problem(config)


def _per_subject_problem(config: JsStreamConfig) -> str:
    """Why full subjects cannot refuse; empty if they can."""
    if config.discard != "new":
        return "discard new per subject requires discard new policy to be set"
    if config.max_msgs_per_subject <= 0:
        return "discard new per subject requires max msgs per subject > 0"
    if config.allow_rollup_hdrs or config.subject_delete_marker_ttl:
        return (
            "discard_new_per_subject with allow_rollup_hdrs, or subject_delete_marker_ttl, is not supported: "
            "what a message rolls up goes a moment after it was stored; leave one of them out"
        )
    return ""


def markers_problem(config: JsStreamConfig) -> str:
    """Why there can be no delete markers; empty if there can, or are to be none."""
    stay_ns = config.subject_delete_marker_ttl or 0
    if stay_ns < 0:
        return "subject delete marker TTL must not be negative"
    if 0 < stay_ns < NS_PER_S:
        return "subject delete marker TTL must be at least 1 second"
    if stay_ns and config.discard == "new" and max(config.max_msgs, config.max_bytes) > 0:
        return (
            "subject_delete_marker_ttl and a limit with discard 'new' exclude each other: a stream that is "
            "full stores no marker; leave one of them out"
        )
    return ""


def times_problem(config: JsStreamConfig) -> str:
    """What is wrong with its durations; empty if nothing is."""
    if config.max_age < 0:
        return "max age can not be negative"
    if 0 < config.max_age < SHORTEST_NS:
        return "max age needs to be >= 100ms"
    if config.duplicate_window < 0:
        return "duplicates window can not be negative"
    if config.max_age and config.duplicate_window > config.max_age:
        return "duplicates window can not be larger then max age"
    if 0 < config.duplicate_window < SHORTEST_NS:
        return "duplicates window needs to be >= 100ms"
    return ""


def to_stream_config(config: JsStreamConfig, created_ms: int = 0) -> StreamConfig:
    """What liftlog is to create, at this time. Raises JsError with the first field that it cannot honour."""
    copied = wanted_copies(config)
    copies = copied != Copied()
    problem = config_problem(config)
    if problem:
        raise STREAM_INVALID.because(problem)
    if config.num_replicas < 0:
        raise NEGATIVE_REPLICAS.because()
    subjects = config.subjects or [SUBJECT_PREFIX * copies + config.name]
    most = config.max_msgs if config.discard == "new" and config.max_msgs > 0 else 0
    window_ns = config.duplicate_window or min(DUPLICATE_WINDOW_NS, config.max_age or DUPLICATE_WINDOW_NS)
    age_ms = -(-max(0, config.max_age) // NS_PER_MS)
    held = 0 if config.discard == "new" else max(0, config.max_msgs)
    size = max(0, config.max_bytes)
    room = size if config.discard == "new" else 0
    marker_ns = config.subject_delete_marker_ttl or 0
    keeps = max(0, config.max_msgs_per_subject)
    refuses = keeps if config.discard_new_per_subject else 0
    return StreamConfig(
        name=config.name,
        subject=subjects[0],
        more_subjects=tuple(subjects[1:]) or UNSET,
        replication_factor=max(1, config.num_replicas),
        ack_reply=not config.no_ack,
        max_payload_bytes=config.max_msg_size if config.max_msg_size > 0 else PAYLOAD_BYTES,
        retention_ms=age_ms,
        segment_ms=-(-age_ms // SEGMENTS),
        segment_records=max(SEGMENT_MESSAGES_MIN, held // SEGMENTS) if held else 0,
        segment_bytes=min(SEGMENT_BYTES, max(SEGMENT_BYTES_MIN, size // SEGMENTS)) if size else SEGMENT_BYTES,
        retention_bytes=size - room,
        retention_messages=held,
        messages_max=most or UNSET,
        bytes_max=room or UNSET,
        codec="lz4" if config.compression == "s2" else "none",
        dedupe_window_ms=-(-window_ns // NS_PER_MS) if not copies else UNSET,
        mirror=copied.mirror or UNSET,
        sources=copied.sources or UNSET,
        starts=copied.starts or UNSET,
        mirror_filter=copied.mirror_filter or UNSET,
        removal=True,
        work_queue=config.retention == "workqueue" or UNSET,
        interest=config.retention == "interest" or UNSET,
        max_messages_per_subject=keeps - refuses or UNSET,
        subject_messages_max=refuses or UNSET,
        deny_delete=config.deny_delete or config.sealed or UNSET,
        deny_purge=config.deny_purge or config.sealed or UNSET,
        sealed=config.sealed or UNSET,
        allow_rollup=config.allow_rollup_hdrs or marker_ns > 0 or UNSET,
        allow_ttl=config.allow_msg_ttl or marker_ns > 0 or UNSET,
        marker_ttl_ms=-(-marker_ns // NS_PER_MS) or UNSET,
        allow_batches=config.allow_atomic or UNSET,
        allow_fast_batches=config.allow_batched or UNSET,
        first_offset=max(0, (config.first_seq or 0) - 1) or UNSET,
        notes=notes_of(config, created_ms) or UNSET,
    )


def notes_of(config: JsStreamConfig, created_ms: int) -> tuple[tuple[str, str], ...]:
    """What JetStream knows of a stream, and liftlog has no word for."""
    limits = config.consumer_limits
    notes = {
        NOTE_CREATED: created_ms,
        NOTE_DESCRIPTION: config.description,
        NOTE_DISCARD: "new" if config.discard == "new" else "",
        NOTE_INDIRECT: "" if config.allow_direct else "1",
        NOTE_CONSUMERS: config.max_consumers if config.max_consumers > 0 else "",
        NOTE_INACTIVE: limits.inactive_threshold if limits is not None else "",
        NOTE_PENDING: limits.max_ack_pending if limits is not None else "",
    }
    metadata = {name: value for name, value in (config.metadata or {}).items() if name[:6] != "_nats."}
    if metadata:
        notes[NOTE_METADATA] = msgspec.json.encode(metadata, order="deterministic").decode()
    return tuple((name, str(value)) for name, value in notes.items() if value)


def read_notes(config: StreamConfig) -> dict[str, str]:
    """The notes of a stream, by name."""
    return {} if config.notes is UNSET else dict(config.notes)


def created_ms(config: StreamConfig) -> int:
    """When the door created a stream; 0 if somebody else did."""
    return int(read_notes(config).get(NOTE_CREATED, "0"))


def allows_direct(config: StreamConfig) -> bool:
    """Whether messages may be got directly."""
    return NOTE_INDIRECT not in read_notes(config)


def max_consumers(config: StreamConfig) -> int:
    """How many consumers a stream may have; -1: any number."""
    return int(read_notes(config).get(NOTE_CONSUMERS, "-1"))


def consumer_limits(config: StreamConfig) -> ConsumerLimits:
    """What consumers may ask for."""
    notes = read_notes(config)
    return ConsumerLimits(int(notes.get(NOTE_INACTIVE, "0")), int(notes.get(NOTE_PENDING, "0")))


def from_stream_config(config: StreamConfig) -> StreamConfigAnswer:
    """A stream of liftlog's, as JetStream tells it."""
    most = config.holds_most or config.retention_messages
    refuses = max(config.holds_most, config.holds_bytes, config.holds_of_subject) > 0
    notes, marked_ms = read_notes(config), config.marker_ttl_ms
    limits = msgspec.structs.asdict(consumer_limits(config))
    metadata = msgspec.json.decode(notes.get(NOTE_METADATA, "{}"), type=dict[str, str])
    return StreamConfigAnswer(
        name=config.name,
        subjects=own_subjects(config) or UNSET,
        mirror=told_mirror(config),
        sources=told_sources(config),
        retention=retention_of(config),
        max_consumers=max_consumers(config),
        max_msgs=most or -1,
        max_bytes=config.holds_bytes or config.retention_bytes or -1,
        max_age=config.retention_ms * NS_PER_MS,
        max_msgs_per_subject=config.keeps_of_subject or config.holds_of_subject or -1,
        discard_new_per_subject=config.holds_of_subject > 0 or UNSET,
        max_msg_size=config.max_payload_bytes if config.max_payload_bytes != PAYLOAD_BYTES else -1,
        discard="new" if refuses or NOTE_DISCARD in notes else "old",
        storage="file",
        num_replicas=config.replication_factor,
        duplicate_window=UNSET if is_copy(config) else config.remembers_ms * NS_PER_MS,
        compression="none" if config.codec == "none" else "s2",
        allow_direct=allows_direct(config),
        mirror_direct=False,
        sealed=config.sealed is True,
        deny_delete=config.deny_delete is True,
        deny_purge=config.deny_purge is True,
        allow_rollup_hdrs=config.rolls_up,
        allow_msg_ttl=config.has_ttl,
        subject_delete_marker_ttl=UNSET if marked_ms is UNSET else marked_ms * NS_PER_MS,
        allow_atomic=config.allow_batches,
        allow_batched=config.allow_fast_batches,
        first_seq=UNSET if config.mirrors or config.first_offset is UNSET else config.first_offset + 1,
        no_ack=not config.ack_reply,
        description=notes.get(NOTE_DESCRIPTION, UNSET),
        consumer_limits={name: value for name, value in limits.items() if value},
        metadata=metadata | told_metadata(int(config.has_ttl)),
    )


def retention_of(config: StreamConfig) -> Literal["limits", "interest", "workqueue"]:
    """How its messages go."""
    if config.is_queue:
        return "workqueue"
    return "interest" if config.interest is True else "limits"


def born_as(before: StreamConfig, after: StreamConfig) -> StreamConfig:
    """`after`, of a stream that was created when `before` says, and that others may have given notes. One
    that copies others keeps the subject that nobody is told.
    """
    if is_copy(before) and is_copy(after):
        after = msgspec.structs.replace(after, subject=before.subject, more_subjects=before.more_subjects)
    said = read_notes(after)
    said.pop(NOTE_CREATED, None)
    kept = {
        name: value
        for name, value in read_notes(before).items()
        if name == NOTE_CREATED or not name.startswith(NOTE_PREFIX)
    }
    return msgspec.structs.replace(after, notes=tuple({**kept, **said}.items()) or UNSET)


ALTERABLE = tuple(name for name in StreamChanges.__struct_fields__ if name in StreamConfig.__struct_fields__)


def stream_changes(before: StreamConfig, after: StreamConfig) -> StreamChanges:
    """What makes the one of the other. What stands only in `before` and has no name in JetStream stays.
    Raises JsError for what cannot be changed.
    """
    changes: dict[str, Any] = {}
    if before.has_ttl and not after.has_ttl:
        raise STREAM_INVALID.because("message TTL status can not be disabled")
    for name in FROM_JETSTREAM:
        old, new = getattr(before, name), getattr(after, name)
        limit = FOLLOWS.get(name, name)
        if old == new or getattr(before, limit) == getattr(after, limit):
            continue
        if name == "first_offset" and new is UNSET:
            continue  # It is said when a stream is created, and stands.
        if name in ("starts", "mirror_filter") and not is_copy(after):
            continue  # They end with what is copied.
        if name in FOR_EVER and new is not True:
            raise STREAM_INVALID.because(f"stream configuration update can not {FOR_EVER[name]}")
        if name not in ALTERABLE:
            raise STREAM_INVALID.because(
                f"stream configuration update can not change {SAID_AS.get(name, name)}"
            )
        changes[name] = new if new is not UNSET else NOTHING.get(name, 0)
    return StreamChanges(**changes)


FOR_EVER = {
    "sealed": "unseal a sealed stream",
    "deny_delete": "cancel deny message deletes",
    "deny_purge": "cancel deny purge",
}
"""What is promised for ever, by field: what nobody can do."""
FOLLOWS = {
    "segment_ms": "retention_ms",
    "segment_records": "retention_messages",
    "segment_bytes": "retention_bytes",
}
"""What is altered with a limit, and stays as somebody has set it otherwise."""
NOTHING: dict[str, Any] = {
    **{"more_subjects": (), "notes": (), "sources": (), "starts": (), "mirror": ""},
    **dict.fromkeys(("allow_rollup", "allow_batches", "allow_fast_batches", "interest"), False),
}
"""By field: what says that there is none of it any more."""
SAID_AS = {
    "subject": "subjects",
    "ack_reply": "no_ack",
    "work_queue": "retention policy to/from workqueue",
    "first_offset": "first sequence",
    "mirror_filter": "filter_subject of a mirror",
}
FROM_JETSTREAM = (
    "subject",
    "more_subjects",
    "replication_factor",
    "ack_reply",
    "max_payload_bytes",
    "retention_ms",
    "segment_ms",
    "segment_records",
    "segment_bytes",
    "retention_bytes",
    "retention_messages",
    "messages_max",
    "bytes_max",
    "codec",
    "dedupe_window_ms",
    "work_queue",
    "interest",
    "max_messages_per_subject",
    "subject_messages_max",
    "deny_delete",
    "deny_purge",
    "sealed",
    "allow_rollup",
    "allow_ttl",
    "marker_ttl_ms",
    "allow_batches",
    "allow_fast_batches",
    "first_offset",
    "mirror",
    "mirror_filter",
    "sources",
    "starts",
    "notes",
)
"""Fields of a stream that follow from what JetStream calls its configuration."""
