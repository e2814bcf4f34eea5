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
from typing import NamedTuple

from liftlog.core.guards import Guards
from liftlog.core.raft import Raft
from liftlog.format import decode_values
from liftlog.messages import (
    AppendLog,
    AppendReply,
    AppendRequest,
    Effect,
    PeerMessage,
    SaveHardState,
    Send,
    SetTimer,
    StorageJob,
    TruncateLog,
    VoteReply,
    VoteRequest,
)
from liftlog.types import NO_MUTANTS, Entry, HardState, Identity, Mutants, NodeConfig, Ticket

SETTLE_ROUNDS_MAX = 400


class InvariantBroken(AssertionError):
    def __init__(self, name: str, detail: str) -> None:
        super().__init__(f"{name}: {detail}")
        self.name = name


class Packet(NamedTuple):
    sender: int
    to: int
    message: PeerMessage


class DiskImage:
    """What one node's disk holds durably."""

    def __init__(self, disk_id: str) -> None:
        self.disk_id = disk_id
        self.hard_state = HardState()
        self.entries: list[Entry] = []

    def carry_out(self, job: StorageJob) -> None:
        if isinstance(job, SaveHardState):
            self.hard_state = job.state
        elif isinstance(job, TruncateLog):
            del self.entries[job.offset :]
        elif isinstance(job, AppendLog):
            for batch in job.batches:
                assert batch.base_offset == len(self.entries)
                for data in decode_values(batch):
                    self.entries.append(Entry(len(self.entries) + 1, batch.epoch, data))
        else:
            raise TypeError(f"Raft submitted {job!r}")


class Machine:
    """One run of one node: the Raft object, its unsynced jobs and the messages that wait for them."""

    def __init__(self, raft: Raft, effects: list[Effect]) -> None:
        self.raft = raft
        self.effects = effects
        self.jobs: list[StorageJob] = []
        self.held: list[Send] = []
        self.synced_ticket = 0
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
        self.disks = {n: DiskImage(f"disk-{n}") for n in self.nodes}
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
        disk = self.disks[node]
        effects: list[Effect] = []
        tickets = iter(range(1, 1 << 40))
        raft = Raft(
            self.configs[node],
            disk.hard_state,
            list(disk.entries),
            Identity(node, disk.disk_id),
            effects,
            lambda: Ticket(next(tickets)),
            self.guards,
            nonce=self.starts,
        )
        self.machines[node] = Machine(raft, effects)
        self.applied[node] = []
        self.step(node, partial(raft.start, 0.0))

    def crash(self, node: int, keep: int = 0) -> None:
        """Power loss: of the writes that are not synced, the first `keep` happen to be on the disk."""
        machine = self.machines.pop(node)
        for job in machine.jobs[:keep]:
            self.disks[node].carry_out(job)

    def wipe(self, node: int) -> None:
        """Replace the disk of a crashed node by an empty one."""
        assert node not in self.machines
        self.starts += 1
        self.disks[node] = DiskImage(f"disk-{node}-{self.starts}")

    # -- steps --------------------------------------------------------------------------------------------

    def step(self, node: int, call: Callable[[], object]) -> None:
        """Make one call, carry out its effects, check the invariants on this node."""
        machine = self.machines[node]
        call()
        effects = list(machine.effects)
        machine.effects.clear()
        for effect in effects:
            if isinstance(effect, Send):
                if effect.after <= machine.synced_ticket:
                    self.network.append(Packet(node, effect.to, effect.message))
                else:
                    machine.held.append(effect)
            elif isinstance(effect, StorageJob):
                machine.jobs.append(effect)
            elif isinstance(effect, SetTimer):
                machine.timers.append(effect)
            else:
                raise TypeError(f"Raft asked for {effect!r}")
        self.check(node)

    def sync(self, node: int, count: int | None = None) -> None:
        """Sync the first `count` writes of a node (all, if not given), one by one."""
        machine = self.machines[node]
        for job in list(machine.jobs[:count]):
            machine.jobs.remove(job)
            self.disks[node].carry_out(job)
            ticket: Ticket = job.ticket  # type: ignore[attr-defined]
            machine.synced_ticket = ticket
            self.step(node, lambda ticket=ticket: machine.raft.on_durable(ticket))
            for send in [send for send in machine.held if send.after <= ticket]:
                machine.held.remove(send)
                self.network.append(Packet(node, send.to, send.message))

    def arrive(self, packet: Packet) -> None:
        """A message arrives, whether it is in the network or was copied from it earlier."""
        machine = self.machines.get(packet.to)
        if machine is not None:
            self.step(packet.to, lambda: machine.raft.on_message(packet.sender, packet.message))

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
                    self.step(node, partial(raft.on_tick, (raft.ticks + 1.0) * raft.config.tick_ms))

    def fire(self, node: int) -> None:
        self.step(node, self.raft(node).on_election_timer)

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
        previous_term = 0
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
        if raft.log[:due] != self.committed[:due]:
            raise InvariantBroken("LeaderCompleteness", f"leader {node} of term {raft.term} lacks entries")


VOTES = (VoteRequest, VoteReply)
APPENDS = (AppendRequest, AppendReply)
