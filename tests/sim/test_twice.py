"""What is not determined is named: planted, and found in two processes with other hash seeds."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from liftlog.cli import main
from liftlog.types import LiftlogError
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.sweeps.twice import chosen, partings

RUN = RunOptions(seed=3, duration_s=2, profile="calm")


@pytest.mark.parametrize(
    ("planted", "named"),
    [
        ("hash_order", "drawn: 3/planted/"),
        ("wall_time", "scheduled for"),
        ("set_order", "scheduled for"),
        ("thread", "thread 'planted' is started"),
    ],
)
def test_what_decides_besides_the_seed_is_named(
    planted: str, named: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    (found,) = partings([RUN], 2, f"planted:{planted}")
    assert found.one.startswith(named)
    assert "planted.py:" in found.one and f"{planted}.<locals>.go" in found.one
    assert found.replay == "liftlog sim sweep --seeds 3 --twice 1 --profile calm --duration 2 --faults all"
    if planted != "thread":
        assert found.steps > 10 and found.one != found.other
    assert "planted" not in sys.modules, "it runs in processes of its own"


def test_seeds_are_determined_in_both_gears() -> None:
    options = [RunOptions(seed=seed, duration_s=3, gear=gear) for seed, gear in ((1, "step"), (2, "trio"))]
    assert not list(partings(options, 2))


def test_a_share_of_all_seeds_is_chosen_and_always_the_same() -> None:
    options = [RunOptions(seed=seed) for seed in range(400)]
    few = chosen(options, 0.1)
    assert 20 < len(few) < 60 and few == chosen(options, 0.1)
    assert chosen(options, 1) == options and chosen(options, 0) == []
    assert [each.seed for each in few] == [each.seed for each in chosen(options, 0.2) if each in few]
    with pytest.raises(LiftlogError, match="choose 0 to 1"):
        chosen(options, 2)


def test_a_sweep_runs_a_share_twice(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sim", "sweep", "--seeds", "0:2", "--duration", "2", "--jobs", "1", "--twice", "1"]) == 0
    assert "run twice: 2 seeds, in processes with other hash seeds; none parted" in capsys.readouterr().out
    assert main(["sim", "sweep", "--seeds", "0:2", "--twice", "3"]) == 2
    assert "--twice 3 is no share" in capsys.readouterr().err
