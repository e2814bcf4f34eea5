"""A group of Raft nodes under full control: messages wait to be delivered, writes wait to be synced.

Nothing happens by itself. A test says which message arrives, which write is synced, which timer fires, which
node loses power; the harness checks the invariants of the Raft paper after each step on the node touched, and
raises `InvariantBroken` with the invariant's name.

*ElectionSafety*: at most one leader in a term. *RaftLogMatching*: entries of equal index and term have equal
data and equal predecessors. *LeaderCompleteness*: a leader has every entry committed in an earlier term.
*StateMachineSafety*: no two nodes apply different entries at one index. *LinearizableRead*: the index of a
read covers everything that was committed when the read began.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from liftlog.core.guards import Guards
from liftlog.core.raft.raft import Raft
from liftlog.messages import (
    TIMER_ELECTION,
    TIMER_TICK,
    AppendReply,
    AppendRequest,
    Event,
    Outcome,
    PeerMessage,
    Received,
    SaveSnapshot,
    SetTimer,
    TimerFired,
    VoteReply,
    VoteRequest,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.nodeconfig import NodeConfig
from liftlog.types import Entry, HardState, Snapshot, Ticket
from liftlog_sim.cover.raft_alone import Do, RaftDisk, RaftProcess

SETTLE_ROUNDS_MAX = 400


class InvariantBroken(AssertionError):
    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


class Packet(NamedTuple):
    sender: int
    to: int
    message: PeerMessage


class Machine(RaftProcess):
    """One run of one node."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.timers: list[SetTimer] = []
        self.led_term = 0
        self.reads: dict[int, int] = {}
        """Key of a read under way -> how much was committed when it began."""


class Group:
    """`size` voters (ids from 1) and learners after them. `born`: start from disks with a certificate."""

    def __init__(
        self,
        size: int,
        mutants: Mutants = NO_MUTANTS,
        learners: int = 0,
        born: bool = True,
        **limits: int,
    ) -> None:
        voters = tuple(range(1, size + 1))
        extra = tuple(range(size + 1, size + learners + 1))
        self.nodes = [*voters, *extra]
        self.voters = voters
        self.mutants = mutants
        self.configs = {n: NodeConfig(node=n, voters=voters, learners=extra, **limits) for n in self.nodes}
        self.disks = {n: RaftDisk(f"disk-{n}") for n in self.nodes}
        self.network: list[Packet] = []
        self.machines: dict[int, Machine] = {}
        self.guards = Guards(mutants)
        self.guards.marks = self.marks = Counter()
        self.leaders: dict[int, int] = {}
        self.known: dict[tuple[int, int], tuple[bytes, int]] = {}
        self.committed: list[Entry] = []
        self.commit_terms: list[int] = []
        """Term in which each entry was first seen committed: leaders of later terms must have it."""
        self.applied: dict[int, list[bytes]] = {n: [] for n in self.nodes}
        self.reads_done: dict[int, int] = {}
        self.reads_failed: list[int] = []
        self.starts = 0
        self.next_key = 1
        if born:
            certificate = tuple((voter, f"disk-{voter}") for voter in voters)
            for voter in voters:
                self.disks[voter].hard_state = HardState(peer_disks=certificate, born=True)
        for node in self.nodes:
            self.restart(node)

    # -- processes ----------------------------------------------------------------------------------------

    def raft(self, node: int) -> Raft:
        return self.machines[node].raft

    def restart(self, node: int) -> None:
        """Start a process on what the disk holds."""
        assert node not in self.machines
        self.starts += 1
        self.machines[node] = Machine(
            self.configs[node],
            self.disks[node],
            self.guards,
            self.starts,
            lambda sender, to, message: self.network.append(Packet(sender, to, message)),
            partial(self.stepped, node),
        )
        snapshot = self.disks[node].snapshot
        self.applied[node] = [] if snapshot is None else list(self.state_of(snapshot))
        self.begin(node)

    def begin(self, node: int) -> None:
        self.machines[node].start()
        self.check(node)

    def crash(self, node: int, keep: int = 0) -> None:
        """Power loss: of the writes that are not synced, the first `keep` happen to be on the disk."""
        machine = self.machines.pop(node)
        for job in machine.jobs[:keep]:
            self.disks[node].carry_out(job)

    def wipe(self, node: int) -> None:
        """Replace the disk of a crashed node by an empty one."""
        assert node not in self.machines
        self.starts += 1
        self.disks[node] = RaftDisk(f"disk-{node}-{self.starts}")

    # -- snapshots ----------------------------------------------------------------------------------------

    def state_of(self, snapshot: Snapshot) -> tuple[bytes, ...]:
        """What the commands up to its end have made, by what it holds: each chunk is what one has written."""
        return snapshot.chunks

    def save(self, node: int) -> Snapshot:
        """A snapshot of what the node has applied is on its disk, and its Raft hears of that."""
        raft = self.raft(node)
        applied = self.applied[node]
        index = len(applied)
        snapshot = Snapshot(index, raft.raft_log.term_at(index), tuple(applied))
        self.disks[node].carry_out(SaveSnapshot(snapshot, Ticket(0)))
        self.step(node, lambda: raft.snapshot_saved(snapshot))
        return snapshot

    # -- steps --------------------------------------------------------------------------------------------

    def step(self, node: int, call: Callable[[], object]) -> None:
        """Make one call, carry out its effects, check the invariants on this node."""
        self.take_in(node, Do(call))

    def take_in(self, node: int, event: Event) -> None:
        self.machines[node].take(event)
        self.check(node)

    def stepped(self, node: int, event: Event | None, outcome: Outcome) -> None:
        """A step is done, and nothing of it carried out yet."""
        timers = (effect for effect in outcome.effects if isinstance(effect, SetTimer))
        self.machines[node].timers.extend(timers)

    def sync(self, node: int, count: int | None = None) -> None:
        """Sync the first `count` writes of a node (all, if not given), one by one."""
        for job in self.machines[node].jobs[:count]:
            self.machines[node].store(job)
            self.check(node)

    def arrive(self, packet: Packet) -> None:
        """A message arrives, whether it is in the network or was copied from it earlier."""
        if packet.to in self.machines:
            self.take_in(packet.to, Received(packet.sender, packet.message))

    def deliver(self, *kinds: type, sender: int | None = None, to: int | None = None) -> list[Packet]:
        """Deliver the messages that now wait and match; what they cause waits for the next call."""
        chosen = self.take(*kinds, sender=sender, to=to)
        for packet in chosen:
            self.arrive(packet)
        return chosen

    def take(self, *kinds: type, sender: int | None = None, to: int | None = None) -> list[Packet]:
        """Take messages out of the network: to lose them, or to let them arrive later."""
        chosen = [
            packet
            for packet in self.network
            if (not kinds or isinstance(packet.message, kinds))
            and sender in (None, packet.sender)
            and to in (None, packet.to)
        ]
        self.network = [packet for packet in self.network if packet not in chosen]
        return chosen

    def settle(self, *, cut: tuple[int, ...] = (), sync: bool = True) -> None:
        """Deliver and sync until nothing is left to do. Messages from and to nodes in `cut` are lost."""
        for _ in range(SETTLE_ROUNDS_MAX):
            unsynced = [node for node, machine in self.machines.items() if sync and machine.jobs]
            for node in unsynced:
                self.sync(node)
            packets, self.network = self.network, []
            if not packets and not unsynced:
                return
            for packet in packets:
                if packet.sender not in cut and packet.to not in cut:
                    self.arrive(packet)
        raise AssertionError("the group does not come to rest")

    def tick(self, *nodes: int, times: int = 1) -> None:
        for _ in range(times):
            for node in nodes or list(self.machines):
                if node in self.machines:
                    raft = self.raft(node)
                    now_ms = (raft.ticks + 1.0) * raft.config.tick_ms
                    self.take_in(node, TimerFired(TIMER_TICK, now_ms))

    def fire(self, node: int) -> None:
        self.take_in(node, TimerFired(TIMER_ELECTION, 0.0))

    def forget_leader(self, *nodes: int) -> None:
        """So much time passes at these nodes that they no longer hear a leader."""
        self.tick(*nodes, times=self.raft(nodes[0]).election_min_ticks)

    def elect(self, node: int, cut: tuple[int, ...] = ()) -> Raft:
        """Have `node` elected by everybody who is not cut off."""
        others = [other for other in self.machines if other not in cut and not self.raft(other).is_leader]
        self.forget_leader(*others)
        # A candidate behind in its term learns that from the refusals and wins the next time.
        for _ in range(2):
            if not self.raft(node).is_leader:
                self.fire(node)
                self.settle(cut=cut)
        assert self.raft(node).is_leader
        return self.raft(node)

    def settle_votes(self, candidate: int, voters: tuple[int, ...]) -> None:
        """Carry pre-votes and votes between a candidate and some voters, and nothing else."""
        for _ in range(2):
            self.sync(candidate)
            for voter in voters:
                self.deliver(VoteRequest, sender=candidate, to=voter)
                self.sync(voter)
                self.deliver(VoteReply, sender=voter, to=candidate)
        self.take(*VOTES)

    def propose(self, node: int, data: bytes) -> int:
        indexes: list[int | None] = []
        self.step(node, lambda: indexes.append(self.raft(node).propose(data)))
        assert indexes[0] is not None
        return indexes[0]

    def read(self, node: int) -> int:
        """Begin a read; its key. The result appears in `reads_done` or `reads_failed`."""
        key = self.next_key
        self.next_key += 1
        self.machines[node].reads[key] = len(self.committed)
        self.step(node, lambda: self.raft(node).read(key))
        return key

    def heal(self, ticks: int = 200) -> int:
        """No more faults: every process runs, every message arrives. The leader that results."""
        for node in self.nodes:
            if node not in self.machines:
                self.restart(node)
        for turn in range(ticks):
            self.tick()
            self.settle()
            leader = self.leader()
            if leader and self.raft(leader).leadership is not None and turn > 60:
                return leader
            if turn % 10 == 9 and not leader:
                self.fire(self.voters[(turn // 10) % len(self.voters)])
        raise AssertionError("no leader though nothing fails any more")

    def leader(self) -> int:
        """The leader of the highest term, 0 = none."""
        leading = [
            (machine.raft.term, node) for node, machine in self.machines.items() if machine.raft.is_leader
        ]
        return max(leading)[1] if leading else 0

    def durable_terms(self, node: int) -> list[int]:
        return [entry.term for entry in self.disks[node].entries]

    def terms(self, node: int) -> list[int]:
        return [entry.term for entry in self.raft(node).log]

    # -- invariants ---------------------------------------------------------------------------------------

    def check(self, node: int) -> None:
        machine = self.machines[node]
        raft = machine.raft
        if raft.installing.take_installed() is not None:
            assert raft.snapshot is not None
            self._check_installed(node, raft.snapshot)
        for entry in raft.take_committed():
            self._check_applied(node, entry)
        self._check_log(raft)
        if raft.is_leader and machine.led_term != raft.term:
            machine.led_term = raft.term
            self._check_new_leader(node, raft)
        for key, index in raft.reads_ready:
            if index < machine.reads.pop(key):
                raise InvariantBroken("LinearizableRead", f"node {node} answers read {key} at index {index}")
            self.reads_done[key] = index
        self.reads_failed.extend(raft.reads_failed)
        raft.reads_ready.clear()
        raft.reads_failed.clear()

    def _check_installed(self, node: int, snapshot: Snapshot) -> None:
        found = [entry.data for entry in self.committed[: snapshot.index]]
        if found != list(snapshot.chunks) or snapshot.index <= len(self.applied[node]):
            raise InvariantBroken("SnapshotState", f"node {node} installs another state of {snapshot.index}")
        self.applied[node] = list(snapshot.chunks)

    def _check_applied(self, node: int, entry: Entry) -> None:
        self.applied[node].append(entry.data)
        index = len(self.applied[node])
        assert entry.index == index
        if index > len(self.committed):
            self.committed.append(entry)
            self.commit_terms.append(self.raft(node).term)
        elif self.committed[index - 1] != entry:
            raise InvariantBroken("StateMachineSafety", f"node {node} applies another entry at {index}")

    def _check_log(self, raft: Raft) -> None:
        previous_term = raft.raft_log.start_term
        for entry in raft.log:
            known = self.known.setdefault((entry.index, entry.term), (entry.data, previous_term))
            if known != (entry.data, previous_term):
                raise InvariantBroken("RaftLogMatching", f"two entries {entry.index} of term {entry.term}")
            previous_term = entry.term

    def _check_new_leader(self, node: int, raft: Raft) -> None:
        other = self.leaders.setdefault(raft.term, node)
        if other != node:
            raise InvariantBroken("ElectionSafety", f"nodes {other} and {node} lead term {raft.term}")
        # A stale majority may still elect a leader of a past term, which will commit nothing.
        due = sum(term < raft.term for term in self.commit_terms)
        start = raft.raft_log.start
        if start > len(self.committed) or raft.log[: max(0, due - start)] != self.committed[start:due]:
            raise InvariantBroken("LeaderCompleteness", f"leader {node} of term {raft.term} lacks entries")


VOTES = (VoteRequest, VoteReply)
APPENDS = (AppendRequest, AppendReply)
