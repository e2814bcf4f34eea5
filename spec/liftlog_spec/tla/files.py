"""The exported modules: those in `liftlog_spec/tla/modules/`, their variants by digest, and TLC's count
beside ours.

One module for each model is kept there, of its default variant. The others differ from it in a line or two;
`variants.sha256` says what they are, in the form of `sha256sum`, and `liftlog spec export --variant` writes
them.

TLC is no part of this project. With the environment variable TLA2TOOLS_JAR naming a `tla2tools.jar`,
`run_tlc` runs it on an exported module; its count of distinct states must equal ours.
"""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import tempfile
from pathlib import Path

import msgspec

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.lang.model import Model
from liftlog_spec.lang.types import SpecError
from liftlog_spec.registry import build, entry_of, every_model, right_models
from liftlog_spec.tla.export import config_text, module_name, module_text

FOLDER = Path(__file__).resolve().parent / "modules"
DIGESTS = "variants.sha256"
TLC_VARIABLE = "TLA2TOOLS_JAR"


class TlcResult(msgspec.Struct, frozen=True):
    """What TLC found. `violated`: the invariant's name, or ""."""

    distinct_states: int
    depth: int
    violated: str


class Comparison(msgspec.Struct, frozen=True):
    """One model at its small bounds, explored by us and by TLC."""

    model: str
    bounds: dict[str, int]
    ours: TlcResult
    theirs: TlcResult

    @property
    def equal(self) -> bool:
        return self.ours == self.theirs


def files_of(model: Model) -> dict[str, str]:
    """File name -> content, of a model's module and its configuration."""
    name = module_name(model)
    return {f"{name}.tla": module_text(model), f"{name}.cfg": config_text(model)}


def kept_files() -> dict[str, str]:
    """What belongs into the folder: one module for each model, and the digests of all other variants."""
    kept: dict[str, str] = {}
    for model in right_models():
        kept.update(files_of(model))
    others: dict[str, str] = {}
    for model in every_model():
        others.update((name, text) for name, text in files_of(model).items() if name not in kept)
    lines = [f"{hashlib.sha256(text.encode()).hexdigest()}  {name}\n" for name, text in others.items()]
    return {**kept, DIGESTS: "".join(lines)}


def default_folder() -> Path:
    """Where modules are written unless told otherwise: in a checkout where they are kept, else here."""
    return FOLDER if (FOLDER.parents[3] / "pyproject.toml").is_file() else Path("tla")


def write(files: dict[str, str], folder: Path) -> list[Path]:
    """Write files; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content)
    return [folder / name for name in files]


def differences(wanted: dict[str, str], folder: Path) -> list[str]:
    """What is missing, different or left over in the folder, one line each; for digests the variants."""
    found = {path.name: path.read_text() for path in sorted(folder.glob("*")) if path.is_file()}
    lines = [f"{name} is missing" for name in wanted if name not in found]
    for name, text in wanted.items():
        if name == DIGESTS and name in found:
            changed = set(text.splitlines()) ^ set(found[name].splitlines())
            lines += [
                f"{module} is another than {DIGESTS} says" for module in sorted({c[66:] for c in changed})
            ]
        elif found.get(name, text) != text:
            lines.append(f"{name} differs from its model")
    return lines + [f"{name} belongs to no model" for name in found if name not in wanted]


def compare(name: str, jar: str) -> Comparison:
    """A model at its small bounds in our eyes and in TLC's. Raises SpecError if TLC comes to no verdict."""
    small = entry_of(name).small
    model = build(name, "", small)
    report = check(model, Bounds())
    ours = TlcResult(report.distinct_states, report.depth, report.invariant)
    return Comparison(name, small, ours, run_tlc(model, jar))


def run_tlc(model: Model, jar: str) -> TlcResult:
    """Run TLC on a model. Raises SpecError if it does not come to a verdict."""
    with tempfile.TemporaryDirectory(prefix="liftlog-tlc-") as folder:
        write(files_of(model), Path(folder))
        name = module_name(model)
        command = ["java", "-XX:+UseParallelGC", "-cp", os.path.abspath(jar), "tlc2.TLC", "-deadlock"]
        try:
            done = subprocess.run(
                [*command, "-config", f"{name}.cfg", f"{name}.tla"],
                cwd=folder,
                capture_output=True,
                text=True,
            )
        except FileNotFoundError:
            raise SpecError("TLC needs Java, and there is no java on the PATH") from None
    counts = re.findall(r"(\d+) states generated, (\d+) distinct states found", done.stdout)
    depth = re.search(r"depth of the complete state graph search is (\d+)", done.stdout)
    violated = re.search(r"Invariant (\w+) is violated", done.stdout)
    if not counts or not (depth or violated):
        tail = " ".join((done.stdout + done.stderr).split()[-40:])
        raise SpecError(f"TLC came to no verdict on {name}: {tail}")
    return TlcResult(int(counts[-1][1]), int(depth[1]) if depth else 0, violated[1] if violated else "")
