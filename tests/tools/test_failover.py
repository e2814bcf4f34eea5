"""`liftlog bench failover`: which figures it tells, of whom, and what it refuses to tell."""

from __future__ import annotations

import json
import signal
from typing import Any

import pytest

from liftlog.bench import failover
from liftlog.bench.failover import (
    LiftlogVictim,
    Outage,
    load_of,
    measure_kills,
    percentile,
    summary_of_kills,
)
from liftlog.cli import main
from liftlog.scratch import Scratch
from liftlog.types import LiftlogError


class Puppet:
    """A system that only notes what is asked of it."""

    seconds = 5.0
    may_lose = True
    port = 4222

    def __init__(self, name: str, asked: list[str]) -> None:
        self.name = name
        self._asked = asked

    def start(self) -> None:
        self._asked.append(f"{self.name} starts")

    def arrange(self, both: bool) -> bool:
        self._asked.append(f"{self.name} {'both' if both else 'one'}")
        return both

    def kill(self) -> None:
        self._asked.append(f"{self.name} is killed")

    def revive(self) -> None:
        self._asked.append(f"{self.name} is back")


def played(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> tuple[list[str], dict[str, list[Outage]]]:
    """Three kills of two puppets, with a generator that says what it is told to."""
    asked: list[str] = []
    monkeypatch.setattr(failover, "BEFORE_S", 0.0)
    clock = iter(range(1000))
    monkeypatch.setattr(failover.time, "monotonic", lambda: 1.0)
    found = {"longest_gap_ms": 0.0, "refused": 3, "unanswered": 1, "overwritten": 2}
    found["started_monotonic_s"] = 0.5

    def run(load: Any, name: str) -> dict[str, Any]:
        assert (load.port, load.seconds, load.tolerant, load.windows) == (4222, 5.0, True, [[4.5, 5.0]])
        assert load.may_lose
        gap = {"longest_gap_ms": 700.0 + next(clock), "windows": [{"acked": 9}]}
        return found | gap | changes

    monkeypatch.setattr(failover, "run_open_loop", run)
    puppets = [Puppet("one", asked), Puppet("other", asked)]
    return asked, measure_kills(puppets, 3, load_of("s", "n"), lambda text: None)


def test_the_systems_take_turns_and_every_second_victim_has_both_offices(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked, found = played(monkeypatch)
    assert asked[:2] == ["one starts", "other starts"]
    assert asked[2:8] == [
        *("one one", "one is killed", "one is back"),
        *("other one", "other is killed", "other is back"),
    ]
    assert asked[8:11] == ["other both", "other is killed", "other is back"]
    assert [kill.both for kill in found["one"]] == [False, True, False]
    assert [kill.gap_ms for kill in found["one"]] == [700.0, 703.0, 704.0]
    assert [kill.overwritten for kill in found["one"]] == [2, 2, 2]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"windows": [{"acked": 0}]}, "no message was acknowledged from"),
        ({"error": "2 acks, 1 different sequence numbers"}, "one: 2 acks"),
        ({"started_monotonic_s": 9.0}, "the kill came -8.0 s after the load began"),
    ],
)
def test_a_round_that_tells_nothing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(LiftlogError, match=words):
        played(monkeypatch, **changes)


def test_percentiles_are_values_that_were_measured() -> None:
    gaps = [float(gap) for gap in range(30, 0, -1)]
    assert (percentile(gaps, 0.5), percentile(gaps, 0.99), percentile([4.0], 0.99)) == (15.0, 30.0, 4.0)
    kills = [Outage(both, gap, 0, 0, 0) for both, gap in ((False, 700.0), (True, 800.0), (False, 720.0))]
    assert summary_of_kills(kills) == {
        **{"p50_ms": 720.0, "p99_ms": 800.0, "max_ms": 800.0},
        **{"one_p50_ms": 700.0, "both_p50_ms": 800.0},
    }
    assert "both_p50_ms" not in summary_of_kills(kills[:1])


def test_a_number_of_kills_that_makes_no_sense_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "failover", "--kills", "0"]) == 2
    assert "--kills 0 is out of range; choose 1 to 1000" in capsys.readouterr().err


@pytest.mark.real
@pytest.mark.slow
def test_two_kills_of_real_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "failover", "--kills", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["liftlog"]
    assert [kill["both"] for kill in told["rounds"]] == [False, True]
    assert all(kill["gap_ms"] > 0 for kill in told["rounds"])


def test_the_victim_is_killed_and_not_asked_to_stop(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Scratch("bench", tmp_path) as scratch:
        victim = LiftlogVictim(scratch, "s", "n")
        sent: list[int] = []
        node = victim._cluster.nodes[1]
        monkeypatch.setattr(type(node), "send", lambda self, number: sent.append(number))
        victim._next = 1
        victim.kill()
    assert sent == [signal.SIGKILL]
