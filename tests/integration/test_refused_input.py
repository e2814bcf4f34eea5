"""What once ended a node, sent to running ones: each is refused and counted, and the nodes go on (V1 to V5).

Some of it comes from strangers, some over NATS, and the rest from a broken peer: somebody who knows the
cluster's secret and speaks in place of a node that was killed.
"""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import msgspec
import pytest

from liftlog.api.handshake import CLIENT, CLIENT_NODE, NONCE_BYTES, PEER, Caller, Party
from liftlog.api.nats_api import api_subject
from liftlog.api.tags import FrameSealer
from liftlog.client import Client
from liftlog.messages import (
    FETCH_DIVERGED,
    AppendRequest,
    Fetch,
    FetchReply,
    Forward,
    HeartbeatReply,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from liftlog.security import read_secrets
from liftlog.types import NUMBER_MAX, Entry, PartitionId, StreamConfig
from tests.integration.cluster import Harness, until, with_cluster
from tests.integration.test_forgeries import Forger, _framed, _message

pytestmark = pytest.mark.real

NESTED = b"\x91" * 100_000
HELLOS = (b"\x93\x01\xa2\xff\xff\x00", NESTED, b"[" * 100_000, b"\xc1", b"")
REQUESTS: tuple[tuple[str, bytes], ...] = (
    ("STREAM.DELETE", b'{"name":"\xff"}'),
    ("STREAM.INFO", b'{"name":"\\u0000"}'),
    ("STREAM.PURGE", b'{"partition":[1,-5],"before":0}'),
    ("STREAM.PURGE", json.dumps({"partition": [2**70, 0], "before": 0}).encode()),
    ("LEADER.ELECT", b'{"name":"orders","partition":-5,"node":1}'),
    ("LEADER.ELECT", json.dumps({"name": "orders", "partition": 0, "node": 2**70}).encode()),
    ("CONTROLLER.TRANSFER", json.dumps({"to": 2**70}).encode()),
    ("STREAM.CREATE", b"[" * 60_000),
)
RAW = (
    b"\xc1",
    NESTED,
    msgspec.msgpack.encode(["VoteReply", (1 << 64) - 1, 3, False, False]),
    msgspec.msgpack.encode(["Forward"]),
    msgspec.msgpack.encode(["Nothing", 1]),
)


async def known(
    address: str, secrets: tuple[bytes, ...], role: int, node: int, to: int
) -> tuple[Forger, FrameSealer, asyncio.StreamReader]:
    """A connection of somebody who has proved that he knows the secret."""
    forger = Forger(address)
    reader, writer = await forger.open()
    caller = Caller(Party("liftlog", node, secrets), role, to, os.urandom(NONCE_BYTES))
    writer.write(_framed(caller.hello()))
    writer.write(_framed(caller.receive(await _message(reader))))
    assert caller.receive(await _message(reader)) == b""
    assert caller.session is not None
    return forger, FrameSealer(caller.session.caller_key), reader


def test_what_once_ended_a_node_is_refused_and_counted(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client, cluster = harness.client, harness.cluster
        info = await client.create_stream(StreamConfig("orders", "orders", replication_factor=3))
        partition = PartitionId(info.id, 0)
        await harness.in_sync("orders", 3)
        controller = await harness.controller()
        broken = next(node for node in cluster.nodes if node != controller)
        await harness.kill(broken)
        nodes = [node for node in cluster.nodes if node != broken]
        peers = read_secrets(cluster.secret_file, "test")
        clients = read_secrets(cluster.client_secret_file, "test")

        async def ready() -> bool:
            return (await client.publish("orders", b"before")).outcome == "ok"

        await until(ready, "an acknowledged message without the killed node")
        term = (await client.status(nodes[0])).term
        for node in nodes:
            for address in (cluster.peer_addresses[node], cluster.addresses[node]):
                stranger = Forger(address)
                for hello in HELLOS:
                    await stranger.hung_up_after(_framed(hello) + _framed(hello))
                stranger.close()
            for raw in RAW:
                caller = (clients, CLIENT, CLIENT_NODE)
                for address, (secrets, role, me) in (
                    (cluster.peer_addresses[node], (peers, PEER, broken)),
                    (cluster.addresses[node], caller),
                ):
                    forger, sealer, reader = await known(address, secrets, role, me, node)
                    forger.writers[0].write(sealer.seal(msgspec.Raw(raw)))
                    await forger._ends(reader)
                    forger.close()
            await _ask_all(client, node)
            await _speak_as(harness, broken, node, peers, partition, term)

        async def counted() -> bool:
            return all([_is_counted((await client.status(node)).counters) for node in nodes])

        async def told() -> bool:
            logs = [cluster.nodes[node].log_path.read_text() for node in nodes]
            return all("messages of nodes were refused, the last: " in log for log in logs)

        await until(counted, "the refusals in the counters")
        await until(told, "the refusals in the nodes' logs")
        assert all(cluster.nodes[node].running for node in nodes)
        assert (await client.status(nodes[0])).term < term + 100
        assert (await client.publish("orders", b"after")).outcome == "ok"
        await harness.start(broken)
        await harness.in_sync("orders", 3)
        assert list((await harness.read("orders")).values())[-1] == "after"

    with_cluster(tmp_path, 3, story)


async def _ask_all(client: Client, node: int) -> None:
    """Each request is answered with an error that names what is wrong."""
    for operation, payload in REQUESTS:
        subject = api_subject("liftlog", operation, node)
        answer = json.loads((await client.nats.request(subject, payload, timeout=5)).data)
        assert answer["error"]["code"] == 400, answer
        assert answer["error"]["description"].startswith(operation)


async def _speak_as(
    harness: Harness, broken: int, node: int, peers: tuple[bytes, ...], partition: PartitionId, term: int
) -> None:
    """What a broken peer says, well formed and under its own name."""
    forger, sealer, _ = await known(harness.cluster.peer_addresses[node], peers, PEER, broken, node)
    junk = [Entry(1, term + 1, b"\xc1")]
    for message in (
        VoteReply(NUMBER_MAX, broken, False, False),
        VoteRequest(NUMBER_MAX, broken, 1, 1, False, True),
        AppendRequest(term + 1, broken, 0, 0, NUMBER_MAX, 0, []),
        AppendRequest(term + 1, broken, 0, 0, 0, 0, junk),
        AppendRequest(term, broken, 0, 0, 0, 0, []),
        AppendRequest(term, node, 0, 0, 0, 0, []),
        Forward(b"\xc1"),
        TimeoutNow(NUMBER_MAX),
        HeartbeatReply(NUMBER_MAX, NUMBER_MAX),
        Fetch(partition, 1, 1, 1, 0, 5, 0, 1000),
        FetchReply(partition, 1, 1, 1, FETCH_DIVERGED, 1, 0, 0, 0, 0, []),
    ):
        forger.writers[0].write(sealer.seal(message))
    await forger.writers[0].drain()
    forger.close()


def _is_counted(counters: dict[str, int]) -> bool:
    refused = ("V4.VoteReply", "V4.VoteRequest", "V4.AppendRequest", "V3.AppendRequest", "V2.AppendRequest")
    more = ("V3.Forward", "V4.TimeoutNow", "V3.Fetch", "V3.FetchReply")
    return (
        all(counters.get(name, 0) >= 1 for name in (*refused, *more))
        and counters["api.refused"] >= len(REQUESTS)
        and counters["network.refused"] >= 2 * (len(HELLOS) + len(RAW)) - 2
    )
