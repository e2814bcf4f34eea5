"""Which consumers can be made (K1), and how many."""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.core.consumers.state import Consumers
from liftlog.messages import (
    DELIVER_FROM,
    DELIVERS,
    ERR_EXISTS,
    ERR_INVALID,
    ERR_NOT_READY,
    ERR_OFFSET_RANGE,
    PENDING_MAX,
    CreateConsumerRequest,
    ErrorReply,
    intake,
)
from liftlog.subjects.grammar import PatternRefused, pattern_tokens

CONSUMERS_MAX = 256
"""Of one partition."""
PENDING_ALL_MAX = 4 * PENDING_MAX
"""Messages that all consumers of a partition together may have waiting for an ack."""


def not_created(
    request: CreateConsumerRequest, consumers: Consumers, creating: Sequence[CreateConsumerRequest], hw: int
) -> ErrorReply | None:
    """Why it cannot be made, or not now, where no other one is like it. `creating`: those under way; `hw`: of
    the data.
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
    try:
        pattern_tokens(config.filter or "*")
    except PatternRefused as refused:
        return ErrorReply(ERR_INVALID, f"its filter: {refused}", False)
    if name in consumers.by_name:
        text = f"consumer {name!r} exists with another configuration: delete it first, or name another"
        return ErrorReply(ERR_EXISTS, text, False)
    if any(asked.name == name for asked in creating):
        text = f"consumer {name!r} is being created with another configuration; try again"
        return ErrorReply(ERR_NOT_READY, text, True)
    if config.offset > hw:
        text = f"offset {config.offset} is not committed: there are messages below {hw}"
        return ErrorReply(ERR_OFFSET_RANGE, text, False)
    configs = [one.config for one in consumers.by_number.values()] + [asked.config for asked in creating]
    if len(configs) >= CONSUMERS_MAX:
        text = f"this partition has {len(configs)} consumers, and may have {CONSUMERS_MAX}: delete some first"
        return ErrorReply(ERR_INVALID, text, False)
    pending = sum(one.max_ack_pending for one in configs) + config.max_ack_pending
    if pending > PENDING_ALL_MAX:
        text = f"the consumers of this partition would have {pending} messages pending, and may have"
        text = f"{text} {PENDING_ALL_MAX}: give this one a smaller max_ack_pending"
        return ErrorReply(ERR_INVALID, text, False)
    return None
