"""`liftlog bench consume`: which runs count, what is told beside the aims, and a small real run."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest

from liftlog.bench import consumer as consuming_program
from liftlog.bench.consume import OUR_WAYS, Beside, Consumption, consuming, ratio
from liftlog.bench.consume_command import verdicts_of
from liftlog.bench.consume_many import ManyPhase
from liftlog.bench.consumer import OURS, THEIRS, ConsumingError, Duties, Sequenced, consume
from liftlog.cli import main
from liftlog.types import LiftlogError

DUTIES = Duties(url="", stream="s", name="c", way="runs", messages=250, batch=100, seconds_max=60.0)


class FakeConsumer:
    """Takes what it is told to; its acks count after `later` questions."""

    def __init__(self, later: int = 0) -> None:
        self.took: list[int] = []
        self.later = later
        self.left = False

    async def take(self, batch: int) -> int:
        self.took.append(batch)
        return batch

    async def unsettled(self) -> int:
        self.later -= 1
        return max(0, self.later + 1)

    async def leave(self) -> None:
        self.left = True


def test_a_run_takes_batches_until_all_is_acked_and_nothing_waits_for_an_ack() -> None:
    consumer = FakeConsumer(later=2)
    found = asyncio.run(consume(consumer, DUTIES))
    assert consumer.took == [100, 100, 50]
    assert found["messages"] == 250 and consumer.later < 0
    assert found["rate"] == pytest.approx(250 / found["seconds"])


def test_a_run_whose_acks_are_lost_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consuming_program, "SETTLED_WITHIN_S", 0.0)
    with pytest.raises(ConsumingError, match="7 of 250 acked messages still wait for an ack"):
        asyncio.run(consume(FakeConsumer(later=7), DUTIES))


def test_messages_have_to_come_once_and_in_order() -> None:
    order = Sequenced()
    order.check([7, 8])
    order.check([])
    order.check([9])
    for wrong in (9, 11):
        with pytest.raises(ConsumingError, match=f"message {wrong} came, 10 was due"):
            order.check([wrong])


def test_each_way_of_acking_belongs_to_one_system() -> None:
    assert set(OUR_WAYS) == set(OURS)
    assert not set(OURS) & set(THEIRS)


def test_a_program_that_cannot_start_says_why() -> None:
    duties = replace(DUTIES, url="nats://127.0.0.1:1", cluster="liftlog", secret_file="none")
    with (
        pytest.raises(LiftlogError, match="the consumer that acks 'runs' failed: cannot reach NATS"),
        consuming(duties),
    ):
        pass


def rounds_of(*rates: float) -> list[Consumption]:
    return [Consumption(100, rate, server_cpu_us=6.0, client_cpu_us=1.0) for rate in rates]


def test_ratios_are_taken_within_the_rounds() -> None:
    assert ratio([10.0, 400.0, 3.0], [5.0, 100.0, 3.0]) == 2.0


def test_what_was_measured_stands_beside_the_aims() -> None:
    rates = {
        "liftlog single": rounds_of(10, 20),
        "liftlog joined": rounds_of(30, 60),
        "liftlog runs": rounds_of(40, 80),
        "liftlog in-turn": rounds_of(1, 2),
        "jetstream-default jetstream-ack": rounds_of(20, 40),
    }
    publishing = {
        "liftlog": [Beside(1.0, 2.0)],
        "liftlog busy": [Beside(1.2, 6.0, 500.0)],
        "jetstream-default": [Beside(1.0, 2.0)],
        "jetstream-default busy": [Beside(2.0, 2.0, 500.0)],
    }
    phases = [
        ManyPhase(name, 1.0, 0.1, memory, 0.5, longest)
        for name, memory, longest in (
            ("none", 40.0, 1.0),
            ("created", 42.0, 20.0),
            ("at rest", 44.5, 5.0),
        )
    ]
    assert verdicts_of(rates, publishing, {"liftlog": phases, "jetstream": phases}) == [
        "liftlog joined: 3.00 times the rate of liftlog single",
        "liftlog runs: 4.00 times the rate of liftlog single (aim: at least 3, met)",
        "liftlog single: 0.50 times the rate of jetstream-default jetstream-ack (aim: at least 0.7, missed)",
        "liftlog joined: 1.50 times the rate of jetstream-default jetstream-ack (aim: at least 0.7, met)",
        "liftlog runs: 2.00 times the rate of jetstream-default jetstream-ack",
        "server CPU of a single ack, us: 6.00",
        "liftlog: publishing beside a busy consumer, p50 over that without: 1.20 (aim: at most 1.5, met)",
        "liftlog: p99 of the same: 3.00",
        "jetstream-default: publishing beside a busy consumer, p50 over that without: 2.00",
        "jetstream-default: p99 of the same: 1.00",
        "liftlog: 4.5 MB more with the consumers than without",
        "the node with them, MB: 44.50 (aim: at most 300, met)",
        "its share of a core with all at rest: 0.10 (aim: at most 0.05, missed)",
        "the longest step with many consumers, ms: 20.00 (aim: at most 10, missed)",
        "jetstream: 4.5 MB more with the consumers than without",
    ]
    assert len(verdicts_of({name: rates[name] for name in list(rates)[:4]}, {}, {})) == 3


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--count", "99", "--count 99 is out of range; choose 100 to 10000000"),
        ("--batch", "1001", "--batch 1001 is out of range; choose 1 to 1000"),
        ("--rate", "0.5", "--rate 0.5 is out of range; choose 1 to 100000, or 0"),
        ("--consumers", "10001", "--consumers 10001 is out of range; choose 0 to 10000"),
        ("--dir", "/nowhere", "--dir /nowhere is not a folder; create it or name another"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    capsys: pytest.CaptureFixture[str], option: str, value: str, words: str
) -> None:
    assert main(["bench", "consume", option, value]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.slow
def test_all_ways_of_real_consumers_and_100_of_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("liftlog.bench.consume.WARM_UP_S", 0.5)
    options = ["--count", "500", "--rounds", "1", "--seconds", "1", "--rate", "100", "--consumers", "100"]
    assert main(["bench", "consume", *options, "--idle", "0.5", "--vs", "jetstream", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    ours = [f"liftlog {way}" for way in OURS]
    assert list(told["consuming"]) == ours + [f"jetstream-default {way}" for way in THEIRS]
    assert all(one["messages"] > 0 for rounds in told["consuming"].values() for one in rounds)
    assert len(told["publishing"]) == 4
    for system in ("liftlog", "jetstream"):
        phases = told["many"][system]
        assert [one["name"] for one in phases] == ["none", "created", "at rest", "pulls wait", "served"]
        assert all(one["memory_mb"] > 0 for one in phases)
    assert told["many"]["liftlog"][1]["step_max_ms"] > 0
    assert len(told["verdicts"]) == 18
