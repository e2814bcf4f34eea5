"""Conformance suites: what an implementation of a port must do, checked by running it.

    from liftlog.testing import check_disk_conformance
    check_disk_conformance(lambda: MyDisk(fresh_folder()))

There is one check for each port whose contract can be seen from one side: `Disk`, `Clock`, `Random`.

The storage code relies on exactly these properties and on no others. A violation raises `ConformanceError`
that names the property. What no test within one process can show, that a sync survives a power loss, is the
implementer's promise; the simulated disk is where its absence is played through.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from liftlog.ports import Clock, Disk, DiskError, DiskFile, Random
from liftlog.types import LiftlogError


class ConformanceError(AssertionError):
    """A port does not keep its contract. The text names the property."""


def check_disk_conformance(make_disk: Callable[[], Disk]) -> int:
    """Check a `Disk`; `make_disk` returns a new, empty one each time. Returns how many checks it passed.

    Raises ConformanceError for the first property that does not hold.
    """
    for check in _CHECKS:
        check(make_disk())
    return len(_CHECKS)


def check_clock_conformance(clock: Clock) -> None:
    """Check a `Clock` that is running. Raises ConformanceError."""
    readings = [clock.monotonic_ms() for _ in range(1000)]
    _require(readings == sorted(readings), "monotonic_ms never goes backward")
    wall_ms = clock.wall_ms()
    _require(isinstance(wall_ms, int), "wall_ms is a whole number, since it is stored in records")
    _require(0 < wall_ms < 1 << 47, "wall_ms counts milliseconds since 1970")


def check_random_conformance(random: Random) -> None:
    """Check a `Random`. Raises ConformanceError."""
    draws = [random.uniform(150.0, 300.0) for _ in range(1000)]
    _require(all(150.0 <= draw <= 300.0 for draw in draws), "uniform draws lie between its bounds")
    _require(len(set(draws)) > 900, "uniform draws differ: equal election timeouts would split every vote")
    _require(random.uniform(7.0, 7.0) == 7.0, "uniform of an empty range is its bound")
    numbers = [random.bits(64) for _ in range(1000)]
    _require(all(0 <= number < 1 << 64 for number in numbers), "bits draws have at most as many bits")
    _require(len(set(numbers)) == 1000, "bits draws of 64 bits differ: they tell starts of a node apart")


def _require(condition: bool, text: str) -> None:
    if not condition:
        raise ConformanceError(text)


@contextmanager
def _raises(kind: type[Exception], text: str) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    except Exception as error:
        raise ConformanceError(f"{text}: {type(error).__name__} instead of {kind.__name__}") from error
    raise ConformanceError(f"{text}: nothing was raised")


def _write(disk: Disk, path: str, *parts: bytes) -> DiskFile:
    file = disk.open(path, create=True)
    file.append(parts)
    return file


def _content(disk: Disk, path: str) -> bytes:
    file = disk.open(path)
    try:
        return file.read_at(0, file.size())
    finally:
        file.close()


def _appends_go_to_the_end(disk: Disk) -> None:
    file = disk.open("a", create=True)
    _require(file.size() == 0, "a created file is empty")
    _require(file.append([b"one", b"", b"two"]) == 0, "append returns the position of its first byte")
    _require(
        file.append([memoryview(b"..three")[2:]]) == 6, "append continues at the end; parts may be views"
    )
    _require(file.append([]) == 11 and file.size() == 11, "an append of nothing writes nothing")
    _require(file.read_at(0, 11) == b"onetwothree", "a file reads back what was appended, at once")
    file.close()
    again = disk.open("a", create=True)
    _require(again.size() == 11, "opening with create keeps what is there")
    _require(again.append([b"!"]) == 11, "a file opened again is appended to at its end")
    _require(_content(disk, "a") == b"onetwothree!", "another handle sees the bytes")
    again.close()


def _many_parts_are_one_append(disk: Disk) -> None:
    parts = [b"%d," % i for i in range(5000)]
    file = _write(disk, "many", *parts)
    _require(_content(disk, "many") == b"".join(parts), "an append may have thousands of parts")
    large = b"x" * (3 * 1024 * 1024)
    position = file.append([b"head", large])
    _require(file.read_at(position, 4) == b"head", "an append may be megabytes long")
    _require(file.size() == position + 4 + len(large), "the size counts every byte")
    file.close()


def _reads_stop_at_the_end(disk: Disk) -> None:
    file = _write(disk, "r", b"0123456789")
    _require(file.read_at(3, 4) == b"3456", "read_at reads from the position")
    _require(file.read_at(8, 10) == b"89", "a read across the end returns what is there")
    _require(file.read_at(10, 1) == b"" and file.read_at(99, 5) == b"", "a read behind the end is empty")
    _require(file.read_at(0, 0) == b"", "a read of nothing is empty")
    _require(isinstance(file.read_at(0, 3), bytes), "read_at returns bytes")
    file.close()


def _files_go_to_sockets(disk: Disk) -> None:
    content = bytes(range(256)) * 4096
    file = _write(disk, "s", b"head", content, b"tail")
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        theirs.settimeout(10)
        descriptor = ours.fileno()
        sent, received = 0, b""
        while sent < len(content):
            count = file.send_to(descriptor, 4 + sent, len(content) - sent)
            sent += count
            _require(sent <= len(content), "send_to sends no more than it was asked for")
            _require(len(received) + count == sent, "send_to says how much the socket took")
            while len(received) < sent:
                received += theirs.recv(1 << 16)
        _require(received == content, "send_to sends the bytes that it was asked for, in order")
        while file.send_to(descriptor, 0, file.size()):
            pass
        _require(file.read_at(0, 4) == b"head", "a socket that is full does not block send_to")
        with _raises(ConnectionError, "send_to a socket whose other end is closed"):
            theirs.close()
            file.send_to(descriptor, 0, 4)
    ours, theirs = socket.socketpair()
    with ours, theirs, _raises(DiskError, "send_to of bytes behind the end of the file"):
        ours.setblocking(False)
        file.send_to(ours.fileno(), file.size(), 1)
    file.close()


def _truncation_cuts_the_end(disk: Disk) -> None:
    file = _write(disk, "t", b"0123456789")
    file.sync()
    file.truncate(4)
    _require(file.size() == 4 and file.read_at(0, 10) == b"0123", "truncate keeps the bytes below the size")
    _require(file.append([b"ab"]) == 4, "an append after truncate begins at the new end")
    _require(file.read_at(0, 10) == b"0123ab", "truncated bytes do not come back")
    file.sync()
    file.truncate(0)
    _require(file.size() == 0, "truncate to 0 empties a file")
    with _raises(DiskError, "a truncation that would grow the file"):
        file.truncate(1)
    _require(file.size() == 0, "a refused truncation changes nothing")
    file.close()


def _closed_files_are_closed(disk: Disk) -> None:
    file = _write(disk, "c", b"0123456789")
    file.close()
    file.close()
    for use, text in (
        (lambda: file.append([b"x"]), "an append to a closed file"),
        (lambda: file.read_at(0, 1), "a read of a closed file"),
        (lambda: file.send_to(1, 0, 1), "sending a closed file"),
        (file.sync, "a sync of a closed file"),
        (lambda: file.truncate(0), "a truncation of a closed file"),
    ):
        with _raises(DiskError, text):
            use()
    _require(_content(disk, "c") == b"0123456789", "a closed file keeps its bytes")


def _names_are_found(disk: Disk) -> None:
    with _raises(FileNotFoundError, "open without create of a file that is not there"):
        disk.open("nothing")
    _require(not disk.exists("nothing"), "a failed open creates nothing")
    _require(disk.list("") == [] and disk.list("no/such/folder") == [], "a folder that is not there is empty")
    disk.make_directory("x/y/z")
    disk.make_directory("x/y/z")
    for name in ("b", "a", "c"):
        _write(disk, f"x/y/{name}").close()
    _require(disk.list("x/y") == ["a", "b", "c", "z"], "list returns files and folders, sorted")
    _require(disk.list("") == ["x"], 'the data folder itself is ""')
    _require(
        disk.exists("x/y/a") and disk.exists("x/y/z") and not disk.exists("x/a"), "exists finds both kinds"
    )
    for folder in ("x/y", "x", ""):
        disk.sync_directory(folder)
    with _raises(OSError, "creating a file in a folder that is not there"):
        disk.open("q/file", create=True)


def _renames_replace(disk: Disk) -> None:
    _write(disk, "old", b"old").close()
    _write(disk, "new", b"new").close()
    disk.rename("new", "old")
    _require(disk.list("") == ["old"] and _content(disk, "old") == b"new", "rename replaces a target file")
    disk.make_directory("from/sub")
    disk.make_directory("to")
    _write(disk, "from/sub/f", b"deep").close()
    disk.rename("from/sub", "to/moved")
    _require(
        disk.list("from") == [] and _content(disk, "to/moved/f") == b"deep", "rename moves a whole folder"
    )
    disk.sync_directory("from")
    disk.sync_directory("to")
    with _raises(FileNotFoundError, "rename of a name that is not there"):
        disk.rename("nothing", "anything")


def _open_files_survive_rename_and_removal(disk: Disk) -> None:
    file = _write(disk, "s.tmp", b"copy")
    disk.rename("s.tmp", "s")
    file.append([b" and more"])
    file.sync()
    _require(_content(disk, "s") == b"copy and more", "a handle follows its file through a rename")
    disk.remove("s")
    _require(
        not disk.exists("s") and file.read_at(0, 4) == b"copy", "a removed file stays readable while open"
    )
    file.close()
    _write(disk, "s", b"other").close()
    _require(_content(disk, "s") == b"other", "a name can be used again after removal")


def _removal_removes(disk: Disk) -> None:
    with _raises(FileNotFoundError, "remove of a file that is not there"):
        disk.remove("nothing")
    disk.make_directory("d/e")
    _write(disk, "d/e/f").close()
    disk.remove_tree("d")
    _require(not disk.exists("d") and disk.list("") == [], "remove_tree removes a folder with all it holds")
    disk.remove_tree("d")


def _locks_exclude(disk: Disk) -> None:
    disk.lock("lock")
    with _raises(LiftlogError, "a second lock on the same path"):
        disk.lock("lock")


def _space_is_reported(disk: Disk) -> None:
    _require(disk.free_bytes() > 0, "free_bytes of a disk with space is positive")


def _errors_are_disk_errors(disk: Disk) -> None:
    disk.make_directory("folder")
    with _raises(DiskError, "opening a folder as a file"):
        disk.open("folder", create=True)


_CHECKS: tuple[Callable[[Disk], None], ...] = (
    _appends_go_to_the_end,
    _many_parts_are_one_append,
    _reads_stop_at_the_end,
    _files_go_to_sockets,
    _truncation_cuts_the_end,
    _closed_files_are_closed,
    _names_are_found,
    _renames_replace,
    _open_files_survive_rename_and_removal,
    _removal_removes,
    _locks_exclude,
    _space_is_reported,
    _errors_are_disk_errors,
)
