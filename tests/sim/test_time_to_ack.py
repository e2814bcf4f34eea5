"""TimeToAck fires for a leader that delivers again, or gives up, what it is recording."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from liftlog.core.consumers.entries import (
    ACKED,
    AT_LIMIT,
    TERMINATED,
    ConsumerEntry,
    Dead,
    Delivered,
    Done,
    encode_entry,
)
from liftlog.format import encode_values
from liftlog.types import PartitionId
from liftlog_sim.truth.invariants import Checks, Violation
from liftlog_sim.watching.time_to_ack import RecordedDeliveries

PARTITION = PartitionId(7, 0)
JOURNAL = PARTITION.journal


class Led:
    """A journal that one node leads, of which `hw` entries are committed."""

    def __init__(self) -> None:
        self.checks = Checks()
        self.deliveries = RecordedDeliveries(self.checks)
        self.replica = SimpleNamespace(leading=object(), epoch=3, hw=0)
        node = SimpleNamespace(replicas={JOURNAL: self.replica, PARTITION: self.replica})
        self.machine: Any = SimpleNamespace(number=1, restarts=0, node=node)
        self.end = 0

    def wrote(self, entry: ConsumerEntry, log: PartitionId = JOURNAL) -> None:
        batch = encode_values(log, self.end, self.replica.epoch, 0, [encode_entry(entry)])
        self.end += 1
        self.deliveries.stores(self.machine, log, [batch])

    def delivered(self, offset: int, count: int) -> None:
        self.wrote(Delivered(1, 9, [], [(offset, 1, count)]))


def test_a_first_delivery_may_have_left_before_its_record() -> None:
    led = Led()
    led.delivered(4, 1)
    led.delivered(4, 2)
    assert led.checks.counts["TimeToAck"] == 2
    led.replica.hw = 2
    led.delivered(4, 3)


@pytest.mark.parametrize("last", [None, Done(1, AT_LIMIT, [(4, 1)]), Dead(1, AT_LIMIT, [(4, 1)])])
def test_what_is_being_recorded_is_neither_delivered_again_nor_given_up(last: Any) -> None:
    led = Led()
    led.delivered(4, 1)
    led.delivered(4, 2)
    led.delivered(5, 1)
    led.replica.hw = 1
    with pytest.raises(Violation, match=r"partition 7/0: node 1 writes at 4 .* offset 4 of consumer 1 is"):
        led.wrote(last) if last is not None else led.delivered(4, 3)


def test_clients_may_say_what_they_like_meanwhile_and_another_office_knows_nothing_of_it() -> None:
    led = Led()
    led.delivered(4, 2)
    led.wrote(Done(1, ACKED, [(4, 1)]))
    led.delivered(5, 2)
    led.wrote(Dead(1, TERMINATED, [(5, 1)]))
    led.replica.epoch = 5
    led.delivered(4, 3)
    led.machine.restarts = 1
    led.delivered(4, 4)


def test_who_follows_copies_what_there_is() -> None:
    led = Led()
    led.replica.leading = None
    led.delivered(4, 2)
    led.delivered(4, 3)
    assert led.checks.counts["TimeToAck"] == 0
