"""Drives real Raft nodes through a path of `liftlog_spec/models/raft.py`, and shows their state as that
model's.

Node n of the model is voter n. Messages and writes wait until the model delivers or syncs them; a write of
the model is whatever jobs the node has submitted in one step. Three things are the driver's choice, because
the model leaves them open too:

- *Time.* Before a vote is asked for, so many ticks pass that nobody hears a leader.
- *Flow control.* From where a leader sends next is needed for speed only (`core/raft/progress.py`). The
  driver sets it with replies that say of themselves that they count for nothing.
- *Rumours.* A newer term is heard of in a refused vote.

Acknowledgements reach their leader as soon as they have left, which is when the model commits.

Not compared: append messages (they are what the driver delivers), `decided` and `decisions` (what nobody
knows), `campaigns`, `appends`, `restarts` and `losses` (bounds).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from liftlog.core.guards import Guards
from liftlog.core.raft.raft import Raft
from liftlog.core.raft.state import Role
from liftlog.messages import (
    TIMER_ELECTION,
    TIMER_TICK,
    AppendReply,
    AppendRequest,
    Event,
    Outcome,
    PeerMessage,
    Received,
    SaveHardState,
    Send,
    StorageJob,
    TimerFired,
    VoteReply,
    VoteRequest,
)
from liftlog.mutants import Mutants
from liftlog.nodeconfig import NodeConfig
from liftlog.types import HardState, LiftlogError
from liftlog_sim.cover.manual_node import ScenarioRefused
from liftlog_sim.cover.raft_alone import Do, RaftDisk, RaftProcess
from liftlog_spec.cover.scenario import Head, ScenarioStep

TICK_MS = 100
NEVER_MS = 1 << 40
QUIET_TICKS = 3


class QueuedMessage:
    """A message that waits for a ticket, or has left. `index_term`: of an ack, the term of what it names."""

    def __init__(self, sender: int, to: int, message: PeerMessage, index_term: int) -> None:
        self.sender = sender
        self.to = to
        self.message = message
        self.index_term = index_term
        self.delivered = False

    def shown(self) -> dict[str, Any] | None:
        """As the model has it; None if the model has no such message."""
        match self.message:
            case VoteRequest(pre_vote=False) as asked:
                return _message(
                    "ask", asked.term, self.sender, None, index=asked.last_index, index_term=asked.last_term
                )
            case VoteReply(granted=True, pre_vote=False) as vote:
                return _message("vote", vote.term, self.sender, self.to)
            case AppendReply(success=True, counts=True) as ack if ack.match:
                return _message(
                    "ack", ack.term, self.sender, self.to, index=ack.match, index_term=self.index_term
                )
        return None


class Voter:
    """One node: its disk, and the run of its process."""

    def __init__(self, number: int, size: int, mutants: Mutants, **limits: int) -> None:
        """`limits`: of its configuration."""
        self.number = number
        self._mutants = mutants
        self._config = NodeConfig(
            node=number,
            voters=tuple(range(1, size + 1)),
            tick_ms=TICK_MS,
            election_min_ms=TICK_MS,
            election_max_ms=NEVER_MS,
            raft_append_max_bytes=1,
            **limits,  # type: ignore[arg-type]
        )
        self.disk = RaftDisk(f"disk-{number}")
        certificate = tuple((n, f"disk-{n}") for n in range(1, size + 1))
        self.disk.hard_state = HardState(peer_disks=certificate, born=True)
        self.runs = 0
        self.start()

    def start(self) -> None:
        """A process on what the disk holds."""
        self.runs += 1
        self.writes: list[list[StorageJob]] = []
        self.left: list[QueuedMessage] = []
        self._written = 0
        self._terms: dict[int, tuple[AppendReply, int]] = {}
        """By identity: an ack, kept so that the identity is, and the term of what it named at first."""
        self.process = RaftProcess(
            self._config, self.disk, Guards(self._mutants), self.runs, self._sent, self._stepped
        )
        self._now_ms = 0.0
        self.process.start()
        self.raft.take_committed()

    @property
    def raft(self) -> Raft:
        return self.process.raft

    @property
    def held(self) -> list[QueuedMessage]:
        """What waits for a write."""
        return [self._queued(send.to, send.message) for send in self.process.held]

    def _stepped(self, event: Event | None, outcome: Outcome) -> None:
        for effect in outcome.effects:
            if (
                isinstance(effect, Send)
                and isinstance(effect.message, AppendReply)
                and effect.message.success
            ):
                term = self.raft.raft_log.term_at(effect.message.match)
                self._terms[id(effect.message)] = (effect.message, term)

    def _sent(self, sender: int, to: int, message: PeerMessage) -> None:
        self.left.append(self._queued(to, message))

    def _queued(self, to: int, message: PeerMessage) -> QueuedMessage:
        _, term = self._terms.get(id(message), (None, 0))
        return QueuedMessage(self.number, to, message, term)

    def take(self, event: Event) -> None:
        """One step: jobs are kept, messages leave or wait for their ticket."""
        self.process.take(event)
        self.raft.take_committed()

    def call(self, work: Callable[[], object]) -> None:
        self.take(Do(work))

    def receive(self, sender: int, message: PeerMessage) -> None:
        self.take(Received(sender, message))

    def tick(self, times: int) -> None:
        for _ in range(times):
            self._now_ms += TICK_MS
            self.take(TimerFired(TIMER_TICK, self._now_ms))

    def written(self) -> None:
        """What was submitted since the last time is one write of the model."""
        submitted = self.process.jobs[self._written :]
        if submitted:
            self.writes.append(submitted)
            self._written += len(submitted)

    def sync(self) -> None:
        """The oldest write is durable."""
        if not self.writes:
            raise ScenarioRefused(f"node {self.number} has nothing to sync")
        for job in self.writes.pop(0):
            self._written -= 1
            self.process.store(job)
            self.raft.take_committed()

    def crash(self, voted: int, logged: int, length: int) -> None:
        """Power loss: so many writes have reached the file of term and vote, and the log, perhaps in part."""
        for place, write in enumerate(self.writes):
            for job in write:
                state = isinstance(job, SaveHardState)
                if place < (voted if state else logged):
                    self.disk.carry_out(job)
        del self.disk.entries[length:]


class RaftStage:
    """The voters of one scenario, at the model's first state."""

    def __init__(self, head: Head, mutants: Mutants) -> None:
        size = head.constants["Nodes"]
        if head.constants["Writes"] < 1:
            raise LiftlogError("with --writes 0 nothing is ever synced: make the scenarios with --writes 1")
        self.voters = {n: Voter(n, size, mutants) for n in range(1, size + 1)}
        self._messages: list[QueuedMessage] = []
        """Everything that has left a node, but append requests that the model knows nothing of."""
        self._appends: dict[str, AppendRequest] = {}

    # -- steps ---------------------------------------------------------------------------------------------

    def play(self, chain: Sequence[ScenarioStep]) -> None:
        """One step of the core: the first action, and what follows from it in the same breath.

        Raises ScenarioRefused, or what the node raises.
        """
        first = chain[0]
        procedure = getattr(self, f"_do_{first.action}", None)
        if procedure is None:
            raise ScenarioRefused(
                f"there is no procedure for {first.action}: add one to liftlog_sim/cover/raft.py"
            )
        procedure(**{name: _number(value) for name, value in first.given.items()})
        self._collect()
        self._acknowledge()
        for voter in self.voters.values():
            voter.written()

    def _collect(self) -> None:
        for voter in self.voters.values():
            self._messages += voter.left
            voter.left = []

    def _acknowledge(self) -> None:
        """Acknowledgements reach their leader."""
        for queued in self._messages:
            leader = self.voters[queued.to].raft
            if isinstance(queued.message, AppendReply) and not queued.delivered and leader.is_leader:
                queued.delivered = True
                if queued.shown() is not None and queued.message.term == leader.term:
                    self.voters[queued.to].receive(queued.sender, queued.message)
                    self.voters[queued.to].left = []

    def _found(self, n: int, fits: Callable[[QueuedMessage], bool]) -> QueuedMessage:
        for queued in self._messages:
            if queued.to == n and fits(queued):
                return queued
        raise ScenarioRefused(f"no such message to node {n} has left its sender")

    def _be_quiet(self, n: int) -> None:
        """So much time passes that n hears no leader; what it says meanwhile is lost."""
        self.voters[n].tick(QUIET_TICKS)
        self.voters[n].left = []

    def _do_Campaign(self, n: int) -> None:
        voter = self.voters[n]
        self._be_quiet(n)
        term = voter.raft.term + 1
        voter.take(TimerFired(TIMER_ELECTION, 0.0))
        asked, voter.left = voter.left, []
        for queued in asked:
            if voter.raft.role is not Role.PRE_CANDIDATE:
                break
            other = self.voters[queued.to]
            self._be_quiet(queued.to)
            other.receive(n, queued.message)
            answers, other.left = other.left, []
            for answer in answers:
                # A refusal is lost: it could tell of a newer term.
                if isinstance(answer.message, VoteReply) and answer.message.granted:
                    voter.receive(answer.sender, answer.message)
        if voter.raft.role is Role.PRE_CANDIDATE or voter.raft.term != term:
            raise ScenarioRefused(f"node {n} does not stand: it gets no quorum of pre-votes")

    def _do_GrantVote(self, n: int, request: dict[str, Any]) -> None:
        source = _number(request["source"])

        def fits(queued: QueuedMessage) -> bool:
            return queued.sender == source and queued.shown() == request

        self._be_quiet(n)
        self.voters[n].receive(source, self._found(n, fits).message)

    def _do_BecomeLeader(self, n: int) -> None:
        voter = self.voters[n]
        for queued in list(self._messages):
            message = queued.message
            votes = isinstance(message, VoteReply) and queued.shown() is not None
            if queued.to == n and votes and message.term == voter.raft.term:  # type: ignore[union-attr]
                voter.receive(queued.sender, message)
        if not voter.raft.is_leader:
            raise ScenarioRefused(f"node {n} is not elected by the votes that have left for it")

    def _do_StepDown(self, n: int, term: int) -> None:
        voter = self.voters[n]
        if term > voter.raft.term:
            other = next(other for other in self.voters if other != n)
            voter.receive(other, VoteReply(term, other, False, False))
        elif voter.raft.is_leader:
            voter.call(voter.raft.step_down)
        else:
            voter.take(TimerFired(TIMER_ELECTION, 0.0))
            voter.left = []

    def _do_Propose(self, n: int) -> None:
        voter = self.voters[n]
        voter.call(lambda: voter.raft.propose(b"x"))
        voter.left = []

    def _do_Replicate(self, n: int, to: int, before: int, many: int) -> None:
        voter = self.voters[n]
        term = voter.raft.term
        voter.left, newest = [], 0
        if voter.raft.leadership is not None:
            # The answers below only move what is sent next: they are about entries that were sent (V3), and
            # no older than what was answered before (M1l).
            progress = voter.raft.leadership.progress[to]
            progress.sent_index, newest = max(progress.sent_index, before), progress.accepted_round
        replies = [True, False] if many == 0 else [True, False, True]
        for success in replies:
            voter.left = []
            voter.receive(to, AppendReply(term, to, success, before, newest, False))
        for queued in voter.left:
            found = queued.message
            if (
                isinstance(found, AppendRequest)
                and queued.to == to
                and (found.prev_index, len(found.entries)) == (before, many)
            ):
                self._appends[_key(_append(found, to))] = found
                voter.left = []
                return
        raise ScenarioRefused(f"node {n} does not send {many} entries after {before} to node {to}")

    def _do_Accept(self, n: int, acked: int, append: dict[str, Any]) -> None:
        found = self._appends.get(_key(append))
        if found is None:
            raise ScenarioRefused(f"node {n} was sent no such entries")
        self.voters[n].receive(found.leader, found)

    def _do_Sync(self, n: int) -> None:
        self.voters[n].sync()

    def _do_Restart(self, n: int, voted: int, logged: int, length: int) -> None:
        self.voters[n].crash(voted, logged, length)
        self.voters[n].start()
        self.voters[n].left = []

    def _do_LoseDisk(self, n: int) -> None:
        voter = self.voters[n]
        voter.disk = RaftDisk(f"disk-{n}-{voter.runs}")
        voter.start()
        voter.left = []

    def _do_Withhold(self, n: int) -> None:
        self.voters[n].call(self.voters[n].raft.withhold_vote)

    # -- the state as the model's --------------------------------------------------------------------------

    def shown(self) -> dict[str, Any]:
        """Variables of the model, as far as they are compared."""
        raft = {n: voter.raft for n, voter in self.voters.items()}
        return {
            "term": {_named(n): one.term for n, one in raft.items()},
            "vote": {_named(n): _voter(one.voted_for) for n, one in raft.items()},
            "log": {_named(n): [entry.term for entry in one.log] for n, one in raft.items()},
            "barred": {_named(n): not one.may_vote for n, one in raft.items()},
            "role": {_named(n): ROLES[one.role] for n, one in raft.items()},
            "commit": {_named(n): one.commit for n, one in raft.items()},
            "disk": {_named(n): _image(voter) for n, voter in self.voters.items()},
            "writes": {_named(n): Many(len(voter.writes)) for n, voter in self.voters.items()},
            "held": {
                _named(n): Promises([queued.shown() for queued in voter.held])
                for n, voter in self.voters.items()
            },
            "messages": Promises([queued.shown() for queued in self._messages]),
        }


class Many(int):
    """Stands for a sequence of so many elements."""


class Promises:
    """Votes, requests for them and acknowledgements, each once; compared without append messages."""

    def __init__(self, letters: Sequence[dict[str, Any] | None]) -> None:
        self.keys = sorted({_key(queued) for queued in letters if queued is not None})

    def differs(self, wanted: list[dict[str, Any]]) -> str:
        """What is there too much or too little; empty if nothing is."""
        expected = sorted({_key(queued) for queued in wanted if queued["kind"] != "append"})
        more = [key for key in self.keys if key not in expected]
        less = [key for key in expected if key not in self.keys]
        parts = [f"has {', '.join(more)}"] if more else []
        parts += [f"lacks {', '.join(less)}"] if less else []
        return " and ".join(parts)


ROLES = {
    Role.FOLLOWER: "follower",
    Role.PRE_CANDIDATE: "follower",
    Role.CANDIDATE: "candidate",
    Role.LEADER: "leader",
}


def _image(voter: Voter) -> dict[str, Any]:
    """What a start would find."""
    state, log = voter.disk.hard_state, [entry.term for entry in voter.disk.entries]
    behind = bool(log) and log[-1] > state.term
    return {
        "term": log[-1] if behind else state.term,
        "vote": None if behind else _voter(state.voted_for),
        "log": log,
        "barred": state.vote_withheld or not state.born,
    }


def _message(
    kind: str,
    term: int,
    source: int,
    to: int | None,
    index: int = 0,
    index_term: int = 0,
    entries: Sequence[int] = (),
    commit: int = 0,
) -> dict[str, Any]:
    return {
        "kind": kind,
        "term": term,
        "source": _named(source),
        "to": _named(to) if to is not None else None,
        "index": index,
        "index_term": index_term,
        "entries": list(entries),
        "commit": commit,
    }


def _append(found: AppendRequest, to: int) -> dict[str, Any]:
    terms = [entry.term for entry in found.entries]
    return _message(
        "append", found.term, found.leader, to, found.prev_index, found.prev_term, terms, found.commit
    )


def _key(queued: dict[str, Any]) -> str:
    """A message in one line; equal for equal ones."""
    said = {name: value for name, value in queued.items() if value not in (None, 0, [])}
    return "(" + ", ".join(f"{name}: {value}" for name, value in said.items()) + ")"


def _voter(n: int) -> str | None:
    return _named(n) if n else None


def _named(n: int) -> str:
    return f"node{n}"


def _number(value: Any) -> Any:
    """A node's name as its number; anything else as it is."""
    return int(value.removeprefix("node")) if isinstance(value, str) else value
