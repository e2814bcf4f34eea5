"""Membership change: one server at a time holds within bounds, and each rule that is left out shows its harm.

Each variant is looked at twice. With all invariants the search ends where the way back is lost: a quorum has
no copy of something committed. Without the two that look ahead it goes on until a leader lacks the entry,
which is what a group would suffer.
"""

from __future__ import annotations

from typing import Any

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.lang import And, Exists, get, is_some, last, member, size, sometimes
from liftlog_spec.lang.model import Setting
from liftlog_spec.models.raft_membership import RaftMembership

LEAST = {"Campaigns": 1, "Restarts": 0}
LOST_DISK = {**LEAST, "Voters": 3, "Entries": 1, "Changes": 0, "Losses": 1}
LEADER_REMOVED = {**LEAST, "Nodes": 2, "Changes": 1}
TWO_REMOVED = {**LEAST, "Voters": 3}
LEARNER = {**LEAST, "Nodes": 4, "Voters": 3, "Entries": 2, "Changes": 1}
TWO_PROMOTED = {**LEAST, "Voters": 1, "Learning": 1, "Entries": 4}
FOUR = {**LEAST, "Nodes": 4, "Voters": 4, "Terms": 3, "Entries": 1, "Campaigns": 2}
LONG = {**LEAST, "Voters": 3, "Entries": 4}
EARLY = "QuorumLog"
nightly = pytest.mark.nightly

# variant, constants, the first invariant to fail and the number of states, and without those that look ahead
VARIANTS = [
    ("wiped-voter-rejoins", LOST_DISK, EARLY, 5, 8),
    ("two-changes", TWO_REMOVED, EARLY, 6, 10),
    ("removed-leader-counts", LEADER_REMOVED, EARLY, 7, 10),
    pytest.param("quorum-of-election", TWO_PROMOTED, EARLY, 7, 13, marks=nightly),
    pytest.param("learner-counts", LEARNER, EARLY, 8, 11, marks=nightly),
    pytest.param("change-before-own-commit", FOUR, "LeaderCompleteness", 13, 13, marks=nightly),
    pytest.param("effective-at-commit", LONG, "LeaderCompleteness", 15, 15, marks=nightly),
]


class Suffered(RaftMembership):
    """Without the invariants that look ahead."""

    QuorumLog = MoreUpToDateCorrect = None


@pytest.mark.parametrize(("variant", "constants", "invariant", "states", "suffered"), VARIANTS)
def test_a_variant_is_found_out(
    variant: str, constants: dict[str, int], invariant: str, states: int, suffered: int
) -> None:
    report = check(RaftMembership(variant=variant, **constants), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states
    if invariant == EARLY:
        report = check(Suffered(variant=variant, **constants), Bounds(symmetry=True))
        assert (report.verdict, report.invariant) == ("violated", "LeaderCompleteness")
        assert len(report.trace) == suffered


def test_every_variant_is_tested() -> None:
    tested = {getattr(variant, "values", variant)[0] for variant in VARIANTS}
    found = RaftMembership.declared["variant"]
    assert isinstance(found, Setting)
    assert tested == set(found.choices) - {"right"}


@pytest.mark.parametrize("constants", [LOST_DISK, LEADER_REMOVED])
def test_the_rules_hold_where_a_variant_fails(constants: dict[str, int]) -> None:
    """What fails is the missing rule, not the bounds; some are too small for all that happens sometimes."""
    report = check(RaftMembership(**constants), Bounds(symmetry=True))
    assert report.verdict in ("holds", "vacuous")
    assert report.invariant == ""


@pytest.mark.nightly
@pytest.mark.parametrize("constants", [TWO_REMOVED, LEARNER, TWO_PROMOTED, FOUR, LONG])
def test_the_rules_hold_where_a_slower_variant_fails(constants: dict[str, int]) -> None:
    test_the_rules_hold_where_a_variant_fails(constants)


@pytest.mark.nightly
def test_the_bug_of_2015_needs_four_voters() -> None:
    """Of three, any quorum after one change meets any quorum after another."""
    constants = {**FOUR, "Nodes": 3, "Voters": 3}
    report = check(RaftMembership(variant="change-before-own-commit", **constants), Bounds(symmetry=True))
    assert report.invariant == ""


@pytest.mark.nightly
def test_an_entry_of_the_own_term_first_makes_four_voters_safe() -> None:
    """With room for that entry and a change; deeper than the bug lies, not to the end."""
    constants = {**FOUR, "Entries": 2}
    report = check(RaftMembership(**constants), Bounds(jobs=2, symmetry=True, depth=15))
    assert (report.verdict, report.invariant) == ("bounded", "")
    report = check(RaftMembership(variant="change-before-own-commit", **constants), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", EARLY, 11)


class TakesBack(RaftMembership):
    @sometimes
    def AChangeIsTakenBack(s: Any) -> Any:
        """The first leader wrote a change, which another has cut from its log."""

        def cut(n: Any) -> Any:
            theirs, mine = s.written[1], s.log[n]
            other = And(size(mine) >= size(theirs), s.TermAt(n, size(theirs)) > 1)
            return And(member(n, s.elected[1]), size(theirs) > 0, last(theirs).config != s.first, other)

        return Exists(s.Node, cut)


def test_a_change_that_is_not_committed_is_taken_back() -> None:
    """A server goes by it as long as it is in its log, and no longer."""
    report = check(TakesBack(**{**LEAST, "Voters": 3, "Entries": 2, "Changes": 1}), Bounds(symmetry=True))
    assert report.invariant == ""
    assert "AChangeIsTakenBack" not in report.unreached


class OutlivesItsChange(RaftMembership):
    @sometimes
    def ItsOwnRemovalIsCommittedInASecondOffice(s: Any) -> Any:
        """It wrote its removal in the first term, was elected again, and committed it then."""

        def so(n: Any) -> Any:
            found = s.decided[1]
            later = And(is_some(found), get(found).entry == 1, get(found).term == 2)
            gone = And(size(s.written[1]) > 1, ~member(n, s.written[1][1].config.voters))
            return And(member(n, s.elected[1]), member(n, s.elected[2]), later, gone)

        return Exists(s.Node, so)


def test_a_leader_that_has_removed_itself_may_be_needed_once_more() -> None:
    """Two voters: only it has the entry, so the other cannot win. Both may stand until that is committed."""
    constants = {**LEAST, "Nodes": 2, "Terms": 2, "Entries": 3, "Changes": 1, "Restarts": 1}
    report = check(OutlivesItsChange(**constants), Bounds(symmetry=True))
    assert report.invariant == ""
    assert "ItsOwnRemovalIsCommittedInASecondOffice" not in report.unreached


@pytest.mark.nightly
def test_it_holds_at_the_registrys_bounds() -> None:
    report = check(RaftMembership(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 163_364, 22)
