"""The calls of the remote service: results and codes, fan-out before index, one item, deletion, threads."""

from __future__ import annotations

from pathlib import Path

import pytest

from liftlog.queue import (
    EARLIEST,
    LATEST,
    BigQueue,
    ErrorCode,
    InternalError,
    QueueOptions,
    QueueService,
    Result,
    ResultCode,
)
from liftlog.types import LiftlogError

SUCCESS = Result()


def outcome(result: Result) -> tuple[ResultCode, ErrorCode | None]:
    return result.code, result.error


def test_produce_returns_the_index_and_makes_the_topic(tmp_path: Path) -> None:
    with QueueService(tmp_path) as service:
        assert [service.produce("orders", item).index for item in (b"a", b"b")] == [0, 1]
        assert service.produce("other", b"x").result == SUCCESS
        assert service.topics() == ["orders", "other"]
    with QueueService(tmp_path) as service:
        assert service.topics() == ["orders", "other"] and service.get_size("orders").size == 2


def test_consume_by_fanout_id_wins_over_an_index(tmp_path: Path) -> None:
    with QueueService(tmp_path) as service:
        for item in (b"aa", b"bb", b"cc", b"dd"):
            service.produce("t", item)
        one = service.consume("t", "g", start_index=3)
        assert (one.result, one.items, one.last_consumed_index) == (SUCCESS, [b"aa"], 0), "size 0: one item"
        two = service.consume("t", "g", start_index=0, max_fetch_size=5)
        assert (two.items, two.last_consumed_index) == ([b"bb", b"cc"], 2), "whole items within 5 bytes"
        assert service.consume("t", "g", max_fetch_size=1).items == [b"dd"], "at least one"
        end = service.consume("t", "g")
        assert outcome(end.result) == (ResultCode.TRY_LATER, ErrorCode.ALL_MESSAGE_CONSUMED)
        assert (end.items, end.last_consumed_index) == ([], -1)
        assert service.get_size("t", "g").size == 0 and service.get_size("t", "new").size == 4
        assert service.get_size("t").size == 4, "without an id: the whole array"


def test_consume_by_index_moves_nothing(tmp_path: Path) -> None:
    with QueueService(tmp_path) as service:
        for item in (b"a", b"b", b"c"):
            service.produce("t", item)
        assert service.consume("t", start_index=1, max_fetch_size=100).items == [b"b", b"c"]
        assert service.consume("t", start_index=1, max_fetch_size=-7).items == [b"b"]
        assert service.consume("t").items == [b"a"], "neither: index 0"
        assert service.consume("t", start_index="earliest").items == [b"a"]
        for index in (3, LATEST, "latest"):
            end = service.consume("t", start_index=index)
            assert outcome(end.result) == (ResultCode.TRY_LATER, ErrorCode.ALL_MESSAGE_CONSUMED)
        outside = service.consume("t", start_index=4).result
        assert outcome(outside) == (ResultCode.FAILURE, ErrorCode.INDEX_OUT_OF_BOUNDS)
        assert "items are [0, 3)" in outside.message
        assert service.get_size("t", "g").size == 3


def test_find_closest_index_by_time_returns_index_and_time(tmp_path: Path) -> None:
    with QueueService(tmp_path) as service:
        queue = service.queue("t", create=True)
        for time in (EARLIEST, LATEST):
            found = service.find_closest_index_by_time("t", time)
            assert (found.result, found.index, found.timestamp_ms) == (SUCCESS, 0, -1)
        empty = service.find_closest_index_by_time("t", 5).result
        assert outcome(empty) == (ResultCode.TRY_LATER, ErrorCode.TOPIC_IS_EMPTY)
        queue.enqueue_many([b"a", b"b"])
        stamp = queue.item(0).timestamp_ms
        found = service.find_closest_index_by_time("t", stamp + 7)
        assert (found.index, found.timestamp_ms) == (0, stamp)
        latest = service.find_closest_index_by_time("t", LATEST)
        assert (latest.index, latest.timestamp_ms) == (2, stamp)


@pytest.mark.parametrize("topic", ["", ".", "..", ".lock", "a/b", "a b", "x" * 201, "ä"])
def test_a_topic_that_cannot_be_one_is_invalid_in_every_call(topic: str, tmp_path: Path) -> None:
    with QueueService(tmp_path) as service:
        for response in (
            service.produce(topic, b"x"),
            service.consume(topic),
            service.find_closest_index_by_time(topic, 5),
            service.delete_topic(topic),
            service.get_size(topic),
        ):
            assert outcome(response.result) == (ResultCode.FAILURE, ErrorCode.INVALID_TOPIC)


def test_a_topic_that_does_not_exist_is_not_made_by_asking(tmp_path: Path) -> None:
    with QueueService(tmp_path) as service:
        for response in (
            service.consume("t"),
            service.find_closest_index_by_time("t", 5),
            service.delete_topic("t"),
            service.get_size("t"),
        ):
            assert outcome(response.result) == (ResultCode.FAILURE, ErrorCode.TOPIC_NOT_EXIST)
        assert service.topics() == []
        service.queue("t", create=True)
        empty = service.consume("t", "g").result
        assert outcome(empty) == (ResultCode.TRY_LATER, ErrorCode.TOPIC_IS_EMPTY)


def test_deleting_needs_the_password_and_frees_the_name(tmp_path: Path) -> None:
    with QueueService(tmp_path, password="secret") as service:
        service.produce("t", b"old")
        refused = service.delete_topic("t", "guess").result
        assert outcome(refused) == (ResultCode.FAILURE, ErrorCode.AUTHENTICATION_FAILURE)
        assert service.delete_topic("t", "secret").result == SUCCESS
        assert service.topics() == [] and not (tmp_path / "t").exists()
        assert service.produce("t", b"new").index == 0 and service.consume("t").items == [b"new"]


def test_a_deletion_cut_short_is_finished_by_the_next_service(tmp_path: Path) -> None:
    with QueueService(tmp_path) as service:
        service.produce("t", b"old")
    (tmp_path / "t/streams").rename(tmp_path / "t/deleted")
    with QueueService(tmp_path) as service:
        assert service.topics() == []
        assert service.produce("t", b"new").index == 0


def test_an_item_that_is_too_large_has_its_code(tmp_path: Path) -> None:
    with QueueService(tmp_path, options=QueueOptions(item_bytes_max=3)) as service:
        refused = service.produce("t", b"four").result
        assert outcome(refused) == (ResultCode.FAILURE, ErrorCode.MESSAGE_SIZE_TOO_LARGE)


def test_too_many_topics_are_refused(tmp_path: Path) -> None:
    with QueueService(tmp_path, topics_max=2) as service:
        assert [service.produce(topic, b"x").result.error for topic in ("a", "b", "a")] == [None] * 3
        refused = service.produce("c", b"x").result
        assert outcome(refused) == (ResultCode.FAILURE, ErrorCode.INVALID_TOPIC)
        assert "topics_max = 2" in refused.message


def test_async_produce_keeps_its_order_and_close_waits_for_all(tmp_path: Path) -> None:
    service = QueueService(tmp_path)
    for number in range(5000):
        service.async_produce("ab"[number % 2], b"%d" % number)
    service.close()
    assert service.async_failures == 0
    for topic, first in (("a", 0), ("b", 1)):
        with BigQueue.open(tmp_path / topic) as queue:
            assert list(queue) == [b"%d" % number for number in range(first, 5000, 2)]


def test_async_produce_counts_what_could_not_be_stored_and_stores_the_rest(tmp_path: Path) -> None:
    service = QueueService(tmp_path, options=QueueOptions(item_bytes_max=3))
    for item in (b"a", b"large", b"b"):
        service.async_produce("t", item)
    service.async_produce("not/a/topic", b"x")
    service.close()
    assert service.async_failures == 2 and service.async_error
    with BigQueue.open(tmp_path / "t") as queue:
        assert list(queue) == [b"a", b"b"]


def test_async_produce_refuses_when_too_much_waits(tmp_path: Path) -> None:
    service = QueueService(tmp_path)
    queue = service.queue("t", create=True)
    with queue._lock, pytest.raises(InternalError, match="items wait") as refused:
        for _ in range(12_000):
            service.async_produce("t", b"x")
    assert refused.value.result is ResultCode.TRY_LATER
    service.close()
    assert service.async_failures == 0


def test_a_service_that_is_closed_or_taken_says_so(tmp_path: Path) -> None:
    service = QueueService(tmp_path)
    with pytest.raises(LiftlogError, match="in use"):
        QueueService(tmp_path)
    service.close()
    service.close()
    assert service.produce("t", b"x").result.error is ErrorCode.INTERNAL_ERROR
    with pytest.raises(InternalError, match="closed"):
        service.async_produce("t", b"x")
    QueueService(tmp_path).close()
