"""Raft as the metadata group uses it: election, replication, commit, restart (rule M1).

Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014), Figure 2, one message of
each kind. Messages stay in a set once sent: they may be lost, late, doubled and reordered. What a voter must
not forget (term, vote, log) lies on its disk; a restart forgets the rest. In the right protocol everything is
on disk before it is answered, so disk and memory are one; variants that answer first keep a second copy that
a crash falls back to.

Entries carry only the term in which they were written: a term has one leader, which writes an index once, so
that (index, term) names an entry. What a candidate or leader has heard is not remembered beside the messages:
it may act on any set of answers that were sent to it, which is what it could have heard. The search is
bounded by the number of terms, entries, campaigns, append messages and restarts.

Each variant is one bug, and the checker shows the shortest way to the harm:

    vote-before-sync     a vote is answered before it is on disk
    ack-before-sync      an entry is acknowledged before it is on disk
    commit-old-term      an entry of an older term is committed by counting (Figure 8)
    half-quorum          half of the voters are enough (an even number of them shows it)
    length-before-term   the longer log wins the vote, not the newer
    vote-forgotten       who asks gets a vote, whoever else got one in this term
    ack-whole-log        an acknowledgement names the follower's whole log, not what the request covers
"""

from __future__ import annotations

from spec.lang import (
    And,
    Constant,
    Enum,
    Exists,
    Fn,
    Forall,
    If,
    Implies,
    Model,
    Option,
    Or,
    Range,
    Record,
    Seq,
    Set,
    Setting,
    Sort,
    Var,
    action,
    append,
    definition,
    function,
    get,
    invariant,
    is_none,
    is_some,
    last,
    maximum,
    member,
    minimum,
    numbers,
    only,
    prefix,
    record,
    size,
    some,
    sometimes,
    such_that,
    when,
    with_member,
)


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
    )
    Nodes = Constant(3)
    Terms = Constant(2)
    Entries = Constant(1)
    Campaigns = Constant(3)
    Appends = Constant(3)
    Restarts = Constant(1)

    Node = Sort(Nodes)
    Term = Range(0, Terms)
    Index = Range(0, Entries)
    Position = Range(0, Entries - 1)
    Log = Seq(Term, Entries)
    Kind = Enum("ask", "vote", "append", "ack")
    Message = Record(
        kind=Kind,
        term=Term,
        source=Node,
        to=Option(Node),
        index=Index,
        index_term=Term,
        entry=Option(Term),
        commit=Index,
    )
    """ask: last index and its term. append: the index before the entry and its term, one entry or none, the
    leader's commit. ack: the index up to which the logs agree."""
    Decided = Record(entry=Term, term=Term)
    """An entry and the term whose leader committed it."""

    term = Var(Fn(Node, Term))
    vote = Var(Fn(Node, Option(Node)))
    log = Var(Fn(Node, Log))
    role = Var(Fn(Node, Enum("follower", "candidate", "leader")))
    commit = Var(Fn(Node, Index))
    messages = Var(Set(Message))
    decided = Var(Fn(Position, Option(Decided)))
    """What was ever committed: nobody in the protocol knows it, the invariants do."""
    campaigns = Var(Range(0, Campaigns))
    appends = Var(Range(0, Appends))
    restarts = Var(Range(0, Restarts))
    disk_term = Var(Fn(Node, Term))
    disk_vote = Var(Fn(Node, Option(Node)))
    disk_log = Var(Fn(Node, Log))

    # -- small words ---------------------------------------------------------------------------------------

    @definition
    def LastTerm(s, n: Node):
        return If(size(s.log[n]) == 0, 0, last(s.log[n]))

    @definition
    def TermAt(s, n: Node, length: Index):
        """Term of the last of the first `length` entries."""
        return If(length == 0, 0, s.log[n][length - 1])

    @definition
    def Quorum(s, members: Set(Node)):
        if s.variant == "half-quorum":
            return size(members) + size(members) >= s.Nodes
        return size(members) + size(members) > s.Nodes

    def send(s, kind, source, to, term, index, index_term, entry=None, commit=0):
        s.messages = with_member(
            s.messages,
            {
                "kind": kind,
                "term": term,
                "source": source,
                "to": to,
                "index": index,
                "index_term": index_term,
                "entry": entry,
                "commit": commit,
            },
        )

    def save(s, n, term=None, vote=..., log=None):
        """Put it on disk as well, with the memory's present values for the rest."""
        if term is not None:
            s.disk_term[n] = term
        if vote is not ...:
            s.disk_vote[n] = vote
        if log is not None:
            s.disk_log[n] = log

    # -- elections -----------------------------------------------------------------------------------------

    @action
    def Campaign(s, n: Node):
        """A timeout: a new term, a vote for oneself."""
        when(s.role[n] != "leader", s.campaigns < s.Campaigns, s.term[n] < s.Terms)
        term = s.term[n] + 1
        s.campaigns = s.campaigns + 1
        s.term[n] = term
        s.vote[n] = n
        s.role[n] = "candidate"
        s.save(n, term=term, vote=n)
        s.send("ask", n, None, term, size(s.log[n]), s.LastTerm(n))

    @action
    def GrantVote(s, n: Node):
        """At most one vote in a term, and only for a log that is at least as new."""
        m = some(s.messages, "request")
        newer = m.term > s.term[n]
        when(m.kind == "ask", m.source != n, m.term >= s.term[n])
        if s.variant == "vote-forgotten":
            when(Or(newer, s.role[n] == "follower"))
        else:
            when(Or(newer, s.vote[n] == m.source, And(is_none(s.vote[n]), s.role[n] == "follower")))
        mine, length = s.LastTerm(n), size(s.log[n])
        if s.variant == "length-before-term":
            when(Or(m.index > length, And(m.index == length, m.index_term >= mine)))
        else:
            when(Or(m.index_term > mine, And(m.index_term == mine, m.index >= length)))
        s.term[n] = m.term
        s.vote[n] = m.source
        s.role[n] = "follower"
        if s.variant != "vote-before-sync":
            s.save(n, term=m.term, vote=m.source)
        s.send("vote", n, m.source, m.term, 0, 0)

    @definition
    def Voted(s, voter: Node, n: Node):
        """The voter's answer to the candidate may have arrived."""
        answer = {
            "kind": "vote",
            "term": s.term[n],
            "source": voter,
            "to": n,
            "index": 0,
            "index_term": 0,
            "entry": None,
            "commit": 0,
        }
        return member(answer, s.messages)

    @action
    def BecomeLeader(s, n: Node):
        """A quorum has voted for it."""
        when(s.role[n] == "candidate")
        when(s.Quorum(such_that(s.Node, lambda voter: Or(voter == n, s.Voted(voter, n)))))
        s.role[n] = "leader"

    @action
    def StepDown(s, n: Node):
        """A newer term was heard of; who asks for a vote is answered by GrantVote."""
        m = some(s.messages, "newer")
        when(m.source != n, m.term > s.term[n])
        s.term[n] = m.term
        s.vote[n] = None
        s.role[n] = "follower"
        s.save(n, term=m.term, vote=None)

    # -- replication ---------------------------------------------------------------------------------------

    @action
    def Propose(s, n: Node):
        """The leader writes an entry of its term, on disk before it counts for itself."""
        when(s.role[n] == "leader", size(s.log[n]) < s.Entries)
        s.log[n] = append(s.log[n], s.term[n])
        if s.variant != "ack-before-sync":
            s.save(n, log=append(s.log[n], s.term[n]))

    @action
    def Replicate(s, n: Node, to: Node, before: Index):
        """One entry, or none, from any place on."""
        when(s.role[n] == "leader", to != n, before <= size(s.log[n]), s.appends < s.Appends)
        s.appends = s.appends + 1
        entry = If(before < size(s.log[n]), s.log[n][before], None)
        s.send("append", n, to, s.term[n], before, s.TermAt(n, before), entry, s.commit[n])

    @action
    def Accept(s, n: Node):
        """The entry before agrees: cut what differs, append, acknowledge what is now known to be equal."""
        m = some(s.messages, "append")
        when(m.kind == "append", m.to == n, m.term >= s.term[n])
        when(m.index <= size(s.log[n]), s.TermAt(n, m.index) == m.index_term)
        same = And(m.index < size(s.log[n]), s.log[n][m.index] == get(m.entry))
        longer = append(prefix(s.log[n], m.index), get(m.entry))
        carries = is_some(m.entry)
        log = If(Or(~carries, same), s.log[n], longer)
        known = If(carries, m.index + 1, m.index)
        s.log[n] = log
        s.term[n] = m.term
        s.role[n] = "follower"
        s.vote[n] = If(m.term > s.term[n], None, s.vote[n])
        s.commit[n] = maximum(s.commit[n], minimum(m.commit, known))
        if s.variant == "ack-before-sync":
            s.save(n, term=m.term, vote=If(m.term > s.term[n], None, s.vote[n]))
        else:
            s.save(n, term=m.term, vote=If(m.term > s.term[n], None, s.vote[n]), log=log)
        acked = size(log) if s.variant == "ack-whole-log" else known
        s.send("ack", n, m.source, m.term, acked, 0)

    @definition
    def Acknowledged(s, other: Node, n: Node, index: Index):
        """An answer that the other has so much of the leader's log may have arrived."""

        def covers(m):
            mine = And(m.kind == "ack", m.to == n, m.term == s.term[n])
            return And(mine, m.source == other, m.index >= index)

        return Exists(s.messages, covers)

    @action
    def Commit(s, n: Node, index: Index):
        """An entry of the leader's own term that a quorum has on disk, and everything before it."""
        when(s.role[n] == "leader", index > s.commit[n], index <= size(s.log[n]))
        if s.variant != "commit-old-term":
            when(s.TermAt(n, index) == s.term[n])
        when(s.Quorum(such_that(s.Node, lambda other: Or(other == n, s.Acknowledged(other, n, index)))))
        s.commit[n] = index

        def now_decided(i):
            new = And(i < index, is_none(s.decided[i]))
            return If(new, record(s.Decided, entry=s.log[n][i], term=s.term[n]), s.decided[i])

        s.decided = function(s.Position, now_decided)

    # -- crashes -------------------------------------------------------------------------------------------

    @action
    def Restart(s, n: Node):
        """Memory is gone, the disk is not."""
        when(s.restarts < s.Restarts)
        s.restarts = s.restarts + 1
        s.term[n] = s.disk_term[n]
        s.vote[n] = s.disk_vote[n]
        s.log[n] = s.disk_log[n]
        s.role[n] = "follower"
        s.commit[n] = 0

    @only("variant", "vote-before-sync", "ack-before-sync")
    @action
    def Sync(s, n: Node):
        """What was written reaches the disk, sooner or later."""
        s.disk_term[n] = s.term[n]
        s.disk_vote[n] = s.vote[n]
        s.disk_log[n] = s.log[n]

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

        def agree(n, i):
            same = And(is_some(s.decided[i]), get(s.decided[i]).entry == s.log[n][i])
            return Implies(i < s.commit[n], same)

        return Forall(s.Node, s.Position, agree)

    @invariant
    def LeaderCompleteness(s):
        """A leader has every entry that was committed in an earlier term."""

        def complete(n, i):
            earlier = And(is_some(s.decided[i]), get(s.decided[i]).term < s.term[n])
            has_it = And(i < size(s.log[n]), s.log[n][i] == get(s.decided[i]).entry)
            return Implies(And(s.role[n] == "leader", earlier), has_it)

        return Forall(s.Node, s.Position, complete)

    @sometimes
    def SomethingIsCommitted(s):
        return Exists(s.Node, lambda n: s.commit[n] > 0)

    @sometimes
    def AFollowerLearnsTheCommit(s):
        return Exists(s.Node, s.Node, lambda a, b: And(a != b, s.commit[a] > 0, s.commit[b] > 0))

    @sometimes
    def TwoLeadersInDifferentTerms(s):
        return Exists(s.Node, s.Node, lambda a, b: And(a != b, s.role[a] == "leader", s.role[b] == "leader"))
