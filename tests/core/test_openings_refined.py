"""Every step of a leader that has a processor's outputs, held against the model `openings` (L10).

As `test_batches_refined.py`. Runs of one processor send openings and outputs at any time and again, with a
place to begin or without one, and go on when they are replaced. What a leader stores the model has to take,
and what it does not store the model must not; the log, with the cursors in it, what each run is told, and
what the leader knows of the processor have to be the model's.

Some messages no run of the model sends: a cursor that goes back, or of another input, an output without one,
a run that begins without being opened. Of those nothing may be stored.

What is left out. Time passes, but never so that the last committed message is older than the window: who is
forgotten is not in the model.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest

from liftlog.messages import PurgeRequest
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.options.cursors import InputCursor
from liftlog.options.numbered import stored_number
from liftlog.types import NO_OFFSET, Message
from liftlog_spec.models.openings import Openings
from liftlog_spec.run.stepwise import Refused, Stepper
from tests.core.beside import Disagrees, PartitionBeside, counted, planted, takes_all
from tests.core.test_message_ids import publish
from tests.core.test_processors import opening, outputs
from tests.core.test_producers import sent
from tests.core.test_producers_refined import T0, WINDOW_MS, remembering

RUNS, INPUTS = 40, 150
STEPPER = Stepper(Openings(Inputs=INPUTS, Records=250, Runs=RUNS, Epochs=100, Windows=250))
INVARIANTS = ("OutputsOnce", "NoneSkipped", "ZombieFenced", "CursorIsTrue")
STEPS = 150
READ, OTHER = InputCursor(17, 0, 0), "18/0"
"""The input, as in `test_processors`, and another one."""
NOWHERE = -1
"""Where a run begins that was not told."""


class Stored(NamedTuple):
    """A message in the log: a parcel takes several offsets."""

    offset: int
    end: int
    stamp_ms: int
    message: tuple[int, int, int, int]
    """As the model has it: run, number, whether it has a cursor of the input, and that."""


class OpenedWorld(PartitionBeside):
    """See the module."""

    def __init__(self, seed: int, mutants: Mutants = NO_MUTANTS) -> None:
        super().__init__(STEPPER, seed, remembering(mutants))
        self.log: list[Stored] = []
        """What the model has, and where it lies."""
        self.clock_ms = T0
        self.begun = 0
        """The newest run that has sent anything."""
        self.heard = 0
        self.opened: list[int] = []
        """By the number in their replies: the runs of openings."""

    # -- the model beside it -------------------------------------------------------------------------------

    def of_disk(self, node: int) -> list[Stored]:
        """What lies on the disk of a node, from where that begins."""
        found = []
        for _, record in self.stored(node, self.partition):
            number, cursor = stored_number(record.headers), None
            if number is None:
                continue
            if number.cursor is not None and number.cursor.is_of_input_of(READ):
                cursor = number.cursor.position
            run, sequence = number.numbered[1:]
            message = run, sequence, int(cursor is not None), cursor or 0
            end = record.offset + number.span
            found.append(Stored(record.offset, end, record.timestamp_ms, message))
        return found

    def follow(self) -> bool:
        """What has happened in an event; False."""
        leader = self.leader()
        if leader:
            replica = self.world.replica(leader, self.partition)
            if self.sees_new_epoch():
                self.elect(leader)
            known = self.value("hw")
            while known < len(self.log) and self.log[known].end <= replica.hw:
                self.take("Commit")
                known = self.value("hw")
            self.forget(sum(one.end <= replica.log_start for one in self.log))
        self.answer()
        if leader:
            self.compare_table(leader)
        return False

    def elect(self, leader: int) -> None:
        """A new leader reads of its log what is young enough."""
        log = self.world.disks[leader].logs[self.partition]
        self.take("Elect", sum(one.end <= log.leo for one in self.log))
        del self.log[len(self.value("log")) :]
        self.compare_log(leader)
        if self.log:
            since_ms = self.log[-1].stamp_ms - WINDOW_MS
            self.forget(next(at for at, one in enumerate(self.log) if one.stamp_ms > since_ms))

    def forget(self, to: int) -> None:
        if to > self.value("start"):
            self.take("Forget", to)

    def answer(self) -> None:
        """Runs have been told where they begin."""
        for ack in self.world.acks[self.heard :]:
            for reply in filter(None, ack.replies):
                self.told(self.opened[int(reply[1:])], ack.offsets_from, ack.cursor)
        self.heard = len(self.world.acks)

    def told(self, run: int, offset: int, cursor: int) -> None:
        if cursor == NO_OFFSET:
            place = next((at for at, one in enumerate(self.log) if one.offset == offset), len(self.log))
            if place >= self.value("start"):
                raise Disagrees(f"run {run}, opened at {offset}, is told no place")
            return
        if self.value("began")[run - 1] == NOWHERE:
            self.take("AnswerRun", run)
        if self.value("began")[run - 1] != cursor:
            raise Disagrees(f"run {run} begins at {cursor}, in the model at {self.value('began')[run - 1]}")

    def compare_log(self, leader: int) -> None:
        """All that is there, and in the model's log."""
        found = self.of_disk(leader)
        first = len(self.log) - len(found)
        messages = [one.message for one in found]
        if list(self.value("log"))[first:] != messages or found != self.log[first:]:
            raise Disagrees(f"the log has {messages}, in the model {self.value('log')}")

    def compare_table(self, leader: int) -> None:
        """Newest run, the number that is due, and the cursor."""
        roles = self.world.replica(leader, self.partition).roles
        if roles is None or not roles.leader.ids.whole:
            return
        line = roles.leader.ids._producers._lines.get(b"p")
        run = self.evaluate("NewestRun")
        wanted = run, self.evaluate("DueOf", run) if run else 0, self.evaluate("CursorAt", len(self.log))
        found = 0, 0, 0
        if line is not None:
            found = line.run, line.due, line.cursor.position if line.cursor is not None else NO_OFFSET
        if found != wanted:
            raise Disagrees(f"node {leader} knows {found}, in the model {wanted}")

    def evaluate(self, name: str, *arguments: int) -> int:
        return int(self.stepper.evaluate(name, arguments, self.model))

    # -- what happens --------------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        self.world.run_until(self.follow, seconds)

    def step(self) -> None:
        chosen = self.random.random()
        if chosen < 0.12:
            self.open()
        elif chosen < 0.55:
            self.send()
        elif chosen < 0.62:
            self.send_wrong()
        elif chosen < 0.83:
            self.run(self.random.choice((0.001, 0.003, 0.01, 0.1)))
        elif chosen < 0.9:
            self.pass_time(self.random.choice((100, 400)))
        elif chosen < 0.92:
            self.purge()
        else:
            self.fail_or_mend(self.partition, [self.partition])
            self.run(self.random.choice((0.01, 0.5, 3.0)))

    def open(self) -> None:
        """A new run, or again one of the last; most say where to begin, if nobody knows."""
        if self.begun < RUNS and (not self.begun or self.random.random() < 0.5):
            self.begun += 1
        run = self.random.choice((self.begun, self.begun, max(1, self.begun - 1)))
        begin = self.random.choice(("/0", "/0", ""))
        reply = b"_%d" % len(self.opened)
        self.opened.append(run)
        known = bool(self.evaluate("NewestRun"))
        self.hand_over(opening(run, reply, begin), ("OpenRun", run) if begin or known else None)

    def chosen(self) -> tuple[int, int]:
        """A run that was told where it begins, and a number that it may send: often what is due; or 0, 0."""
        began = self.value("began")
        told = [run for run in range(1, RUNS + 1) if began[run - 1] != NOWHERE][-3:]
        if not told:
            return 0, 0
        run = told[-1] if self.random.random() < 0.8 else self.random.choice(told)
        due = max(1, self.evaluate("DueOf", run))
        number = due + self.random.choice((0, 0, 0, 0, -1, 1))
        last = INPUTS - began[run - 1]
        return (run, number) if 0 < number <= last else (0, 0)

    def send(self) -> None:
        """What comes of a position, one record or several."""
        run, number = self.chosen()
        if run:
            position = self.value("began")[run - 1] + number - 1
            values = [b"%d.%d" % (position, part) for part in range(1 + 2 * (position % 2))]
            message = outputs(run, number, position + 1, values)
            self.hand_over(message, ("Process", run, position))

    def send_wrong(self) -> None:
        """What no run of the model sends."""
        run, number = self.chosen()
        if not run:
            return
        known = self.value("began")[run - 1] + number - 1
        messages = [
            outputs(run, number, known + 1, [b"of another input"], of=OTHER),
            sent(run, number),
            sent(self.begun + 1, 0),
        ]
        if known:
            messages.append(outputs(run, number, known - 1, [b"back"]))
        self.hand_over(self.random.choice(messages), None)

    def hand_over(self, message: Message, step: tuple[str, int] | tuple[str, int, int] | None) -> None:
        """To the leader. `step`: what this is in the model; None: nothing of it may be stored."""
        self.follow()
        leader = self.leader()
        if not leader:
            return
        known = len(self.log)
        allowed = step is not None and not self.is_refused(step)
        publish(self.world, self.partition, message, at_ms=self.clock_ms)
        new = [one for one in self.of_disk(leader) if one.offset >= (self.log[-1].end if known else 0)]
        if new and step is None:
            raise Disagrees(f"{new} is stored, which no run of the model sends")
        if new and step is not None:
            self.take(*step)
            self.log += new
            self.compare_log(leader)
        elif allowed and takes_all(self.world.replica(leader, self.partition)):
            raise Disagrees(f"{step} is not stored")
        self.follow()

    def is_refused(self, step: tuple[str, int] | tuple[str, int, int]) -> bool:
        return isinstance(self.stepper.apply(step[0], step[1:], self.model), Refused)

    def pass_time(self, ms: int) -> None:
        """But the last committed message stays younger than the window."""
        if self.value("hw"):
            limit = self.log[self.value("hw") - 1].stamp_ms + WINDOW_MS - 1
            self.clock_ms = min(self.clock_ms + ms, max(limit, self.clock_ms))

    def purge(self) -> None:
        """Up to a message, whether it is needed or not."""
        leader = self.world.leader(self.partition)
        if leader and self.value("hw"):
            before = self.log[self.random.randrange(self.value("hw"))].offset
            self.world.ask(leader, PurgeRequest(self.partition, before))
            self.run(0.02)


def walk(seed: int, mutants: Mutants = NO_MUTANTS) -> dict[str, int]:
    world = OpenedWorld(seed, mutants)
    for step in range(STEPS):
        world.step()
        if step % 20 == 19:
            world.hold(INVARIANTS)
    return world.counts


def test_L10_each_step_of_a_leader_is_one_of_the_model() -> None:
    counts = counted(walk, 12)
    assert set(counts) == {action.name for action in STEPPER.model.actions}, counts
    assert min(counts.values()) >= 5, counts


BUGS = [
    *("cursor_of_committed", "opening_acked_at_append", "opening_as_sent", "parcel_without_cursor"),
    *("L10.known", "L10.opened", "L10.input", "L10.back"),
    *("L2.stored", "L2.fenced", "L2.due"),
    *("ids_of_own_epoch", "ids_read_to_hw", "retention_forgets_ids"),
]
"""Those of L10, and those of L2 and L7 that a processor meets as well."""


@pytest.mark.parametrize("bug", BUGS)
def test_L10_the_model_sees_each_planted_bug(bug: str) -> None:
    with pytest.raises(Disagrees):
        for seed in range(20):
            walk(seed, planted(bug))
