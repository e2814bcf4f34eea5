"""The client's processor against leaders that lose, refuse and repeat: it stores nothing twice (L10)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import nats.errors
import pytest

from liftlog.client import processing
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.processing import ProcessorFenced, ProcessorUnknown, StreamProcessor, is_without_output
from liftlog.client.reader import Reader
from liftlog.messages import StreamInfo
from liftlog.types import LiftlogError, Record, StreamConfig


class Answer:
    def __init__(self, body: dict[str, Any]) -> None:
        self.data = json.dumps(body).encode()


def stored(offset: int, cursor: int | None = None, stream: str = "out") -> Answer:
    body: dict[str, Any] = {"stream": stream, "offset": offset}
    return Answer(body if cursor is None else {**body, "cursor": cursor})


def refused(code: str, outcome: str = "info", **more: int) -> Answer:
    return Answer({"error": {"description": code}, "liftlog": {"code": code, "outcome": outcome, **more}})


class ScriptedNats:
    """Answers in this order; what it was sent is kept."""

    max_payload = 1000

    def __init__(self, answers: list[Answer | Exception]) -> None:
        self.answers = answers
        self.sent: list[tuple[bytes, dict[str, str]]] = []

    async def request(self, subject: str, value: bytes, timeout: float, headers: dict[str, str]) -> Answer:
        self.sent.append((value, headers))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class ListReader(Reader):
    def __init__(self, records: list[Record]) -> None:
        self.rest = records
        self.position = self.seen_hw = 0

    async def fetch(self, offset: int, *, max_bytes: int = 0, wait_ms: int = 0) -> list[Record]:
        found = [record for record in self.rest if record.offset >= offset]
        self.position = self.rest[-1].offset + 1
        return found


class FakeOwner:
    def __init__(self, *answers: Answer | Exception) -> None:
        self.nats: Any = ScriptedNats(list(answers))

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo:
        return StreamInfo(17, StreamConfig(name, name, dedupe_window_ms=3_600_000), [])

    def reader(
        self, stream: StreamInfo, partition: int, *, node: int = 0, spread: bool = False, timeout_ms: int = 0
    ) -> Reader:
        mark = Record(2, 0, b"in", b"", b"NATS/1.0\r\nLiftlog-Cursor: 1/0/2\r\n\r\n", None, b"")
        plain = [Record(place, 0, b"in", b"", b"", None, b"ab"[place : place + 1]) for place in range(2)]
        return ListReader([*plain, mark])

    @property
    def sent(self) -> list[tuple[str, str, str]]:
        """Run, number and cursor of each message."""
        names = ("Liftlog-Run", "Liftlog-Sequence", "Liftlog-Cursor")
        return [tuple(headers[name] for name in names) for _, headers in self.nats.sent]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processing, "PAUSE_S", 0.0)


Story = Callable[[StreamProcessor], Coroutine[Any, Any, None]]


def told(owner: FakeOwner, story: Story, **settings: Any) -> None:
    async def run() -> None:
        async with StreamProcessor(owner, "p", "in", "out", **settings) as processor:
            await story(processor)

    asyncio.run(run())


def test_L10_what_has_no_answer_is_sent_again_as_it_was() -> None:
    owner = FakeOwner(
        nats.errors.NoRespondersError(),
        stored(0, 0),
        TimeoutError(),
        refused("not-ready"),
        stored(1),
    )

    async def story(processor: StreamProcessor) -> None:
        batch = await anext(processor)
        assert ([record.value for record in batch.records], batch.next) == ([b"a", b"b"], 3)
        assert await batch.commit([b"x", b"y"]) == 1
        assert processor.position == 3

    told(owner, story)
    (run,) = {run for run, _, _ in owner.sent}
    assert owner.sent == [(run, "0", "17/0")] * 2 + [(run, "1", "17/0/3")] * 3
    assert len(set(value for value, _ in owner.nats.sent[2:])) == 1


def test_L10_whose_clock_is_behind_opens_a_run_above_the_newest() -> None:
    newest = 9 * 10**17
    owner = FakeOwner(refused("producer-fenced", newest_run=newest), stored(0, 2))

    async def story(processor: StreamProcessor) -> None:
        assert processor.run > newest and processor.position == 2

    told(owner, story, begin=0)
    assert [cursor for _, _, cursor in owner.sent] == ["17/0/0"] * 2


@pytest.mark.parametrize(
    ("answer", "error", "then"),
    [
        (refused("producer-fenced", newest_run=5), ProcessorFenced, "open it anew"),
        (refused("sequence-not-due", next_sequence=0), ProcessorFenced, "open it anew"),
        (refused("parcel-refused", "fail"), RequestFailed, ""),
        (refused("cursor-refused"), RequestFailed, ""),
        (nats.errors.MaxPayloadError(), LiftlogError, ""),
    ],
)
def test_L10_after_a_refusal_a_number_is_used_again_only_if_nothing_can_be_stored_under_it(
    answer: Answer | Exception, error: type[Exception], then: str
) -> None:
    owner = FakeOwner(stored(0, 0), answer, stored(1))

    async def story(processor: StreamProcessor) -> None:
        batch = await anext(processor)
        with pytest.raises(error):
            await batch.commit([b"x", b"y"])
        if then:
            with pytest.raises(LiftlogError, match=then):
                await batch.commit([b"z"])
        else:
            assert await batch.commit([b"z"]) == 1

    told(owner, story)


def test_L10_who_gives_up_does_not_know_and_says_so() -> None:
    owner = FakeOwner(stored(0, 0), TimeoutError())

    async def story(processor: StreamProcessor) -> None:
        batch = await anext(processor)
        processor._patience_s = 0.0
        with pytest.raises(Unreachable, match="open it anew"):
            await batch.commit([])
        with pytest.raises(LiftlogError, match="unknown whether"):
            await batch.commit([])

    told(owner, story)


def test_L10_of_whom_nothing_is_known_it_is_an_error() -> None:
    async def story(processor: StreamProcessor) -> None:
        raise AssertionError("it is not open")

    with pytest.raises(ProcessorUnknown):
        told(FakeOwner(refused("cursor-unknown")), story)
    with pytest.raises(LiftlogError, match="does not say where"):
        told(FakeOwner(stored(0)), story)


def test_L10_two_streams_that_answer_on_one_subject_are_noticed() -> None:
    async def story(processor: StreamProcessor) -> None:
        batch = await anext(processor)
        with pytest.raises(LiftlogError, match="both answer"):
            await batch.commit([])

    told(FakeOwner(stored(0, 0), stored(0, stream="copy")), story)


def test_L10_a_processor_without_work_says_where_it_is() -> None:
    owner = FakeOwner(stored(0, 3), stored(1), stored(2))

    async def story(processor: StreamProcessor) -> None:
        processor._say_again_s = 0.0
        await processor._say_where()
        await processor._say_where()

    told(owner, story)
    assert [one[1:] for one in owner.sent] == [("0", "17/0"), ("1", "17/0/3"), ("2", "17/0/3")]


@pytest.mark.parametrize(
    ("name", "settings", "why"),
    [
        ("", {}, "processor name"),
        ("p" * 255, {}, "processor name"),
        (" p", {}, "processor name"),
        ("p", {"begin": -1}, "begin an offset"),
        ("p", {"records_max": 0}, "at least 1"),
    ],
)
def test_L10_what_cannot_be_a_processor(name: str, settings: dict[str, int], why: str) -> None:
    with pytest.raises(LiftlogError, match=why):
        StreamProcessor(FakeOwner(), name, "in", "out", **settings)


def test_L10_a_record_that_says_only_where_a_processor_is() -> None:
    headers = b"NATS/1.0\r\nLiftlog-Cursor: 1/0/2\r\n\r\n"
    assert is_without_output(Record(0, 0, b"s", b"", headers, None, b""))
    assert not is_without_output(Record(0, 0, b"s", b"", headers, None, b"output"))
    assert not is_without_output(Record(0, 0, b"s", b"", headers, b"key", None))
    assert not is_without_output(Record(0, 0, b"s", b"", b"", None, b""))
