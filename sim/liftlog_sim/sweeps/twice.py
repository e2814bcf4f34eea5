"""Names what is not determined: seeds run twice, in processes with other hash seeds, and where they part.

A seed stands for one run only as long as nothing else decides: no order of a set or of `hash()`, no clock of
the machine, no thread. Two processes run the same seeds with different PYTHONHASHSEED and tell the trace
hashes. Where those differ both run once more and write down everything that is scheduled, drawn and stepped,
each with the place in the code that did it; the first line that differs names who it was. A thread that is
started during a run is named even if it has changed nothing this time.

Run as a module this is the process that does it: options as JSON lines on stdin, one line of answer each.
"""

from __future__ import annotations

import importlib
import itertools
import os
import subprocess
import sys
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, TextIO

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim import kernel
from liftlog_sim.chance import chances, draws
from liftlog_sim.chance.draws import Draws
from liftlog_sim.kernel import SECOND, Kernel
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.runs.trace import plain
from liftlog_sim.world import World

HASH_SEEDS = ("1", "20011")
OWN_FILES = (draws.__file__, chances.__file__, kernel.__file__, __file__)
"""Who draws or schedules stands behind these."""
TRIES = 3

_encode = msgspec.json.Encoder().encode


class RunAgain(msgspec.Struct, frozen=True):
    """One run that a process is asked for. `log`: where to write what happens; empty = nowhere. `attach`: a
    function ``module:name`` that is given the world before it starts.
    """

    options: RunOptions
    log: str = ""
    attach: str = ""


class RanAgain(msgspec.Struct, frozen=True):
    """How it went. `threads`: what was started in it that the simulator does not control."""

    trace_hash: str
    threads: tuple[str, ...] = ()


class Parting(msgspec.Struct, frozen=True):
    """A seed that is not determined. `one` and `other`: what the two processes did first that differs."""

    seed: int
    steps: int
    """So many steps were the same."""
    one: str
    other: str
    replay: str

    def lines(self) -> list[str]:
        again = f"  again with: {self.replay}"
        if self.one == self.other:
            return [f"seed {self.seed} is not determined: {self.one}", again]
        first = f"seed {self.seed} is not determined: two runs part after step {self.steps}"
        return [first, f"  one:   {self.one}", f"  other: {self.other}", again]


def chosen(options: Sequence[RunOptions], share: float) -> list[RunOptions]:
    """The share of these seeds that is run twice, the same at each call. Raises LiftlogError."""
    if not 0 <= share <= 1:
        raise LiftlogError(f"--twice {share:g} is no share; choose 0 to 1, for example 0.05")
    return [each for each in options if Draws("twice", each.seed).random() < share]


def partings(options: Sequence[RunOptions], jobs: int, attach: str = "") -> Iterator[Parting]:
    """Those of these runs that are not determined, each with who decided what the seed did not."""
    asked = [RunAgain(each, attach=attach) for each in options]
    for run, one, other in zip(options, *_both(asked, jobs), strict=True):
        threads = one.threads or other.threads
        if threads:
            text = f"{threads[0]}; the simulator does not control it"
            yield Parting(run.seed, 0, text, text, _replay(run))
        elif one.trace_hash != other.trace_hash:
            yield _where(run, jobs, attach)


def _replay(options: RunOptions) -> str:
    return options.replay_command().replace(
        f"liftlog sim run --seed {options.seed}", f"liftlog sim sweep --seeds {options.seed} --twice 1", 1
    )


def _both(asked: Sequence[RunAgain], jobs: int, logs: Sequence[str] = ("", "")) -> list[list[RanAgain]]:
    """The answers of two processes; at the same time if there is more than one job."""
    if not asked:
        return [[], []]
    started = []
    found: list[list[RanAgain]] = []
    for hash_seed, log in zip(HASH_SEEDS, logs, strict=True):
        text = b"\n".join(_encode(msgspec.structs.replace(each, log=log)) for each in asked)
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        process = subprocess.Popen(
            [sys.executable, "-m", "liftlog_sim.sweeps.twice"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert process.stdin is not None
        process.stdin.write(text)
        process.stdin.close()
        started.append(process)
        if jobs <= 1:
            found.append(_answers(process, len(asked)))
    return found or [_answers(process, len(asked)) for process in started]


def _answers(process: subprocess.Popen[bytes], wanted: int) -> list[RanAgain]:
    assert process.stdout is not None
    lines = process.stdout.read().splitlines()
    process.stdout.close()
    if process.wait() != 0 or len(lines) != wanted:
        raise LiftlogError(
            f"a process that runs seeds ended with code {process.returncode} after {len(lines)} of {wanted}; "
            "its error stands above"
        )
    return [msgspec.json.decode(line, type=RanAgain) for line in lines]


def _where(options: RunOptions, jobs: int, attach: str) -> Parting:
    """Run it again, with everything written down; by chance it may be the same this time."""
    with tempfile.TemporaryDirectory(prefix="liftlog-twice-") as folder:
        logs = [str(Path(folder) / name) for name in ("one", "other")]
        for _ in range(TRIES):
            _both([RunAgain(options, attach=attach)], jobs, logs)
            steps = 0
            with open(logs[0], encoding="utf-8") as one, open(logs[1], encoding="utf-8") as other:
                for left, right in itertools.zip_longest(one, other, fillvalue="nothing more"):
                    if left != right:
                        return Parting(options.seed, steps, left.strip(), right.strip(), _replay(options))
                    steps += left.startswith("step")
    text = f"not seen again in {TRIES} runs: it depends on time, or on a thread that was there before"
    return Parting(options.seed, 0, text, text, _replay(options))


# -- the process ---------------------------------------------------------------------------------------------


def call_site() -> str:
    """Where in the code this was asked for, behind the simulator's own frame."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename in OWN_FILES:
        frame = frame.f_back
    if frame is None:
        return "nowhere"
    code = frame.f_code
    thread = threading.current_thread()
    where = f"{Path(code.co_filename).name}:{frame.f_lineno} {code.co_qualname}"
    return where if thread is threading.main_thread() else f"{where} in thread '{thread.name}'"


@contextmanager
def threads_noted() -> Iterator[list[str]]:
    """What threads are started meanwhile, and by whom."""
    found: list[str] = []
    start = threading.Thread.start

    def noted(self: threading.Thread) -> None:
        found.append(f"thread '{self.name}' is started in {call_site()}")
        start(self)

    threading.Thread.start = noted  # type: ignore[method-assign]
    try:
        yield found
    finally:
        threading.Thread.start = start  # type: ignore[method-assign]


@contextmanager
def written_down(file: TextIO) -> Iterator[Callable[[World], None]]:
    """Write down all that is scheduled and drawn meanwhile, and the steps of the world that is given."""
    at, after = Kernel.at, Kernel.after

    def noted_at(self: Kernel, time_us: int, action: Any, first: Any = None, second: Any = None) -> None:
        file.write(f"scheduled for {time_us} us: {_name(action)} in {call_site()}\n")
        at(self, time_us, action, first, second)

    def noted_after(self: Kernel, delay_us: int, action: Any, first: Any = None, second: Any = None) -> None:
        file.write(f"scheduled for {self.now_us + delay_us} us: {_name(action)} in {call_site()}\n")
        after(self, delay_us, action, first, second)

    def drawn(name: bytes) -> None:
        file.write(f"drawn: {name.decode()} in {call_site()}\n")

    def watch(world: World) -> None:
        def stepped(machine: Any, event: Any, effects: list[Any]) -> None:
            did = zlib.crc32(_encode([plain(effect) for effect in effects]))
            what = "its start"
            if event is not None:
                what = f"{type(event).__name__} {zlib.crc32(_encode(plain(event))):08x}"
            at_s = world.kernel.now_us / SECOND
            file.write(f"step at {at_s:.6f} s: node {machine.number} takes {what}, effects {did:08x}\n")

        world.observer.on_step = stepped

    Kernel.at, Kernel.after = noted_at, noted_after  # type: ignore[method-assign]
    draws.on_draw = drawn
    try:
        yield watch
    finally:
        Kernel.at, Kernel.after = at, after  # type: ignore[method-assign]
        draws.on_draw = None


def _name(action: Any) -> str:
    return getattr(action, "__qualname__", type(action).__name__)


def answer(asked: RunAgain) -> RanAgain:
    """Run what is asked for, in this process."""
    module, _, name = asked.attach.partition(":")
    attach: Callable[[World], None] | None = None
    if asked.attach:
        attach = getattr(importlib.import_module(module), name)

    def watch(world: World) -> None:
        if attach is not None:
            attach(world)

    with threads_noted() as threads:
        if not asked.log:
            return RanAgain(run_seed(asked.options, watch).trace_hash, tuple(threads))
        with open(asked.log, "w", encoding="utf-8") as file, written_down(file) as writer:

            def both(world: World) -> None:
                writer(world)
                watch(world)

            return RanAgain(run_seed(asked.options, both).trace_hash, tuple(threads))


def main() -> None:
    """Answer each line of stdin."""
    for line in sys.stdin.buffer.read().splitlines():
        sys.stdout.buffer.write(_encode(answer(msgspec.json.decode(line, type=RunAgain))) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
