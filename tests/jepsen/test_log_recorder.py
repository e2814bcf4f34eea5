"""What the recorders of logs and of replicas write, and which broken clients and servers they find out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from liftlog.client import PublishResult
from liftlog.client.reader import ReadAnswer
from liftlog.types import LiftlogError, Record
from liftlog_jepsen.history import FINAL_POLL, HistoryWriter, Mop, Op
from liftlog_jepsen.logs import LogRecorder, RecordedPublisher, TaggedAnswer
from liftlog_jepsen.replicas import ReplicaRecorder, Tail, cut_off
from tests.jepsen.promise_stories import broken

KEY = "orders/0"


def numbered(run: int, sequence: int) -> bytes:
    lines = b"Liftlog-Producer: house-7/orders\r\nLiftlog-Run: %d\r\nLiftlog-Sequence: %d\r\n"
    return b"NATS/1.0\r\n" + lines % (run, sequence)


def record(
    offset: int, value: str | None, key: str | None = None, number: tuple[int, int] | None = None
) -> Record:
    headers = b"" if number is None else numbered(*number)
    coded = None if value is None else value.encode()
    return Record(offset, 0, b"orders", b"", headers, None if key is None else key.encode(), coded)


class PlayedReader:
    """Gives what a server answers: records, and (epoch, HW). An error is raised."""

    def __init__(self, *answers: tuple[list[Record], tuple[int, int]] | Exception) -> None:
        self.answers = list(answers)
        self.answer: ReadAnswer | None = None
        self.position = 0

    def mind_deletions(self) -> None:
        pass

    async def offset(self, what: str) -> int:
        assert what == "earliest"
        return 0

    async def fetch(self, offset: int, *, wait_ms: int) -> list[Record]:
        assert wait_ms
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        records, (epoch, hw) = answer
        self.answer = ReadAnswer(epoch, hw, ((1, 0), (epoch, 2)))
        self.position = records[-1].offset + 1 if records else hw
        return records


async def read(recorder: LogRecorder, *answers: Any) -> None:
    """Fetch all that a reader is answered."""
    reader = recorder.reader(PlayedReader(*answers))
    for _ in answers:
        await reader.fetch(reader.position)


def played(story: Callable[[LogRecorder], Any], clock: int = 10**9) -> LogRecorder:
    recorder = LogRecorder(
        HistoryWriter("played", clock_ns=iter(range(clock, 2 * clock, 1000)).__next__), KEY
    )
    asyncio.run(story(recorder))
    return recorder


def ops_of(recorder: LogRecorder) -> list[Op]:
    return list(recorder.writer.close().ops())


def found(recorder: LogRecorder) -> list[str]:
    return [row["anomaly"] for row in broken(recorder.writer.close())]


async def stored(offset: int, epoch: int = 3) -> PublishResult:
    return PublishResult(0, "ok", "orders", 0, offset, epoch, 11)


def test_a_send_has_its_key_and_a_poll_what_its_records_and_the_server_say() -> None:
    async def story(recorder: LogRecorder) -> None:
        await recorder.publish("a", lambda: stored(0), "k")
        await recorder.publish(None, lambda: stored(1), "k")
        there = [record(0, "a", "k"), record(1, None, "k"), record(2, "b", number=(17, 4))]
        await read(recorder, (there, (3, 3)), ([], (3, 4)))

    recorder = played(story)
    assert [op.mops for op in ops_of(recorder)] == [
        (Mop("send", KEY, 0, "a", 3, 11), Mop("record-key", KEY, None, "k")),
        (Mop("send", KEY, 1, None, 3, 11), Mop("tombstone", KEY, None, "k")),
        (
            Mop("poll", KEY, 0, "a"),
            Mop("record-key", KEY, None, "k"),
            Mop("poll", KEY, 1, None),
            Mop("tombstone", KEY, None, "k"),
            Mop("poll", KEY, 2, "b"),
            Mop("producer", KEY, 4, "house-7/orders", 17),
            Mop("hw", KEY, 3, None, 3),
        ),
        (Mop("poll", KEY), Mop("hw", KEY, 4, None, 3)),
    ]
    # By offset and epoch: what was written under which epoch the reader knows, too.
    assert recorder.contents == {(0, 3): "a", (1, 3): None, (0, 1): "a", (1, 1): None, (2, 3): "b"}
    assert found(recorder) == []


def test_who_hears_nothing_goes_on_as_another() -> None:
    async def story(recorder: LogRecorder) -> None:
        reader = recorder.reader(PlayedReader(LiftlogError("no answer"), ([record(0, "a")], (1, 1))))
        with pytest.raises(LiftlogError):
            await reader.fetch(0)
        await reader.fetch(0)

    lost, told = ops_of(played(story))
    assert (lost.outcome, lost.error, told.outcome) == ("info", "LiftlogError: no answer", "ok")
    assert lost.process < told.process


class PlayedPublisher:
    """Tells what it is told to tell, in that order, when it is left; the first message is not taken."""

    def __init__(self, told: Callable[[TaggedAnswer], object], results: list[PublishResult]) -> None:
        self._told, self._results = told, results
        self.sent: list[tuple[int, str, bytes]] = []

    async def __aenter__(self) -> PlayedPublisher:
        return self

    async def __aexit__(self, *_: object) -> None:
        for result in self._results:
            self._told(result)

    async def send(self, tag: int, subject: str, value: bytes, headers: Any = None) -> None:
        self.sent.append((tag, subject, value))
        if len(self.sent) == 1:
            raise LiftlogError("there is a newer run")


def test_messages_of_a_publisher_are_sends_that_overlap() -> None:
    async def story(recorder: LogRecorder) -> None:
        results = [PublishResult(3, "ok", "orders", 0, 8, 3, 11), PublishResult(2, "info", error="late")]
        results.append(PublishResult(4, "leader", "orders", 0, 9, 3, 11))
        made: RecordedPublisher = recorder.publisher(lambda told: PlayedPublisher(told, results))
        async with made as publisher:
            with pytest.raises(LiftlogError):
                await publisher.send("a", "orders")
            await publisher.send("b", "orders")
            await publisher.send("c", "orders")
            await publisher.send(None, "orders", record_key="k")

    recorder = played(story)
    ops = ops_of(recorder)
    assert [(op.outcome, op.mops[0].value, op.mops[0].offset) for op in ops] == [
        ("info", "a", None),
        ("info", "b", None),
        ("ok", "c", 8),
        ("info", None, None),
    ]
    assert ops[0].process < ops[1].process == ops[2].process
    assert recorder.contents == {(8, 3): "c", (9, 3): None}


def test_final_reads_go_to_the_end_and_are_one_operation_of_somebody_new() -> None:
    async def story(recorder: LogRecorder) -> None:
        answers = [([record(0, "a")], (1, 3)), ([], (1, 3))]
        assert len(await recorder.final_read(PlayedReader(*answers), 3)) == 1
        assert await recorder.final_read(PlayedReader(([], (1, 3))), 3) == []

    first, second = ops_of(played(story))
    assert (first.f, second.f) == (FINAL_POLL, FINAL_POLL) and first.process < second.process
    assert [mop.f for mop in first.mops] == ["poll", "hw", "hw"]
    assert second.mops == (Mop("poll", KEY), Mop("hw", KEY, 3, None, 1))


# -- broken clients and servers ------------------------------------------------------------------------------


def test_a_server_that_forgets_what_it_said_is_found_out() -> None:
    async def story(recorder: LogRecorder) -> None:
        await read(recorder, ([record(0, "a")], (1, 5)), ([record(1, "b")], (1, 4)))

    assert found(played(story)) == ["hw-back"]


def test_a_client_that_hands_out_what_is_not_committed_is_found_out() -> None:
    async def story(recorder: LogRecorder) -> None:
        await read(recorder, ([record(0, "a"), record(1, "b")], (1, 1)))

    assert found(played(story)) == ["read-above-hw"]


@pytest.mark.parametrize(
    ("numbers", "anomaly"),
    [
        ([(1, 0), (1, 1), (1, 1)], "sequence-duplicate"),
        ([(1, 0), (1, 2), (1, 1)], "sequence-reordered"),
        ([(1, 0), (1, 2), (1, 3)], "sequence-gap"),
        ([(2, 0), (1, 5), (2, 1)], "fenced-producer"),
    ],
)
def test_a_leader_that_takes_what_is_not_due_is_found_out(
    numbers: list[tuple[int, int]], anomaly: str
) -> None:
    async def story(recorder: LogRecorder) -> None:
        there = [record(offset, f"v{offset}", number=one) for offset, one in enumerate(numbers)]
        await read(recorder, (there, (1, 3)))

    assert anomaly in found(played(story))


def test_compaction_that_keeps_what_was_deleted_or_takes_what_is_new_is_found_out() -> None:
    async def story(recorder: LogRecorder) -> None:
        for offset, (value, key) in enumerate((("a", "k"), (None, "k"), ("b", "l"), ("c", "l"))):
            await recorder.publish(value, lambda offset=offset: stored(offset), key)  # type: ignore[misc]
        await recorder.final_read(PlayedReader(([record(0, "a", "k"), record(2, "b", "l")], (1, 4))), 3)

    assert found(played(story)) == ["deleted-value-back", "last-value-lost"]


# -- replicas ------------------------------------------------------------------------------------------------


def line(start: int, at_us: int, leo: int, hw: int, *history: tuple[int, int], **more: Any) -> str:
    state = {"state": "ready", "role": "follower", "epoch": history[-1][0], "leo": leo, "hw": hw}
    after = state | {"log_start": 0, "history": history, "durable": leo} | more
    told = {"type": "replica", "node": 1, "start": start, "number": 1, "partition": [7, 0], "at_us": at_us}
    return json.dumps(told | {"after": after})


def traced(recorder: LogRecorder, folder: Path, *lines: str, partition: int = 7) -> ReplicaRecorder:
    path = folder / "node-1.jsonl"
    path.write_text("\n".join(('{"type":"trace","node":1}', *lines)) + '\n{"type":"repl')
    replicas = ReplicaRecorder(recorder.writer, KEY, (partition, 0), recorder.contents, first_process=1000)
    replicas.trace(path)
    return replicas


async def committed_and_cut(recorder: LogRecorder) -> None:
    """A reader is given what a copy cuts off, and goes on in what comes in its place."""
    await recorder.publish("a", lambda: stored(0, 1))
    await read(recorder, ([record(0, "a"), record(1, "lost")], (1, 2)), ([record(2, "c")], (3, 3)))


def test_what_a_copy_cuts_off_is_a_fact_if_anybody_knows_it(tmp_path: Path) -> None:
    recorder = played(committed_and_cut)
    lines = [
        line(5, 900_000, 2, 0, (1, 0)),
        line(5, 1_000_001, 4, 1, (1, 0)),
        # Cut to 1 and filled again under epoch 3, of which nothing of before is left.
        line(5, 1_000_003, 3, 1, (1, 0), (3, 1)),
        line(5, 1_000_005, 3, 3, (1, 0), (3, 1)),
        # Another process: what it has found is no cut.
        line(6, 1_000_006, 1, 0, (1, 0)),
    ]
    replicas = traced(recorder, tmp_path, *lines)
    told = [op for op in ops_of(recorder) if op.f == "replica"]
    assert replicas.cut == 3, "of which nobody knows the last two"
    assert [op.mops for op in told] == [
        (Mop("hw", KEY, 0, None, 1),),
        (Mop("hw", KEY, 1, None, 1),),
        (Mop("truncate", KEY, 1, "lost", 3), Mop("hw", KEY, 1, None, 3)),
        (Mop("hw", KEY, 3, None, 3),),
        (Mop("hw", KEY, 0, None, 1),),
    ]
    assert [op.process for op in told] == [1000, 1000, 1000, 1000, 1001]
    assert found(recorder) == ["read-truncated"]


def test_a_copy_whose_hw_falls_is_found_out_unless_its_log_was_opened_anew(tmp_path: Path) -> None:
    recorder = played(committed_and_cut)
    falls = [line(5, at, 2, hw, (1, 0)) for at, hw in ((900_000, 2), (900_001, 1))]
    traced(recorder, tmp_path, *falls)
    assert found(recorder) == ["hw-back"]
    recorder = played(committed_and_cut)
    traced(recorder, tmp_path, falls[0], line(5, 900_000, 2, 2, (1, 0), state="failed"), falls[1])
    assert found(recorder) == []


def test_a_trace_of_other_partitions_says_nothing(tmp_path: Path) -> None:
    recorder = played(committed_and_cut)
    before = len(recorder.writer.history)
    traced(recorder, tmp_path, line(5, 900_000, 2, 2, (1, 0)), partition=8)
    assert len(recorder.writer.history) == before


@pytest.mark.parametrize(
    ("before", "after", "cut"),
    [
        (Tail(0, 4, ((1, 0),)), Tail(0, 5, ((1, 0),)), []),
        (Tail(0, 4, ((1, 0), (2, 2))), Tail(0, 3, ((1, 0), (2, 2))), [(3, 2)]),
        (Tail(0, 4, ((1, 0), (2, 2))), Tail(0, 4, ((1, 0), (3, 2))), [(2, 2), (3, 2)]),
        (Tail(0, 4, ((1, 0), (2, 2))), Tail(3, 4, ((2, 3),)), []),
        (Tail(0, 4, ((1, 0),)), Tail(6, 6, ()), []),
        (Tail(0, 2, ((1, 0),)), Tail(0, 3, ((1, 0), (2, 2))), []),
        (Tail(0, 3, ((1, 0),)), Tail(0, 3, ((1, 0), (2, 2))), [(2, 1)]),
    ],
)
def test_what_is_cut_off_is_what_the_next_step_has_not(
    before: Tail, after: Tail, cut: list[tuple[int, int]]
) -> None:
    assert list(cut_off(before, after)) == cut
