"""A publisher that numbers its messages: whatever gets lost, each is stored once and in order (L2)."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from nats.aio.msg import Msg

from liftlog.client import producing
from liftlog.client.producing import IN_FLIGHT_MAX, NumberedPublisher, begin_run
from liftlog.client.publisher import PublishResult
from liftlog.core.replica.publishing.producer_table import Fenced, Lies, NotDue, ProducerTable
from liftlog.options.numbered import Numbered
from liftlog.types import LiftlogError

Answer = dict[str, Any]


class FakeLeader:
    """NATS and a stream's leader in one: what is published is judged as a leader judges it (`ProducerTable`).
    `lose`: which messages and answers get lost; `refuse`: an answer instead of a look.
    """

    max_payload = 1000
    is_closed = False

    def __init__(self) -> None:
        self.table = ProducerTable(10**9)
        self.stored: list[bytes] = []
        self.arrived: list[tuple[int, int, bytes]] = []
        self.lose: Callable[[], bool] = lambda: False
        self.refuse: Callable[[bytes], Answer | None] = lambda value: None
        self._heard: dict[str, Callable[[Msg], Awaitable[None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def new_inbox(self) -> str:
        return f"_INBOX.{len(self._heard)}"

    async def subscribe(
        self, subject: str, cb: Callable[[Msg], Awaitable[None]], **limits: int
    ) -> FakeLeader:
        self._heard[subject.removesuffix("*")] = cb
        return self

    async def unsubscribe(self) -> None:
        """Nothing is told to who has ended, since he looks at nothing any more."""

    async def flush(self) -> None:
        pass

    async def publish(self, subject: str, value: bytes, reply: str, headers: dict[str, str]) -> None:
        numbers = int(headers["Liftlog-Run"]), int(headers["Liftlog-Sequence"])
        self.arrived.append((*numbers, value))
        if self.lose():
            return
        answer = self.refuse(value) or self._take(
            Numbered(headers["Liftlog-Producer"].encode(), *numbers), value
        )
        if not self.lose():
            task = asyncio.create_task(self._answer(reply, answer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _take(self, numbered: Numbered, value: bytes) -> Answer:
        verdict = self.table.verdict(numbered)
        if isinstance(verdict, Lies):
            return ack(verdict.offset, duplicate=True)
        if isinstance(verdict, Fenced):
            return refusal("fenced", newest_run=verdict.run)
        if isinstance(verdict, NotDue):
            return refusal("not due", next_sequence=verdict.due)
        assert verdict is None
        self.table.add(numbered, len(self.stored), 1, 0)
        self.stored.append(value)
        return ack(len(self.stored) - 1)

    async def _answer(self, reply: str, answer: Answer) -> None:
        inbox, _, tag = reply.rpartition(".")
        told = Msg(_client=None, subject=f"{inbox}.{tag}", data=json.dumps(answer).encode())  # type: ignore[arg-type]
        await self._heard[inbox + "."](told)


def ack(offset: int, **more: Any) -> Answer:
    numbers = {"offset": offset, "partition": 0, "epoch": 1, "incarnation": 1}
    return {"stream": "s", "seq": offset + 1, **numbers, **more}


def refusal(text: str, outcome: str = "info", **ours: int) -> Answer:
    return {"error": {"description": text}, "liftlog": {"outcome": outcome, **ours}}


NOT_READY = refusal("not ready")


@pytest.fixture(autouse=True)
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("SWEEP_S", 0.001), ("AGAIN_S", 0.01), ("PAUSE_S", 0.001)):
        monkeypatch.setattr(producing, name, seconds)


async def publish(
    leader: FakeLeader,
    values: list[bytes],
    *,
    timeout_ms: int = 60_000,
    window: int = 10,
    producer: str = "p",
    results: list[PublishResult] | None = None,
) -> list[PublishResult]:
    found = [] if results is None else results
    async with NumberedPublisher(leader, found.append, window, timeout_ms, producer=producer) as publisher:  # type: ignore[arg-type]
        for tag, value in enumerate(values):
            await publisher.send(tag, "s", value)
    return sorted(found)


VALUES = [b"%d" % number for number in range(200)]


@pytest.mark.parametrize("seed", range(6))
def test_L2_whatever_is_lost_or_refused_for_now_each_is_stored_once_and_in_order(seed: int) -> None:
    leader, draws = FakeLeader(), random.Random(seed)
    leader.lose = lambda: draws.random() < 0.05
    leader.refuse = lambda value: NOT_READY if draws.random() < 0.05 else None
    results = asyncio.run(publish(leader, VALUES))
    assert leader.stored == VALUES
    assert [(one.outcome, one.offset) for one in results] == [("ok", n) for n in range(len(VALUES))]
    assert len({run for run, _, _ in leader.arrived}) == 1 and len(leader.arrived) > len(VALUES)


@pytest.mark.parametrize("seed", range(4))
def test_L2_what_is_refused_for_good_leaves_the_order_of_the_others(seed: int) -> None:
    leader, draws = FakeLeader(), random.Random(seed)
    leader.lose = lambda: draws.random() < 0.03
    leader.refuse = lambda value: refusal("never", "fail") if value.endswith(b"7") else None
    results = asyncio.run(publish(leader, VALUES))
    stored = [value for value in VALUES if not value.endswith(b"7")]
    kept = [VALUES.index(value) for value in leader.stored]
    assert kept == sorted(set(kept)), "once and in order"
    unknown = {VALUES[one.tag] for one in results if one.outcome == "info"}
    assert set(stored) - unknown <= set(leader.stored)
    assert all(leader.stored[one.offset] == VALUES[one.tag] for one in results if one.outcome == "ok")
    assert not {VALUES[one.tag] for one in results if one.outcome == "fail"} & set(leader.stored)


@pytest.mark.parametrize("told", [{"next_offset": 3}, {"last_offset": 2}, {"last_offset": -1}])
def test_L2_who_expected_something_else_hears_of_it_at_once(told: dict[str, int]) -> None:
    """Of an offset (L6) or of a subject's last record (L9); what was sent behind it is not in doubt."""
    leader = FakeLeader()
    leader.refuse = lambda value: refusal("wrong last sequence", **told) if value == b"7" else None
    results = asyncio.run(publish(leader, VALUES))
    assert leader.stored == [value for value in VALUES if value != b"7"]
    assert [one.tag for one in results if one.outcome != "ok"] == [7] and results[7].outcome == "info"
    assert {getattr(results[7], name) for name in told} == set(told.values())


def test_L2_without_losses_nothing_is_in_doubt() -> None:
    leader = FakeLeader()
    leader.refuse = lambda value: refusal("never", "fail") if value == b"7" else None
    results = asyncio.run(publish(leader, VALUES))
    assert leader.stored == [value for value in VALUES if value != b"7"]
    assert [one.tag for one in results if one.outcome != "ok"] == [7] and results[7].outcome == "fail"


def test_L2_what_nobody_answers_is_unknown_and_later_messages_go_in_another_run() -> None:
    leader = FakeLeader()
    leader.lose = lambda: b"late" not in {value for _, _, value in leader.arrived}
    results: list[PublishResult] = []

    async def story() -> None:
        async with NumberedPublisher(leader, results.append, 10, 50, producer="p") as publisher:  # type: ignore[arg-type]
            for tag in range(3):
                await publisher.send(tag, "s", b"%d" % tag)
            await publisher.drain()
            publisher._ack_timeout_s = 60
            await publisher.send(3, "s", b"late")

    asyncio.run(story())
    assert [(one.tag, one.outcome) for one in results] == [*((n, "info") for n in range(3)), (3, "ok")]
    assert leader.stored == [b"late"]
    runs = sorted({run for run, _, _ in leader.arrived})
    assert len(runs) == 2
    assert {(run, number) for run, number, value in leader.arrived if value == b"late"} == {(runs[1], 0)}


def test_L2_a_clock_that_is_behind_begins_above_the_newest_run() -> None:
    leader = FakeLeader()
    ahead = begin_run(0) * 2
    leader.table.add(Numbered(b"p/s", ahead, 0), 0, 1, 0)
    leader.stored.append(b"earlier")
    results = asyncio.run(publish(leader, [b"a", b"b"]))
    assert leader.stored == [b"earlier", b"a", b"b"] and [one.outcome for one in results] == ["ok", "ok"]
    assert leader.arrived[-1][0] > ahead


def test_L2_whose_place_was_taken_stops_and_says_so() -> None:
    leader, results = FakeLeader(), []

    async def story() -> None:
        async with NumberedPublisher(leader, results.append, 10, 60_000, producer="p") as publisher:  # type: ignore[arg-type]
            await publisher.send(0, "s", b"first")
            await publisher.drain()
            await publish(leader, [b"other"])
            await publisher.send(1, "s", b"zombie")
            await publisher.drain()
            with pytest.raises(LiftlogError, match="fenced: nothing more is sent as 'p/s'"):
                await publisher.send(2, "s", b"zombie")

    asyncio.run(story())
    assert leader.stored == [b"first", b"other"]
    assert [one.outcome for one in results] == ["ok", "info"]


def test_L2_a_producer_that_is_forgotten_begins_anew() -> None:
    leader, results = FakeLeader(), []

    async def story() -> None:
        async with NumberedPublisher(leader, results.append, 10, 60_000) as publisher:  # type: ignore[arg-type]
            await publisher.send(0, "s", b"first")
            await publisher.drain()
            leader.table.drop_oldest()
            for tag in range(1, 4):
                await publisher.send(tag, "s", b"%d" % tag)

    asyncio.run(story())
    assert leader.stored == [b"first", b"1", b"2", b"3"] and {one.outcome for one in results} == {"ok"}


def test_L2_subjects_are_numbered_apart() -> None:
    leader = FakeLeader()

    async def story() -> None:
        async with NumberedPublisher(leader, lambda result: None, 10, 60_000) as publisher:  # type: ignore[arg-type]
            for tag, subject in enumerate(("a", "b", "a", "b")):
                await publisher.send(tag, subject, b"%d" % tag)

    asyncio.run(story())
    assert [number for _, number, _ in leader.arrived] == [0, 0, 1, 1]


def test_L2_what_cannot_be_sent_is_told_at_once_and_takes_no_number() -> None:
    leader = FakeLeader()
    with pytest.raises(LiftlogError, match="needs answers"):
        NumberedPublisher(leader, print, 1, 1, ack="none")  # type: ignore[arg-type]
    with pytest.raises(LiftlogError, match="cannot travel"):
        NumberedPublisher(leader, print, 1, 1, producer=" p")  # type: ignore[arg-type]
    noted: list[PublishResult] = []

    async def story() -> None:
        async with NumberedPublisher(leader, noted.append, 10**6, 60_000, producer="p") as publisher:  # type: ignore[arg-type]
            assert publisher._window == IN_FLIGHT_MAX
            with pytest.raises(LiftlogError, match="exceeds the NATS server's limit of 1000"):
                await publisher.send(0, "s", b"x" * 1001)
            with pytest.raises(LiftlogError, match="use a shorter name"):
                await publisher.send(0, "s" * 255, b"x")
            await publisher.send(0, "s", b"x")

    asyncio.run(story())
    assert [number for _, number, _ in leader.arrived] == [0]


def test_L2_runs_are_numbers_that_headers_take_and_grow() -> None:
    first = begin_run(0)
    assert len(str(first)) <= 18 and begin_run(first) > first and begin_run(first * 2) > first * 2
