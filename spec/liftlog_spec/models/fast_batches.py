"""Fast batches: messages that come one by one, are stored as they come, and are acked many at a time.

The messages of a batch are numbered, and may be lost on their way. The leader stores each, and an ack names a
number: all up to there are committed. Nothing is kept beside that number; another leader does not know it.

- *A message is stored if the one before it was.* The batch modelled takes no gaps: who goes on behind one
  acks what is not there, and so does a leader that goes on where its predecessor was.
- *An ack is for what is committed.* What a leader has appended may be cut.

What is modelled: two publishers of which each sends one batch; messages that are lost; batches that are given
up; leaders that come and go, and keep what is committed, perhaps more.

What is abstracted. *Flow*: an ack may come at any time. *Batches that take gaps*: their acks promise less.

    acked-at-append    an ack is for what is appended
    gap-ignored        a batch goes on after a message that is lost
    begun-anywhere     a new leader goes on in the middle of a batch
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *

MESSAGES = 3
"""Of each batch: so many that one in the middle can be lost."""


class AckedByNumber(Model):
    """One partition, and publishers of which each sends one batch."""

    variant = Setting("right", "acked-at-append", "gap-ignored", "begun-anywhere")
    Publishers = Constant(2)
    Epochs = Constant(2)
    Records = Constant(6)

    Publisher = Range(1, Publishers)
    Number = Range(0, MESSAGES)
    Offset = Range(0, Records)
    Epoch = Range(1, Epochs)
    Stored = Record(author=Publisher, nth=Range(1, MESSAGES))

    epoch = Var(Epoch, init=1)
    data = Var(Seq(Stored, Records))
    hw = Var(Offset)
    sent = Var(Fn(Publisher, Number))
    took = Var(Fn(Publisher, Number))
    """The last number that the leader has of each batch; 0: it does not know the batch."""
    acked = Var(Fn(Publisher, Number))
    """Up to which number its publisher was told that all are committed."""

    # -- words ---------------------------------------------------------------------------------------------

    def lies_below(s, p, number, end):
        return Exists(
            indexes(s.data), lambda i: And(i < end, s.data[i].author == p, s.data[i].nth == number)
        )

    # -- publishers ----------------------------------------------------------------------------------------

    @action
    def Lose(s, p: Publisher):
        """A message does not arrive."""
        when(s.sent[p] < MESSAGES)
        s.sent[p] = s.sent[p] + 1

    @action
    def Arrive(s, p: Publisher):
        """A message comes, and is stored or not."""
        number = s.sent[p] + 1
        when(s.sent[p] < MESSAGES, size(s.data) < s.Records)
        known = s.took[p] > 0
        good = s.took[p] + 1 == number
        if s.variant == "gap-ignored":
            good = Or(good, known)
        if s.variant == "begun-anywhere":
            good = Or(good, ~known)
        s.sent[p] = number
        s.took[p] = If(good, number, s.took[p])
        s.data = If(good, append(s.data, record(s.Stored, author=p, nth=number)), s.data)

    @action
    def GiveUp(s, p: Publisher):
        """The leader ends a batch, since it was silent for too long, or a message was missing."""
        when(s.took[p] > 0)
        s.took[p] = 0

    # -- the log -------------------------------------------------------------------------------------------

    @action
    def Ack(s, p: Publisher, number: Number):
        """This message is acked, and with it all that are before it in its batch."""
        end = s.hw if s.variant != "acked-at-append" else size(s.data)
        when(s.took[p] > 0, s.acked[p] < number, s.lies_below(p, number, end))
        s.acked[p] = number

    @action
    def Commit(s, end: Offset):
        when(s.hw < end, end <= size(s.data))
        s.hw = end

    @action
    def Elect(s, end: Offset):
        """Another one leads, which has this much of the log, and knows no batch."""
        when(s.epoch < s.Epochs, s.hw <= end, end <= size(s.data))
        s.epoch = s.epoch + 1
        s.data = prefix(s.data, end)
        s.took = function(s.Publisher, lambda p: 0)

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def AckedIsThere(s):
        """All up to the number that was acked are committed."""

        def holds(p):
            numbers = range(1, MESSAGES + 1)
            return And(*(Implies(s.acked[p] >= n, s.lies_below(p, n, s.hw)) for n in numbers))

        return Forall(s.Publisher, holds)

    @invariant
    def InOrder(s):
        """Of one batch none lies before one of a smaller number."""

        def good(i, j):
            one, other = s.data[i], s.data[j]
            return Implies(And(i < j, one.author == other.author), one.nth < other.nth)

        return Forall(indexes(s.data), lambda i: Forall(indexes(s.data), lambda j: good(i, j)))

    @sometimes
    def TwoThatMixAreAcked(s):
        return Forall(s.Publisher, lambda p: s.acked[p] == MESSAGES)

    @sometimes
    def OneIsLeftInTheMiddle(s):
        """Some of it is acked, and the rest was sent and is not there."""
        return Exists(s.Publisher, lambda p: And(s.sent[p] == MESSAGES, s.acked[p] == 1, s.epoch > 1))
