"""Mirrors: a log that has what another one has committed, at the same offsets.

The leader of the mirror asks for what follows the end of its own log, and appends what it is answered. Two
logs, each with leaders that come and go, and with its own commit:

- *The end of the log is the position.* It is in no other place, which could be ahead of the log, or behind
  it, when another one leads.
- *Only what is committed is copied.* What an origin's leader gives up may be committed here.
- *Who asks has committed all that he has.* So an answer, also to a leader that is gone, begins no higher than
  the log of whoever takes it ends; what it says again is skipped.
- *An offset at which the origin has nothing any more stays empty*: what follows does not move up.
- *What is empty is said before it is copied*: the entry of the journal that says so is committed when the
  batch is appended, so no leader has to find out what one before him has not said.

What is modelled: a record is the epoch of its origin that wrote it; deletions of what is committed there;
an answer that is on its way, for as long as it likes, and again; elections on both sides, which give up what
is not committed there.

What is abstracted. *Replication* of both logs, told as what is committed and what a new leader keeps of the
rest. *Many records in one answer*: they come one by one, and only the first is asked for. *The log start*,
which is a deletion of all that lies below it. *Epochs in the journal*: what is said and not copied then is
about records of an epoch that has none there, and harms nobody.

    copies-uncommitted         the origin's leader answers with all that it has
    position-saved-first       the position is kept apart, and written before the record
    position-saved-later       the position is kept apart, and written when the record is committed
    asks-uncommitted           a leader asks for what follows what it has not committed yet
    closes-gaps                what follows a deleted record moves up
    begins-at-the-end          a new leader takes what it has not for deleted
    takes-messages             the mirror stores what is published to it
    says-nothing               nobody says what is empty
    says-later                 what is empty is said when it is copied, and may be lost with who says it
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class Mirrors(Model):
    """One partition of an origin, and its mirror's."""

    variant = Setting(
        "right",
        "copies-uncommitted",
        "position-saved-first",
        "position-saved-later",
        "asks-uncommitted",
        "closes-gaps",
        "begins-at-the-end",
        "takes-messages",
        "says-nothing",
        "says-later",
    )
    Records = Constant(2)
    Epochs = Constant(2)
    """Of either side."""
    Deletes = Constant(1)

    Epoch = Range(1, Epochs)
    Offset = Range(0, Records - 1)
    Count = Range(0, Records)
    Copy = Range(0, Epochs + 1)
    """0: nothing; one more than there are epochs: what somebody has published to the mirror."""
    Answer = Record(at=Offset, has=Copy)

    origin_epoch = Var(Epoch, init=1)
    origin = Var(Seq(Epoch, Records))
    origin_hw = Var(Count)
    gone = Var(Set(Offset))

    epoch = Var(Epoch, init=1)
    mirror = Var(Seq(Copy, Records))
    hw = Var(Count)
    answer = Var(Option(Answer))
    """Of the origin, to a leader of the mirror."""
    asked = Var(Range(0, Records + 1))
    """One more than what this leader had, and had committed, when it asked; 0: it has not asked."""
    began = Var(Bool)
    """This leader has appended something."""
    position = Var(Count)
    """Of the variants that keep one."""
    written = Var(Set(Offset))
    """What is said to be empty by entries of this leader that are not committed."""
    says = Var(Set(Offset))
    """And by those that are."""

    # -- the origin ----------------------------------------------------------------------------------------

    @action
    def Write(s):
        when(size(s.origin) < s.Records)
        s.origin = append(s.origin, s.origin_epoch)

    @action
    def CommitOrigin(s):
        when(s.origin_hw < size(s.origin))
        s.origin_hw = s.origin_hw + 1

    @action
    def ElectOrigin(s, end: Count):
        """Another one leads the origin, which has this much."""
        when(s.origin_epoch < s.Epochs, s.origin_hw <= end, end <= size(s.origin))
        s.origin_epoch = s.origin_epoch + 1
        s.origin = prefix(s.origin, end)

    @action
    def Delete(s, at: Offset):
        when(at < s.origin_hw, ~member(at, s.gone), size(s.gone) < s.Deletes)
        s.gone = with_member(s.gone, at)

    # -- between them --------------------------------------------------------------------------------------

    def is_apart(s):
        return s.variant in ("position-saved-first", "position-saved-later")

    @action
    def Ask(s, at: Offset):
        """The mirror's leader asks, and the origin's answers: with this, and what follows it."""
        end = s.position if s.is_apart() else size(s.mirror)
        reach = size(s.origin) if s.variant == "copies-uncommitted" else s.origin_hw
        when(at < reach)
        if s.variant != "asks-uncommitted":
            when(Or(s.hw == size(s.mirror), s.asked == s.hw + 1))
        s.asked = If(s.hw == size(s.mirror), s.hw + 1, s.asked)
        if s.variant == "closes-gaps":
            when(end <= at, ~member(at, s.gone))
            when(Forall(s.Offset, lambda i: Implies(And(end <= i, i < at), member(i, s.gone))))
        else:
            when(at == end)
        has = If(member(at, s.gone), 0, s.origin[at])
        if s.variant == "begins-at-the-end":
            has = If(s.began, has, 0)
        s.answer = {"at": at, "has": has}

    @action
    def Say(s):
        """What the answer says to be gone is written into the journal."""
        if s.variant != "right":
            when(False)
        when(is_some(s.answer), get(s.answer).at == size(s.mirror), get(s.answer).has == 0)
        when(~member(get(s.answer).at, s.says), ~member(get(s.answer).at, s.written))
        s.written = with_member(s.written, get(s.answer).at)

    @action
    def CommitEntry(s, at: Offset):
        when(member(at, s.written))
        s.written = without(s.written, at)
        s.says = with_member(s.says, at)

    @action
    def Take(s):
        """The answer comes, or comes again."""
        when(is_some(s.answer), size(s.mirror) < s.Records)
        if s.variant == "right":
            when(Or(get(s.answer).has > 0, member(get(s.answer).at, s.says)))
        if s.variant == "says-later":
            unsaid = And(get(s.answer).has == 0, ~member(get(s.answer).at, s.says))
            s.written = If(unsaid, with_member(s.written, get(s.answer).at), s.written)
        if s.variant in ("closes-gaps", "asks-uncommitted"):
            when(size(s.mirror) <= get(s.answer).at)
        elif not s.is_apart():
            when(get(s.answer).at == size(s.mirror))
        s.mirror = append(s.mirror, get(s.answer).has)
        s.began = True
        if s.is_apart():
            # It has no place to know a repetition by.
            s.answer = None
        if s.variant == "position-saved-first":
            s.position = size(s.mirror)

    # -- the mirror ----------------------------------------------------------------------------------------

    @action
    def Commit(s):
        when(s.hw < size(s.mirror))
        s.hw = s.hw + 1

    @action
    def Save(s):
        """The position that is kept apart follows what is committed."""
        if s.variant != "position-saved-later":
            when(False)
        when(s.position < s.hw)
        s.position = s.hw

    @action
    def Elect(s, end: Count):
        """Another one leads the mirror, which has this much."""
        when(s.epoch < s.Epochs, s.hw <= end, end <= size(s.mirror))
        s.epoch = s.epoch + 1
        s.mirror = prefix(s.mirror, end)
        s.asked = 0
        s.began = False
        s.written = []

    @action
    def Publish(s):
        if s.variant != "takes-messages":
            when(False)
        when(size(s.mirror) < s.Records)
        s.mirror = append(s.mirror, s.Epochs + 1)

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def MirrorIsPrefix(s):
        """What the mirror has committed, the origin has committed, at the same offset."""
        return Forall(
            s.Offset,
            lambda i: Implies(
                And(i < s.hw, s.mirror[i] > 0), And(i < s.origin_hw, s.origin[i] == s.mirror[i])
            ),
        )

    @invariant
    def EmptyIsGone(s):
        """Where the mirror has nothing, the origin has nothing any more."""
        return Forall(s.Offset, lambda i: Implies(And(i < s.hw, s.mirror[i] == 0), member(i, s.gone)))

    @invariant
    def EmptyIsSaid(s):
        """Where the mirror has nothing, its journal says so. Variants about something else have none."""
        if s.variant not in ("right", "says-nothing", "says-later"):
            return True
        return Forall(s.Offset, lambda i: Implies(And(i < s.hw, s.mirror[i] == 0), member(i, s.says)))

    @sometimes
    def AllIsHere(s):
        """Through elections on both sides, with what was deleted."""
        several = And(s.origin_epoch > 1, s.epoch > 1)
        return And(several, And(s.hw == s.Records, Exists(s.Offset, lambda i: s.mirror[i] == 0)))
