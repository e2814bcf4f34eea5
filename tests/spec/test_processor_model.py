"""The model of a processor: each rule that is left out stores outputs twice, or skips some.

The bounds of a variant are the smallest found that show it, and the right rules hold at the same ones.
"""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds, ExplorationReport
from liftlog_spec.explore.search import check
from liftlog_spec.models.processor import Processor

ONE = {"Inputs": 1, "Records": 3, "Entries": 3, "Runs": 2, "Tables": 0}
CALM = {**ONE, "Epochs": 1}
# variant, constants, number of states in the counterexample of OutputsOnce
VARIANTS: list[tuple[str, dict[str, int], int]] = [
    ("cursor-read-before-run-opened", CALM, 7),
    ("run-opened-not-durable", ONE, 10),
    ("cursor-read-before-in-flight", CALM, 11),
    ("repeat-answered-at-once", ONE, 13),
    ("fold-refuses-older-run", CALM, 11),
    ("opened-runs-to-hw", ONE, 12),
    ("cursor-apart", CALM, 11),
    ("cursor-lost-at-log-start", {**CALM, "Tables": 1}, 11),
    ("start-before-table-committed", {**ONE, "Tables": 1}, 11),
    ("table-without-opened-run", {**ONE, "Inputs": 2, "Tables": 1}, 16),
]
LARGER: list[tuple[dict[str, int], int, int]] = [
    ({"Inputs": 3, "Records": 4, "Entries": 5, "Epochs": 3}, 37_694, 23),
]


class OutputsOnly(Processor):
    """What a reader of the output notices in the end."""

    CursorIsTrue = None


def explored(variant: str, constants: dict[str, int], kind: type[Processor] = Processor) -> ExplorationReport:
    return check(kind(variant=variant, **constants), Bounds())


@pytest.mark.parametrize(("variant", "constants", "states"), VARIANTS)
def test_a_missing_rule_stores_outputs_twice(variant: str, constants: dict[str, int], states: int) -> None:
    report = explored(variant, constants, OutputsOnly)
    assert (report.verdict, report.invariant, report.depth) == ("violated", "OutputsOnce", states)
    assert len(report.trace) == states


def test_every_variant_has_its_counterexample() -> None:
    assert {variant for variant, *_ in VARIANTS} == set(Processor.declared["variant"].choices) - {"right"}


@pytest.mark.parametrize(
    "constants", [CALM, {**CALM, "Tables": 1}, {**ONE, "Tables": 1}, {**ONE, "Inputs": 2, "Tables": 1}]
)
def test_the_rules_hold_where_a_variant_fails(constants: dict[str, int]) -> None:
    report = explored("right", constants)
    assert report.verdict in ("holds", "vacuous")
    assert report.invariant == ""


@pytest.mark.parametrize("variant", ["cursor-lost-at-log-start", "fold-refuses-older-run"])
def test_a_cursor_that_is_lost_is_seen_before_it_does_harm(variant: str) -> None:
    constants = {**CALM, "Tables": 1}
    assert explored(variant, constants).invariant == "CursorIsTrue"


def test_it_holds_at_the_registrys_bounds() -> None:
    report = explored("right", {})
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 3_932, 18)


@pytest.mark.nightly
@pytest.mark.parametrize(("constants", "states", "depth"), LARGER)
def test_it_holds_at_larger_bounds(constants: dict[str, int], states: int, depth: int) -> None:
    report = explored("right", constants)
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", states, depth)
