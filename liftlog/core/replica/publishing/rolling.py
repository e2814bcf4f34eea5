"""What messages ask for that come to a leader, which of them may roll up those before them (R23), and which
may say for how long they are to stay (R24).
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.core.replica.state.log import LogState
from liftlog.messages import ERR_HEADER
from liftlog.options.fast import with_fast
from liftlog.options.lifetime import taken_by
from liftlog.options.reading import read
from liftlog.options.wishes import Refusal, Terms, Wishes
from liftlog.subjects.grammar import publish_problem
from liftlog.types import Message


def wishes_here(
    log: LogState, messages: Sequence[Message], stream: str, remembers: bool
) -> list[Wishes] | None:
    """What each asks for, of this partition of the stream of this name; None: none asks for anything.
    `remembers`: it has a window of message ids (L7).
    """
    config, terms = log.config, Terms(remembers)
    fast = config is not None and config.allow_fast_batches is True
    if config is not None:
        terms = Terms(remembers, config.rolls_up, taken_by(config), config.allow_batches is True)
    wishes = of_one_subject(messages, read(messages, stream, log.id.index, terms))
    return with_fast(messages, wishes, stream, fast)


def of_one_subject(messages: Sequence[Message], wishes: list[Wishes] | None) -> list[Wishes] | None:
    """Refused is whose subject is a pattern, which others match: NATS hands on a message to `orders.*`."""
    if wishes is None or not any(wish.rolls_up for wish in wishes):
        return wishes
    return [_of_one(message, wish) for message, wish in zip(messages, wishes, strict=True)]


def _of_one(message: Message, wish: Wishes) -> Wishes:
    if not wish.rolls_up or wish.refusal is not None:
        return wish
    problem = publish_problem(message.subject.decode("utf-8", "surrogateescape"))
    if not problem:
        return wish
    text = f"header Nats-Rollup: the message's subject cannot be rolled up: {problem}"
    return wish._replace(refusal=Refusal(ERR_HEADER, text))
