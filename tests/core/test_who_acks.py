"""N8, N9: who takes a message on a subject and how many acks there will be, as of when."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from liftlog.client import RequestFailed, Unreachable
from liftlog.client.registry import AckRegistry, differences, who_listens
from liftlog.messages import PartitionInfo, StreamInfo, StreamInfoReply
from liftlog.types import LiftlogError, StreamConfig


def stream(name: str, subject: str, partitions: int = 1, **options: Any) -> StreamInfo:
    found = [
        PartitionInfo(n, 1, 1, 1, [1, 2], [1, 2], [], ready=True, min_insync=2) for n in range(partitions)
    ]
    return StreamInfo(5, StreamConfig(name, subject, partitions, **options), found)


def view(*streams: StreamInfo, subject: str = "orders.eu") -> Any:
    async def ask(known: bool) -> StreamInfoReply:
        return StreamInfoReply(list(streams), linearizable=True)

    return asyncio.run(AckRegistry(ask).who_acks(subject))


def test_N9_all_who_listen_are_named_and_silent_ones_do_not_count() -> None:
    found = view(
        stream("copies", "orders.>", ack_reply=False),
        stream("orders", "orders.*"),
        stream("others", "other.*"),
    )
    assert [(one.stream, one.partition, one.answers) for one in found.listeners] == [
        ("copies", 0, False),
        ("orders", 0, True),
    ]
    assert (found.acks, found.answers, found.acks_when_well, found.copies) == (1, 1, 1, 2)
    assert view(stream("orders", "orders.*"), subject="nobody").listeners == ()


def test_partitions_beyond_the_first_have_subjects_of_their_own() -> None:
    orders = stream("orders", "orders.*", 3)
    assert [one.partition for one in who_listens([orders], "orders.eu")] == [0]
    assert [(one.partition, one.subject) for one in who_listens([orders], "orders.eu.2")] == [
        (2, "orders.*.2")
    ]
    assert who_listens([orders], "orders.eu.3") == ()


@pytest.mark.parametrize(
    ("changed", "state", "answers", "detail"),
    [
        ({"leader": 0, "ready": False}, "no leader", 0, "liftlog cluster status"),
        ({"ready": False}, "not listening yet", 0, "try again"),
        ({"refusal": "Permissions Violation"}, "refused by NATS", 0, "allow it in the server's permissions"),
        ({"isr": [1]}, "too few in sync", 0, "nothing is committed until more copies are in sync"),
    ],
)
def test_what_keeps_a_partition_from_storing(
    changed: dict[str, Any], state: str, answers: int, detail: str
) -> None:
    orders = stream("orders", "orders.*")
    for name, value in changed.items():
        setattr(orders.partitions[0], name, value)
    found = view(orders)
    assert (found.listeners[0].state, found.acks, found.answers) == (state, 0, answers)
    assert found.acks_when_well == 1
    assert detail in found.listeners[0].detail


def test_R19_paused_streams_do_not_answer_and_read_only_ones_refuse() -> None:
    paused = view(stream("orders", "orders.*", paused=True))
    assert (paused.listeners[0].state, paused.acks, paused.answers) == ("paused", 0, 0)
    assert paused.listeners[0].detail.endswith("liftlog stream resume orders")
    closed = view(stream("orders", "orders.*", read_only=True))
    assert (closed.listeners[0].state, closed.acks, closed.answers) == ("read-only", 0, 1)
    assert closed.listeners[0].detail.endswith("liftlog stream alter orders --read-write")


@pytest.mark.parametrize("subject", ["orders.*", "orders.>", "", "a..b", "a b"])
def test_only_subjects_that_can_be_published_to_are_asked_about(subject: str) -> None:
    with pytest.raises(LiftlogError, match="cannot be published to"):
        view(subject=subject)


class Told:
    """Who is asked: a cluster with a quorum, or a node that only knows."""

    def __init__(self) -> None:
        self.asked: list[bool] = []
        self.problem: Exception | None = None
        self.known_ms = 400

    async def __call__(self, known: bool) -> StreamInfoReply:
        self.asked.append(known)
        if not known and self.problem is not None:
            raise self.problem
        return StreamInfoReply([], linearizable=not known, age_ms=self.known_ms if known else 0)


def test_what_is_known_serves_until_it_is_too_old() -> None:
    async def story() -> None:
        told = Told()
        registry = AckRegistry(told)
        first = await registry.who_acks("orders", 60_000)
        assert (first.linearizable, 0 <= first.age_ms < 60_000) == (True, True)
        await registry.who_acks("other", 60_000)
        assert told.asked == [False]
        await registry.who_acks("orders", 0)
        assert told.asked == [False, False]

    asyncio.run(story())


@pytest.mark.parametrize("problem", [Unreachable("away"), RequestFailed("no-leader", "none", True)])
def test_without_a_quorum_it_is_what_a_node_knows_and_how_old_that_is(problem: Exception) -> None:
    async def story() -> None:
        told = Told()
        told.problem = problem
        registry = AckRegistry(told)
        found = await registry.who_acks("orders", 100)
        assert told.asked == [False, True]
        assert not found.linearizable and found.age_ms >= 400
        # That is older than is wanted: it is asked for again.
        await registry.who_acks("orders", 100)
        assert len(told.asked) == 4
        told.known_ms = -1
        assert (await registry.who_acks("orders", 100)).age_ms == -1

    asyncio.run(story())


def test_what_a_server_refuses_for_good_is_not_hidden() -> None:
    async def story() -> None:
        told = Told()
        told.problem = RequestFailed("forbidden", "log in")
        await AckRegistry(told).who_acks("orders")

    with pytest.raises(RequestFailed, match="log in"):
        asyncio.run(story())


def test_a_stream_that_was_to_be_created_differs_in_what_was_asked_for() -> None:
    wanted = StreamConfig("s", "s.>", codec="zstd")
    there = StreamConfig("s", "s.>", replication_factor=3, min_insync_replicas=2, codec="zstd")
    assert differences(wanted, there) == {}
    assert differences(StreamConfig("s", "t", replication_factor=2), there) == {
        "subject": "s.>",
        "replication_factor": 3,
        "codec": "zstd",
    }
    remembering = StreamConfig("s", "s.>", codec="zstd", dedupe_window_ms=120_000)
    assert differences(remembering, there) == {"dedupe_window_ms": None}
    assert differences(wanted, remembering) == {"dedupe_window_ms": 120_000}
