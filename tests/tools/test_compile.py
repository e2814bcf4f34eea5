"""scripts/compile.py: what it compiles, where it lies, and that the same seeds make the same steps there."""

from __future__ import annotations

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from liftlog_sim.bench.process import BenchRun, BenchWorker

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "compile.py"
SEEDS = range(6)


@pytest.fixture(scope="module")
def compile_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("compile_script", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_what_a_sweep_lives_in_is_compiled_and_structs_are_not(compile_script: ModuleType) -> None:
    modules = compile_script.compiled(compile_script.sources())
    assert {"liftlog/core/node.py", "liftlog/format.py", "liftlog_sim/kernel.py"} <= set(modules)
    assert not {"liftlog/messages/events.py", "liftlog/core/metadata/records.py"} & set(modules)
    for room in compile_script.ROOMS:
        assert any(name == room or name.startswith(f"{room}/") for name in modules), room


def test_what_stays_python_is_there(compile_script: ModuleType) -> None:
    names = [name for name, _ in compile_script.sources()]
    for kept in compile_script.KEPT:
        assert any(name == kept or name.startswith(f"{kept}/") for name in names), kept


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("class A(msgspec.Struct, frozen=True): ...", True),
        ("class A(Struct): ...", True),
        ("class A(B, tag='x'): ...", True),
        ("class A(NamedTuple): ...", False),
        ("x: type[Struct]", False),
    ],
)
def test_a_struct_is_seen(compile_script: ModuleType, text: str, found: bool) -> None:
    assert compile_script.defines_structs(text) is found


def test_a_compiled_module_binds_a_name_to_one_type_of_exceptions(compile_script: ModuleType) -> None:
    """Seeds of which storage had found damage failed in the copy alone, with a TypeError."""
    files = dict(compile_script.sources())
    modules = compile_script.compiled(files.items())
    found = [(name, *one) for name in modules for one in compile_script.same_names(files[name].read_text())]
    assert not found, "let each `except` of these functions bind a name of its own"


def test_names_of_exceptions_are_compared(compile_script: ModuleType) -> None:
    one = "def f():\n try: g()\n except A as e: h(e)\n except B as {}: h({})\n"
    assert compile_script.same_names(one.format("e", "e")) == [("f", "e")]
    assert compile_script.same_names(one.format("other", "other")) == []


def test_a_compiled_class_names_what_it_gives_to_its_base(compile_script: ModuleType) -> None:
    """Each seed failed in the copy alone: what came as `*given` was handed on as one tuple."""
    files = dict(compile_script.sources())
    found = [
        f"{name}:{node.lineno}"
        for name in compile_script.compiled(files.items())
        for node in ast.walk(ast.parse(files[name].read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".__init__")
        if any(isinstance(one, ast.Starred) for one in node.args)
    ]
    assert not found, "spell the arguments out: mypyc hands a starred tuple on whole"


def test_a_copy_has_all_packages_and_nothing_of_an_earlier_one(
    compile_script: ModuleType, tmp_path: Path
) -> None:
    old = tmp_path / "liftlog" / "core" / "gone.py"
    old.parent.mkdir(parents=True)
    old.write_text("")
    source = tmp_path / "there.py"
    source.write_text("x = 1\n")
    compile_script.copy_to(tmp_path, [("liftlog/core/there.py", source)])
    assert not old.exists()
    assert (tmp_path / "liftlog" / "core" / "there.py").read_text() == "x = 1\n"


def test_without_a_compiler_it_says_what_to_do(tmp_path: Path) -> None:
    environment = {**os.environ, "CC": "no-such-compiler"}
    command = [sys.executable, str(SCRIPT), "--to", str(tmp_path / "copy")]
    tried = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert tried.returncode == 1
    assert "there is no C compiler 'no-such-compiler' here; install one" in tried.stderr
    assert not (tmp_path / "copy").exists()


def test_nothing_is_compiled_beside_the_sources() -> None:
    folders = [ROOT / name for name in ("liftlog", "sim", "spec", "jepsen")]
    assert [path for folder in folders for path in folder.rglob("*.so")] == []


@pytest.mark.nightly
def test_compiled_and_interpreted_seeds_have_the_same_trace_hashes() -> None:
    """All of it is compiled: minutes, and a C compiler."""
    target = ROOT / "build" / "compiled"
    subprocess.run([sys.executable, str(SCRIPT), "--to", str(target)], check=True)
    with BenchWorker() as ours, BenchWorker(target) as theirs:
        for seed in SEEDS:
            for gear in ("step", "trio"):
                wanted = BenchRun(seed=seed, nodes=3, gear=gear)
                assert theirs.run(wanted).trace_hash == ours.run(wanted).trace_hash, (seed, gear)
