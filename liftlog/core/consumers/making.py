"""Which consumers can be made (K1), and how many."""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from itertools import combinations, product

from liftlog.core.consumers.letters import letter_problem
from liftlog.core.consumers.state import Consumer, Consumers
from liftlog.messages import (
    BY_PIN,
    DELIVER_ALL,
    DELIVER_FROM,
    DELIVER_LAST,
    DELIVER_NEW,
    DELIVER_TIME,
    DELIVERS,
    ERR_EXISTS,
    ERR_INVALID,
    ERR_NOT_READY,
    ERR_OFFSET_RANGE,
    ERR_OVERLOAD,
    FILTERS_MAX,
    NOTES_BYTES_MAX,
    PENDING_MAX,
    PRIORITIES,
    TO_FLOOR,
    AlterConsumerRequest,
    ConsumerConfig,
    CreateConsumerRequest,
    ErrorReply,
    ResetConsumerRequest,
    SubjectsTold,
    intake,
)
from liftlog.offsets import OffsetSet
from liftlog.subjects.grammar import PatternRefused, overlap, pattern_tokens

CONSUMERS_MAX = 256
"""Of one partition."""
PENDING_ALL_MAX = 4 * PENDING_MAX
"""Messages that all consumers of a partition together may have waiting for an ack."""
FIXED = (
    *("deliver", "offset", "timestamp_ms"),
    *("priority", "groups", "pin_ms"),
)
"""What is not altered of a consumer."""
LASTS_MAX = 65_536
"""Subjects with whose last messages one consumer may begin."""
LASTS_ALL_MAX = 4 * LASTS_MAX
"""Last messages that all consumers of a partition together may still have to be given."""
EVERY_SUBJECT = ">"
GROUP_LETTERS = 16
GROUP_SIGNS = frozenset(string.ascii_letters + string.digits + "/_=-")
LOOKED_AT_ONCE = 1024
"""Offsets of which it is asked at once which of them are gone."""


def not_created(
    request: CreateConsumerRequest,
    consumers: Consumers,
    creating: Sequence[CreateConsumerRequest],
    hw: int,
    listened: Sequence[str],
) -> ErrorReply | None:
    """Why it cannot be made, or not now, where no other one is like it. `creating`: those under way; `hw`: of
    the data; `listened`: on which subjects its partition stores messages.
    """
    name, config = request.name, request.config
    if intake.name_problem(name):
        text = f"consumer name {name!r} is invalid: use 1 to 64 letters, digits, '_' or '-'"
        return ErrorReply(ERR_INVALID, text, False)
    if config.deliver not in DELIVERS:
        text = f"deliver {config.deliver!r} is not one of {', '.join(DELIVERS)}"
        return ErrorReply(ERR_INVALID, text, False)
    if config.offset and config.deliver != DELIVER_FROM:
        text = f"an offset means nothing with deliver {config.deliver!r}"
        return ErrorReply(ERR_INVALID, text, False)
    if config.timestamp_ms and config.deliver != DELIVER_TIME:
        text = f"a time means nothing with deliver {config.deliver!r}"
        return ErrorReply(ERR_INVALID, text, False)
    if config.deliver == DELIVER_LAST and config.patterns:
        text = "the last message that a filter matches is not looked for: say deliver 'last-per-subject'"
        return ErrorReply(ERR_INVALID, text, False)
    problem = _waits_problem(config) or _filters_problem(config.patterns) or _notes_problem(config)
    if problem := problem or _priority_problem(config) or letter_problem(config, listened):
        return ErrorReply(ERR_INVALID, problem, False)
    if name in consumers.by_name:
        text = f"consumer {name!r} exists with another configuration: delete it first, or name another"
        return ErrorReply(ERR_EXISTS, text, False)
    if any(asked.name == name for asked in creating):
        text = f"consumer {name!r} is being created with another configuration; try again"
        return ErrorReply(ERR_NOT_READY, text, True)
    if config.offset > hw:
        return _not_committed(config.offset, hw)
    configs = [one.config for one in consumers.by_number.values()] + [asked.config for asked in creating]
    if len(configs) >= CONSUMERS_MAX:
        text = f"this partition has {len(configs)} consumers, and may have {CONSUMERS_MAX}: delete some first"
        return ErrorReply(ERR_INVALID, text, False)
    return _too_many_pending([*configs, config])


def not_of_queue(config: ConsumerConfig) -> ErrorReply | None:
    """R26: why a work queue has no such consumer; None if it may."""
    if config.deliver == DELIVER_ALL:
        return None
    text = f"a consumer of a work queue begins with the first message, not with {config.deliver!r}"
    return ErrorReply(ERR_INVALID, f"{text}: say deliver {DELIVER_ALL!r}", False)


def shared_with(wanted: ConsumerConfig, others: Iterable[tuple[str, ConsumerConfig]]) -> str:
    """R26: which of the others, by name, may be given what such a consumer is given; empty if none may."""
    for name, config in others:
        pairs = product(wanted.patterns or (EVERY_SUBJECT,), config.patterns or (EVERY_SUBJECT,))
        if any(overlap(first, second) for first, second in pairs):
            return name
    return ""


def is_shared(name: str) -> ErrorReply:
    """What who asks for a consumer of a work queue is told then."""
    text = f"consumer {name!r} may be given the same messages, and each message of a work queue is for one"
    text = f"{text} consumer: use that one, or filters that match other subjects"
    return ErrorReply(ERR_INVALID, text, False)


def not_altered(
    request: AlterConsumerRequest, consumer: Consumer, consumers: Consumers, listened: Sequence[str]
) -> ErrorReply | None:
    """Why a consumer cannot be altered so, where it is not so already. `listened`: as above."""
    config, now = request.config, consumer.config
    if now != request.was:
        text = f"consumer {consumer.name!r} was altered meanwhile: look at it again, and then alter it"
        return ErrorReply(ERR_EXISTS, text, False)
    for name in FIXED:
        if getattr(config, name) != getattr(now, name):
            text = f"{name} of a consumer stays {getattr(now, name)!r}: make another consumer"
            return ErrorReply(ERR_INVALID, text, False)
    problem = _waits_problem(config) or _filters_problem(config.patterns) or _notes_problem(config)
    if problem := problem or letter_problem(config, listened):
        return ErrorReply(ERR_INVALID, problem, False)
    others = [one.config for one in consumers.by_number.values() if one is not consumer]
    return _too_many_pending([*others, config])


def not_reset(
    request: ResetConsumerRequest, consumer: Consumer, hw: int, is_queue: bool
) -> ErrorReply | None:
    """Why a consumer cannot be reset so. `hw`: of the data; `is_queue`: they are a work queue."""
    offset, floor = request.offset, consumer.floor
    if offset > hw:
        return _not_committed(offset, hw)
    if is_queue and offset > floor:
        text = f"consumer {consumer.name!r} is not done with offset {floor}, and nobody else is given the"
        text = f"{text} messages of a work queue: reset it to that offset, or to its floor"
        return ErrorReply(ERR_INVALID, text, False)
    if offset == TO_FLOOR and floor < consumer.since:
        text = f"consumer {consumer.name!r} is being given the last messages of subjects with which it began,"
        return ErrorReply(ERR_INVALID, f"{text} and they are not looked for again: name an offset", False)
    return None


def _not_committed(offset: int, hw: int) -> ErrorReply:
    text = f"offset {offset} is not committed: there are messages below {hw}"
    return ErrorReply(ERR_OFFSET_RANGE, text, False)


def _too_many_pending(configs: Sequence[ConsumerConfig]) -> ErrorReply | None:
    pending = sum(one.max_ack_pending for one in configs)
    if pending > PENDING_ALL_MAX:
        text = f"the consumers of this partition would have {pending} messages pending, and may have"
        text = f"{text} {PENDING_ALL_MAX}: give this one a smaller max_ack_pending"
        return ErrorReply(ERR_INVALID, text, False)
    return None


def _waits_problem(config: ConsumerConfig) -> str:
    """Why it cannot wait so for acks; empty if it can."""
    if not 0 < config.max_deliver < len(config.backoff_ms):
        return ""
    text = f"backoff_ms names {len(config.backoff_ms)} waits, and max_deliver is {config.max_deliver}:"
    return f"{text} make it as many, or leave out waits"


def too_many_lasts(told: SubjectsTold, consumers: Consumers) -> ErrorReply | None:
    """Why a consumer may not begin with so many last messages of subjects."""
    if told.messages > LASTS_MAX:
        text = f"its filters match more than {LASTS_MAX} subjects, and it may begin with the last messages of"
        text = f"{text} so many: have several consumers with narrower filters, or deliver 'all'"
        return ErrorReply(ERR_INVALID, text, False)
    others = sum(len(one.lasts) for one in consumers.by_number.values())
    if others + told.messages > LASTS_ALL_MAX:
        text = f"the consumers of this partition have {others} last messages of subjects yet to be given, and"
        text = f"{text} may have {LASTS_ALL_MAX} with the {told.messages} of this one: try again later"
        return ErrorReply(ERR_OVERLOAD, text, True)
    return None


def _filters_problem(patterns: Sequence[str]) -> str:
    """Why these cannot be the filters of one consumer; empty if they can."""
    if len(patterns) > FILTERS_MAX:
        text = f"it has {len(patterns)} filters, and may have {FILTERS_MAX}"
        return f"{text}: use wildcards, or several consumers"
    for pattern in patterns:
        try:
            pattern_tokens(pattern)
        except PatternRefused as refused:
            return f"its filter: {refused}"
    for first, second in combinations(patterns, 2):
        if overlap(first, second):
            return f"its filters {first!r} and {second!r} match the same subjects: leave one out"
    return ""


def _priority_problem(config: ConsumerConfig) -> str:
    """K10: why nobody can be chosen so; empty if somebody can."""
    priority, groups = config.priority, config.groups
    if priority and priority not in PRIORITIES:
        return f"priority {priority!r} is not one of {', '.join(PRIORITIES)}"
    if bool(priority) != bool(groups):
        return f"it has priority {priority!r} and groups {list(groups)}: name both, or neither"
    for group in groups:
        if not 1 <= len(group) <= GROUP_LETTERS or not set(group) <= GROUP_SIGNS:
            text = f"{group!r} is no name of a group: 1 to {GROUP_LETTERS} letters, digits"
            return f"{text}, '/', '_', '=' or '-'"
    if len(dict.fromkeys(groups)) < len(groups):
        return f"of its groups {list(groups)} two have one name"
    if config.pin_ms and priority != BY_PIN:
        return f"pin_ms means nothing with priority {priority!r}: leave it out"
    return ""


def _notes_problem(config: ConsumerConfig) -> str:
    """Why these are no notes; empty if they are."""
    names = [name for name, _ in config.notes]
    if twice := next((name for name in names if names.count(name) > 1), None):
        return f"it has two notes of the name {twice!r}: give one another name"
    size = sum(len(name.encode()) + len(value.encode()) for name, value in config.notes)
    if size > NOTES_BYTES_MAX:
        return f"its notes have {size} bytes, and may have {NOTES_BYTES_MAX}: shorten them"
    return ""


def begins_at(config: ConsumerConfig, log_start: int, hw: int, hidden: OffsetSet) -> int:
    """The position with which a consumer is made. `hidden`: which offsets of [log_start, hw) are gone."""
    if config.deliver == DELIVER_NEW:
        return hw
    if config.deliver == DELIVER_LAST:
        return _last_shown(log_start, hw, hidden)
    return max(log_start, config.offset)


def _last_shown(log_start: int, hw: int, hidden: OffsetSet) -> int:
    """The greatest offset that is there, or `hw`."""
    end = hw
    while end > log_start:
        gone = list(hidden.runs(max(log_start, end - LOOKED_AT_ONCE), end))
        if not gone or gone[-1].end < end:
            return end - 1
        end = gone[-1].start
    return hw
