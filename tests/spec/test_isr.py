"""The ISR model: our rules hold within bounds, and each rule that is left out shows its harm.

The bounds of a variant are the smallest found that show it, and the right rules hold at the same ones: what
fails is the missing rule, not the bounds.
"""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.lang import sometimes
from liftlog_spec.models.isr import Isr

# variant, constants, invariant, number of states in the counterexample
VARIANTS = [
    ("hw-over-shrunk-isr", {"Replicas": 2}, "LeaderCandidateCompleteness", 5),
    ("restarted-leader-keeps-epoch", {"Replicas": 2, "Crashes": 1}, "OneLeaderPerEpoch", 6),
    ("unsynced-recovery", {"Replicas": 2, "Crashes": 1}, "LeaderCandidateCompleteness", 9),
    ("truncate-to-hw", {"Replicas": 2, "Epochs": 3, "Changes": 2}, "LeaderCandidateCompleteness", 11),
    (
        "wiped-replica-rejoins",
        {"Replicas": 2, "Crashes": 1, "Damages": 1},
        "LeaderCandidateCompleteness",
        9,
    ),
    (
        "suspect-tail-rejoins",
        {"Replicas": 2, "Crashes": 1, "Damages": 1},
        "LeaderCandidateCompleteness",
        9,
    ),
    (
        "fetch-not-fenced",
        {"Replicas": 2, "Epochs": 3, "Changes": 2, "Delays": 1},
        "LeaderCandidateCompleteness",
        14,
    ),
    (
        "report-not-fenced",
        {"Replicas": 2, "Epochs": 2, "Changes": 2, "Crashes": 1, "Delays": 1},
        "LeaderCandidateCompleteness",
        13,
    ),
    (
        "late-addition-of-old-incarnation",
        {"Replicas": 2, "Minimum": 1, "Changes": 3, "Crashes": 1, "Damages": 1},
        "LeaderCandidateCompleteness",
        14,
    ),
    ("minimum-over-maximal-isr", {"Changes": 2}, "LeaderCandidateCompleteness", 13),
    ("pending-ended-by-timeout", {"Changes": 2}, "LeaderCandidateCompleteness", 14),
]


def isr(constants: dict[str, int], variant: str = "right", kind: type[Isr] = Isr) -> Isr:
    least = {"Epochs": 1, "Changes": 1, "Crashes": 0, "Damages": 0}
    return kind(variant=variant, **{**least, **constants})


@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, constants: dict[str, int], invariant: str, states: int
) -> None:
    report = check(isr(constants, variant), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states


BOUNDS: list[dict[str, int]] = []
for _, found, _, _ in VARIANTS:
    if found not in BOUNDS:
        BOUNDS.append(found)


@pytest.mark.parametrize("constants", BOUNDS)
def test_the_rules_hold_where_a_variant_fails(constants: dict[str, int]) -> None:
    report = check(isr(constants), Bounds(symmetry=True))
    assert report.verdict in ("holds", "vacuous")
    assert report.invariant == ""


def test_every_variant_has_its_counterexample() -> None:
    assert {variant for variant, *_ in VARIANTS} == set(Isr.declared["variant"].choices) - {"right"}


def test_R2_a_joiner_that_has_restarted_does_not_count_for_the_hw() -> None:
    """The addition still on its way means an earlier run and will be refused: no harm, none is reported."""
    report = check(
        isr({"Replicas": 2, "Minimum": 1, "Changes": 3, "Crashes": 1, "Damages": 1}), Bounds(symmetry=True)
    )
    assert report.invariant == ""
    assert report.unreached == ["LogsPart"]


class ElectsTheEligible(Isr):
    @sometimes
    def ElectedFromEligible(s):  # type: ignore[no-untyped-def]
        return s.elected == "eligible"


class ElectsTheLastKnown(Isr):
    @sometimes
    def ElectedFromLastKnown(s):  # type: ignore[no-untyped-def]
        return s.elected == "last-known"


def test_R13_an_eligible_replica_is_elected() -> None:
    model = isr({"Replicas": 2, "Epochs": 2, "Changes": 3}, kind=ElectsTheEligible)
    assert check(model, Bounds(symmetry=True)).verdict == "holds"


@pytest.mark.nightly
def test_R14_the_greatest_of_the_last_known_is_elected() -> None:
    model = isr(
        {"Replicas": 2, "Epochs": 2, "Changes": 3, "Crashes": 2, "Damages": 1}, kind=ElectsTheLastKnown
    )
    assert check(model, Bounds(symmetry=True)).verdict == "holds"
