"""Compaction: every copy tells each key's last value; what was deleted stays so (rules C1, C2, C5).

Each replica compacts its own copy of the committed log when it likes, and copies from others what it
lacks, so no two need hold the same records. Two things are wanted. A record that is the last of its key
is in every copy that has got that far, unless it is a tombstone that was dropped: KeepsTheLast. And if it
was dropped, no copy has anything older of that key to show in its place: NothingComesBack. Together,
whoever reads a copy to its end gets what the whole log says.

The point is C2: a tombstone may go when *every* replica, in sync or not, has compacted past it. What
follows from that is true for ever, even if a disk is wiped afterwards: nobody is left to copy an older
record from.

Abstracted: only committed offsets; a leader is whoever has reached all of them; `superseded` and
`dropped` are kept for the proof and read by no step. What a leader knows of clean points is true at that
moment: how such knowledge gets old is in the model (liftlog_spec/models/compaction.py), whose steps are
checked against these by liftlog_spec/mappings/compaction.py. Retention times are not in it (C4 is about slow
readers), nor are log starts, and the order of syncs inside a run, which the simulator tests.
"""

# mypy: ignore-errors
from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.proofs.orders import is_total_order


class Compaction(Model):
    """One partition with keys."""

    variant = Setting("right", "own-clean-point", "repair-keeps-clean-point", "clean-before-rewritten")
    Nodes = Constant(2)
    Offsets = Constant(2)
    Keys = Constant(1)

    Node = Sort(Nodes)
    Offset = Sort(Offsets, symmetric=False)
    Key = Sort(Keys)

    upto = Rigid(Fn(Offset, Offset, Bool), lambda i, j: i <= j)

    # The log as it was written; and of the records in it, which have a later one with their key.
    written = Var(Fn(Offset, Bool), init=False)
    key = Var(Fn(Offset, Key))
    tombstone = Var(Fn(Offset, Bool), init=False)
    superseded = Var(Fn(Offset, Bool), init=False)
    # Copies: how far they go, what is in them, and what their clean point has passed.
    reached = Var(Fn(Node, Offset, Bool), init=False)
    has = Var(Fn(Node, Offset, Bool), init=False)
    passed = Var(Fn(Node, Offset, Bool), init=False)
    # Tombstones that may go, and those that somebody has dropped.
    horizon = Var(Fn(Offset, Bool), init=False)
    dropped = Var(Fn(Offset, Bool), init=False)

    @axiom
    def OffsetsAreOrdered(s):
        return is_total_order(s.Offset, s.upto)

    def before(s, i, j):
        return And(s.upto[i][j], i != j)

    def older(s, i, j):
        """j is an older record of i's key."""
        return And(s.before(j, i), s.written[j], s.key[j] == s.key[i])

    def complete(s, n, i):
        """n has reached everything before i."""
        return Forall(s.Offset, lambda j: Implies(And(s.before(j, i), s.written[j]), s.reached[n][j]))

    # -- steps ---------------------------------------------------------------------------------------------

    @action
    def Append(s, n: Node, i: Offset, k: Key, deletes: Bool):
        when(Forall(s.Offset, lambda j: Implies(s.written[j], And(s.before(j, i), s.reached[n][j]))))
        s.written[i] = True
        s.key[i] = k
        s.tombstone[i] = deletes
        s.superseded = function(
            s.Offset, lambda j: Or(s.superseded[j], And(s.written[j], s.before(j, i), s.key[j] == k))
        )
        s.reached[n][i] = True
        s.has[n][i] = True

    @action
    def Fetch(s, n: Node, source: Node, i: Offset):
        """The next offset, whether the source still has a record there or not."""
        when(s.reached[source][i], Not(s.reached[n][i]), s.complete(n, i))
        s.reached[n][i] = True
        s.has[n][i] = s.has[source][i]

    @action
    def Thin(s, n: Node, i: Offset, j: Offset):
        """A record goes because the copy has a later one of its key; a run may end at any time."""
        when(s.has[n][i], s.has[n][j], s.before(i, j), s.key[i] == s.key[j])
        s.has[n][i] = False

    @action
    def Pass(s, n: Node, c: Offset):
        """Up to and with c there is one record of each key: the clean point moves behind it."""
        when(s.reached[n][c], s.complete(n, c))

        def one(i, j):
            both = And(s.has[n][i], s.has[n][j], s.before(i, j), s.upto[j][c])
            return Implies(both, s.key[i] != s.key[j])

        if s.variant != "clean-before-rewritten":
            when(Forall(s.Offset, s.Offset, one))
        s.passed[n] = function(s.Offset, lambda i: Or(s.passed[n][i], And(s.written[i], s.upto[i][c])))

    @action
    def Learn(s, i: Offset):
        """All clean points have passed i, but for those of copies that begin anew and are not there yet."""

        def empty(n):
            return Forall(s.Offset, lambda j: Implies(s.upto[j][i], Not(s.reached[n][j])))

        if s.variant == "own-clean-point":
            when(Exists(s.Node, lambda n: s.passed[n][i]))
        else:
            when(s.written[i], Forall(s.Node, lambda n: Or(s.passed[n][i], empty(n))))
        s.horizon[i] = True

    @action
    def Drop(s, n: Node, i: Offset):
        when(s.horizon[i], s.tombstone[i], s.has[n][i])
        s.has[n][i] = False
        s.dropped[i] = True

    @action
    def Repair(s, n: Node, source: Node, i: Offset):
        """A damaged record is copied again; what n knew to be clean from there on is so no longer."""
        when(s.reached[n][i], s.reached[source][i])
        s.has[n][i] = s.has[source][i]
        if s.variant != "repair-keeps-clean-point":
            s.passed[n] = function(s.Offset, lambda j: And(s.passed[n][j], s.before(j, i)))

    @action
    def Wipe(s, n: Node):
        """The disk is lost."""
        s.reached[n] = function(s.Offset, lambda i: False)
        s.has[n] = function(s.Offset, lambda i: False)
        s.passed[n] = function(s.Offset, lambda i: False)

    # -- what is wanted ------------------------------------------------------------------------------------

    @invariant
    def KeepsTheLast(s):
        def keeps(n, i):
            return Implies(s.reached[n][i], Or(s.has[n][i], s.superseded[i], s.dropped[i]))

        return Forall(s.Node, s.Offset, keeps)

    @invariant
    def NothingComesBack(s):
        def nothing(n, i, j):
            return Implies(And(s.dropped[i], Not(s.superseded[i]), s.older(i, j)), Not(s.has[n][j]))

        return Forall(s.Node, s.Offset, s.Offset, nothing)

    @invariant
    def OnlyTombstonesAreDropped(s):
        return Forall(s.Offset, lambda i: Implies(s.dropped[i], s.tombstone[i]))

    # -- why -----------------------------------------------------------------------------------------------

    @invariant
    def CopiesHoldWhatTheyReached(s):
        return Forall(s.Node, s.Offset, lambda n, i: Implies(s.has[n][i], s.reached[n][i]))

    @invariant
    def ReachedWasWritten(s):
        return Forall(s.Node, s.Offset, lambda n, i: Implies(s.reached[n][i], s.written[i]))

    @invariant
    def PassedIsComplete(s):
        """A clean point lies in what the copy has reached."""

        def complete(n, i, j):
            return Implies(And(s.passed[n][i], s.written[j], s.upto[j][i]), s.reached[n][j])

        return Forall(s.Node, s.Offset, s.Offset, complete)

    @invariant
    def PassedWasWritten(s):
        return Forall(s.Node, s.Offset, lambda n, i: Implies(s.passed[n][i], s.written[i]))

    @invariant
    def LaterRecordsSupersede(s):
        def supersedes(i, j):
            return Implies(And(s.written[i], s.older(i, j)), s.superseded[j])

        return Forall(s.Offset, s.Offset, supersedes)

    @invariant
    def NothingOlderIsPassed(s):
        """Behind its clean point a copy has nothing older than the last record of a key."""

        def clean(n, i, j):
            return Implies(And(s.passed[n][i], Not(s.superseded[i]), s.older(i, j)), Not(s.has[n][j]))

        return Forall(s.Node, s.Offset, s.Offset, clean)

    @invariant
    def NothingOlderIsAnywhere(s):
        """Once all clean points have passed a record, for ever, wherever it is copied."""

        def clean(n, i, j):
            return Implies(And(s.horizon[i], Not(s.superseded[i]), s.older(i, j)), Not(s.has[n][j]))

        return Forall(s.Node, s.Offset, s.Offset, clean)

    @invariant
    def DroppedBelowTheHorizon(s):
        return Forall(s.Offset, lambda i: Implies(s.dropped[i], s.horizon[i]))

    @invariant
    def TheHorizonWasWritten(s):
        return Forall(s.Offset, lambda i: Implies(s.horizon[i], s.written[i]))

    # -- signs of life -------------------------------------------------------------------------------------

    @sometimes
    def ATombstoneIsGone(s):
        """With what it deleted, from every copy."""

        def gone(i, j):
            nowhere = Forall(s.Node, lambda n: Not(Or(s.has[n][i], s.has[n][j])))
            everywhere = Forall(s.Node, lambda n: And(s.reached[n][i], s.reached[n][j]))
            return And(s.dropped[i], s.older(i, j), nowhere, everywhere)

        return Exists(s.Offset, s.Offset, gone)
