"""The Raft of raft.py as a start finds it that has a snapshot (M1p): what runs of the program are held
against.

A snapshot is what is committed, said at once. Sent, it is an append of everything up to its end, which
raft.py has; taken, it changes nothing that raft.py knows of, since its logs stay whole. On a disk it does one
thing more: it tells a start what is committed. That no bug lies in logs without their beginning is for
raft_snapshots.py to show.
"""

from __future__ import annotations

from liftlog_spec.lang import *
from liftlog_spec.models.raft import Raft


class RaftRestarts(Raft):
    """Voters that remember how far they have committed, as far as they have a snapshot of it."""

    Snapshots = Constant(0)
    """Entries that may be kept in one."""

    Node, Written, Index = Raft.Node, Raft.Written, Raft.Index
    Kept = Range(0, Snapshots)

    @action
    def Restart(s, n: Node, voted: Written, logged: Written, length: Index, kept: Kept):
        """A crash, as in raft.py. So many entries are `kept` in a snapshot, which is of what was committed.
        """
        when(s.restarts < s.Restarts, voted <= size(s.writes[n]), logged <= size(s.writes[n]))
        state, whole, before = s.After(n, voted), s.After(n, logged).log, s.After(n, logged - 1).log
        when(length <= size(whole), kept <= length, kept <= s.commit[n])
        partly = Or(length >= size(before), before[length] != whole[length])
        when(Or(length == size(whole), And(logged > 0, partly)))
        log = prefix(whole, length)
        behind = s.LastTerm(log) > state.term
        term = maximum(s.LastTerm(log), state.term)
        s.restarts = s.restarts + 1
        vote = If(behind, None, state.vote)
        s.term[n] = term
        s.vote[n] = vote
        s.log[n] = log
        s.barred[n] = state.barred
        s.disk[n] = {"term": term, "vote": vote, "log": log, "barred": state.barred}
        s.role[n] = "follower"
        s.commit[n] = kept
        s.writes[n] = []
        s.held[n] = []
