"""Every step of the metadata group's voters is explained by actions of
`liftlog_spec/models/raft_restarts.py`.

    checker = RaftChecker(voters=(1, 2, 3))
    for line in lines:           # those of all voters, in one order
        checker.step(line)       # raises Disagreement

The checker keeps one state of the model. From what a line says (its event, the message that came, what was
sent, what the node remembers afterwards) it derives which actions the model must have taken, in which order;
each is applied, and may be refused by a guard. Then the node and its part of the model's state must agree.
Nothing is searched: a line that suggests no action must leave the node as it was.

What is compared after each line: term, vote, role, log and commit, whether the node has the right to vote,
and that it believes no more to be durable than the model's disk has. What is compared with each message that
leaves: that the model has sent the same one, with the same content, and that the model holds it back no
longer. With each that comes: that it was sent.

Three things keep this cheap and strict. *Messages* stay out of the model's state: of the set `messages`, an
action sees those alone that it takes in. A guard that passes with fewer messages passes with more, since no
guard asks for the absence of one. So a leader is allowed what the answers allow that *it* has taken in, where
the model would let it act on any that were sent. *Writes*: those of the model are matched in order with the
jobs that the node submits; one of the model's is synced when the last job that belongs to it is. *Pre-votes,
refusals, reads, births* have no counterpart: at most they tell a term, which StepDown allows if somebody has
it on its disk.

What the model does not contain. A learner's lines are left out. A disk that is set back to an older copy, or
whose end was damaged, may be found as no crash can leave it: only if whoever calls has said so (`struck`),
the model's disk is then put to what was found. So is that of a voter whose disk was replaced before it ever
had the right to vote, since such a disk has promised nothing. All these are counted by name in `outside`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import Any

from liftlog.trace.raft_lines import RaftJob, RaftLetter, RaftState, RaftStep, Runs
from liftlog_spec.lang.types import Record, Sort
from liftlog_spec.models.raft_restarts import RaftRestarts
from liftlog_spec.refine.raft_logs import SentSnapshots, expanded, log_of, may_end, runs_text
from liftlog_spec.run.stepwise import Refused, Stepper

HUGE = 10**9
Message = tuple[Any, ...]
ASK, VOTE, APPEND, ACK = range(4)
"""As they are held: the model's kinds of messages in their order."""
ROLES = {"follower": 0, "pre-candidate": 0, "candidate": 1, "leader": 2}
"""The core's roles as the model holds them. A pre-candidate has promised nothing yet."""
FOLLOWER, CANDIDATE, LEADER = range(3)


class RaftDisagreement(Exception):
    """A step that the model does not explain. `node`, `event`: whose and which; `finding`: what is wrong."""

    def __init__(self, node: int, event: str, finding: str) -> None:
        super().__init__(f"node {node}, {event}: {finding}")
        self.node = node
        self.event = event
        self.finding = finding


@lru_cache(maxsize=16)
def _stepper(nodes: int) -> Stepper:
    """The model without bounds. Generated code is kept from one checker to the next."""
    bounds = dict.fromkeys(
        ("Terms", "Entries", "Campaigns", "Appends", "Batch", "Writes", "Restarts", "Losses", "Snapshots"),
        HUGE,
    )
    return Stepper(RaftRestarts(Nodes=nodes, **bounds))


class _Write:
    """One of the model's writes under way: its number among those of the process, and its jobs' tickets."""

    __slots__ = ("first", "last")

    def __init__(self, first: int, last: int) -> None:
        self.first = first
        self.last = last


class _Process:
    """What the checker knows of one run of a voter beside the model's state."""

    __slots__ = ("acks", "done", "known", "open", "settled", "votes", "waiting", "writes")

    def __init__(self) -> None:
        self.writes: deque[_Write] = deque()
        """Those of the model's `writes`, in the same order."""
        self.open: dict[int, None] = {}
        """Tickets of the jobs that are not durable yet."""
        self.done = 0
        """The last ticket that is durable."""
        self.waiting: dict[int, dict[Message, None]] = {}
        """Messages that the node holds back, by the ticket that they wait for."""
        self.votes: dict[Message, None] = {}
        """Votes that it has taken in."""
        self.acks: dict[int, Message] = {}
        """The farthest acknowledgement of each follower that it has taken in, in its present term."""
        self.settled: RaftState | None = None
        """What it remembered when it was last compared with the model."""
        self.known: dict[Hashable, tuple[str, ...]] = {}
        """Lines that changed nothing since something last did, with their actions: by what they say, or by
        what their echo is. The same line is explained by the same: what its actions read are values of this
        node alone. (Those of which that is not true, `StepDown` and `Commit`, always change something.)"""


class RaftChecker:
    """See the module's text. `voters`: the ids of the group, in any order."""

    def __init__(self, voters: Sequence[int]) -> None:
        self.voters = tuple(sorted(voters))
        self._steps = _stepper(len(self.voters))
        self._place = {name: number for number, name in enumerate(self._steps.variables)}
        place = self._place
        self._messages, self._appends = place["messages"], place["appends"]
        self._term, self._vote, self._role, self._commit_at = (
            place[name] for name in ("term", "vote", "role", "commit")
        )
        self._log_at, self._barred, self._disk, self._writes = (
            place[name] for name in ("log", "barred", "disk", "writes")
        )
        self._node = {voter: number for number, voter in enumerate(self.voters)}
        self.state: tuple[Any, ...] = self._steps.first()
        self._sent: dict[Message, None] = {}
        self._acks: dict[Message, Message] = {}
        """Acknowledgements by what the trace says of them: all but the term of the index."""
        self._processes: dict[int, _Process] = {}
        self._disks: dict[int, str] = {}
        self._born: dict[int, bool] = {}
        """Voters that have had the right to vote: only these can have promised anything."""
        self._lost: dict[int, bool] = {}
        self._struck: dict[int, str] = {}
        self._logs: dict[int, tuple[int, Runs, tuple[int, ...]]] = {}
        self._snapshots = SentSnapshots()
        self._tried = ""
        self._took: list[str] = []
        """The actions of this step."""
        self._changed = False
        """Whether this step has changed the model's state, or what the node holds back."""
        self._wrote: list[str] = []
        """The actions of this step that have written something."""
        self.steps = 0
        self.stutters = 0
        self.actions = dict.fromkeys((action.name for action in self._steps.model.actions), 0)
        self.outside: dict[str, int] = {}

    # -- what is called ------------------------------------------------------------------------------------

    def struck(self, node: int, what: str) -> None:
        """The disk of a voter may now be as no crash leaves it: `what` happened to it."""
        self._struck[node] = what

    def step(self, line: RaftStep, echo: Hashable = None) -> None:
        """Explain one line. `echo`: that of its step (`raft_recorder.echo_of`). Raises Disagreement."""
        node = self._node.get(line.node, -1)
        if node < 0:
            self._count_outside("step of a learner")
            return
        process = self._processes.get(node)
        state, cause = line.state, line.cause
        # Then what the node remembers is what it was when last compared, and it writes nothing now.
        settled = (
            not (line.jobs or cause.ticket or cause.event == "Start")
            and process is not None
            and (process.settled is state or process.settled == state)
        )
        if echo is None:
            echo = (cause.letter, line.sent)
            if settled and process is not None and self._is_known(process, echo):
                return
        self.steps += 1
        self._tried = ""
        self._took.clear()
        self._wrote.clear()
        self._changed = False
        if cause.event == "Start":
            process = self._start(node, line)
        elif process is None:
            raise self._wrong(line, "the first line of a process is its start")
        written = len(self.state[self._writes][node])
        if cause.ticket:
            written -= self._synced(node, process, line)
        if cause.letter is not None:
            self._received(node, process, line, cause.letter)
        if not settled or self._changed:
            self._rises(node, process, line)
        for letter in line.sent:
            self._says(node, process, line, letter)
        if not settled or self._changed:
            self._settles(node, process, line)
        if line.jobs or self._wrote:
            self._submitted(node, process, line, written)
        if cause.ticket:
            self._released(node, process, line)
        if not settled or self._changed:
            self._compare(node, process, line)
        if state.may_vote:
            self._born[node] = True
        if not self._took:
            self.stutters += 1
        if not settled or self._changed:
            process.known.clear()
            process.settled = state
        if not (self._changed or line.jobs or cause.ticket or cause.event == "Start"):
            process.known[echo] = tuple(self._took)

    def again(self, voter: int, state: RaftState, echo: Hashable) -> bool:
        """Whether a step after which `voter` remembers `state` has this echo, and one that had it was
        explained in the very same state before. Then it is counted, and needs no line.
        """
        process = self._processes.get(self._node.get(voter, -1))
        return process is not None and process.settled is state and self._is_known(process, echo)

    def _is_known(self, process: _Process, echo: Hashable) -> bool:
        """Most lines say what was said before, such as heartbeats and their answers."""
        took = process.known.get(echo)
        if took is None:
            return False
        self.steps += 1
        for action in took:
            self.actions[action] += 1
        self.stutters += not took
        return True

    # -- the model's state ---------------------------------------------------------------------------------

    def _value(self, name: str, node: int) -> Any:
        return self.state[self._place[name]][node]

    def _apply(self, line: RaftStep, action: str, parameters: tuple[Any, ...], *given: Message) -> None:
        """Take one action that sees the given messages alone."""
        messages, appends = self._messages, self._appends
        before = state = self.state
        visible = given if len(given) < 2 else tuple(sorted(given))
        if visible:
            state = (*before[:messages], visible, *before[messages + 1 :])
        self._tried = action
        after = self._steps.apply(action, parameters, state)
        if isinstance(after, Refused):
            raise self._wrong(line, f"{self._text(action, parameters)}: {after}")
        for message in after[messages]:
            if message not in given:
                self._sent[message] = None
                if message[0] == ACK:
                    self._acks[message[:5]] = message
        self.actions[action] += 1
        self._took.append(action)
        if after[messages] or after[appends]:
            # A number that bounds what is explored, and nothing else, would make every state a new one.
            found = list(after)
            found[messages], found[appends] = (), 0
            after = tuple(found)
        if after == before:
            return
        writes = self._writes
        if len(after[writes][parameters[0]]) > len(before[writes][parameters[0]]):
            self._wrote.append(action)
        self.state = after
        self._changed = True

    def _text(self, action: str, parameters: tuple[Any, ...]) -> str:
        """`Name(n=node 2, index=7)`."""
        parts = []
        for (name, kind), value in zip(self._steps.parameters(action), parameters, strict=True):
            if isinstance(kind, Sort):
                parts.append(f"{name}=node {self.voters[value]}")
            elif isinstance(kind, Record):
                parts.append(f"{name}={self._show(value)}")
            else:
                parts.append(f"{name}={value}")
        return f"{action}({', '.join(parts)})"

    def _wrong(self, line: RaftStep, finding: str) -> RaftDisagreement:
        letter = line.cause.letter
        event = line.cause.event
        if letter is not None:
            event += f"({letter.kind} of term {letter.term} from node {letter.sender})"
        elif line.cause.ticket:
            event += f"(ticket {line.cause.ticket})"
        return RaftDisagreement(line.node, f"line {line.number}, {event}", finding)

    def _count_outside(self, what: str) -> None:
        self.outside[what] = self.outside.get(what, 0) + 1

    # -- messages ------------------------------------------------------------------------------------------

    def _message(self, letter: RaftLetter) -> Message | None:
        """What the model has in the letter's place, or None. Of an ack, what stands before its term."""
        if letter.sender not in self._node or letter.receiver not in self._node:
            return None
        source, to = self._node[letter.sender], self._node[letter.receiver]
        kind = letter.kind
        if kind == "install":
            entries = self._snapshots.stand_for(letter, self.state[self._log_at][source])
            return (APPEND, letter.term, source, to, 0, 0, entries, letter.commit)
        if kind == "ack":
            if letter.yes and letter.counts and letter.index:
                return (ACK, letter.term, source, to, letter.index)
        elif kind == "append":
            entries = expanded(letter.terms) if letter.terms else ()
            return (APPEND, letter.term, source, to, letter.index, letter.index_term, entries, letter.commit)
        elif kind == "ask" and not letter.pre:
            return (ASK, letter.term, source, -1, letter.index, letter.index_term, (), 0)
        elif kind == "vote" and letter.yes and not letter.pre:
            return (VOTE, letter.term, source, to, 0, 0, (), 0)
        return None

    def _known(self, message: Message) -> Message | None:
        """The message that was sent, whole; None if it was not."""
        if message[0] == ACK:
            return self._acks.get(message[:5])
        return message if message in self._sent else None

    def _held_back(self, message: Message) -> bool:
        length = 5 if message[0] == ACK else len(message)
        return any(held[:length] == message for held in self._value("held", message[2]))

    def _show(self, message: Message) -> str:
        kind, term, source, to, index = message[:5]
        text = f"{('ask', 'vote', 'append', 'ack')[kind]} of term {term} from node {self.voters[source]}"
        if to >= 0:
            text += f" to node {self.voters[to]}"
        if kind == APPEND:
            return (
                f"{text}, entries {list(message[6])} behind {index} (term {message[5]}), commit {message[7]}"
            )
        return f"{text}, index {index}" if kind in (ASK, ACK) else text

    # -- starts --------------------------------------------------------------------------------------------

    def _start(self, node: int, line: RaftStep) -> _Process:
        """A process begins: what it found is what a crash may have left, or an empty disk."""
        process = self._processes.get(node)
        first = process is None
        self._processes[node] = process = _Process()
        disk = self._disks.get(line.node)
        self._disks[line.node] = line.disk
        struck = self._struck.pop(line.node, "")
        found = line.found
        if found is None:
            raise self._wrong(line, "a start does not say what was found")
        if first:
            if found.term or found.last:
                self._adopt(node, found)
                self._count_outside("found at the beginning")
        elif line.disk != disk and node not in self._born and node not in self._lost:
            self._adopt(node, found)
            self._count_outside("a disk replaced before its birth")
        elif line.disk != disk:
            self._apply(line, "LoseDisk", (node,))
            self._lost[node] = True
        else:
            crash = self._crash(node, found)
            if crash is not None:
                self._apply(line, "Restart", crash)
            elif struck:
                self._adopt(node, found)
                self._count_outside(f"a voter's disk {struck}")
            else:
                raise self._wrong(line, self._unexplained(node, found))
        return process

    def _crash(self, node: int, memory: RaftState) -> tuple[int, int, int, int, int] | None:
        """Parameters of Restart that leave what was found; None if there are none."""
        disks = [self._value("disk", node), *self._value("writes", node)]
        logs = [log_of(memory, image[2]) for image in disks]
        log = logs[-1]
        last_term = log[-1] if log else 0
        vote = self._node.get(memory.vote, -1)
        voted = logged = -1
        for number, (term, its_vote, _, barred) in enumerate(disks):
            found = (last_term, -1) if last_term > term else (term, its_vote)
            kept = self._lost.get(node, False) or barred == memory.withheld
            if found == (memory.term, vote) and kept:
                voted = number
        for number, image in enumerate(disks):
            if image[2][: len(log)] == logs[number] and may_end(disks, number, len(log)):
                logged = number
        return None if voted < 0 or logged < 0 else (node, voted, logged, len(log), memory.commit)

    def _adopt(self, node: int, memory: RaftState) -> None:
        """Put the model's node to what was found."""
        log = log_of(memory, self.state[self._place["decided"]])
        barred = self._value("barred", node) if self._lost.get(node) else memory.withheld
        vote = self._node.get(memory.vote, -1)
        new = {
            "term": memory.term,
            "vote": vote,
            "log": log,
            "barred": barred,
            "role": FOLLOWER,
            "commit": memory.commit,
            "disk": (memory.term, vote, log, barred),
            "writes": (),
            "held": (),
        }
        values = {}
        for name, value in new.items():
            old = self.state[self._place[name]]
            values[name] = (*old[:node], value, *old[node + 1 :])
        self.state = self._steps.with_values(self.state, values)
        self._changed = True

    def _unexplained(self, node: int, memory: RaftState) -> str:
        term, vote, log, barred = self._value("disk", node)
        found = f"term {memory.term}, vote {memory.vote or 'none'}, {runs_text(log_of(memory))}"
        if memory.commit:
            found += f", the first {memory.commit} in a snapshot"
        known = f"term {term}, vote {self._voter(vote)}, {runs_text(log)}{', barred' if barred else ''}"
        under_way = len(self._value("writes", node))
        return (
            f"no crash leaves what it found ({found}): synced was {known}, {under_way} writes were under way"
        )

    def _voter(self, held: int) -> str:
        return str(self.voters[held]) if held >= 0 else "none"

    # -- events --------------------------------------------------------------------------------------------

    def _synced(self, node: int, process: _Process, line: RaftStep) -> int:
        """Jobs up to a ticket are durable: so are the model's writes whose last job is among them."""
        ticket = line.cause.ticket
        process.done = max(process.done, ticket)
        for other in [other for other in process.open if other <= ticket]:
            del process.open[other]
        synced = 0
        while process.writes and process.writes[0].last <= ticket:
            process.writes.popleft()
            self._apply(line, "Sync", (node,))
            synced += 1
        return synced

    def _received(self, node: int, process: _Process, line: RaftStep, letter: RaftLetter) -> None:
        expected = self._message(letter)
        if expected is None:
            return
        message = self._known(expected)
        if message is None:
            why = "the model still holds it back" if self._held_back(expected) else "nobody has sent it"
            raise self._wrong(line, f"it takes in {self._show(expected)}, but {why}")
        sender = letter.sender
        match message[0]:
            case 0 if any(
                s.kind == "vote" and s.yes and not s.pre and s.receiver == sender for s in line.sent
            ):
                self._apply(line, "GrantVote", (node, message), message)
            case 1:
                process.votes[message] = None
            case 2:
                for reply in line.sent:
                    if reply.kind == "ack" and reply.yes and reply.receiver == sender:
                        acked = reply.index if reply.counts else 0
                        self._apply(line, "Accept", (node, acked, message), message)
                        break
            case 3:
                known = process.acks.get(message[2])
                if known is None or (message[1], message[4]) > (known[1], known[4]):
                    process.acks[message[2]] = message

    # -- what the node did ---------------------------------------------------------------------------------

    def _rises(self, node: int, process: _Process, line: RaftStep) -> None:
        """Actions by what is remembered afterwards that come before what is sent."""
        memory = line.state
        role = ROLES[memory.role]
        if role == CANDIDATE and memory.term > self.state[self._term][node]:
            self._apply(line, "Campaign", (node,))
        if role == LEADER and self.state[self._role][node] != LEADER:
            self._apply(line, "BecomeLeader", (node,), *process.votes)
        if self.state[self._role][node] == LEADER:
            while len(self.state[self._log_at][node]) < memory.last:
                self._apply(line, "Propose", (node,))

    def _settles(self, node: int, process: _Process, line: RaftStep) -> None:
        """Those that come behind it."""
        memory = line.state
        role = self.state[self._role][node]
        if role == LEADER and memory.commit > self.state[self._commit_at][node]:
            self._commit(node, process, line, memory.commit)
        given_up = role != FOLLOWER and ROLES[memory.role] == FOLLOWER
        if memory.term > self.state[self._term][node] or (given_up and not memory.withheld):
            self._apply(line, "StepDown", (node, memory.term))
        if memory.withheld and not self.state[self._barred][node]:
            self._apply(line, "Withhold", (node,))

    def _commit(self, node: int, process: _Process, line: RaftStep, index: int) -> None:
        self._apply(line, "Commit", (node, index), *process.acks.values())

    def _says(self, node: int, process: _Process, line: RaftStep, letter: RaftLetter) -> None:
        """A message that the node sends, now or later, has to be one of the model's."""
        if letter.kind in ("append", "install") and letter.commit > self.state[self._commit_at][node]:
            self._commit(node, process, line, letter.commit)
        expected = self._message(letter)
        if expected is None:
            return
        if letter.kind in ("append", "install"):
            self._apply(line, "Replicate", (node, expected[3], expected[4], len(expected[6])))
        waits = letter.after and (
            letter.after in process.open or any(job.ticket == letter.after for job in line.jobs)
        )
        if waits:
            held = process.waiting.setdefault(letter.after, {})
            self._changed = self._changed or expected not in held
            held[expected] = None
        if self._known(expected) is not None:
            return
        if not self._held_back(expected):
            raise self._wrong(line, f"it sends {self._show(expected)}, which no action of the model sends")
        if not waits:
            raise self._wrong(line, self._too_early(node, expected))

    def _too_early(self, node: int, message: Message) -> str:
        term, vote, log, _ = self._value("disk", node)
        known = f"term {term}, vote {self._voter(vote)}, {runs_text(log)}"
        return f"{self._show(message)} leaves, but its disk holds only {known}"

    def _released(self, node: int, process: _Process, line: RaftStep) -> None:
        """What waited for the ticket that is now durable has left."""
        for ticket in [ticket for ticket in process.waiting if ticket <= line.cause.ticket]:
            for message in process.waiting.pop(ticket):
                if self._known(message) is None:
                    raise self._wrong(line, self._too_early(node, message))

    # -- writes --------------------------------------------------------------------------------------------

    def _submitted(self, node: int, process: _Process, line: RaftStep, written: int) -> None:
        """Find for each new write of the model the jobs that carry it out; they must write the same."""
        process.open.update((job.ticket, None) for job in line.jobs)
        writes = self._value("writes", node)
        before = writes[written - 1] if written else self._value("disk", node)
        images = writes[written:]
        states = [job for job in line.jobs if job.kind == "state"]
        logs = deque(job for job in line.jobs if job.kind not in ("state", "snapshot"))
        for job in states:
            if all(self._state_of(node, job) != self._kept(image) for image in (before, *images)):
                text = f"term {job.term}, vote {job.vote or 'none'}, withheld {job.withheld}"
                raise self._wrong(line, f"it writes {text}, which no action of the model writes")
        for action, image in zip(self._wrote, images, strict=True):
            tickets = []
            if image[2] != before[2]:
                tickets += self._log_jobs(line, action, before[2], image[2], logs)
            if self._kept(image) != self._kept(before):
                # Once for all that a step does about them: what comes later has been written as well.
                found = [job.ticket for job in states if self._state_of(node, job) == self._kept(image)]
                found = found or [
                    job.ticket for job in states if self._state_of(node, job) == self._kept(images[-1])
                ]
                if not found:
                    raise self._wrong(
                        line, f"{action} writes its term and vote, but the node submits no such job"
                    )
                tickets.append(found[0])
            process.writes.append(_Write(min(tickets), max(tickets)))
            before = image
        if logs:
            raise self._wrong(line, f"it submits a job ({logs[0].kind}) for its log that no action writes")

    def _log_jobs(
        self,
        line: RaftStep,
        action: str,
        before: tuple[int, ...],
        after: tuple[int, ...],
        jobs: deque[RaftJob],
    ) -> list[int]:
        """Tickets of the jobs that make one log of the other."""
        log = before
        tickets = []
        while log != after:
            if not jobs:
                raise self._wrong(line, f"{action} writes its log, but the node submits no such job")
            job = jobs.popleft()
            tickets.append(job.ticket)
            if job.kind == "append" and job.index != len(log):
                raise self._wrong(line, f"it appends behind {job.index} to a log of {len(log)}")
            if job.kind == "install":
                if len(after) < job.index or after[job.index - 1] != job.term:
                    raise self._wrong(line, f"it installs what ends with an entry of term {job.term}")
                log = after[: job.index]
            log = log[: job.index] + expanded(job.terms)
        return tickets

    def _state_of(self, node: int, job: RaftJob) -> tuple[int, int, bool]:
        """The same, of a job. An empty disk is barred by what it lacks."""
        return job.term, self._node.get(job.vote, -1), job.withheld or self._lost.get(node, False)

    @staticmethod
    def _kept(image: Any) -> tuple[int, int, bool]:
        """Term, vote and whether it is barred, of one of the model's images."""
        return image[0], image[1], image[3]

    # -- comparison ----------------------------------------------------------------------------------------

    def _compare(self, node: int, process: _Process, line: RaftStep) -> None:
        memory, state = line.state, self.state
        mine = (memory.term, memory.vote, ROLES[memory.role], memory.commit)
        vote = state[self._vote][node]
        theirs = (
            state[self._term][node],
            self.voters[vote] if vote >= 0 else 0,
            state[self._role][node],
            state[self._commit_at][node],
        )
        wrong = self._unequal(mine, theirs) if mine != theirs else []
        log, expected = self._log(node, memory), state[self._log_at][node]
        if log is not expected and log != expected:
            wrong.append(f"log is {runs_text(log)}, in the model {runs_text(expected)}")
        if memory.may_vote and state[self._barred][node]:
            wrong.append("it may vote, in the model it is barred")
        # A write of the model that the node has submitted as several jobs, of which some are durable.
        partly = bool(process.writes) and process.writes[0].first <= process.done
        if not wrong and not partly:
            durable = state[self._disk][node][2]
            if durable is not log and durable != log and durable[: memory.durable] != log[: memory.durable]:
                wrong.append(
                    f"it takes {memory.durable} entries for synced, the disk holds {runs_text(durable)}"
                )
        if wrong:
            tried = f"after {self._tried}: " if self._tried else "no action explains this: "
            raise self._wrong(line, tried + "; ".join(wrong))

    def _unequal(self, mine: tuple[Any, ...], theirs: tuple[Any, ...]) -> list[str]:
        """Term, vote, role and commit for people, where they differ."""
        shown = []
        for name, one, other in zip(("term", "vote", "role", "commit"), mine, theirs, strict=True):
            if one != other:
                both = (one or "none", other or "none") if name == "vote" else (one, other)
                shown.append(f"{name} is {both[0]}, in the model {both[1]}")
        return shown

    def _log(self, node: int, memory: RaftState) -> tuple[int, ...]:
        """What `log_of` says, which is seldom another than last time."""
        if memory.start:
            return log_of(memory, self.state[self._log_at][node])
        known = self._logs.get(node)
        if known is not None and known[0] == memory.last and known[1] == memory.history:
            return known[2]
        log = log_of(memory)
        self._logs[node] = (memory.last, memory.history, log)
        return log
