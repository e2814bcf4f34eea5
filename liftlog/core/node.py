r"""One node of the cluster: `step(event) -> outcome`, composed of Raft, metadata and replicas.

    Received ----> raft ----> committed commands ----> metadata ----> roles of the replicas
             \--> replicas (fetch, reply)                              |
    Published --> leader: sequence, append ----> AppendLog ----> Durable --> HW --> acks, readers

This module only routes. What the parts promise stands in `replica/state/log.py` (R), `raft/raft.py` (M1),
`metadata/metadata.py` (I, R9, R13-R16), `session.py` (I2, N2), `proposals.py` (M3) and `requests.py` (R3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from liftlog.core.context import Context
from liftlog.core.controller import Controller
from liftlog.core.draining import Draining
from liftlog.core.dropping import Dropping
from liftlog.core.foreign import CARRY_COMMANDS, TooNew, foreign_command, known_command
from liftlog.core.guards import Guards
from liftlog.core.leaving import Leaving
from liftlog.core.lineage import Lineage
from liftlog.core.metadata import levels
from liftlog.core.metadata.commands import Command, RaiseLevel, RegisterNode
from liftlog.core.metadata.image import ImageReader
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.records import LIVE, CommandResult
from liftlog.core.proposals import Proposals
from liftlog.core.raft.members import decode_members, is_change
from liftlog.core.raft.raft import Raft
from liftlog.core.raising import Raising
from liftlog.core.replacing import Replacing
from liftlog.core.replica.replica import Replica
from liftlog.core.replica.state.log import OPENING
from liftlog.core.replica_events import ReplicaEvents, addressee
from liftlog.core.requests import Requests
from liftlog.core.retiring import Retiring
from liftlog.core.roster import Roster
from liftlog.core.session import Session
from liftlog.core.slices import Slices
from liftlog.core.snapshots import Snapshots, read_snapshot
from liftlog.core.standing import Standing
from liftlog.messages import (
    TIMER_ACKS,
    TIMER_ELECTION,
    TIMER_REST,
    TIMER_SELF,
    TIMER_TICK,
    ClientGone,
    ClientRequest,
    Durable,
    Event,
    Fetch,
    FetchProgress,
    FetchReply,
    Forward,
    Heartbeat,
    HeartbeatReply,
    JoinQuery,
    JoinReply,
    LevelReport,
    MetadataStalled,
    MirrorFetch,
    MirrorReply,
    Outcome,
    PeerBack,
    PeerLost,
    PeerMessage,
    RangeFetch,
    RangeReply,
    Received,
    RetryMetadata,
    SetTimer,
    SnapshotRefused,
    StopNode,
    StopRequested,
    StorageFailed,
    TimerFired,
    TrashLog,
    intake,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.nodeconfig import NodeConfig
from liftlog.types import (
    RAFT_LOG,
    ClusterEpoch,
    Entry,
    InvariantViolation,
    LiftlogError,
    LogSummary,
    PartitionId,
    Recovered,
)


def _unheard(index: int, command: Command, result: CommandResult) -> None:
    pass


def _unseen(index: int) -> None:
    pass


class Node:
    """The whole protocol core of one process. Pure: equal events in equal order give equal effects.

    Raises `InvariantViolation` when a condition that the protocol guarantees does not hold; the process must
    then stop. If it is the state of one replica, and the node `contains` that, only this replica stops.
    """

    def __init__(
        self,
        config: NodeConfig,
        recovered: Recovered,
        mutants: Mutants = NO_MUTANTS,
        applied: Callable[[int, Command, CommandResult], None] = _unheard,
        contains: bool = False,
        installed: Callable[[int], None] = _unseen,
    ) -> None:
        """`applied`: told of each command of the group, by its index, the moment it has been applied, since
        one step may apply several and the metadata between two of them is not seen again; `installed`: of the
        index up to which a leader's snapshot has taken the place of what was applied. `contains`: a
        broken promise of one replica is that replica's end, and raises nothing; for those who serve.
        """
        self.config = config
        self.metadata = Metadata(Guards(mutants), activity_room=config.activity_room)
        guards = Guards(mutants)
        image = read_snapshot(recovered.snapshot, config) if recovered.snapshot is not None else None
        if image is not None:
            self.metadata.adopt(image)
            if not mutants.start_owes_the_snapshot:
                # Nobody has seen an earlier state: replicas begin with all of it (`_begin_run`, L5).
                self.metadata.take_changed()
        too_low = levels.too_low(config.node, self.metadata.level, config.can_level)
        if too_low:
            raise LiftlogError(too_low)
        self.ctx = Context(config, self.metadata, recovered.nonce, guards, contains)
        self.raft = Raft(
            config=config,
            hard_state=recovered.hard_state,
            entries=recovered.raft_entries,
            identity=recovered.identity,
            effects=self.ctx.effects,
            new_ticket=self.ctx.new_ticket,
            guards=guards,
            nonce=recovered.nonce,
            refuse=self.ctx.refuse,
            hints=self.ctx.hints,
            snapshot=recovered.snapshot,
            base=recovered.raft_base,
            new_reader=ImageReader,
            members=image.members if image is not None else None,
        )
        cluster = image.head.cluster if image is not None and image.head is not None else ()
        self.snapshots = Snapshots(self.ctx, self.raft, cluster)
        self.proposals = Proposals(self.ctx, self.raft)
        self.ctx.propose_by(self.proposals.want)
        self.lineage = Lineage(self.ctx, self.raft, recovered)
        self.session = Session(self.ctx, self.raft, self.lineage, recovered)
        self.standing = Standing(self.ctx, self.raft, self.session)
        self.controller: Controller | None = None
        self.replicas: dict[PartitionId, Replica] = {}
        self.raising = Raising(self.ctx, self.raft)
        if image is not None:
            self.raising.adopted()
        self.roster = Roster(self.ctx, self.raft)
        self.requests = Requests(
            self.ctx,
            self.raft,
            self.replicas,
            self.proposals,
            standing=self.standing,
            raising=self.raising,
            roster=self.roster,
            look=self._look,
        )
        self._found: dict[PartitionId, LogSummary] = {summary.log: summary for summary in recovered.logs}
        self.replacing = Replacing(self.ctx, self.raft)
        self.draining = Draining(self.ctx)
        self.retiring = Retiring(self.ctx, self.raft, self.roster)
        self.dropping = Dropping(self.ctx)
        self.leaving = Leaving(self.ctx, self.raft, self.replicas)
        self.slices = Slices(config.step_partitions_max)
        self._applied = applied
        self._installed = installed
        self._events = ReplicaEvents(self.ctx, self.replicas, self._after_raft)
        self._handlers = self._table(self._events)
        self._from_peers = self._of_peers(self._events)

    def _of_peers(self, events: ReplicaEvents) -> dict[type, Callable[[int, Any], None]]:
        """Who takes in which message; all others are Raft's."""
        return {
            Fetch: events.on_fetch,
            FetchProgress: events.on_progress,
            FetchReply: events.on_fetch_reply,
            RangeFetch: events.on_range_fetch,
            RangeReply: events.on_range_reply,
            MirrorFetch: events.on_mirror_fetch,
            MirrorReply: events.on_mirror_reply,
            Forward: self._on_forward,
            Heartbeat: self._on_heartbeat,
            HeartbeatReply: self.session.on_reply,
            LevelReport: self.raising.on_report,
            JoinQuery: self.roster.on_query,
            JoinReply: self.roster.on_reply,
        }

    def _table(self, events: ReplicaEvents) -> dict[type, Callable[[Any], None]]:
        """Who takes in which event."""
        return {
            Received: self._on_received,
            TimerFired: self._on_timer,
            Durable: self._on_durable,
            StorageFailed: self._on_storage_failed,
            MetadataStalled: self._on_metadata_stalled,
            SnapshotRefused: self._on_snapshot_refused,
            **events.of_storage(),
            PeerLost: self._on_peer_lost,
            PeerBack: self._on_peer_back,
            **events.of_nats(),
            ClientRequest: self._on_client_request,
            ClientGone: self.requests.on_gone,
            StopRequested: self._on_stop,
        }

    # -- what others look at ----------------------------------------------------------------------

    @property
    def cluster_epoch(self) -> ClusterEpoch:
        """M5: of which cluster this node is; number 0: of none yet."""
        return self.lineage.epoch

    @property
    def incarnation(self) -> int:
        return self.ctx.incarnation

    @property
    def marks(self) -> dict[str, int]:
        """How often each rule's case was reached, with the metadata state machine's own counts."""
        return {**self.ctx.marks, **self.metadata.counts}

    @property
    def handed_over(self) -> bool:
        """True once an orderly stop has nothing left to hand over."""
        return self.leaving.done

    @property
    def lowest_protocol(self) -> int:
        """U2: what peers have to speak at least, by the cluster's feature level."""
        return levels.PROTOCOL[min(self.metadata.level, levels.NEWEST)]

    def awaits_followers(self, partitions: Iterable[PartitionId]) -> bool:
        """Whether nothing that came now for one of these would leave for all its followers at once."""
        states = [replica.leading for replica in map(self.replicas.get, partitions) if replica is not None]
        return bool(states) and all(state is not None and state.awaits_followers for state in states)

    # -- the one entry ----------------------------------------------------------------------------

    def start(self, now_ms: float) -> Outcome:
        """What this run begins with: timers, and whatever Raft has to say. `now_ms`: the monotonic clock."""
        self.ctx.see_clocks(now_ms)
        self.ctx.effects.append(SetTimer(TIMER_TICK, self.config.tick_ms, self.config.tick_ms))
        self.roster.recall(self.raft.raft_log.entries)
        self.raft.start(now_ms)
        self._apply_committed()
        return self._drain()

    def step(self, event: Event) -> Outcome:
        """Take in one event; the effects are to be carried out in order."""
        if self.slices.is_following:
            partition = addressee(event, self.ctx)
            if partition is not None:
                self._look(partition)
        self._handlers[type(event)](event)
        if self.ctx.leaving:
            self.leaving.advance()
            self._after_raft()
        return self._drain()

    def _drain(self) -> Outcome:
        ctx = self.ctx
        if self.slices.has_rest:
            ctx.mark("L5.rest")
            ctx.effects.append(SetTimer(TIMER_REST, 0, 0))
        if ctx.to_self:
            ctx.effects.append(SetTimer(TIMER_SELF, 0, 0))
        effects = ctx.effects[:]
        ctx.effects.clear()
        touched: Sequence[PartitionId] = ()
        if ctx.touched:
            touched = tuple(ctx.touched)
            ctx.touched.clear()
        return Outcome(effects, touched, self.raft.raft_log.take_changed())

    # -- peers ------------------------------------------------------------------------------------

    def _on_received(self, event: Received) -> None:
        sender, message = event.sender, event.message
        if (event.epoch != self.lineage.epoch or self.lineage.strangers) and self.lineage.refuses(event):
            return
        if self._is_refused(sender, message):
            return
        if self.ctx.hints:
            self.ctx.hints.heard(sender)
        handler = self._from_peers.get(type(message))
        if handler is not None:
            handler(sender, message)
        else:
            self.raft.on_message(sender, message)
            self._after_raft()

    def _on_forward(self, sender: int, message: Forward) -> None:
        self.proposals.on_forward(message.command)
        self._after_raft()

    def _on_heartbeat(self, sender: int, message: Heartbeat) -> None:
        if self.controller is not None:
            self.controller.on_heartbeat(sender, message, self.raft.quorum_contact())

    def _on_peer_lost(self, event: PeerLost) -> None:
        """A hint (N2, M1o)."""
        if event.peer in self.roster.other_nodes and self.ctx.hints.lost(event.peer):
            self.ctx.mark("N2.hint")
            self.raft.on_peer_lost(event.peer)

    def _on_peer_back(self, event: PeerBack) -> None:
        self.ctx.hints.heard(event.peer)

    def _is_refused(self, sender: int, message: PeerMessage) -> bool:
        """V2, V3: whether no honest peer sends this. V5: commands are judged before they get into a log."""
        ctx = self.ctx
        if sender not in self.roster.other_nodes:
            ctx.refuse("V2", sender, message, "it is no node of this cluster")
            return True
        reason = intake.names_another(sender, message)
        if reason:
            ctx.refuse("V2", sender, message, reason)
            return True
        if not ctx.mutants.contradiction_believed:
            reason = intake.contradiction(message)
        if not reason and type(message) in CARRY_COMMANDS and not ctx.mutants.commands_not_validated:
            try:
                reason = foreign_command(sender, message, self.config.can_level)
            except TooNew:
                # Until somebody starts a newer release here.
                ctx.mark("U2.too-new")
                return True
            except intake.InputRefused as error:
                reason = str(error)
        if reason:
            ctx.refuse("V3", sender, message, reason)
        return bool(reason)

    # -- time -------------------------------------------------------------------------------------

    def _on_timer(self, event: TimerFired) -> None:
        self.ctx.see_clocks(event.monotonic_ms, event.wall_ms)
        if event.kind == TIMER_ELECTION:
            self.raft.on_election_timer()
        elif event.kind == TIMER_REST:
            self._tick_replicas()
        elif event.kind == TIMER_SELF:
            self._events.hear_self(self._look)
        elif event.kind == TIMER_ACKS:
            self.requests.take_acks()
        else:
            self._tick()
        self._after_raft()

    def _tick(self) -> None:
        ctx = self.ctx
        self._tick_replicas(whole=True)
        ctx.pass_tick()
        ctx.effects.append(SetTimer(TIMER_TICK, self.config.tick_ms, self.config.tick_ms))
        self.raft.on_tick(ctx.now_ms)
        self.lineage.born()
        self._retry_metadata()
        self._after_raft()
        self.roster.tick()
        self.session.tick()
        self.standing.tick()
        self.leaving.tick()
        if self.controller is not None:
            self.controller.tick()
            self.replacing.tick()
            self.raising.tick()
            self.draining.tick()
            self.retiring.tick()
        self._fence_or_release()
        ctx.count_replicas(len(self.replicas))
        self.slices.tick(self.replicas)
        if self.replicas:
            self._tick_replicas()
        else:
            self._end_tick()

    def _tick_replicas(self, whole: bool = False) -> None:
        """Go on with the tick, as far as one step may, or to its end."""
        turn = self.slices.ticking(whole)
        for partition in turn:
            self._look(partition)
            replica = self.replicas.get(partition)
            if replica is not None:
                replica.tick()
        if turn and not self.slices.is_ticking:
            self._end_tick()

    def _end_tick(self) -> None:
        """Everybody has said what he wants."""
        if self.ctx.incarnation and not self.slices.is_following:
            self.dropping.tick()
        self.proposals.tick()
        self.requests.tick()
        self.snapshots.tick()
        self._give_up_withheld()

    def _give_up_withheld(self) -> None:
        """I2, M4: a disk that was set back comes back as another member of the group, which takes a start.
        By then its copies have been begun anew, and the group knows that.
        """
        ctx = self.ctx
        known = self.metadata.nodes.get(ctx.node)
        if not self.raft.withheld or known is None or known.state != LIVE or not ctx.incarnation:
            return
        opened = not self.slices.is_following and all(
            replica.state != OPENING for replica in self.replicas.values()
        )
        if opened and not ctx.leaving:
            ctx.effects.append(StopNode("this disk was set back: it comes back as a new voter"))

    def _fence_or_release(self) -> None:
        """N2: without contact to the controller a leader takes nothing from NATS and answers nothing."""
        if self.session.fence():
            for replica in self.replicas.values():
                if replica.roles is not None:
                    replica.roles.leader.fence()

    # -- Raft and metadata ------------------------------------------------------------------------

    def _after_raft(self) -> None:
        """Whatever Raft did: notice a change of controller, apply what is committed, answer barriers."""
        if self.raft.is_leader != (self.controller is not None):
            made = Controller(self.ctx, self.raft.predecessor) if self.raft.is_leader else None
            self.controller = made
            self.replacing.begin()
            self.raising.begin()
        self._apply_committed()
        if self.raft.reads_ready:
            ready = self.raft.reads_ready[:]
            self.raft.reads_ready.clear()
            for number, index in ready:
                self.requests.barrier_ready(number, index)
        if self.raft.reads_failed:
            failed = self.raft.reads_failed[:]
            self.raft.reads_failed.clear()
            for number in failed:
                self.requests.barrier_failed(number)

    def _apply_committed(self) -> None:
        if not (self.raft.has_news or self.slices.has_commands):
            return
        image = self.raft.installing.take_installed()
        if image is not None:
            assert isinstance(image, ImageReader)
            self.slices.installed()
            self._adopt(image)
        self.slices.committed(self.raft.take_committed())
        applied = self.metadata.applied
        while not self.slices.is_following:
            entry = self.slices.next_entry(len(self.metadata.changed))
            if entry is None:
                break
            self._apply(entry)
        moved = image is not None or self.metadata.applied != applied
        if moved:
            self._follow_nodes()
        changed = self._follow_metadata(applied) if moved or self.slices.is_following else []
        if moved:
            self.requests.metadata_moved(changed)

    def _follow_nodes(self) -> None:
        """I3: bring whom this node knows in line with the metadata; end it if it was removed."""
        self.roster.follow()
        if self.metadata.is_removed(self.config.node):
            self.ctx.mark("I3.ended")
            self.ctx.effects.append(StopNode("it was removed from the cluster: 'liftlog cluster remove'"))

    def _adopt(self, image: ImageReader) -> None:
        """M1q: go on from what others have applied. What this node would have seen on the way it looks up."""
        self.metadata.adopt(image)
        self.lineage.applied()
        self.snapshots.installed(image)
        self._installed(self.metadata.applied)
        self.raising.adopted()
        self._keep_up()
        self.proposals.jumped()
        self.requests.jumped()
        self.session.registered()

    def _apply(self, entry: Entry) -> None:
        self.lineage.applied()
        self.snapshots.applied(entry)
        if not entry.data or is_change(entry.data):
            # A configuration is Raft's own (M2).
            self.metadata.apply(entry.index, None)
            if entry.data:
                self.metadata.grouped(decode_members(entry.data))
            return
        try:
            command = known_command(entry.data, self.config.can_level)
        except intake.InputRefused as error:
            # V5: nothing gets into this log without having been decoded, so this is our own state.
            raise InvariantViolation(
                f"entry {entry.index} of the metadata log is {error}; was it written by a newer liftlog?"
            ) from None
        result = self.metadata.apply(entry.index, command)
        self.proposals.applied(command, result)
        self.requests.applied(command, result)
        self._applied(entry.index, command, result)
        if isinstance(command, RegisterNode):
            self.raising.registered(command)
            if command.node == self.config.node:
                self.session.registered()
        elif isinstance(command, RaiseLevel):
            self._keep_up()

    def _keep_up(self) -> None:
        """U2: a process that cannot the cluster's feature level takes no further part."""
        too_low = levels.too_low(self.config.node, self.metadata.level, self.config.can_level)
        if too_low:
            self.ctx.mark("U2.too-low")
            self.ctx.effects.append(StopNode(too_low))

    def _follow_metadata(self, as_of: int) -> list[PartitionId]:
        """Bring replicas in line with the partitions that the commands since touched, which are returned."""
        changed = self.metadata.take_changed()
        if not self.ctx.incarnation:
            if any(log.partition not in self.metadata.partitions for log in self._found):
                self.ctx.mark("I1.unknown-kept")
            return changed
        self.slices.follow(changed, as_of)
        for partition in self.slices.following():
            self._follow_partition(partition)
        return changed

    def _look(self, partition: PartitionId) -> None:
        """L5: whoever acts knows what has been applied."""
        if self.slices.called(partition.partition):
            self._follow_partition(partition.partition)

    def _follow_partition(self, partition: PartitionId) -> None:
        record = self.metadata.partitions.get(partition)
        replica = self.replicas.get(partition)
        if record is None or self.config.node not in record.replicas:
            for log in (partition, partition.journal):
                self._give_up_log(log)
            return
        if replica is not None:
            replica.adopt()
            return
        data = self.replicas[partition] = Replica(self.ctx, partition)
        opening = [data]
        if self.metadata.by_id[partition.stream].config.has_journal:
            journal = self.replicas[partition.journal] = Replica(self.ctx, partition.journal, data)
            data.joined_by(journal)
            opening.append(journal)
        for replica in opening:
            found = self._found.pop(replica.id, None)
            if found is not None and not self.session.reset:
                replica.opened(found, told=bool(found.damage))
            else:
                replica.open(fresh=found is not None)

    def _give_up_log(self, log: PartitionId) -> None:
        """I1, R20: this node is to have no copy of it any more."""
        replica = self.replicas.pop(log, None)
        if replica is not None:
            replica.remove()
            self.ctx.effects.append(TrashLog(log))
        elif self._found.pop(log, None) is not None:
            self.ctx.mark("I1.trash")
            self.ctx.effects.append(TrashLog(log))

    def _begin_run(self) -> None:
        """Our incarnation is durable: take up the replicas the metadata gives us, drop unknown ones (I1)."""
        self.metadata.take_changed()
        records, node = self.metadata.partitions, self.config.node
        self.slices.follow(records, self.metadata.applied)
        for partition in self.slices.following():
            self._follow_partition(partition)
        for unknown in list(self._found):
            record = records.get(unknown.partition)
            if record is None or node not in record.replicas:
                self.ctx.mark("I1.trash")
                self.ctx.effects.append(TrashLog(unknown))
                del self._found[unknown]

    # -- storage ----------------------------------------------------------------------------------

    def _on_durable(self, event: Durable) -> None:
        owner = self.ctx.take_owner(event.ticket)
        if owner is not None:
            replica = self.replicas.get(owner)
            if replica is not None:
                replica.durable(event.ticket)
        elif self.session.durable(event.ticket):
            self._begin_run()
        elif not any(part.durable(event.ticket) for part in (self.lineage, self.snapshots, self.dropping)):
            self.raft.on_durable(event.ticket)
            self._after_raft()

    def _on_storage_failed(self, event: StorageFailed) -> None:
        self.ctx.take_owner(event.ticket)
        if event.log == RAFT_LOG:
            self.ctx.effects.append(StopNode(f"the metadata cannot be stored: {event.error}"))
            return
        self.dropping.failed(event.ticket)
        replica = self.replicas.get(event.log)
        if replica is not None:
            replica.storage_failed(event)

    def _on_metadata_stalled(self, event: MetadataStalled) -> None:
        """D5, M1: what is not stored is not said: to the others this node is one with a very slow disk."""
        if event.error:
            self.ctx.mark("D5.metadata")
        self.ctx.stall(event.error)

    def _on_snapshot_refused(self, event: SnapshotRefused) -> None:
        self.snapshots.refused(event)

    def _retry_metadata(self) -> None:
        """Ask whether there is space again; let somebody lead whose disk can follow."""
        if self.ctx.stalled:
            self.ctx.effects.append(RetryMetadata())
            if self.raft.is_leader:
                self.raft.step_down()

    # -- clients ----------------------------------------------------------------------------------

    def _on_client_request(self, event: ClientRequest) -> None:
        self.requests.on_request(event)
        self._after_raft()

    def _on_stop(self, event: StopRequested) -> None:
        """Orderly stop; the driver waits for `handed_over`, not for ever."""
        self.leaving.begin()
