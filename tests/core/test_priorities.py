"""Priority groups (K10): whom of those that pull a leader gives messages."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.messages import (
    TOLD_PINNED,
    TOLD_UNPINNED,
    AlterConsumerRequest,
    ConsumerConfig,
    CreateConsumerRequest,
    DoneReply,
    ErrorReply,
    PullReply,
    PullRequest,
    UnpinRequest,
)
from tests.core.test_consumers import asks, given_to, info, made, ready

OVERFLOW = ConsumerConfig(priority="overflow", groups=("g", "h"))
PINNED = ConsumerConfig(priority="pinned_client", groups=("g",), pin_ms=1000)
NUMBERED = ConsumerConfig(priority="prioritized", groups=("g",))


class Consumer:
    """One with a priority, and so many messages in its stream."""

    def __init__(self, config: ConsumerConfig, count: int = 3) -> None:
        self.world, self.partition = ready(count)
        self.number = made(self.world, self.partition, config)

    def request(self, messages: int = 1, wait_ms: int = 0, **more: Any) -> PullRequest:
        return PullRequest(self.partition, self.number, messages, wait_ms=wait_ms, **({"group": "g"} | more))

    def pull(self, messages: int = 1, wait_ms: int = 0, **more: Any) -> Any:
        return asks(self.world, self.partition, self.request(messages, wait_ms, **more))

    def waits(self, messages: int = 1, wait_ms: int = 9000, **more: Any) -> int:
        """The number of a pull that waits."""
        leader = self.world.leader(self.partition)
        asked = self.world.ask(leader, self.request(messages, wait_ms, **more))
        self.world.run(0.2)
        return asked

    def got(self, asked: int) -> list[int] | str | None:
        """What that was given; an error's code; None: it waits yet."""
        reply = self.world.replies.get(asked)
        if isinstance(reply, ErrorReply):
            return reply.code
        return None if reply is None else list(given_to(reply))

    def publish(self, *values: bytes) -> None:
        self.world.publish(self.partition, *values)
        self.world.run(0.4)


def offsets(reply: PullReply) -> list[int]:
    return list(given_to(reply))


# -- overflow -------------------------------------------------------------------------------------------


def test_k10_a_pull_waits_until_so_many_are_to_come() -> None:
    consumer = Consumer(OVERFLOW)
    assert offsets(consumer.pull(min_pending=4)) == []
    asked = consumer.waits(min_pending=4)
    assert consumer.got(asked) is None
    consumer.publish(b"3")
    assert consumer.got(asked) == [0]


def test_k10_a_minimum_is_looked_at_for_each_message() -> None:
    consumer = Consumer(OVERFLOW, 5)
    assert offsets(consumer.pull(9, min_pending=4)) == [0, 1]
    assert offsets(consumer.pull(9, min_pending=4)) == []
    assert offsets(consumer.pull(9, group="h")) == [2, 3, 4]


def test_k10_a_pull_waits_until_so_many_wait_for_acks() -> None:
    consumer = Consumer(OVERFLOW)
    asked = consumer.waits(9, min_ack_pending=1)
    assert consumer.got(asked) is None
    assert offsets(consumer.pull()) == [0]
    consumer.world.run(1)
    assert consumer.got(asked) == [1, 2]


def test_k10_one_of_two_minima_is_enough() -> None:
    consumer = Consumer(OVERFLOW, 5)
    # After two by the one minimum two wait for acks, which is enough by the other.
    assert offsets(consumer.pull(9, min_pending=4, min_ack_pending=2)) == [0, 1, 2, 3, 4]


def test_k10_of_two_minima_neither_is_reached() -> None:
    consumer = Consumer(OVERFLOW, 5)
    assert offsets(consumer.pull(9, min_pending=4, min_ack_pending=3)) == [0, 1]


def test_k10_a_minimum_counts_what_the_filters_match() -> None:
    consumer = Consumer(ConsumerConfig(filter="elsewhere", priority="overflow", groups=("g",)))
    assert offsets(consumer.pull(min_pending=1)) == []


def test_k10_what_comes_again_counts_itself() -> None:
    config = ConsumerConfig(ack_wait_ms=500, priority="overflow", groups=("g",))
    consumer = Consumer(config, 1)
    assert offsets(consumer.pull(min_pending=1)) == [0]
    assert offsets(consumer.pull(wait_ms=3000, min_pending=1)) == [0]
    assert offsets(consumer.pull(wait_ms=2000, min_pending=2)) == []


def test_k10_who_is_below_its_minimum_holds_up_nobody() -> None:
    consumer = Consumer(OVERFLOW, 1)
    asked = consumer.waits(min_pending=9)
    assert offsets(consumer.pull()) == [0]
    assert consumer.got(asked) is None


# -- prioritized ----------------------------------------------------------------------------------------


def test_k10_the_least_number_goes_first_and_equals_by_time() -> None:
    consumer = Consumer(NUMBERED, 0)
    late, first, second = (consumer.waits(priority=number) for number in (5, 1, 1))
    consumer.publish(b"0")
    consumer.publish(b"1")
    consumer.publish(b"2")
    assert [consumer.got(one) for one in (first, second, late)] == [[0], [1], [2]]


# -- pinned_client --------------------------------------------------------------------------------------


def told_of(consumer: Consumer) -> list[tuple[str, str, str]]:
    return [(one.kind, one.pin, one.reason) for one in consumer.world.advisories]


def test_k10_one_client_is_pinned_and_others_wait() -> None:
    consumer = Consumer(PINNED)
    first = consumer.pull()
    assert offsets(first) == [0] and first.pin
    other = consumer.waits(wait_ms=500)
    assert offsets(consumer.pull(pin=first.pin)) == [1]
    told = info(consumer.world, consumer.partition)
    assert told.pin == first.pin and told.pinned_ms > 0
    wrong = consumer.pull(pin="wrong")
    assert (wrong.code, wrong.retryable) == ("pin-other", False)
    consumer.world.run(0.5)
    assert consumer.got(other) == []


def test_k10_a_pin_is_lost_when_no_pull_begins_with_it() -> None:
    consumer = Consumer(PINNED)
    pin = consumer.pull().pin
    waits = consumer.waits()
    consumer.world.run(1.5)
    assert consumer.got(waits) == [1]
    after = consumer.world.replies[waits].pin
    assert after and after != pin
    kinds = [kind for kind, _, _ in told_of(consumer)]
    assert kinds == [TOLD_PINNED, TOLD_UNPINNED, TOLD_PINNED]
    assert told_of(consumer)[1] == (TOLD_UNPINNED, "", "timeout")


def test_k10_a_pull_that_begins_holds_the_pin() -> None:
    consumer = Consumer(PINNED, 0)
    asked = consumer.waits()
    consumer.publish(b"0")
    pin = consumer.world.replies[asked].pin
    for _ in range(6):
        consumer.pull(wait_ms=100, pin=pin)
        consumer.world.run(0.4)
    assert info(consumer.world, consumer.partition).pin == pin


def test_k10_a_pull_that_goes_on_does_not_hold_it() -> None:
    consumer = Consumer(PINNED, 1)
    pin = consumer.pull().pin
    for _ in range(6):
        consumer.pull(wait_ms=100, pin=pin, begins=False)
        consumer.world.run(0.4)
    assert info(consumer.world, consumer.partition).pin == ""
    asked = consumer.waits(pin=pin, begins=False)
    assert consumer.got(asked) is None
    consumer.publish(b"1")
    assert consumer.got(asked) == "pin-lost"


def test_k10_who_waits_with_a_lost_pin_is_told_when_another_is_pinned() -> None:
    consumer = Consumer(PINNED, 1)
    pin = consumer.pull().pin
    others = consumer.waits()
    lost = consumer.waits(pin=pin, begins=False)
    consumer.world.run(1.5)
    assert consumer.got(lost) is None, "nobody is pinned, and there is nothing to be given"
    consumer.publish(b"1")
    assert (consumer.got(others), consumer.got(lost)) == ([1], "pin-lost")
    assert consumer.pull(pin=pin, begins=False).code == "pin-lost"
    assert consumer.pull(pin=pin).code == "pin-other"


def test_k10_a_pin_is_taken_away() -> None:
    consumer = Consumer(PINNED)
    pin = consumer.pull().pin
    waits = consumer.waits()
    unpin = UnpinRequest(consumer.partition, consumer.number, "g")
    assert isinstance(asks(consumer.world, consumer.partition, unpin), DoneReply)
    consumer.world.run(0.5)
    assert consumer.got(waits) == [1]
    assert (TOLD_UNPINNED, "", "admin") in told_of(consumer)
    assert info(consumer.world, consumer.partition).pin not in ("", pin)
    other = UnpinRequest(consumer.partition, consumer.number, "h")
    assert asks(consumer.world, consumer.partition, other).code == "invalid"


def test_k10_the_next_leader_takes_no_pin_for_its_own() -> None:
    consumer = Consumer(PINNED)
    pin = consumer.pull().pin
    world, before = consumer.world, consumer.world.leader(consumer.partition)
    world.kill(before)
    assert world.run_until(lambda: world.leader(consumer.partition) not in (0, before))
    assert consumer.pull(wait_ms=3000, pin=pin).code == "pin-lost"
    after = consumer.pull(wait_ms=3000)
    assert offsets(after) and after.pin != pin


# -- what is refused ------------------------------------------------------------------------------------

MEANT = [
    (OVERFLOW, {"group": "x"}, "group 'x' is none of this consumer: name one of g, h"),
    (OVERFLOW, {"group": ""}, "group '' is none of this consumer: name one of g, h"),
    (OVERFLOW, {"pin": "1-1"}, "pin means nothing"),
    (PINNED, {"min_pending": 1}, "min_pending means nothing"),
    (PINNED, {"min_ack_pending": 1}, "min_ack_pending means nothing"),
    (OVERFLOW, {"priority": 1}, "priority means nothing"),
    (ConsumerConfig(), {"group": "g"}, "group means nothing"),
]


@pytest.mark.parametrize(("config", "named", "problem"), MEANT)
def test_k10_what_a_pull_cannot_name_is_refused(
    config: ConsumerConfig, named: dict[str, Any], problem: str
) -> None:
    reply = Consumer(config, 0).pull(**named)
    assert (reply.code, reply.retryable) == ("invalid", False)
    assert problem in reply.description


NOT_MADE = [
    ({"priority": "loudest", "groups": ("g",)}, "priority 'loudest' is not one of overflow,"),
    ({"priority": "overflow"}, "name both, or neither"),
    ({"groups": ("g",)}, "name both, or neither"),
    ({"priority": "overflow", "groups": ("a b",)}, "'a b' is no name of a group"),
    ({"priority": "overflow", "groups": ("g" * 17,)}, "is no name of a group"),
    ({"priority": "overflow", "groups": ("g", "g")}, "two have one name"),
    ({"priority": "overflow", "groups": ("g",), "pin_ms": 5}, "pin_ms means nothing"),
]


@pytest.mark.parametrize(("named", "problem"), NOT_MADE)
def test_k10_what_is_no_priority_is_refused(named: dict[str, Any], problem: str) -> None:
    world, partition = ready(0)
    reply = asks(world, partition, CreateConsumerRequest(partition, "c", ConsumerConfig(**named)))
    assert reply.code == "invalid" and problem in reply.description


def test_k10_a_priority_is_not_altered() -> None:
    consumer = Consumer(OVERFLOW, 0)
    other = ConsumerConfig()
    request = AlterConsumerRequest(consumer.partition, consumer.number, OVERFLOW, other)
    reply = asks(consumer.world, consumer.partition, request)
    assert reply.description.startswith("priority of a consumer stays 'overflow'")
