"""`liftlog bench jetstream`: which runs count, what is told beside the aims, and a small real run."""

from __future__ import annotations

import json

import pytest

from liftlog.bench.consumer import ConsumingError
from liftlog.bench.door import Visited, visited
from liftlog.bench.door_command import aims, verdicts_of
from liftlog.bench.door_systems import STREAM_OF
from liftlog.bench.door_user import WORKS, Visit, check_sequences
from liftlog.bench.rounds import median_and_spread, ratios
from liftlog.cli import main
from liftlog.types import LiftlogError


def rounds_of(*rates: float, cpu_us: float = 6.0) -> list[Visited]:
    return [Visited(100, rate, {"nats-server": 1.0, "nodes": cpu_us - 1.0}, 1.0) for rate in rates]


def test_ratios_are_taken_within_the_rounds() -> None:
    assert ratios([10.0, 400.0, 3.0], [5.0, 100.0, 3.0]) == [2.0, 4.0, 1.0]
    assert median_and_spread([2.0, 4.0, 1.0]) == (2.0, 1.5)


def test_the_processor_time_of_all_servers_counts() -> None:
    (one,) = rounds_of(10, cpu_us=7.5)
    assert one.cpu_us == 7.5


def test_what_was_measured_stands_beside_the_aims() -> None:
    found = {
        "pull": {
            "liftlog": rounds_of(6, 15, 8, cpu_us=9.0),
            "jetstream-default": rounds_of(10, 20, 10),
            "jetstream-always": rounds_of(6, 5, 8),
        },
        "put": {
            "liftlog": rounds_of(60),
            "jetstream-default": rounds_of(80),
            "jetstream-always": rounds_of(10),
        },
    }
    assert verdicts_of(found, 1) == [
        "pull: 0.75 times the rate of jetstream-default (0.60 to 0.80), 1.5 times its CPU "
        "(aim: at least 0.7, met)",
        "pull: 1.00 times the rate of jetstream-always (1.00 to 3.00), 1.5 times its CPU",
        "put: 0.75 times the rate of jetstream-default (0.75 to 0.75), 1.0 times its CPU",
        "put: 6.00 times the rate of jetstream-always (6.00 to 6.00), 1.0 times its CPU "
        "(aim: at least 5, met)",
    ]


def test_with_three_replicas_publishing_is_to_be_as_fast() -> None:
    for replicas, least in ((1, 0.9), (3, 1.0)):
        found = {"publish": {"liftlog": rounds_of(95), "jetstream-default": rounds_of(100)}}
        verdict = "met" if replicas == 1 else "missed"
        assert verdicts_of(found, replicas)[0].endswith(f"(aim: at least {least:g}, {verdict})")


def test_servers_that_used_no_tick_of_the_processor_are_told_of_too() -> None:
    found = {"pull": {"liftlog": rounds_of(8, cpu_us=0.0), "jetstream-always": rounds_of(4)}}
    told = "pull: 2.00 times the rate of jetstream-always (2.00 to 2.00), 0.0 times its CPU"
    assert verdicts_of(found, 1) == [told]


def test_works_and_aims_are_of_one_list() -> None:
    assert set(STREAM_OF) == set(WORKS)
    assert {aim.work for aim in aims(1)} < set(WORKS)


def test_two_acks_of_one_sequence_do_not_count() -> None:
    check_sequences([1, 3, 2], "put")
    with pytest.raises(ConsumingError, match="put: 3 acks name 2 sequences"):
        check_sequences([1, 2, 2], "put")


class Nowhere:
    """A system where nobody listens."""

    name = "nowhere"

    @property
    def parts(self) -> dict[str, list[int]]:
        return {}

    def start(self) -> None: ...

    def port_for(self, work: str) -> int:
        return 1


def test_a_program_that_cannot_begin_says_why() -> None:
    with pytest.raises(LiftlogError, match="'pull' failed on nowhere: NoServersError"):
        visited(Nowhere(), Visit(url="", work="pull", name="r1", messages=1))


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--count", "99", "--count 99 is out of range; choose 100 to 10000000"),
        ("--batch", "1001", "--batch 1001 is out of range; choose 1 to 1000"),
        ("--at-once", "0", "--at-once 0 is out of range; choose 1 to 10000"),
        ("--dir", "/nowhere", "--dir /nowhere is not a folder; create it or name another"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    capsys: pytest.CaptureFixture[str], option: str, value: str, words: str
) -> None:
    assert main(["bench", "jetstream", option, value]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.parametrize("replicas", ["1", pytest.param("3", marks=pytest.mark.nightly)])
def test_all_works_on_real_servers(capsys: pytest.CaptureFixture[str], replicas: str) -> None:
    options = ["--replicas", replicas, "--count", "300", "--rounds", "1", "--json"]
    assert main(["bench", "jetstream", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    assert list(told["works"]) == list(WORKS)
    for rounds in told["works"].values():
        assert list(rounds) == ["liftlog", "jetstream-default", "jetstream-always"]
        assert all(one["messages"] > 0 and one["rate"] > 0 for each in rounds.values() for one in each)
    assert len(told["verdicts"]) == 12
