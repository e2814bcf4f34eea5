"""Every step of leaders and copies of a log with a journal, held against the model `removal` as built (R21).

Nodes on a scripted world, a random walk of publishers, of deletions and purges by subject, of a front that
goes when all of it is gone, of a reader, of nodes that die, are cut off in one log or both, or do not come
to sync, and time. Journals are restated soon. After each event the model takes what has happened; what the
newest leader has written, what is committed, from where on each copy's journal is there, how far the copy
has heard it and what it hides have to be the model's. Each answer to a deletion, a purge or a reader has to
be one that the model lets it give, and a reader is shown what the model shows.

The model is `removal_steps`: of `removal` what is built, with nothing that copies derive. Left out are what
R22 to R27 have removed, which are entries as any others, consumers' entries, elections that lose what was
committed, lost disks, and damage. A walk ends when one leads again that was replaced and has kept what it had
then, uncommitted: the model has one log. Not found out is the lack of a guard, R21.unread: a copy that starts
gives no answer without it either, since what it has read is looked at again before it goes out.
"""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.replica.removal.entries import RemovedRuns, Restated, decode_entry
from liftlog.core.replica.removal.removed import Removed
from liftlog.core.replica.removal.subjectpurge import SubjectPurge
from liftlog.core.replica.replica import Replica
from liftlog.format import decode_records, decode_values
from liftlog.messages import (
    ClientGone,
    ClientRequest,
    DeleteMessageRequest,
    Event,
    MessageDeleted,
    Outcome,
    PurgeRequest,
    PurgeSubjectsRequest,
    SubjectsPurged,
    SubjectsTold,
    VisibleReadReply,
    VisibleReadRequest,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import ClientRef, Message, PartitionId
from liftlog_spec.models.removal_steps import RemovalSteps
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import Disagrees, counted, planted
from tests.core.node_harness import World
from tests.core.test_ack_policies import publish
from tests.core.two_logs import NODES, TwoLogsBeside, mask, with_journal

SUBJECTS = (b"a", b"b")
ANY = ">"
MODEL = RemovalSteps(
    Replicas=len(NODES),
    Keys=len(SUBJECTS),
    Records=60,
    Entries=200,
    Epochs=10**6,
    Restarts=10**6,
    Purges=1,
    Starts=1,
    Looks=1,
)
STEPPER = Stepper(MODEL)
INVARIANTS = tuple(one.name for one in MODEL.invariants)
GONE = STEPPER.types["journal"].of.fields["kind"].names.index("gone")  # type: ignore[attr-defined]
STEPS = 90


class WatchedWorld(World):
    """What has come to nodes since somebody looked, and where a node's journal has ended then."""

    def __init__(self, mutants: Mutants) -> None:
        self.since: list[tuple[int, Event | None, int]] = []
        self.journal = PartitionId(0, 0)
        super().__init__(len(NODES), mutants, restate_entries=6)

    def observed(self, node: int, event: Event | None, outcome: Outcome) -> None:
        journal = self.nodes[node].replicas.get(self.journal)
        self.since.append((node, event, journal.leo if journal is not None else 0))


def opened(mutants: Mutants) -> tuple[WatchedWorld, PartitionId]:
    """A cluster with one stream whose messages can be deleted."""
    world = WatchedWorld(mutants)
    partition = with_journal(world)
    world.journal = partition.journal
    return world, partition


class RemovalWorld(TwoLogsBeside):
    """See the module."""

    DIES, STANDS_STILL = 0.4, 0.5

    def __init__(self, seed: int, mutants: Mutants = NO_MUTANTS) -> None:
        self.watched, partition = opened(mutants)
        super().__init__(STEPPER, seed, self.watched, partition)
        self.values: list[bytes] = []
        self.epochs = {self.epoch: 1}
        """By epoch: which one it is in the model."""
        self.purge: SubjectPurge | None = None
        """The newest leader's that is under way."""
        self.question = self.known = 0
        """What it has asked the index last, and how far it had heard the journal then."""
        self.asked: list[int] = []
        """Deletions and purges that are not answered."""
        self.reading = (0, 0, 0)
        """The reader's question, to which node, and from which offset."""
        self.compared: dict[int, tuple[int, ...]] = {}
        """By node: what it was when it was compared last."""
        self.take("Begin", self.world.leader(partition) - 1)

    # -- the model beside it -------------------------------------------------------------------------------

    def follow(self) -> bool:
        """What has happened in an event; False."""
        came, self.watched.since = self.watched.since, []
        leader = self.newest()
        if leader and self.copy(leader).epoch > self.epoch:
            self.elected(leader)
        if self.over:
            return False
        self.committed()
        for node in self.world.nodes:
            self.follow_copy(node)
        if leader:
            self.appended(leader)
            self.entered(leader, [(event, end) for node, event, end in came if node == leader])
            self.purging(leader)
        self.answered()
        self.read()
        return False

    def elected(self, leader: int) -> None:
        copy, journal = self.copy(leader), self.journal(leader)
        self.over = self.comes_back(copy, "data", "hw_d") or self.comes_back(journal, "journal", "hw_j")
        if self.over:
            return
        self.take("Elect", leader - 1, copy.leo, journal.leo)
        self.epoch = copy.epoch
        self.epochs[copy.epoch] = self.value("epoch")
        del self.values[copy.leo :]
        self.purge = None

    def comes_back(self, one: Replica, name: str, hw: str) -> bool:
        """Whether this log ends with what a leader had when it was replaced: the model has forgotten that."""
        end, known, epoch = one.leo, self.value(name), one.log.history.epoch_before(one.leo)
        if end <= self.value(hw) or epoch == self.epoch:
            return False
        return end > len(known) or known[end - 1][0] != self.epochs.get(epoch)

    def committed(self) -> None:
        """Some copy knows that more is."""
        for log, name, action in (
            (self.partition, "hw_d", "CommitData"),
            (self.partition.journal, "hw_j", "CommitEntry"),
        ):
            there = [node.replicas[log].hw for node in self.world.nodes.values() if log in node.replicas]
            while self.value(name) < max(there, default=0):
                self.take(action)
        start = min(self.journal_start(node) for node in NODES)
        for place, entry in self.restatements() if start > self.value("cleaned") else ():
            if self.value("cleaned") < entry[5] <= start:
                self.take("CleanJournal", place)

    def journal_start(self, node: int) -> int:
        """Of a copy, or of what a node that is dead has on its disk."""
        if node in self.world.nodes:
            journal = self.world.nodes[node].replicas.get(self.partition.journal)
            return journal.log_start if journal is not None else 0
        return self.world.disks[node].logs[self.partition.journal].log_start

    def restatements(self) -> list[tuple[int, Any]]:
        """The ends of those that are committed, and where these stand."""
        entries = self.value("journal")[: self.value("hw_j")]
        return [(place, entry) for place, entry in enumerate(entries) if entry[1] == GONE]

    # -- copies --------------------------------------------------------------------------------------------

    def follow_copy(self, node: int) -> None:
        """How far a copy has come, and what it hides. It shows nothing before it knows what is gone."""
        place, replicas = node - 1, self.world.nodes[node].replicas
        copy, journal = replicas.get(self.partition), replicas.get(self.partition.journal)
        removed = journal.removed if journal is not None else None
        if copy is None or journal is None or removed is None or not copy.is_whole() or not removed.is_known:
            self.begins_anew(place)
            return
        told = (copy.log_start, copy.hw, journal.log_start, removed.folded, id(removed))
        if self.compared.get(node) == told:
            return
        if journal.log_start > max((entry[5] for _, entry in self.restatements()), default=0):
            raise Disagrees(f"the journal of node {node} begins at {journal.log_start}")
        while self.value("start")[place] < copy.log_start:
            self.take("MoveStart", place)
        heard = self.value("heard")[place]
        if removed.folded < heard or copy.hw < self.value("folded")[place] or heard < self.value("cleaned"):
            self.begins_anew(place)
        if journal.log_start and not self.value("heard")[place]:
            self.begin_behind(place, journal.log_start, removed)
        while self.value("heard")[place] < removed.folded:
            self.take("FoldEntry", place)
        while self.value("folded")[place] < copy.hw:
            self.take("FoldRecord", place)
        self.compare(place, copy, removed)
        self.compared[node] = told

    def begins_anew(self, place: int) -> None:
        if self.value("folded")[place] or self.value("heard")[place]:
            self.take("Restart", place)
        self.compared.pop(place + 1, None)

    def begin_behind(self, place: int, start: int, removed: Removed) -> None:
        """At the first restatement that this journal has all of."""
        for number, entry in self.restatements():
            if entry[5] >= start and number < removed.folded:
                self.take("BeginAtSnapshot", place, number)
                return
        raise Disagrees(f"node {place + 1} shows what entries from {start} to {removed.folded} leave")

    def compare(self, place: int, copy: Replica, removed: Removed) -> None:
        hidden = mask(list(removed.hidden(copy.log.history).runs(copy.log_start, copy.hw)))
        told = self.stepper.evaluate("Hidden", (place,), self.model)
        if hidden != told:
            raise Disagrees(f"node {place + 1} hides {hidden:b}, in the model {told:b}")
        if copy.log_start != self.value("start")[place]:
            raise Disagrees(f"node {place + 1} begins at {copy.log_start}")

    # -- the newest leader ---------------------------------------------------------------------------------

    def appended(self, leader: int) -> None:
        copy = self.copy(leader)
        if copy.leo == len(self.values):
            return
        for _, one in self.stored(leader, self.partition):
            if one.offset == len(self.values):
                self.values.append(one.value or b"")
                self.take("Publish", SUBJECTS.index(one.subject), 0)
        base = self.world.disks[leader].logs[self.partition].batches[0].base_offset
        if len(self.values) != copy.leo or self.world.values(leader, self.partition) != self.values[base:]:
            raise Disagrees(f"the log of node {leader} is not that of the model")

    def entered(self, leader: int, came: list[tuple[Event | None, int]]) -> None:
        """What the leader has written into its journal, at each event that came to it."""
        known = len(self.value("journal"))
        entries: list[Any] = []
        if self.journal(leader).leo > known:
            for batch in self.world.disks[leader].logs[self.partition.journal].batches:
                said = map(decode_entry, decode_values(batch))
                entries += [one for at, one in enumerate(said, batch.base_offset) if at >= known]
        for event, end in came:
            due = max(0, end - len(self.value("journal")))
            self.wrote(leader, event, entries[:due])
            del entries[:due]
        if self.journal(leader).leo != len(self.value("journal")):
            raise Disagrees(f"the journal of node {leader} is not that of the model")

    def wrote(self, leader: int, event: Event | None, said: list[Any]) -> None:
        if isinstance(event, SubjectsTold):
            self.named(said)
            return
        for one in said:
            if isinstance(one, Restated):
                self.take("Snapshot", one.begin, one.data_start)
                continue
            if isinstance(event, ClientRequest):
                self.take("Delete", one.runs[0].start)
            else:
                roles = self.journal(leader).roles
                assert roles is not None and roles.restating is not None
                self.take("SayAgain", roles.restating._begin, one.runs[0].start, one.runs[-1].end)
            self.is_entry(one)

    def is_entry(self, said: RemovedRuns) -> None:
        """Whether the model's last entry says the same, of records of this epoch."""
        runs = mask(said.runs)
        if self.value("journal")[-1][2] != runs:
            raise Disagrees(f"an entry names {said}, in the model {self.value('journal')[-1][2]:b}")
        written = {one[0] for offset, one in enumerate(self.value("data")) if runs >> offset & 1}
        if written != {self.epochs[said.epoch]}:
            raise Disagrees(f"an entry names {said}, of epochs {written} in the model")

    # -- purges --------------------------------------------------------------------------------------------

    def purging(self, leader: int) -> None:
        """What the leader's purge has come to."""
        roles = self.journal(leader).roles
        purges = roles.subject_purges if roles is not None else None
        assert purges is not None
        if self.purge is not None:
            self.purge_goes_on(self.purge)
        if self.purge is not None and purges.purge is not self.purge:
            self.purge_ended(self.purge)
        if purges.purge is not None and self.purge is None:
            self.purge_begins(purges.purge)
        removed = self.journal(leader).removed
        if self.purge is not None and purges.asked != self.question and removed is not None:
            self.question, self.known = purges.asked, removed.folded

    def purge_begins(self, purge: SubjectPurge) -> None:
        self.purge, self.question = purge, 0
        asked = purge.request
        below, keep = min(asked.below, MODEL.bindings["Records"]), asked.keep
        if asked.pattern == ANY:
            self.take("AskPurge", below, keep)
        else:
            self.take("AskPurgeOfKey", SUBJECTS.index(asked.pattern.encode()), below, keep)

    def purge_goes_on(self, purge: SubjectPurge) -> None:
        _, below, _, counts, at, _ = self.value("asked")[0]
        if counts and not purge.counts:
            self.take("CountKept")
            below = self.value("asked")[0][1]
        if not purge.counts and purge.below != below:
            raise Disagrees(f"what is to go lies below {purge.below}, in the model below {below}")
        if purge.at != at:
            raise Disagrees(f"the purge has come to {purge.at}, in the model to {at}")

    def named(self, said: list[RemovedRuns]) -> None:
        """The index has answered, and the leader has written this."""
        if not self.value("asked") or self.purge is None or self.purge.at == self.value("asked")[0][4]:
            if said:
                raise Disagrees(f"nobody has asked for {said}")
            return
        for one in said:
            last = one is said[-1]
            end = self.purge.at if last else one.runs[-1].end
            self.take("NamePart", end, self.known, not last)
            self.is_entry(one)
        if not said:
            self.take("PassPart", self.purge.at, self.known)

    def purge_ended(self, purge: SubjectPurge) -> None:
        self.purge = None
        reply = self.world.replies.get(purge.client)
        if isinstance(reply, SubjectsPurged):
            end = self.value("asked")[0][5]
            self.take("AnswerPurge")
            self.asked.remove(purge.client)
            if reply.journal < end or reply.journal > self.value("hw_j"):
                raise Disagrees(f"{reply}, and what it has named ends at {end}")
        else:
            self.take("GiveUpPurge")

    # -- answers -------------------------------------------------------------------------------------------

    def answered(self) -> None:
        """Whom a leader has told that something is gone; the newest or one before it."""
        for number in [one for one in self.asked if one in self.world.replies]:
            self.asked.remove(number)
            reply = self.world.replies[number]
            is_gone = isinstance(reply, MessageDeleted | SubjectsPurged)
            if is_gone and reply.journal > self.value("answered"):
                self.take("Answer", reply.journal)

    def read(self) -> None:
        """What a copy has shown the reader."""
        number, node, offset = self.reading
        if node and node not in self.world.nodes:
            self.reading = (0, 0, 0)
        if number not in self.world.replies or not self.reading[0]:
            return
        self.reading = (0, 0, 0)
        reply = self.world.replies[number]
        if not isinstance(reply, VisibleReadReply):
            return
        self.take("Look", node - 1, reply.hw, reply.journal)
        records = [one for frame in reply.batches for one in decode_records(frame) if one.offset >= offset]
        shown = {one.offset for one in records}
        gone = self.gone(reply.next_offset, reply.journal)
        due = {at for at in range(offset, reply.next_offset) if not gone >> at & 1}
        if shown != due:
            raise Disagrees(f"node {node} shows {sorted(shown)}, in the model {sorted(due)}")
        if any(one.value != self.values[one.offset] for one in records):
            raise Disagrees(f"node {node} shows other values")

    def gone(self, end: int, heard: int) -> int:
        """By the first so many entries, of the data below an offset."""
        found: int = self.stepper.evaluate("Visible", (end, heard), self.model)
        return found

    # -- what happens --------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.world.run_until(self.follow, seconds)

    def step(self) -> None:
        leader, chosen = self.newest(), self.random.random()
        if chosen < 0.25:
            self.put()
        elif chosen < 0.5:
            self.run(self.random.choice((0.002, 0.01, 0.1, 0.5)))
        elif chosen < 0.64 and leader:
            self.delete(leader)
        elif chosen < 0.7 and leader:
            self.purge_some(leader)
        elif chosen < 0.74 and leader:
            self.cut_front(leader)
        elif chosen < 0.9:
            self.look(self.random.choice(NODES))
        else:
            self.fail()
        self.follow()

    def put(self) -> None:
        """A few, unless they would come to a leader that was replaced, whose log the model does not know."""
        subscriber, epoch = self.world.subscriptions.get(self.partition, (0, 0))
        if not subscriber or epoch != self.epoch or subscriber != self.newest():
            return
        count = self.random.choice((1, 1, 2, 4))
        if len(self.values) + count <= MODEL.bindings["Records"]:
            subjects = self.random.choices(SUBJECTS, k=count)
            values = [b"%d" % self.random.getrandbits(40) for _ in subjects]
            messages = [Message(one, b"", b"", value) for one, value in zip(subjects, values, strict=True)]
            publish(self.world, self.partition, *messages)

    def asks(self, leader: int, request: Any) -> int:
        number = self.world.ask(leader, request)
        self.asked.append(number)
        self.run(self.random.choice((0.0, 0.0, 0.003, 0.1)))
        return number

    def delete(self, leader: int) -> None:
        """One of the newest, or any. Then the reader may look at once, at the leader and at another copy."""
        end = max(1, self.copy(leader).leo)
        offset = self.random.randrange(max(0, end - 6) if self.random.random() < 0.5 else 0, end)
        number = self.asks(leader, DeleteMessageRequest(self.partition, offset))
        if self.random.random() < 0.3:
            self.world.run_until(lambda: self.follow() or number in self.world.replies, 0.1)
            for node in (leader, self.random.choice(NODES)):
                self.look(node)
                self.run(0.004)

    def purge_some(self, leader: int) -> None:
        end = self.copy(leader).leo
        below = self.random.randrange(max(0, end - 8), end + 1) if end else 0
        if below:
            keep = self.random.choice((0, 1, 2, 2, 4))
            pattern = self.random.choice((ANY, *(one.decode() for one in SUBJECTS)))
            number = self.asks(leader, PurgeSubjectsRequest(self.partition, pattern, below, keep))
            if self.random.random() < 0.35:
                self.world.post(leader, ClientGone(ClientRef(number)))

    def cut_front(self, leader: int) -> None:
        """The front goes as far as all of it is gone (C3)."""
        gone, end = self.value("gone")[leader - 1], 0
        while gone >> end & 1:
            end += 1
        if end > self.copy(leader).log_start:
            self.world.ask(leader, PurgeRequest(self.partition, end))

    def look(self, node: int) -> None:
        """The reader asks for all that a copy has, and says how much it has seen."""
        if node not in self.world.nodes:
            return
        copy = self.world.nodes[node].replicas.get(self.partition)
        if copy is not None and not self.reading[0]:
            (at, seen, _), *_ = self.value("reader") or ((0, 0, 0),)
            request = VisibleReadRequest(
                self.partition, copy.log_start, wait_ms=200, seen_hw=at, seen_journal=seen
            )
            self.reading = self.world.ask(node, request), node, copy.log_start

    def leave_some(self, leader: int) -> None:
        """Something is on its way when the leader dies."""
        self.put()
        self.random.choice((self.delete, self.purge_some))(leader)
        self.run(self.random.choice((0.001, 0.002, 0.003, 0.004)))

    def ask_next(self, before: int) -> None:
        """The next one is asked for a deletion as soon as it leads."""
        if leader := self.await_next(before):
            self.delete(leader)


def walk(seed: int, mutants: Mutants = NO_MUTANTS) -> dict[str, int]:
    world = RemovalWorld(seed, mutants)
    for number in range(STEPS):
        world.step()
        if world.over:
            break
        if number % 15 == 0:
            world.hold(INVARIANTS)
    world.run(1.0)
    world.hold(INVARIANTS)
    return world.counts


def test_R21_each_step_of_leaders_and_copies_is_one_of_the_model() -> None:
    counts = counted(walk, 14)
    ours = {action.name for action in STEPPER.model.actions} | {"Begin"}
    assert set(counts) == ours, counts
    assert min(counts.values()) >= 5, counts


RULES = [
    *("deletion_answered_at_append", "removed_read_to_nothing", "purge_takes_uncommitted"),
    *("purge_keeps_removed", "purge_answered_at_append", "restated_in_part", "restated_unseen"),
]
GUARDS = ["R21.inherited", "R21.uncommitted", "R21.behind"]
OTHERS = ["reader_without_journal", "journal_hw_of_data", "K2.kept"]
"""Of R3, R2 and K2."""


@pytest.mark.parametrize("bug", [*RULES, *GUARDS, *OTHERS])
def test_R21_the_model_sees_each_planted_bug(bug: str) -> None:
    with pytest.raises(Disagrees):
        for seed in range(30):
            walk(seed, planted(bug))
