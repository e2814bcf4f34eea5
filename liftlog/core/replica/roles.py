"""Who works for the leader of a log, in one epoch."""

from __future__ import annotations

from typing import NamedTuple

from liftlog.core.metadata.records import PartitionState
from liftlog.core.replica.isr import IsrKeeper
from liftlog.core.replica.journal import Deletions, JournalKeeper, JournalLeader
from liftlog.core.replica.leader import Leader
from liftlog.core.replica.purge import Purges
from liftlog.core.replica.removed import Removed
from liftlog.core.replica.role_state import LeaderState
from liftlog.core.replica.serving import Serving
from liftlog.core.replica.state import LogState
from liftlog.types import ClientRef


class LeaderRoles(NamedTuple):
    """See the module. `deletions`: of a journal only."""

    state: LeaderState
    leader: Leader
    isr: IsrKeeper
    serving: Serving
    purges: Purges
    deletions: Deletions | None = None

    def delete(self, client: ClientRef, offset: int, data: LogState, removed: Removed | None) -> None:
        """R21: of a journal: write that a message of the data is gone, which `removed` are already."""
        if self.deletions is None or removed is None:
            return
        if self.deletions.ask(client, offset, data, removed):
            self.serving.leo_moved()


def leader_roles(log: LogState, record: PartitionState, office: LeaderRoles | None) -> LeaderRoles:
    """`office`: of the data, if this log is the journal."""
    state = LeaderState(log.ctx, log.id, record, log.leo, office.state if office is not None else None)
    serving, purges = Serving(log, state), Purges(log, state)
    if office is None:
        return LeaderRoles(state, Leader(log, state), IsrKeeper(log, state), serving, purges)
    deletions = Deletions(log, state, office.state)
    leader = JournalLeader(log, state, deletions)
    return LeaderRoles(state, leader, JournalKeeper(log, state, office.isr), serving, purges, deletions)
