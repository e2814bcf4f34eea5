"""Durable consumers: what was delivered how often, and what is done, is a function of a partition's journal.

A consumer is begun by an entry of the journal, and its deliveries and acks are entries. Whoever leads decides
by its whole journal, what is not committed included; it begins to when all that it had at its election is
committed. Acks are answered when they are committed. A delivery leaves in one of two ways:

    recorded     its entry is written, and committed, and then the message is handed out
    unrecorded   the entry is written when the message is handed out, and may be lost with its leader

The second is quicker and would cost a delivery above the limit at each change of leaders, if anybody might do
it. It is allowed for the *first* delivery only, to the leader of the epoch that *wrote* the message. Every
other leader hands out after the record is committed, so a message has one such delivery in its life, and a
leader that was replaced, and does not know it, delivers nothing that its successor has seen acknowledged.

What is modelled. One consumer under one name, deleted and created again, or reset to the first message, which
is both in one entry; the journal of each copy in full, truncation, leaders that live on after they were
replaced; who is in sync; clients that ack what they were given, at any time, again, and late. Snapshots and
the journal's start; the log start; removal of what is done (a work queue); the loss of committed data by an
unclean election, after which offsets are given again; copies that are all in doubt (R14), one of which has
lost its journal's end.

What is abstracted. *Replication*: `isr-pair`. A copy takes the leader's whole journal in one step; the data
are told as what is committed. *A record that is committed counts as handed out*, which is the worst case.
*Time*: whatever is pending may be delivered again at any moment. *Naks, terms, pulls*: an ack is any end of a
message, a pull is always there. *The journal's start* is one for all, as if all had heard of it.

Each variant breaks a rule:

    ack-answered-at-append               an ack is answered when its entry is written
    repeat-answered-before-commit        a repeated one is, since the message is done
    serves-before-folded                 a new leader decides by what it knows to be committed, and its own
    serves-before-hw                     and answers by what it has, committed or not
    redelivery-before-record             a message is handed out again when its entry is written
    unrecorded-in-any-epoch              the first delivery is unrecorded, whoever wrote the message
    snapshot-forgets-pending             a snapshot says how far the consumer is
    start-moved-before-snapshot-committed   the journal starts at a snapshot that may be cut
    floor-is-greatest-acked              an ack is one of all before it
    joins-by-data-log-only               a copy comes in sync that has the data
    late-ack-of-deleted-counts           acks are matched by name and offset
    delete-answered-at-append            a deletion is answered when its entry is written
    removed-before-ack-committed         a work queue removes what its leader has written to be done
    pending-below-start-kept             what went with the log start still takes room
    not-rewound                          after a loss entries speak of the messages at their offsets now
    elected-without-longer-journal       of copies in doubt any one leads
    numbered-by-committed                a delivery is numbered by those that are known to be committed
    snapshot-forgets-number              a snapshot does not say how many deliveries there were
    reset-deletes-first                  a reset deletes, and creates when that is committed
"""

from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.models.consumers_journal import ConsumersJournal


class DurableConsumers(ConsumersJournal):
    """What a leader decides by its journal, and what must always be true."""

    Replica, Place, Index = ConsumersJournal.Replica, ConsumersJournal.Place, ConsumersJournal.Index

    # -- the leader ----------------------------------------------------------------------------------------

    @action
    def Publish(s):
        """The data are told as what is committed."""
        when(size(s.data) < s.Records)
        s.data = append(s.data, s.epoch)

    def served(s, r, c):
        """It is the number of a consumer that is there, and committed."""
        when(s.Serves(r), c < s.heard[r], s.Is(r, c))

    def hand_out(s, r, c, o, leaves):
        """The message leaves. That counts if it is of the present consumer."""
        counts = And(leaves, c == s.present)
        late = And(counts, s.done[o] > 0, s.done[o] < s.reign[r])
        s.given[o] = If(counts, s.given[o] + 1, s.given[o])
        s.again = If(late, with_member(s.again, o), s.again)

    @action
    def Deliver(s, r: Replica, c: Index, o: Place):
        """K4. The next message, for the first time: at once, if this epoch wrote it."""
        s.served(r, c)
        position = s.Position(r, c)
        when(position <= o, o < size(s.data))
        when(s.data[o] <= s.reign[r], ~s.Gone(o), Forall(numbers(position, o), lambda q: s.Gone(q)))
        takes_room = s.Place if s.variant == "pending-below-start-kept" else numbers(s.start, s.Records)
        when(count(takes_room, lambda q: And(s.Pending(r, c, q), ~member(q, s.removed))) < s.Room)
        at_once = s.data[o] == s.reign[r]
        if s.variant == "unrecorded-in-any-epoch":
            at_once = True
        s.write(r, "delivered", c, offset=o, handed=at_once, nth=s.Number(r, c) + 1)
        s.hand_out(r, c, o, at_once)

    @action
    def Redeliver(s, r: Replica, c: Index, o: Place):
        """Any time after the last delivery has left, while the limit is not reached."""
        s.served(r, c)
        when(s.Pending(r, c, o), ~s.Gone(o), s.Times(r, c, o) < s.Limit)
        when(~Exists(numbers(s.heard[r], size(s.journal[r])), lambda p: s.Waits(r, p, o)))
        at_once = s.variant == "redelivery-before-record"
        s.write(r, "delivered", c, offset=o, handed=at_once, nth=s.Number(r, c) + 1)
        s.hand_out(r, c, o, at_once)

    @definition
    def Waits(s, r: Replica, p: Index, o: Place):
        """A delivery that has not left: its record is not committed."""
        e = s.journal[r][p]
        return And(e.kind == "delivered", e.offset == o, ~e.handed)

    @action
    def Ack(s, r: Replica, c: Index, o: Place):
        """By whoever was given it. The leader writes it down, or has no use for it."""
        s.served(r, c)
        when(c == s.present, s.given[o] > 0, s.Pending(r, c, o))
        s.write(r, "done", c, offset=o)
        if s.variant == "ack-answered-at-append":
            s.answered = with_member(s.answered, o)

    @action
    def AckAgain(s, r: Replica, c: Index, o: Place):
        """Answered if it is known as committed that it is done."""
        s.served(r, c)
        when(c == s.present, s.given[o] > 0, ~member(o, s.answered))
        end = s.heard[r]
        if s.variant in ("repeat-answered-before-commit", "serves-before-hw"):
            end = maximum(end, s.Inherited(r)) if s.variant == "serves-before-hw" else size(s.journal[r])
        when(s.Done(r, c, o, end))
        s.answered = with_member(s.answered, o)

    @only("variant", "late-ack-of-deleted-counts")
    @action
    def LateAck(s, r: Replica, c: Index, o: Place, of: Index):
        """Of a message that an earlier consumer was given."""
        s.served(r, c)
        when(of < c, s.Pending(r, c, o))
        when(Exists(numbers(0, s.heard[r]), lambda p: s.Delivered(r, p, of, o)))
        s.write(r, "done", c, offset=o, meant=of)

    @definition
    def Delivered(s, r: Replica, p: Index, c: Index, o: Place):
        e = s.journal[r][p]
        return And(e.kind == "delivered", e.consumer == c, e.offset == o)

    @action
    def Delete(s, r: Replica, c: Index):
        when(s.Deletes > 0)
        s.served(r, c)
        s.write(r, "deleted", c)
        if s.variant == "delete-answered-at-append":
            s.ended = with_member(s.ended, c)

    @action
    def Create(s, r: Replica):
        """Under the same name, when the one before is deleted."""
        when(s.Serves(r), Or(s.Deletes > 0, s.variant == "reset-deletes-first"))
        when(~Exists(s.Index, lambda c: s.Is(r, c)))
        s.write(r, "created", size(s.journal[r]))

    @action
    def Reset(s, r: Replica, c: Index):
        """K1. Another consumer takes its place, from the first message on."""
        when(s.Resets > 0)
        s.served(r, c)
        if s.variant == "reset-deletes-first":
            s.write(r, "deleted", c)
        else:
            s.write(r, "created", size(s.journal[r]))

    @action
    def Rewind(s, r: Replica):
        """K5. After a loss: nothing that was said so far is meant for what is written at its offset now."""
        when(s.Losses > 0, s.reign[r] > 0, s.Inherited(r) <= s.heard[r], s.Overtaken(r))
        if s.variant == "not-rewound":
            when(False)
        end = count(indexes(s.data), lambda i: s.data[i] < s.reign[r])
        s.write(r, "rewound", 0, position=end)

    # -- snapshots, what is gone ---------------------------------------------------------------------------

    @action
    def Snapshot(s, c: Index):
        """Where the consumer stands behind all that is written."""
        lead = s.leader
        when(s.Snapshots > 0)
        s.served(lead, c)

        def times(o):
            if s.variant == "snapshot-forgets-pending":
                return 0
            return If(s.Pending(lead, c, o), s.Times(lead, c, o), 0)

        pending = function(s.Place, times)
        when(s.Position(lead, c) > 0, last(s.journal[lead]).kind != "state")
        nth = 0 if s.variant == "snapshot-forgets-number" else s.Number(lead, c)
        s.write(lead, "state", c, position=s.Position(lead, c), pending=pending, nth=nth)

    @action
    def CleanJournal(s, p: Index):
        """C3: the journal starts at a snapshot of what is alive."""
        lead = s.leader
        end = size(s.journal[lead]) if s.variant == "start-moved-before-snapshot-committed" else s.heard[lead]
        when(s.cleaned < p, p < end)
        when(s.journal[lead][p].kind == "state", s.Is(lead, s.journal[lead][p].consumer))
        s.cleaned = p

    @action
    def Trim(s):
        """Retention: the log start moves."""
        when(s.Trims > 0, s.start < size(s.data))
        s.start = s.start + 1

    @action
    def Remove(s, o: Place):
        """What is done goes, in a work queue."""
        when(s.Queue > 0, ~member(o, s.removed))
        lead, c = s.leader, s.present
        end = size(s.journal[lead]) if s.variant == "removed-before-ack-committed" else s.heard[lead]
        when(s.Serves(lead), s.Done(lead, c, o, end))
        s.removed = with_member(s.removed, o)

    # -- properties ----------------------------------------------------------------------------------------

    @definition
    def Decides(s, c: Index):
        """There is a leader of this epoch that serves the present consumer."""
        lead = s.leader
        return And(c == s.present, s.Serves(lead), c < s.heard[lead], s.Is(lead, c))

    @invariant
    def AckStays(s):
        """K3. An answered ack is committed; behind it nothing is decided to be delivered."""
        committed = Forall(s.Place, lambda o: Implies(member(o, s.answered), s.done[o] > 0))
        return And(committed, size(s.again) == 0)

    @invariant
    def DeliveriesBounded(s):
        """K4. Whatever fails."""
        return Forall(s.Place, lambda o: s.given[o] <= s.Limit + 1)

    @invariant
    def NoneSkipped(s):
        """K6. Whatever a consumer is past is pending, done, or gone."""

        def kept(c, o):
            lead = s.leader
            under_way = Exists(
                numbers(s.heard[lead], size(s.journal[lead])),
                lambda p: And(s.journal[lead][p].kind == "done", s.journal[lead][p].offset == o),
            )
            passed = And(o < s.Position(lead, c), o < size(s.data))
            there = Or(s.Pending(lead, c, o), s.done[o] > 0, under_way, s.Gone(o))
            return Implies(And(s.Decides(c), passed), there)

        return Forall(s.Index, s.Place, kept)

    @invariant
    def CountsKept(s):
        """K2. Who serves knows of every delivery that is recorded, and of everything that is done."""

        def kept(c, o):
            lead = s.leader
            done = s.Done(lead, c, o, size(s.journal[lead]))
            knows = And(Or(done, s.counted[o] <= s.Times(lead, c, o)), Implies(s.done[o] > 0, done))
            return Implies(s.Decides(c), knows)

        return Forall(s.Index, s.Place, kept)

    @invariant
    def Numbered(s):
        """K8. A delivery has one number more than the one before, also where that is not there any more."""
        lead = s.leader

        def follows(p):
            e = s.journal[lead][p]

            def before(q):
                other = s.journal[lead][q]
                return And(other.kind == "delivered", other.consumer == e.consumer)

            return Implies(e.kind == "delivered", e.nth == 1 + count(numbers(0, p), before))

        return Forall(indexes(s.journal[lead]), follows)

    @invariant
    def RemovedOnlyDone(s):
        return Forall(s.Place, lambda o: Implies(member(o, s.removed), s.done[o] > 0))

    @invariant
    def OfThisIncarnation(s):
        """K1. An ack counts for the consumer that had delivered."""
        lead = s.leader
        return Forall(
            numbers(0, s.heard[lead]), lambda p: s.journal[lead][p].meant == s.journal[lead][p].consumer
        )

    @invariant
    def DeletedStaysDeleted(s):
        """K1. Of what was said to be deleted, the journal says so too, for whoever leads."""
        lead = s.leader
        return Forall(
            s.Index, lambda c: Implies(member(c, s.ended), Implies(s.Serves(lead), ~s.Is(lead, c)))
        )

    @invariant
    def ConsumerStays(s):
        """K1. Who serves knows of the consumer that was created, if nobody has deleted it."""
        lead = s.leader

        def kept(c):
            deleted = Exists(
                indexes(s.journal[lead]),
                lambda p: And(s.journal[lead][p].kind == "deleted", s.journal[lead][p].consumer == c),
            )
            return Implies(And(c == s.present, s.Serves(lead), ~deleted, ~s.IsReset(lead, c)), s.Is(lead, c))

        return Forall(s.Index, kept)

    @definition
    def IsReset(s, r: Replica, c: Index):
        """Another one has taken its place, as this copy's journal has it."""
        behind = Exists(
            indexes(s.journal[r]),
            lambda p: And(s.journal[r][p].kind == "created", c < s.journal[r][p].consumer),
        )
        return And(s.Resets > 0, behind)

    @invariant
    def NeverWithout(s):
        """K1. Whoever serves has a consumer of the name, if it was reset and not deleted."""
        lead = s.leader
        resets = And(s.Resets > 0, s.Deletes == 0, s.Serves(lead))
        return Implies(resets, Exists(s.Index, lambda c: s.Is(lead, c)))

    @invariant
    def RoomForOthers(s):
        """K7. What keeps a consumer from going on is there to be acked."""

        def goes_on(c):
            lead = s.leader
            position = s.Position(lead, c)
            waits = Exists(numbers(position, size(s.data)), lambda o: ~s.Gone(o))
            there = count(s.Place, lambda o: And(s.Pending(lead, c, o), ~s.Gone(o)))
            counts = s.Place if s.variant == "pending-below-start-kept" else numbers(s.start, s.Records)
            taken = count(counts, lambda o: And(s.Pending(lead, c, o), ~member(o, s.removed)))
            return Implies(And(s.Decides(c), waits, taken >= s.Room), there > 0)

        return Forall(s.Index, goes_on)

    # -- signs of life -------------------------------------------------------------------------------------

    @sometimes
    def AFailOverWithPending(s):
        """The next leader serves, and what is pending was delivered by the one before."""
        lead = s.leader
        inherited = Exists(s.Place, lambda o: And(s.Decides(0), s.Pending(lead, 0, o), s.counted[o] > 0))
        return And(s.epoch > 1, inherited, s.Inherited(lead) == size(s.journal[lead]))

    @sometimes
    def RedeliveredByAnother(s):
        lead = s.leader
        return Exists(
            numbers(0, s.heard[lead]),
            lambda p: And(
                s.journal[lead][p].kind == "delivered",
                s.journal[lead][p].epoch > 1,
                s.given[s.journal[lead][p].offset] > 1,
            ),
        )

    @sometimes
    def AJournalBegunAtASnapshot(s):
        """And another leader serves by it."""
        return And(s.cleaned > 0, s.epoch > 1, s.Decides(0))

    @sometimes
    def AZombieDelivers(s):
        """A leader that was replaced has handed out what its successor knows nothing of."""
        other = Exists(s.Replica, lambda r: And(s.reign[r] > 0, s.reign[r] < s.epoch))
        return And(other, Exists(s.Place, lambda o: And(s.given[o] > 0, s.counted[o] == 0)))
