"""The committed record of the last whole sweep is of this code, and only a clean sweep writes one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from liftlog.cli import main
from liftlog.types import LiftlogError
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.sweeps.record import COMMAND, RECORD, read_record, sources_hash

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow  # Quick, but it cannot hold between a change and the sweep after it, as `make check` must.
def test_the_last_whole_sweep_was_of_this_code() -> None:
    record = read_record(ROOT / RECORD)
    assert (record.seeds, record.options, record.verdict) == ("0:1000", "--faults all --refine", "clean")
    assert record.sources == sources_hash(), (
        f"liftlog/ or sim/ has changed since the sweep that {RECORD} tells of; "
        f"run '{COMMAND}' and commit the file"
    )


def test_the_hash_follows_the_sources_and_nothing_else(tmp_path: Path) -> None:
    for name in ("liftlog/core/one.py", "liftlog/two.py", "sim/liftlog_sim/three.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    checkout = [tmp_path / "liftlog", tmp_path / "sim" / "liftlog_sim"]
    first = sources_hash(checkout)
    cache = tmp_path / "liftlog/core/__pycache__"
    cache.mkdir()
    (cache / "one.cpython-311.pyc").write_bytes(b"\0")
    (checkout[1] / "notes.txt").write_text("not a source")
    assert sources_hash(checkout) == first
    installed = tmp_path / "site-packages"
    for package in checkout:
        shutil.copytree(package, installed / package.name)
    assert sources_hash([installed / package.name for package in checkout]) == first
    (checkout[1] / "three.py").write_text("changed")
    changed = sources_hash(checkout)
    (checkout[1] / "three.py").rename(checkout[1] / "four.py")
    assert len({first, changed, sources_hash(checkout)}) == 3


@pytest.mark.slow
def test_a_clean_sweep_writes_a_record(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "sweep.json"
    arguments = ["sim", "sweep", "--seeds", "0:2", "--jobs", "1", "--duration", "5", "--record", str(path)]
    assert main(arguments) == 0
    record = read_record(path)
    assert (record.seeds, record.options) == ("0:2", "--duration 5 --faults all --refine")
    assert record.sources == sources_hash()
    assert record.simulated_s > 10 and record.checks > 0
    assert main([*arguments[:-1], str(tmp_path)]) == 2
    assert "choose another path" in capsys.readouterr().err


@pytest.mark.slow
def test_a_sweep_that_fails_writes_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nor does it keep its verdict to itself because a failure does not come again, to be bundled."""

    def fails(options: object) -> object:
        result = run_seed(options)  # type: ignore[arg-type]
        result.invariant, result.finding = "LogMatching", "planted by a test"
        return result

    monkeypatch.setattr("liftlog_sim.sweeps.sweep.run_seed", fails)
    path = tmp_path / "sweep.json"
    assert main(["sim", "sweep", "--seeds", "0", "--duration", "2", "--record", str(path)]) == 1
    out = capsys.readouterr().out
    assert "verdict: FAILED" in out
    assert "no bundle of seed 0, LogMatching: seed 0 ran through the same steps a second time" in out
    assert not path.exists()


@pytest.mark.slow
def test_code_that_changes_during_a_sweep_gets_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hashes = iter(("before", "after"))
    monkeypatch.setattr("liftlog_sim.sweeps.record.sources_hash", lambda: next(hashes))
    path = tmp_path / "sweep.json"
    assert main(["sim", "sweep", "--seeds", "0", "--duration", "2", "--record", str(path)]) == 2
    assert "the code was changed during the sweep" in capsys.readouterr().err
    assert not path.exists()


def test_a_missing_record_names_the_command(tmp_path: Path) -> None:
    with pytest.raises(LiftlogError, match=f"write it with '{COMMAND}'"):
        read_record(tmp_path / "none.json")
