"""The contracts of what a process is: a write that breaks one ends the node."""

from __future__ import annotations

import pytest

from liftlog.core.status import Status
from liftlog.nodeconfig import NodeConfig
from liftlog.types import InvariantViolation


def status() -> Status:
    return Status(NodeConfig(1, voters=(1, 2, 3)))


def test_I2_a_run_has_one_incarnation() -> None:
    one = status()
    one.begin_run(7)
    with pytest.raises(InvariantViolation, match="incarnation 8 in the run of 7"):
        one.begin_run(8)
    assert one.incarnation == 7


def test_the_monotonic_clock_never_goes_back() -> None:
    one = status()
    one.see_clocks(5.0, 100)
    one.see_clocks(5.0)
    with pytest.raises(InvariantViolation, match=r"the clock goes back from 5\.0 to 4\.5 ms"):
        one.see_clocks(4.5, 200)
    assert (one.now_ms, one.wall_ms) == (5.0, 100)


def test_the_wall_clock_may_go_anywhere() -> None:
    one = status()
    one.see_clocks(1.0, 100)
    one.see_clocks(2.0, 50)
    assert one.wall_ms == 50
