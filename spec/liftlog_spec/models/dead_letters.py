"""Dead letters: a message that was delivered for the last time goes to another stream, once.

A message of a consumer ends in one of two ways: somebody acks it, or it is dead, since it was delivered as
often as it may be, or was terminated. What comes first in the journal counts. What is dead is published to
another stream, and done when that has acknowledged it: two logs, of which neither knows the other. What
somebody deletes before that is written off, and no letter of it need be stored.

- *The decision is committed before anything is published.* Else a new leader, which does not have it, takes
  an ack, and the message is done and a dead letter.
- *It is done when it is stored.* Until then it is pending, and each leader publishes it.
- *Each leader publishes it under the same id*: letters of a leader that is gone may be stored late.

What is modelled: one message; leaders that come and go with what is uncommitted, and may publish after they
were replaced; letters that are stored late, again, or never; a stream for them that knows ids.

What is abstracted. *Replication* of the journal, told as what is committed and what a new leader keeps of the
rest. *The other stream*: it has what it has acknowledged. *Its window of ids*: it forgets none.

    done-before-acked          it is done when it is published
    id-not-the-same            each leader publishes it under an id of its own
    forgotten-by-new-leader    a new leader takes it that the one before has seen it stored
    published-before-committed a letter leaves before it is committed that the message is dead
    acked-when-dead            an ack of what is dead counts
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class DeadLettersOfAConsumer(Model):
    """One message of one consumer, the journal that speaks of it, and the stream of its letters."""

    variant = Setting(
        "right",
        "done-before-acked",
        "id-not-the-same",
        "forgotten-by-new-leader",
        "published-before-committed",
        "acked-when-dead",
    )
    Entries = Constant(3)
    Epochs = Constant(3)

    Epoch = Range(1, Epochs)
    Count = Range(0, Entries)
    Id = Range(0, Epochs)
    Stored = Range(0, Epochs + 1)
    Entry = Enum("acked", "dead", "done", "gone")

    epoch = Var(Epoch, init=1)
    journal = Var(Seq(Entry, Entries))
    hw = Var(Count)
    inherited = Var(Count)
    """So much the leader had when it was elected."""
    flying = Var(Set(Id))
    """The ids of letters that may be stored yet."""
    ids = Var(Set(Id))
    """Those of letters that are stored."""
    stored = Var(Stored)
    removed = Var(Bool)
    """Somebody has deleted the message."""

    # -- words ---------------------------------------------------------------------------------------------

    def says(s, kind, end):
        """Whether an entry of the first ones is of this kind."""
        return Exists(indexes(s.journal), lambda i: And(i < end, s.journal[i] == kind))

    def ended(s, end):
        """Whether it is pending no more by the first entries."""
        return Or(s.says("acked", end), s.says("done", end), s.says("gone", end))

    def write(s, kind):
        when(size(s.journal) < s.Entries)
        s.journal = append(s.journal, kind)

    def own_id(s):
        """Of the present leader's letter."""
        return s.epoch if s.variant == "id-not-the-same" else 0

    # -- the leader ----------------------------------------------------------------------------------------

    @action
    def Ack(s):
        """By who was given it, at any time."""
        end = size(s.journal)
        when(~s.ended(end))
        if s.variant != "acked-when-dead":
            when(~s.says("dead", end))
        s.write("acked")

    @action
    def Die(s):
        """It was delivered for the last time."""
        end = size(s.journal)
        when(~s.ended(end), ~s.says("dead", end))
        s.write("dead")

    @action
    def Commit(s):
        when(s.hw < size(s.journal))
        s.hw = s.hw + 1

    @action
    def Publish(s):
        """Again and again."""
        end = size(s.journal) if s.variant == "published-before-committed" else s.hw
        when(s.says("dead", end), ~s.ended(size(s.journal)), ~member(s.own_id(), s.flying))
        s.flying = with_member(s.flying, s.own_id())
        if s.variant == "done-before-acked":
            s.write("done")

    @action
    def Done(s):
        """The other stream has acknowledged it."""
        end = size(s.journal)
        when(s.says("dead", s.hw), ~s.ended(end))
        known = member(s.own_id(), s.ids)
        if s.variant == "forgotten-by-new-leader":
            known = Or(known, s.says("dead", s.inherited))
        when(known)
        s.write("done")

    @action
    def PublishLate(s):
        """By a leader that was replaced, and does not know it, nor what the next one has written."""
        when(s.epoch > 1, s.says("dead", s.hw), ~member(0, s.flying))
        s.flying = with_member(s.flying, 0)

    @action
    def WriteOff(s):
        """It is deleted, dead or not."""
        end = size(s.journal)
        when(s.removed, ~s.ended(end))
        s.write("gone")

    @action
    def Elect(s, end: Count):
        """Another one leads, which has this much of the journal."""
        when(s.epoch < s.Epochs, s.hw <= end, end <= size(s.journal))
        s.epoch = s.epoch + 1
        s.journal = prefix(s.journal, end)
        s.inherited = end

    # -- the other stream ----------------------------------------------------------------------------------

    @action
    def Store(s, id: Id):
        """It stores a letter, soon, late, or never, unless it has one with this id."""
        when(member(id, s.flying), ~member(id, s.ids))
        s.ids = with_member(s.ids, id)
        s.stored = s.stored + 1

    # -- others --------------------------------------------------------------------------------------------

    @action
    def Remove(s):
        when(~s.removed)
        s.removed = True

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def NoneLost(s):
        """What is dead is pending, or stored."""
        return Implies(And(s.says("dead", s.hw), s.says("done", s.hw)), s.stored > 0)

    @invariant
    def StoredOnce(s):
        return s.stored <= 1

    @invariant
    def NotBoth(s):
        """A message that counts as acked is no dead letter."""
        return Implies(s.says("acked", s.hw), s.stored == 0)

    @sometimes
    def ANewLeaderEndsIt(s):
        return And(s.epoch > 1, And(s.says("done", s.hw), s.inherited < size(s.journal)))

    @sometimes
    def StoredOfALeaderThatIsGone(s):
        """And the next one has not published it."""
        return And(s.epoch > 1, And(s.stored > 0, ~s.says("done", size(s.journal))))
