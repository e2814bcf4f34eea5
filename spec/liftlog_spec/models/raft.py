"""Raft as the metadata group uses it: election, replication, commit, crashes (rules M1 and I2).

Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014), Figure 2. Messages stay in
a set once sent: they may be lost, late, doubled and reordered.

*Persist, then send.* What a voter must not forget (term, vote, log) is written while the voter goes on:
`writes` holds the writes under way, in order, each as what the disk will hold when it is synced. An answer is
a promise, so it is held back until the disk holds what it promises. A leader may send entries before its own
disk has them and counts itself only after. A crash loses what is held back, and of the writes under way
nobody knows: the record of term and vote and the log are two files, each found as it was at any time since
its last sync, the log also in the middle of a write.

Entries carry only the term in which they were written: a term has one leader, which writes an index once, so
that (index, term) names an entry. What a candidate or leader has heard is not remembered beside the messages:
it may act on any set of answers that were sent to it, which is what it could have heard. Messages that
promise nothing (refusals, pre-votes, requests for reads) are not modelled: all that they can change is the
term, so a term that somebody has on its disk may reach anybody. An acknowledgement may say less than it
could, or nothing. When somebody stands or a leader gives up is left open. A voter whose disk was lost, or
that was told to keep its vote, follows and counts for nothing (I2). The search is bounded by the numbers of
terms, entries, campaigns, append messages, entries in one of them, writes under way (0: disks are as fast as
memory), restarts and lost disks.

Each variant is one bug, and the checker shows the shortest way to the harm:

    vote-before-sync     a vote is answered before it is on disk
    ack-before-sync      an entry is acknowledged, and counted by its leader, before it is on disk
    commit-old-term      an entry of an older term is committed by counting (Figure 8)
    half-quorum          half of the voters are enough (an even number of them shows it)
    length-before-term   the longer log wins the vote, not the newer
    vote-forgotten       who asks gets a vote, whoever else got one in this term
    ack-whole-log        an acknowledgement names the follower's whole log, not what the request covers
    commit-beyond-match  a follower commits what its leader has, beyond what the request shows to be equal
    lost-disk-votes      a voter whose disk was lost goes on voting with an empty one
"""

from __future__ import annotations

from liftlog_spec.lang import *


class Raft(Model):
    """A group of voters, and how often each thing may happen."""

    variant = Setting(
        "right",
        "vote-before-sync",
        "ack-before-sync",
        "commit-old-term",
        "half-quorum",
        "length-before-term",
        "vote-forgotten",
        "ack-whole-log",
        "commit-beyond-match",
        "lost-disk-votes",
    )
    Nodes = Constant(3)
    Terms = Constant(2)
    Entries = Constant(1)
    Campaigns = Constant(2)
    Appends = Constant(2)
    Batch = Constant(1)
    Writes = Constant(1)
    Restarts = Constant(1)
    Losses = Constant(0)

    Node = Sort(Nodes)
    Term = Range(0, Terms)
    Index = Range(0, Entries)
    Many = Range(0, Batch)
    Written = Range(0, Writes)
    Log = Seq(Term, Entries)
    Kind = Enum("ask", "vote", "append", "ack")
    Message = Record(
        kind=Kind,
        term=Term,
        source=Node,
        to=Option(Node),
        index=Index,
        index_term=Term,
        entries=Seq(Term, Batch),
        commit=Index,
    )
    """ask: last index and its term. append: the index before the entries and its term, the entries, the
    leader's commit. ack: an index up to which the logs agree, and its term."""
    Image = Record(term=Term, vote=Option(Node), log=Log, barred=Bool)
    """What a disk holds. `barred`: this disk's voter may not vote (I2)."""
    Decision = Record(upto=Index, term=Term)

    term = Var(Fn(Node, Term))
    vote = Var(Fn(Node, Option(Node)))
    log = Var(Fn(Node, Log))
    barred = Var(Fn(Node, Bool))
    role = Var(Fn(Node, Enum("follower", "candidate", "leader")))
    commit = Var(Fn(Node, Index))
    disk = Var(Fn(Node, Image))
    writes = Var(Fn(Node, Seq(Image, Writes)))
    held = Var(Fn(Node, Set(Message)))
    """Answers that wait for the disk."""
    messages = Var(Set(Message))
    decided = Var(Log)
    """What was ever committed: nobody in the protocol knows it, the invariants do."""
    decisions = Var(Seq(Decision, Entries))
    """How far it went when, and in which term."""
    campaigns = Var(Range(0, Campaigns))
    appends = Var(Range(0, Appends))
    restarts = Var(Range(0, Restarts))
    losses = Var(Range(0, Losses))

    # -- small words ---------------------------------------------------------------------------------------

    @definition
    def LastTerm(s, log: Log):
        return If(size(log) == 0, 0, last(log))

    @definition
    def TermAt(s, log: Log, length: Index):
        """Term of the last of the first `length` entries."""
        return If(length == 0, 0, log[length - 1])

    @definition
    def Quorum(s, members: Set(Node)):
        if s.variant == "half-quorum":
            return size(members) + size(members) >= s.Nodes
        return size(members) + size(members) > s.Nodes

    @definition
    def KeepsVote(s, image: Image, term: Term, vote: Option(Node)):
        return And(image.term == term, image.vote == vote)

    @definition
    def KeepsEntries(s, image: Image, term: Term, index: Index, index_term: Term):
        return And(image.term == term, index <= size(image.log), s.TermAt(image.log, index) == index_term)

    @definition
    def Backed(s, image: Image, m: Message):
        """This image of a disk keeps what the answer promises."""
        vote = If(m.kind == "ask", m.source, m.to)
        entries = s.KeepsEntries(image, m.term, m.index, m.index_term)
        return If(m.kind == "ack", entries, s.KeepsVote(image, m.term, vote))

    def enough(s, n, members):
        """A quorum, in the eyes of `n`: raft_steps.py knows more than one."""
        return s.Quorum(members)

    def may_stand(s, n):
        return ~s.barred[n]

    def message(s, kind, source, to, term, index=0, index_term=0, entries=(), commit=0):
        return {
            "kind": kind,
            "term": term,
            "source": source,
            "to": to,
            "index": index,
            "index_term": index_term,
            "entries": entries,
            "commit": commit,
        }

    def answer(s, n, backed, message):
        """M1a, M1g: it leaves when the disk keeps what it promises."""
        leaves = Or(s.Writes == 0, backed)
        s.messages = If(leaves, with_member(s.messages, message), s.messages)
        s.held[n] = If(leaves, s.held[n], with_member(s.held[n], message))

    def remember(s, n, **new):
        """Change what must not be forgotten, and write it if it is not as it was."""
        image = {name: new.get(name, getattr(s, name)[n]) for name in ("term", "vote", "log", "barred")}
        same = And(*(getattr(s, name)[n] == value for name, value in new.items()))
        when(Or(same, s.Writes == 0, size(s.writes[n]) < s.Writes))
        s.writes[n] = If(Or(same, s.Writes == 0), s.writes[n], append(s.writes[n], image))
        s.disk[n] = If(s.Writes == 0, record(s.Image, **image), s.disk[n])
        for name, value in new.items():
            getattr(s, name)[n] = value

    # -- elections -----------------------------------------------------------------------------------------

    @action
    def Campaign(s, n: Node):
        """A timeout: a new term, a vote for oneself; others are asked once that is on disk (M1a)."""
        when(s.role[n] != "leader", s.may_stand(n), s.campaigns < s.Campaigns, s.term[n] < s.Terms)
        term = s.term[n] + 1
        s.campaigns = s.campaigns + 1
        s.role[n] = "candidate"
        s.remember(n, term=term, vote=n)
        s.answer(n, False, s.message("ask", n, None, term, size(s.log[n]), s.LastTerm(s.log[n])))

    @action
    def GrantVote(s, n: Node):
        """At most one vote in a term, and only for a log that is at least as new (M1a, M1b)."""
        m = some(s.messages, "request")
        newer = m.term > s.term[n]
        when(m.kind == "ask", m.source != n, m.term >= s.term[n], ~s.barred[n])
        if s.variant == "vote-forgotten":
            when(Or(newer, s.role[n] == "follower"))
        else:
            when(Or(newer, s.vote[n] == m.source, And(is_none(s.vote[n]), s.role[n] == "follower")))
        mine, length = s.LastTerm(s.log[n]), size(s.log[n])
        if s.variant == "length-before-term":
            when(Or(m.index > length, And(m.index == length, m.index_term >= mine)))
        else:
            when(Or(m.index_term > mine, And(m.index_term == mine, m.index >= length)))
        s.role[n] = "follower"
        s.remember(n, term=m.term, vote=m.source)
        backed = s.KeepsVote(s.disk[n], m.term, m.source)
        s.answer(n, s.variant == "vote-before-sync" or backed, s.message("vote", n, m.source, m.term))

    @definition
    def Voted(s, voter: Node, n: Node):
        """The voter's answer to the candidate may have arrived."""
        return member(s.message("vote", voter, n, s.term[n]), s.messages)

    @action
    def BecomeLeader(s, n: Node):
        """A quorum has voted for it; its own vote counts once it is on disk (M1a)."""
        when(s.role[n] == "candidate", s.disk[n].term == s.term[n], s.disk[n].vote == n)
        when(s.enough(n, such_that(s.Node, lambda voter: Or(voter == n, s.Voted(voter, n)))))
        s.role[n] = "leader"

    @action
    def StepDown(s, n: Node, term: Term):
        """A newer term was heard of, in whatever message; or a candidate or leader gives up (M1e, M1n)."""
        newer = term > s.term[n]
        when(Or(newer, And(term == s.term[n], s.role[n] != "follower")))
        when(Implies(newer, Exists(s.Node, lambda other: s.disk[other].term >= term)))
        s.role[n] = "follower"
        s.remember(n, term=term, vote=If(newer, None, s.vote[n]))

    # -- replication ---------------------------------------------------------------------------------------

    @action
    def Propose(s, n: Node):
        """The leader appends an entry of its term."""
        when(s.role[n] == "leader", size(s.log[n]) < s.Entries)
        s.remember(n, log=append(s.log[n], s.term[n]))

    @action
    def Replicate(s, n: Node, to: Node, before: Index, many: Many):
        """Some entries, or none, from any place on; the leader's own disk may be behind (M1g)."""
        when(s.role[n] == "leader", to != n, before + many <= size(s.log[n]), s.appends < s.Appends)
        s.appends = s.appends + 1
        entries = prefix(rest(s.log[n], before), many)
        before_term = s.TermAt(s.log[n], before)
        sent = s.message("append", n, to, s.term[n], before, before_term, entries, s.commit[n])
        s.messages = with_member(s.messages, sent)

    @action
    def Accept(s, n: Node, acked: Index):
        """M1f: the entry before agrees: cut what differs, append, acknowledge what is surely equal now."""
        m = some(s.messages, "append")
        when(m.kind == "append", m.to == n, m.term >= s.term[n])
        when(m.index <= size(s.log[n]), s.TermAt(s.log[n], m.index) == m.index_term)
        known = m.index + size(m.entries)
        same = prefix(rest(s.log[n], m.index), size(m.entries)) == m.entries
        log = If(same, s.log[n], concat(prefix(s.log[n], m.index), m.entries))
        if s.variant == "ack-whole-log":
            when(acked == size(log))
        else:
            when(acked <= known)
        when(Or(acked == 0, ~s.barred[n]))
        s.role[n] = "follower"
        equal = size(log) if s.variant == "commit-beyond-match" else known
        s.commit[n] = maximum(s.commit[n], minimum(m.commit, equal))
        s.remember(n, term=m.term, vote=If(m.term > s.term[n], None, s.vote[n]), log=log)
        ack = s.message("ack", n, m.source, m.term, acked, s.TermAt(log, acked))
        backed = s.KeepsEntries(s.disk[n], m.term, acked, s.TermAt(log, acked))
        leaves = Or(s.variant == "ack-before-sync", s.Writes == 0, backed)
        s.messages = If(And(acked > 0, leaves), with_member(s.messages, ack), s.messages)
        s.held[n] = If(Or(acked == 0, leaves), s.held[n], with_member(s.held[n], ack))

    @definition
    def Acknowledged(s, other: Node, n: Node, index: Index):
        """An answer that the other has so much of the leader's log may have arrived."""

        def covers(m):
            mine = And(m.kind == "ack", m.to == n, m.term == s.term[n])
            return And(mine, m.source == other, m.index >= index)

        return Exists(s.messages, covers)

    @action
    def Commit(s, n: Node, index: Index):
        """M1h: an entry of the leader's own term that a quorum has on disk, and everything before it."""
        when(s.role[n] == "leader", index > s.commit[n], index <= size(s.log[n]))
        if s.variant != "commit-old-term":
            when(s.TermAt(s.log[n], index) == s.term[n])
        if s.variant == "ack-before-sync":
            own = s.role[n] == "leader"
        else:
            own = prefix(s.disk[n].log, index) == prefix(s.log[n], index)
        has_it = such_that(s.Node, lambda other: If(other == n, own, s.Acknowledged(other, n, index)))
        when(s.enough(n, has_it))
        s.commit[n] = index
        longer = And(index > size(s.decided), prefix(s.log[n], size(s.decided)) == s.decided)
        s.decided = If(longer, prefix(s.log[n], index), s.decided)
        now = append(s.decisions, {"upto": index, "term": s.term[n]})
        s.decisions = If(longer, now, s.decisions)

    # -- disks and crashes ---------------------------------------------------------------------------------

    @action
    def Sync(s, n: Node):
        """The oldest write is on disk, and the answers leave that waited for it."""
        when(size(s.writes[n]) > 0)
        image = s.writes[n][0]
        leaving = such_that(s.held[n], lambda m: s.Backed(image, m))
        s.disk[n] = image
        s.writes[n] = rest(s.writes[n], 1)
        s.messages = union(s.messages, leaving)
        s.held[n] = difference(s.held[n], leaving)

    def forget(s, n, term, vote, log, barred, commit=0):
        """Memory is gone; what is found is on the disk (R7)."""
        s.term[n] = term
        s.vote[n] = vote
        s.log[n] = log
        s.barred[n] = barred
        s.disk[n] = {"term": term, "vote": vote, "log": log, "barred": barred}
        s.role[n] = "follower"
        s.commit[n] = commit
        s.writes[n] = []
        s.held[n] = []

    @definition
    def After(s, n: Node, written: Written):
        """The disk after so many of the writes under way."""
        return If(written == 0, s.disk[n], s.writes[n][written - 1])

    def crash(s, n, voted, logged, length, commit=0):
        """`voted` writes have reached the file of term and vote, `logged` the log, of which the last perhaps
        in part. A log that is newer than the remembered term says which term it was.
        """
        when(s.restarts < s.Restarts, voted <= size(s.writes[n]), logged <= size(s.writes[n]))
        state, whole, before = s.After(n, voted), s.After(n, logged).log, s.After(n, logged - 1).log
        when(length <= size(whole))
        partly = Or(length >= size(before), before[length] != whole[length])
        when(Or(length == size(whole), And(logged > 0, partly)))
        log = prefix(whole, length)
        behind = s.LastTerm(log) > state.term
        term = maximum(s.LastTerm(log), state.term)
        s.restarts = s.restarts + 1
        s.forget(n, term, If(behind, None, state.vote), log, state.barred, commit)

    @action
    def Restart(s, n: Node, voted: Written, logged: Written, length: Index):
        """A crash, with as much of what was under way on the disk as can be."""
        s.crash(n, voted, logged, length)

    @action
    def LoseDisk(s, n: Node):
        """I2: the voter starts with an empty disk, which has no part in the cluster's birth."""
        when(s.losses < s.Losses)
        s.losses = s.losses + 1
        s.forget(n, 0, None, [], s.variant != "lost-disk-votes")

    @action
    def Withhold(s, n: Node):
        """I2: its disk was found set back or damaged, and it keeps its vote from now on."""
        when(~s.barred[n], s.losses < s.Losses)
        s.losses = s.losses + 1
        s.role[n] = "follower"
        s.remember(n, barred=True)

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def ElectionSafety(s):
        """At most one leader in a term."""
        return Forall(
            s.Node,
            s.Node,
            lambda a, b: Implies(
                And(s.role[a] == "leader", s.role[b] == "leader", s.term[a] == s.term[b]), a == b
            ),
        )

    @invariant
    def LogMatching(s):
        """Two logs with the same entry agree on everything before it."""

        def agree(a, b, i):
            both = And(i < size(s.log[a]), i < size(s.log[b]))
            same = Forall(numbers(0, i), lambda j: s.log[a][j] == s.log[b][j])
            return Implies(And(both, s.log[a][i] == s.log[b][i]), same)

        return Forall(s.Node, s.Node, lambda a, b: Forall(numbers(0, s.Entries), lambda i: agree(a, b, i)))

    @invariant
    def StateMachineSafety(s):
        """Nobody has committed another entry at an index than was committed there first."""
        return Forall(s.Node, lambda n: prefix(s.log[n], s.commit[n]) == prefix(s.decided, s.commit[n]))

    @invariant
    def LeaderCompleteness(s):
        """A leader has every entry that was committed in an earlier term."""

        def complete(n, i):
            decision = s.decisions[i]
            has_it = prefix(s.log[n], decision.upto) == prefix(s.decided, decision.upto)
            return Implies(And(s.role[n] == "leader", decision.term < s.term[n]), has_it)

        return Forall(s.Node, lambda n: Forall(indexes(s.decisions), lambda i: complete(n, i)))

    @sometimes
    def SomethingIsCommitted(s):
        return Exists(s.Node, lambda n: s.commit[n] > 0)

    @sometimes
    def AFollowerLearnsTheCommit(s):
        return Exists(s.Node, s.Node, lambda a, b: And(a != b, s.commit[a] > 0, s.commit[b] > 0))

    @sometimes
    def TwoLeadersInDifferentTerms(s):
        return Exists(s.Node, s.Node, lambda a, b: And(a != b, s.role[a] == "leader", s.role[b] == "leader"))

    @sometimes
    def ALeaderIsBehindItsFollowers(s):
        """It has committed what its own disk does not have yet (M1g)."""
        return Exists(s.Node, lambda n: And(s.role[n] == "leader", s.commit[n] > size(s.disk[n].log)))
