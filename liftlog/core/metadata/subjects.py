"""Names and subjects: what a stream may be called and attached to (N7), and who answers (N9).

NATS subjects are tokens joined by dots; `*` matches one token, `>` matches one or more at the end. Partition
0 of a stream listens on its subject, partition i on `subject.i`.
"""

from __future__ import annotations

from msgspec import UNSET

from liftlog.core.metadata.limits import limits_problem
from liftlog.messages import intake
from liftlog.types import StreamConfig

API_PREFIX = "$LIFTLOG"
RESERVED = ("_INBOX.>", "$SYS.>", "$JS.>", f"{API_PREFIX}.>")
SUBJECT_LENGTH_MAX = 255


def subject_problem(subject: str) -> str:
    """Why `subject` is not a valid NATS subscription subject; empty if it is one."""
    if not subject or len(subject) > SUBJECT_LENGTH_MAX:
        return f"it must have 1 to {SUBJECT_LENGTH_MAX} characters"
    tokens = subject.split(".")
    for position, token in enumerate(tokens):
        if not token:
            return "it has an empty token"
        if any(ch.isspace() or not ch.isprintable() for ch in token):
            return "it contains white space or a control character"
        if token == ">":
            if position != len(tokens) - 1:
                return "'>' must be its last token"
        elif token != "*" and ("*" in token or ">" in token):
            return "'*' and '>' must stand alone in a token"
    return ""


def matches(pattern: str, subject: str) -> bool:
    """Whether a literal `subject` is matched by `pattern`."""
    pattern_tokens = pattern.split(".")
    subject_tokens = subject.split(".")
    for position, token in enumerate(pattern_tokens):
        if token == ">":
            return len(subject_tokens) > position
        if position >= len(subject_tokens) or token not in ("*", subject_tokens[position]):
            return False
    return len(pattern_tokens) == len(subject_tokens)


def overlap(first: str, second: str) -> bool:
    """Whether some literal subject is matched by both patterns."""
    left, right = first.split("."), second.split(".")
    for position in range(max(len(left), len(right))):
        if position >= len(left) or position >= len(right):
            return False
        if left[position] == ">" or right[position] == ">":
            return True
        if "*" not in (left[position], right[position]) and left[position] != right[position]:
            return False
    return True


def partition_subject(subject: str, index: int) -> str:
    """The subject that partition `index` listens on."""
    return subject if index == 0 else f"{subject}.{index}"


def config_problem(config: StreamConfig) -> str:
    """Why this stream cannot be created, whatever else exists; empty if it can. Names field and remedy."""
    problem = intake.name_problem(config.name)
    if problem:
        return problem
    problem = subject_problem(config.subject)
    if problem:
        return f"subject {config.subject!r} is invalid: {problem}"
    for reserved in RESERVED:
        if overlap(config.subject, reserved):
            return f"subject {config.subject!r} overlaps the reserved {reserved!r}: choose a narrower subject"
    if _is_open(config):
        return _OPEN.format(config.subject)
    if config.paused is not UNSET:
        return "a stream is not paused when it is created: leave that out, and pause it then (stream pause)"
    return limits_problem(config)


_OPEN = "subject {!r} ends in '>': it can have one partition only"


def _is_open(config: StreamConfig) -> bool:
    return config.partitions > 1 and config.subject.endswith(">")


def partitions_problem(config: StreamConfig) -> str:
    """Why a stream of this subject cannot have so many partitions, whatever else exists; empty if it can.

    A creation is judged by it before it is proposed only: release 0.1.0 does not look at the reserved ones.
    """
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
    return [partition_subject(config.subject, index) for index in range(config.partitions)]


def _near(config: StreamConfig, other: StreamConfig) -> list[str]:
    """Those subjects of `other` that may meet one of `config`'s: a few of 1,024, or none, without a look at
    every pair.
    """
    mine = [config.subject] + [f"{config.subject}.*"] * (config.partitions > 1)
    theirs = [other.subject] + [f"{other.subject}.*"] * (other.partitions > 1)
    if not any(overlap(left, right) for left in mine for right in theirs):
        return []
    return [subject for subject in partition_subjects(other) if any(overlap(own, subject) for own in mine)]


def collision(config: StreamConfig, other: StreamConfig) -> str:
    """N7: overlapping streams each get their own copy, but `subject.i` must not meet another's partitions."""
    near = _near(config, other)
    if not near:
        return ""
    for subject in partition_subjects(config)[1:]:
        for existing in near:
            if overlap(subject, existing):
                return f"subject {subject!r} collides with stream {other.name!r} on {existing!r}"
    for existing in near:
        if existing != other.subject and overlap(config.subject, existing):
            return f"subject {config.subject!r} collides with stream {other.name!r} on {existing!r}"
    return ""


def rivalry(config: StreamConfig, other: StreamConfig) -> str:
    """N9: why the two would both answer one message; empty if they never do."""
    if not (config.ack_reply and other.ack_reply):
        return ""
    near = _near(config, other)
    for subject in partition_subjects(config) if near else ():
        for existing in near:
            if overlap(subject, existing):
                return (
                    f"subject {subject!r} overlaps {existing!r} of stream {other.name!r}, and both would "
                    "answer a message: create this one with ack_reply = false (--no-ack-reply) to store a "
                    "silent copy, or choose another subject"
                )
    return ""
