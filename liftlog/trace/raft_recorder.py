"""Makes the Raft lines of one process's trace (`raft_lines.py`): looks at its Raft after each step.

A recorder changes nothing, and Raft does not know of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from liftlog.core.raft.members import decode_members, is_change
from liftlog.core.raft.raft import Raft
from liftlog.messages import (
    AppendLog,
    AppendReply,
    AppendRequest,
    Durable,
    Effect,
    Event,
    InstallSnapshot,
    Outcome,
    Received,
    SaveHardState,
    Send,
    SnapshotChunk,
    TimerFired,
    TruncateLog,
    VoteReply,
    VoteRequest,
)
from liftlog.trace.parting import OF_THE_GROUP, parted
from liftlog.trace.raft_lines import RaftCause, RaftJob, RaftLetter, RaftMembers, RaftState, RaftStep, Runs
from liftlog.types import Entry


class RaftRecorder:
    """Makes the Raft lines of one process.

    Create it before the node is started, since it looks at what was found; call `stepped` with each outcome
    (that of the start with event None), before anything else is done with the node. Who has no use for the
    line yet calls `seen` in its place, and later, in the same order, `line`.
    """

    def __init__(self, raft: Raft, start: int, disk: str) -> None:
        self._raft = raft
        self._start = start
        self._disk = disk
        self._number = 0
        self._history: Runs = ()
        self._log_start = raft.raft_log.start
        self._looked_at: tuple[object, ...] = ()
        """What is remembered beside the log, when it was last looked at."""
        self._changes: dict[tuple[int, int], RaftMembers] = {}
        """What entries say that change the members, by index and term, until it is told."""
        self._seen: RaftState | None = None
        self._found = self.seen(1)
        self.told: RaftState | None = None
        """What the last line says that the node remembers."""
        self._open: dict[int, None] = {}

    def stepped(self, event: Event | None, outcome: Outcome) -> RaftStep | None:
        """The line of the step that has just been done, if there is one."""
        return self.line(event, parted(outcome.effects)[0], self.seen(outcome.group_log_from))

    def seen(self, log_from: int) -> RaftState:
        """What the node remembers now; the same object as long as it is the same. `log_from`: the lowest
        index that the step has written or cut, or 0.
        """
        raft = self._raft
        log = raft.raft_log
        may_vote = raft.may_vote
        withheld = raft.withheld
        looked_at = (
            *(raft.term, raft.commit, log.durable_index, raft.role, raft.voted_for),
            *(may_vote, withheld, log.start),
        )
        before = self._seen
        if before is not None and not log_from and looked_at == self._looked_at:
            return before
        self._looked_at = looked_at
        if log_from or self._log_start != log.start:
            if self._log_start != log.start or log_from <= log.start:
                self._log_start = log.start
                self._history, log_from = (), log.start + 1
            written = log.between(log_from - 1, log.last_index)
            self._history = history_of(self._history, written, log_from)
            for entry in written:
                if is_change(entry.data):
                    self._changes.setdefault((entry.index, entry.term), _members(entry))
        self._seen = RaftState(
            term=raft.term,
            vote=raft.voted_for,
            role=raft.role.value,
            history=self._history,
            last=log.last_index,
            durable=log.durable_index,
            commit=raft.commit,
            may_vote=may_vote,
            withheld=withheld,
            start=log.start,
            start_term=log.start_term,
            changes=tuple((index, log.term_at(index)) for index in raft.membership.indexes),
        )
        return self._seen

    def line(self, event: Event | None, effects: Sequence[Effect], state: RaftState) -> RaftStep | None:
        """The line of a step with these effects of the group's (`parted`), after which the node remembered
        `state`, if there is one.
        """
        jobs: tuple[RaftJob, ...] = ()
        sent: tuple[RaftLetter, ...] = ()
        for effect in effects:
            if type(effect) is Send:
                sent += (letter_of(effect.message, self._raft.node, effect.to, effect.after),)
            else:
                jobs += (_job(effect),)
        letter, ticket = None, 0
        if type(event) is Received:
            if type(event.message) in OF_THE_GROUP:
                letter = letter_of(event.message, event.sender, self._raft.node, 0)
        elif type(event) is Durable and event.ticket in self._open:
            ticket = event.ticket
            del self._open[ticket]
        told = self.told
        if letter is None and not (ticket or sent or jobs) and (state is told or state == told):
            return None
        for job in jobs:
            self._open[job.ticket] = None
        self.told = state
        self._number += 1
        name = type(event).__name__ if event is not None else "Start"
        cause = RaftCause(name, letter, ticket)
        line = RaftStep(
            node=self._raft.node,
            start=self._start,
            number=self._number,
            cause=cause,
            state=state,
            jobs=jobs,
            sent=sent,
        )
        if event is None:
            line = msgspec.structs.replace(line, disk=self._disk, found=self._found)
        if state.changes and (untold := [name for name in state.changes if name in self._changes]):
            line = msgspec.structs.replace(line, members=tuple(map(self._changes.pop, untold)))
        return line

    def passed(self) -> None:
        """A step's line is not wanted, since all but its number was in another (`echo_of`)."""
        self._number += 1


def _members(entry: Entry) -> RaftMembers:
    members = decode_members(entry.data)
    return RaftMembers(entry.index, entry.term, members.voters, members.learners)


Echo = tuple[object, ...]


def echo_of(event: Event | None, effects: Sequence[Effect]) -> Echo | None:
    """What the arrival of a heartbeat or of its answer says, or a timer that sends heartbeats: steps of one
    process with the same echo, after which it remembers the same, have the same line but for its number.
    `None` for every other step. `effects`: those of the group's (`parted`).
    """
    if type(event) is Received:
        message = event.message
        if type(message) is AppendReply:
            if effects:
                return None
            return event.sender, message.term, message.match, message.success, message.counts
        if type(message) is not AppendRequest or message.entries:
            return None
        request = (event.sender, message.term, message.prev_index, message.prev_term, message.commit)
        if not effects:
            return request, None
        said = effects[0]
        reply = said.message if type(said) is Send else None
        if len(effects) > 1 or type(said) is not Send or type(reply) is not AppendReply:
            return None
        return request, said.to, said.after, reply.term, reply.match, reply.success, reply.counts
    if type(event) is not TimerFired or not effects:
        return None
    echo: Echo = ("TimerFired",)
    for sent in effects:
        beat = sent.message if type(sent) is Send else None
        if type(sent) is not Send or type(beat) is not AppendRequest or beat.entries:
            return None
        echo += ((sent.to, sent.after, beat.term, beat.prev_index, beat.prev_term, beat.commit),)
    return echo


def _job(effect: Effect) -> RaftJob:
    match effect:
        case SaveHardState(state=state, ticket=ticket):
            return RaftJob(ticket, "state", state.term, state.voted_for, state.vote_withheld)
        case AppendLog(batches=batches, ticket=ticket):
            terms = tuple((batch.epoch, batch.end_offset - batch.base_offset) for batch in batches)
            return RaftJob(ticket, "append", index=batches[0].base_offset, terms=terms)
        case TruncateLog(offset=offset, ticket=ticket):
            return RaftJob(ticket, "cut", index=offset)
        case InstallSnapshot(snapshot=snapshot, reset=reset, ticket=ticket):
            kind = "install" if reset else "snapshot"
            return RaftJob(ticket, kind, snapshot.term, index=snapshot.index)
    raise TypeError(f"{type(effect).__name__} is no write of the group's")


def history_of(before: Runs, written: Sequence[Entry], log_from: int) -> Runs:
    """(term, first index) of each run of a log: before `log_from` as it was, from there on `written`."""
    runs = [run for run in before if run[1] < log_from]
    term = runs[-1][0] if runs else -1
    for entry in written:
        if entry.term != term:
            term = entry.term
            runs.append((term, entry.index))
    return tuple(runs)


def _runs(entries: Iterable[Entry]) -> Runs:
    runs: list[tuple[int, int]] = []
    for entry in entries:
        if runs and runs[-1][0] == entry.term:
            runs[-1] = (entry.term, runs[-1][1] + 1)
        else:
            runs.append((entry.term, 1))
    return tuple(runs)


def letter_of(message: object, sender: int, receiver: int, after: int) -> RaftLetter:
    """A vote or append message as the trace has it."""
    match message:
        case AppendRequest():
            return RaftLetter(
                "append",
                message.term,
                sender,
                receiver,
                index=message.prev_index,
                index_term=message.prev_term,
                terms=_runs(message.entries) if message.entries else (),
                commit=message.commit,
                after=after,
            )
        case AppendReply():
            return RaftLetter(
                "ack",
                message.term,
                sender,
                receiver,
                index=message.match,
                yes=message.success,
                counts=message.counts,
                after=after,
            )
        case SnapshotChunk():
            return RaftLetter(
                "install",
                message.term,
                sender,
                receiver,
                index=message.index,
                index_term=message.index_term,
                commit=message.commit,
                after=after,
            )
        case VoteRequest():
            return RaftLetter(
                "ask",
                message.term,
                sender,
                receiver,
                index=message.last_index,
                index_term=message.last_term,
                pre=message.pre_vote,
                after=after,
            )
        case VoteReply():
            return RaftLetter(
                "vote",
                message.term,
                sender,
                receiver,
                yes=message.granted,
                pre=message.pre_vote,
                after=after,
            )
    raise TypeError(f"{type(message).__name__} is no vote or append message")
