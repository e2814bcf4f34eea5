"""`liftlog sim bench` measures what it says: rates, shares, memory, and another checkout beside this one."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from liftlog.cli import main
from liftlog_sim.bench.command import lines_of
from liftlog_sim.bench.measuring import OTHER, PLAIN, STEP, TRIO, Bench
from liftlog_sim.bench.worker import DOORS, PARTS, Doors, PartMeter

ROOT = Path(__file__).parents[2]
SMALL = ["sim", "bench", "--seeds", "3:5", "--rounds", "1", "--duration", "5"]

pytestmark = pytest.mark.slow


def test_rates_shares_and_memory_are_measured_beside_another_checkout(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main([*SMALL, "--vs", str(ROOT), "--minutes", "2", "--json"]) == 0
    bench = msgspec.json.decode(capsys.readouterr().out, type=Bench)
    assert (bench.seeds, bench.nodes, bench.rounds, bench.same) == (2, 3, 1, True)
    assert list(bench.rates) == [STEP, TRIO, PLAIN, OTHER]
    assert bench.rates[STEP].ratio == 1.0 and all(rate.least > 0 for rate in bench.rates.values())
    assert bench.simulated_s > 10 and bench.steps > 500
    for gear in (STEP, TRIO):
        shares = bench.shares[gear]
        assert tuple(shares.parts) == PARTS
        assert sum(shares.parts.values()) == pytest.approx(1)
        assert all(shares.parts[part] > 0.005 for part in ("core", "storage", "world", "invariants"))
        assert shares.parts["refinement"] > 0.005 and shares.doors > 0
    assert 10 < bench.memory.before_mb < bench.memory.peak_mb
    assert bench.minutes is not None and len(bench.minutes.mb) == 2
    assert 0 < bench.minutes.disks_mb[0] < bench.minutes.disks_mb[1] < bench.minutes.mb[1]
    assert 0 < bench.minutes.committed[0] < bench.minutes.committed[1]
    told = "\n".join(lines_of(bench))
    assert "simulated seconds in a CPU second:" in told and "has the same trace hashes" in told
    assert "share of each part:" in told and "memory at each of 2 simulated minutes" in told
    assert "KB a minute, " in told and "of them on simulated disks" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--rounds", "0"], "--rounds 0 is out of range; choose 1 to 100"),
        (["--minutes", "1"], "--minutes 1 is out of range; choose 2 to 1000"),
        (["--duration", "0"], "--duration 0 is out of range; choose 1 to 3600"),
        (["--vs", str(ROOT / "docs")], "docs/liftlog; name a checkout of liftlog"),
    ],
)
def test_what_cannot_be_measured_is_refused(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*SMALL, *arguments]) == 2
    assert said in capsys.readouterr().err


def test_time_belongs_to_the_part_that_was_entered_last_and_doors_are_taken_out_again() -> None:
    from liftlog.core.node import Node

    before = Node.step
    meter = PartMeter()
    with Doors(meter):
        assert Node.step is not before
        meter.enter("core")
        meter.enter("storage")
        meter.leave()
        inside = meter.seconds["storage"]
        assert inside > 0
        meter.leave()
    assert Node.step is before
    assert meter.seconds["storage"] == inside and meter.seconds["core"] > 0
    assert {part for part, *_ in DOORS} < set(PARTS)
