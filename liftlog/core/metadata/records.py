"""What the metadata says: nodes, streams and partitions, as values that never change.

A command makes new records in the place of old ones (`liftlog.core.metadata`). Who has looked at one keeps
what he saw, and a copy of all of them is a copy of four dictionaries. A partition's record knows how it can
go on: each of its transitions below is a step that some rule allows, and says who is in sync, who may be
elected and which version it is.

Every record comes in through `Records`, where what holds for all times is checked, against the record in
whose place it stands. A violation means that the metadata itself is in doubt: the process stops.

    node         incarnations rise, the state begins at an index that was applied, what is confirmed was given
    stream       its id is the index of its creation, and no other stream has its name; an alteration leaves
                 id, name and the partitions that there are, and is one of the command just applied (R19)
    partition    its minimum in sync is that of its stream, and not more than are to have a copy (R19);
                 its replicas stay, but for those that a move adds, and leaves when it is over (R20); the ISR
                 is of them, and who is eligible is not in it; who leads is in the ISR (R12); an epoch has one
                 leader (R1), and epochs rise one by one, each beginning at the index that was just applied;
                 every change of who leads or is in sync is a higher version (R9)
    applied      rises by one
    level        rises (U2)
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from liftlog.core.metadata.outbox import ROOM, ActivityEvent, ActivityOutbox, OutboxHead
from liftlog.core.metadata.placement import Loads
from liftlog.core.metadata.subjects import Attachments
from liftlog.types import (
    FIRST_CLUSTER,
    ClusterEpoch,
    InvariantViolation,
    PartitionId,
    StreamConfig,
    invariant,
)

REGISTERED, LIVE, EXPIRED, LEFT = "registered", "live", "expired", "left"
CONFIGURED, VOTES, DOES_NOT_VOTE, SPARE = "", "yes", "no", "spare"
GONE = (EXPIRED, LEFT)
"""States of a node whose session is over: it was lost, or stopped in an orderly way."""

replaced = msgspec.structs.replace


class NodeState(msgspec.Struct, frozen=True):
    """One node. `confirmed` = the last incarnation that is known to be on its disk (I2)."""

    node: int
    disk_id: str
    incarnation: int
    nonce: int
    state: str
    since: int
    """Index at which `state` began."""
    confirmed: int
    address: str
    reset: bool = False
    """This incarnation was found wiped or rolled back: its partitions start empty."""
    forgot: bool = False
    """It is the disk of the incarnation before, set back: its vote is withheld."""
    vote_id: str = ""
    """M2: under which the disk takes part in the metadata group."""
    voter: str = CONFIGURED
    """M2: whether it is to vote in the metadata group: as its peers' configuration says, "yes", "no", or not
    until another one is gone for long ("spare").
    """
    voter_at: int = 0
    """Index of the command that has said so."""
    drains: bool = False
    """R20: it is to keep no copy that another node can have."""
    drains_at: int = 0
    """Index of the command that has said so."""

    retires: bool = False
    """I3: it is to give away what it has, and to be removed then."""
    heir: int = 0
    """I3: who is to have it, while it retires; 0 = nobody in particular."""
    retires_at: int = 0
    """Index of the command that has said so."""

    @property
    def is_emptied(self) -> bool:
        """R20: it is to have no copy and no office that another node can have."""
        return self.drains or self.retires

    @property
    def votes_as(self) -> str:
        """The disk that is meant in the group's configuration."""
        return self.vote_id or self.disk_id

    def is_to_vote(self, founders: Collection[int]) -> bool:
        """Whether it is to vote, when these nodes do by the configuration."""
        return self.voter == VOTES or (self.voter == CONFIGURED and self.node in founders)

    def is_spare(self, founders: Collection[int]) -> bool:
        """Whether it may take the place of a voter that is gone for long, or that retires without an heir: it
        could have a vote, and no operator has said that it shall have none.
        """
        idle = self.voter == SPARE or (self.voter == CONFIGURED and self.node not in founders)
        return idle and self.can_get_a_vote

    @property
    def can_get_a_vote(self) -> bool:
        """M2: it is here, its disk has forgotten nothing, and it does not retire."""
        return self.state == LIVE and not self.forgot and not self.retires


class Admission(msgspec.Struct, frozen=True):
    """I3: what an operator has said of a node last: it is called at `address`, or it was removed."""

    node: int
    address: str
    at: int
    """Index of the command that has said so."""
    removed: bool = False


Founders = tuple[tuple[int, str], ...]
"""I3: the voters of the configuration, and where they are called by it."""


class LastKnown(msgspec.Struct, frozen=True):
    """R14: what a replica that may have lost its tail still had when it last reported."""

    epoch: int
    leo: int
    lost: bool = False
    """The disk was wiped or the log is gone: this copy counts as missing."""
    journal_epoch: int = 0
    journal_leo: int = 0
    """The same of its journal, if the partition has one."""


class PartitionState(msgspec.Struct, frozen=True):
    """The committed record of one partition. `version` counts every change of who leads or is in sync."""

    id: PartitionId
    replicas: tuple[int, ...]
    min_insync: int
    leader: int = 0
    leader_incarnation: int = 0
    epoch: int = 0
    led_since: int = 0
    """Index at which the epoch began."""
    version: int = 0
    isr: tuple[int, ...] = ()
    eligible: tuple[int, ...] = ()
    last_known: Mapping[int, LastKnown] = {}
    failures: Mapping[int, tuple[int, int]] = {}
    """R5: (incarnation, number) of the last failure that each replica has told."""
    ready: bool = False
    refused: Mapping[int, str] = {}
    """N1: whom NATS did not let subscribe when it last led in its present run, in the words of NATS."""
    slow: Mapping[int, int] = {}
    """R17: how often each was removed for being slow in its present run; 0 = it resigned, and that is all."""
    reports: Mapping[int, int] = {}
    report_round: int = 0
    unclean_epochs: tuple[int, ...] = ()
    assignment: int = 0
    """R20: index of the last command that has moved it; 0 = its copies are where it was created."""
    target: tuple[int, ...] = ()
    """R20: who is to have a copy, the first of them to lead, while a move is under way; else empty."""
    adding: tuple[int, ...] = ()
    """R20: those of the replicas that were none before the moves that are under way."""
    dropping: tuple[int, ...] = ()
    """R20: who is no replica any more and has not said yet that it has dropped its copy."""
    alone: bool = False
    """R19: the minimum was one and is higher now, and the ISR has not been at it since: what is committed may
    be on one copy only.
    """
    added: int = 0
    """R19: index of the alteration that has added it to its stream; 0 = it is as old as the stream."""

    @property
    def meant(self) -> tuple[int, ...]:
        """R20: who is to have a copy."""
        return self.target or self.replicas

    @property
    def created(self) -> int:
        """Index of the command that has made it: whoever ran before may never have opened its log."""
        return self.added or self.id.stream

    paused_at: int = 0
    """N1, N10: index of the last command that has paused the stream, or altered what its leaders ask for."""

    @property
    def origin(self) -> tuple[int, ...]:
        """R20: who had a copy before the moves that are under way."""
        return tuple(node for node in self.replicas if node not in self.adding)

    @property
    def leaving(self) -> tuple[int, ...]:
        """R20: who has a copy until the move is over."""
        return tuple(node for node in self.replicas if node not in self.target) if self.target else ()

    def assigned(self, target: Sequence[int], index: int) -> PartitionState:
        """R20: who has no copy yet begins one; nobody gives up any."""
        new = tuple(node for node in target if node not in self.replicas)
        return replaced(
            self,
            replicas=(*self.replicas, *new),
            target=tuple(target),
            adding=(*self.adding, *new),
            assignment=index,
        )

    def settled(self) -> PartitionState:
        """R20: only those who are to have a copy are left, and all of them are in the ISR."""
        target, gone = self.target, self.leaving
        return self.moved(
            replicas=target,
            isr=target,
            eligible=(),
            last_known={},
            alone=False,
            refused={node: text for node, text in self.refused.items() if node in target},
            slow={node: removals for node, removals in self.slow.items() if node in target},
            reports={node: run for node, run in self.reports.items() if node in target},
            target=(),
            adding=(),
            dropping=(*self.dropping, *gone),
        )

    def without_dropping(self, node: int) -> PartitionState:
        """R20: it has no copy any more, for sure."""
        return replaced(self, dropping=tuple(other for other in self.dropping if other != node))

    def moved(self, **fields: Any) -> PartitionState:
        """With these fields, in the next version."""
        return replaced(self, version=self.version + 1, **fields)

    def with_isr(self, members: Container[int]) -> PartitionState:
        """R13: below the minimum those who leave stay eligible; at or above it nobody outside is."""
        isr = self.ordered(members)
        if len(isr) >= self.min_insync:
            return self.moved(isr=isr, eligible=(), last_known={}, alone=False)
        outside = (*self.eligible, *self.isr)
        return self.moved(isr=isr, eligible=tuple(node for node in self.ordered(outside) if node not in isr))

    def without_trust_in(self, node: int, found: LastKnown) -> PartitionState:
        """R14: a replica that may lack committed data leaves ISR and eligible in one command.

        It is remembered for the case that nobody else is left. That memory ends when the ISR is back at the
        minimum, since committed data is then elsewhere.
        """
        known = self.last_known.get(node)
        if known is None and node not in self.isr and node not in self.eligible:
            return self
        if known is not None and known.lost:
            found = replaced(found, lost=True)
        isr = tuple(member for member in self.isr if member != node)
        if len(isr) >= self.min_insync:
            return self.moved(isr=isr, eligible=(), last_known={}, alone=False)
        eligible = tuple(member for member in self.eligible if member != node)
        return self.moved(isr=isr, eligible=eligible, last_known={**self.last_known, node: found})

    def with_minimum(self, minimum: int) -> PartitionState:
        """R13, R19: an ISR that is at the new minimum may commit alone: nobody outside is eligible any more.
        Below it nothing commits until it is at it, and who was eligible has everything, as before.
        """
        if len(self.isr) >= minimum:
            return self.moved(min_insync=minimum, eligible=(), last_known={}, alone=False)
        return self.moved(min_insync=minimum, alone=self.alone or self.min_insync == 1)

    def with_sole(self, node: int) -> PartitionState:
        """R13: an eligible replica is to lead, and is the whole ISR; the others keep their eligibility,
        unless the minimum was altered to one meanwhile: then the chosen one commits alone (R19).
        """
        outside = (*self.isr, *self.eligible) if self.min_insync > 1 else ()
        eligible = tuple(member for member in self.ordered(outside) if member != node)
        return replaced(self, isr=(node,), eligible=eligible)

    def led_by(self, node: int, incarnation: int, index: int) -> PartitionState:
        """A new epoch begins with the command at `index`. `node` 0: without a leader."""
        invariant(node == 0 or node in self.isr, f"leader {node} is not in the ISR {self.isr}")
        return self.moved(
            leader=node,
            leader_incarnation=incarnation,
            epoch=self.epoch + 1,
            led_since=index,
            ready=False,
            reports={},
            report_round=0,
        )

    def ordered(self, members: Container[int]) -> tuple[int, ...]:
        """Those of the replicas that are among the members, in the order of the replicas."""
        return tuple([node for node in self.replicas if node in members])


class StreamState(msgspec.Struct, frozen=True):
    id: int
    config: StreamConfig
    partitions: tuple[PartitionId, ...]
    revision: int = 0
    """R19: index of the last command that has altered the configuration."""


class CommandResult(msgspec.Struct, frozen=True):
    """Outcome of a command. `code` empty = done."""

    code: str = ""
    detail: str = ""
    stream: int = 0


OK = CommandResult()
STALE = CommandResult("stale", "the precondition does not hold any more")
LATE = CommandResult("late", "the index up to which this command meant something has passed")


class Records:
    """All records, and up to which index of the Raft log commands have made them what they are."""

    __slots__ = (
        "admissions",
        "applied",
        "attachments",
        "by_id",
        "changed",
        "deleted_at",
        "epoch",
        "founders",
        "level",
        "loads",
        "nodes",
        "outbox",
        "partitions",
        "replaced",
        "streams",
        "unsettled",
    )

    def __init__(self, activity_room: int = ROOM) -> None:
        self.applied = 0
        self.epoch = FIRST_CLUSTER
        """M5: of the cluster."""
        self.nodes: dict[int, NodeState] = {}
        self.admissions: dict[int, Admission] = {}
        self.founders: Founders = ()
        """I3: empty as long as no operator has admitted a node: all know them by their configuration."""
        self.streams: dict[str, StreamState] = {}
        self.by_id: dict[int, StreamState] = {}
        self.attachments = Attachments()
        """Follows the streams."""
        self.partitions: dict[PartitionId, PartitionState] = {}
        self.loads = Loads()
        """Follows the partitions."""
        self.deleted_at = 0
        """Index at which the last stream was deleted."""
        self.level = 1
        """U2: the cluster's feature level."""
        self.changed: dict[PartitionId, None] = {}
        """Partitions touched since `take_changed` (a dict for its order)."""
        self.unsettled: dict[PartitionId, None] = {}
        """R20: partitions that are moved, or of which somebody has a copy to drop. Follows the partitions."""
        self.outbox = ActivityOutbox(activity_room)
        """N12: what is to be told in the activity stream."""
        self.replaced: dict[PartitionId, PartitionState] = {}
        """Partitions that the last command has changed, as they were before it."""

    def is_live(self, node: int) -> bool:
        state = self.nodes.get(node)
        return state is not None and state.state == LIVE

    def refused_by_nats(self, partition: PartitionState) -> str:
        """N1: why nothing that is published reaches a partition, whoever of its ISR leads; else empty."""
        if any(self.is_live(node) and node not in partition.refused for node in partition.isr):
            return ""
        return partition.refused.get(partition.leader, "")

    def replicas_on(self, node: int) -> list[PartitionState]:
        """The partitions of which a node keeps a replica, as they are now."""
        return [partition for partition in self.partitions.values() if node in partition.replicas]

    def to_be_dropped_by(self, node: int) -> list[PartitionState]:
        """R20: the partitions of which a node, no replica any more, has not said that it has no copy."""
        unsettled = [self.partitions[partition] for partition in self.unsettled]
        return [partition for partition in unsettled if node in partition.dropping]

    def near(self, config: StreamConfig) -> list[StreamState]:
        """N7, N9: streams whose subjects may meet this one's, in the order of their creation."""
        return [self.by_id[stream] for stream in self.attachments.near(config)]

    def take_changed(self) -> list[PartitionId]:
        changed = list(self.changed)
        self.changed.clear()
        return changed

    # -- transitions -----------------------------------------------------------------------------------

    def begin(self, index: int) -> None:
        """The command at `index` is to be applied."""
        if index != self.applied + 1:
            raise InvariantViolation(f"metadata applied {self.applied}, then {index}")
        self.applied = index
        self.replaced.clear()

    def take_over(
        self,
        applied: int,
        deleted_at: int,
        nodes: dict[int, NodeState],
        streams: dict[str, StreamState],
        partitions: dict[PartitionId, PartitionState],
        loads: Loads,
        level: int = 1,
        epoch: ClusterEpoch = FIRST_CLUSTER,
        founders: Founders = (),
        admissions: Iterable[Admission] = (),
        outbox: OutboxHead | None = None,
        events: Iterable[ActivityEvent] = (),
        backward: bool = False,
    ) -> None:
        """M1p: what all commands up to `applied` have made, in place of what those so far have."""
        forward = applied > self.applied or backward
        invariant(forward, f"metadata applied {self.applied}, then a snapshot of {applied}")
        before, self.partitions = self.partitions, partitions
        configs = {stream.id: stream.config for stream in self.streams.values()}
        altered = {stream.id for stream in streams.values() if configs.get(stream.id) != stream.config}
        moved = [number for number, node in nodes.items() if self.nodes.get(number) != node]
        self.applied, self.deleted_at, self.level, self.epoch = applied, deleted_at, level, epoch
        self.founders = founders
        self.admissions = {admission.node: admission for admission in admissions}
        self.outbox.take_over(outbox, events)
        self.nodes, self.streams, self.loads = nodes, streams, loads
        self.by_id = {stream.id: stream for stream in streams.values()}
        self.attachments = Attachments((stream.id, stream.config) for stream in streams.values())
        self.unsettled = {}
        for record in partitions.values():
            self._note_moves(record)
        for partition in before:
            if partition not in partitions:
                self.changed[partition] = None
        for partition, record in partitions.items():
            # A record may be as it was although one of its nodes runs anew: its leader has to hear of that.
            moves = any(number in record.replicas for number in moved)
            if before.get(partition) != record or moves or partition.stream in altered:
                self.changed[partition] = None

    @property
    def voters_at(self) -> int:
        """Index of the last command that has said of some node whether it is to vote (M2)."""
        said = max((node.voter_at for node in self.nodes.values()), default=0)
        # What was said of a node that was removed since is forgotten with it; the removal stands for it.
        gone = (admission.at for admission in self.admissions.values() if admission.removed)
        return max(said, *gone, 0)

    def raise_level(self, level: int) -> None:
        """U2: it never goes down."""
        invariant(level > self.level, f"feature level {self.level}, then {level}")
        self.level = level

    @property
    def admitted_at(self) -> int:
        """Index of the last command that has said which nodes there are (I3)."""
        return max((admission.at for admission in self.admissions.values()), default=0)

    def is_removed(self, node: int) -> bool:
        """I3: whether the group has removed a node, and nobody has admitted it since."""
        admission = self.admissions.get(node)
        return admission is not None and admission.removed

    def replaced_by(self, heir: int) -> int:
        """I3: the node whose place this one is to take; 0 = of none."""
        if not heir:
            return 0
        return next((node.node for node in self.nodes.values() if node.retires and node.heir == heir), 0)

    def admit(self, admission: Admission, founders: Founders) -> None:
        """I3: a node is of the cluster. Who has founded it is said once."""
        invariant(admission.at == self.applied and not admission.removed, "a node is not admitted now")
        self.founders = self.founders or founders
        self.admissions[admission.node] = admission

    def remove_node(self, node: int, founders: Founders) -> None:
        """I3: a node that keeps nothing is of the cluster no more; no record names it any longer."""
        self.founders = self.founders or founders
        invariant(not self.replicas_on(node), f"node {node} is removed with its copies")
        for partition in self.to_be_dropped_by(node):
            self.put_partition(partition.without_dropping(node))
        self.nodes.pop(node, None)
        self.admissions[node] = Admission(node, "", self.applied, removed=True)

    def put_node(self, node: NodeState) -> None:
        before = self.nodes.get(node.node)
        if before is not None:
            invariant(node.incarnation >= before.incarnation, f"an incarnation of node {node.node} goes back")
            invariant(node.confirmed >= before.confirmed, f"what node {node.node} confirmed goes back")
        goes_on = before is not None and (node.state, node.since) == (before.state, before.since)
        begins = node.since == self.applied
        invariant(begins or goes_on, f"a state of node {node.node} does not begin now")
        invariant(
            node.confirmed <= node.incarnation <= self.applied, f"node {node.node} is ahead of the group"
        )
        self.nodes[node.node] = node

    def put_stream(self, stream: StreamState) -> None:
        """A stream that is created now. Its partitions come after it."""
        invariant(stream.id == self.applied, f"stream {stream.id} is created at {self.applied}")
        invariant(stream.config.name not in self.streams, f"stream {stream.config.name!r} exists")
        self.streams[stream.config.name] = self.by_id[stream.id] = stream
        self.attachments.attach(stream.id, stream.config)
        if stream.config.activity is True:
            self.outbox.begin(stream.id)

    def alter_stream(self, stream: StreamState) -> None:
        """R19: another configuration of a stream that exists. Its replicas are told. Partitions that are
        added come after it.
        """
        before = self.by_id[stream.id]
        kept = stream.partitions[: len(before.partitions)]
        same = (stream.config.name, kept) == (before.config.name, before.partitions)
        invariant(same, f"stream {stream.id} becomes another one")
        invariant(stream.revision == self.applied, f"stream {stream.id} is not altered now")
        self.streams[stream.config.name] = self.by_id[stream.id] = stream
        self.attachments.detach(stream.id, before.config)
        self.attachments.attach(stream.id, stream.config)
        for partition in stream.partitions:
            self.changed[partition] = None

    def remove_stream(self, stream: StreamState) -> None:
        del self.streams[stream.config.name]
        del self.by_id[stream.id]
        self.attachments.detach(stream.id, stream.config)
        self.deleted_at = self.applied
        if stream.id == self.outbox.stream:
            self.outbox.end()
        for partition in stream.partitions:
            gone = self.partitions.pop(partition)
            self.loads.placed(gone.replicas, by=-1)
            self.loads.led(gone.leader, 0)
            self.unsettled.pop(partition, None)
            self.changed[partition] = None

    def add_partition(self, partition: PartitionState) -> None:
        """One of a stream that is created now, or gets more of them now; nobody leads it yet."""
        invariant(partition.id not in self.partitions, f"partition {partition.id} exists")
        invariant(partition.epoch == 0 and partition.leader == 0, f"partition {partition.id} is led already")
        invariant(partition.created == self.applied, f"partition {partition.id} is not created now")
        self.partitions[partition.id] = partition
        self.loads.placed(partition.replicas)
        self.changed[partition.id] = None

    def put_partition(self, partition: PartitionState) -> None:
        """What a command made of a partition; also one that it only looked at, to have it told of."""
        before = self.partitions[partition.id]
        if partition is not before:
            problem = _problem(partition, before, self.applied)
            if problem:
                raise InvariantViolation(f"{partition.id}: {problem}")
            if partition.min_insync != before.min_insync:
                now = self.by_id[partition.id.stream].revision == self.applied
                invariant(now, f"the minimum in sync of {partition.id} is not altered now")
            self.loads.led(before.leader, partition.leader)
            if partition.replicas != before.replicas:
                self.loads.placed(before.replicas, by=-1)
                self.loads.placed(partition.replicas)
            self.replaced.setdefault(partition.id, before)
            self.partitions[partition.id] = partition
            self._note_moves(partition)
        self.changed[partition.id] = None

    def _note_moves(self, partition: PartitionState) -> None:
        if partition.target or partition.dropping:
            self.unsettled[partition.id] = None
        else:
            self.unsettled.pop(partition.id, None)


def _may_follow(now: PartitionState, before: PartitionState, index: int) -> bool:
    """R20: whether these may be the replicas after those: more of them, or those that were meant."""
    if now.replicas == before.replicas:
        return True
    if now.assignment == index:
        return now.replicas[: len(before.replicas)] == before.replicas and len(now.target) > 0
    return now.replicas == before.target and not now.target


def _problem(now: PartitionState, before: PartitionState, index: int) -> str:
    """Why the command at `index` cannot have made this record of the one before; empty if it can."""
    isr, eligible = now.isr, now.eligible
    if now.replicas is not before.replicas and not _may_follow(now, before, index):
        return f"the replicas {before.replicas} become {now.replicas}"
    if now.min_insync != before.min_insync and not 1 <= now.min_insync <= len(now.meant):
        return f"{now.min_insync} of the replicas {now.meant} have to be in sync"
    if isr is not before.isr and isr != now.ordered(isr):
        return f"the ISR {isr} is not of the replicas {now.replicas}"
    if eligible and eligible != tuple([node for node in now.ordered(eligible) if node not in isr]):
        return f"{eligible} are eligible beside the ISR {isr}"
    if now.leader and now.leader not in isr:
        return f"leader {now.leader} is not in the ISR {isr}"
    if now.epoch != before.epoch:
        if now.epoch != before.epoch + 1:
            return f"epoch {before.epoch}, then {now.epoch}"
        if now.led_since != index:
            return f"epoch {now.epoch} does not begin now"
    elif now.leader != before.leader:
        return f"epoch {now.epoch} passes from {before.leader} to {now.leader}"
    elif now.report_round < before.report_round:
        return f"a round of reports goes back in epoch {now.epoch}"
    if now.added != before.added:
        return f"it was added at {before.added}, then at {now.added}"
    if now.version < before.version:
        return f"version {before.version}, then {now.version}"
    same = (now.epoch, isr, eligible, now.min_insync) == (
        before.epoch,
        before.isr,
        before.eligible,
        before.min_insync,
    )
    if not same and now.version == before.version:
        return f"version {now.version} changes who leads or is in sync"
    return ""
