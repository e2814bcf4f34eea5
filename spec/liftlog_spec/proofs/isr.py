"""Streams: a committed record stays, proved for any number of nodes, epochs and offsets (rules R2, R6, R7,
R9, R10).

The theory in a paragraph. The leader of an epoch e commits a record when every member of its *maximal*
ISR has acknowledged it in e: the committed ISR, and everybody whose addition may still be granted. The
next leader comes from the committed ISR, so it was one of those that were asked. Either it has
acknowledged the record and has it still, or it went to a later epoch first, and then it never
acknowledges anything in e again: e's leader, which may not know yet that its time is over, waits for it
for ever. ALostRecordIsBlocked says exactly that; the rest supports it.

Abstracted, and why that leaves out no harm:
  - a log is the relation "node, offset, epoch in which the record was written"; (epoch, offset) names a
    record, since an epoch has one leader, which writes an offset once. What of it is durable is a second
    relation: only that is acknowledged (R7), and a crash leaves that and any part of the rest;
  - a node that has crashed leads none of its epochs any more (R1), though it may not know it yet;
  - an answer to a fetch is the leader's log up to any offset. The follower first cuts what differs, in
    any number of rounds, but nothing that agrees (R6); `Fetch` replaces its log behind that, at any time;
  - of compare-and-set (R9) only this is left: a proposed addition may be granted while its epoch is the
    newest, until it lapses. The committed ISR may lose anybody at any time, its leader too;
  - whoever is out of the ISR but eligible (R13) counts as in it here: it has everything, and may be elected.
    `Remove` is then the moment at which eligibility ends;
  - gaps between offsets, empty ISRs and elections without reason are all allowed: more can happen here
    than there;
  - a leader may take up its office late, when others were elected meanwhile, and commit after that.

Not in it: unclean elections, wiped or damaged disks and what is done about them (R14), log starts, the
policies that do not wait for the ISR, and the high watermark's way to followers and readers. That the
model of the protocol (liftlog_spec/models/isr.py) does nothing else is checked by
liftlog_spec/mappings/isr.py.
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.proofs.orders import is_total_order


class Isr(Model):
    """One partition. `zero` is the epoch before the first, whose ISR are the founders."""

    variant = Setting(
        "right",
        "committed-isr-only",
        "join-without-start",
        "cut-what-agrees",
        "report-before-sync",
        "leads-on-after-a-crash",
    )
    Nodes = Constant(3)
    Epochs = Constant(3)
    Offsets = Constant(1)

    Node = Sort(Nodes)
    Epoch = Sort(Epochs, symmetric=False)
    Offset = Sort(Offsets, symmetric=False)

    le = Rigid(Fn(Epoch, Epoch, Bool), lambda a, b: a <= b)
    upto = Rigid(Fn(Offset, Offset, Bool), lambda i, j: i <= j)
    zero = Rigid(Epoch, lambda: 0)
    founders = Rigid(Fn(Node, Bool), lambda n: True)

    # The metadata: the newest epoch, all that were given out, who leads each, and its ISR when last heard of.
    now = Var(Epoch)
    named = Var(Fn(Epoch, Bool), init=False)
    leads = Var(Fn(Epoch, Node, Bool), init=False)
    isr = Var(Fn(Epoch, Node, Bool), init=False)
    asked = Var(Fn(Epoch, Node, Bool), init=False)
    # What nodes know: of an epoch, and of one above it.
    heard = Var(Fn(Node, Epoch, Bool), init=False)
    left = Var(Fn(Node, Epoch, Bool), init=False)
    holds = Var(Fn(Node, Offset, Epoch, Bool), init=False)
    durable = Var(Fn(Node, Offset, Epoch, Bool), init=False)
    # An epoch: whether its leader has begun, whether it has crashed, its log, its maximal ISR,
    # acknowledgements, what it committed.
    begun = Var(Fn(Epoch, Bool), init=False)
    over = Var(Fn(Epoch, Bool), init=False)
    log = Var(Fn(Epoch, Offset, Epoch, Bool), init=False)
    maximal = Var(Fn(Epoch, Node, Bool), init=False)
    acked = Var(Fn(Node, Epoch, Offset, Epoch, Bool), init=False)
    committed = Var(Fn(Epoch, Offset, Epoch, Bool), init=False)

    @axiom
    def EpochsAreOrdered(s):
        return And(is_total_order(s.Epoch, s.le), Forall(s.Epoch, lambda e: s.le[s.zero][e]))

    @axiom
    def OffsetsAreOrdered(s):
        return is_total_order(s.Offset, s.upto)

    @initial
    def Found(s):
        s.now = s.zero
        s.named[s.zero] = True
        s.isr[s.zero] = s.founders

    def below(s, a, b):
        return And(s.le[a][b], a != b)

    def before(s, i, j):
        return And(s.upto[i][j], i != j)

    def is_in(s, n, e):
        """e is the newest epoch that n has heard of."""
        return And(s.heard[n][e], Not(s.left[n][e]))

    # -- metadata ------------------------------------------------------------------------------------------

    @action
    def Elect(s, n: Node, e: Epoch):
        """A new epoch for a member of the ISR."""
        when(s.below(s.now, e), s.isr[s.now][n])
        s.now = e
        s.named[e] = True
        s.leads[e][n] = True
        s.isr[e] = s.isr[s.now]

    @action
    def Grant(s, n: Node):
        """A proposed addition is applied."""
        when(s.asked[s.now][n])
        s.isr[s.now][n] = True

    @action
    def Lapse(s, e: Epoch, n: Node):
        """A proposed addition was overtaken by another change: it cannot be granted any more."""
        s.asked[e][n] = False

    @action
    def Remove(s, n: Node):
        s.isr[s.now][n] = False

    # -- the leader ----------------------------------------------------------------------------------------

    @action
    def Begin(s, n: Node, e: Epoch):
        """The leader takes up its office, perhaps late, with the log it has."""
        when(s.leads[e][n], s.is_in(n, e), Not(s.begun[e]), Not(s.over[e]))
        s.begun[e] = True
        s.log[e] = s.holds[n]
        s.maximal[e] = s.isr[e]

    @action
    def Append(s, n: Node, e: Epoch, i: Offset):
        when(s.leads[e][n], s.is_in(n, e), s.begun[e], Not(s.over[e]))
        when(Forall(s.Offset, s.Epoch, lambda j, w: Implies(s.log[e][j][w], s.before(j, i))))
        s.log[e][i][e] = True
        s.holds[n][i][e] = True

    @action
    def Ask(s, n: Node, e: Epoch):
        """The leader proposes to add n, which has all that the epoch began with and all that it committed."""
        when(s.begun[e], s.heard[n][e])
        if s.variant != "join-without-start":
            when(
                Forall(
                    s.Offset, s.Epoch, lambda i, w: Implies(And(s.log[e][i][w], w != e), s.acked[n][e][i][w])
                )
            )
        when(Forall(s.Offset, s.Epoch, lambda i, w: Implies(s.committed[e][i][w], s.acked[n][e][i][w])))
        s.asked[e][n] = True
        if s.variant != "committed-isr-only":
            s.maximal[e][n] = True

    @action
    def Forget(s, n: Node, e: Epoch):
        """The leader learns that n is out, and has no proposal left that may bring it in."""
        when(Not(s.isr[e][n]), Not(s.asked[e][n]))
        s.maximal[e][n] = False

    @action
    def Commit(s, e: Epoch, i: Offset, w: Epoch):
        """Also when e is long over: its leader may not know."""
        when(s.begun[e], s.log[e][i][w])
        when(Forall(s.Node, lambda n: Implies(s.maximal[e][n], s.acked[n][e][i][w])))
        s.committed[e][i][w] = True

    # -- followers -----------------------------------------------------------------------------------------

    @action
    def Hear(s, n: Node, e: Epoch):
        """A node applies the metadata up to epoch e."""
        when(s.named[e], Not(s.heard[n][e]), Not(s.left[n][e]))
        s.heard[n][e] = True
        s.left[n] = function(s.Epoch, lambda f: Or(s.left[n][f], s.below(f, e)))

    @action
    def Fetch(s, n: Node, e: Epoch, k: Offset):
        """The leader's log up to k, in place of what differs; nothing that agrees is cut."""
        when(s.is_in(n, e), s.begun[e])
        if s.variant != "cut-what-agrees":
            when(
                Forall(
                    s.Offset,
                    s.Epoch,
                    lambda i, w: Implies(And(s.holds[n][i][w], s.log[e][i][w]), s.upto[i][k]),
                )
            )
        answer = function(
            s.Offset, lambda i: function(s.Epoch, lambda w: And(s.upto[i][k], s.log[e][i][w]))
        )
        s.holds[n] = answer
        s.durable[n] = function(
            s.Offset, lambda i: function(s.Epoch, lambda w: And(s.durable[n][i][w], answer[i][w]))
        )

    @action
    def Cut(s, n: Node, e: Epoch, k: Offset):
        """One round of truncation: what lies behind k goes; nothing that agrees is cut."""
        when(s.is_in(n, e), s.begun[e])
        when(
            Forall(
                s.Offset,
                s.Epoch,
                lambda i, w: Implies(And(s.holds[n][i][w], s.log[e][i][w]), s.upto[i][k]),
            )
        )
        s.keep(n, k)
        s.durable[n] = function(
            s.Offset, lambda i: function(s.Epoch, lambda w: And(s.upto[i][k], s.durable[n][i][w]))
        )

    def keep(s, n, k):
        """What lies behind k goes."""
        s.holds[n] = function(
            s.Offset, lambda i: function(s.Epoch, lambda w: And(s.upto[i][k], s.holds[n][i][w]))
        )

    # -- disks ---------------------------------------------------------------------------------------------

    @action
    def Sync(s, n: Node, k: Offset):
        s.durable[n] = function(
            s.Offset,
            lambda i: function(
                s.Epoch, lambda w: Or(s.durable[n][i][w], And(s.upto[i][k], s.holds[n][i][w]))
            ),
        )

    @action
    def Acknowledge(s, n: Node, e: Epoch, k: Offset):
        """All of the leader's log up to k is durable; the leader acknowledges to itself, too."""
        when(s.is_in(n, e), s.begun[e])
        mine = s.holds if s.variant == "report-before-sync" else s.durable

        def there(i, w):
            return Implies(And(s.upto[i][k], s.log[e][i][w]), mine[n][i][w])

        when(Forall(s.Offset, s.Epoch, there))
        s.acked[n][e] = function(
            s.Offset,
            lambda i: function(s.Epoch, lambda w: Or(s.acked[n][e][i][w], And(s.upto[i][k], s.log[e][i][w]))),
        )

    @action
    def Crash(s, n: Node, k: Offset):
        """What is durable is found, and any part of the rest; whatever n led, it leads no more (R1)."""
        when(Forall(s.Offset, s.Epoch, lambda i, w: Implies(s.durable[n][i][w], s.upto[i][k])))
        s.keep(n, k)
        if s.variant != "leads-on-after-a-crash":
            s.over = function(s.Epoch, lambda e: Or(s.over[e], s.leads[e][n]))

    # -- what is wanted ------------------------------------------------------------------------------------

    @invariant
    def CommittedStays(s):
        """The log of every later epoch has it."""

        def stays(e, f, i, w):
            return Implies(And(s.committed[e][i][w], s.below(e, f), s.begun[f]), s.log[f][i][w])

        return Forall(s.Epoch, s.Epoch, s.Offset, s.Epoch, stays)

    @invariant
    def OneCommittedRecord(s):
        """At one offset, whichever leaders committed it."""

        def same(e, f, i, v, w):
            return Implies(And(s.committed[e][i][v], s.committed[f][i][w]), v == w)

        return Forall(s.Epoch, s.Epoch, s.Offset, s.Epoch, s.Epoch, same)

    @invariant
    def LogsMatch(s):
        """Two replicas with the same record agree on everything before it."""

        def agree(a, b, i, j, w, v):
            both = And(s.holds[a][i][w], s.holds[b][i][w], s.before(j, i))
            return Implies(And(both, s.holds[a][j][v]), s.holds[b][j][v])

        return Forall(s.Node, s.Node, s.Offset, s.Offset, s.Epoch, s.Epoch, agree)

    # -- why: epochs and offices ---------------------------------------------------------------------------

    @invariant
    def NothingIsAboveNow(s):
        return Forall(s.Epoch, lambda e: Implies(s.named[e], s.le[e][s.now]))

    @invariant
    def OnlyNamedEpochsHaveAnIsr(s):
        return Forall(s.Epoch, s.Node, lambda e, n: Implies(s.isr[e][n], s.named[e]))

    @invariant
    def LeftForWhatWasNamed(s):
        return Forall(s.Node, s.Epoch, lambda n, e: Implies(s.left[n][e], s.below(e, s.now)))

    @invariant
    def LeadersWereNamed(s):
        return Forall(s.Epoch, s.Node, lambda e, n: Implies(s.leads[e][n], s.named[e]))

    @invariant
    def OneLeader(s):
        return Forall(
            s.Epoch, s.Node, s.Node, lambda e, a, b: Implies(And(s.leads[e][a], s.leads[e][b]), a == b)
        )

    @invariant
    def HeardLeavesTheRest(s):
        return Forall(
            s.Node,
            s.Epoch,
            s.Epoch,
            lambda n, e, f: Implies(And(s.heard[n][f], s.below(e, f)), s.left[n][e]),
        )

    @invariant
    def LeavingIsForGood(s):
        return Forall(
            s.Node,
            s.Epoch,
            s.Epoch,
            lambda n, e, f: Implies(And(s.left[n][f], s.below(e, f)), s.left[n][e]),
        )

    @invariant
    def LeadersBeginInTheirEpoch(s):
        return Forall(s.Epoch, s.Node, lambda e, n: Implies(And(s.leads[e][n], s.begun[e]), s.heard[n][e]))

    @invariant
    def BegunWasNamed(s):
        return Forall(s.Epoch, lambda e: Implies(s.begun[e], s.named[e]))

    # -- why: records --------------------------------------------------------------------------------------

    @invariant
    def LogsBeganOnce(s):
        return Forall(
            s.Epoch, s.Offset, s.Epoch, lambda e, i, w: Implies(s.log[e][i][w], And(s.begun[e], s.le[w][e]))
        )

    @invariant
    def LoggedByItsWriter(s):
        return Forall(s.Epoch, s.Offset, s.Epoch, lambda e, i, w: Implies(s.log[e][i][w], s.log[w][i][w]))

    @invariant
    def HeldWasWritten(s):
        return Forall(s.Node, s.Offset, s.Epoch, lambda n, i, w: Implies(s.holds[n][i][w], s.log[w][i][w]))

    @invariant
    def HeldIsNotAhead(s):
        """Who holds a record of w is in w or later."""

        def left(n, i, w, e):
            return Implies(And(s.holds[n][i][w], s.below(e, w)), s.left[n][e])

        return Forall(s.Node, s.Offset, s.Epoch, s.Epoch, left)

    @invariant
    def TheLeaderHoldsItsLog(s):
        def holds(e, n, i, w):
            leading = And(s.leads[e][n], s.begun[e], Not(s.left[n][e]), Not(s.over[e]))
            return Implies(leading, s.holds[n][i][w] == s.log[e][i][w])

        return Forall(s.Epoch, s.Node, s.Offset, s.Epoch, holds)

    @invariant
    def OneRecordInALog(s):
        def same(e, i, v, w):
            return Implies(And(s.log[e][i][v], s.log[e][i][w]), v == w)

        return Forall(s.Epoch, s.Offset, s.Epoch, s.Epoch, same)

    @invariant
    def OneRecordHeld(s):
        def same(n, i, v, w):
            return Implies(And(s.holds[n][i][v], s.holds[n][i][w]), v == w)

        return Forall(s.Node, s.Offset, s.Epoch, s.Epoch, same)

    @invariant
    def LogsMatchTheWriters(s):
        """Before a record that w wrote, every epoch's log is w's."""

        def same(e, i, w, j, v):
            return Implies(And(s.log[e][i][w], s.before(j, i)), s.log[e][j][v] == s.log[w][j][v])

        return Forall(s.Epoch, s.Offset, s.Epoch, s.Offset, s.Epoch, same)

    @invariant
    def ReplicasMatchTheWriters(s):
        def same(n, i, w, j, v):
            return Implies(And(s.holds[n][i][w], s.before(j, i)), s.holds[n][j][v] == s.log[w][j][v])

        return Forall(s.Node, s.Offset, s.Epoch, s.Offset, s.Epoch, same)

    # -- why: commits --------------------------------------------------------------------------------------

    @invariant
    def AckedIsLogged(s):
        return Forall(
            s.Node,
            s.Epoch,
            s.Offset,
            s.Epoch,
            lambda n, e, i, w: Implies(s.acked[n][e][i][w], s.log[e][i][w]),
        )

    @invariant
    def AckedInTheEpoch(s):
        def heard(n, e, i, w):
            return Implies(s.acked[n][e][i][w], s.heard[n][e])

        return Forall(s.Node, s.Epoch, s.Offset, s.Epoch, heard)

    @invariant
    def AskedInTheEpoch(s):
        return Forall(s.Epoch, s.Node, lambda e, n: Implies(s.asked[e][n], s.heard[n][e]))

    @invariant
    def DurableIsHeld(s):
        return Forall(
            s.Node, s.Offset, s.Epoch, lambda n, i, w: Implies(s.durable[n][i][w], s.holds[n][i][w])
        )

    @invariant
    def AckedIsDurable(s):
        """As long as the replica stays in the epoch in which it acknowledged."""

        def there(n, e, i, w):
            return Implies(And(s.acked[n][e][i][w], Not(s.left[n][e])), s.durable[n][i][w])

        return Forall(s.Node, s.Epoch, s.Offset, s.Epoch, there)

    @invariant
    def CommittedIsLogged(s):
        return Forall(
            s.Epoch, s.Offset, s.Epoch, lambda e, i, w: Implies(s.committed[e][i][w], s.log[e][i][w])
        )

    @invariant
    def CommittedIsAcked(s):
        def all_have_it(e, i, w, n):
            return Implies(And(s.committed[e][i][w], s.maximal[e][n]), s.acked[n][e][i][w])

        return Forall(s.Epoch, s.Offset, s.Epoch, s.Node, all_have_it)

    @invariant
    def MaximalIsMaximal(s):
        """The leader reckons with everybody that is in the ISR or may get in."""

        def counted(e, n):
            return Implies(And(s.begun[e], Or(s.isr[e][n], s.asked[e][n])), s.maximal[e][n])

        return Forall(s.Epoch, s.Node, counted)

    @invariant
    def AskedHadTheStart(s):
        def had(e, n, i, w):
            return Implies(And(s.asked[e][n], s.log[e][i][w], w != e), s.acked[n][e][i][w])

        return Forall(s.Epoch, s.Node, s.Offset, s.Epoch, had)

    @invariant
    def AskedByABegunLeader(s):
        return Forall(s.Epoch, s.Node, lambda e, n: Implies(s.asked[e][n], s.begun[e]))

    def candidate(s, f, m):
        """In the ISR of f, or leading f."""
        return Or(s.isr[f][m], s.leads[f][m])

    def gone(s, e):
        """Somebody in e's ISR is in a later epoch."""
        return Exists(s.Node, lambda n: And(s.isr[e][n], s.left[n][e]))

    def blocked(s, e, i, w):
        """Somebody in e's ISR has not acknowledged it, and never will."""
        return Exists(s.Node, lambda n: And(s.isr[e][n], s.left[n][e], Not(s.acked[n][e][i][w])))

    @invariant
    def ALaterBeginningEndsTheEpoch(s):
        """Nothing new is committed in e once a later epoch has begun."""
        return Forall(
            s.Epoch,
            s.Epoch,
            lambda e, f: Implies(And(s.named[e], s.below(e, f), s.begun[f]), s.gone(e)),
        )

    @invariant
    def NewcomersCameLater(s):
        """Who is in a later ISR but not in e's came in when a later epoch had begun, and has left e."""

        def came(e, f, m):
            new = And(s.named[e], s.below(e, f), s.candidate(f, m), Not(s.isr[e][m]))
            return Implies(new, And(s.gone(e), s.left[m][e]))

        return Forall(s.Epoch, s.Epoch, s.Node, came)

    @invariant
    def ALostRecordIsBlocked(s):
        """A record of e that a later log lacks was not committed in e, nor will it be."""

        def lost(e, f, i, w):
            missing = And(s.below(e, f), s.begun[f], s.log[e][i][w], Not(s.log[f][i][w]))
            return Implies(missing, s.blocked(e, i, w))

        return Forall(s.Epoch, s.Epoch, s.Offset, s.Epoch, lost)

    @invariant
    def ACandidateLacksWhatIsBlocked(s):
        """So with what somebody lacks that may lead a later epoch, or does."""

        def lacks(e, f, i, w, m):
            missing = And(s.below(e, f), s.candidate(f, m), s.left[m][e], s.log[e][i][w])
            return Implies(And(missing, Not(s.durable[m][i][w])), s.blocked(e, i, w))

        return Forall(s.Epoch, s.Epoch, s.Offset, s.Epoch, s.Node, lacks)

    # -- signs of life -------------------------------------------------------------------------------------

    @sometimes
    def SomethingIsCommitted(s):
        return Exists(s.Epoch, s.Offset, s.Epoch, lambda e, i, w: s.committed[e][i][w])

    @sometimes
    def ANewLeaderKeepsARecord(s):
        def kept(e, f, i, w, n):
            return And(s.committed[e][i][w], s.below(e, f), s.leads[f][n], Not(s.leads[e][n]), s.log[f][i][w])

        return Exists(s.Epoch, s.Epoch, s.Offset, s.Epoch, s.Node, kept)
