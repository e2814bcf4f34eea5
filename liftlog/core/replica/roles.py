"""Who works for the leader of a log, in one epoch."""

from __future__ import annotations

from typing import NamedTuple

from liftlog.core.metadata.records import PartitionState
from liftlog.core.replica.consuming import ConsumersLead
from liftlog.core.replica.isr import IsrKeeper
from liftlog.core.replica.journal import Deletions, JournalKeeper, JournalLeader
from liftlog.core.replica.leader import Leader
from liftlog.core.replica.purge import Purges
from liftlog.core.replica.removed import Removed
from liftlog.core.replica.role_state import LeaderState
from liftlog.core.replica.serving import Serving
from liftlog.core.replica.state import LogState
from liftlog.messages import ConsumerRequest, DeleteMessageRequest, LogRead
from liftlog.types import ClientRef


class LeaderRoles(NamedTuple):
    """See the module. `deletions`, `consumers`: of a journal only."""

    state: LeaderState
    leader: Leader
    isr: IsrKeeper
    serving: Serving
    purges: Purges
    deletions: Deletions | None = None
    consumers: ConsumersLead | None = None

    def delete(
        self, client: ClientRef, request: DeleteMessageRequest, data: LogState, removed: Removed | None
    ) -> None:
        """R21: of a journal: write that a message of the data is gone, which `removed` are already."""
        if self.deletions is None or removed is None:
            return
        if self.deletions.ask(client, request.offset, data, removed):
            self.serving.leo_moved()

    def consume(self, client: ClientRef, request: ConsumerRequest) -> None:
        """K1-K7: of a journal: somebody asks about a consumer."""
        if self.consumers is not None:
            self.consumers.ask(client, request)

    def supply(self, read: LogRead | None) -> None:
        """Of a journal: more of the data is committed, or storage has read some."""
        if self.consumers is None:
            return
        if read is None:
            self.consumers.work()
        else:
            self.consumers.on_read(read)


def leader_roles(
    log: LogState, record: PartitionState, office: LeaderRoles | None, removed: Removed | None
) -> LeaderRoles:
    """`office`: of the data, if this log is the journal, with what that says to be gone."""
    state = LeaderState(log.ctx, log.id, record, log.leo, office.state if office is not None else None)
    serving, purges = Serving(log, state), Purges(log, state)
    if office is None or removed is None:
        return LeaderRoles(state, Leader(log, state), IsrKeeper(log, state), serving, purges)
    deletions = Deletions(log, state, office.state)
    consumers = ConsumersLead(log, state, office.leader.log, office.state, removed)
    consumers.tell(serving.leo_moved)
    leader = JournalLeader(log, state, deletions, consumers)
    keeper = JournalKeeper(log, state, office.isr)
    return LeaderRoles(state, leader, keeper, serving, purges, deletions=deletions, consumers=consumers)
