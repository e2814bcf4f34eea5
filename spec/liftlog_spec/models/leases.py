"""Leases and hints (N2, M1o): whoever leads is silent before the group puts others in his place.

One controller leads the group until another one is elected, by a quorum that shares a voter with every quorum
that the first one could reach: that voter is all that is said of the others here. A node has a session with
whoever is controller; the first controller leads partitions too, and its own session counts from the round
that a quorum, that is, the voter, has answered. Messages take any time and may be lost; of each kind one is
on its way at most, the newest. Hints are no variable: at any moment anybody may be told that nobody listens
somewhere, true or not.

Time goes in steps, and clocks run equally fast: no margin is needed then. Everything that somebody waits for
is counted in such steps.
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class Leases(Model):
    """Two terms of the metadata group, and the sessions of a node and of the first term's controller."""

    variant = Setting(
        "right",
        "hint-is-proof",
        "removed-at-suspicion",
        "votes-on-hint",
        "sure-despite-hints",
        "age-after-transfer",
        "age-of-everybody",
        "lease-from-answer",
    )
    Moments = Constant(6)
    Lease = Constant(3)
    Suspicion = Constant(2)
    Election = Constant(3)
    """How long a leader must have been silent, with a hint and without."""

    Moment = Range(0, Moments)

    now = Var(Moment)

    # The first controller. A round and an answer to one are on their way as the moment at which it was sent.
    round = Var(Option(Moment), init=None)
    answered = Var(Option(Moment), init=None)
    heard = Var(Moment)
    """When the voter heard it last."""
    reached = Var(Moment)
    """When the newest round was sent of which it has an answer: its own lease counts from here."""
    replaced = Var(Bool, init=False)
    """The second controller leads: the voter answers no round any more."""
    elected = Var(Moment)
    waited = Var(Bool, init=False)
    """Whether the voter had waited for the first one's silence; it does not when that one hands over."""

    # The node. A heartbeat and an answer to one are on their way as the moment at which that was sent.
    beat = Var(Option(Moment), init=None)
    reply = Var(Option(Moment), init=None)
    contact = Var(Moment)
    """Its lease counts from here."""
    renewed = Var(Fn(Range(1, 2), Moment), init=0)
    """When the controller of a term last answered it, or began to lead."""
    ended = Var(Bool, init=False)
    """Its session has ended, and others lead what it led."""
    first_ended = Var(Bool, init=False)
    """The same of the first controller."""

    # -- time and rounds -----------------------------------------------------------------------------------

    @action
    def Pass(s):
        when(s.now < s.Moments)
        s.now = s.now + 1

    @action
    def Begin(s):
        """The first controller asks everybody whether they still follow."""
        when(~s.replaced)
        s.round = s.now

    @action
    def Follow(s):
        """A round reaches the voter, which answers it."""
        when(is_some(s.round), ~s.replaced)
        s.round = None
        s.answered = s.round
        s.heard = s.now

    @action
    def Reach(s):
        """The answer is there."""
        when(is_some(s.answered))
        s.answered = None
        s.reached = maximum(s.reached, get(s.answered))

    # -- the second controller -----------------------------------------------------------------------------

    def lead(s, waited):
        s.replaced = True
        s.elected = s.now
        s.waited = waited
        s.renewed[2] = s.now

    @action
    def Elect(s):
        """The voter has not heard the first one for long enough; with a hint, which there may be at any time,
        the suspicion time is enough.
        """
        when(~s.replaced)
        if s.variant != "votes-on-hint":
            when(s.now - s.heard >= s.Suspicion)
        s.lead(True)

    @action
    def TakeOver(s):
        """The first one hands over: nobody waits for anything."""
        when(~s.replaced, s.now > 0)
        s.lead(s.variant == "age-after-transfer")

    # -- the node's session --------------------------------------------------------------------------------

    @action
    def Beat(s):
        when(~s.ended)
        s.beat = s.now

    @action
    def AnswerFirst(s):
        """The first controller answers while it is sure that there is no other."""
        sure = s.Election if s.variant == "sure-despite-hints" else s.Suspicion
        when(is_some(s.beat), ~s.ended, s.now - s.reached <= sure)
        # Whoever hands over is sure of nothing from then on.
        when(Or(~s.replaced, s.waited))
        s.beat = None
        s.reply = s.beat
        s.renewed[1] = s.now

    @action
    def AnswerSecond(s):
        when(is_some(s.beat), ~s.ended, s.replaced)
        s.beat = None
        s.reply = s.beat
        s.renewed[2] = s.now

    @action
    def Hear(s):
        """A lease counts from when the heartbeat was sent."""
        when(is_some(s.reply))
        s.reply = None
        s.contact = s.now if s.variant == "lease-from-answer" else maximum(s.contact, get(s.reply))

    @definition
    def Patience(s):
        """How long a session lasts of whose node it is said that nobody listens there."""
        if s.variant == "hint-is-proof":
            return 0
        if s.variant == "removed-at-suspicion":
            return s.Suspicion
        return s.Lease

    @action
    def EndByFirst(s):
        """It has not answered for so long."""
        when(~s.replaced, ~s.ended, s.now > 0, s.now - s.renewed[1] >= s.Patience())
        s.ended = True

    @action
    def EndBySecond(s):
        """A session is a whole one from the beginning of the term."""
        age = s.now - s.renewed[2]
        if s.variant == "age-of-everybody":
            age = If(And(s.waited, s.renewed[2] == s.elected), age + s.Suspicion, age)
        when(s.replaced, ~s.ended, age >= s.Patience())
        s.ended = True

    @action
    def EndFirst(s):
        """The first controller's session is older, if those who elected the second had waited."""
        age = s.now - s.elected
        when(s.replaced, ~s.first_ended, If(s.waited, age + s.Suspicion, age) >= s.Patience())
        s.first_ended = True

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def SilentBeforeReplaced(s):
        """Whoever lives though its session has ended serves no more."""
        return And(
            Implies(s.ended, s.now - s.contact >= s.Lease),
            Implies(s.first_ended, s.now - s.reached >= s.Lease),
        )

    @sometimes
    def AFalseHintIsOutlived(s):
        """A node that was answered serves on after the term in which it was."""
        return And(s.replaced, s.waited, ~s.ended, s.contact > s.elected)

    @sometimes
    def TheFirstIsReplacedSoon(s):
        """Its session ends before a whole lease of the new term has passed."""
        return And(s.first_ended, s.now - s.elected < s.Lease)

    @sometimes
    def ALateAnswerIsHeard(s):
        return And(s.ended, s.contact > 0)
