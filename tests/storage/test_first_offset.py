"""C7: a log is created where it is to begin; whatever interrupts that, it is made anew or finished."""

from __future__ import annotations

from errno import EIO
from itertools import count
from random import Random

import pytest

from liftlog.messages import CheckpointHw, LogOpened, LogRead, OpenLog, ReadLog
from liftlog.storage.engine import StorageEngine
from liftlog.types import LogOptions, LogSummary, PartitionId, TailState
from liftlog_sim.devices.disk import SimDisk, SimulatedCrash
from tests.storage.storage_harness import append, durable, run
from tests.storage.twin import ScriptedDisk

FIRST = 40
LOG, OTHER = PartitionId(7, 0), PartitionId(7, 1)


def started(disk: SimDisk, run_number: int = 1) -> tuple[StorageEngine, dict[PartitionId, LogSummary]]:
    engine = StorageEngine(disk)
    found = engine.recover(1, "disk-1", run_number)
    return engine, {summary.log: summary for summary in found.logs}


def opened(engine: StorageEngine, fresh: bool = False) -> LogSummary:
    (event,) = run(engine, OpenLog(LOG, fresh, LogOptions(), FIRST))
    assert isinstance(event, LogOpened), event
    return event.summary


def goes_on(engine: StorageEngine) -> None:
    assert run(engine, append(FIRST, [b"one", b"two"], 1, log=LOG)) == durable(1)
    (read,) = engine.write([ReadLog(LOG, 1, FIRST, FIRST + 2, 1000)])
    assert isinstance(read, LogRead) and read.batches[0].base_offset == FIRST


def ends(summary: LogSummary) -> tuple[int, int, int]:
    return summary.log_start, summary.leo, summary.hw


def test_a_log_is_created_empty_at_its_first_offset_and_others_at_0() -> None:
    engine, _ = started(SimDisk(Random(1)))
    one, other = run(engine, OpenLog(LOG, first=FIRST), OpenLog(OTHER))
    assert isinstance(one, LogOpened) and isinstance(other, LogOpened)
    assert (ends(one.summary), ends(other.summary)) == ((FIRST, FIRST, 0), (0, 0, 0))
    goes_on(engine)
    assert ends(opened(engine)) == (FIRST, FIRST + 2, 0)
    assert ends(opened(engine, fresh=True)) == (FIRST, FIRST, 0)


@pytest.mark.parametrize("fresh", [False, True])
def test_it_may_die_at_each_call_to_the_disk(fresh: bool) -> None:
    seen: set[tuple[int, int]] = set()
    for number in count(1):
        disk = SimDisk(Random(number))
        engine, _ = started(disk)
        if fresh:
            run(engine, OpenLog(LOG), append(0, [b"of before"], 1, log=LOG), CheckpointHw(LOG, 1))
        disk.crash_after(number)
        try:
            run(engine, OpenLog(LOG, fresh, LogOptions(), FIRST))
        except SimulatedCrash:
            pass
        else:
            break
        if number % 2:
            disk.kill()
        else:
            disk.power_loss(Random(number))
        engine, found = started(disk, 2)
        summary = found.get(LOG)
        if summary is not None:
            assert summary.tail is TailState.INTACT and not summary.damage
            seen.add((summary.log_start, summary.leo))
        # As the core does: what ends below the first offset is made anew.
        short = summary is not None and summary.leo < FIRST
        assert ends(opened(engine, fresh=short)) == (FIRST, FIRST, 0)
        goes_on(engine)
    assert number > 10
    assert {(0, 0), (FIRST, FIRST)} <= seen <= {(0, 0), (0, 1), (FIRST, FIRST)}


def test_each_call_to_the_disk_may_fail_and_the_next_attempt_succeeds() -> None:
    for number in count(1):
        disk = ScriptedDisk(Random(number))
        engine, _ = started(disk)
        disk.fail_call(number, EIO)
        (event,) = run(engine, OpenLog(LOG, False, LogOptions(), FIRST))
        if disk.fails_later:
            break
        summary = event.summary if isinstance(event, LogOpened) else opened(engine)
        assert ends(summary) == (FIRST, FIRST, 0)
        goes_on(engine)
    assert number > 10
