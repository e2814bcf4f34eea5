"""D5, M1: metadata that the disk refuses is held back, in its order, and written when there is space."""

from __future__ import annotations

import errno
from random import Random

import pytest

from liftlog.messages import (
    Durable,
    MetadataStalled,
    RetryMetadata,
    SaveHardState,
    SaveIdentity,
    StorageFailed,
)
from liftlog.types import RAFT_LOG, HardState, Identity, Ticket
from tests.storage.storage_harness import LOG, append, new_disk, opened, restart, run, start


def vote(term: int, ticket: int) -> SaveHardState:
    return SaveHardState(HardState(term=term, voted_for=1), Ticket(ticket))


def tickets(events: list[object]) -> list[int]:
    return [event.ticket for event in events if isinstance(event, Durable)]


@pytest.mark.parametrize("free_bytes", [0, 20, 100, 150])
def test_D5_what_is_refused_and_all_that_follows_is_durable_in_order_once_there_is_space(
    free_bytes: int,
) -> None:
    disk = new_disk()
    engine, _ = start(disk)
    run(engine, append(0, [b"a"], 1, log=RAFT_LOG), vote(1, 2))
    disk.fill(True, free_bytes)
    jobs = [vote(2, 3), append(1, [b"b"], 4, log=RAFT_LOG), vote(3, 5), append(2, [b"c"], 6, 2, RAFT_LOG)]
    first = run(engine, *jobs, SaveIdentity(Identity(1, "disk-1", 7), Ticket(7)))
    assert [event for event in first if isinstance(event, StorageFailed)] == []
    assert len([event for event in first if isinstance(event, MetadataStalled)]) == 1
    done = tickets(first)
    assert done == [3, 4, 5, 6, 7][: len(done)], "nothing overtakes what was refused"
    assert run(engine, RetryMetadata()) == []
    assert tickets(run(engine, append(3, [b"d"], 8, 2, RAFT_LOG))) == []
    disk.fill(False)
    later = run(engine, RetryMetadata())
    assert [event.error for event in later if isinstance(event, MetadataStalled)] == [""]
    assert done + tickets(later) == [3, 4, 5, 6, 7, 8]
    disk.power_loss(Random(1))
    _, recovered = start(disk)
    assert [entry.data for entry in recovered.raft_entries] == [b"a", b"b", b"c", b"d"]
    assert (recovered.hard_state.term, recovered.identity.incarnation) == (3, 7)


def test_D5_a_log_of_a_stream_is_written_while_metadata_is_held_back() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    opened(engine)
    disk.fail_next("append", matching="vote")
    events = run(engine, vote(1, 1), append(0, [b"x"], 2))
    assert tickets(events) == [2]
    assert tickets(run(engine, RetryMetadata())) == [1]


def test_R5_a_failed_sync_of_the_metadata_log_is_final() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    disk.fail_next_sync("raft/")
    (failed,) = run(engine, append(0, [b"a"], 1, log=RAFT_LOG))
    assert isinstance(failed, StorageFailed) and failed.sync and failed.log == RAFT_LOG


@pytest.mark.parametrize(
    ("operation", "matching"),
    [("append", "vote"), ("open", "vote"), ("sync", "vote"), ("rename", "vote"), ("sync_directory", "")],
)
def test_D5_a_state_file_that_cannot_be_put_in_place_is_written_anew(operation: str, matching: str) -> None:
    """The old vote stays, whatever was refused; nothing behind it is said before the new one is durable."""
    disk = new_disk()
    engine, _ = start(disk)
    run(engine, append(0, [b"a"], 1, log=RAFT_LOG), vote(1, 2))
    opened(engine)
    disk.fail_next(operation, errno.ENOSPC, matching)
    first = run(
        engine, append(1, [b"b"], 3, log=RAFT_LOG), vote(2, 4), append(2, [b"c"], 5, 2, RAFT_LOG), vote(3, 6)
    )
    assert not [event for event in first if isinstance(event, StorageFailed)]
    done = tickets(first)
    assert done == [3], "the entry that came before the vote counts, what came behind it does not"
    assert [event.error for event in first if isinstance(event, MetadataStalled)] != [""]
    assert tickets(run(engine, append(0, [b"x"], 7), append(3, [b"d"], 8, 2, RAFT_LOG))) == [7]
    later = run(engine, RetryMetadata())
    assert tickets(later) == [4, 5, 6, 8]
    assert [event.error for event in later if isinstance(event, MetadataStalled)] == [""]
    disk.power_loss(Random(1))
    _, recovered = start(disk)
    assert recovered.hard_state.term == 3
    assert [entry.data for entry in recovered.raft_entries] == [b"a", b"b", b"c", b"d"]


def test_D5_a_state_file_that_stays_refused_is_told_once_for_each_attempt_and_never_as_stored() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    disk.fail_next("rename", errno.ENOSPC, "vote")
    assert [type(event) for event in run(engine, vote(1, 1))] == [MetadataStalled]
    for _ in range(3):
        disk.fail_next("rename", errno.ENOSPC, "vote")
        (event,) = run(engine, RetryMetadata())
        assert isinstance(event, MetadataStalled) and "vote" in event.error
    assert restart(disk)[1].hard_state.term == 0


def test_R5_a_vote_whose_sync_failed_is_not_believed_when_the_same_file_is_synced_again() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    disk.fail_next("sync", errno.EIO, "vote")
    assert tickets(run(engine, vote(1, 1))) == []
    assert tickets(run(engine, RetryMetadata())) == [1]
    disk.power_loss(Random(1))
    assert start(disk)[1].hard_state.term == 1


def test_D5_what_was_held_back_when_the_process_died_was_never_promised() -> None:
    disk = new_disk()
    engine, _ = start(disk)
    run(engine, vote(1, 1), append(0, [b"a"], 2, log=RAFT_LOG))
    disk.fill(True)
    run(engine, vote(2, 3), append(1, [b"b"], 4, log=RAFT_LOG))
    disk.fill(False)
    _, recovered = restart(disk)
    assert recovered.hard_state.term == 1 and len(recovered.raft_entries) == 1
    assert LOG not in [summary.log for summary in recovered.logs]
