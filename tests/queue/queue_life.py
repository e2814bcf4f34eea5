"""A queue's life for the crash tests: what it did, what it was promised, and whether that was kept.

`Life` carries out operations on a queue and remembers, at every instant, the bounds between which a restart
must find things. A crash may come at any Disk call within; then only what earlier calls promised counts.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from liftlog.queue import BigQueue, QueueOptions
from liftlog_sim.devices.disk import SimDisk, SimulatedCrash
from tests.queue.queue_harness import HandClock, numbered, open_on


class Life:
    """One process's use of a queue, and the promises it collected."""

    def __init__(self, disk: SimDisk, options: QueueOptions) -> None:
        self.disk = disk
        self.options = options
        self.clock = HandClock(0)
        self.tried: list[bytes] = []
        """By index: every item that may be stored."""
        self.stored_end = 0
        """Items below this were stored by calls that returned: a killed process keeps them."""
        self.durable_end = 0
        """Items below this survive a power loss."""
        self.start_least = 0
        self.start_most = 0
        self.saved: dict[str, int] = {}
        """By group: where a restart must find the front at least."""
        self.handed: dict[str, int] = {}
        """By group: no front may be found above what was handed out."""
        self.fronts: dict[str, int] = {}
        """By group: where this process is."""
        self.queue = self.open()

    def open(self) -> BigQueue:
        return open_on(self.disk, self.options, self.clock)

    def enqueue(self, count: int, size: int = 60) -> None:
        items = numbered(len(self.tried), count, size)
        self.tried += items
        self.queue.enqueue_many(items)
        self.stored_end = len(self.tried)
        self.clock.now_ms += 10
        if self.options.durability == "sync":
            self.durable_end = self.stored_end

    def dequeue(self, group: str, count: int) -> None:
        front = self.fronts.get(group, 0)
        taken = self.queue.take(group, max_items=count)
        for item in taken:
            assert item.value == self.tried[item.index]
            assert item.index == max(front, self.start_least), (group, item.index, front)
            front = item.index + 1
        self.fronts[group] = front
        self.handed[group] = max(front, self.handed.get(group, 0))
        if self.options.fronts == "auto":
            repeated = max(self.options.repeat_max, len(taken))
            self._saved(group, front - repeated)

    def commit(self, group: str, behind: int = 0) -> None:
        index = max(self.fronts[group] - behind, self.queue.first_index)
        self.queue.commit(group, index)
        self._saved(group, index)

    def move_front(self, group: str, index: int) -> None:
        # Both the old and the new place may be found if the call is cut short.
        self.saved[group] = min(index, self.saved.get(group, 0))
        self.handed[group] = max(index, self.handed.get(group, 0))
        self.queue.move_front(group, index)
        self.saved[group] = self.handed[group] = self.fronts[group] = index
        self.durable_end = max(self.durable_end, index)

    def flush(self) -> None:
        self.queue.flush()
        self._flushed()

    def _flushed(self) -> None:
        self.durable_end = self.stored_end
        if self.options.fronts == "auto":
            for group, front in self.fronts.items():
                self._saved(group, front)

    def _saved(self, group: str, front: int) -> None:
        self.saved[group] = max(front, self.saved.get(group, 0))
        self.durable_end = max(self.durable_end, self.saved[group])

    def remove_before(self, timestamp_ms: int) -> None:
        """Each call of `enqueue` moves the clock by 10; items of one call share a timestamp."""
        self.start_most = self.stored_end
        self.start_least = self.start_most = self.queue.remove_before(timestamp_ms)
        self.durable_end = self.stored_end

    def limit(self, bytes_max: int) -> None:
        self.start_most = self.stored_end
        self.start_least = self.start_most = self.queue.limit_back_file_size(bytes_max)
        self.durable_end = max(self.durable_end, self.start_least)

    def close_and_open(self) -> None:
        self.queue.close()
        self._flushed()
        self.disk.kill()
        self.queue = self.open()
        self.fronts = dict(self.saved)

    def broken(self, queue: BigQueue, power_lost: bool) -> str:
        """What a queue that was opened after a crash does not keep, or nothing."""
        first, end = queue.first_index, queue.end_index
        least = self.durable_end if power_lost else self.stored_end
        if not least <= end <= len(self.tried):
            return f"items end at {end}, not within [{least}, {len(self.tried)}]"
        if not self.start_least <= first <= self.start_most:
            return f"items begin at {first}, not within [{self.start_least}, {self.start_most}]"
        found = [(item.index, item.value) for item in queue.items()]
        if found != [(index, self.tried[index]) for index in range(first, end)]:
            return "stored items differ from what was enqueued"
        for group in sorted({*self.saved, *self.handed, *queue.groups()}):
            front = queue.front(group)
            lower, upper = self.saved.get(group, 0), max(self.handed.get(group, 0), first)
            if not lower <= front <= upper:
                return f"the front of {group!r} is {front}, not within [{lower}, {upper}]"
        return ""


def script(life: Life) -> None:
    """Every operation, with items that are durable and items that are not."""
    life.enqueue(3)
    life.dequeue("a", 2)
    life.enqueue(5)
    life.flush()
    life.dequeue("a", 1)
    life.dequeue("a", 1)
    life.dequeue("b", 4)
    life.enqueue(6)
    life.dequeue("b", 8)
    life.commit("b", 2)
    life.enqueue(2, 700)
    life.dequeue("a", 3)
    life.remove_before(20)
    life.dequeue("a", 1)
    life.enqueue(4)
    life.move_front("c", 15)
    life.dequeue("c", 2)
    life.limit(1400)
    life.enqueue(3)
    life.dequeue("", 1)
    life.close_and_open()
    life.dequeue("", 1)
    life.dequeue("a", 2)
    life.enqueue(4)
    life.dequeue("a", 4)
    life.dequeue("a", 4)
    life.enqueue(1)
    life.move_front("c", life.queue.first_index)
    life.remove_before(10**6)
    life.enqueue(2)
    life.flush()
    life.enqueue(2)


Crash = Callable[[SimDisk, Random], None]


def kill(disk: SimDisk, random: Random) -> None:
    disk.kill()


def power_loss(disk: SimDisk, random: Random) -> None:
    disk.power_loss(random)


def kill_then_power_loss(disk: SimDisk, random: Random) -> None:
    """A second process opens what the killed one had left in the page cache; then the power goes."""
    disk.kill()
    open_on(disk)
    disk.power_loss(random)


CRASHES: dict[str, Crash] = {"kill": kill, "power": power_loss, "kill-power": kill_then_power_loss}


def life_at(options: QueueOptions, at_call: int, seed: int = 0) -> tuple[Life, bool]:
    """A life that dies instead of its `at_call`-th Disk call; False if it ended before that."""
    disk = SimDisk(Random(seed * 100_003 + at_call))
    life = Life(disk, options)
    disk.crash_after(at_call)
    try:
        script(life)
    except SimulatedCrash:
        return life, True
    return life, False


def goes_on(life: Life, random: Random, power_lost: bool) -> str:
    """Open, open once more after each kind of crash, then use the queue again. What is wrong, or nothing."""
    queue = open_on(life.disk, life.options, life.clock)
    problem = life.broken(queue, power_lost)
    if problem:
        return problem
    before = list(queue.items()), queue.groups()
    for crash in (kill, power_loss):
        crash(life.disk, random)
        queue = open_on(life.disk, life.options, life.clock)
        if (list(queue.items()), queue.groups()) != before:
            return f"after another {crash.__name__}: {queue.groups()} instead of {before[1]}"
    fronts = queue.groups()
    index = queue.enqueue_many([b"new 1", b"new 2"])
    queue.flush()
    power_loss(life.disk, random)
    queue = open_on(life.disk, life.options, life.clock)
    if [item.value for item in queue.items(index)] != [b"new 1", b"new 2"]:
        return "what was enqueued and flushed after the crash is gone"
    if queue.groups() != fronts:
        return f"new items moved fronts: {queue.groups()} instead of {fronts}"
    return ""
