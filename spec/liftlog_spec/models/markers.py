"""Markers: where the last message of a subject goes by its time, a message stays that says so.

The marker lies in the data, what is gone is named in the journal, and a leader may fail between the two. So
the marker comes first: it is a roll-up of what lies before it, and it is stored only if the message that it
names is still the last one of its subject, in the leader's whole log. Once it is committed the older message
goes, as by any roll-up. Where another one of its subject remains a message is named at once, as without
markers.

- Who leads next has the marker in its log, and then the message is not the last one, or has it not, and
  nothing has happened.
- What is stored meanwhile is last in the marker's place, and the marker is not stored.
- What remains is what nothing written takes: the leader judges when the journal is committed and heeded to
  its end.
- A marker goes after its own time, and leaves none.

What is modelled: the data and the journal of one subject, leaders that come and go with what is uncommitted.

What is abstracted. *Other subjects*: nothing of one depends on another one. *Which messages are found, and
when*: `times_to_live`; any may be that is committed. *The index*, which knows what is committed: `Name` and
`Mark` look at any committed part of the data, as one that is behind would. *Clients that delete*: what they
take is gone by no time; a message that they uncover is the last one again.

    removal-first     the message is named, and then the marker is stored
    unheeded          what is written and not heeded yet counts as remaining
    marker-twice      the marker is stored by what the index has, whatever markers came since
    subject-lives     it is stored by what is committed, whatever messages came since
    takes-what-stays  it is stored though an older message remains that is to stay
    marker-of-marker  a marker that goes leaves a marker
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class DeleteMarkers(Model):
    """One subject of a partition with its two logs, and who leads it."""

    variant = Setting(
        "right",
        "removal-first",
        "unheeded",
        "marker-twice",
        "subject-lives",
        "takes-what-stays",
        "marker-of-marker",
    )
    Records = Constant(4)
    Entries = Constant(3)
    Times = Constant(2)
    Epochs = Constant(2)

    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Count = Range(0, Entries)
    Epoch = Range(1, Epochs)
    Time = Range(0, Times)
    Datum = Record(due=Time, marks=Bool, of=Place)
    """`due`: when its time is over; 0 = never. `marks`: it is a marker, of the one at `of`."""

    clock = Var(Time)
    epoch = Var(Epoch, init=1)
    data = Var(Seq(Datum, Records))
    hw = Var(Offset)
    journal = Var(Seq(Place, Entries))
    """What is gone."""
    journal_hw = Var(Count)

    # -- words ---------------------------------------------------------------------------------------------

    def is_gone(s, place, entries):
        """By the first ones of the journal."""
        return Exists(indexes(s.journal), lambda i: And(i < entries, s.journal[i] == place))

    def is_over(s, place):
        due = s.data[place].due
        return And(due > 0, due <= s.clock)

    def is_there(s, place):
        """Not gone by what is committed of the journal."""
        return ~s.is_gone(place, s.journal_hw)

    def others(s, place, end):
        """Below `end` there is another one."""
        return Exists(indexes(s.data), lambda i: And(i != place, And(i < end, s.is_there(i))))

    def others_that_stay(s, place, end):
        """Below `end` there is another one, and it is not over."""

        def stays(i):
            return And(i != place, And(i < end, And(s.is_there(i), ~s.is_over(i))))

        return Exists(indexes(s.data), stays)

    def newer(s, place, end):
        """Below `end` there is a newer one that is not gone."""
        return Exists(indexes(s.data), lambda i: And(i > place, And(i < end, s.is_there(i))))

    def is_rolled_up(s, place):
        """By a marker that is committed."""
        return Exists(indexes(s.data), lambda i: And(i > place, And(i < s.hw, s.data[i].marks)))

    def is_written(s, place):
        """What this leader has written itself, or inherited, is named once."""
        return s.is_gone(place, size(s.journal))

    # -- both logs -----------------------------------------------------------------------------------------

    @action
    def TimePasses(s):
        when(s.clock < s.Times)
        s.clock = s.clock + 1

    @action
    def Publish(s, due: Time):
        when(size(s.data) < s.Records, Or(due == 0, due > s.clock))
        s.data = append(s.data, record(s.Datum, due=due, marks=False, of=0))

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
        s.epoch = s.epoch + 1
        s.data = prefix(s.data, end)
        s.journal = prefix(s.journal, entries)

    # -- the leader ----------------------------------------------------------------------------------------

    @action
    def Name(s, place: Place, end: Offset):
        """A message that is over, where the index, which has what lies below `end`, knows another one."""
        when(place < end, end <= s.hw, size(s.journal) < s.Entries)
        when(s.is_over(place), ~s.is_written(place))
        if s.variant != "unheeded":
            when(s.journal_hw == size(s.journal))
        if s.variant not in ("removal-first", "marker-of-marker"):
            when(Or(s.data[place].marks, s.others(place, end)))
        elif s.variant == "marker-of-marker":
            when(s.others(place, end))
        s.journal = append(s.journal, place)

    @action
    def RollUp(s, place: Place):
        """What lies before a committed marker goes, over or not."""
        when(place < s.hw, s.is_rolled_up(place), ~s.is_written(place), size(s.journal) < s.Entries)
        s.journal = append(s.journal, place)

    @action
    def Mark(s, place: Place, end: Offset, due: Time):
        """One is over, and the index knows no other one that is to stay; it is the last one of the log."""
        when(place < end, end <= s.hw, s.is_over(place), size(s.data) < s.Records)
        when(Or(due == 0, due > s.clock), s.journal_hw == size(s.journal))
        if s.variant == "removal-first":
            when(s.is_gone(place, s.journal_hw), ~s.others(place, s.Records))
        else:
            when(s.is_there(place))
        if s.variant != "marker-of-marker":
            when(~s.data[place].marks)
        if s.variant != "takes-what-stays":
            when(~s.others_that_stay(place, end))
        if s.variant == "marker-twice":
            when(Forall(indexes(s.data), lambda i: Or(i <= place, s.data[i].marks)))
        elif s.variant == "subject-lives":
            when(~s.newer(place, s.hw))
        else:
            when(~s.newer(place, s.Records))
        s.data = append(s.data, record(s.Datum, due=due, marks=True, of=place))

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def MarkerLeft(s):
        """When a message is named, and is no marker, one of its subject is left that is committed, or has
        rolled it up.
        """

        def left(i):
            """By the entries up to this one."""
            return Exists(indexes(s.data), lambda j: And(j < s.hw, ~s.is_gone(j, i + 1)))

        def right(i):
            place = s.journal[i]
            return Or(i >= s.journal_hw, Or(s.data[place].marks, Or(left(i), s.is_rolled_up(place))))

        return Forall(indexes(s.journal), right)

    @invariant
    def MarkerDue(s):
        """A marker is of a message, and all that lies before it is gone, or is over."""

        def before(j):
            return Forall(
                indexes(s.data), lambda i: Or(i >= j, Or(s.is_gone(i, s.journal_hw), s.is_over(i)))
            )

        def right(j):
            return Or(~s.data[j].marks, And(~s.data[s.data[j].of].marks, before(j)))

        return Forall(indexes(s.data), right)

    @invariant
    def NotBeforeItsTime(s):
        """What is gone was over."""
        return Forall(indexes(s.journal), lambda i: Or(i >= s.journal_hw, s.is_over(s.journal[i])))

    @sometimes
    def ANewLeaderMarks(s):
        """A message that the leader before it would have marked: its marker was lost, or never stored."""

        def marked(i):
            return And(s.data[i].marks, s.is_gone(s.data[i].of, s.journal_hw))

        return And(s.epoch == 2, Exists(indexes(s.data), marked))

    @sometimes
    def AMarkerGoes(s):
        return Exists(indexes(s.journal), lambda i: And(i < s.journal_hw, s.data[s.journal[i]].marks))
