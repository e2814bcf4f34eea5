"""Loads studies (`study/own.py`) from Python files, and attaches them to a world.

A file is named in `RunOptions.studies`, as it was on the command line, so that sweeps on several processes,
bundles and shrinking find it again. It is read anew when it has changed.
"""

from __future__ import annotations

import hashlib
import linecache
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from liftlog.messages import Event, Outcome
from liftlog.types import LiftlogError
from liftlog_sim.chance.draws import Draws
from liftlog_sim.chance.fault_plan import KINDS, TARGETS, Fault
from liftlog_sim.chance.plan import CLIENTS, OwnNames, Plan
from liftlog_sim.devices.machine import Machine
from liftlog_sim.study.own import Own, OwnClient, OwnFault, OwnInvariant
from liftlog_sim.truth.invariants import Checks, Violation
from liftlog_sim.world import World

FIRST_OWN = 3_000_000
"""Own faults are numbered apart from the others, those of each class from another million on."""
_BASES = (Own, OwnFault, OwnClient, OwnInvariant)


class Study:
    """What some files define."""

    def __init__(self, files: Sequence[str], parts: Sequence[type[Own]], code: str) -> None:
        self.files = tuple(files)
        self.code = code
        """A hash of the files; empty if there are none."""
        self.faults = [part for part in parts if issubclass(part, OwnFault)]
        self.clients = [part for part in parts if issubclass(part, OwnClient)]
        self.invariants = [part for part in parts if issubclass(part, OwnInvariant)]
        self.names = OwnNames(
            tuple(part.plan_name() for part in self.faults), tuple(part.plan_name() for part in self.clients)
        )
        self.final = tuple(part.__name__ for part in self.invariants if part.ended is not OwnInvariant.ended)
        """Invariants that may show at the very end of a run only."""
        self._sentences = {part.__name__: part.sentence() for part in parts}

    def sentence(self, invariant: str) -> str:
        """What an own invariant says; empty for others."""
        return self._sentences.get(invariant, "")

    def unreached(self, counters: dict[str, int], checks: dict[str, int]) -> list[str]:
        """What of it never came up in a sweep."""
        missing = [f"fault {kind}" for kind in self.names.kinds if not counters.get(f"fault {kind}")]
        missing += [f"turns of {name}" for name in self.names.clients if not counters.get(f"turns of {name}")]
        return missing + [
            f"invariant {part.__name__}" for part in self.invariants if not checks.get(part.__name__)
        ]

    def without_own(self, faults: str) -> str:
        """The list that `--faults` gives, without own kinds; "none" if nothing else was in it."""
        wanted = [part.strip() for part in faults.split(",") if part.strip()]
        rest = [name for name in wanted if name not in self.names.kinds]
        return faults if len(rest) == len(wanted) else ",".join(rest) or "none"

    def struck_by(self, faults: str) -> list[type[OwnFault]]:
        """The own faults that strike where `--faults` says this."""
        wanted = [part.strip() for part in faults.split(",")]
        return [part for part in self.faults if "all" in wanted or part.plan_name() in wanted]

    def attach(self, world: World, plan: Plan | None, faults: str) -> None:
        """Add all of it to a world that has not started. `faults`: as `RunOptions` has it."""
        _Attached(self, world, self.struck_by(faults) if plan is None or plan.faults is None else [])


class _Attached:
    """A study in one world."""

    def __init__(self, study: Study, world: World, drawn: Sequence[type[OwnFault]]) -> None:
        self._study = study
        self._world = world
        self._standing: list[tuple[OwnFault, Machine]] = []
        """Strikes that were not taken back yet."""
        for place, kind in enumerate(study.faults):
            one = self._made(kind, world)
            world.faults.learn(kind.plan_name(), self._striking(one), self._take_all_back)
            if kind in drawn and not world.knobs.quiet_from_us and not world.knobs.sick_from_us:
                world.faults.plan += kind.drawn(world.seed, world.knobs, FIRST_OWN + 1_000_000 * place)
        for part in study.clients:
            for number in range(part.clients):
                world.workload.join(self._made(part, world, number, self.guard).join)
        watching = [self._made(part, world) for part in study.invariants]
        if watching:
            self._watch(watching)

    def _made(self, part: type[Any], *arguments: Any) -> Any:
        return self.guard(part, part, *arguments)

    def guard(self, who: object, what: Callable[..., Any], *arguments: Any) -> Any:
        """Call what a study defines. An error in it is the study's, and is told as such."""
        try:
            return what(*arguments)
        except (Violation, LiftlogError):
            raise
        except Exception as error:
            at_s = self._world.kernel.now_us / 1_000_000
            place = _place_of(error, self._study.files)
            raise LiftlogError(
                f"{place}: {type(error).__name__}: {error}, at {at_s:.6f} s of seed {self._world.seed}; "
                "mend the study"
            ) from error

    def _watch(self, watching: list[OwnInvariant]) -> None:
        wiring, guard = self._world.wiring, self.guard
        before = wiring.stepped
        looking = [one for one in watching if type(one).stepped is not OwnInvariant.stepped]

        def stepped(machine: Machine, event: Event | None, outcome: Outcome) -> None:
            before(machine, event, outcome)
            for one in looking:
                guard(one, one.stepped, machine, event, outcome.effects)

        def ended() -> None:
            for one in watching:
                guard(one, one.ended)

        wiring.stepped = stepped
        self._world.endings.append(ended)

    def _striking(self, one: OwnFault) -> Callable[[Machine, Fault, Draws], None]:
        def strike(machine: Machine, fault: Fault, draws: Draws) -> None:
            detail = self.guard(one, one.strike, machine, draws)
            if not isinstance(detail, str):
                self.guard(one, _refuse, one, detail)
            if detail:
                self._world.faults.done(fault, detail)
                self._standing.append((one, machine))
                self._world.kernel.after(fault.duration_us, self._take_back, (one, machine))

        return strike

    def _take_back(self, struck: tuple[OwnFault, Machine], second: object) -> None:
        if struck in self._standing:
            self._standing.remove(struck)
            self.guard(struck[0], struck[0].take_back, struck[1])

    def _take_all_back(self) -> None:
        """The fault phase is over."""
        for struck in tuple(self._standing):
            self._take_back(struck, None)


def _refuse(one: OwnFault, detail: object) -> None:
    raise TypeError(f"{type(one).__name__}.strike returned {detail!r} instead of what happened, in words")


def _place_of(error: Exception, files: Sequence[str]) -> str:
    """Where in the study it went wrong."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename in files:
            return f"{frame.filename}, line {frame.lineno}, {frame.name}"
    return ", ".join(files)


# -- from files ----------------------------------------------------------------------------------------------

NO_STUDY = Study((), (), "")
_loaded: dict[tuple[str, str], list[type[Own]]] = {}


def load_study(files: Sequence[str]) -> Study:
    """What these files define. Raises LiftlogError."""
    if not files:
        return NO_STUDY
    parts: list[type[Own]] = []
    total = hashlib.sha256()
    for file in files:
        try:
            source = Path(file).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise LiftlogError(f"cannot read the study {file}: {why}; choose a Python file") from None
        code = hashlib.sha256(source.encode()).hexdigest()
        total.update(code.encode())
        if (file, code) not in _loaded:
            _loaded[file, code] = _parts_of(file, source)
        parts += _loaded[file, code]
    _check_names(parts)
    return Study(files, parts, total.hexdigest())


def _parts_of(file: str, source: str) -> list[type[Own]]:
    """Run a file; the classes that it defines."""
    name = f"liftlog_study_{Path(file).stem}"
    module = ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    linecache.checkcache(file)
    try:
        exec(compile(source, file, "exec"), module.__dict__)
    except SyntaxError as error:
        raise LiftlogError(
            f"the study {file} is not Python: {error.msg} (line {error.lineno}); mend that line"
        ) from None
    except Exception as error:
        place = _place_of(error, [file])
        raise LiftlogError(f"{place}: {type(error).__name__}: {error}; mend the study") from error
    own = [part for part in vars(module).values() if isinstance(part, type) and part.__module__ == name]
    parts: list[type[Own]] = [part for part in own if issubclass(part, (OwnFault, OwnClient, OwnInvariant))]
    if not parts:
        bases = ", ".join(base.__name__ for base in (OwnFault, OwnClient, OwnInvariant))
        raise LiftlogError(
            f"the study {file} defines nothing; write a class that is one of {bases} "
            "(docs/simulator.md, 'A guide for researchers')"
        )
    for part in parts:
        problem = _problem_of(part)
        if problem:
            raise LiftlogError(f"the study {file}, class {part.__name__}: {problem}")
    return parts


def _problem_of(part: type[Own]) -> str:
    """Why a class cannot be used; empty if it can."""
    if not part.sentence():
        return "say in its docstring what it is"
    if issubclass(part, OwnInvariant):
        silent = part.stepped is OwnInvariant.stepped and part.ended is OwnInvariant.ended
        return "it never looks; define stepped, or ended" if silent else ""
    for field, least in (("every_s", 0.001), ("lasting_s", 0), ("clients", 1)):
        value = getattr(part, field, least)
        if not isinstance(value, int | float) or not least <= value <= 100_000:
            return f"{field} is {value!r}; choose {least:g} to 100000"
    if issubclass(part, OwnFault):
        named = [name for name, _ in TARGETS]
        if part.strike is OwnFault.strike:
            return "it never strikes; define strike"
        if str(part.target) not in named and not str(part.target).isdigit():
            return f"target is {part.target!r}; choose from {', '.join(named)}, or a node's number"
    if issubclass(part, OwnClient) and part.act is OwnClient.act:
        return "it does nothing; define act"
    return ""


def _check_names(parts: Sequence[type[Own]]) -> None:
    """Every name stands for one thing. Raises LiftlogError."""
    taken = {*KINDS, *CLIENTS, *Checks().counts}
    for part in parts:
        for name in {part.__name__, part.plan_name()}:
            if name in taken:
                file = sys.modules[part.__module__].__file__
                raise LiftlogError(
                    f"the study {file}, class {part.__name__}: there is a '{name}' already; call it otherwise"
                )
        taken |= {part.__name__, part.plan_name()}
