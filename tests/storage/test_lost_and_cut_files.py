"""Each file of a small data folder, cut at each length and deleted: detected or harmless (D2, D3, M4, R14).

The same folder and the same standard as for flipped bits. One loss leaves nothing to notice: after an unclean
stop a file that was cut exactly before the last group looks as if that group had never been written.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from liftlog.messages import CheckpointHw, OpenLog
from liftlog.types import RAFT_LOG
from tests.storage.crash_report import CUTS
from tests.storage.small_folder import Folder
from tests.storage.storage_harness import LOG, OTHER, given_up, segments
from tests.storage.twin import Mismatch, Twin

pytestmark = pytest.mark.slow

STOPS = [pytest.param(True, id="clean stop"), pytest.param(False, id="unclean stop")]


@pytest.fixture(scope="module", name="folders")
def two_folders() -> dict[bool, Folder]:
    return {clean: Folder(clean=clean) for clean in (True, False)}


def tried(folder: Folder, path: str, what: str, damage: Callable[[Twin], None]) -> str:
    try:
        outcome = folder.outcome(path, damage)
    except Mismatch as mismatch:
        raise Mismatch(f"{path} {what}: {mismatch}") from mismatch
    CUTS[outcome] += 1
    return outcome


def cut(twin: Twin, path: str, length: int) -> None:
    """Cut a file, in the page cache and on the platter."""
    file = twin.disk.open(path)
    file.truncate(length)
    file.sync()


def delete(twin: Twin, path: str) -> None:
    twin.disk.remove(path)
    twin.disk.sync_directory(path.rpartition("/")[0])


@pytest.mark.parametrize("clean", STOPS)
def test_D2_D3_M4_a_file_cut_at_any_length_is_detected_or_harmless(
    folders: dict[bool, Folder], clean: bool
) -> None:
    folder = folders[clean]
    outcomes = set()
    for path, whole in folder.files():
        for length in range(whole):
            outcomes.add(
                tried(folder, path, f"cut at {length}", lambda twin: cut(twin, path, length))  # noqa: B023
            )
    assert outcomes >= {"refused at the start", "given up", "harmless", "damaged range", "damaged tail"}


@pytest.mark.parametrize("clean", STOPS)
def test_D2_D3_M4_a_deleted_file_is_detected_or_harmless(folders: dict[bool, Folder], clean: bool) -> None:
    folder = folders[clean]
    outcomes = {
        path: tried(folder, path, "deleted", lambda twin: delete(twin, path))  # noqa: B023
        for path, _ in folder.files()
    }
    assert (outcomes["identity"], outcomes["vote"]) == ("refused at the start", "given up")
    assert outcomes["hw"] == "harmless"
    harmless = {path for path, outcome in outcomes.items() if outcome == "harmless"}
    assert not any(path.endswith((".log", "/start")) for path in harmless), harmless


@pytest.mark.parametrize("clean", STOPS)
def test_D3_two_files_of_one_name_are_not_taken_for_each_other(
    folders: dict[bool, Folder], clean: bool
) -> None:
    """Swapped or stale: every file in the place of every other of its kind."""
    folder = folders[clean]
    paths = [path for path, _ in folder.files() if path != "lock"]
    for one in paths:
        for other in paths:
            kind = one.rpartition("/")[2].rpartition(".")[2]
            if one == other or other.rpartition("/")[2].rpartition(".")[2] != kind:
                continue
            tried(folder, one, f"overwritten with {other}", lambda twin: copy(twin, other, one))  # noqa: B023


def copy(twin: Twin, source: str, target: str) -> None:
    twin.disk.remove(target)
    file = twin.disk.open(target, create=True)
    file.append([twin.disk.content(source)])
    file.sync()
    twin.disk.sync_directory(target.rpartition("/")[0])


@pytest.mark.parametrize("log", [LOG, OTHER], ids=str)
def test_D3_every_index_may_be_lost_at_once(folders: dict[bool, Folder], log: tuple[int, int]) -> None:
    folder = folders[True]
    directory = segments(folder.copy().disk, log)[0].rpartition("/")[0]  # type: ignore[arg-type]

    def delete_all(twin: Twin) -> None:
        for path in twin.disk.files():
            if path.startswith(directory) and path.endswith(".index"):
                delete(twin, path)

    assert tried(folder, directory, "without its indexes", delete_all) == "harmless"


def test_M4_a_metadata_log_that_ends_before_its_witness_is_refused_and_a_cut_one_is_not() -> None:
    """Whole entries can vanish without a bad byte: the HW file knows how far the log was durable."""
    twin = Twin()
    twin.begin()
    twin.do(OpenLog(LOG), twin.entries(b"one"))
    twin.do(twin.entries(b"two"), twin.append(b"x"))
    twin.do(CheckpointHw(LOG, 1))
    before = twin.snapshot()
    cut(twin, "raft/00000000000000000000.log", 0)
    twin.kill()
    twin.kill()
    given_up(twin.disk, "damaged metadata: raft: the log ends at entry 0, 2 of them")
    twin = Twin.restored(before)
    twin.kill()
    twin.begin()
    twin.do(twin.truncate(1, RAFT_LOG))
    twin.kill()
    assert [entry.data for entry in twin.begin().raft_entries] == [b"one"]
