"""Messages deleted one by one from real nodes whose leaders die: none of them is seen again (R21)."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from liftlog.client import RequestFailed
from liftlog.messages import PurgeRequest, ReadRequest
from liftlog.types import LiftlogError, PartitionId, StreamConfig
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real

MESSAGES = 60
CONFIG = StreamConfig("orders", "orders", replication_factor=3, min_insync_replicas=2, removal=True)


async def shown(cluster: Harness, node: int, heard: int) -> dict[int, str]:
    """What a replica shows to who has heard of the journal up to there."""
    info = await cluster.client.stream("orders")
    reader = cluster.client.reader(info, node=node, timeout_ms=20_000)
    reader.has_heard(heard)
    found: dict[int, str] = {}
    while reader.position < MESSAGES:
        for record in await reader.fetch(reader.position):
            assert record.value is not None
            found[record.offset] = record.value.decode()
    return found


def test_r21_what_was_deleted_is_never_shown_again_also_when_leaders_die(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.client.create_stream(CONFIG)
        for number in range(MESSAGES):
            result = await cluster.client.publish("orders", f"order {number}".encode(), timeout_ms=10_000)
            assert result.outcome == "ok"
        gone: list[int] = []
        heard = 0

        async def delete_all() -> None:
            nonlocal heard
            for offset in range(MESSAGES):
                if offset % 3 == 0:
                    continue
                heard = max(heard, await cluster.client.delete("orders", 0, offset, timeout_ms=30_000))
                gone.append(offset)

        deleting = asyncio.create_task(delete_all())
        while len(gone) < MESSAGES // 9:
            await asyncio.sleep(0.02)
        leader = await cluster.leader("orders")
        await cluster.kill(leader)
        await cluster.start(leader)
        await deleting
        expected = {number: f"order {number}" for number in range(0, MESSAGES, 3)}
        for node in cluster.running():
            assert await shown(cluster, node, heard) == expected
        # So many entries that the journal has said all again, and begins there.
        info = await cluster.client.stream("orders")
        journal = PartitionId(info.id, 0).journal

        async def begins_later() -> bool:
            told = [await cluster.client.status(node) for node in cluster.running()]
            starts = [one.log_start for status in told for one in status.replicas if one.partition == journal]
            return len(starts) == 3 and min(starts) >= 32

        await until(begins_later, "journals that begin later")
        nodes = cluster.running()
        await cluster.kill(*nodes)
        await cluster.start(*nodes)
        for node in nodes:
            assert await shown(cluster, node, heard) == expected
        with pytest.raises(RequestFailed, match="not committed"):
            await cluster.client.delete("orders", 0, MESSAGES + 5)
        told = await cluster.run("stream", "delete-message", "orders", "--offset", "1", "--json")
        assert json.loads(told)["offset"] == 1
        assert cluster.client.reader(info).partition == PartitionId(info.id, 0)

    with_cluster(tmp_path, 3, story)


def test_r21_a_stream_without_removal_says_what_to_do(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        await cluster.run("stream", "create", "plain", "--replicas", "1")
        await cluster.run("stream", "create", "letters", "--replicas", "1", "--removal")
        assert "removal" in await cluster.run("stream", "info", "letters")
        await cluster.client.publish("plain", b"x")
        with pytest.raises(RequestFailed, match="stream create --removal"):
            await cluster.client.delete("plain", 0, 0)
        # A journal is no partition of a client's: who could purge it would bring back what was deleted.
        info = await cluster.client.stream("letters")
        journal = PartitionId(info.id, 0).journal
        for request in (ReadRequest(journal, 0), PurgeRequest(journal, 1)):
            with pytest.raises(RequestFailed, match="there is no partition 1024"):
                await cluster.client.call(1, cluster.cluster.addresses[1], request, 10.0)

    with_cluster(tmp_path, 1, story)


def test_r21_a_purge_by_subject_is_whole_on_every_node_also_when_leaders_die(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        config = StreamConfig("orders", "orders.*", 1, 3, 2, removal=True)
        await cluster.client.create_stream(config)
        for number in range(MESSAGES):
            subject = f"orders.{'draft' if number % 2 else 'sent'}"
            result = await cluster.client.publish(subject, f"order {number}".encode(), timeout_ms=10_000)
            assert result.outcome == "ok"
        found = await cluster.client.purge_subjects("orders", 0, "orders.draft", 5, timeout_ms=30_000)
        assert found == MESSAGES // 2 - 5
        left = [number for number in range(MESSAGES) if number % 2 == 0 or number >= MESSAGES - 10]
        leader = await cluster.leader("orders")
        await cluster.kill(leader)
        last = await cluster.client.last("orders", "orders.draft", timeout_ms=30_000)
        assert last is not None and last.record.offset == MESSAGES - 1
        told = await cluster.run(
            *("stream", "purge", "orders", "--subject", "orders.sent", "--up-to", "10", "--json")
        )
        assert json.loads(told)["messages"] in (0, 5), "a first attempt may have had no answer"
        await cluster.start(leader)
        expected = {number: f"order {number}" for number in left if number >= 10}
        subjects = await cluster.client.subjects("orders", "orders.*", timeout_ms=30_000)
        assert sum(subjects.values()) == len(expected)
        again = await cluster.client.purge_subjects("orders", 0, "orders.*", MESSAGES, timeout_ms=30_000)
        assert again == 0, "so many there are not"
        info = await cluster.client.stream("orders")
        heard = cluster.client._deleted[PartitionId(info.id, 0)]
        for node in cluster.running():
            assert await shown(cluster, node, heard) == expected

    with_cluster(tmp_path, 3, story)


def test_r21_options_of_a_purge_that_do_not_go_together(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        error = await cluster.refused("stream", "purge", "x", "--before", "1", "--keep", "2")
        assert "go with --subject" in error

    with_cluster(tmp_path, 1, story)


def test_r22_the_newest_of_each_subject_stay_on_every_node_also_when_leaders_die(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        client = cluster.client
        config = StreamConfig("keys", "keys.*", 1, 3, 2, removal=True, max_messages_per_subject=2)
        await client.create_stream(config)
        assert "max_messages_per_subject 2" in await cluster.run("stream", "info", "keys")
        info = await client.stream("keys")

        async def put(count: int) -> None:
            for number in range(count):
                value = str(number).encode()
                while (await client.publish(f"keys.{number % 3}", value, timeout_ms=10_000)).outcome != "ok":
                    await asyncio.sleep(0.05)

        async def kept(node: int) -> dict[bytes, list[int]]:
            """Offsets by subject, of what a replica shows."""
            reader = client.reader(info, node=node, timeout_ms=20_000)
            found: dict[bytes, list[int]] = {}
            lasts = [await client.last("keys", f"keys.{number}", timeout_ms=30_000) for number in range(3)]
            end = max(last.record.offset for last in lasts if last is not None) + 1
            while reader.position < end:
                for record in await reader.fetch(reader.position):
                    found.setdefault(record.subject, []).append(record.offset)
            return found

        async def limited(each: int) -> dict[bytes, list[int]]:
            shown: list[dict[bytes, list[int]]] = []

            async def so() -> bool:
                shown[:] = [await kept(node) for node in cluster.running()]
                return all(one == shown[0] for one in shown) and all(
                    len(offsets) <= each for offsets in shown[0].values()
                )

            await until(so, f"{each} of each subject everywhere", 60.0)
            return shown[0]

        await put(30)
        assert await limited(2) == {b"keys.0": [24, 27], b"keys.1": [25, 28], b"keys.2": [26, 29]}
        leader = await cluster.leader("keys")
        await asyncio.gather(put(12), cluster.kill(leader))
        await cluster.start(leader)
        await cluster.in_sync("keys", 3)
        before = await limited(2)
        assert all(len(offsets) == 2 for offsets in before.values())
        told = await cluster.run("stream", "alter", "keys", "--max-messages-per-subject", "1")
        assert told == "stream 'keys': max_messages_per_subject 2 -> 1\n"
        assert await limited(1) == {subject: offsets[-1:] for subject, offsets in before.items()}
        error = await cluster.refused("stream", "create", "plain", "--max-messages-per-subject", "1")
        assert "--removal" in error

    with_cluster(tmp_path, 3, story)


def test_r25_the_newest_messages_stay_on_every_node_also_when_leaders_die(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        client = cluster.client
        config = StreamConfig("runs", "runs.*", 1, 3, 2, removal=True, retention_messages=5)
        await client.create_stream(config)
        info = await client.stream("runs")

        async def put(count: int) -> int:
            """Publish so many. Where the last one ends."""
            end = 0
            for number in range(count):
                result = await client.publish(f"runs.{number % 3}", b"%d" % number, timeout_ms=10_000)
                while result.outcome != "ok":
                    await asyncio.sleep(0.05)
                    result = await client.publish(f"runs.{number % 3}", b"%d" % number, timeout_ms=10_000)
                end = result.offset + 1
            return end

        async def shown(node: int, end: int) -> list[int]:
            """Offsets that a replica shows."""
            reader, found = client.reader(info, node=node, timeout_ms=20_000), list[int]()
            while reader.position < end:
                found += [record.offset for record in await reader.fetch(reader.position)]
            return found

        async def left(most: int, end: int) -> None:
            wanted = list(range(end - most, end))

            async def so() -> bool:
                return all([await shown(node, end) == wanted for node in cluster.running()])

            await until(so, f"{wanted} everywhere", 60.0)

        await left(5, await put(30))
        leader = await cluster.leader("runs")
        end, _ = await asyncio.gather(put(12), cluster.kill(leader))
        await cluster.start(leader)
        await cluster.in_sync("runs", 3)
        await left(5, end)
        told = await cluster.run("stream", "alter", "runs", "--retention-messages", "2")
        assert told == "stream 'runs': retention_messages 5 -> 2\n"
        await left(2, end)
        await cluster.run("stream", "alter", "runs", "--retention-ms", "1000")
        # The last message is too old as well; what comes next is not, for a second.
        last = await put(1)

        async def alone() -> bool:
            counts = await client.subjects("runs")
            return sum(counts.values()) == 0

        await until(alone, f"nothing below {last} is left", 60.0)

    with_cluster(tmp_path, 3, story)


def test_r23_roll_ups_take_what_is_before_them_on_every_node_also_when_leaders_die(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        client = cluster.client
        await client.create_stream(StreamConfig("keys", "keys.*", 1, 3, 2, removal=True, allow_rollup=True))
        assert "allow_rollup" in await cluster.run("stream", "info", "keys")
        info = await client.stream("keys")

        async def put(subject: str, value: str, rollup: str | None = None) -> None:
            while True:
                result = await client.publish(f"keys.{subject}", value.encode(), 10_000, rollup=rollup)
                if result.outcome == "ok":
                    return
                assert result.outcome == "info", result.error
                await asyncio.sleep(0.05)

        async def shown(node: int) -> list[bytes]:
            """Values, in order, that a replica shows."""
            end = info_end[0]
            reader, values = client.reader(info, node=node, timeout_ms=20_000), list[bytes]()
            while reader.position < end:
                values += [record.value or b"" for record in await reader.fetch(reader.position)]
            return values

        async def left(*values: bytes) -> None:
            last = await client.publish("keys.end", b"end", rollup="sub")
            info_end[:] = [last.offset + 1]

            async def so() -> bool:
                return all([await shown(node) == [*values, b"end"] for node in cluster.running()])

            await until(so, f"{values} everywhere", 60.0)

        info_end = [0]
        for number in range(10):
            await put("a", f"a{number}")
            await put("b", f"b{number}")
        await put("a", "new", "sub")
        await left(*(b"b%d" % number for number in range(10)), b"new")
        leader = await cluster.leader("keys")
        await asyncio.gather(put("b", "newer", "sub"), cluster.kill(leader))
        await cluster.start(leader)
        await cluster.in_sync("keys", 3)
        await left(b"new", b"newer")
        told = await cluster.run("pub", "keys.c", "all there is", "--rollup", "all")
        assert told.startswith("keys partition 0 offset ")
        await left(b"all there is")
        told = await cluster.run("stream", "alter", "keys", "--no-allow-rollup")
        assert told == "stream 'keys': allow_rollup true -> false\n"
        result = await client.publish("keys.c", b"refused", rollup="sub")
        assert (result.outcome, result.code) == ("fail", "rollup-disabled")
        error = await cluster.refused("stream", "create", "plain", "--allow-rollup")
        assert "--removal" in error

    with_cluster(tmp_path, 3, story)


def test_r24_messages_go_when_their_time_is_over_on_every_node_also_when_leaders_die(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        client = cluster.client
        await client.create_stream(StreamConfig("keys", "keys.*", 1, 3, 2, removal=True, allow_ttl=True))
        assert "allow_ttl" in await cluster.run("stream", "info", "keys")
        info = await client.stream("keys")

        async def put(value: bytes, ttl_ms: int | None = None) -> int:
            while True:
                result = await client.publish("keys.a", value, 10_000, ttl_ms=ttl_ms)
                if result.outcome == "ok":
                    return result.offset
                assert result.outcome == "info" or "no stream listens" in result.error, result.error
                await asyncio.sleep(0.05)

        async def shown(node: int, end: int) -> list[bytes]:
            """Values, in order, that a replica shows."""
            reader, values = client.reader(info, node=node, timeout_ms=20_000), list[bytes]()
            while reader.position < end:
                values += [record.value or b"" for record in await reader.fetch(reader.position)]
            return values

        async def left(end: int, *values: bytes) -> None:
            async def so() -> bool:
                return all([await shown(node, end) == list(values) for node in cluster.running()])

            await until(so, f"{values} everywhere", 60.0)

        await put(b"soon", 1000)
        await put(b"stays", 0)
        await put(b"later", 3_600_000)
        end = 1 + await put(b"plain")
        await left(end, b"stays", b"later", b"plain")
        await put(b"next", 3000)
        leader = await cluster.leader("keys")
        await cluster.kill(leader)
        end = 1 + await put(b"last")
        await left(end, b"stays", b"later", b"plain", b"last")
        await cluster.start(leader)
        await cluster.in_sync("keys", 3)
        await left(end, b"stays", b"later", b"plain", b"last")
        told = await cluster.run("pub", "keys.a", "by hand", "--ttl", "1s")
        assert told.startswith("keys partition 0 offset ")
        end = 1 + await put(b"end")
        await left(end, b"stays", b"later", b"plain", b"last", b"end")
        told = await cluster.run("stream", "alter", "keys", "--no-allow-ttl")
        assert told == "stream 'keys': allow_ttl true -> false\n"
        result = await client.publish("keys.a", b"refused", ttl_ms=1000)
        assert (result.outcome, result.code) == ("fail", "ttl-disabled")
        with pytest.raises(LiftlogError, match="ttl_ms=999: it is 1000 to"):
            await client.publish("keys.a", b"refused", ttl_ms=999)
        error = await cluster.refused("stream", "create", "plain", "--allow-ttl")
        assert "--removal" in error

    with_cluster(tmp_path, 3, story)
