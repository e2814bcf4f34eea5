"""Which partition a message goes to, and what happens when a stream gets more while it is published to."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.client import (
    ByKey,
    RandomPartition,
    RequestFailed,
    RoundRobin,
    StreamPublisher,
    Unreachable,
)
from liftlog.client.partitioners import murmur2
from liftlog.client.streams import key_headers
from liftlog.messages import ERR_NOT_FOUND, PartitionInfo, StreamInfo
from liftlog.types import LiftlogError, StreamConfig
from tests.core.client_fakes import settled


@pytest.mark.parametrize(
    ("text", "hashed"),
    [
        # Those of Kafka's UtilsTest.testMurmur2.
        ("21", -973932308),
        ("foobar", -790332482),
        ("a-little-bit-long-string", -985981536),
        ("a-little-bit-longer-string", -1486304829),
        ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        ("abc", 479470107),
    ],
)
def test_keys_go_where_kafkas_clients_put_them(text: str, hashed: int) -> None:
    assert murmur2(text.encode()) == hashed % 2**32
    assert ByKey()(text, b"", 12) == (hashed & 0x7FFFFFFF) % 12


def test_the_vectors_of_the_page() -> None:
    """For whoever writes this in another language."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "client.md").read_text()
    rows = re.findall(r"^\| `(.*)` \| (\d+) \| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    assert len(rows) > 4
    for key, *numbers in rows:
        told = [murmur2(key.encode()), ByKey()(key, b"", 4), ByKey()(key, b"", 10)]
        assert [int(number) for number in numbers] == told, key


@given(st.text(), st.integers(1, 1024))
def test_a_key_has_one_partition(key: str, partitions: int) -> None:
    assert 0 <= ByKey()(key, b"a", partitions) == ByKey()(key, b"b", partitions) < partitions


def test_without_a_key_there_is_no_place_by_key() -> None:
    with pytest.raises(LiftlogError, match="give one, or use RoundRobin"):
        ByKey()(None, b"", 3)


def test_round_robin_and_random_reach_all() -> None:
    robin = RoundRobin(2)
    assert [robin("k", b"", 3) for _ in range(5)] == [2, 0, 1, 2, 0]
    drawn = [RandomPartition(7)(None, b"", 5)] + [RandomPartition(seed)(None, b"", 5) for seed in range(99)]
    assert Counter(drawn).keys() == set(range(5))
    one, two = RandomPartition(7), RandomPartition(7)
    assert [one(None, b"", 9) for _ in range(20)] == [two(None, b"", 9) for _ in range(20)]


def test_keys_that_cannot_travel_are_refused() -> None:
    assert key_headers(None) == {}
    assert key_headers("a", tombstone=True) == {"Liftlog-Key": "a", "Liftlog-Tombstone": "1"}
    for key in (" a", "a\n", "a\x00b"):
        with pytest.raises(LiftlogError, match="use printable text, trimmed"):
            key_headers(key)
    with pytest.raises(LiftlogError, match="a tombstone deletes a key; name the key"):
        key_headers(None, tombstone=True)


# -- publishing to a stream --------------------------------------------------------------------------------


class Metadata:
    """What a publisher looks at: one stream, whose partitions listen or not."""

    def __init__(self, *ready: bool, subject: str = "s") -> None:
        self.ready = list(ready)
        self.id = 5
        self.subject = subject
        self.problem: Exception | None = None
        self.looks = 0

    @property
    def info(self) -> StreamInfo:
        partitions = [PartitionInfo(n, 1, 1, 1, [1], [1], [], ready) for n, ready in enumerate(self.ready)]
        return StreamInfo(self.id, StreamConfig("s", self.subject, len(partitions)), partitions)

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo:
        self.looks += 1
        if self.problem is not None:
            raise self.problem
        return self.info

    async def looked(self) -> None:
        goal = self.looks + 2
        await settled(lambda: self.looks >= goal)


class Sink:
    """A `Publisher` without NATS."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, bytes, dict[str, str]]] = []
        self.settled = 0
        """How many had been sent when everything was waited for last."""
        self.may_drain = asyncio.Event()
        self.may_drain.set()

    async def __aenter__(self) -> Sink:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    async def send(self, tag: int, subject: str, value: bytes, headers: dict[str, str]) -> None:
        self.sent.append((subject, value, headers))

    async def drain(self) -> None:
        await self.may_drain.wait()
        self.settled = len(self.sent)


def publisher(metadata: Any, sink: Any, partitioner: Any, *rest: Any) -> StreamPublisher:
    return StreamPublisher(metadata, metadata.info, sink, partitioner, *rest, look_s=0.005)


def run(work: Awaitable[None]) -> None:
    async def story() -> None:
        async with asyncio.timeout(10):
            await work

    asyncio.run(story())


def test_messages_go_to_the_subjects_of_partitions_with_key_and_tombstone() -> None:
    async def story() -> None:
        sink = Sink()
        metadata = Metadata(True, True, subject="s.*")
        async with publisher(metadata, sink, RoundRobin(), "s.eu") as out:
            assert await out.send(0, b"a", key="k", headers={"X": "y"}) == 0
            assert await out.send(1, None, key="k") == 1
            assert out.partitions == 2
        assert sink.sent == [
            ("s.eu", b"a", {"X": "y", "Liftlog-Key": "k"}),
            ("s.eu.1", b"", {"Liftlog-Key": "k", "Liftlog-Tombstone": "1"}),
        ]

    run(story())


def test_R19_added_partitions_are_used_when_they_listen_and_all_before_has_its_result() -> None:
    async def story() -> None:
        sink, metadata = Sink(), Metadata(True)
        async with publisher(metadata, sink, RoundRobin()) as out:
            assert await out.send(0, b"") == 0
            metadata.ready += [False, True]
            await metadata.looked()
            assert await out.send(1, b"") == 0
            metadata.problem = Unreachable("away")
            metadata.ready[1] = True
            await metadata.looked()
            assert (await out.send(2, b""), out.partitions) == (0, 1)
            metadata.problem = None
            await metadata.looked()
            sink.may_drain.clear()
            later = asyncio.create_task(out.send(3, b""))
            await asyncio.sleep(0)
            assert len(sink.sent) == 3
            sink.may_drain.set()
            assert await later == 1
            assert (sink.settled, out.partitions) == (3, 3)

    run(story())


def test_R19_who_names_the_number_of_partitions_keeps_keys_where_they_are() -> None:
    async def story() -> None:
        sink, metadata = Sink(), Metadata(True, True, True)
        async with publisher(metadata, sink, RoundRobin(), "", 2) as out:
            metadata.ready.append(True)
            await metadata.looked()
            assert [await out.send(tag, b"") for tag in range(4)] == [0, 1, 0, 1]

    run(story())


def test_a_stream_that_is_gone_is_told_to_who_publishes() -> None:
    async def story(said: str, **changed: Any) -> None:
        metadata = Metadata(True)
        async with publisher(metadata, Sink(), RoundRobin()) as out:
            for name, value in changed.items():
                setattr(metadata, name, value)
            await settled(lambda: metadata.looks >= 1)
            with pytest.raises(LiftlogError, match=said):
                await out.send(0, b"")

    run(story("was deleted and created anew; open a new publisher", id=6))
    run(story("does not exist", problem=RequestFailed(ERR_NOT_FOUND, "does not exist")))


@pytest.mark.parametrize(
    ("subject", "given", "said"),
    [
        ("s.*", "", "is not one to publish to; name one that matches stream 's'"),
        ("s.>", "s.>", "is not one to publish to"),
        ("s.>", "t.a", "stream 's' does not listen on 't.a' but on 's.>'"),
        ("s", "a b", "is not one to publish to"),
    ],
)
def test_subjects_that_cannot_be_published_to_are_refused(subject: str, given: str, said: str) -> None:
    with pytest.raises(LiftlogError, match=said):
        publisher(Metadata(True, subject=subject), Sink(), ByKey(), given)


def test_what_a_partitioner_of_ones_own_returns_is_looked_at() -> None:
    async def story() -> None:
        sink = Sink()
        async with publisher(Metadata(True, True), sink, lambda key, value, partitions: len(value)) as out:
            assert await out.send(0, b"a") == 1
            with pytest.raises(LiftlogError, match="chose partition 2; it must return 0 to 1"):
                await out.send(0, b"aa")

    run(story())
    with pytest.raises(LiftlogError, match="has 1 partitions, not 2; add some, with: liftlog stream alter s"):
        publisher(Metadata(True), Sink(), ByKey(), "", 2)
