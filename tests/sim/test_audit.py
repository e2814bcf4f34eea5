"""A sweep is audited: each case it may reach is counted, what never came up is named, reasons have to be
true; and a canary is planted, so that a sweep that would not notice anything says so.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from liftlog.core.guards import GUARDS
from liftlog.types import LiftlogError
from liftlog_sim.audit.audit import (
    DUE,
    FAMILY_OF,
    TRIPLE,
    Excuse,
    cases,
    judge,
    numbers,
    reasons,
    told,
)
from liftlog_sim.audit.coverage import table, undecided
from liftlog_sim.audit.required import MARKS
from liftlog_sim.chance.fault_plan import KINDS
from liftlog_sim.profiles.mutants import MUTANTS, mutant_named
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.sweeps import canary
from liftlog_sim.sweeps.catching import catch
from liftlog_sim.sweeps.sweep import run_sweep
from liftlog_sim.watching.encounters import BETWEEN, GROUP_OPERATIONS, NO_FAULT, PARTITION_OPERATIONS, STRIKE
from liftlog_sim.watching.states import GROUP_STATES, IN_SYNC, PARTITION_STATES

ROOT = Path(__file__).resolve().parents[2]
MARKED = re.compile(r'mark\(\s*"([A-Z][A-Z0-9]*\.[a-z0-9-]+)"')


def test_an_encounter_is_an_operation_under_a_fault_in_a_state() -> None:
    found = run_seed(RunOptions(seed=1, profile="kills", duration_s=20)).encounters
    triples = [tuple(name.split(BETWEEN)) for name in found]
    assert {len(triple) for triple in triples} == {3}
    operations = {*PARTITION_OPERATIONS, *GROUP_OPERATIONS.values(), STRIKE}
    assert {operation for operation, _, _ in triples} <= operations
    assert {fault for _, fault, _ in triples} <= {*KINDS, NO_FAULT}
    assert {state for _, _, state in triples} <= {*PARTITION_STATES, *GROUP_STATES}
    assert found[BETWEEN.join(("publish", NO_FAULT, IN_SYNC))] > 0
    struck = [state for operation, _, state in triples if operation == STRIKE]
    assert "one controller" in struck and IN_SYNC in struck
    assert any(fault != NO_FAULT and operation == "read" for operation, fault, _ in triples)


def test_counting_changes_nothing_and_ends_with_the_fault_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    from liftlog_sim.watching.encounters import Encounters

    counted = run_seed(RunOptions(seed=2, duration_s=10))
    assert sum(counted.encounters.values()) > 0
    calm = run_seed(RunOptions(seed=2, duration_s=10, faults="none"))
    assert {name.split(BETWEEN)[1] for name in calm.encounters} == {NO_FAULT}
    for name in ("struck", "published", "requested"):
        monkeypatch.setattr(Encounters, name, lambda self, what: None)
    assert run_seed(RunOptions(seed=2, duration_s=10)).trace_hash == counted.trace_hash


def test_every_mark_of_the_sources_is_looked_for() -> None:
    found: set[str] = set()
    for path in sorted((ROOT / "liftlog").rglob("*.py")):
        found.update(MARKED.findall(path.read_text()))
    assert len(found) > 100
    assert sorted(found - set(MARKS) - set(GUARDS)) == []


def test_every_mark_that_is_looked_for_is_in_the_sources() -> None:
    """`L3.folds` was asked of every sweep for months, and nothing could say it."""
    text = "".join(path.read_text() for path in sorted((ROOT / "liftlog").rglob("*.py")))
    told_by_kind = re.findall(r'(?:mark\(f|refuse\()"([A-Z]\d)(?:\.\{|",)', text)
    nobody_says = [mark for mark in MARKS if f'"{mark}"' not in text]
    assert [mark for mark in nobody_says if mark[:2] not in told_by_kind] == []


def test_every_kind_of_fault_is_in_one_family() -> None:
    assert sorted(FAMILY_OF) == sorted((*KINDS, NO_FAULT))


def test_every_reason_names_a_case_and_says_something() -> None:
    for reason in reasons():
        assert len(reason.because) > 20
        for pattern in reason.cases:
            assert any(Excuse((pattern,), "").covers(case) for case in cases()), pattern
    with pytest.raises(LiftlogError, match="cannot read the reasons in /nowhere"):
        reasons(Path("/nowhere/never.toml"))


def test_what_never_came_up_is_named_and_a_false_reason_as_well() -> None:
    found = dict.fromkeys(cases(), 1)
    assert judge(found, 10_000, ()).good
    hole = "publish under power losses in shrunk"
    found[hole] = 0
    audit = judge(found, 10_000, ())
    assert audit.missing == [hole] and not audit.good
    assert hole in told(audit)[-1]
    assert judge(found, DUE[TRIPLE] - 1, ()).early == [hole]
    rare = Excuse((hole,), "takes many seeds", from_seeds=50_000)
    assert judge(found, 49_999, (rare,)).good and judge(found, 50_000, (rare,)).missing == [hole]
    assert judge(found, 10_000, (Excuse(("publish under power*in shrunk",), "never"),)).explained == 1
    false = judge(found, 1, (Excuse(("fault kill", "fault fire"), "never"),))
    assert (false.refuted, false.idle) == (["fault kill"], ["fault fire"])
    assert "  fault kill" in told(false) and "  fault fire" in told(false)


def test_numbers_are_added_up_for_pairs_and_families() -> None:
    triples = {("publish", "power", "shrunk"): 2, ("publish", "power_all", "shrunk"): 3}
    triples[STRIKE, "kill", "failed"] = 4
    encounters = {BETWEEN.join(triple): number for triple, number in triples.items()}
    found = numbers({"fault kill": 7}, {"R6.diverged": 8, "R9.version": 9}, {"Write": 10}, encounters)
    assert found["publish in shrunk"] == found["publish under power losses in shrunk"] == 5
    assert found["publish under power"] == 2 and found["strike: kill in failed"] == 4
    assert [found[f"{kind} {name}"] for kind, name in (("fault", "kill"), ("mark", "R6.diverged"))] == [7, 8]
    assert (found["guard R9.version"], found["action Write"]) == (9, 10)
    assert sum(found.values()) == 5 + 5 + 2 + 3 + 4 + 7 + 8 + 9 + 10


@pytest.mark.slow
def test_a_sweep_plants_a_canary_and_fails_if_nobody_notices(monkeypatch: pytest.MonkeyPatch) -> None:
    options = [RunOptions(seed=3, duration_s=5)]
    clean = run_sweep(options, 1, canary=True)
    assert clean.good and clean.canary is not None
    assert clean.canary.name == canary.CANARIES[3] and clean.canary.seed >= canary.FIRST_SEED + 3
    assert clean.canary.invariant in canary.told(clean.canary)
    monkeypatch.setattr(canary, "catch", lambda mutant, seeds: catch(mutant, range(0)))
    deaf = run_sweep(options, 1, canary=True)
    assert not deaf.good and not deaf.failed and deaf.canary is not None
    assert "could not have found" in canary.told(deaf.canary)


def test_canaries_are_planted_bugs_of_several_rules() -> None:
    known = {mutant.name for mutant in MUTANTS}
    assert [name for name in canary.CANARIES if name not in known] == []
    assert len({mutant_named(name).rule for name in canary.CANARIES}) >= 6


def test_a_guard_that_is_rare_is_wanted_of_a_sweep_that_is_long_enough() -> None:
    rare, second_line, plain = "N5.nobody-else", "U2.cannot", "R2.below-minimum"
    assert {rare, second_line}.isdisjoint(undecided({}, 5000)) and plain in undecided({}, 5000)
    assert rare in undecided({}, 20_000) and second_line not in undecided({}, 20_000)
    few, many = "\n".join(table({}, 5000)), "\n".join(table({}, 20_000))
    assert "a race: all others in sync restart" in few and "a race: all others in sync restart" not in many
    assert "decided after all" not in "\n".join(table({rare: 1}, 5000))
    assert "decided after all" in "\n".join(table({second_line: 1}, 5000))
