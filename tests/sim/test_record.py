"""The committed record of the last whole sweep is of this code, and only a clean sweep writes one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from liftlog.cli import main
from liftlog.types import LiftlogError
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.sweeps.record import COMMAND, RECORD, read_record, sources_hash, swept_sources

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow  # Quick, but it cannot hold between a change and the sweep after it, as `make check` must.
def test_the_last_whole_sweep_was_of_this_code() -> None:
    record = read_record(ROOT / RECORD)
    assert (record.seeds, record.options, record.verdict) == ("0:1000", "--faults all --refine", "clean")
    assert record.sources == sources_hash(), (
        f"what a sweep runs has changed since the sweep that {RECORD} tells of; "
        f"run '{COMMAND}' and commit the file"
    )


def write_checkout(folder: Path) -> dict[str, Path]:
    """Two packages: a sweep that runs a world through another module, and a command that no world knows."""
    sources = {
        "core/__init__.py": "",
        "core/log.py": "import os\nfrom core import words\n",
        "core/words.py": "def late():\n    import core.inner.deep\n",
        "core/inner/__init__.py": "# of the package around it\n",
        "core/inner/deep.py": "",
        "core/command.py": "import worlds.sweep\n",
        "worlds/__init__.py": "",
        "worlds/sweep.py": "from core.log import words\n",
    }
    for name, text in sources.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return {name: folder / name for name in ("core", "worlds")}


def test_the_hash_follows_what_a_sweep_runs_and_nothing_else(tmp_path: Path) -> None:
    packages = write_checkout(tmp_path / "checkout")
    assert sorted(swept_sources("worlds.sweep", packages)) == [
        "core", "core.inner", "core.inner.deep", "core.log", "core.words", "worlds", "worlds.sweep",
    ]  # fmt: skip

    def present(packages: dict[str, Path] = packages) -> str:
        return sources_hash("worlds.sweep", packages)

    first = present()
    (packages["core"] / "command.py").write_text("changed")
    (packages["core"] / "notes.txt").write_text("not a source")
    assert present() == first
    installed = tmp_path / "site-packages"
    for name, package in packages.items():
        shutil.copytree(package, installed / name)
    assert present({name: installed / name for name in packages}) == first
    hashes = {first}
    for changed in ("core/inner/__init__.py", "core/inner/deep.py", "core/words.py", "worlds/sweep.py"):
        path = packages["core"].parent / changed
        path.write_text(path.read_text() + "# changed\n")
        hashes.add(present())
    assert len(hashes) == 5


@pytest.mark.slow
def test_every_module_that_a_world_loads_is_in_the_hash() -> None:
    """In a process of its own: what other tests have imported does not count."""
    program = (
        "import sys\n"
        "from liftlog_sim.runs.runner import run_seed\n"
        "from liftlog_sim.runs.runs import RunOptions\n"
        "from liftlog_sim.sweeps import sweep\n"
        "for gear in ('step', 'trio'):\n"
        "    run_seed(RunOptions(seed=1, duration_s=3, gear=gear, refine=True))\n"
        "print(*(name for name in sys.modules if name.partition('.')[0] in "
        "('liftlog', 'liftlog_sim', 'liftlog_spec')))\n"
    )
    loaded = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    missing = set(loaded.stdout.split()) - swept_sources().keys()
    assert not missing
    assert "liftlog.core.node" in loaded.stdout and "liftlog.bench.life" not in swept_sources()


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
