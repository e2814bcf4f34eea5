"""Programs that compare and set by subject, against real nodes (L9)."""

from __future__ import annotations

import asyncio
import json
import time
from itertools import count
from pathlib import Path

import nats.js.errors
import pytest

from liftlog.cli import main
from liftlog.client import BatchRecord
from liftlog.types import NO_OFFSET, StreamConfig
from liftlog_jepsen.registers import LogRecord, SubjectSend, registers_of, write_registers
from tests.integration.cluster import Harness, until, with_cluster

pytestmark = pytest.mark.real

SUBJECTS = ("registers.a", "registers.b", "registers.c")


class SubjectSetter:
    """Sets one register after the other, behind what it has heard of. Its values say what it expected."""

    def __init__(self, cluster: Harness, name: str) -> None:
        self.cluster, self.name = cluster, name
        self.sends: list[SubjectSend] = []
        self.stored: dict[int, str] = {}
        self.refused = 0
        self.told: set[tuple[str, int]] = set()
        self.stopping = False

    async def run(self) -> None:
        expected = dict.fromkeys(SUBJECTS, NO_OFFSET)
        for number in count():
            if self.stopping:
                return
            subject = SUBJECTS[number % len(SUBJECTS)]
            value = f"{self.name}.{number}/{expected[subject]}"
            begun_ns = time.monotonic_ns()
            result = await self.cluster.client.publish(
                subject, value.encode(), timeout_ms=2000, expected_last_subject_offset=expected[subject]
            )
            send = SubjectSend(
                value,
                subject,
                begun_ns,
                time.monotonic_ns(),
                "ok" if result.outcome == "ok" else "info",
                expected[subject],
                result.last_offset,
            )
            if result.outcome != "fail":
                self.sends.append(send)
            if result.outcome == "ok":
                self.stored[result.offset] = value
                expected[subject] = result.offset
                # Who is answered first would always be first again.
                await asyncio.sleep(0.005)
            elif result.last_offset is not None:
                self.refused += 1
                expected[subject] = result.last_offset
                self.told.add((subject, result.last_offset))
            else:
                # Nobody says what is there now, or the leader does not know yet: as good a guess as any.
                await asyncio.sleep(0.05)


async def more_of(setters: list[SubjectSetter], more: int) -> None:
    goal = sum(len(setter.stored) for setter in setters) + more

    async def reached() -> bool:
        return sum(len(setter.stored) for setter in setters) >= goal

    await until(reached, f"{more} more records", 60.0)


async def read_all(cluster: Harness) -> list[tuple[int, str, str]]:
    """Offset, subject and value of each record."""
    there = []
    async with await cluster.client.read("registers") as reading:
        async for _, record in reading:
            there.append((record.offset, record.subject.decode(), (record.value or b"").decode()))
    return there


@pytest.mark.usefixtures("shared_session")
def test_L9_each_subject_is_a_register_also_when_leaders_die(tmp_path: Path) -> None:
    files: list[Path] = []

    async def story(cluster: Harness) -> None:
        config = StreamConfig("registers", "registers.*", replication_factor=3, min_insync_replicas=2)
        await cluster.client.create_stream(config)
        setters = [SubjectSetter(cluster, name) for name in "abc"]
        async with asyncio.TaskGroup() as tasks:
            for setter in setters:
                tasks.create_task(setter.run())
            await more_of(setters, 30)
            leader = await cluster.leader("registers")
            await cluster.kill(leader)
            await more_of(setters, 30)
            await cluster.start(leader)
            await cluster.in_sync("registers", 3)
            for setter in setters:
                setter.stopping = True
        there = await read_all(cluster)
        values = {offset: value for offset, _, value in there}
        last = dict.fromkeys(SUBJECTS, NO_OFFSET)
        for offset, subject, value in there:
            assert value.rpartition("/")[2] == str(last[subject]), "it follows on the one that it expected"
            last[subject] = offset
        places = {(subject, offset) for offset, subject, _ in there}
        for setter in setters:
            assert setter.stored.items() <= values.items()
            assert setter.refused and setter.told <= {*places, *((one, NO_OFFSET) for one in SUBJECTS)}
        sends = [send for setter in setters for send in setter.sends]
        in_log = {offset: LogRecord(subject, value) for offset, subject, value in there}
        files.extend(write_registers(tmp_path / "registers", registers_of(sends, in_log)))

    with_cluster(tmp_path, 3, story)
    words = ["jepsen", "check", "--model", "cas-register", "--format", "edn-lines", "--initial", "nil"]
    assert len(files) == len(SUBJECTS) and main([*words, *map(str, files)]) == 0


def test_L9_what_was_deleted_is_not_the_last_also_when_leaders_die(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.newest_level()
        client = cluster.client
        await client.create_stream(
            StreamConfig("kv", "kv.*", replication_factor=3, min_insync_replicas=2, removal=True)
        )

        async def put(subject: str, expected: int) -> int:
            """The offset; of a refusal, the last one, as -10 less it."""
            while True:
                result = await client.publish(
                    subject, b"x", timeout_ms=10_000, expected_last_subject_offset=expected
                )
                if result.outcome == "ok":
                    return result.offset
                if result.last_offset is not None:
                    return -10 - result.last_offset

        assert [await put("kv.a", last) for last in (NO_OFFSET, 0, 1)] == [0, 1, 2]
        await client.delete("kv", 0, 2)
        assert [await put("kv.a", last) for last in (2, 1)] == [-11, 3]
        leader = await cluster.leader("kv")
        await client.purge_subjects("kv", 0, "kv.a")
        await cluster.kill(leader)
        assert [await put("kv.a", last) for last in (3, NO_OFFSET)] == [-10 - NO_OFFSET, 4]
        await client.delete("kv", 0, 4)
        assert await put("kv.a", NO_OFFSET) == 5

    with_cluster(tmp_path, 3, story)


def test_L9_jetstreams_client_a_batch_and_the_command_line(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        client = cluster.client
        await client.create_stream(StreamConfig("kv", "kv.*"))
        js = client.nats.jetstream()
        expect = "Nats-Expected-Last-Subject-Sequence"
        assert (await js.publish("kv.a", b"0", headers={expect: "0"})).seq == 1
        assert (await js.publish("kv.b", b"1", headers={expect: "0"})).seq == 2
        with pytest.raises(nats.js.errors.BadRequestError) as refused:
            await js.publish("kv.a", b"again", headers={expect: "0"})
        assert refused.value.err_code == 10071
        assert str(refused.value.description).startswith("wrong last sequence: 1;")
        assert (await js.publish("kv.b", b"2", headers={expect: "1", f"{expect}-Subject": "kv.a"})).seq == 3
        told = await cluster.run("pub", "kv.a", "3", "--expect-last-of-subject", "0")
        assert told.splitlines() == ["kv partition 0 offset 3 epoch 1"]
        error = await cluster.refused("pub", "kv.a", "late", "--expect-last-of-subject", "none")
        assert "wrong last sequence: 4; the last message of its subject has offset 3; look at that" in error
        assert "--expect-last-of-subject 3" in error
        several = await cluster.refused("pub", "kv.a", "1", "2", "--expect-last-of-subject", "3")
        assert "is of one message or batch" in several
        await cluster.run("pub", "kv.c", "4", "5", "--batch", "2", "--expect-last-of-subject", "none")
        result = await client.publish_batch("kv.c", [BatchRecord(b"6")], expected_last_subject_offset=4)
        assert (result.outcome, result.last_offset) == ("info", 5)
        full = await client.nats.request(
            "kv.d", b"x", timeout=5, headers={"Liftlog-Ack": "full", expect: "7"}
        )
        assert json.loads(full.data)["liftlog"] == {
            "code": "expected-last",
            "outcome": "info",
            "last_offset": NO_OFFSET,
        }
        assert list((await cluster.read("kv")).values()) == ["0", "1", "2", "3", "4", "5"]

    with_cluster(tmp_path, 1, story)
