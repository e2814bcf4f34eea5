"""Who is to be told what became of a message, where and in which form (R4, N4).

A message with headers or in an envelope says so itself; all others have a reply subject, or none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from liftlog.core.context import Context
from liftlog.core.metadata.subjects import attached_to
from liftlog.messages import EnvelopeAnswer
from liftlog.options.wishes import LEADER, NONE, Wishes
from liftlog.types import NO_OFFSET, Message


class WantedAnswers(NamedTuple):
    """Of some messages, in their order: where the answer goes, and in which form. An empty reply: nowhere.

    The lists are None where nobody wants anything else than JetStream's ack of what is committed.
    """

    replies: list[bytes]
    full: list[bool] | None = None
    enveloped: list[EnvelopeAnswer | None] | None = None
    by_leader: list[bool] | None = None
    cursor: int = NO_OFFSET
    """L10: where the run begins that the one message opens."""
    batch: bytes = b""
    """L11: the id of the batch that the one message ends."""

    def at(self, places: Sequence[int]) -> WantedAnswers:
        """The same of the messages at these places."""
        return WantedAnswers(
            [self.replies[place] for place in places],
            None if self.full is None else [self.full[place] for place in places],
            None if self.enveloped is None else [self.enveloped[place] for place in places],
            None if self.by_leader is None else [self.by_leader[place] for place in places],
            self.cursor,
            self.batch,
        )

    def of_policy(self, by_leader: bool) -> WantedAnswers:
        """The same, but that nobody is answered who wants the leader's word, or all who want more than it."""
        if self.by_leader is None:
            return self
        pairs = zip(self.replies, self.by_leader, strict=True)
        replies = [reply if wants is by_leader else b"" for reply, wants in pairs]
        return self._replace(replies=replies, by_leader=None)


def answers_to(
    ctx: Context,
    messages: Sequence[Message],
    wishes: Sequence[Wishes] | None,
    patterns: Sequence[str],
    received_ms: int,
) -> WantedAnswers:
    """Who wants which answer. `patterns`: the partition's subjects, and when the messages came, for those
    who are told that.
    """
    if wishes is None:
        return WantedAnswers([message.reply for message in messages])
    replies = []
    for message, wish in zip(messages, wishes, strict=True):
        reply = wish.answered_at(message.reply)
        wanted = not reply or ctx.decides(("R4.none", wish.policy != NONE))
        replies.append(reply if wanted else b"")
    full = [wish.full_ack for wish in wishes]
    by_leader = [wish.policy == LEADER for wish in wishes]
    enveloped = [
        wish.enveloped(message.subject, attached_to(patterns, message.subject), received_ms)
        for message, wish in zip(messages, wishes, strict=True)
    ]
    if ctx.mutants.correlation_of_another:
        last = next(filter(None, reversed(enveloped)), None)
        enveloped = [last if one is not None else None for one in enveloped]
    return WantedAnswers(
        replies,
        full if any(full) else None,
        enveloped if any(enveloped) else None,
        by_leader if any(by_leader) else None,
        wishes[0].granted if len(wishes) == 1 else NO_OFFSET,
        wishes[0].whole.id if len(wishes) == 1 and wishes[0].whole is not None else b"",
    )
