"""A disk that a total loss has left is changed in one step, wherever that is cut short (M5, D4)."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from random import Random

import pytest

from liftlog.cli import main
from liftlog.commands.survivors import examined, joined, recovered
from liftlog.core.metadata.commands import RegisterNode, RequestId, encode_command
from liftlog.core.raft.log import batches_of
from liftlog.core.total_loss.plan import INDEX_GAP, TERM_GAP, vote_id
from liftlog.core.total_loss.reports import surveyed
from liftlog.messages import AppendLog, SaveHardState, SaveIdentity
from liftlog.ports import Disk
from liftlog.storage.engine import StorageEngine
from liftlog.types import (
    FIRST_CLUSTER,
    RAFT_LOG,
    ClusterEpoch,
    Entry,
    HardState,
    Identity,
    LiftlogError,
    Recovered,
    Ticket,
)
from liftlog_sim.devices.disk import SimDisk, SimulatedCrash
from tests.storage.storage_harness import (
    SMALL,
    new_disk,
    open_log,
    opened,
    quarantined,
    run,
    start,
    store,
    values,
)

NODES = range(1, 6)
BORN = HardState(2, 1, tuple((node, f"disk-{node}") for node in NODES), born=True, voted_disk="disk-1")


def registration(node: int) -> bytes:
    request = RequestId(7, node, 100)
    return encode_command(RegisterNode(request, node, 0, f"disk-{node}", 0, node, f"n{node}:1", tails=[]))


ENTRIES = [
    Entry(1, 1, b""),
    *(Entry(1 + node, 1 + (node > 3), registration(node)) for node in NODES),
    Entry(7, 2, b""),
]


def used_disk(node: int = 1, entries: int = 7) -> SimDisk:
    """The disk of a node of five, with a stream's log of five records, killed."""
    disk = new_disk(node)
    engine = StorageEngine(disk, SMALL)
    engine.recover(node, f"disk-{node}", 99)
    jobs = [
        SaveIdentity(Identity(node, f"disk-{node}", 5, cluster_epoch=1), Ticket(90)),
        SaveHardState(BORN, Ticket(91)),
        AppendLog(RAFT_LOG, batches_of(ENTRIES[:entries]), Ticket(92)),
    ]
    run(engine, *jobs)
    opened(engine)
    store(engine, 5)
    disk.kill()
    return disk


def recover(disk: Disk, destroyed: tuple[int, ...] = (2, 3, 4, 5)) -> None:
    """What the operator says, again and again until all of it is done."""
    one = examined(disk, None, finish=True)
    survivors = surveyed([one.report])
    if survivors.chosen.epoch.number == FIRST_CLUSTER.number:
        recovered([one], survivors, destroyed)


def started(disk: SimDisk) -> Recovered:
    """A start, whose stream has all its records."""
    disk.kill()
    engine, found = start(disk)
    run(engine, open_log())
    assert len(values(engine)) == 5
    disk.kill()
    return found


def is_anew(found: Recovered) -> bool:
    """Whether this is the new beginning; else it is the old state, all of it."""
    epoch = ClusterEpoch(found.identity.cluster_epoch, found.identity.recovery)
    if epoch == FIRST_CLUSTER:
        assert (found.identity.vote_id, found.hard_state, found.raft_entries) == ("", BORN, ENTRIES)
        return False
    assert epoch.number == 2 and found.identity.incarnation == 5
    assert found.identity.vote_id == f"disk-1-2-{epoch.name}" and not found.identity.renewing
    assert found.hard_state == HardState() and found.raft_entries == []
    assert found.snapshot is not None and not found.renewed
    assert found.raft_base == (found.snapshot.index, found.snapshot.term) == (7 + INDEX_GAP, 2 + TERM_GAP)
    return True


def test_M5_the_disk_goes_on_from_a_snapshot_and_keeps_what_it_was() -> None:
    disk = used_disk()
    before = disk.image()
    examined(disk, None)
    assert disk.image() == before, "to look changes nothing"
    recover(disk)
    assert is_anew(started(disk))
    kept = [path.partition("-")[2] for path in quarantined(disk)]
    assert {"identity", "vote"} <= set(kept)
    assert any(name.startswith("raft/") and name.endswith(".log") for name in kept)


def test_M5_D2_a_disk_with_a_file_that_cannot_be_read_is_looked_at_all_the_same() -> None:
    """An index says nothing that its segment does not: no reason to give a disk up."""
    base = used_disk().image()
    seen: dict[str, str] = {}
    for path, image in base.items():
        disk = new_disk(1)
        disk.restore(base)
        disk.unreadable(path, 0, len(image.content))
        if path == "identity":
            with pytest.raises(LiftlogError, match="leave it out, and state that it is destroyed"):
                examined(disk, None)
        elif image.content:
            report = examined(disk, None).report
            seen[path.rpartition("/")[2].lstrip("0")] = report.problem or report.copies[0].state
    assert seen.pop(".index") == seen.pop("logs") == "intact"
    assert sorted(seen) == [".log", "4.log", "start", "vote"] and "intact" not in seen.values()


@pytest.mark.parametrize("end", ["kill", "power"])
def test_M5_D4_cut_short_anywhere_the_change_is_complete_or_has_not_begun(end: str) -> None:
    base = used_disk().image()
    seen = []
    for call in count(1):
        disk = new_disk(call)
        disk.restore(base)
        disk.crash_after(call)
        try:
            recover(disk)
        except SimulatedCrash:
            pass
        else:
            break
        for again in (False, True):
            left = new_disk(call)
            if end == "kill":
                disk.kill()
            else:
                disk.power_loss(Random(call))
            left.restore(disk.image())
            if again:
                recover(left)
            seen.append(is_anew(started(left)))
            assert seen[-1] or not again
            assert not left.exists("recovered") or not seen[-1]
            recover(left)
            assert is_anew(started(left))
    assert True in seen and False in seen and len(seen) > 40


def test_M5_D4_cut_short_between_two_disks_the_second_one_follows_when_it_is_said_again() -> None:
    disks = [used_disk(1), used_disk(2, entries=6)]
    looked = [examined(disk, None) for disk in disks]
    survivors = surveyed([one.report for one in looked])
    assert survivors.chosen.node == 1
    with pytest.raises(LiftlogError, match="not here: the disks of nodes 5"):
        recovered(looked, survivors, (3, 4))
    disks[1].crash_after(3)
    with pytest.raises(SimulatedCrash):
        recovered(looked, survivors, (3, 4, 5))
    disks[1].kill()
    looked = [examined(disk, None, finish=True) for disk in disks]
    assert [one.report.epoch.number for one in looked] == [2, 1]
    # What was stated to be destroyed does not slip in.
    third = examined(used_disk(3), None)
    with pytest.raises(LiftlogError, match=r"node 3 .* was left out when the cluster was recovered"):
        surveyed([looked[0].report, third.report])
    survivors = surveyed([one.report for one in looked])
    assert [disk.node for disk in survivors.behind] == [2]
    assert joined(looked, survivors) == [2]
    first, second = (examined(disk, None) for disk in disks)
    assert first.report.epoch == second.report.epoch
    assert second.identity.vote_id == vote_id(second.report, second.report.epoch)
    # It is sent what the first one has.
    assert second.report.problem == "it holds no command"
    assert [copy.end for copy in second.report.copies] == [5]
    assert surveyed([first.report, second.report]).behind == ()


# -- the command -------------------------------------------------------------------------------------------


def folder_of(path: Path, node: int, entries: int = 7) -> Path:
    """The same disk as files."""
    disk = used_disk(node, entries)
    for name in disk.files():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(disk.content(name))
    return path


def test_M5_each_machine_is_told_the_same_and_changes_its_own_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = {node: folder_of(tmp_path / f"n{node}", node, 8 - node) for node in (1, 2)}
    reports = {node: tmp_path / f"r{node}.json" for node in folders}
    stated = ["--destroyed", "3", "--destroyed", "4", "--destroyed", "5"]

    def say(*words: str | Path) -> tuple[int, str, str]:
        code = main(["cluster", "recover", *map(str, words)])
        return code, *capsys.readouterr()

    for node, folder in folders.items():
        assert say(folder, "--write-report", reports[node])[0] == 0
    code, said, error = say(folders[1])
    assert code == 2 and "--destroyed 2 --destroyed 3" in error
    code, said, error = say(folders[1], "--report", reports[2], *stated)
    assert code == 2 and "say the same with --yes" in error
    assert "may be lost: what the missing voters decided after entry 7" in said
    code, said, error = say(folders[2], "--report", reports[1], *stated, "--dry-run")
    assert (code, error) == (0, "") and "what of each partition may be lost is said where" in said
    assert not (folders[2] / "quarantine").exists()
    for here, there in ((1, 2), (2, 1)):
        code, said, error = say(folders[here], "--report", reports[there], *stated, "--yes", "--json")
        assert (code, error) == (0, "")
        told = json.loads(said)
        assert told["chosen"] == 1 and "epoch 2 of the cluster begins with the disk of node 1" in told["said"]
    # Both belong to one cluster, and nothing is left to do.
    code, said, error = say(folders[1], folders[2], *stated, "--yes")
    assert (code, error) == (0, "") and "epoch 2 has begun: start the nodes" in said
    assert not (folders[1] / "recovered").exists()


def test_M5_what_is_no_node_and_what_cannot_be_read_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*words: str | Path) -> str:
        assert main(["cluster", "recover", *map(str, words)]) == 2
        return capsys.readouterr().err

    assert "name the data folders" in refused()
    assert "there is no such folder" in refused(tmp_path / "none")
    folder = folder_of(tmp_path / "n1", 1)
    assert "takes one data folder" in refused(folder, "--write-report", tmp_path / "r", "--yes")
    (tmp_path / "bad.json").write_text("{}")
    assert "is no report of" in refused(folder, "--report", tmp_path / "bad.json")
    (folder / "identity").write_bytes(b"LIFTSTA1 and no more of it")
    assert "whose disk this is cannot be read" in refused(folder)
    other = folder_of(tmp_path / "n2", 2)
    (other / "vote").unlink()
    assert "no disk holds metadata that can be used; of node 2" in refused(other)
