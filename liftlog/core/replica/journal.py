"""The leader's roles for a partition's journal, the second log under its record (ADR 0048, 0062).

Each log has its own followers, LEO and HW; the ISR is one, and so is what was proposed about it. Who joins is
asked for both logs in one instant, and so is who is caught up: the keeper of the data asks, this one answers.
Nothing of NATS comes here: entries are written by the leader itself.
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.core.replica.copying.mirroring import Mirroring
from liftlog.core.replica.delivering.consuming import ConsumersLead
from liftlog.core.replica.isr import IsrKeeper
from liftlog.core.replica.leader import Leader
from liftlog.core.replica.removal.entries import encode_removed
from liftlog.core.replica.removal.frontlimits import FrontLimits
from liftlog.core.replica.removal.lifetimes import Lifetimes
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.removal.subjectpurge import SubjectPurges, deciding_refusal
from liftlog.core.replica.state.forbidding import not_deleted
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.format import encode_values
from liftlog.messages import (
    ERR_NOT_LEADER,
    ERR_NOT_READY,
    ERR_OFFSET_RANGE,
    ERR_OVERLOAD,
    ERR_TIMEOUT,
    ClientReply,
    ErrorReply,
    MessageDeleted,
    Published,
    ReplyClient,
)
from liftlog.types import ClientRef, OffsetRange

DELETIONS_MAX = 1024


class JournalKeeper(IsrKeeper):
    """What is committed of the journal (R2). Who is in sync is the business of `office`, of the data."""

    __slots__ = ("office",)

    def __init__(self, log: LogState, leading: LeaderState, office: IsrKeeper) -> None:
        super().__init__(log, leading)
        self.office = office
        office.joined_by(self)

    def advance(self) -> None:
        """R2: by what was reported of this log."""
        if self.ctx.mutants.journal_hw_of_data:
            log, data = self.log, self.office.leading
            others = data.least_durable(self.leading.maximal_isr(), log.durable_leo)
            if log.hw < (lowest := min(others, log.durable_leo)):
                log.commit(lowest)
        else:
            super().advance()

    def consider(self, node: int) -> None:
        """R10: it may have been this log that the follower was not ready in."""
        self.office.consider(node)

    def tick(self) -> None:
        """R11: a removal is proposed by the data's."""

    def is_holding_up(self) -> bool:
        """R17: the disk is one; it is judged by the data."""
        return False


class WaitingDeletion(NamedTuple):
    """One that waits: until the journal is committed up to `end`, or until a tick."""

    client: ClientRef
    offset: int
    end: int
    until: int


class Deletions:
    """What clients have asked the leader of this epoch to delete, and is not committed yet.

    An entry speaks of a record that is committed, by a leader that has caught up: it knows as committed all
    that was in either log when it was elected. Bounded by `DELETIONS_MAX`.
    """

    __slots__ = ("_ctx", "_data", "_journal", "_log", "_under_way", "_waiting")

    def __init__(self, log: LogState, journal: LeaderState, data: LeaderState) -> None:
        self._log = log
        self._ctx = log.ctx
        self._journal = journal
        self._data = data
        self._waiting: list[WaitingDeletion] = []
        self._under_way: dict[int, int] = {}
        """By offset: where the entry ends that names it."""

    def __len__(self) -> int:
        return len(self._waiting)

    def ask(self, client: ClientRef, offset: int, data: LogState, removed: Removed, counts: bool) -> bool:
        """Whether an entry was written. `counts`: a purge is finding out what stays."""
        refusal = self._refusal(offset, data)
        if refusal is None and counts:
            text = "a purge is counting which messages stay; try again"
            refusal = ErrorReply(ERR_OVERLOAD, text, True)
        if refusal is not None:
            self._ctx.mark("R21.refused")
            self._reply(client, refusal)
            return False
        epoch = data.history.epoch_before(offset + 1)
        if (offset, epoch) in removed:
            self._ctx.mark("R21.again")
            self._reply(client, MessageDeleted(data.id, offset, removed.folded))
            return False
        end = self._under_way.get(offset)
        writes = end is None
        if end is None:
            self._log.append(
                [
                    encode_values(
                        self._log.id,
                        self._log.leo,
                        self._journal.epoch,
                        self._ctx.wall_ms,
                        [encode_removed(epoch, [OffsetRange(offset, offset + 1)])],
                    )
                ]
            )
            end = self._under_way[offset] = self._log.leo
        until = self._ctx.ticks + self._ctx.ticks_of(self._ctx.config.request_timeout_ms)
        deletion = WaitingDeletion(client, offset, end, until)
        if self._ctx.mutants.deletion_answered_at_append:
            self._reply(client, MessageDeleted(data.id, offset, end))
        else:
            self._waiting.append(deletion)
        return writes

    def _refusal(self, offset: int, data: LogState) -> ErrorReply | None:
        """Why this leader does not take it, or not now."""
        ctx = self._ctx
        refusal = not_deleted(data.config) or deciding_refusal(data, self._data, self._log, self._journal)
        if refusal is not None:
            return refusal
        if offset < data.log_start:
            text = f"offset {offset} is below the log's start {data.log_start}: it is gone already"
            return ErrorReply(ERR_OFFSET_RANGE, text, False)
        if not ctx.decides(("R21.uncommitted", offset < data.hw)):
            text = f"offset {offset} is not committed: there are messages below {data.hw}"
            return ErrorReply(ERR_OFFSET_RANGE, text, False)
        if max(len(self._waiting), len(self._under_way)) >= DELETIONS_MAX:
            return ErrorReply(ERR_OVERLOAD, "too many deletions wait here; try again", True)
        return None

    def committed(self) -> None:
        """The journal's HW has moved: answer those whose entry is committed."""
        hw, partition = self._log.hw, self._log.id.partition
        still = []
        for one in self._waiting:
            if one.end <= hw:
                self._ctx.mark("R21.deleted")
                self._reply(one.client, MessageDeleted(partition, one.offset, one.end))
            else:
                still.append(one)
        self._waiting = still
        self._under_way = {offset: end for offset, end in self._under_way.items() if end > hw}

    def tick(self) -> None:
        """Nobody waits for ever."""
        late = [one for one in self._waiting if one.until <= self._ctx.ticks]
        self._waiting = [one for one in self._waiting if one.until > self._ctx.ticks]
        for one in late:
            text = "not every replica in sync has the deletion yet; it may still happen, ask again"
            self._reply(one.client, ErrorReply(ERR_TIMEOUT, text, True))

    def end(self, code: str, text: str) -> None:
        """This leader answers none of those that wait; what becomes of their entries is open."""
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            self._reply(one.client, ErrorReply(code, text, True))

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone; what it has asked for goes on."""
        self._waiting = [one for one in self._waiting if one.client != client]

    def _reply(self, client: ClientRef, reply: ClientReply) -> None:
        self._ctx.effects.append(ReplyClient(client, reply))


class JournalLeader(Leader):
    """What a leader does apart from that is no business of a journal, and does nothing here."""

    __slots__ = (
        *("_consumers", "_deletions", "_front", "_lifetimes", "_limits", "_mirroring", "_purges"),
        "_roll_ups",
    )

    def __init__(
        self,
        leading: LeaderState,
        deletions: Deletions,
        purges: SubjectPurges,
        front: FrontLimits,
        consumers: ConsumersLead,
        lifetimes: Lifetimes,
        mirroring: Mirroring,
    ) -> None:
        super().__init__(front.limits.log, leading)
        self._mirroring = mirroring
        self._front = front
        self._limits = front.limits
        self._roll_ups = front.roll_ups
        self._lifetimes = lifetimes
        self._deletions = deletions
        self._purges = purges
        self._consumers = consumers

    def begin(self) -> None:
        """There is nothing to subscribe to."""

    def subscribe(self) -> None:
        """Nothing of NATS comes here."""

    def altered(self) -> None:
        """A pause is a pause of the data."""

    def drain(self) -> None:
        """What was asked for is still answered."""

    def publish(self, event: Published) -> bool:
        """No message is meant for a journal."""
        return False

    @property
    def settled(self) -> bool:
        """Whether nobody waits."""
        return not len(self._deletions) and self._purges.purge is None and self._consumers.settled

    def stop(self) -> None:
        """N3: whoever waits is told to ask another one."""
        self._end(ERR_NOT_LEADER, "the leader has changed")

    def forget(self, client: ClientRef) -> None:
        """What it has asked for goes on."""
        self._deletions.forget(client)
        self._purges.forget(client)
        self._consumers.forget(client)

    def fence(self) -> None:
        """N2: nothing is promised without contact to the controller."""
        self._end(ERR_NOT_READY, "this leader has lost contact to the cluster")

    def _end(self, code: str, text: str) -> None:
        self._deletions.end(code, f"{text}; ask again")
        self._purges.end(code, text)
        self._consumers.end(code, f"{text}; ask again")

    def hw_moved(self) -> None:
        """What is committed now is answered."""
        self._deletions.committed()
        self._mirroring.said()
        self._purges.go_on()
        self._limits.go_on()
        self._roll_ups.go_on()
        self._lifetimes.go_on()
        self._consumers.committed()

    def tick(self) -> None:
        """Whoever has waited for too long is told."""
        self._deletions.tick()
        self._purges.tick()
        self._front.tick()
        self._limits.tick()
        self._roll_ups.go_on()
        self._lifetimes.tick()
        self._consumers.tick()
