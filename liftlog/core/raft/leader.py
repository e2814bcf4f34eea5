"""What a Raft node knows and does only while it leads: one `LeaderTerm` object per won election.

It is made when the election is won and dropped when the node steps down, so that nothing of one term can
leak into another. The rules are numbered in `liftlog.core.raft`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from liftlog.core.raft.members import PROMOTE, changed, encode_members
from liftlog.core.raft.progress import Progress
from liftlog.core.raft.readindex import LeaderReads, WaitingRead
from liftlog.core.raft.state import RaftState
from liftlog.messages import (
    AppendReply,
    AppendRequest,
    ReadIndexReply,
    Send,
    SnapshotChunk,
    SnapshotReply,
    TimeoutNow,
)
from liftlog.types import NO_NODE, Entry, GroupMember, Members

T = TypeVar("T", int, float)


class LeaderTerm:
    """The leader's side of replication, commit, check-quorum, read-index and transfer, for one term."""

    __slots__ = (
        "_config",
        "_counted",
        "_followed",
        "_log",
        "_needed",
        "_reads",
        "_round",
        "_round_ms",
        "_state",
        "_term_start",
        "_transfer_deadline_tick",
        "_voters",
        "progress",
        "transferee",
    )

    def __init__(self, state: RaftState) -> None:
        config = state.config
        self._state = state
        self._config = config
        self._log = state.raft_log
        self._reads = LeaderReads(config.parked_reads_max)
        self._round = 0
        self._round_ms = {0: state.now_ms}
        """When each recent round began."""
        self._term_start = self._log.last_index + 1
        self._transfer_deadline_tick = 0
        self.transferee: int = NO_NODE
        self.progress: dict[int, Progress] = {}
        self._voters: list[Progress] = []
        self._counted = False
        """Whether this leader is one of those that count."""
        self._needed = 0
        self._followed: Members | None = None
        self._follow_members()

    # -- who counts (M2) ----------------------------------------------------------------------------------

    def _follow_members(self) -> None:
        """Replicate to whom the configuration names, and to all who are to get the log anyway (M1m)."""
        state, members = self._state, self._state.members
        self._followed = members
        voters = {voter.node: voter.disk for voter in members.voters}
        learners = {learner.node: learner.disk for learner in members.learners}
        for node in sorted({*voters, *learners, *state.nodes}):
            if node == state.node:
                continue
            if node not in self.progress:
                self.progress[node] = Progress(node, self._log.last_index + 1, state.now_ms)
            disk = voters.get(node) or learners.get(node, "")
            self.progress[node].is_member(disk, node in voters)
        if state.mutants.quorum_of_election and self._needed:
            return
        counting = voters | learners if state.mutants.learner_counts else voters
        self._voters = [progress for node, progress in self.progress.items() if node in counting]
        self._counted = state.is_voter or state.mutants.removed_leader_counts
        self._needed = state.quorum

    def follow_nodes(self) -> None:
        """I3: the cluster has other nodes now."""
        members = self._state.members
        for node in list(self.progress):
            if node not in self._state.nodes and members.member(node) is None:
                del self.progress[node]
        self._follow_members()

    def _reached(self, own: T, others: Iterable[T]) -> T:
        """The most that a quorum has reached: as many others as are needed, and this node if it counts."""
        values = list(others)
        if self._counted:
            values.append(own)
        values.sort(reverse=True)
        return values[self._needed - 1]

    def _can_reach(self, members: Members) -> bool:
        """M2f: whether a quorum of these voters was heard within the election timeout."""
        state = self._state
        if state.mutants.change_unreachable:
            return True
        since_ms = state.now_ms - self._config.election_min_ms
        reached = sum(
            voter == state.member
            or (
                (known := self.progress.get(voter.node)) is not None
                and known.disk == voter.disk
                and known.counts
                and known.contact_ms >= since_ms
            )
            for voter in members.voters
        )
        return reached > len(members.voters) // 2

    def change(self, kind: str, member: GroupMember) -> str:
        """M2a: write one change, or say why it cannot be written now."""
        state = self._state
        members = changed(state.members, kind, member)
        if isinstance(members, str):
            return members
        if self.transferee:
            return "leadership is being handed over"
        own, settled = self._has_committed(), state.membership.index <= state.commit
        own = own or state.mutants.change_before_own_commit
        settled = settled or state.mutants.two_changes
        reachable = self._can_reach(members)
        if not state.decides(
            ("M2.own-entry", own), ("M2.one-at-a-time", settled), ("M2.reachable", reachable)
        ):
            if own and settled:
                return "too few of those who would vote then can be reached"
            return "the change before it is not committed yet" if own else "it has not committed anything yet"
        if kind == PROMOTE:
            learner = self.progress.get(member.node)
            ready = learner is not None and learner.counts and learner.counted_index >= state.commit
            if not ready and not state.mutants.promoted_unready:
                return f"node {member.node} has not got all that is committed yet"
        state.mark(f"M2.{kind}")
        self._append(encode_members(members))
        return ""

    # -- log ----------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """M1i: an empty entry of the new term; once it is committed, so is everything before it."""
        self._append(b"")

    def propose(self, data: bytes) -> int | None:
        """Append a command. None while leadership is being handed over or too much is uncommitted (M1l)."""
        uncommitted = self._log.last_index - self._state.commit
        if self.transferee or uncommitted >= self._config.raft_inflight_proposals_max:
            return None
        return self._append(data)

    def _append(self, data: bytes) -> int:
        index = self._log.last_index + 1
        self._state.append([Entry(index, self._state.term, data)])
        if self._state.members is not self._followed:
            self._follow_members()
        for progress in self.progress.values():
            self._fill(progress)
        return index

    def _fill(self, progress: Progress) -> None:
        """Send what the follower lacks, as far as flow control allows (M1l)."""
        if self._lacks(progress):
            self._send_snapshot(progress)
            return
        while progress.may_send():
            entries = self._log.slice(progress.next_index, self._config.raft_append_max_bytes)
            if not entries:
                return
            self._send_append(progress, entries)
            progress.sent(entries[-1].index)

    def _lacks(self, progress: Progress) -> bool:
        """M1q: whether the follower needs entries that this log has no more."""
        lacks = progress.next_index <= self._log.start
        if progress.transfer is not None and not lacks:
            progress.needs_no_snapshot()
        return lacks

    def needed(self) -> int:
        """M1q: the index behind which everything is needed by somebody who is being sent a snapshot."""
        sending = [known.transfer for known in self.progress.values() if known.transfer is not None]
        return min((transfer.snapshot.index for transfer in sending), default=self._log.last_index)

    def _send_snapshot(self, progress: Progress, beat: bool = False) -> None:
        """Send the chunks that may go now; as a heartbeat one at least."""
        state, transfer = self._state, progress.transfer
        if transfer is None or transfer.snapshot.index < self._log.start:
            snapshot = state.snapshot
            assert snapshot is not None, "a log without its beginning has a snapshot"
            state.mark("M1.send-snapshot")
            transfer = progress.send_snapshot(snapshot)
        snapshot = transfer.snapshot
        progress.reached(snapshot.index)
        for number in transfer.due(beat):
            chunk = SnapshotChunk(
                term=state.term,
                leader=state.node,
                index=snapshot.index,
                index_term=snapshot.term,
                number=number,
                count=len(snapshot.chunks),
                commit=state.commit,
                round=self._round,
                data=snapshot.chunks[number],
            )
            state.effects.append(Send(progress.node, chunk))

    def _send_append(self, progress: Progress, entries: list[Entry]) -> None:
        if self._lacks(progress):
            self._send_snapshot(progress, beat=True)
            return
        # The leader's own sync may still be under way: followers need not wait for it, since the leader
        # counts itself only up to its durable index (M1g).
        state = self._state
        prev_index = progress.next_index - 1
        prev_term = self._log.term_at(prev_index)
        progress.reached(prev_index + len(entries))
        request = AppendRequest(
            term=state.term,
            leader=state.node,
            prev_index=prev_index,
            prev_term=prev_term,
            commit=state.commit,
            round=self._round,
            entries=entries,
        )
        state.effects.append(Send(progress.node, request))

    # -- replies ------------------------------------------------------------------------------------------

    def on_append_reply(self, sender: int, reply: AppendReply) -> None:
        progress = self.progress.get(sender)
        if progress is None:
            return
        counts = self._counts(progress, reply)
        # V3: it acknowledges what it was sent, and answers rounds that have begun. What does not count may be
        # an answer to a leader of the past, this node perhaps, with a round of then (M1n).
        ahead = counts and reply.round > self._round
        beyond = ahead or (reply.success and reply.match > progress.sent_index)
        mutants = self._state.mutants
        if beyond and not (mutants.contradiction_believed or mutants.append_below_answers_all):
            text = f"index {reply.match} or round {reply.round} was never sent to it"
            self._state.refuse("V3", sender, reply, text)
            return
        self._hear(progress, counts, reply.round)
        if not counts:
            # I2, M2b: a disk that must not vote, or is not meant, counts for nothing, yet it is kept up to
            # date.
            self._state.mark("I2.uncounted")
            if reply.success and reply.match > progress.counted_index:
                self._state.mark("I2.uncounted-ack")
        if reply.success:
            progress.accepted(reply.match, min(reply.round, self._round))
            if counts and progress.counted(reply.match):
                self.advance_commit()
                if sender == self.transferee:
                    self._hand_over()
            self._fill(progress)
        elif progress.refused(reply.match, reply.round, mutants):
            # The probe is empty: where the logs agree is found first, then entries are sent.
            self._send_append(progress, [])
        else:
            self._state.mark("M1.refusal-late")

    def on_snapshot_reply(self, sender: int, reply: SnapshotReply) -> None:
        progress = self.progress.get(sender)
        if progress is None:
            return
        transfer = progress.transfer
        counts = self._counts(progress, reply)
        ahead = counts and reply.round > self._round
        if ahead and not self._state.mutants.contradiction_believed:
            self._state.refuse("V3", sender, reply, f"round {reply.round} was never sent to it")
            return
        self._hear(progress, counts, reply.round)
        if transfer is not None and reply.index == transfer.snapshot.index:
            transfer.asked_for(reply.wanted)
            self._fill(progress)

    def _counts(self, progress: Progress, reply: AppendReply | SnapshotReply) -> bool:
        """M2b: whether this is the word of the member that the node is."""
        meant = reply.disk == progress.disk
        if reply.counts and progress.disk and not meant:
            self._state.mark("M2.other-disk")
        return reply.counts and (meant or self._state.mutants.wiped_voter_rejoins)

    def _hear(self, progress: Progress, counts: bool, round: int) -> None:
        # The follower followed this leader when the round reached it, so surely when the round began.
        newer = progress.heard(counts, self._round_ms.get(round, 0.0), round)
        if newer and self._reads.rounds:
            self._confirm_reads()

    def advance_commit(self) -> None:
        """M1h: commit what a quorum holds durably, if its last entry is of this term."""
        state = self._state
        # M1g: the leader is one of the quorum only as far as its own log is synced.
        own_index = self._log.durable_index
        if state.mutants.raft_ack_before_sync:
            own_index = self._log.last_index
        index = self._reached(own_index, [progress.counted_index for progress in self._voters])
        if index <= state.commit:
            others = [progress.counted_index for progress in self._voters]
            unsynced = self._reached(self._log.last_index, others)
            if unsynced > state.commit and self._log.term_at(unsynced) == state.term:
                state.mark("M1.own-sync")
            return
        if self._log.term_at(index) != state.term and not state.mutants.raft_commit_old_term:
            # Figure 8 of the paper: an entry of an older term on a quorum may still be overwritten.
            state.mark("M1.old-term")
            return
        state.commit_to(index)
        state.mark("M1.commit")
        self._start_reads()
        # Followers act on what is committed (epochs, ISR), so they are told at once.
        for progress in self.progress.values():
            if not progress.probing:
                self._send_append(progress, [])

    # -- time ---------------------------------------------------------------------------------------------

    def tick(self) -> bool:
        """Once per tick. False: this node has to step down (M1e, M2d)."""
        state = self._state
        removed = not state.is_voter and state.membership.index <= state.commit
        if removed and not state.mutants.removed_leader_stays:
            state.mark("M2.removed-leader")
            for successor in self.successors()[:1]:
                state.effects.append(Send(successor, TimeoutNow(state.term)))
            return False
        if not self.has_contact(self._config.election_max_ms):
            state.mark("M1.checkquorum")
            return False
        if state.ticks % self._config.heartbeat_ticks == 0:
            self._begin_round()
        if self.transferee:
            if state.ticks >= self._transfer_deadline_tick:
                self.transferee = NO_NODE
            else:
                self._hand_over()
        return True

    @property
    def in_office(self) -> bool:
        """Whether a quorum is known to follow this leader, and everything of earlier terms to be applied."""
        return self._term_is_committed()

    def has_contact(self, within_ms: float) -> bool:
        """M1e: whether a quorum, this node included, has answered a message of the last so many ms."""
        return self._state.now_ms - self.contact_ms() <= within_ms

    def contact_ms(self) -> float:
        """When the newest message was sent that a quorum, this node included, has answered."""
        return self._reached(self._state.now_ms, [progress.contact_ms for progress in self._voters])

    def _begin_round(self) -> None:
        """A heartbeat to everybody, with a new round number that reads may wait for."""
        state = self._state
        self._round += 1
        self._round_ms[self._round] = state.now_ms
        oldest = next(iter(self._round_ms))
        while self._round_ms[oldest] < state.now_ms - self._config.election_max_ms:
            del self._round_ms[oldest]
            oldest = next(iter(self._round_ms))
        if self._term_is_committed():
            self._reads.begin_round(self._round, state.commit)
        for progress in self.progress.values():
            self._send_append(progress, [])
        if self._reads.rounds:
            self._confirm_reads()

    # -- reads (M1j) --------------------------------------------------------------------------------------

    def read(self, read: WaitingRead) -> None:
        if self._state.mutants.readindex_without_round:
            self._answer_read(read, self._state.commit)
            return
        if not self._reads.add(read):
            self._fail_read(read)
            return
        self._start_reads()

    def _term_is_committed(self) -> bool:
        return self._has_committed() or self._state.mutants.readindex_of_earlier_terms

    def _has_committed(self) -> bool:
        """Whether an entry of this term is committed."""
        return self._state.commit >= self._term_start

    def _start_reads(self) -> None:
        """Begin a round for the reads that wait, unless one is under way or no entry of the term is
        committed yet."""
        due = bool(self._reads.waiting) and not self._reads.rounds
        if due and self._state.decides(("M1.read-wait", self._term_is_committed())):
            self._begin_round()

    def _confirm_reads(self) -> None:
        state = self._state
        confirmed = self._reached(self._round, [progress.acked_round for progress in self._voters])
        if state.mutants.readindex_of_one:
            confirmed = self._round
        for done in self._reads.confirmed(confirmed):
            state.mark("M1.readindex")
            for read in done.reads:
                self._answer_read(read, done.commit_index)
        self._start_reads()

    def _answer_read(self, read: WaitingRead, commit_index: int) -> None:
        if read.node == NO_NODE:
            self._state.reads_ready.append((read.request, commit_index))
        else:
            self._state.effects.append(Send(read.node, ReadIndexReply(read.request, commit_index)))

    def _fail_read(self, read: WaitingRead) -> None:
        if read.node == NO_NODE:
            self._state.reads_failed.append(read.request)
        else:
            self._state.effects.append(Send(read.node, ReadIndexReply(read.request, -1)))

    # -- end ----------------------------------------------------------------------------------------------

    def successors(self) -> list[int]:
        """Voters whose word counts and who were heard lately, the one with most of the log first."""
        since_ms = self._state.now_ms - self._config.election_min_ms
        heard = [known for known in self._voters if known.counts and known.contact_ms >= since_ms]
        heard.sort(key=lambda known: (-known.counted_index, known.node))
        return [known.node for known in heard]

    def transfer(self, to: int) -> bool:
        """M1k: stop taking proposals, bring `to` up to date, then tell it to stand at once."""
        progress = self.progress.get(to)
        if progress is None or not progress.voter or not progress.counts:
            return False
        self.transferee = to
        self._transfer_deadline_tick = self._state.ticks + self._state.election_max_ticks
        self._hand_over()
        return True

    def _hand_over(self) -> None:
        # Said again on each tick until it works or the deadline passes: the message may be lost.
        if self.progress[self.transferee].counted_index == self._log.last_index:
            self._state.mark("M1.transfer")
            self._state.effects.append(Send(self.transferee, TimeoutNow(self._state.term)))

    def end(self) -> None:
        """The node steps down: reads that wait cannot be answered any more."""
        for read in self._reads.drop_all():
            self._fail_read(read)
