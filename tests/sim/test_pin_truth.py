"""What the simulator knows of whom a leader gives messages (K10): each way to be wrong is told."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.messages import ConsumerConfig, PullReply, PullRequest
from liftlog.types import PartitionId
from liftlog_sim.truth.invariants import Checks, PartitionTruth, Violation
from liftlog_sim.truth.pins import LeaderTime, PinTruth

AT = PartitionId(1, 0)
PINNED = ConsumerConfig(priority="pinned_client", groups=("g",), pin_ms=700)
OVERFLOW = ConsumerConfig(priority="overflow", groups=("g",))


class Pulls:
    """Those of consumer 5, asked and answered one after the other."""

    def __init__(self, config: ConsumerConfig = PINNED) -> None:
        self.truth = PinTruth(PartitionTruth(AT, Checks()))
        self.config = config

    def given(self, pin: str, named: str = "", at: int = 1, **more: Any) -> None:
        """A pull is asked and answered at this tick of the leader of epoch 3."""
        reply = {"to_come": more.pop("to_come", 0), "runs": [(0, 1, more.pop("count", 1))]}
        request = PullRequest(AT, 5, group="g", pin=named, **more)
        self.truth.asks(request)
        time = LeaderTime(at, at, 3)
        self.truth.answered(request, self.config, PullReply(AT, 5, 3, pin=pin, **reply), time)


def test_pinned_alone_a_pin_is_one_client_s() -> None:
    pulls = Pulls()
    pulls.given("3-1")
    pulls.given("3-1", "3-1", at=4)
    with pytest.raises(Violation, match=r"PinnedAlone.*names pin '' is given messages with '3-1'"):
        pulls.given("3-1")


def test_pinned_alone_a_pin_is_of_the_leader_that_gives_it() -> None:
    with pytest.raises(Violation, match=r"PinnedAlone.*epoch 3 gives messages with pin '2-1'"):
        Pulls().given("2-1", "2-1")


def test_pinned_alone_a_pin_is_lost_with_its_time() -> None:
    pulls = Pulls()
    pulls.given("3-1", at=1)
    pulls.given("3-1", "3-1", at=6, begins=False)
    pulls.given("3-1", "3-1", at=7)
    pulls.given("3-1", "3-1", at=12, begins=False)
    with pytest.raises(Violation, match=r"PinnedAlone.*holds 6 ticks.*lasts 3"):
        pulls.given("3-1", "3-1", at=13, begins=False)


def test_pinned_alone_nobody_knows_when_a_pull_came_that_is_not_answered() -> None:
    pulls = Pulls()
    pulls.given("3-1", at=1)
    request = PullRequest(AT, 5, group="g", pin="3-1")
    pulls.truth.asks(request)
    pulls.truth.answered(request, PINNED, None, LeaderTime(2, None, 3))
    pulls.given("3-1", "3-1", at=99, begins=False)


def test_not_below_minimum_of_the_last_message() -> None:
    pulls = Pulls(OVERFLOW)
    pulls.given("", min_pending=4, to_come=3)
    pulls.given("", min_pending=4, to_come=2, count=2)
    pulls.given("", min_pending=4, to_come=-1)
    pulls.given("", min_pending=4, min_ack_pending=1, to_come=0)
    with pytest.raises(Violation, match=r"NotBelowMinimum.*3 to come.*wanted 4"):
        pulls.given("", min_pending=4, to_come=2)
