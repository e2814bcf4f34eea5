"""Every step of the leader of a consumer with dead letters, held against the model `dead_letters` (K9).

Nodes on a scripted world, a random walk of publishers, of clients that pull, ack, terminate and give back, of
messages that are deleted, of leaders that die, are cut off in one log or both, or do not come to sync, of a
stream of dead letters that at times has no leader or no quorum, answers late, twice or never, and of letters
that come late and again; and time. Journals are restated soon. The model is of one message: there is one
beside each message, and each has its entries of the newest leader's journal. After each event the model has
published and written what leaders have; what is committed, and what is dead for each copy and for the newest
leader, are compared. In the end all is well for a while: by then nothing is dead any more.

Left out are consumers that are altered, reset or deleted, letters that have no place to go, and elections
that lose what was committed. A walk ends when one leads again that was replaced and has kept what it had
then, uncommitted: the model has one journal.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from liftlog.core.consumers.entries import (
    ACKED,
    AT_LIMIT,
    GONE,
    TERMINATED,
    ConsumerEntry,
    Dead,
    Delivered,
    Done,
    SaidAgain,
    decode_entry,
    is_consumers,
)
from liftlog.messages import (
    ConsumerConfig,
    DeleteMessageRequest,
    LetterAnswered,
    PublishLetter,
    PullReply,
    PullRequest,
    ReadLog,
    SettleRequest,
    StorageJob,
    offsets_of,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import PartitionId
from liftlog_spec.models.dead_letters import DeadLettersOfAConsumer
from liftlog_spec.run.compiled import State
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import Disagrees, counted, planted
from tests.core.gone_when_done import SlowIndexWorld
from tests.core.node_harness import NETWORK_S
from tests.core.test_consumers import made
from tests.core.two_logs import LineBeside, with_journal

MODEL = DeadLettersOfAConsumer(Entries=8, Epochs=200)
STEPPER = Stepper(MODEL)
KINDS = ("acked", "dead", "done", "gone")
INVARIANTS = ("NoneLost", "StoredOnce", "NotBoth")
STEPS = 160
RECORDS = 40
LIMIT = 2
CONFIG = ConsumerConfig(ack_wait_ms=300, max_deliver=LIMIT, max_ack_pending=8, dead_letter="dead")
UP, LOST, REFUSED = "up", "no leader", "no quorum"


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("liftlog.core.replica.removal.restating.CONSUMER_SHARE", 0)
    monkeypatch.setattr("liftlog.core.replica.delivering.deadletters.AGAIN_MS", 400)
    monkeypatch.setattr("liftlog.core.replica.delivering.deadletters.AGAIN_MAX_MS", 3000)


class SlowReadsWorld(SlowIndexWorld):
    """What storage is asked for messages it answers late, sometimes when another one leads."""

    def _store(self, node: int, job: StorageJob) -> None:
        if isinstance(job, ReadLog):
            answer = self.disks[node].logs[job.log].read(job)
            self.post(node, answer, self.late.choice((NETWORK_S, NETWORK_S, 0.1, 8.0)))
        else:
            super()._store(node, job)


def opened(mutants: Mutants) -> tuple[SlowReadsWorld, PartitionId]:
    world = SlowReadsWorld(mutants)
    return world, with_journal(world)


class Letter(NamedTuple):
    """On its way from a node."""

    node: int
    offset: int
    sent: PublishLetter


class OneMessage:
    """The model beside a message. `ends`: where the program's entries end that its own are."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.ends: list[int] = []
        self.id = ""

    def upto(self, end: int) -> int:
        """How many of the model's entries the first so many of the program's are."""
        return sum(one <= end for one in self.ends)


class LettersBeside(LineBeside):
    """See the module."""

    WAITS_S = (0.01, 0.3, 1.0, 3.0)

    def __init__(self, seed: int, mutants: Mutants = NO_MUTANTS) -> None:
        world, partition = opened(mutants)
        super().__init__(STEPPER, seed, world, partition)
        self.cuts = (None, None, partition, partition.journal)
        self.number = made(world, partition, CONFIG)
        self.messages = [OneMessage(self.model) for _ in range(RECORDS)]
        self.asked: dict[int, tuple[str, tuple[int, ...]]] = {}
        self.given: list[int] = []
        self.said: set[tuple[str, int]] = set()
        """What clients have acked or terminated."""
        self.deleting: set[int] = set()
        self.stream = UP
        self.letters: list[Letter] = []
        """These may be stored yet."""
        self.compared: dict[int, tuple[Any, ...]] = {}
        self.follow()

    # -- the model beside it -------------------------------------------------------------------------------

    def do(self, offset: int, action: str, *parameters: int) -> None:
        """Of one message."""
        one = self.messages[offset]
        self.model = one.state
        self.take(action, *parameters)
        one.state = self.model

    def of(self, offset: int, name: str) -> Any:
        return self.stepper.value(name, self.messages[offset].state)

    def says(self, offset: int, end: int) -> set[str]:
        """By the first so many entries of the program's."""
        entries = self.of(offset, "journal")[: self.messages[offset].upto(end)]
        return {KINDS[one] for one in entries}

    def dying(self, end: int) -> set[int]:
        """What is dead, and pending."""
        return {offset for offset in range(RECORDS) if self.says(offset, end) == {"dead"}}

    def all_hold(self) -> None:
        for one in self.messages:
            self.model = one.state
            self.hold(INVARIANTS)

    def follow(self) -> bool:
        """What has happened in an event; False."""
        leader = self.newest()
        if leader and self.copy(leader).epoch > self.epoch:
            self.elected(leader)
        if self.over:
            return False
        self.hear_committed()
        self.published(leader)
        if leader:
            self.entered(leader)
        for node in self.world.nodes:
            self.follow_copy(node)
        self.answered()
        return False

    def begins(self, end: int) -> None:
        for offset, one in enumerate(self.messages):
            self.do(offset, "Elect", one.upto(end))
            del one.ends[one.upto(end) :]

    def hear_committed(self) -> None:
        """Some copy knows that more is."""
        end = min(self.heard(), len(self.line))
        if end > self.committed:
            self.committed = end
            for offset, one in enumerate(self.messages):
                while self.of(offset, "hw") < one.upto(end):
                    self.do(offset, "Commit")

    def entered(self, leader: int) -> None:
        """What the leader has written into its journal."""
        for data, _ in self.written(leader):
            self.line.append((self.epoch, data))
            if is_consumers(data):
                self.wrote(leader, decode_entry(data))
        self.is_in_line(leader)

    def wrote(self, leader: int, entry: ConsumerEntry) -> None:
        """The model writes the same."""
        match entry:
            case Delivered():
                for start, length, _ in entry.runs:
                    for one in range(start, start + length):
                        if self.says(one, len(self.line)):
                            raise Disagrees(f"{one} is delivered, and it is dead, or done")
            case Dead():
                for one in offsets_of(entry.runs):
                    if entry.how == TERMINATED and ("term", one) not in self.said:
                        raise Disagrees(f"{one} is terminated, which nobody has done")
                    self.write(one, "Die")
            case Done():
                for one in offsets_of(entry.runs):
                    self.done(one, entry.how)
            case SaidAgain():
                found = {o for start, length, _ in entry.dead for o in range(start, start + length)}
                if found != (dead := self.dying(len(self.line))):
                    raise Disagrees(f"node {leader} says again that {found} are dead, in the model {dead}")

    def done(self, offset: int, how: str) -> None:
        if how == ACKED and ("ack", offset) not in self.said:
            raise Disagrees(f"{offset} is acked, which nobody has done")
        self.write(offset, {ACKED: "Ack", GONE: "WriteOff", AT_LIMIT: "Done", TERMINATED: "Done"}[how])

    def write(self, offset: int, action: str) -> None:
        self.do(offset, action)
        self.messages[offset].ends.append(len(self.line))

    # -- what leaders know ---------------------------------------------------------------------------------

    def follow_copy(self, node: int) -> None:
        """What is dead for a copy, and, of the newest leader, by what it has written."""
        journal = self.world.nodes[node].replicas.get(self.partition.journal)
        removed = journal.removed if journal is not None else None
        if journal is None or removed is None or not removed.is_known:
            return
        told = removed.folded, id(removed), journal.leo, self.epoch
        if self.compared.get(node) == told:
            return
        self.compared[node] = told
        consumer = removed.consumers.by_number.get(self.number)
        found = set(consumer.dead) if consumer is not None else set()
        if found != (dead := self.dying(removed.folded)):
            raise Disagrees(f"for node {node} {found} are dead, in the model {dead}")
        lead = journal.roles.consumers if journal.roles is not None else None
        flight = lead._agenda.flights.get(self.number) if lead is not None else None
        if node != self.newest() or flight is None:
            return
        found, dead = set(flight.dead), self.dying(len(self.line))
        if found != dead:
            raise Disagrees(f"the leader of node {node} takes {found} for dead, the model {dead}")

    # -- letters -------------------------------------------------------------------------------------------

    def published(self, leader: int) -> None:
        """Letters that have left."""
        for node, sent in self.world.letters:
            lines = dict(line.split(b": ", 1) for line in sent.headers.split(b"\r\n") if b": " in line)
            offset, id = int(lines[b"Dead-Letter-Offset"]), lines[b"Nats-Msg-Id"].decode()
            one = self.messages[offset]
            if one.id not in ("", id):
                raise Disagrees(f"the letter of {offset} has the id {id}, before {one.id}")
            one.id = id
            known = self.journal(node).removed if node in self.world.nodes else None
            if known is not None and self.says(offset, known.folded) != {"dead"}:
                raise Disagrees(f"node {node} publishes the letter of {offset}, which is not dead for it")
            if not self.of(offset, "flying"):
                self.do(offset, "Publish" if node == leader else "PublishLate")
            self.letters.append(Letter(node, offset, sent))
        self.world.letters.clear()

    def arrives(self, letter: Letter) -> None:
        """At the stream of letters, as that is now."""
        again = self.random.random() < 0.15
        if not again:
            self.letters.remove(letter)
        if self.stream == LOST:
            return
        problem = "no quorum" if self.stream == REFUSED else ""
        if not problem and not self.of(letter.offset, "ids"):
            self.do(letter.offset, "Store", 0)
        if self.random.random() < 0.85:
            self.answer(letter, problem, self.random.choice((0.0, 0.01, 0.5)))
        if self.random.random() < 0.1:
            self.answer(letter, problem, 1.0)

    def answer(self, letter: Letter, problem: str, delay: float) -> None:
        sent = letter.sent
        if letter.node in self.world.nodes:
            event = LetterAnswered(sent.partition, sent.epoch, sent.token, problem)
            self.world.post(letter.node, event, delay)

    # -- answers -------------------------------------------------------------------------------------------

    def answered(self) -> None:
        for question in [one for one in self.asked if one in self.world.replies]:
            self.asked.pop(question)
            reply = self.world.replies[question]
            if isinstance(reply, PullReply):
                self.given += [one for run in reply.runs for one in range(run[0], run[0] + run[1])]

    # -- what happens --------------------------------------------------------------------------------------

    def step(self) -> None:
        leader, chosen = self.newest(), self.random.random()
        if chosen < 0.1:
            self.put()
        elif chosen < 0.27 and leader:
            wait_ms, most = self.random.choice((0, 500)), self.random.choice((1, 2, 4))
            self.ask("pull", PullRequest(self.partition, self.number, most, wait_ms=wait_ms))
        elif chosen < 0.47 and leader:
            self.settle()
        elif chosen < 0.49 and leader:
            self.delete(leader)
        elif chosen < 0.5:
            self.forget_cache()
        elif chosen < 0.67 and self.letters:
            self.arrives(self.random.choice((self.letters[0], self.letters[-1])))
        elif chosen < 0.7:
            self.stream = self.random.choice((UP, UP, LOST, REFUSED))
        elif chosen < 0.95:
            self.run(self.random.choice((0.002, 0.01, 0.1, 0.4)))
        else:
            self.fail()
        self.run(self.random.choice((0.0, 0.0, 0.003, 0.05)))

    def ask(self, what: str, request: Any, *offsets: int) -> None:
        """Any that lead, the newest more often."""
        leading = [node for node in self.world.nodes if self.leads(node)]
        node = self.random.choice([*leading, *[self.newest()] * 2])
        if node:
            self.asked[self.world.ask(node, request)] = what, offsets

    def leads(self, node: int) -> bool:
        replica = self.world.nodes[node].replicas.get(self.partition)
        return replica is not None and replica.leading is not None

    def put(self) -> None:
        """Unless they would come to a leader that was replaced."""
        leader, epoch = self.world.subscriptions.get(self.partition, (0, 0))
        if not leader or epoch != self.epoch or leader != self.newest():
            return
        if self.copy(leader).leo + 2 <= RECORDS:
            self.world.publish(self.partition, *[b"m"] * self.random.choice((1, 2)))

    def settle(self) -> None:
        if not self.given:
            return
        one = self.random.choice(self.given[-6:] if self.random.random() < 0.8 else self.given)
        how = self.random.choice(("ack", "ack", "term", "term", "nak", "progress"))
        self.said.add((how, one))
        self.ask(how, SettleRequest(self.partition, self.number, how, [(one, 1)]), one)

    def forget_cache(self) -> None:
        """What is in memory; from now on messages are read."""
        for node in self.world.nodes:
            if self.leads(node):
                self.copy(node).log.cache.clear()

    def delete(self, leader: int) -> None:
        if end := self.copy(leader).hw:
            offset = self.random.randrange(max(0, end - 6), end)
            if not self.of(offset, "removed"):
                self.do(offset, "Remove")
            self.world.ask(leader, DeleteMessageRequest(self.partition, offset))

    # -- what fails ----------------------------------------------------------------------------------------

    def all_is_well(self) -> None:
        """What is dead is stored, and done."""
        if self.dead:
            self.restart()
        if self.slow:
            self.go_on()
        self.join_up()
        self.stream = UP
        for _ in range(60):
            self.run(0.5)
            if self.over:
                return
            for letter in list(self.letters):
                self.arrives(letter)
            if not self.dying(self.committed) and self.committed == len(self.line):
                return
        raise Disagrees(f"{self.dying(self.committed)} are dead, and stay that")


def walk(seed: int, mutants: Mutants = NO_MUTANTS) -> dict[str, int]:
    world = LettersBeside(seed, mutants)
    for number in range(STEPS):
        world.step()
        if world.over:
            break
        if number % 20 == 0:
            world.all_hold()
    if not world.over:
        world.all_is_well()
    world.all_hold()
    return world.counts


def test_K9_each_step_of_leaders_with_dead_letters_is_one_of_the_model() -> None:
    counts = counted(walk, 12)
    # A leader that was replaced is fenced: it publishes what storage reads for it as late as that, and that
    # the next one has published by then, unless it was written off.
    assert set(counts) == {action.name for action in MODEL.actions} - {"PublishLate"}, counts
    assert min(counts.values()) >= 5, counts


BUGS = ["letter_id_of_leader", "inherited_letters_left", "letter_done_when_sent"]
OTHERS = ["ack_of_all_before", "said_again_without_pending"]
"""Of K6 and K2."""


@pytest.mark.parametrize("bug", [*BUGS, *OTHERS])
def test_K9_the_model_sees_each_planted_bug(bug: str) -> None:
    with pytest.raises(Disagrees):
        for seed in range(30):
            walk(seed, planted(bug))
