"""A data folder belongs to one process at a time (D4), and what is not liftlog's in it is left alone."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from liftlog.messages import CheckpointHw, MoveLogStart, OpenLog, TrashLog
from liftlog.real.disk import RealDisk
from liftlog.storage.engine import StorageEngine
from liftlog.types import LiftlogError, TailState
from tests.storage.storage_harness import LOG, OTHER, append, run, segments, values
from tests.storage.twin import Twin

ROOT = Path(__file__).parent.parent.parent
SCRIPT = """
import sys
from liftlog.real.disk import RealDisk
from liftlog.storage.engine import StorageEngine
from liftlog.types import LiftlogError
try:
    StorageEngine(RealDisk(sys.argv[1])).recover(1, "disk-" + sys.argv[2], 1)
except LiftlogError as error:
    print(error, flush=True)
else:
    print("mine", flush=True)
    sys.stdin.read()
"""


def process(folder: Path, name: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(folder), name],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def first_line(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


def end(child: subprocess.Popen[str], signal_number: int = signal.SIGKILL) -> None:
    child.send_signal(signal_number)
    child.communicate(timeout=30)


# ----- two processes -----


@pytest.mark.real
def test_D4_of_several_processes_one_gets_the_folder_and_the_others_are_told_why(tmp_path: Path) -> None:
    children = [process(tmp_path, str(number)) for number in range(4)]
    try:
        answers = [first_line(child) for child in children]
        assert sorted(answer == "mine" for answer in answers) == [False, False, False, True], answers
        refused = [answer for answer in answers if answer != "mine"]
        assert all("in use by another process: stop it" in answer for answer in refused), refused
        assert all(str(tmp_path) in answer for answer in refused), "the error names the folder"
    finally:
        for child in children:
            end(child)


@pytest.mark.real
def test_D4_a_refused_process_changes_nothing_and_a_killed_one_leaves_the_folder_free(tmp_path: Path) -> None:
    holder = process(tmp_path, "holder")
    try:
        assert first_line(holder) == "mine"
        before = contents(tmp_path)
        other = process(tmp_path, "other")
        assert "in use by another process" in first_line(other)
        other.communicate(timeout=30)
        assert contents(tmp_path) == before
    finally:
        end(holder)
    disk = RealDisk(str(tmp_path))
    recovered = StorageEngine(disk).recover(1, "disk-new", 2)
    assert (recovered.identity.disk_id, recovered.clean) == ("disk-holder", False)
    with pytest.raises(LiftlogError, match="in use"):
        StorageEngine(RealDisk(str(tmp_path))).recover(1, "disk-third", 3)
    disk.close()


def contents(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


# ----- foreign files -----

FOLDERS = ("", "raft", "streams", "streams/7", "streams/7/0", "streams/7/0.journal", "quarantine", "trash")
NAMES = (
    "README.txt",
    ".DS_Store",
    "core.12345",
    "00000000000000000003.log.bak",
    "0003.log",
    "-0000000000000000003.log",
    "000000000000000000003.log",
    "0000000000000000000x.log",
    "\u0660" * 19 + "\u0663.log",
    "x.index",
    "9",
    "999999999999999999999999-x",
)
FOREIGN_FOLDERS = (
    "lost+found",
    "streams/lost+found",
    "streams/7/lost+found",
    "streams/7/0/lost+found",
    "streams/abc",
    "streams/-7",
    "streams/\u0667",
    "streams/07",
    "streams/7/00",
    "streams/7/x.tmp",
    "streams/7/0/x.tmp",
    "x.tmp",
    "raft/x.tmp",
    "quarantine/x.tmp",
)


def foreign_files() -> list[str]:
    """In every folder of a node, and in folders that are none of its."""
    files = []
    for folder in FOLDERS:
        for name in NAMES:
            # A file where streams and partitions have folders of this name.
            files.append(f"{folder}/{name}" if folder else name)
    for folder in FOREIGN_FOLDERS:
        files.append(f"{folder}/note")
        files.append(f"{folder}/00000000000000000000.log")
    return files


def put_foreign(twin: Twin) -> None:
    for path in foreign_files():
        folder = path.rpartition("/")[0]
        if folder:
            twin.disk.make_directory(folder)
        file = twin.disk.open(path, create=True)
        file.append([path.encode()])
        file.sync()


def check_foreign(twin: Twin) -> None:
    check_foreign_but(twin, "nothing was moved")


def lived() -> Twin:
    """A node with two logs, one of them with keys and several segments."""
    twin = Twin()
    twin.begin()
    twin.do(OpenLog(LOG, options=twin.options), OpenLog(OTHER, options=twin.options))
    twin.do(twin.entries(b"create"), twin.vote(1))
    for i in range(20):
        twin.do(twin.append((b"abc"[i % 3 :][:1], b"%d" % i * 20), b"keyless"))
    twin.do(twin.append(b"other", log=OTHER), CheckpointHw(LOG, 38))
    return twin


@pytest.mark.parametrize("clean", [True, False])
def test_foreign_files_and_folders_do_no_harm_and_are_left_alone(clean: bool) -> None:
    twin = lived()
    put_foreign(twin)
    if clean:
        twin.close()
    for _ in range(2):
        twin.kill()
        recovered = twin.recover()
        assert sorted(summary.log for summary in recovered.logs) == [LOG, OTHER]
        check_foreign(twin)
    twin.compact()
    twin.scrub()
    twin.do(MoveLogStart(LOG, 11), twin.truncate(35))
    twin.do(twin.append(b"x" * 700))
    twin.check_running()
    check_foreign(twin)
    twin.kill()
    twin.recover()
    # A tail is cut: bad bytes go to quarantine/, beside what lies there.
    twin.kill()
    last = max(path for path in set(segments(twin.disk)) - set(foreign_files()))
    file = twin.disk.open(last)
    file.append([b"torn"])
    file.sync()
    recovered = twin.begin()
    (summary,) = [one for one in recovered.logs if one.log == LOG]
    assert summary.tail is TailState.SUSPECT
    twin.do(TrashLog(OTHER))
    check_foreign_but(twin, "streams/7/0.journal/")


def check_foreign_but(twin: Twin, moved: str) -> None:
    """A log's folder goes to the trash with all that lies in it."""
    for path in foreign_files():
        if not path.startswith(moved):
            assert twin.disk.exists(path), f"{path} is gone"
            assert twin.disk.content(path) == path.encode(), f"{path} was changed"


def test_foreign_files_and_folders_do_no_harm_on_a_real_disk(tmp_path: Path) -> None:
    disk = RealDisk(str(tmp_path))
    engine = StorageEngine(disk)
    engine.recover(1, "disk-1", 1)
    for log in (LOG, OTHER):
        run(engine, OpenLog(log), append(0, [b"one", b"two"], 1, log=log))
    for path in foreign_files():
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(path.encode())
    for clean in (False, True, False):
        engine.close(clean)
        disk.close()
        disk = RealDisk(str(tmp_path))
        engine = StorageEngine(disk)
        recovered = engine.recover(1, "disk-1", 2)
        assert [(one.log, one.leo, one.damage) for one in recovered.logs] == [(LOG, 2, ()), (OTHER, 2, ())]
        assert values(engine) == values(engine, OTHER) == [b"one", b"two"]
    run(engine, TrashLog(OTHER))
    engine.close(True)
    disk.close()
    for path in foreign_files():
        assert path.startswith("streams/7/0.journal/") or (tmp_path / path).read_bytes() == path.encode()
