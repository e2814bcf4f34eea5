"""Batches: messages that come one by one and are stored together, or not at all.

The messages of a batch are numbered, and may be lost on their way. The leader keeps them in memory; the last
one has all of them stored at once, as one batch of the log, between whose records the log is never cut and
nothing is committed (models of replication have a record as a step; this one has what is stored at once).

- *A message is kept if the one before it is.* Else its batch is given up: who goes on after a gap stores what
  lacks something, and so does a leader that takes what its predecessor has had the beginning of.
- *Nothing is stored before the last one.* What is stored is read, whatever follows.
- *What a batch expects of the log is judged when it is stored*, with all that lies before it: between its
  first message and its last one others are stored.

What is modelled: two batches that mix, of which one may expect a place; messages that are lost; batches that
are given up; others that are stored meanwhile; leaders that come and go.

What is abstracted. *Replication*: what is committed, and what a new leader keeps of the rest.

    part-stored-at-once    a message is stored when it comes
    gap-ignored            a batch goes on after a message that is lost
    begun-anywhere         a new leader takes the rest of a batch whose beginning it lacks
    compared-at-arrival    what a batch expects is judged with its first message
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *

MESSAGES = 3
"""Of each batch: so many that one in the middle can be lost."""


class Batches(Model):
    """One partition, and publishers of which each sends one batch."""

    variant = Setting("right", "part-stored-at-once", "gap-ignored", "begun-anywhere", "compared-at-arrival")
    Publishers = Constant(2)
    Records = Constant(6)
    Epochs = Constant(2)
    """Records: of the log."""

    Publisher = Range(1, Publishers)
    Author = Range(0, Publishers)
    """0: of a message of its own."""
    Number = Range(0, MESSAGES - 1)
    Count = Range(0, MESSAGES)
    Offset = Range(0, Records)
    Epoch = Range(1, Epochs)
    Stored = Record(author=Author, place=Number, ends=Range(0, 1))
    """`ends`: it is the last of what was stored at once."""

    epoch = Var(Epoch, init=1)
    data = Var(Seq(Stored, Records))
    hw = Var(Offset)
    sent = Var(Fn(Publisher, Count))
    expected = Var(Fn(Publisher, Option(Offset)))
    kept = Var(Fn(Publisher, Set(Number)))
    """What the leader has of each batch."""
    fits = Var(Set(Publisher))
    """What is expected was so when the first message came."""

    # -- words ---------------------------------------------------------------------------------------------

    def keeps_any(s, p):
        return Exists(s.Number, lambda i: member(i, s.kept[p]))

    def follows(s, p, number):
        """The leader keeps the message before this one."""
        known = Or(number == 0, member(number - 1, s.kept[p]))
        if s.variant == "gap-ignored":
            known = Or(known, s.keeps_any(p))
        if s.variant == "begun-anywhere":
            known = Or(known, ~s.keeps_any(p))
        return known

    def is_end(s, end):
        """Nothing is cut there that was stored at once."""
        return Or(end == 0, s.data[end - 1].ends == 1)

    # -- publishers ----------------------------------------------------------------------------------------

    @action
    def Expect(s, p: Publisher, place: Offset):
        when(s.sent[p] == 0, is_none(s.expected[p]))
        s.expected[p] = place

    @action
    def Lose(s, p: Publisher):
        """A message does not arrive."""
        when(s.sent[p] < MESSAGES)
        s.sent[p] = s.sent[p] + 1

    @action
    def Arrive(s, p: Publisher):
        """A message comes, and is not the last one."""
        number = s.sent[p]
        when(number < MESSAGES - 1, size(s.data) < s.Records)
        good = s.follows(p, number)
        here = Or(is_none(s.expected[p]), get(s.expected[p]) == size(s.data))
        s.sent[p] = number + 1
        s.kept[p] = If(good, with_member(s.kept[p], number), [])
        s.fits = If(And(number == 0, here), with_member(s.fits, p), s.fits)
        if s.variant == "part-stored-at-once":
            stored = record(s.Stored, author=p, place=number, ends=1)
            s.data = If(And(good, Or(number > 0, here)), append(s.data, stored), s.data)

    @action
    def End(s, p: Publisher):
        """The last one comes."""
        number = MESSAGES - 1
        when(s.sent[p] == number, size(s.data) + MESSAGES <= s.Records)
        good = s.follows(p, number)
        here = Or(is_none(s.expected[p]), get(s.expected[p]) == size(s.data))
        if s.variant == "compared-at-arrival":
            here = member(p, s.fits)
        if s.variant == "part-stored-at-once":
            here = Or(number > 0, here)
        data = s.data
        for i in range(number) if s.variant != "part-stored-at-once" else ():
            stored = record(s.Stored, author=p, place=i, ends=0)
            data = If(member(i, s.kept[p]), append(data, stored), data)
        data = append(data, record(s.Stored, author=p, place=number, ends=1))
        s.sent[p] = MESSAGES
        s.kept[p] = []
        s.data = If(And(good, here), data, s.data)

    @action
    def GiveUp(s, p: Publisher):
        """A batch is silent for too long, or its leader takes nothing for now: nothing is kept of it."""
        when(s.keeps_any(p))
        s.kept[p] = []

    @action
    def Publish(s):
        """Somebody else's message."""
        when(size(s.data) < s.Records)
        s.data = append(s.data, record(s.Stored, author=0, place=0, ends=1))

    # -- the log -------------------------------------------------------------------------------------------

    @action
    def Commit(s, end: Offset):
        when(s.hw < end, end <= size(s.data), s.is_end(end))
        s.hw = end

    @action
    def Elect(s, end: Offset):
        """Another one leads, which has this much of the log, and nothing of any batch."""
        when(s.epoch < s.Epochs, s.hw <= end, end <= size(s.data), s.is_end(end))
        s.epoch = s.epoch + 1
        s.data = prefix(s.data, end)
        s.kept = function(s.Publisher, lambda p: such_that(s.Number, lambda i: i > MESSAGES))

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def AllOrNone(s):
        """Whoever reads finds all of a batch, one message behind the other, or nothing of it."""

        def succeeds(i, j):
            one, other = s.data[i], s.data[j]
            return And(one.author == other.author, one.place + 1 == other.place)

        def whole(i):
            one = s.data[i]
            before = Or(one.place == 0, And(i > 0, succeeds(i - 1, i)))
            behind = Or(one.place == MESSAGES - 1, And(i + 1 < s.hw, succeeds(i, i + 1)))
            return Or(one.author == 0, And(before, behind))

        return Forall(indexes(s.data), lambda i: Implies(i < s.hw, whole(i)))

    @invariant
    def StoredAsExpected(s):
        def fits(i):
            one = s.data[i]
            first = And(one.author > 0, one.place == 0)
            wish = s.expected[one.author]
            return Implies(first, Or(is_none(wish), get(wish) == i))

        return Forall(indexes(s.data), fits)

    @sometimes
    def TwoThatMixAreStored(s):
        return Forall(s.Publisher, lambda p: Exists(indexes(s.data), lambda i: s.data[i].author == p))

    @sometimes
    def OneIsGivenUp(s):
        """All of it was sent, and nothing of it is there."""

        def gone(p):
            there = Exists(indexes(s.data), lambda i: s.data[i].author == p)
            return And(s.sent[p] == MESSAGES, ~there)

        return And(s.epoch > 1, Exists(s.Publisher, gone))
