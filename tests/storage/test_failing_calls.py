"""Every Disk call fails once, and both worlds write the same bytes (D4, D5, R5).

One scripted run goes through everything that changes more than one file: first start, creation, groups
over several logs, rolls, truncation to a segment, into a segment and into a batch, state files,
checkpoints, rebuild, trash, clean stop and the start after it. The run is repeated with each of its
syncs, appends, renames, openings and truncations failing in turn. Storage must report it; the process
then dies of it, and several ends are tried: SIGKILL, power loss with several outcomes, and another kill
or power loss after the recovery. The model knows for each log what *must* be there (reported durable, and
not told to go) and what *may* be (submitted).

Crashes at every call are in `test_crash_points.py`.
"""

from __future__ import annotations

import copy
import errno
import types
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest

from liftlog.format import decode_records
from liftlog.messages import (
    CheckpointHw,
    Event,
    LogOpened,
    LogRead,
    MetadataStalled,
    ReadLog,
    RebuildLog,
    SaveHardState,
    StorageFailed,
    StorageJob,
    TrashLog,
    TruncateLog,
)
from liftlog.ports import Disk
from liftlog.real.disk import RealDisk
from liftlog.storage.engine import StorageEngine
from liftlog.types import (
    RAFT_LOG,
    EpochStart,
    HardState,
    LiftlogError,
    PartitionId,
    Recovered,
    TailState,
    Ticket,
)
from liftlog_sim.devices.disk import SimDisk
from tests.storage.crash_report import TRIED
from tests.storage.crash_script import SegmentLife
from tests.storage.storage_harness import LOG, OTHER, append, durable, new_disk, open_log, run, start
from tests.storage.test_crash_points import CRASHES, check_life_after

pytestmark = pytest.mark.slow

Group = Callable[..., list[Event]]
Line = tuple[int, bytes]
"""Epoch and value of one record."""
LOGS = (RAFT_LOG, LOG, OTHER)
POWER_OUTCOMES = 3


class Stopped(Exception):
    """The scripted run ends here: storage reported a failure, as it should."""


class Model:
    """What a restart has to find."""

    def __init__(self) -> None:
        self.must: dict[PartitionId, list[Line]] = {log: [] for log in LOGS}
        self.may: dict[PartitionId, list[Line]] = {log: [] for log in LOGS}
        self.hard_states = [HardState()]


class Script:
    """Carries out jobs and keeps the model in step."""

    def __init__(self, disk: Disk, model: Model) -> None:
        self.model = model
        self.engine, _ = start(disk)

    def do(self, *jobs: StorageJob) -> list[Event]:
        events = run(self.engine, *jobs)
        if any(isinstance(event, StorageFailed | MetadataStalled) for event in events):
            raise Stopped
        return events

    def put(self, base: int, *batches: list[bytes], epoch: int = 1, log: PartitionId = LOG) -> None:
        """Append batches in one group."""
        jobs = []
        lines = list(self.model.may[log])
        for values in batches:
            jobs.append(append(base, values, 1, epoch, log))
            lines += [(epoch, value) for value in values]
            base += len(values)
        self.model.may[log] = lines
        self.do(*jobs)
        self.model.must[log] = lines

    def shorten(self, log: PartitionId, offset: int, job: StorageJob) -> None:
        """Carry out a job that leaves only what lies below `offset`."""
        self.model.must[log] = self.model.must[log][:offset]
        self.do(job)
        self.model.may[log] = self.model.must[log]

    def vote(self, state: HardState) -> None:
        self.model.hard_states.append(state)
        self.do(SaveHardState(state, Ticket(1)))
        self.model.hard_states = [state]


def first_life(disk: Disk, model: Model) -> None:
    script = Script(disk, model)
    script.do(open_log(LOG))
    script.do(open_log(OTHER))
    script.vote(HardState(1, 2))
    for base in range(0, 12, 3):
        script.put(base, [b"%d" % base * 60, b"b"], [b"c" * 90])
    script.put(0, [b"raft" * 20], log=RAFT_LOG)
    script.put(1, [b"r1", b"r2", b"r3" * 30, b"r4"], epoch=2, log=RAFT_LOG)
    script.do(CheckpointHw(LOG, 9), CheckpointHw(OTHER, 0))
    script.vote(HardState(2, 3))
    script.shorten(LOG, 11, TruncateLog(LOG, 11, Ticket(1)))
    script.put(11, [b"second epoch" * 10], [b"e"], epoch=2)
    script.shorten(RAFT_LOG, 3, TruncateLog(RAFT_LOG, 3, Ticket(1)))
    script.put(3, [b"new" * 40], epoch=5, log=RAFT_LOG)
    script.shorten(LOG, 5, TruncateLog(LOG, 5, Ticket(1)))
    script.put(5, [b"third" * 50], [b"f" * 300], [b"g"], epoch=3)
    script.put(0, [b"other" * 20], [b"o"], log=OTHER)
    script.shorten(LOG, 6, RebuildLog(LOG, 6))
    script.put(6, [b"after" * 20], epoch=4)
    script.shorten(OTHER, 0, TrashLog(OTHER))
    script.do(open_log(OTHER))
    script.put(0, [b"another" * 20], epoch=6, log=OTHER)
    script.shorten(OTHER, 0, open_log(OTHER, fresh=True))
    script.engine.close(True)


def second_life(disk: Disk, model: Model) -> None:
    script = Script(disk, model)
    script.put(7, [b"second life"], epoch=7)
    script.put(4, [b"raft goes on"], epoch=7, log=RAFT_LOG)
    script.put(0, [b"once more"], epoch=8, log=OTHER)
    script.engine.close(False)


LIVES: tuple[Callable[[Disk, Model], None], ...] = (first_life, second_life)


def live(disk: SimDisk, model: Model) -> bool:
    """Run the script; True if it was stopped by a failure, False if it came to its end."""
    for life in LIVES:
        try:
            life(disk, model)
        except (Stopped, LiftlogError):
            return True
        disk.kill()
    return False


def read_all(engine: StorageEngine, log: PartitionId, leo: int) -> list[Line]:
    lines: list[Line] = []
    while len(lines) < leo:
        (event,) = run(engine, ReadLog(log, 1, len(lines), leo, 1 << 20))
        assert isinstance(event, LogRead) and not event.error and event.batches, event
        for one in event.batches:
            lines += [(one.epoch, record.value or b"") for record in decode_records(one)]
    return lines


def history_of(lines: list[Line]) -> tuple[EpochStart, ...]:
    starts: list[EpochStart] = []
    for offset, (epoch, _) in enumerate(lines):
        if not starts or starts[-1].epoch != epoch:
            starts.append(EpochStart(epoch, offset))
    return tuple(starts)


def contents(engine: StorageEngine, recovered: Recovered) -> dict[PartitionId, list[Line]]:
    found = {RAFT_LOG: [(entry.term, entry.data) for entry in recovered.raft_entries]}
    for summary in recovered.logs:
        lines = read_all(engine, summary.log, summary.leo)
        assert summary.epochs == history_of(lines)
        assert 0 <= summary.hw <= summary.leo
        found[summary.log] = lines
    return found


def check(disk: SimDisk, model: Model, label: str) -> dict[PartitionId, list[Line]]:
    """Start on what the crash left, and compare with the model."""
    engine, recovered = start(disk)
    assert recovered.hard_state in model.hard_states, label
    for summary in recovered.logs:
        assert summary.tail is not TailState.DAMAGED, f"{label}: no bit was flipped"
    found = contents(engine, recovered)
    for log in LOGS:
        lines, must, may = found.get(log, []), model.must[log], model.may[log]
        assert lines[: len(must)] == must, f"{label}: log {log} lost what was durable"
        assert lines == may[: len(lines)], f"{label}: log {log} holds what nobody wrote there"
    return found


def goes_on(disk: SimDisk, found: dict[PartitionId, list[Line]], label: str) -> None:
    """A log that was recovered takes appends, durably."""
    engine, recovered = start(disk)
    assert contents(engine, recovered) == found, f"{label}: a second recovery found something else"
    (event,) = run(engine, open_log(LOG))
    assert isinstance(event, LogOpened)
    leo = event.summary.leo
    assert run(engine, append(leo, [b"goes on"], 1, epoch=99)) == durable(1), label
    disk.power_loss(Random(leo))
    engine, recovered = start(disk)
    expected = [*found.get(LOG, []), (99, b"goes on")]
    assert contents(engine, recovered)[LOG] == expected, label


def ends(disk: SimDisk, seed: int) -> Iterator[tuple[str, SimDisk]]:
    """Every way in which this life may end, each on a copy of the disk."""
    killed = copy.deepcopy(disk)
    killed.kill()
    yield "killed", killed
    for outcome in range(POWER_OUTCOMES):
        dark = copy.deepcopy(disk)
        dark.power_loss(Random(seed * 1000 + outcome))
        yield f"power loss {outcome}", dark


def judge(disk: SimDisk, model: Model, seed: int, label: str) -> int:
    """Play all ends of a stopped run to their end. Returns how many."""
    count = 0
    for end, after in ends(disk, seed):
        found = check(after, model, f"{label}, {end}")
        # What the recovery reported counts as durable from now on (R7), whatever happens next.
        after.power_loss(Random(seed)) if seed % 2 else after.kill()
        goes_on(after, found, f"{label}, {end}, again")
        count += 1
    return count


@pytest.mark.parametrize("operation", ["sync", "append", "rename", "open", "truncate"])
def test_a_failure_of_any_disk_call_is_reported_and_loses_nothing_durable(operation: str) -> None:
    tried = 0
    for number in range(1, 1000):
        disk, model = FailingDisk(Random(number), operation, number), Model()
        stopped = live(disk, model)
        if not disk.failed:
            break
        if stopped:
            tried += judge(disk, model, number, f"{operation} {number} failed")
    assert tried > 0
    TRIED[f"failed {operation}"] += tried


class _Refused(Exception):
    """The scripted life ends here: storage reported a failure that the script had not planned."""


@pytest.mark.parametrize("operation", ["sync", "append", "rename", "open", "truncate", "remove"])
def test_a_failure_amid_changes_of_complete_segments_loses_nothing_durable(operation: str) -> None:
    """Whoever goes on afterwards rebuilds the log, or starts anew: nothing that was durable is gone."""
    tried = 0
    for number in range(1, 1000):
        disk = FailingDisk(Random(number), operation, number)
        life = SegmentLife(disk)
        life.may_fail = True
        group = life.group

        def stopping(*jobs: StorageJob, group: Group = group, disk: FailingDisk = disk) -> list[Event]:
            before = disk.failed
            events = group(*jobs)
            failed = any(isinstance(event, StorageFailed | MetadataStalled) for event in events)
            if disk.failed and not before and failed:
                raise _Refused
            return events

        life.group = stopping  # type: ignore[method-assign]
        with suppress(_Refused, OSError, LiftlogError):
            life.run()
        # The marker of a clean stop may be what could not be written.
        life.promises.clean = False
        if not disk.failed:
            break
        seeds = (number, number + 1)
        for crash, seed in (("kill", number), *(("power", seed) for seed in seeds)):
            after = copy.deepcopy(life)
            after.group = types.MethodType(SegmentLife.group, after)  # type: ignore[method-assign]
            CRASHES[crash][0](after.disk, Random(seed))
            problem = check_life_after(after, Random(seed))
            assert not problem, f"{operation} {number} failed, {crash}: {problem}"
            tried += 1
    assert tried > 0
    TRIED[f"failed {operation}"] += tried


def tree(disk: Disk, path: str = "") -> dict[str, bytes]:
    """Every file below a folder, with its content."""
    found: dict[str, bytes] = {}
    for name in disk.list(path):
        below = f"{path}/{name}" if path else name
        try:
            file = disk.open(below)
        except OSError:
            found |= tree(disk, below)
        else:
            found[below] = file.read_at(0, file.size())
            file.close()
    return found


def test_both_worlds_write_the_same_files(tmp_path: Path) -> None:
    """What the simulator plays through is what production does, byte by byte."""
    simulated = new_disk()
    assert not live(simulated, Model())
    model = Model()
    for life in LIVES:
        real = RealDisk(str(tmp_path))
        life(real, model)
        real.close()
    real = RealDisk(str(tmp_path))
    engine, recovered = start(real)
    assert contents(engine, recovered) == model.must
    start(simulated)
    on_platter = tree(real)
    del on_platter["lock"]
    assert on_platter == tree(simulated) and len(on_platter) > 5


class FailingDisk(SimDisk):
    """The `number`-th call of an operation fails: with EIO, or ENOSPC if it is an append."""

    def __init__(self, random: Random, operation: str, number: int) -> None:
        super().__init__(random)
        self.operation = operation
        self.left = number
        self.failed = False
        self.armed = True

    def _rearm(self) -> None:
        super()._rearm()
        self.armed = True

    def enter(self, operation: str, *rest: object, **more: object) -> None:
        if operation.removesuffix("_directory") == self.operation and not self.failed:
            self.left -= 1
            if self.left == 0:
                self.failed = True
                self.fail_next(operation, errno.ENOSPC if operation == "append" else errno.EIO)
        super().enter(operation, *rest, **more)  # type: ignore[arg-type]
