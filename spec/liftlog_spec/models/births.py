"""Two clusters of one name: a disk of one among the nodes of the other is not believed (M5, I2).

Both are called the same and have the same numbers for their founders, so that nothing of what people have
said tells them apart. Disks can be put into each other's machines, and nodes given each other's addresses. So
here every disk may talk to every other, unless both say that they are the same node; somebody who is heard as
node 2 is counted as node 2.

What tells them apart is the *birth*: the certificate that a founder has signed, once in the life of its disk
(I2), names one cluster and no other. A disk says of which birth it is, as far as it knows, and two that know
different ones take nothing from each other: no vote and no entry. A founder knows it from its signature on,
before the birth is complete. A disk that has signed nothing, here the *joiner*, is told by the first leader
that sends it something, and takes nothing before that is durable. While it has taken nothing it may be told
of another one: what it heard first may have been late.

Terms and places in a log are counted from 1 in either cluster, so that logs of both agree where they have
nothing in common: Raft's comparison of a term at a place holds within one cluster only.

What is abstracted. An election is one step: the votes of a quorum, which is two of three numbers. *How a
certificate comes about*: `liftlog/core/raft/birth.py` says why one birth has one. *Recoveries* begin another
epoch, which is compared in the same place. Each variant leaves one thing out:

    name-of-people      the birth is compared by nobody
    other-birth-votes   votes of another birth are heard
    other-birth-appends entries of another birth are taken
    signed-believes     who has signed, but does not know its birth to be complete, believes any leader
    kept-before-told    the joiner takes entries of a leader and does not keep the name
    told-without-sync   or it takes them before the name is durable, which a crash then loses
"""

from __future__ import annotations

from liftlog_spec.lang import *


class Births(Model):
    """Two births of three disks each, of which two are a quorum, and a disk that has signed nothing."""

    variant = Setting(
        "right",
        "name-of-people",
        "other-birth-votes",
        "other-birth-appends",
        "signed-believes",
        "kept-before-told",
        "told-without-sync",
    )
    Terms = Constant(2)
    Entries = Constant(1)
    Joiners = Constant(1)
    Crashes = Constant(1)
    """Joiners: 1 if there is one. Crashes: of the joiner."""

    Birth = Sort(2)
    Number = Sort(3)
    Term = Range(0, Terms)
    Length = Range(0, Entries)
    Place = Range(0, Entries - 1)
    Entry = Record(birth=Birth, term=Term)
    """`birth`: of the leader that wrote it, which no node looks at."""
    Log = Seq(Entry, Entries)

    # Of each founder's disk.
    complete = Var(Fn(Birth, Number, Bool), init=False)
    """Whether it knows its birth to be complete: it votes and is counted."""
    term = Var(Fn(Birth, Number, Term))
    leads = Var(Fn(Birth, Number, Bool), init=False)
    log = Var(Fn(Birth, Number, Log))

    # The joiner's.
    told = Var(Option(Birth))
    durable = Var(Bool, init=False)
    """Whether what it was told is on its disk."""
    joined = Var(Log)
    crashes = Var(Range(0, Crashes))

    committed = Var(Fn(Birth, Log))
    """What leaders of this birth have said to be committed."""

    # -- words ---------------------------------------------------------------------------------------------

    def names(s, b, n):
        """Whether a founder says its birth."""
        return s.complete[b][n] if s.variant == "signed-believes" else True

    def votes_pass(s, a, n, b, m):
        """Whether two founders hear each other's requests and votes."""
        if s.variant in ("name-of-people", "other-birth-votes"):
            return True
        return Or(a == b, ~And(s.names(a, n), s.names(b, m)))

    def entries_pass(s, a, n, b, m):
        """Whether one takes entries of the other, and the other its acknowledgements."""
        if s.variant in ("name-of-people", "other-birth-appends"):
            return True
        return Or(a == b, ~And(s.names(a, n), s.names(b, m)))

    @definition
    def LastTerm(s, log: Log):
        return If(size(log) == 0, 0, last(log).term)

    @definition
    def FitsAt(s, mine: Log, theirs: Log, i: Place):
        """Raft: that the entry before this one has the same place and term says that all before it agree."""
        return Or(i == 0, If(i <= size(mine), mine[i - 1].term == theirs[i - 1].term, False))

    @definition
    def With(s, mine: Log, theirs: Log, i: Place):
        """The log with this entry: nothing is cut that has its term."""
        there = If(i < size(mine), mine[i].term == theirs[i].term, False)
        return If(there, mine, append(prefix(mine, i), theirs[i]))

    # -- the group -----------------------------------------------------------------------------------------

    @action
    def Complete(s, b: Birth, n: Number):
        """It hears that all have signed."""
        when(~s.complete[b][n])
        s.complete[b][n] = True

    @action
    def Elect(s, a: Birth, n: Number, b: Birth, m: Number):
        """Its own vote and that of one other number are a quorum."""
        when(n != m, s.complete[a][n], s.complete[b][m], s.votes_pass(a, n, b, m))
        mine, theirs = s.log[a][n], s.log[b][m]
        newer = s.LastTerm(mine) > s.LastTerm(theirs)
        as_long = And(s.LastTerm(mine) == s.LastTerm(theirs), size(mine) >= size(theirs))
        when(Or(newer, as_long))
        term = maximum(s.term[a][n], s.term[b][m]) + 1
        when(term <= s.Terms)
        s.term = function(
            s.Birth,
            lambda c: function(
                s.Number,
                lambda k: If(Or(And(c == a, k == n), And(c == b, k == m)), term, s.term[c][k]),
            ),
        )
        s.leads = function(
            s.Birth,
            lambda c: function(
                s.Number,
                lambda k: Or(And(c == a, k == n), And(s.leads[c][k], ~And(c == b, k == m))),
            ),
        )

    @action
    def Write(s, b: Birth, n: Number):
        when(s.leads[b][n], size(s.log[b][n]) < s.Entries)
        s.log[b][n] = append(s.log[b][n], {"birth": b, "term": s.term[b][n]})

    @action
    def Send(s, a: Birth, n: Number, b: Birth, m: Number, i: Place):
        """An entry of a leader's log comes to another node, which need not know its birth to be complete."""
        when(n != m, s.leads[a][n], s.term[b][m] <= s.term[a][n], s.entries_pass(a, n, b, m))
        mine, theirs = s.log[b][m], s.log[a][n]
        when(i < size(theirs), s.FitsAt(mine, theirs, i))
        s.term[b][m] = s.term[a][n]
        s.leads[b][m] = And(s.leads[b][m], s.term[b][m] == s.term[a][n])
        s.log[b][m] = s.With(mine, theirs, i)

    @action
    def Commit(s, a: Birth, n: Number, b: Birth, m: Number, length: Length):
        """One other number that is counted has it, in the leader's term."""
        when(n != m, s.leads[a][n], s.complete[b][m], s.term[b][m] == s.term[a][n])
        when(s.entries_pass(a, n, b, m))
        mine, theirs = s.log[a][n], s.log[b][m]
        when(size(s.committed[a]) < length, length <= size(mine), length <= size(theirs))
        when(mine[length - 1].term == s.term[a][n], theirs[length - 1].term == s.term[a][n])
        s.committed[a] = prefix(mine, length)

    # -- the joiner ----------------------------------------------------------------------------------------

    @action
    def Tell(s, b: Birth, n: Number):
        """The first leader of which it hears, or another one, while it has nothing of that one's."""
        when(s.Joiners == 1, s.leads[b][n], s.variant != "kept-before-told")
        when(If(is_none(s.told), True, And(size(s.joined) == 0, get(s.told) != b)))
        s.told = b
        s.durable = False

    @action
    def Sync(s):
        when(is_some(s.told), ~s.durable)
        s.durable = True

    @action
    def SendToJoiner(s, b: Birth, n: Number, i: Place):
        when(s.Joiners == 1, s.leads[b][n])
        if s.variant not in ("kept-before-told", "name-of-people"):
            when(is_some(s.told), get(s.told) == b)
            if s.variant != "told-without-sync":
                when(s.durable)
        when(i < size(s.log[b][n]), s.FitsAt(s.joined, s.log[b][n], i))
        s.joined = s.With(s.joined, s.log[b][n], i)

    @action
    def Crash(s):
        """It knows what its disk has."""
        when(s.Joiners == 1, s.crashes < s.Crashes)
        s.crashes = s.crashes + 1
        s.told = If(s.durable, s.told, None)

    # -- properties ----------------------------------------------------------------------------------------

    def has(s, b, n):
        """Whether a disk has what its cluster has committed."""
        known, log = s.committed[b], s.log[b][n]
        return Forall(indexes(known), lambda i: If(i < size(log), log[i] == known[i], False))

    def of(log, b):
        return Forall(indexes(log), lambda i: log[i].birth == b)

    @invariant
    def OneHistory(s):
        """No log holds what two clusters have written, and no founder's what is not of its birth."""
        founders = Forall(s.Birth, s.Number, lambda b, n: Births.of(s.log[b][n], b))
        return And(founders, Exists(s.Birth, lambda b: Births.of(s.joined, b)))

    @invariant
    def LeaderCompleteness(s):
        """Who leads in the term of what its cluster has committed, or in a later one, has it."""

        def has(b, n):
            since = And(s.leads[b][n], s.term[b][n] >= s.LastTerm(s.committed[b]))
            return Implies(since, s.has(b, n))

        return Forall(s.Birth, s.Number, has)

    @invariant
    def CommittedOnQuorum(s):
        """What a cluster has committed is on two of its own disks."""
        return Forall(s.Birth, lambda b: count(s.Number, lambda n: s.has(b, n)) >= 2)

    # -- signs of life -------------------------------------------------------------------------------------

    @sometimes
    def BothCommit(s):
        return Forall(s.Birth, lambda b: size(s.committed[b]) > 0)

    @sometimes
    def TheJoinerFollows(s):
        return And(s.durable, size(s.joined) > 0)

    @sometimes
    def ALateFounderFollows(s):
        """One that does not know its birth to be complete has entries."""
        return Exists(s.Birth, s.Number, lambda b, n: And(~s.complete[b][n], size(s.log[b][n]) > 0))
