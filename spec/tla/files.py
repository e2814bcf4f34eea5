"""The exported modules in `spec/tla/modules/`: written, compared with the models, run through TLC on request.

TLC is no part of this project. With the environment variable TLA2TOOLS_JAR naming a `tla2tools.jar`,
`run_tlc` runs it on an exported module; its count of distinct states must equal ours.
"""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from pathlib import Path

import msgspec

from spec.lang.model import Model
from spec.lang.types import SpecError
from spec.tla.export import config_text, module_name, module_text

FOLDER = Path(__file__).resolve().parent / "modules"
TLC_VARIABLE = "TLA2TOOLS_JAR"


class TlcResult(msgspec.Struct, frozen=True):
    """What TLC found. `violated`: the invariant's name, or ""."""

    distinct_states: int
    depth: int
    violated: str


def files_of(model: Model) -> dict[str, str]:
    """File name -> content, of a model's module and its configuration."""
    name = module_name(model)
    return {f"{name}.tla": module_text(model), f"{name}.cfg": config_text(model)}


def write(models: list[Model], folder: Path) -> list[Path]:
    """Write the files of all models; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for model in models:
        for name, content in files_of(model).items():
            (folder / name).write_text(content)
            written.append(folder / name)
    return written


def differences(models: list[Model], folder: Path) -> list[str]:
    """What is missing, different or left over in the folder, one line each."""
    wanted: dict[str, str] = {}
    for model in models:
        wanted.update(files_of(model))
    found = {path.name: path.read_text() for path in sorted(folder.glob("*")) if path.is_file()}
    lines = [f"{name} is missing" for name in wanted if name not in found]
    lines += [
        f"{name} differs from its model" for name in wanted if found.get(name, wanted[name]) != wanted[name]
    ]
    return lines + [f"{name} belongs to no model" for name in found if name not in wanted]


def run_tlc(model: Model, jar: str) -> TlcResult:
    """Run TLC on a model. Raises SpecError if it does not come to a verdict."""
    with tempfile.TemporaryDirectory(prefix="liftlog-tlc-") as folder:
        write([model], Path(folder))
        name = module_name(model)
        command = ["java", "-XX:+UseParallelGC", "-cp", os.path.abspath(jar), "tlc2.TLC", "-deadlock"]
        done = subprocess.run(
            [*command, "-config", f"{name}.cfg", f"{name}.tla"], cwd=folder, capture_output=True, text=True
        )
    counts = re.findall(r"(\d+) states generated, (\d+) distinct states found", done.stdout)
    depth = re.search(r"depth of the complete state graph search is (\d+)", done.stdout)
    violated = re.search(r"Invariant (\w+) is violated", done.stdout)
    if not counts or not (depth or violated):
        tail = " ".join(done.stdout.split()[-40:])
        raise SpecError(f"TLC came to no verdict on {name}: {tail}")
    return TlcResult(int(counts[-1][1]), int(depth[1]) if depth else 0, violated[1] if violated else "")
