"""State of the removal model, and the two logs beneath it: what is written, committed, cut, and by whom.

Replication is told briefly: `isr-pair` has shown it. There is what is committed of either log, and the
leader's end that is not; a new leader keeps any part of the ends. Copies take what is committed, at any time
and in any order, which is `removal`'s part.
"""

from __future__ import annotations

from liftlog_spec.lang import *

WITHOUT = {"runs": [], "key": None, "below": 0, "seen": 0, "begin": 0, "limit": 1}


class RemovalLogs(Model):
    """One partition: its data, its journal, who leads, and what the copies have made of both."""

    variant = Setting(
        "right",
        "fold-without-stamp",
        "limits-not-ordered",
        "removes-above-hw",
        "removes-uncommitted",
        "derives-from-uncommitted",
        "purge-evaluated-on-uncommitted",
        "purge-evaluated-once",
        "purge-before-caught-up",
        "keep-n-as-predicate",
        "keep-n-counts-committed",
        "expiry-by-own-clock",
        "expiry-before-marker",
        "marker-repeated",
        "expiry-ends-with-marker",
        "snapshot-merges-uncounted",
        "snapshot-forgets-gone",
        "snapshot-forgets-limits",
        "snapshot-without-start",
        "gone-forgotten-before-start",
        "start-past-uncounted",
        "start-before-snapshot-committed",
        "thinned-above-y",
        "thinned-when-gone",
        "thinned-folded-as-absent",
        "reader-without-hw-j",
    )
    Replicas = Constant(2)
    Records = Constant(3)
    Entries = Constant(2)
    Keys = Constant(1)
    Limit = Constant(2)
    Epochs = Constant(2)
    Deletes = Constant(1)
    Purges = Constant(0)
    Keeps = Constant(0)
    Lowered = Constant(0)
    Rollups = Constant(0)
    Expiries = Constant(0)
    Snapshots = Constant(1)
    Thinned = Constant(1)
    Starts = Constant(0)
    Restarts = Constant(1)
    Looks = Constant(0)
    """Records of the data, Entries of the journal. Limit: messages of each key at first. Restarts: of copies,
    or copies made anew. Looks: of one reader, before it looks again. The others, from Deletes to Starts, say
    whether there is such a thing at all."""

    Replica = Sort(Replicas)
    Key = Sort(Keys)
    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Index = Range(0, Entries - 1)
    Count = Range(0, Entries)
    Epoch = Range(1, Epochs)
    Bound = Range(1, Records)
    Message = Record(epoch=Epoch, key=Key, stamp=Count, rolls=Bool, marks=Option(Place))
    """A message, the stamp of its batch, whether it rolls up its key, and whose expiry it marks."""
    Kind = Enum("removed", "expired", "purged", "kept", "limits", "gone")
    Entry = Record(
        epoch=Epoch,
        kind=Kind,
        runs=Set(Place),
        key=Option(Key),
        below=Offset,
        seen=Count,
        begin=Offset,
        limit=Bound,
    )
    """removed, expired: `runs`. purged: what is of `key`, or of any, `below`. limits: `limit`. gone: what is
    counted as gone of the data `below`, which have seen so many entries; the log start; the limit. kept: in
    one variant only."""
    Log = Seq(Message, Records)
    Journal = Seq(Entry, Entries)
    Reader = Record(at=Offset, seen=Count, gone=Set(Place))

    epoch = Var(Epoch, init=1)
    leader = Var(Replica)
    data = Var(Log)
    journal = Var(Journal)
    """The leader's, with what is not committed."""
    hw_d = Var(Offset)
    hw_j = Var(Count)
    """What is committed of them."""
    cleaned = Var(Count)
    """Where the journal starts."""

    # Each copy.
    folded = Var(Fn(Replica, Offset))
    """As much of the data it has read, and shows: its HW of the data, as far as readers are concerned."""
    heard = Var(Fn(Replica, Count))
    """As much of the journal it has read: its HW of the journal."""
    counted = Var(Fn(Replica, Set(Place)))
    """What is gone in the eyes of limits."""
    gone = Var(Fn(Replica, Set(Place)))
    """What is not shown."""
    limit = Var(Fn(Replica, Bound), init=lambda s: function(s.Replica, lambda r: s.Limit))
    thin = Var(Fn(Replica, Set(Place)))
    """Records whose bytes it does not have."""
    start = Var(Fn(Replica, Offset))
    """Its log start: it has neither bytes nor bits of what lies below."""

    # What is counted as gone of the data below an offset, by the definition. It follows from the logs.
    truth = Var(Fn(Offset, Set(Place)))

    restarts = Var(Range(0, Restarts))
    reader = Var(Option(Reader))

    @initial
    def Begin(s, leader: Replica):
        s.leader = leader

    # -- words ---------------------------------------------------------------------------------------------

    @definition
    def Covers(s, p: Index, o: Place):
        """A committed entry, or one that may be: the record at this offset is to go."""
        e = s.journal[p]
        named = And(Or(e.kind == "removed", e.kind == "expired"), member(o, e.runs))
        purged = And(e.kind == "purged", o < e.below, Implies(is_some(e.key), e.key == s.data[o].key))
        return Or(named, purged)

    @definition
    def Covered(s, o: Place, begin: Count, end: Count):
        return Exists(numbers(begin, end), lambda p: s.Covers(p, o))

    @definition
    def Stamped(s, end: Offset):
        """Which entries the data below `end` have seen. A new leader's stamp may be less than one before."""
        return greatest(s.Place, lambda i: If(i < end, s.data[i].stamp, 0))

    @definition
    def LimitAt(s, begin: Count, end: Count, before: Bound):
        """The limit that is in force for what has seen the entries below `end`."""
        last_one = greatest(
            s.Index,
            lambda p: If(And(begin <= p, p < end), If(s.journal[p].kind == "limits", p + 1, 0), 0),
        )
        return If(last_one > 0, s.journal[last_one - 1].limit, before)

    def evicted(s, base, i, limit):
        """What the record at `i` removes: those of a key beyond the limit, all of its own in a roll-up."""

        def lives(o):
            return And(o <= i, ~member(o, base))

        def goes(o):
            key = s.data[o].key
            newer = count(numbers(o + 1, i + 1), lambda q: And(lives(q), s.data[q].key == key))
            rolled = And(s.data[i].rolls, o < i, key == s.data[i].key)
            return Or(newer >= limit, rolled)

        return such_that(s.Place, lambda o: And(lives(o), goes(o)))

    def explicit(s, end, begin, until):
        """What entries in [begin, until) remove of the data below `end`."""
        return such_that(s.Place, lambda o: And(o < end, s.Covered(o, begin, until)))

    def below(s, end):
        return such_that(s.Place, lambda o: o < end)

    @definition
    def Visible(s, end: Offset, until: Count):
        """By the definition: what is gone of the committed data below `end`, with so many entries."""
        return union(s.truth[end], s.explicit(end, 0, until))

    @definition
    def CaughtUp(s):
        """The leader has folded all that was in its logs when it was elected."""
        old_d = count(indexes(s.data), lambda i: s.data[i].epoch < s.epoch)
        old_j = count(indexes(s.journal), lambda p: s.journal[p].epoch < s.epoch)
        return And(s.folded[s.leader] >= old_d, s.heard[s.leader] >= old_j)

    # -- the data ------------------------------------------------------------------------------------------

    def publish(s, key, rolls, marks):
        when(size(s.data) < s.Records)
        message = {"epoch": s.epoch, "key": key, "stamp": s.heard[s.leader], "rolls": rolls, "marks": marks}
        s.data = append(s.data, message)

    @action
    def Publish(s, key: Key, rolls: Bool):
        """Stamped with what the leader knows to be committed of the journal. It need not be caught up."""
        when(Or(~rolls, s.Rollups > 0))
        s.publish(key, rolls, None)

    @action
    def CommitData(s):
        """All that are in sync have it. What it removes is a matter of definition from now on."""
        when(s.hw_d < size(s.data))
        i = s.hw_d
        seen = s.Stamped(i + 1)
        base = union(s.truth[i], s.explicit(i, 0, seen))
        s.hw_d = i + 1
        s.truth[i + 1] = union(base, s.evicted(base, i, s.LimitAt(0, seen, s.Limit)))

    # -- the journal: explicit removals, limits -------------------------------------------------------------

    def enter(s, kind, **given):
        when(size(s.journal) < s.Entries)
        s.journal = append(s.journal, {"epoch": s.epoch, "kind": kind, **WITHOUT, **given})

    def may_decide(s):
        if s.variant != "purge-before-caught-up":
            when(s.CaughtUp())

    @definition
    def OnItsWay(s, o: Place):
        """The leader has written that it goes."""
        return s.Covered(o, 0, size(s.journal))

    @action
    def Delete(s, o: Place):
        """One message, below the leader's HW."""
        when(s.Deletes > 0)
        s.may_decide()
        if s.variant == "removes-above-hw":
            when(o < size(s.data))
        else:
            when(o < s.folded[s.leader])
        when(~member(o, s.gone[s.leader]), ~s.OnItsWay(o))
        s.enter("removed", runs=such_that(s.Place, lambda q: q == o))

    def purge(s, key):
        when(s.Purges > 0)
        s.may_decide()
        end = size(s.data) if s.variant == "purge-evaluated-on-uncommitted" else s.folded[s.leader]
        when(end > 0)
        s.enter("purged", key=key, below=end)

    @action
    def Purge(s):
        """A predicate over what is committed now: every copy evaluates it."""
        s.purge(None)

    @action
    def PurgeKey(s, key: Key):
        when(s.Keys > 1)
        s.purge(key)

    @definition
    def Kept(s, o: Place, end: Offset, until: Count):
        """The newest that is neither gone by limits, below `end`, nor by the entries before `until`."""

        def lives(q):
            return And(~member(q, s.truth[end]), ~s.Covered(q, 0, until))

        return And(lives(o), Forall(numbers(o + 1, end), lambda q: ~lives(q)))

    @action
    def PurgeKeeping(s):
        """All but the newest: the leader says which, with what is on its way behind it in mind."""
        when(s.Keeps > 0)
        s.may_decide()
        end = s.folded[s.leader]
        when(end > 1)
        if s.variant == "keep-n-as-predicate":
            s.enter("kept", below=end)
            return
        until = s.heard[s.leader] if s.variant == "keep-n-counts-committed" else size(s.journal)

        def goes(o):
            gone = Or(member(o, s.truth[end]), s.Covered(o, 0, size(s.journal)))
            return And(o < end, ~gone, ~s.Kept(o, end, until))

        runs = such_that(s.Place, goes)
        when(size(runs) > 0)
        s.enter("removed", runs=runs, below=end)

    @action
    def Lower(s, limit: Bound):
        """Limits are what the next batch that has seen them counts by."""
        when(s.Lowered > 0, limit < s.Limit)
        s.may_decide()
        s.enter("limits", limit=limit)

    # -- expiry --------------------------------------------------------------------------------------------

    @definition
    def MarkedBelow(s, o: Place, end: Offset):
        return Exists(numbers(0, end), lambda i: s.data[i].marks == o)

    @definition
    def Due(s, o: Place):
        """Its time is over, as any record's may be; markers live on."""
        lead = s.leader
        mine = And(o < s.folded[lead], ~member(o, s.gone[lead]), ~s.OnItsWay(o))
        return And(s.Expiries > 0, mine, is_none(s.data[o].marks))

    @action
    def Mark(s, o: Place):
        """The marker is a message of the key and names whose expiry it marks. None is written twice."""
        when(s.Due(o))
        if s.variant == "marker-repeated":
            own = Exists(indexes(s.data), lambda i: And(s.data[i].marks == o, s.data[i].epoch == s.epoch))
            when(~s.MarkedBelow(o, s.folded[s.leader]), ~own)
        else:
            when(s.CaughtUp(), ~s.MarkedBelow(o, size(s.data)))
        s.publish(s.data[o].key, False, o)

    @definition
    def MayExpire(s, o: Place):
        """Its marker is committed, whoever wrote it."""
        if s.variant == "expiry-before-marker":
            return s.MarkedBelow(o, size(s.data))
        if s.variant == "expiry-ends-with-marker":
            return Exists(
                numbers(0, s.folded[s.leader]),
                lambda i: And(s.data[i].marks == o, s.data[i].epoch == s.epoch),
            )
        return s.MarkedBelow(o, s.folded[s.leader])

    @action
    def Expire(s, o: Place):
        when(s.Due(o), s.CaughtUp(), s.MayExpire(o))
        s.enter("expired", runs=such_that(s.Place, lambda q: q == o))

    # -- both ----------------------------------------------------------------------------------------------

    @action
    def CommitEntry(s):
        when(s.hw_j < size(s.journal))
        s.hw_j = s.hw_j + 1

    @action
    def Elect(s, to: Replica, data: Offset, journal: Count):
        """R16. Of what was not committed the new leader has any part, of each log another one."""
        when(s.epoch < s.Epochs, to != s.leader)
        when(s.hw_d <= data, data <= size(s.data), s.hw_j <= journal, journal <= size(s.journal))
        s.epoch = s.epoch + 1
        s.leader = to
        s.data = prefix(s.data, data)
        s.journal = prefix(s.journal, journal)
        if s.variant == "derives-from-uncommitted":
            s.folded[s.leader] = minimum(s.folded[s.leader], data)
