"""A crash at every Disk call of a queue's life: of dequeue, save, removal, opening, closing and deletion.

After a kill nothing that was stored is missing; after a power loss nothing that was durable. No front is
above what its group was handed, so nothing is passed over; none is below what was saved. What a restart found
is found again by the next one, and the queue goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import pytest

from liftlog.queue import BigQueue, QueueOptions
from liftlog_sim.devices.disk import SimDisk, SimulatedCrash
from tests.queue.queue_harness import numbered, open_on, reopen
from tests.queue.queue_life import CRASHES, Life, goes_on, life_at

pytestmark = pytest.mark.slow

OPTIONS = {
    "auto": QueueOptions(segment_bytes=600, repeat_max=2),
    "each": QueueOptions(segment_bytes=600, repeat_max=1, durability="sync"),
    "commit": QueueOptions(segment_bytes=600, fronts="commit"),
}


def lives(options: QueueOptions, seed: int) -> Iterator[tuple[int, Life]]:
    """A life for every Disk call at which it can end, and one that ended by itself."""
    at_call = 0
    crashed = True
    while crashed:
        at_call += 1
        life, crashed = life_at(options, at_call, seed)
        yield at_call, life


@pytest.mark.parametrize("crash_name", sorted(CRASHES))
@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_D4_a_crash_at_any_disk_call_loses_nothing_promised_and_passes_over_no_item(
    name: str, crash_name: str
) -> None:
    points = 0
    for at_call, life in lives(OPTIONS[name], points):
        random = Random(at_call)
        CRASHES[crash_name](life.disk, random)
        problem = goes_on(life, random, crash_name != "kill")
        assert not problem, f"{crash_name} at call {at_call}: {problem}"
        points += 1
    assert points > 150, "the script became too short to show anything"


@pytest.mark.parametrize("first", ["kill", "power"])
@pytest.mark.parametrize("second", ["kill", "power"])
def test_D4_a_crash_at_any_disk_call_of_an_opening_is_recovered_from(first: str, second: str) -> None:
    """Every 23rd crash point of the life, another row for each pair; every call of the opening after it."""
    at_call = {"kill": 1, "power": 2}[first] * 3 + {"kill": 1, "power": 2}[second]
    alive = True
    while alive:
        within = 0
        crashed = True
        while crashed:
            within += 1
            life, alive = life_at(OPTIONS["auto"], at_call)
            random = Random(at_call * 1009 + within)
            CRASHES[first](life.disk, random)
            life.disk.crash_after(within)
            try:
                open_on(life.disk, life.options, life.clock)
                crashed = False
            except SimulatedCrash:
                pass
            CRASHES[second](life.disk, random)
            problem = goes_on(life, random, "power" in (first, second))
            assert not problem, f"{first} at call {at_call}, {second} at {within} of the opening: {problem}"
        at_call += 23


@pytest.mark.parametrize("crash_name", ["kill", "power"])
def test_D4_a_crash_at_any_disk_call_of_the_creation_leaves_a_queue_or_nothing(crash_name: str) -> None:
    within = 0
    opened = False
    while not opened:
        within += 1
        disk = SimDisk(Random(within))
        disk.crash_after(within)
        try:
            open_on(disk)
            opened = True
        except SimulatedCrash:
            pass
        CRASHES[crash_name](disk, Random(within))
        queue = open_on(disk)
        assert queue.enqueue_many(numbered(0, 3)) == 0
        assert list(reopen(disk)) == numbered(0, 3)


@pytest.mark.parametrize("crash_name", ["kill", "power"])
def test_D4_a_crash_at_any_disk_call_of_a_deletion_leaves_all_or_nothing(crash_name: str) -> None:
    outcomes = set()
    for seed in range(8):
        within = 0
        deleted = False
        while not deleted:
            within += 1
            disk = SimDisk(Random(within))
            queue = open_on(disk)
            queue.enqueue_many(numbered(0, 30))
            queue.dequeue_many("g", max_items=3)
            queue.flush()
            disk.crash_after(within)
            try:
                queue.delete()
                deleted = True
            except SimulatedCrash:
                pass
            CRASHES[crash_name](disk, Random(seed))
            queue = open_on(disk)
            found = (len(queue), queue.groups())
            assert found in ((30, {"g": 3}), (0, {})), found
            assert not (deleted and len(queue)), "it had returned"
            outcomes.add(len(queue))
            assert queue.enqueue(b"on") == len(queue) - 1
    assert outcomes == {0, 30}


def test_a_saved_front_never_lies_above_the_durable_end_of_the_log() -> None:
    """Else new items would get the indexes of lost ones, and the group would pass over them."""
    disk = SimDisk(Random(3))
    queue = open_on(disk, QueueOptions(repeat_max=1))
    queue.enqueue_many(numbered(0, 5))
    assert [queue.dequeue() for _ in range(4)] == numbered(0, 4)
    disk.power_loss(Random(1))
    queue = open_on(disk)
    assert queue.front() == 3 and list(queue) == numbered(0, 5)


def test_fronts_are_written_anew_after_an_unclean_stop() -> None:
    """The rename of the process before may not be durable: a power loss would bring an older file back."""
    disk = SimDisk(Random(0))
    queue = open_on(disk)
    queue.enqueue_many(numbered(0, 9))
    queue.move_front("g", 8)
    disk.crash_after(calls_until_rename_is_made(disk, queue))
    with pytest.raises(SimulatedCrash):
        queue.move_front("g", 2)
    queue = reopen(disk)
    assert queue.front("g") == 2
    for seed in range(8):
        disk.power_loss(Random(seed))
        assert open_on(disk).front("g") == 2


def calls_until_rename_is_made(disk: SimDisk, queue: BigQueue) -> int:
    """Disk calls of moving a front, up to the sync of the folder, which is the last one."""
    before = disk.calls
    queue.move_front("g", 8)
    return disk.calls - before
