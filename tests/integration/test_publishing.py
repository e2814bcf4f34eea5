"""Publishers need no change: plain NATS, and JetStream's own client, against real nodes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import nats.errors
import nats.js.errors
import pytest

from liftlog.client import RequestFailed
from liftlog.messages import StreamChanges
from liftlog.options.envelope import open_ack
from liftlog.options.protobuf import fields_of
from liftlog.types import LiftlogError, StreamConfig
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real


def test_L1_plain_messages_are_stored_and_requesters_get_the_ack(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(StreamConfig("orders", "orders.>"))
        nats = cluster.client.nats
        answer = await nats.request("orders.new", b"first", timeout=5)
        ack = json.loads(answer.data)
        assert ack == {"stream": "orders", "seq": 1}
        await nats.publish("orders.quiet", b"second")
        await nats.publish("orders.quiet", b"third", headers={"Kind": "x"})
        full = await nats.request("orders.new", b"", timeout=5, headers={"Liftlog-Ack": "full"})
        last = json.loads(full.data)
        assert set(last) == {"stream", "seq", "offset", "partition", "epoch", "incarnation"}
        assert (last["seq"], last["offset"], last["partition"]) == (4, 3, 0)
        assert last["epoch"] > 0 and last["incarnation"] > 0
        assert await cluster.read("orders") == {0: "first", 1: "second", 2: "third", 3: ""}
        info = await cluster.client.stream("orders")
        records = [record async for record in cluster.client.reader(info).records(1)]
        assert [record.subject for record in records] == [b"orders.quiet", b"orders.quiet", b"orders.new"]
        assert b"Kind: x" in records[1].headers
        assert records[0].reply == b""
        assert records[2].reply.startswith(b"_INBOX.")

    with_cluster(tmp_path, 1, story)


def test_R4_each_message_says_whose_word_its_ack_is(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        await client.create_stream(StreamConfig("orders", "orders.>", replication_factor=3))
        by_leader = await client.publish("orders.new", b"0", ack="leader")
        assert (by_leader.outcome, by_leader.offset) == ("leader", 0)
        assert (await client.publish("orders.new", b"1")).outcome == "ok"
        assert (await client.publish("orders.new", b"2", ack="none")).outcome == "sent"
        plain = await client.nats.request(
            "orders.new", b"3", timeout=5, headers={"Liftlog-Ack-Policy": "leader"}
        )
        assert json.loads(plain.data) == {"stream": "orders", "seq": 4, "policy": "leader"}
        for header, value in (("Liftlog-Ack-Policy", "none"), ("Nats-TTL", "5s")):
            headers = {"Liftlog-Ack-Policy": "none", header: value}
            with pytest.raises(nats.errors.TimeoutError):
                await client.nats.request("orders.new", b"4", timeout=0.5, headers=headers)
        unknown = await client.nats.request(
            "orders.new", b"5", timeout=5, headers={"Liftlog-Ack-Policy": "some"}
        )
        assert "'all', 'leader' and 'none'" in json.loads(unknown.data)["error"]["description"]
        assert (await client.publish("orders.new", b"6")).outcome == "ok"
        assert await cluster.read("orders") == dict(enumerate("012346"))
        with pytest.raises(LiftlogError, match="no ack policy 'some'; use all, leader, none"):
            await client.publish("orders.new", b"7", ack="some")

    with_cluster(tmp_path, 3, story)


def test_R4_liftlog_pub_waits_for_whom_it_is_told_to(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(StreamConfig("orders", "orders.>"))
        for ack, values, told in (
            ("leader", ("a",), "orders partition 0 offset 0 epoch 1, by its leader alone\n"),
            ("none", ("b", "c"), "sent 2 messages; nobody says what became of them\n"),
            ("all", ("d",), "orders partition 0 offset 3 epoch 1\n"),
        ):
            assert await cluster.run("pub", "orders.new", *values, "--ack", ack) == told
        code, error = await cluster.said("pub", "orders.new", "e", "--ack", "some")
        assert code == 2 and "'all', 'leader', 'none'" in error

    with_cluster(tmp_path, 1, story)


def test_L1_R4_a_publisher_of_liftbridge_gets_liftbridge_s_ack(tmp_path: Path) -> None:
    """The bytes are those that go-liftbridge makes, field by field, and its server."""
    message = bytes.fromhex(
        "b90e43b4 00 08 00 00"  # cookie, version, where the message begins, flags, type: a publish
        "08ffffffffffffffffff01"  # 1, offset: -1, nothing is expected
        "12016b"  # 2, key: k
        "1a0568656c6c6f"  # 3, value: hello
        "4a0a0a0161120562636465 66"  # 9, headers: a = bcdef
        "5205696e626f78"  # 10, ackInbox: inbox
        "5a026331"  # 11, correlationId: c1
    )
    policies = {"leader": b"", "all": b"\x60\x01", "none": b"\x60\x02"}

    async def story(cluster: Harness) -> None:
        client = cluster.client
        await client.create_stream(StreamConfig("s", "s", replication_factor=3, compact=True))
        acks = await client.nats.subscribe("inbox")
        replies = await client.nats.subscribe("own")
        for offset, policy in enumerate(policies.values()):
            await client.nats.publish("s", message + policy, reply="own")
            if offset == 2:
                break
            ack = (await acks.next_msg(timeout=5)).data
            beginning = "b90e43b4 00 08 00 01 0a0173 120173 1a0173" + (" 2001" if offset else "")
            answered = beginning + " 2a05696e626f78 32026331" + (" 3801" if offset else "")
            assert ack.startswith(bytes.fromhex(answered)), ack.hex()
            assert [field for field, _, _ in fields_of(ack[8:])][-2:] == [8, 9], "times, and no error"
        expecting = message.replace(bytes.fromhex("08ffffffffffffffffff01"), b"\x08\x07")
        await client.nats.publish("s", expecting)
        refused = open_ack((await acks.next_msg(timeout=5)).data)
        assert refused is not None
        assert (refused.error, refused.offset, refused.correlation_id) == (2, -1, "c1")
        broken = message[:-1] + b"\x7f\x7f"
        await client.nats.publish("s", broken)
        await client.publish("s", b"last")
        info = await client.stream("s")
        records = [record async for record in client.reader(info).records("earliest")]
        assert [(record.key, record.value) for record in records] == [
            *[(b"k", b"hello")] * 3, (None, broken), (None, b"last")
        ]  # fmt: skip
        assert [record.reply for record in records[:3]] == [b"own"] * 3
        assert records[0].headers == b"NATS/1.0\r\na: bcdef\r\n\r\n"
        for silent in (acks, replies):
            with pytest.raises(nats.errors.TimeoutError):
                await silent.next_msg(timeout=0.2)

    with_cluster(tmp_path, 3, story)


def test_jetstream_publish_works_unchanged(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(StreamConfig("orders", "orders.>"))
        jetstream = cluster.client.nats.jetstream()
        first = await jetstream.publish("orders.a", b"1")
        second = await jetstream.publish("orders.b", b"2", headers={"Key": "v"})
        assert (first.stream, first.seq, second.seq) == ("orders", 1, 2)
        many = [await jetstream.publish_async("orders.c", b"x") for _ in range(50)]
        acks = await asyncio.gather(*many)
        assert [ack.seq for ack in acks] == list(range(3, 53))
        with pytest.raises(nats.js.errors.NoStreamResponseError):
            await jetstream.publish("nobody.listens", b"1")

    with_cluster(tmp_path, 1, story)


def test_L3_a_message_over_the_stream_s_limit_is_refused_in_jetstream_s_words(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(StreamConfig("small", "small", max_payload_bytes=100))
        with pytest.raises(nats.js.errors.BadRequestError, match="100 bytes"):
            await cluster.client.nats.jetstream().publish("small", b"x" * 101)
        result = await cluster.client.publish("small", b"x" * 101)
        assert result.outcome == "fail"
        assert (await cluster.client.publish("small", b"x" * 100)).offset == 0
        for limit, taken, refused in ((200, 200, 201), (50, 50, 51)):
            told = await cluster.client.alter_stream("small", StreamChanges(max_payload_bytes=limit))
            assert told.endswith(f"-> {limit}")
            assert (await cluster.client.publish("small", b"x" * refused)).outcome == "fail"
            assert (await cluster.client.publish("small", b"x" * taken)).outcome == "ok"

    with_cluster(tmp_path, 1, story)


def test_N8_a_stream_without_ack_reply_stores_and_says_nothing(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(StreamConfig("quiet", "quiet", ack_reply=False))
        with pytest.raises(nats.errors.TimeoutError):
            await cluster.client.nats.request("quiet", b"1", timeout=0.5)

        async def stored() -> bool:
            return await cluster.read("quiet") == {0: "1"}

        await until(stored, "the message")

    with_cluster(tmp_path, 1, story)


def test_N9_of_two_streams_on_a_subject_one_answers_and_both_store(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        await client.create_stream(StreamConfig("orders", "orders.>"))
        with pytest.raises(RequestFailed, match=r"'orders.new' overlaps 'orders.>' of stream 'orders'"):
            await client.create_stream(StreamConfig("rival", "orders.new"))
        await client.create_stream(StreamConfig("audit", "orders.*", ack_reply=False))
        inbox = client.nats.new_inbox()
        answers = await client.nats.subscribe(inbox)
        for number in range(20):
            await client.nats.publish("orders.new", b"%d" % number, reply=inbox)
        found = [json.loads((await answers.next_msg(timeout=5)).data) for _ in range(20)]
        assert found == [{"stream": "orders", "seq": number + 1} for number in range(20)]
        stored = {number: str(number) for number in range(20)}
        assert await cluster.read("orders") == stored

        async def copied() -> bool:
            return await cluster.read("audit") == stored

        await until(copied, "all messages in the stream that answers nothing")
        with pytest.raises(nats.errors.TimeoutError):
            await answers.next_msg(timeout=0.2)

    with_cluster(tmp_path, 1, story)


def test_each_partition_has_its_own_subject_and_offsets(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        info = await client.create_stream(StreamConfig("parts", "parts", partitions=3, replication_factor=3))
        assert [partition.index for partition in info.partitions] == [0, 1, 2]
        assert sorted(partition.leader for partition in info.partitions) == [1, 2, 3]
        results = [
            await client.publish(subject, b"x") for subject in ("parts", "parts.1", "parts.2", "parts.2")
        ]
        assert [(result.partition, result.offset) for result in results] == [(0, 0), (1, 0), (2, 0), (2, 1)]

    with_cluster(tmp_path, 3, story)


def test_a_reader_starts_earliest_latest_at_an_offset_or_at_a_time(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        info = await client.create_stream(StreamConfig("s", "s"))
        for number in range(10):
            await client.publish("s", b"%d" % number)
        reader = client.reader(info)
        assert [await reader.offset(what) for what in ("earliest", "latest", "new")] == [0, 9, 10]
        records = [record async for record in reader.records("earliest")]
        assert [record.value for record in records] == [b"%d" % number for number in range(10)]
        middle = records[5].timestamp_ms
        first_at = await reader.offset("time", middle)
        assert first_at == next(record.offset for record in records if record.timestamp_ms >= middle)
        assert [record.offset async for record in reader.records(7)] == [7, 8, 9]
        with pytest.raises(LiftlogError, match="partitions 0 to 0, not 1"):
            client.reader(info, 1)

    with_cluster(tmp_path, 1, story)


def test_a_deleted_and_recreated_name_is_another_stream(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        first = await client.create_stream(StreamConfig("again", "again", replication_factor=3))
        await client.publish("again", b"old")
        await client.delete_stream("again")

        async def nobody_listens() -> bool:
            # The leader hears of the removal a moment after the node that answered us.
            return (await client.publish("again", b"nobody", timeout_ms=500)).outcome == "fail"

        await until(nobody_listens, "the old leader has unsubscribed")
        second = await client.create_stream(StreamConfig("again", "again", replication_factor=3))
        assert second.id != first.id
        assert (await client.publish("again", b"new")).offset == 0
        assert await cluster.read("again") == {0: "new"}

    with_cluster(tmp_path, 3, story)
