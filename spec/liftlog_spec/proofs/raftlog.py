"""Raft's log: a committed entry is in the log of every later leader, proved without bounds (rule M1).

The theory in a paragraph. A leader of term t commits an entry of its own term when a quorum has
acknowledged it in t. A later leader was voted for by a quorum, so by one of those; and a vote needs a log
that is at least as new. Either the voter still had the entry, and then so has the new leader, or it lost
it to a leader in between that was elected without it, and then every quorum has a member that moved on
without having acknowledged the entry: it is blocked, no quorum has it, none will. ALostEntryIsBlocked
says that; the rest supports it.

Abstracted, and why that leaves out no harm:
  - a log is the relation "node, index, term in which the entry was written"; all logs begin with one
    entry of term zero;
  - messages are not taken from the network; what a leader sends is its log up to any index, at any time;
  - what is acknowledged, voted or asked for is on disk (the proof `election` shows what else would
    happen), so that a restart is nothing;
  - a quorum is whatever meets every other; the winning ones are remembered in `elected` and `committed`.

Not in it: membership changes, snapshots, disks that forget, reads.
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.proofs.orders import any_two_meet, is_total_order


class RaftLog(Model):
    """Elections with logs, replication and commits."""

    variant = Setting("right", "commit-old-term", "any-log-wins")
    Nodes = Constant(3)
    Terms = Constant(3)
    Indexes = Constant(2)

    Node = Sort(Nodes)
    Term = Sort(Terms, symmetric=False)
    Index = Sort(Indexes, symmetric=False)
    Quorum = Sort(Nodes, symmetric=False)

    le = Rigid(Fn(Term, Term, Bool), lambda a, b: a <= b)
    upto = Rigid(Fn(Index, Index, Bool), lambda i, j: i <= j)
    zero = Rigid(Term, lambda: 0)
    start = Rigid(Index, lambda: 0)
    within = Rigid(Fn(Quorum, Node, Bool), lambda quorum, node: quorum != node)

    # Terms that a node has heard of, and those above which it has; its log.
    heard = Var(Fn(Node, Term, Bool), init=False)
    left = Var(Fn(Node, Term, Bool), init=False)
    holds = Var(Fn(Node, Index, Term, Bool), init=False)
    # Who asked for votes, with the last entry; who voted; who won, and the log of the term.
    request = Var(Fn(Node, Term, Index, Term, Bool), init=False)
    vote = Var(Fn(Node, Term, Node, Bool), init=False)
    elected = Var(Fn(Term, Node, Quorum, Bool), init=False)
    led = Var(Fn(Term, Bool), init=False)
    log = Var(Fn(Term, Index, Term, Bool), init=False)
    # Acknowledged in a term: entries of that term. Committed: with which quorum.
    acked = Var(Fn(Node, Term, Index, Bool), init=False)
    committed = Var(Fn(Term, Index, Quorum, Bool), init=False)

    @axiom
    def TermsAndIndexesAreOrdered(s):
        return And(is_total_order(s.Term, s.le), is_total_order(s.Index, s.upto))

    @axiom
    def ZeroAndStartAreLeast(s):
        return And(Forall(s.Term, lambda t: s.le[s.zero][t]), Forall(s.Index, lambda i: s.upto[s.start][i]))

    @axiom
    def QuorumsMeet(s):
        return any_two_meet(s.Quorum, s.Node, s.within)

    @initial
    def Begin(s):
        s.heard = function(s.Node, lambda n: function(s.Term, lambda t: t == s.zero))
        s.holds = function(
            s.Node,
            lambda n: function(s.Index, lambda i: function(s.Term, lambda w: And(i == s.start, w == s.zero))),
        )
        s.log[s.zero][s.start][s.zero] = True

    def below(s, a, b):
        return And(s.le[a][b], a != b)

    def before(s, i, j):
        return And(s.upto[i][j], i != j)

    def begun(s, t):
        return s.led[t]

    def join(s, n, t):
        """n goes to term t."""
        s.heard[n][t] = True
        s.left[n] = function(s.Term, lambda u: Or(s.left[n][u], s.below(u, t)))

    # -- elections -----------------------------------------------------------------------------------------

    @action
    def Campaign(s, n: Node, t: Term, i: Index, w: Term):
        """A later term; (i, w) is the last entry."""
        when(Not(s.heard[n][t]), Not(s.left[n][t]), s.holds[n][i][w])
        when(Forall(s.Index, s.Term, lambda j, v: Implies(s.holds[n][j][v], s.upto[j][i])))
        s.join(n, t)
        s.request[n][t][i][w] = True
        s.vote[n][t][n] = True

    @action
    def Vote(s, n: Node, to: Node, t: Term, i: Index, w: Term):
        """For a log that is at least as new."""
        when(s.request[to][t][i][w], Not(s.left[n][t]))
        when(Forall(s.Node, lambda other: Implies(s.vote[n][t][other], other == to)))

        def as_new(j, v):
            return Implies(s.holds[n][j][v], Or(s.below(v, w), And(v == w, s.upto[j][i])))

        if s.variant != "any-log-wins":
            when(Forall(s.Index, s.Term, as_new))
        s.join(n, t)
        s.vote[n][t][to] = True

    @action
    def Elect(s, n: Node, t: Term, q: Quorum, i: Index, w: Term):
        when(s.heard[n][t], Not(s.left[n][t]), s.request[n][t][i][w])
        when(Forall(s.Node, lambda m: Implies(s.within[q][m], s.vote[m][t][n])))
        when(Forall(s.Quorum, lambda other: Not(s.elected[t][n][other])))
        s.elected[t][n][q] = True
        s.led[t] = True
        s.log[t] = s.holds[n]

    # -- replication ---------------------------------------------------------------------------------------

    @action
    def Append(s, n: Node, t: Term, q: Quorum, i: Index):
        when(s.elected[t][n][q], Not(s.left[n][t]))
        when(Forall(s.Index, s.Term, lambda j, w: Implies(s.log[t][j][w], s.before(j, i))))
        s.log[t][i][t] = True
        s.holds[n][i][t] = True
        s.acked[n][t][i] = True

    def acknowledge(s, n, t, k):
        s.acked[n][t] = function(s.Index, lambda i: Or(s.acked[n][t][i], And(s.upto[i][k], s.log[t][i][t])))

    @action
    def Accept(s, n: Node, t: Term, k: Index):
        """The leader's log up to k, in place of what differs; nothing that agrees is cut."""
        when(s.begun(t), Not(s.left[n][t]))
        when(
            Forall(s.Index, s.Term, lambda i, w: Implies(And(s.holds[n][i][w], s.log[t][i][w]), s.upto[i][k]))
        )
        s.join(n, t)
        s.holds[n] = function(
            s.Index, lambda i: function(s.Term, lambda w: And(s.upto[i][k], s.log[t][i][w]))
        )
        s.acknowledge(n, t, k)

    @action
    def AcceptWhatIsThere(s, n: Node, t: Term, k: Index):
        """The logs agree up to k: what comes behind that stays, whatever it is."""
        when(s.begun(t), Not(s.left[n][t]))
        when(
            Forall(s.Index, s.Term, lambda i, w: Implies(And(s.upto[i][k], s.log[t][i][w]), s.holds[n][i][w]))
        )
        s.join(n, t)
        s.acknowledge(n, t, k)

    @action
    def Hear(s, n: Node, t: Term):
        """A message of a later term, whatever it says."""
        when(Not(s.heard[n][t]), Not(s.left[n][t]))
        s.join(n, t)

    @action
    def Commit(s, t: Term, i: Index, q: Quorum):
        """An entry of the leader's own term that a quorum has acknowledged, with all before it."""
        when(s.log[t][i][t])
        if s.variant == "commit-old-term":
            when(Forall(s.Node, lambda n: Implies(s.within[q][n], s.holds[n][i][t])))
        else:
            when(Forall(s.Node, lambda n: Implies(s.within[q][n], s.acked[n][t][i])))
        s.committed[t][i][q] = True

    # -- what is wanted ------------------------------------------------------------------------------------

    @invariant
    def OneLeader(s):
        def same(t, a, b, q, r):
            return Implies(And(s.elected[t][a][q], s.elected[t][b][r]), a == b)

        return Forall(s.Term, s.Node, s.Node, s.Quorum, s.Quorum, same)

    @invariant
    def LogsMatch(s):
        def agree(a, b, i, j, w, v):
            both = And(s.holds[a][i][w], s.holds[b][i][w], s.before(j, i))
            return Implies(And(both, s.holds[a][j][v]), s.holds[b][j][v])

        return Forall(s.Node, s.Node, s.Index, s.Index, s.Term, s.Term, agree)

    @invariant
    def LeadersAreComplete(s):
        def complete(t, u, i, q):
            return Implies(And(s.committed[t][i][q], s.below(t, u), s.begun(u)), s.log[u][i][t])

        return Forall(s.Term, s.Term, s.Index, s.Quorum, complete)

    @invariant
    def OneCommittedEntry(s):
        """At one index, in the prefixes of any two commits."""

        def same(t, u, i, k, q, r, j, v, w):
            both = And(s.committed[t][i][q], s.committed[u][k][r], s.upto[j][i], s.upto[j][k])
            return Implies(And(both, s.log[t][j][v], s.log[u][j][w]), v == w)

        return Forall(s.Term, s.Term, s.Index, s.Index, s.Quorum, s.Quorum, s.Index, s.Term, s.Term, same)

    # -- why: terms and votes ------------------------------------------------------------------------------

    @invariant
    def HeardLeavesTheRest(s):
        def leaves(n, t, u):
            return Implies(And(s.heard[n][u], s.below(t, u)), s.left[n][t])

        return Forall(s.Node, s.Term, s.Term, leaves)

    @invariant
    def ZeroWasHeard(s):
        return Forall(s.Node, lambda n: s.heard[n][s.zero])

    @invariant
    def NobodyAsksForZero(s):
        return Forall(s.Node, s.Index, s.Term, lambda n, i, w: Not(s.request[n][s.zero][i][w]))

    @invariant
    def VotersHeard(s):
        return Forall(s.Node, s.Term, s.Node, lambda n, t, c: Implies(s.vote[n][t][c], s.heard[n][t]))

    @invariant
    def VotesAreForWhoHeard(s):
        return Forall(s.Node, s.Term, s.Node, lambda n, t, c: Implies(s.vote[n][t][c], s.heard[c][t]))

    @invariant
    def WhoAsksHasHeard(s):
        def heard(n, t, i, w):
            return Implies(s.request[n][t][i][w], s.heard[n][t])

        return Forall(s.Node, s.Term, s.Index, s.Term, heard)

    @invariant
    def OneRequest(s):
        def same(n, t, i, j, w, v):
            return Implies(And(s.request[n][t][i][w], s.request[n][t][j][v]), And(i == j, w == v))

        return Forall(s.Node, s.Term, s.Index, s.Index, s.Term, s.Term, same)

    @invariant
    def OneVote(s):
        def same(n, t, a, b):
            return Implies(And(s.vote[n][t][a], s.vote[n][t][b]), a == b)

        return Forall(s.Node, s.Term, s.Node, s.Node, same)

    @invariant
    def AQuorumVoted(s):
        def voted(t, n, q, m):
            return Implies(And(s.elected[t][n][q], s.within[q][m]), s.vote[m][t][n])

        return Forall(s.Term, s.Node, s.Quorum, s.Node, voted)

    @invariant
    def ARequestIsHeld(s):
        """Until somebody leads the term, a candidate's log does not change."""

        def held(n, t, i, w):
            waiting = And(s.request[n][t][i][w], Not(s.left[n][t]), Not(s.begun(t)))
            return Implies(waiting, s.holds[n][i][w])

        return Forall(s.Node, s.Term, s.Index, s.Term, held)

    @invariant
    def LedBySomebody(s):
        """Who was elected."""

        def somebody(t):
            return Implies(s.led[t], Exists(s.Node, s.Quorum, lambda n, q: s.elected[t][n][q]))

        return Forall(s.Term, somebody)

    @invariant
    def ElectedLeads(s):
        return Forall(s.Term, s.Node, s.Quorum, lambda t, n, q: Implies(s.elected[t][n][q], s.led[t]))

    # -- why: entries --------------------------------------------------------------------------------------

    @invariant
    def LogsBeganWithALeader(s):
        def led(t, i, w):
            return Implies(And(s.log[t][i][w], t != s.zero), s.begun(t))

        return Forall(s.Term, s.Index, s.Term, led)

    @invariant
    def NoEntryIsAhead(s):
        return Forall(s.Term, s.Index, s.Term, lambda t, i, w: Implies(s.log[t][i][w], s.le[w][t]))

    @invariant
    def LoggedByItsWriter(s):
        return Forall(s.Term, s.Index, s.Term, lambda t, i, w: Implies(s.log[t][i][w], s.log[w][i][w]))

    @invariant
    def HeldWasWritten(s):
        return Forall(s.Node, s.Index, s.Term, lambda n, i, w: Implies(s.holds[n][i][w], s.log[w][i][w]))

    @invariant
    def HeldIsNotAhead(s):
        def left(n, i, w, t):
            return Implies(And(s.holds[n][i][w], s.below(t, w)), s.left[n][t])

        return Forall(s.Node, s.Index, s.Term, s.Term, left)

    @invariant
    def TheLeaderHoldsItsLog(s):
        def holds(t, n, q, i, w):
            leading = And(s.elected[t][n][q], Not(s.left[n][t]))
            return Implies(leading, s.holds[n][i][w] == s.log[t][i][w])

        return Forall(s.Term, s.Node, s.Quorum, s.Index, s.Term, holds)

    @invariant
    def OneEntryInALog(s):
        def same(t, i, v, w):
            return Implies(And(s.log[t][i][v], s.log[t][i][w]), v == w)

        return Forall(s.Term, s.Index, s.Term, s.Term, same)

    @invariant
    def OneEntryHeld(s):
        def same(n, i, v, w):
            return Implies(And(s.holds[n][i][v], s.holds[n][i][w]), v == w)

        return Forall(s.Node, s.Index, s.Term, s.Term, same)

    @invariant
    def LogsMatchTheWriters(s):
        def same(t, i, w, j, v):
            return Implies(And(s.log[t][i][w], s.before(j, i)), s.log[t][j][v] == s.log[w][j][v])

        return Forall(s.Term, s.Index, s.Term, s.Index, s.Term, same)

    @invariant
    def ReplicasMatchTheWriters(s):
        def same(n, i, w, j, v):
            return Implies(And(s.holds[n][i][w], s.before(j, i)), s.holds[n][j][v] == s.log[w][j][v])

        return Forall(s.Node, s.Index, s.Term, s.Index, s.Term, same)

    # -- why: commits --------------------------------------------------------------------------------------

    def blocked(s, t, i):
        """Every quorum has a member that went on without having acknowledged the entry."""

        def without(q):
            return Exists(s.Node, lambda m: And(s.within[q][m], s.left[m][t], Not(s.acked[m][t][i])))

        return Forall(s.Quorum, without)

    @invariant
    def AQuorumAcked(s):
        def acked(t, i, q, n):
            return Implies(And(s.committed[t][i][q], s.within[q][n]), s.acked[n][t][i])

        return Forall(s.Term, s.Index, s.Quorum, s.Node, acked)

    @invariant
    def ALostEntryIsBlocked(s):
        def lost(t, u, i):
            missing = And(s.below(t, u), s.begun(u), s.log[t][i][t], Not(s.log[u][i][t]))
            return Implies(missing, s.blocked(t, i))

        return Forall(s.Term, s.Term, s.Index, lost)

    @invariant
    def AckedIsHeldOrBlocked(s):
        def held(n, t, i):
            return Implies(And(s.acked[n][t][i], Not(s.holds[n][i][t])), And(s.left[n][t], s.blocked(t, i)))

        return Forall(s.Node, s.Term, s.Index, held)

    @invariant
    def AVoteIsForANewerLog(s):
        """Who acknowledged an entry votes later for logs that are as new, or the entry is blocked."""

        def newer(n, t, u, i, c, j, v):
            voted = And(s.acked[n][t][i], s.below(t, u), s.vote[n][u][c], s.request[c][u][j][v])
            as_new = Or(s.below(t, v), And(v == t, s.upto[i][j]))
            return Implies(And(voted, Not(as_new)), s.blocked(t, i))

        return Forall(s.Node, s.Term, s.Term, s.Index, s.Node, s.Index, s.Term, newer)

    # -- signs of life -------------------------------------------------------------------------------------

    @sometimes
    def ANewLeaderHasACommittedEntry(s):
        def has(t, u, i, q, r, n, m):
            first = And(s.committed[t][i][q], s.elected[t][n][q])
            return And(first, s.elected[u][m][r], s.below(t, u), n != m, s.log[u][i][t])

        return Exists(s.Term, s.Term, s.Index, s.Quorum, s.Quorum, s.Node, s.Node, has)
