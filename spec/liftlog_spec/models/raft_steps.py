"""The Raft of raft.py with what changes while a group lives: who votes in it, and from where a start goes on.
Messages and disks are those of raft.py: this is what runs of the program are held against (M1, M2, I2).

*Membership* is that of raft_membership.py, whose text says why: a configuration is an entry of the log, a
server goes by the last one in its log, committed or not, and the leader writes one at a time, each a voter or
learner away from the one before. Here a change travels like any entry: its leader may count by it before its
own disk has it, a server may lose it in a crash, cut it off, or hear of it late. An entry is its index and
its term (raft.py); what it changes is remembered once, by that name (`changes`). An entry that is no change
says nothing of the configuration.

A server is a disk, not a machine. One whose disk is gone does nothing any more, for which no action is
needed; a machine with another disk is another server, which has promised nothing yet and counts for nothing
until a configuration names it. Who is asked for a vote answers, and who is sent entries takes them, member or
not. Left open is whom a leader writes to, and that a leader which has removed itself gives up in the end.

*A snapshot* (M1p) is what is committed, said at once. Sent, it is an append of everything up to its end;
taken, it changes nothing that is known here, since logs stay whole. On a disk it does one thing more: it
tells a start what is committed. That no bug lies in logs without their beginning is for raft_snapshots.py to
show.

At first somebody leads in term 1, in which the voters voted for it, and nothing is written. Each variant is
one bug:

    change-before-own-commit    a change is written before an entry of the leader's term is committed (2015)
    two-changes                 a change is written while another is not committed
    effective-at-commit         a server goes by the last configuration that it knows to be committed
    quorum-of-election          a leader goes on counting by the configuration that it was elected under
    learner-counts              votes and acknowledgements of learners count
    removed-leader-counts       a leader that is no voter of its configuration counts itself
    wiped-voter-rejoins         a voter comes back with an empty disk as if it were the old one (I2)
"""

from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.models.raft import Raft


class RaftSteps(Raft):
    """Servers, some of which vote at first; the others may be added."""

    variant = Setting(
        "right",
        "change-before-own-commit",
        "two-changes",
        "effective-at-commit",
        "quorum-of-election",
        "learner-counts",
        "removed-leader-counts",
        "wiped-voter-rejoins",
    )
    Entries = Constant(2)
    Campaigns = Constant(1)
    Voters = Constant(2)
    Learning = Constant(1)
    Changes = Constant(1)
    Snapshots = Constant(0)
    """Voters: at first, at most two less than there are nodes. Learning: 1 if the others learn from the
    start, 0 if they are no members. Snapshots: entries that may be kept in one. Terms: the first has a leader
    already. Losses: of whole disks, or of the right to vote."""

    Node, Term, Index, Log = Raft.Node, Raft.Term, Raft.Index, Raft.Log
    Written = Raft.Written
    Kept = Range(0, Snapshots)
    Config = Record(voters=Set(Node), learners=Set(Node))
    Change = Record(index=Index, term=Term, config=Config)

    first = Var(Config)
    """The configuration of the group's birth, before any entry."""
    changes = Var(Seq(Change, Changes))
    """Entries that change it, in the order in which they were written: no log has them in another."""

    @initial
    def Begin(s, leader: Node, other: Node, another: Node):
        """Somebody leads in the first term. Those outside have heard of nothing."""
        outside = such_that(s.Node, lambda n: And(n != leader, Or(n == other, n == another)))
        voters = difference(elements(s.Node), outside)
        when(size(voters) == s.Voters)
        s.first = {"voters": voters, "learners": If(s.Learning == 1, outside, [])}
        s.term = function(s.Node, lambda n: If(member(n, voters), 1, 0))
        s.vote = function(s.Node, lambda n: If(member(n, voters), leader, None))
        voted = record(s.Image, term=1, vote=leader, log=[], barred=False)
        empty = record(s.Image, term=0, vote=None, log=[], barred=False)
        s.disk = function(s.Node, lambda n: If(member(n, voters), voted, empty))
        s.role[leader] = "leader"

    # -- who counts ----------------------------------------------------------------------------------------

    @definition
    def Newest(s, log: Log, length: Index):
        """Which change is the last in the first `length` entries, counted from 1; 0: there is none."""

        def place(k):
            change = s.changes[k - 1]
            there = And(k > 0, change.index <= length, s.TermAt(log, change.index) == change.term)
            return If(there, k, 0)

        return greatest(numbers(0, size(s.changes) + 1), place)

    @definition
    def ConfigAt(s, log: Log, length: Index):
        """The configuration that the first `length` entries end with."""
        newest = s.Newest(log, length)
        return If(newest == 0, s.first, s.changes[newest - 1].config)

    @definition
    def ConfigOf(s, n: Node):
        """What a server goes by."""
        if s.variant == "effective-at-commit":
            return s.ConfigAt(s.log[n], s.commit[n])
        if s.variant == "quorum-of-election":
            earlier = count(indexes(s.log[n]), lambda i: s.log[n][i] < s.term[n])
            return s.ConfigAt(s.log[n], If(s.role[n] == "leader", earlier, size(s.log[n])))
        return s.ConfigAt(s.log[n], size(s.log[n]))

    @definition
    def Quorum(s, n: Node, config: Config, members: Set(Node)):
        """More than half of the voters, in the eyes of `n`."""
        counted = intersection(members, config.voters)
        if s.variant == "learner-counts":
            counted = intersection(members, union(config.voters, config.learners))
        if s.variant == "removed-leader-counts":
            counted = intersection(members, with_member(config.voters, n))
        return size(counted) + size(counted) > size(config.voters)

    def enough(s, n, members):
        return s.Quorum(n, s.ConfigOf(n), members)

    def may_stand(s, n):
        """A voter of its last configuration, or of the one before, which is committed (M2a), while it does
        not know the last one to be: it may be the only one that can win.
        """
        newest = s.Newest(s.log[n], size(s.log[n]))
        undecided = And(newest > 0, s.changes[newest - 1].index > s.commit[n])
        before = If(newest <= 1, s.first, s.changes[newest - 2].config)
        voter = Or(member(n, s.ConfigOf(n).voters), And(undecided, member(n, before.voters)))
        return And(~s.barred[n], voter)

    # -- membership ----------------------------------------------------------------------------------------

    def now(s, n):
        return s.ConfigAt(s.log[n], size(s.log[n]))

    def change(s, n, voters, learners):
        """Write a configuration, if the last is committed and the leader has proof of its office."""
        log, commit = s.log[n], s.commit[n]
        when(s.role[n] == "leader", size(s.changes) < s.Changes, size(log) < s.Entries, size(voters) > 0)
        if s.variant != "two-changes":
            when(s.Newest(log, size(log)) == s.Newest(log, commit))
        if s.variant != "change-before-own-commit":
            when(commit > 0, s.TermAt(log, commit) == s.term[n])
        config = record(s.Config, voters=voters, learners=learners)
        entry = {"index": size(log) + 1, "term": s.term[n], "config": config}
        s.changes = append(s.changes, entry)
        s.remember(n, log=append(log, s.term[n]))

    @action
    def Add(s, n: Node, who: Node):
        """A new server learns before it votes, so that it holds up nobody."""
        when(~member(who, s.now(n).voters), ~member(who, s.now(n).learners))
        s.change(n, s.now(n).voters, with_member(s.now(n).learners, who))

    @action
    def Promote(s, n: Node, who: Node):
        """A learner that has said to have everything committed: its vote will not delay the next commit."""
        when(member(who, s.now(n).learners), Or(s.commit[n] == 0, s.Acknowledged(who, n, s.commit[n])))
        s.change(n, with_member(s.now(n).voters, who), without(s.now(n).learners, who))

    @action
    def Remove(s, n: Node, who: Node):
        """Any member, the leader as well."""
        when(Or(member(who, s.now(n).voters), member(who, s.now(n).learners)))
        s.change(n, without(s.now(n).voters, who), without(s.now(n).learners, who))

    # -- crashes -------------------------------------------------------------------------------------------

    @action
    def Restart(s, n: Node, voted: Written, logged: Written, length: Index, kept: Kept):
        """A crash, as in raft.py. So many entries are `kept` in a snapshot: they were committed."""
        when(kept <= length, kept <= s.commit[n])
        s.crash(n, voted, logged, length, kept)

    @only("variant", "wiped-voter-rejoins")
    @action
    def LoseDisk(s, n: Node):
        """Who lost its disk is another server, which is not this one."""
        when(s.losses < s.Losses)
        s.losses = s.losses + 1
        s.forget(n, 0, None, [], False)

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def QuorumLog(s):
        """Every quorum of a leader's configuration has somebody whose disk has all that the leader has
        committed.
        """

        def lacks(m, n):
            return prefix(s.disk[m].log, s.commit[n]) != prefix(s.log[n], s.commit[n])

        def kept(n):
            voters = s.now(n).voters
            without_it = such_that(s.Node, lambda m: And(member(m, voters), lacks(m, n)))
            return Implies(s.role[n] == "leader", size(without_it) + size(without_it) <= size(voters))

        return Forall(s.Node, kept)

    # What needs no change of the configuration is for raft.py to show.
    SomethingIsCommitted = AFollowerLearnsTheCommit = None
    TwoLeadersInDifferentTerms = ALeaderIsBehindItsFollowers = None

    @sometimes
    def AChangeIsCommitted(s):
        return Exists(s.Node, lambda n: s.Newest(s.log[n], s.commit[n]) > 0)

    @sometimes
    def ALeaderIsNoVoter(s):
        return Exists(s.Node, lambda n: And(s.role[n] == "leader", ~member(n, s.ConfigOf(n).voters)))

    @sometimes
    def AnotherLeaderHasAChange(s):
        """One that was written in an earlier term, and it is not committed yet."""

        def found(n):
            newest = s.Newest(s.log[n], size(s.log[n]))
            earlier = If(newest == 0, False, s.changes[newest - 1].term < s.term[n])
            return And(s.role[n] == "leader", earlier, newest != s.Newest(s.log[n], s.commit[n]))

        return Exists(s.Node, found)
