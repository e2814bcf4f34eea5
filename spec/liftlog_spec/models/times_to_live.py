"""Times to live: a message says how long it is to stay; the leader writes which ones are over their time.

What is visible is the committed data without what committed entries of a second log name. Who publishes a
message with a time to live has said all that there is to say. The leader goes through what is committed,
keeps beside it what it has found, and writes of each when its time is over. A new leader has to find those
that the one before had not written, in a log that may be long:

- An entry says below where nothing is left to be written: that is no further than the first message that is
  kept beside. It stands behind what had to be written for that; so who has it has all the entries before it.
- It names the epoch of the last record that it is about, as for roll-ups.
- What is written twice names what is gone already.
- So many are kept beside, and no more. Where there are too many the ones that are due latest are let go, and
  the leader remembers from where on it is to go through the data again.
- A clock that has jumped is not believed until it has stood for a while. Who begins to lead while it is ahead
  doubts it as well, and it has not returned before it is back where it was.

What is modelled: both logs, a time that passes, the leader's clock, which shows that time or one that is
ahead for a while, returns at once or by a part first, and may be ahead on the next leader too; leaders that
come and go with what is uncommitted, one of them without what was committed.

What is abstracted. *Replication* of both logs, told as what is committed and what a new leader keeps of the
rest. *A clock that is ahead for ever*: what is over by it is over. Deletions by others: entries are a union.

    acts-uncommitted   the leader looks at what is not committed
    believes-jumps     it writes what is over by a clock that has just jumped
    doubts-of-leader   it is the leader that doubts its clock, and the next one does not
    back-by-a-part     any step back of the clock ends the doubt
    begins-at-end      a new leader takes it that the one before has written what was over
    said-first         the leader says that it has come past a message that is not over yet
    said-of-others     a new leader believes what was said of records that are lost
    forgets-at-bound   what there is no room for is not looked for again
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class TimesToLive(Model):
    """One partition with its two logs, and who leads it."""

    variant = Setting(
        "right",
        "acts-uncommitted",
        "believes-jumps",
        "doubts-of-leader",
        "back-by-a-part",
        "begins-at-end",
        "said-first",
        "said-of-others",
        "forgets-at-bound",
    )
    Records = Constant(3)
    Entries = Constant(3)
    Times = Constant(2)
    Room = Constant(2)
    Epochs = Constant(2)
    Losses = Constant(1)
    Jumps = Constant(1)

    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Count = Range(0, Entries)
    Epoch = Range(1, Epochs)
    Time = Range(0, Times)
    Left = Range(0, 1)
    Datum = Record(due=Time, epoch=Epoch)
    """`due`: when its time is over; 0 = never."""
    Entry = Record(names=Bool, place=Place, epoch=Epoch, through=Offset, of=Epoch)
    """`names`: the record at this place, of this epoch, is gone. `through`: nothing below is left to be
    written, up to a record of epoch `of`; by this entry, or the newest before it that says so."""

    clock = Var(Time)
    ahead = Var(Range(0, 2))
    """The leader's clock shows the last time that there is: 2 = it has jumped, 1 = it is back by a part."""
    doubts = Var(Bool)
    """Whether the leader doubts its clock."""
    jumps = Var(Range(0, Jumps))
    epoch = Var(Epoch, init=1)
    data = Var(Seq(Datum, Records))
    hw = Var(Offset)
    journal = Var(Seq(Entry, Entries))
    journal_hw = Var(Count)
    at = Var(Offset)
    """What lies below is gone through."""
    held = Var(Set(Place))
    """What is kept beside of that: it is still to be written."""
    again = Var(Offset, init=lambda s: s.Records)
    """From here on the data are to be gone through again; `Records`: they are not."""
    early = Var(Bool)
    """Something was written before its time."""
    lost = Var(Range(0, Losses))

    # -- words ---------------------------------------------------------------------------------------------

    def is_gone(s, place, entries):
        """By the first ones of the journal."""

        def names(i):
            entry = s.journal[i]
            this = And(entry.place == place, entry.epoch == s.data[place].epoch)
            return And(i < entries, And(entry.names, this))

        return Exists(indexes(s.journal), names)

    def is_over(s, place, now):
        due = s.data[place].due
        return And(due > 0, due <= now)

    def begins(s, data, journal, hw):
        """Where a leader with these logs begins."""
        if s.variant == "begins-at-end":
            return hw
        last = journal[size(journal) - 1]
        there = And(last.through > 0, last.through <= size(data))
        ours = data[last.through - 1].epoch == last.of
        known = there if s.variant == "said-of-others" else And(there, ours)
        return If(And(size(journal) > 0, known), last.through, 0)

    def through(s):
        """What the newest entry says that says so."""
        return If(size(s.journal) > 0, s.journal[size(s.journal) - 1].through, 0)

    def of(s):
        return If(size(s.journal) > 0, s.journal[size(s.journal) - 1].of, 1)

    def first_held(s):
        """The first that is to be written, or looked for again; `at` if there is none."""
        beside = least(s.Place, lambda place: If(member(place, s.held), place, s.at))
        return minimum(beside, s.again)

    # -- time ----------------------------------------------------------------------------------------------

    @action
    def TimePasses(s):
        when(s.clock < s.Times)
        s.clock = s.clock + 1

    @action
    def ClockJumps(s):
        """It is ahead for a while."""
        when(s.ahead == 0, s.jumps < s.Jumps)
        s.ahead = 2
        s.doubts = s.variant != "believes-jumps"
        s.jumps = s.jumps + 1

    @action
    def ClockReturns(s, to: Left):
        """By a part, or whole."""
        when(to < s.ahead)
        s.ahead = to
        s.doubts = And(to > 0, s.variant != "back-by-a-part", s.variant != "believes-jumps")

    # -- both logs -----------------------------------------------------------------------------------------

    @action
    def Publish(s, due: Time):
        when(size(s.data) < s.Records, Or(due == 0, due > s.clock))
        s.data = append(s.data, record(s.Datum, due=due, epoch=s.epoch))

    @action
    def Commit(s):
        when(s.hw < size(s.data))
        s.hw = s.hw + 1

    @action
    def CommitEntry(s):
        when(s.journal_hw < size(s.journal))
        s.journal_hw = s.journal_hw + 1

    @action
    def Elect(s, end: Offset, entries: Count, ahead: Bool):
        """Another one leads, which has this much of the logs, and whose clock is ahead as well, or right."""
        when(Or(~ahead, s.ahead > 0))
        when(s.epoch < s.Epochs, s.hw <= end, end <= size(s.data))
        when(s.journal_hw <= entries, entries <= size(s.journal))
        s.at = s.begins(prefix(s.data, end), prefix(s.journal, entries), s.hw)
        s.held = []
        s.again = s.Records
        s.ahead = If(ahead, s.ahead, 0)
        s.doubts = And(ahead, s.doubts, s.variant != "doubts-of-leader")
        s.epoch = s.epoch + 1
        s.data = prefix(s.data, end)
        s.journal = prefix(s.journal, entries)

    @action
    def Lose(s, end: Offset):
        """An operator has one elected that lacks what was committed of the data."""
        when(s.epoch < s.Epochs, s.lost < s.Losses, end < s.hw, s.journal_hw == size(s.journal))
        s.at = s.begins(prefix(s.data, end), s.journal, end)
        s.held = []
        s.again = s.Records
        s.ahead = 0
        s.doubts = False
        s.epoch = s.epoch + 1
        s.lost = s.lost + 1
        s.data = prefix(s.data, end)
        s.hw = end

    # -- the leader goes through what is committed ---------------------------------------------------------

    def end(s):
        return size(s.data) if s.variant == "acts-uncommitted" else s.hw

    @action
    def Find(s):
        """The next record. If its time is over one day it is kept beside."""
        when(s.at < s.end())
        keeps = And(s.data[s.at].due > 0, ~s.is_gone(s.at, s.journal_hw))
        when(Or(~keeps, size(s.held) < s.Room))
        s.held = If(keeps, with_member(s.held, s.at), s.held)
        s.at = s.at + 1

    @action
    def FindOneTooMany(s, drop: Place):
        """There is no room: what is due latest is let go."""
        when(s.at < s.end(), s.data[s.at].due > 0, ~s.is_gone(s.at, s.journal_hw), size(s.held) >= s.Room)
        beside = with_member(s.held, s.at)
        when(member(drop, beside), Forall(beside, lambda i: s.data[i].due <= s.data[drop].due))
        s.held = without(beside, drop)
        if s.variant != "forgets-at-bound":
            s.again = minimum(s.again, drop)
        s.at = s.at + 1

    @action
    def GoBack(s):
        """Go through the data again, from where something was let go, or is kept."""
        when(s.again < s.Records)
        s.at = s.first_held()
        s.held = []
        s.again = s.Records

    @action
    def Name(s, place: Place):
        """Of what is kept: one that is over."""
        when(member(place, s.held), size(s.journal) < s.Entries)
        when(~s.doubts, s.is_over(place, If(s.ahead > 0, s.Times, s.clock)))
        s.early = Or(s.early, ~s.is_over(place, s.clock))
        s.held = without(s.held, place)
        told = record(
            s.Entry, names=True, place=place, epoch=s.data[place].epoch, through=s.through(), of=s.of()
        )
        s.journal = append(s.journal, told)

    @action
    def Say(s):
        """Below where nothing is left to be written, in an entry."""
        through = s.at if s.variant == "said-first" else s.first_held()
        when(through > 0, through <= s.hw, s.through() != through, size(s.journal) < s.Entries)
        told = record(
            s.Entry, names=False, place=0, epoch=1, through=through, of=s.data[through - 1].epoch
        )
        s.journal = append(s.journal, told)

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def NotBeforeItsTime(s):
        """Nothing was written before its time was over."""
        return ~s.early

    @invariant
    def OnlyCommitted(s):
        """What a committed entry names is a committed record, if none is lost."""

        def right(i):
            entry = s.journal[i]
            return Or(Or(i >= s.journal_hw, ~entry.names), entry.place < s.hw)

        return Or(s.lost > 0, Forall(indexes(s.journal), right))

    @invariant
    def NothingOver(s):
        """When all is gone through, and what was over is written and committed, nothing is left over its
        time.
        """
        gone_through = And(s.at >= s.hw, And(s.again == s.Records, s.journal_hw == size(s.journal)))
        written = ~Exists(s.held, lambda i: s.is_over(i, s.clock))

        def left(i):
            return And(i < s.hw, And(s.is_over(i, s.clock), ~s.is_gone(i, s.journal_hw)))

        return Or(~And(gone_through, written), ~Exists(indexes(s.data), left))

    @sometimes
    def ANewLeaderActs(s):
        """On a message of the leader before it, which it found behind where that one had come."""

        def late(i):
            entry = s.journal[i]
            return And(entry.names, And(entry.through > 0, s.data[entry.through].epoch < s.epoch))

        return And(s.at == s.hw, And(s.lost == 0, Exists(indexes(s.journal), late)))
