"""Commands of the metadata group that come late, or twice (I1, M3): one name, streams that come and go.

Clients ask for changes of what bears a name; others make such changes meanwhile. A request is resolved while
its client is there: from then on the command says which stream it means, which index its author had read, and
up to which index it means anything. The network keeps every command and brings it to the log at any time, any
number of times, also when the client has gone.

A stream's id is the index of the entry that made it; 0 stands for none. What a client could mean is told by
what bore the name while it was there.
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *

WITHOUT_READING = ("creation-without-reading", "counted-memory", "bound-not-checked")


class Commands(Model):
    """The group's log, as far as it is about one name."""

    variant = Setting(
        "right",
        "name-at-apply",
        "resolved-when-back",
        "creation-without-reading",
        "counted-memory",
        "bound-not-checked",
    )
    Requests = Constant(2)
    Entries = Constant(5)
    Span = Constant(3)
    """Entries: of the log. Span: so far a command may come behind the last entry that its author had read."""

    Request = Sort(Requests)
    Index = Range(0, Entries)

    # The metadata, as every node has it that has applied so much.
    index = Var(Index)
    bearer = Var(Index)
    """The stream that bears the name."""
    deleted = Var(Index)
    """Index of the last deletion."""
    remembered = Var(Set(Request), init=[])

    # What clients asked for, and the commands that nodes have made of it.
    client = Var(Fn(Request, Enum("idle", "there", "gone")), init="idle")
    creates = Var(Fn(Request, Bool), init=False)
    """Whether it asked for the stream, or for its end."""
    sent = Var(Fn(Request, Bool), init=False)
    meant = Var(Fn(Request, Index))
    as_of = Var(Fn(Request, Index))
    until = Var(Fn(Request, Index))

    # What only we know.
    known = Var(Fn(Request, Set(Index)), init=[])
    """What bore the name while the client was there."""
    left = Var(Fn(Request, Index))
    """The last entry when it went."""
    effects = Var(Fn(Request, Range(0, 2)))
    wrong = Var(Bool, init=False)

    # -- clients and nodes ---------------------------------------------------------------------------------

    @action
    def Ask(s, r: Request, creates: Bool):
        when(s.client[r] == "idle")
        s.client[r] = "there"
        s.creates[r] = creates
        s.known[r] = [s.bearer]

    @action
    def GiveUp(s, r: Request):
        """Or it has its answer."""
        when(s.client[r] == "there")
        s.client[r] = "gone"
        s.left[r] = s.index

    @action
    def Resolve(s, r: Request):
        """A read-index round that began when it was asked says what bears the name; the command is sent."""
        when(~s.sent[r], Or(s.creates[r], s.bearer != 0))
        if s.variant == "resolved-when-back":
            when(s.client[r] != "idle")
        else:
            when(s.client[r] == "there")
        s.sent[r] = True
        s.meant[r] = s.bearer
        s.as_of[r] = s.index
        s.until[r] = minimum(s.index + s.Span, s.Entries)

    # -- the log -------------------------------------------------------------------------------------------

    def entry(s, bearer, deleted, of=None):
        """One entry more is applied, the command of a request or another."""
        following = s.index + 1
        when(s.index < s.Entries)
        s.index = following
        s.bearer = bearer
        s.deleted = deleted

        def noted(q):
            before = False if s.variant == "counted-memory" else member(q, s.remembered)
            return Or(before, q == of) if of is not None else before

        def kept(q):
            return noted(q) if s.variant == "counted-memory" else And(noted(q), s.until[q] > following)

        s.remembered = such_that(s.Request, kept)
        s.known = function(
            s.Request,
            lambda q: If(s.client[q] == "there", with_member(s.known[q], bearer), s.known[q]),
        )

    @action
    def Arrive(s, r: Request):
        """M3: a command comes to the log, for the first time or again."""
        following = s.index + 1
        when(s.sent[r], s.index < s.Entries)
        known = member(r, s.remembered)
        if s.variant in ("counted-memory", "bound-not-checked"):
            counts = ~known
        else:
            counts = And(~known, following <= s.until[r])
        target = s.bearer if s.variant == "name-at-apply" else s.meant[r]
        deletes = And(counts, ~s.creates[r], s.bearer != 0, s.bearer == target)
        creates = And(counts, s.creates[r], s.bearer == 0)
        if s.variant not in WITHOUT_READING:
            creates = And(creates, s.as_of[r] >= s.deleted)
        s.effects[r] = minimum(s.effects[r] + If(Or(deletes, creates), 1, 0), 2)
        s.wrong = Or(
            s.wrong,
            And(deletes, ~member(s.bearer, s.known[r])),
            And(creates, s.client[r] == "gone", s.deleted > s.left[r]),
        )
        bearer = If(deletes, 0, If(creates, following, s.bearer))
        s.entry(bearer, If(deletes, following, s.deleted), r)

    @action
    def OtherCreates(s):
        """Somebody else, in time and at once."""
        when(s.bearer == 0, s.index < s.Entries)
        s.entry(s.index + 1, s.deleted)

    @action
    def OtherDeletes(s):
        when(s.bearer != 0, s.index < s.Entries)
        s.entry(0, s.index + 1)

    @action
    def Other(s):
        """A command about something else."""
        s.entry(s.bearer, s.deleted)

    # -- properties ----------------------------------------------------------------------------------------

    @invariant
    def TakesEffectOnce(s):
        return Forall(s.Request, lambda r: s.effects[r] <= 1)

    @invariant
    def AsMeant(s):
        """A deletion deletes what bore the name while its author was there; no creation brings back what was
        deleted after he had gone.
        """
        return ~s.wrong

    @sometimes
    def AnAuthorIsServedLate(s):
        return Exists(
            s.Request, lambda r: And(s.effects[r] == 1, s.client[r] == "gone", s.index > s.left[r] + 1)
        )

    @sometimes
    def AnotherStreamBearsTheNameOfADeletion(s):
        return Exists(
            s.Request,
            lambda r: And(s.sent[r], ~s.creates[r], s.bearer > s.meant[r], s.effects[r] == 0),
        )

    @sometimes
    def ABoundHasPassed(s):
        return Exists(s.Request, lambda r: And(s.sent[r], s.index >= s.until[r], s.effects[r] == 0))
