"""What a member of the metadata group knows, and what of it can change how (M1).

`RaftState` is read by every part of Raft and written by its own transitions only, which check what Raft rests
on where it is written. A violation means that the log of commands is in doubt: the process stops.

    term       never falls; no entry is of a later one (M1n)
    vote       changes with the term, or from nobody to somebody (M1a)
    role       a candidate alone becomes leader; who leads is known as leader to itself
    log        entries follow each other, terms never fall; a leader's only grows; what is committed stays
               (M1f)
    commit     never falls, never passes the log's end (M1h)
    snapshot   of what is committed; each is of more than the one before; the log begins no later than it ends
               (M1p, M1q)
    durable    never passes the log's end (M1g, `liftlog.core.raft.log`)
    members    who counts, by the last configuration in the log (M2, `liftlog.core.raft.members`)
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from liftlog.core.guards import Guards
from liftlog.core.hints import Hints
from liftlog.core.raft.log import RaftLog
from liftlog.core.raft.members import Configurations, founders
from liftlog.messages import Effect, InstallSnapshot, PeerMessage
from liftlog.nodeconfig import NodeConfig
from liftlog.types import (
    BEGINNING,
    NO_NODE,
    Entry,
    GroupMember,
    HardState,
    InvariantViolation,
    LogBase,
    Members,
    Snapshot,
    Ticket,
    invariant,
)

KEPT_FOR_INSTALL = 16
"""M1q: the log keeps what follows a snapshot that is on its way to somebody, but no more than so many times
what it keeps in any case.
"""
Refuse = Callable[[str, int, PeerMessage, str], None]
"""Told the rule, the sender, the message and the reason."""


class Role(Enum):
    FOLLOWER = "follower"
    PRE_CANDIDATE = "pre-candidate"
    CANDIDATE = "candidate"
    LEADER = "leader"


# Looking up a member of an Enum class costs more than a global, and heartbeats are the most frequent event.
FOLLOWER, PRE_CANDIDATE, CANDIDATE, LEADER = Role


class RaftState:
    """See the module. Parts append to `effects`, `reads_ready` and `reads_failed` what is to be done."""

    def __init__(
        self,
        config: NodeConfig,
        hard_state: HardState,
        entries: list[Entry],
        effects: list[Effect],
        new_ticket: Callable[[], Ticket],
        guards: Guards,
        disk_id: str,
        refuse: Refuse | None = None,
        hints: Hints | None = None,
        snapshot: Snapshot | None = None,
        base: LogBase = BEGINNING,
        members: Members | None = None,
    ) -> None:
        """`members`: the configuration that the snapshot ends with, if there is one."""
        self.config = config
        self.node = config.node
        self.disk_id = disk_id
        self.effects = effects
        self.mark = guards.mark
        self.decides = guards.decides
        self.mutants = guards.mutants
        self.refuse = refuse if refuse is not None else lambda rule, *_: guards.mark(rule)
        self.election_min_ticks = -(-config.election_min_ms // config.tick_ms)
        self.election_max_ticks = -(-config.election_max_ms // config.tick_ms)
        # It may have come just before a tick: what is to last so long takes one tick more.
        self.suspicion_ticks = -(-config.suspicion_ms // config.tick_ms) + 1
        self.hints = hints if hints is not None else Hints()
        self.term = hard_state.term
        self.voted_for = hard_state.voted_for
        self.voted_disk = hard_state.voted_disk
        self.raft_log = RaftLog(entries, effects, new_ticket, base)
        self.snapshot = snapshot
        """The newest that this node has: whoever needs entries that are gone gets this (M1q)."""
        if self.raft_log.last_term > self.term:
            # A power loss in the middle of a group of writes may keep entries of a term and lose the record
            # of the term. No answer of that term has left this node, since answers wait for both.
            self.term = self.raft_log.last_term
            self.voted_for, self.voted_disk = NO_NODE, ""
        self.term_at_start = self.term
        self.role = FOLLOWER
        self.is_leader = False
        """Whether that is the role: asked more often than anything else."""
        self.leader: int = NO_NODE
        self.commit = snapshot.index if snapshot is not None else 0
        known = base.index <= self.commit <= self.raft_log.last_index
        invariant(known, f"a snapshot of {self.commit} and a log of {base} to {self.raft_log.last_index}")
        self.nodes: list[int] = sorted({*config.voters, *config.learners})
        """Who gets the log (M1m, I3)."""
        self.membership = Configurations(members or founders(config.voters, ()), entries)
        self.members = self.membership.now
        """What this node goes by (M2b)."""
        self.quorum = 0
        self.other_voters: list[int] = []
        self.is_voter = False
        """Whether the configuration names this disk as a voter: then it counts itself."""
        self.born = False
        """I2: the cluster was born with this disk."""
        self.withheld = hard_state.vote_withheld
        """I2: this disk was found to have forgotten something: it never votes again."""
        self.may_vote = False
        """Whether the word of this disk counts (I2, M2c)."""
        self._go_by_members()
        self.unsaved = False
        """Term or vote are not written yet as they are now."""
        self.ticks = 0
        self.now_ms = 0.0
        self.reads_ready: list[tuple[int, int]] = []
        """(key, index): the read may be answered once the state machine has applied up to index."""
        self.reads_failed: list[int] = []

    @property
    def log(self) -> list[Entry]:
        """The entries that are there, from the log's beginning on. Not to be changed."""
        return self.raft_log.entries

    @property
    def durable_index(self) -> int:
        return self.raft_log.durable_index

    @property
    def member(self) -> GroupMember:
        """This node, as long as it lives on this disk."""
        return GroupMember(self.node, self.disk_id)

    @property
    def stands(self) -> bool:
        """M2c: whether this node may be elected."""
        if not self.may_vote or self.is_voter:
            return self.may_vote
        index = self.membership.index
        return index > self.commit and self.member in self.membership.at(index - 1).voters

    def votes_on(self, node: int, disk: str) -> bool:
        """M2b: whether what the node says on this disk counts."""
        if self.mutants.learner_counts and GroupMember(node, disk) in self.members.learners:
            return True
        if self.mutants.wiped_voter_rejoins:
            return node in self.members.nodes
        return disk != "" and GroupMember(node, disk) in self.members.voters

    # -- transitions -----------------------------------------------------------------------------------

    def enter_term(self, term: int, votes: bool = False) -> None:
        """A later term; `votes`: for itself, as the one that stands for election in it."""
        invariant(term > self.term, f"term {self.term}, then {term}")
        self.term = term
        self.voted_for, self.voted_disk = self.member if votes else (NO_NODE, "")
        self.unsaved = True

    def vote_for(self, node: int, disk: str) -> None:
        if (self.voted_for, self.voted_disk) != (node, disk):
            invariant(self.voted_for == NO_NODE, f"votes in term {self.term}: {self.voted_for}, then {node}")
            self.voted_for, self.voted_disk = node, disk
            self.unsaved = True

    def _go_by_members(self) -> None:
        """The configuration may be another: who counts, and how many are needed."""
        mutants, membership = self.mutants, self.membership
        members = membership.at(self.commit) if mutants.effective_at_commit else membership.now
        self.members = members
        voters = members.voters
        self.quorum = len(voters) // 2 if mutants.raft_quorum_half else len(voters) // 2 + 1
        self.other_voters = [voter.node for voter in voters if voter.node != self.node]
        self.is_voter = self.member in voters
        self._judge_vote()

    def _judge_vote(self) -> None:
        named = self.membership.names(self.member)
        if self.mutants.wiped_voter_rejoins:
            named = self.membership.now.member(self.node) is not None
        self.may_vote = not self.withheld and (self.born or named)

    def be_born(self) -> None:
        """I2: all disks of the certificate have signed it."""
        self.born = True
        self._judge_vote()

    def withhold(self) -> None:
        self.withheld = True
        self._judge_vote()

    def founded(self, first: Members) -> None:
        """I2: the birth has told which disks are the first voters."""
        self.membership.founded(first)
        self._go_by_members()

    def go_by_nodes(self, nodes: list[int]) -> None:
        """I3: these are the nodes of the cluster."""
        self.nodes = nodes

    def saved(self) -> None:
        """Term and vote have been handed to storage."""
        self.unsaved = False

    def take_role(self, role: Role) -> None:
        if role is LEADER:
            invariant(self.role is CANDIDATE, f"a {self.role.value} becomes leader of term {self.term}")
            invariant(self.voted_for == self.node, f"leader of term {self.term} with the votes of others")
        self.role = role
        self.is_leader = role is LEADER

    def follow(self, leader: int) -> None:
        """Whoever leads the term as far as this node knows; 0 = not known."""
        invariant(self.role is not LEADER or leader == self.node, f"a leader follows node {leader}")
        self.leader = leader

    def append(self, entries: list[Entry]) -> None:
        term = self.raft_log.append(entries)
        if term > self.term:
            raise InvariantViolation(f"an entry of term {term} in term {self.term}")
        if self.membership.appended(entries):
            self._go_by_members()

    def truncate(self, keep: int) -> None:
        """Remove every entry above index `keep`."""
        invariant(keep >= self.commit, f"Raft log cut to {keep}, committed up to {self.commit}")
        invariant(self.role is not LEADER, f"the leader of term {self.term} cuts its log to {keep}")
        self.raft_log.truncate(keep)
        if self.membership.cut(keep):
            self.mark("M2.cut")
            self._go_by_members()

    def commit_to(self, index: int) -> None:
        if not self.commit <= index <= self.raft_log.last_index:
            last_index = self.raft_log.last_index
            raise InvariantViolation(f"commit {self.commit}, then {index} of {last_index}")
        self.commit = index
        if self.mutants.effective_at_commit:
            self._go_by_members()

    def take_snapshot(self, snapshot: Snapshot) -> None:
        """M1p: a snapshot of what is committed is this node's newest, and durable."""
        before = self.snapshot.index if self.snapshot is not None else 0
        invariant(before < snapshot.index, f"snapshot of {before}, then of {snapshot.index}")
        of_uncommitted = snapshot.index > self.commit and not self.mutants.snapshot_of_uncommitted
        invariant(not of_uncommitted, f"a snapshot of {snapshot.index}, committed up to {self.commit}")
        self.snapshot = snapshot

    def install(self, snapshot: Snapshot, keeps_log: bool, ticket: Ticket, members: Members | None) -> None:
        """M1q: the leader's snapshot, of more than this node knew to be committed, is its newest.

        `keeps_log`: the log has the snapshot's last entry; else it goes. `members`: the configuration that it
        ends with, if it says one.
        """
        index = snapshot.index
        newer = index > self.commit or self.mutants.install_of_older
        invariant(newer, f"a snapshot of {index} is installed, committed up to {self.commit}")
        invariant(self.role is not LEADER, f"the leader of term {self.term} installs a snapshot")
        log = self.raft_log
        if not keeps_log:
            term = 0 if self.mutants.snapshot_term_forgotten else snapshot.term
            log.begin_anew(LogBase(index, term), min(self.commit, index))
            self.membership.begin_anew(members or self.membership.now)
        self.effects.append(InstallSnapshot(snapshot, not keeps_log, ticket))
        log.await_write(ticket, index)
        self.snapshot = snapshot
        self.commit = index
        self._go_by_members()

    def forget_entries(self, needed: int) -> None:
        """M1p: the log begins behind what is durable in a snapshot, but for some entries before its end:
        whoever is a little late gets these, and no snapshot. `needed`: somebody is being sent a snapshot that
        ends there. He needs what follows, or he would be sent one snapshot after the other.
        """
        assert self.snapshot is not None
        log, few = self.raft_log, self.config.raft_snapshot_entries // 4
        upto = min(self.snapshot.index - few, log.durable_index)
        if needed < upto:
            self.mark("M1.keep-for-install")
            upto = max(needed, min(upto, self.snapshot.index - few * KEPT_FOR_INSTALL))
        if upto > log.start:
            self.mark("M1.forget")
            log.forget(upto)
            self.membership.forget(upto)

    def pass_time(self, now_ms: float, ticks: int) -> None:
        """`ticks` have passed; the monotonic clock says `now_ms`."""
        self.ticks += ticks
        self.now_ms = now_ms
