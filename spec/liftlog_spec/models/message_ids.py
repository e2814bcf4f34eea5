"""Messages with ids of their own: for the length of a window each is stored once, and a repetition is
answered.

A publisher that has no run and no numbers (model `producers`) gives a message an id. The leader keeps a
table of the ids that are in its log and younger than a window. A message whose id is there is not stored;
it is answered with the offset of the first, once that is committed. The window is measured by the leader's
*stamps*, the times that stand in the log, which never go back: a leader stamps with its clock or the last
record's time, whichever is later.

What is modelled. Leaders whose clocks say anything. Messages that come any number of times. Leader changes
that cut the uncommitted end; a new leader folds its table out of the log, to its end. Removal, of which the
table takes no notice, and log starts, which move over what was removed and is older than the window. The
bound of the table: when it is full, messages with ids are refused, and nothing is forgotten.

What is abstracted. *Replication*: `isr-pair`. *Removal* is told by the place alone: `removal`. Each variant
breaks a rule:

    table-not-rebuilt          a new leader knows the ids that it stored itself
    table-rebuilt-to-hw        or those below the HW
    duplicate-acked-at-once    a repetition is answered before the first is committed
    stamp-by-clock-alone       times in the log go back, and the window with them
    full-table-forgets         a full table lets its oldest go
    removed-id-forgotten       a removed message's id is free again
    start-within-window        a log start moves over what is removed, at once
    start-by-uncommitted-time  or when it is older than the window by a time that may be cut
"""

from __future__ import annotations

from liftlog_spec.lang import *


class MessageIds(Model):
    """One partition, and what its leader answers."""

    variant = Setting(
        "right",
        "table-not-rebuilt",
        "table-rebuilt-to-hw",
        "duplicate-acked-at-once",
        "stamp-by-clock-alone",
        "full-table-forgets",
        "removed-id-forgotten",
        "start-within-window",
        "start-by-uncommitted-time",
    )
    Ids = Constant(2)
    Records = Constant(4)
    Moments = Constant(3)
    Window = Constant(2)
    Most = Constant(2)
    Epochs = Constant(2)
    Removals = Constant(1)
    """Moments: of clocks. Window: in moments. Most: ids in a table. Removals: whether there are any."""

    Id = Sort(Ids)
    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Moment = Range(0, Moments - 1)
    Epoch = Range(1, Epochs)
    Message = Record(id=Id, time=Moment)
    Log = Seq(Message, Records)

    epoch = Var(Epoch, init=1)
    data = Var(Log)
    """The leader's, with what is not committed."""
    hw = Var(Offset)
    removed = Var(Set(Place))
    start = Var(Offset)
    known = Var(Set(Place))
    """What the leader's table was made of: places in its log."""
    answered = Var(Fn(Id, Set(Place)))
    """What publishers were told of each id."""

    # -- words ---------------------------------------------------------------------------------------------

    @definition
    def Newest(s):
        """The time that stands last in the log."""
        return greatest(s.Place, lambda i: If(i < size(s.data), s.data[i].time, 0))

    @definition
    def Young(s, i: Place, now: Moment):
        """Less than a window older than this moment."""
        return now < s.data[i].time + s.Window

    def inside(s, i, now):
        """The table has it."""
        mine = And(i < size(s.data), member(i, s.known))
        return And(mine, s.Young(i, now))

    @definition
    def Remembered(s, i: Place, now: Moment):
        if s.variant == "full-table-forgets":
            newer = count(numbers(i + 1, size(s.data)), lambda j: member(j, s.known))
            return And(s.inside(i, now), newer < s.Most)
        if s.variant == "removed-id-forgotten":
            return And(s.inside(i, now), ~member(i, s.removed))
        return s.inside(i, now)

    # -- leaders -------------------------------------------------------------------------------------------

    @action
    def Publish(s, id: Id, clock: Moment):
        """A message arrives whose id the table does not have."""
        when(size(s.data) < s.Records)
        now = maximum(clock, s.Newest())
        stamp = clock if s.variant == "stamp-by-clock-alone" else now
        when(~Exists(indexes(s.data), lambda i: And(s.Remembered(i, now), s.data[i].id == id)))
        if s.variant != "full-table-forgets":
            when(count(indexes(s.data), lambda i: s.Remembered(i, now)) < s.Most)
        s.known = with_member(s.known, size(s.data))
        s.data = append(s.data, {"id": id, "time": stamp})

    @action
    def Answer(s, i: Place):
        """The first time or again: where it is, once it is committed."""
        when(i < size(s.data))
        when(s.Remembered(i, s.Newest()), ~member(i, s.answered[s.data[i].id]))
        if s.variant != "duplicate-acked-at-once":
            when(i < s.hw)
        s.answered[s.data[i].id] = with_member(s.answered[s.data[i].id], i)

    @action
    def Commit(s):
        when(s.hw < size(s.data))
        s.hw = s.hw + 1

    @action
    def Elect(s, end: Offset):
        """R16. The new leader has any part of what was not committed, and makes its table of what it has."""
        when(s.epoch < s.Epochs, s.hw <= end, end <= size(s.data))
        s.epoch = s.epoch + 1
        s.data = prefix(s.data, end)
        if s.variant == "table-not-rebuilt":
            s.known = []
        elif s.variant == "table-rebuilt-to-hw":
            s.known = such_that(s.Place, lambda i: And(s.start <= i, i < s.hw))
        else:
            s.known = such_that(s.Place, lambda i: And(s.start <= i, i < end))

    @action
    def Remove(s, i: Place):
        """The message is gone, for readers."""
        when(s.Removals > 0, i < s.hw, ~member(i, s.removed))
        s.removed = with_member(s.removed, i)

    @action
    def MoveStart(s):
        """C3: over what is gone, and older than the window by the newest time that is committed."""
        when(s.start < s.hw, member(s.start, s.removed))
        newest = s.Newest() if s.variant == "start-by-uncommitted-time" else s.data[s.hw - 1].time
        if s.variant != "start-within-window":
            when(~s.Young(s.start, newest))
        s.start = s.start + 1

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def StoredOnce(s):
        """No id is committed twice within a window."""

        def again(i, j):
            same = And(i < j, s.data[i].id == s.data[j].id)
            return And(same, s.Young(i, s.data[j].time))

        committed = numbers(0, s.hw)
        return ~Exists(committed, committed, again)

    @invariant
    def AnsweredIsCommitted(s):
        """What was answered is committed, at the offset that was named."""

        def right(id, i):
            there = If(i < s.hw, s.data[i].id == id, False)
            return Implies(member(i, s.answered[id]), there)

        return Forall(s.Id, s.Place, right)

    @invariant
    def TimesNeverGoBack(s):
        """So that a search by time is one by offset."""
        committed = numbers(0, s.hw)
        return ~Exists(committed, committed, lambda i, j: And(i < j, s.data[j].time < s.data[i].time))

    @invariant
    def TableIsBounded(s):
        if s.variant == "full-table-forgets":
            return s.hw <= s.Records
        return count(indexes(s.data), lambda i: s.Remembered(i, s.Newest())) <= s.Most

    # -- signs of life -------------------------------------------------------------------------------------

    @sometimes
    def ARemovedOneIsAnswered(s):
        def so(i):
            return And(member(i, s.removed), member(i, s.answered[s.data[i].id]))

        return Exists(numbers(0, s.hw), so)

    @sometimes
    def AnIdComesAgainAfterTheWindow(s):
        def again(i, j):
            return And(i < j, s.data[i].id == s.data[j].id)

        return Exists(numbers(0, s.hw), numbers(0, s.hw), again)

    @sometimes
    def TheLogStartMoves(s):
        return s.start > 0

    @sometimes
    def TheTableIsFull(s):
        full = count(indexes(s.data), lambda i: s.Remembered(i, s.Newest())) == s.Most
        return And(full, size(s.data) < s.Records)
