"""How many reads may wait for the disk: a stalled one must not gather work without end (L3).

A read counts from when storage is asked until storage has answered, whoever still waits for that. Clients'
reads and lookups have `log_reads_max` places a log, and together half of the node's `disk_reads_max`; the
other half is kept for followers, each of which has one read of a log under way, and one of a damaged range.
Who finds no place is told so at once and may ask again. Leaders that read which message ids their logs
have (L7), or ask for the last records of subjects (L9), do so from the followers' half, `FOLDS_MAX` of them
at once, and try again at the next tick.
"""

from __future__ import annotations

from liftlog.core.guards import Guards
from liftlog.nodeconfig import NodeConfig
from liftlog.types import PartitionId

FollowerRead = tuple[PartitionId, int, bool]
"""(log, follower, whether it is a damaged range)."""
FOLDS_MAX = 32
"""So many leaders of a node read their own logs at once; each reads a slice at a time."""
ITSELF = 0
"""No follower: the leader."""


class DiskReads:
    """The reads of one node that storage works on, by the number of the read."""

    __slots__ = ("_by_clients", "_config", "_folds", "_followers", "_mark", "_mutants", "_of_log", "_owners")

    def __init__(self, config: NodeConfig, guards: Guards) -> None:
        self._config = config
        self._mark = guards.mark
        self._mutants = guards.mutants
        self._owners: dict[int, PartitionId | FollowerRead] = {}
        self._followers: dict[FollowerRead, int] = {}
        self._of_log: dict[PartitionId, int] = {}
        self._by_clients = 0
        self._folds = 0

    def __len__(self) -> int:
        return len(self._owners)

    def has_place(self, log: PartitionId) -> bool:
        """Whether a client's read of this log may begin."""
        config = self._config
        return self._mutants.reads_unbounded or (
            self._of_log.get(log, 0) < config.log_reads_max
            and self._by_clients < config.disk_reads_max // 2
            and len(self._owners) < config.disk_reads_max
        )

    def begin(self, log: PartitionId, request: int) -> None:
        """A client's read begins."""
        self._owners[request] = log
        self._of_log[log] = self._of_log.get(log, 0) + 1
        self._by_clients += 1

    def begin_for(self, follower: FollowerRead, request: int) -> bool:
        """A follower's read begins; False if it has one under way already, or the node has no place."""
        again = follower in self._followers and not self._mutants.fetch_reads_unbounded
        if not self._mutants.reads_unbounded and (again or len(self._owners) >= self._config.disk_reads_max):
            return False
        self._owners[request] = follower
        self._followers[follower] = request
        return True

    def begin_fold(self, log: PartitionId, request: int, lasts: bool = False) -> bool:
        """A leader's read of its own log begins, or of its subject index; False if it has to wait."""
        begins = self._folds < FOLDS_MAX and self.begin_for((log, ITSELF, lasts), request)
        if not begins:
            self._mark("L3.folds")
        self._folds += begins
        return begins

    def done(self, request: int) -> None:
        """Storage has answered."""
        owner = self._owners.pop(request, None)
        if isinstance(owner, PartitionId):
            self._by_clients -= 1
            self._of_log[owner] -= 1
            if not self._of_log[owner]:
                del self._of_log[owner]
        elif owner is not None:
            self._followers.pop(owner, None)
            self._folds -= owner[1] == ITSELF
