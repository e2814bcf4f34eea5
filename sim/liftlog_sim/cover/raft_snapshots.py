"""Drives real Raft nodes through a path of `liftlog_spec/models/raft_snapshots.py`, and shows their state as
that model's.

Node n of the model is voter n; what it writes is durable at once. The model remembers what was sent in place
of messages: what each term's leader wrote, which snapshots it had, and what it committed. So does the driver,
off the real leader, and makes of it the append or the chunk that arrives now, perhaps long after. It is the
driver's choice, as in `raft.py`, how much time passes, in which message a newer term is heard of, and which
requests an acknowledgement answers; an append that carries an entry tells of no commit index, and a heartbeat
of what its leader has committed in its own term, as in the model. A vote waits until the candidate is to be
leader.

The first leader has its empty entry from the beginning on (M1i); until the model proposes it, it is not
shown. Of a log below its beginning the driver shows what was committed there, and the node's own word for the
last. A node that lost its disk takes no part any more.

Of `match` a leader must not have more than the model: below its log's beginning a node answers less than it
could (V3). Not compared: `votes`, `elected`, `written`, `offered`, `decided` (what nobody knows), `safe`,
`lost`, and the bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from liftlog.core.raft.raft import Raft
from liftlog.core.raft.state import Role
from liftlog.messages import (
    TIMER_ELECTION,
    AppendReply,
    AppendRequest,
    PeerMessage,
    SaveSnapshot,
    SnapshotChunk,
    TimerFired,
    VoteReply,
    VoteRequest,
)
from liftlog.mutants import Mutants
from liftlog.types import Entry, LiftlogError, Snapshot, Ticket
from liftlog_sim.cover.manual_node import ScenarioRefused
from liftlog_sim.cover.raft import QUIET_TICKS, ROLES, Voter
from liftlog_spec.cover.scenario import Head, ScenarioStep


class AtMost(int):
    """The model's number is this one or a greater one."""


class LeaderHistory:
    """What a term's leader has ever sent, or might have."""

    def __init__(self, leader: int) -> None:
        self.leader = leader
        self.entries: dict[int, Entry] = {}
        self.terms: dict[int, int] = {0: 0}
        self.snapshots: dict[int, Snapshot] = {}
        self.commit = 0
        """What it has committed in this term."""

    def look(self, raft: Raft) -> None:
        """At its leader, after a step."""
        log = raft.raft_log
        self.terms[log.start] = log.start_term
        for entry in raft.log:
            self.entries[entry.index] = entry
            self.terms[entry.index] = entry.term
        if raft.snapshot is not None:
            self.snapshots[raft.snapshot.index] = raft.snapshot
        if self.terms[raft.commit] == raft.term:
            self.commit = raft.commit


class RaftSnapshotsStage:
    """The voters of one scenario, at the model's first state."""

    def __init__(self, head: Head, mutants: Mutants) -> None:
        size = head.constants["Nodes"]
        if head.constants["Voters"] != size or head.constants["Changes"]:
            raise LiftlogError(
                "the members of a driven group do not change: make the scenarios with as many --voters as "
                "--nodes and with --changes 0"
            )
        self.voters = {n: Voter(n, size, mutants, raft_snapshot_entries=1) for n in range(1, size + 1)}
        self._config = head.first["first"]
        self._offices: dict[int, LeaderHistory] = {}
        self._asked: dict[int, VoteRequest] = {}
        self._votes: dict[int, list[tuple[int, VoteReply]]] = {}
        self._committed: dict[int, int] = {}
        """The term of each entry that somebody knew to be committed."""
        self._lost: dict[int, dict[str, Any]] = {}
        """What was last shown of a node that lost its disk."""
        self._opening = next(_number(n) for n, role in head.first["role"].items() if role == "leader")
        self._do_Campaign(self._opening)
        for n in self.voters:
            if n != self._opening:
                self._do_GrantVote(n, self._opening)
        self._do_BecomeLeader(self._opening)
        self._look()

    # -- steps ---------------------------------------------------------------------------------------------

    def play(self, chain: Sequence[ScenarioStep]) -> None:
        """One step of the core: the first action, and what follows from it in the same breath.

        Raises ScenarioRefused, or what the node raises.
        """
        first = chain[0]
        procedure: Callable[..., None] | None = getattr(self, f"_do_{first.action}", None)
        if procedure is None:
            raise ScenarioRefused(
                f"there is no procedure for {first.action}: add one to liftlog_sim/cover/raft_snapshots.py"
            )
        procedure(**{name: _number(value) for name, value in first.given.items()})
        self._look()

    def _look(self) -> None:
        for n, voter in self.voters.items():
            raft = voter.raft
            if raft.is_leader:
                self._offices.setdefault(raft.term, LeaderHistory(n)).look(raft)
            for entry in raft.log:
                if entry.index <= raft.commit:
                    self._committed[entry.index] = entry.term

    def _receive(self, n: int, sender: int, message: PeerMessage) -> list[PeerMessage]:
        """What it answers, once everything is durable."""
        voter = self.voters[n]
        voter.left = []
        voter.receive(sender, message)
        self._store(voter)
        answers = [queued.message for queued in voter.left if queued.to == sender]
        voter.left = []
        return answers

    @staticmethod
    def _store(voter: Voter) -> None:
        while voter.process.jobs:
            voter.process.store(voter.process.jobs[0])
            voter.raft.take_committed()

    def _arrives(self, n: int, term: int, message: PeerMessage) -> None:
        """What the term's leader has sent; the answer reaches it if it leads still."""
        office = self._offices[term]
        answers = self._receive(n, office.leader, message)
        leader = self.voters[office.leader].raft
        for answer in answers:
            if not isinstance(answer, AppendReply) or not answer.success:
                raise ScenarioRefused(f"node {n} does not take in {message}: {answer}")
            if leader.leadership is not None and leader.term == term and office.leader not in self._lost:
                # It is about something that was sent (V3).
                progress = leader.leadership.progress[n]
                progress.sent_index = max(progress.sent_index, answer.match)
                self._receive(office.leader, n, answer)
        if not answers:
            raise ScenarioRefused(f"node {n} does not answer {message}")

    def _append(self, term: int, before: int, entries: list[Entry], commit: int) -> AppendRequest:
        office = self._offices[term]
        return AppendRequest(term, office.leader, before, office.terms[before], commit, 0, entries)

    def _be_quiet(self, n: int) -> None:
        """So much time passes that n hears no leader; what it says meanwhile is lost."""
        self.voters[n].tick(QUIET_TICKS)
        self._store(self.voters[n])
        self.voters[n].left = []

    def _do_Campaign(self, n: int) -> None:
        voter = self.voters[n]
        self._be_quiet(n)
        term = voter.raft.term + 1
        voter.take(TimerFired(TIMER_ELECTION, 0.0))
        self._store(voter)
        asked, voter.left = voter.left, []
        for queued in asked:
            if voter.raft.role is not Role.PRE_CANDIDATE or queued.to in self._lost:
                continue
            self._be_quiet(queued.to)
            for answer in self._receive(queued.to, n, queued.message):
                # A refusal is lost: it could tell of a newer term.
                if isinstance(answer, VoteReply) and answer.granted:
                    voter.receive(queued.to, answer)
                    self._store(voter)
        requests = [queued.message for queued in voter.left if isinstance(queued.message, VoteRequest)]
        voter.left = []
        if voter.raft.role is not Role.CANDIDATE or voter.raft.term != term or not requests:
            raise ScenarioRefused(f"node {n} does not stand, or not for long")
        self._asked[n] = requests[-1]
        self._votes[n] = []

    def _do_GrantVote(self, n: int, to: int) -> None:
        self._be_quiet(n)
        votes = [one for one in self._receive(n, to, self._asked[to]) if isinstance(one, VoteReply)]
        if not votes or not votes[0].granted:
            raise ScenarioRefused(f"node {n} does not vote for node {to}")
        self._votes[to].append((n, votes[0]))

    def _do_BecomeLeader(self, n: int) -> None:
        for sender, vote in self._votes[n]:
            self._receive(n, sender, vote)
        if not self.voters[n].raft.is_leader:
            raise ScenarioRefused(f"node {n} is not elected by the votes that it has got")

    def _do_StepDown(self, n: int, other: int) -> None:
        self._receive(n, other, VoteReply(self._term(other), other, False, False))

    def _term(self, n: int) -> int:
        return self._lost[n]["term"] if n in self._lost else self.voters[n].raft.term

    def _do_Propose(self, n: int) -> None:
        if n == self._opening:
            self._opening = 0
            return
        voter = self.voters[n]
        voter.call(lambda: voter.raft.propose(b"x"))
        self._store(voter)
        voter.left = []

    def _do_Accept(self, n: int, term: int, before: int) -> None:
        entry = self._offices[term].entries[before + 1]
        self._arrives(n, term, self._append(term, before, [entry], 0))

    def _do_Heartbeat(self, n: int, term: int, before: int) -> None:
        self._arrives(n, term, self._append(term, before, [], self._offices[term].commit))

    # -- snapshots and crashes -----------------------------------------------------------------------------

    def _do_TakeSnapshot(self, n: int, upto: int) -> None:
        voter = self.voters[n]
        snapshot = Snapshot(upto, voter.raft.raft_log.term_at(upto), (b"x",))
        voter.disk.carry_out(SaveSnapshot(snapshot, Ticket(0)))
        voter.call(lambda: voter.raft.snapshot_saved(snapshot))
        self._store(voter)
        voter.left = []

    def _do_InstallSnapshot(self, n: int, term: int, upto: int) -> None:
        office = self._offices[term]
        sent = office.snapshots[upto]
        data = sent.chunks[0]
        chunk = SnapshotChunk(term, office.leader, upto, sent.term, 0, 1, upto, 0, data)
        self._arrives(n, term, chunk)

    def _do_AnswerBelowSnapshot(self, n: int, term: int, before: int) -> None:
        self._arrives(n, term, self._append(term, before, [], 0))

    def _do_Restart(self, n: int) -> None:
        voter = self.voters[n]
        voter.start()
        self._store(voter)
        voter.left = []

    def _do_LoseDisk(self, n: int) -> None:
        self._lost[n] = {**self._shown(n), "role": "follower"}
        self.voters[n].call(self.voters[n].raft.step_down)
        self._store(self.voters[n])

    # -- the state as the model's --------------------------------------------------------------------------

    def shown(self) -> dict[str, Any]:
        """Variables of the model, as far as they are compared."""
        each = {f"node{n}": self._lost.get(n) or self._shown(n) for n in self.voters}
        names = ("term", "vote", "role", "commit", "log", "start")
        found: dict[str, Any] = {name: {n: one[name] for n, one in each.items()} for name in names}
        found["match"] = {f"node{n}": self._match(n) for n in self.voters if n not in self._lost}
        return found

    def _match(self, n: int) -> dict[str, AtMost]:
        leadership = self.voters[n].raft.leadership
        known = leadership.progress if leadership is not None else {}
        return {f"node{other}": AtMost(progress.match_index) for other, progress in known.items()}

    def _shown(self, n: int) -> dict[str, Any]:
        raft = self.voters[n].raft
        log = raft.raft_log
        terms = [self._committed[index] for index in range(1, log.start)]
        terms += [log.start_term] * bool(log.start) + [entry.term for entry in raft.log]
        if n == self._opening:
            terms = []
        return {
            "term": raft.term,
            "vote": f"node{raft.voted_for}" if raft.voted_for else None,
            "role": ROLES[raft.role],
            "commit": raft.commit,
            "log": [{"term": term, "config": self._config} for term in terms],
            "start": log.start,
        }


def _number(value: Any) -> Any:
    """A node's name as its number; anything else as it is."""
    return int(value.removeprefix("node")) if isinstance(value, str) else value
