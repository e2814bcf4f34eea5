"""The metadata group's snapshot on disk (M1p, M1q, M4): replaced as a whole, never half an installation."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from liftlog.messages import (
    Durable,
    Event,
    InstallSnapshot,
    MetadataStalled,
    MoveLogStart,
    RetryMetadata,
    SaveHardState,
    SaveSnapshot,
    SnapshotRefused,
    StorageJob,
)
from liftlog.storage.engine import StorageEngine
from liftlog.storage.layout import SNAPSHOT
from liftlog.storage.snapshots import read_snapshot, write_snapshot
from liftlog.types import (
    RAFT_LOG,
    Entry,
    HardState,
    LiftlogError,
    LogBase,
    Recovered,
    Snapshot,
    Ticket,
)
from liftlog_sim.devices.disk import SimDisk, SimulatedCrash
from tests.storage.batch_kinds import sealer
from tests.storage.storage_harness import SMALL, append, given_up, new_disk, restart, run, start

GOLDEN = Path(__file__).parent.parent / "golden" / "snapshot-1.hex"
OLDER = Snapshot(2, 1, (b"older",))
SAVED = Snapshot(4, 2, (b"first chunk", b"second chunk" * 20, b"third"))
NEWER = Snapshot(9, 3, (b"from the leader", b"", b"its third chunk"))


def voter() -> SimDisk:
    """A disk that has voted and holds six Raft entries, two of term 1 and four of term 2."""
    disk = new_disk()
    engine, _ = start(disk)
    run(engine, SaveHardState(HardState(3, 1), Ticket(1)))
    run(engine, append(0, [b"1", b"2"], 2, epoch=1, log=RAFT_LOG))
    for index in range(3, 7):
        run(engine, append(index - 1, [b"%d" % index], index, epoch=2, log=RAFT_LOG))
    disk.kill()
    return disk


def save(snapshot: Snapshot, ticket: int = 50) -> SaveSnapshot:
    return SaveSnapshot(snapshot, Ticket(ticket))


def install(snapshot: Snapshot, reset: bool = True, ticket: int = 60) -> InstallSnapshot:
    return InstallSnapshot(snapshot, reset, Ticket(ticket))


def held(recovered: Recovered) -> tuple[LogBase, list[tuple[int, int]], Snapshot | None]:
    entries = [(entry.index, entry.term) for entry in recovered.raft_entries]
    return recovered.raft_base, entries, recovered.snapshot


def test_a_folder_without_a_snapshot_starts_as_ever() -> None:
    _, recovered = start(voter())
    assert held(recovered) == (LogBase(0, 0), [(1, 1), (2, 1), (3, 2), (4, 2), (5, 2), (6, 2)], None)


def test_a_snapshot_comes_back_with_the_entries_that_follow_its_log_start() -> None:
    disk = voter()
    engine, _ = start(disk)
    assert run(engine, save(OLDER)) == [Durable(Ticket(50))]
    assert run(engine, save(SAVED, 51), MoveLogStart(RAFT_LOG, 3)) == [Durable(Ticket(51))]
    for _ in range(2):
        disk.power_loss(Random(3))
        _, recovered = start(disk)
        assert held(recovered) == (LogBase(3, 2), [(4, 2), (5, 2), (6, 2)], SAVED)


def test_what_lies_before_the_snapshot_goes_from_the_disk() -> None:
    disk = voter()
    engine, _ = start(disk)
    for index in range(7, 40):
        run(engine, append(index - 1, [b"." * 200], index, epoch=2, log=RAFT_LOG))
    before = sum(len(disk.content(path)) for path in disk.files_below("raft/"))
    run(engine, save(Snapshot(38, 2, (b"all",))), MoveLogStart(RAFT_LOG, 36))
    assert sum(len(disk.content(path)) for path in disk.files_below("raft/")) < before / 3


def test_an_installation_in_place_of_the_log() -> None:
    disk = voter()
    engine, _ = start(disk)
    assert run(engine, install(NEWER)) == [Durable(Ticket(60))]
    assert run(engine, append(9, [b"10"], 61, epoch=3, log=RAFT_LOG)) == [Durable(Ticket(61))]
    disk.power_loss(Random(4))
    _, recovered = start(disk)
    assert held(recovered) == (LogBase(9, 3), [(10, 3)], NEWER)


def test_an_installation_that_the_log_goes_on_behind() -> None:
    disk = voter()
    engine, _ = start(disk)
    run(engine, install(SAVED, reset=False), MoveLogStart(RAFT_LOG, 4))
    disk.kill()
    _, recovered = start(disk)
    assert held(recovered) == (LogBase(4, 2), [(5, 2), (6, 2)], SAVED)


def groups(together: bool) -> list[list[StorageJob]]:
    """The log loses its beginning only once the snapshot is durable, so never in one group with it."""
    first: list[StorageJob] = [append(6, [b"7"], 30, epoch=2, log=RAFT_LOG), save(SAVED)]
    later: list[StorageJob] = [
        MoveLogStart(RAFT_LOG, 3),
        install(NEWER),
        append(9, [b"10"], 61, epoch=3, log=RAFT_LOG),
    ]
    return [first, later] if together else [[job] for job in (*first, *later)]


@pytest.mark.parametrize("power", [False, True])
@pytest.mark.parametrize("together", [False, True])
def test_D4_a_crash_at_any_call_leaves_the_old_or_the_new_and_no_promise_is_broken(
    power: bool, together: bool
) -> None:
    """After each call to the disk in turn: a kill, or a power loss that keeps what it likes."""
    seen: list[tuple[LogBase, Snapshot | None]] = []
    for calls in range(1, 400):
        disk = voter()
        engine, _ = start(disk)
        done: list[Event] = []
        disk.crash_after(calls)
        crashed = False
        try:
            for group in groups(together):
                done += run(engine, *group)
        except SimulatedCrash:
            crashed = True
        if power:
            disk.power_loss(Random(calls))
        else:
            disk.kill()
        _, recovered = start(disk)
        base, entries, snapshot = held(recovered)
        seen.append((base, snapshot))
        tickets = [event.ticket for event in done if isinstance(event, Durable)]
        reached = entries[-1][0] if entries else base.index
        promised = {30: 7, 50: 4, 60: 9, 61: 10}
        assert reached >= max([6, *(promised[ticket] for ticket in tickets)])
        if 50 in tickets:
            assert snapshot in (SAVED, NEWER)
        if snapshot is not None:
            assert base.index <= snapshot.index <= reached
            terms = dict([base, *entries])
            assert terms[snapshot.index] == snapshot.term, "the log goes on behind the snapshot"
        if not crashed:
            break
    else:
        raise AssertionError("it never came to an end")
    assert (LogBase(0, 0), None) in seen and (LogBase(9, 3), NEWER) in seen
    assert any(snapshot == SAVED for _, snapshot in seen)


@pytest.mark.parametrize("power", [False, True])
def test_D4_a_start_that_dies_while_it_ends_an_installation_is_repeated(power: bool) -> None:
    for calls in range(1, 200):
        disk = voter()
        write_snapshot(disk, None, NEWER)
        disk.crash_after(calls)
        crashed = False
        try:
            start(disk)
        except SimulatedCrash:
            crashed = True
        disk.power_loss(Random(calls)) if power else disk.kill()
        _, recovered = start(disk)
        assert held(recovered) == (LogBase(9, 3), [], NEWER)
        if not crashed:
            return
    raise AssertionError("it never came to an end")


def test_a_log_with_another_entry_at_the_snapshots_end_goes_at_the_start() -> None:
    disk = voter()
    write_snapshot(disk, None, Snapshot(5, 3, (b"x",)))
    for _ in range(2):
        _, recovered = restart(disk)
        assert held(recovered) == (LogBase(5, 3), [], Snapshot(5, 3, (b"x",)))


def test_M4_any_damage_to_a_snapshot_names_the_file_and_gives_it_up() -> None:
    disk = voter()
    engine, _ = start(disk)
    run(engine, save(SAVED), MoveLogStart(RAFT_LOG, 3))
    disk.kill()
    content = disk.content(SNAPSHOT)
    for byte in range(len(content)):
        disk.flip(SNAPSHOT, byte, byte % 8)
        given_up(disk, r"damaged metadata: raft/snapshot byte \d+: .*data folder away")
        disk.flip(SNAPSHOT, byte, byte % 8)
    for length in range(0, len(content), 7):
        disk.open(SNAPSHOT).truncate(length)
        given_up(disk, "damaged metadata: raft/snapshot byte")
        disk.remove(SNAPSHOT)
        disk.open(SNAPSHOT, create=True).append([content])
    assert held(start(disk)[1])[2] == SAVED


def test_M4_a_log_that_begins_behind_its_snapshots_end_is_damage() -> None:
    disk = voter()
    engine, _ = start(disk)
    run(engine, save(SAVED), MoveLogStart(RAFT_LOG, 4))
    disk.kill()
    content = disk.content(SNAPSHOT)
    disk.remove(SNAPSHOT)
    given_up(disk, "raft/snapshot: it is missing, and the log begins behind entry 4")
    write_snapshot(disk, None, OLDER)
    given_up(disk, "raft/snapshot: it ends with entry 2, and the log begins behind entry 4")
    disk.remove(SNAPSHOT)
    disk.open(SNAPSHOT, create=True).append([content])
    assert held(start(disk)[1])[0] == LogBase(4, 2)


def test_M4_a_snapshot_without_an_identity_is_no_empty_disk() -> None:
    disk = voter()
    write_snapshot(disk, None, SAVED)
    for path in ("identity", "vote", f"raft/{0:020d}.log", "raft/start"):
        disk.remove(path)
    with pytest.raises(
        LiftlogError, match="identity byte 0: the file is missing although this disk was in use"
    ):
        start(disk)


def test_D5_a_full_disk_keeps_the_snapshot_that_it_has() -> None:
    disk = voter()
    engine, _ = start(disk)
    run(engine, save(OLDER))
    disk.fill(True, 30)
    (refused,) = run(engine, save(SAVED, 51))
    assert isinstance(refused, SnapshotRefused) and refused.ticket == 51
    disk.fill(False)
    assert run(engine, save(SAVED, 52)) == [Durable(Ticket(52))]
    disk.kill()
    assert held(start(disk)[1])[2] == SAVED


def test_R5_a_snapshot_whose_sync_failed_is_written_anew() -> None:
    disk = voter()
    engine, _ = start(disk)
    run(engine, save(OLDER))
    disk.fail_next_sync("raft/snapshot")
    (refused,) = run(engine, save(SAVED, 51))
    assert isinstance(refused, SnapshotRefused)
    assert read_snapshot(disk, None) == OLDER
    assert run(engine, save(SAVED, 52)) == [Durable(Ticket(52))]


def test_D5_an_installation_waits_for_space_and_what_follows_waits_behind_it() -> None:
    disk = voter()
    engine, _ = start(disk)
    disk.fill(True, 30)
    stalled = run(engine, install(NEWER), append(9, [b"10"], 61, epoch=3, log=RAFT_LOG))
    assert [type(event) for event in stalled] == [MetadataStalled]
    assert run(engine, save(NEWER, 62)) == [
        SnapshotRefused(Ticket(62), "the disk does not take metadata at present")
    ]
    disk.fill(False)
    later = run(engine, RetryMetadata())
    assert [event.ticket for event in later if isinstance(event, Durable)] == [60, 61]
    disk.power_loss(Random(5))
    assert held(start(disk)[1]) == (LogBase(9, 3), [(10, 3)], NEWER)


def test_an_older_snapshot_of_the_same_group_of_jobs_does_not_come_after_the_installed_one() -> None:
    disk = voter()
    engine, _ = start(disk)
    events = run(engine, save(SAVED), install(NEWER))
    assert events == [SnapshotRefused(Ticket(50), "a newer one is installed"), Durable(Ticket(60))]
    disk.kill()
    assert held(start(disk)[1])[2] == NEWER


def test_with_encryption_nothing_of_a_snapshot_lies_open_and_an_open_one_is_refused() -> None:
    disk = new_disk()
    engine = StorageEngine(disk, SMALL, sealer=sealer())
    engine.recover(1, "disk-1", 99)
    run(engine, append(0, [b"1", b"2"], 2, epoch=1, log=RAFT_LOG), save(OLDER))
    assert b"older" not in disk.content(SNAPSHOT)
    disk.kill()
    assert StorageEngine(disk, SMALL, sealer=sealer()).recover(1, "disk-1", 99).snapshot == OLDER
    disk.kill()
    write_snapshot(disk, None, OLDER)
    recovered = StorageEngine(disk, SMALL, sealer=sealer()).recover(1, "disk-1", 99)
    assert recovered.snapshot is None
    assert "raft/snapshot byte 0: the chunk is not encrypted" in recovered.renewed


def test_when_encryption_is_switched_on_the_snapshot_is_encrypted_at_once() -> None:
    disk = voter()
    engine, _ = start(disk)
    run(engine, save(SAVED))
    engine.close(True)
    disk.kill()
    taking = StorageEngine(disk, SMALL, sealer=sealer(), take_over_open_logs=True)
    assert taking.recover(1, "disk-1", 99).snapshot == SAVED
    assert b"first chunk" not in disk.content(SNAPSHOT)


def test_the_bytes_are_those_of_the_golden_file() -> None:
    disk = voter()
    write_snapshot(disk, None, SAVED)
    assert disk.content(SNAPSHOT).hex() == GOLDEN.read_text().replace("\n", "")


def test_entries_are_what_was_written() -> None:
    disk = voter()
    engine, _ = start(disk)
    run(engine, save(SAVED), MoveLogStart(RAFT_LOG, 4))
    disk.kill()
    assert start(disk)[1].raft_entries == [Entry(5, 2, b"5"), Entry(6, 2, b"6")]
