"""Compiles what a simulated world runs most into C with mypyc: a faster copy of the packages (ADR 0064).

    python scripts/compile.py [--to build/compiled] [--jobs 2]
    PYTHONPATH=build/compiled .venv/bin/liftlog sim sweep --seeds 0:1000

The copy lies in a folder of its own, sources and extension modules together, and nothing is ever compiled
beside the sources. Python finds it by PYTHONPATH. Trace hashes are the same, which `liftlog sim bench --vs
build/compiled` says beside how much faster it is. A copy that is as the sources are is left as it is.

What is not compiled goes on as Python, in the same copy: modules that define msgspec structs (mypyc loses
the `frozen=True` of a class that has a metaclass), and those of `KEPT`.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {"liftlog": ".", "liftlog_sim": "sim", "liftlog_spec": "spec", "liftlog_jepsen": "jepsen"}
ROOMS = (
    *("liftlog/core", "liftlog/storage", "liftlog/trace", "liftlog/options"),
    *("liftlog/format.py", "liftlog/codec.py", "liftlog/epochs.py"),
    *("liftlog/messages/intake.py", "liftlog/driver", "liftlog/subjects"),
    *("liftlog_sim/kernel.py", "liftlog_sim/chance", "liftlog_sim/devices", "liftlog_sim/truth"),
    *("liftlog_sim/watching", "liftlog_sim/workload", "liftlog_sim/refine"),
    "liftlog_sim/runs/step_gear.py",
    *("liftlog_spec/refine", "liftlog_spec/run/expressions.py"),
)
"""Where a sweep spends its time."""
KEPT = {
    "liftlog/core/metadata/metadata.py": "its base has slots and lies beside structs",
    "liftlog/core/total_loss": "runs once in a cluster's life",
    "liftlog_sim/devices/frames.py": "derives from bytes",
    "liftlog_sim/devices/still.py": "assigns two names at once in a class",
    "liftlog_sim/workload/workload.py": "studies derive from its clients",
}
"""What of that stays Python, and why."""
OPTIMIZATION = "2"
CONFIG = """\
[mypy]
strict = true
ignore_missing_imports = true
[mypy-liftlog_spec.models.*]
ignore_errors = true
"""


def is_kept(name: str) -> bool:
    """Whether this module, a path below the packages, stays Python by our word."""
    return any(name == kept or name.startswith(f"{kept}/") for kept in KEPT)


def defines_structs(text: str) -> bool:
    """Whether a class there has a metaclass, or options: msgspec's, all of them."""
    classes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ClassDef)]
    return any(one.keywords or any("Struct" in ast.unparse(base) for base in one.bases) for one in classes)


def sources() -> Iterator[tuple[str, Path]]:
    """Every file of the packages: its place in the copy, and where it lies."""
    for package, folder in PACKAGES.items():
        root = ROOT / folder
        for path in sorted((root / package).rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path.relative_to(root).as_posix(), path


def compiled(files: Iterable[tuple[str, Path]]) -> list[str]:
    """The modules that are compiled, as places in the copy."""
    return [
        name
        for name, path in files
        if name.endswith(".py")
        and not name.endswith("__init__.py")
        and any(name == room or name.startswith(f"{room}/") for room in ROOMS)
        and not is_kept(name)
        and not defines_structs(path.read_text(encoding="utf-8"))
    ]


def same_names(text: str) -> list[tuple[str, str]]:
    """Functions and names that two of their `except` clauses bind to different types. mypyc gives a name the
    type of the first, and raises TypeError when the second has caught something.
    """
    found = []
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        types: dict[str, set[str]] = {}
        for clause in ast.walk(function):
            if isinstance(clause, ast.ExceptHandler) and clause.name and clause.type:
                types.setdefault(clause.name, set()).add(ast.unparse(clause.type))
        found += [(function.name, name) for name, caught in types.items() if len(caught) > 1]
    return found


def digest(parts: Iterable[bytes]) -> str:
    """Of contents in their order."""
    found = hashlib.sha256()
    for part in parts:
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()[:32]


def copy_to(target: Path, files: Iterable[tuple[str, Path]]) -> None:
    """Lay the sources there anew. What C compilers have made of earlier ones is kept (`objects`)."""
    for package in PACKAGES:
        shutil.rmtree(target / package, ignore_errors=True)
    for old in target.glob(f"*{sysconfig.get_config_var('EXT_SUFFIX')}"):
        old.unlink()
    for name, path in files:
        place = target / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, place)


def compiler() -> list[str]:
    """How a C file is compiled here. Exits if there is no compiler."""
    words = shlex.split(os.environ.get("CC", "") or "gcc")
    if shutil.which(words[0]) is None:
        raise SystemExit(
            f"compile: there is no C compiler {words[0]!r} here; install one (apt-get install gcc), name it "
            "in CC, or go on without: interpreted, everything does the same"
        )
    return words


def build(jobs: int, command: list[str], extensions: list[Any]) -> None:
    """Compile and link; the copy is the present folder. What was compiled before is not compiled again."""
    objects = Path("objects")
    objects.mkdir(exist_ok=True)
    headers = digest(path.read_bytes() for path in sorted(Path("c").rglob("*.h")))
    include = ["-I", sysconfig.get_paths()["include"], "-fPIC", "-DNDEBUG", "-fwrapv"]

    def compile_one(source: str, flags: list[str]) -> str:
        name = digest([Path(source).read_bytes(), headers.encode(), repr((command, flags)).encode()])
        object_file = objects / f"{name}.o"
        if not object_file.exists():
            part = object_file.with_suffix(".part")
            subprocess.run([*command, *include, *flags, "-c", source, "-o", str(part)], check=True)
            part.rename(object_file)
        return str(object_file)

    with ThreadPoolExecutor(jobs) as pool:
        made = [
            [
                pool.submit(
                    compile_one,
                    source,
                    [*(f"-I{folder}" for folder in extension.include_dirs), *extension.extra_compile_args],
                )
                for source in extension.sources
            ]
            for extension in extensions
        ]
        for extension, parts in zip(extensions, made, strict=True):
            place = Path(extension.name.replace(".", "/") + sysconfig.get_config_var("EXT_SUFFIX"))
            linked = [part.result() for part in parts]
            subprocess.run([*command, "-shared", *linked, "-o", str(place)], check=True)


def try_all(modules: list[str]) -> None:
    """Import all of the simulator in the copy. Exits if something cannot be, or is not compiled."""
    names = [name.removesuffix(".py").replace("/", ".") for name in modules]
    code = (
        "import importlib, pkgutil, sys, liftlog_sim\n"
        "for one in pkgutil.walk_packages(liftlog_sim.__path__, 'liftlog_sim.'):\n"
        "    importlib.import_module(one.name)\n"
        "for name in sys.stdin.read().split():\n"
        "    file = importlib.import_module(name).__file__\n"
        "    assert file.endswith('.so'), f'{name} was not compiled'\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    tried = subprocess.run(
        [sys.executable, "-P", "-c", code], input="\n".join(names), text=True, env=environment, check=False
    )
    if tried.returncode:
        raise SystemExit("compile: the copy cannot be imported; what Python says stands above")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--to", type=Path, default=ROOT / "build" / "compiled", help="default build/compiled")
    parser.add_argument("--jobs", type=int, default=2, help="C files compiled at a time (default 2)")
    options = parser.parse_args()
    command = compiler()
    files = list(sources())
    target: Path = options.to.resolve()
    stamp = target / "of"
    contents = (path.read_bytes() for _, path in files)
    now = digest([sys.version.encode(), Path(__file__).read_bytes(), *contents])
    if stamp.exists() and stamp.read_text() == now:
        print(f"{target} is as the sources are")
        return 0
    stamp.unlink(missing_ok=True)
    copy_to(target, files)
    modules = compiled(files)
    os.chdir(target)
    os.environ["MYPYPATH"] = "."
    Path("mypy.ini").write_text(CONFIG)
    from mypyc.build import mypycify

    words = ["--config-file", "mypy.ini", "--python-version", "3.11", *modules]
    extensions = mypycify(
        words, opt_level=OPTIMIZATION, debug_level="0", multi_file=True, target_dir="c", group_name="liftlog"
    )
    build(options.jobs, command, extensions)
    try_all(modules)
    stamp.write_text(now)
    print(f"{target}: {len(modules)} modules compiled; put it into PYTHONPATH")
    return 0


if __name__ == "__main__":
    sys.exit(main())
