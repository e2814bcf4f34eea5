"""Mirrors of another cluster's stream: which stream it is that a name means there.

Within a cluster ids rise, so a stream that bears the origin's name and was created later is known to be
another one. Of another cluster nothing is known but what it answers: the stream may have been deleted and
made again, or another cluster may answer at that address. So the first answer is not copied. It *names* the
origin: what it says of itself is written into the mirror's own configuration, once and for ever, and records
are taken from nobody else.

What is modelled: an origin that is made again under its name, with other records; a mirror whose leaders come
and go with what is uncommitted; answers that come late, or again. A record is the making of the origin that
it is of. The end of the log is the position, as in the model `mirrors`, which says why.

    unnamed            whoever answers is copied
    named-by-leader    each leader remembers who has answered it first
    copied-first       the first answer is copied at once, and names the origin too
    named-anew         the newest answer names the origin
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class NamedOrigins(Model):
    """One partition of a mirror, and of each stream that bears the origin's name, one after the other."""

    variant = Setting("right", "unnamed", "named-by-leader", "copied-first", "named-anew")
    Makings = Constant(2)
    Records = Constant(2)
    Epochs = Constant(2)

    Making = Range(1, Makings)
    Name = Range(0, Makings)
    """0: none."""
    Epoch = Range(1, Epochs)
    Offset = Range(0, Records - 1)
    Count = Range(0, Records)
    Answer = Record(of=Making, at=Offset)

    now = Var(Making, init=1)
    """Which making bears the name."""
    committed = Var(Count)
    """So much it has."""

    epoch = Var(Epoch, init=1)
    mirror = Var(Seq(Making, Records))
    hw = Var(Count)
    named = Var(Name)
    """By the mirror's configuration."""
    heard = Var(Name)
    """By the leader's memory, in one variant."""
    answer = Var(Option(Answer))

    # -- the origin ----------------------------------------------------------------------------------------

    @action
    def Grow(s):
        when(s.committed < s.Records)
        s.committed = s.committed + 1

    @action
    def Remake(s):
        """It is deleted, and another one is made."""
        when(s.now < s.Makings)
        s.now = s.now + 1
        s.committed = 0

    # -- between them --------------------------------------------------------------------------------------

    @action
    def Ask(s, at: Offset):
        """The mirror's leader asks for what follows, and gets it of whoever bears the name."""
        when(s.hw == size(s.mirror), at == size(s.mirror), at < s.committed)
        s.answer = {"of": s.now, "at": at}

    @action
    def NameIt(s):
        """The answer says which stream this is: that is committed in the configuration."""
        when(is_some(s.answer))
        if s.variant != "named-anew":
            when(s.named == 0)
        s.named = get(s.answer).of

    @action
    def Take(s):
        """The answer comes, or comes again, and is copied."""
        when(is_some(s.answer), get(s.answer).at == size(s.mirror))
        of = get(s.answer).of
        if s.variant in ("right", "named-anew"):
            when(s.named == of)
        if s.variant == "copied-first":
            when(Or(s.named == 0, s.named == of))
        if s.variant == "named-by-leader":
            when(Or(s.heard == 0, s.heard == of))
            s.heard = of
        s.mirror = append(s.mirror, of)

    # -- the mirror ----------------------------------------------------------------------------------------

    @action
    def Commit(s):
        when(s.hw < size(s.mirror))
        s.hw = s.hw + 1

    @action
    def Elect(s, end: Count):
        """Another one leads, which has this much."""
        when(s.epoch < s.Epochs, s.hw <= end, end <= size(s.mirror))
        s.epoch = s.epoch + 1
        s.mirror = prefix(s.mirror, end)
        s.heard = 0

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def OfOneOrigin(s):
        """All that the mirror has committed is of one making."""
        return Forall(
            s.Offset,
            lambda i: Forall(
                s.Offset, lambda j: Implies(And(i < s.hw, j < s.hw), s.mirror[i] == s.mirror[j])
            ),
        )

    @invariant
    def OfTheNamedOne(s):
        """And of the one that the configuration names, where it is to name one."""
        if s.variant in ("unnamed", "named-by-leader"):
            return True
        return Forall(s.Offset, lambda i: Implies(i < s.hw, s.mirror[i] == s.named))

    @sometimes
    def AllIsHere(s):
        """Under another leader."""
        return And(s.epoch > 1, s.hw == s.Records)

    @sometimes
    def StandsStill(s):
        """Another making bears the name, and has what the mirror has not."""
        return And(And(s.named == 1, s.now == 2), And(s.hw < s.Records, s.committed == s.Records))
