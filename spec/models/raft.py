"""Raft as the metadata group uses it: election, replication, commit, restart (rule M1).

Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (2014), Figure 2, one message of each
kind. Messages stay in a set once sent: they may be lost, late, doubled and reordered. What a voter must not
forget (term, vote, log) lies on its disk; a restart forgets the rest. In the right protocol everything is on
disk before it is answered, so disk and memory are one; variants that answer first keep a second copy that a
crash falls back to.

Entries carry only the term in which they were written: a term has one leader, which writes an index once, so
that (index, term) names an entry.

Each variant is one bug, and the checker shows the shortest way to the harm:

    vote-before-sync     a vote is answered before it is on disk
    ack-before-sync      an entry is acknowledged before it is on disk
    commit-old-term      an entry of an older term is committed by counting (Figure 8)
    half-quorum          half of the voters are enough
    length-before-term   the longer log wins the vote, not the newer
    vote-forgotten       a candidate that is already known to the voter gets a second vote in one term
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
    count,
    definition,
    function,
    get,
    invariant,
    is_none,
    is_some,
    last,
    maximum,
    minimum,
    numbers,
    only,
    prefix,
    size,
    some,
    sometimes,
    when,
    with_member,
)


class Raft(Model):
    """A group of voters. Bounds: so many terms, entries and restarts."""

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
    Entries = Constant(2)
    Restarts = Constant(1)

    Node = Sort(Nodes)
    Term = Range(0, Terms)
    Index = Range(0, Entries)
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

    term = Var(Fn(Node, Term))
    vote = Var(Fn(Node, Option(Node)))
    log = Var(Fn(Node, Log))
    role = Var(Fn(Node, Enum("follower", "candidate", "leader")))
    votes = Var(Fn(Node, Set(Node)))
    match = Var(Fn(Node, Fn(Node, Index)))
    commit = Var(Fn(Node, Index))
    messages = Var(Set(Message))
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
        when(s.role[n] != "leader", s.term[n] < s.Terms)
        s.term[n] = s.term[n] + 1
        s.vote[n] = n
        s.role[n] = "candidate"
        s.votes[n] = [n]
        s.save(n, term=s.term[n] + 1, vote=n)
        s.send("ask", n, None, s.term[n] + 1, size(s.log[n]), s.LastTerm(n))

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

    @action
    def CountVote(s, n: Node):
        m = some(s.messages, "vote")
        when(m.kind == "vote", m.to == n, m.term == s.term[n], s.role[n] == "candidate")
        s.votes[n] = with_member(s.votes[n], m.source)

    @action
    def BecomeLeader(s, n: Node):
        when(s.role[n] == "candidate", s.Quorum(s.votes[n]))
        s.role[n] = "leader"
        s.match[n] = function(s.Node, lambda other: If(other == n, size(s.log[n]), 0))

    @action
    def StepDown(s, n: Node):
        """A newer term was heard of; who asks for a vote is answered by GrantVote."""
        m = some(s.messages, "newer")
        when(m.term > s.term[n])
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
        s.match[n][n] = size(s.log[n]) + 1
        if s.variant != "ack-before-sync":
            s.save(n, log=append(s.log[n], s.term[n]))

    @action
    def Replicate(s, n: Node, to: Node, before: Index):
        """One entry, or none, from any place on."""
        when(s.role[n] == "leader", to != n, before <= size(s.log[n]))
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

    @action
    def HearAck(s, n: Node):
        m = some(s.messages, "ack")
        when(m.kind == "ack", m.to == n, m.term == s.term[n], s.role[n] == "leader")
        when(m.index > s.match[n][m.source])
        s.match[n][m.source] = m.index

    @action
    def Commit(s, n: Node, index: Index):
        """An entry of the leader's own term that a quorum has on disk, and everything before it."""
        when(s.role[n] == "leader", index > s.commit[n], index <= size(s.log[n]))
        have = count(s.Node, lambda other: s.match[n][other] >= index)
        if s.variant == "half-quorum":
            when(have + have >= s.Nodes)
        else:
            when(have + have > s.Nodes)
        if s.variant != "commit-old-term":
            when(s.TermAt(n, index) == s.term[n])
        s.commit[n] = index

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
        s.votes[n] = []
        s.match[n] = function(s.Node, lambda other: 0)
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
        """Nobody has committed different entries at one index."""

        def agree(a, b):
            both = minimum(s.commit[a], s.commit[b])
            return Forall(numbers(0, both), lambda i: s.log[a][i] == s.log[b][i])

        return Forall(s.Node, s.Node, agree)

    @invariant
    def LeaderCompleteness(s):
        """A leader has every entry that was committed in an earlier term."""

        def complete(leader, other):
            longer = size(s.log[leader]) >= s.commit[other]
            same = Forall(numbers(0, s.commit[other]), lambda i: s.log[leader][i] == s.log[other][i])
            newer = And(s.role[leader] == "leader", s.term[leader] > s.term[other])
            return Implies(newer, And(longer, same))

        return Forall(s.Node, s.Node, complete)

    @sometimes
    def SomethingIsCommitted(s):
        return Exists(s.Node, lambda n: s.commit[n] > 0)

    @sometimes
    def AFollowerLearnsTheCommit(s):
        return Exists(s.Node, lambda n: And(s.commit[n] > 0, s.role[n] == "follower"))

    @sometimes
    def TwoLeadersInDifferentTerms(s):
        return Exists(s.Node, s.Node, lambda a, b: And(a != b, s.role[a] == "leader", s.role[b] == "leader"))
