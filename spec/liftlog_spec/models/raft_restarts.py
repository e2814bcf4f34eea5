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
        """A crash, as in raft.py. So many entries are `kept` in a snapshot: they were committed."""
        when(kept <= length, kept <= s.commit[n])
        s.crash(n, voted, logged, length, kept)
