"""The event heap: order, time, and the hash that proves that two runs were the same."""

from __future__ import annotations

import pytest

from liftlog_sim.chance.chances import Chances
from liftlog_sim.devices.clock import SimClock, SimRandom
from liftlog_sim.kernel import STANDSTILL, Kernel, TimeStands


def test_things_happen_by_time_and_then_in_the_order_of_scheduling() -> None:
    kernel = Kernel()
    seen: list[str] = []
    kernel.after(20, lambda a, b: seen.append(a), "late")
    kernel.after(10, lambda a, b: seen.append(a), "first")
    kernel.after(10, lambda a, b: seen.append(a), "second")
    kernel.at(5, lambda a, b: kernel.after(0, lambda c, d: seen.append(c), a), "nested")
    kernel.run_until(30)
    assert seen == ["nested", "first", "second", "late"]
    assert kernel.now_us == 30 and kernel.events == 5


def test_what_is_due_later_waits() -> None:
    kernel = Kernel()
    seen: list[int] = []
    kernel.after(100, lambda a, b: seen.append(kernel.now_us))
    kernel.run_until(99)
    assert seen == [] and kernel.next_time_us() == 100
    kernel.run_until(100)
    assert seen == [100] and kernel.next_time_us() is None


def test_the_past_is_now() -> None:
    kernel = Kernel()
    kernel.run_until(50)
    seen: list[int] = []
    kernel.at(10, lambda a, b: seen.append(kernel.now_us))
    kernel.run_until(50)
    assert seen == [50]


def test_the_hash_depends_on_time_and_order() -> None:
    def hash_of(times: list[int]) -> str:
        kernel = Kernel()
        for time_us in times:
            kernel.after(time_us, lambda a, b: None)
        kernel.run_until(100)
        return kernel.trace_hash

    assert hash_of([1, 2]) == hash_of([1, 2])
    assert len({hash_of([1, 2]), hash_of([2, 1]), hash_of([1, 3]), hash_of([1])}) == 4


def test_a_fast_clock_reaches_its_deadlines_earlier() -> None:
    kernel = Kernel()
    clock = SimClock(kernel, rate=1.25)
    assert clock.simulated_us(100.0) == 80_000
    kernel.run_until(80_000)
    assert clock.monotonic_ms() == 100.0


def test_a_paused_clock_reaches_nothing_and_catches_up_afterwards() -> None:
    kernel = Kernel()
    clock = SimClock(kernel)
    kernel.run_until(5_000)
    clock.paused = True
    assert clock.monotonic_ms() < 0
    clock.paused = False
    assert clock.monotonic_ms() == 5.0


def test_random_streams_are_independent_and_repeatable() -> None:
    kernel = Kernel()
    one, same, other = (SimRandom(Chances(kernel, 7).lane(node, "timers")) for node in "aab")
    draws = [one.bits(32) for _ in range(4)]
    assert draws == [same.bits(32) for _ in range(4)]
    assert draws != [other.bits(32) for _ in range(4)]
    assert all(2.0 <= one.uniform(2.0, 3.0) < 3.0 for _ in range(100))


def test_events_are_counted_although_the_last_one_raised() -> None:
    """A run that finds a violation ends by an exception, and still says how far it came."""
    kernel = Kernel()

    def violate(first: object, second: object) -> None:
        raise ValueError("a violation")

    kernel.at(1, lambda first, second: None)
    kernel.at(2, violate)
    kernel.at(3, lambda first, second: None)
    with pytest.raises(ValueError, match="a violation"):
        kernel.run_until(10)
    assert kernel.events == 2


@pytest.mark.parametrize("one_by_one", [False, True])
def test_L5_what_goes_on_for_ever_at_one_moment_is_found(one_by_one: bool) -> None:
    kernel = Kernel()

    def again(first: object, second: object) -> None:
        kernel.after(0, again)

    def many(first: object, second: object) -> None:
        for _ in range(STANDSTILL // 2):
            kernel.after(0, lambda first, second: None)

    kernel.at(1, many)
    kernel.at(2, many)
    kernel.at(3, again)
    with pytest.raises(TimeStands, match=r"50000 things in a row were done at 0\.000003 s"):
        if one_by_one:
            while True:
                kernel.run_next()
        kernel.run_until(10)
    assert kernel.now_us == 3
