"""Models with claims that are proved for any number of nodes, terms and records.

    liftlog spec prove --list

Each is an ordinary model of the language, so that `compile_model` explores small instances of it too; its
invariants are the conjuncts of one inductive proof. How to read and write them: docs/spec-proofs.md.
"""

from __future__ import annotations

import importlib

import msgspec

from liftlog_spec.lang.model import Model
from liftlog_spec.lang.types import SpecError


class Proof(msgspec.Struct, frozen=True):
    """`safety`: the invariants that are wanted; the others help. `scenario` leads to `reaches`.

    `follows`: wanted ones that follow from the others, in this order, in one and the same state.
    """

    name: str
    about: str
    module: str
    classname: str
    safety: tuple[str, ...]
    scenario: tuple[str, ...]
    reaches: str
    follows: tuple[str, ...] = ()

    def load(self, **settings: str) -> Model:
        kind: type[Model] = getattr(importlib.import_module(self.module), self.classname)
        return kind(**settings)


PROOFS: dict[str, Proof] = {
    proof.name: proof
    for proof in (
        Proof(
            "twophase",
            "first lesson: all or none of the participants commit",
            "liftlog_spec.proofs.twophase",
            "TwoPhaseProof",
            ("AllOrNothing",),
            ("Prepare", "Prepare", "Prepare", "Hear", "Hear", "Hear", "Commit", "Obey", "Obey", "Obey"),
            "EverybodyCommits",
        ),
        Proof(
            "election",
            "Raft: at most one leader in a term, over crashes",
            "liftlog_spec.proofs.election",
            "Election",
            ("OneLeaderInATerm",),
            (
                "Campaign", "Sync", "Answer", "Grant", "Sync", "Answer", "Elect", "Crash",
                "Campaign", "Sync", "Answer", "Grant", "Sync", "Answer", "Elect",
            ),
            "TwoTermsHaveLeaders",
        ),
        Proof(
            "isr",
            "streams: what is committed stays, on every later leader and whoever is in sync",
            "liftlog_spec.proofs.isr",
            "Isr",
            ("CommittedStays", "OneCommittedRecord", "LogsMatch"),
            (
                "Elect", "Hear", "Begin", "Append", "Sync", "Acknowledge", "Hear", "Fetch", "Sync",
                "Acknowledge", "Remove", "Forget", "Commit", "Crash", "Elect", "Hear", "Begin", "Hear",
                "Fetch", "Sync", "Acknowledge", "Ask", "Grant",
            ),
            "ANewLeaderKeepsARecord",
        ),
        Proof(
            "raft-log",
            "Raft: logs match, and what is committed is in the log of every later leader",
            "liftlog_spec.proofs.raftlog",
            "RaftLog",
            ("OneLeader", "LogsMatch", "LeadersAreComplete", "OneCommittedEntry"),
            (
                "Campaign", "Vote", "Elect", "Append", "Accept", "Commit",
                "Campaign", "Vote", "Elect",
            ),
            "ANewLeaderHasACommittedEntry",
            ("OneLeader", "LogsMatch", "LeadersAreComplete", "OneCommittedEntry"),
        ),
        Proof(
            "membership",
            "Raft with one change at a time: one leader in a term, later leaders have what is committed",
            "liftlog_spec.proofs.membership",
            "Membership",
            ("ElectionSafety", "LeaderCompleteness"),
            (
                "Found", "Campaign", "Elect", "Write", "Commit", "Change", "Accept", "Commit",
                "Campaign", "Vote", "Elect",
            ),
            "ALeaderUnderANewConfiguration",
            ("LeaderCompleteness",),
        ),
        Proof(
            "compaction",
            "streams with keys: every copy tells the last values, and what was deleted does not come back",
            "liftlog_spec.proofs.compaction",
            "Compaction",
            ("KeepsTheLast", "NothingComesBack", "OnlyTombstonesAreDropped"),
            (
                "Append", "Fetch", "Append", "Fetch", "Thin", "Pass", "Thin", "Pass", "Learn", "Drop",
                "Wipe", "Fetch", "Fetch",
            ),
            "ATombstoneIsGone",
        ),
    )
}  # fmt: skip


def proof_of(name: str) -> Proof:
    """Raises SpecError for a name that is not there."""
    if name not in PROOFS:
        raise SpecError(f"there is no proof {name!r}; proofs: {', '.join(PROOFS)}")
    return PROOFS[name]
