"""The demo's account of its consumer and processor, held against clients that break their promises."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from liftlog.client import ConsumerConfig, ConsumerInfo, Delivery, PublishResult
from liftlog.client.consuming import Settlement
from liftlog.demo import work as work_module
from liftlog.demo.account import end_history, new_history
from liftlog.demo.display import Display
from liftlog.demo.lines import Line
from liftlog.demo.publisher import Attempts
from liftlog.demo.readback import Poll, ReplicaRead
from liftlog.demo.work import WORK, WORK_MESSAGES, Work, judge_consumer, judge_processor
from liftlog.real.local_cluster import LocalCluster
from liftlog.types import LiftlogError, Record
from liftlog_jepsen.store import read_history
from tests.jepsen.promise_stories import broken

LINES = [Line("a.py", number, f"text {number}") for number in range(7)]


class PlayedLog:
    """A stream with one consumer, whose journal grows by one with each answer."""

    number = 7
    config = ConsumerConfig()

    def __init__(self, given: Sequence[tuple[int, int]], unknown: Sequence[int] = ()) -> None:
        """`given`: offset and count of each delivery, one a fetch."""
        self.values: list[str] = []
        self.journal = 0
        self._given = list(given)
        self._unknown = list(unknown)

    async def publish(self, subject: str, value: bytes, timeout_ms: int) -> PublishResult:
        assert subject == WORK and timeout_ms
        self.values.append(value.decode())
        return PublishResult(0, "ok", WORK, 0, len(self.values) - 1, 3, 11)

    async def fetch(self, messages: int, *, wait_ms: int) -> list[Delivery]:
        self.journal += 1
        offset, count = self._given.pop(0)
        record = Record(offset, 0, b"work", b"", b"", None, self.values[offset].encode())
        return [Delivery(record, count, 3, self.journal)]

    async def settle(self, how: str, offsets: Sequence[int]) -> Settlement:
        self.journal += 1
        return Settlement([offset for offset in offsets if offset in self._unknown], self.journal)

    async def info(self) -> ConsumerInfo:
        floor = 3 if self.journal else 0
        return ConsumerInfo("programs", 7, self.config, floor, floor, 0, 0)


def new_work(folder: Path) -> Work:
    cluster = LocalCluster(folder, 3, nats_url="nats://127.0.0.1:1")
    with Display().bar("acked", WORK_MESSAGES) as bar:
        return Work(cluster, LINES, new_history("work", {}), bar)


def replica(node: int, values: Sequence[str]) -> ReplicaRead:
    return ReplicaRead(node, [Poll(0, list(values), 1, 2)])


def worked(folder: Path, log: PlayedLog, stored: int = 3) -> Work:
    """`stored` messages, and each delivery acked at once."""
    work = new_work(folder)

    async def story() -> None:
        for number in range(stored):
            sent = log.publish(WORK, b"v%d" % number, 1)
            await work.recorder.publish(f"v{number}", lambda sent=sent: sent)
            work.end = number + 1

        async def made() -> PlayedLog:
            return log

        program = await work.recorder.consumer(made)
        while log._given:
            await program.ack(*await program.fetch(1, wait_ms=1))
        work.floor = await program.floor()

    asyncio.run(story())
    return work


@pytest.mark.parametrize(
    ("given", "unknown", "again", "acked_again", "never_acked"),
    [
        ([(0, 1), (1, 1), (2, 1)], [], 0, 0, 0),
        ([(0, 1), (1, 1), (2, 1), (1, 2)], [], 1, 1, 0),
        # An ack of what the leader does not know counts for nothing: it may come again.
        ([(0, 1), (1, 1), (2, 1), (1, 2)], [1], 1, 0, 0),
        # The consumer says that all is done, and nobody was given the message at 1.
        ([(0, 1), (2, 1)], [], 0, 0, 1),
    ],
)
def test_what_a_consumer_forgets_or_skips_is_counted(
    tmp_path: Path,
    given: list[tuple[int, int]],
    unknown: list[int],
    again: int,
    acked_again: int,
    never_acked: int,
) -> None:
    log = PlayedLog(given, unknown)
    work = worked(tmp_path, log)
    result = judge_consumer(work, [replica(node, log.values) for node in (1, 2, 3)])
    assert (result.messages, result.again) == (3, again)
    assert (result.acked_again, result.never_acked) == (acked_again, never_acked)


@pytest.mark.parametrize(
    ("given", "anomaly"),
    [
        ([(0, 1), (1, 1), (2, 1)], ""),
        ([(0, 1), (1, 1), (2, 1), (1, 2)], "acked-again"),
        ([(0, 1), (2, 1)], "skipped"),
    ],
)
def test_the_history_of_both_streams_is_judged_by_the_promises_of_consumers(
    tmp_path: Path, given: list[tuple[int, int]], anomaly: str
) -> None:
    attempts = Attempts()
    attempts.add(0, "source line", 0, time.monotonic_ns())
    log = PlayedLog(given)
    work = worked(tmp_path, log)
    end_history(
        tmp_path / "h",
        work.recorder.writer,
        "source/0",
        attempts,
        reads={"source/0": [replica(1, [])], "work/0": [replica(1, log.values)]},
        kills=[],
        first_process=work.recorder.process(),
    )
    history = read_history(tmp_path / "h")
    by_key = {mop.key: op.process for op in history.ops() for mop in op.mops if op.f == "final-poll"}
    assert set(by_key) == {"source/0", "work/0"} and len(set(by_key.values())) == 2
    wanted = [(anomaly, "work/0")] if anomaly else []
    assert [(row["anomaly"], row["key"]) for row in broken(history)] == wanted


def test_a_floor_below_the_end_leaves_messages_that_are_not_done(tmp_path: Path) -> None:
    log = PlayedLog([(0, 1), (1, 1), (2, 1)])
    work = worked(tmp_path, log)
    work.floor = 1
    assert judge_consumer(work, [replica(1, log.values)]).never_acked == 2
    work.end = 1
    result = judge_consumer(work, [replica(1, log.values)])
    assert (result.messages, result.never_acked) == (1, 0), "what is stored late need not be done"


def test_outputs_that_are_missing_doubled_or_of_another_input_are_wrong() -> None:
    inputs = [replica(node, ["a", "b", "c"]) for node in (1, 2)]
    # Records without a value say only how far the processor is.
    good = ["A", "", "B"]

    def wrong(*outputs: list[str]) -> int:
        return judge_processor(2, inputs, [replica(n, each) for n, each in enumerate(outputs, 1)]).wrong

    assert wrong(good, good) == 0
    assert wrong(good, ["A"]) == 1
    assert wrong(good, ["A", "B", "B"]) == 1
    assert wrong(good, ["B", "A"]) == 2
    assert wrong(good, ["A", "X"]) == 1
    result = judge_processor(2, inputs, [replica(1, good)])
    assert (result.inputs, result.outputs) == (2, 2)


def test_a_short_input_is_sent_again_until_there_is_enough_work(tmp_path: Path) -> None:
    work = new_work(tmp_path)
    log: Any = PlayedLog([])
    asyncio.run(work._publish(log))
    assert len(set(log.values)) == len(log.values) == WORK_MESSAGES == work.end


def test_consumers_that_get_nowhere_are_an_error_in_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(work_module, "SECONDS_MAX", 0.01)
    work = new_work(tmp_path)
    monkeypatch.setattr(work, "_run", asyncio.Event().wait)
    with pytest.raises(LiftlogError, match=r"not done within .* \(0 of \d+ messages acked"):
        work.run()
