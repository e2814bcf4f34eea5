"""State of the consumers model, and the journal beneath it: copies, commits, truncation, who leads.

Each copy has a journal of its own; it takes the leader's in one step. A leader that was replaced lives on
until it does so. What was handed out, acked, answered and deleted is noted beside it: no copy knows that.
"""

from __future__ import annotations

from liftlog_spec.lang import *


class ConsumersJournal(Model):
    """A partition with a journal: who leads, what each copy has, what it makes of it."""

    variant = Setting(
        "right",
        "ack-answered-at-append",
        "repeat-answered-before-commit",
        "serves-before-folded",
        "serves-before-hw",
        "redelivery-before-record",
        "unrecorded-in-any-epoch",
        "snapshot-forgets-pending",
        "start-moved-before-snapshot-committed",
        "floor-is-greatest-acked",
        "joins-by-data-log-only",
        "late-ack-of-deleted-counts",
        "delete-answered-at-append",
        "removed-before-ack-committed",
        "pending-below-start-kept",
        "not-rewound",
        "elected-without-longer-journal",
        "numbered-by-committed",
        "snapshot-forgets-number",
        "reset-deletes-first",
    )
    Replicas = Constant(2)
    Records = Constant(2)
    Entries = Constant(5)
    Limit = Constant(2)
    Room = Constant(2)
    Epochs = Constant(2)
    Snapshots = Constant(1)
    Deletes = Constant(0)
    Resets = Constant(0)
    Shrinks = Constant(0)
    Trims = Constant(0)
    Queue = Constant(0)
    Losses = Constant(0)
    Doubts = Constant(0)
    """Records of the data, Entries of the journal. Limit: of deliveries. Room: messages that are pending at a
    time. The others, from Snapshots on, say whether there is such a thing at all."""

    Replica = Sort(Replicas)
    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Index = Range(0, Entries - 1)
    Length = Range(0, Entries)
    Epoch = Range(1, Epochs)
    Reign = Range(0, Epochs)
    Count = Range(0, Entries)
    Given = Range(0, 9)
    Kind = Enum("created", "deleted", "delivered", "done", "state", "rewound")
    Entry = Record(
        kind=Kind,
        epoch=Epoch,
        consumer=Index,
        offset=Place,
        handed=Bool,
        meant=Index,
        position=Offset,
        pending=Fn(Place, Count),
        nth=Count,
    )
    """consumer: the number, which is where its entry of creation stands. handed: a delivery that had left
    when its entry was written. meant: the consumer whose delivery was acked. state: where the consumer
    stands, and what is pending how often. nth: the number of the delivery, or of the last one before that
    state. rewound: of what was delivered nothing is left from there on."""
    Journal = Seq(Entry, Entries)

    # -- the partition -------------------------------------------------------------------------------------

    epoch = Var(Epoch, init=1)
    leader = Var(Replica)
    insync = Var(Set(Replica))
    following = Var(Set(Replica))
    """Those that have taken the leader's journal in this epoch."""
    reign = Var(Fn(Replica, Reign), init=0)
    """The epoch in which a copy takes itself for the leader; a leader that was replaced may not know it."""
    journal = Var(Fn(Replica, Journal))
    heard = Var(Fn(Replica, Length))
    """As much of the journal as it knows to be committed."""
    data = Var(Seq(Epoch, Records))
    """The committed messages: the epochs that wrote them."""
    start = Var(Offset)
    removed = Var(Set(Place))
    cleaned = Var(Length)
    """Where the journal starts."""
    hw = Var(Length, init=1)
    """As much of the journal as was ever committed."""

    # -- what has happened, of the present consumer --------------------------------------------------------

    present = Var(Index)
    given = Var(Fn(Place, Given), init=0)
    """How often a message was handed out."""
    counted = Var(Fn(Place, Count), init=0)
    """How often that is recorded, committed."""
    done = Var(Fn(Place, Reign), init=0)
    """The epoch in which it was committed that it is done."""
    answered = Var(Set(Place))
    again = Var(Set(Place))
    """Those that were decided to be delivered behind that."""
    ended = Var(Set(Index))
    """The consumers of which somebody was told that they are deleted."""

    @initial
    def Begin(s, leader: Replica):
        created = s.entry("created", 1, 0)
        s.leader = leader
        s.insync = such_that(s.Replica, lambda r: True)
        s.reign[leader] = 1
        s.journal = [created]
        s.heard = 1

    def entry(s, kind, epoch, consumer, **given):
        nothing = function(s.Place, lambda o: 0)
        plain = {"offset": 0, "handed": False, "meant": consumer, "position": 0, "pending": nothing}
        plain["nth"] = 0
        return {"kind": kind, "epoch": epoch, "consumer": consumer, **plain, **given}

    def write(s, r, kind, consumer, **given):
        when(size(s.journal[r]) < s.Entries)
        s.journal[r] = append(s.journal[r], s.entry(kind, s.reign[r], consumer, **given))

    # -- what a copy makes of its journal ------------------------------------------------------------------

    @definition
    def Seen(s, r: Replica, p: Index):
        """The entries that a leader decides by: all that it has."""
        there = And(s.cleaned <= p, p < size(s.journal[r]))
        if s.variant == "serves-before-folded":
            return And(there, Or(p < s.heard[r], s.journal[r][p].epoch == s.reign[r]))
        return there

    def cut_off(s, r, p, o):
        """An entry behind it says that what it speaks of is lost."""

        def rewinds(q):
            e = s.journal[r][q]
            return And(s.Seen(r, q), e.kind == "rewound", e.position <= o)

        return Exists(numbers(p + 1, s.Entries), rewinds)

    @definition
    def Says(s, r: Replica, p: Index, c: Index, o: Place):
        """An entry about this message, for this consumer."""
        named = And(s.journal[r][p].consumer == c, s.journal[r][p].offset == o)
        return And(s.Seen(r, p), named, Or(s.Losses == 0, ~s.cut_off(r, p, o)))

    @definition
    def Begun(s, r: Replica, c: Index):
        """The journal begins with a snapshot of this consumer."""
        p = s.cleaned
        there = And(p > 0, p < size(s.journal[r]))
        return And(there, s.journal[r][p].kind == "state", s.journal[r][p].consumer == c)

    @definition
    def Times(s, r: Replica, c: Index, o: Place):
        """How often it was delivered."""
        base = If(s.Begun(r, c), s.journal[r][s.cleaned].pending[o], 0)
        return base + count(s.Index, lambda p: And(s.Says(r, p, c, o), s.journal[r][p].kind == "delivered"))

    @definition
    def Number(s, r: Replica, c: Index):
        """K8. How many deliveries there were, of whatever is lost too."""
        base = If(s.Begun(r, c), s.journal[r][s.cleaned].nth, 0)

        def counts(p):
            e = s.journal[r][p]
            known = p < s.heard[r] if s.variant == "numbered-by-committed" else True
            return And(s.Seen(r, p), e.kind == "delivered", e.consumer == c, known)

        return base + count(s.Index, counts)

    @definition
    def Done(s, r: Replica, c: Index, o: Place, end: Length):
        """An entry below `end` says so, or a snapshot, which has come past it and does not say pending."""
        first = s.journal[r][s.cleaned]
        passed = If(s.Begun(r, c), And(o < first.position, first.pending[o] == 0, s.cleaned < end), False)

        def says(p, q):
            return And(p < end, s.Says(r, p, c, q), s.journal[r][p].kind == "done")

        if s.variant == "floor-is-greatest-acked":
            return Or(passed, Exists(s.Index, numbers(o, s.Records), says))
        return Or(passed, Exists(s.Index, lambda p: says(p, o)))

    @definition
    def Pending(s, r: Replica, c: Index, o: Place):
        return And(s.Times(r, c, o) > 0, ~s.Done(r, c, o, size(s.journal[r])))

    @definition
    def Position(s, r: Replica, c: Index):
        """Behind the last that was delivered."""
        first = s.journal[r][s.cleaned]
        base = If(s.Begun(r, c), first.position, 0)

        def behind(p):
            e = s.journal[r][p]
            return If(And(e.kind == "delivered", s.Says(r, p, c, e.offset)), e.offset + 1, 0)

        return maximum(base, greatest(s.Index, lambda p: If(p < size(s.journal[r]), behind(p), 0)))

    @definition
    def Is(s, r: Replica, c: Index):
        """The consumer is there: begun, and neither deleted nor, since another one is, reset."""

        def about(p, kind):
            return And(s.Seen(r, p), s.journal[r][p].kind == kind, s.journal[r][p].consumer == c)

        begun = Or(Exists(s.Index, lambda p: about(p, "created")), s.Begun(r, c))

        def ends(p):
            e = s.journal[r][p]
            return And(s.Resets > 0, s.Seen(r, p), e.kind == "created", c < e.consumer)

        return And(begun, ~Exists(s.Index, lambda p: Or(about(p, "deleted"), ends(p))))

    @definition
    def Inherited(s, r: Replica):
        """How much of its journal a leader had when it was elected."""
        return count(s.Index, lambda p: And(p < size(s.journal[r]), s.journal[r][p].epoch < s.reign[r]))

    @definition
    def Overtaken(s, r: Replica):
        """What it had speaks of messages that its data lacked when it was elected."""
        end = count(indexes(s.data), lambda i: s.data[i] < s.reign[r])

        def beyond(p):
            e = s.journal[r][p]
            named = And(s.Seen(r, p), e.epoch < s.reign[r], e.kind == "delivered", end <= e.offset)
            return And(named, s.Says(r, p, e.consumer, e.offset))

        return Exists(s.Index, lambda p: If(p < size(s.journal[r]), beyond(p), False))

    @definition
    def Serves(s, r: Replica):
        """K5: what it had at its election is committed, and so is what it said of losses, if it had to."""
        rewound = And(
            ~s.Overtaken(r),
            ~Exists(
                numbers(s.heard[r], size(s.journal[r])),
                lambda p: And(s.journal[r][p].kind == "rewound", s.Losses > 0),
            ),
        )
        settled = s.Inherited(r) <= s.heard[r]
        if s.variant in ("serves-before-folded", "serves-before-hw"):
            settled = True
        if s.variant == "not-rewound":
            rewound = True
        return And(s.reign[r] > 0, settled, Or(s.Losses == 0, rewound))

    @definition
    def Gone(s, o: Place):
        return Or(o < s.start, member(o, s.removed))

    # -- replication ---------------------------------------------------------------------------------------

    @action
    def Commit(s):
        """R2. Answers and records that waited for it leave, if their leader lives."""
        lead = s.leader
        p = s.heard[lead]
        when(s.reign[lead] == s.epoch, p < size(s.journal[lead]))

        def has(r):
            return Or(r == lead, And(member(r, s.following), p < size(s.journal[r])))

        when(Forall(s.Replica, lambda r: Implies(member(r, s.insync), has(r))))
        e = s.journal[lead][p]
        own = e.epoch == s.epoch
        first = Or(own, s.hw <= p)
        o = e.offset
        means = And(o < size(s.data), s.data[o] <= e.epoch)
        here = And(first, means, e.consumer == s.present)
        anew, delivered, done = And(first, e.kind == "created"), e.kind == "delivered", e.kind == "done"
        s.heard[lead] = p + 1
        s.hw = maximum(s.hw, p + 1)
        s.present = If(anew, p, s.present)

        def of(q, yes, before, more):
            """What is counted of a message: anew for another consumer, more for this one."""
            return If(anew, 0, If(And(yes, here, q == o), more, before[q]))

        leaves = And(delivered, own, ~e.handed)
        s.given = function(s.Place, lambda q: of(q, leaves, s.given, s.given[q] + 1))
        s.counted = function(s.Place, lambda q: of(q, delivered, s.counted, s.counted[q] + 1))
        s.done = function(s.Place, lambda q: of(q, done, s.done, If(s.done[q] > 0, s.done[q], s.epoch)))
        s.answered = s.after(anew, And(done, here, own), s.answered, o)
        s.again = s.after(anew, And(delivered, here, s.done[o] > 0), s.again, o)
        s.ended = If(And(e.kind == "deleted", own), with_member(s.ended, e.consumer), s.ended)

    def after(s, anew, yes, before, o):
        nothing = such_that(s.Place, lambda q: False)
        return If(anew, nothing, If(yes, with_member(before, o), before))

    @action
    def Fetch(s, r: Replica):
        """R6. It has what the leader has; whoever led before does no more."""
        lead = s.leader
        when(r != lead)
        news = Or(s.journal[r] != s.journal[lead], s.heard[r] != s.heard[lead])
        when(Or(news, ~member(r, s.following), s.reign[r] > 0))
        s.journal[r] = s.journal[lead]
        s.heard[r] = s.heard[lead]
        s.reign[r] = 0
        s.following = with_member(s.following, r)

    def elect(s, to):
        when(s.epoch < s.Epochs)
        s.epoch = s.epoch + 1
        s.leader = to
        s.following = such_that(s.Replica, lambda r: False)

    @action
    def Elect(s, to: Replica):
        """R16. Of those in sync; the leader of before may live on."""
        when(member(to, s.insync))
        s.elect(to)
        s.reign[to] = s.epoch + 1

    @action
    def Leave(s, r: Replica):
        """R11."""
        when(s.Shrinks > 0, r != s.leader, member(r, s.insync))
        s.insync = without(s.insync, r)

    @action
    def Join(s, r: Replica):
        """R10. In both logs, and the data are told as what is committed."""
        when(~member(r, s.insync))
        if s.variant != "joins-by-data-log-only":
            reached = maximum(s.heard[s.leader], s.Inherited(s.leader))
            when(member(r, s.following), reached <= size(s.journal[r]))
        s.insync = with_member(s.insync, r)

    def alone(s, to):
        s.elect(to)
        s.insync = such_that(s.Replica, lambda r: r == to)
        s.reign = function(s.Replica, lambda r: If(r == to, s.epoch + 1, 0))

    @action
    def ElectInDoubt(s, to: Replica, damaged: Replica, end: Length):
        """R14. All have stopped, one has lost its journal's end: who has the longest leads."""
        when(s.Doubts > 0, size(s.insync) == s.Replicas, end > 0, end < size(s.journal[damaged]))

        def ends(r):
            return If(r == damaged, end, size(s.journal[r]))

        def longer(a, b):
            of_a, of_b = s.journal[a][ends(a) - 1].epoch, s.journal[b][ends(b) - 1].epoch
            return Or(of_b < of_a, And(of_a == of_b, ends(b) <= ends(a)))

        if s.variant != "elected-without-longer-journal":
            when(Forall(s.Replica, lambda r: longer(to, r)))
        s.alone(to)
        s.journal[damaged] = prefix(s.journal[damaged], end)
        s.heard = function(s.Replica, lambda r: minimum(s.heard[r], ends(r)))

    @action
    def ElectUnclean(s, to: Replica, end: Offset):
        """R16. An operator's word: messages are lost, and their offsets are given again."""
        when(s.Losses > 0, member(to, s.insync), end < size(s.data))
        s.alone(to)
        s.data = prefix(s.data, end)
        s.given = function(s.Place, lambda o: If(o < end, s.given[o], 0))
        s.counted = function(s.Place, lambda o: If(o < end, s.counted[o], 0))
        s.done = function(s.Place, lambda o: If(o < end, s.done[o], 0))
        s.answered = such_that(s.answered, lambda o: o < end)
        s.again = such_that(s.again, lambda o: o < end)
        s.removed = such_that(s.removed, lambda o: o < end)
        s.start = minimum(s.start, end)
