"""Priority groups: a leader chooses among those that pull. One client is pinned, and a pull has a minimum.

Pulls wait at a leader. The one that is looked at is given messages if it may be: by its minima, of what is
to come with the message itself, or of what waits for acks, of which one is enough; or by the pin, which the
first pull without one gets when there is a message for it. A pull that begins with the right pin gives the
pin its time anew. The pin ends with that time, when somebody takes it away, or with the leader.

- *A pin is one leader's.* It names that leader, so that no other one takes it for its own.
- *While somebody is pinned nobody else is given messages*, nor a pin.
- *Each message is looked at*, not each answer: a pull may be below its minima for the second one. What comes
  again counts itself beside what is to come, and waits for an ack already.
- *A pull that waits does not hold the pin.* The door asks in slices, and only the first begins a pull.

What is modelled: one consumer, with minima or with a pin; clients that pull, at any leader, with the pin that
they were given last, or forget it; a leader that lives on when the next one is elected; time, as ticks of
each leader.

What is abstracted. *What is given*, but for how much is to come and waits for acks, as each leader sees it:
the journal has it (K1 to K8), and does not know who is given it. What a new leader knows, and what is
deleted, is any change of these. *Several groups*: a consumer has one pin.

    two-pinned            a pin is given while somebody is pinned
    pin-not-looked-at     who is not pinned is given messages all the same
    pin-without-leader    a pin is a number alone, and the next leader counts from one too
    served-below-minimum  the whole answer by one look
    pin-never-lost        each slice of a pull gives the pin its time anew
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class PriorityGroups(Model):
    """The pulls of one consumer at its leaders."""

    variant = Setting(
        "right",
        "two-pinned",
        "pin-not-looked-at",
        "pin-without-leader",
        "served-below-minimum",
        "pin-never-lost",
    )
    Clients = Constant(2)
    Leaders = Constant(2)
    Pins = Constant(2)
    """So many each leader gives."""
    Messages = Constant(2)
    """So many may be to come, or wait for acks, at a time."""
    Time = Constant(1)
    """So many ticks a pin lasts when nobody begins a pull with it."""

    Client = Sort(Clients)
    Leader = Range(1, Leaders)
    At = Range(0, Leaders)
    Number = Range(0, Pins)
    Amount = Range(0, Messages)
    Asked = Range(1, Messages)
    Left = Range(0, Time)
    Age = Range(0, Time + 1)

    by_pin = Var(Bool)
    """Whether one client is pinned; else pulls have minima."""
    newest = Var(Leader, init=1)
    to_come = Var(Fn(Leader, Amount))
    waiting = Var(Fn(Leader, Amount))
    """So many wait for acks, where that is looked at."""
    pinned = Var(Fn(Leader, Set(Number)))
    """The pins that hold, as each leader sees it."""
    counted = Var(Fn(Leader, Number))
    """So many pins it has given."""
    left = Var(Fn(Leader, Left))
    """So long the pin holds."""
    age = Var(Fn(Leader, Age))
    """Ticks since a client was pinned, or began a pull as the pinned one."""
    waits_at = Var(Fn(Client, At))
    """Where its pull waits; 0 = it does not pull."""
    minimum = Var(Fn(Client, Amount))
    acks = Var(Fn(Client, Amount))
    """So many are to come, or are to wait for acks; 0 = by the other one, both 0 = always."""
    pin_of = Var(Fn(Client, Number))
    """The pin that a client was given last, 0 = none, and by whom."""
    pin_by = Var(Fn(Client, At))
    stray = Var(Bool)
    """Somebody was given a message while somebody else was pinned."""
    low = Var(Bool)
    """Somebody was given a message below the minimum of its pull."""

    @initial
    def Configure(s, by_pin: Bool):
        s.by_pin = by_pin

    # -- words ---------------------------------------------------------------------------------------------

    def has_pin_of(s, c, at):
        """Whether this leader takes a client for the pinned one."""
        own = True if s.variant == "pin-without-leader" else s.pin_by[c] == at
        return And(s.pin_of[c] > 0, own, member(s.pin_of[c], s.pinned[at]))

    def may_have(s, c, at):
        """Whether the pin lets it be given messages."""
        fresh = And(s.pin_of[c] == 0, s.counted[at] < s.Pins)
        if s.variant == "pin-not-looked-at":
            return True
        if s.variant == "two-pinned":
            return Or(fresh, s.has_pin_of(c, at))
        return Or(s.has_pin_of(c, at), And(size(s.pinned[at]) == 0, fresh))

    def enough(s, c, at, given, again):
        """Whether its minima let it be given one more, when it was given so many. `again`: all of them were
        delivered before.
        """
        to_come = If(again, s.to_come[at] + 1, s.to_come[at] - given)
        waiting = If(again, s.waiting[at], s.waiting[at] + given)
        least, acks = s.minimum[c], s.acks[c]
        always = And(least == 0, acks == 0)
        return Or(always, And(least > 0, to_come >= least), And(acks > 0, waiting >= acks))

    def enough_for_all(s, c, at, messages, again):
        return Forall(s.Amount, lambda i: Implies(i < messages, s.enough(c, at, i, again)))

    def waits_no_more(s, c):
        s.waits_at[c] = 0
        s.minimum[c] = 0
        s.acks[c] = 0

    # -- clients -------------------------------------------------------------------------------------------

    @action
    def Begin(s, c: Client, at: Leader, least: Amount, acks: Amount):
        """A pull comes."""
        when(at <= s.newest, s.waits_at[c] == 0)
        when(Or(~s.by_pin, And(least == 0, acks == 0)))
        s.waits_at[c] = at
        s.minimum[c] = least
        s.acks[c] = acks
        s.left[at] = If(s.has_pin_of(c, at), s.Time, s.left[at])
        s.age[at] = If(s.has_pin_of(c, at), 0, s.age[at])

    @action
    def GoOn(s, c: Client, at: Leader):
        """The next slice of a pull with a pin comes."""
        when(s.by_pin, at <= s.newest, s.waits_at[c] == 0, s.pin_of[c] > 0)
        s.waits_at[c] = at
        if s.variant == "pin-never-lost":
            s.left[at] = If(s.has_pin_of(c, at), s.Time, s.left[at])

    @action
    def GiveUp(s, c: Client):
        """Its time is over, or its connection."""
        when(s.waits_at[c] > 0)
        s.waits_no_more(c)

    @action
    def Forget(s, c: Client):
        """It begins anew, or what came with the pin never reached it."""
        when(s.waits_at[c] == 0, s.pin_of[c] > 0)
        s.pin_of[c] = 0
        s.pin_by[c] = 0

    # -- leaders -------------------------------------------------------------------------------------------

    @action
    def Give(s, c: Client, at: Leader, messages: Asked, again: Bool):
        """So many in one answer, all of which are new, or come again."""
        when(s.waits_at[c] == at)
        when(Or(And(s.by_pin, again), messages <= If(again, s.waiting[at], s.to_come[at])))
        when(Or(s.by_pin, Or(again, s.waiting[at] + messages <= s.Messages)))
        when(s.enough(c, at, 0, again) if s.variant == "served-below-minimum" else True)
        if s.variant != "served-below-minimum":
            when(s.enough_for_all(c, at, messages, again))
        when(Or(~s.by_pin, s.may_have(c, at)))
        fresh = And(s.by_pin, s.pin_of[c] == 0, s.counted[at] < s.Pins)
        gets_one = And(fresh, Or(size(s.pinned[at]) == 0, s.variant == "two-pinned"))
        s.stray = Or(s.stray, And(size(s.pinned[at]) > 0, ~s.has_pin_of(c, at)))
        s.low = Or(s.low, ~s.enough_for_all(c, at, messages, again))
        number = If(s.counted[at] < s.Pins, s.counted[at] + 1, s.counted[at])
        s.pin_of[c] = If(gets_one, number, s.pin_of[c])
        s.pin_by[c] = If(gets_one, at, s.pin_by[c])
        s.counted[at] = If(gets_one, number, s.counted[at])
        s.pinned[at] = If(gets_one, with_member(s.pinned[at], number), s.pinned[at])
        s.left[at] = If(gets_one, s.Time, s.left[at])
        s.age[at] = If(gets_one, 0, s.age[at])
        s.to_come[at] = If(again, s.to_come[at], s.to_come[at] - messages)
        s.waiting[at] = If(Or(s.by_pin, again), s.waiting[at], s.waiting[at] + messages)
        s.waits_no_more(c)

    @action
    def Refuse(s, c: Client, at: Leader):
        """It names a pin that does not hold: it asks without one then."""
        when(s.waits_at[c] == at, s.pin_of[c] > 0, ~s.has_pin_of(c, at))
        s.waits_no_more(c)
        s.pin_of[c] = 0
        s.pin_by[c] = 0

    @action
    def Tick(s, at: Leader):
        """A pin whose time is over is lost."""
        when(size(s.pinned[at]) > 0, s.age[at] <= s.Time)
        lost = s.left[at] == 0
        s.left[at] = If(lost, 0, s.left[at] - 1)
        s.age[at] = If(lost, 0, s.age[at] + 1)
        s.pinned[at] = If(lost, difference(s.pinned[at], s.pinned[at]), s.pinned[at])

    @action
    def Unpin(s, at: Leader):
        when(size(s.pinned[at]) > 0)
        s.pinned[at] = difference(s.pinned[at], s.pinned[at])
        s.left[at] = 0
        s.age[at] = 0

    @action
    def Come(s, at: Leader):
        """One more is committed."""
        when(s.to_come[at] < s.Messages)
        s.to_come[at] = s.to_come[at] + 1

    @action
    def Go(s, at: Leader):
        """One is deleted before it was given to anybody."""
        when(s.to_come[at] > 0)
        s.to_come[at] = s.to_come[at] - 1

    @action
    def Done(s, at: Leader):
        """One waits no more for its ack."""
        when(s.waiting[at] > 0)
        s.waiting[at] = s.waiting[at] - 1

    @action
    def Elect(s, to_come: Amount, waiting: Amount):
        """Another one leads, which knows of so many; the one before may not know it."""
        when(s.newest < s.Leaders, Or(~s.by_pin, waiting == 0))
        leader = s.newest + 1
        s.to_come[leader] = to_come
        s.waiting[leader] = waiting
        s.newest = leader

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def OnePinned(s):
        """Of each leader at most one pin holds, and at most one client has it."""
        return Forall(
            s.Leader,
            lambda at: And(size(s.pinned[at]) <= 1, count(s.Client, lambda c: s.has_pin_of(c, at)) <= 1),
        )

    @invariant
    def PinnedAlone(s):
        """While somebody is pinned nobody else is given messages."""
        return ~s.stray

    @invariant
    def NotBelowMinimum(s):
        return ~s.low

    @invariant
    def PinIsLost(s):
        """A pin does not outlive its time when nobody begins a pull with it."""
        return Forall(s.Leader, lambda at: Implies(size(s.pinned[at]) > 0, s.age[at] <= s.Time))

    @sometimes
    def TwoLeadersPin(s):
        return Forall(s.Leader, lambda at: size(s.pinned[at]) == 1)

    @sometimes
    def APinIsGivenAgain(s):
        return Exists(s.Leader, lambda at: And(size(s.pinned[at]) == 1, s.counted[at] == s.Pins))
