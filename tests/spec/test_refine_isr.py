"""The checker of runs against the ISR model: a run of the simulator passes, and no falsified one does."""

from __future__ import annotations

import random
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.core.metadata.commands import (
    Command,
)
from liftlog.core.metadata.metadata import (
    CommandResult,
)
from liftlog.messages import (
    Event,
    Outcome,
)
from liftlog.trace.replica_lines import Group, GroupStep, Member, ReplicaState, ReplicaStep, Report, Step
from liftlog.trace.replica_recorder import Recorder
from liftlog_sim.devices.machine import Machine
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.world import World
from liftlog_spec.refine.abstract import FORMER, INDEX, LOG, Abstract, Disagreement, Seen
from liftlog_spec.refine.checker import Mismatch, Refinement
from liftlog_spec.refine.group import GroupPart
from liftlog_spec.refine.replica import ReplicaPart
from liftlog_spec.refine.runs import Runs


class Lines:
    """Collects the protocol trace of a simulated world."""

    def __init__(self) -> None:
        self.found: list[Step] = []
        self.recorders: dict[int, Recorder] = {}

    def watch(self, world: World) -> None:
        world.observer.refining = self

    def created(self, machine: Machine) -> None:
        assert machine.node is not None
        self.recorders[machine.number] = Recorder(machine.node)

    def applied(self, machine: Machine, index: int, command: Command, result: CommandResult) -> None:
        self.recorders[machine.number].applied(index, command, result)

    def stepped(self, machine: Machine, event: Event | None, outcome: Outcome) -> None:
        self.found += self.recorders[machine.number].stepped(event, outcome)

    def check(self) -> None:
        """Nothing is noted for later."""

    def counters(self) -> dict[str, int]:
        return {}


ACTIONS = ("Write", "Ask", "Answer", "RecordsArrive", "ReportArrives", "Commit", "ApplyRemoval")
PLACES = 3
"""In so many places of the run each line is falsified."""


@pytest.fixture(scope="module")
def lines() -> list[Step]:
    """Kills, restarts, elections, a shrinking and growing ISR; 30 simulated seconds and healing. Of the first
    seed in which enough of everything happens to be checked, and to be falsified.
    """
    for seed in range(20):
        collected = Lines()
        result = run_seed(RunOptions(seed=seed, profile="shrinking", duration_s=30), collected.watch)
        assert result.good, f"{result.finding}\nreplay with: {result.replay}"
        found = collected.found
        counts = refined(found).counts
        if all(counts.get(action, 0) > 5 for action in ACTIONS) and all(
            len(places_to_falsify(found, what)) >= PLACES for what in FALSIFIED
        ):
            return found
    pytest.fail("never")


def refined(lines: list[Step]) -> Refinement:
    refinement = Refinement()
    for line in lines:
        refinement.take(line)
    return refinement


def test_every_step_of_a_run_is_explained(lines: list[Step]) -> None:
    refinement = refined(lines)
    for action in ACTIONS:
        assert refinement.counts[action] > 5, action
    assert refinement.actions > refinement.lines / 2
    assert set(refinement.outside) <= {"deletion", "after a deletion"}


def test_a_trace_says_the_same_after_it_was_written(lines: list[Step]) -> None:
    written = [msgspec.json.encode(line) for line in lines]
    decoder = msgspec.json.Decoder(Step)
    assert [decoder.decode(text) for text in written] == lines


def test_the_lines_of_a_process_are_numbered_without_gaps(lines: list[Step]) -> None:
    last: dict[tuple[int, int], int] = {}
    for line in lines:
        process = (line.node, line.start)
        assert line.number == last.get(process, 0) + 1
        last[process] = line.number


# -- falsified runs ------------------------------------------------------------------------------------------


def changed(line: ReplicaStep, **values: object) -> ReplicaStep:
    assert line.after is not None
    return msgspec.structs.replace(line, after=msgspec.structs.replace(line.after, **values))


def ready(line: Step) -> ReplicaState | None:
    if isinstance(line, ReplicaStep) and line.after is not None and line.after.state == "ready":
        return line.after
    return None


def higher(field: str) -> Callable[[Step], Step | None]:
    def change(line: Step) -> Step | None:
        after = ready(line)
        if after is None or after.role == "idle":
            return None
        assert isinstance(line, ReplicaStep)
        return changed(line, **{field: getattr(after, field) + 1})

    return change


def another_epoch(line: Step) -> Step | None:
    """The last record is of an epoch that began one offset earlier."""
    after = ready(line)
    if after is None or len(after.history) < 2 or after.history[-1][1] < after.history[-2][1] + 2:
        return None
    epoch, start = after.history[-1]
    assert isinstance(line, ReplicaStep)
    return changed(line, history=(*after.history[:-1], (epoch, start - 1)))


def more_progress(line: Step) -> Step | None:
    after = ready(line)
    if after is None or after.office is None or not after.office.progress:
        return None
    node, (incarnation, durable) = next(iter(after.office.progress.items()))
    progress = {**after.office.progress, node: (incarnation, durable + 1)}
    assert isinstance(line, ReplicaStep)
    return changed(line, office=msgspec.structs.replace(after.office, progress=progress))


def no_pending(line: Step) -> Step | None:
    after = ready(line)
    if after is None or after.office is None or after.office.pending is None:
        return None
    assert isinstance(line, ReplicaStep)
    return changed(line, office=msgspec.structs.replace(after.office, pending=None))


def places_of_proposals(lines: list[Step]) -> set[int]:
    """Where a change becomes pending: that could as well have been proposed a step later."""
    found: set[int] = set()
    was_pending: dict[object, bool] = {}
    for place, line in enumerate(lines):
        after = ready(line)
        if after is not None:
            assert isinstance(line, ReplicaStep)
            pending = after.office is not None and after.office.pending is not None
            if pending and not was_pending.get((line.node, line.partition)):
                found.add(place)
            was_pending[line.node, line.partition] = pending
    return found


def another_role(line: Step) -> Step | None:
    after = ready(line)
    if after is None or after.role != "follower":
        return None
    assert isinstance(line, ReplicaStep)
    return changed(line, role="idle")


def old_hw_in_an_answer(line: Step) -> Step | None:
    if not isinstance(line, ReplicaStep):
        return None
    for place, letter in enumerate(line.sent):
        if letter.kind == "answer" and not letter.status:
            told = msgspec.structs.replace(letter, hw=letter.hw + 1)
            return msgspec.structs.replace(line, sent=(*line.sent[:place], told, *line.sent[place + 1 :]))
    return None


def more_claimed(line: Step) -> Step | None:
    """A question tells of more than is durable."""
    after = ready(line)
    if not isinstance(line, ReplicaStep) or after is None or after.durable == after.leo:
        return None
    for place, letter in enumerate(line.sent):
        if letter.kind == "fetch":
            told = msgspec.structs.replace(letter, durable=letter.durable + 1)
            return msgspec.structs.replace(line, sent=(*line.sent[:place], told, *line.sent[place + 1 :]))
    return None


def smaller_isr(line: Step) -> Step | None:
    if not isinstance(line, GroupStep) or line.after is None or not line.after.isr:
        return None
    return msgspec.structs.replace(line, after=msgspec.structs.replace(line.after, isr=line.after.isr[:-1]))


def later_epoch(line: Step) -> Step | None:
    if not isinstance(line, GroupStep) or line.after is None or not line.after.leader:
        return None
    return msgspec.structs.replace(
        line, after=msgspec.structs.replace(line.after, epoch=line.after.epoch + 1)
    )


def more_found(line: Step) -> Step | None:
    if not isinstance(line, GroupStep) or line.found is None or line.found.state == "none":
        return None
    found = msgspec.structs.replace(line.found, leo=line.found.leo + 1000)
    return msgspec.structs.replace(line, found=found)


def more_durable(line: Step) -> Step | None:
    """Where nothing is being written: else a part of it may well be synced."""
    after = ready(line)
    return higher("durable")(line) if after is not None and not after.waiting else None


FALSIFIED = {
    "hw": higher("hw"),
    "leo": higher("leo"),
    "durable": more_durable,
    "history": another_epoch,
    "progress": more_progress,
    "pending": no_pending,
    "role": another_role,
    "answer": old_hw_in_an_answer,
    "claimed": more_claimed,
    "isr": smaller_isr,
    "epoch": later_epoch,
    "found": more_found,
}


def places_to_falsify(lines: list[Step], what: str) -> list[int]:
    """Where the change means something, and can be noticed."""
    change = FALSIFIED[what]
    first = {(line.partition, line.index): line for line in reversed(lines) if isinstance(line, GroupStep)}
    proposals = places_of_proposals(lines)
    return [
        place
        for place, line in enumerate(lines)
        if change(line) is not None
        and (not isinstance(line, GroupStep) or first[line.partition, line.index] is line)
        and (change is not no_pending or place not in proposals)
    ]


@pytest.mark.parametrize("what", FALSIFIED)
def test_one_falsified_line_is_found(lines: list[Step], what: str) -> None:
    """At some places of the run, each drawn from those where the change means something."""
    for place in random.Random(what).sample(places_to_falsify(lines, what), PLACES):
        false = FALSIFIED[what](lines[place])
        assert false is not None
        with pytest.raises(Mismatch):
            refined([*lines[:place], false, *lines[place + 1 :]])


@pytest.mark.parametrize(("kind", "action"), [("fetch", "Ask"), ("answer", "Answer")])
def test_a_message_that_nobody_sent_does_not_arrive(lines: list[Step], kind: str, action: str) -> None:
    """All messages of a kind are hidden from one moment on: soon something arrives from nowhere."""
    silent: list[Step] = []
    for place, line in enumerate(lines):
        if place > len(lines) // 2 and isinstance(line, ReplicaStep):
            sent = tuple(letter for letter in line.sent if letter.kind != kind)
            line = msgspec.structs.replace(line, sent=sent)
        silent.append(line)
    with pytest.raises(Mismatch) as found:
        refined(silent)
    arrives = {"Ask": "ReportArrives", "Answer": "RecordsArrive"}[action]
    assert found.value.action.startswith(arrives)


def test_two_nodes_that_apply_differently_are_found(lines: list[Step]) -> None:
    seen: dict[tuple[object, int], int] = {}
    for place, line in enumerate(lines):
        if isinstance(line, GroupStep) and line.after is not None and line.after.isr:
            key = (line.partition, line.index)
            if key in seen:
                false = smaller_isr(line)
                assert false is not None
                with pytest.raises(Mismatch, match="another outcome"):
                    refined([*lines[:place], false])
                return
            seen[key] = place
    pytest.fail("no command was applied twice")


def test_a_mismatch_names_node_event_action_and_guard(lines: list[Step]) -> None:
    """The leader's HW passes what its followers have reported."""
    for place, line in enumerate(lines):
        after = ready(line)
        if after is not None and after.role == "leader" and after.hw < after.leo:
            assert isinstance(line, ReplicaStep)
            with pytest.raises(Mismatch) as found:
                refined([*lines[:place], changed(line, hw=after.leo)])
            text = str(found.value)
            assert f"node {line.node}, partition {line.partition}, step {line.number}" in text
            assert line.cause.event in text
            return
    pytest.fail("no leader had anything uncommitted")


# -- logs as runs ------------------------------------------------------------------------------------------

ITEMS = st.lists(st.integers(0, 2), max_size=12)


@given(ITEMS, ITEMS, st.integers(-1, 13), st.integers(-1, 13))
def test_runs_behave_like_tuples(one: list[int], other: list[int], start: int, end: int) -> None:
    left, right = Runs.of(one), Runs.of(other)
    start, end = max(0, start), max(0, end)
    assert tuple(left) == tuple(one)
    assert len(left) == len(one)
    assert tuple(left[start:end]) == tuple(one)[start:end]
    assert tuple(left + right) == tuple(left + tuple(other)) == (*one, *other)
    assert (left == right) == (one == other)
    assert left + right == Runs.of([*one, *other])
    assert hash(left[:start] + left[start:]) == hash(left)
    assert [left[place] for place in range(len(left))] == one
    assert (left < right) + (right < left) + (left == right) == 1


OLD, NEW = Runs.of([(1, 0)] * 8), Runs.of([(1, 0)] * 6 + [(2, 1)] * 6)
"""What a follower had, in epoch 1, and the leader's log, which parts from it at offset 6, in epoch 2."""


def began_anew() -> ReplicaPart:
    """The follower has begun anew in the leader's log, and failed before that was durable."""
    a = Abstract((1, 2), 1, {})
    a.epochs = {0: 0, 5: 1, 6: 2}
    first = a.steps.first()
    former = first[FORMER][1] + ((OLD, 8, 0),)
    new = {"log": (NEW, NEW), "synced": (12, 8), "former": (first[FORMER][0], former), "up": (True, False)}
    a.state = a.steps.with_values(first, new)
    return ReplicaPart(a, None, 1, lambda leader, node: False)  # type: ignore[arg-type]


def test_a_beginning_anew_that_was_not_durable_confesses_what_was_before() -> None:
    """Epoch 5 ended at 8 on this disk: what the leader wrote there in epoch 6 it does not have yet."""
    part = began_anew()
    part._confess(Report(epoch=5, leo=8, shortfall=False), failed=True)
    assert part.abstract.done == ["ConfessOfBefore"]
    part = began_anew()
    part._confess(Report(epoch=6, leo=8, shortfall=False), failed=True)
    assert part.abstract.done == ["Confess"]
    with pytest.raises(Disagreement, match=r"leo == s\.synced"):
        began_anew()._confess(Report(epoch=5, leo=9, shortfall=False), failed=True)


def test_a_failed_log_may_be_back_as_it_was_before_its_last_cut() -> None:
    part = began_anew()
    part._uncut(8, 1)
    assert part.abstract.done == ["CutIsUndone"]
    assert part.abstract.state[LOG][1] == OLD
    part = began_anew()
    part._uncut(12, 2)
    assert part.abstract.done == []


def group(isr: tuple[int, ...], members: tuple[int, ...], version: int, leader: int = 1) -> Group:
    return Group(
        leader=leader,
        leader_incarnation=7,
        epoch=1,
        version=version,
        isr=isr,
        eligible=(),
        known={},
        members={node: Member(7, True) for node in members},
    )


@pytest.mark.parametrize("in_sync", [True, False])
def test_who_leaves_for_good_and_is_not_in_sync_ends_a_move_as_nobody_does(in_sync: bool) -> None:
    """The record gets another version all the same (seed 4977)."""
    isr = (1, 2) if in_sync else (1,)
    before, after = group(isr, (1, 2), 5), group((1,), (1,), 6)
    a = Abstract((1, 2), 1, {})
    first = a.steps.first()
    now = Seen(leader=0, epoch=1, version=5, isr=3 if in_sync else 1, runs=(0, 0), live=3)
    a.state = a.steps.with_values(first, {"now": now})
    part = object.__new__(GroupPart)
    part.abstract, part.left = a, {}
    part._finish(before, after)
    assert a.done == (["LeaveForGood"] if in_sync else ["EndMove"])
    assert a.now.version == 6 and part.left == {1: a.state[INDEX]}
