"""From nothing to insight by the commands that a user types: a failure, its smallest world, page and test.

`scripts/insight.py` does it for ten planted bugs, in processes of their own, and prints the times.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from liftlog.__main__ import main
from liftlog_sim.catalogue.smallest import MOST_ENTRIES, MOST_S, Sought, smallest, summary, told
from liftlog_sim.explain.again import run_again
from liftlog_sim.explain.bundle import read
from liftlog_sim.explain.shrink import counts
from liftlog_sim.sweeps.catching import known_seeds

KNOWN = known_seeds(Path(__file__).resolve().parents[1] / "golden" / "mutants.json")


@pytest.mark.parametrize("mutant", ["raft_quorum_half", "header_ignored"])
def test_a_planted_bug_is_found_shrunk_told_and_shown(
    mutant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = ["run", "--seed", str(KNOWN[mutant].seed), "--mutant", mutant, "--quiet"]
    assert main(["sim", *run]) == 1
    (bundle,) = tmp_path.glob("failures/*.json.gz")
    assert main(["sim", "shrink", str(bundle), "--seconds", "600"]) == 0
    (shrunk,) = tmp_path.glob("failures/*.shrunk.json.gz")
    assert sum(counts(read(shrunk).plan)[:2]) <= MOST_ENTRIES
    assert main(["sim", "report", str(shrunk)]) == 0
    (page,) = tmp_path.glob("failures/*.html")
    assert f"{read(bundle).violation.invariant}" in page.read_text(encoding="utf-8")
    (written,) = tmp_path.glob("failures/test_*.py")
    module: dict[str, object] = {}
    exec(written.read_text(encoding="utf-8"), module)
    shows, clean = (test for name, test in module.items() if name.startswith("test_"))
    assert callable(shows) and callable(clean)
    shows()
    clean()
    module["run_again"] = partial(run_again, mutant=mutant)
    with pytest.raises(AssertionError):
        clean()


def test_all_planted_bugs_can_be_shrunk_and_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["sim", "mutants", "--shrink", "--only", "raft_quorum_half", "--seconds", "600", "--jobs", "1"]
    assert main([*command, "--failures", str(tmp_path)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("raft_quorum_half ") and "LeaderCompleteness (M1): " in said
    assert "=> LeaderCompleteness is violated" in said
    assert "1 of 1 caught and shrunk: faults and operations at most " in said
    assert len(list(tmp_path.glob("*.shrunk.json.gz"))) == 1


def test_what_is_left_too_large_or_took_too_long_is_named(tmp_path: Path) -> None:
    folder = tmp_path
    sought = Sought(name="raft_quorum_half", seconds=600, folder=folder, known=KNOWN["raft_quorum_half"].seed)
    found = smallest(sought)
    assert found.good and found.shrunk is not None
    known = found.known(KNOWN["raft_quorum_half"])
    assert known.shrunk == found.entries and known.shrink_cpu_s == found.seconds
    large = replace(found, shrunk=replace(found.shrunk, faults=MOST_ENTRIES, operations=1))
    slow = replace(found, shrunk=replace(found.shrunk, seconds=MOST_S + 2))
    not_alone = replace(found, shrunk=replace(found.shrunk, clean_without=False))
    survived = replace(found, shrunk=None)
    for missed in (large, slow, not_alone, survived):
        assert summary([found, missed])[-1] == (
            "missed (12 entries, 60 s, clean without it): raft_quorum_half"
        )
        assert not missed.good
    assert len(summary([found])) == 1 and summary([survived]) == ["none was caught"]
    assert told(survived)[0].endswith("SURVIVED 1 seeds") and "NOT CLEAN WITHOUT IT" in told(not_alone)[0]
