"""Raft's election, proved for any number of voters and terms, any quorums that meet, and crashes (rule M1).

What a voter knows (its term and its vote) is in memory first, and on disk after `Sync`; a crash leaves
what is on disk. An answer goes out when disk and memory are the same. The variant `vote-before-sync`
answers from memory, and z3 shows the state from which that breaks.

Abstracted: logs (a vote depends on them only by being refused more often, which is always allowed here);
messages are never taken from the network, so they come late, twice and in any order. A candidate
remembers with which quorum it won: `elected` names it, so that no conjunct has to say "there is a
quorum".
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.proofs.orders import any_two_meet, is_total_order


class Election(Model):
    """Votes, their sync, and what a quorum of them makes."""

    variant = Setting("right", "vote-before-sync")
    Nodes = Constant(3)
    Terms = Constant(3)

    Node = Sort(Nodes)
    Term = Sort(Terms, symmetric=False)
    Quorum = Sort(Nodes, symmetric=False)

    le = Rigid(Fn(Term, Term, Bool), lambda a, b: a <= b)
    zero = Rigid(Term, lambda: 0)
    within = Rigid(Fn(Quorum, Node, Bool), lambda quorum, node: quorum != node)

    term = Var(Fn(Node, Term))
    vote = Var(Fn(Node, Node, Bool), init=False)
    disk_term = Var(Fn(Node, Term))
    disk_vote = Var(Fn(Node, Node, Bool), init=False)
    asked = Var(Fn(Node, Term, Bool), init=False)
    granted = Var(Fn(Node, Term, Node, Bool), init=False)
    elected = Var(Fn(Term, Node, Quorum, Bool), init=False)

    @axiom
    def TermsAreOrdered(s):
        return And(is_total_order(s.Term, s.le), Forall(s.Term, lambda t: s.le[s.zero][t]))

    @axiom
    def QuorumsMeet(s):
        return any_two_meet(s.Quorum, s.Node, s.within)

    @initial
    def Begin(s):
        s.term = function(s.Node, lambda n: s.zero)
        s.disk_term = function(s.Node, lambda n: s.zero)

    def below(s, a, b):
        return And(s.le[a][b], a != b)

    @action
    def Campaign(s, n: Node, t: Term):
        """A timeout: a later term, a vote for oneself."""
        when(s.below(s.term[n], t))
        s.term[n] = t
        s.vote[n] = function(s.Node, lambda other: other == n)
        s.asked[n][t] = True

    @action
    def Grant(s, n: Node, to: Node, t: Term):
        """A vote for who asked: in a later term, or if there is none in this one."""
        free = And(s.term[n] == t, Forall(s.Node, lambda other: Implies(s.vote[n][other], other == to)))
        when(s.asked[to][t], s.below(s.term[n], t) | free)
        s.term[n] = t
        s.vote[n] = function(s.Node, lambda other: other == to)

    @action
    def Hear(s, n: Node, t: Term):
        """A later term, in whatever message, or in one's own log after a crash: no vote in it yet."""
        when(s.below(s.term[n], t))
        s.term[n] = t
        s.vote[n] = function(s.Node, lambda other: False)

    @action
    def Sync(s, n: Node):
        s.disk_term[n] = s.term[n]
        s.disk_vote[n] = s.vote[n]

    @action
    def Answer(s, n: Node, to: Node):
        """A vote is told once it is on disk."""
        when(s.vote[n][to])
        if s.variant == "right":
            when(s.disk_term[n] == s.term[n], s.disk_vote[n][to])
        s.granted[n][s.term[n]][to] = True

    @action
    def Crash(s, n: Node):
        """Memory is gone, the disk is not."""
        s.term[n] = s.disk_term[n]
        s.vote[n] = s.disk_vote[n]

    @action
    def Elect(s, n: Node, t: Term, q: Quorum):
        when(Forall(s.Node, lambda voter: Implies(s.within[q][voter], s.granted[voter][t][n])))
        s.elected[t][n][q] = True

    @invariant
    def OneLeaderInATerm(s):
        return Forall(
            s.Term,
            s.Node,
            s.Node,
            s.Quorum,
            s.Quorum,
            lambda t, a, b, q, r: Implies(And(s.elected[t][a][q], s.elected[t][b][r]), a == b),
        )

    @invariant
    def AQuorumGranted(s):
        def granted(t, a, q, voter):
            return Implies(And(s.elected[t][a][q], s.within[q][voter]), s.granted[voter][t][a])

        return Forall(s.Term, s.Node, s.Quorum, s.Node, granted)

    @invariant
    def OneVoteIsTold(s):
        def same(n, t, a, b):
            return Implies(And(s.granted[n][t][a], s.granted[n][t][b]), a == b)

        return Forall(s.Node, s.Term, s.Node, s.Node, same)

    @invariant
    def WhatIsToldIsOnDisk(s):
        """A vote that was told is on disk, or the disk is in a later term."""

        def kept(n, t, a):
            later = s.below(t, s.disk_term[n])
            return Implies(s.granted[n][t][a], later | And(t == s.disk_term[n], s.disk_vote[n][a]))

        return Forall(s.Node, s.Term, s.Node, kept)

    @invariant
    def OneVoteOnDisk(s):
        def same(n, a, b):
            return Implies(And(s.disk_vote[n][a], s.disk_vote[n][b]), a == b)

        return Forall(s.Node, s.Node, s.Node, same)

    @invariant
    def OneVoteInMemory(s):
        return Forall(
            s.Node, s.Node, s.Node, lambda n, a, b: Implies(And(s.vote[n][a], s.vote[n][b]), a == b)
        )

    @invariant
    def MemoryIsAhead(s):
        return Forall(s.Node, lambda n: s.le[s.disk_term[n]][s.term[n]])

    @invariant
    def MemoryHasTheDisksVote(s):
        def same(n, a):
            return Implies(And(s.term[n] == s.disk_term[n], s.disk_vote[n][a]), s.vote[n][a])

        return Forall(s.Node, s.Node, same)

    @sometimes
    def SomebodyLeads(s):
        return Exists(s.Term, s.Node, s.Quorum, lambda t, n, q: s.elected[t][n][q])

    @sometimes
    def TwoTermsHaveLeaders(s):
        def two(t, u, n, m, q, r):
            return And(t != u, s.elected[t][n][q], s.elected[u][m][r], Not(n == m))

        return Exists(s.Term, s.Term, s.Node, s.Node, s.Quorum, s.Quorum, two)
