"""Mappings: what is explored does nothing that the proofs' models do not do, and a wrong one is found out."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from liftlog_spec.lang.types import SpecError
from liftlog_spec.mappings import MAPPINGS, mapping_of
from liftlog_spec.mappings.checker import Mapping, Steps, check_mapping
from liftlog_spec.mappings.isr import IsrToProof
from liftlog_spec.mappings.raft_election import RaftElection
from liftlog_spec.mappings.reading import NamedItem, NamedState

WALKS: dict[str, dict[str, int]] = {
    "raft-election": {"terms": 3, "campaigns": 4, "entries": 2, "appends": 4, "restarts": 2},
    "raft-log": {"terms": 3, "campaigns": 4, "entries": 2, "appends": 6, "restarts": 2, "batch": 2},
    "raft-membership": {"terms": 3, "campaigns": 4, "entries": 4, "changes": 3, "restarts": 1, "losses": 1},
    "isr": {"records": 2, "epochs": 3, "changes": 6, "crashes": 2, "delays": 2},
    "compaction": {"records": 3, "given": 3, "epochs": 3, "shrinks": 1, "replicas": 2, "damages": 1},
}
"""Bounds that allow every action of the proofs; far too many states to see all."""
IMPOSSIBLE = ["ElectAnother", "ElectWithout", "CommitLate"]
"""Actions of `membership` that are there to be proved impossible."""


@pytest.mark.parametrize("name", sorted(MAPPINGS))
def test_every_step_has_its_counterpart(name: str) -> None:
    report = check_mapping(mapping_of(name).load(), name, most_states=1500)
    assert report.failure is None and report.verdict == "bounded"
    assert report.pairs >= 1500 and report.states > 500


@pytest.mark.parametrize("name", sorted(MAPPINGS))
def test_random_walks_far_beyond_have_theirs(name: str) -> None:
    mapping = mapping_of(name).load("", WALKS[name])
    report = check_mapping(mapping, name, walks=60, walk_steps=80, seed=3)
    assert report.failure is None
    assert report.steps > 500 and report.steps > report.stutters
    assert sum(count > 0 for count in report.taken.values()) >= len(report.taken) - 3


WHOLE: list[tuple[str, dict[str, int], str]] = [
    ("raft-log", {"terms": 1, "entries": 1, "campaigns": 1, "appends": 1, "restarts": 0}, "Commit"),
    ("compaction", {"records": 1, "given": 1, "epochs": 1, "wipes": 1}, "Learn"),
    (
        "raft-membership",
        {"terms": 2, "entries": 2, "voters": 1, "campaigns": 1, "changes": 1, "restarts": 0},
        "Change",
    ),
]


@pytest.mark.parametrize(("name", "bounds", "last"), WHOLE)
def test_a_space_that_is_seen_to_its_end(name: str, bounds: dict[str, int], last: str) -> None:
    report = check_mapping(mapping_of(name).load("", bounds), name)
    assert report.verdict == "holds" and report.failure is None and report.states > 50
    assert report.taken[last] > 0


@pytest.mark.nightly
def test_a_voter_is_added_or_removed_in_every_possible_way() -> None:
    bounds = {"terms": 2, "entries": 2, "campaigns": 1, "changes": 1, "restarts": 0}
    report = check_mapping(mapping_of("raft-membership").load("", bounds), "raft-membership")
    assert report.verdict == "holds" and report.states > 10_000 and report.never == IMPOSSIBLE


@pytest.mark.nightly
def test_tombstones_are_dropped_and_a_disk_is_lost_in_every_possible_way() -> None:
    bounds = {"records": 2, "given": 2, "epochs": 2, "wipes": 1}
    report = check_mapping(mapping_of("compaction").load("", bounds), "compaction")
    assert report.verdict == "holds" and report.states > 40_000 and report.taken["Drop"] > 0


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(MAPPINGS))
def test_many_more_states_and_walks(name: str) -> None:
    report = check_mapping(mapping_of(name).load(), name, most_states=150_000)
    assert report.failure is None
    walked = check_mapping(mapping_of(name).load("", WALKS[name]), name, walks=3000, walk_steps=100, seed=1)
    assert walked.failure is None and walked.never in ([], ["Wipe"], ["Repair"], IMPOSSIBLE)


# -- what must fail ------------------------------------------------------------------------------------------

ONE_VOTER = {"voters": 1, "learning": 1, "campaigns": 0, "restarts": 0}

BROKEN: list[tuple[str, str, dict[str, int], str]] = [
    ("raft-election", "vote-before-sync", {}, "Answer is refused at election.py"),
    ("raft-election", "vote-forgotten", {}, "Grant is refused at election.py"),
    ("raft-log", "vote-forgotten", {}, "Vote is refused at raftlog.py"),
    ("raft-log", "commit-old-term", {"terms": 3, "campaigns": 4, "appends": 5}, "Commit is refused at"),
    ("raft-membership", "change-before-own-commit", {}, "s.at[b] == s.term[n]"),
    ("raft-membership", "two-changes", {}, "s.config[b][old]"),
    ("raft-membership", "effective-at-commit", ONE_VOTER, "Commit is refused at membership.py"),
    ("raft-membership", "quorum-of-election", ONE_VOTER, "Commit is refused at membership.py"),
    ("raft-membership", "learner-counts", {"voters": 1, "learning": 1}, "is refused at membership.py"),
    ("raft-membership", "removed-leader-counts", {}, "Commit is refused at membership.py"),
    ("raft-membership", "wiped-voter-rejoins", {"losses": 1}, "is in term 0 and voted"),
    ("isr", "restarted-leader-keeps-epoch", {"crashes": 2}, "replica 1 leads epoch"),
    ("isr", "truncate-to-hw", {}, "has the log"),
    ("isr", "minimum-over-maximal-isr", WALKS["isr"], "is refused at isr.py"),
    ("isr", "pending-ended-by-timeout", WALKS["isr"], ""),
    ("compaction", "own-clean-point", WALKS["compaction"], "the horizon of replica"),
    ("compaction", "clean-before-rewritten", WALKS["compaction"], "the clean point of replica"),
    ("compaction", "repair-keeps-clean-point", WALKS["compaction"], "the clean point of replica"),
    ("compaction", "holes-are-skipped", WALKS["compaction"], ""),
]


@pytest.mark.parametrize(("name", "variant", "bounds", "why"), BROKEN)
def test_a_broken_protocol_takes_a_step_that_the_proof_does_not_know(
    name: str, variant: str, bounds: dict[str, int], why: str
) -> None:
    mapping = mapping_of(name).load(variant, bounds)
    report = check_mapping(mapping, name, walks=400, walk_steps=80, seed=1)
    assert report.verdict == "violated" and report.failure is not None
    assert why in report.failure.why
    assert report.failure.concrete and report.failure.abstract_before and report.failure.trace[-1]


RARE: list[tuple[str, str, dict[str, int], str]] = [
    ("raft-log", "length-before-term", {"terms": 3, "campaigns": 3, "entries": 2, "appends": 1}, "Vote is"),
    ("raft-log", "ack-whole-log", {"terms": 3, "campaigns": 3, "entries": 2, "appends": 4}, "acknowledged"),
    ("isr", "hw-over-shrunk-isr", WALKS["isr"], "Commit is refused at isr.py"),
    ("isr", "unsynced-recovery", WALKS["isr"], "Acknowledge is refused at isr.py"),
    ("isr", "fetch-not-fenced", WALKS["isr"], ""),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "variant", "bounds", "why"), RARE)
def test_a_rare_step_of_a_broken_protocol_is_found_as_well(
    name: str, variant: str, bounds: dict[str, int], why: str
) -> None:
    restarts = {"restarts": 0} if name == "raft-log" else {}
    mapping = mapping_of(name).load(variant, {**bounds, **restarts})
    report = check_mapping(mapping, name, walks=8000, walk_steps=60, seed=3)
    assert report.failure is not None and why in report.failure.why


class ForgetsToSync(RaftElection):
    """The proof's disk stays behind."""

    def steps(
        self, action: str, given: dict[str, Any], before: NamedState, after: NamedState, abstract: NamedState
    ) -> Steps:
        steps = super().steps(action, given, before, after, abstract)
        for name, values in steps:
            if name != "Sync":
                yield name, values


class CountsOnlyTheIsr(IsrToProof):
    """Who is eligible is not in sync."""

    def steps(
        self, action: str, given: dict[str, Any], before: NamedState, after: NamedState, abstract: NamedState
    ) -> Steps:
        if action == "ExpireMember":
            yield "Remove", {"n": given["r"]}
        else:
            yield from super().steps(action, given, before, after, abstract)


class BeginsElsewhere(IsrToProof):
    def begin(self, state: NamedState, abstract: NamedState) -> Steps:
        yield "Elect", {"n": state.now.leader, "e": state.now.epoch}


class StepsOutOfNothing(RaftElection):
    """An action that is not possible."""

    def begin(self, state: NamedState, abstract: NamedState) -> Steps:
        yield "Elect", {"n": 0, "t": 1, "q": 0}


WRONG = [
    (ForgetsToSync("", {}), "term and vote of node 1, on disk"),
    (CountsOnlyTheIsr("", {"Epochs": 1, "Changes": 1, "Minimum": 3}), "in sync or eligible are replica"),
    (BeginsElsewhere("", {}), "is in epoch 1"),
    (StepsOutOfNothing("", {}), "Elect(n = node1, t = term2, q = quorum1): Elect is refused"),
]


@pytest.mark.parametrize(("mapping", "why"), WRONG, ids=lambda value: type(value).__name__)
def test_a_wrong_mapping_is_found_out(mapping: Mapping, why: str) -> None:
    report = check_mapping(mapping, "wrong", most_states=4000)
    assert report.failure is not None and why in report.failure.why


def test_walks_are_the_same_for_the_same_seed() -> None:
    def walk(seed: int) -> tuple[int, dict[str, int]]:
        report = check_mapping(mapping_of("isr").load(), "isr", walks=5, walk_steps=20, seed=seed)
        return report.pairs, report.taken

    assert walk(1) == walk(1) != walk(2)


def test_what_is_outside_of_a_proof_is_counted_and_not_followed() -> None:
    class NoElections(IsrToProof):
        outside: ClassVar[dict[str, str]] = {"ElectAnother": "for this test"}

    report = check_mapping(NoElections("", {"Epochs": 2, "Changes": 1}), "isr", most_states=400)
    assert report.outside == {"ElectAnother": report.outside["ElectAnother"]} and report.failure is None
    assert report.outside["ElectAnother"] > 0


def test_bounds_that_a_mapping_is_not_made_for_are_refused() -> None:
    with pytest.raises(SpecError, match="at most one write under way"):
        mapping_of("raft-election").load("", {"writes": 2})
    with pytest.raises(SpecError, match="give --nodes 3"):
        mapping_of("raft-log").load("", {"nodes": 5})
    with pytest.raises(SpecError, match="the proof's sets are of three; give --nodes 3"):
        mapping_of("raft-membership").load("", {"nodes": 4})
    with pytest.raises(SpecError, match="mapping isr has no --terms; it has: --replicas"):
        mapping_of("isr").load("", {"terms": 2})
    with pytest.raises(SpecError, match="there is no mapping 'x'; mappings: raft-election"):
        mapping_of("x")


def test_records_are_equal_by_their_fields() -> None:
    assert NamedItem(a=1, b=None) == NamedItem(a=1, b=None) != NamedItem(a=2, b=None)
    assert len({NamedItem(a=1), NamedItem(a=1), NamedItem(a=2)}) == 2


def test_the_command_says_what_it_found(capfd: pytest.CaptureFixture[str]) -> None:
    from liftlog.cli import main

    assert main(["spec", "map", "--mapping", "raft-log", "--max-states", "200"]) == 0
    assert "every step has its counterpart, as far as this went" in capfd.readouterr().out
    assert main(["spec", "map", "--mapping", "raft-election", "--variant", "vote-forgotten"]) == 1
    out = capfd.readouterr().out
    assert "why: Grant(" in out and "the proof's state before it:" in out
    assert main(["spec", "map", "--list"]) == 0
    assert "outside:   ElectFromLastKnown" in capfd.readouterr().out
    assert main(["spec", "map", "--mapping", "isr", "--max-states", "50", "--json"]) == 0
    assert '"verdict": "bounded"' in capfd.readouterr().out
    assert main(["spec", "map", "--mapping", "nothing"]) == 2
    assert main(["spec", "map", "--records", "2"]) == 2
    assert main(["spec", "map", "--depth", "0"]) == 2
