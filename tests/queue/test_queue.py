"""The operations of the big-array queue, one by one."""

from __future__ import annotations

from pathlib import Path

import pytest

from liftlog.queue import (
    EARLIEST,
    LATEST,
    BigQueue,
    IndexOutOfBounds,
    InternalError,
    InvalidTopic,
    ItemTooLarge,
    QueueEmpty,
    QueueOptions,
    ResultCode,
)
from liftlog.types import LiftlogError, TailState
from tests.queue.queue_harness import SMALL, HandClock, back_files, new_disk, numbered, open_on, reopen


def test_items_come_out_in_the_order_in_which_they_went_in() -> None:
    queue = open_on(new_disk())
    assert queue.is_empty() and queue.size() == 0 and queue.dequeue() is None and queue.peek() is None
    assert queue.enqueue(b"a") == 0
    assert queue.enqueue_many([b"b", b"", b"c"]) == 1
    assert not queue.is_empty() and queue.size() == 4
    assert [queue.dequeue() for _ in range(5)] == [b"a", b"b", b"", b"c", None]
    assert queue.is_empty() and len(queue) == 4, "taking an item removes nothing"


def test_every_group_gets_every_item() -> None:
    queue = open_on(new_disk())
    items = numbered(0, 20)
    queue.enqueue_many(items)
    assert queue.dequeue_many("a", max_items=5) == items[:5]
    assert queue.dequeue_many("b") == items
    assert queue.dequeue_many() == items, 'the group "" is one of them'
    assert queue.dequeue_many("a") == items[5:]
    assert queue.groups() == {"": 20, "a": 20, "b": 20}
    assert queue.size("never seen") == 20 and "never seen" not in queue.groups()


def test_a_call_takes_whole_items_up_to_both_limits_and_at_least_one() -> None:
    queue = open_on(new_disk())
    queue.enqueue_many([b"x" * 10] * 10)
    assert len(queue.dequeue_many(max_bytes=35)) == 3
    assert len(queue.dequeue_many(max_bytes=1)) == 1
    assert len(queue.dequeue_many(max_items=2, max_bytes=1000)) == 2
    assert [item.index for item in queue.take(max_items=2)] == [6, 7]


def test_peek_shows_what_dequeue_returns_next() -> None:
    queue = open_on(new_disk())
    queue.enqueue_many([b"a", b"b"])
    assert queue.peek() == b"a" == queue.peek() and queue.dequeue() == b"a" and queue.peek() == b"b"
    assert queue.groups() == {"": 1}, "peeking makes no group"


def test_access_by_index_moves_no_front() -> None:
    clock = HandClock(5000)
    queue = open_on(new_disk(), clock=clock)
    items = numbered(0, 50)
    for item in items:
        queue.enqueue(item)
        clock.now_ms += 10
    assert [queue.get(index) for index in (49, 0, 25)] == [items[49], items[0], items[25]]
    assert queue[7] == items[7]
    assert (queue.item(3).index, queue.item(3).timestamp_ms, queue.item(3).value) == (3, 5030, items[3])
    assert [item.index for item in queue.read(10, max_items=3)] == [10, 11, 12]
    assert queue.read(50) == [] and queue.read("latest") == []
    assert list(queue) == items and [item.index for item in queue.items(48)] == [48, 49]
    assert [item.index for item in queue.items("earliest", 2)] == [0, 1]
    assert queue.size() == 50 and queue.groups() == {}
    for wrong in (-3, 50, 1 << 63):
        with pytest.raises(IndexOutOfBounds, match=r"items are \[0, 50\)"):
            queue.get(wrong)
    with pytest.raises(IndexOutOfBounds, match="neither a number"):
        queue.read("first")
    with pytest.raises(IndexError):
        queue[50]


def test_find_closest_index_returns_the_item_whose_time_is_closest() -> None:
    clock = HandClock(0)
    queue = open_on(new_disk(), clock=clock)
    assert queue.find_closest_index(EARLIEST) == 0 == queue.find_closest_index(LATEST)
    with pytest.raises(QueueEmpty) as empty:
        queue.find_closest_index(5)
    assert empty.value.result is ResultCode.TRY_LATER
    for now_ms in (100, 100, 100, 200, 200, 340):
        clock.now_ms = now_ms
        queue.enqueue(b"x" * 100)
    by_time = {0: 0, 100: 0, 149: 0, 150: 0, 151: 3, 200: 3, 269: 3, 270: 3, 271: 5, 340: 5, 10**15: 5}
    assert {time: queue.find_closest_index(time) for time in by_time} == by_time
    assert queue.find_closest_index(EARLIEST) == 0 and queue.find_closest_index(LATEST) == 6
    queue.remove_before(200)
    assert queue.find_closest_index(0) == 3 == queue.find_closest_index(EARLIEST)


def test_timestamps_never_fall_although_the_clock_does_also_over_a_restart() -> None:
    disk = new_disk()
    clock = HandClock(9000)
    queue = open_on(disk, clock=clock)
    queue.enqueue(b"a")
    clock.now_ms = 5000
    queue.enqueue(b"b")
    disk.kill()
    queue = open_on(disk, clock=clock)
    queue.enqueue(b"c")
    clock.now_ms = 9500
    queue.enqueue(b"d")
    assert [item.timestamp_ms for item in queue.items()] == [9000, 9000, 9000, 9500]


def test_remove_before_removes_older_items_and_their_back_files() -> None:
    disk = new_disk()
    clock = HandClock(0)
    queue = open_on(disk, clock=clock)
    for item in numbered(0, 40):
        queue.enqueue(item)
        clock.now_ms += 10
    files, size = back_files(disk), queue.back_file_size()
    assert queue.dequeue_many("ahead", max_items=30) and queue.dequeue("behind") is not None
    assert queue.remove_before(195) == 20
    assert (queue.first_index, queue.end_index, len(queue)) == (20, 40, 20)
    assert len(back_files(disk)) < len(files) and queue.back_file_size() < size
    assert queue.groups() == {"ahead": 30, "behind": 20}, (
        "who stood on a removed item moves to the first left"
    )
    assert queue.dequeue("behind") == numbered(20, 1)[0]
    with pytest.raises(IndexOutOfBounds):
        queue.get(19)
    assert queue.remove_before(0) == 20, "nothing comes back"
    disk.power_loss(disk.random)
    again = open_on(disk, clock=clock)
    assert (again.first_index, again.size("new")) == (20, 20), "durable when it returned"


def test_everything_can_be_removed_and_indexes_go_on() -> None:
    disk = new_disk()
    clock = HandClock(0)
    queue = open_on(disk, clock=clock)
    queue.enqueue_many(numbered(0, 30))
    assert queue.dequeue() is not None
    assert queue.remove_before(10**9) == 30 and len(queue) == 0 and queue.is_empty()
    assert queue.enqueue(b"next") == 30 and queue.dequeue() == b"next"
    assert [item.value for item in reopen(disk).items()] == [b"next"]


def test_limit_back_file_size_deletes_whole_files_and_keeps_the_last() -> None:
    disk = new_disk()
    queue = open_on(disk)
    for item in numbered(0, 60):
        queue.enqueue(item)
    size = queue.back_file_size()
    assert size == sum(len(disk.content(path)) for path in back_files(disk))
    assert queue.limit_back_file_size(size) == 0, "nothing to do"
    first = queue.limit_back_file_size(1500)
    assert first > 0 and queue.back_file_size() <= 1500
    assert queue.back_file_size() == sum(len(disk.content(path)) for path in back_files(disk))
    assert [item.value for item in queue.items()] == numbered(first, 60 - first)
    queue.limit_back_file_size(0)
    assert len(back_files(disk)) == 1 and queue.end_index == 60 and len(queue) > 0
    assert queue.enqueue(b"more") == 60


def test_delete_removes_everything_and_the_folder_can_be_used_again(tmp_path: Path) -> None:
    queue = BigQueue.open(tmp_path)
    queue.enqueue(b"a")
    queue.dequeue("g")
    queue.flush()
    queue.delete()
    assert [path.name for path in tmp_path.iterdir()] == ["lock"]
    with pytest.raises(InternalError, match="deleted"):
        queue.enqueue(b"b")
    with BigQueue.open(tmp_path) as again:
        assert len(again) == 0 and again.groups() == {} and again.enqueue(b"new") == 0


def test_a_queue_lives_in_a_folder_and_has_one_process(tmp_path: Path) -> None:
    with BigQueue.open(tmp_path / "queue") as queue:
        queue.enqueue_many([b"a", b"b"])
        assert queue.dequeue() == b"a"
        with pytest.raises(LiftlogError, match="in use by another process"):
            BigQueue.open(tmp_path / "queue")
    queue.close()
    with pytest.raises(InternalError, match="closed"):
        queue.size()
    with BigQueue.open(tmp_path / "queue") as queue:
        assert queue.tail is TailState.CLEAN and queue.dequeue() == b"b"


def test_a_folder_that_is_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "identity").write_bytes(b"")
    with pytest.raises(InvalidTopic, match="a node's data folder"):
        BigQueue.open(tmp_path)
    (tmp_path / "identity").unlink()
    for folder in ("streams/7/0", "streams/7/1"):
        (tmp_path / folder).mkdir(parents=True)
    with pytest.raises(InvalidTopic, match="streams/7/0, streams/7/1"):
        BigQueue.open(tmp_path)
    (tmp_path / "streams/7/1").rmdir()
    BigQueue.open(tmp_path).close()


def test_wrong_use_is_refused_and_changes_nothing() -> None:
    queue = open_on(new_disk(), QueueOptions(item_bytes_max=10, groups_max=2))
    with pytest.raises(ItemTooLarge, match="item_bytes_max = 10"):
        queue.enqueue_many([b"fits", b"does not fit"])
    with pytest.raises(TypeError, match="bytes, not str"):
        queue.enqueue("text")  # type: ignore[arg-type]
    assert len(queue) == 0 and queue.enqueue_many([]) == 0
    queue.dequeue("a")
    queue.dequeue("b")
    with pytest.raises(InvalidTopic, match="groups_max = 2"):
        queue.dequeue("c")
    queue.drop_group("a")
    queue.dequeue("c")
    for name in ("x" * 256, "a\nb"):
        with pytest.raises(InvalidTopic, match="printable"):
            queue.commit(name)
    assert queue.enqueue(b"0123456789") == 0


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"durability": "maybe"}, "durability 'maybe' is not one of os, sync"),
        ({"fronts": "never"}, "fronts 'never'"),
        ({"codec": "gzip"}, "codec 'gzip' is not one of none, zstd, lz4"),
        ({"repeat_max": 0}, "repeat_max 0 is not 1 or more"),
        ({"segment_bytes": -1}, "segment_bytes -1"),
    ],
)
def test_options_out_of_range_are_one_line(options: dict[str, object], text: str, tmp_path: Path) -> None:
    with pytest.raises(LiftlogError, match=text):
        BigQueue.open(tmp_path, options=QueueOptions(**options))  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


def test_a_queue_needs_a_folder_or_a_disk(tmp_path: Path) -> None:
    with pytest.raises(LiftlogError, match="one of the two"):
        BigQueue.open()
    with pytest.raises(LiftlogError, match="one of the two"):
        BigQueue.open(tmp_path, disk=new_disk())


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_items_are_read_back_and_options_may_change(codec: str) -> None:
    disk = new_disk()
    items = [b"the same words again and again " * 20] * 30
    queue = open_on(disk, QueueOptions(codec=codec))
    queue.enqueue_many(items)
    assert queue.back_file_size() < len(items) * len(items[0]) / 4
    queue.close()
    disk.kill()
    queue = open_on(disk, SMALL)
    queue.enqueue(b"plain")
    assert list(queue) == [*items, b"plain"]


def test_encrypted_items_need_their_key(tmp_path: Path) -> None:
    key = bytes(range(100, 132))
    with BigQueue.open(tmp_path, encryption_key=key) as queue:
        queue.enqueue_many([b"a secret"] * 3)
        queue.flush()
    files = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert files and not any(b"secret" in content for content in files)
    for wrong in (None, key[::-1]):
        with pytest.raises(LiftlogError, match="key"):
            BigQueue.open(tmp_path, encryption_key=wrong)
    with BigQueue.open(tmp_path, encryption_key=key) as queue:
        assert list(queue) == [b"a secret"] * 3
        queue.delete()
    BigQueue.open(tmp_path).close()


def test_many_small_and_some_large_items_are_read_back_in_bounded_memory() -> None:
    queue = open_on(new_disk(), QueueOptions(segment_bytes=1 << 20, window_bytes=100_000))
    items = [b"%d" % number * (1 + number % 7) for number in range(3000)] + [b"L" * 3_000_000] + [b"end"]
    for start in range(0, len(items), 500):
        queue.enqueue_many(items[start : start + 500])
    assert list(queue) == items
    assert [queue.dequeue() for _ in items] == items
    assert queue._window._bytes <= 3_100_000, "one large item, and no more than the bound beside it"
