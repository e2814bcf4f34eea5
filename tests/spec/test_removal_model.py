"""The model of removal: what is visible follows from two logs, and each rule that is left out shows its harm.

The bounds of a variant are small ones that show it, and the right rules hold at the same ones.
"""

from __future__ import annotations

from typing import Any

import pytest

from liftlog_spec.explore.report import Bounds, ExplorationReport
from liftlog_spec.explore.search import check
from liftlog_spec.lang import And, Exists, Forall, invariant, is_some, member, numbers, sometimes
from liftlog_spec.models.removal import Removal
from liftlog_spec.models.removal_steps import RemovalSteps

ONE = {"Records": 1, "Limit": 1, "Entries": 1}
PLAIN = {"Epochs": 1, "Snapshots": 0, "Thinned": 0, "Restarts": 0, "Deletes": 0}
DELETED = {**PLAIN, "Deletes": 1}
REPLACED = {**PLAIN, "Epochs": 2}
ANEW = {"Epochs": 1}
LATE = {"Epochs": 1, "Deletes": 0, "Limit": 1, "Entries": 1}
# variant, constants, invariant, number of states in the counterexample
VARIANTS = [
    ("fold-without-stamp", {**DELETED, "Entries": 1}, "SameVisible", 17),
    ("limits-not-ordered", {**PLAIN, "Entries": 1, "Lowered": 1}, "SameVisible", 13),
    ("removes-above-hw", {**DELETED, **ONE}, "OnlyCommittedRemoves", 4),
    ("removes-uncommitted", {**DELETED, **ONE}, "NothingElseGone", 6),
    ("derives-from-uncommitted", {**PLAIN, "Records": 2, "Limit": 1}, "OnlyCommittedRemoves", 5),
    ("purge-evaluated-on-uncommitted", {**PLAIN, **ONE, "Purges": 1}, "OnlyCommittedRemoves", 4),
    ("purge-evaluated-once", {**PLAIN, **ONE, "Purges": 1}, "SameVisible", 9),
    ("purge-before-caught-up", {**REPLACED, "Records": 2, "Entries": 1, "Purges": 1}, "PurgeTakesAll", 9),
    ("keep-n-as-predicate", {**PLAIN, "Keys": 2, "Limit": 1, "Entries": 1, "Keeps": 1}, "SameVisible", 17),
    ("keep-n-counts-committed", {**DELETED, "Records": 2, "Keeps": 1}, "KeepsNewest", 11),
    ("expiry-by-own-clock", {**PLAIN, **ONE}, "NothingElseGone", 5),
    ("expiry-before-marker", {**PLAIN, "Records": 2, "Entries": 1, "Expiries": 1}, "MarkerFirst", 7),
    ("marker-repeated", {**REPLACED, "Limit": 3, "Entries": 1, "Expiries": 1}, "OneMarker", 10),
    ("expiry-ends-with-marker", {**REPLACED, "Records": 2, "Entries": 1, "Expiries": 1}, "ExpiryGoesOn", 9),
    ("snapshot-merges-uncounted", {**ANEW, "Thinned": 0, "Restarts": 0}, "SameVisible", 18),
    ("snapshot-forgets-gone", ANEW, "SameVisible", 14),
    ("snapshot-forgets-limits", {**ANEW, "Deletes": 0, "Lowered": 1}, "SameVisible", 15),
    ("snapshot-without-start", {**ANEW, "Starts": 1}, "SameVisible", 18),
    ("gone-forgotten-before-start", {**ANEW, "Deletes": 0, "Records": 2, "Limit": 1}, "SameVisible", 15),
    ("start-past-uncounted", ANEW, "SameVisible", 12),
    ("start-before-snapshot-committed", {"Thinned": 0, "Restarts": 0}, "CopyCanBegin", 12),
    ("thinned-above-y", ANEW, "BytesWhereNeeded", 8),
    ("thinned-when-gone", ANEW, "BytesWhereNeeded", 10),
    ("thinned-folded-as-absent", {**LATE, "Looks": 1}, "NoResurrection", 18),
    ("reader-without-hw-j", {**DELETED, **ONE, "Looks": 1}, "NoResurrection", 9),
]


def explored(variant: str, constants: dict[str, int], kind: type[Removal] = Removal) -> ExplorationReport:
    return check(kind(variant=variant, **constants), Bounds(symmetry=True))


def is_found_out(
    variant: str, constants: dict[str, int], invariant: str, states: int, kind: type[Removal] = Removal
) -> None:
    report = explored(variant, constants, kind)
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states


@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), VARIANTS)
def test_a_missing_rule_is_found_out(
    variant: str, constants: dict[str, int], invariant: str, states: int
) -> None:
    is_found_out(variant, constants, invariant, states)


def test_every_variant_has_its_counterexample() -> None:
    assert {variant for variant, *_ in VARIANTS} == set(Removal.declared["variant"].choices) - {"right"}


# -- harm, as readers notice it ------------------------------------------------------------------------------


class ReadersOnly(Removal):
    """What a reader sees that comes back to a copy, or changes the copy."""

    SameVisible = None
    NothingElseGone = None
    OnlyCommittedRemoves = None
    ThinnedIsGone = None
    BytesWhereNeeded = None
    CopyCanBegin = None


class BornGone(Removal):
    """A record that nobody has removed, at an offset where another one was to go."""

    OnlyCommittedRemoves = None


class CopiesOnly(ReadersOnly):
    """Two copies that differ."""

    SameVisible = Removal.SameVisible
    NoResurrection = None


LOOKED = [
    ("removes-uncommitted", {**DELETED, **ONE, "Epochs": 2}, 8),
    ("derives-from-uncommitted", {**REPLACED, "Records": 2, "Limit": 1}, 8),
    ("fold-without-stamp", {**DELETED, "Entries": 1}, 17),
    ("snapshot-merges-uncounted", {**ANEW, "Thinned": 0, "Restarts": 0}, 17),
    ("start-past-uncounted", {**ANEW, "Restarts": 0}, 12),
    ("snapshot-without-start", {**ANEW, "Starts": 1}, 18),
    ("thinned-above-y", {**ANEW, "Entries": 1, "Snapshots": 0}, 12),
]


@pytest.mark.parametrize(("variant", "constants", "states"), LOOKED)
def test_a_reader_sees_again_what_was_gone(variant: str, constants: dict[str, int], states: int) -> None:
    is_found_out(variant, {**constants, "Looks": 1}, "NoResurrection", states, ReadersOnly)


@pytest.mark.parametrize(
    ("variant", "switch"), [("removes-above-hw", "Deletes"), ("purge-evaluated-on-uncommitted", "Purges")]
)
def test_a_record_is_born_gone(variant: str, switch: str) -> None:
    is_found_out(variant, {**REPLACED, **ONE, switch: 1}, "NothingElseGone", 9, BornGone)


def test_a_copy_that_folds_what_was_thinned_keeps_what_was_pushed_out() -> None:
    is_found_out("thinned-above-y", {**ANEW, "Entries": 1, "Snapshots": 0}, "SameVisible", 11, CopiesOnly)


def test_each_copy_by_its_own_clock_shows_another_thing() -> None:
    is_found_out("expiry-by-own-clock", {**PLAIN, **ONE}, "SameVisible", 6, CopiesOnly)


# -- the right rules -----------------------------------------------------------------------------------------


class FollowsLogs(Removal):
    """In the right protocol what a copy hides is nothing but a reading of two committed logs."""

    @invariant
    def HiddenIsThatOfTheLogs(s: Any) -> Any:
        def as_defined(r: Any) -> Any:
            return s.Hidden(r) == s.Visible(s.folded[r], s.heard[r])

        return Forall(s.Replica, as_defined)


class ExpiresAcrossLeaders(FollowsLogs):
    """One leader has marked, and another one removes."""

    @sometimes
    def TheNextOneGoesOn(s: Any) -> Any:
        def goes_on(p: Any) -> Any:
            e = s.journal[p]

            def older(i: Any) -> Any:
                named = And(is_some(s.data[i].marks), s.data[i].epoch < e.epoch)
                return And(named, member(0, e.runs), s.data[i].marks == 0)

            return And(e.kind == "expired", Exists(numbers(0, s.hw_d), older))

        return Exists(numbers(0, s.hw_j), goes_on)


# Each is at least as wide as those of the variants: constants, number of states, depth
BOUNDS: list[tuple[dict[str, int], int, int]] = [
    ({**DELETED, "Epochs": 2, "Entries": 1}, 2_314, 18),
    ({**PLAIN, "Lowered": 1, "Looks": 1}, 14_906, 22),
    ({**DELETED, "Purges": 1, "Keeps": 1, "Records": 2, "Epochs": 2}, 5_633, 18),
    ({**PLAIN, "Keys": 2, "Limit": 1, "Entries": 1, "Keeps": 1, "Purges": 1, "Rollups": 1}, 29_883, 17),
    ({**REPLACED, "Limit": 3, "Entries": 1, "Expiries": 1}, 1_238, 18),
    (ANEW, 17_825, 24),
    ({**LATE, "Looks": 1}, 7_095, 23),
]
LARGER: list[tuple[dict[str, int], int, int]] = [
    ({}, 164_198, 28),
    ({**ANEW, "Deletes": 0, "Lowered": 1}, 19_624, 25),
    ({"Records": 2, "Limit": 1, "Starts": 1}, 25_081, 24),
    ({"Records": 2, "Limit": 1, "Starts": 1, "Looks": 1}, 186_338, 25),
    ({"Records": 2, "Limit": 1, "Entries": 3, "Deletes": 0}, 35_199, 27),
    ({"Replicas": 3, "Records": 2, "Limit": 1}, 95_001, 25),
    ({"Replicas": 3, "Entries": 1, "Snapshots": 0, "Thinned": 0, "Restarts": 0}, 8_929, 22),
]


@pytest.mark.parametrize(("constants", "states", "depth"), BOUNDS)
def test_the_rules_hold_where_a_variant_fails(constants: dict[str, int], states: int, depth: int) -> None:
    report = explored("right", constants, FollowsLogs)
    assert (report.invariant, report.distinct_states, report.depth) == ("", states, depth)


def test_an_expiry_is_finished_by_the_next_leader() -> None:
    report = explored("right", {**REPLACED, "Entries": 1, "Expiries": 1}, ExpiresAcrossLeaders)
    assert report.invariant == ""
    assert "TheNextOneGoesOn" not in report.unreached


@pytest.mark.nightly
@pytest.mark.parametrize(("constants", "states", "depth"), LARGER)
def test_it_holds_at_larger_bounds(constants: dict[str, int], states: int, depth: int) -> None:
    report = explored("right", constants, FollowsLogs)
    assert (report.invariant, report.distinct_states, report.depth) == ("", states, depth)


# -- what is built of it -------------------------------------------------------------------------------------

BUILT = {**PLAIN, "Records": 1, "Entries": 1}
SAID_AGAIN = {"Deletes": 1, "Snapshots": 1, "Restarts": 1}
STEPS_VARIANTS = [
    ("answered-at-append", {**BUILT, "Deletes": 1, "Epochs": 2}, "AnsweredStays", 7),
    ("names-uncommitted", {**BUILT, "Purges": 1}, "OnlyCommittedRemoves", 5),
    ("reader-without-hw-j", {**BUILT, "Deletes": 1, "Looks": 1}, "NoResurrection", 9),
    ("restated-in-part", {**BUILT, **SAID_AGAIN, "Entries": 2}, "HiddenIsThatOfTheJournal", 11),
    ("begins-unseen", {**BUILT, **SAID_AGAIN, "Entries": 3}, "SameVisible", 14),
]


@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), STEPS_VARIANTS)
def test_a_missing_rule_of_what_is_built_is_found_out(
    variant: str, constants: dict[str, int], invariant: str, states: int
) -> None:
    is_found_out(variant, constants, invariant, states, RemovalSteps)


def test_every_variant_of_what_is_built_has_its_counterexample() -> None:
    assert {variant for variant, *_ in STEPS_VARIANTS} == set(RemovalSteps.variant.choices) - {"right"}


STEPS_BOUNDS: list[tuple[dict[str, int], int, int]] = [
    ({**BUILT, **SAID_AGAIN, "Entries": 3, "Starts": 1}, 17_504, 22),
    ({**BUILT, "Deletes": 1, "Looks": 1, "Starts": 1, "Records": 2, "Entries": 2}, 27_165, 23),
    ({**BUILT, "Deletes": 1, "Purges": 1, "Records": 2, "Entries": 2}, 33_462, 23),
    ({**BUILT, "Deletes": 1, "Epochs": 2, "Records": 2, "Entries": 1}, 748, 15),
]


@pytest.mark.parametrize(("constants", "states", "depth"), STEPS_BOUNDS)
def test_what_is_built_holds_where_a_variant_fails(
    constants: dict[str, int], states: int, depth: int
) -> None:
    report = explored("right", constants, RemovalSteps)
    assert (report.invariant, report.distinct_states, report.depth) == ("", states, depth)


@pytest.mark.nightly
def test_what_is_built_holds_at_larger_bounds() -> None:
    constants = {**BUILT, **SAID_AGAIN, "Entries": 3, "Starts": 1, "Epochs": 2}
    report = explored("right", constants, RemovalSteps)
    assert (report.invariant, report.distinct_states, report.depth) == ("", 114_079, 23)
