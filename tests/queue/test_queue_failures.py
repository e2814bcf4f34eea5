"""Disks that fail, files that are damaged: a clear error, nothing wrong handed out, nothing silently gone."""

from __future__ import annotations

from random import Random

import pytest

from liftlog.queue import InternalError, QueueOptions, ResultCode
from liftlog.types import TailState
from liftlog_sim.devices.disk import SimDisk
from tests.queue.queue_harness import SMALL, back_files, new_disk, numbered, open_on, reopen


def test_D5_a_full_disk_refuses_and_the_queue_goes_on_when_there_is_space() -> None:
    disk = new_disk()
    queue = open_on(disk)
    queue.enqueue_many(numbered(0, 3))
    disk.fill()
    with pytest.raises(InternalError, match="nothing was changed") as refused:
        queue.enqueue_many(numbered(3, 3))
    assert refused.value.result is ResultCode.TRY_LATER
    assert len(queue) == 3 and queue.dequeue() == numbered(0, 1)[0], "reads go on"
    disk.fill(False)
    assert queue.enqueue_many(numbered(3, 3)) == 3
    assert list(reopen(disk)) == numbered(0, 6)


def test_a_front_that_cannot_be_saved_hands_out_nothing() -> None:
    disk = new_disk()
    queue = open_on(disk, QueueOptions(repeat_max=1))
    queue.enqueue_many(numbered(0, 3))
    assert queue.dequeue() == numbered(0, 1)[0]
    disk.fill()
    with pytest.raises(InternalError) as refused:
        queue.dequeue()
    assert refused.value.result is ResultCode.TRY_LATER and queue.front() == 1
    disk.fill(False)
    assert queue.dequeue() == numbered(1, 1)[0]


@pytest.mark.parametrize("path", [".log", "fronts"])
def test_R5_after_a_failed_sync_the_queue_refuses_everything_until_it_is_opened_again(path: str) -> None:
    disk = new_disk()
    queue = open_on(disk)
    queue.enqueue_many(numbered(0, 3))
    queue.flush()
    queue.enqueue_many(numbered(3, 3))
    queue.dequeue()
    disk.fail_next_sync(path)
    with pytest.raises(InternalError) as failed:
        queue.flush()
    assert failed.value.result is ResultCode.FAILURE
    for use in (queue.flush, queue.dequeue, queue.size, lambda: queue.enqueue(b"x")):
        with pytest.raises(InternalError, match="open it again"):
            use()
    queue.close()
    queue = reopen(disk)
    assert queue.tail is not TailState.CLEAN, "closing must not call such a stop clean"
    found = list(queue)
    assert found == numbered(0, len(found)) and len(found) >= 3
    disk.power_loss(Random(1))
    assert list(open_on(disk)) == found, "what an opening shows is durable"


def test_an_append_torn_off_by_an_interrupt_gives_the_queue_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory and file may differ: nobody may go on with either."""
    disk = new_disk()
    queue = open_on(disk)
    queue.enqueue(b"a")
    written = queue._log.append

    def interrupted(batches: object) -> None:
        written(batches)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(queue._log, "append", interrupted)
    with pytest.raises(KeyboardInterrupt):
        queue.enqueue(b"b")
    with pytest.raises(InternalError, match="open it again"):
        queue.dequeue()
    queue.close()
    assert list(reopen(disk)) in ([b"a"], [b"a", b"b"])


def closed_queue(disk: SimDisk) -> None:
    queue = open_on(disk)
    for item in numbered(0, 40):
        queue.enqueue(item)
    queue.dequeue_many("g", max_items=12)
    queue.close()


def test_damaged_items_are_never_handed_out_and_can_be_passed_over() -> None:
    disk = new_disk()
    closed_queue(disk)
    path = back_files(disk)[1]
    disk.flip(path, 100, 3)
    queue = reopen(disk)
    first = int(path.rpartition("/")[2].removesuffix(".log"))
    assert queue.dequeue_many("new") == numbered(0, first), "what lies before the damage"
    with pytest.raises(InternalError, match=rf"{path} byte .*move_front\(group, {first + 1}\)") as damaged:
        queue.dequeue("new")
    assert damaged.value.result is ResultCode.FAILURE
    assert queue.front("new") == first, "nothing was passed over"
    queue.move_front("new", first + 1)
    assert queue.dequeue("new") == numbered(first + 1, 1)[0], "other items are readable"
    assert [(one.start, one.end) for one in queue.damage] == [(first, first + 1)]
    queue.close()
    queue = reopen(disk)
    assert [(one.start, one.end) for one in queue.damage] == [(first, first + 1)], "remembered"


def test_items_that_vanished_from_the_end_do_not_open_unless_it_is_accepted() -> None:
    disk = new_disk()
    closed_queue(disk)
    file = disk.open(back_files(disk)[-1])
    file.truncate(file.size() - 10)
    for _ in range(2):
        disk.kill()
        with pytest.raises(InternalError, match=r"items were lost.*accept_loss=True"):
            open_on(disk)
    queue = reopen(disk, accept_loss=True)
    end = len(queue)
    assert list(queue) == numbered(0, end) and end == 39
    assert any(path.startswith("quarantine/") for path in disk.files())
    queue.close()
    assert reopen(disk).tail is TailState.CLEAN, "it was accepted once and for all"


def test_a_torn_end_after_a_crash_is_cut_and_told() -> None:
    disk = new_disk()
    queue = open_on(disk)
    queue.enqueue_many(numbered(0, 3))
    queue.flush()
    queue.enqueue(b"last" * 10)
    path = back_files(disk)[-1]
    disk.flip(path, len(disk.content(path)) - 1, 0)
    queue = reopen(disk)
    assert queue.tail is TailState.SUSPECT and list(queue) == numbered(0, 3)
    assert queue.enqueue(b"again") == 3


@pytest.mark.parametrize("byte", [0, 9, 13, 17, 20])
def test_M4_damaged_fronts_are_never_taken_for_none(byte: int) -> None:
    disk = new_disk()
    closed_queue(disk)
    disk.flip("fronts", byte, 1)
    disk.kill()
    with pytest.raises(InternalError, match=r"fronts byte \d+: .*every group begins at the first item again"):
        open_on(disk)
    queue = reopen(disk, accept_loss=True)
    assert queue.groups() == {} and queue.dequeue("g") == numbered(0, 1)[0]
    assert reopen(disk).groups() == {}


def test_M4_missing_fronts_are_never_taken_for_none() -> None:
    disk = new_disk()
    closed_queue(disk)
    disk.remove("fronts")
    disk.kill()
    with pytest.raises(InternalError, match="fronts byte 0: the file is missing"):
        open_on(disk)
    assert len(reopen(disk, accept_loss=True)) == 40


def test_M4_items_that_vanished_with_their_files_are_noticed_by_the_fronts() -> None:
    """All files of the log gone would look like a new queue: the saved fronts know better."""
    disk = new_disk()
    queue = open_on(disk)
    queue.enqueue_many(numbered(0, 5))
    queue.dequeue_many("g", max_items=4)
    queue.flush()
    for path in disk.files():
        if path.startswith("streams/"):
            disk.remove(path)
    disk.kill()
    with pytest.raises(InternalError, match="accept_loss=True"):
        open_on(disk)
    queue = reopen(disk, accept_loss=True)
    assert len(queue) == 0 and queue.groups() == {"g": 0}
    assert queue.enqueue(b"new") == 0 and queue.dequeue("g") == b"new"


def test_M4_a_log_folder_that_vanished_is_noticed() -> None:
    disk = new_disk()
    closed_queue(disk)
    disk.remove_tree("streams")
    disk.kill()
    with pytest.raises(InternalError, match="the log is missing"):
        open_on(disk)
    assert len(reopen(disk, accept_loss=True)) == 0


def test_a_segment_of_another_queue_does_not_verify() -> None:
    """Each queue's id is part of every checksum (I1)."""
    disk, other = new_disk(), new_disk(1)
    queue = open_on(disk, SMALL)
    queue.enqueue_many(numbered(0, 3))
    queue.close()
    from liftlog.queue import BigQueue

    foreign = BigQueue.open(disk=other, options=SMALL, new_id=78)
    foreign.enqueue_many(numbered(100, 3))
    foreign.close()
    for path in other.files():
        if path.startswith("streams/78/"):
            target = path.replace("streams/78/", "streams/77/")
            disk.make_directory("streams/77/0")
            if disk.exists(target):
                disk.remove(target)
            disk.open(target, create=True).append([other.content(path)])
    disk.kill()
    with pytest.raises(InternalError, match="accept_loss"):
        open_on(disk)
