"""Names and subjects: what a stream may be called and attached to (N7), and who answers (N9).

What a subject is, and when two of them overlap, stands in `liftlog.subjects.grammar`. Partition 0 of a stream
listens on its subject, partition i on `subject.i`. A stream of one partition may listen
on several subjects (N10).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations

from msgspec import UNSET

from liftlog.core.metadata.limits import limits_problem
from liftlog.messages import intake
from liftlog.subjects.grammar import (
    REST,
    is_literal,
    matches,
    overlap,
    pattern_tokens,
    subject_problem,
)
from liftlog.subjects.trie import Trie
from liftlog.types import StreamConfig

API_PREFIX = "$LIFTLOG"
MORE_SUBJECTS_MAX = 64
"""N10: so many subjects a stream listens on beside its first."""
QUEUE_PREFIX = "liftlog.streams."
"""N11: before the name of a queue group at NATS, that no other service takes its messages."""
RESERVED = ("_INBOX.>", "$SYS.>", "$JS.>", f"{API_PREFIX}.>")


def partition_subject(subject: str, index: int) -> str:
    """The subject that partition `index` listens on."""
    return subject if index == 0 else f"{subject}.{index}"


def listened_to(config: StreamConfig, index: int) -> tuple[str, ...]:
    """N10: the subjects that partition `index` listens on."""
    return config.subjects if index == 0 else (partition_subject(config.subject, index),)


def queue_of(config: StreamConfig) -> str:
    """N11: the queue group of its subscriptions, as NATS is told; empty: none."""
    return f"{QUEUE_PREFIX}{config.shares_in}" if config.shares_in else ""


def attached_to(patterns: Sequence[str], subject: bytes) -> str:
    """On which of a partition's subjects a message came; the first, if it is of none of them."""
    if len(patterns) > 1:
        text = subject.decode("utf-8", "replace")
        return next((pattern for pattern in patterns if matches(pattern, text)), patterns[0])
    return patterns[0] if patterns else ""


def foreign_to(patterns: Sequence[str], subject: bytes) -> str:
    """Why a record of this subject does not belong where these patterns listen; empty if it does."""
    try:
        text = subject.decode()
    except UnicodeDecodeError:
        return "it is not UTF-8"
    problem = subject_problem(text)
    if problem:
        return problem
    if not is_literal(pattern_tokens(text)):
        return "it has a wildcard"
    if any(matches(pattern, text) for pattern in patterns):
        return ""
    return f"{text!r} is not within {' or '.join(map(repr, patterns))}"


def config_problem(config: StreamConfig) -> str:
    """Why this stream cannot be created, whatever else exists; empty if it can. Names field and remedy."""
    problem = intake.name_problem(config.name)
    if problem:
        return problem
    problem = subjects_problem(config)
    if problem:
        return problem
    if _is_open(config):
        return _OPEN.format(config.subject)
    if config.paused is not UNSET:
        return "a stream is not paused when it is created: leave that out, and pause it then (stream pause)"
    if config.sealed is not UNSET:
        return "a new stream is not sealed: leave that out, and seal it when its messages are there"
    if config.queue_group is not UNSET and intake.name_problem(config.shares_in):
        return (
            f"queue_group {config.shares_in!r} is invalid: use 1 to 64 letters, digits, '_' or '-', or leave "
            "it out"
        )
    if config.dedupe_ids_max is not UNSET and not config.remembers_ms:
        return "dedupe_ids_max bounds what a stream remembers that has a dedupe_window_ms: set that too"
    return limits_problem(config)


def subjects_problem(config: StreamConfig) -> str:
    """N7, N10: why a stream cannot listen on these subjects, whatever else exists; empty if it can."""
    for subject in config.subjects:
        problem = subject_problem(subject)
        if problem:
            return f"subject {subject!r} is invalid: {problem}"
        for reserved in RESERVED:
            if overlap(subject, reserved):
                return f"subject {subject!r} overlaps the reserved {reserved!r}: choose a narrower subject"
    if config.more_subjects is UNSET:
        return ""
    if not 1 <= len(config.more_subjects) <= MORE_SUBJECTS_MAX:
        return (
            f"more_subjects has {len(config.more_subjects)} subjects; it must be left out, or have 1 to "
            f"{MORE_SUBJECTS_MAX} beside the first: use wildcards"
        )
    if config.partitions > 1:
        return (
            "a stream that listens on several subjects can have one partition only: create a stream for "
            "each subject, or name one subject with wildcards"
        )
    for one, other in combinations(config.subjects, 2):
        if overlap(one, other):
            return (
                f"subjects {one!r} and {other!r} overlap, and a message of both would be stored twice: leave "
                "one of them out, or choose narrower ones"
            )
    return ""


_OPEN = "subject {!r} ends in '>': it can have one partition only"


def _is_open(config: StreamConfig) -> bool:
    return config.partitions > 1 and config.subject.endswith(">")


def partitions_problem(config: StreamConfig) -> str:
    """Why a stream of this subject cannot have so many partitions, whatever else exists; empty if it can.

    A creation is judged by it before it is proposed only: release 0.1.0 does not look at the reserved ones.
    """
    if config.more_subjects is not UNSET:
        return subjects_problem(config)
    if _is_open(config):
        return _OPEN.format(config.subject)
    for subject in partition_subjects(config)[1:]:
        for reserved in RESERVED:
            if overlap(subject, reserved):
                return (
                    f"partition subject {subject!r} overlaps the reserved {reserved!r}: subject "
                    f"{config.subject!r} can have one partition only"
                )
    return ""


def partition_subjects(config: StreamConfig) -> list[str]:
    """All subjects that a stream's partitions listen on; the first is its own."""
    own = [partition_subject(config.subject, index) for index in range(config.partitions)]
    return own + list(config.subjects[1:])


class Attachments:
    """Which streams listen where: finds those that may have to do with one, without a look at all others."""

    __slots__ = ("_trie",)

    def __init__(self, streams: Iterable[tuple[int, StreamConfig]] = ()) -> None:
        self._trie = Trie()
        for stream, config in streams:
            self.attach(stream, config)

    def attach(self, stream: int, config: StreamConfig) -> None:
        for pattern in _patterns(config):
            self._trie.subscribe(pattern, stream)

    def detach(self, stream: int, config: StreamConfig) -> None:
        for pattern in _patterns(config):
            self._trie.unsubscribe(pattern, stream)

    def near(self, config: StreamConfig) -> list[int]:
        """The streams of which `collision` and `rivalry` may say something beside this one, rising by id."""
        found = [stream for pattern in _patterns(config) for stream in self._trie.overlapping(pattern)]
        return sorted(set(found))


def _patterns(config: StreamConfig) -> list[str]:
    """The subjects of a stream, and one pattern for those of all its other partitions."""
    others = config.partitions > 1 and not config.subject.endswith(REST)
    return [*config.subjects, f"{config.subject}.*"] if others else [*config.subjects]


def _near(config: StreamConfig, other: StreamConfig) -> list[str]:
    """Those subjects of `other` that may meet one of `config`'s: a few of 1,024, or none, without a look at
    every pair.
    """
    mine = _patterns(config)
    if not any(overlap(left, right) for left in mine for right in _patterns(other)):
        return []
    return [subject for subject in partition_subjects(other) if any(overlap(own, subject) for own in mine)]


def collision(config: StreamConfig, other: StreamConfig) -> str:
    """N7: overlapping streams each get their own copy, but `subject.i` must not meet another's partitions."""
    near = _near(config, other)
    if not near:
        return ""
    first, *others = partition_subjects(config)
    for subject in (*others, first):
        for existing in near:
            numbered = subject not in config.subjects or existing not in other.subjects
            if numbered and overlap(subject, existing):
                return f"subject {subject!r} collides with stream {other.name!r} on {existing!r}"
    return ""


def rivalry(config: StreamConfig, other: StreamConfig) -> str:
    """N9: why the two would both answer one message; empty if they never do, as in one queue group (N11)."""
    if not (config.ack_reply and other.ack_reply):
        return ""
    if config.shares_in and config.shares_in == other.shares_in:
        return ""
    near = _near(config, other)
    for subject in partition_subjects(config) if near else ():
        for existing in near:
            if overlap(subject, existing):
                return (
                    f"subject {subject!r} overlaps {existing!r} of stream {other.name!r}, and both would "
                    "answer a message: create this one with ack_reply = false (--no-ack-reply) to store a "
                    "silent copy, put both into one queue group (--queue-group) for each message to go to "
                    "one of them, or choose another subject"
                )
    return ""
