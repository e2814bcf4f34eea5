"""TLS on real clusters: nothing readable on the wire, fail-over, a switch-over under load, what is said."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
import trio

from liftlog.client import Client
from liftlog.client.on_trio import TrioClient
from liftlog.otherclusters import OtherCluster
from liftlog.real.authority import Authority
from liftlog.real.local_cluster import HOST, LocalCluster
from liftlog.tls.files import TlsFiles
from liftlog.tls.looking import DAY_S
from liftlog.tls.settings import NodeTls
from liftlog.types import LiftlogError, StreamConfig
from tests.integration.cluster import Harness, Writer, liftlog, until, with_cluster
from tests.integration.nats_keys import Authority as AnyAuthority
from tests.integration.taps import Tap

pytestmark = [pytest.mark.real, pytest.mark.slow]

STREAM = StreamConfig("s", "s", replication_factor=3)


def node_tls(files: TlsFiles, **settings: str) -> NodeTls:
    assert files.cert_file is not None and files.key_file is not None
    return NodeTls(files.ca_file, files.cert_file, files.key_file, **settings)  # type: ignore[arg-type]


def tapped(cluster: LocalCluster, taps: ExitStack) -> list[Tap]:
    """Nodes and clients are told the addresses of taps, which stand before the nodes' own ports."""
    peers = {node: taps.enter_context(Tap(address)) for node, address in cluster.peer_addresses.items()}
    clients = {node: taps.enter_context(Tap(address)) for node, address in cluster.addresses.items()}
    for number, node in cluster.nodes.items():
        node.config = msgspec.structs.replace(
            node.config,
            peers={peer: tap.address for peer, tap in peers.items()},
            address=clients[number].address,
        )
    return [*peers.values(), *clients.values()]


@pytest.mark.parametrize("tls", [True, False], ids=["tls", "plain"])
def test_no_record_is_readable_on_the_wire_and_a_failover_loses_nothing(tmp_path: Path, tls: bool) -> None:
    """Without TLS the same taps do see records: so they stand where they should."""
    taps: list[Tap] = []

    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(STREAM)
        async with Writer(cluster.client, "s", "confidential-record") as writer:
            await writer.more_acks(100)
            leader = await cluster.leader("s")
            await cluster.kill(leader)
            await writer.more_acks(200)
            await cluster.start(leader)
            await cluster.in_sync("s", 3)
        await cluster.check_nothing_lost("s", writer)
        assert all(len(tap.seen) > 1000 for tap in taps)
        readable = [b"confidential-record" in tap.seen for tap in taps]
        assert not any(readable) if tls else all(readable)

    with ExitStack() as stack:

        def prepare(cluster: LocalCluster) -> None:
            taps.extend(tapped(cluster, stack))

        with_cluster(tmp_path, 3, story, prepare, tls=tls)


async def restart(cluster: Harness, number: int, tls: NodeTls) -> None:
    node = cluster.cluster.nodes[number]
    node.config = msgspec.structs.replace(node.config, tls=tls)
    node.terminate()
    await asyncio.to_thread(node.wait)
    await cluster.start(number)
    await cluster.in_sync("s", 3)


def test_a_running_cluster_goes_over_to_tls_node_by_node_under_load(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "tls")
    authority.ensure()
    certificates = {node: authority.issue(f"node-{node}", HOST, time.time()) for node in (1, 2, 3)}

    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(STREAM)
        url = cluster.cluster.nats_url
        async with await Client.connect(url, tls_ca=authority.ca_file) as secured:
            async with Writer(cluster.client, "s", "over") as writer:
                await writer.more_acks(100)
                for number, files in certificates.items():
                    await restart(cluster, number, node_tls(files, peers="accept", clients="accept"))
                    await writer.more_acks(100)
                # Clients of both kinds are served now: this is when they go over.
                later = Harness(cluster.cluster, secured)
                assert await cluster.read("s", node=1) and await later.read("s", node=1)
                for number, files in certificates.items():
                    await restart(cluster, number, node_tls(files))
                    await writer.more_acks(100)

                async def all_over() -> bool:
                    told = json.loads((await cluster.said("cluster", "status", "--json"))[1])["counters"]
                    return len(told) == 3 and all(
                        each["tls.plain_peers"] == 0 and each["network.peers"] == 2 for each in told.values()
                    )

                await until(all_over, "connections with TLS alone")
                assert "no connection without TLS" in await cluster.run("cluster", "status")
            await later.check_nothing_lost("s", writer)

    with_cluster(tmp_path, 3, story)


def test_certificates_are_renewed_while_nodes_run(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        authority = cluster.cluster.authority
        assert authority is not None
        await cluster.client.create_stream(STREAM)
        async with Writer(cluster.client, "s", "renewed") as writer:
            await writer.more_acks(50)
            for number in cluster.cluster.nodes:
                # In a year's time it would be renewed.
                authority.issue(f"node-{number}", HOST, time.time() + 350 * DAY_S)

            async def read_again() -> bool:
                told = [await cluster.client.status(number) for number in cluster.cluster.nodes]
                return all(each.counters["tls.read"] == 1 for each in told)

            await until(read_again, "nodes that have read their files again")
            await cluster.kill(2)
            await cluster.start(2)
            await cluster.in_sync("s", 3)
            await writer.more_acks(50)
        async with await Client.connect(cluster.cluster.nats_url, tls_ca=authority.ca_file) as client:
            await Harness(cluster.cluster, client).check_nothing_lost("s", writer)

    with_cluster(tmp_path, 3, story, tls=True)


def test_who_speaks_wrongly_is_told_in_one_line_and_soon(tmp_path: Path) -> None:
    other = AnyAuthority(tmp_path / "other")

    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(StreamConfig("s", "s"))
        await cluster.client.publish("s", b"one")
        url, authority = cluster.cluster.nats_url, cluster.cluster.authority
        assert authority is not None
        read = ("sub", "s", "--from", "earliest", "--count", "1", "--timeout", "8", "--nats", url)

        async def said(*options: str, environment: dict[str, str] | None = None) -> tuple[int, str, str]:
            return await asyncio.to_thread(liftlog, *read, *options, environment=environment)

        code, out, _ = await said("--tls-ca", str(authority.ca_file))
        assert code == 0 and "one" in out
        code, out, _ = await said(environment={"LIFTLOG_CLIENT_TLS_CA": str(authority.ca_file)})
        assert code == 0 and "one" in out
        code, _, error = await said()
        assert code == 2 and error.count("\n") == 1
        assert "it takes connections with TLS only" in error and "--tls-ca FILE (or LIFTLOG" in error
        code, _, error = await said("--tls-ca", str(other.ca_file))
        assert code == 2 and error.count("\n") == 1
        assert f"its certificate is of no CA in {other.ca_file}; both sides need the same CA" in error
        code, _, error = await said("--tls-ca", str(tmp_path / "none.pem"))
        assert code == 2 and "--tls-ca: cannot read" in error and error.count("\n") == 1
        address = cluster.cluster.addresses[1]
        status = ("cluster", "status", "--cluster", "liftlog")
        code, out, _ = await asyncio.to_thread(
            liftlog, *status, "--config", str(cluster.cluster.nodes[1].config_path)
        )
        assert code == 0 and "TLS: the first certificate to end is that of node 1, in 364 days" in out
        code, _, error = await asyncio.to_thread(
            liftlog, *status, "--node", address, "--tls-ca", str(other.ca_file)
        )
        assert code == 2 and "do not trust each other" in error
        assert await asyncio.to_thread(trio.run, read_on_trio, url, authority.ca_file) == [b"one"]
        log = cluster.cluster.nodes[1].log_path.read_text()
        assert 'it speaks no TLS, and [tls] clients = "require" here' in log

    with_cluster(tmp_path, 1, story, tls=True)


async def read_on_trio(url: str, ca: Path) -> list[bytes | None]:
    async with TrioClient.connect(url, tls_ca=ca) as client, client.read("s") as records:
        return [record.value async for _, record in records]


def test_a_client_that_speaks_tls_to_a_node_without_is_told(tmp_path: Path) -> None:
    other = AnyAuthority(tmp_path / "other")

    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(StreamConfig("s", "s"))
        read = ("sub", "s", "--from", "earliest", "--count", "1", "--timeout", "3")
        said = await cluster.refused(*read, "--tls-ca", str(other.ca_file))
        assert "it hung up when TLS began: it speaks none there, or stops" in said
        log = cluster.cluster.nodes[1].log_path.read_text()
        assert "it speaks TLS, which the port for clients does not" in log

    with_cluster(tmp_path, 1, story)


def test_clients_need_a_certificate_where_nodes_want_one(tmp_path: Path) -> None:
    authority = AnyAuthority(tmp_path / "clients")
    mine = TlsFiles(authority.ca_file, *authority.issue("billing"))

    def prepare(cluster: LocalCluster) -> None:
        for node in cluster.nodes.values():
            assert node.config.tls is not None
            tls = msgspec.structs.replace(node.config.tls, client_ca_file=mine.ca_file)
            node.config = msgspec.structs.replace(node.config, tls=tls)

    async def story(cluster: Harness) -> None:
        url, nodes = cluster.cluster.nats_url, cluster.cluster.authority
        assert nodes is not None
        await cluster.client.create_stream(StreamConfig("s", "s"))
        await cluster.client.publish("s", b"one")
        with pytest.raises(LiftlogError, match="it wants a certificate of us; name one with --tls-cert"):
            await cluster.client.read_all(await cluster.client.stream("s"), 0, timeout_ms=5000).__anext__()
        shown = {"tls_ca": nodes.ca_file, "tls_cert": mine.cert_file, "tls_key": mine.key_file}
        async with await Client.connect(url, **shown) as client:  # type: ignore[arg-type]
            assert await Harness(cluster.cluster, client).read("s") == {0: "one"}

    with_cluster(tmp_path, 1, story, prepare, tls=True)


def test_a_mirror_copies_from_a_cluster_that_speaks_tls(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "far", 1, cluster="far", tls=True) as far:
        assert far.authority is not None
        place = OtherCluster(
            *("east", tuple(far.addresses.values()), "far", far.client_secret_file),
            tls=TlsFiles(far.authority.ca_file),
        )

        def knows(near: LocalCluster) -> None:
            for node in near.nodes.values():
                node.config = msgspec.structs.replace(node.config, clusters=(place,))

        async def story(near: Harness) -> None:
            async with await Client.connect(far.nats_url, cluster="far") as client:
                await Harness(far, client).all_live()
                await near.newest_level()
                await client.create_stream(StreamConfig("orders", "orders"))
                await client.publish("orders", b"copied")
                await near.client.create_stream(StreamConfig("copy", "copy", mirror="orders@east"))

                async def there() -> bool:
                    return await near.read("copy") == {0: "copied"}

                await until(there, "the copy")

        with_cluster(tmp_path / "near", 1, story, knows)


def test_dev_makes_certificates_and_says_how_clients_reach_it(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "dev", 1, tls=True, jetstream=True) as cluster:
        told = json.loads(cluster.describe())
        assert told["tls_ca"] == str(tmp_path / "dev" / "tls" / "ca.pem")
        code, out, error = liftlog("config", "check", told["nodes"][0]["config"])
        assert code == 0, error
        assert "is for 127.0.0.1, localhost, and valid until" in out
