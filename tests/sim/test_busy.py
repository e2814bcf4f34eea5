"""Busy: a node that makes its own work is told of, with what it does again and again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from liftlog.messages import AppendReply, AppendRequest, AskLasts, Received, Send
from liftlog.types import PartitionId
from liftlog_sim.devices.machine import Machine
from liftlog_sim.kernel import SECOND, Kernel
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.truth.invariants import Checks, Violation
from liftlog_sim.watching.busy import STEPS_MAX, Busy

REFUSAL = AppendReply(1, 2, False, 3, 1)
REQUEST = AppendRequest(term=1, leader=1, prev_index=3, prev_term=1, commit=0, round=1, entries=[])


def node(number: int) -> Machine:
    return cast(Machine, SimpleNamespace(number=number))


def watcher() -> tuple[Busy, Kernel]:
    kernel = Kernel()
    return Busy(Checks(), kernel), kernel


def goes_round(busy: Busy, effects: list[Any], steps: int = STEPS_MAX) -> None:
    for _ in range(steps):
        busy.stepped(node(1), Received(2, REFUSAL), effects)


def test_who_answers_answers_is_told_of_with_what_it_says_to_whom() -> None:
    busy, kernel = watcher()
    kernel.run_until(7 * SECOND + 1)
    with pytest.raises(Violation) as caught:
        goes_round(busy, [Send(2, REQUEST)])
    assert caught.value.invariant == "Busy"
    assert caught.value.finding == (
        f"node 1 has taken {STEPS_MAX} steps since second 7, and of the last 1000: "
        "1000 times node 2 sent it AppendReply; 1000 times it sent AppendRequest to node 2"
    )


def test_a_question_that_is_asked_for_ever_is_told_of_with_its_log() -> None:
    busy, _ = watcher()
    with pytest.raises(Violation, match="1000 times it asked for AskLasts of 1/0"):
        goes_round(busy, [AskLasts(PartitionId(1, 0), 1, 0, [b"a"])])


def test_each_second_and_each_node_is_counted_by_itself() -> None:
    busy, kernel = watcher()
    for second in range(3):
        kernel.run_until(second * SECOND)
        goes_round(busy, [], STEPS_MAX - 1)
        busy.stepped(node(2), None, [])
    assert busy.steps == 3 * STEPS_MAX


@pytest.mark.parametrize(
    ("mutant", "seed", "told"),
    [
        ("refusals_multiply", 31, "times it sent AppendReply to node"),
        ("asks_for_ever", 404, "times it asked for AskLasts of"),
    ],
)
def test_a_planted_bug_that_makes_a_node_spin_is_found(mutant: str, seed: int, told: str) -> None:
    result = run_seed(RunOptions(seed=seed, mutant=mutant))
    assert (result.invariant, told in result.finding) == ("Busy", True), result.finding
