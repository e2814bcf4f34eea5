"""First lesson: two-phase commit is right for any number of participants.

The model is the one that `liftlog spec check --model twophase` explores (liftlog_spec/models/twophase.py);
here are only the conjuncts. AllOrNothing alone is not inductive: z3 would begin in a state where somebody has
aborted while "commit" is in the air. Each conjunct below excludes one kind of state that cannot arise.
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.models.twophase import TwoPhase


class TwoPhaseProof(TwoPhase):
    """Why nobody commits while somebody else aborts."""

    def promised(s, node):
        return member({"kind": "prepared", "node": node}, s.sent)

    @invariant
    def ACommitIsTold(s):
        return Forall(s.Node, lambda n: Implies(s.participant[n] == "committed", s.Told("commit")))

    @invariant
    def ToldCommitIsDecided(s):
        return Implies(s.Told("commit"), s.coordinator == "committed")

    @invariant
    def ToldAbortIsDecided(s):
        return Implies(s.Told("abort"), s.coordinator == "aborted")

    @invariant
    def CommitHeardEverybody(s):
        return Implies(s.coordinator == "committed", Forall(s.Node, lambda n: member(n, s.heard)))

    @invariant
    def HeardWasPromised(s):
        return Forall(s.Node, lambda n: Implies(member(n, s.heard), s.promised(n)))

    @invariant
    def APromiseIsKept(s):
        """Who has promised is not working any more, and aborts only when told to."""

        def kept(n):
            free = And(s.participant[n] != "working", Or(s.participant[n] != "aborted", s.Told("abort")))
            return Or(Not(s.promised(n)), free)

        return Forall(s.Node, kept)
