"""The load generator counts real acks only, and each of them once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from liftlog.bench import load
from liftlog.bench.load import Generator, Load, LoadError
from liftlog.core.guards import Guards
from liftlog.core.replica.publishing.parcels import open_parcel
from liftlog.parcel import Parcel
from liftlog.types import Message, StreamConfig

if TYPE_CHECKING:
    from .conftest import FakeNats


def a_load(port: int, **more: object) -> Load:
    settings = {"port": port, "subject": "s", "stream": "bench", "size": 32, "window": 64, "messages": 1000}
    return Load(**(settings | more))  # type: ignore[arg-type]


def test_every_message_is_published_and_counted_once(fake_nats: FakeNats) -> None:
    fake_nats.answer = lambda number, reply, payload: fake_nats.ack(reply, "bench", number + 1)
    result = Generator(a_load(fake_nats.port)).run()
    assert result["messages"] == len(fake_nats.published) == 1000
    assert all(len(payload) == 32 for payload in fake_nats.published)
    assert 0 < result["latency_p50_ms"] <= result["latency_p99_ms"]


def test_no_more_than_the_window_is_in_flight(fake_nats: FakeNats) -> None:
    held: list[bytes] = []

    def hold_until_the_window_is_full(number: int, reply: bytes, payload: bytes) -> bytes:
        # With 64 in flight nothing more may come: if more came, the 65th would be seen before any ack is out.
        held.append(fake_nats.ack(reply, "bench", number + 1))
        if len(held) < 64:
            return b""
        answers = b"".join(held)
        held.clear()
        return answers

    fake_nats.answer = hold_until_the_window_is_full
    assert Generator(a_load(fake_nats.port, messages=640)).run()["messages"] == 640


def test_a_ping_in_the_middle_is_answered_between_two_publications(fake_nats: FakeNats) -> None:
    def ping_now_and_then(number: int, reply: bytes, payload: bytes) -> bytes:
        return (b"PING\r\n" if number % 100 == 50 else b"") + fake_nats.ack(reply, "bench", number + 1)

    fake_nats.answer = ping_now_and_then
    assert Generator(a_load(fake_nats.port)).run()["messages"] == 1000
    assert fake_nats.lines.count(b"PONG") >= 1


def test_the_clock_ends_a_run_after_whole_messages(fake_nats: FakeNats) -> None:
    fake_nats.answer = lambda number, reply, payload: fake_nats.ack(reply, "bench", number + 1)
    result = Generator(a_load(fake_nats.port, messages=100_000_000, seconds_max=0.05)).run()
    assert result["messages"] == len(fake_nats.published) < 100_000_000


def test_a_batch_is_what_a_leader_opens() -> None:
    frames = load.Frames(a_load(0, batch=5))
    data = bytes(frames.data[: frames.length])
    line, _, rest = data.partition(b"\r\n")
    verb, subject, reply, block, whole = line.split()
    assert (verb, subject, reply) == (b"HPUB", b"s", b"_INBOX.liftlogbench.0000000")
    headers, payload = rest[: int(block)], rest[int(block) : int(whole)]
    assert headers == load.BATCH_BLOCK and rest[int(whole) :] == b"\r\n"
    opened = open_parcel(
        Guards().decides, StreamConfig("bench", "s"), 0, Message(subject, reply, headers, payload), 1 << 20
    )
    assert isinstance(opened, Parcel) and opened.records == 5


WRONG = [
    (b'{"error":{"code":503,"err_code":1,"description":"too few in sync"}}', "too few in sync"),
    (b'{"stream":"other","seq":1}', "not an ack of stream bench"),
    (b'{"stream":"bench","seq":1}', "different sequence numbers"),
]


@pytest.mark.parametrize(("payload", "reason"), WRONG)
def test_an_answer_that_is_no_real_ack_ends_the_run(fake_nats: FakeNats, payload: bytes, reason: str) -> None:
    fake_nats.answer = lambda number, reply, _payload: fake_nats.message(reply, payload)
    with pytest.raises(LoadError, match=reason):
        Generator(a_load(fake_nats.port)).run()


def test_no_responders_ends_the_run(fake_nats: FakeNats) -> None:
    fake_nats.answer = lambda number, reply, payload: fake_nats.no_responders(reply)
    with pytest.raises(LoadError, match="503"):
        Generator(a_load(fake_nats.port)).run()


def test_silence_ends_the_run(fake_nats: FakeNats, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(load, "SILENCE_S", 0.2)
    with pytest.raises(LoadError, match="no ack for"):
        Generator(a_load(fake_nats.port)).run()


def test_a_closed_connection_ends_the_run(fake_nats: FakeNats) -> None:
    def hang_up(number: int, reply: bytes, payload: bytes) -> bytes:
        raise ConnectionAbortedError

    fake_nats.answer = hang_up
    with pytest.raises((LoadError, ConnectionError)):
        Generator(a_load(fake_nats.port)).run()
