"""Every step of the metadata group's nodes is explained by actions of `liftlog_spec/models/raft_steps.py`.

    checker = RaftChecker(voters=(1, 2, 3))
    for line in lines:           # those of all nodes, in one order
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

*Servers.* The model's are disks (`raft_servers.py`). A node with another disk is one server more, which is in
no configuration until an entry names it; the former one does nothing any more. Who wrote to a node wrote to
whatever disk it has when the message comes, as a leader may write to anybody. But a vote is for a disk: one
that was given to the former disk of a candidate does not elect the present one. The first configuration is
who votes at the cluster's birth; lines tell what entries change.

What the model does not contain. A disk that is set back to an older copy, or whose end was damaged, may be
found as no crash can leave it: only if whoever calls has said so (`struck`), the model's disk is then put to
what was found. Which disk of a voter was born with the cluster may show late: if it replaced another that
never had the right to vote, it takes that one's place. All these are counted by name in `outside`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Sequence
from typing import Any

from liftlog.trace.raft_lines import RaftLetter, RaftState, RaftStep, Runs
from liftlog_spec.lang.types import Record, Sort
from liftlog_spec.refine.raft_group import ModelGroup
from liftlog_spec.refine.raft_logs import SentSnapshots, expanded, log_of, runs_text
from liftlog_spec.refine.raft_members import Disks, ToldMembers, change_between, config_text
from liftlog_spec.refine.raft_sent import ACK, APPEND, ASK, VOTE, Message, SentMessages
from liftlog_spec.refine.raft_writes import PendingWrite, UnlikeWrite, crash_of, unexplained, writes_of
from liftlog_spec.run.stepwise import Refused

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


class _Process:
    """What the checker knows of one run of a voter beside the model's state."""

    __slots__ = ("acks", "done", "known", "open", "settled", "votes", "waiting", "writes")

    def __init__(self) -> None:
        self.writes: deque[PendingWrite] = deque()
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


class RaftChecker(ModelGroup):
    """See the module's text. `voters`, `learners`: the ids of the nodes that are there at first, in any
    order. Others may come.
    """

    def __init__(self, voters: Sequence[int], learners: Sequence[int] = ()) -> None:
        super().__init__(voters, learners)
        self._told: dict[tuple[int, int], ToldMembers] = {}
        """What entries change, by index and term."""
        self._unwritten: list[tuple[int, int]] = []
        """Those of them that no leader has written yet."""
        self._sent = SentMessages()
        self._processes: dict[int, _Process] = {}
        self._born: dict[int, bool] = {}
        """Servers that have had the right to vote: only these can have promised anything."""
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
        self.replaced = 0
        """Disks that came in the place of others."""

    # -- what is called ------------------------------------------------------------------------------------

    def tell(self, index: int, term: int, voters: Disks, learners: Disks = ()) -> None:
        """What the entry with this name changes; before the first line that has it, and as often as lines
        say it. Raises Disagreement if it was said to be another change.
        """
        told = ToldMembers(tuple(sorted(voters)), tuple(sorted(learners)))
        if (index, term) not in self._told:
            self._unwritten.append((index, term))
        known = self._told.setdefault((index, term), told)
        if known != told:
            raise RaftDisagreement(0, f"entry {index} of term {term}", f"it is told as {known} and as {told}")

    def struck(self, node: int, what: str) -> None:
        """The disk of a node may now be as no crash leaves it: `what` happened to it."""
        self._struck[node] = what

    def step(self, line: RaftStep, echo: Hashable = None) -> None:
        """Explain one line. `echo`: that of its step (`raft_recorder.echo_of`). Raises Disagreement."""
        for told in line.members:
            self.tell(told.index, told.term, told.voters, told.learners)
        node = self._present.get(line.node, -1)
        if line.cause.event == "Start":
            node = self._begins(line)
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
        if state.may_vote and node not in self._born:
            self._gets_born(node)
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
        if self._unwritten:
            index, term = self._unwritten[0]
            raise self._wrong(
                line, f"its entry {index} of term {term} changes the members, which nobody wrote"
            )
        if line.jobs or self._wrote:
            self._submitted(node, process, line, written)
        if cause.ticket:
            self._released(node, process, line)
        if not settled or self._changed:
            self._compare(node, process, line)
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
        process = self._processes.get(self._present.get(voter, -1))
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
                self._sent.add(message)
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
                parts.append(f"{name}={self._servers.name(value)}")
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

    def _message(self, letter: RaftLetter, source: int, to: int) -> Message | None:
        """What the model has in the letter's place, or None. Of an ack, what stands before its term."""
        kind = letter.kind
        if kind == "install":
            entries = self._snapshots.stand_for(letter, self.state[self._log_at][source])
            return (APPEND, letter.term, source, to, 0, 0, entries, letter.commit)
        if kind == "ack":
            if letter.yes and letter.index and (letter.counts or self._learns(source)):
                return (ACK, letter.term, source, to, letter.index)
        elif kind == "append":
            entries = expanded(letter.terms) if letter.terms else ()
            return (APPEND, letter.term, source, to, letter.index, letter.index_term, entries, letter.commit)
        elif kind == "ask" and not letter.pre:
            return (ASK, letter.term, source, -1, letter.index, letter.index_term, (), 0)
        elif kind == "vote" and letter.yes and not letter.pre:
            return (VOTE, letter.term, source, to, 0, 0, (), 0)
        return None

    def _of_other_disks(self, letter: RaftLetter, message: Message) -> Message | None:
        """The message that was sent, from or to another disk of the same nodes."""
        for source in self._servers.all_of(letter.sender):
            for to in self._servers.all_of(letter.receiver):
                receiver = to if message[3] >= 0 else -1
                known = self._sent.known((*message[:2], source, receiver, *message[4:]))
                if known is not None:
                    # A leader writes to whoever is there; any other message is for the disk that is meant.
                    return (*known[:3], message[3], *known[4:]) if known[0] == APPEND else known
        return None

    def _held_back(self, message: Message) -> bool:
        length = 5 if message[0] == ACK else len(message)
        return any(held[:length] == message for held in self._value("held", message[2]))

    def _show(self, message: Message) -> str:
        kind, term, source, to, index = message[:5]
        text = f"{('ask', 'vote', 'append', 'ack')[kind]} of term {term} from {self._servers.name(source)}"
        if to >= 0:
            text += f" to {self._servers.name(to)}"
        if kind == APPEND:
            return (
                f"{text}, entries {list(message[6])} behind {index} (term {message[5]}), commit {message[7]}"
            )
        return f"{text}, index {index}" if kind in (ASK, ACK) else text

    # -- starts --------------------------------------------------------------------------------------------

    def _begins(self, line: RaftStep) -> int:
        """The server that a process begins on. Another disk is another one."""
        server = self._server_of(line.node, line.disk)
        self.replaced += self._present[line.node] != server and server not in self._processes
        self._present[line.node] = server
        return server

    def _gets_born(self, server: int) -> None:
        """It has the right to vote. If it was not known to be a founder, it is in another's place that never
        had it.
        """
        self._born[server] = True
        if self._is_member(server):
            return
        for former in self._servers.all_of(self._nodes[server]):
            if self._founders >> former & 1 and former not in self._born:
                self._replace_founder(former, server)
                self._count_outside("a disk replaced before its birth")

    def _start(self, node: int, line: RaftStep) -> _Process:
        """A process begins: what it found is what a crash may have left."""
        first = node not in self._processes
        struck = self._struck.pop(line.node, "")
        self._processes[node] = process = _Process()
        found = line.found
        if found is None:
            raise self._wrong(line, "a start does not say what was found")
        disks = [self._value("disk", node), *self._value("writes", node)]
        if first:
            if (found.term or found.last) and len(self._servers.all_of(line.node)) == 1:
                self._adopt(node, found)
                self._changed = True
                self._count_outside("found at the beginning")
        elif (crash := crash_of(disks, found, self._nodes)) is not None:
            self._apply(line, "Restart", (node, *crash))
        elif struck:
            self._adopt(node, found)
            self._changed = True
            self._count_outside(f"a disk {struck}")
        else:
            raise self._wrong(line, unexplained(disks, found, self._nodes))
        return process

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
        source = self._present.get(letter.sender, -1)
        expected = self._message(letter, source, node) if source >= 0 else None
        if expected is None:
            return
        message = self._sent.known(expected)
        if message is None and self._servers.replaced:
            message = self._of_other_disks(letter, expected)
        if message is None and letter.kind == "ack" and not letter.counts:
            return  # It was barred when it said so.
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
                        acked = reply.index if reply.counts or self._learns(node) else 0
                        self._apply(line, "Accept", (node, acked, message), message)
                        break
            case 3 if message[3] == node:
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
            while (length := len(self.state[self._log_at][node])) < memory.last:
                told = self._told.get((length + 1, memory.term)) if self._told else None
                if told is None:
                    self._apply(line, "Propose", (node,))
                else:
                    self._change(node, process, line, told)

    def _change(self, node: int, process: _Process, line: RaftStep, told: ToldMembers) -> None:
        """The leader writes an entry that changes the configuration."""
        then = told.held(self._server_of)
        log = self.state[self._log_at][node]
        now = self._steps.evaluate("ConfigAt", (log, len(log)), self.state)
        change = change_between(now, then)
        if change is None:
            was, is_to_be = config_text(now, self._servers.name), config_text(then, self._servers.name)
            raise self._wrong(line, f"it changes {was} to {is_to_be}, which no action of the model does")
        action, who = change
        acks = [process.acks[who]] if who in process.acks else []
        self._apply(line, action, (node, who), *acks)
        self._unwritten = [name for name in self._unwritten if name != (len(log) + 1, line.state.term)]

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
        to = self._present.get(letter.receiver, -1)
        expected = self._message(letter, node, to) if to >= 0 else None
        if expected is None:
            return
        if letter.kind in ("append", "install"):
            self._apply(line, "Replicate", (node, expected[3], expected[4], len(expected[6])))
        elif self._servers.replaced:
            expected = self._for_other_disk(letter, expected)
        waits = letter.after and (
            letter.after in process.open or any(job.ticket == letter.after for job in line.jobs)
        )
        if waits:
            held = process.waiting.setdefault(letter.after, {})
            self._changed = self._changed or expected not in held
            held[expected] = None
        if self._sent.known(expected) is not None:
            return
        if not self._held_back(expected):
            raise self._wrong(line, f"it sends {self._show(expected)}, which no action of the model sends")
        if not waits:
            raise self._wrong(line, self._too_early(node, expected))

    def _for_other_disk(self, letter: RaftLetter, message: Message) -> Message:
        """The answer as the model has it: who has asked may live on another disk by now."""
        for to in self._servers.all_of(letter.receiver) if message[3] >= 0 else ():
            other = (*message[:3], to, *message[4:])
            if self._sent.known(other) is not None or self._held_back(other):
                return other
        return message

    def _too_early(self, node: int, message: Message) -> str:
        term, vote, log, _ = self._value("disk", node)
        known = f"term {term}, vote {self._nodes[vote] if vote >= 0 else 'none'}, {runs_text(log)}"
        return f"{self._show(message)} leaves, but its disk holds only {known}"

    def _released(self, node: int, process: _Process, line: RaftStep) -> None:
        """What waited for the ticket that is now durable has left."""
        for ticket in [ticket for ticket in process.waiting if ticket <= line.cause.ticket]:
            for message in process.waiting.pop(ticket):
                if self._sent.known(message) is None:
                    raise self._wrong(line, self._too_early(node, message))

    # -- writes --------------------------------------------------------------------------------------------

    def _submitted(self, node: int, process: _Process, line: RaftStep, written: int) -> None:
        """Find for each new write of the model the jobs that carry it out; they must write the same."""
        process.open.update((job.ticket, None) for job in line.jobs)
        writes = self._value("writes", node)
        before = writes[written - 1] if written else self._value("disk", node)
        try:
            process.writes.extend(writes_of(line, self._wrote, before, writes[written:], self._nodes))
        except UnlikeWrite as unlike:
            raise self._wrong(line, str(unlike)) from None

    # -- comparison ----------------------------------------------------------------------------------------

    def _compare(self, node: int, process: _Process, line: RaftStep) -> None:
        memory, state = line.state, self.state
        mine = (memory.term, memory.vote, ROLES[memory.role], memory.commit)
        vote = state[self._vote][node]
        theirs = (
            state[self._term][node],
            self._nodes[vote] if vote >= 0 else 0,
            state[self._role][node],
            state[self._commit_at][node],
        )
        wrong = self._unequal(mine, theirs) if mine != theirs else []
        log, expected = self._log(node, memory), state[self._log_at][node]
        if log is not expected and log != expected:
            wrong.append(f"log is {runs_text(log)}, in the model {runs_text(expected)}")
        if memory.may_vote and (state[self._barred][node] or not self._is_member(node)):
            barred = "it is barred" if state[self._barred][node] else "no configuration names its disk"
            wrong.append(f"it may vote, in the model {barred}")
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
