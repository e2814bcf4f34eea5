"""Who works for the leader of a log, in one epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from liftlog.core.metadata.records import PartitionState
from liftlog.core.replica.copying.mirroring import Emptied, Mirroring
from liftlog.core.replica.copying.recounting import Recounting
from liftlog.core.replica.copying.sourcing import Sourcing
from liftlog.core.replica.delivering.consuming import ConsumersLead
from liftlog.core.replica.isr import IsrKeeper
from liftlog.core.replica.journal import Deletions, JournalKeeper, JournalLeader
from liftlog.core.replica.leader import Leader
from liftlog.core.replica.purge import Purges
from liftlog.core.replica.questions import Questions
from liftlog.core.replica.removal.frontlimits import FrontLimits
from liftlog.core.replica.removal.lifetimes import Lifetimes
from liftlog.core.replica.removal.markers import Markers
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.removal.restating import Restating
from liftlog.core.replica.removal.rollups import RollUps
from liftlog.core.replica.removal.subjectlimits import SubjectLimits
from liftlog.core.replica.removal.subjectpurge import SubjectPurges
from liftlog.core.replica.serving import Serving
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.messages import (
    ConsumerRequest,
    Deleting,
    LastsTold,
    LogRead,
    MirrorReply,
    OriginAnswered,
    PurgeSubjectsRequest,
    SubjectsFolded,
    SubjectsTold,
    TimeFound,
)
from liftlog.types import ClientRef, Message


class LeaderRoles(NamedTuple):
    """See the module. `deletions` and what follows: of a journal only."""

    state: LeaderState
    leader: Leader
    isr: IsrKeeper
    serving: Serving
    purges: Purges
    mirroring: Mirroring
    recounting: Recounting
    sourcing: Sourcing
    deletions: Deletions | None = None
    subject_purges: SubjectPurges | None = None
    consumers: ConsumersLead | None = None
    restating: Restating | None = None
    limits: SubjectLimits | None = None
    roll_ups: RollUps | None = None
    front: FrontLimits | None = None
    lifetimes: Lifetimes | None = None
    markers: Markers | None = None

    def delete(
        self,
        client: ClientRef,
        request: Deleting,
        data: LogState,
        removed: Removed | None,
    ) -> None:
        """R21: of a journal: write that messages of the data are gone, which `removed` are already."""
        if self.deletions is None or self.subject_purges is None or removed is None:
            return
        if isinstance(request, PurgeSubjectsRequest):
            self.subject_purges.ask(client, request, data, removed)
        elif self.deletions.ask(client, request.offset, data, removed, self.subject_purges.counts):
            self.subject_purges.wrote()
            self.serving.leo_moved()

    def hears_origin(self, sender: int, reply: MirrorReply | OriginAnswered) -> bool:
        """R28, R29: an answer of what this stream copies. Whether there is more here now."""
        copies = self.sourcing if self.sourcing.on else self.mirroring
        if isinstance(reply, OriginAnswered):
            return copies.on_answer(reply)
        return copies.on_reply(sender, reply)

    @property
    def stands(self) -> str:
        """R28, R29: why nothing comes of what this stream copies, or of some of it."""
        sourcing = self.sourcing
        problems = [f"{name!r}: {why}" for name, why in sourcing.problems().items()] if sourcing.on else []
        return self.mirroring.problem or "; ".join(problems)

    def behind(self) -> list[tuple[str, int]]:
        """R28, R29: by streams of which this leader hears, so much of theirs it has not looked at."""
        return self.mirroring.heard() or self.sourcing.heard()

    def recount(self) -> None:
        """A tick has passed. N12: of the activity stream: what the metadata group has done is written."""
        if self.recounting.tick():
            self.serving.leo_moved()

    def restate(self, removed: Removed | None) -> None:
        """A tick has passed. R21: of a journal: what is gone is said again when the journal is long."""
        if self.restating is not None and removed is not None and self.restating.tick(removed):
            self.serving.leo_moved()

    def index_told(self, event: SubjectsTold | SubjectsFolded) -> bool:
        """Of a journal: whether storage's answer was for one of those who ask about subjects here."""
        if self.consumers is not None and event.request == self.consumers.counting.asked:
            self.consumers.counting.told(event)
            if isinstance(event, SubjectsTold):
                self.consumers.work()
            return True
        if self.markers is not None and event.request == self.markers.asked:
            if isinstance(event, SubjectsFolded):
                self.markers.behind(event)
            return True
        interest = self.consumers.interest if self.consumers is not None else None
        askers = self.subject_purges, self.limits, self.roll_ups, self.front, self.consumers, interest
        for asker in askers:
            if asker is not None and event.request == asker.asked:
                if asker.told(event):
                    self.serving.leo_moved()
                return True
        return False

    def lasts_told(self, event: LastsTold) -> bool:
        """Of a journal: whether storage's answer was for what may leave markers (R24)."""
        asks = self.markers is not None and event.request == self.markers.asked
        if asks and self.markers is not None:
            self.markers.told(event)
        return asks

    def store_own(self, messages: list[Message]) -> None:
        """Store messages that this leader has made itself."""
        if self.leader.store_own(messages):
            self.serving.leo_moved()

    def time_found(self, event: TimeFound) -> bool:
        """Of a journal: whether storage's answer was for a consumer that is being made."""
        asks = self.consumers is not None and event.request == self.consumers.asked
        return asks and self.consumers is not None and not self.consumers.told(event)

    def ask(
        self,
        asked: Sequence[tuple[ClientRef, Deleting | ConsumerRequest]],
        data: LogState,
        removed: Removed | None,
    ) -> None:
        """R21, K1-K8: of a journal: somebody has messages deleted, or asks about consumers."""
        consuming = []
        for client, request in asked:
            if isinstance(request, Deleting):
                self.delete(client, request, data, removed)
            else:
                consuming.append((client, request))
        if consuming and self.consumers is not None:
            self.consumers.ask(consuming)

    def supply(self, read: LogRead | None) -> None:
        """Of a journal: more of the data is committed, or storage has read some."""
        if self.consumers is None or self.roll_ups is None or self.front is None or self.lifetimes is None:
            return
        if read is None:
            self.roll_ups.go_on()
            self.lifetimes.go_on()
            self.consumers.work()
        elif read.request == self.roll_ups.passage.request:
            self.roll_ups.on_read(read)
        elif read.request == self.front.request:
            self.front.on_read(read)
        elif read.request == self.lifetimes.passage.request:
            self.lifetimes.on_read(read)
        elif read.request == self.consumers.letters.request:
            self.consumers.letters.on_read(read)
        else:
            self.consumers.on_read(read)


def hear_subjects(
    event: SubjectsTold | SubjectsFolded,
    questions: Questions,
    roles: LeaderRoles | None,
    journal: LeaderRoles | None,
) -> None:
    """What storage says to a question about subjects, to whoever has asked (S1)."""
    if event.request in questions.asked:
        if isinstance(event, SubjectsTold):
            behind, problem = (roles.behind(), roles.stands) if roles is not None else ([], "")
            questions.told(event, behind, problem)
        else:
            questions.behind(event)
    elif journal is not None and journal.index_told(event):
        return
    elif roles is not None and event.request == roles.leader.room.asked:
        roles.leader.room.told(event)
    elif roles is not None and isinstance(event, SubjectsFolded):
        roles.leader.lasts.behind(event)


def hear_folded(
    event: SubjectsFolded, questions: Questions, roles: LeaderRoles | None, journal: LeaderRoles | None
) -> None:
    """Storage has gone on with the subject index, or says why it cannot: who waits for it."""
    questions.folded(event)
    if roles is not None:
        roles.leader.wait_no_more(roles.leader.lasts.folded(event))
    if journal is not None and journal.subject_purges is not None:
        journal.subject_purges.folded(event)
    if journal is not None and journal.limits is not None:
        journal.limits.folded(event)
    if journal is not None and journal.roll_ups is not None:
        journal.roll_ups.folded(event)
    if journal is not None and journal.front is not None:
        journal.front.sizes.folded(event)
    if journal is not None and journal.consumers is not None:
        journal.consumers.counting.folded(event)
        journal.consumers.index_folded(event)
        journal.consumers.interest.folded(event)


def leader_roles(
    log: LogState, record: PartitionState, office: LeaderRoles | None, removed: Removed | None
) -> LeaderRoles:
    """`office`: of the data, if this log is the journal. `removed`: what that says to be gone, if there is
    one.
    """
    state = LeaderState(log.ctx, log.id, record, log.leo, office.state if office is not None else None)
    serving, purges = Serving(log, state), Purges(log, state)
    mirroring = Mirroring(log, state, serving.leo_moved)
    sourcing, recounting = Sourcing(log, state), Recounting(log, state)
    if office is None or removed is None:
        leads = Leader(log, state)
        if removed is not None:
            leads.lasts.heed(removed)
            leads.room.heed(removed)
        return LeaderRoles(
            *(state, leads, IsrKeeper(log, state), serving, purges),
            mirroring=mirroring,
            sourcing=sourcing,
            recounting=recounting,
        )
    deletions = Deletions(log, state, office.state)
    subject_purges = SubjectPurges(log, state, office.state)
    consumers = ConsumersLead(log, state, office.leader.log, office.state, removed, subject_purges)
    consumers.tell(serving.leo_moved)
    limits = SubjectLimits(log, office.leader.log, removed, subject_purges)
    moved = serving.leo_moved
    roll_ups = RollUps(log, state, office.leader.log, removed, subject_purges, moved)
    markers = Markers(log, office.leader.log, removed, subject_purges, office.store_own, moved)
    front = FrontLimits(
        data=office.leader.log,
        removed=removed,
        purges=subject_purges,
        limits=limits,
        roll_ups=roll_ups,
        markers=markers,
        moved=moved,
    )
    lifetimes = Lifetimes(
        log=log,
        leading=state,
        data=office.leader.log,
        removed=removed,
        purges=subject_purges,
        markers=markers,
        moved=moved,
    )
    office.mirroring.tells(Emptied(log, subject_purges, moved))
    leader = JournalLeader(
        state,
        deletions,
        subject_purges,
        front=front,
        consumers=consumers,
        lifetimes=lifetimes,
        mirroring=office.mirroring,
    )
    keeper = JournalKeeper(log, state, office.isr)
    return LeaderRoles(
        *(state, leader, keeper, serving, purges),
        mirroring=mirroring,
        sourcing=sourcing,
        recounting=recounting,
        deletions=deletions,
        subject_purges=subject_purges,
        restating=Restating(log, state, office.leader.log),
        consumers=consumers,
        limits=limits,
        roll_ups=roll_ups,
        front=front,
        lifetimes=lifetimes,
        markers=markers,
    )
