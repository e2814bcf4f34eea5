"""What one step of a node did to its part of the metadata group, as plain data: lines of the protocol trace.

Refinement checking (docs/spec-refinement.md) reads these beside the lines of `liftlog.core.steps`: each has
to be explained by actions of the model in `liftlog_spec/models/raft.py`. The field `type` of a line is
"raft".

A line is made for each step that changes the node's Raft state, submits a write of it, completes one, takes
in a vote or append message (request or reply), or sends one. It says

`cause`   the event of the step, with the message that came or the ticket that became durable;
`jobs`    the writes that the step submits, in order, with what they write;
`sent`    the vote and append messages that the step sends, in order. `after` of a message is the ticket of
          the write that has to be durable before it may leave; 0: it leaves with the step. What is held back
          leaves when its ticket is durable, with the step of that `Durable`;
`state`   what the node remembers after the step.

The first line of a process has the cause "Start" and says what was found on the disk and which disk it is.

Order. The lines of one process (`node`, `start`) are numbered from 1 on without gaps. Lines of different
processes are ordered by their messages: one that leaves with a step is received after it; one that is held
back is received after the line in which its ticket becomes durable, or, where clocks cannot tell, at most
shortly before.

What is not in a trace: what entries contain ((index, term) names an entry), pre-votes beyond their terms,
reads, births. Indexes are from 1 on, 0 is before the first. Node 0 is nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from liftlog.core.raft import Raft
from liftlog.messages import (
    AppendLog,
    AppendReply,
    AppendRequest,
    Durable,
    Effect,
    Event,
    Received,
    SaveHardState,
    Send,
    TruncateLog,
    VoteReply,
    VoteRequest,
)
from liftlog.types import RAFT_LOG, Entry

Runs = tuple[tuple[int, int], ...]


class RaftLetter(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A message. `kind`: ask and vote (request and reply), append and ack (request and reply).

    `index`, `index_term`: the candidate's last entry, the entry before those that are carried, or the index
    that an ack names. `terms`: (term, number) of each run of carried entries. `yes`: granted, or accepted.
    `pre`: a pre-vote. `counts`: false from a disk that must not vote (I2). `after`: see the module.
    """

    kind: str
    term: int
    sender: int
    receiver: int
    index: int = 0
    index_term: int = 0
    terms: Runs = ()
    commit: int = 0
    yes: bool = False
    pre: bool = False
    counts: bool = True
    after: int = 0


class RaftCause(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The event's class by name, "Start" for a process's first; the message that came; the ticket."""

    event: str
    letter: RaftLetter | None = None
    ticket: int = 0


class RaftJob(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A write. `kind`: "state" writes term, vote and whether the vote is withheld; "cut" leaves the first
    `index` entries; "append" adds entries behind the first `index`: (term, number) of each run in `terms`.
    """

    ticket: int
    kind: str
    term: int = 0
    vote: int = 0
    withheld: bool = False
    index: int = 0
    terms: Runs = ()


class RaftState(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a node remembers. `role`: that of `liftlog.core.raft.Role`.

    `history`: (term, first index) of each run of terms in the log; `last`: its last index; `durable`: the
    last index that the node knows to be synced.
    """

    term: int
    vote: int
    role: str
    history: Runs
    last: int
    durable: int
    commit: int
    may_vote: bool
    withheld: bool = False
    """It was told to keep its vote for good (I2)."""


class RaftStep(msgspec.Struct, frozen=True, omit_defaults=True, tag="raft", tag_field="type", gc=False):
    """See the module. `start`: the process's nonce.

    `disk`, `found`: the disk's id and what was found on it, in the first line of a process.
    """

    node: int
    start: int
    number: int
    cause: RaftCause
    state: RaftState
    jobs: tuple[RaftJob, ...] = ()
    sent: tuple[RaftLetter, ...] = ()
    disk: str = ""
    found: RaftState | None = None
    at_us: int = 0


class RaftRecorder:
    """Makes the Raft lines of one process.

    Create it before the node is started, since it looks at what was found; call `stepped` after `start` (with
    event None) and after each `step`, before anything else is done with the node. Who has no use for the line
    yet calls `seen` in its place, and later, in the same order, `line`.
    """

    def __init__(self, raft: Raft, start: int, disk: str) -> None:
        self._raft = raft
        self._start = start
        self._disk = disk
        self._number = 0
        raft.raft_log.changed_from = 1
        self._history: Runs = ()
        self._role = raft.role
        self._seen: RaftState | None = None
        self._found = self.seen()
        self._told: RaftState | None = None
        self._open: dict[int, None] = {}

    def stepped(self, event: Event | None, effects: Sequence[Effect]) -> RaftStep | None:
        """The line of the step that has just been done, if there is one."""
        return self.line(event, effects, self.seen())

    def seen(self) -> RaftState:
        """What the node remembers now; the same object as long as it is the same."""
        raft = self._raft
        log = raft.raft_log
        before = self._seen
        if before is not None and (
            before.term == raft.term
            and before.commit == raft.commit
            and before.durable == log.durable_index
            and not log.changed_from
            and self._role is raft.role
            and before.vote == raft.voted_for
            and before.may_vote == raft.may_vote
            and (raft.may_vote or before.withheld == (raft.standing == "withheld"))
        ):
            return before
        if log.changed_from:
            self._history = history_of(self._history, log.entries, log.changed_from)
            log.changed_from = 0
        self._role = raft.role
        self._seen = RaftState(
            raft.term,
            raft.voted_for,
            raft.role.value,
            self._history,
            log.last_index,
            log.durable_index,
            raft.commit,
            raft.may_vote,
            raft.standing == "withheld",
        )
        return self._seen

    def line(self, event: Event | None, effects: Sequence[Effect], state: RaftState) -> RaftStep | None:
        """The line of a step after which the node remembered `state`, if there is one."""
        jobs: tuple[RaftJob, ...] = ()
        sent: tuple[RaftLetter, ...] = ()
        for effect in effects:
            if type(effect) is Send:
                if type(effect.message) in _LETTERS:
                    sent += (letter_of(effect.message, self._raft.node, effect.to, effect.after),)
            elif type(effect) in _WRITES:
                job = _job(effect)
                if job is not None:
                    jobs += (job,)
        letter, ticket = None, 0
        if type(event) is Received:
            if type(event.message) in _LETTERS:
                letter = letter_of(event.message, event.sender, self._raft.node, 0)
        elif type(event) is Durable and event.ticket in self._open:
            ticket = event.ticket
            del self._open[ticket]
        told = self._told
        if letter is None and not (ticket or sent or jobs) and (state is told or state == told):
            return None
        for job in jobs:
            self._open[job.ticket] = None
        self._told = state
        self._number += 1
        name = type(event).__name__ if event is not None else "Start"
        cause = RaftCause(name, letter, ticket)
        line = RaftStep(self._raft.node, self._start, self._number, cause, state, jobs, sent)
        if event is None:
            line = msgspec.structs.replace(line, disk=self._disk, found=self._found)
        return line

    def passed(self) -> None:
        """A step's line is not wanted, since all but its number was in another (`echo_of`)."""
        self._number += 1


Echo = tuple[object, ...]


def echo_of(event: Event | None, effects: Sequence[Effect]) -> Echo | None:
    """What the arrival of a heartbeat, or of its answer, says: steps of one process with the same echo, after
    which it remembers the same, have the same line but for its number. `None` for every other step.
    """
    if type(event) is not Received:
        return None
    message, said = event.message, None
    for effect in effects:
        if type(effect) is Send:
            if type(effect.message) in _LETTERS:
                if said is not None:
                    return None
                said = effect
        elif type(effect) in _WRITES:
            return None
    if type(message) is AppendReply:
        if said is not None:
            return None
        return event.sender, message.term, message.match, message.success, message.counts
    if type(message) is not AppendRequest or message.entries:
        return None
    request = (event.sender, message.term, message.prev_index, message.prev_term, message.commit)
    if said is None:
        return request, None
    reply = said.message
    if type(reply) is not AppendReply:
        return None
    return request, said.to, said.after, reply.term, reply.match, reply.success, reply.counts


def _job(effect: Effect) -> RaftJob | None:
    """None for a write to another log, and what is no write."""
    match effect:
        case SaveHardState(state=state, ticket=ticket):
            return RaftJob(ticket, "state", state.term, state.voted_for, state.vote_withheld)
        case AppendLog(log=log, batches=batches, ticket=ticket) if log == RAFT_LOG:
            terms = tuple((batch.epoch, batch.end_offset - batch.base_offset) for batch in batches)
            return RaftJob(ticket, "append", index=batches[0].base_offset, terms=terms)
        case TruncateLog(log=log, offset=offset, ticket=ticket) if log == RAFT_LOG:
            return RaftJob(ticket, "cut", index=offset)
    return None


def history_of(before: Runs, log: Sequence[Entry], changed_from: int) -> Runs:
    """(term, first index) of each run of a log whose first `changed_from` - 1 entries are as they were."""
    runs = [run for run in before if run[1] < changed_from]
    term = runs[-1][0] if runs else -1
    for entry in log[changed_from - 1 :]:
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


_LETTERS = frozenset((VoteRequest, VoteReply, AppendRequest, AppendReply))
_WRITES = frozenset((SaveHardState, AppendLog, TruncateLog))


def letter_of(message: object, sender: int, receiver: int, after: int) -> RaftLetter:
    """A vote or append message as the trace has it."""
    match message:
        case AppendRequest():
            return RaftLetter(
                "append",
                message.term,
                sender,
                receiver,
                message.prev_index,
                message.prev_term,
                _runs(message.entries) if message.entries else (),
                message.commit,
                after=after,
            )
        case AppendReply():
            return RaftLetter(
                "ack",
                message.term,
                sender,
                receiver,
                message.match,
                yes=message.success,
                counts=message.counts,
                after=after,
            )
        case VoteRequest():
            return RaftLetter(
                "ask",
                message.term,
                sender,
                receiver,
                message.last_index,
                message.last_term,
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
