"""One replica: its log, its roles, and who hears of what. The theory is in `state/log.py`.

    events, ticks, applied metadata --> a role --> the state's transitions --> changes --> others react

Roles do not know each other. Each entry here hands an event to whom it is for, and then has the others react
to what that changed (`_settle`), always in this order: damage that is gone and a log that was reset, readers
of a HW that has moved and then those who wait for an ack, purges and the leader for a log start that has
moved, storage's next job. What is to follow all of that, the next fetch, or the answer to a follower, does.
"""

from __future__ import annotations

from collections.abc import Sequence

from liftlog.core.context import Context
from liftlog.core.metadata.records import PartitionState
from liftlog.core.replica.follower import Follower
from liftlog.core.replica.leader import Leader
from liftlog.core.replica.lifecycle import Reopening
from liftlog.core.replica.questions import Questions
from liftlog.core.replica.reader import Readers
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.repair import Repairs
from liftlog.core.replica.roles import LeaderRoles, hear_folded, hear_subjects, leader_roles
from liftlog.core.replica.serving import range_refusal, refuse
from liftlog.core.replica.state.beginning import ends_below_first, opening_of
from liftlog.core.replica.state.entry import entry
from liftlog.core.replica.state.log import (
    COMMITTED_CUT,
    FAILED,
    HW_MOVED,
    JOBS_WAIT,
    MOVED,
    READY,
    START_MOVED,
    WAS_RESET,
    WHOLE,
    LogState,
)
from liftlog.core.replica.state.role import Following
from liftlog.core.replica.upkeep import Upkeep
from liftlog.core.replica.view import LogView
from liftlog.messages import (
    FETCH_FENCED,
    FETCH_UNKNOWN,
    Compacted,
    ConsumerRequest,
    Deleting,
    Fetch,
    FetchProgress,
    FetchReply,
    LastsTold,
    LetterAnswered,
    LogRead,
    LogRepaired,
    LogStartMoved,
    MirrorFetch,
    MirrorReply,
    OriginAnswered,
    Published,
    PurgeRequest,
    RangeFetch,
    RangeReply,
    Scrubbed,
    StorageFailed,
    SubjectRequest,
    SubjectsFolded,
    SubjectsTold,
    TimeFound,
    Unsubscribe,
)
from liftlog.types import NO_TICKET, ClientRef, LogSummary, PartitionId, Ticket, invariant

ROUNDS_MAX = 64
"""Reactions that one event may cause. What reacts changes less and less, so that a few are enough."""


class Replica(LogView):
    """One partition's log on this node, with the role that the metadata gives it. See the module."""

    __slots__ = (
        *("ctx", "data", "follower", "journal", "log", "questions"),
        *("readers", "removed", "reopening", "repairs", "roles", "upkeep"),
    )

    def __init__(self, ctx: Context, log_id: PartitionId, data: Replica | None = None) -> None:
        """`data`: of the same partition, if this is its journal: the two act together (ADR 0062)."""
        self.ctx = ctx
        self.data = data
        self.journal: Replica | None = None
        self.log: LogState = LogState(ctx, log_id, data.log.confession if data is not None else None)
        if data is not None:
            self.log.confession.together(data.log, self.log)
        self.roles: LeaderRoles | None = None
        self.follower: Follower | None = None
        self.removed = Removed(self.log, data.log) if data is not None else None
        """What the journal, if this is it, says to be gone."""
        self.readers = Readers(self.log)
        self.questions = Questions(self.log)
        self.upkeep = Upkeep(self.log)
        self.repairs = Repairs(self.log)
        self.reopening = Reopening(self.log)

    # -- two logs of one partition (R10, R14) -----------------------------------------------------

    def joined_by(self, journal: Replica) -> None:
        """This partition has a journal: neither log acts without the other, and readers heed it."""
        self.journal = journal
        self.readers.heed(journal.removed)
        self.questions.heed(journal.removed)

    def _both(self) -> list[Replica]:
        """The data, and the journal if there is one; the data come first."""
        data = self if self.data is None else self.data
        return [data] if data.journal is None else [data, data.journal]

    def is_whole(self) -> bool:
        """Whether the other log, if there is to be one, is open too."""
        config = self.log.config
        wanted = 2 if config is not None and config.has_journal else 1
        both = self._both()
        return len(both) == wanted and all(one.log.state == READY for one in both)

    def _fold(self, anew: bool = False) -> None:
        """Of a journal: more of it is committed, or known again."""
        if self.removed is not None and self.removed.follow(anew):
            self._folded()

    def _folded(self) -> None:
        """Of a journal: readers of the data may wait for that."""
        if self.data is not None:
            self.data.readers.wake()
            self.data.questions.wake()
            if self.data.roles is not None:
                self.data.roles.leader.lasts.ask()

    def _supply(self, read: LogRead | None = None) -> None:
        """Of the data: consumers may wait for what is committed now, or for what storage has read."""
        journal = self.journal
        if journal is not None and journal.roles is not None:
            journal.roles.supply(read)
            journal._settle()

    @property
    def standing(self) -> str:
        """The state of this log; while it is ready and the other one is not, of that one: neither acts."""
        waits_for = [one.log.state for one in self._both() if one.log.state != READY]
        return waits_for[0] if self.log.state == READY and waits_for else self.log.state

    # -- reactions --------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Have everybody react to what has changed, until nothing changes any more."""
        log = self.log
        if not log.changes:
            return
        for _ in range(ROUNDS_MAX):
            change = log.take_change()
            if change == MOVED:
                log.check()
            elif change == HW_MOVED:
                self.readers.wake()
                self._fold()
                self._supply()
                if self.roles is not None:
                    self.roles.leader.hw_moved()
                    self.roles.mirroring.go_on()
                    self.roles.sourcing.go_on()
            elif change == START_MOVED:
                if self.journal is not None and self.journal.removed is not None:
                    self.journal.removed.forget_below(log.log_start)
                if self.roles is not None:
                    self.roles.purges.check()
                elif self.follower is not None:
                    self.follower.durable_moved()
            elif change == JOBS_WAIT:
                self.upkeep.next()
            elif change == COMMITTED_CUT:
                self.upkeep.cut()
                log.index.lost()
                self._fold(anew=True)
            elif change == WAS_RESET:
                self.upkeep.outdated()
                log.index.lost()
                self._fold(anew=True)
                self.repairs.opened((), told=False)
            elif change == WHOLE:
                self.repairs.whole()
                if self.follower is not None:
                    self.follower.durable_moved()
            else:
                return
        invariant(False, f"{log.id}: its roles react to each other without end")

    # -- the end ----------------------------------------------------------------------------------

    def end(self, begun: int, broken: str) -> None:
        """A promise of the state does not hold: this replica is over until the process starts anew.

        What it wanted of the world since effect `begun` goes nowhere: to the others it is one whose disk has
        failed. The group hears of it in the same way; what the copy really has is found when its disk is
        read again. Commands that it has submitted were true when it did, and say of which epoch they are.
        """
        log, ctx = self.log, self.ctx
        ctx.mark("V5.broken")
        ctx.drop_effects(begun, [one.id for one in self._both()])
        durable = log.durable_leo
        for one in self._both():
            one._break(broken)
        ctx.effects.append(Unsubscribe(log.id.partition))
        log.report_failure(durable, shortfall=True)

    def _break(self, broken: str) -> None:
        self.roles = None
        self.follower = None
        self.log.end(broken)
        self.readers.close()
        self.questions.close()

    # -- opening and roles (R1) -------------------------------------------------------------------

    def open(self, fresh: bool = False) -> None:
        log = self.log
        log.opening()
        self.ctx.effects.append(opening_of(log, fresh))

    @entry
    def opened(self, summary: LogSummary, told: bool = False) -> None:
        """Storage has opened the log.

        `told`: the metadata group knows of the damage in the summary, from this node's registration.
        """
        self._opened(summary, told)

    def _opened(self, summary: LogSummary, told: bool) -> None:
        if not self.reopening.opened(summary):
            return
        if ends_below_first(self.log, summary):
            self.open(fresh=True)
        else:
            self.log.opened(summary)
            self.log.index.lost()
            self.upkeep.opened()
            self.repairs.opened(summary.damage, told)
            self._fold(anew=True)
            for one in self._both():
                one._adopt()

    @entry
    def adopt(self) -> None:
        """Follow what the metadata says now: lead, follow, or neither. Called after every applied change."""
        for one in self._both():
            one.log.looks()
        for one in self._both():
            one._adopt()

    def _adopt(self) -> None:
        log, ctx = self.log, self.ctx
        ctx.touch(log.id)
        record = log.record
        if record is None or log.state != READY or not ctx.incarnation:
            if record is not None and log.state == FAILED and record.epoch > log.barred_epoch:
                ctx.mark("R5.failed-log")
            return
        log.configure()
        if not self.is_whole():
            ctx.mark("R14.other-log")
            return
        if record.leader == ctx.node and ctx.decides(
            ("R1.other-incarnation", record.leader_incarnation == ctx.incarnation)
        ):
            if any(record.epoch <= one.log.barred_epoch for one in self._both()):
                ctx.mark("R1.barred")
                return
            self._lead(record)
        else:
            self._follow(record)
        self._settle()

    def _lead(self, record: PartitionState) -> None:
        log, roles = self.log, self.roles
        if roles is not None and roles.state.epoch == record.epoch:
            roles.state.view(record)
            if not self.ctx.mutants.hw_not_weighed_again:
                roles.isr.advance()
            self._settle()
            roles.purges.check()
            roles.leader.altered()
            return
        self.step_aside()
        self.ctx.mark("R1.lead")
        office = self.data.roles if self.data is not None else None
        removed = self.journal.removed if self.journal is not None else self.removed
        roles = self.roles = leader_roles(log, record, office, removed)
        log.enter(record.epoch, roles.state)
        self.readers.wake()
        roles.leader.begin()
        roles.isr.advance()

    def _follow(self, record: PartitionState) -> None:
        log, ctx = self.log, self.ctx
        if log.epoch != record.epoch or log.leading is not None:
            self.step_aside()
            log.enter(record.epoch)
            self.readers.wake()
        if record.leader in (0, ctx.node):
            self.follower = None
            log.follow(None)
        elif self.follower is None:
            if ctx.mutants.truncate_to_hw and log.leo > log.hw:
                log.truncate(log.hw)
            following = Following(ctx, log.id, record.leader, record.epoch)
            log.follow(following)
            self.follower = Follower(log, following)
            self.follower.fetch()

    def step_aside(self) -> None:
        """End the present role; publishes in flight get no answer (N3)."""
        if self.roles is not None:
            self.ctx.mark("N3.step-down")
            self.roles.leader.stop()
            self.roles.purges.stop()
            self.roles.leader.unsubscribe()
        self.roles = None
        self.follower = None
        self.log.leave_role()

    def remove(self) -> None:
        """This node is to have no copy any more."""
        self.step_aside()
        self.readers.close()
        self.questions.close()

    # -- storage ----------------------------------------------------------------------------------

    @entry
    def durable(self, ticket: Ticket) -> None:
        """Everything up to the end of this ticket's job is synced (R5)."""
        self.log.synced(ticket)
        if self.roles is not None:
            self.roles.leader.synced()
            self.roles.isr.advance()
        elif self.follower is not None:
            self.follower.durable_moved()
        self._settle()

    @entry
    def storage_failed(self, event: StorageFailed) -> None:
        """R5: the replica stops, gives up leadership and ISR, and will refetch into a new file.

        A refused write (D5) takes the same way back; a follower stays in the ISR, nothing durable is in
        doubt. A leader must not lead the same epoch again: its followers may hold what it has cut (R1).
        """
        log, ctx = self.log, self.ctx
        if event.ticket == NO_TICKET and self.upkeep.busy:
            # Storage answers in order: this is about the upkeep's job, not about a reopening that follows it.
            self.upkeep.refused()
            if not event.sync or log.state != READY:
                return
        if log.state == FAILED:
            if event.sync:
                log.doubt()
            if event.ticket == NO_TICKET:
                self.reopening.refused()
            return
        ctx.mark("R5.failed" if event.sync else "D5.refused")
        was_leader = self.roles is not None
        self._stop(log.durable_leo, in_doubt=event.sync)
        if event.sync or was_leader:
            log.report_failure(log.durable_leo)
        else:
            ctx.mark("D5.follower-stays")
        self._settle()

    def _give_up(self, offset: int | None) -> bool:
        """D2: give up everything from `offset` on, to be fetched again; for a copy that counts for nothing.

        The same way as after a failed sync: a new file, and the group hears of it before the copy is used.
        """
        if offset is None:
            return False
        self.ctx.mark("D2.cut")
        self._stop(offset, in_doubt=True, at_once=True)
        return True

    def _stop(self, keep_below: int, in_doubt: bool, at_once: bool = False) -> None:
        self._close(keep_below, in_doubt, at_once)
        for one in self._both():
            if one.log.state == READY:
                # A copy stops with both logs: what the other one has not synced is fetched again.
                one._close(one.log.durable_leo, False, at_once)

    def _close(self, keep_below: int, in_doubt: bool, at_once: bool) -> None:
        self.readers.fail()
        self.questions.fail()
        self.step_aside()
        self.log.close(keep_below, in_doubt)
        self.reopening.failed(at_once)

    @entry
    def on_read(self, event: LogRead) -> None:
        """What storage has read for a follower or for a reader; damage that it met comes first (D2)."""
        roles = self.roles
        if event.error or roles is None or event.request not in roles.serving.reads:
            self.repairs.note(event.damage)
        if roles is not None and event.request in roles.serving.reads:
            roles.serving.on_read(event)
        elif event.request in self.readers.reads:
            self.readers.on_read(event)
        elif roles is not None and event.request == roles.leader.ids.request:
            roles.leader.ids.on_read(event)
        elif roles is not None and event.request == roles.sourcing.request:
            roles.sourcing.on_read(event)
        elif self.removed is not None and event.request == self.removed.request:
            if self.data is not None and self.removed.on_read(event, self.data.log_start):
                self._folded()
                if roles is not None and not self.ctx.mutants.folded_unheeded:
                    roles.leader.hw_moved()
        else:
            self._supply(event)
        self._settle()

    @entry
    def on_time(self, event: TimeFound) -> None:
        self.repairs.note(event.damage)
        if self.roles is not None and event.request == self.roles.leader.ids.request:
            self.roles.leader.ids.on_time(event)
        journal = self.journal.roles if self.journal is not None else None
        if journal is None or not journal.time_found(event):
            self.readers.on_time(event)
        for one in self._both():
            one._settle()

    @entry
    def on_subjects(self, event: SubjectsTold | SubjectsFolded) -> None:
        """What storage says to a question about subjects (S1)."""
        hear_subjects(event, self.questions, self.roles, self.journal.roles if self.journal else None)
        for one in self._both():
            one._settle()

    @entry
    def on_lasts(self, event: LastsTold) -> None:
        """What storage says of the last records of subjects (L9)."""
        roles, journal = self.roles, self.journal.roles if self.journal is not None else None
        if journal is not None and journal.lasts_told(event):
            pass
        elif roles is not None and roles.leader.wait_no_more(roles.leader.lasts.told(event)):
            roles.serving.leo_moved()
        for one in self._both():
            one._settle()

    @entry
    def on_upkeep(self, event: LogStartMoved | Compacted | Scrubbed | LogRepaired | SubjectsFolded) -> None:
        """Storage has done a job beside replication. The next one follows what that has changed."""
        match event:
            case LogStartMoved():
                self.upkeep.moved(event)
            case Compacted():
                if self.upkeep.compacted(event):
                    self.repairs.note(event.damage)
            case Scrubbed():
                if self.upkeep.scrubbed(event):
                    self.repairs.note(event.damage)
            case LogRepaired():
                if self.upkeep.repaired():
                    self._give_up(self.repairs.repaired(event))
            case SubjectsFolded():
                if self.upkeep.folded(event):
                    self.repairs.note(event.damage)
                    journal = self.journal.roles if self.journal else None
                    hear_folded(event, self.questions, self.roles, journal)
        self._settle()
        self.upkeep.next()
        self._settle()

    # -- time -------------------------------------------------------------------------------------

    def tick(self) -> None:
        """Once per tick of the node."""
        if self.data is None:
            self.log.confession.tick()
        self._tick()

    @entry
    def _tick(self) -> None:
        log, ctx = self.log, self.ctx
        if log.state == FAILED:
            self.readers.tick()
            rebuilt = self.reopening.tick()
            if rebuilt is not None:
                self._opened(rebuilt, told=False)
            return
        # First, so that a copy that is given up does not ask for more, or answer, in the same step.
        if self._give_up(self.repairs.tick()):
            return
        if self.roles is not None:
            if self._give_up(self.repairs.lone_tail()):
                return
            self._tick_leader(self.roles)
        elif self.follower is not None:
            self.follower.tick()
        self.readers.tick()
        self.questions.tick()
        self._fold()
        log.index.tick(log.settled)
        self.upkeep.tick()
        if ctx.ticks % ctx.ticks_of(ctx.config.hw_checkpoint_ms) == 0:
            log.checkpoint()
        self._settle()

    def _tick_leader(self, roles: LeaderRoles) -> None:
        roles.state.tick(self.log.leo)
        roles.serving.tick()
        roles.isr.tick()
        self._settle()
        roles.purges.tick()
        self._settle()
        roles.leader.tick()
        roles.mirroring.tick()
        roles.recount()
        roles.sourcing.tick()
        roles.restate(self.removed)
        if roles.isr.is_holding_up():  # R17
            roles.leader.resign(slow=True)

    # -- peers ------------------------------------------------------------------------------------

    @entry
    def on_fetch(self, sender: int, fetch: Fetch) -> None:
        roles = self.roles
        if roles is None:
            status = FETCH_FENCED if fetch.epoch < self.log.epoch else FETCH_UNKNOWN
            refuse(self.ctx, sender, fetch, status)
        elif roles.serving.admits(sender, fetch):
            durable = min(fetch.durable_leo, fetch.offset)
            self._hear(roles, sender, fetch.incarnation, durable, fetch.log_start)
            roles.serving.park(sender, fetch)

    @entry
    def on_progress(self, sender: int, message: FetchProgress) -> None:
        roles = self.roles
        if roles is not None and roles.serving.believes(sender, message):
            durable = min(message.durable_leo, message.offset)
            self._hear(roles, sender, message.incarnation, durable, message.log_start)

    def _hear(self, roles: LeaderRoles, sender: int, incarnation: int, durable: int, log_start: int) -> None:
        """A follower has said how far it is; then it may be fit to join."""
        roles.isr.heard(sender, incarnation, durable, log_start)
        self._settle()
        roles.isr.consider(sender)
        for one in self._both():
            one._settle()

    @entry
    def on_range_fetch(self, sender: int, fetch: RangeFetch) -> None:
        if self.roles is not None:
            self.roles.serving.on_range_fetch(sender, fetch)
        else:
            self.ctx.effects.append(range_refusal(sender, fetch, FETCH_UNKNOWN))

    @entry
    def on_reply(self, sender: int, reply: FetchReply) -> None:
        follower = self.follower
        if follower is not None:
            again = follower.on_reply(sender, reply)
            self._settle()
            if again:
                follower.fetch()

    @entry
    def on_range_reply(self, sender: int, reply: RangeReply) -> None:
        self.repairs.on_reply(sender, reply)
        self._settle()

    @entry
    def on_mirror_reply(self, sender: int, reply: MirrorReply | OriginAnswered) -> None:
        """R28, R29: an origin's leader has answered this one."""
        roles = self.roles
        if roles is not None:
            if roles.hears_origin(sender, reply):
                roles.serving.leo_moved()
            self._settle()

    @entry
    def on_mirror_fetch(self, sender: int, fetch: MirrorFetch) -> None:
        """R28: a mirror asks for what this log has."""
        self.readers.mirror(sender, fetch)
        self._settle()

    # -- NATS -------------------------------------------------------------------------------------

    def leader_of(self, epoch: int) -> Leader | None:
        """Who takes messages from NATS here in this epoch."""
        roles = self.roles
        return roles.leader if roles is not None and roles.state.epoch == epoch else None

    @property
    def settled(self) -> bool:
        """Nothing more comes from NATS, and all that came has been answered."""
        return self.roles is None or self.roles.leader.settled

    @entry
    def publish(self, event: Published) -> None:
        roles = self.roles
        if roles is not None and roles.state.epoch == event.epoch and roles.leader.publish(event):
            roles.serving.leo_moved()
            self._settle()

    @entry
    def letter_answered(self, event: LetterAnswered) -> None:
        """K9."""
        journal = self.journal
        if self.leader_of(event.epoch) is not None and journal is not None and journal.roles is not None:
            if journal.roles.consumers is not None:
                journal.roles.consumers.letter_answered(event)
            for one in self._both():
                one._settle()

    # -- clients ----------------------------------------------------------------------------------

    @entry
    def ask(self, client: ClientRef, request: SubjectRequest) -> None:
        """S1: a question about what is committed, as far as this copy knows."""
        self.questions.ask(client, request)
        self._settle()

    @entry
    def purge(self, client: ClientRef, request: PurgeRequest) -> None:
        """C3, as a leader."""
        if self.roles is not None:
            self.roles.purges.ask(client, request)
            self._settle()
            self.roles.purges.check()

    @entry
    def write(self, asked: Sequence[tuple[ClientRef, Deleting | ConsumerRequest]]) -> None:
        """R21, K1-K8: this leader answers by the journal, and writes into it."""
        journal = self.journal
        if self.roles is not None and journal is not None and journal.roles is not None:
            journal.roles.ask(asked, self.log, journal.removed)
            for one in self._both():
                one._settle()

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone."""
        self.readers.forget(client)
        self.questions.forget(client)
        if self.roles is not None:
            self.roles.purges.forget(client)
            self.roles.leader.forget(client)
