"""Replication told briefly, for models of what lies on it: who leads and is in sync is decided in one step.

A model adds what a record is (`log`, `committed`), what is kept beside a log, and how that goes along when a
record is copied (`fetch`) and when an end is cut (`truncate`).
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *


class PartitionLog(Model):
    """The copies of one partition: copying, cutting, committing, electing."""

    Replicas = Constant(2)
    Records = Constant(3)
    Epochs = Constant(3)
    """Records: of one log."""

    Replica = Sort(Replicas)
    Place = Range(0, Records - 1)
    Offset = Range(0, Records)
    Epoch = Range(0, Epochs)

    # What the metadata group has decided.
    newest = Var(Epoch, init=1)
    leaders = Var(Fn(Epoch, Option(Replica)))
    isr = Var(Set(Replica), init=lambda s: elements(s.Replica))

    # Each copy. Its log is a sequence of records with an epoch.
    epoch = Var(Fn(Replica, Epoch), init=1)
    hw = Var(Fn(Replica, Offset))

    @initial
    def Begin(s, leader: Replica):
        s.leaders[1] = leader

    # -- words ---------------------------------------------------------------------------------------------

    @definition
    def Leads(s, r: Replica):
        """It believes so, rightly or not."""
        return s.leaders[s.epoch[r]] == r

    @definition
    def TrulyLeads(s, r: Replica):
        """In the newest epoch."""
        return And(s.epoch[r] == s.newest, s.leaders[s.newest] == r)

    @definition
    def Hears(s, lead: Replica, f: Replica):
        """Both are in one epoch (R6)."""
        return And(lead != f, s.Leads(lead), s.epoch[lead] == s.epoch[f])

    @definition
    def Agreed(s, f: Replica, lead: Replica):
        """How far the two logs agree, by their epochs."""
        shorter = minimum(size(s.log[f]), size(s.log[lead]))
        return count(numbers(0, shorter), lambda i: s.log[f][i].epoch == s.log[lead][i].epoch)

    @definition
    def Agrees(s, f: Replica, lead: Replica):
        """The follower's log is a prefix of the leader's."""
        return And(size(s.log[f]) <= size(s.log[lead]), s.Agreed(f, lead) == size(s.log[f]))

    # -- copying and committing ----------------------------------------------------------------------------

    def fetch(s, f, lead):
        """One record, and the HW. Returns whether there was a record, which, and its place."""
        when(f != lead, s.Hears(lead, f), s.Agrees(f, lead))
        end = size(s.log[f])
        copies = end < size(s.log[lead])
        hw = maximum(s.hw[f], minimum(s.hw[lead], end + If(copies, 1, 0)))
        when(Or(copies, hw > s.hw[f]))
        entry = s.log[lead][end]
        s.log[f] = If(copies, append(s.log[f], entry), s.log[f])
        s.hw[f] = hw
        return copies, entry, end

    def truncate(s, f, lead):
        """R6, all rounds at once. Returns where the log ends then."""
        when(f != lead, s.Hears(lead, f), ~s.Agrees(f, lead))
        end = s.Agreed(f, lead)
        s.log[f] = prefix(s.log[f], end)
        s.hw[f] = minimum(s.hw[f], end)
        return end

    @action
    def Commit(s, lead: Replica):
        """R2, with the followers' progress read at once."""
        hw = s.hw[lead]
        when(s.TrulyLeads(lead), hw < size(s.log[lead]))

        def has(m):
            same = And(s.epoch[m] == s.epoch[lead], hw < size(s.log[m]))
            return Or(m == lead, And(same, s.log[m][hw].epoch == s.log[lead][hw].epoch))

        when(Forall(s.isr, has))
        s.hw[lead] = hw + 1
        s.committed = If(hw == size(s.committed), append(s.committed, s.log[lead][hw]), s.committed)

    # -- who leads, who is in sync -------------------------------------------------------------------------

    @action
    def Elect(s, to: Replica):
        """R16."""
        when(s.newest < s.Epochs, member(to, s.isr), s.leaders[s.newest] != to)
        s.newest = s.newest + 1
        s.leaders[s.newest + 1] = to

    @action
    def JoinEpoch(s, r: Replica):
        when(s.epoch[r] < s.newest)
        s.epoch[r] = s.newest

    @action
    def Shrink(s, lead: Replica, f: Replica):
        when(f != lead, s.TrulyLeads(lead), member(f, s.isr))
        s.isr = without(s.isr, f)

    @action
    def Expand(s, lead: Replica, f: Replica):
        """R10: it has what is committed."""
        when(f != lead, s.TrulyLeads(lead), ~member(f, s.isr), s.Hears(lead, f), s.Agrees(f, lead))
        when(size(s.committed) <= size(s.log[f]))
        s.isr = with_member(s.isr, f)

    @invariant
    def CommittedOnIsr(s):
        """Whoever may be elected has what is committed, or began behind it."""

        def complete(r):
            return prefix(s.log[r], size(s.committed)) == s.committed

        return Forall(s.isr, complete)
