"""Programs that compare and set, against real nodes (L6)."""

from __future__ import annotations

import asyncio
import json
import signal
from itertools import count
from pathlib import Path

import nats.js.errors
import pytest

from liftlog.cli import main
from liftlog.client import PublishResult, RequestFailed, Unreachable
from liftlog.types import LiftlogError, StreamConfig
from liftlog_jepsen.history import FINAL_POLL, History, HistoryWriter
from liftlog_jepsen.parquet import write_parquet
from tests.integration.cluster import Harness, until, with_cluster
from tests.jepsen.promise_stories import broken

pytestmark = pytest.mark.real

WRITERS, EACH = 3, 40


class Incrementer:
    """Adds one record after the other, each behind all that it has seen. Says which are its own."""

    def __init__(self, cluster: Harness, number: int) -> None:
        self.cluster = cluster
        self.number = number
        self.own: dict[int, str] = {}
        self.refused = 0
        self.next_offset = 0

    async def run(self) -> None:
        while len(self.own) < EACH:
            value = f"{self.number}.{len(self.own)}.{self.next_offset}"
            result = await self.cluster.client.publish(
                "counter", value.encode(), expected_offset=self.next_offset
            )
            if result.outcome == "ok":
                assert result.offset == self.next_offset
                self.own[result.offset] = value
                self.next_offset += 1
            elif result.next_offset >= 0:
                # An earlier attempt that was not answered cannot be what is there: it is looked for below.
                self.refused += 1
                self.next_offset = result.next_offset
            else:
                await self._look(value)

    async def _look(self, value: str) -> None:
        """Nobody says what became of it: whatever lies there says so, once something does."""
        while True:
            try:
                there = await self.cluster.read("counter")
            except (RequestFailed, Unreachable, LiftlogError):
                await asyncio.sleep(0.2)
                continue
            if self.next_offset in there:
                if there[self.next_offset] == value:
                    self.own[self.next_offset] = value
                self.next_offset = len(there)
                return
            # What this leader may still have in flight is committed before anything that is asked for now.
            filler = f"{value} again"
            result = await self.cluster.client.publish(
                "counter", filler.encode(), expected_offset=self.next_offset
            )
            if result.outcome == "ok":
                self.own[result.offset] = filler
                self.next_offset += 1
                return
            await asyncio.sleep(0.2)


def test_L6_of_several_that_compare_and_set_one_goes_on_also_when_leaders_die(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        config = StreamConfig("counter", "counter", replication_factor=3, min_insync_replicas=2)
        await cluster.client.create_stream(config)
        writers = [Incrementer(cluster, number) for number in range(WRITERS)]
        async with asyncio.TaskGroup() as tasks:
            for writer in writers:
                tasks.create_task(writer.run())
            while sum(len(writer.own) for writer in writers) < WRITERS * EACH // 3:
                await asyncio.sleep(0.02)
            leader = await cluster.leader("counter")
            await cluster.kill(leader)
            await cluster.start(leader)
        there = await cluster.read("counter")
        claimed: dict[int, str] = {}
        for writer in writers:
            assert not claimed.keys() & writer.own.keys(), "one offset, one writer"
            claimed.update(writer.own)
        assert there == claimed, "each record is somebody's, at the offset that he expected"
        assert sum(writer.refused for writer in writers) > 0

    with_cluster(tmp_path, 3, story)


KEY = "register/0"


class Recorder:
    """Publishes, reads, and writes down who said and heard what, and when."""

    def __init__(self, cluster: Harness) -> None:
        self.cluster = cluster
        self.writer = HistoryWriter("compare-and-set")
        self._processes = count(1)

    def process(self) -> int:
        """The number of somebody new. One who gave up on an answer goes on as another."""
        return next(self._processes)

    async def publish(self, process: int, value: str, expected: int) -> PublishResult:
        writer = self.writer
        op_id = writer.invoke(process, "send", KEY, value, expected=expected)
        result = await self.cluster.client.publish(
            "register", value.encode(), timeout_ms=2000, expected_offset=expected
        )
        if result.outcome == "ok":
            writer.ok(op_id, offset=result.offset, epoch=result.epoch, leader=result.incarnation)
        elif result.next_offset >= 0:
            writer.refused(op_id, result.next_offset, result.error)
        elif result.outcome == "fail":
            writer.fail(op_id, result.error)
        else:
            writer.info(op_id, result.error)
        return result

    async def read(self, process: int, node: int = 0, f: str = "poll") -> int:
        """Everything that one replica has; returns the offset behind it."""
        op_id = self.writer.invoke(process, f, KEY)
        try:
            there = await self.cluster.read("register", node)
        except (RequestFailed, Unreachable, LiftlogError) as error:
            self.writer.info(op_id, str(error))
            raise
        self.writer.ok_poll(op_id, KEY, 0, list(there.values()))
        return len(there)


class Setter:
    """Sets one register again and again, each time behind what it has heard of."""

    def __init__(self, recorder: Recorder, name: str) -> None:
        self.recorder, self.name = recorder, name
        self.process = recorder.process()
        self.stored = self.refused = 0
        self.stopping = False

    async def run(self) -> None:
        expected = 0
        for number in count():
            if self.stopping:
                return
            result = await self.recorder.publish(self.process, f"{self.name}.{number}", expected)
            if result.outcome == "ok":
                self.stored += 1
                expected = result.offset + 1
                # Who is answered first would always be first again.
                await asyncio.sleep(0.005)
            elif result.next_offset >= 0:
                self.refused += 1
                expected = result.next_offset
            else:
                # Nobody says what is there now: as good a guess as any.
                self.process = self.recorder.process()
                await asyncio.sleep(0.05)


async def more_records(setters: list[Setter], more: int) -> None:
    goal = sum(setter.stored for setter in setters) + more

    async def reached() -> bool:
        return sum(setter.stored for setter in setters) >= goal

    await until(reached, f"{more} more records", 60.0)


@pytest.mark.slow
@pytest.mark.usefixtures("shared_session")
def test_L6_what_clients_saw_of_a_killed_and_a_paused_leader_is_linearizable(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    histories: list[History] = []

    async def story(cluster: Harness) -> None:
        config = StreamConfig("register", "register", replication_factor=3, min_insync_replicas=2)
        await cluster.client.create_stream(config)
        recorder = Recorder(cluster)
        setters = [Setter(recorder, name) for name in "abc"]
        async with asyncio.TaskGroup() as tasks:
            for setter in setters:
                tasks.create_task(setter.run())
            await more_records(setters, 40)
            killed = await cluster.leader("register")
            await cluster.kill(killed)
            await more_records(setters, 40)
            await cluster.start(killed)
            await cluster.in_sync("register", 3)
            await recorder.read(recorder.process())
            paused = await cluster.leader("register")
            cluster.cluster.nodes[paused].send(signal.SIGSTOP)
            try:
                await more_records(setters, 40)
            finally:
                cluster.cluster.nodes[paused].send(signal.SIGCONT)
            await more_records(setters, 40)
            for setter in setters:
                setter.stopping = True
        await cluster.in_sync("register", 3)
        for node in cluster.running():
            await recorder.read(recorder.process(), node, FINAL_POLL)
        assert all(setter.refused for setter in setters)
        histories.append(recorder.writer.close())

    with_cluster(tmp_path, 3, story)
    (history,) = histories
    told = [mop for op in history.ops() for mop in op.mops if mop.f == "refused"]
    assert told and broken(history) == []
    write_parquet(history, tmp_path / "history")
    capsys.readouterr()
    assert main(["jepsen", "check", str(tmp_path / "history"), "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert (result["verdict"], result["anomalies"]) == ("valid", [])


def test_L6_jetstreams_client_and_the_command_line_are_told_the_last_sequence(tmp_path: Path) -> None:
    async def story(cluster: Harness) -> None:
        await cluster.client.create_stream(StreamConfig("orders", "orders.>"))
        js = cluster.client.nats.jetstream()
        expect = "Nats-Expected-Last-Sequence"
        assert (await js.publish("orders.new", b"0", headers={expect: "0"})).seq == 1
        with pytest.raises(nats.js.errors.BadRequestError) as refused:
            await js.publish("orders.new", b"again", headers={expect: "0"})
        assert refused.value.err_code == 10071
        assert str(refused.value.description).startswith("wrong last sequence: 1")
        told = await cluster.run("pub", "orders.new", "1", "2", "--expected-offset", "1")
        assert told.splitlines() == [f"orders partition 0 offset {n} epoch 1" for n in (1, 2)]
        error = await cluster.refused("pub", "orders.new", "late", "--expected-offset", "1")
        assert "wrong last sequence: 3; the next message gets offset 3" in error
        negative = await cluster.refused("pub", "orders.new", "late", "--expected-offset", "-1")
        assert "argument --expected-offset: -1 is not 0 to" in negative
        full = await cluster.client.nats.request(
            "orders.new", b"x", timeout=5, headers={"Liftlog-Ack": "full", "Liftlog-Expected-Offset": "7"}
        )
        assert json.loads(full.data)["liftlog"] == {
            "code": "expected-offset",
            "outcome": "info",
            "next_offset": 3,
        }
        assert await cluster.read("orders") == {0: "0", 1: "1", 2: "2"}

    with_cluster(tmp_path, 1, story)
