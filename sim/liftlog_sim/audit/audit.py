"""The audit of a sweep: every case that a sweep may reach, how often it did, and what never came up.

A *case* is a name:

    fault kill                                    a fault struck
    mark R6.diverged                              a node was in this case of a rule
    guard R9.version                              a guard alone said no (`liftlog/core/guards.py`)
    action Raft Timeout                           a step of the core was this action of a model
    strike: kill in shrunk                        a fault struck a partition, or a group, in this state
    publish in shrunk                             a client's operation came in this state
    publish under kill                            it came while this fault lasted
    publish under power losses in shrunk          both, by family of faults

What never came up is a hole in the generator of worlds: mend that, or say in `never.toml`, beside this file,
why no world can, or how many seeds it takes. A reason that a sweep refutes is an error as well.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

import msgspec

from liftlog.core.guards import GUARDS
from liftlog.types import LiftlogError
from liftlog_sim.audit.required import MARKS
from liftlog_sim.chance.fault_plan import KINDS
from liftlog_sim.refine.replicas import required_actions
from liftlog_sim.watching.encounters import (
    BETWEEN,
    GROUP_OPERATIONS,
    NO_FAULT,
    PARTITION_OPERATIONS,
    STRIKE,
)
from liftlog_sim.watching.states import GROUP_STATES, PARTITION_STATES, STATES

REASONS = Path(__file__).parent / "never.toml"

FAMILIES: dict[str, tuple[str, ...]] = {
    "no fault": (NO_FAULT,),
    "deaths": ("kill", "kill_all", "stop", "stop_all", "crash_inside"),
    "power losses": ("power", "power_all", "kill_then_power", "stop_then_power"),
    "broken network": ("partition", "isolate", "one_way", "link", "slow_node", "storm", "accuse", "flap"),
    "lost NATS": ("cut_bus", "cut_both", "deny"),
    "pauses": ("pause", "stutter", "slow_disk"),
    "refusing disks": ("sync_failure", "write_failure", "full_disk"),
    "damage": ("flip", "sector", "misdirect", "latent", "lost_sync", "index_decay"),
    "lost disks": ("lost_folder", "wipe", "rollback", "lost_promises", "total_loss"),
    "liars": ("stranger", "broken_peer", "wire_flips"),
}
"""Kinds of faults that do the same to whoever is in the middle of something."""

FAMILY_OF = {kind: family for family, kinds in FAMILIES.items() for kind in kinds}

FULL, GUARD, PAIR, TRIPLE = "full", "guard", "pair", "triple"
DUE: dict[str, int] = {FULL: 500, GUARD: 3000, PAIR: 10_000, TRIPLE: 10_000}
"""From so many seeds on a case of this kind is wanted."""


class Excuse(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Why some cases do not come up. `cases` may hold `*`. `from_seeds`: 0 = in no world at all, else so many
    seeds on they are wanted like the others.
    """

    cases: tuple[str, ...]
    because: str
    from_seeds: int = 0

    def covers(self, case: str) -> bool:
        return any(case == pattern or fnmatchcase(case, pattern) for pattern in self.cases)


class _Excuses(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    never: tuple[Excuse, ...] = ()


class Audit(msgspec.Struct, kw_only=True, frozen=True):
    """What came of it. `missing`, `refuted` and `idle` have to be empty."""

    seeds: int
    cases: int
    met: int
    explained: int
    """Cases that did not come up, and for which there is a reason."""
    early: list[str]
    """Cases that did not come up, and need not in so few seeds."""
    missing: list[str]
    refuted: list[str]
    """Cases that are said never to come up, and did."""
    idle: list[str]
    """Patterns of reasons that name no case."""

    @property
    def good(self) -> bool:
        return not (self.missing or self.refuted or self.idle)


@cache
def cases() -> dict[str, str]:
    """Every case, with the kind that says from when on it is wanted."""
    found = dict.fromkeys((f"fault {kind}" for kind in KINDS), FULL)
    found |= dict.fromkeys((f"mark {name}" for name in MARKS), FULL)
    found |= dict.fromkeys((f"guard {name}" for name in GUARDS), GUARD)
    found |= dict.fromkeys((f"action {name}" for name in required_actions()), FULL)
    found |= dict.fromkeys((f"{STRIKE}: {kind} in {state}" for kind in KINDS for state in STATES), PAIR)
    for operations, states in (
        (PARTITION_OPERATIONS, PARTITION_STATES),
        (tuple(GROUP_OPERATIONS.values()), GROUP_STATES),
    ):
        for operation in operations:
            found |= dict.fromkeys((f"{operation} in {state}" for state in states), PAIR)
            found |= dict.fromkeys((f"{operation} under {kind}" for kind in KINDS), PAIR)
            triples = (f"{operation} under {family} in {state}" for family in FAMILIES for state in states)
            found |= dict.fromkeys(triples, TRIPLE)
    return found


def numbers(
    counters: Mapping[str, int],
    marks: Mapping[str, int],
    refined: Mapping[str, int],
    encounters: Mapping[str, int],
) -> dict[str, int]:
    """How often each case came up in a sweep."""
    found = dict.fromkeys(cases(), 0)
    for case in found:
        kind, _, name = case.partition(" ")
        if kind == "fault":
            found[case] = counters.get(case, 0)
        elif kind in ("mark", "guard"):
            found[case] = marks.get(name, 0)
        elif kind == "action":
            found[case] = refined.get(name, 0)
    for encounter, number in encounters.items():
        for case in _cases_of(*encounter.split(BETWEEN)):
            if case in found:
                found[case] += number
    return found


def _cases_of(operation: str, fault: str, state: str) -> Iterator[str]:
    if operation == STRIKE:
        yield f"{STRIKE}: {fault} in {state}"
        return
    yield f"{operation} in {state}"
    yield f"{operation} under {fault}"
    yield f"{operation} under {FAMILY_OF[fault]} in {state}"


@cache
def reasons(path: Path = REASONS) -> tuple[Excuse, ...]:
    """What is said about cases that do not come up. Raises LiftlogError."""
    try:
        return msgspec.convert(tomllib.loads(path.read_text(encoding="utf-8")), _Excuses).never
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise LiftlogError(f"cannot read the reasons in {path}: {error}") from error


def explained(prefix: str, seeds: int | None = None) -> dict[str, str]:
    """Cases of this kind that no world brings up, without their prefix, and why. `seeds`: and those that are
    too rare to be wanted of so few.
    """
    return {
        case.removeprefix(prefix): reason.because
        for case in cases()
        if case.startswith(prefix)
        for reason in reasons()
        if reason.covers(case)
        and (not reason.from_seeds or (seeds is not None and seeds < reason.from_seeds))
    }


def judge(found: Mapping[str, int], seeds: int, said: Sequence[Excuse]) -> Audit:
    """Hold the numbers of a sweep of so many seeds against what must come up, and what is said not to."""
    missing: list[str] = []
    refuted: list[str] = []
    early: list[str] = []
    explained = 0
    for case, kind in cases().items():
        reason = next((one for one in said if one.covers(case)), None)
        never = reason is not None and not reason.from_seeds
        if found[case]:
            if never:
                refuted.append(case)
        elif never:
            explained += 1
        elif seeds < max(DUE[kind], reason.from_seeds if reason is not None else 0):
            early.append(case)
        else:
            missing.append(case)
    patterns = [pattern for one in said for pattern in one.cases]
    return Audit(
        seeds=seeds,
        cases=len(cases()),
        met=sum(1 for number in found.values() if number),
        explained=explained,
        early=early,
        missing=missing,
        refuted=refuted,
        idle=[text for text in patterns if not any(Excuse((text,), "").covers(case) for case in cases())],
    )


def told(audit: Audit) -> list[str]:
    """For people."""
    lines = [
        f"audit: {audit.met:,} of {audit.cases:,} cases came up in {audit.seeds:,} seeds; "
        f"{audit.explained:,} cannot, with a reason; {len(audit.early):,} need not in so few"
    ]
    for title, names in (
        ("never came up, and nobody says why; mend the generator, or give a reason", audit.missing),
        (f"came up, although {REASONS.name} says that it cannot; strike the reason", audit.refuted),
        (f"named in {REASONS.name}, and no case", audit.idle),
    ):
        if names:
            lines.append(f"{title}:")
            lines += [f"  {name}" for name in names]
    return lines
