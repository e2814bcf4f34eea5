"""The model of durable consumers: each rule that is left out breaks a promise, soon.

The bounds of a variant are the smallest found that show it, and the right rules hold at the same ones.
"""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds, ExplorationReport
from liftlog_spec.explore.search import check
from liftlog_spec.models.consumers import DurableConsumers

ONE = {"Records": 1, "Entries": 4, "Snapshots": 0}
CALM = {**ONE, "Epochs": 1}
SNAPSHOTS = {"Records": 1, "Entries": 4}
# variant, constants, what is violated, number of states in its counterexample
VARIANTS: list[tuple[str, dict[str, int], str, int]] = [
    ("ack-answered-at-append", ONE, "AckStays", 4),
    ("repeat-answered-before-commit", ONE, "AckStays", 5),
    ("serves-before-folded", ONE, "Numbered", 5),
    ("serves-before-hw", ONE, "AckStays", 6),
    ("redelivery-before-record", {**ONE, "Entries": 5}, "DeliveriesBounded", 9),
    ("unrecorded-in-any-epoch", {**ONE, "Entries": 3, "Limit": 1, "Epochs": 3}, "DeliveriesBounded", 8),
    ("snapshot-forgets-pending", {**SNAPSHOTS, "Epochs": 1}, "NoneSkipped", 8),
    ("start-moved-before-snapshot-committed", SNAPSHOTS, "ConsumerStays", 6),
    ("floor-is-greatest-acked", {**CALM, "Records": 2}, "NoneSkipped", 6),
    ("joins-by-data-log-only", {**ONE, "Shrinks": 1}, "CountsKept", 7),
    ("late-ack-of-deleted-counts", {**CALM, "Entries": 6, "Deletes": 1}, "OfThisIncarnation", 14),
    ("delete-answered-at-append", {**ONE, "Deletes": 1}, "DeletedStaysDeleted", 3),
    ("removed-before-ack-committed", {**CALM, "Queue": 1}, "RemovedOnlyDone", 5),
    ("pending-below-start-kept", {**CALM, "Records": 2, "Room": 1, "Trims": 1}, "RoomForOthers", 5),
    ("not-rewound", {**ONE, "Losses": 1}, "NoneSkipped", 8),
    ("elected-without-longer-journal", {**ONE, "Doubts": 1}, "CountsKept", 6),
    ("numbered-by-committed", {**CALM, "Records": 2}, "Numbered", 4),
    ("snapshot-forgets-number", {**SNAPSHOTS, "Entries": 5, "Epochs": 1}, "Numbered", 9),
    ("reset-deletes-first", {**CALM, "Resets": 1}, "NeverWithout", 2),
]
# variant, constants, number of states until a client notices that an ack did not stay
NOTICED: list[tuple[str, dict[str, int], int]] = [
    ("serves-before-folded", ONE, 10),
    ("elected-without-longer-journal", {**ONE, "Doubts": 1}, 10),
    ("joins-by-data-log-only", {**ONE, "Shrinks": 1}, 12),
]
LARGER: list[tuple[dict[str, int], int, int]] = [
    ({"Records": 1, "Epochs": 3}, 23_756, 24),
    ({"Records": 1, "Entries": 5, "Resets": 1}, 13_028, 18),
    ({"Replicas": 3, "Records": 1, "Entries": 4, "Snapshots": 0, "Shrinks": 1}, 9_466, 18),
]


class AsClientsSee(DurableConsumers):
    """Without what only a leader could know, and numbers aside."""

    CountsKept = None
    Numbered = None
    ConsumerStays = None


def explored(
    variant: str, constants: dict[str, int], kind: type[DurableConsumers] = DurableConsumers
) -> ExplorationReport:
    return check(kind(variant=variant, **constants), Bounds())


@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), VARIANTS)
def test_a_missing_rule_breaks_a_promise(
    variant: str, constants: dict[str, int], invariant: str, states: int
) -> None:
    report = explored(variant, constants)
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states


@pytest.mark.parametrize(("variant", "constants", "states"), NOTICED)
def test_a_client_notices_later(variant: str, constants: dict[str, int], states: int) -> None:
    report = explored(variant, constants, AsClientsSee)
    assert (report.verdict, report.invariant, report.depth) == ("violated", "AckStays", states)


def test_every_variant_has_its_counterexample() -> None:
    named = {variant for variant, *_ in VARIANTS}
    assert named == set(DurableConsumers.declared["variant"].choices) - {"right"}


@pytest.mark.parametrize("constants", [constants for _, constants, *_ in VARIANTS])
def test_the_rules_hold_where_a_variant_fails(constants: dict[str, int]) -> None:
    report = explored("right", constants)
    assert report.verdict in ("holds", "vacuous")
    assert report.invariant == ""


def test_it_holds_at_the_registrys_bounds() -> None:
    report = check(DurableConsumers(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 41_067, 20)


@pytest.mark.nightly
@pytest.mark.parametrize(("constants", "states", "depth"), LARGER)
def test_it_holds_at_larger_bounds(constants: dict[str, int], states: int, depth: int) -> None:
    report = check(DurableConsumers(**constants), Bounds(symmetry=True))
    assert report.verdict in ("holds", "vacuous")
    assert (report.invariant, report.distinct_states, report.depth) == ("", states, depth)
