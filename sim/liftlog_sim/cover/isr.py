"""Drives real nodes through a path of `liftlog_spec/models/isr.py`, and shows their state as that model's.

Replica n of the model is node n. The metadata group is one scripted controller: the only voter, which appends
what the model says to its own log, with liftlog's own state machine beside it to tell the outcome, and hands
each node as much of it as the model says. One command of the model may be several real ones (a registration
and its confirmation), and two of the model one real one (a removal and the election that follows).

Not compared, and why: `index` and `news` (the group's log, seen in what is applied), `found` (exists in a
variant only), `tail` and what a replica that is down holds (seen when it starts and registers), `crashes`,
`damages`, `delays` (bounds), `late` (a message that the driver holds), `committed` (what nobody knows).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from liftlog.core.guards import Guards
from liftlog.core.metadata.commands import (
    SPAN_MAX,
    ChangeIsr,
    Command,
    ConfirmNode,
    CreateStream,
    ElectLeader,
    ExpireNode,
    RegisterNode,
    RequestId,
    decode_command,
    encode_command,
)
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.records import CommandResult, PartitionState
from liftlog.messages import (
    FETCH_DIVERGED,
    FETCH_OK,
    AppendRequest,
    Fetch,
    FetchProgress,
    FetchReply,
    Forward,
    PeerMessage,
    Published,
    Received,
)
from liftlog.mutants import Mutants
from liftlog.nodeconfig import NodeConfig
from liftlog.trace.replica_lines import Office, ReplicaState
from liftlog.types import Entry, Message, PartitionId, StreamConfig
from liftlog_sim.cover.manual_node import ManualNode, ScenarioRefused
from liftlog_spec.cover.scenario import Head, ScenarioStep

CONTROLLER = 99
TICK_MS = 100
LAG_TICKS = 100
TICKS_TO_ASK_AGAIN = 20
WAITED_TICKS = 5
NEVER_MS = 1 << 40
ELECTIONS = ("ElectFromIsr", "ElectFromEligible", "ElectFromLastKnown")


class IsrStage:
    """The nodes and the controller of one scenario, at the model's first state."""

    def __init__(self, head: Head, mutants: Mutants) -> None:
        constants = head.constants
        self.size = constants["Replicas"]
        self.nodes = {n: ManualNode(n, self._spoken, mutants) for n in range(1, self.size + 1)}
        self.metadata = Metadata(Guards(mutants))
        self._entries: list[Entry] = []
        self._ends = [0]
        """Model index -> Raft index of the last real command that belongs to it."""
        self._proposals: dict[RequestId, Command] = {}
        self._questions: dict[int, tuple[int, Fetch]] = {}
        self._progress: dict[int, tuple[int, FetchProgress]] = {}
        self._answers: dict[tuple[int, int], FetchReply] = {}
        self._asked: dict[int, int] = {}
        self._heard: dict[tuple[int, int], Fetch | FetchProgress] = {}
        """(leader, follower) -> the last message that has told the leader how far the follower is."""
        self._late: list[tuple[str, int, int, PeerMessage]] = []
        self._runs: dict[int, list[int]] = {n: [] for n in self.nodes}
        self._offices: dict[int, tuple[int, int]] = {0: (0, 0)}
        """Real epoch -> the model's, and the run of its leader."""
        self._versions: dict[int, int] = {}
        self._elected = "isr"
        self._requests = 0
        self.partition = PartitionId(0, 0)
        self._begin(constants["Minimum"])

    # -- the beginning -------------------------------------------------------------------------------------

    def _begin(self, minimum: int) -> None:
        for n, manual in self.nodes.items():
            manual.start(self._config(n), None)
            self._register(n)
        result = self._create(_stream("orders", 1, self.size, minimum))
        self.partition = PartitionId(result.stream, 0)
        # Partitions whose leaders make a node busier than another when one is to be elected (R16).
        spare = self._create(_stream("spare", self.size, self.size, 1))
        self._spare = [PartitionId(spare.stream, number) for number in range(self.size)]
        self._ends = [len(self._entries)]
        for n, manual in self.nodes.items():
            manual.hold(self.partition)
            self._deliver(n)
            # Contact to the controller is noticed on a tick (N2).
            manual.tick()
        self._note_office()

    def _config(self, n: int) -> NodeConfig:
        return NodeConfig(
            node=n,
            voters=(CONTROLLER,),
            learners=tuple(self.nodes),
            address=f"node{n}:1",
            tick_ms=TICK_MS,
            session_timeout_ms=NEVER_MS,
            lease_ms=NEVER_MS,
            leader_timeout_ms=NEVER_MS,
            replica_lag_max_ms=LAG_TICKS * TICK_MS,
            fetch_wait_ms=100,
            fetch_max_bytes=1,
            hw_checkpoint_ms=NEVER_MS,
            retention_check_ms=NEVER_MS,
            compaction_check_ms=NEVER_MS,
            scrub_bytes_per_s=0,
        )

    # -- what leaves the nodes -----------------------------------------------------------------------------

    def _spoken(self, sender: int, receiver: int, message: PeerMessage) -> None:
        match message:
            case Forward():
                command = decode_command(message.command)
                self._proposals[command.request] = command
            case Fetch() if message.partition == self.partition:
                self._questions[sender] = (receiver, message)
            case FetchProgress() if message.partition == self.partition:
                self._progress[sender] = (receiver, message)
            case FetchReply() if message.partition == self.partition:
                self._answers[sender, receiver] = message
            case _:
                pass

    # -- the metadata group --------------------------------------------------------------------------------

    def _request(self) -> RequestId:
        self._requests += 1
        return RequestId(0, self._requests, len(self._entries) + SPAN_MAX)

    def _command(self, command: Command) -> CommandResult:
        """One more command of the group's log."""
        self._entries.append(Entry(len(self._entries) + 1, 1, encode_command(command)))
        result = self.metadata.apply(len(self._entries), command)
        self._proposals.pop(command.request, None)
        self._note_office()
        return result

    def _note_office(self) -> None:
        record = self.metadata.partitions.get(self.partition)
        if record is None or record.epoch in self._offices:
            return
        last, _ = self._offices[max(self._offices)]
        if record.leader:
            run = self._runs[record.leader].index(record.leader_incarnation)
            self._offices[record.epoch] = (last + 1, run)
        else:
            # An epoch without a leader is none in the model.
            self._offices[record.epoch] = (last, 0)

    def _deliver(self, n: int, up_to: int = -1) -> None:
        """Node n gets the group's log up to an index, all of it committed."""
        manual = self.nodes[n]
        end = len(self._entries) if up_to < 0 else up_to
        have = manual.running.raft.raft_log.last_index
        term = manual.running.raft.raft_log.last_term
        entries = self._entries[have:end]
        request = AppendRequest(1, CONTROLLER, have, term, end, 1, entries)
        manual.take(Received(CONTROLLER, request))

    def _published(self) -> None:
        """A command of the model is over."""
        self._ends.append(len(self._entries))

    def _proposed(self, kind: type[Command], n: int) -> Any:
        for command in reversed(self._proposals.values()):
            if isinstance(command, kind) and getattr(command, "node", n) == n:
                return command
        raise ScenarioRefused(f"node {n} has proposed no {kind.__name__}")

    def _register(self, n: int) -> None:
        self._deliver(n)
        for _ in range(TICKS_TO_ASK_AGAIN):
            self.nodes[n].tick()
            if self._registration(n) is not None:
                break
        command = self._registration(n)
        if command is None:
            raise ScenarioRefused(f"node {n} has proposed no registration")
        self._command(command)
        incarnation = self.metadata.nodes[n].incarnation
        self._runs[n].append(incarnation)
        self._deliver(n)
        self._command(self._proposed(ConfirmNode, n))
        self._deliver(n)
        self.nodes[n].tick()

    def _steer(self, chain: Sequence[ScenarioStep]) -> None:
        """Make everybody busier than the one who is to be elected."""
        wanted = next((number(step.given["to"]) for step in chain if step.action in ELECTIONS), 0)
        if not wanted:
            return
        for n, spare in zip([n for n in self.nodes if n != wanted], self._spare, strict=False):
            if self.metadata.is_live(n):
                self._elect_leader(spare, n, True)
        for spare in self._spare:
            if self.metadata.partitions[spare].leader == wanted:
                busy = [n for n in self.nodes if n != wanted and self.metadata.is_live(n)]
                if busy:
                    self._elect_leader(spare, busy[0], True)

    def _create(self, config: StreamConfig) -> CommandResult:
        return self._command(CreateStream(self._request(), config, len(self._entries)))

    def _registration(self, n: int) -> RegisterNode | None:
        """That of the node's present run."""
        for command in self._proposals.values():
            if isinstance(command, RegisterNode) and command.nonce == self.nodes[n].nonce:
                return command
        return None

    def _elect_leader(self, partition: PartitionId, to: int, unclean: bool) -> None:
        version = self.metadata.partitions[partition].version
        self._command(ElectLeader(self._request(), partition, version, to, unclean))

    @property
    def record(self) -> PartitionState:
        return self.metadata.partitions[self.partition]

    def _change(self) -> ChangeIsr | None:
        """The change of the ISR that is on its way, if one fits the present version."""
        for command in reversed(self._proposals.values()):
            if (
                isinstance(command, ChangeIsr)
                and command.partition == self.partition
                and command.version == self.record.version
            ):
                return command
        return None

    # -- steps ---------------------------------------------------------------------------------------------

    def play(self, chain: Sequence[ScenarioStep]) -> None:
        """One step of the core: the first action, and what follows from it in the same breath.

        Raises ScenarioRefused, or what the node raises.
        """
        first = chain[0]
        procedure = getattr(self, f"_do_{first.action}", None)
        if procedure is None:
            raise ScenarioRefused(
                f"there is no procedure for {first.action}: add one to liftlog_sim/cover/isr.py"
            )
        counts = dict(self.metadata.counts)
        self._steer(chain)
        procedure(**{name: number(value) for name, value in first.given.items()})
        for step in chain[1:]:
            if step.action in ELECTIONS:
                self._published()
                self._elected = self._how(counts)
        self._wait()

    def _wait(self) -> None:
        """Some time passes for whoever waits for its proposal: that ends nothing (R2)."""
        for manual in self.nodes.values():
            office = manual.state.office if manual.state is not None else None
            if office is not None and office.pending is not None:
                for _ in range(WAITED_TICKS):
                    manual.tick()

    def _how(self, before: dict[str, int]) -> str:
        grown = {name for name, count in self.metadata.counts.items() if count > before.get(name, 0)}
        if "R14.last-known" in grown:
            return "last-known"
        return "eligible" if "R13.elected" in grown else "isr"

    def _do_ExpireMember(self, r: int) -> None:
        node = self.metadata.nodes[r]
        self._command(ExpireNode(self._request(), r, node.incarnation, node.since))
        self._published()

    _do_ExpireOutsider = _do_ExpireMember

    def _do_ElectAnother(self, to: int) -> None:
        self._elect_leader(self.partition, to, False)
        self._published()
        self._elected = "isr"

    def _do_ApplyAddition(self) -> None:
        command = self._change()
        if command is None:
            raise ScenarioRefused("no change of the ISR for the present version was proposed")
        self._command(command)
        self._published()

    _do_ApplyRemoval = _do_RefuseAddition = _do_ApplyAddition

    def _do_Register(self, r: int) -> None:
        manual = self.nodes[r]
        manual.start(self._config(r), self.partition)
        self._register(r)
        self._published()

    _do_RegisterAfterDamage = _do_Register

    def _do_ApplyInEpoch(self, r: int) -> None:
        self._deliver(r, self._ends[self._applied(r) + 1])

    _do_ApplyNewEpoch = _do_ApplyInEpoch

    def _applied(self, n: int) -> int:
        """How many of the model's commands node n has applied."""
        reached = self.nodes[n].running.metadata.applied
        return max(index for index, end in enumerate(self._ends) if end <= reached)

    def _do_Write(self, r: int) -> None:
        state = self._state(r)
        value = f"{r}-{state.epoch}-{state.leo}".encode()
        self.nodes[r].take(Published(self.partition, state.epoch, [Message(b"orders", b"", b"", value)], 1))

    def _do_Sync(self, r: int) -> None:
        self.nodes[r].sync()

    # -- fetches -------------------------------------------------------------------------------------------

    def _question(self, f: int, lead: int) -> Fetch:
        """A question of f that says how f is now, and that nobody has heard."""
        for _ in range(TICKS_TO_ASK_AGAIN):
            found = self._questions.get(f)
            if found is not None:
                to, fetch = found
                state = self._state(f)
                fresh = (fetch.offset, fetch.durable_leo, fetch.request) == (
                    state.leo,
                    state.durable,
                    state.question,
                )
                if to == lead and fresh and self._asked.get(f) != fetch.request:
                    self._asked[f] = fetch.request
                    return fetch
            self.nodes[f].tick()
        raise ScenarioRefused(f"node {f} does not ask node {lead} anything")

    def _answer(self, f: int, lead: int, status: int) -> FetchReply:
        question = self._question(f, lead)
        self._answers.pop((lead, f), None)
        self._hears(lead, f, question)
        if (lead, f) not in self._answers:
            # A question that waits for news is answered on a tick.
            self.nodes[lead].tick()
        answer = self._answers.pop((lead, f), None)
        if answer is None or answer.request != question.request:
            raise ScenarioRefused(f"node {lead} does not answer node {f}")
        if answer.status != status:
            raise ScenarioRefused(f"node {lead} answers node {f} with status {answer.status}, not {status}")
        return answer

    def _do_Fetch(self, f: int, lead: int) -> None:
        self.nodes[f].take(Received(lead, self._answer(f, lead, FETCH_OK)))

    def _do_Truncate(self, f: int, lead: int) -> None:
        self.nodes[f].take(Received(lead, self._answer(f, lead, FETCH_DIVERGED)))

    def _told(self, f: int, lead: int) -> Fetch | FetchProgress:
        """How far f is, as it tells without a question if it may."""
        found = self._progress.pop(f, None)
        if found is not None:
            to, message = found
            state = self._state(f)
            present = (message.epoch, message.offset, message.durable_leo) == (
                state.epoch,
                state.leo,
                state.durable,
            )
            if to == lead and present:
                return message
        return self._question(f, lead)

    def _do_Report(self, f: int, lead: int) -> None:
        self._hears(lead, f, self._told(f, lead))

    def _hears(self, lead: int, f: int, message: Fetch | FetchProgress) -> None:
        self._heard[lead, f] = message
        self.nodes[lead].take(Received(f, message))

    def _do_ProposeAddition(self, lead: int, who: int) -> None:
        """A leader proposes when a message comes; if no new one may come, an old one comes again."""
        leader, follower = self.nodes[lead].state, self.nodes[who].state
        known = leader.office.progress.get(who) if leader is not None and leader.office is not None else None
        present = follower is not None and leader is not None and follower.view.epoch == leader.view.epoch
        if present and known is not None and known[0] == self.nodes[who].running.incarnation:
            self._hears(lead, who, self._question(who, lead))
        else:
            self._hears(lead, who, self._heard[lead, who])

    def _do_ProposeRemoval(self, lead: int, who: int) -> None:
        manual = self.nodes[lead]
        for _ in range(LAG_TICKS + 5):
            state = self._state(lead)
            if state.office is None or state.office.pending is not None:
                return
            manual.tick()
        raise ScenarioRefused(f"node {lead} does not propose to remove node {who}")

    # -- late messages -------------------------------------------------------------------------------------

    def _do_FetchIsAnsweredLate(self, f: int, lead: int) -> None:
        self._late.append(("records", f, lead, self._answer(f, lead, FETCH_OK)))

    def _do_TruncationIsAnsweredLate(self, f: int, lead: int) -> None:
        self._late.append(("cut", f, lead, self._answer(f, lead, FETCH_DIVERGED)))

    def _do_ReportIsLate(self, f: int, lead: int) -> None:
        self._late.append(("report", f, lead, self._told(f, lead)))

    def _arrives(self, kind: str, f: int) -> tuple[int, PeerMessage]:
        # The newest: what was asked before it is not awaited any more.
        for late in reversed(self._late):
            if late[:2] == (kind, f):
                self._late.remove(late)
                return late[2], late[3]
        raise ScenarioRefused(f"no late message '{kind}' of node {f} is on its way")

    def _do_LateRecordsArrive(self, f: int) -> None:
        lead, answer = self._arrives("records", f)
        self.nodes[f].take(Received(lead, answer))

    def _do_LateCutArrives(self, f: int) -> None:
        lead, answer = self._arrives("cut", f)
        self.nodes[f].take(Received(lead, answer))

    def _do_LateReportArrives(self, lead: int, f: int) -> None:
        _, message = self._arrives("report", f)
        assert isinstance(message, Fetch | FetchProgress)
        self._hears(lead, f, message)

    def _do_LateMessageIsLost(self) -> None:
        self._late.pop()

    # -- crashes -------------------------------------------------------------------------------------------

    def _down(self, r: int) -> None:
        manual = self.nodes[r]
        manual.power_loss()
        for store in (self._questions, self._progress, self._asked):
            store.pop(r, None)

    def _do_Crash(self, r: int, keep: int) -> None:
        self.nodes[r].keep(keep)
        self._down(r)

    def _do_CrashWithTornTail(self, r: int, keep: int) -> None:
        self.nodes[r].keep(keep + 1, at_least=True)
        self.nodes[r].spoil(keep)
        self._down(r)

    def _do_LoseDisk(self, r: int) -> None:
        self._down(r)
        self.nodes[r].new_disk()

    # -- the state as the model's --------------------------------------------------------------------------

    def _state(self, n: int) -> ReplicaState:
        state = self.nodes[n].state
        if state is None or state.state != "ready":
            raise ScenarioRefused(f"node {n} has no open replica")
        return state

    def shown(self) -> dict[str, Any]:
        """Variables of the model, as far as they are compared; replicas that are down are left out."""
        replicas: dict[str, dict[str, Any]] = {name: {} for name in PER_REPLICA}
        for n, manual in self.nodes.items():
            replicas["up"][named(n)] = manual.node is not None
            replicas["run"][named(n)] = len(self._runs[n]) - 1
            if manual.node is not None:
                for name, value in self._replica(n).items():
                    replicas[name][named(n)] = value
        return {**self._group(), **replicas}

    def _group(self) -> dict[str, Any]:
        record = self.record
        nodes = {n: self.metadata.nodes[n] for n in self.nodes}
        change = self._change()
        present: dict[str, Any] | None = None
        if change is not None:
            gone = [n for n in record.isr if n not in change.isr]
            who = change.joiner or gone[0]
            present = {"who": named(who), "joins": bool(change.joiner)}
            if change.joiner:
                # A removal means whoever is there by then, so that it names no run.
                present["run"] = self._runs[who].index(change.joiner_incarnation)
        known = {named(n): None for n in self.nodes} | {
            named(n): {"epoch": self._offices[copy.epoch][0], "leo": copy.leo, "lost": copy.lost}
            for n, copy in record.last_known.items()
        }
        return {
            "now": self._view(
                record.leader,
                record.epoch,
                record.version,
                record.isr,
                {n: node.incarnation for n, node in nodes.items()},
                [n for n in nodes if self.metadata.is_live(n)],
            ),
            "eligible": [named(n) for n in sorted(record.eligible)],
            "known": known,
            "change": present,
            "elected": self._elected,
        }

    def _view(
        self,
        leader: int,
        epoch: int,
        version: int,
        isr: Sequence[int],
        runs: dict[int, int],
        live: Sequence[int],
    ) -> dict[str, Any]:
        return {
            "leader": named(leader) if leader else None,
            "epoch": self._offices[epoch][0],
            "version": Version(version),
            "isr": [named(n) for n in sorted(isr)],
            "runs": {named(n): self._runs[n].index(run) for n, run in runs.items()},
            "live": [named(n) for n in sorted(live)],
        }

    def _replica(self, n: int) -> dict[str, Any]:
        manual, state = self.nodes[n], self._state(n)
        assert manual.group is not None and manual.group.after is not None
        view, members = state.view, manual.group.after.members
        office = state.office
        found = {
            "log": self._log(state),
            "synced": state.durable,
            "hw": state.hw,
            "applied": self._applied(n),
            "view": self._view(
                view.leader,
                view.epoch,
                view.version,
                view.isr,
                {m: member.incarnation for m, member in members.items()},
                [m for m, member in members.items() if member.live],
            ),
        }
        if office is not None:
            found |= self._office(n, office)
        return found

    def _office(self, n: int, office: Office) -> dict[str, Any]:
        progress = {named(m): -1 for m in self.nodes} | {
            named(m): durable for m, (_, durable) in office.progress.items() if m != n
        }
        pending = office.pending
        return {
            "first": office.began,
            "progress": progress,
            "pending": named(pending.who) if pending is not None else None,
        }

    def _log(self, state: ReplicaState) -> list[dict[str, int]]:
        log: list[dict[str, int]] = []
        starts = [*state.history, (0, state.leo)]
        for (epoch, start), (_, end) in pairwise(starts):
            number_of, run = self._offices[epoch]
            log += [{"epoch": number_of, "run": run}] * (end - start)
        return log


class Version(int):
    """A real version: it grows whenever the model's does, and sometimes by more."""


PER_REPLICA = ("up", "run", "log", "synced", "hw", "applied", "view", "first", "progress", "pending")


def named(n: int) -> str:
    return f"replica{n}"


def number(value: Any) -> int:
    """A parameter as a number: a replica's, or itself."""
    return int(value.removeprefix("replica")) if isinstance(value, str) else value


def _stream(name: str, partitions: int, replicas: int, minimum: int) -> StreamConfig:
    return StreamConfig(name, name, partitions, replicas, minimum)
