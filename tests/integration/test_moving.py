"""A stream moves from a nats-server with JetStream into real nodes (docs/moving.md, ADR 0080)."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nats
import nats.js.errors
import pytest
from msgspec import structs
from nats.js import JetStreamContext
from nats.js.api import RawStreamMsg

from liftlog.client import Client
from liftlog.real.local_cluster import LocalCluster
from liftlog.real.nats_server import NatsServer
from tests.integration.cluster import ROOT, Harness, child_environment, liftlog, until, with_cluster
from tests.integration.nats_keys import configured_server

pytestmark = pytest.mark.real

MANY = 20_000
HIGH = 1 << 40
"""A sequence that nobody can fill up to."""


@contextmanager
def running(server: NatsServer) -> Iterator[NatsServer]:
    server.start()
    try:
        yield server
    finally:
        server.stop()


@contextmanager
def jetstream(folder: Path) -> Iterator[NatsServer]:
    words = ("-js", "-sd", str(folder / "store"))
    with running(NatsServer(folder / "origin", extra=words, name="origin")) as server:
        yield server


@dataclass(frozen=True)
class Two:
    """An origin, and a cluster of one node with a door."""

    origin: str
    cluster: LocalCluster

    def say(self, stream: str, *words: str) -> tuple[int, str, str]:
        """What `liftlog import jetstream` does and says."""
        where = ("--from", self.origin, "--nats", self.cluster.nats_url)
        return liftlog("import", "jetstream", stream, *where, *words)

    def refused(self, stream: str, *words: str) -> str:
        code, out, error = self.say(stream, *words)
        assert (code, out) == (2, ""), (out, error)
        return error

    def moved(self, stream: str, *words: str) -> str:
        code, out, error = self.say(stream, *words)
        assert code == 0, error
        assert f"stream '{stream}' is ready" in out
        return error

    async def play(self, story: Callable[[JetStreamContext, JetStreamContext], Awaitable[object]]) -> None:
        """With JetStream of both."""
        here_url = self.cluster.nats_url
        async with await nats.connect(self.origin) as origin, await nats.connect(here_url) as here:
            await story(origin.jetstream(), here.jetstream(timeout=5))

    def run(self, story: Callable[[JetStreamContext, JetStreamContext], Awaitable[object]]) -> None:
        asyncio.run(self.play(story))


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    folder = tmp_path_factory.mktemp("moving")
    with jetstream(folder) as server, LocalCluster(folder / "cluster", 1, jetstream=True) as cluster:
        asyncio.run(ready(cluster))
        yield Two(server.url, cluster)


async def ready(cluster: LocalCluster) -> None:
    async with await Client.connect(cluster.nats_url) as client:
        await Harness(cluster, client).newest_level()

    async def answers() -> bool:
        async with await nats.connect(cluster.nats_url) as connection:
            try:
                await connection.jetstream(timeout=1).account_info()
            except (nats.js.errors.Error, nats.errors.Error):
                return False
            return True

    await until(answers, "an answer of the door")


async def filled(js: JetStreamContext, name: str, count: int, **config: Any) -> None:
    """A stream with so many messages, some with headers and some with ids, some of them deleted."""
    await js.add_stream(name=name, subjects=[f"{name}.>"], **config)
    await publish(js, name, 0, count)
    gone = [*range(1, 40), *range(200, 260), count - 1, count]
    for seq in gone:
        if 0 < seq <= count:
            await js.delete_msg(name, seq)


async def publish(js: JetStreamContext, name: str, first: int, end: int) -> None:
    acks = []
    for number in range(first, end):
        headers = {"A": f"v{number}", "B-b": "y  z"} if number % 3 == 0 else None
        headers = {"Nats-Msg-Id": f"id-{number}"} if number % 500 == 7 else headers
        body = f"{number} ".encode() * (number % 40)
        acks.append(await js.publish_async(f"{name}.{number % 17}", body, headers=headers))
        if len(acks) == 500:
            await asyncio.gather(*acks)
            acks.clear()
    await asyncio.gather(*acks)


async def stored(js: JetStreamContext, name: str, seq: int) -> RawStreamMsg | None:
    try:
        return await js.get_msg(name, seq)
    except nats.js.errors.NotFoundError:
        return None


async def alike(origin: JetStreamContext, here: JetStreamContext, name: str, *seqs: int) -> None:
    """The same state, and the same messages at these sequences."""
    there, ours = (await origin.stream_info(name)).state, (await here.stream_info(name)).state
    assert (ours.messages, ours.first_seq, ours.last_seq) == (there.messages, there.first_seq, there.last_seq)
    for seq in seqs:
        left, right = await stored(origin, name, seq), await stored(here, name, seq)
        assert (left is None) == (right is None), seq
        if left is not None and right is not None:
            assert (left.subject, left.data, left.hdrs) == (right.subject, right.data, right.hdrs)


def test_twenty_thousand_messages_with_gaps_headers_and_a_consumer(two: Two) -> None:
    async def fill(origin: JetStreamContext, _: JetStreamContext) -> None:
        await filled(origin, "MANY", MANY, description="many", metadata={"a": "b"})
        pull = await origin.pull_subscribe("MANY.>", "work", stream="MANY")
        got = await pull.fetch(50)
        for message in (*got[:20], *got[25:30]):
            await message.ack_sync()

    two.run(fill)
    code, out, error = two.say("MANY", "--dry-run", "--json")
    assert code == 0, error
    plan = json.loads(out)
    assert (plan["fillers"], plan["messages"], plan["last"]) == (62, MANY - 101, MANY)
    assert two.moved("MANY").count("messages are alike") == 1

    async def check(origin: JetStreamContext, here: JetStreamContext) -> None:
        await alike(origin, here, "MANY", 1, 39, 40, 43, 199, 200, 259, 260, 508, 10_008, MANY - 2, MANY)
        config = (await here.stream_info("MANY")).config
        assert config.description == "many" and config.metadata is not None and config.metadata["a"] == "b"
        assert config.subjects == ["MANY.>"]
        # Acked were the first 20 that there are, and five behind a gap, which come again.
        pull = await here.pull_subscribe("MANY.>", "work", stream="MANY")
        assert [one.metadata.sequence.stream for one in await pull.fetch(3)] == [60, 61, 62]
        # An id that was copied is remembered.
        ack = await here.publish("MANY.7", b"new")
        assert ack.seq == MANY + 1

    two.run(check)
    assert "'MANY' is ready: it was moved from 'MANY' before" in two.refused("MANY")


def test_a_bucket_and_an_object_store_are_used_on(two: Two) -> None:
    contents = os.urandom(60_000)

    async def fill(origin: JetStreamContext, _: JetStreamContext) -> None:
        bucket = await origin.create_key_value(bucket="B", history=2, direct=True)
        for number in range(40):
            await bucket.put(f"k{number % 7}", b"%d" % number)
        revision = await bucket.create("locked", b"1")
        await bucket.update("locked", b"2", last=revision)
        await bucket.delete("k1")
        await bucket.purge("k2")
        store = await origin.create_object_store("O")
        await store.put("large", b"x")
        await store.put("large", contents)
        await store.put("gone", b"y")
        await store.delete("gone")

    two.run(fill)
    two.moved("KV_B")
    two.moved("OBJ_O")

    async def use(origin: JetStreamContext, here: JetStreamContext) -> None:
        await alike(origin, here, "KV_B")
        await alike(origin, here, "OBJ_O")
        theirs, ours = await origin.key_value("B"), await here.key_value("B")
        keys = sorted(await ours.keys())
        assert keys == sorted(await theirs.keys()) and "locked" in keys and "k2" not in keys
        for key in keys:
            left, right = await theirs.history(key), await ours.history(key)
            assert [(one.value, one.revision) for one in left] == [(one.value, one.revision) for one in right]
        entry = await ours.get("locked")
        with pytest.raises(nats.js.errors.KeyWrongLastSequenceError):
            await ours.update("locked", b"3", last=(entry.revision or 0) - 1)
        assert await ours.update("locked", b"3", last=entry.revision) == 45
        assert await ours.create("k2", b"new") == 46
        store = await here.object_store("O")
        assert (await store.get("large")).data == contents
        await store.put("large", b"z")
        assert (await store.get("large")).data == b"z"

    two.run(use)


def importing(two: Two, stream: str, *words: str) -> subprocess.Popen[str]:
    where = ("--from", two.origin, "--nats", two.cluster.nats_url, "--json")
    command = [sys.executable, "-m", "liftlog", "import", "jetstream", stream, *where, *words]
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=child_environment(),
        text=True,
    )


def told(process: subprocess.Popen[str], event: str) -> dict[str, Any]:
    """The next event of this kind."""
    assert process.stdout is not None
    for line in process.stdout:
        found: dict[str, Any] = json.loads(line)
        if found["event"] == event:
            return found
    assert process.stderr is not None
    raise AssertionError(f"it ended without {event}: {process.stderr.read()}")


def came_to(process: subprocess.Popen[str], seq: int) -> None:
    """It has told that it has copied up to this sequence."""
    while told(process, "progress")["sequence"] < seq:
        pass


def ended(process: subprocess.Popen[str], timeout_s: float = 60) -> tuple[int, str]:
    """Its exit code, and what it complains of."""
    _, error = process.communicate(timeout=timeout_s)
    return process.returncode, error


def gave_up(process: subprocess.Popen[str]) -> str:
    """What it complains of when it ends by itself."""
    code, error = ended(process, 30)
    assert code == 2, error
    return error


def test_killed_in_the_middle_it_goes_on_without_a_double(two: Two) -> None:
    async def fill(origin: JetStreamContext, _: JetStreamContext) -> None:
        await filled(origin, "KILLED", 6000)

    two.run(fill)
    for event in ("plan", "progress", "compared"):
        with importing(two, "KILLED") as process:
            told(process, event)
            process.kill()
    # The last one may have come to its end before it was killed.
    code, out, error = two.say("KILLED")
    assert (code == 0 and "begun already" in error) or "is ready: it was moved" in error, (out, error)

    async def check(origin: JetStreamContext, here: JetStreamContext) -> None:
        await alike(origin, here, "KILLED", 40, 508, 5998, 6000)

    two.run(check)


def test_a_mirror_follows_until_it_is_cut_over(two: Two) -> None:
    async def fill(origin: JetStreamContext, _: JetStreamContext) -> None:
        await filled(origin, "LIVE", 1000)

    async def more(origin: JetStreamContext, _: JetStreamContext) -> None:
        await publish(origin, "LIVE", 1000, 1500)
        await origin.delete_msg("LIVE", 500)
        await origin.delete_msg("LIVE", 1200)

    two.run(fill)
    with importing(two, "LIVE", "--follow") as process:
        assert told(process, "caught-up")["sequence"] == 1000
        two.run(more)
        came_to(process, 1500)
        process.send_signal(signal.SIGTERM)
        assert told(process, "ended")["sequence"] == 1500
        assert process.wait(20) == 0

    async def not_ready(origin: JetStreamContext, _: JetStreamContext) -> None:
        await publish(origin, "LIVE", 1500, 1510)

    two.run(not_ready)
    two.moved("LIVE")

    async def check(origin: JetStreamContext, here: JetStreamContext) -> None:
        await alike(origin, here, "LIVE", 500, 1000, 1001, 1200, 1500, 1510)
        assert (await here.publish("LIVE.x", b"first of its own")).seq == 1511

    two.run(check)


def test_another_name_other_values_and_a_time_header(two: Two) -> None:
    async def fill(origin: JetStreamContext, _: JetStreamContext) -> None:
        await origin.add_stream(name="MEMORY", subjects=["memory"], storage="memory", max_msgs=5)
        for number in range(8):
            await origin.publish("memory", b"%d" % number, headers={"X-Old": "1"} if number == 5 else None)

    two.run(fill)
    assert "storage 'memory' is not supported: liftlog keeps messages in files" in two.refused("MEMORY")
    words = ("--as", "FILES", "--set", "storage=file", "--drop-header", "X-Old", "--time-header", "X-Time")
    code, out, error = two.say("MEMORY", *words)
    assert (code, out) == (0, "stream 'FILES' is ready: 5 messages, up to sequence 8\n"), error

    async def check(origin: JetStreamContext, here: JetStreamContext) -> None:
        state = (await here.stream_info("FILES")).state
        assert (state.first_seq, state.last_seq, state.messages) == (4, 8, 5)
        when = (await origin.get_msg("MEMORY", 6)).headers
        assert when == {"X-Old": "1"}
        headers = (await here.get_msg("FILES", 6)).headers
        assert headers is not None and list(headers) == ["X-Time"] and headers["X-Time"].startswith("20")

    two.run(check)


def test_a_copy_begins_with_a_high_first_sequence_or_is_renumbered(two: Two) -> None:
    async def fill(origin: JetStreamContext, _: JetStreamContext) -> None:
        await origin.add_stream(name="HIGH", subjects=["high"], first_seq=HIGH - 2)
        for number in range(-2, 10):
            await origin.publish("high", b"%d" % number)
        for gone in (-2, -1, 4, 5, 6):
            await origin.delete_msg("HIGH", HIGH + gone)

    two.run(fill)
    said = two.refused("HIGH", "--gaps-max", "2")
    assert "3 sequences of the origin have no message any more" in said and "--gaps-max" in said
    assert "3 sequences have no message" in two.moved("HIGH")

    async def check(origin: JetStreamContext, here: JetStreamContext) -> None:
        await alike(origin, here, "HIGH", HIGH, HIGH + 4, HIGH + 9)
        assert (await here.stream_info("HIGH")).state.first_seq == HIGH
        await here.delete_stream("HIGH")

    two.run(check)
    assert f"sequences are {HIGH - 1} lower here" in two.say("HIGH", "--renumber", "--as", "LOW")[2]

    async def check_low(_: JetStreamContext, here: JetStreamContext) -> None:
        state = (await here.stream_info("LOW")).state
        assert (state.first_seq, state.last_seq, state.messages) == (1, 10, 7)
        assert (await here.get_msg("LOW", 8)).data == b"7"

    two.run(check_low)


# -- what goes wrong ---------------------------------------------------------------------------------------


def test_an_origin_that_cannot_be_is_one_line_that_says_why(two: Two, tmp_path: Path) -> None:
    assert "there is no stream 'NOWHERE' at nats://127.0.0.1" in two.refused("NOWHERE")
    here = two.cluster.nats_url
    code, _, error = liftlog("import", "jetstream", "X", "--from", "nats://127.0.0.1:1", "--nats", here)
    assert code == 2 and "cannot reach the origin's NATS at nats://127.0.0.1:1" in error, error
    assert "no JetStream answers in domain 'nowhere'" in two.refused("X", "--domain", "nowhere")
    with running(NatsServer(tmp_path / "plain", name="plain")) as plain:
        code, _, error = liftlog("import", "jetstream", "X", "--from", plain.url, "--nats", here)
        assert code == 2 and "no JetStream answers at" in error, error
    assert "is no copy of another one" in _with_stream_here(two)
    said = two.refused("X", "--as", "no.name")
    assert "letters, digits, '_' or '-': choose another one for it here with --as NAME" in said


def _with_stream_here(two: Two) -> str:
    async def fill(origin: JetStreamContext, here: JetStreamContext) -> None:
        for js in (origin, here):
            await js.add_stream(name="TAKEN", subjects=["taken"])

    two.run(fill)
    return two.refused("TAKEN")


def test_a_user_who_may_not_ask_is_told_what_to_allow(two: Two, tmp_path: Path) -> None:
    config = f"""
    jetstream {{ store_dir: "{tmp_path / "store"}" }}
    authorization {{ users: [
      {{ user: all, password: p }}
      {{ user: few, password: p, permissions: {{
        publish: {{ deny: ["$JS.API.CONSUMER.LIST.>"] }} }} }}
    ] }}
    """
    with running(configured_server(tmp_path / "nats", config)) as server:
        address = server.url.removeprefix("nats://")

        async def fill() -> None:
            async with await nats.connect(f"nats://all:p@{address}") as connection:
                await connection.jetstream().add_stream(name="MAY", subjects=["may"])

        asyncio.run(fill())
        where = ("--from", f"nats://few:p@{address}", "--nats", two.cluster.nats_url)
        code, _, error = liftlog("import", "jetstream", "MAY", *where)
        assert code == 2 and "may not publish to $JS.API.CONSUMER.LIST.MAY" in error, error
        assert "few" not in error


def test_a_header_that_is_not_done_here_names_the_message_and_the_remedy(two: Two) -> None:
    async def fill(origin: JetStreamContext, _: JetStreamContext) -> None:
        await origin.add_stream(name="HEADERS", subjects=["headers"], allow_msg_ttl=True)
        await origin.publish("headers", b"1", headers={"Nats-TTL": "1h"})
        await origin.publish("headers", b"2", headers={"Liftlog-What": "1"})

    two.run(fill)
    said = two.refused("HEADERS")
    assert "sequence 2 (headers) cannot be moved" in said and "--drop-header" in said
    two.moved("HEADERS", "--drop-header", "Liftlog-What")

    async def check(origin: JetStreamContext, here: JetStreamContext) -> None:
        await alike(origin, here, "HEADERS", 1)
        assert (await here.get_msg("HEADERS", 2)).headers is None
        assert (await here.stream_info("HEADERS")).config.allow_msg_ttl

    two.run(check)


def test_what_somebody_else_publishes_to_the_copy_is_found(two: Two) -> None:
    async def fill(origin: JetStreamContext, _: JetStreamContext) -> None:
        await filled(origin, "FOREIGN", 300)

    async def intrude(_: JetStreamContext, here: JetStreamContext) -> None:
        await here.publish("FOREIGN.x", b"too early")

    async def more(origin: JetStreamContext, _: JetStreamContext) -> None:
        await publish(origin, "FOREIGN", 300, 400)

    two.run(fill)
    with importing(two, "FOREIGN", "--follow") as process:
        told(process, "caught-up")
        two.run(intrude)
        two.run(more)
        assert "is no copy of 'FOREIGN': sequence 301" in gave_up(process)
    assert "is no copy of 'FOREIGN': sequence 301" in two.refused("FOREIGN")


def test_a_stream_that_was_made_anew_is_not_the_one_that_was_copied(two: Two) -> None:
    async def fill(origin: JetStreamContext, _: JetStreamContext) -> None:
        await filled(origin, "ANEW", 300)

    async def anew(origin: JetStreamContext, _: JetStreamContext) -> None:
        await origin.delete_stream("ANEW")
        await filled(origin, "ANEW", 300)

    async def vanish(origin: JetStreamContext, _: JetStreamContext) -> None:
        await origin.delete_stream("ANEW")

    two.run(fill)
    with importing(two, "ANEW", "--follow") as process:
        told(process, "caught-up")
        two.run(vanish)
        assert "there is no stream 'ANEW'" in gave_up(process)
    two.run(lambda origin, _: filled(origin, "ANEW", 300))
    assert "was deleted and made anew since this copy was begun" in two.refused("ANEW")


def test_a_mirror_ends_when_another_command_opens_the_copy(two: Two) -> None:
    two.run(lambda origin, _: filled(origin, "OPENED", 300))
    with importing(two, "OPENED", "--follow") as process:
        told(process, "caught-up")
        two.moved("OPENED")
        two.run(lambda origin, _: origin.publish("OPENED.x", b"late"))
        assert "'OPENED' is ready: another command has opened it meanwhile" in gave_up(process)

    async def check(_: JetStreamContext, here: JetStreamContext) -> None:
        assert (await here.stream_info("OPENED")).config.subjects == ["OPENED.>"]
        assert (await here.publish("OPENED.x", b"of its own")).seq == 301

    two.run(check)


@pytest.mark.nightly
def test_what_limits_take_and_alterations_change_while_it_is_copied(two: Two) -> None:
    async def fill(origin: JetStreamContext, _: JetStreamContext) -> None:
        await origin.add_stream(name="MOVES", subjects=["moves.a"], max_msgs=300)
        for number in range(300):
            await origin.publish("moves.a", b"%d" % number)

    async def more(origin: JetStreamContext, _: JetStreamContext) -> None:
        config = (await origin.stream_info("MOVES")).config
        config.subjects = ["moves.*"]
        await origin.update_stream(config)
        for number in range(200):
            await origin.publish("moves.b", b"b%d" % number)
        await origin.purge_stream("MOVES", subject="moves.a", keep=50)

    two.run(fill)
    with importing(two, "MOVES", "--follow") as process:
        told(process, "caught-up")
        two.run(more)
        assert "was altered at the origin" in told(process, "altered")["text"]
        came_to(process, 500)
        process.kill()
    two.moved("MOVES")

    async def check(origin: JetStreamContext, here: JetStreamContext) -> None:
        await alike(origin, here, "MOVES", 1, 250, 251, 300, 301, 500)
        assert (await here.stream_info("MOVES")).config.subjects == ["moves.*"]

    two.run(check)


@pytest.mark.nightly
def test_one_account_for_both_is_refused_while_the_origin_listens(tmp_path: Path) -> None:
    async def fill(cluster: LocalCluster) -> None:
        async with await Client.connect(cluster.nats_url) as client:
            await Harness(cluster, client).newest_level()
            await filled(client.nats.jetstream(), "SAME", 300)

    async def aside(url: str) -> None:
        async with await nats.connect(url) as connection:
            js = connection.jetstream()
            config = (await js.stream_info("SAME")).config
            config.subjects = ["aside.SAME"]
            await js.update_stream(config)

    with (
        jetstream(tmp_path) as server,
        LocalCluster(tmp_path / "cluster", 1, nats_url=server.url) as cluster,
    ):
        asyncio.run(fill(cluster))
        words = ("import", "jetstream", "SAME", "--from", server.url, "--nats", server.url)
        code, _, error = liftlog(*words)
        assert code == 2 and "in the same NATS account" in error and "'SAME'" in error, error
        asyncio.run(aside(server.url))
        code, out, error = liftlog(*words, "--set", 'subjects=["SAME.>"]')
        assert code == 0 and "stream 'SAME' is ready: 199 messages" in out, error


def with_door(cluster: LocalCluster) -> None:
    for node in cluster.nodes.values():
        node.config = structs.replace(node.config, jetstream=True)


def test_the_leader_is_killed_while_it_is_copied(tmp_path: Path) -> None:
    with jetstream(tmp_path) as server:

        async def story(cluster: Harness) -> None:
            await cluster.newest_level()
            two = Two(server.url, cluster.cluster)
            async with await nats.connect(server.url) as connection:
                await filled(connection.jetstream(), "LED", MANY)
            process = importing(two, "LED", "--set", "num_replicas=3")
            await asyncio.to_thread(told, process, "progress")
            leader = await cluster.leader("LED")
            await cluster.kill(leader)
            code, error = await asyncio.to_thread(ended, process)
            assert code == 0, error
            await cluster.start(leader)
            await cluster.in_sync("LED", 3)
            await two.play(lambda there, here: alike(there, here, "LED", 40, 508, 10_008, MANY - 2, MANY))

        with_cluster(tmp_path, 3, story, with_door)


@pytest.mark.nightly
def test_without_a_quorum_it_gives_up_and_goes_on_later(tmp_path: Path) -> None:
    with jetstream(tmp_path) as server:

        async def story(cluster: Harness) -> None:
            await cluster.newest_level()
            two = Two(server.url, cluster.cluster)
            async with await nats.connect(server.url) as connection:
                js = connection.jetstream()
                await filled(js, "ALONE", 1000)
                process = importing(
                    two, "ALONE", "--follow", "--set", "num_replicas=3", "--give-up-after", "3"
                )
                await asyncio.to_thread(told, process, "caught-up")
                leader = await cluster.leader("ALONE")
                others = [node for node in cluster.running() if node != leader]
                await cluster.kill(*others)
                await publish(js, "ALONE", 1000, 1100)
            code, error = await asyncio.to_thread(ended, process)
            assert code == 2 and "start it again, and it goes on where it is" in error, error
            await cluster.start(*others)
            await cluster.leader("ALONE")
            assert "begun already" in await asyncio.to_thread(
                two.moved, "ALONE", "--set", "num_replicas=3"
            )
            await two.play(lambda there, here: alike(there, here, "ALONE", 40, 508, 1000, 1001, 1100))

        with_cluster(tmp_path, 3, story, with_door)


@pytest.mark.nightly
def test_a_mirror_outlives_a_restart_of_its_origin(two: Two, tmp_path: Path) -> None:
    with jetstream(tmp_path) as server:
        away = Two(server.url, two.cluster)
        away.run(lambda origin, _: filled(origin, "BACK", 500))
        with importing(away, "BACK", "--follow") as process:
            told(process, "caught-up")
            server.kill()
            assert "the origin" in told(process, "trouble")["text"]
            server.start()
            away.run(lambda origin, _: publish(origin, "BACK", 500, 700))
            came_to(process, 700)
            process.send_signal(signal.SIGINT)
            assert told(process, "ended")["sequence"] == 700
        away.moved("BACK")
        away.run(lambda origin, here: alike(origin, here, "BACK", 40, 508, 498, 500, 501, 700))


def test_an_id_that_the_origin_has_twice_is_copied_twice(two: Two) -> None:
    async def fill(origin: JetStreamContext, _: JetStreamContext) -> None:
        await origin.add_stream(name="TWICE", subjects=["twice.>"], duplicate_window=0.1)
        headers = {"Nats-Msg-Id": "same"}
        await origin.publish("twice.a", b"1", headers=headers)
        await origin.publish("twice.b", b"between")

        async def another() -> bool:
            return not (await origin.publish("twice.a", b"2", headers=headers)).duplicate

        await until(another, "the end of the window")

    two.run(fill)
    two.moved("TWICE")
    two.run(lambda origin, here: alike(origin, here, "TWICE", 1, 2, 3))


def test_the_commands_of_the_page(two: Two) -> None:
    """In the order in which they stand in docs/moving.md."""

    async def fill(origin: JetStreamContext, _: JetStreamContext) -> None:
        for name in ("ORDERS", "INVOICES"):
            await filled(origin, name, 300)
        await origin.add_stream(name="EVENTS", subjects=["events"], storage="memory")
        await origin.publish("events", b"1")
        await (await origin.create_key_value(bucket="settings")).put("a", b"1")
        await (await origin.create_object_store("files")).put("a", b"1")

    two.run(fill)
    lines = (ROOT / "docs" / "moving.md").read_text().splitlines()
    commands = [line.split()[3:] for line in lines if line.startswith("    liftlog import jetstream ")]
    assert len(commands) == 7
    for stream, *words in commands:
        where = words.index("nats://old:4222")
        rest = [*words[: where - 1], *words[where + 1 :]]
        if "--follow" in rest:
            with importing(two, stream, *rest) as process:
                told(process, "caught-up")
                process.send_signal(signal.SIGINT)
                assert process.wait(30) == 0
            continue
        code, out, error = two.say(stream, *rest)
        assert code == 0, error
        assert "is ready" in out or "--dry-run" in rest


def test_fillers_of_a_killed_attempt_are_deleted_too(two: Two) -> None:
    async def fill(origin: JetStreamContext, _: JetStreamContext) -> None:
        await origin.add_stream(name="FILLED", subjects=["FILLED.>"])
        await publish(origin, "FILLED", 0, 3000)
        await origin.purge_stream("FILLED", seq=2000)

    two.run(fill)
    with importing(two, "FILLED") as process:
        told(process, "progress")
        process.kill()
    two.moved("FILLED")
    two.run(lambda origin, here: alike(origin, here, "FILLED", 1999, 2000, 3000))


def test_large_messages_travel_alone_and_too_large_ones_are_named(two: Two) -> None:
    async def fill(origin: JetStreamContext, _: JetStreamContext) -> None:
        await origin.add_stream(name="LARGE", subjects=["large.*"])
        for size in (10, 1_048_000, 300_000, 10):
            await origin.publish(f"large.{size}", os.urandom(size), headers={"A": "b"})

    async def more(origin: JetStreamContext, _: JetStreamContext) -> None:
        await origin.publish("large.too", os.urandom(1_048_570))

    two.run(fill)
    with importing(two, "LARGE", "--follow") as process:
        # An answer with the second one is longer than NATS carries: here it is compared.
        assert told(process, "compared")["equal"] == 4
        told(process, "caught-up")
        two.run(more)
        said = gave_up(process)
        assert "sequence 5" in said and "raise its max_payload" in said, said
    two.run(lambda origin, _: origin.delete_msg("LARGE", 5))
    two.moved("LARGE")
    two.run(lambda origin, here: alike(origin, here, "LARGE", 1, 3, 4, 5))


def test_an_origin_in_a_domain(two: Two, tmp_path: Path) -> None:
    config = f'jetstream {{ store_dir: "{tmp_path / "store"}", domain: hub }}\n'
    with running(configured_server(tmp_path / "nats", config)) as server:
        hub = Two(server.url, two.cluster)
        hub.run(lambda origin, _: filled(origin, "HUB", 300))
        hub.moved("HUB", "--domain", "hub")
        hub.run(lambda origin, here: alike(origin, here, "HUB", 40, 298, 300))


@pytest.mark.nightly
def test_another_cluster_of_liftlog_is_an_origin_too(two: Two, tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "other", 1, jetstream=True) as other:
        asyncio.run(ready(other))
        both = Two(other.nats_url, two.cluster)
        both.run(lambda origin, _: filled(origin, "HERE", 600))
        both.moved("HERE")
        both.run(lambda origin, here: alike(origin, here, "HERE", 1, 40, 508, 598, 600))


@pytest.mark.nightly
def test_the_target_loses_its_nats_and_then_its_stream(tmp_path: Path) -> None:
    with jetstream(tmp_path) as server, LocalCluster(tmp_path / "cluster", 1, jetstream=True) as cluster:
        asyncio.run(ready(cluster))
        two = Two(server.url, cluster)
        two.run(lambda origin, _: filled(origin, "CUT", 500))
        with importing(two, "CUT", "--follow") as process:
            told(process, "caught-up")
            assert cluster.nats is not None
            cluster.nats.kill()

            async def more() -> None:
                async with await nats.connect(server.url) as connection:
                    await publish(connection.jetstream(), "CUT", 500, 700)

            asyncio.run(more())
            told(process, "trouble")
            cluster.nats.start()
            came_to(process, 700)
            assert liftlog("stream", "rm", "CUT", "--nats", cluster.nats_url)[0] == 0
            two.run(lambda origin, _: publish(origin, "CUT", 700, 800))
            assert "'CUT' was removed while it was being made" in gave_up(process)
        two.moved("CUT")
        two.run(lambda origin, here: alike(origin, here, "CUT", 40, 498, 501, 800))
