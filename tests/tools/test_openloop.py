"""The open loop counts from the time at which a message was due, and counts each answer once."""

from __future__ import annotations

import gc
import os
import threading
from array import array
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.bench.account import Answers, LatencyAccount, Schedule
from liftlog.bench.load import LoadError
from liftlog.bench.openloop import OpenLoad, OpenLoop

if TYPE_CHECKING:
    from .conftest import FakeNats

MS = 1_000_000
S = 1_000_000_000


def a_load(port: int = 0, **more: Any) -> OpenLoad:
    settings = {"port": port, "subject": "s", "stream": "bench", "rate": 2000, "seconds": 0.2, "size": 32}
    return OpenLoad(**(settings | more))


def an_account(rate: float, acks: dict[int, int], offered: int, total: int = 0) -> LatencyAccount:
    """`acks`: message -> when its ack came, in ns after the start. Sent when they were due."""
    schedule, answers = Schedule(0, rate), Answers()
    for number, time_ns in acks.items():
        answers.took(number, time_ns, b"")
    sends = array("q")
    for number in range(offered):
        sends.extend((number, schedule.due_ns(number)))
    return LatencyAccount(schedule, total or offered, offered, sends, answers)


# -- intended times -----------------------------------------------------------------------------------------


@given(st.integers(0, 10**15), st.floats(0.1, 1e6), st.integers(0, 10**7))
def test_a_message_is_due_from_its_time_on_and_not_before(start_ns: int, rate: float, number: int) -> None:
    schedule = Schedule(start_ns, rate)
    due_ns = schedule.due_ns(number)
    assert schedule.due_at(due_ns) >= number + 1
    assert schedule.due_at(due_ns - 1) <= number
    assert schedule.due_ns(0) == start_ns and schedule.due_at(start_ns - 1) == 0
    # The n-th is due n intervals after the first: delays do not add up.
    assert due_ns - start_ns == pytest.approx(number * 1e9 / rate, abs=1, rel=1e-12)


# -- the article's worked example ---------------------------------------------------------------------------


def test_who_waits_in_line_is_counted_for_as_long_as_he_waited() -> None:
    # 100 requests a second; each takes no time at all but for a stall of 100 ms, in which ten were due.
    acks = {number: number * 10 * MS for number in range(200)}
    acks |= {number: 600 * MS for number in range(50, 60)}
    account = an_account(100, acks, 200)
    latencies = sorted(account.latencies_ns(), reverse=True)
    assert latencies[:11] == [100 * MS - waited * 10 * MS for waited in range(11)]
    told = account.result(cpu_s=0.0)
    # Who had waited with its requests would have told of one slow one: p99 0 ms.
    assert told["latency_ms"]["p99"] == pytest.approx(80, rel=1e-3) and told["latency_ms"]["max"] == 100.0
    assert told["latency_ms"]["p90"] == 0.0 and told["late_ms"]["max"] == 0.0
    assert (told["longest_gap_ms"], told["longest_gap_from_s"]) == (110.0, 0.49)


def test_messages_that_were_held_up_have_waited_an_interval_less_each(fake_nats: FakeNats) -> None:
    # The same through sockets: ten acks at once. Read at one moment, they differ by the interval exactly.
    held: list[bytes] = []

    def hold_ten(number: int, reply: bytes, payload: bytes) -> bytes:
        held.append(fake_nats.ack(reply, "bench", number + 1))
        if len(held) < 10:
            return b""
        answers = b"".join(held)
        held.clear()
        return answers

    fake_nats.answer = hold_ten
    generator = OpenLoop(a_load(fake_nats.port, rate=1000, seconds=0.02, timeline=True))
    told = generator.run()
    numbers, times = generator._answers.numbers, generator._answers.times_ns
    assert list(numbers) == list(range(20))
    assert times[0] == times[9] and times[10] == times[19]
    # The first of ten waited for the tenth, which was due 9 ms later.
    assert told["latency_ms"]["max"] >= 9.0
    assert told["acked"] == 20 and sum(slot["due_acked"] for slot in told["timeline"]) == 20


# -- what is told of a run ----------------------------------------------------------------------------------


def test_windows_and_the_timeline_part_the_messages_by_when_they_were_due() -> None:
    acks = {number: number * 10 * MS + MS for number in range(100)}
    acks |= {number: 720 * MS for number in range(60, 70)}
    del acks[99]
    account = an_account(100, acks, 100)
    told = account.result(cpu_s=0.001)
    before, after = account.window(0, 0.6), account.window(0.6, 10)
    assert (before["messages"], before["acked"]) == (60, 60) and before["latency_ms"]["max"] == 1.0
    assert (after["messages"], after["acked"]) == (40, 39) and after["latency_ms"]["max"] == 120.0
    timeline = account.timeline()
    assert [slot["due"] for slot in timeline] == [10] * 10
    assert [slot["due_acked"] for slot in timeline] == [10] * 9 + [9]
    assert [slot["arrived"] for slot in timeline] == [10] * 6 + [0, 20, 10, 9]
    assert timeline[6]["max_ms"] == 120.0 and timeline[7]["max_ms"] == 1.0
    assert timeline[7]["gap_ms"] == 110.0 == told["longest_gap_ms"]
    assert (told["unanswered"], told["generator_cpu_us_per_message"]) == (1, 10.0)


def test_who_is_too_slow_is_saturated_and_who_stalls_is_not() -> None:
    rate, count = 1000, 10_000
    assert not an_account(rate, {n: n * MS + 300 * MS for n in range(count)}, count).saturated
    # Nine tenths of the rate: the backlog grows.
    slow = an_account(rate, {n: n * MS * 10 // 9 for n in range(count)}, count)
    assert slow.saturated and "in the last quarter" in slow.saturation
    # A stall of a second, at the worst moment.
    stall = {n: max(n * MS, 9999 * MS) if n > 9000 else n * MS for n in range(count)}
    assert not an_account(rate, stall, count).saturated
    # Nothing at all from the middle on.
    assert an_account(rate, {n: n * MS for n in range(5000)}, count).saturated
    # Ended early by the bound on what waits.
    ended = an_account(rate, {n: n * MS for n in range(100)}, 5100, total=count)
    assert ended.saturation == "5000 messages waited for an answer when the run was ended"


# -- the generator against a server that does what it is told ----------------------------------------------


def test_every_message_is_sent_and_answered_once(fake_nats: FakeNats) -> None:
    fake_nats.answer = lambda number, reply, payload: fake_nats.ack(reply, "bench", number + 1)
    told = OpenLoop(a_load(fake_nats.port)).run()
    assert told["messages"] == told["acked"] == len(fake_nats.published) == 400
    assert [int(payload[:12]) for payload in fake_nats.published] == list(range(400))
    assert all(len(payload) == 32 for payload in fake_nats.published)
    assert not told["saturated"] and 0 < told["latency_ms"]["p50"] <= told["latency_ms"]["max"]


def test_above_its_pace_it_sends_in_groups_and_none_before_it_is_due(fake_nats: FakeNats) -> None:
    fake_nats.answer = lambda number, reply, payload: fake_nats.ack(reply, "bench", number + 1)
    generator = OpenLoop(a_load(fake_nats.port, rate=20_000, seconds=0.1))
    told = generator.run()
    assert told["acked"] == 2000
    # Woken every 0.2 ms at most: four are due meanwhile, and a group's sends have one time.
    assert len(set(generator._sends[1::2])) <= 2000 / 3
    # A negative lateness would have been refused by its histogram.
    assert told["late_ms"]["max"] > 0


def test_an_answer_in_pieces_is_one_answer(fake_nats: FakeNats) -> None:
    held = b""

    def in_pieces(number: int, reply: bytes, payload: bytes) -> bytes:
        nonlocal held
        whole = held + fake_nats.ack(reply, "bench", number + 1)
        cut = len(whole) if number == 399 else max(0, len(whole) - number % 50)
        held = whole[cut:]
        return whole[:cut]

    fake_nats.answer = in_pieces
    assert OpenLoop(a_load(fake_nats.port)).run()["acked"] == 400


@pytest.mark.parametrize("size", [32, 5000, 200_000])
def test_a_reply_must_be_the_request(fake_nats: FakeNats, size: int) -> None:
    load = a_load(fake_nats.port, echo=True, stream="", size=size, rate=500, seconds=0.1)
    fake_nats.answer = lambda number, reply, payload: fake_nats.message(reply, payload)
    assert OpenLoop(load).run()["acked"] == 50
    fake_nats.answer = lambda number, reply, payload: fake_nats.message(reply, payload[:-1])
    with pytest.raises(LoadError, match="not the reply to request 0"):
        OpenLoop(load).run()


def test_a_ping_is_answered_between_two_messages(fake_nats: FakeNats) -> None:
    def ping_now_and_then(number: int, reply: bytes, payload: bytes) -> bytes:
        return (b"PING\r\n" if number % 100 == 50 else b"") + fake_nats.ack(reply, "bench", number + 1)

    fake_nats.answer = ping_now_and_then
    assert OpenLoop(a_load(fake_nats.port)).run()["acked"] == 400
    assert fake_nats.lines.count(b"PONG") >= 1


WRONG = [
    (b'{"error":{"code":503,"err_code":1,"description":"too few in sync"}}', "too few in sync"),
    (b'{"stream":"other","seq":1}', "not an ack of stream bench"),
    (b'{"stream":"bench","seq":1}', "400 acks, 1 different sequence numbers"),
    (b"[]", "not an ack of stream bench"),
    (b"{", "not an ack"),
]


@pytest.mark.parametrize(("payload", "reason"), WRONG)
def test_an_answer_that_is_no_real_ack_ends_the_run(fake_nats: FakeNats, payload: bytes, reason: str) -> None:
    fake_nats.answer = lambda number, reply, _payload: fake_nats.message(reply, payload)
    with pytest.raises(LoadError, match=reason):
        OpenLoop(a_load(fake_nats.port)).run()


def test_a_message_that_is_answered_twice_or_never_is_no_result(fake_nats: FakeNats) -> None:
    def twice(number: int, reply: bytes, payload: bytes) -> bytes:
        return fake_nats.ack(reply, "bench", number + 1) + (
            fake_nats.ack(reply, "bench", 1000) if number == 7 else b""
        )

    fake_nats.answer = twice
    with pytest.raises(LoadError, match="message 7 was answered 2 times"):
        OpenLoop(a_load(fake_nats.port)).run()
    fake_nats.published.clear()
    fake_nats.answer = lambda number, reply, payload: (
        b"" if number == 7 else fake_nats.ack(reply, "bench", number + 1)
    )
    with pytest.raises(LoadError, match=r"1 of 400 messages had no answer 2 s after the last was due"):
        OpenLoop(a_load(fake_nats.port, drain_s=2.0)).run()


def refuse_some(fake_nats: FakeNats) -> None:
    answers = {
        7: lambda reply: fake_nats.no_responders(reply),
        8: lambda reply: fake_nats.message(reply, b'{"error":{"code":503}}'),
        9: lambda reply: b"",
    }
    fake_nats.answer = lambda number, reply, payload: answers.get(
        number, lambda to: fake_nats.ack(to, "bench", number + 1)
    )(reply)


def test_refusals_and_silence_are_counted_where_that_is_wanted(fake_nats: FakeNats) -> None:
    refuse_some(fake_nats)
    told = OpenLoop(a_load(fake_nats.port, tolerant=True, drain_s=2.0)).run()
    assert (told["messages"], told["acked"], told["refused"], told["unanswered"]) == (400, 397, 2, 1)
    assert told["reasons"] == {"NATS/1.0 503": 1, '{"error":{"code":503}}': 1}
    fake_nats.published.clear()
    with pytest.raises(LoadError, match=r"message 7 was refused: 'NATS/1\.0 503'"):
        OpenLoop(a_load(fake_nats.port)).run()


def test_a_sequence_number_that_is_given_twice_is_an_error_but_for_who_may_lose(fake_nats: FakeNats) -> None:
    fake_nats.answer = lambda number, reply, payload: fake_nats.ack(reply, "bench", number // 2)
    with pytest.raises(LoadError, match="400 acks, 200 different sequence numbers"):
        OpenLoop(a_load(fake_nats.port, tolerant=True)).run()
    fake_nats.published.clear()
    told = OpenLoop(a_load(fake_nats.port, tolerant=True, may_lose=True)).run()
    assert (told["acked"], told["overwritten"]) == (400, 200)


def test_what_waits_is_bounded(fake_nats: FakeNats) -> None:
    told = OpenLoop(a_load(fake_nats.port, seconds=60, backlog_s=0.1)).run()
    assert told["acked"] == 0 and 200 < told["messages"] < 120_000
    assert told["saturated"] == f"{told['messages']} messages waited for an answer when the run was ended"


def test_a_closed_connection_ends_the_run(fake_nats: FakeNats) -> None:
    def hang_up(number: int, reply: bytes, payload: bytes) -> bytes:
        raise ConnectionAbortedError

    fake_nats.answer = hang_up
    with pytest.raises((LoadError, ConnectionError)):
        OpenLoop(a_load(fake_nats.port)).run()


def test_the_generator_gives_back_what_it_took(fake_nats: FakeNats) -> None:
    before = os.sched_getscheduler(0), gc.isenabled()
    during: list[int] = []
    ours = threading.get_native_id()

    def answer(number: int, reply: bytes, payload: bytes) -> bytes:
        during.append(os.sched_getscheduler(ours))
        return fake_nats.ack(reply, "bench", number + 1)

    fake_nats.answer = answer
    told = OpenLoop(a_load(fake_nats.port)).run()
    assert set(during[:-1]) == ({os.SCHED_RR} if told["realtime"] else {before[0]})
    assert (os.sched_getscheduler(0), gc.isenabled()) == before


def test_without_the_right_to_real_time_it_runs_all_the_same(
    fake_nats: FakeNats, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_scheduler = os.sched_setscheduler

    def refuse(process: int, policy: int, parameter: os.sched_param) -> None:
        if policy == os.SCHED_RR:
            raise PermissionError
        set_scheduler(process, policy, parameter)

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    fake_nats.answer = lambda number, reply, payload: fake_nats.ack(reply, "bench", number + 1)
    told = OpenLoop(a_load(fake_nats.port)).run()
    assert told["acked"] == 400 and told["realtime"] is False
