"""A queue against a list in memory, driven by hypothesis, with crashes, power losses and reopenings between.

The model is a list of items, a first index and a front per group, with what is durable of them. After a crash
the queue may have fallen back, within the promised bounds; then the model follows it.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from liftlog.queue import IndexOutOfBounds, QueueOptions
from liftlog_sim.devices.disk import SimDisk
from tests.queue.queue_harness import HandClock, open_on

GROUPS = st.sampled_from(["", "a", "b"])
ITEM = st.binary(max_size=300)


class QueueMachine(RuleBasedStateMachine):
    """`items[i]` is (timestamp, value) of index i, removed ones included."""

    @initialize(
        durability=st.sampled_from(["os", "sync"]),
        fronts=st.sampled_from(["auto", "commit"]),
        repeat_max=st.sampled_from([1, 3, 1000]),
        codec=st.sampled_from(["none", "zstd"]),
        seed=st.integers(0, 1 << 20),
    )
    def start(self, durability: str, fronts: str, repeat_max: int, codec: str, seed: int) -> None:
        self.options = QueueOptions(
            durability=durability, fronts=fronts, repeat_max=repeat_max, codec=codec, segment_bytes=500
        )
        self.random = Random(seed)
        self.disk = SimDisk(Random(seed))
        self.clock = HandClock(0)
        self.queue = open_on(self.disk, self.options, self.clock)
        self.items: list[tuple[int, bytes]] = []
        self.first = 0
        self.durable_end = 0
        self.fronts: dict[str, int] = {}
        self.saved: dict[str, int] = {}

    def front(self, group: str) -> int:
        return max(self.fronts.get(group, 0), self.first)

    def save(self, group: str, front: int) -> None:
        self.saved[group] = front
        self.durable_end = max(self.durable_end, front)

    @rule(values=st.lists(ITEM, max_size=8), passed_ms=st.integers(-5, 20))
    def enqueue(self, values: list[bytes], passed_ms: int) -> None:
        self.clock.now_ms += passed_ms
        assert self.queue.enqueue_many(values) == len(self.items)
        stamp = max(self.clock.now_ms, self.items[-1][0] if self.items else 0)
        self.items += [(stamp, value) for value in values]
        if self.options.durability == "sync":
            self.durable_end = len(self.items)

    @rule(group=GROUPS, count=st.integers(1, 6))
    def dequeue(self, group: str, count: int) -> None:
        front = self.front(group)
        expected = [value for _, value in self.items[front : front + count]]
        assert self.queue.dequeue_many(group, max_items=count) == expected
        if self.options.fronts == "auto":
            saved = max(self.saved.get(group, 0), self.first)
            if front + len(expected) - saved > self.options.repeat_max and front > saved:
                self.save(group, front)
        self.fronts[group] = front + len(expected)

    @rule(group=GROUPS)
    def peek(self, group: str) -> None:
        front = self.front(group)
        expected = self.items[front][1] if front < len(self.items) else None
        assert self.queue.peek(group) == expected
        assert self.queue.is_empty(group) == (expected is None)
        assert self.queue.size(group) == len(self.items) - front

    @rule(index=st.integers(0, 60))
    def get(self, index: int) -> None:
        if self.first <= index < len(self.items):
            found = self.queue.item(index)
            assert (found.timestamp_ms, found.value) == self.items[index]
        else:
            with pytest.raises(IndexOutOfBounds):
                self.queue.get(index)

    @rule(group=GROUPS, behind=st.integers(0, 3))
    def commit(self, group: str, behind: int) -> None:
        index = max(self.front(group) - behind, self.first)
        self.queue.commit(group, index)
        self.fronts[group] = self.front(group)
        self.save(group, index)

    @rule(group=GROUPS, place=st.integers(0, 100))
    def move_front(self, group: str, place: int) -> None:
        index = self.first + place % (len(self.items) - self.first + 1)
        assert self.queue.move_front(group, index) == index
        self.fronts[group] = index
        self.save(group, index)

    @rule()
    def flush(self) -> None:
        self.queue.flush()
        self.flushed()

    def flushed(self) -> None:
        self.durable_end = len(self.items)
        if self.options.fronts == "auto":
            self.saved |= self.fronts

    @rule(back=st.integers(0, 40))
    def remove_before(self, back: int) -> None:
        time = (self.items[-1][0] if self.items else 0) - back
        expected = next((i for i, (stamp, _) in enumerate(self.items) if stamp >= time), len(self.items))
        self.first = max(self.first, expected)
        assert self.queue.remove_before(time) == self.first
        self.durable_end = max(self.durable_end, self.first)

    @rule(bytes_max=st.integers(0, 3000))
    def limit(self, bytes_max: int) -> None:
        had = self.queue.back_file_size()
        first = self.queue.limit_back_file_size(bytes_max)
        assert first >= self.first and (first == self.first or had > bytes_max)
        self.first = first
        self.durable_end = max(self.durable_end, first)

    @rule(time=st.integers(0, 400))
    def find_closest(self, time: int) -> None:
        stored = range(self.first, len(self.items))
        if not stored:
            return
        distance = min(abs(self.items[index][0] - time) for index in stored)
        expected = next(index for index in stored if abs(self.items[index][0] - time) == distance)
        assert self.queue.find_closest_index(time) == expected

    @rule()
    def close_and_open(self) -> None:
        self.queue.close()
        self.flushed()
        self.disk.kill()
        self.after(lost_power=False)

    @rule()
    def kill(self) -> None:
        self.disk.kill()
        self.after(lost_power=False)

    @rule()
    def power_loss(self) -> None:
        self.disk.power_loss(self.random)
        self.after(lost_power=True)

    def after(self, lost_power: bool) -> None:
        """A new process: within the bounds, the model becomes what was found."""
        self.queue = open_on(self.disk, self.options, self.clock)
        end = self.queue.end_index
        assert (self.durable_end if lost_power else len(self.items)) <= end <= len(self.items)
        del self.items[end:]
        for group in ("", "a", "b"):
            saved = self.saved.get(group, 0)
            assert self.queue.front(group) == max(saved, self.first), group
        self.fronts = dict(self.saved)
        self.durable_end = end

    @invariant()
    def stored_items_are_the_model_s(self) -> None:
        if hasattr(self, "queue"):
            assert (self.queue.first_index, self.queue.end_index) == (self.first, len(self.items))
            assert list(self.queue) == [value for _, value in self.items[self.first :]]


TestQueueMachine = QueueMachine.TestCase
TestQueueMachine.settings = settings(
    max_examples=60,
    stateful_step_count=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
