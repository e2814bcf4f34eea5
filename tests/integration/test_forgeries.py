"""The forgeries that once worked, against three processes: nothing is acknowledged, deleted or read by them.

The forger knows everything but the secrets: the cluster's name, the addresses, the ids, the epoch and the
protocol. Each test first sees that the cluster works, and afterwards that it still does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import struct
from pathlib import Path

import pytest

from liftlog.api import wire
from liftlog.api.handshake import (
    CLIENT,
    CLIENT_NODE,
    NO_SECRET,
    NONCE_BYTES,
    PEER,
    Caller,
    HandshakeError,
    Party,
)
from liftlog.api.tags import FrameSealer
from liftlog.client import Client
from liftlog.config import MIB
from liftlog.core.metadata.commands import DeleteStream, encode_command
from liftlog.messages import FetchProgress, Forward, PeerMessage, ReadRequest
from liftlog.real.incoming import PENDING_MAX
from liftlog.types import LiftlogError, PartitionId, StreamConfig
from tests.integration.cluster import Harness, liftlog, until, with_cluster

pytestmark = pytest.mark.real

GUESS = (bytes(range(32)),)


class Forger:
    """Connections of somebody without the secrets to one address."""

    def __init__(self, address: str) -> None:
        self.host, _, port = address.rpartition(":")
        self.port = int(port)
        self.writers: list[asyncio.StreamWriter] = []

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        self.writers.append(writer)
        return reader, writer

    async def try_everything(self, node: int, to: int, messages: list[PeerMessage]) -> None:
        """Send the messages in every way that does not need the secret, and be hung up on each time."""
        frames = b"".join(wire.encode_frame(message) for message in messages)
        old_hello = wire.encode_frame((1, "liftlog", node))
        await self.hung_up_after(old_hello + frames)
        await self.hung_up_after(frames)
        for secrets in ((NO_SECRET,), GUESS):
            for role, me in ((PEER, node), (CLIENT, CLIENT_NODE)):
                caller = Caller(Party("liftlog", me, secrets), role, to, os.urandom(NONCE_BYTES))
                sealer = FrameSealer(bytes(32))
                sealed = b"".join(sealer.seal(message) for message in messages)
                reader, writer = await self.open()
                writer.write(_framed(caller.hello()))
                try:
                    proof = caller.receive(await _message(reader))
                    writer.write(_framed(proof) + sealed)
                    with pytest.raises(HandshakeError):
                        caller.receive(await _message(reader))
                except (HandshakeError, OSError, asyncio.IncompleteReadError):
                    pass
                await self._ends(reader)

    async def hung_up_after(self, data: bytes) -> None:
        reader, writer = await self.open()
        writer.write(data)
        await self._ends(reader)

    async def _ends(self, reader: asyncio.StreamReader) -> None:
        async with asyncio.timeout(15):
            try:
                while await reader.read(4096):
                    pass
            except OSError:
                pass

    def close(self) -> None:
        for writer in self.writers:
            writer.close()


def _framed(message: bytes) -> bytes:
    return struct.pack(">I", len(message)) + message


async def _message(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(15):
        (length,) = struct.unpack(">I", await reader.readexactly(4))
        return await reader.readexactly(length)


def test_v6_forged_progress_makes_no_leader_acknowledge_while_followers_stand_still(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client, cluster = harness.client, harness.cluster
        config = StreamConfig("orders", "orders", replication_factor=3, min_insync_replicas=2)
        info = await client.create_stream(config)
        leader = await harness.leader("orders")
        await harness.in_sync("orders", 3)
        assert (await client.publish("orders", b"first")).outcome == "ok"
        followers = [node for node in cluster.nodes if node != leader]
        status = await client.status()
        incarnations = {info.node: info.incarnation for info in status.nodes}
        epoch = (await harness.partition("orders")).epoch
        for node in followers:
            cluster.nodes[node].send(signal.SIGSTOP)
        try:
            waiting = asyncio.create_task(client.publish("orders", b"second", timeout_ms=4000))
            for address in (cluster.peer_addresses[leader], cluster.addresses[leader]):
                forger = Forger(address)
                for node in followers:
                    forged = FetchProgress(PartitionId(info.id, 0), epoch, incarnations[node], 2, 2, epoch)
                    await forger.try_everything(node, leader, [forged])
                forger.close()
            assert (await waiting).outcome != "ok"
        finally:
            for node in followers:
                cluster.nodes[node].send(signal.SIGCONT)

        async def works() -> bool:
            return (await client.publish("orders", b"third")).outcome == "ok"

        await until(works, "an acknowledged message")
        status = await client.status(leader)
        assert status.counters["network.refused"] >= 2 * len(followers)

    with_cluster(tmp_path, 3, story)


def test_v6_a_forged_deletion_deletes_nothing_and_strangers_read_nothing(tmp_path: Path) -> None:
    async def story(harness: Harness) -> None:
        client, cluster = harness.client, harness.cluster
        info = await client.create_stream(StreamConfig("orders", "orders", replication_factor=3))
        assert (await client.publish("orders", b"mine")).outcome == "ok"
        known = {"request": (7, 7), "stream": info.id, "name": "orders"}
        names = DeleteStream.__struct_fields__
        forged = Forward(encode_command(DeleteStream(**{name: known[name] for name in names})))
        for node in cluster.nodes:
            others = [one for one in cluster.nodes if one != node]
            for address in (cluster.peer_addresses[node], cluster.addresses[node]):
                forger = Forger(address)
                await forger.try_everything(others[0], node, [forged])
                read = wire.encode_frame((1, ReadRequest(PartitionId(info.id, 0), 0)))
                await forger.hung_up_after(wire.encode_frame((1, "liftlog", 0)) + read)
                forger.close()
        assert (await client.stream("orders")).id == info.id
        assert await harness.read("orders") == {0: "mine"}
        wrong = tmp_path / "wrong"
        wrong.write_text(GUESS[0].hex())
        wrong.chmod(0o600)
        for secret in ("none", wrong):
            async with await Client.connect(cluster.nats_url, secret_file=secret) as stranger:
                with pytest.raises(LiftlogError, match="--secret-file"):
                    await stranger.reader(info).offset("new")
        code, out, error = liftlog("sub", "orders", "--nats", cluster.nats_url, "--secret-file", str(wrong))
        assert (code, out) == (2, "") and error.count("\n") == 1
        assert str(wrong) in error and "--secret-file" in error
        # What is passed on the command line is a path: the secret is in no process list.
        assert liftlog("sub", "orders", "--nats", cluster.nats_url)[1].endswith("mine\n")

    with_cluster(tmp_path, 3, story)


def _rss_mib(pid: int) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


def test_v7_connections_of_strangers_cost_a_node_little_memory(tmp_path: Path) -> None:
    """Fifteen that announced large frames took a node from 37 to 943 MiB; here it is two hundred a port."""

    async def story(harness: Harness) -> None:
        node = harness.cluster.nodes[1]
        addresses = (harness.cluster.addresses[1], harness.cluster.peer_addresses[1])
        before = _rss_mib(node.pid)
        forgers = [Forger(address) for address in addresses]
        for forger in forgers:
            for _ in range(200):
                _, writer = await forger.open()
                writer.write(struct.pack(">I", 60 * MIB) + bytes(MIB))
            for _ in range(2 * PENDING_MAX):
                # Announces what is allowed, and then says no more.
                _, writer = await forger.open()
                writer.write(struct.pack(">I", 200) + b"LLOG")
        assert (await harness.client.status(1)).counters["network.memory_bytes"] < MIB
        assert _rss_mib(node.pid) - before < 100

        async def refused() -> bool:
            return (await harness.client.status(1)).counters["network.refused"] >= 400

        await until(refused, "400 refusals")
        for forger in forgers:
            forger.close()
        peak = (await harness.client.status(1)).counters["network.memory_peak_bytes"]
        assert peak < 8 * MIB
        assert _rss_mib(node.pid) - before < 100
        await harness.client.create_stream(StreamConfig("orders", "orders", replication_factor=3))
        assert (await harness.client.publish("orders", b"still here")).outcome == "ok"

    with_cluster(tmp_path, 3, story)
