"""Both disks keep the contract of the port; the suite notices one that does not."""

from __future__ import annotations

import errno
import subprocess
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random

import pytest
import trio

from liftlog.ports import Disk, DiskError
from liftlog.real.clock import RealClock, RealRandom
from liftlog.real.disk import RealDisk, RealFile
from liftlog.testing import (
    ConformanceError,
    check_clock_conformance,
    check_disk_conformance,
    check_random_conformance,
)
from liftlog.types import LiftlogError
from liftlog_sim.chance.chances import Chances
from liftlog_sim.devices.clock import SimClock, SimRandom
from liftlog_sim.devices.disk import SimDisk
from liftlog_sim.kernel import Kernel


@pytest.fixture
def fresh_folder(tmp_path: Path) -> Callable[[], str]:
    numbers = count()
    return lambda: str(tmp_path / str(next(numbers)))


def test_the_real_disk_conforms(fresh_folder: Callable[[], str]) -> None:
    assert check_disk_conformance(lambda: RealDisk(fresh_folder())) == 13


def test_the_simulated_disk_conforms() -> None:
    assert check_disk_conformance(lambda: SimDisk(Random(1))) == 13


def test_the_suite_notices_a_disk_that_lists_unsorted(fresh_folder: Callable[[], str]) -> None:
    class Unsorted(RealDisk):
        def list(self, path: str) -> list[str]:
            return super().list(path)[::-1]

    with pytest.raises(ConformanceError, match="sorted"):
        check_disk_conformance(lambda: Unsorted(fresh_folder()))


def test_the_suite_notices_a_truncation_that_does_nothing(
    fresh_folder: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RealFile, "truncate", lambda self, size: None)
    with pytest.raises(ConformanceError, match="truncate keeps"):
        check_disk_conformance(lambda: RealDisk(fresh_folder()))


def test_a_second_process_cannot_lock_the_same_folder(tmp_path: Path) -> None:
    first = RealDisk(str(tmp_path))
    first.lock("lock")
    with pytest.raises(LiftlogError, match="in use by another process"):
        RealDisk(str(tmp_path)).lock("lock")
    first.close()
    RealDisk(str(tmp_path)).lock("lock")


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    real = os.pwritev

    def short(descriptor: int, parts: list[bytes], position: int) -> int:
        return real(descriptor, [parts[0][:1]], position)

    file = RealDisk(str(tmp_path)).open("f", create=True)
    monkeypatch.setattr(os, "pwritev", short)
    assert file.append([b"abc", b"def"]) == 0
    assert file.size() == 6 and file.read_at(0, 6) == b"abcdef"
    file.close()


def test_a_full_device_is_a_disk_error_with_its_errno(tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    disk: Disk = RealDisk("/dev")
    file = disk.open("full")
    with pytest.raises(DiskError) as caught:
        file.append([b"x"])
    assert caught.value.errno == errno.ENOSPC
    file.close()


def test_both_clocks_and_both_sources_of_randomness_conform() -> None:
    async def check_real() -> None:
        check_clock_conformance(RealClock())

    trio.run(check_real)
    check_clock_conformance(SimClock(Kernel(), rate=1.2, skew_ms=-300))
    check_random_conformance(RealRandom())
    check_random_conformance(SimRandom(Chances(Kernel(), 7).lane("node 1", "timers")))


def test_the_suite_notices_a_clock_that_runs_backward_and_a_dead_source_of_randomness() -> None:
    class Backward(SimClock):
        reading = 0.0

        def monotonic_ms(self) -> float:
            self.reading -= 1.0
            return self.reading

    class Dead(SimRandom):
        def bits(self, count: int) -> int:
            return 4

    with pytest.raises(ConformanceError, match="never goes backward"):
        check_clock_conformance(Backward(Kernel()))
    with pytest.raises(ConformanceError, match="differ"):
        check_random_conformance(Dead(Chances(Kernel(), 7).lane("node 1", "timers")))


HOLDER = """
import sys, time
from liftlog.real.disk import RealDisk
RealDisk(sys.argv[1]).lock("lock")
print("locked", flush=True)
time.sleep(600)
"""


@pytest.mark.real
def test_a_lock_keeps_other_processes_out_and_ends_with_its_own(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None and holder.stdout.readline() == b"locked\n"
        with pytest.raises(LiftlogError, match="in use by another process"):
            RealDisk(str(tmp_path)).lock("lock")
    finally:
        holder.kill()
        holder.communicate()
    RealDisk(str(tmp_path)).lock("lock")
