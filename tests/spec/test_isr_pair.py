"""The model of two logs under one record: the rules hold within bounds, and each that is left out is refused.

The bounds of a variant are small ones that show it, and the right rules hold at the same ones.
"""

from __future__ import annotations

from typing import Any

import pytest

from liftlog_spec.explore.report import Bounds, ExplorationReport
from liftlog_spec.explore.search import check
from liftlog_spec.lang import (
    And,
    Bool,
    Exists,
    Fn,
    Or,
    Var,
    action,
    get,
    is_some,
    member,
    size,
    sometimes,
    when,
)
from liftlog_spec.models.isr_pair import DATA, JOURNAL, IsrPair

CALM = {"Epochs": 1, "Crashes": 0, "Damages": 0}
ALONE = {"Minimum": 1, "Crashes": 0, "Damages": 0}
TORN = {"Epochs": 1, "Shrinks": 0, "Crashes": 1}
LOST = {"Shrinks": 0, "begins": "with-one"}
PARTED = {"Records": 2, "Shrinks": 0, "Damages": 0}
# constants, number of states, depth
LARGER: list[tuple[dict[str, Any], int, int]] = [
    ({"Replicas": 3, "Crashes": 1}, 479_932, 27),
    ({"Records": 2, "Epochs": 3, "Crashes": 0}, 573_856, 26),
    ({**LOST, "Records": 2}, 516_305, 26),
    ({**LOST, "Replicas": 3, "Minimum": 3, "Damages": 2, "Crashes": 3}, 52_436, 21),
]
# variant, constants, invariant, number of states in the counterexample
VARIANTS = [
    ("elected-without-longer-journal", LOST, "NoEntryLost", 6),
    ("elected-by-journal", LOST, "NoRecordLost", 6),
    ("journal-taken-in-office", LOST, "NoEntryLost", 7),
    ("end-counts-before-sync", LOST, "CommittedOnIsr", 8),
    ("joins-by-data-log-only", ALONE, "ValidHighWatermark", 6),
    ("joins-by-journal-only", ALONE, "ValidHighWatermark", 6),
    ("ready-in-two-instants", ALONE, "ValidHighWatermark", 8),
    ("shrinks-by-one-log", CALM, "LaggardMayLeave", 3),
    ("hw-of-the-other-log", CALM, "CommittedOnIsr", 7),
    ("joiner-counts-for-data-only", ALONE, "ValidHighWatermark", 6),
    ("journal-commits-below-minimum", CALM, "CommittedOnIsr", 5),
    ("one-sync-for-both", TORN, "CommittedOnIsr", 4),
    ("suspect-journal-rejoins", TORN, "CommittedOnIsr", 8),
    ("stamp-of-leo", CALM, "StampCommitted", 3),
    ("stamp-believed-unchecked", ALONE, "StampIsProof", 9),
    ("short-journal-taken-for-whole", TORN, "CommittedOnIsr", 10),
]
FAR = [("end-taken-without-cut", PARTED, "LogMatching", 11)]


def explored(variant: str, constants: dict[str, Any], kind: type[IsrPair] = IsrPair) -> ExplorationReport:
    return check(kind(variant=variant, **constants), Bounds(symmetry=True))


def is_found_out(variant: str, constants: dict[str, Any], invariant: str, states: int) -> None:
    report = explored(variant, constants)
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states


@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, constants: dict[str, Any], invariant: str, states: int
) -> None:
    is_found_out(variant, constants, invariant, states)


@pytest.mark.nightly
@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), FAR)
def test_a_missing_rule_is_found_out_far_away(
    variant: str, constants: dict[str, Any], invariant: str, states: int
) -> None:
    is_found_out(variant, constants, invariant, states)


def test_every_variant_has_its_counterexample() -> None:
    named = {variant for variant, *_ in [*VARIANTS, *FAR]}
    assert named == set(IsrPair.declared["variant"].choices) - {"right"}


# Larger ones than those of the variants: what is possible there is possible here.
@pytest.mark.parametrize("constants", [ALONE, {**LOST, "Crashes": 3, "Epochs": 3}])
def test_the_rules_hold_where_a_variant_fails(constants: dict[str, Any]) -> None:
    report = explored("right", constants)
    assert report.verdict in ("holds", "vacuous")
    assert report.invariant == ""


# -- what a run goes through on its way, of which no state tells afterwards ----------------------------------


class Passes(IsrPair):
    """A run is told by what it has passed."""

    Replica, Log, Offset, Tail = IsrPair.Replica, IsrPair.Log, IsrPair.Offset, IsrPair.Tail

    half = Var(Fn(Replica, Bool), init=False)
    """One log was ready to join when the other was not."""
    joined_so = Var(Bool, init=False)
    torn_between = Var(Bool, init=False)
    took = Var(Fn(Replica, Bool), init=False)
    led_so = Var(Bool, init=False)

    @action
    def IsReadyInOne(s: Any, f: Replica) -> None:
        when(is_some(s.leader), s.up[f], ~member(f, s.isr), ~s.half[f])
        when(Or(And(s.Ready(DATA, f), ~s.Ready(JOURNAL, f)), And(s.Ready(JOURNAL, f), ~s.Ready(DATA, f))))
        s.half[f] = True

    @action
    def ApplyAddition(s: Any) -> None:
        IsrPair.ApplyAddition(s)
        s.joined_so = Or(s.joined_so, s.half[get(s.change)])

    @action
    def Crash(s: Any, r: Replica, tail: Tail, data: Offset, journal: Offset) -> None:
        IsrPair.Crash(s, r, tail, data, journal)
        synced = And(size(s.log[DATA][r]) > 0, s.synced[DATA][r] == size(s.log[DATA][r]), tail == "clean")
        lost = And(s.synced[JOURNAL][r] == journal, journal < size(s.log[JOURNAL][r]))
        s.torn_between = Or(s.torn_between, And(synced, lost))

    @action
    def TellOfEnds(s: Any, r: Replica) -> None:
        IsrPair.TellOfEnds(s, r)
        longer = s.Report(r)[JOURNAL].leo > get(s.known[r])[JOURNAL].leo
        s.took[r] = Or(s.took[r], And(longer, Exists(s.Replica, lambda o: s.Takes(r, o))))

    @action
    def ElectFromLastKnown(s: Any, to: Replica) -> None:
        IsrPair.ElectFromLastKnown(s, to)
        s.led_so = Or(s.led_so, s.took[to])


class JoinsAfterHalf(Passes):
    @sometimes
    def Passed(s: Any) -> Any:
        return s.joined_so


class TornBetweenTheSyncs(Passes):
    @sometimes
    def Passed(s: Any) -> Any:
        return And(s.torn_between, Exists(s.Replica, lambda r: And(s.up[r], s.tail[r] == "clean")))


class LeadsWithATakenEnd(Passes):
    """R14: the longest data and the longest journal were those of two copies, and one of them leads."""

    @sometimes
    def Passed(s: Any) -> Any:
        return And(s.led_so, is_some(s.leader))


@pytest.mark.parametrize(
    ("kind", "constants"),
    [(JoinsAfterHalf, ALONE), (TornBetweenTheSyncs, TORN), (LeadsWithATakenEnd, LOST)],
)
def test_a_run_passes_there(kind: type[IsrPair], constants: dict[str, Any]) -> None:
    report = explored("right", constants, kind)
    assert report.invariant == ""
    assert "Passed" not in report.unreached


# -- beyond what is promised ---------------------------------------------------------------------------------


class AllIsDamaged(IsrPair):
    """As many copies of a log are damaged as there have to be: what is lost is lost (D3)."""

    NoRecordLost = None
    NoEntryLost = None
    CommittedOnIsr = None
    ValidHighWatermark = None
    ConsistentRead = None
    StampIsProof = None


def test_a_journal_that_is_short_on_all_copies_is_noticed() -> None:
    bounds = {"Damages": 2, "Shrinks": 0}
    wrong = explored("short-journal-taken-for-whole", bounds, AllIsDamaged)
    assert (wrong.verdict, wrong.invariant) == ("violated", "StampedJournalHeld")


def test_D3_with_as_many_damaged_copies_as_the_minimum_something_is_lost() -> None:
    """So that the bound on damages is needed."""
    assert explored("right", {**LOST, "Damages": 2}).invariant in ("NoRecordLost", "NoEntryLost")


@pytest.mark.nightly
def test_nobody_leads_whose_data_name_a_journal_that_is_gone() -> None:
    report = explored("right", {"Damages": 2, "Shrinks": 0}, AllIsDamaged)
    assert report.invariant == ""


# -- all states ----------------------------------------------------------------------------------------------


def test_it_holds_with_one_crash() -> None:
    """These bounds have in them those that are calm, or in which one copy is torn."""
    report = explored("right", {"Crashes": 1})
    assert (report.invariant, report.distinct_states, report.depth) == ("", 34_399, 23)
    assert report.unreached == ["DifferentOnesAreLongest", "AnEndIsTaken"]


@pytest.mark.nightly
def test_it_holds_at_the_registrys_bounds() -> None:
    report = explored("right", {})
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 198_174, 27)


@pytest.mark.nightly
@pytest.mark.parametrize(("constants", "states", "depth"), LARGER)
def test_it_holds_at_larger_bounds(constants: dict[str, Any], states: int, depth: int) -> None:
    report = explored("right", constants)
    assert (report.invariant, report.distinct_states, report.depth) == ("", states, depth)
