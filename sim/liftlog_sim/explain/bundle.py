"""The failure bundle: everything that is known of one failed run, in one JSON file.

Whoever has the file needs neither the seed's draws nor the machine that found it: the world is stated
(settings and plan), the steps are there as a trace has them, and beside them, in the same order, what each
step changed on its node and which earlier steps it came from. `read` and `write` take a path that ends in
`.json` or `.json.gz`.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Any

import msgspec

from liftlog.offsets import OffsetSet
from liftlog.types import LiftlogError
from liftlog_sim.chance.plan import Plan
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.runs.runs import RunOptions

FORMAT = 1
SUFFIXES = (".json", ".json.gz")


class TracedStep(msgspec.Struct, frozen=True):
    """One step of one node, exactly a line of a trace (`runs/trace.py`)."""

    at_us: int
    node: int
    event: Any
    """`[name, fields]`; None = the start of a process."""
    effects: list[Any]
    hash: str


class Happening(msgspec.Struct, frozen=True):
    """What befell the world between two steps: a fault strikes, a process starts, everything is healed."""

    at_us: int
    before_step: int
    """It lies before this step of the trace, and after the one before it."""
    what: str
    """The name of a status row: a kind of fault, `start`, `stop`, `heal`, `leader`, ..."""
    detail: str
    node: int = 0
    """0 = no single node."""


class Violated(msgspec.Struct, frozen=True, kw_only=True):
    """The invariant that does not hold, and what changed on the node when it ceased to."""

    invariant: str
    finding: str
    rule: str
    """The number of the rule in spec/README.md, R6 say; empty if the invariant stands for none."""
    sentence: str
    """What the rule says."""
    at_us: int
    at_step: int = msgspec.field(name="step")
    """Place in the trace of the step that showed it; -1 = no step was taken at all."""
    node: int
    before: dict[str, Any]
    """Only what changed in that step, by the names of `Bundle.changes`."""
    after: dict[str, Any]


class Disagreed(msgspec.Struct, frozen=True, kw_only=True):
    """The first step that the model does not explain; it may lie long before the violation."""

    model: str
    """`isr-steps` or `raft`."""
    at_us: int
    at_step: int = msgspec.field(name="step")
    node: int
    action: str
    """The model's action that the step should have been; empty if there is none at all."""
    finding: str
    """Why it was not: the guard that says no, or the values that differ."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """The world but for what happens in it."""

    options: RunOptions
    knobs: Knobs


class Bundle(msgspec.Struct, frozen=True, kw_only=True):
    """See the module."""

    format: int
    liftlog: str
    """The version that failed."""
    sources: str
    """Hash of its code (`sweeps/record.py`): with another one the same world may run differently."""
    seed: int
    settings: Settings
    plan: Plan
    """All that chance decided; what is None in it is the seed's."""
    violation: Violated
    disagreement: Disagreed | None
    replay: str
    """The command line that runs exactly this again."""
    trace_hash: str
    story: list[str]
    """Lines of at most 110 characters, causes first."""
    trace: list[TracedStep]
    changes: list[dict[str, Any]]
    """For each step what it changed on its node (`explain/states.py`); at a process's first step
    all of it."""
    causes: list[list[int]]
    """For each step the earlier steps that it came from, but for the one before it on the same node."""
    happenings: list[Happening]
    altered: tuple[int, ...] = ()
    """Steps that took a message which a broken peer or the wire had altered, or a stranger had sent."""


def _in_words(value: object) -> str:
    """What is told of a set of offsets in a step: there may be millions."""
    if isinstance(value, OffsetSet):
        return str(value)
    raise NotImplementedError(f"{type(value)} in a bundle")


_encode = msgspec.json.Encoder(enc_hook=_in_words).encode
_decode = msgspec.json.Decoder(Bundle).decode


def check_suffix(path: Path) -> None:
    """Whether a path can name a bundle. Raises LiftlogError."""
    if not path.name.endswith(SUFFIXES):
        raise LiftlogError(f"{path} cannot be a bundle; its name must end in {' or '.join(SUFFIXES)}")


def write(bundle: Bundle, path: Path) -> None:
    """Write a bundle, compressed if the path ends in `.gz`; the same bundle makes the same bytes. Raises
    LiftlogError.
    """
    check_suffix(path)
    data = _encode(bundle)
    if path.name.endswith(".gz"):
        data = gzip.compress(data, compresslevel=6, mtime=0)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as error:
        raise LiftlogError(
            f"cannot write the bundle {path}: {error.strerror}; choose another path"
        ) from error


def read(path: Path) -> Bundle:
    """Read a bundle. Raises LiftlogError if it is none, or of another format."""
    check_suffix(path)
    try:
        data = path.read_bytes()
        if path.name.endswith(".gz"):
            data = gzip.decompress(data)
        form = msgspec.json.decode(data, type=_Form).format
        if form != FORMAT:
            raise LiftlogError(
                f"the bundle {path} has format {form}, this liftlog reads format {FORMAT} only"
            )
        return _decode(data)
    except (EOFError, zlib.error, gzip.BadGzipFile, msgspec.MsgspecError) as error:
        raise LiftlogError(
            f"{path} is not a bundle: {error}; 'liftlog sim run' writes one when it fails"
        ) from None
    except OSError as error:
        raise LiftlogError(f"cannot read the bundle {path}: {error.strerror}") from None


class _Form(msgspec.Struct):
    format: int
