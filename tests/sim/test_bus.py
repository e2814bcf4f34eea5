"""The simulated NATS behaves like NATS where the protocol can tell."""

from __future__ import annotations

import pytest

from liftlog.messages import (
    AckPublishes,
    BusDown,
    BusUp,
    Drained,
    Event,
    Published,
    RefusePublishes,
    Subscribe,
    Subscribed,
    SubscriptionRefused,
)
from liftlog.types import Message, PartitionId
from liftlog_sim.chance.chances import Chances
from liftlog_sim.devices.bus import BusConnection, SimBus
from liftlog_sim.devices.clock import SimClock
from liftlog_sim.devices.options import BusOptions
from liftlog_sim.kernel import SECOND, Kernel

PARTITION = PartitionId(5, 0)
OPTIONS = BusOptions(latency_us=100, jitter_us=0, subscribe_us=1000, connect_us=1000, notice_us=5000)


class Setup:
    def __init__(self) -> None:
        self.kernel = Kernel()
        self.bus = SimBus(Chances(self.kernel, 1), OPTIONS)
        self.events: list[Event] = []
        self.connection = BusConnection(
            self.bus, self.kernel, 1, SimClock(self.kernel), lambda event: self.events.append(event)
        )

    def run(self, us: int) -> list[Event]:
        """What reaches the node meanwhile."""
        self.events.clear()
        self.kernel.run_until(self.kernel.now_us + us)
        return list(self.events)

    def subscribed(self, subject: str = "orders.*", ack_reply: bool = True) -> None:
        self.run(2000)
        self.connection.subscribe(Subscribe(PARTITION, 3, subject, 1000, ack_reply))
        self.run(5000)


def message(number: int) -> Message:
    return Message(b"orders.new", b"_INBOX.%d" % number, b"", b"value %d" % number)


@pytest.mark.parametrize(
    ("pattern", "subject", "matches"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("*.b", "a.b", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
    ],
)
def test_wildcards_match_as_in_nats(pattern: str, subject: str, matches: bool) -> None:
    setup = Setup()
    setup.subscribed(pattern)
    assert setup.bus.heard(subject.encode()) is matches
    assert setup.bus.publish(subject.encode(), [message(1)]) is matches


def test_a_subscription_is_confirmed_and_then_hears_messages_in_order() -> None:
    setup = Setup()
    assert [type(event) for event in setup.run(2000)] == [BusUp]
    setup.connection.subscribe(Subscribe(PARTITION, 3, "orders.*", 1000, True))
    assert setup.run(5000) == [Subscribed(PARTITION, 3)]
    assert setup.bus.publish(b"orders.new", [message(1), message(2)])
    assert setup.bus.publish(b"orders.new", [message(3)])
    heard = [event for event in setup.run(1000) if isinstance(event, Published)]
    assert [m.value for event in heard for m in event.messages] == [b"value 1", b"value 2", b"value 3"]
    assert {event.epoch for event in heard} == {3}


def test_a_denied_node_is_told_and_heard_nothing_of_until_it_is_allowed_and_asks_again() -> None:
    setup = Setup()
    setup.run(2000)
    setup.bus.deny(1)
    setup.connection.subscribe(Subscribe(PARTITION, 3, "orders.*", 1000, True))
    reason = 'Permissions Violation for Subscription to "orders.*"'
    assert setup.run(5000) == [SubscriptionRefused(PARTITION, 3, reason)]
    assert not setup.bus.heard(b"orders.new") and not setup.bus.held(PARTITION, 3, ["orders.*"])
    setup.bus.allow(1)
    setup.connection.subscribe(Subscribe(PARTITION, 3, "orders.*", 1000, True))
    assert setup.run(5000) == [Subscribed(PARTITION, 3)]
    assert setup.bus.held(PARTITION, 3, ["orders.*"]) and setup.bus.has(1, PARTITION, 3)
    setup.bus.deny(1)
    assert not setup.bus.heard(b"orders.new"), "new permissions take away what there is"
    assert setup.run(5000) == [SubscriptionRefused(PARTITION, 3, reason)]
    assert setup.bus.held(PARTITION, 3, ["orders.*"]) and not setup.bus.has(1, PARTITION, 3)


def test_nobody_subscribed_means_no_responders() -> None:
    setup = Setup()
    setup.run(2000)
    assert not setup.bus.publish(b"orders.new", [message(1)])
    assert setup.bus.unheard == 1


def test_a_message_before_the_subscription_reached_the_server_is_not_heard() -> None:
    setup = Setup()
    setup.run(2000)
    setup.connection.subscribe(Subscribe(PARTITION, 3, "orders.*", 1000, True))
    setup.run(500)
    assert not setup.bus.publish(b"orders.new", [message(1)])
    assert not [event for event in setup.run(5000) if isinstance(event, Published)]


def test_unsubscribing_drops_what_is_under_way() -> None:
    setup = Setup()
    setup.subscribed()
    assert setup.bus.publish(b"orders.new", [message(1)])
    setup.connection.unsubscribe(PARTITION)
    assert setup.run(5000) == []
    assert not setup.bus.publish(b"orders.new", [message(2)])


def test_draining_delivers_what_the_server_had_sent_and_then_says_that_nothing_comes() -> None:
    setup = Setup()
    setup.subscribed()
    setup.connection.drain(PARTITION)
    assert setup.bus.publish(b"orders.new", [message(1)]), "the server has not read the UNSUB yet"
    heard = setup.run(5000)
    assert [type(event) for event in heard] == [Published, Drained]
    assert not setup.bus.publish(b"orders.new", [message(2)])


def test_a_cut_connection_is_noticed_late_and_comes_back_without_subscriptions() -> None:
    setup = Setup()
    setup.subscribed()
    setup.bus.cut(1)
    setup.connection.cable_cut()
    assert setup.bus.publish(b"orders.new", [message(1)]), "the server does not know yet"
    assert [type(event) for event in setup.run(20_000)] == [BusDown]
    assert not setup.bus.publish(b"orders.new", [message(2)])
    setup.bus.restore(1)
    assert [type(event) for event in setup.run(20_000)] == [BusUp]
    assert not setup.bus.publish(b"orders.new", [message(3)])


def test_acks_and_refusals_reach_clients_unless_the_node_is_cut() -> None:
    setup = Setup()
    setup.subscribed()
    seen: list[object] = []
    setup.bus.on_acks = seen.append
    setup.bus.on_refusals = seen.append
    acks = AckPublishes(PARTITION, "orders", 3, 9, 0, [b"_INBOX.1"])
    refusal = RefusePublishes(PARTITION, "orders", 3, "overload", "later", [b"_INBOX.2"])
    setup.connection.acknowledge(acks)
    setup.connection.refuse(refusal)
    setup.run(1000)
    assert seen == [acks, refusal]
    setup.bus.cut(1)
    setup.connection.acknowledge(acks)
    setup.run(1000)
    assert len(seen) == 2


def test_a_dead_process_hears_and_says_nothing() -> None:
    setup = Setup()
    setup.subscribed()
    assert setup.bus.publish(b"orders.new", [message(1)])
    setup.connection.detach()
    setup.connection.acknowledge(AckPublishes(PARTITION, "orders", 3, 9, 0, [b"_INBOX.1"]))
    assert setup.run(SECOND) == []


def test_streams_that_carry_services_do_not_see_the_reply_subject() -> None:
    setup = Setup()
    setup.subscribed(ack_reply=False)
    setup.bus.publish(b"orders.new", [message(1)])
    heard = setup.run(1000)[0]
    assert isinstance(heard, Published)
    assert heard.messages[0].reply == b""
