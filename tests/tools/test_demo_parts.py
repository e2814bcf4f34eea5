"""The demo's publisher keeps a true account, and its history is one that the checker can judge."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from liftlog.demo import publisher as publisher_module
from liftlog.demo.account import Kill, write_history
from liftlog.demo.lines import Line, input_lines, subject_of
from liftlog.demo.publisher import FAIL, INFO, OK, Publisher
from liftlog.demo.readback import Poll, ReplicaRead, count_lost
from liftlog.types import LiftlogError
from liftlog_jepsen.store import read_history

if TYPE_CHECKING:
    from .conftest import FakeNats

STREAM = "source"


def some_lines(count: int) -> list[Line]:
    return [Line(f"pkg/m{number % 3}.py", number, f"text {number}") for number in range(1, count + 1)]


def publish(server: FakeNats, lines: list[Line]) -> Publisher:
    publisher = Publisher(server.port, "src", STREAM, lines, lambda acked, epoch, now_ns: None)
    publisher.run()
    return publisher


def ack(server: FakeNats, reply: bytes, offset: int, epoch: int = 5) -> bytes:
    return server.ack(reply, STREAM, offset + 1, offset=offset, partition=0, epoch=epoch, incarnation=7)


# -- input -------------------------------------------------------------------------------------------------


def test_the_standard_library_comes_in_sorted_order_with_unique_values() -> None:
    lines = input_lines(None, 5000)
    assert len(lines) == 5000
    files = list(dict.fromkeys(line.file for line in lines))
    assert files == sorted(files, key=lambda file: file.split("/"))
    assert len({line.value(1) for line in lines}) == 5000


def test_a_file_of_any_bytes_is_read_line_by_line(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"one\n\xff\xfe\nthree")
    lines = input_lines(tmp_path / "in.txt", 2)
    assert lines == [Line("in.txt", 1, "one"), Line("in.txt", 2, "\\xff\\xfe")]


@pytest.mark.parametrize("content", [None, b""])
def test_a_missing_or_empty_input_is_named(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "in.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(LiftlogError, match=r"in\.txt"):
        input_lines(path, 10)


def test_a_second_attempt_at_a_line_is_another_value() -> None:
    line = Line("a.py", 1, "x")
    assert line.value(1) != line.value(2)


def test_a_file_name_becomes_a_valid_subject() -> None:
    assert subject_of("src", "json/decoder.py") == "src.json.decoder_py"
    assert subject_of("src", "a b/>*.py") == "src.a_b.___py"


# -- publisher ---------------------------------------------------------------------------------------------


def test_each_line_is_published_once_when_all_goes_well(fake_nats: FakeNats) -> None:
    fake_nats.answer = lambda number, reply, payload: ack(fake_nats, reply, number)
    lines = some_lines(500)
    publisher = publish(fake_nats, lines)
    assert fake_nats.published == [line.value(1).encode() for line in lines]
    assert list(publisher.attempts.offset) == list(range(500))
    assert set(publisher.attempts.epoch) == {5} and set(publisher.attempts.outcome) == {OK}
    assert fake_nats.headers == {b"NATS/1.0\r\nLiftlog-Ack: full\r\n\r\n"}, "each asks for the full ack"


def test_no_responders_means_fail_and_the_line_is_sent_again(fake_nats: FakeNats) -> None:
    def answer(number: int, reply: bytes, payload: bytes) -> bytes:
        return fake_nats.no_responders(reply) if number < 3 else ack(fake_nats, reply, number)

    fake_nats.answer = answer
    publisher = publish(fake_nats, some_lines(100))
    outcomes = publisher.attempts.outcome
    assert (outcomes.count(FAIL), outcomes.count(OK), outcomes.count(INFO)) == (3, 100, 0)
    assert len(set(publisher.attempts.value)) == 103


@pytest.mark.parametrize("silent", [True, False])
def test_silence_and_errors_mean_unknown_and_the_process_never_acts_again(
    fake_nats: FakeNats, silent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publisher_module, "ACK_TIMEOUT_S", 0.1)
    error = b'{"error":{"code":503,"err_code":10077,"description":"too few in sync"},"stream":"source"}'

    def answer(number: int, reply: bytes, payload: bytes) -> bytes:
        if number == 2:
            return b"" if silent else fake_nats.message(reply, error)
        return ack(fake_nats, reply, number)

    fake_nats.answer = answer
    attempts = publish(fake_nats, some_lines(100)).attempts
    assert (attempts.outcome.count(OK), attempts.outcome.count(INFO)) == (100, 1)
    unknown = attempts.outcome.index(INFO)
    assert attempts.value[unknown] == some_lines(100)[2].value(1)
    assert attempts.process[unknown] not in attempts.process[unknown + 1 :]
    assert some_lines(100)[2].value(2) in attempts.value


def test_an_ack_of_another_stream_is_refused(fake_nats: FakeNats) -> None:
    numbers = {"offset": 0, "epoch": 1, "incarnation": 7}
    fake_nats.answer = lambda number, reply, payload: fake_nats.ack(reply, "other", 1, **numbers)
    with pytest.raises(LiftlogError, match="no ack"):
        publish(fake_nats, some_lines(10))


def test_a_dead_cluster_is_an_error_in_the_end(fake_nats: FakeNats, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publisher_module, "ACK_TIMEOUT_S", 0.05)
    monkeypatch.setattr(publisher_module, "SILENCE_MAX_S", 0.3)
    with pytest.raises(LiftlogError, match="no publication was acknowledged"):
        publish(fake_nats, some_lines(10))


# -- comparison and history --------------------------------------------------------------------------------


def replica(node: int, values: list[str]) -> ReplicaRead:
    return ReplicaRead(node, [Poll(0, values[:40], 1, 2), Poll(40, values[40:], 3, 4)])


def test_a_value_missing_or_elsewhere_on_one_replica_counts_as_lost(fake_nats: FakeNats) -> None:
    fake_nats.answer = lambda number, reply, payload: ack(fake_nats, reply, number)
    attempts = publish(fake_nats, some_lines(100)).attempts
    whole = list(attempts.value)
    assert count_lost(attempts, [replica(1, whole), replica(2, whole)]) == 0
    assert count_lost(attempts, [replica(1, whole), replica(2, whole[:-1])]) == 1
    swapped = [*whole[:50], whole[51], whole[50], *whole[52:]]
    assert count_lost(attempts, [replica(1, swapped), replica(2, whole)]) == 2


def test_the_history_holds_every_attempt_poll_and_kill(fake_nats: FakeNats, tmp_path: Path) -> None:
    def answer(number: int, reply: bytes, payload: bytes) -> bytes:
        if number == 0:
            return fake_nats.no_responders(reply)
        return ack(fake_nats, reply, number - 1, epoch=5 if number < 50 else 6)

    fake_nats.answer = answer
    attempts = publish(fake_nats, some_lines(100)).attempts
    stored = sorted((o, v) for o, v in zip(attempts.offset, attempts.value, strict=True) if o >= 0)
    reads = [replica(node, [value for _, value in stored]) for node in (1, 2)]
    kills = [Kill(2, 10, 20)]
    write_history(tmp_path / "h", "demo", "source/0", attempts, reads, kills, {"nodes": "3"})
    history = read_history(tmp_path / "h")
    ops = list(history.ops())
    sends = [op for op in ops if op.f == "send"]
    assert sorted(op.outcome for op in sends) == ["fail"] + ["ok"] * 100
    assert {mop.epoch for op in sends for mop in op.mops if op.outcome == "ok"} == {5, 6}
    assert {mop.leader for op in sends for mop in op.mops if op.outcome == "ok"} == {7}
    polls = [op for op in ops if op.f == "final-poll"]
    assert len(polls) == 4 and {op.client for op in polls} == {"node 1", "node 2"}
    of_first = [mop.offset for op in polls if op.client == "node 1" for mop in op.mops]
    assert of_first == list(range(100))
    assert [(fault.kind, fault.target) for fault in history.faults] == [("kill", "node 2")]
    per_process: dict[int, list[tuple[int, int]]] = {}
    for op in sends:
        per_process.setdefault(op.process, []).append((op.idx_inv, op.idx_ret or 0))
    for intervals in per_process.values():
        intervals.sort()
        assert all(a[1] < b[0] for a, b in pairwise(intervals))


def test_a_replica_that_has_nothing_still_stands_in_the_history_as_a_reader(
    fake_nats: FakeNats, tmp_path: Path
) -> None:
    fake_nats.answer = lambda number, reply, payload: ack(fake_nats, reply, number)
    attempts = publish(fake_nats, some_lines(10)).attempts
    write_history(tmp_path / "h", "demo", "source/0", attempts, [ReplicaRead(3, [])], [], {})
    (poll,) = [op for op in read_history(tmp_path / "h").ops() if op.f == "final-poll"]
    assert (poll.client, [(mop.key, mop.offset) for mop in poll.mops]) == ("node 3", [("source/0", None)])
