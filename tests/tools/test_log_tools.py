"""`liftlog log dump|verify|repair` on folders with planted damage of every kind, checked by file and byte."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from liftlog import cli
from liftlog.commands.log import mend
from liftlog.commands.logfolder import QUEUE, Folder
from liftlog.commands.loginspect import Inspection, inspect_folder
from liftlog.format import MAGIC_BYTES, encode_records, encode_values, read_header, replace_payload
from liftlog.messages import AppendLog, CheckpointHw, MoveLogStart, OpenLog, SaveHardState
from liftlog.queue import BigQueue, QueueOptions
from liftlog.real.disk import RealDisk
from liftlog.storage.engine import StorageEngine
from liftlog.storage.inspect import LEFTOVER, MISSING, TORN
from liftlog.storage.layout import index_path, parent, partitions_on_disk
from liftlog.storage.log import StorageOptions
from liftlog.storage.sealing import Sealer
from liftlog.types import RAFT_LOG, HardState, LogOptions, PartitionId, Record, Ticket
from liftlog_sim.devices.disk import SimDisk, SimulatedCrash
from tests.queue.queue_life import CRASHES, Life, goes_on, life_at

pytestmark = pytest.mark.slow

LOG = PartitionId(17, 0)
OPTIONS = QueueOptions(segment_bytes=600, repeat_max=2)
FOLDER = "streams/17/0"
SMALL = LogOptions(segment_bytes=500)
RECORDS = 11


def make_node(folder: Path, *, clean: bool = True, sealer: Sealer | None = None) -> None:
    """A node's folder with one partition in several segments, as a stop leaves it."""
    disk = RealDisk(str(folder))
    engine = StorageEngine(disk, StorageOptions(log=SMALL), sealer=sealer)
    engine.recover(1, "disk-1", 9)

    def run(*jobs: object) -> None:
        engine.write(jobs)  # type: ignore[arg-type]
        engine.sync()

    run(
        OpenLog(LOG, False, SMALL), AppendLog(RAFT_LOG, [encode_values(RAFT_LOG, 0, 1, 5, [b"e"])], Ticket(1))
    )
    run(SaveHardState(HardState(1, 1), Ticket(2)))
    for offset in range(RECORDS):
        values = [b"value %d " % offset + b"." * 60]
        run(
            AppendLog(
                LOG, [encode_values(LOG, offset, 1 + offset // 6, 1000 + offset, values)], Ticket(offset + 3)
            )
        )
    run(CheckpointHw(LOG, 7))
    engine.close(clean)
    disk.close()


@pytest.fixture
def node(tmp_path: Path) -> Path:
    make_node(tmp_path / "node")
    return tmp_path / "node"


@pytest.fixture
def killed_node(tmp_path: Path) -> Path:
    make_node(tmp_path / "node", clean=False)
    return tmp_path / "node"


def segments(folder: Path) -> list[Path]:
    return sorted((folder / FOLDER).glob("*.log"))


def flip(path: Path, byte: int, bit: int = 0) -> None:
    data = bytearray(path.read_bytes())
    data[byte] ^= 1 << bit
    path.write_bytes(data)


def batches(path: Path) -> list[int]:
    """Where batches begin in a segment file."""
    data, found, at = path.read_bytes(), [], 0
    while at < len(data):
        found.append(at)
        at += int.from_bytes(data[at + 12 : at + 16], "little") + 16
    return found


def fingerprint(folder: Path) -> dict[str, tuple[str, int]]:
    """Content and time of change of every file."""
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest(),
            path.stat().st_mtime_ns,
        )
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


Run = Callable[..., tuple[int, str]]


@pytest.fixture
def log_tool(capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs `liftlog log ...`: exit code, and what it printed or its one line of error."""

    def run(*arguments: object) -> tuple[int, str]:
        capsys.readouterr()
        code = cli.main(["log", *map(str, arguments)])
        printed = capsys.readouterr()
        return code, printed.err if code == 2 else printed.out

    return run


@pytest.fixture
def verify(log_tool: Run) -> Callable[[Path], list[tuple[str, str, int]]]:
    """Verifies, and checks that nothing was changed; returns (kind, file, byte) of what it found."""

    def run(folder: Path) -> list[tuple[str, str, int]]:
        before = fingerprint(folder)
        code, text = log_tool("verify", folder, "--json")
        assert fingerprint(folder) == before, "verify must change nothing"
        found = json.loads(text)
        bad = [one for one in found["findings"] if one["kind"] not in ("missing", "leftover", "reset")]
        assert (code, found["damaged"]) == (1 if bad else 0, len(bad))
        return [(one["kind"], one["file"], one["byte"]) for one in found["findings"]]

    return run


Verify = Callable[[Path], list[tuple[str, str, int]]]

# ----- verify -----


def test_a_good_folder_has_no_damage(node: Path, verify: Verify, log_tool: Run) -> None:
    assert verify(node) == []
    code, text = log_tool("verify", node)
    assert code == 0
    assert f"{FOLDER}: offsets [0, 11), 11 records, {len(segments(node))} segments" in text
    assert text.splitlines()[-1] == f"{node}: no damage"


def test_a_killed_node_is_not_damaged(killed_node: Path, verify: Verify) -> None:
    assert verify(killed_node) == []


@pytest.mark.slow
def test_every_flipped_byte_of_every_file_is_named(node: Path, verify: Verify) -> None:
    """Indexes to the byte, batches by the one that they begin with, state files by their name."""
    tried = 0
    for path in sorted(node.rglob("*")):
        name = str(path.relative_to(node))
        if not path.is_file() or name == "lock":
            continue
        starts = batches(path) if path.suffix == ".log" else []
        for byte in range(0, path.stat().st_size, 11):
            flip(path, byte, byte % 8)
            found = verify(node)
            assert name in [file for _, file, _ in found], (name, byte, found)
            named = next(at for _, file, at in found if file == name)
            if path.suffix == ".log":
                assert named == max(start for start in starts if start <= byte), (name, byte, found)
            elif path.suffix == ".index":
                assert named == byte, (name, byte, found)
            flip(path, byte, byte % 8)
            tried += 1
    assert tried > 250
    assert verify(node) == []


def test_every_damaged_batch_is_named_not_only_the_first(node: Path, verify: Verify, log_tool: Run) -> None:
    first, second = segments(node)[:2]
    flip(first, 90)
    flip(first, batches(first)[2] + 90)
    flip(second, 70)
    names = [str(path.relative_to(node)) for path in (first, second)]
    assert verify(node) == [
        ("damage", names[0], 0),
        ("damage", names[0], batches(first)[2]),
        ("damage", names[1], 0),
    ]
    _, text = log_tool("verify", node)
    assert f"damage: {names[0]} byte {batches(first)[2]}: the checksum does not match" in text
    assert "offsets [0, 1) cannot be read" in text and "offsets [2, 3) cannot be read" in text


def test_a_missing_log_is_named_although_no_clean_stop_tells_of_it(node: Path, verify: Verify) -> None:
    (node / "clean").unlink(missing_ok=True)
    folder = segments(node)[0].parent
    shutil.rmtree(folder)
    assert ("damage", str(folder.relative_to(node)), 0) in verify(node)


def test_a_missing_segment_is_named_with_its_offsets(node: Path, verify: Verify, log_tool: Run) -> None:
    all_segments = segments(node)
    size = all_segments[0].stat().st_size
    all_segments[1].unlink()
    assert ("damage", f"{FOLDER}/{all_segments[0].name}", size) in verify(node)
    _, text = log_tool("verify", node, "--json")
    bases = [int(path.stem) for path in all_segments]
    assert json.loads(text)["findings"][0]["offsets"] == [bases[1], bases[2]]
    all_segments[0].unlink()
    assert ("damage", f"{FOLDER}/{all_segments[0].name}", 0) in verify(node)


def test_a_shortened_log_is_noticed_by_the_clean_marker_and_the_hw(node: Path, verify: Verify) -> None:
    last = segments(node)[-1]
    last.unlink()
    kept = segments(node)[-1]
    path = f"{FOLDER}/{kept.name}"
    assert ("damage", path, kept.stat().st_size) in verify(node)
    (node / "clean").unlink()
    assert not [one for one in verify(node) if one[0] == "damage"], "without a marker it may have ended there"
    for segment in segments(node)[2:]:
        segment.unlink()
    assert ("damage", FOLDER, 0) in verify(node), "the HW checkpoint is above the end"


def test_torn_bytes_at_the_end_are_told_from_damage(killed_node: Path, verify: Verify) -> None:
    last = segments(killed_node)[-1]
    end = last.stat().st_size
    with last.open("ab") as file:
        file.write(b"half a batch")
    assert verify(killed_node) == [("torn", f"{FOLDER}/{last.name}", end)]
    flip(segments(killed_node)[0], 70)
    assert [kind for kind, _, _ in verify(killed_node)] == ["damage", "torn"]


def test_bytes_that_were_synced_before_the_kill_are_damage(tmp_path: Path, verify: Verify) -> None:
    """A later batch says how far the log was durable: what is bad below that was not torn (R14)."""
    make_node(tmp_path / "node", clean=False)
    path = next(one for one in reversed(segments(tmp_path / "node")) if len(batches(one)) > 1)
    for later in segments(tmp_path / "node"):
        if later > path:
            later.unlink()
    flip(path, 70)
    found = verify(tmp_path / "node")
    assert found[0] == ("damage", f"{FOLDER}/{path.name}", 0)


@pytest.mark.parametrize("name", ["identity", "vote", f"{FOLDER}/start"])
def test_a_missing_file_that_must_be_there_is_named(name: str, node: Path, verify: Verify) -> None:
    (node / name).unlink()
    assert ("damage", name, 0) in verify(node)


def test_unfinished_work_is_named_but_is_no_damage(node: Path, verify: Verify) -> None:
    first = segments(node)[0]
    (node / "hw.tmp").write_bytes(b"half")
    (first.parent / f"{first.name}.new.tmp").write_bytes(b"half")
    (first.parent / "00000000000000009999.index").write_bytes(b"of a segment that is gone")
    assert verify(node) == [
        ("leftover", "hw.tmp", 0),
        ("leftover", f"{FOLDER}/{first.name}.new.tmp", 0),
        ("leftover", f"{FOLDER}/00000000000000009999.index", 0),
    ]


def half_done_replacement(node: Path) -> tuple[Path, Path]:
    """A file that holds two segments has taken the first one's name; the second is still there."""
    first, second = segments(node)[:2]
    first.write_bytes(first.read_bytes() + second.read_bytes())
    first.with_suffix(".index").unlink()
    return first, second


def test_a_replacement_that_is_not_finished_is_told_from_damage(killed_node: Path, verify: Verify) -> None:
    first, second = half_done_replacement(killed_node)
    assert verify(killed_node) == [
        ("missing", f"{FOLDER}/{first.stem}.index", 0),
        ("leftover", f"{FOLDER}/{second.name}", 0),
    ]


def test_a_segment_is_no_leftover_while_the_one_that_holds_its_records_is_damaged(
    node: Path, verify: Verify, log_tool: Run
) -> None:
    first, second = half_done_replacement(node)
    flip(first, 70)
    assert "leftover" not in [kind for kind, _, _ in verify(node)]
    assert log_tool("repair", node)[0] == 1
    assert second.exists()


def move_start(node: Path, offset: int) -> None:
    disk = RealDisk(str(node))
    engine = StorageEngine(disk, StorageOptions(log=SMALL))
    engine.recover(1, "disk-1", 9)
    engine.write([MoveLogStart(LOG, offset)])
    engine.sync()
    engine.close(True)
    disk.close()


def test_a_log_with_a_moved_start_is_good_also_with_a_segment_below_it(
    node: Path, verify: Verify, log_tool: Run
) -> None:
    first = segments(node)[0]
    content = first.read_bytes()
    move_start(node, 6)
    assert verify(node) == [] and not first.exists()
    assert "offsets [6, 11)" in log_tool("verify", node)[1]
    first.write_bytes(content)
    assert verify(node) == [("leftover", f"{FOLDER}/{first.name}", 0)]
    assert log_tool("repair", node)[0] == 0 and not first.exists() and verify(node) == []


def test_a_segment_that_reaches_beyond_the_one_that_overlaps_it_is_no_leftover(
    killed_node: Path, verify: Verify, log_tool: Run
) -> None:
    first, second = segments(killed_node)[:2]
    first.write_bytes(first.read_bytes() + second.read_bytes()[: batches(second)[1]])
    first.with_suffix(".index").unlink()
    assert ("damage", f"{FOLDER}/{second.name}", 0) in verify(killed_node)
    assert log_tool("repair", killed_node)[0] == 1 and second.exists()


def test_a_log_whose_creation_was_cut_short_is_no_damage(killed_node: Path, verify: Verify) -> None:
    folder = killed_node / "streams/18/0"
    folder.mkdir(parents=True)
    assert verify(killed_node) == [("reset", "streams/18/0", 0)]
    (folder / "00000000000000000000.log").touch()
    assert verify(killed_node) == [("reset", "streams/18/0", 0)]
    (folder / "00000000000000000000.log").write_bytes(b"x")
    assert ("damage", "streams/18/0/start", 0) in verify(killed_node)


def test_a_log_that_is_not_what_the_clean_stop_left_is_noticed_without_a_bad_byte(
    node: Path, verify: Verify, log_tool: Run
) -> None:
    _, second = half_done_replacement(node)
    log_tool("repair", node)
    assert not second.exists() and verify(node) == [("damage", FOLDER, 0)]
    assert "at the last stop, a clean one, they were" in log_tool("verify", node)[1]


def test_a_version_of_the_future_says_upgrade_and_is_no_damage(node: Path, log_tool: Run) -> None:
    path = segments(node)[0]
    frame = path.read_bytes()[: batches(path)[1]]
    newer = replace_payload(LOG, frame, 99, 0, frame[64:])
    path.write_bytes(newer + path.read_bytes()[len(frame) :])
    for command in ("verify", "dump", "repair"):
        code, text = log_tool(command, node)
        assert code == 2 and "upgrade" in text and text.count("\n") == 1, (command, text)


def test_a_running_node_keeps_everybody_out(node: Path, log_tool: Run) -> None:
    disk = RealDisk(str(node))
    disk.lock("lock")
    for command in ("verify", "dump", "repair"):
        code, text = log_tool(command, node)
        assert code == 2 and "stop the node" in text and text.count("\n") == 1
        code, _ = log_tool(command, node / FOLDER)
        assert code == 2, "one log's folder is locked with its node"
    disk.close()
    assert log_tool("verify", node)[0] == 0


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nowhere"], "there is no such folder"),
        (["empty"], "nothing of liftlog's is in it"),
        (["node", "--partition", "0"], "--partition needs --stream"),
        (["node", "--stream", "18"], "there is no log 18 in it"),
        (["copy"], "say so with --stream and --partition"),
    ],
)
def test_a_folder_that_cannot_be_looked_at_is_one_line(
    arguments: list[str], text: str, node: Path, log_tool: Run
) -> None:
    (node.parent / "empty").mkdir()
    shutil.copytree(node / FOLDER, node.parent / "copy")
    code, error = log_tool("verify", node.parent / arguments[0], *arguments[1:])
    assert code == 2 and text in error and error.count("\n") == 1
    assert not (node.parent / "nowhere").exists() and not list((node.parent / "empty").iterdir())


def test_one_log_can_be_looked_at_in_its_place_as_a_copy_and_in_the_trash(node: Path, log_tool: Run) -> None:
    copy, trash = node.parent / "copy", node / "trash/000001-17-0"
    shutil.copytree(node / FOLDER, copy)
    shutil.copytree(node / FOLDER, trash)
    for arguments in (
        (node / FOLDER,),
        (node, "--stream", 17),
        (copy, "--stream", 17, "--partition", 0),
        (trash,),
    ):
        code, text = log_tool("verify", *arguments)
        assert code == 0 and f"{FOLDER}: offsets [0, 11), 11 records" in text and "raft" not in text
    assert log_tool("verify", copy, "--stream", 18, "--partition", 0)[0] == 1, "another log's checksums"
    assert "raft: offsets [0, 1)" in log_tool("verify", node, "--stream", 0)[1]
    assert not (copy / "lock").exists()


def test_a_queue_is_verified_with_its_fronts(tmp_path: Path, verify: Verify, log_tool: Run) -> None:
    queue = BigQueue.open(tmp_path, options=QueueOptions(segment_bytes=500))
    for number in range(20):
        queue.enqueue(b"item %d" % number + b"." * 60)
    queue.dequeue_many("g", max_items=15)
    assert log_tool("verify", tmp_path)[0] == 2, "it is open"
    queue.close()
    assert verify(tmp_path) == []
    (folder,) = (tmp_path / "streams").glob("*/0")
    name = str(folder.relative_to(tmp_path))
    for path in sorted(folder.glob("*.log"))[2:]:
        path.unlink()
        path.with_suffix(".index").unlink()
    (tmp_path / "clean").unlink()
    assert verify(tmp_path) == [("damage", name, 0)], "the front of g lies above the end"
    (tmp_path / "fronts").unlink()
    assert verify(tmp_path) == [("damage", "fronts", 0)]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("seconds_per_look", "shown"), [(0.001, False), (1.0, True)])
def test_verify_says_how_far_it_is_once_it_takes_long(
    seconds_per_look: float, shown: bool, node: Path, log_tool: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = itertools.count(0.0, seconds_per_look)
    monkeypatch.setattr("liftlog.commands.log.monotonic", lambda: next(clock))
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    assert cli.main(["log", "verify", str(node)]) == 0
    assert ("MiB" in terminal.getvalue()) == shown


# ----- repair -----


def test_repair_makes_indexes_anew_and_removes_what_is_unfinished(
    node: Path, verify: Verify, log_tool: Run
) -> None:
    good = {name: content for name, (content, _) in fingerprint(node).items()}
    first, second, third = segments(node)[:3]
    first.with_suffix(".index").unlink()
    flip(second.with_suffix(".index"), 30)
    third.with_suffix(".index").write_bytes(b"")
    (node / "vote.tmp").write_bytes(b"half")
    before = fingerprint(node)
    code, text = log_tool("repair", node, "--dry-run")
    assert code == 0 and text.count("would have") == 4 and fingerprint(node) == before
    code, text = log_tool("repair", node, "--json")
    assert code == 0 and len(json.loads(text)["done"]) == 4 and json.loads(text)["left"] == []
    assert {name: content for name, (content, _) in fingerprint(node).items()} == good, "byte for byte"
    assert verify(node) == []
    assert log_tool("repair", node) == (0, f"{node}: nothing to repair\n")


def test_repair_finishes_a_replacement(killed_node: Path, verify: Verify, log_tool: Run) -> None:
    node = killed_node
    _, second = half_done_replacement(node)
    code, _ = log_tool("repair", node)
    assert code == 0 and not second.exists() and not second.with_suffix(".index").exists()
    assert verify(node) == []
    assert "offsets [0, 11), 11 records" in log_tool("verify", node)[1]


def test_repair_never_cuts_data_and_says_what_is_left(killed_node: Path, log_tool: Run) -> None:
    first, last = segments(killed_node)[0], segments(killed_node)[-1]
    flip(first, 70)
    with last.open("ab") as file:
        file.write(b"torn")
    (killed_node / "vote").write_bytes(b"LIFTSTA1")
    before = fingerprint(killed_node)
    code, text = log_tool("repair", killed_node)
    assert code == 1 and fingerprint(killed_node) == before
    left = [line for line in text.splitlines() if line.startswith("left: ")]
    assert [line.split(":")[1].strip() for line in left] == ["damage", "damage", "torn"]
    assert "start with an empty one, so that it rejoins" in text, "a damaged vote is never taken for none"
    assert "copies it from its peers" in text and "the next start cuts it off" in text


def test_a_start_after_repair_finds_what_it_would_have_found_without(
    node: Path, tmp_path: Path, log_tool: Run
) -> None:
    segments(node)[0].with_suffix(".index").unlink()
    shutil.copytree(node, tmp_path / "other")
    log_tool("repair", node)
    found = []
    for folder in (node, tmp_path / "other"):
        disk = RealDisk(str(folder))
        engine = StorageEngine(disk, StorageOptions(log=SMALL))
        found.append(engine.recover(1, "disk-1", 9))
        engine.close(True)
        disk.close()
    assert found[0] == found[1]


# ----- what crashes leave -----


def inspected(disk: SimDisk) -> tuple[Folder, Inspection]:
    """The tools' view of a queue on a simulated disk; to look must not take a call that writes."""
    logs = partitions_on_disk(disk)
    folder = Folder(Path("simulated"), QUEUE, disk, logs, True, RealDisk("."))
    before = {path: disk.content(path) for path in disk.files()}
    found = inspect_folder(folder, lambda read: None)
    assert {path: disk.content(path) for path in disk.files()} == before
    return folder, found


@pytest.mark.parametrize("crash", ["kill", "power"])
def test_what_a_crash_leaves_is_never_called_damage_and_to_repair_it_loses_nothing(crash: str) -> None:
    """A queue's life with a crash at every Disk call; after a repair, a start keeps every promise."""
    kinds = set()
    at_call = 0
    crashed = True
    while crashed:
        at_call += 1
        life, crashed = life_at(OPTIONS, at_call)
        random = Random(at_call)
        CRASHES[crash](life.disk, random)
        folder, found = inspected(life.disk)
        assert not [one for one in found.bad if one.kind != TORN], (at_call, found.findings)
        kinds |= {one.kind for one in found.findings}
        mend(folder, found, dry_run=False)
        left = {one.kind for one in inspected(life.disk)[1].findings}
        assert not left & {LEFTOVER, MISSING}, at_call
        problem = goes_on(life, random, crash == "power")
        assert not problem, f"at call {at_call}: {problem}"
    assert {LEFTOVER, TORN} <= kinds or (crash == "kill" and LEFTOVER in kinds), kinds


def test_a_crash_at_any_disk_call_of_a_repair_loses_nothing() -> None:
    for seed, crash in enumerate(("kill", "power")):
        within = 0
        crashed = True
        while crashed:
            within += 1
            disk = SimDisk(Random(within))
            life = Life(disk, OPTIONS)
            for _ in range(12):
                life.enqueue(1)
            life.dequeue("g", 5)
            life.flush()
            CRASHES["kill"](disk, Random(0))
            first, second = [path for path in disk.files() if path.endswith(".log")][:2]
            for path in (index_path(first), index_path(second)):
                disk.remove(path)
            disk.sync_directory(parent(first))
            replacement = disk.open(f"{first}.new.tmp", create=True)
            replacement.append([disk.content(first) + disk.content(second)])
            replacement.sync()
            disk.rename(f"{first}.new.tmp", first)
            disk.open("hw.tmp", create=True)
            folder, found = inspected(disk)
            assert [one.kind for one in found.findings] == [LEFTOVER, MISSING, LEFTOVER]
            disk.crash_after(within)
            try:
                mend(folder, found, dry_run=False)
                crashed = False
            except SimulatedCrash:
                pass
            random = Random(within * 2 + seed)
            CRASHES[crash](disk, random)
            problem = goes_on(life, random, crash == "power")
            assert not problem, f"{crash} at call {within} of the repair: {problem}"


# ----- dump -----


def test_dump_prints_each_batch_with_its_place(node: Path, log_tool: Run) -> None:
    code, text = log_tool("dump", node, "--stream", 17)
    assert code == 0
    lines = [line for line in text.splitlines() if line.startswith("  byte")]
    assert len(lines) == RECORDS
    assert lines[1].split() == [
        "byte", str(batches(segments(node)[0])[1]), "offsets", "[1,", "2)", "epoch", "1", "1", "records",
        str(batches(segments(node)[0])[1]), "bytes", "none", "synced_below", "1",
        "1970-01-01T00:00:01.001Z", "to", "1970-01-01T00:00:01.001Z",
    ]  # fmt: skip
    assert "epoch 2" in lines[6], "offset 6 begins epoch 2"
    assert f"{FOLDER}/{segments(node)[0].name}" == text.splitlines()[0]


def test_dump_begins_at_an_offset_and_ends_at_a_limit(node: Path, log_tool: Run) -> None:
    _, text = log_tool("dump", node, "--stream", 17, "--offset", 5, "--limit", 3, "--json")
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(line["base_offset"], line["end_offset"]) for line in lines] == [(5, 6), (6, 7), (7, 8)]
    assert "content" not in lines[0]


def test_dump_shows_records_of_every_kind(tmp_path: Path, log_tool: Run) -> None:
    disk = RealDisk(str(tmp_path))
    engine = StorageEngine(disk)
    engine.recover(1, "disk-1", 9)
    record = Record(0, 1234, b"a.b", b"_INBOX.1", b"NATS/1.0\r\n", b"k\xff", b"x" * 500)
    batch = encode_records(LOG, 3, [record, Record(1, 1235, b"a.c", b"", b"", None, None)])
    engine.write([OpenLog(LOG), AppendLog(LOG, [batch], Ticket(1))])
    engine.sync()
    engine.close(True)
    disk.close()
    _, text = log_tool("dump", tmp_path, "--stream", 17, "--records")
    assert "0  1970-01-01T00:00:01.234Z  a.b  reply '_INBOX.1'" in text and r"key 'k\xff'" in text
    assert "... (500 bytes)" in text and "1  1970-01-01T00:00:01.235Z  a.c  no value" in text
    _, text = log_tool("dump", tmp_path, "--stream", 17, "--records", "--json")
    first, second = json.loads(text)["content"]
    assert base64.b64decode(first["value"]) == record.value and base64.b64decode(first["key"]) == record.key
    assert base64.b64decode(first["headers"]) == record.headers
    assert (second["offset"], second["key"], second["value"], second["reply"]) == (1, None, None, "")


def test_dump_shows_damage_where_it_is_and_goes_on_behind_it(node: Path, log_tool: Run) -> None:
    path = segments(node)[0]
    flip(path, batches(path)[1] + 80)
    code, text = log_tool("dump", node, "--stream", 17)
    lines = text.splitlines()
    assert code == 1 and lines[2].split()[:3] == ["byte", str(batches(path)[1]), "DAMAGE"]
    assert "offsets [0, 1)" in lines[1] and "offsets [2, 3)" in lines[3]
    assert sum("offsets [" in line for line in lines) == RECORDS - 1


def test_dump_finds_a_good_batch_behind_bytes_that_look_like_one(node: Path, log_tool: Run) -> None:
    path = segments(node)[0]
    data = path.read_bytes()
    second = batches(path)[1]
    junk = bytearray(data[second : second + 40])
    assert MAGIC_BYTES in junk
    path.write_bytes(data[:second] + bytes(junk) + data[second:])
    code, text = log_tool("dump", node, "--stream", 17, "--json")
    lines = [json.loads(line) for line in text.splitlines()]
    assert code == 1 and [line["byte"] for line in lines[:3]] == [0, second, second + 40]
    assert [line["base_offset"] for line in lines if "damage" not in line] == list(range(RECORDS))


KEY = b"\x01\x9fk" * 10 + b"ab"


def test_an_encrypted_folder_is_verified_without_the_key_and_dumped_with_it(
    tmp_path: Path, verify: Verify, log_tool: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = tmp_path / "node"
    count = iter(range(1000))
    make_node(node, sealer=Sealer(KEY, lambda: next(count).to_bytes(12, "little")))
    assert verify(node) == []
    code, text = log_tool("dump", node, "--stream", 17, "--records", "--limit", 1)
    assert code == 0 and "none E" in text and "the records are encrypted: give the key" in text
    key_file = tmp_path / "key"
    key_file.write_text(KEY.hex())
    key_file.chmod(0o600)
    code, text = log_tool("dump", node, "--stream", 17, "--records", "--key-file", key_file)
    assert code == 0 and "value 3 ..." in text
    monkeypatch.setenv("LIFTLOG_ENCRYPTION_KEY", KEY[::-1].hex())
    code, text = log_tool("dump", node, "--stream", 17, "--records")
    assert code == 2 and "another key" in text and text.count("\n") == 1
    flip(segments(node)[1], 90)
    flip(node / "encryption", 20)
    assert [(kind, file, byte) for kind, file, byte in verify(node)] == [
        ("damage", "encryption", 16),
        ("damage", f"{FOLDER}/{segments(node)[1].name}", 0),
    ]


def test_V8_a_forged_open_batch_in_an_encrypted_folder_is_damage(tmp_path: Path, verify: Verify) -> None:
    """A node refused it, and this tool called the folder whole."""
    node = tmp_path / "node"
    count = iter(range(1000))
    make_node(node, sealer=Sealer(KEY, lambda: next(count).to_bytes(12, "little")))
    path = segments(node)[-1]
    data = path.read_bytes()
    last = batches(path)[-1]
    header = read_header(data, last)
    log = PartitionId(17, 0)
    forged = encode_values(log, header.base_offset, header.epoch, 0, [b"!" * 40]).data
    path.write_bytes(data[:last] + forged)
    found = verify(node)
    assert ("damage", f"{FOLDER}/{path.name}", last) in found
    # Where the key came later, what was there may lie open; the note says so.
    (node / "encryption").unlink()
    assert ("damage", f"{FOLDER}/{path.name}", last) not in verify(node)


def test_compressed_batches_are_dumped_and_verified(tmp_path: Path, verify: Verify, log_tool: Run) -> None:
    with BigQueue.open(tmp_path, options=QueueOptions(codec="zstd")) as queue:
        queue.enqueue_many([b"again and again " * 20] * 10)
    assert verify(tmp_path) == []
    _, text = log_tool("dump", tmp_path, "--records")
    assert "10 records" in text and " zstd " in text and text.count("again and again") >= 10
