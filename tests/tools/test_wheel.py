"""A wheel gives all of the product: commands and modules of every room, under no name that may clash."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import google_crc32c
import msgspec
import nats
import pyarrow
import pyspark
import pytest
import rich
import trio

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {
    "liftlog": ROOT / "liftlog",
    "liftlog_sim": ROOT / "sim" / "liftlog_sim",
    "liftlog_spec": ROOT / "spec" / "liftlog_spec",
    "liftlog_jepsen": ROOT / "jepsen" / "liftlog_jepsen",
}
LIBRARIES = (google_crc32c, msgspec, nats, pyarrow, pyspark, rich, trio)
HISTORY = """\
{:process 0, :type :invoke, :f :write, :value 1}
{:process 0, :type :ok, :f :write, :value 1}
{:process 1, :type :invoke, :f :read, :value nil}
{:process 1, :type :ok, :f :read, :value 2}
"""
IMPORT_EACH = """
import importlib, sys
for name in sys.argv[1:]:
    path = importlib.import_module(name).__file__
    assert path.startswith(sys.prefix), path
print(*sorted({"sim", "spec", "jepsen", "tests"} & set(sys.modules)))
"""
AS_LIBRARIES = f"""
from liftlog_jepsen.events import pair
from liftlog_jepsen.formats import FORMATS, read_bytes
from liftlog_jepsen.objects import MODELS, check_object
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.registry import build
print(run_seed(RunOptions(seed=1, duration_s=2)).invariant or "clean")
print(check(build("twophase", "impatient", {{}}), Bounds()).verdict)
format = FORMATS["edn-lines"]
operations = pair(read_bytes({HISTORY.encode()!r}, "history", format), "history")
print(check_object(MODELS["register"], operations, format.options).valid)
"""


def files_of_packages() -> set[str]:
    """Every file that belongs to a package, by its place in an installation."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *map(str, PACKAGES.values())]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    paths = [ROOT / name for name in listed.splitlines()]
    return {
        f"{package}/{path.relative_to(folder).as_posix()}"
        for package, folder in PACKAGES.items()
        for path in paths
        if path.is_relative_to(folder) and path.is_file()
    }


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel of the checkout, built in a copy of it: building leaves files behind."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("liftlog", "sim", "spec", "jepsen"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")
    command = [sys.executable, "-m", "pip", "wheel", *offline, "--wheel-dir", str(folder), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path) -> Path:
    """The folder of a new environment: the wheel, and the way to the libraries of this one."""
    environment = wheel.parent / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (site,) = environment.glob("lib/python*/site-packages")
    assert list(site.iterdir()) == []
    offline = ("--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", "--quiet")
    command = [sys.executable, "-m", "pip", "--python", str(environment / "bin" / "python"), "install"]
    done = subprocess.run([*command, *offline, str(wheel)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    names = {path.name for path in site.iterdir()}
    assert {name for name in names if not name.endswith(".dist-info")} == set(PACKAGES)
    folders = sorted({str(Path(library.__file__ or "").resolve().parents[1]) for library in LIBRARIES})
    (site / "libraries.pth").write_text("\n".join(folders) + "\n")
    return environment


def run(environment: Path, folder: Path, *command: str) -> str:
    """What a command of the environment prints, run in a folder from which nothing can be imported."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LIFTLOG_"))}
    line = [str(environment / "bin" / command[0]), *command[1:]]
    done = subprocess.run(
        line, cwd=folder, env=clean, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_has_every_file_of_every_package_and_no_other(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert names == files_of_packages()


def test_every_module_can_be_imported_and_comes_from_the_installation(
    wheel: Path, installed: Path, tmp_path: Path
) -> None:
    with zipfile.ZipFile(wheel) as archive:
        sources = [name for name in archive.namelist() if name.endswith(".py")]
    modules = [name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in sources]
    # The one that is a program, not a module.
    modules.remove("liftlog.__main__")
    assert len(modules) > 500
    assert run(installed, tmp_path, "python", "-c", IMPORT_EACH, *modules) == "\n"


def test_each_room_is_a_library(installed: Path, tmp_path: Path) -> None:
    assert run(installed, tmp_path, "python", "-c", AS_LIBRARIES).split() == ["clean", "violated", "False"]


def test_each_room_has_its_commands(installed: Path, tmp_path: Path) -> None:
    def liftlog(words: str) -> str:
        return run(installed, tmp_path, "liftlog", *words.split())

    assert "no invariant was violated" in liftlog("sim run --seed 1 --duration 5 --history run.jsonl")
    assert "no invariant was violated" in liftlog("sim sweep --seeds 0:2 --duration 1 --jobs 2")
    assert "ok   calm" in liftlog("sim scenario calm")
    assert "1 scenarios" in liftlog("sim cover raft-two.jsonl:000")
    assert "holds in every reachable state" in liftlog("spec check --model twophase")
    assert "tla/RaftRight.tla" in liftlog("spec export") and (tmp_path / "tla" / "RaftRight.tla").is_file()
    assert liftlog("jepsen check run.jsonl").startswith("VALID")
    assert (tmp_path / "run.html").is_file()
