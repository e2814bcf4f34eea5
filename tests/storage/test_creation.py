"""Logs that are created together share what they can, and fail each for its own reason (D4, M4, R5)."""

from __future__ import annotations

from random import Random

from liftlog.messages import Event, LogOpened, OpenLog, StorageFailed, TrashLog
from liftlog.storage.engine import StorageEngine
from liftlog.types import PartitionId
from liftlog_sim.devices.disk import SimDisk
from tests.storage.storage_harness import append, durable, run

STREAM = [PartitionId(7, index) for index in range(40)]
OTHER_STREAM = [PartitionId(9, index) for index in range(2)]


class CountingDisk(SimDisk):
    """Counts syncs of folders by path."""

    def __init__(self) -> None:
        super().__init__(Random(1))
        self.synced: dict[str, int] = {}

    def sync_directory(self, path: str) -> None:
        self.synced[path] = self.synced.get(path, 0) + 1
        super().sync_directory(path)


def started(disk: SimDisk) -> StorageEngine:
    engine = StorageEngine(disk)
    engine.recover(1, "disk-1", 1)
    return engine


def told_of(events: list[Event], kind: type[LogOpened | StorageFailed]) -> list[PartitionId]:
    return [
        event.summary.log if isinstance(event, LogOpened) else event.log
        for event in events
        if isinstance(event, LogOpened | StorageFailed) and isinstance(event, kind)
    ]


def test_logs_that_are_created_together_sync_shared_folders_and_the_inventory_once() -> None:
    disk = CountingDisk()
    engine = started(disk)
    disk.synced.clear()
    events = run(engine, *(OpenLog(log) for log in STREAM))
    assert told_of(events, LogOpened) == STREAM
    assert (disk.synced["streams/7"], disk.synced["streams"]) == (1, 1)
    # One for the new folders, one for the inventory.
    assert disk.synced[""] == 2


def test_all_logs_of_a_group_are_there_after_a_power_loss_and_none_counts_as_lost() -> None:
    disk = SimDisk(Random(1))
    engine = started(disk)
    run(engine, *(OpenLog(log) for log in STREAM))
    disk.power_loss(Random(2))
    found = StorageEngine(disk).recover(1, "disk-1", 2)
    assert [summary.log for summary in found.logs] == STREAM
    assert {summary.tail.name for summary in found.logs} <= {"INTACT", "CLEAN"}


def test_a_shared_folder_that_does_not_sync_fails_what_lies_in_it_and_nothing_else() -> None:
    disk = SimDisk(Random(1))
    engine = started(disk)
    run(engine, OpenLog(PartitionId(7, 99)), OpenLog(PartitionId(9, 99)))
    disk.fail_next_sync(ending="streams/7")
    events = run(engine, *(OpenLog(log) for log in (*STREAM, *OTHER_STREAM)))
    assert told_of(events, StorageFailed) == STREAM
    assert all(event.sync for event in events if isinstance(event, StorageFailed))
    assert told_of(events, LogOpened) == OTHER_STREAM
    again = run(engine, *(OpenLog(log) for log in STREAM))
    assert told_of(again, LogOpened) == STREAM


def test_an_inventory_that_is_not_written_fails_all_and_leaves_none_open() -> None:
    disk = SimDisk(Random(1))
    engine = started(disk)
    disk.fail_next_sync(ending="logs.tmp")
    events = run(engine, *(OpenLog(log) for log in STREAM))
    assert told_of(events, StorageFailed) == STREAM
    (refused,) = run(engine, append(0, [b"x"], 1, log=STREAM[0]))
    assert isinstance(refused, StorageFailed)
    assert told_of(run(engine, *(OpenLog(log) for log in STREAM)), LogOpened) == STREAM


def test_openings_keep_their_place_among_the_jobs_of_a_group() -> None:
    engine = started(SimDisk(Random(1)))
    first, second = STREAM[:2]
    events = run(
        engine,
        OpenLog(first),
        append(0, [b"one"], 1, log=first),
        OpenLog(second),
        TrashLog(first),
        OpenLog(first),
        OpenLog(first, fresh=True),
        append(0, [b"two"], 2, log=first),
    )
    assert told_of(events, LogOpened) == [first, second, first, first]
    assert [event for event in events if event in durable(2)] == durable(2)
    assert engine.log_ends()[first] == (1, 1)
