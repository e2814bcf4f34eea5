"""Raft with membership change, one server at a time: who votes in the metadata group, and when (M1, M2, I2).

Ongaro, "Consensus: Bridging Theory and Practice" (2014), 4.1 to 4.3, with his correction of 2015 (raft-dev,
"bug in single-server membership changes"). A configuration is who votes and who learns. It is an entry of the
log like any other, and a server goes by the last one in its log, committed or not. If each differs from the
one before by a single voter, any quorum of one meets any quorum of the other, and one at a time is enough:

    add       as a learner, who gets the log and is in no quorum
    promote   a learner that has what is committed becomes a voter
    remove    a voter or learner, the leader itself not excepted

A leader may write a change only when the one before it is committed (else two changes could part the group),
and only when it has committed an entry of its own term. The second is the correction: an uncommitted change
that a leader of an earlier term left on few servers is otherwise not seen by the present leader, and the two
changes, each one server away from what was before, are two servers away from each other.

A leader that removes itself goes on, without counting itself, until that is committed, and then steps down.
A server that its last configuration does not name may still stand if the one before does, which is committed,
and it does not know the last one to be: it may be the only one that can be elected. It does not count itself
then. Whoever is asked for a vote answers, member or not, since it may not know yet that it is one. A removed
server does not hear that it is removed, and its campaigns would unseat leaders; that is no matter of safety:
pre-vote and stickiness (M1c, M1d) prevent it.

A voter is its disk (I2). One that lost its disk is gone: `lost` for ever. The machine can come back only as
another server, with another identity, that is added while the old one is removed.

Why not joint consensus. It exchanges any number of servers in one change, at the price of two entries, of
two quorums for each decision in between, and of every place that counts knowing about both. One at a time is
one rule in one place, and a group of three or five voters never needs more.

Messages are not modelled one by one. What a message says stays true, so it is remembered in place of the
message: the log that each term's leader wrote (`written`), which it sent in pieces to whoever its
configurations named; who has given a candidate its vote; how far each server has acknowledged the leader's
log. A piece may arrive at any later time, again, in any order or never, after the leader's end as well.

The configuration stands in every entry: an ordinary one repeats that before it. Each variant is one bug:

    change-before-own-commit    a change is written before an entry of the leader's term is committed (2015)
    two-changes                 a change is written while another is not committed
    effective-at-commit         a server goes by the last configuration that it knows to be committed
    quorum-of-election          a leader goes on counting by the configuration that it was elected under
    learner-counts              votes and acknowledgements of learners count
    removed-leader-counts       a leader that is no member of its configuration counts itself
    wiped-voter-rejoins         a voter comes back with an empty disk as if it were the old one (I2)
"""

from __future__ import annotations

from liftlog_spec.lang import *


class RaftMembership(Model):
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
    Nodes = Constant(3)
    Voters = Constant(2)
    Learning = Constant(0)
    Terms = Constant(2)
    Entries = Constant(3)
    Campaigns = Constant(2)
    Changes = Constant(2)
    Restarts = Constant(1)
    Losses = Constant(0)
    """Voters: at first, at most two less than there are nodes. Learning: 1 if the others learn from the
    start, 0 if they are no members. Terms: the first has a leader already. Losses: of whole disks."""

    Node = Sort(Nodes)
    Term = Range(0, Terms)
    Index = Range(0, Entries)
    Position = Range(0, Entries - 1)
    Config = Record(voters=Set(Node), learners=Set(Node))
    Entry = Record(term=Term, config=Config)
    Log = Seq(Entry, Entries)
    Decided = Record(entry=Term, term=Term)
    """The term in which an entry was written, which names it, and the term whose leader committed it."""

    # What a server must not forget, and what it may.
    term = Var(Fn(Node, Term))
    role = Var(Fn(Node, Enum("follower", "candidate", "leader")))
    vote = Var(Fn(Node, Option(Node)))
    commit = Var(Fn(Node, Index))
    log = Var(Fn(Node, Log))
    votes = Var(Fn(Node, Set(Node)))
    match = Var(Fn(Node, Fn(Node, Index)))
    """A candidate's votes; how much of its log a leader knows each server to have on disk."""
    lost = Var(Set(Node))
    """Servers whose disk is gone."""

    # What was ever sent or committed.
    elected = Var(Fn(Term, Set(Node)))
    written = Var(Fn(Term, Log))
    decided = Var(Fn(Position, Option(Decided)))
    """Nobody in the protocol knows what was ever committed, the invariants do."""

    first = Var(Config)
    """The configuration of the group's birth, before any entry."""
    campaigns = Var(Range(0, Campaigns))
    changes = Var(Range(0, Changes))
    restarts = Var(Range(0, Restarts))
    losses = Var(Range(0, Losses))

    @initial
    def Begin(s, leader: Node, other: Node, another: Node):
        """Somebody leads in the first term, in which the voters voted for it. Nothing is written."""
        outside = such_that(s.Node, lambda n: And(n != leader, Or(n == other, n == another)))
        voters = difference(elements(s.Node), outside)
        when(size(voters) == s.Voters)
        s.first = {"voters": voters, "learners": If(s.Learning == 1, outside, [])}
        s.term = function(s.Node, lambda n: If(member(n, voters), 1, 0))
        s.vote = function(s.Node, lambda n: If(member(n, voters), leader, None))
        s.role[leader] = "leader"
        s.elected[1] = [leader]
        s.begin_office(leader, 1)

    def begin_office(s, n, term):
        """More that a leader of the term has from its start on; see raft_snapshots.py."""

    # -- words ---------------------------------------------------------------------------------------------

    @definition
    def TermAt(s, n: Node, length: Index):
        """Term of the last of the first `length` entries."""
        return If(length == 0, 0, s.log[n][length - 1].term)

    @definition
    def ConfigAt(s, log: Log, length: Index):
        """The configuration that the first `length` entries end with."""
        return If(length == 0, s.first, log[length - 1].config)

    @definition
    def ConfigOf(s, n: Node):
        """What a server goes by."""
        if s.variant == "effective-at-commit":
            return s.ConfigAt(s.log[n], s.commit[n])
        return s.ConfigAt(s.log[n], size(s.log[n]))

    @definition
    def LastChange(s, n: Node):
        """The index of the entry that made its configuration what it is; 0: it is the first."""
        log = s.log[n]
        now = s.ConfigAt(log, size(log))

        def differs(k):
            return And(k > 0, k <= size(log), s.ConfigAt(log, k - 1) != now)

        return greatest(s.Index, lambda k: If(differs(k), k, 0))

    @definition
    def Undecided(s, n: Node):
        """It does not know whether the last change is committed."""
        return s.LastChange(n) > s.commit[n]

    @definition
    def Before(s, n: Node):
        """The configuration before the last change: that one is committed, or the change were not written."""
        return s.ConfigAt(s.log[n], s.LastChange(n) - 1)

    @definition
    def ConfigToCount(s, n: Node):
        """By what a leader counts acknowledgements."""
        if s.variant == "quorum-of-election":
            before = count(indexes(s.log[n]), lambda i: s.log[n][i].term < s.term[n])
            return s.ConfigAt(s.log[n], before)
        return s.ConfigOf(n)

    @definition
    def Quorum(s, n: Node, config: Config, members: Set(Node)):
        """More than half of the voters, in the eyes of `n`."""
        voters = config.voters
        counted = intersection(members, voters)
        if s.variant == "learner-counts":
            counted = intersection(members, union(voters, config.learners))
        if s.variant == "removed-leader-counts":
            counted = intersection(members, with_member(voters, n))
        return size(counted) + size(counted) > size(voters)

    @definition
    def Member(s, n: Node, config: Config):
        return Or(member(n, config.voters), member(n, config.learners))

    @definition
    def SentTo(s, n: Node, term: Term, before: Index):
        """The term's leader named it there or later; who is removed may be sent the entry that says so."""
        theirs = s.written[term]
        return Exists(numbers(before, size(theirs) + 1), lambda k: s.Member(n, s.ConfigAt(theirs, k)))

    @definition
    def Sent(s, term: Term, before: Index):
        """The term has a leader, which had what follows in its log."""
        return And(size(s.elected[term]) > 0, before <= size(s.written[term]))

    @definition
    def Agrees(s, n: Node, term: Term, before: Index):
        """Both logs have the entry before, with one term."""
        same = s.TermAt(n, before) == If(before == 0, 0, s.written[term][before - 1].term)
        return And(s.Sent(term, before), before <= size(s.log[n]), same)

    def follow(s, n, term, vote=None):
        """A term that is not older: who led or stood in an older one does not any more."""
        s.term[n] = term
        s.vote[n] = If(term > s.term[n], vote, s.vote[n])
        s.role[n] = "follower"
        s.votes[n] = []

    def forget(s, n):
        """What only memory held."""
        s.role[n] = "follower"
        s.votes[n] = []
        s.match[n] = 0

    # -- elections -----------------------------------------------------------------------------------------

    @action
    def Campaign(s, n: Node):
        """A timeout: a new term, a vote for oneself, which counts only if it is a voter's."""
        when(~member(n, s.lost), s.role[n] != "leader", s.campaigns < s.Campaigns, s.term[n] < s.Terms)
        when(Or(member(n, s.ConfigOf(n).voters), And(s.Undecided(n), member(n, s.Before(n).voters))))
        s.campaigns = s.campaigns + 1
        s.term[n] = s.term[n] + 1
        s.vote[n] = n
        s.role[n] = "candidate"
        s.votes[n] = [n]

    @action
    def GrantVote(s, n: Node, to: Node):
        """At most one vote in a term, and only for a log that is at least as new."""
        when(n != to, ~member(n, s.lost), s.role[to] == "candidate", s.term[to] >= s.term[n])
        when(Or(s.term[to] > s.term[n], And(is_none(s.vote[n]), s.role[n] == "follower")))
        mine, theirs = s.TermAt(n, size(s.log[n])), s.TermAt(to, size(s.log[to]))
        when(Or(theirs > mine, And(theirs == mine, size(s.log[to]) >= size(s.log[n]))))
        s.term[n] = s.term[to]
        s.vote[n] = to
        s.role[n] = "follower"
        s.match[n] = 0

        def counted(o):
            return If(o == to, with_member(s.votes[to], n), If(o == n, [], s.votes[o]))

        s.votes = function(s.Node, counted)

    @action
    def BecomeLeader(s, n: Node):
        """A quorum of its last configuration has voted for it."""
        when(~member(n, s.lost), s.role[n] == "candidate", s.Quorum(n, s.ConfigOf(n), s.votes[n]))
        s.role[n] = "leader"
        s.votes[n] = []
        s.elected[s.term[n]] = with_member(s.elected[s.term[n]], n)
        s.written[s.term[n]] = s.log[n]
        s.begin_office(n, s.term[n])

    @action
    def StepDown(s, n: Node, other: Node):
        """A newer term was heard of."""
        when(~member(n, s.lost), s.term[other] > s.term[n])
        s.follow(n, s.term[other])
        s.match[n] = 0

    # -- replication ---------------------------------------------------------------------------------------

    def write(s, n, config):
        """The leader's next entry, on disk before it counts for itself."""
        entry = record(s.Entry, term=s.term[n], config=config)
        when(s.role[n] == "leader", size(s.log[n]) < s.Entries)
        s.log[n] = append(s.log[n], entry)
        s.written[s.term[n]] = append(s.log[n], entry)

    @action
    def Propose(s, n: Node):
        """An ordinary entry, or the empty one at the start of a term (M1i)."""
        s.write(n, s.ConfigAt(s.log[n], size(s.log[n])))

    def acknowledge(s, n, term, upto):
        """The term's leader, if it leads still, may hear of it."""

        def known(leader):
            listens = And(s.role[leader] == "leader", s.term[leader] == term)
            grown = maximum(s.match[leader][n], upto)
            more = function(s.Node, lambda m: If(m == n, grown, s.match[leader][m]))
            return If(leader == n, 0, If(listens, more, s.match[leader]))

        s.match = function(s.Node, known)

    @action
    def Accept(s, n: Node, term: Term, before: Index):
        """One entry arrives; that before it agrees: cut what differs, append, acknowledge."""
        mine, theirs = s.log[n], s.written[term]
        when(~member(n, s.lost), term >= s.term[n], ~member(n, s.elected[term]), before < size(theirs))
        when(s.Agrees(n, term, before), s.SentTo(n, term, before))
        same = And(before < size(mine), mine[before].term == theirs[before].term)
        s.log[n] = If(same, mine, append(prefix(mine, before), theirs[before]))
        s.follow(n, term)
        s.acknowledge(n, term, before + 1)

    @definition
    def Told(s, term: Term):
        """What the leader of the term has committed in it."""

        def upto(i):
            return If(And(is_some(s.decided[i]), get(s.decided[i]).term == term), i + 1, 0)

        return greatest(s.Position, upto)

    @action
    def Heartbeat(s, n: Node, term: Term, before: Index):
        """No entry arrives; that before agrees: what is committed so far is."""
        when(~member(n, s.lost), term >= s.term[n], ~member(n, s.elected[term]))
        when(s.Agrees(n, term, before), s.SentTo(n, term, before))
        s.commit[n] = maximum(s.commit[n], minimum(s.Told(term), before))
        s.follow(n, term)
        s.acknowledge(n, term, before)

    @action
    def Commit(s, n: Node, index: Index):
        """An entry of the leader's own term that a quorum has on disk, and everything before it."""
        when(~member(n, s.lost), s.role[n] == "leader", index > s.commit[n], index <= size(s.log[n]))
        when(s.TermAt(n, index) == s.term[n])
        have = such_that(s.Node, lambda o: Or(o == n, s.match[n][o] >= index))
        when(s.Quorum(n, s.ConfigToCount(n), have))
        s.commit[n] = index

        def now_decided(i):
            new = And(i < index, is_none(s.decided[i]))
            return If(new, record(s.Decided, entry=s.log[n][i].term, term=s.term[n]), s.decided[i])

        s.decided = function(s.Position, now_decided)
        stays = member(n, s.ConfigAt(s.log[n], index).voters)
        s.role[n] = If(stays, s.role[n], "follower")
        s.match[n] = If(stays, s.match[n], 0)

    # -- membership ----------------------------------------------------------------------------------------

    def change(s, n, voters, learners):
        """Write a configuration, if the last is committed and the leader has proof of its office."""
        when(~member(n, s.lost), s.role[n] == "leader", s.changes < s.Changes, size(voters) > 0)
        committed = s.ConfigAt(s.log[n], s.commit[n])
        if s.variant != "two-changes":
            when(s.ConfigAt(s.log[n], size(s.log[n])) == committed)
        if s.variant != "change-before-own-commit":
            when(s.commit[n] > 0, s.TermAt(n, s.commit[n]) == s.term[n])
        s.changes = s.changes + 1
        s.write(n, record(s.Config, voters=voters, learners=learners))

    @action
    def Add(s, n: Node, who: Node):
        """A new server learns before it votes, so that it holds up nobody."""
        now = s.ConfigAt(s.log[n], size(s.log[n]))
        when(~s.Member(who, now))
        s.change(n, now.voters, with_member(now.learners, who))

    @action
    def Promote(s, n: Node, who: Node):
        """It has everything committed: its vote will not delay the next commit for long."""
        now = s.ConfigAt(s.log[n], size(s.log[n]))
        when(member(who, now.learners), s.match[n][who] >= s.commit[n])
        s.change(n, with_member(now.voters, who), without(now.learners, who))

    @action
    def Remove(s, n: Node, who: Node):
        """Any member, the leader as well."""
        now = s.ConfigAt(s.log[n], size(s.log[n]))
        when(s.Member(who, now))
        s.change(n, without(now.voters, who), without(now.learners, who))

    # -- crashes -------------------------------------------------------------------------------------------

    @action
    def Restart(s, n: Node):
        """Memory is gone, the disk is not."""
        when(~member(n, s.lost), s.restarts < s.Restarts)
        s.restarts = s.restarts + 1
        s.forget(n)
        s.commit[n] = 0

    @action
    def LoseDisk(s, n: Node):
        """I2: this server never comes back."""
        when(~member(n, s.lost), s.losses < s.Losses)
        s.losses = s.losses + 1
        s.forget(n)
        if s.variant == "wiped-voter-rejoins":
            s.term[n] = 0
            s.vote[n] = None
            s.log[n] = []
            s.commit[n] = 0
        else:
            s.lost = with_member(s.lost, n)

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def ElectionSafety(s):
        """At most one leader is ever elected in a term."""
        return Forall(s.Term, lambda t: size(s.elected[t]) <= 1)

    @invariant
    def LeaderAppendOnly(s):
        """A leader's log is what it has written in its term: nothing of it was cut or exchanged."""
        return Forall(s.Node, lambda n: Implies(s.role[n] == "leader", s.log[n] == s.written[s.term[n]]))

    @invariant
    def LogMatching(s):
        """Two logs with an entry of one term at one index agree on it and everything before it."""

        def agree(a, b, i):
            both = And(i < size(s.log[a]), i < size(s.log[b]))
            same = prefix(s.log[a], i + 1) == prefix(s.log[b], i + 1)
            return Implies(And(both, s.log[a][i].term == s.log[b][i].term), same)

        return Forall(s.Node, s.Node, lambda a, b: Forall(numbers(0, s.Entries), lambda i: agree(a, b, i)))

    @invariant
    def StateMachineSafety(s):
        """Nobody has committed another entry at an index than was committed there first."""

        def agree(n, i):
            same = And(is_some(s.decided[i]), get(s.decided[i]).entry == s.log[n][i].term)
            return Implies(i < s.commit[n], And(i < size(s.log[n]), same))

        return Forall(s.Node, s.Position, agree)

    @invariant
    def LeaderCompleteness(s):
        """A leader has every entry that was committed in an earlier term."""

        def complete(n, i):
            earlier = And(is_some(s.decided[i]), get(s.decided[i]).term < s.term[n])
            has_it = And(i < size(s.log[n]), s.log[n][i].term == get(s.decided[i]).entry)
            return Implies(And(s.role[n] == "leader", earlier), has_it)

        return Forall(s.Node, s.Position, complete)

    @definition
    def Holds(s, n: Node, other: Node):
        """It has all that the other has committed."""
        return prefix(s.log[n], s.commit[other]) == prefix(s.log[other], s.commit[other])

    @invariant
    def MoreUpToDateCorrect(s):
        """Whose log would win the other's vote has what the other has committed."""

        def correct(a, b):
            mine, theirs = s.TermAt(a, size(s.log[a])), s.TermAt(b, size(s.log[b]))
            newer = Or(mine > theirs, And(mine == theirs, size(s.log[a]) >= size(s.log[b])))
            return Implies(newer, s.Holds(a, b))

        return Forall(s.Node, s.Node, correct)

    @invariant
    def QuorumLog(s):
        """Every quorum of a leader's configuration has somebody with all that the leader has committed."""

        def kept(n):
            voters = s.ConfigOf(n).voters
            without_it = such_that(s.Node, lambda m: And(member(m, voters), ~s.Holds(m, n)))
            return Implies(s.role[n] == "leader", size(without_it) + size(without_it) <= size(voters))

        return Forall(s.Node, kept)

    @sometimes
    def AChangeIsCommitted(s):
        return Exists(s.Node, lambda n: s.ConfigAt(s.log[n], s.commit[n]) != s.first)

    @sometimes
    def ALeaderIsNoMember(s):
        return Exists(s.Node, lambda n: And(s.role[n] == "leader", ~s.Member(n, s.ConfigOf(n))))

    @sometimes
    def AnAddedServerLeads(s):
        return Exists(s.Node, lambda n: And(s.role[n] == "leader", ~member(n, s.first.voters)))
