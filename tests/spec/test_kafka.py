"""The Kafka models against what TLC found for the published TLA+ specification of the same protocol.

Where a model holds, the number of distinct states and the depth must be equal; where it is violated, the
depth of the shortest counterexample (the count then depends on the order of the search).
"""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.models.kafka import Kafka

VIOLATED = [
    ("truncate-to-hw", (2, 3, 3, 3), 10),
    ("kip-101", (2, 3, 3, 3), 12),
    ("kip-279", (3, 2, 2, 3), 11),
]
HOLDS = [("kip-279", (2, 3, 3, 3), 24, 225_761), ("kip-320", (2, 3, 3, 3), 26, 120_879)]


def kafka(variant: str, bounds: tuple[int, int, int, int]) -> Kafka:
    replicas, log_size, records, epochs = bounds
    return Kafka(variant=variant, Replicas=replicas, LogSize=log_size, Records=records, Epochs=epochs)


@pytest.mark.parametrize(("variant", "bounds", "depth"), VIOLATED)
def test_a_generation_that_loses_records_is_found_out_at_the_published_depth(
    variant: str, bounds: tuple[int, int, int, int], depth: int
) -> None:
    report = check(kafka(variant, bounds), Bounds())
    assert (report.verdict, report.invariant, report.depth) == ("violated", "StrongIsr", depth)
    assert len(report.trace) == depth


@pytest.mark.nightly
def test_the_first_try_at_kip_320_is_found_out_at_the_published_depth() -> None:
    report = check(kafka("kip-320-first-try", (3, 2, 2, 3)), Bounds())
    assert (report.verdict, report.invariant, report.depth) == ("violated", "StrongIsr", 13)


@pytest.mark.parametrize(("variant", "depth"), [("restart-to-hw", 8), ("restart-to-hw-out-of-isr", 9)])
def test_a_restart_that_cuts_to_the_hw_loses_a_committed_record(variant: str, depth: int) -> None:
    """Everything else is KIP-320. A leader shows the record as committed, and who may lead next lacks it."""
    report = check(kafka(variant, (2, 1, 1, 3)), Bounds())
    assert (report.verdict, report.invariant, report.depth) == ("violated", "StrongIsr", depth)
    assert report.trace[-1].action.startswith("Restart(")
    last = report.trace[-1].state
    (electable,) = [r for r in last["quorum"]["isr"] if not last["log"][r]]
    assert max(last["hw"].values()) == 1 and electable not in (last["quorum"]["leader"],)


def test_a_restart_that_keeps_the_log_loses_nothing() -> None:
    report = check(kafka("restart-keeps-log", (2, 2, 2, 2)), Bounds())
    assert (report.verdict, report.unreached) == ("holds", [])


@pytest.mark.nightly
def test_a_restart_that_keeps_the_log_loses_nothing_in_a_fourth_epoch() -> None:
    report = check(kafka("restart-keeps-log", (2, 2, 2, 3)), Bounds())
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 113_791, 24)


@pytest.mark.parametrize(("variant", "bounds", "depth", "states"), HOLDS)
def test_a_generation_that_holds_has_exactly_the_published_states(
    variant: str, bounds: tuple[int, int, int, int], depth: int, states: int
) -> None:
    report = check(kafka(variant, bounds), Bounds())
    assert (report.verdict, report.depth, report.distinct_states) == ("holds", depth, states)


def test_every_worker_count_finds_the_same_states() -> None:
    bounds = (2, 2, 2, 3)
    alone = check(kafka("kip-320", bounds), Bounds())
    together = check(kafka("kip-320", bounds), Bounds(jobs=3))
    assert alone.distinct_states == together.distinct_states > 5000
    assert alone.generated_states == together.generated_states
    assert (alone.verdict, alone.depth, alone.deadlocks) == (
        together.verdict,
        together.depth,
        together.deadlocks,
    )


def test_the_counterexample_is_a_run_of_the_model() -> None:
    """Each state of the trace follows from the one before by the action that it names."""
    report = check(kafka("truncate-to-hw", (2, 3, 3, 3)), Bounds())
    assert [step.action.partition("(")[0] for step in report.trace][-1] == "BecomeFollowerTruncateToHw"
    last = report.trace[-1].state
    assert any(last["hw"][leader] > len(last["log"][other]) for leader in last["hw"] for other in last["log"])
