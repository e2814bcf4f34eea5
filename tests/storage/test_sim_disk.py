"""The simulated disk loses what real disks lose, and nothing that was synced."""

from __future__ import annotations

import errno
from random import Random

import pytest

from liftlog.ports import DiskError, SyncFailed
from liftlog_sim.devices.disk import SECTOR_BYTES, SimDisk, SimulatedCrash


def outcomes(prepare: object, look: object, count: int = 200) -> set[object]:
    """Everything that `look` sees after `count` different power losses."""
    found: set[object] = set()
    for seed in range(count):
        disk = SimDisk(Random(seed))
        prepare(disk)  # type: ignore[operator]
        disk.power_loss(Random(seed))
        found.add(look(disk))  # type: ignore[operator]
    return found


def read(disk: SimDisk, path: str) -> bytes | None:
    return disk.content(path) if path in disk.files() else None


def synced_file(disk: SimDisk, path: str = "f", content: bytes = b"safe") -> None:
    file = disk.open(path, create=True)
    file.append([content])
    file.sync()
    disk.sync_directory("")


def test_synced_bytes_and_names_survive_every_power_loss() -> None:
    assert outcomes(synced_file, lambda disk: read(disk, "f")) == {b"safe"}


def test_a_kill_loses_nothing_but_the_handles() -> None:
    disk = SimDisk(Random(0))
    file = disk.open("f", create=True)
    file.append([b"unsynced"])
    disk.lock("lock")
    disk.kill()
    assert read(disk, "f") == b"unsynced"
    with pytest.raises(SimulatedCrash):
        file.append([b"ghost"])
    disk.lock("lock")


def test_a_name_whose_folder_was_not_synced_is_kept_or_lost() -> None:
    def create(disk: SimDisk) -> None:
        file = disk.open("f", create=True)
        file.append([b"x"])
        file.sync()

    assert outcomes(create, lambda disk: read(disk, "f")) == {None, b"x"}


def test_unsynced_sectors_are_kept_lost_and_torn_independently() -> None:
    def write(disk: SimDisk) -> None:
        synced_file(disk)
        disk.open("f").append([b"n" * (3 * SECTOR_BYTES)])

    seen = outcomes(write, lambda disk: read(disk, "f"), 2000)
    assert all(isinstance(content, bytes) and content.startswith(b"safe") for content in seen)
    whole = {c for c in seen if isinstance(c, bytes) and len(c) == 4 + 3 * SECTOR_BYTES}
    kept = {tuple(_sector_state(c, s) for s in range(3)) for c in whole}
    assert {state for states in kept for state in states} == {"kept", "lost", "torn"}
    assert len(kept) == 27, "each sector has its own fate"
    assert b"safe" in seen, "the size may be the old one"


def _sector_state(content: bytes, number: int) -> str:
    start = max(4, number * SECTOR_BYTES)
    sector = content[start : (number + 1) * SECTOR_BYTES]
    if sector == b"n" * len(sector):
        return "kept"
    return "lost" if sector == bytes(len(sector)) else "torn"


def test_an_unsynced_truncation_is_kept_or_lost() -> None:
    def cut(disk: SimDisk) -> None:
        synced_file(disk, content=b"0123456789")
        disk.open("f").truncate(4)

    seen = outcomes(cut, lambda disk: len(disk.content("f")))
    assert {4, 10} <= seen


def test_a_rename_is_atomic_between_folders() -> None:
    def move(disk: SimDisk) -> None:
        disk.make_directory("a")
        disk.make_directory("b")
        file = disk.open("a/f", create=True)
        file.append([b"x"])
        file.sync()
        for folder in ("a", "b", ""):
            disk.sync_directory(folder)
        disk.rename("a/f", "b/f")
        disk.sync_directory("b")

    assert outcomes(move, lambda disk: tuple(disk.files())) == {("a/f",), ("b/f",)}


def test_a_failed_sync_lies_afterwards_and_the_bytes_are_gone_with_the_power() -> None:
    def lied_to(disk: SimDisk) -> None:
        synced_file(disk)
        file = disk.open("f")
        file.append([b" lost"])
        disk.fail_next_sync()
        with pytest.raises(SyncFailed):
            file.sync()
        file.sync()
        assert file.read_at(0, 99) == b"safe lost", "still in the page cache"

    seen = outcomes(lied_to, lambda disk: read(disk, "f"))
    assert seen <= {b"safe" + bytes(5), b"safe"}


def test_what_is_appended_after_a_failed_sync_can_become_durable_around_the_hole() -> None:
    disk = SimDisk(Random(0))
    synced_file(disk, content=b"s" * SECTOR_BYTES)
    file = disk.open("f")
    file.append([b"h" * SECTOR_BYTES])
    disk.fail_next_sync()
    with pytest.raises(SyncFailed):
        file.sync()
    file.append([b"a" * SECTOR_BYTES])
    file.sync()
    disk.power_loss(Random(0))
    assert disk.content("f") == b"s" * SECTOR_BYTES + bytes(SECTOR_BYTES) + b"a" * SECTOR_BYTES


def test_a_full_disk_refuses_appends_until_there_is_space() -> None:
    disk = SimDisk(Random(3))
    file = disk.open("f", create=True)
    disk.fill()
    with pytest.raises(DiskError) as caught:
        file.append([b"0123456789"])
    assert caught.value.errno == errno.ENOSPC and disk.free_bytes() == 0
    file.truncate(0)
    disk.fill(False)
    assert file.append([b"fits"]) == 0


def test_a_planned_crash_strikes_the_very_call_and_everything_after_it() -> None:
    disk = SimDisk(Random(0))
    disk.crash_after(3)
    disk.make_directory("d")
    file = disk.open("d/f", create=True)
    with pytest.raises(SimulatedCrash):
        disk.sync_directory("d")
    for attempt in (lambda: disk.list(""), file.size, lambda: file.append([b"x"])):
        with pytest.raises(SimulatedCrash):
            attempt()
    disk.kill()
    assert disk.files() == ["d/f"]


def test_a_flipped_bit_shows_in_cache_and_on_the_platter() -> None:
    disk = SimDisk(Random(0))
    synced_file(disk)
    disk.flip("f", 0, 0)
    assert disk.content("f") == b"rafe"
    disk.power_loss(Random(0))
    assert disk.content("f") == b"rafe"


def test_a_wiped_disk_is_empty_and_a_detached_one_is_silent() -> None:
    disk = SimDisk(Random(0))
    synced_file(disk)
    disk.wipe()
    assert disk.files() == []
    disk.detach()
    with pytest.raises(SimulatedCrash):
        disk.open("f", create=True)
    disk.attach()
    disk.open("f", create=True)
