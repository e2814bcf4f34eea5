"""Snapshots of the metadata log: the rules hold within bounds, and each that is left out shows its harm.

As in test_raft_membership.py each variant is also looked at without the invariants that look ahead.
"""

from __future__ import annotations

from typing import Any

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.lang import And, Exists, numbers, size, sometimes
from liftlog_spec.lang.model import Setting
from liftlog_spec.models.raft_snapshots import RaftSnapshots

LEAST = {"Campaigns": 1, "Restarts": 0, "Installs": 0}
ONE_ENTRY = {**LEAST, "Entries": 1, "Restarts": 1}
INSTALL = {**LEAST, "Installs": 1}
TWO_SNAPSHOTS = {**INSTALL, "Snapshots": 2}
THREE_TERMS = {**LEAST, "Terms": 3, "Campaigns": 2}
THREE_TERMS_ONE_ENTRY = {**THREE_TERMS, "Entries": 1}
CHANGES = {**LEAST, "Entries": 3, "Changes": 2}
nightly = pytest.mark.nightly

# variant, constants, the first invariant to fail, the number of states
VARIANTS = [
    ("snapshot-of-uncommitted", ONE_ENTRY, "StateMachineSafety", 4),
    ("snapshot-not-synced", ONE_ENTRY, "QuorumLog", 7),
    ("suffix-dropped", INSTALL, "QuorumLog", 8),
    ("term-forgotten", THREE_TERMS_ONE_ENTRY, "MoreUpToDateCorrect", 9),
    ("older-snapshot-installed", TWO_SNAPSHOTS, "QuorumLog", 10),
    ("configuration-forgotten", CHANGES, "QuorumLog", 10),
    ("below-answers-all", LEAST, "QuorumLog", 12),
]
# variant, constants, the number of states until a leader lacks what was committed
SUFFERED = [
    ("snapshot-not-synced", ONE_ENTRY, 9),
    ("suffix-dropped", INSTALL, 11),
    ("term-forgotten", THREE_TERMS_ONE_ENTRY, 13),
    pytest.param("older-snapshot-installed", TWO_SNAPSHOTS, 13, marks=nightly),
    pytest.param("configuration-forgotten", CHANGES, 14, marks=nightly),
    pytest.param("below-answers-all", THREE_TERMS, 15, marks=nightly),
]


class Suffered(RaftSnapshots):
    """Without the invariants that look ahead."""

    QuorumLog = MoreUpToDateCorrect = None


@pytest.mark.parametrize(("variant", "constants", "invariant", "states"), VARIANTS)
def test_a_variant_is_found_out(variant: str, constants: dict[str, int], invariant: str, states: int) -> None:
    report = check(RaftSnapshots(variant=variant, **constants), Bounds(symmetry=True))
    assert (report.verdict, report.invariant, report.depth) == ("violated", invariant, states)
    assert len(report.trace) == states


@pytest.mark.parametrize(("variant", "constants", "states"), SUFFERED)
def test_a_variant_loses_what_was_committed(variant: str, constants: dict[str, int], states: int) -> None:
    report = check(Suffered(variant=variant, **constants), Bounds(symmetry=True))
    assert (report.verdict, report.invariant) == ("violated", "LeaderCompleteness")
    assert len(report.trace) == states


def test_every_variant_is_tested() -> None:
    found = RaftSnapshots.declared["variant"]
    assert isinstance(found, Setting)
    assert {variant for variant, *_ in VARIANTS} == set(found.choices) - {"right"}


@pytest.mark.parametrize("constants", [ONE_ENTRY])
def test_the_rules_hold_where_a_variant_fails(constants: dict[str, int]) -> None:
    """What fails is the missing rule, not the bounds; some are too small for all that happens sometimes."""
    report = check(RaftSnapshots(**constants), Bounds(symmetry=True))
    assert report.verdict in ("holds", "vacuous")
    assert report.invariant == ""


@pytest.mark.nightly
@pytest.mark.parametrize("constants", [TWO_SNAPSHOTS, CHANGES, THREE_TERMS])
def test_the_rules_hold_where_a_slower_variant_fails(constants: dict[str, int]) -> None:
    test_the_rules_hold_where_a_variant_fails(constants)


class Conflicts(RaftSnapshots):
    @sometimes
    def AnInstallReplacesAnotherLog(s: Any) -> Any:
        """The first leader's own entries gave way to another's snapshot."""

        def replaced(n: Any) -> Any:
            theirs = s.written[1]
            cut = Exists(numbers(0, s.start[n]), lambda i: And(i < size(theirs), s.log[n][i].term > 1))
            return And(s.installs > 0, s.snapshots == 1, s.start[n] > 0, cut, s.role[n] == "follower")

        return Exists(s.Node, replaced)


def test_an_install_replaces_a_log_that_differs() -> None:
    """These are the bounds of `suffix-dropped`, where the right rules hold."""
    report = check(Conflicts(**INSTALL), Bounds(symmetry=True))
    assert (report.verdict, report.unreached) == ("holds", [])


@pytest.mark.nightly
def test_it_holds_at_the_registrys_bounds() -> None:
    report = check(RaftSnapshots(), Bounds(symmetry=True))
    assert (report.verdict, report.distinct_states, report.depth) == ("holds", 69_152, 20)
