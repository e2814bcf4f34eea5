"""Raft for the metadata group: one order of commands that survives the loss of any minority of voters (M1).

Theory
------
All cluster state (streams, leaders, epochs, ISR) is a deterministic state machine fed by one log of commands.
If every node applies the same commands in the same order, all nodes hold the same state. So the whole task is
agreement on a log, and it is split in two:

*Elections.* Time is cut into terms. In each term a voter gives at most one vote, and a candidate needs a
quorum, more than half of the voters. Two quorums share a voter, so a term has at most one leader.

*Replication.* Only the leader appends. A follower takes entries only if the entry before them is the
leader's; by induction, two logs that agree at one index in index and term agree on everything before it. An
entry is *committed* when a quorum holds it durably in the leader's term. A voter refuses candidates whose log
is behind its own, and the quorum that elects shares a voter with the quorum that committed: so every later
leader has every committed entry, and what was applied is never taken back.

Both halves stand on memory. A voter that forgets a vote can give it twice; one that forgets an acknowledged
entry unmakes a commit. Every message that is a promise therefore waits for the sync of what it promises:
`Send.after` carries the ticket, and the driver holds the message back.

The paper: Ongaro and Ousterhout, "In Search of an Understandable Consensus Algorithm" (extended version,
2014); the thesis: Ongaro, "Consensus: Bridging Theory and Practice" (2014).

Rules
-----
- **M1a** One vote per term. Term and vote are synced before any answer that depends on them, and a candidate
  counts its own vote, and asks for others, only once it is synced. (Paper 5.2, Election Safety.)
- **M1b** A vote goes only to a candidate whose log is at least as up to date: greater last term, or equal
  last term and no shorter. (5.4.1, Leader Completeness.)
- **M1c** Pre-vote: before it raises its term, a node asks whether it could win. A node that comes back from
  a partition thus disturbs nobody. A pre-vote promises nothing and is not stored. (Thesis 9.6.)
- **M1d** Stickiness: no vote and no pre-vote while a leader was heard from within the minimum election
  timeout, by the leader itself while it hears a quorum. A voter that has just started does not remember
  whom it heard, so it waits as long. Waived for a leadership transfer. (Thesis 4.2.3.)
- **M1e** Check-quorum: a leader that has not heard from a quorum for the maximum election timeout steps down,
  so that clients of a cut-off leader look elsewhere. (Thesis 6.2.)
- **M1f** Log matching: entries are taken only if the one before them matches; entries are removed only where
  another term stands in their place, and never at or below the commit index. Late, doubled and reordered
  requests therefore never remove an entry that matches. (5.3.)
- **M1g** A follower acknowledges entries once they are synced, and the leader counts its own log only up to
  where it is synced. It may replicate while its own sync runs. (Thesis 10.2.1.)
- **M1h** By counting, only an entry of the leader's own term is committed; what lies before it is committed
  with it. (5.4.2, Figure 8.)
- **M1i** A new leader appends an empty entry at once, so that M1h can reach what its predecessors left. (8.)
- **M1j** Reads are linearizable by read-index, see `liftlog.core.raft.readindex`. (8; thesis 6.4.)
- **M1k** Leadership transfer: the leader takes no more proposals, brings the chosen voter up to date and
  tells it to stand without waiting. After an election timeout without success it goes on. (Thesis 3.10.)
- **M1l** Everything is bounded: bytes of an append, appends under way to one follower, uncommitted proposals,
  waiting reads. Refusals do not multiply: see `liftlog.core.raft.progress`.
- **M1m** Learners get the log but are in no quorum and never stand.
- **M1n** Whoever sees a higher term steps down and adopts it; messages of a lower term change nothing. A
  leader of a lower term is told, so that a voter which stood in vain finds back into the group.
- **M1o** Suspicion: of a leader of whom it is said that nobody listens there any more (`liftlog.core.hints`)
  less silence is enough: M1d's minimum is the suspicion time then, for who stands and for each who votes.
  It is never less, so that a leader knows for how long it is sure that there is no other. Those who suspect
  the same leader stand one after the other, so that they do not split the votes.

A single voter elects itself and commits alone, by the same rules: its quorum is 1. Which disks may vote at
all is rule I2, see `liftlog.core.raft.birth`.

- **M1p** Snapshots: of what is committed and applied, and nothing else, with the index and term of the
  last entry and with the configuration. The log drops entries once the snapshot that holds them is synced;
  some before its end are left for those who are a little late, and for those who are being sent an earlier
  one, which would otherwise be overtaken by the next, and that by the one after it. A start goes on from
  snapshot and log; the snapshot's end is its first commit index. A log that begins behind its snapshot's end
  is damage. (Paper 7; thesis 5.)
- **M1q** Install: who needs entries that the leader has dropped gets the snapshot, in chunks, each of which
  is sent once but for losses, however they overtake each other. At or below the commit index it says nothing
  new. If the log has its last entry, what follows stays, for it may have been
  acknowledged; else the log goes. Acknowledged when snapshot and log are durable so. An append whose entry
  before lies below the log's beginning agrees up to there, since that is committed.

Who is a voter changes with the log: M2, `liftlog.core.raft.members`.

How time works
--------------
There is no clock. `on_tick` comes every `tick_ms`; the election timer is a timer of the driver, which draws
its length. A heartbeat only notes the tick it came in. When the timer fires and the leader was heard from
meanwhile, it is set again for what remains: one timer per election timeout instead of one per heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from liftlog.core.guards import Guards
from liftlog.core.hints import Hints
from liftlog.core.raft.birth import BORN, asks_at
from liftlog.core.raft.follower import take_append
from liftlog.core.raft.gate import check_start, jump, usurpation
from liftlog.core.raft.leader import LeaderTerm
from liftlog.core.raft.readindex import FollowerReads, WaitingRead
from liftlog.core.raft.snapshots import AnyBytes, Installing, SnapshotReader
from liftlog.core.raft.state import CANDIDATE, FOLLOWER, LEADER, PRE_CANDIDATE, Refuse
from liftlog.core.raft.voter import VoterMemory
from liftlog.core.raft.votes import grants, is_up_to_date, may_grant
from liftlog.messages import (
    TIMER_ELECTION,
    AppendReply,
    AppendRequest,
    BirthQuery,
    BirthReply,
    Effect,
    PeerMessage,
    ReadIndexReply,
    ReadIndexRequest,
    Send,
    SetTimer,
    SnapshotChunk,
    SnapshotReply,
    TimeoutNow,
    VoteReply,
    VoteRequest,
)
from liftlog.nodeconfig import NodeConfig
from liftlog.types import (
    BEGINNING,
    NO_NODE,
    Entry,
    GroupMember,
    HardState,
    Identity,
    LogBase,
    Members,
    Snapshot,
    Ticket,
)

LONG_AGO_TICK = -(1 << 40)


class Raft(VoterMemory):
    """One member of the metadata group. Pure: messages and ticks in, effects appended to `effects`.

    A leader's contact is measured in milliseconds, so that a pause ends it; what a node waits for from others
    is counted in ticks, so that it blames nobody for a pause of its own (`Context.ticks`, `Context.now_ms`).

    `new_ticket` must give increasing numbers, and storage must complete jobs in the order of submission.
    `nonce` tells this run of the node from earlier ones (see `FollowerReads`). Raises LiftlogError if the
    configured voters are not those of the cluster's birth, InvariantViolation if `entries` are no Raft log.
    """

    def __init__(
        self,
        config: NodeConfig,
        hard_state: HardState,
        entries: list[Entry],
        identity: Identity,
        effects: list[Effect],
        new_ticket: Callable[[], Ticket],
        guards: Guards,
        nonce: int = 0,
        refuse: Refuse | None = None,
        hints: Hints | None = None,
        snapshot: Snapshot | None = None,
        base: LogBase = BEGINNING,
        new_reader: Callable[[], SnapshotReader] = AnyBytes,
        members: Members | None = None,
    ) -> None:
        """`snapshot`: what the disk holds, taken over by the state machine already; `entries` follow `base`.
        `members`: the configuration that the snapshot ends with. `new_reader`: makes what takes in the chunks
        of the leader's snapshots.
        """
        super().__init__(
            config=config,
            hard_state=hard_state,
            entries=entries,
            identity=identity,
            effects=effects,
            new_ticket=new_ticket,
            guards=guards,
            refuse=refuse,
            hints=hints,
            snapshot=snapshot,
            base=base,
            members=members,
        )
        check_start(config.node, self.term)
        self.leadership: LeaderTerm | None = None
        self._timer_runs = False
        self._votes: list[int] = []
        self._leader_tick = 0
        self._heard = (NO_NODE, 0)
        """Whom as leader this node heard last, and of which term."""
        self.predecessor: int = NO_NODE
        """While this node leads: who led the term before, if those who elected this one had not heard that
        leader for the suspicion time (M1o); else nobody."""
        self._taken = self.commit
        self.installing = Installing(self, new_reader, new_ticket)
        self._follower_reads = FollowerReads(nonce, config.parked_reads_max)
        self._handlers: dict[type, Callable[[int, Any], None]] = {
            AppendRequest: self._on_append_request,
            AppendReply: self._on_append_reply,
            VoteRequest: self._on_vote_request,
            VoteReply: self._on_vote_reply,
            SnapshotChunk: self._on_snapshot_chunk,
            SnapshotReply: self._on_snapshot_reply,
            ReadIndexRequest: self._on_read_index_request,
            ReadIndexReply: self._on_read_index_reply,
            TimeoutNow: self._on_timeout_now,
            BirthQuery: self._on_birth_query,
            BirthReply: self._on_birth_reply,
        }

    # -- what others look at ------------------------------------------------------------------------------

    @property
    def standing(self) -> str:
        """For people: "withheld", "born" (it votes), "learner", "removed", "wiped", or how far the birth is:
        "fresh", "signed".
        """
        if self.withheld:
            return "withheld"
        if self.may_vote and self.is_voter:
            return BORN
        if not self._is_founder or self.member in self.members.learners:
            return "learner"
        if self.may_vote:
            return "removed"
        return "wiped" if self._birth.shut_out else self._birth.stage

    def quorum_contact(self) -> bool:
        """Whether this node leads and nobody else can have been elected by an earlier time (M1d, M1e).

        True: a quorum has answered a message that was sent within the suspicion time, and no transfer is
        under way. With clocks that run about equally fast, nobody else was elected before that message was
        sent, and then not before another suspicion time had passed, whatever hints there are (M1o).
        """
        leadership = self.leadership
        return (
            leadership is not None
            and leadership.transferee == NO_NODE
            and (leadership.in_office or self.mutants.grants_before_office)
            and leadership.has_contact(self.config.suspicion_ms)
        )

    def quorum_contact_ms(self) -> float:
        """While this node leads: when the newest message was sent that a quorum has answered."""
        return self.leadership.contact_ms() if self.leadership is not None else 0.0

    def quorum_age_ms(self) -> float | None:
        """How long ago a leader was heard or, on the leader, a quorum; None if there is none to be heard."""
        if self.leadership is not None:
            return self.now_ms - self.leadership.contact_ms()
        if not self.leader or self._leader_tick < 0:
            return None
        return float((self.ticks - self._leader_tick) * self.config.tick_ms)

    # -- what the node calls ------------------------------------------------------------------------------

    def start(self, now_ms: float) -> None:
        """Begin to take part. To be called once. `now_ms`: the monotonic clock."""
        self.pass_time(now_ms, 0)
        if self.stands:
            self._begin_voting()
        elif self._is_founder and self._birth.advance():
            self._birth_moved()
        self._ask_for_birth()

    def on_message(self, sender: int, message: PeerMessage) -> None:
        """Take in a message of the Raft family; others are ignored."""
        handler = self._handlers.get(type(message))
        if handler is None:
            return
        reason = jump(self, message)
        if reason:
            self.refuse("V4", sender, message, reason)
            return
        handler(sender, message)
        if self.unsaved:
            self._save()

    def on_tick(self, now_ms: float) -> None:
        """At least `tick_ms` have passed; the monotonic clock says `now_ms`."""
        self.pass_time(now_ms, 1)
        if self.leadership is not None:
            if not self.leadership.tick():
                self.step_down()
        elif self._follower_reads:
            self.reads_failed.extend(self._follower_reads.expire(self.ticks))
        if self.stands:
            if not self._timer_runs and self.role is not LEADER:
                # M2c: the configuration has made it a voter.
                self._arm_election_timer()
        elif not self.may_vote and asks_at(self.ticks):
            self._ask_for_birth()

    def on_election_timer(self) -> None:
        """The election timer fired: stand for election unless the leader was heard from in time."""
        self._timer_runs = False
        if self.role is LEADER or not self.stands:
            return
        silent_ticks = self.ticks - self._leader_tick
        if self.leader and silent_ticks < self._patience_ticks:
            self._arm_election_timer(silent_ticks)
            return
        self._ask_for_pre_votes()

    def on_peer_lost(self, peer: int) -> None:
        """It is news that nobody listens there: suspect a leader sooner (M1o)."""
        waits = self.role is FOLLOWER or self.role is PRE_CANDIDATE
        if self.stands and waits and peer == self._heard[0]:
            self._arm_election_timer(self.ticks - self._leader_tick)

    def on_durable(self, ticket: Ticket) -> None:
        """A write is synced. Tickets of others are ignored."""
        if self._is_saved(ticket):
            if self.role is CANDIDATE:
                # M1a: the candidate's own vote, and only now that it cannot be forgotten.
                self._count_vote(self.node)
        elif self.raft_log.on_durable(ticket) and self.leadership is not None:
            self.leadership.advance_commit()
        if ticket == self.installing.ticket:
            self._forget_entries()

    def propose(self, data: bytes) -> int | None:
        """Append a command if this node leads; its index, which it keeps if it is committed in this term.

        None if this node does not lead, is handing over, or has too many uncommitted entries.
        """
        leadership = self.leadership
        return None if leadership is None else leadership.propose(data)

    @property
    def has_news(self) -> bool:
        """Whether `take_committed` has something, or a leader's snapshot was installed."""
        return self._taken != self.commit or self.installing.installed is not None

    def take_committed(self) -> list[Entry]:
        """Entries committed since the last call, in order, each once."""
        start, self._taken = self._taken, self.commit
        return self.raft_log.between(start, self.commit) if start < self.commit else []

    # -- snapshots (M1p, M1q) -----------------------------------------------------------------------------

    def snapshot_saved(self, snapshot: Snapshot) -> None:
        """M1p: what this node has applied is durable as a snapshot: the log may begin behind it."""
        self.take_snapshot(snapshot)
        self._forget_entries()

    def _forget_entries(self) -> None:
        leadership = self.leadership
        self.forget_entries(self.raft_log.last_index if leadership is None else leadership.needed())

    def _on_snapshot_chunk(self, sender: int, chunk: SnapshotChunk) -> None:
        if self._follows(sender, chunk):
            reply, after = self.installing.take_chunk(chunk, self.certificate)
            if self.installing.installed is not None:
                self._taken = self.commit
                self._know_founders()
            if reply is not None:
                self._answer(sender, reply, after)

    def _on_snapshot_reply(self, sender: int, reply: SnapshotReply) -> None:
        if reply.term > self.term:
            self._become_follower(reply.term, NO_NODE)
        elif self.leadership is not None and reply.term == self.term:
            self.leadership.on_snapshot_reply(sender, reply)

    def read(self, key: int) -> None:
        """Ask for an index that makes a read linearizable (M1j).

        The answer appears, maybe at once, as (key, index) in `reads_ready` or as key in `reads_failed`: no
        leader known, leader changed, no answer within the minimum election timeout, or too many reads.
        """
        if self.leadership is not None:
            self.leadership.read(WaitingRead(NO_NODE, key))
            return
        request = None
        if self.leader:
            request = self._follower_reads.add(key, self.ticks + self.election_min_ticks)
        if request is None:
            self.reads_failed.append(key)
        else:
            self.effects.append(Send(self.leader, ReadIndexRequest(request)))

    def change(self, kind: str, member: GroupMember) -> str:
        """M2: as leader write one change of the configuration, or say why that cannot be now."""
        leadership = self.leadership
        return leadership.change(kind, member) if leadership is not None else "this node does not lead"

    def follow_nodes(self, nodes: list[int]) -> None:
        """I3: these get the log, whether they are members or not."""
        self.go_by_nodes(nodes)
        if self.leadership is not None:
            self.leadership.follow_nodes()

    def transfer(self, to: int) -> bool:
        """Hand leadership to voter `to` (M1k). False if this node does not lead or `to` cannot take over."""
        leadership = self.leadership
        return leadership is not None and leadership.transfer(to)

    def withhold_vote(self) -> None:
        """This disk was found rolled back or damaged (I2): never vote again, and remember that."""
        if self.withheld:
            return
        self.mark("I2.withheld")
        if self.role is not FOLLOWER:
            self._become_follower(self.term, NO_NODE)
        self.withhold()
        self._save()

    def step_down(self) -> None:
        """Give up leadership within the term (M1e)."""
        self._become_follower(self.term, NO_NODE)

    # -- roles --------------------------------------------------------------------------------------------

    def _begin_voting(self) -> None:
        if self.other_voters:
            self._arm_election_timer()
        else:
            # A single voter has nobody to wait for.
            self._ask_for_pre_votes()

    def _arm_election_timer(self, silent_ticks: int = 0) -> None:
        """Stand when the leader's silence, which has lasted so many ticks, is enough; or after a vain try."""
        config = self.config
        self._timer_runs = True
        low_ms, high_ms = config.election_min_ms, config.election_max_ms
        if self._suspected and self.role is not CANDIDATE:
            # M1o: in turn, the first at once; whoever stands has been heard of by the time of the next.
            turn = sum(voter < self.node for voter in self.other_voters if voter != self._heard[0])
            low_ms = self._patience_ticks * config.tick_ms + 2 * turn * config.tick_ms
            high_ms = low_ms + config.tick_ms // 2
        silent_ms = min(silent_ticks * config.tick_ms, low_ms)
        self.effects.append(SetTimer(TIMER_ELECTION, low_ms - silent_ms, high_ms - silent_ms))

    def _become_follower(self, term: int, leader: int) -> None:
        """Follow `leader` (0 = nobody yet) in `term`, which is not lower than the present one (M1n)."""
        leadership = self.leadership
        if term > self.term:
            self.enter_term(term)
            self._leader_tick = LONG_AGO_TICK
        self.take_role(FOLLOWER)
        self._votes = []
        if leadership is not None:
            self.leadership = None
            leadership.end()
            self.mark("M1.stepdown")
            # A leader runs no election timer.
            self._arm_election_timer()
        self._set_leader(leader)

    def _set_leader(self, leader: int) -> None:
        if leader != self.leader:
            self.follow(leader)
            # Whatever was asked of another leader may never be answered.
            if self._follower_reads:
                self.reads_failed.extend(self._follower_reads.drop_all())

    @property
    def _suspected(self) -> bool:
        """Whether it is said of this term's leader that nobody listens there any more."""
        leader, term = self._heard
        return term == self.term and leader in self.hints

    @property
    def _patience_ticks(self) -> int:
        """M1d, M1o: for how long the leader must have been silent before this node stands or votes."""
        if not self._suspected:
            return self.election_min_ticks
        return 0 if self.mutants.hint_elects else min(self.suspicion_ticks, self.election_min_ticks)

    def _hears_leader(self) -> bool:
        """M1d: whether there is a leader that an election would only disturb."""
        if self.leadership is not None:
            return self.leadership.has_contact(self.config.election_min_ms)
        return self.ticks - self._leader_tick < self._patience_ticks

    # -- elections ----------------------------------------------------------------------------------------

    def _ask_for_pre_votes(self) -> None:
        """M1c: find out whether an election could be won, without changing anything anywhere."""
        self.mark("M1.prevote")
        if self._suspected:
            self.mark("M1.suspicion")
        self.take_role(PRE_CANDIDATE)
        self._set_leader(NO_NODE)
        self._votes = []
        self._arm_election_timer()
        for voter in self.other_voters:
            self._answer(voter, self._vote_request(self.term + 1, pre_vote=True, transfer=False))
        self._count_vote(self.node)

    def _stand(self, transfer: bool) -> None:
        """Become a candidate of the next term."""
        leader, term = self._heard
        # Whoever was asked to take over has not waited for anybody's silence.
        self.predecessor = leader if term == self.term and not transfer else NO_NODE
        self.take_role(CANDIDATE)
        self.enter_term(self.term + 1, votes=True)
        self._votes = []
        self._leader_tick = LONG_AGO_TICK
        self._set_leader(NO_NODE)
        self._save()
        self._arm_election_timer()
        for voter in self.other_voters:
            self._answer(voter, self._vote_request(self.term, pre_vote=False, transfer=transfer))

    def _vote_request(self, term: int, pre_vote: bool, transfer: bool) -> VoteRequest:
        log = self.raft_log
        last = log.last_index, log.last_term
        return VoteRequest(term, self.node, *last, pre_vote, transfer, disk=self.disk_id)

    def _count_vote(self, voter: int) -> None:
        """A vote, or pre-vote, for the present candidacy came in."""
        if voter not in self._votes:
            self._votes.append(voter)
        # M2b: this node is no voter of its last configuration, perhaps.
        counted = self.is_voter or self.mutants.removed_leader_counts
        if len(self._votes) - (not counted and self.node in self._votes) < self.quorum:
            return
        if self.role is PRE_CANDIDATE:
            self._stand(transfer=False)
        else:
            self._become_leader()

    def _become_leader(self) -> None:
        self.mark("M1.election")
        self.take_role(LEADER)
        self._set_leader(self.node)
        self.leadership = LeaderTerm(self)
        self.leadership.begin()

    def _on_vote_request(self, sender: int, request: VoteRequest) -> None:
        # M2c: member or not, by what is known here: it may be one.
        if self._hears_leader() and not request.transfer:
            if may_grant(self, sender, request) and is_up_to_date(self, request):
                self.mark("M1.sticky")
            self._answer(sender, self._vote_reply(self.term, False, request.pre_vote))
            return
        if request.term > self.term and not request.pre_vote:
            self._become_follower(request.term, NO_NODE)
        granted = grants(self, sender, request)
        reply = self._vote_reply(request.term if granted else self.term, granted, request.pre_vote)
        if granted and not request.pre_vote:
            self.mark("M1.vote")
            if not self.mutants.raft_vote_forgotten:
                self.vote_for(sender, request.disk)
            self._arm_election_timer()
            if self.mutants.raft_vote_before_sync:
                self.effects.append(Send(sender, reply))
                return
        # M1a: the vote leaves this node only when it cannot be forgotten any more.
        self._answer(sender, reply)

    def _vote_reply(self, term: int, granted: bool, pre_vote: bool) -> VoteReply:
        return VoteReply(term, self.node, granted, pre_vote, self.disk_id)

    def _on_vote_reply(self, sender: int, reply: VoteReply) -> None:
        if reply.term > self.term and not (reply.pre_vote and reply.granted):
            self._become_follower(reply.term, NO_NODE)
        elif reply.granted:
            wanted, ours = (PRE_CANDIDATE, self.term + 1) if reply.pre_vote else (CANDIDATE, self.term)
            if self.role is wanted and self.decides(
                ("M1.late-vote", reply.term == ours), ("M2.vote", self.votes_on(sender, reply.disk))
            ):
                self._count_vote(sender)

    def _on_timeout_now(self, sender: int, message: TimeoutNow) -> None:
        """M1k: the leader wants this voter to take over; its log is complete, so no pre-vote is needed."""
        from_leader = message.term == self.term and sender == self.leader
        able = self.role is FOLLOWER and self.stands
        if able and self.decides(("M1.late-transfer", from_leader)):
            self._stand(transfer=True)

    # -- replication --------------------------------------------------------------------------------------

    def _on_append_request(self, sender: int, request: AppendRequest) -> None:
        if self._follows(sender, request):
            reply, after = take_append(self, request)
            self._answer(sender, reply, after)

    def _follows(self, sender: int, request: AppendRequest | SnapshotChunk) -> bool:
        """Whether this is from the leader of this term or a later one, who has been heard with it."""
        if request.term < self.term:
            self.mark("M1.stale-leader")
            # M1n: tell a leader of the past. `match` means nothing to it.
            self._answer(sender, AppendReply(self.term, self.node, False, 0, request.round, False))
            return False
        problem = usurpation(self, sender, request)
        if problem:
            self.refuse("V3", sender, request, problem)
            return False
        if request.term > self.term or self.role is not FOLLOWER:
            self._become_follower(request.term, sender)
        elif sender != self.leader:
            self._set_leader(sender)
        self._leader_tick = self.ticks
        self._heard = (sender, request.term)
        self._come_late()
        return True

    def _on_append_reply(self, sender: int, reply: AppendReply) -> None:
        if reply.term > self.term:
            self._become_follower(reply.term, NO_NODE)
        elif self.leadership is not None and self.decides(("M1.late-reply", reply.term == self.term)):
            self.leadership.on_append_reply(sender, reply)

    # -- reads from followers (M1j) -----------------------------------------------------------------------

    def _on_read_index_request(self, sender: int, request: ReadIndexRequest) -> None:
        if self.leadership is None:
            self.effects.append(Send(sender, ReadIndexReply(request.request, -1)))
        else:
            self.leadership.read(WaitingRead(sender, request.request))

    def _on_read_index_reply(self, sender: int, reply: ReadIndexReply) -> None:
        # Only the present leader has been asked what is still waited for.
        key = self._follower_reads.take(reply.request) if sender == self.leader else None
        if key is None:
            return
        if reply.index < 0:
            self.reads_failed.append(key)
        else:
            self.reads_ready.append((key, reply.index))
