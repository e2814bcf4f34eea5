"""Raft with membership change, one server at a time: one leader in a term, and complete logs, without bounds.

The theory in a paragraph. A log is its last entry: entries form a tree, and each names the configuration
that a server goes by when it is the last one. A configuration was written on top of a *basis*, an entry of
the same leader's own term that this leader had committed, with no other change in between (M2): that is one
at a time and the correction of 2015 in one guard. Then NeighboursMeet is inductive: if of two entries each
contains the basis of the other's configuration, their configurations are one voter apart at most, and any
quorum of one meets any quorum of the other. For a change written on a basis that both contain can be the
first of one leader only, so that of all that comes after a basis only two configurations are ever in force.

The rest is Raft's old argument. Suppose that a candidate lacks a committed entry. Take the lowest that it
lacks: the basis of the configuration that committed it is committed and lower, so the candidate has that; the
candidate's own basis is committed too, so the other log has that. Hence one voter acknowledged the entry
and voted for the candidate, which it may do only for a log that has the entry. The same with two candidates
of one term, and with an entry that is committed late, when a leader that lacks it is already elected: take
the first such leader.

"The lowest" and "the first" are the only inductions that z3 is not left to find, since a sort with an order
may have no lowest element. They are said by actions. Where all is well there are `Elect` and `Commit`; else
there are `ElectWithout`, `ElectAnother`, `CommitLate`, which do the same, and name the lowest or first of
what is lacking (`lacks` is kept for each leader's beginning, `gone` says that a leader before a term lacked
something). Of finitely many one is the lowest, so together these actions are all elections and commits (that
`lacks` and `gone` mean what they say is proved in tests/spec/test_prover.py, outside of EPR). Each of the
last three would break one of the conjuncts at once: that they keep all is that they are impossible.

Abstracted, and why that leaves out no harm:
  - an entry is an element of a tree. A server compares term and index, which is the same: entries of one
    term lie on one path (EntriesOfATermAreAPath);
  - a configuration is its quorums. Which are neighbours, and that quorums of neighbours meet, is an axiom:
    tests/spec/test_prover.py checks all sets of at most five voters;
  - who learns, that a candidate need not be a member, to whom a leader sends: whoever is not counted may
    do as he likes;
  - a candidate stands with the log that it asked with; a leader counts only what is after what it counted;
  - messages, disks and restarts as in `raft-log`.

It is the argument of ADORE's tree of caches (Honoré, Shin, Kim, Shao, PLDI 2022), whose induction on the
number of changes between two entries is replaced by the basis. Not in it: snapshots, disks that forget.
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.proofs.orders import is_total_order
from liftlog_spec.proofs.voters import are_neighbours, is_quorum, voters_of


class Membership(Model):
    """Elections, replication, commits and changes of the configuration."""

    variant = Setting(
        "right",
        "change-before-own-commit",
        "two-changes",
        "two-voters-at-once",
        "effective-at-commit",
        "quorum-of-election",
        "learner-counts",
        "removed-leader-counts",
        "wiped-voter-rejoins",
    )
    Nodes = Constant(2)
    Terms = Constant(3)
    Entries = Constant(3)
    Configs = Constant(3)
    Quorums = Constant(3)
    """Of instances: of two or three nodes. Quorums and configurations are sets of them: proofs/voters.py."""

    Node = Sort(Nodes)
    Term = Sort(Terms, symmetric=False)
    Entry = Sort(Entries, symmetric=False)
    Config = Sort(Configs, symmetric=False)
    Quorum = Sort(Quorums, symmetric=False)

    le = Rigid(Fn(Term, Term, Bool), lambda a, b: a <= b)
    zero = Rigid(Term, lambda: 0)
    root = Rigid(Entry, lambda: 0)
    within = Rigid(Fn(Quorum, Node, Bool), lambda q, n: bool(q + 1 >> n & 1))
    of = Rigid(Fn(Config, Quorum, Bool), lambda c, q: is_quorum(q + 1, voters_of(c)))
    near = Rigid(Fn(Config, Config, Bool), lambda c, d: are_neighbours(voters_of(c), voters_of(d)))

    # The tree of entries: who is below whom or the same (what is in it is below itself); when it was written.
    upto = Var(Fn(Entry, Entry, Bool), init=False)
    at = Var(Fn(Entry, Term))
    # The configuration of each entry, and on which entry it was written.
    config = Var(Fn(Entry, Config, Bool), init=False)
    basis = Var(Fn(Config, Entry))
    # A server's term and log.
    term = Var(Fn(Node, Term))
    log = Var(Fn(Node, Entry))
    # Who asked for votes, with which log; who voted; who won, with which log and quorum; the log of the term.
    asked = Var(Fn(Node, Term, Entry, Bool), init=False)
    vote = Var(Fn(Node, Term, Node, Bool), init=False)
    elected = Var(Fn(Term, Node, Entry, Quorum, Bool), init=False)
    led = Var(Fn(Term, Bool), init=False)
    head = Var(Fn(Term, Entry, Bool), init=False)
    # Acknowledged in the entry's own term. Committed in it; counted with which log, and with which quorum.
    acked = Var(Fn(Node, Entry, Bool), init=False)
    committed = Var(Fn(Entry, Bool), init=False)
    counted = Var(Fn(Entry, Entry, Quorum, Bool), init=False)
    # What the leader of a later term did not have; and that there was such a leader before a term.
    lacks = Var(Fn(Entry, Term, Bool), init=False)
    gone = Var(Fn(Entry, Term, Bool), init=False)

    @axiom
    def TermsAreOrdered(s):
        return And(is_total_order(s.Term, s.le), Forall(s.Term, lambda t: s.le[s.zero][t]))

    @axiom
    def NeighboursHaveQuorumsThatMeet(s):
        def meet(c, d, q, r):
            both = And(s.near[c][d], s.of[c][q], s.of[d][r])
            return Implies(both, Exists(s.Node, lambda n: And(s.within[q][n], s.within[r][n])))

        return Forall(s.Config, s.Config, s.Quorum, s.Quorum, meet)

    @axiom
    def NeighboursAreMutual(s):
        mutual = Forall(s.Config, s.Config, lambda c, d: Implies(s.near[c][d], s.near[d][c]))
        return And(mutual, Forall(s.Config, lambda c: s.near[c][c]))

    @initial
    def Begin(s):
        """One entry, in every log. What configuration it has is said by `Found`."""
        s.term = function(s.Node, lambda n: s.zero)
        s.log = function(s.Node, lambda n: s.root)
        s.at = function(s.Entry, lambda e: s.zero)
        s.basis = function(s.Config, lambda c: s.root)
        s.upto[s.root][s.root] = True
        s.committed[s.root] = True

    # -- words ---------------------------------------------------------------------------------------------

    def below(s, a, b):
        return And(s.le[a][b], a != b)

    def there(s, e):
        return s.upto[e][e]

    def misses(s, a, e, t):
        """e was written before term t and is not in the log a."""
        return And(s.there(e), s.below(s.at[e], t), Not(s.upto[e][a]))

    @action
    def Found(s, c: Config):
        """Before anything else."""
        when(Forall(s.Entry, s.Config, lambda e, d: Not(s.config[e][d])))
        when(Forall(s.Term, lambda t: Not(s.led[t])))
        s.config[s.root][c] = True
        s.basis[c] = s.root

    # -- elections -----------------------------------------------------------------------------------------

    @action
    def Campaign(s, n: Node, t: Term):
        when(s.below(s.term[n], t))
        s.term[n] = t
        s.asked[n][t][s.log[n]] = True
        s.vote[n][t][n] = True

    @action
    def Vote(s, n: Node, to: Node, t: Term, a: Entry):
        """For a log that is at least as new. Whoever is asked may vote, member or not."""
        when(s.asked[to][t][a], s.le[s.term[n]][t])
        when(Forall(s.Node, lambda other: Implies(s.vote[n][t][other], other == to)))
        mine = s.log[n]
        when(Or(s.below(s.at[mine], s.at[a]), And(s.at[mine] == s.at[a], s.upto[mine][a])))
        s.term[n] = t
        s.vote[n][t][to] = True

    def goes_by(s, a, c):
        """The last configuration in a log, committed or not."""
        if s.variant == "effective-at-commit":
            when(Exists(s.Entry, lambda e: And(s.committed[e], s.upto[e][a], s.config[e][c])))
        else:
            when(s.config[a][c])

    def quorum(s, c, q, has):
        """Those who count are a quorum of the configuration."""
        if s.variant == "learner-counts":
            when(Exists(s.Config, lambda d: s.of[d][q]))
        else:
            when(s.of[c][q])
        if s.variant == "removed-leader-counts":

            def but(k):
                return Forall(s.Node, lambda m: Implies(And(s.within[q][m], m != k), has(m)))

            when(Exists(s.Node, but))
        else:
            when(Forall(s.Node, lambda m: Implies(s.within[q][m], has(m))))

    def win(s, n, c, q):
        t, a = s.term[n], s.log[n]
        when(s.asked[n][t][a])
        s.goes_by(a, c)
        s.quorum(c, q, lambda m: s.vote[m][t][n])
        when(Forall(s.Entry, s.Quorum, lambda b, r: Not(s.elected[t][n][b][r])))
        s.elected[t][n][a][q] = True
        s.led[t] = True
        s.head[t] = function(s.Entry, lambda e: e == a)

        def lacked(e, u):
            return Or(s.lacks[e][u], And(u == t, s.misses(a, e, t)))

        def gone_before(e, u):
            return Or(s.gone[e][u], And(s.below(t, u), s.misses(a, e, t)))

        s.lacks = function(s.Entry, lambda e: function(s.Term, lambda u: lacked(e, u)))
        s.gone = function(s.Entry, lambda e: function(s.Term, lambda u: gone_before(e, u)))

    @action
    def Elect(s, n: Node, c: Config, q: Quorum):
        """Nobody else leads the term, and nothing is lacking."""
        t, a = s.term[n], s.log[n]
        when(Not(s.led[t]))
        when(Forall(s.Entry, lambda e: Implies(And(s.committed[e], s.below(s.at[e], t)), s.upto[e][a])))
        s.win(n, c, q)

    @action
    def ElectAnother(s, n: Node, c: Config, q: Quorum, m: Node, b: Entry, d: Config, r: Quorum):
        """Somebody else leads the term; nothing is lacking. This is impossible."""
        t, a = s.term[n], s.log[n]
        when(s.elected[t][m][b][r], s.config[b][d])
        when(Forall(s.Entry, lambda e: Implies(And(s.committed[e], s.below(s.at[e], t)), s.upto[e][a])))
        s.win(n, c, q)

    @action
    def ElectWithout(s, n: Node, c: Config, q: Quorum, e: Entry, h: Entry, d: Config, r: Quorum):
        """e is the lowest committed entry that its log lacks. This is impossible."""
        t, a = s.term[n], s.log[n]
        when(s.below(s.at[e], t), Not(s.upto[e][a]), s.counted[e][h][r], s.config[h][d])

        def has(f):
            return Implies(And(s.committed[f], s.upto[f][e], f != e), s.upto[f][a])

        when(Forall(s.Entry, has))
        s.win(n, c, q)

    # -- replication ---------------------------------------------------------------------------------------

    def extend(s, n, a, q, x):
        """A new entry at the end of the log of the leader, who has it on disk."""
        t, end = s.term[n], s.log[n]
        when(s.elected[t][n][a][q], Not(s.there(x)))
        s.upto = function(
            s.Entry,
            lambda e: function(s.Entry, lambda f: If(f == x, Or(e == x, s.upto[e][end]), s.upto[e][f])),
        )
        s.at[x] = t
        s.log[n] = x
        s.head[t] = function(s.Entry, lambda e: e == x)
        s.acked[n][x] = True

        def gone_before(u):
            return Exists(s.Term, lambda w: And(s.led[w], s.below(t, w), s.below(w, u)))

        s.lacks[x] = function(s.Term, lambda u: And(s.led[u], s.below(t, u)))
        s.gone[x] = function(s.Term, gone_before)

    @action
    def Write(s, n: Node, a: Entry, q: Quorum, x: Entry):
        s.extend(n, a, q, x)
        s.config[x] = s.config[s.log[n]]

    @action
    def Change(s, n: Node, a: Entry, q: Quorum, x: Entry, c: Config, old: Config, b: Entry):
        """To a neighbour, on an entry of this term that is committed in it, with no change in between."""
        end = s.log[n]
        when(s.committed[b], s.upto[b][end], s.config[end][old])
        if s.variant != "change-before-own-commit":
            when(s.at[b] == s.term[n])
        if s.variant != "two-changes":
            when(s.config[b][old])
        if s.variant != "two-voters-at-once":
            when(s.near[old][c])
        when(Forall(s.Entry, lambda e: Not(s.config[e][c])))
        s.extend(n, a, q, x)
        s.config[x] = function(s.Config, lambda d: d == c)
        s.basis[c] = b

    @action
    def Accept(s, n: Node, t: Term, h: Entry, x: Entry):
        """The log of the leader of t up to x, in place of what differs; nothing that agrees is cut."""
        when(s.head[t][h], s.upto[x][h], s.le[s.term[n]][t])
        s.term[n] = t
        s.log[n] = If(s.upto[x][s.log[n]], s.log[n], x)
        s.acked[n] = function(s.Entry, lambda e: Or(s.acked[n][e], And(s.upto[e][x], s.at[e] == t)))

    @action
    def Hear(s, n: Node, t: Term):
        """A message of a later term, whatever it says."""
        when(s.below(s.term[n], t))
        s.term[n] = t

    def decide(s, e, h, c, q):
        """An entry of the leader's own term, not counted before: by the configuration at the log's end."""
        t = s.at[e]
        when(s.head[t][h], s.upto[e][h], s.at[h] == t)
        if s.variant == "quorum-of-election":

            def begun_with(n, a, r):
                return And(s.elected[t][n][a][r], s.config[a][c])

            when(Exists(s.Node, s.Entry, s.Quorum, begun_with))
        else:
            s.goes_by(h, c)
        s.quorum(c, q, lambda m: s.acked[m][e])
        when(Forall(s.Entry, lambda f: Implies(And(s.committed[f], s.upto[e][f]), s.at[f] != t)))
        s.committed[e] = True
        s.counted[e][h][q] = True

    @action
    def Commit(s, e: Entry, h: Entry, c: Config, q: Quorum):
        """No leader of a later term lacks it."""
        when(Forall(s.Term, lambda u: And(Not(s.lacks[e][u]), Not(s.gone[e][u]))))
        s.decide(e, h, c, q)

    @action
    def CommitLate(
        s, e: Entry, h: Entry, c: Config, q: Quorum, u: Term, n: Node, a: Entry, d: Config, r: Quorum
    ):
        """The leader of u lacks it, and is the first such. This is impossible."""
        when(s.lacks[e][u], Not(s.gone[e][u]), s.elected[u][n][a][r], s.config[a][d], Not(s.upto[e][a]))
        s.decide(e, h, c, q)

    @action
    @only("variant", "wiped-voter-rejoins")
    def Wipe(s, n: Node):
        """An empty disk, and the same name."""
        s.term[n] = s.zero
        s.log[n] = s.root

    # -- what is wanted ------------------------------------------------------------------------------------

    @invariant
    def ElectionSafety(s):
        def same(t, n, m, a, b, q, r):
            return Implies(And(s.elected[t][n][a][q], s.elected[t][m][b][r]), n == m)

        return Forall(s.Term, s.Node, s.Node, s.Entry, s.Entry, s.Quorum, s.Quorum, same)

    @invariant
    def LeaderCompleteness(s):
        """What was committed in a term, with all before it, is in the log of whoever is elected later."""

        def complete(e, t, n, a, q):
            later = And(s.committed[e], s.elected[t][n][a][q], s.below(s.at[e], t))
            return Implies(later, s.upto[e][a])

        return Forall(s.Entry, s.Term, s.Node, s.Entry, s.Quorum, complete)

    # -- why: configurations -------------------------------------------------------------------------------

    @invariant
    def NeighboursMeet(s):
        """Of two entries that contain the basis of each other's configuration."""

        def meet(x, y, c, d):
            both = And(s.config[x][c], s.config[y][d], s.upto[s.basis[c]][y], s.upto[s.basis[d]][x])
            return Implies(both, s.near[c][d])

        return Forall(s.Entry, s.Entry, s.Config, s.Config, meet)

    @invariant
    def OneConfiguration(s):
        def same(e, c, d):
            return Implies(And(s.config[e][c], s.config[e][d]), c == d)

        return Forall(s.Entry, s.Config, s.Config, same)

    @invariant
    def ABasisIsCommitted(s):
        def committed(e, c):
            return Implies(s.config[e][c], And(s.committed[s.basis[c]], s.upto[s.basis[c]][e]))

        return Forall(s.Entry, s.Config, committed)

    @invariant
    def AChangeIsOfItsBasisTerm(s):
        """What is before a change is not of a later term."""

        def not_later(x, y, c):
            changed = And(s.upto[x][y], s.config[y][c], Not(s.config[x][c]))
            return Implies(changed, s.le[s.at[x]][s.at[s.basis[c]]])

        return Forall(s.Entry, s.Entry, s.Config, not_later)

    @invariant
    def TheLeaderHasItsChanges(s):
        """Once it has written a change, its log ends no more with the configuration that was before."""

        def has(x, y, c, d, h):
            before = And(s.upto[x][y], s.config[y][c], Not(s.config[x][c]), s.config[x][d])
            its = And(s.at[x] == s.at[s.basis[c]], s.head[s.at[x]][h])
            return Implies(And(before, its), Not(s.config[h][d]))

        return Forall(s.Entry, s.Entry, s.Config, s.Config, s.Entry, has)

    # -- why: the tree -------------------------------------------------------------------------------------

    @invariant
    def EntriesAreInTheTree(s):
        return Forall(s.Entry, s.Entry, lambda x, y: Implies(s.upto[x][y], And(s.there(x), s.there(y))))

    @invariant
    def Transitive(s):
        def through(x, y, z):
            return Implies(And(s.upto[x][y], s.upto[y][z]), s.upto[x][z])

        return Forall(s.Entry, s.Entry, s.Entry, through)

    @invariant
    def APathToEachEntry(s):
        """Of two entries in one log one is before the other."""

        def comparable(x, y, z):
            return Implies(And(s.upto[x][z], s.upto[y][z]), Or(s.upto[x][y], s.upto[y][x]))

        return Forall(s.Entry, s.Entry, s.Entry, comparable)

    @invariant
    def TheRootIsThere(s):
        return And(s.committed[s.root], s.at[s.root] == s.zero, s.there(s.root))

    @invariant
    def TermsGrow(s):
        return Forall(s.Entry, s.Entry, lambda x, y: Implies(s.upto[x][y], s.le[s.at[x]][s.at[y]]))

    @invariant
    def EntriesOfATermAreAPath(s):
        def comparable(x, y):
            both = And(s.there(x), s.there(y), s.at[x] == s.at[y])
            return Implies(both, Or(s.upto[x][y], s.upto[y][x]))

        return Forall(s.Entry, s.Entry, comparable)

    @invariant
    def TheLeadersLogHasThemAll(s):
        def has(t, h, x):
            return Implies(And(s.head[t][h], s.there(x), s.at[x] == t), s.upto[x][h])

        return Forall(s.Term, s.Entry, s.Entry, has)

    @invariant
    def WhoWroteLed(s):
        return Forall(s.Entry, lambda e: Implies(And(s.there(e), s.at[e] != s.zero), s.led[s.at[e]]))

    # -- why: terms, votes and logs ------------------------------------------------------------------------

    @invariant
    def LogsAreInTheTree(s):
        return Forall(s.Node, lambda n: And(s.there(s.log[n]), s.le[s.at[s.log[n]]][s.term[n]]))

    @invariant
    def WhatWasAskedWith(s):
        def asked(n, t, a):
            early = And(s.there(a), s.below(s.at[a], t), s.le[t][s.term[n]])
            return Implies(s.asked[n][t][a], early)

        return Forall(s.Node, s.Term, s.Entry, asked)

    @invariant
    def OneRequest(s):
        def same(n, t, a, b):
            return Implies(And(s.asked[n][t][a], s.asked[n][t][b]), a == b)

        return Forall(s.Node, s.Term, s.Entry, s.Entry, same)

    @invariant
    def OneVote(s):
        def same(n, t, a, b):
            return Implies(And(s.vote[n][t][a], s.vote[n][t][b]), a == b)

        return Forall(s.Node, s.Term, s.Node, s.Node, same)

    @invariant
    def VotersAreInTheTerm(s):
        def later(n, t, c):
            return Implies(s.vote[n][t][c], And(s.le[t][s.term[n]], s.le[t][s.term[c]]))

        return Forall(s.Node, s.Term, s.Node, later)

    @invariant
    def AQuorumVoted(s):
        def voted(t, n, a, q, m):
            return Implies(And(s.elected[t][n][a][q], s.within[q][m]), s.vote[m][t][n])

        return Forall(s.Term, s.Node, s.Entry, s.Quorum, s.Node, voted)

    @invariant
    def ItsConfigurationsQuorum(s):
        def of(t, n, a, q, c):
            return Implies(And(s.elected[t][n][a][q], s.config[a][c]), s.of[c][q])

        return Forall(s.Term, s.Node, s.Entry, s.Quorum, s.Config, of)

    @invariant
    def TheElectedLed(s):
        def led(t, n, a, q):
            return Implies(s.elected[t][n][a][q], And(s.led[t], s.asked[n][t][a]))

        return Forall(s.Term, s.Node, s.Entry, s.Quorum, led)

    @invariant
    def HeadsAreInTheTree(s):
        def inside(t, h):
            return Implies(s.head[t][h], And(s.there(h), s.le[s.at[h]][t], s.led[t]))

        return Forall(s.Term, s.Entry, inside)

    @invariant
    def TheLeaderHoldsItsLog(s):
        def holds(t, n, a, q, h):
            leading = And(s.elected[t][n][a][q], s.term[n] == t)
            return Implies(leading, s.head[t][h] == (s.log[n] == h))

        return Forall(s.Term, s.Node, s.Entry, s.Quorum, s.Entry, holds)

    # -- why: what leaders lack ----------------------------------------------------------------------------

    @invariant
    def WhatABeginningLacks(s):
        def lacking(t, n, a, q, e):
            return Implies(And(s.elected[t][n][a][q], s.misses(a, e, t)), s.lacks[e][t])

        return Forall(s.Term, s.Node, s.Entry, s.Quorum, s.Entry, lacking)

    @invariant
    def WhatALeadersLogLacks(s):
        def lacking(t, h, e):
            return Implies(And(s.head[t][h], s.misses(h, e, t)), s.lacks[e][t])

        return Forall(s.Term, s.Entry, s.Entry, lacking)

    @invariant
    def WhatAnEntryLacks(s):
        def lacking(x, e):
            return Implies(And(s.there(x), s.misses(x, e, s.at[x])), s.lacks[e][s.at[x]])

        return Forall(s.Entry, s.Entry, lacking)

    @invariant
    def LackedIsGoneLater(s):
        def later(e, t, u):
            return Implies(And(s.lacks[e][t], s.below(t, u)), s.gone[e][u])

        return Forall(s.Entry, s.Term, s.Term, later)

    @invariant
    def OnlyLeadersLack(s):
        """Of entries of earlier terms."""

        def led(e, t):
            return Implies(s.lacks[e][t], And(s.led[t], s.below(s.at[e], t)))

        return Forall(s.Entry, s.Term, led)

    @invariant
    def CommittedIsNotLacked(s):
        def kept(e, t):
            return Implies(s.committed[e], And(Not(s.lacks[e][t]), Not(s.gone[e][t])))

        return Forall(s.Entry, s.Term, kept)

    # -- why: commits --------------------------------------------------------------------------------------

    @invariant
    def AckedInItsTerm(s):
        def early(n, e):
            return Implies(s.acked[n][e], And(s.there(e), s.le[s.at[e]][s.term[n]]))

        return Forall(s.Node, s.Entry, early)

    @invariant
    def AckedIsHeldOrLacked(s):
        def held(n, e, t):
            lost = And(s.acked[n][e], Not(s.upto[e][s.log[n]]), s.le[s.term[n]][t])
            return Implies(lost, Or(s.lacks[e][t], s.gone[e][t]))

        return Forall(s.Node, s.Entry, s.Term, held)

    @invariant
    def AVoteIsForALogThatHasIt(s):
        """Of who has acknowledged an entry; or a leader lacks it."""

        def has(n, e, t, c, a):
            voted = And(s.acked[n][e], s.vote[n][t][c], s.asked[c][t][a], s.below(s.at[e], t))
            return Implies(voted, Or(s.upto[e][a], s.lacks[e][t], s.gone[e][t]))

        return Forall(s.Node, s.Entry, s.Term, s.Node, s.Entry, has)

    @invariant
    def ALeaderHasWhatItsVotersAcked(s):
        """Or a leader before it lacked it."""

        def has(t, n, a, q, m, e):
            voted = And(s.elected[t][n][a][q], s.within[q][m], s.acked[m][e], s.below(s.at[e], t))
            return Implies(voted, Or(s.upto[e][a], s.gone[e][t]))

        return Forall(s.Term, s.Node, s.Entry, s.Quorum, s.Node, s.Entry, has)

    @invariant
    def AQuorumAcked(s):
        def acked(e, h, q, m):
            return Implies(And(s.counted[e][h][q], s.within[q][m]), s.acked[m][e])

        return Forall(s.Entry, s.Entry, s.Quorum, s.Node, acked)

    @invariant
    def CountedByItsConfiguration(s):
        """Whose basis was committed before."""

        def by(e, h, q, c):
            strictly = And(s.upto[s.basis[c]][e], s.basis[c] != e)
            return Implies(And(s.counted[e][h][q], s.config[h][c]), And(s.of[c][q], strictly))

        return Forall(s.Entry, s.Entry, s.Quorum, s.Config, by)

    @invariant
    def CountedIsCommitted(s):
        def committed(e, h, q):
            both = And(s.committed[e], s.upto[e][h], s.at[e] == s.at[h], s.led[s.at[e]])
            return Implies(s.counted[e][h][q], both)

        return Forall(s.Entry, s.Entry, s.Quorum, committed)

    @invariant
    def CommittedIsThere(s):
        return Forall(s.Entry, lambda e: Implies(s.committed[e], s.there(e)))

    # -- signs of life -------------------------------------------------------------------------------------

    @sometimes
    def ALeaderUnderANewConfiguration(s):
        def new(t, n, a, q, e, c):
            led = And(s.elected[t][n][a][q], s.config[a][c], s.basis[c] != s.root)
            return And(led, s.committed[a], s.committed[e], e != s.root, Not(s.config[e][c]))

        return Exists(s.Term, s.Node, s.Entry, s.Quorum, s.Entry, s.Config, new)
