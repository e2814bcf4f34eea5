"""Stories about consumers: what was asked and told of the one in question, and not of others."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.messages import (
    AlterConsumerRequest,
    ConsumerConfig,
    ConsumerInfo,
    ConsumersReply,
    CreateConsumerRequest,
    DeleteConsumerRequest,
    PullReply,
    PullRequest,
    ReadRequest,
    ResetConsumerRequest,
    SettledReply,
    SettleRequest,
    UnpinRequest,
)
from liftlog.types import PartitionId
from liftlog_sim.explain.cone import partition_in
from liftlog_sim.explain.consumer_words import asked, told
from liftlog_sim.explain.story import focus_of
from liftlog_sim.explain.words import Fact
from liftlog_sim.runs.trace import plain

WHERE = PartitionId(11, 0)
CONFIG = ConsumerConfig(filter="a.*", filters=("b",), deliver="last-per-subject")


@pytest.mark.parametrize(
    ("request_", "text", "who"),
    [
        (
            CreateConsumerRequest(WHERE, "bill", CONFIG),
            "create the consumer 'bill', filtered by a.*, b, from 'last-per-subject'",
            ("bill",),
        ),
        (
            AlterConsumerRequest(WHERE, 7, CONFIG, ConsumerConfig()),
            "have consumer 7 not filtered",
            ("7",),
        ),
        (DeleteConsumerRequest(WHERE, "bill"), "delete the consumer 'bill'", ("bill",)),
        (ResetConsumerRequest(WHERE, "bill", 4), "reset the consumer 'bill' to offset 4", ("bill",)),
        (ResetConsumerRequest(WHERE, "bill", -1), "reset the consumer 'bill' to its floor", ("bill",)),
        (PullRequest(WHERE, 7, 5), "give consumer 7 up to 5 messages", ("7",)),
        (
            SettleRequest(WHERE, 7, "ack", [(1, 1), (3, 2), (8, 1), (10, 1), (12, 1)]),
            "take offsets 1, 3..4, 8 and 2 more of consumer 7 for ack",
            ("7",),
        ),
        (UnpinRequest(WHERE, 7, "g"), "unpin whoever consumer 7 is pinned to", ("7",)),
    ],
)
def test_what_is_asked_of_a_consumer_in_words(request_: Any, text: str, who: tuple[str, ...]) -> None:
    assert asked(*plain(request_)) == (text, who)


@pytest.mark.parametrize(
    ("reply", "text", "who"),
    [
        (PullReply(WHERE, 7, 1), "that nothing came for consumer 7 in time", ("7",)),
        (PullReply(WHERE, 7, 1, 0, [(3, 1, 1)]), "to take offset 3 for consumer 7 without a record", ("7",)),
        (
            PullReply(WHERE, 7, 1, 9, [(3, 2, 2)]),
            "to take offsets 3..4 for consumer 7, as 9 of the journal says",
            ("7",),
        ),
        (
            SettledReply(WHERE, 7, 9, [(3, 1)]),
            "that what it said to consumer 7 stands below 9; of offset 3 it knows no delivery",
            ("7",),
        ),
        (
            ConsumersReply(WHERE, 1, [ConsumerInfo("bill", 7, CONFIG, 5, 4, 1, -1)]),
            "of consumer 7 ('bill', filtered by a.*, b): position 5, floor 4, 1 pending, "
            "nobody knows how many to come",
            ("7", "bill"),
        ),
    ],
)
def test_what_is_told_of_a_consumer_in_words(reply: Any, text: str, who: tuple[str, ...]) -> None:
    assert told(*plain(reply)) == [(text, who)]


def test_other_requests_and_answers_are_said_elsewhere() -> None:
    assert asked(*plain(ReadRequest(WHERE, 0))) is None
    assert told("ReadReply", {}) == []


def test_what_is_said_of_another_consumer_is_not_of_the_essence() -> None:
    focus = focus_of("partition 11/0, consumer 60 ('last-0', limit 0): 57 messages are said to be to come")
    assert focus.consumers == ["60", "last-0"] and focus.partitions == ["11/0"]
    focus.emphasis = "answers"

    def fact(text: str, *who: str) -> Fact:
        return Fact(1, 1, 2.0, "11/0", text, who=who)

    by_number, by_name, other = fact("is told", "60"), fact("is asked", "last-0"), fact("is told", "6")
    assert focus.emphasises(by_number) and focus.emphasises(by_name) and not focus.emphasises(other)
    assert focus.touches(other) < focus.touches(fact("answers a read")) < focus.touches(by_name)


def test_a_journal_is_called_by_one_name() -> None:
    """Once state said 11/0.journal and events 11/1024, and no cause was found from one to the other."""
    assert partition_in({"log": plain(WHERE.journal)}) == "11/0.journal"
    assert partition_in({"log": plain(WHERE)}) == "11/0"
