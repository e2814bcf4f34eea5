"""What the recorder writes of the answers, and failures, of a client that plays a consumer."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import pytest

from liftlog.client import ConsumerConfig, ConsumerInfo, Delivery, PublishResult
from liftlog.client.consuming import Settlement
from liftlog.types import LiftlogError, Record
from liftlog_jepsen.consuming import ConsumerRecorder
from liftlog_jepsen.history import FINAL_POLL, HistoryWriter, Mop, Op
from tests.jepsen.promise_stories import broken

KEY = "orders/0"
T = TypeVar("T")


def delivery(offset: int, count: int, recorded: int = 0) -> Delivery:
    record = Record(offset, 0, b"orders", b"", b"", None, f"v{offset}".encode())
    return Delivery(record, count, 3, recorded)


class PlayedConsumer:
    """Answers what it was told to, where it begins at first; an error is raised."""

    def __init__(self, config: ConsumerConfig | None = None, floor: int = 0, number: int = 7) -> None:
        self.number = 7
        self.config = config or ConsumerConfig()
        self.answers: list[object] = [self.told(floor, number)]

    def told(self, floor: int, number: int = 7) -> ConsumerInfo:
        return ConsumerInfo("billing", number, self.config, floor, floor, 0, 0)

    def _next(self, kind: type[T]) -> T:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        assert isinstance(answer, kind)
        return answer

    async def info(self) -> ConsumerInfo:
        return self._next(ConsumerInfo)

    async def reset(self, offset: int | None) -> ConsumerInfo:
        info = self._next(ConsumerInfo)
        self.number = info.number
        return info

    async def fetch(self, messages: int, *, wait_ms: int) -> list[Delivery]:
        assert messages and wait_ms
        found = self._next(list)
        return [one for one in found if isinstance(one, Delivery)]

    async def settle(self, how: str, offsets: object) -> Settlement:
        assert how in ("ack", "term") and offsets
        return self._next(Settlement)


async def soon(answer: T) -> T:
    return answer


async def never() -> PublishResult:
    raise LiftlogError("no answer")


def recorded(recorder: ConsumerRecorder) -> list[Op]:
    return list(recorder.writer.close().ops())


def test_what_is_answered_is_written_as_facts() -> None:
    recorder = ConsumerRecorder(HistoryWriter("recorded"), KEY)
    played = PlayedConsumer(ConsumerConfig(max_deliver=5, deliver="offset", offset=2), 2)
    given = [delivery(2, 1), delivery(3, 1)]
    again = [delivery(3, 2, recorded=9)]
    info, other = played.told(3), played.told(4, 8)
    played.answers += [given, [], Settlement([3], 6), again, Settlement([], 10), info, other]

    async def story() -> None:
        consumer = await recorder.consumer(lambda: soon(played))
        assert await consumer.fetch(10, wait_ms=5) == given
        assert await consumer.fetch(10, wait_ms=5) == []
        assert await consumer.ack(*given) == [3]
        assert await consumer.fetch(10, wait_ms=5) == again
        assert await consumer.term(*again) == []
        assert await consumer.floor() == 3
        assert await consumer.floor() == 4

    asyncio.run(story())
    ops = recorded(recorder)
    assert {op.outcome for op in ops} == {"ok"}
    assert [(op.f, *op.mops) for op in ops] == [
        ("create-consumer", Mop("consumer", KEY, 2, 7, 5)),
        (
            "pull",
            Mop("pull", KEY, None, 7, 3),
            Mop("deliver", KEY, 2, "v2", 1),
            Mop("deliver", KEY, 3, "v3", 1),
        ),
        ("pull",),
        (
            "ack",
            Mop("settle", KEY, 2, 7, 6),
            Mop("settle", KEY, 3, 7, 6),
            Mop("unknown-delivery", KEY, 3, 7),
        ),
        ("pull", Mop("pull", KEY, 9, 7, 3), Mop("deliver", KEY, 3, "v3", 2)),
        ("term", Mop("settle", KEY, 3, 7, 10)),
        ("consumer-info", Mop("floor", KEY, 3, 7)),
        ("consumer-info",),  # Another consumer has the name now.
    ]


@pytest.mark.parametrize(
    ("config", "start"),
    [
        (ConsumerConfig(), 3),
        (ConsumerConfig(deliver="offset", offset=1), 3),
        (ConsumerConfig(deliver="new"), 3),
        (ConsumerConfig(deliver="last-per-subject"), None),
        (ConsumerConfig(filter="orders.>"), None),
        (ConsumerConfig(filters=("orders.>",)), None),
    ],
)
def test_where_a_consumer_begins_is_where_its_leader_says_if_it_gives_all(
    config: ConsumerConfig, start: int | None
) -> None:
    recorder = ConsumerRecorder(HistoryWriter("recorded"), KEY)
    asyncio.run(_made(recorder, PlayedConsumer(config, 3)))
    assert recorded(recorder)[0].mops == (Mop("consumer", KEY, start, 7),)


def test_where_another_consumer_has_the_name_already_nothing_is_said_of_where_this_one_began() -> None:
    recorder = ConsumerRecorder(HistoryWriter("recorded"), KEY)
    asyncio.run(_made(recorder, PlayedConsumer(floor=3, number=8)))
    assert recorded(recorder)[0].mops == (Mop("consumer", KEY, None, 7),)


def test_a_reset_consumer_begins_where_it_was_reset_to_and_skips_nothing_before() -> None:
    """A history that names its start by its configuration says 0, and all before 5 would be skipped."""
    recorder = ConsumerRecorder(HistoryWriter("recorded"), KEY)
    played = PlayedConsumer()
    played.answers += [played.told(5, 8), [delivery(5, 1)], Settlement([], 9), played.told(6, 8)]

    async def story() -> None:
        consumer = await recorder.consumer(lambda: soon(played))
        assert (await consumer.reset(5)).number == 8
        await consumer.ack(*await consumer.fetch())
        assert await consumer.floor() == 6
        await recorder.final_read(lambda: soon({offset: f"v{offset}" for offset in range(6)}))

    asyncio.run(story())
    history = recorder.writer.close()
    assert [op.mops for op in history.ops() if op.f == "create-consumer"] == [
        (Mop("consumer", KEY, 0, 7),),
        (Mop("consumer", KEY, 5, 8),),
    ]
    assert not broken(history)


async def _made(recorder: ConsumerRecorder, played: PlayedConsumer) -> None:
    await recorder.consumer(lambda: soon(played))


def test_what_nobody_answered_is_open_and_its_process_does_not_go_on() -> None:
    recorder = ConsumerRecorder(HistoryWriter("recorded"), KEY)
    played = PlayedConsumer()
    lost = LiftlogError("no answer")
    played.answers += [lost, [delivery(0, 1)], lost, played.told(1)]

    async def story() -> None:
        consumer = await recorder.consumer(lambda: soon(played))
        for doing in (consumer.fetch(), consumer.fetch(), consumer.ack(delivery(0, 1)), consumer.floor()):
            try:
                await doing
            except LiftlogError as error:
                assert error is lost

    asyncio.run(story())
    ops = recorded(recorder)[1:]
    assert [op.outcome for op in ops] == ["info", "ok", "info", "ok"]
    assert [op.error for op in ops] == ["LiftlogError: no answer", None, "LiftlogError: no answer", None]
    assert ops[0].process < ops[1].process == ops[2].process < ops[3].process
    assert ops[2].mops == (Mop("settle", KEY, 0, 7),)


def test_publishes_and_final_reads_are_operations_of_the_log() -> None:
    recorder = ConsumerRecorder(HistoryWriter("recorded"), KEY)
    stored = PublishResult(0, "ok", "orders", 0, 0, 3, 11)
    again = PublishResult(0, "ok", "orders", 0, 1, 4, 12, duplicate=True)

    async def fails(what: Awaitable[object]) -> None:
        with pytest.raises(LiftlogError):
            await what

    async def story() -> None:
        assert await recorder.publish("v0", lambda: soon(stored)) is stored
        await recorder.publish("v1", lambda: soon(PublishResult(0, "fail", error="refused")))
        await recorder.publish("v2", lambda: soon(PublishResult(0, "info", error="timed out")))
        await fails(recorder.publish("v3", never))
        assert await recorder.publish("v4", lambda: soon(again)) is again
        await recorder.final_read(lambda: soon({0: "v0", 2: "v2"}))

    asyncio.run(story())
    ops = recorded(recorder)
    assert [(op.f, op.outcome) for op in ops] == [
        *(("send", outcome) for outcome in ("ok", "fail", "info", "info", "ok")),
        (FINAL_POLL, "ok"),
    ]
    assert ops[0].mops == (Mop("send", KEY, 0, "v0", 3, 11),)
    assert ops[4].mops == (Mop("send", KEY, 1, "v4"),)
    processes = [op.process for op in ops]
    assert processes[0] == processes[1] == processes[2] < processes[3] < processes[4] < processes[5]
    assert ops[5].mops == (Mop("poll", KEY, 0, "v0"), Mop("poll", KEY, 2, "v2"))


def test_a_consumer_that_forgets_an_ack_is_found_out() -> None:
    recorder = ConsumerRecorder(HistoryWriter("recorded"), KEY)
    played = PlayedConsumer()
    played.answers += [[delivery(0, 1)], Settlement([], 3), [delivery(0, 2, recorded=5)]]

    async def story() -> None:
        consumer = await recorder.consumer(lambda: soon(played))
        await consumer.ack(*await consumer.fetch())
        await consumer.fetch()

    asyncio.run(story())
    (row,) = broken(recorder.writer.close())
    assert (row["anomaly"], row["key"], row["ops"]) == ("acked-again", KEY, [2, 3])
