"""Damaged sectors, misdirected writes, unreadable sectors, lying syncs and full disks, simulated."""

from __future__ import annotations

import errno
from collections.abc import Callable
from random import Random

import pytest

from liftlog.ports import DiskError
from liftlog_sim.devices.disk import SimDisk, SimFile

CONTENT = bytes(range(256)) * 8


def disk_with_file() -> tuple[SimDisk, SimFile]:
    disk = SimDisk(Random(1))
    file = disk.open("f", create=True)
    file.append([CONTENT])
    file.sync()
    disk.sync_directory("")
    return disk, file


def test_overwritten_bytes_show_at_once_and_after_a_power_loss() -> None:
    disk, file = disk_with_file()
    disk.overwrite("f", 512, b"x" * 512)
    assert file.read_at(512, 512) == b"x" * 512
    assert file.read_at(0, 512) == CONTENT[:512] and file.read_at(1024, 9999) == CONTENT[1024:]
    disk.power_loss(Random(2))
    assert disk.content("f")[512:1024] == b"x" * 512
    assert disk.harmed() == [("f", 512, 1024)]


@pytest.mark.parametrize("uncover", [lambda disk: disk.evict(), lambda disk: disk.power_loss(Random(2))])
def test_the_page_cache_hides_what_happened_to_the_platter(uncover: Callable[[SimDisk], None]) -> None:
    disk, file = disk_with_file()
    disk.overwrite("f", 512, b"x" * 512, platter_only=True)
    assert file.read_at(0, 9999) == CONTENT
    disk.kill()
    assert disk.content("f") == CONTENT, "a page cache survives its process"
    uncover(disk)
    assert disk.content("f")[512:1024] == b"x" * 512


def test_an_overwrite_never_makes_a_file_longer() -> None:
    disk, file = disk_with_file()
    disk.overwrite("f", len(CONTENT) - 10, b"y" * 100)
    assert file.size() == len(CONTENT) and file.read_at(len(CONTENT) - 10, 99) == b"y" * 10


def test_pages_that_are_not_written_out_hide_nothing() -> None:
    disk, file = disk_with_file()
    file.append([b"new"])
    disk.overwrite("f", len(CONTENT), b"bad", platter_only=True)
    file.sync()
    disk.evict()
    assert disk.content("f")[-3:] == b"new" and disk.harmed() == []


def test_damage_is_forgotten_when_it_is_cut_off_or_its_file_is_replaced() -> None:
    disk, file = disk_with_file()
    disk.flip("f", 700, 3)
    assert disk.harmed() == [("f", 700, 701)]
    file.truncate(701)
    assert disk.harmed() == [("f", 700, 701)]
    file.truncate(600)
    assert disk.harmed() == []
    disk.flip("f", 5, 0)
    copy = disk.open("f.tmp", create=True)
    copy.append([CONTENT])
    copy.sync()
    disk.rename("f.tmp", "f")
    assert disk.harmed() == []


def test_a_bit_that_flips_back_is_no_damage() -> None:
    disk, _ = disk_with_file()
    disk.flip("f", 5, 0)
    disk.flip("f", 5, 0)
    assert disk.harmed() == []


def test_unreadable_sectors_fail_every_read_that_touches_them_until_they_are_cut() -> None:
    disk, file = disk_with_file()
    disk.unreadable("f", 512, 512)
    for position, length in ((512, 1), (1023, 1), (0, 2048), (500, 13)):
        with pytest.raises(DiskError) as caught:
            file.read_at(position, length)
        assert caught.value.errno == errno.EIO
    assert file.read_at(0, 512) == CONTENT[:512] and file.read_at(1024, 10) == CONTENT[1024:1034]
    disk.power_loss(Random(1))
    file = disk.open("f")
    with pytest.raises(DiskError):
        file.read_at(600, 1)
    file.truncate(512)
    file.append([CONTENT[512:]])
    assert file.read_at(0, 9999) == CONTENT


def test_sectors_that_fail_a_few_times_are_read_afterwards() -> None:
    disk, file = disk_with_file()
    disk.unreadable("f", 0, 512, times=2)
    for _ in range(2):
        with pytest.raises(DiskError):
            file.read_at(0, 1)
    assert file.read_at(0, 1) == CONTENT[:1] and disk.harmed() == []
    disk.unreadable("f", 0, 512, times=2)
    disk.unreadable("f", 512, 512)
    disk.readable_again()
    assert file.read_at(0, 512) == CONTENT[:512] and disk.harmed() == [("f", 512, 1024)]


def test_a_rescued_disk_has_zeros_where_it_could_not_be_read() -> None:
    disk, file = disk_with_file()
    assert not disk.rescue()
    disk.unreadable("f", 512, 512)
    assert disk.rescue()
    assert file.read_at(512, 512) == bytes(512) and disk.harmed() == [("f", 512, 1024)]


def test_a_lying_sync_keeps_the_size_and_loses_the_bytes_with_the_power() -> None:
    disk, file = disk_with_file()
    file.append([b"promised"])
    asked: list[tuple[str, int, int]] = []

    def decide(path: str, start: int, end: int) -> bool:
        asked.append((path, start, end))
        return True

    disk.lie_when(decide)
    file.sync()
    assert asked == [("f", len(CONTENT), len(CONTENT) + 8)]
    assert file.read_at(len(CONTENT), 8) == b"promised"
    assert disk.harmed() == [("f", len(CONTENT), len(CONTENT) + 8)]
    disk.power_loss(Random(4))
    assert disk.content("f") == CONTENT + bytes(8)


def test_a_lie_is_not_forgotten_while_its_last_page_is_written_again() -> None:
    disk, file = disk_with_file()
    disk.lie_when(lambda path, start, end: True)
    file.append([b"p" * 1000])
    file.sync()
    file.append([b"more"])
    assert disk.harmed() == [("f", len(CONTENT), len(CONTENT) + 1000)]
    file.sync()
    assert disk.harmed() == [("f", len(CONTENT), len(CONTENT) + 1000)]


def test_a_lie_is_told_once_and_only_where_it_is_allowed() -> None:
    disk, file = disk_with_file()
    disk.lie_when(lambda path, start, end: False)
    file.append([b"safe"])
    file.sync()
    disk.power_loss(Random(1))
    assert disk.content("f") == CONTENT + b"safe"
    file = disk.open("f")
    disk.lie_when(lambda path, start, end: True)
    file.sync()
    file.append([b"lost"])
    file.sync()
    file.append([b"kept" * 300])
    file.sync()
    disk.power_loss(Random(1))
    content = disk.content("f")
    assert content[-1000:] == (b"kept" * 300)[-1000:] and len(content) == len(CONTENT) + 8 + 1200


def test_a_disk_fills_up_in_the_middle_of_a_vector() -> None:
    disk, file = disk_with_file()
    disk.fill(True, free_bytes=10)
    file.append([b"1234"])
    assert disk.free_bytes() == 6
    with pytest.raises(DiskError) as caught:
        file.append([b"abcd", b"efgh"])
    assert caught.value.errno == errno.ENOSPC
    assert file.read_at(len(CONTENT), 99) == b"1234abcdef" and disk.free_bytes() == 0
    with pytest.raises(DiskError):
        file.append([b"x"])
    disk.fill(False)
    file.append([b"again"])
    assert file.read_at(len(CONTENT) + 10, 99) == b"again"


def test_a_disk_without_space_for_names_makes_none_and_changes_none() -> None:
    disk, file = disk_with_file()
    disk.make_directory("folder")
    disk.fill(True, free_bytes=3, names_too=True)
    disk.open("small", create=True).append([b"xyz"])
    for refused in (
        lambda: disk.open("g", create=True),
        lambda: disk.make_directory("folder/below"),
        lambda: disk.rename("small", "f"),
    ):
        with pytest.raises(DiskError) as raised:
            refused()
        assert raised.value.errno == errno.ENOSPC
    assert disk.files() == ["f", "small"] and not disk.exists("folder/below")
    disk.make_directory("folder")
    assert disk.open("f", create=True).read_at(0, 9999) == CONTENT
    disk.remove("small")
    disk.fill(False)
    disk.rename("f", "g")
    assert file.read_at(0, 9999) == CONTENT
