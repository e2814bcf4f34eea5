"""`liftlog bench partitions`: what it makes of the nodes' counts, and a small run of real processes."""

from __future__ import annotations

import json

import pytest

from liftlog.bench.partitions import buckets_of, configs_for, difference, percentile_ms
from liftlog.cli import main
from liftlog.eyes.names import STEP_CPU

PAGE = f"""\
# TYPE {STEP_CPU.name} histogram
{STEP_CPU.name}_bucket{{le="0.001"}} 7
{STEP_CPU.name}_bucket{{le="0.02"}} 9.0
{STEP_CPU.name}_bucket{{le="+Inf"}} 1.0e+01
{STEP_CPU.name}_sum 0.1
{STEP_CPU.name}_count 10
"""
INFINITE = float("inf")


def test_streams_have_as_many_partitions_as_were_asked_for() -> None:
    for count in (1, 30, 500, 501, 2000, 2003):
        sizes = [config.partitions for config in configs_for(count, 3)]
        assert sum(sizes) == count
        assert max(sizes) - min(sizes) <= 1 and max(sizes) <= 500
        assert len(sizes) == -(-count // 500)


def test_steps_of_a_phase_are_what_was_counted_since_by_those_that_are_asked() -> None:
    now = buckets_of(PAGE)
    assert now == {0.001: 7, 0.02: 9, INFINITE: 10}
    before = {1: {0.001: 5, 0.02: 5, INFINITE: 5}, 3: {0.001: 99, 0.02: 99, INFINITE: 99}}
    assert difference(before, {1: now, 2: now}) == {0.001: 9, 0.02: 13, INFINITE: 15}


def test_percentiles_are_ends_of_buckets() -> None:
    buckets = {0.001: 990, 0.02: 999, 0.1: 1000, INFINITE: 1000}
    assert [percentile_ms(buckets, share) for share in (0.5, 0.99, 0.999, 1.0)] == [1.0, 1.0, 20.0, 100.0]
    assert percentile_ms({}, 0.5) == 0.0
    assert percentile_ms({0.001: 0, INFINITE: 0}, 1.0) == 0.0


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--partitions", "0", "--partitions 0 is out of range; choose 1 to 100000"),
        ("--nodes", "2", "--nodes 2 is out of range; choose 3 to 7"),
        ("--dir", "/nowhere", "--dir /nowhere is not a folder; create it or name another"),
        ("--set", "tick=150", "'tick=150' is no setting: write NAME=N with a name of the nodes' [protocol]"),
        ("--set", "tick_ms=soon", "'tick_ms=soon' is no setting"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    capsys: pytest.CaptureFixture[str], option: str, value: str, words: str
) -> None:
    assert main(["bench", "partitions", option, value]) == 2
    assert words in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.slow
def test_thirty_partitions_of_real_nodes_and_two_kills(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # Whoever measures waits until all is calm, and for as many streams of JetStream.
    monkeypatch.setattr("liftlog.bench.partitions.SETTLE_S", 0.5)
    options = ["--partitions", "30", "--idle", "1", "--vs", "jetstream", "--vs-seconds", "3", "--json"]
    assert main(["bench", "partitions", *options]) == 0
    told = json.loads(capsys.readouterr().out)
    phases = {phase["name"]: phase for phase in told["phases"]}
    assert list(phases) == ["creation", "idle", "node killed", "controller killed"]
    assert all(phase["steps"] > 0 and phase["p50_ms"] <= phase["max_ms"] for phase in told["phases"])
    assert phases["node killed"]["moved"] > 0
    assert told["jetstream"]["created"] > 0
