"""Every step of leaders whose consumer has a priority, held against the model `priority_groups` (K10).

Nodes on a scripted world, a random walk of clients that pull, of any leader, with minima or with the pin that
they were given last, whole or in slices, fall silent, lose their connection or forget their pin, of acks, of
messages that are published and deleted, of a pin that is taken away, of leaders that die or are cut off and
live on, and time. A walk has one consumer: with minima, or with one client pinned; with a filter or without.
In each step of a node the model gives what its leader has given, in that order, and refuses whom that has
refused. Who waits at each leader, who is pinned there, until when, and what is said to be to come, are
compared.

What is to come and what waits for acks, the walk makes out itself, of the two logs that the leader has. Left
out are consumers that go by a number of the pull (`prioritized`), of which the model knows nothing, that are
altered, paused or deleted, several groups, and when somebody must be given something, or be refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import pytest

from liftlog.core.consumers.entries import (
    ConsumerEntry,
    Delivered,
    Done,
    SaidAgain,
    decode_entry,
    is_consumers,
)
from liftlog.core.consumers.pullroom import Pin
from liftlog.core.metadata import levels
from liftlog.core.replica.delivering.consuming import ConsumersLead
from liftlog.core.replica.replica import Replica
from liftlog.format import decode_records, decode_values
from liftlog.messages import (
    BY_OVERFLOW,
    BY_PIN,
    ERR_PIN_LOST,
    ERR_PIN_OTHER,
    AppendLog,
    ClientGone,
    ClientRequest,
    ConsumerConfig,
    DeleteMessageRequest,
    DoneReply,
    ErrorReply,
    Event,
    Outcome,
    PullReply,
    PullRequest,
    ReplyClient,
    SettleRequest,
    UnpinRequest,
    offsets_of,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import ClientRef, Message, PartitionId
from liftlog_spec.models.priority_groups import PriorityGroups
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import Disagrees, NodesBeside, counted, planted
from tests.core.gone_when_done import SlowIndexWorld
from tests.core.test_ack_policies import publish
from tests.core.test_consumers import made

CLIENTS = 3
PIN_MS = 600
TICK_MS = 50
MODEL = PriorityGroups(Clients=CLIENTS, Leaders=60, Pins=200, Messages=80, Time=PIN_MS // TICK_MS - 1)
STEPPER = Stepper(MODEL)
INVARIANTS = ("OnePinned", "PinnedAlone", "NotBelowMinimum", "PinIsLost")
STEPS = 150
RECORDS = 70
SUBJECTS = (b"a", b"b")
PATIENCE_S = 4.0
"""So long a client waits for an answer beyond the time of its pull."""
OVERFLOW = ConsumerConfig(ack_wait_ms=400, max_ack_pending=30, priority=BY_OVERFLOW, groups=("g", "h"))
PINNED = OVERFLOW.__replace__(priority=BY_PIN, groups=("g",), pin_ms=PIN_MS)


@lru_cache(maxsize=10_000)
def entry_of(data: bytes) -> ConsumerEntry | None:
    return decode_entry(data) if is_consumers(data) else None


def delivered(runs: Sequence[tuple[int, int, int]]) -> set[int]:
    return {one for start, length, _ in runs for one in range(start, start + length)}


class ToldWorld(SlowIndexWorld):
    """Who walks is told of each step of a node, before anything of it is carried out."""

    walker: GroupsBeside | None = None

    def observed(self, node: int, event: Event | None, outcome: Outcome) -> None:
        if self.walker is not None:
            self.walker.stepped(node, event, outcome)


def opened(mutants: Mutants) -> tuple[ToldWorld, PartitionId]:
    world = ToldWorld(mutants)
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(removal=True)
    assert world.run_until(lambda: partition in world.subscriptions)
    return world, partition


class Client:
    """Who pulls. `pin`: what came with its last answer."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.pin = ""
        self.question = 0
        """0 = it does not pull."""
        self.node = 0
        self.until = 0.0
        self.begins = True
        self.given = False
        """Somebody has decided what it is given, and it has not come yet."""

    def asks(self, node: int, question: int, until: float) -> None:
        self.node, self.question, self.until, self.given = node, question, until, False


class Office:
    """A leader, and what is known of it. `at`: the model's."""

    def __init__(self, at: int, lead: ConsumersLead, ticks: int) -> None:
        self.at = at
        self.lead = lead
        self.epoch = lead._leading.epoch
        self.ticks = ticks
        self.promised: set[int] = set()
        """Questions whose answers wait for the journal."""


class Given:
    """An answer that was decided in a step."""

    def __init__(self, question: int, reply: PullReply) -> None:
        self.question = question
        self.reply = reply
        self.count = sum(length for _, length, _ in reply.runs)
        self.again = all(count > 1 for _, _, count in reply.runs)


class GroupsBeside(NodesBeside):
    """See the module. Nodes have numbers from 1 on, as the model's leaders; its clients from 0."""

    def __init__(self, seed: int, mutants: Mutants = NO_MUTANTS) -> None:
        world, self.partition = opened(mutants)
        super().__init__(STEPPER, seed, world)
        self.by_pin = seed % 2 == 0
        filter = self.random.choice(("", "", "a"))
        self.subjects = SUBJECTS[: 1 if filter else None]
        """Those that it is given messages of."""
        self.take("Configure", int(self.by_pin))
        self.counts.clear()
        config = (PINNED if self.by_pin else OVERFLOW).__replace__(filter=filter)
        self.number = made(world, self.partition, config)
        self.clients = [Client(number) for number in range(CLIENTS)]
        self.offices: dict[int, Office] = {}
        """By node."""
        self.elected = 0
        self.pending: list[int] = []
        """What clients were given."""
        world.walker = self
        self.run(0.2)

    # -- what a leader has ---------------------------------------------------------------------------------

    def value_at(self, name: str, at: int) -> Any:
        """Of a leader."""
        return self.value(name)[at - 1]

    def replica_of(self, node: int, log: PartitionId) -> Replica | None:
        return self.world.nodes[node].replicas.get(log)

    def entries(self, node: int, outcome: Outcome) -> Iterator[tuple[int, ConsumerEntry | None]]:
        """The journal of a leader, each with where it ends."""
        journal = self.partition.journal
        batches = list(self.world.disks[node].logs[journal].batches)
        for effect in outcome.effects:
            if isinstance(effect, AppendLog) and effect.log == journal:
                batches += effect.batches
        for batch in batches:
            for end, data in enumerate(decode_values(batch), batch.base_offset + 1):
                yield end, entry_of(data)

    def amounts(self, node: int, outcome: Outcome) -> tuple[int, int]:
        """How many are to come at a leader, and wait for acks, by what it has written."""
        data = self.world.replica(node, self.partition)
        removed = self.world.replica(node, self.partition.journal).removed
        assert removed is not None
        position, folded, flying = 0, set[int](), set[int]()
        for end, entry in self.entries(node, outcome):
            if isinstance(entry, SaidAgain) and end <= removed.folded:
                position, folded = entry.position, delivered(entry.pending)
            elif isinstance(entry, Delivered):
                position = max(position, entry.end)
                (folded if end <= removed.folded else flying).update(delivered(entry.runs))
            elif isinstance(entry, Done) and end <= removed.folded:
                folded -= set(offsets_of(entry.runs))
        hidden = removed.hidden(data.log.history)
        to_come = sum(
            max(position, data.log_start) <= one.offset < data.hw
            and one.subject in self.subjects
            and one.offset not in hidden
            for one in self.records(node)
        )
        return to_come, len(folded | flying)

    def records(self, node: int) -> Iterator[Any]:
        for batch in self.world.disks[node].logs[self.partition].batches:
            yield from decode_records(batch)

    # -- the model beside it -------------------------------------------------------------------------------

    def stepped(self, node: int, event: Event | None, outcome: Outcome) -> None:
        """A node has done something: the model does the same."""
        replica = self.replica_of(node, self.partition.journal)
        lead = replica.roles.consumers if replica is not None and replica.roles is not None else None
        office = self.offices.get(node)
        replies: dict[int, Any] = {
            one.client: one.reply for one in outcome.effects if isinstance(one, ReplyClient)
        }
        if office is not None and lead is not office.lead:
            del self.offices[node]
            self.ended(office, replies)
            office = None
        if office is None and lead is not None:
            office = self.takes_office(node, lead, outcome)
        if office is not None:
            self.led(node, office, event, outcome, replies)
        for client in self.clients:
            if client.question in replies:
                self.comes(client, replies[client.question])
            elif isinstance(event, ClientGone) and event.client == client.question:
                self.hears_nothing(client)
        if office is not None:
            self.compare(node, office)

    def takes_office(self, node: int, lead: ConsumersLead, outcome: Outcome) -> Office:
        self.elected += 1
        ctx = self.world.nodes[node].ctx
        office = self.offices[node] = Office(self.elected, lead, ctx.ticks)
        if office.at > 1:
            to_come, waiting = self.amounts(node, outcome)
            self.take("Elect", to_come, 0 if self.by_pin else waiting)
        return office

    def ended(self, office: Office, replies: dict[int, Any]) -> None:
        """It leads no more; who waits is told so."""
        for client in self.clients:
            if self.value("waits_at")[client.number] == office.at and client.question in replies:
                self.take("GiveUp", client.number)

    def led(
        self, node: int, office: Office, event: Event | None, outcome: Outcome, replies: dict[int, Any]
    ) -> None:
        """What this leader has done in one step."""
        given = self.given(office, replies)
        self.count(node, office, outcome, given)
        waits = {pull.client for pull in self.pulls(office)}
        if isinstance(event, ClientRequest):
            self.asked(office, event, waits | {one.question for one in given}, replies)
        while given and self.holds(office, given[0].reply.pin):
            self.gives(office, given.pop(0))
        ticks = self.world.nodes[node].ctx.ticks
        while office.ticks < ticks:
            office.ticks += 1
            if self.value_at("pinned", office.at):
                self.take("Tick", office.at)
        for one in given:
            self.gives(office, one)
        for client in self.clients:
            if self.value("waits_at")[client.number] != office.at or client.question in waits:
                continue
            reply = replies.get(client.question)
            refused = isinstance(reply, ErrorReply) and reply.code in (ERR_PIN_LOST, ERR_PIN_OTHER)
            self.take("Refuse" if refused else "GiveUp", client.number, *([office.at] if refused else []))
            if refused:
                client.pin = ""

    def pulls(self, office: Office) -> Sequence[Any]:
        flight = office.lead._agenda.flights.get(self.number)
        return list(flight.pulls) if flight is not None else []

    def given(self, office: Office, replies: dict[int, Any]) -> list[Given]:
        """What it has decided to give, in the order in which it wrote that."""
        found: dict[int, PullReply] = {
            one.client: one.reply
            for one in office.lead._answers._queue
            if isinstance(one.reply, PullReply) and one.client not in office.promised
        }
        now = {
            question: reply
            for question, reply in replies.items()
            if isinstance(reply, PullReply) and reply.runs and question not in office.promised
        }
        office.promised |= found.keys()
        given = [Given(question, reply) for question, reply in {**found, **now}.items()]
        return sorted(given, key=lambda one: one.reply.sequence)

    def count(self, node: int, office: Office, outcome: Outcome, given: list[Given]) -> None:
        """How many are to come, and wait for acks, before it gave these."""
        fresh = sum(one.count for one in given if not one.again)
        to_come, waiting = self.amounts(node, outcome)
        while (known := self.value_at("to_come", office.at)) != to_come + fresh:
            self.take("Come" if known < to_come + fresh else "Go", office.at)
        while not self.by_pin and (known := self.value_at("waiting", office.at)) != waiting - fresh:
            if known < waiting - fresh:
                raise Disagrees(f"{waiting - fresh} wait for acks at node {node}, in the model {known}")
            self.take("Done", office.at)

    def holds(self, office: Office, pin: str) -> bool:
        """Whether the model has this one."""
        epoch, number = map(int, pin.split("-")) if pin else (0, 0)
        return epoch == office.epoch and bool(self.value_at("pinned", office.at) >> number & 1)

    def asked(
        self, office: Office, event: ClientRequest, heard: set[int], replies: dict[int, Any]
    ) -> None:
        """Somebody has asked this leader. `heard`: whose pulls wait, or were given messages."""
        request, reply = event.request, replies.get(event.client)
        if isinstance(request, UnpinRequest):
            if isinstance(reply, DoneReply) and self.value_at("pinned", office.at):
                self.take("Unpin", office.at)
            return
        client = next((one for one in self.clients if one.question == event.client), None)
        if client is None or not isinstance(request, PullRequest):
            return
        refused = isinstance(reply, ErrorReply) and reply.code in (ERR_PIN_LOST, ERR_PIN_OTHER)
        if client.question in heard or refused or isinstance(reply, PullReply):
            if request.pin and not request.begins:
                self.take("GoOn", client.number, office.at)
            else:
                least = request.min_pending, request.min_ack_pending
                self.take("Begin", client.number, office.at, *least)

    def gives(self, office: Office, given: Given) -> None:
        client = next(one for one in self.clients if one.question == given.question)
        self.take("Give", client.number, office.at, given.count, int(given.again))
        client.given = True
        pin, counted = given.reply.pin, self.value_at("counted", office.at)
        if pin != (f"{office.epoch}-{counted}" if self.by_pin else ""):
            raise Disagrees(f"an answer has the pin {pin!r}, the model's leader has given {counted}")
        told, to_come = given.reply.to_come, self.value_at("to_come", office.at)
        if told > to_come or (told != to_come and len(self.subjects) > 1):
            raise Disagrees(f"{told} are to come, as somebody is told, in the model {to_come}")

    # -- answers -------------------------------------------------------------------------------------------

    def comes(self, client: Client, reply: Any) -> None:
        """It has its answer."""
        if isinstance(reply, PullReply) and reply.runs:
            client.pin = reply.pin
            self.pending += sorted(delivered(reply.runs))
        self.closes(client)

    def hears_nothing(self, client: Client) -> None:
        """Its connection is gone, or the node."""
        if self.value("waits_at")[client.number]:
            self.take("GiveUp", client.number)
        self.closes(client)

    def closes(self, client: Client) -> None:
        client.question, client.given = 0, False
        if self.value("pin_of")[client.number] and not client.pin:
            self.take("Forget", client.number)

    def compare(self, node: int, office: Office) -> None:
        """Who waits at this leader, and who is pinned there."""
        model = {
            client.question
            for client in self.clients
            if self.value("waits_at")[client.number] == office.at
        }
        waits = {pull.client for pull in self.pulls(office)}
        if waits != model:
            raise Disagrees(f"at node {node} pulls {waits} wait, in the model {model}")
        flight = office.lead._agenda.flights.get(self.number)
        pin: Pin | None = flight.pulls.pin if flight is not None else None
        pinned, left = self.value_at("pinned", office.at), self.value_at("left", office.at)
        found = (pin.id, pin.until - office.ticks - 1) if pin is not None else None
        number = self.value_at("counted", office.at)
        wanted = (f"{office.epoch}-{number}", left) if pinned else None
        if found != wanted or pinned not in (0, 1 << number):
            raise Disagrees(f"at node {node} the pin is {found}; in the model {pinned:b}, with {left} left")

    # -- what happens --------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.world.run(seconds)

    def step(self) -> None:
        chosen = self.random.random()
        if chosen < 0.15:
            self.put()
        elif chosen < 0.5:
            self.pull(self.random.choice(self.clients))
        elif chosen < 0.62:
            self.settle()
        elif chosen < 0.64:
            self.delete()
        elif chosen < 0.66 and self.by_pin:
            self.ask(UnpinRequest(self.partition, self.number, "g"))
        elif chosen < 0.7:
            self.leave(self.random.choice(self.clients))
        elif chosen < 0.96:
            self.run(self.random.choice((0.001, 0.003, 0.01, 0.1, 0.5)))
        else:
            self.fail()
        for client in self.clients:
            if client.question and self.world.now > client.until:
                self.world.post(client.node, ClientGone(ClientRef(client.question)))
        self.run(self.random.choice((0.0, 0.0, 0.002, 0.02)))

    def leaders(self) -> list[int]:
        """All that lead, the newest one more often."""
        leading = [node for node in self.world.nodes if node in self.offices]
        newest = self.world.leader(self.partition)
        return [*leading, *[newest] * 2] if newest else leading

    def ask(self, request: Any) -> None:
        if leaders := self.leaders():
            self.world.ask(self.random.choice(leaders), request)

    def put(self) -> None:
        leader, _ = self.world.subscriptions.get(self.partition, (0, 0))
        count = self.random.choice((1, 1, 2, 4))
        if leader and self.world.replica(leader, self.partition).leo + count <= RECORDS:
            subjects = [self.random.choice(SUBJECTS) for _ in range(count)]
            publish(self.world, self.partition, *(Message(one, b"", b"", b"m") for one in subjects))

    def pull(self, client: Client) -> None:
        """Of any leader; in slices, if it goes on."""
        leaders = self.leaders()
        if client.question or not leaders:
            return
        if client.pin and self.random.random() < 0.05:
            client.pin = ""
            self.closes(client)
        wait_ms, most = self.random.choice((0, 100, 400, 1500)), self.random.choice((1, 1, 2, 4))
        named: dict[str, Any] = {"group": "g"}
        if self.by_pin:
            named |= {"pin": client.pin, "begins": self.random.random() < 0.4}
        elif self.random.random() < 0.8:
            named |= {"min_pending": self.random.choice((0, 1, 2, 3, 5))}
            named |= {"min_ack_pending": self.random.choice((0, 0, 1, 2, 4))}
        request = PullRequest(self.partition, self.number, most, wait_ms=wait_ms, **named)
        node = self.random.choice(leaders)
        client.asks(node, self.world.ask(node, request), self.world.now + wait_ms / 1000 + PATIENCE_S)

    def leave(self, client: Client) -> None:
        """Its connection is gone."""
        if client.question:
            self.world.post(client.node, ClientGone(ClientRef(client.question)))

    def settle(self) -> None:
        if self.pending:
            one = self.random.choice(self.pending[-8:])
            how = self.random.choice(("ack", "ack", "ack", "nak", "progress"))
            self.ask(SettleRequest(self.partition, self.number, how, [(one, 1)]))

    def delete(self) -> None:
        """What is to come sooner."""
        leader = self.world.leader(self.partition)
        if leader and (end := self.world.replica(leader, self.partition).hw):
            offset = self.random.randrange(max(0, end - 4), end)
            self.world.ask(leader, DeleteMessageRequest(self.partition, offset))

    def kill(self, node: int) -> None:
        super().kill(node)
        self.offices.pop(node, None)
        for client in self.clients:
            if client.question and client.node == node:
                self.hears_nothing(client)

    def fail(self) -> None:
        self.fail_or_mend(self.partition, (self.partition,))
        self.run(self.random.choice((0.01, 0.3, 1.0, 5.0)))


def walk(seed: int, mutants: Mutants = NO_MUTANTS) -> dict[str, int]:
    world = GroupsBeside(seed, mutants)
    for number in range(STEPS):
        world.step()
        if number % 25 == 0:
            world.hold(INVARIANTS)
    world.run(1.0)
    world.hold(INVARIANTS)
    return world.counts


def test_K10_each_step_of_leaders_with_a_priority_is_one_of_the_model() -> None:
    counts = counted(walk, 12)
    assert set(counts) == {action.name for action in MODEL.actions}, counts
    assert min(counts.values()) >= 5, counts


BUGS = ["pin_not_looked_at", "pin_held_by_waiting", "minimum_looked_at_once"]


@pytest.mark.parametrize("bug", BUGS)
def test_K10_the_model_sees_each_planted_bug(bug: str) -> None:
    with pytest.raises(Disagrees):
        for seed in range(30):
            walk(seed, planted(bug))
