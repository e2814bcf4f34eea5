"""Roll-ups: a message says that all older ones of its subject are gone; the leader writes which these are.

What is visible is the committed data without what committed entries of a second log name. Who publishes a
roll-up has said all that there is to say: it is a header of a message, and acts once that is committed. The
leader goes through what is committed, finds the roll-ups, and writes what lies before each. So a new leader
has to find those that the one before had not acted on, in a log that may be long:

- An entry says up to where the data was gone through. It stands behind what had to be written for that; so
  who has it has all the entries before it.
- It names the epoch of the last record that it is about. Where an operator had a leader elected that lacked
  records, other ones have their places, and the entry says nothing of these.
- A roll-up that is acted on twice names what is gone already: the entry saves time, and no more.
- A roll-up takes what lies before it, whatever has come since it was committed.

What is modelled: both logs, roll-ups of a subject (one of all messages is one where all have one subject),
leaders that come and go with what is uncommitted, one of them without what was committed.

What is abstracted. *Replication* of both logs, told as what is committed and what a new leader keeps of the
rest. *The subject index*: it answers by what is committed. Deletions by others: entries are a union.

    acts-uncommitted   the leader acts on a roll-up that is not committed
    takes-newcomers    it takes what the index has of the subject, but the roll-up
    begins-at-end      a new leader takes it that the one before has acted on all that was committed
    said-first         the leader says that it has come past a roll-up before it has written what goes
    said-of-others     a new leader believes what was said of records that are lost
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class RollUpMessages(Model):
    """One partition with its two logs, and who leads it."""

    variant = Setting(
        "right", "acts-uncommitted", "takes-newcomers", "begins-at-end", "said-first", "said-of-others"
    )
    Records = Constant(3)
    Entries = Constant(4)
    Subjects = Constant(2)
    Epochs = Constant(2)
    Losses = Constant(1)

    Subject = Sort(Subjects)
    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Count = Range(0, Entries)
    Epoch = Range(1, Epochs)
    Datum = Record(subject=Subject, rolls=Bool, epoch=Epoch)
    Entry = Record(names=Bool, place=Place, epoch=Epoch, through=Offset, of=Epoch)
    """`names`: the record at this place, of this epoch, is gone. `through`: all below was gone through, up to
    a record of epoch `of`; by this entry, or the newest before it that says so."""

    epoch = Var(Epoch, init=1)
    data = Var(Seq(Datum, Records))
    hw = Var(Offset)
    journal = Var(Seq(Entry, Entries))
    journal_hw = Var(Count)
    at = Var(Offset)
    """The leader has acted on all roll-ups below."""
    lost = Var(Range(0, Losses))

    # -- words ---------------------------------------------------------------------------------------------

    def is_gone(s, place, entries):
        """By the first ones of the journal."""

        def names(i):
            entry = s.journal[i]
            this = And(entry.place == place, entry.epoch == s.data[place].epoch)
            return And(i < entries, And(entry.names, this))

        return Exists(indexes(s.journal), names)

    def rolled_by(s, place, other):
        """Whether the record at a place is to go by the one at another."""
        newer = s.data[other]
        return And(place < other, And(newer.rolls, newer.subject == s.data[place].subject))

    def left_before(s, other, entries):
        """Whether something is left that is to go by this roll-up."""
        return Exists(indexes(s.data), lambda i: And(s.rolled_by(i, other), ~s.is_gone(i, entries)))

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

    # -- both logs -----------------------------------------------------------------------------------------

    @action
    def Publish(s, subject: Subject, rolls: Bool):
        when(size(s.data) < s.Records)
        s.data = append(s.data, record(s.Datum, subject=subject, rolls=rolls, epoch=s.epoch))

    @action
    def Commit(s):
        when(s.hw < size(s.data))
        s.hw = s.hw + 1

    @action
    def CommitEntry(s):
        when(s.journal_hw < size(s.journal))
        s.journal_hw = s.journal_hw + 1

    @action
    def Elect(s, end: Offset, entries: Count):
        """Another one leads, which has this much of the logs."""
        when(s.epoch < s.Epochs, s.hw <= end, end <= size(s.data))
        when(s.journal_hw <= entries, entries <= size(s.journal))
        s.at = s.begins(prefix(s.data, end), prefix(s.journal, entries), s.hw)
        s.epoch = s.epoch + 1
        s.data = prefix(s.data, end)
        s.journal = prefix(s.journal, entries)

    @action
    def Lose(s, end: Offset):
        """An operator has one elected that lacks what was committed of the data."""
        when(s.epoch < s.Epochs, s.lost < s.Losses, end < s.hw, s.journal_hw == size(s.journal))
        s.at = s.begins(prefix(s.data, end), s.journal, end)
        s.epoch = s.epoch + 1
        s.lost = s.lost + 1
        s.data = prefix(s.data, end)
        s.hw = end

    # -- the leader goes through what is committed ---------------------------------------------------------

    def end(s):
        return size(s.data) if s.variant == "acts-uncommitted" else s.hw

    @action
    def Name(s, place: Place):
        """The next record is a roll-up: one of those that go by it."""
        when(s.at < s.end(), place < s.end(), size(s.journal) < s.Entries)
        when(s.data[s.at].rolls, ~s.is_gone(place, size(s.journal)))
        goes = s.rolled_by(place, s.at)
        if s.variant == "takes-newcomers":
            goes = And(place != s.at, s.data[place].subject == s.data[s.at].subject)
        when(goes)
        told = record(
            s.Entry, names=True, place=place, epoch=s.data[place].epoch, through=s.through(), of=s.of()
        )
        s.journal = append(s.journal, told)

    @action
    def Pass(s):
        """It is none, or all is written that goes by it."""
        when(s.at < s.end())
        when(Or(~s.data[s.at].rolls, ~s.left_before(s.at, size(s.journal))))
        s.at = s.at + 1

    @action
    def Say(s):
        """How far this leader has come, in an entry."""
        through = s.at + 1 if s.variant == "said-first" else s.at
        when(through > 0, through <= s.hw, s.through() != through, size(s.journal) < s.Entries)
        told = record(
            s.Entry, names=False, place=0, epoch=1, through=through, of=s.data[through - 1].epoch
        )
        s.journal = append(s.journal, told)

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def OnlyOlder(s):
        """What a committed entry names lies before a committed roll-up of its subject, if none is lost."""

        def right(i):
            entry = s.journal[i]
            asked = And(entry.place < s.hw, Exists(indexes(s.data), lambda j: s.asked(entry.place, j)))
            return Or(Or(i >= s.journal_hw, ~entry.names), asked)

        return Or(s.lost > 0, Forall(indexes(s.journal), right))

    def asked(s, place, other):
        return And(other < s.hw, s.rolled_by(place, other))

    @invariant
    def AllActedOn(s):
        """When all is gone through, and what was written is committed, nothing is left before a roll-up."""
        quiet = And(s.at >= s.hw, s.journal_hw == size(s.journal))

        def left(i):
            return And(i < s.hw, s.left_before(i, s.journal_hw))

        return Or(~quiet, ~Exists(indexes(s.data), left))

    @sometimes
    def ANewLeaderActs(s):
        """On a roll-up of the leader before it, which it found behind where that one had come."""

        def late(i):
            entry = s.journal[i]
            return And(entry.names, And(entry.through > 0, s.data[entry.through].epoch < s.epoch))

        return And(s.at == s.hw, And(s.lost == 0, Exists(indexes(s.journal), late)))
