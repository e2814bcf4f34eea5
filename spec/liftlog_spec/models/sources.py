"""Sources: one log that has what several others have committed, at offsets of its own. A design (ADR 0084).

The leader of the log asks each origin for what follows the last record that it has of it, and appends what
passes the filter, with the origin and its offset: the position is a function of the log, as the numbers of an
idempotent producer are (L2).

- *The position is what the log says, to its end.* By what is committed alone a new leader copies again what
  it has inherited.
- *A record that says how far nothing passed the filter* (a note) takes the place of what is left out: a new
  leader would go through all of that again.
- *What the log's window forgets is said again in it*: the front goes only as far as behind it each origin is
  named.
- *Answers name the offset that was asked for*, and count if that is where the log goes on now.

What is modelled: two origins, whose committed records only grow, of which some do not pass; answers that are
on their way for as long as they like, and again; elections, which give up what is not committed; the log's
start.

What is abstracted. *The origins' own elections*: they answer with what is committed (see `mirrors`). *Many
records in one answer.*

    position-of-committed      a new leader goes by what is committed of its log
    position-in-memory         a leader begins where the origin ends
    answer-anywhere            an answer is appended whatever the log has by now
    front-forgets              the front goes with the last that is known of an origin
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
    Entry = Record(of=Origin, at=Offset, note=Bool)
    """note: nothing of this offset passed."""
    Answer = Record(of=Origin, at=Offset)

    committed = Var(Fn(Origin, Count))
    epoch = Var(Epoch, init=1)
    log = Var(Seq(Entry, Entries))
    hw = Var(End)
    start = Var(End)
    began = Var(Bool)
    """This leader has asked."""
    answer = Var(Option(Answer))

    # -- words ---------------------------------------------------------------------------------------------

    @definition
    def Passes(s, origin: Origin, at: Offset):
        """The filter: the first record of the one origin, all but the first of the other one."""
        return (origin == "left") == (at == 0)

    @definition
    def Known(s, origin: Origin, begin: End, end: End):
        """Up to where the log has an origin, by its entries of [begin, end)."""
        return greatest(
            s.Place,
            lambda i: If(And(begin <= i, i < end), If(s.log[i].of == origin, s.log[i].at + 1, 0), 0),
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
        end = s.hw if s.variant == "position-of-committed" else size(s.log)
        position = s.Known(origin, s.start, end)
        if s.variant == "position-in-memory":
            when(If(s.began, at == position, at + 1 == s.committed[origin]))
        else:
            when(at == position)
        when(at < s.committed[origin])
        s.answer = {"of": origin, "at": at}
        s.began = True

    @action
    def Take(s):
        """The answer comes, or comes again."""
        when(is_some(s.answer), size(s.log) < s.Entries)
        one = get(s.answer)
        if s.variant in ("right", "front-forgets"):
            when(one.at == s.Known(one.of, s.start, size(s.log)))
        note = ~s.Passes(one.of, one.at)
        s.log = append(s.log, {"of": one.of, "at": one.at, "note": note})
        if s.variant in ("position-of-committed", "position-in-memory"):
            s.answer = None

    @action
    def Commit(s):
        when(s.hw < size(s.log))
        s.hw = s.hw + 1

    @action
    def Forget(s):
        """The front goes by one entry, if what it says is said again behind it."""
        when(s.start < s.hw)
        if s.variant != "front-forgets":
            first = s.log[s.start]
            when(s.Known(first.of, s.start + 1, s.hw) > 0)
        s.start = s.start + 1

    @action
    def Elect(s, end: End):
        """Another one leads, which has this much."""
        when(s.epoch < s.Epochs, s.hw <= end, end <= size(s.log))
        s.epoch = s.epoch + 1
        s.log = prefix(s.log, end)
        s.began = False

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
                                And(s.log[j].of == s.log[i].of, And(s.log[j].at == at, ~s.log[j].note)),
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
            s.epoch > 1,
            And(
                Exists(s.Place, lambda i: And(i < s.hw, And(s.log[i].of == "left", s.log[i].note))),
                Exists(s.Place, lambda i: And(i < s.hw, s.log[i].of == "right")),
            ),
        )
