"""Sources: one log that has what several others have committed, at offsets of its own (R29, ADR 0093).

The leader of the log asks each origin for what follows the place that it has reached there, and appends what
passes the filter, with the places of all origins behind it.

- *The last record says all places*, committed or not: a new leader reads it, and nothing else. By what is
  committed alone it copies again what it has inherited; where a record names its own origin only, the others
  are copied again.
- *Where an origin begins* is part of its filter: what lies before that does not pass.
- *What does not pass* moves the place in the leader's memory. The next record that passes says it; a leader
  that comes before that goes through it again.
- *The last committed record stays*: the front of the log does not pass it.
- *Answers name the place that was asked for*, and count if the log goes on there now. So a leader may ask
  while something is not committed.
- *An origin may be taken away, and given again*. Records go on to say its place, and it goes on there.

What is modelled: two origins, whose committed records only grow, of which some do not pass; answers that are
on their way for as long as they like, and again; elections, which give up what is not committed; the log's
start.

What is abstracted. *The origins' own elections*: they answer with what is committed (see `mirrors`). *Many
records in one answer.*

    position-of-committed      a new leader goes by what is committed of its log
    position-in-memory         a leader begins where the origin ends
    answer-anywhere            an answer is appended whatever the log has by now
    front-forgets              the front goes with the last record
    names-its-own              a record says the place of its own origin only
    forgets-taken-away         a record says no place of an origin that was taken away
    begins-at-its-start        a new leader begins where an origin is said to begin
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class Sources(Model):
    """A log and its two origins. Of each origin, a record passes, or does not."""

    variant = Setting(
        "right",
        "position-of-committed",
        "position-in-memory",
        "answer-anywhere",
        "front-forgets",
        "names-its-own",
        "forgets-taken-away",
        "begins-at-its-start",
    )
    Records = Constant(2)
    """Of each origin."""
    Entries = Constant(3)
    Epochs = Constant(2)

    Epoch = Range(1, Epochs)
    Origin = Enum("left", "right")
    Offset = Range(0, Records - 1)
    Count = Range(0, Records)
    Place = Range(0, Entries - 1)
    End = Range(0, Entries)
    Entry = Record(of=Origin, at=Offset, left=Count, right=Count)
    """left, right: what is next of each origin."""
    Answer = Record(of=Origin, at=Offset)

    committed = Var(Fn(Origin, Count))
    epoch = Var(Epoch, init=1)
    log = Var(Seq(Entry, Entries))
    hw = Var(End)
    start = Var(End)
    place = Var(Fn(Origin, Count))
    """What the leader asks for next, of each origin."""
    answer = Var(Option(Answer))
    away = Var(Fn(Origin, Bool))
    """Which were taken away."""

    # -- words ---------------------------------------------------------------------------------------------

    @definition
    def Passes(s, origin: Origin, at: Offset):
        """The filter: all but the first record of the one origin, which begins at 1; all of the other one."""
        return Or(origin == "right", at > 0)

    @definition
    def Said(s, origin: Origin, end: End):
        """What is next of an origin, by the last record of a log that ends there."""
        return greatest(
            s.Place,
            lambda i: If(
                And(s.start <= i, i + 1 == end), If(origin == "left", s.log[i].left, s.log[i].right), 0
            ),
        )

    # -- the origins ---------------------------------------------------------------------------------------

    @action
    def Grow(s, origin: Origin):
        when(s.committed[origin] < s.Records)
        s.committed[origin] = s.committed[origin] + 1

    # -- the log -------------------------------------------------------------------------------------------

    @action
    def Ask(s, origin: Origin, at: Offset):
        """And the origin answers: the record there, or that it does not pass."""
        when(at == s.place[origin], at < s.committed[origin], ~s.away[origin])
        s.answer = {"of": origin, "at": at}

    @action
    def Take(s):
        """The answer comes, or comes again, with a record that passes."""
        when(is_some(s.answer), size(s.log) < s.Entries)
        one = get(s.answer)
        when(~s.away[one.of])
        if s.variant != "answer-anywhere":
            when(one.at == s.place[one.of])
        when(s.Passes(one.of, one.at))
        next = one.at + 1
        if s.variant == "names-its-own":
            left, right = If(one.of == "left", next, 0), If(one.of == "left", 0, next)
        else:
            left = If(one.of == "left", next, s.place["left"])
            right = If(one.of == "left", s.place["right"], next)
        if s.variant == "forgets-taken-away":
            left = If(s.away["left"], 0, left)
            right = If(s.away["right"], 0, right)
        s.log = append(s.log, {"of": one.of, "at": one.at, "left": left, "right": right})
        s.place[one.of] = next

    @action
    def PassOver(s):
        """It does not pass."""
        when(is_some(s.answer))
        one = get(s.answer)
        when(~s.away[one.of])
        if s.variant != "answer-anywhere":
            when(one.at == s.place[one.of])
        when(~s.Passes(one.of, one.at))
        s.place[one.of] = one.at + 1

    @action
    def TakeAway(s, origin: Origin):
        when(~s.away[origin])
        s.away[origin] = True

    @action
    def GiveAgain(s, origin: Origin):
        when(s.away[origin])
        s.away[origin] = False

    @action
    def Commit(s):
        when(s.hw < size(s.log))
        s.hw = s.hw + 1

    @action
    def Forget(s):
        """The front goes by one record; the last one that is committed stays."""
        most = s.hw if s.variant == "front-forgets" else s.hw - 1
        when(s.start < most)
        s.start = s.start + 1

    @action
    def Elect(s, end: End):
        """Another one leads, which has this much."""
        when(s.epoch < s.Epochs, s.hw <= end, end <= size(s.log))
        s.epoch = s.epoch + 1
        known = s.hw if s.variant == "position-of-committed" else end
        left, right = s.Said("left", known), s.Said("right", known)
        if s.variant == "position-in-memory":
            left, right = s.committed["left"], s.committed["right"]
        if s.variant == "begins-at-its-start":
            left, right = 1, 0
        s.place["left"] = left
        s.place["right"] = right
        s.log = prefix(s.log, end)

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def EachOnce(s):
        """No record of an origin is committed twice."""
        return Forall(
            s.Place,
            lambda i: Forall(
                s.Place,
                lambda j: Implies(
                    And(i < j, j < s.hw),
                    Or(s.log[i].of != s.log[j].of, s.log[i].at != s.log[j].at),
                ),
            ),
        )

    @invariant
    def NoneSkipped(s):
        """What lies below a committed record of its origin, and passes, is committed before it."""
        return Forall(
            s.Place,
            lambda i: Implies(
                i < s.hw,
                Forall(
                    s.Offset,
                    lambda at: Implies(
                        And(at < s.log[i].at, s.Passes(s.log[i].of, at)),
                        Exists(
                            s.Place,
                            lambda j: And(
                                j < i,
                                And(s.log[j].of == s.log[i].of, s.log[j].at == at),
                            ),
                        ),
                    ),
                ),
            ),
        )

    @sometimes
    def BothAreHere(s):
        """Under another leader, with one that did not pass."""
        return And(
            And(s.epoch > 1, s.place["left"] > 1),
            And(
                Exists(s.Place, lambda i: And(i < s.hw, s.log[i].of == "left")),
                Exists(s.Place, lambda i: And(i < s.hw, s.log[i].of == "right")),
            ),
        )
