"""The model of compaction across copies: the rules hold, and each that is left out brings something back.

The bounds of a variant are the smallest found that show it, and the right rules hold at the same ones.
"""

from __future__ import annotations

from typing import Any

import pytest

from liftlog_spec.explore.report import Bounds, ExplorationReport
from liftlog_spec.explore.search import check
from liftlog_spec.lang import Exists, sometimes
from liftlog_spec.models.compaction import Compaction
from liftlog_spec.run.compiled import compile_model

FEW = {"Epochs": 1, "Shrinks": 0, "Wipes": 0}
SLOW = {"Epochs": 1, "Wipes": 0}
WIPED = {"Epochs": 1, "Shrinks": 0, "Given": 2}
DAMAGED = {**FEW, "Given": 2, "Damages": 1}
# variant, constants, invariant, number of states in the counterexample
VARIANTS = [
    ("compacts-above-hw", FEW, "FoldPreserved", 7),
    ("clean-before-rewritten", FEW, "CompactionHorizon", 8),
    ("clean-beyond-the-map", FEW, "CompactionHorizon", 10),
    ("swap-not-atomic", FEW, "FoldPreserved", 6),
    ("holes-are-skipped", SLOW, "LogMatching", 9),
    ("own-clean-point", FEW, "TombstoneSafe", 15),
    ("isr-clean-points", SLOW, "TombstoneSafe", 15),
    ("wipe-keeps-clean-point", WIPED, "CompactionHorizon", 10),
    ("repair-keeps-clean-point", DAMAGED, "CompactionHorizon", 8),
    ("damaged-copy-claims-clean", DAMAGED, "TombstoneSafe", 17),
    ("report-of-earlier-run", WIPED, "TombstoneSafe", 18),
    ("report-only-grows", DAMAGED, "TombstoneSafe", 17),
    ("late-report-counts", {**DAMAGED, "Delays": 1}, "TombstoneSafe", 18),
    ("slow-reader-not-told", {**FEW, "Given": 2, "Readers": 1}, "ReaderSawEveryLastValue", 16),
]
FAR = [
    (
        "holes-count-as-dropped",
        {**DAMAGED, "Records": 4, "Given": 4, "Keys": 2, "Readers": 1},
        "ReaderSawEveryLastValue",
        21,
    ),
]


class HarmOnly(Compaction):
    """What a reader notices in the end: a value that was deleted, or one that is missing."""

    CompactionHorizon = None
    TombstoneSafe = None


# Some steps further a copy has the deleted value and not the tombstone.
RISEN = [
    ("own-clean-point", SLOW, 16),
    ("wipe-keeps-clean-point", WIPED, 20),
]


def explored(
    variant: str, constants: dict[str, int], kind: type[Compaction] = Compaction
) -> ExplorationReport:
    return check(kind(variant=variant, **constants), Bounds(symmetry=True))


@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, constants: dict[str, int], invariant: str, states: int
) -> None:
    report = explored(variant, constants)
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states


@pytest.mark.parametrize(("variant", "constants", "states"), RISEN)
def test_C2_a_deleted_value_returns(variant: str, constants: dict[str, int], states: int) -> None:
    report = explored(variant, constants, HarmOnly)
    assert (report.verdict, report.invariant, report.depth) == ("violated", "NoResurrection", states)
    log = report.trace[-1].state["log"]
    deleted = [copy for copy in log.values() if copy[0]["there"] and not copy[1]["there"]]
    assert deleted, "a copy has the value and not the tombstone"
    assert deleted[0][1]["deletes"] and not deleted[0][0]["deletes"]


BOUNDS: list[dict[str, int]] = []
for _, found, _, _ in VARIANTS:
    if found not in BOUNDS:
        BOUNDS.append(found)


@pytest.mark.parametrize("constants", BOUNDS)
def test_the_rules_hold_where_a_variant_fails(constants: dict[str, int]) -> None:
    """One epoch: logs do not part."""
    report = explored("right", constants)
    assert (report.verdict, report.invariant, report.unreached) == ("vacuous", "", ["LogsPart"])


def test_every_variant_has_its_counterexample() -> None:
    shown = {variant for variant, *_ in (*VARIANTS, *FAR)} | {"report-of-earlier-epoch"}
    assert shown == set(Compaction.declared["variant"].choices) - {"right"}


class BeginsLate(Compaction):
    @sometimes
    def ACopyHasToBeginAtALogStart(s):  # type: ignore[no-untyped-def]
        def late(f: Any, lead: Any) -> Any:
            return s.Hears(lead, f) & (s.leo[f] < s.start[lead])

        return Exists(s.Replica, s.Replica, late)


def test_C3_copies_begin_at_a_log_start() -> None:
    report = explored("right", {**SLOW, "Retains": 1, "Given": 1}, BeginsLate)
    assert (report.invariant, report.unreached) == ("", ["LogsPart"])


def walk(model: Compaction, *steps: str) -> tuple[list[str], list[str]]:
    """After these steps: which invariants do not hold, and which steps are possible."""
    compiled = compile_model(model)

    def possible(state: Any) -> dict[str, Any]:
        return {
            compiled.show_step(action, given): after for action, given, after in compiled.successors(state)
        }

    [state] = [state for state in compiled.initial() if compiled.show(state)["leaders"][1] == "replica1"]
    for step in steps:
        assert step in possible(state), f"{step} is not possible, only {', '.join(possible(state))}"
        state = possible(state)[step]
    return [name for name, holds in compiled.invariants if not holds(state)], list(possible(state))


def compacts(replica: str, end: int) -> list[str]:
    return [f"BeginRun({replica}, {end})", *[f"Rewrite({replica})"] * end, f"EndRun({replica})"]


OVERTAKEN = [
    # The leader has lost record 2, which 3 supersedes; the follower gets this hole by a repair.
    *compacts("replica1", 4),
    "FindDamage(replica2, 2)",
    "AskForRange(replica2, replica1)",
    "Mend(replica2)",
    # A reader gets the value at 0 from it, and rests. The follower compacts; the tombstone at 1 goes.
    "BeginReading(replica2)",
    *compacts("replica2", 4),
    "Fetch(replica2, replica1)",
    "RaiseHorizon(replica1)",
    "Fetch(replica2, replica1)",
    *compacts("replica2", 4),
]


REPAIRED_ELSEWHERE = [
    # The first leader hears that the second copy is clean. Then the third leads, from which the second gets
    # back what it had compacted away, and then the first leads again.
    *compacts("replica2", 2),
    "Fetch(replica2, replica1)",
    "Elect(replica3)",
    "JoinEpoch(replica3)",
    "JoinEpoch(replica2)",
    "FindDamage(replica2, 0)",
    "AskForRange(replica2, replica3)",
    "Mend(replica2)",
    "Elect(replica1)",
    "JoinEpoch(replica1)",
    "JoinEpoch(replica3)",
    *compacts("replica1", 2),
    *compacts("replica3", 2),
    "Fetch(replica3, replica1)",
]


def test_C2_a_leader_that_is_elected_again_knows_nothing_of_clean_points() -> None:
    """Three copies and three epochs: too far for a search in a test, so the way is written down."""
    constants = {"Replicas": 3, "Given": 2, "Epochs": 3, "Damages": 1}
    broken, possible = walk(Compaction(**constants), *REPAIRED_ELSEWHERE)
    assert (broken, "RaiseHorizon(replica1)" in possible) == ([], False)
    dropped = ["RaiseHorizon(replica1)", "BeginRun(replica1, 2)", *["Rewrite(replica1)"] * 2]
    broken, _ = walk(
        Compaction(variant="report-of-earlier-epoch", **constants), *REPAIRED_ELSEWHERE, *dropped
    )
    assert broken == ["TombstoneSafe"]


def test_C4_a_hole_that_was_copied_does_not_hide_what_is_dropped_later() -> None:
    """A mark that stands too high when a reader begins keeps it from being told when it is overtaken."""
    constants = FAR[0][1]
    broken, possible = walk(Compaction(**constants), *OVERTAKEN)
    assert (broken, "TellReader(replica2)" in possible, "ReadOn(replica2)" in possible) == ([], True, False)
    broken, _ = walk(
        Compaction(variant="holes-count-as-dropped", **constants), *OVERTAKEN, "ReadOn(replica2)"
    )
    assert broken == ["ReaderSawEveryLastValue"]


@pytest.mark.nightly
@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), FAR)
def test_a_missing_rule_is_found_out_far_away(
    variant: str, constants: dict[str, int], invariant: str, states: int
) -> None:
    report = explored(variant, constants)
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("constants", "states", "depth"),
    [
        ({}, 218_863, 42),
        ({"Wipes": 0, "Damages": 1}, 330_042, 40),
        ({"Replicas": 3, "Given": 2, "Epochs": 1}, 229_843, 43),
        ({"Given": 2, "Epochs": 1, "Damages": 1, "Readers": 1}, 113_476, 40),
        ({"Epochs": 1, "Retains": 1}, 100_266, 38),
    ],
)
def test_it_holds(constants: dict[str, int], states: int, depth: int) -> None:
    """The first are the registry's bounds. With one epoch logs do not part."""
    report = explored("right", constants)
    assert (report.invariant, report.distinct_states, report.depth) == ("", states, depth)
    assert report.unreached == ([] if constants.get("Epochs", 2) == 2 else ["LogsPart"])
