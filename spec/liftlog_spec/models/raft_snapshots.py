"""Raft with snapshots: a log that does not begin at its beginning (M1), with or without membership change.

Ongaro 2014, section 7, and his dissertation, 5. A server puts what it has applied into a snapshot, with the
index and the term of the last entry that went into it and with the configuration at that point, and drops
these entries. A follower that needs an entry which its leader has dropped gets the snapshot instead
(InstallSnapshot). What is right, in the order in which it is easy to get wrong:

    what goes in      nothing above the commit index; the last term and the configuration go with it
    on disk           the snapshot is synced before the entries go, and before an install is acknowledged
    install, older    at or below the commit index: it says nothing new, whatever it is; nothing changes
    install, within   the log has the snapshot's last entry: what follows stays, it may have been acknowledged
    install, newer    the log goes, whether shorter or different, and the snapshot stands in its place
    append, below     the entry before lies in the snapshot: it cannot be compared, and need not be, since it
                      is committed. The answer names the commit index
    restart           from snapshot and log; the snapshot's end is the first commit index

In this model `log` stays whole. Up to `start` it is what the snapshot stands for, and no action may look at a
single entry there, nor send one: only at the term and the configuration of the last. Of a term's leader it is
remembered which snapshots it had in its office (`offered`); each may arrive at any later time or again.

Everything else is raft_membership.py. Each variant is one bug:

    snapshot-of-uncommitted    everything in the log goes into the snapshot
    suffix-dropped             an install empties the log, although it had the snapshot's last entry
    older-snapshot-installed   an install goes back behind the server's own snapshot
    configuration-forgotten    no configuration in the snapshot: below it is that of the group's birth
    term-forgotten             no last term in the snapshot: a log that ends there seems to end in term 0
    snapshot-not-synced        entries are dropped, and installs acknowledged, before the snapshot is synced
    below-answers-all          an append below the snapshot is answered with the end of the log
"""

from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.models.raft_membership import RaftMembership


class RaftSnapshots(RaftMembership):
    """Servers that drop the beginning of their logs."""

    variant = Setting(
        "right",
        "snapshot-of-uncommitted",
        "suffix-dropped",
        "older-snapshot-installed",
        "configuration-forgotten",
        "term-forgotten",
        "snapshot-not-synced",
        "below-answers-all",
    )
    Voters = Constant(3)
    Entries = Constant(2)
    Campaigns = Constant(2)
    Changes = Constant(0)
    Restarts = Constant(1)
    Snapshots = Constant(1)
    Installs = Constant(1)
    """Snapshots: taken by all servers together. Installs: on followers."""

    Node, Term = RaftMembership.Node, RaftMembership.Term
    Index, Log = RaftMembership.Index, RaftMembership.Log

    start = Var(Fn(Node, Index))
    """So many entries are in the snapshot and nowhere else."""
    safe = Var(Fn(Node, Index))
    """So many are in the snapshot that a crash leaves."""
    offered = Var(Fn(Term, Set(Index)))
    """The ends of the snapshots that the term's leader had, the first of them when it was elected."""
    snapshots = Var(Range(0, Snapshots))
    installs = Var(Range(0, Installs))

    def begin_office(s, n, term):
        s.offered[term] = [s.start[n]]

    # -- words ---------------------------------------------------------------------------------------------

    @definition
    def TermAt(s, n: Node, length: Index):
        """Term of the last of the first `length` entries, which all lie above or end with the snapshot."""
        nothing = length == 0
        if s.variant == "term-forgotten":
            nothing = Or(nothing, length == s.start[n])
        return If(nothing, 0, s.log[n][length - 1].term)

    @definition
    def ConfigOf(s, n: Node):
        """The last in the log, else that of the snapshot."""
        log = s.log[n]
        found = s.ConfigAt(log, size(log))
        if s.variant == "configuration-forgotten":
            above = numbers(s.start[n], size(log))
            return If(Exists(above, lambda i: log[i].config != s.ConfigAt(log, i)), found, s.first)
        return found

    @definition
    def Sent(s, term: Term, before: Index):
        """The term's leader had what follows in its log, and had not dropped it when it was elected."""
        kept = Exists(s.offered[term], lambda start: start <= before)
        return And(kept, before <= size(s.written[term]))

    @definition
    def Agrees(s, n: Node, term: Term, before: Index):
        """Both logs have the entry before, with one term, at the end of their snapshots or above."""
        same = s.TermAt(n, before) == If(before == 0, 0, s.written[term][before - 1].term)
        return And(s.Sent(term, before), s.start[n] <= before, before <= size(s.log[n]), same)

    # -- snapshots -----------------------------------------------------------------------------------------

    @action
    def TakeSnapshot(s, n: Node, upto: Index):
        """Of what is applied, which is what is committed. Then the entries go."""
        when(~member(n, s.lost), s.snapshots < s.Snapshots, upto > s.start[n])
        when(upto <= (size(s.log[n]) if s.variant == "snapshot-of-uncommitted" else s.commit[n]))
        s.snapshots = s.snapshots + 1
        s.start[n] = upto
        if s.variant != "snapshot-not-synced":
            s.safe[n] = upto

        def now_offered(t):
            its = And(s.role[n] == "leader", t == s.term[n])
            return If(its, with_member(s.offered[t], upto), s.offered[t])

        s.offered = function(s.Term, now_offered)

    @action
    def InstallSnapshot(s, n: Node, term: Term, upto: Index):
        """A leader's snapshot arrives, perhaps one that it had long ago."""
        mine, theirs = s.log[n], s.written[term]
        when(~member(n, s.lost), term >= s.term[n], ~member(n, s.elected[term]))
        when(s.installs < s.Installs, upto > 0, member(upto, s.offered[term]), s.SentTo(n, term, upto))
        if s.variant == "older-snapshot-installed":
            when(Or(upto > s.commit[n], upto < s.start[n]))
        else:
            when(upto > s.commit[n])
        s.installs = s.installs + 1
        has_it = And(s.start[n] <= upto, upto <= size(mine), s.TermAt(n, upto) == theirs[upto - 1].term)
        if s.variant == "suffix-dropped":
            s.log[n] = prefix(theirs, upto)
        else:
            s.log[n] = If(has_it, mine, prefix(theirs, upto))
        s.start[n] = upto
        if s.variant != "snapshot-not-synced":
            s.safe[n] = upto
        s.commit[n] = upto
        s.follow(n, term)
        s.acknowledge(n, term, upto)

    @action
    def AnswerBelowSnapshot(s, n: Node, term: Term, before: Index):
        """A message whose entry before is in the snapshot: up to the commit index all is equal."""
        when(~member(n, s.lost), term >= s.term[n], ~member(n, s.elected[term]))
        when(before < s.start[n], s.Sent(term, before))
        when(s.SentTo(n, term, before))
        s.follow(n, term)
        s.acknowledge(n, term, size(s.log[n]) if s.variant == "below-answers-all" else s.commit[n])

    # -- crashes -------------------------------------------------------------------------------------------

    @action
    def Restart(s, n: Node):
        """Memory is gone, snapshot and log are not. Entries that do not follow the snapshot are of no use."""
        when(~member(n, s.lost), s.restarts < s.Restarts)
        s.restarts = s.restarts + 1
        s.forget(n)
        s.log[n] = If(s.safe[n] < s.start[n], prefix(s.log[n], s.safe[n]), s.log[n])
        s.start[n] = s.safe[n]
        s.commit[n] = s.safe[n]

    @only("variant", "snapshot-not-synced")
    @action
    def SyncSnapshot(s, n: Node):
        """What was written reaches the disk, sooner or later."""
        s.safe[n] = maximum(s.safe[n], s.start[n])

    # -- properties ----------------------------------------------------------------------------------------

    # What only changes of the configuration can bring about is for raft_membership.py to show.
    AChangeIsCommitted = ALeaderIsNoMember = AnAddedServerLeads = None

    @sometimes
    def ASnapshotIsInstalled(s):
        return s.installs > 0

    @sometimes
    def ALeaderBeginsWithASnapshot(s):
        """It never can send the entries that lie in it."""
        return Exists(s.Term, lambda t: And(size(s.offered[t]) > 0, ~member(0, s.offered[t])))
