"""V9: clients with names at real nodes: what they may read, ask and see, with rights that change meanwhile.

The file of clients is that of docs/security.md; the nats-server has what `config permissions` prints of it.
"""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from liftlog.client import Client, RequestFailed
from liftlog.client.direct import NodesClient
from liftlog.groups.streams import CURSORS, GROUPS
from liftlog.messages import ERR_NOT_ALLOWED, ConsumerConfig, StreamChanges
from liftlog.otherclusters import OtherCluster
from liftlog.real.local_cluster import LocalCluster
from liftlog.security import ensure_secret_file
from liftlog.types import LiftlogError, StreamConfig
from tests.integration.cluster import ROOT, liftlog, until
from tests.integration.nats_keys import configured_server

pytestmark = pytest.mark.real

CLIENTS = ("billing", "audit", "ops")
USERS = (*CLIENTS, "operator", "node")


def page_s_file() -> str:
    """The file of clients that docs/security.md shows."""
    page = (ROOT / "docs" / "security.md").read_text()
    (found,) = (block for block in page.split("```toml\n") if "[clients.billing]" in block)
    return found.partition("```")[0]


class Place(NamedTuple):
    """A cluster of three nodes whose clients have names, on a nats-server with their permissions."""

    cluster: LocalCluster
    file: Path
    urls: dict[str, str]

    def secret(self, client: str) -> str:
        return str(self.file.parent / f"{client}.secret")

    def run(self, client: str, *command: str) -> tuple[int, str, str]:
        """The command line, as this client and its NATS user."""
        return liftlog(*command, "--nats", self.urls[client], "--secret-file", self.secret(client))

    async def connect(self, client: str) -> Client:
        return await Client.connect(self.urls[client], secret_file=self.secret(client), timeout_ms=8000)

    def rewrite(self, change: Callable[[str], str]) -> None:
        """Change the file, and have all nodes read it."""
        self.file.write_text(change(self.file.read_text()))
        for node in self.cluster.nodes.values():
            node.send(signal.SIGHUP)

    async def counters(self, node: int) -> dict[str, int]:
        async with await Client.connect(self.urls["operator"], timeout_ms=8000) as client:
            return (await client.status(node)).counters

    async def until_read(self, wanted: Callable[[dict[str, int]], bool]) -> None:
        """Wait until every node's counters say so."""

        async def everywhere() -> bool:
            return all([wanted(await self.counters(node)) for node in self.cluster.nodes])

        await until(everywhere, "all nodes have read the file")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("rights")
    file = folder / "clients.toml"
    file.touch(mode=0o600)
    file.write_text(page_s_file())
    for client in CLIENTS:
        ensure_secret_file(folder / f"{client}.secret")
    code, block, error = liftlog("config", "permissions", str(file))
    assert (code, error) == (0, "")
    users = "\n".join(
        f"{{ user: {name}, password: {name}-secret{f', permissions: $client_{name}' * (name in CLIENTS)} }}"
        for name in USERS
    )
    server = configured_server(folder / "nats", f"{block}\nauthorization: {{ users: [ {users} ] }}\n")
    server.start()
    urls = {name: f"nats://{name}:{name}-secret@127.0.0.1:{server.port}" for name in USERS}
    cluster = LocalCluster(folder / "nodes", 3, nats_url=urls["node"])
    for node in cluster.nodes.values():
        node.config = msgspec.structs.replace(node.config, client_secret_file=None, clients_file=file)
    try:
        with cluster:
            found = Place(cluster, file, urls)
            for name in ("orders", "audit_eu", "secret", "billing_jobs"):
                subject = f"{name.replace('_', '.')}.>"
                done = liftlog("stream", "create", name, subject, "--nats", urls["operator"])
                assert done[0] == 0, done
            for subject in ("orders.new", "audit.eu.new", "secret.new"):
                assert liftlog("pub", subject, "hello", "--nats", urls["operator"])[0] == 0
            yield found
    finally:
        server.stop()


@pytest.fixture(autouse=True)
def rights_of_the_page(place: Place) -> Iterator[None]:
    """Each test begins with these, whatever the one before has left."""
    yield
    asyncio.run(_restore(place))


async def _restore(place: Place) -> None:
    if place.file.read_text() == page_s_file():
        return
    before = {node: (await place.counters(node))["rights.read"] for node in place.cluster.nodes}
    place.rewrite(lambda text: page_s_file())
    await place.until_read(lambda counters: not counters["rights.mistaken"])

    async def everywhere() -> bool:
        return all([(await place.counters(node))["rights.read"] > read for node, read in before.items()])

    await until(everywhere, "the rights of the page are in force again")


def test_V9_a_client_reads_what_it_may_and_nothing_else(place: Place) -> None:
    code, output, error = place.run("billing", "sub", "orders", "--from", "earliest", "--count", "1")
    assert (code, output, error) == (0, "0/0  orders.new  hello\n", "")
    for name in ("secret", "nowhere"):
        code, output, error = place.run("billing", "sub", name, "--from", "earliest", "--count", "1")
        assert (code, output) == (2, "")
        assert error.replace(name, "NAME") == (
            "liftlog: client 'billing' may not see stream 'NAME', or there is none; if it should, add its "
            "name, or a pattern of it, to read = [...] under [clients.billing] in each node's [security] "
            "clients_file, and have the nodes read it (SIGHUP)\n"
        )
    code, output, _ = place.run("billing", "stream", "ls")
    assert code == 0
    assert "orders" in output
    assert "audit_eu" not in output
    assert "secret" not in output
    code, output, _ = place.run("audit", "stream", "ls", "--json")
    names = {stream["config"]["name"] for stream in json.loads(output)}
    assert (code, names) == (0, {"audit_eu", "orders"})


def test_V9_by_number_a_stream_is_as_closed_as_by_name(place: Place) -> None:
    async def story() -> None:
        async with await Client.connect(place.urls["operator"], timeout_ms=8000) as operator:
            secret = await operator.stream("secret")
        async with await place.connect("billing") as client:
            reader = client.reader(secret, 0)
            with pytest.raises(RequestFailed, match="may not read the stream number") as caught:
                await reader.fetch(0)
            assert caught.value.code == ERR_NOT_ALLOWED
            assert str(caught.value).startswith("'secret': client 'billing' ")
            asked = reader.offset("new"), reader.offset("earliest"), client.last(secret, "secret.new")
            for asking in asked:
                with pytest.raises(RequestFailed, match="may not read"):
                    await asking
            with pytest.raises(RequestFailed, match="may not consume"):
                await client.consumer(secret, "mine", config=ConsumerConfig())

    asyncio.run(story())


def test_V9_a_status_shows_copies_of_streams_that_one_may_see(place: Place) -> None:
    async def story() -> None:
        seeds = list(place.cluster.addresses.values())
        seen = {}
        for name in ("billing", "ops"):
            asker = NodesClient(seeds, cluster="liftlog", secret_file=place.secret(name), timeout_ms=8000)
            async with asker as client:
                status = await client.status(0)
                names = {stream.id: stream.config.name for stream in await client.streams()}
                seen[name] = {names[copy.partition.stream] for copy in status.replicas}
                assert len(status.nodes) == 3
        assert "secret" in seen["ops"]
        # Its groups have it see these two, if another test has made them before.
        assert seen["billing"] <= {"orders", "billing_jobs", CURSORS, GROUPS}

    asyncio.run(story())


def test_V9_who_administers_makes_streams_on_its_own_subjects_alone(place: Place) -> None:
    """NATS lets the client ask for nothing but the status: all of this is asked of nodes."""

    async def story() -> None:
        async with await place.connect("billing") as client:
            made = await client.create_stream(StreamConfig("billing_1", "billing.one.>"))
            assert made.config.name == "billing_1"
            await client.alter_stream("billing_1", StreamChanges(retention_ms=60_000))
            assert (await client.publish("billing.one.a", b"x")).outcome == "ok"
            assert (await client.delete_stream("billing_1")) is None
            for config in (
                StreamConfig("billing_2", "orders.>"),
                StreamConfig("billing_2", "billing.two.>", mirror="secret"),
                StreamConfig("other", "billing.two.>"),
            ):
                with pytest.raises(RequestFailed, match="client 'billing' may not") as caught:
                    await client.create_stream(config)
                assert caught.value.code == ERR_NOT_ALLOWED
            with pytest.raises(RequestFailed, match="may not administer stream 'orders'"):
                await client.delete_stream("orders")
            with pytest.raises(RequestFailed, match="may not operate the cluster"):
                await client.rebalance()
        async with await place.connect("ops") as client:
            await client.rebalance()

    asyncio.run(story())


def test_V9_a_group_keeps_its_place_and_sees_no_other_one(place: Place) -> None:
    async def story() -> None:
        async with await place.connect("billing") as client:
            async with client.group("billing", ["orders"]) as member:
                async for message in member:
                    assert message.record.value == b"hello"
                    break
            assert (await client.group_state("billing")).streams
            await client.set_cursor("billing", "orders", 0, 1)
            assert await client.fetch_cursor("billing", "orders") == 1
            for asking in (client.group_state("other"), client.groups(), client.fetch_cursor("a", "orders")):
                with pytest.raises(RequestFailed, match="what its groups have there and nothing else"):
                    await asking
            cursors = await client.stream("__cursors")
            with pytest.raises(RequestFailed, match=r"add a name to groups = \[\.\.\.\] under \[clients"):
                await client.reader(cursors, 0).fetch(0)
            with pytest.raises(RequestFailed, match="may not consume"):
                await client.consumer(cursors, "mine", config=ConsumerConfig())
            # What is not its own it cannot write either: that NATS sees to.
            assert (await client.publish("__groups.other", b"{}", timeout_ms=1000)).outcome != "ok"

    asyncio.run(story())


def test_V9_a_right_that_is_taken_ends_with_the_next_request(place: Place) -> None:
    async def story() -> None:
        async with await place.connect("billing") as client:
            orders = await client.stream("orders")
            reader = client.reader(orders, 0)
            assert await reader.fetch(0)
            before = await place.counters(1)
            place.rewrite(lambda text: text.replace('read = ["orders"]', "read = []"))
            await place.until_read(lambda counters: counters["rights.digest"] != before["rights.digest"])
            with pytest.raises(RequestFailed, match="may not read"):
                await reader.fetch(0)
            # It is still a client of the cluster: what it may do otherwise it may do.
            assert (await client.stream("billing_jobs")).config.name == "billing_jobs"
            assert (await place.counters(orders.partitions[0].leader))["rights.refused"] > 0

    asyncio.run(story())


def test_V9_who_has_a_secret_that_is_gone_is_hung_up_on(place: Place) -> None:
    async def story() -> None:
        async with await place.connect("audit") as client:
            reader = client.reader(await client.stream("orders"), 0)
            assert await reader.fetch(0)
            before = await place.counters(1)
            other = Path(place.secret("audit"))
            was = other.read_text()
            other.unlink()
            ensure_secret_file(other)
            try:
                place.rewrite(lambda text: text)
                await place.until_read(lambda counters: counters["rights.digest"] != before["rights.digest"])
                # It has the new secret by now, and takes that with its next connection.
                assert await reader.fetch(0)
                now = other.read_text()
                other.write_text(was)
                stranger = NodesClient(
                    [place.cluster.addresses[1]],
                    cluster="liftlog",
                    secret_file=place.secret("audit"),
                    timeout_ms=3000,
                )
                async with stranger:
                    with pytest.raises(LiftlogError, match="do not trust each other"):
                        await stranger.status()
                other.write_text(now)
            finally:
                other.write_text(was)
                before = await place.counters(1)
                place.rewrite(lambda text: text)
                await place.until_read(lambda counters: counters["rights.digest"] != before["rights.digest"])
        log = place.cluster.nodes[1].log_path.read_text()
        assert "client 'audit' has proved a secret that is accepted no more" in "".join(
            node.log_path.read_text() for node in place.cluster.nodes.values()
        )
        assert was.strip() not in log

    asyncio.run(story())


def test_V9_a_file_with_a_mistake_changes_nothing_and_everybody_says_so(place: Place) -> None:
    async def story() -> None:
        before = await place.counters(1)
        place.rewrite(lambda text: text.replace("read =", "reed =", 1))
        await place.until_read(lambda counters: counters["rights.mistaken"] == 1)
        assert (await place.counters(1))["rights.digest"] == before["rights.digest"]

    asyncio.run(story())
    code, output, _ = place.run("billing", "sub", "orders", "--from", "earliest", "--count", "1")
    assert (code, output) == (0, "0/0  orders.new  hello\n")
    code, output, _ = liftlog("cluster", "status", "--nats", place.urls["operator"])
    assert code == 0
    assert "rights: 3 named clients, digest " in output
    assert "on nodes 1, 2, 3" in output
    assert "note: node 2 keeps the rights of clients that it had: its files have a mistake" in output
    log = place.cluster.nodes[2].log_path.read_text()
    assert "clients keep the rights that they had: " in log
    assert "unknown key 'reed'; there are: secret_file, read" in log


def test_V9_a_node_with_another_file_is_noted(place: Place) -> None:
    text = place.file.read_text()
    place.file.write_text(text.replace('read = ["orders"]', 'read = ["orders", "secret"]'))
    place.cluster.nodes[3].send(signal.SIGHUP)

    async def differs() -> bool:
        return (await place.counters(3))["rights.digest"] != (await place.counters(1))["rights.digest"]

    asyncio.run(until(differs, "node 3 has read its file"))
    code, output, _ = liftlog("cluster", "status", "--nats", place.urls["operator"])
    assert code == 0
    assert "note: clients' rights, or their secrets, are not the same on all nodes" in output


def test_V9_R28_a_mirror_elsewhere_copies_what_its_name_may_read_there(tmp_path: Path) -> None:
    """Nodes that copy are a client there, and need no more than another one."""
    file, secret = tmp_path / "clients.toml", tmp_path / "mirror.secret"
    ensure_secret_file(secret)
    file.touch(mode=0o600)
    file.write_text('[clients.near]\nsecret_file = "mirror.secret"\nread = ["orders"]\n')
    far = LocalCluster(tmp_path / "far", 1, cluster="far", clients_file=file)
    near = LocalCluster(tmp_path / "near", 1)
    place = OtherCluster("east", tuple(far.addresses.values()), "far", secret)
    for node in near.nodes.values():
        node.config = msgspec.structs.replace(node.config, clusters=(place,))

    async def story() -> None:
        async with (
            await Client.connect(far.nats_url, cluster="far") as there,
            await Client.connect(near.nats_url) as here,
        ):
            for name in ("orders", "secret"):
                await there.create_stream(StreamConfig(name, name))
                assert (await there.publish(name, b"there")).outcome == "ok"
                copy = StreamConfig(f"{name}_copy", f"{name}.copy", mirror=f"{name}@east")

                async def made(copy: StreamConfig = copy) -> bool:
                    # A cluster that has just begun may not have the feature level that mirrors need.
                    try:
                        return bool(await here.create_stream(copy))
                    except RequestFailed as error:
                        assert "level" in str(error)
                        return False

                await until(made, f"{copy.name} is made")

            async def problem(name: str) -> str:
                reader = here.reader(await here.stream(f"{name}_copy"), 0)
                return (await reader.ask_subjects("subjects", ">")).problem

            async def refused() -> bool:
                return "client 'near' may not see stream 'secret'" in await problem("secret")

            async def copied() -> bool:
                return (await here.reader(await here.stream("orders_copy"), 0).offset("new")) == 1

            await until(refused, "what may not be read is said")
            await until(copied, "what may be read is copied")

    with far, near:
        asyncio.run(story())


def test_V9_a_client_that_nodes_do_not_know_by_name_stays_with_what_nats_allows(tmp_path: Path) -> None:
    """It has the secret that all share, and could do everything at nodes."""
    server = configured_server(
        tmp_path / "nats",
        "authorization: { users: [ { user: node, password: n }, { user: reader, password: r, permissions: "
        '{ publish: { allow: ["$LIFTLOG.liftlog.API.CLUSTER.STATUS"] } } } ] }\n',
    )
    server.start()
    try:
        with LocalCluster(tmp_path / "nodes", 1, nats_url=f"nats://node:n@127.0.0.1:{server.port}"):
            url = f"nats://reader:r@127.0.0.1:{server.port}"
            code, _, error = liftlog("stream", "create", "mine", "mine.>", "--nats", url)
        assert code == 2
        assert "this NATS user may not publish to $LIFTLOG.liftlog.API.STREAM.CREATE" in error
    finally:
        server.stop()
