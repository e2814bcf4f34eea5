"""What changes at a node, told to its log. The node does not know that it is watched.

After a step the watcher compares what it knew with what is: offices, in-sync sets, sessions, the controller,
the fence, disks and damage. It looks at the node once a tick and after each command, and at a copy at once if
one was about it or its log was opened or failed; at all others in turn, some with each tick, so that many
copies cost no more than few. A step that carries messages costs it two comparisons. Before the node is
registered the metadata that it reads is history, which is not told again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from logging import ERROR, INFO, WARNING

from liftlog.core.metadata.records import EXPIRED, LEFT, LIVE, PartitionState
from liftlog.core.node import Node
from liftlog.core.replica.state.log import FAILED, READY
from liftlog.eventlog import Sparing, say
from liftlog.messages import (
    TIMER_TICK,
    Event,
    LogOpened,
    MetadataStalled,
    OriginAnswered,
    Outcome,
    PeerBack,
    PeerLost,
    StorageFailed,
    TimerFired,
)
from liftlog.types import RAFT_LOG, PartitionId

TELL_EVERY_TICKS = 10
ALONE_TICKS = 600
"""For so long a node that joins asks in silence."""
COPIES_A_TICK = 200
NO_VOTE = ("withheld", "wiped")


class Watcher:
    """Tells what changes at a node. Create it before the node is started; `stepped` observes it."""

    def __init__(self, node: Node, sparing: Sparing) -> None:
        self._node = node
        self._sparing = sparing
        self._ticks = 0
        self._refused = 0
        self._applied = 0
        self._snapshot = node.raft.snapshot
        self._members = node.raft.members
        self._controller: int | None = None
        self._incarnation = 0
        self._fenced = True
        self._vote = node.raft.standing
        self._sessions: dict[int, tuple[str, int]] = {}
        self._in_sync: dict[PartitionId, tuple[tuple[int, ...], int]] = {}
        self._slow: dict[PartitionId, Mapping[int, int]] = {}
        self._offices: dict[PartitionId, tuple[str, int, int]] = {}
        self._states: dict[PartitionId, str] = {}
        self._damage: dict[PartitionId, tuple[str, ...]] = {}
        self._letters: dict[PartitionId, dict[str, str]] = {}
        self._stands: dict[PartitionId, str] = {}
        """R28: why mirrors of other clusters' streams get nothing."""
        self._touched: dict[PartitionId, None] = {}
        self._turn: deque[PartitionId] = deque()
        """Copies that no tick has come to since all had their turn."""
        self._names: dict[int, str] = {}
        self._lost: dict[int, None] = {}
        self._hinted = 0
        self._alone = False
        """Whether that was said."""

    def stepped(self, event: Event | None, outcome: Outcome) -> None:
        kind = type(event)
        for partition in outcome.touched:
            self._touched[partition] = None
        if kind is TimerFired and event.kind == TIMER_TICK:  # type: ignore[union-attr]
            self._take_turns()
            self._look()
            self._ticks += 1
            if self._ticks % TELL_EVERY_TICKS == 0:
                self._sparing.tell(time.time())
        elif kind is MetadataStalled:
            self._metadata_stalled(event)  # type: ignore[arg-type]
        elif kind is StorageFailed:
            self._storage_failed(event)  # type: ignore[arg-type]
            self._touched[event.log] = None  # type: ignore[union-attr]
            self._look()
        elif kind is PeerLost or kind is PeerBack:
            self._look_at_hint(event.peer)  # type: ignore[union-attr]
        elif kind is OriginAnswered:
            self._look_at_origin(event.partition)  # type: ignore[union-attr]
        elif kind is LogOpened:
            self._touched[event.summary.log] = None  # type: ignore[union-attr]
            self._look()
        elif event is None or self._node.metadata.applied != self._applied:
            self._look()

    # -- looking ---------------------------------------------------------------------------------------------

    def _take_turns(self) -> None:
        """The next copies are touched, and those that are not kept here any more."""
        if not self._turn:
            self._turn.extend(dict.fromkeys([*self._node.replicas, *self._offices]))
        for _ in range(min(COPIES_A_TICK, len(self._turn))):
            self._touched[self._turn.popleft()] = None

    def _look(self) -> None:
        """At the node, and at the copies that were touched."""
        node = self._node
        self._applied = node.metadata.applied
        if node.ctx.refused != self._refused:
            self._look_at_refusals()
        self._look_at_group()
        self._look_at_snapshot()
        self._look_at_members()
        self._look_at_ends()
        if not node.incarnation:
            self._look_at_joining()
            self._touched.clear()
            return
        if not self._incarnation:
            self._registered()
        self._look_at_sessions()
        for partition in self._touched:
            if partition in node.replicas:
                self._look_at_in_sync(partition)
                self._look_at_copy(partition)
                self._look_at_letters(partition)
            elif partition in self._offices:
                self._forget(partition)
        self._touched.clear()

    def _forget(self, partition: PartitionId) -> None:
        del self._offices[partition]
        self._states.pop(partition, None)
        self._damage.pop(partition, None)
        self._letters.pop(partition, None)
        self._stands.pop(partition, None)
        self._in_sync.pop(partition, None)
        self._slow.pop(partition, None)
        say(INFO, "role", f"{self._name(partition)}: not kept here any more", **_fields(partition, self))

    def _look_at_origin(self, partition: PartitionId) -> None:
        """R28: whether a mirror gets what it copies of another cluster."""
        replica = self._node.replicas.get(partition)
        if replica is None or replica.roles is None:
            return
        why, known = replica.roles.stands, self._stands.get(partition, "")
        self._stands[partition] = why
        if why and why != known:
            text = f"{self._name(partition)} gets nothing: {why}"
            say(WARNING, "mirror", text, **_fields(partition, self), problem=why)
        elif known and not why:
            text = f"{self._name(partition)} is copied again"
            say(INFO, "mirror", text, **_fields(partition, self), problem="")

    def _look_at_snapshot(self) -> None:
        """M1p, M1q."""
        snapshot = self._node.raft.snapshot
        if snapshot is self._snapshot or snapshot is None:
            return
        self._snapshot = snapshot
        size = sum(map(len, snapshot.chunks))
        text = f"the metadata is in a snapshot of the first {snapshot.index:,} commands ({size:,} bytes)"
        say(INFO, "snapshot", text, index=snapshot.index, bytes=size)

    def _look_at_members(self) -> None:
        """M2: who votes in the metadata group."""
        members, known = self._node.raft.members, self._members
        if members is known:
            return
        self._members = members
        if not (known.known and members.known and self._node.incarnation):
            return
        voters = ", ".join(map(str, members.nodes))
        learners = [learner.node for learner in members.learners]
        joining = f"; node {learners[0]} is on the way" if learners else ""
        text = f"the metadata group's voters are nodes {voters}{joining}"
        say(INFO, "voters", text, voters=list(members.nodes), learners=learners)

    def _look_at_joining(self) -> None:
        """I3: whoever joins and hears nobody may have been told the wrong ones."""
        node, config = self._node, self._node.config
        if self._alone or not config.joins or self._controller or self._ticks < ALONE_TICKS:
            return
        self._alone = True
        asked, silent_ms = sorted(node.roster.other_nodes), ALONE_TICKS * config.tick_ms
        text = (
            f"nobody of nodes {_listed(asked)} has told this node who leads, for {silent_ms // 1000} s: "
            "[peers] has to name a node that is in the cluster now, as 'liftlog cluster status' shows it; if "
            f"this node is new, add it there: 'liftlog cluster add {config.node} HOST:PORT'"
        )
        say(WARNING, "join", text, asked=asked, silent_ms=silent_ms)

    def _look_at_hint(self, peer: int) -> None:
        """N2: whether it is said that nobody listens there."""
        ctx = self._node.ctx
        lost = peer in ctx.hints
        if lost == (peer in self._lost) or not self._node.incarnation:
            return
        if lost:
            self._lost[peer] = None
            text = f"nobody listens any more where node {peer} should: unless it is heard, others take over"
            say(INFO, "hint", text, about=peer, lost=True)
        else:
            del self._lost[peer]
            say(INFO, "hint", f"node {peer} is connected again", about=peer, lost=False)

    def _look_at_ends(self) -> None:
        """As controller: a session ends sooner than without the hint."""
        ends, hinted = self._hinted, self._node.ctx.marks.get("R15.hinted", 0)
        if hinted != ends:
            self._hinted = hinted
            config = self._node.config
            silent_ms = config.lease_ms + config.fence_margin_ms
            text = f"a node of which that was said is silent for {silent_ms} ms: its session ends"
            say(INFO, "hint", text, silent_ms=silent_ms)

    def _look_at_refusals(self) -> None:
        """V2 to V4: a peer is broken, of another version, or not who it says."""
        ctx = self._node.ctx
        count, self._refused = ctx.refused - self._refused, ctx.refused
        last = ctx.last_refusal.encode("unicode_escape").decode()
        say(WARNING, "refused", f"{count} messages of nodes were refused, the last: {last}", refused=count)

    def _look_at_group(self) -> None:
        node = self._node
        contact = node.standing.contact()
        controller = node.raft.leader if contact.has_controller else 0
        if controller != self._controller:
            known, self._controller = self._controller, controller
            fields = {"controller": controller, "term": node.raft.term}
            if controller == node.config.node:
                say(INFO, "controller", f"this node is the controller, in term {node.raft.term}", **fields)
            elif controller:
                text = f"node {controller} is the controller, in term {node.raft.term}"
                say(INFO, "controller", text, **fields)
            elif known:
                voters = ", ".join(map(str, node.raft.members.nodes))
                text = f"no controller is heard, the last one was node {known}: nothing is created or elected"
                say(WARNING, "controller", f"{text} until most of nodes {voters} meet", **fields)
        if contact.vote != self._vote:
            before, self._vote = self._vote, contact.vote
            if contact.vote in NO_VOTE and before not in NO_VOTE:
                text = "this disk was found empty or set back: no vote until the others have let it in"
                say(WARNING, "quorum", text, vote=contact.vote)
            elif contact.vote == "removed":
                text = "this node does not vote any more, as an operator wants it"
                say(INFO, "quorum", text, vote=contact.vote)
            elif contact.vote == "born":
                say(INFO, "quorum", "this node's vote counts", vote=contact.vote)
        if contact.fenced != self._fenced and node.incarnation and self._incarnation:
            self._fenced = contact.fenced
            if contact.fenced:
                text = f"the controller answered {contact.session_ms} ms ago: this node takes no messages"
                say(WARNING, "fence", text, fenced=True, session_ms=contact.session_ms)
            else:
                say(INFO, "fence", "the controller answers: this node takes messages", fenced=False)

    def _registered(self) -> None:
        """From here on the metadata is news."""
        node = self._node
        self._incarnation = node.incarnation
        say(INFO, "session", f"registered as incarnation {node.incarnation}", incarnation=node.incarnation)
        for state in node.metadata.nodes.values():
            self._sessions[state.node] = (state.state, state.incarnation)
        for partition in node.replicas:
            self._touched[partition] = None
            record = node.metadata.partitions[partition.partition]
            self._in_sync[partition] = (record.isr, record.leader)
            self._slow[partition] = record.slow

    def _look_at_sessions(self) -> None:
        for state in self._node.metadata.nodes.values():
            now = (state.state, state.incarnation)
            before = self._sessions.get(state.node)
            if now == before:
                continue
            self._sessions[state.node] = now
            mine = state.node == self._node.config.node
            who = "this node" if mine else f"node {state.node}"
            level, text = INFO, f"{who} is live as incarnation {state.incarnation}"
            if state.state == EXPIRED:
                level, text = WARNING, f"the session of {who} is lost: it is in no in-sync set any more"
            elif state.state == LEFT:
                text = f"{who} stops in an orderly way and is in no in-sync set any more"
            elif state.state != LIVE:
                text = f"{who} has started as incarnation {state.incarnation}"
                if state.reset:
                    level = WARNING
                    text += ", with a disk that was found empty or set back: its copies are fetched anew"
            say(level, "session", text, about=state.node, state=state.state, incarnation=state.incarnation)

    def _look_at_in_sync(self, partition: PartitionId) -> None:
        record = self._node.metadata.partitions.get(partition)
        if record is None or partition not in self._node.replicas:
            return
        self._look_at_slow(partition, record)
        now = (record.isr, record.leader)
        before = self._in_sync.get(partition, ((), 0))
        if now == before:
            return
        self._in_sync[partition] = now
        fields = _fields(partition, self) | {"isr": list(record.isr), "leader": record.leader}
        name = self._name(partition)
        if not record.leader:
            say(ERROR, "isr", f"{name}: no leader; in sync: {_listed(record.isr)}", **fields)
            return
        if record.isr == before[0]:
            return
        text = f"{name}: in sync {_listed(record.isr)}"
        gone = [node for node in before[0] if node not in record.isr]
        come = [node for node in record.isr if node not in before[0]]
        if gone or (come and before[0]):
            moves = [f"{_listed(gone)} left"] * bool(gone) + [f"{_listed(come)} joined"] * bool(come)
            text += f" ({', '.join(moves)})"
        if len(record.isr) < record.min_insync:
            say(WARNING, "isr", f"{text}: below the minimum of {record.min_insync}, no acks", **fields)
        else:
            say(INFO, "isr", text, **fields)

    def _look_at_slow(self, partition: PartitionId, record: PartitionState) -> None:
        """R17, R18: for whom the others waited."""
        before, self._slow[partition] = self._slow.get(partition, {}), record.slow
        if record.slow is before:
            return
        name, fields = self._name(partition), _fields(partition, self)
        for node, removals in record.slow.items():
            if before.get(node) == removals:
                continue
            text = f"{name}: everybody waited for node {node}"
            if removals:
                text += f": it is out of sync until it keeps up, {_times(removals)}"
                say(WARNING, "slow", text, **fields, about=node, removals=removals)
            else:
                say(WARNING, "slow", f"{text}, which leads no more", **fields, about=node, removals=0)
        for node in [known for known in before if known not in record.slow]:
            say(INFO, "slow", f"{name}: node {node} is taken for quick again", **fields, about=node)

    def _look_at_letters(self, partition: PartitionId) -> None:
        """K9: of a leader's journal: which consumers have dead letters that nobody stores, and why."""
        roles = self._node.replicas[partition].roles
        consumers = roles.consumers if roles is not None else None
        now = consumers.letters.problems() if consumers is not None else {}
        before = self._letters.get(partition, {})
        if now == before:
            return
        self._letters[partition] = now
        name = self._name(partition.partition)
        for consumer, problem in now.items():
            if before.get(consumer) != problem:
                text = f"{name}: dead letters of consumer {consumer!r} wait: {problem}"
                text += f"; see: liftlog consumer info {self.stream(partition)} {consumer}"
                say(WARNING, "dead-letters", text, **_fields(partition, self), consumer=consumer)

    def _look_at_copy(self, partition: PartitionId) -> None:
        replica = self._node.replicas[partition]
        following = replica.following
        office = (replica.role, replica.epoch, following.leader if following is not None else 0)
        if office != self._offices.get(partition) and replica.state == READY:
            self._offices[partition] = office
            role, epoch, leader = office
            text = {
                "leader": f"leads epoch {epoch}, from offset {replica.leo}",
                "follower": f"follows node {leader} in epoch {epoch}",
            }.get(role, f"neither leads nor follows in epoch {epoch}")
            fields = _fields(partition, self) | {"role": role, "epoch": epoch, "leo": replica.leo}
            say(INFO, "role", f"{self._name(partition)}: {text}", **fields)
        before = self._states.get(partition)
        if replica.state != before:
            self._states[partition] = replica.state
            if replica.log.broken:
                text = f"{self._name(partition)}: stopped for good, its state contradicts itself"
                text += f" ({replica.log.broken}); report this, and restart the node to read its disk anew"
                say(ERROR, "broken", text, **_fields(partition, self), error=replica.log.broken)
            if before == FAILED and replica.state == READY:
                text = f"{self._name(partition)}: open again, from offset {replica.leo}"
                say(INFO, "disk", text, **_fields(partition, self), leo=replica.leo)
        damage = tuple(str(found) for found in replica.repairs.ranges)
        if damage != self._damage.get(partition, ()):
            known, self._damage[partition] = self._damage.get(partition, ()), damage
            self._tell_damage(partition, [found for found in damage if found not in known], bool(damage))

    def _tell_damage(self, partition: PartitionId, found: Sequence[str], left: bool) -> None:
        fields = _fields(partition, self) | {"ranges": list(found)}
        name = self._name(partition)
        if found:
            text = f"{name}: offsets {', '.join(found)} cannot be read; the leader is asked for them"
            say(ERROR, "damage", text, **fields)
        elif not left:
            say(INFO, "damage", f"{name}: repaired, every offset can be read", **fields)

    def _metadata_stalled(self, event: MetadataStalled) -> None:
        if event.error:
            text = f"the metadata cannot be stored ({event.error}): for now this node gives no vote"
            text += " and leads no group; reads go on; make room on it"
            say(ERROR, "disk", text, error=event.error, sync=False)
        else:
            say(INFO, "disk", "the metadata is stored again")

    def _storage_failed(self, event: StorageFailed) -> None:
        if event.log == RAFT_LOG:
            say(ERROR, "disk", f"the metadata cannot be stored: {event.error}", error=event.error)
            return
        replica = self._node.replicas.get(event.log)
        if replica is None:
            return
        name, fields = self._name(event.log), _fields(event.log, self) | {"error": event.error}
        if event.sync:
            text = f"{name}: a sync failed ({event.error}): this copy is out of sync until it is fetched anew"
            say(ERROR, "disk", text, **fields, sync=True)
        elif replica.state == FAILED:
            text = f"{name}: a write was refused ({event.error}): reads go on, writes are tried every second"
            say(ERROR, "disk", text, **fields, sync=False)
        else:
            say(WARNING, "disk", f"{name}: housekeeping was put off ({event.error})", **fields, sync=False)

    # -- names -----------------------------------------------------------------------------------------------

    def stream(self, partition: PartitionId) -> str:
        """The stream's name, also when it has just been deleted."""
        stream = self._node.metadata.by_id.get(partition.stream)
        if stream is not None:
            self._names[partition.stream] = stream.config.name
        return self._names.get(partition.stream, f"id {partition.stream}")

    def _name(self, partition: PartitionId) -> str:
        return f"'{self.stream(partition)}' partition {partition.label}"


def _fields(partition: PartitionId, watched: Watcher) -> dict[str, object]:
    return {"stream": watched.stream(partition), "partition": partition.partition.index}


def _times(removals: int) -> str:
    return "the first time" if removals == 1 else f"the {removals}. time"


def _listed(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes)) or "none"
