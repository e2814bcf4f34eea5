"""What the numbers and words of a stream's configuration may be (L3).

The metadata state machine judges by this page, so that these are constants: two nodes with different limits
would disagree on the state (M3). A configuration is refused with the key's name and the accepted values.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
from msgspec import UNSET

from liftlog.bounds import TTL_LEAST_MS, TTL_MOST_MS
from liftlog.core.metadata.elsewhere import place_problem
from liftlog.messages.copying import elsewhere, start_of
from liftlog.subjects.grammar import subject_problem
from liftlog.types import FIRST_OFFSET_MOST, NUMBER_MAX, PARTITIONS_MAX, StreamConfig

KIB = 1024
GIB = 1024 * 1024 * 1024
DAY_MS = 24 * 3600 * 1000
YEAR_MS = 366 * DAY_MS
UNLIMITED = NUMBER_MAX

RANGES: dict[str, tuple[int, int]] = {
    "partitions": (1, PARTITIONS_MAX),
    "replication_factor": (1, 64),
    "max_payload_bytes": (1, 8 * KIB * KIB),
    "retention_ms": (0, 100 * YEAR_MS),
    "retention_bytes": (0, UNLIMITED),
    "retention_messages": (0, UNLIMITED),
    "min_compaction_lag_ms": (0, 100 * YEAR_MS),
    "dirty_ratio_percent": (0, 100),
    "tombstone_retention_ms": (0, 100 * YEAR_MS),
    "segment_bytes": (KIB, 2 * GIB),
    "segment_ms": (0, 100 * YEAR_MS),
    "segment_records": (0, UNLIMITED),
    "dedupe_window_ms": (100, 7 * DAY_MS),
    "dedupe_ids_max": (1, 10_000_000),
    "messages_max": (1, UNLIMITED),
    "bytes_max": (1, UNLIMITED),
    "max_messages_per_subject": (1, UNLIMITED),
    "subject_messages_max": (1, UNLIMITED),
    "marker_ttl_ms": (TTL_LEAST_MS, TTL_MOST_MS),
    "first_offset": (1, FIRST_OFFSET_MOST),  # C7
}
"""Accepted range of every number that is set, both ends included; for limits 0 means none."""

CHOICES: dict[str, tuple[str, ...]] = {"codec": ("none", "zstd", "lz4"), "durability": ("sync", "os")}


NOTES_MAX, NOTES_BYTES_MAX = 64, 16 * KIB
"""So many notes a stream has at most, and so many bytes, of names and values together."""
NOTE_NAME_BYTES_MAX = 64


DEFAULT_REPLICAS = 3


def with_defaults(config: StreamConfig, nodes: int) -> StreamConfig:
    """With the numbers that 0 stands for, in a cluster of so many nodes."""
    factor = config.replication_factor or min(DEFAULT_REPLICAS, max(1, nodes))
    minimum = config.min_insync_replicas or (2 if factor >= 3 else 1)
    return msgspec.structs.replace(config, replication_factor=factor, min_insync_replicas=minimum)


def notes_bytes(notes: Iterable[tuple[str, str]]) -> int:
    """How much they take of the bound."""
    return sum(len(name.encode()) + len(value.encode()) for name, value in notes)


def _notes_problem(notes: Sequence[tuple[str, str]]) -> str:
    """Why these are no notes of a stream; empty if they are."""
    if not 1 <= len(notes) <= NOTES_MAX:
        return f"notes has {len(notes)} pairs; it must be left out, or have 1 to {NOTES_MAX}"
    names = [name for name, _ in notes]
    for name in names:
        if not 1 <= len(name.encode()) <= NOTE_NAME_BYTES_MAX:
            return f"a note's name has 1 to {NOTE_NAME_BYTES_MAX} bytes, not {len(name.encode())}: {name!r}"
        if names.count(name) > 1:
            return f"notes has {name!r} twice: leave one of them out"
    size = notes_bytes(notes)
    if size > NOTES_BYTES_MAX:
        return f"notes has {size} bytes, and may have {NOTES_BYTES_MAX}: shorten them"
    return ""


class _Clash(NamedTuple):
    """Two options that exclude each other, and why; not where `unless` is on too."""

    first: str
    second: str
    why: str
    remedy: str = "leave one of them out"
    unless: str = ""

    def problem(self, on: Mapping[str, bool]) -> str:
        if on[self.first] and on[self.second] and not (self.unless and on[self.unless]):
            return f"{self.first} and {self.second} exclude each other: {self.why}; {self.remedy}"
        return ""


class _NeedsRemoval(NamedTuple):
    """An option that only streams with removal can have."""

    name: str
    told: str

    def problem(self, on: Mapping[str, bool]) -> str:
        return self.told if on[self.name] and not on["removal"] else ""


def _takes_out(
    name: str, remedy: str = "(stream create --removal), which cannot be altered later"
) -> _NeedsRemoval:
    what = f"{name} takes messages out of the middle of a log"
    return _NeedsRemoval(name, f"{what}: create the stream with removal {remedy}")


_SAME_ROOM = "the one lets old messages go, the other one refuses new ones"
_ACK = "an ack takes a message away"

_PASSED = "a message that waits until there is room would be passed by those behind it in its batch"

TOGETHER: tuple[_Clash | _NeedsRemoval, ...] = (
    _Clash("compact", "dedupe_window_ms", "compaction takes records whose message ids are still needed"),
    _Clash(
        "queue_group",
        "dedupe_window_ms",
        "a message that is sent again may go to another stream of the group, which does not know it",
    ),
    _Clash("allow_batches", "queue_group", "the messages of a batch would go to several streams"),
    _Clash("allow_fast_batches", "queue_group", "the messages of a batch would go to several streams"),
    *(_Clash("allow_fast_batches", name, _PASSED) for name in ("messages_max", "bytes_max")),
    _Clash("allow_fast_batches", "subject_messages_max", _PASSED),
    _Clash(
        "compact",
        "messages_max",
        "a log that is compacted keeps its offsets, by which messages are counted, and would stay full",
    ),
    _Clash(
        "dedupe_window_ms",
        "messages_max",
        "the last window's messages stay, for their ids, until others are stored, and a partition that is "
        "full of them stores none",
        "leave one of them out, or create the stream with removal: there messages go, and their ids stay",
        unless="removal",
    ),
    _NeedsRemoval(
        "bytes_max", "bytes_max needs removal: only such streams know what their messages count for"
    ),
    _Clash("retention_bytes", "bytes_max", _SAME_ROOM),
    _Clash("retention_messages", "messages_max", _SAME_ROOM),
    _Clash("compact", "removal", "what is compacted is deleted by a message without a value"),
    _Clash("allow_rollup", "deny_purge", "a message that rolls up takes those before it away"),
    _NeedsRemoval(
        "subject_messages_max",
        "subject_messages_max needs removal: of other streams nothing goes, and a subject would stay full",
    ),
    _Clash("max_messages_per_subject", "subject_messages_max", _SAME_ROOM),
    _Clash(
        "allow_rollup",
        "subject_messages_max",
        "a message that rolls up takes the place of those before it, and a full subject takes none",
    ),
    _takes_out("max_messages_per_subject"),
    _takes_out("allow_rollup"),
    _takes_out("allow_ttl"),
    _takes_out("work_queue", "(stream create --removal --work-queue)"),
    _Clash(
        "work_queue",
        "max_messages_per_subject",
        "the one keeps what nobody is done with, the other one lets it go",
    ),
    _Clash("work_queue", "sealed", _ACK, "make it read-only"),
    _takes_out("interest", "(stream create --removal --interest)"),
    _Clash(
        "interest",
        "work_queue",
        "a message goes when every consumer is done with it, or when the only one is",
    ),
    _Clash(
        "interest",
        "max_messages_per_subject",
        "the one keeps what a consumer is to be given, the other one lets it go",
    ),
    _Clash("interest", "sealed", _ACK, "make it read-only"),
)
"""What does not go together; the first that is found is told."""

UNFIT_FOR_COPIES = (
    *("compact", "dedupe_window_ms", "messages_max", "bytes_max", "max_messages_per_subject"),
    "subject_messages_max",
    *("allow_rollup", "allow_ttl", "allow_batches", "work_queue", "interest", "queue_group"),
    "allow_fast_batches",
)
"""R28, R29: what a copy has is said by other streams alone: it cannot refuse any of that, take it for a
repetition, or act on what its headers say.
"""
SOURCES_MAX = 64
"""Each of its records names them all."""


UNFIT_FOR_ACTIVITY = ("mirror", "sources", "paused", "read_only", "sealed", "removal", *UNFIT_FOR_COPIES)
"""N12: nothing is published to it that any of this could be about, and what it has to tell does not wait."""


def _options_on(config: StreamConfig) -> dict[str, bool]:
    """Which of the options that `TOGETHER` names are on."""
    values = {
        "compact": config.compact,
        "removal": config.has_journal,
        "dedupe_window_ms": config.remembers_ms,
        "messages_max": config.holds_most,
        "bytes_max": config.holds_bytes,
        "retention_messages": config.retention_messages,
        "retention_bytes": config.retention_bytes,
        "max_messages_per_subject": config.keeps_of_subject,
        "subject_messages_max": config.holds_of_subject,
        "allow_rollup": config.rolls_up,
        "allow_ttl": config.has_ttl,
        "allow_batches": config.allow_batches is True,
        "allow_fast_batches": config.allow_fast_batches is True,
        "work_queue": config.is_queue,
        "interest": config.interest is True,
        "queue_group": config.shares_in,
        "deny_purge": config.deny_purge is True,
        "sealed": config.sealed is True,
        "mirror": config.mirrors,
        "sources": config.sources is not UNSET,
        "paused": config.paused is True,
        "read_only": config.read_only,
        "activity": config.activity is True,
    }
    return {name: bool(value) for name, value in values.items()}


def _markers_problem(config: StreamConfig) -> str:
    """R24: why it can leave no markers; empty if it can."""
    if config.marker_ttl_ms is UNSET:
        return ""
    if not (config.has_ttl and config.rolls_up):
        return (
            "marker_ttl_ms leaves messages that go after a time, and that roll up what they stand for: it "
            "needs allow_ttl and allow_rollup too (--removal --allow-ttl --allow-rollup)"
        )
    if config.holds_most or config.holds_bytes:
        return (
            "marker_ttl_ms and messages_max or bytes_max exclude each other: a partition that is full would "
            "store no marker, and what is over its time would stay; leave one of them out"
        )
    return ""


def _mirror_problem(config: StreamConfig, on: Mapping[str, bool]) -> str:
    """R28: why it can be no mirror; empty if it can."""
    if not config.mirrors:
        return "mirror_filter is of a mirror: say of what" if config.mirror_filter is not UNSET else ""
    pattern = "" if config.mirror_filter is UNSET else config.mirror_filter
    if pattern and (problem := subject_problem(pattern)):
        return f"mirror_filter = {pattern!r}: {problem}"
    if problem := place_problem(config.mirrors):
        return f"mirror = {problem}"
    if elsewhere(config.mirrors) is not None and config.first_offset is not UNSET:
        return (
            "first_offset and a mirror of another cluster exclude each other: what its origin begins with is "
            "known when that answers; leave it out"
        )
    if config.mirrors == config.name:
        return f"mirror = {config.mirrors!r} is the stream itself: name the stream that is to be copied"
    why = "a mirror has what its origin has, and nothing else"
    return _first(_Clash("mirror", name, why).problem(on) for name in UNFIT_FOR_COPIES)


def _activity_problem(config: StreamConfig, on: Mapping[str, bool]) -> str:
    """N12: why it cannot tell the cluster's activity; empty if it can, or is not to."""
    if config.activity is UNSET:
        return ""
    if config.activity is False:
        return "activity = false is not accepted: leave it out"
    if config.partitions != 1:
        return f"partitions = {config.partitions} and activity exclude each other: events have one order"
    why = "an activity stream has what the metadata group does, and nothing else"
    return _first(_Clash("activity", name, why).problem(on) for name in UNFIT_FOR_ACTIVITY)


def _sources_problem(config: StreamConfig, on: Mapping[str, bool]) -> str:
    """R29: why it can be no copy of these sources; empty if it can."""
    if config.sources is UNSET:
        return ""
    if config.mirrors:
        return "sources and mirror exclude each other: a mirror has one stream's alone; leave one of them out"
    names = [name for name, _ in config.sources]
    if not 1 <= len(names) <= SOURCES_MAX:
        return f"sources names {len(names)} streams; it must be left out, or name 1 to {SOURCES_MAX}"
    for name, filter in config.sources:
        if name == config.name:
            return f"source {name!r} is the stream itself: name the streams that are to be copied"
        if names.count(name) > 1:
            return f"sources names {name!r} twice: name each stream once, with one filter"
        if problem := place_problem(name):
            return f"source {problem}"
        if filter and (problem := subject_problem(filter)):
            return f"source {name!r}: filter {filter!r}: {problem}"
    why = "it has what its sources have, and nothing else"
    here = {**on, "sources": True}
    return _first(_Clash("sources", name, why).problem(here) for name in UNFIT_FOR_COPIES)


def _starts_problem(config: StreamConfig) -> str:
    """R28, R29: why it cannot begin so with what it copies; empty if it can."""
    starts = () if config.starts is UNSET else config.starts
    copied = [config.mirrors] if config.mirrors else [name for name, _ in config.sources or ()]
    names = [name for name, _ in starts]
    for name, text in starts:
        if name not in copied or names.count(name) > 1:
            return f"starts says of {name!r} where to begin: name what is copied, and each once"
        start = start_of(text)
        if start is None or start.offset > FIRST_OFFSET_MOST:
            return (
                f"starts: {name!r} from {text!r}: say an offset, 0 to {FIRST_OFFSET_MOST}, or a time in "
                "milliseconds, as in '1764300000000ms'"
            )
    return ""


def _first(problems: Iterable[str]) -> str:
    return next((problem for problem in problems if problem), "")


def limits_problem(config: StreamConfig) -> str:
    """Why a value of this configuration is not accepted; empty if all are."""
    for key, (low, high) in RANGES.items():
        value = getattr(config, key)
        if value is not UNSET and not low <= value <= high:
            return f"{key} = {value} is not accepted; it must be {low} to {high}"
    for key, words in CHOICES.items():
        word = getattr(config, key)
        if word not in words:
            return f"{key} = {word!r} is not accepted; use one of: {', '.join(words)}"
    if config.notes is not UNSET and (problem := _notes_problem(config.notes)):
        return problem
    on = _options_on(config)
    if problem := _first(one.problem(on) for one in TOGETHER):
        return problem
    if problem := _markers_problem(config) or _mirror_problem(config, on):
        return problem
    if problem := _starts_problem(config):
        return problem
    if problem := _sources_problem(config, on) or _activity_problem(config, on):
        return problem
    if not 0 <= config.min_insync_replicas <= config.replication_factor:
        return (
            f"min_insync_replicas = {config.min_insync_replicas} is not accepted; "
            f"it must be 1 to the replication factor {config.replication_factor}"
        )
    return ""
