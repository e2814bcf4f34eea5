"""The model of idempotent producers: each rule of the design that is left out shows its harm.

The bounds of a variant are the smallest found that show it, and the right rules hold at the same ones.
"""

from __future__ import annotations

import pytest

from liftlog_spec.explore.report import Bounds, ExplorationReport, show_trace
from liftlog_spec.explore.search import check
from liftlog_spec.lang import Forall, invariant, size
from liftlog_spec.models.producers import Producers

RIGHT = {"right", "start-waits"}
ONE_RUN = {"Runs": 1, "Retains": 0}
# variant, constants, invariant, number of states in the counterexample
VARIANTS = [
    ("table-not-rebuilt", {**ONE_RUN, "Messages": 1}, "NoDuplicate", 10),
    ("table-rebuilt-to-hw", {**ONE_RUN, "Messages": 1}, "NoDuplicate", 10),
    ("table-not-truncated", {**ONE_RUN, "Messages": 1, "Epochs": 3}, "RetryIsStored", 9),
    ("table-from-log-alone", {"Runs": 1, "Messages": 1}, "NoDuplicate", 13),
    ("log-start-without-table", {"Runs": 1, "Messages": 1}, "NoDuplicate", 13),
    ("start-waits-for-uncommitted", {"Messages": 1}, "NoDuplicate", 16),
    ("run-not-checked", {"Retains": 0, "Messages": 1, "Epochs": 1}, "ZombieFenced", 9),
    ("restart-keeps-run", {"Retains": 0, "Messages": 1, "Epochs": 1}, "AckedIsCommitted", 8),
    ("gap-accepted", {**ONE_RUN, "Epochs": 1}, "InOrder", 6),
    ("window-below-in-flight", {**ONE_RUN, "Epochs": 1}, "RetryIsAnswered", 5),
    ("new-if-not-in-window", {**ONE_RUN, "Epochs": 1}, "NoDuplicate", 10),
    ("duplicate-acked-at-once", {**ONE_RUN, "Epochs": 1, "Messages": 1}, "AckedIsCommitted", 4),
    ("acked-with-newest-offset", {**ONE_RUN, "Epochs": 1}, "AckedIsCommitted", 9),
    ("producer-expires", {**ONE_RUN, "Epochs": 1, "Messages": 1}, "NoDuplicate", 8),
]


def producers(
    constants: dict[str, int], variant: str = "right", kind: type[Producers] = Producers
) -> Producers:
    return kind(variant=variant, **{"Epochs": 2, **constants})


def explored(model: Producers) -> ExplorationReport:
    return check(model, Bounds(symmetry=True))


@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, constants: dict[str, int], invariant: str, states: int
) -> None:
    report = explored(producers(constants, variant))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states


BOUNDS: list[dict[str, int]] = []
for _, found, _, _ in VARIANTS:
    if found not in BOUNDS:
        BOUNDS.append(found)


class TableFollowsLog(Producers):
    """In the right protocol the table is nothing but a reading of the log, on every copy."""

    @invariant
    def TableIsThatOfTheLog(s):  # type: ignore[no-untyped-def]
        return Forall(s.Replica, lambda r: s.table[r] == s.TableOf(r, size(s.log[r])))


@pytest.mark.parametrize("constants", BOUNDS)
def test_the_rules_hold_where_a_variant_fails(constants: dict[str, int]) -> None:
    report = explored(producers(constants, kind=TableFollowsLog))
    assert report.verdict in ("holds", "vacuous")
    assert report.invariant == ""


def test_L2_a_producer_of_which_the_log_has_nothing_is_unknown_though_it_has_others_messages() -> None:
    two = {"Producers": 2, "Runs": 1, "Messages": 1}
    for model in (producers(two, kind=TableFollowsLog), producers(two, "start-waits")):
        report = explored(model)
        assert (report.verdict, report.invariant) == ("vacuous", "")


@pytest.mark.parametrize("constants", [{"Runs": 1}, {"Messages": 1}])
def test_L2_log_starts_that_wait_do_without_a_table_of_their_own(constants: dict[str, int]) -> None:
    report = explored(producers(constants, "start-waits"))
    assert report.verdict in ("holds", "vacuous")
    assert report.invariant == ""


def test_every_variant_has_its_counterexample() -> None:
    assert {variant for variant, *_ in VARIANTS} == set(Producers.declared["variant"].choices) - RIGHT


class HarmOnly(Producers):
    """What a publisher notices in the end."""

    RetryIsStored = None


def test_L2_a_table_that_was_not_cut_acknowledges_what_is_lost() -> None:
    """A message was cut with the log, the table still says where it was, and there another one is now."""
    constants = {**ONE_RUN, "Producers": 2, "Messages": 1, "Epochs": 3}
    report = explored(producers(constants, "table-not-truncated", HarmOnly))
    assert (report.invariant, report.depth) == ("AckedIsCommitted", 14)


def test_L2_two_leaders_store_one_message() -> None:
    lines = show_trace(explored(producers(VARIANTS[0][1], VARIANTS[0][0])).trace)
    stored = [line.partition("Publish(")[2] for line in lines if ": Publish(" in line]
    leaders = {line.split(", ")[0] for line in stored}
    messages = {line.split(", ", 1)[1] for line in stored}
    assert (len(stored), len(leaders), messages) == (2, 2, {"producer1, 1, 0)"}), "\n".join(lines)


@pytest.mark.nightly
def test_it_holds_at_the_registrys_bounds() -> None:
    report = explored(Producers())
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 245_956, 28)
    waits = explored(Producers(variant="start-waits"))
    assert (waits.verdict, waits.distinct_states, waits.depth) == ("holds", 124_780, 29)
