"""Bundles and charts for the tests of `liftlog sim report`."""

from __future__ import annotations

import functools
from pathlib import Path

from liftlog_sim.explain.bundle import Bundle
from liftlog_sim.explain.recording import bundle_of
from liftlog_sim.page.chart import MESSAGE, START, Arrival, Chart, ChartStep
from liftlog_sim.page.from_trace import chart_of_bundle
from liftlog_sim.runs.runner import knobs_of, run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.runs.trace import WorldTraceWriter

MUTANTS = {"truncate_to_hw": 1, "ack_at_append": 1, "raft_quorum_half": 1}
"""Three planted bugs, each with the seed from which on one looks for a run that shows it."""
SEEDS_TRIED = 40
REFINED = ("truncate_to_hw",)
"""Of these the model must say no first, some time before anything is violated."""
TELLING = {
    "truncate_to_hw": ("cuts ",),
    "ack_at_append": ("acknowledges", "cuts ", "becomes leader"),
    "raft_quorum_half": ("with the vote", "becomes controller"),
}
"""What must be among the causes, in one of these words."""


@functools.cache
def failed(mutant: str) -> Bundle:
    """What the bug leaves behind."""
    for seed in range(MUTANTS[mutant], MUTANTS[mutant] + SEEDS_TRIED):
        options = RunOptions(seed=seed, mutant=mutant, nodes=3)
        result = run_seed(options)
        if not result.invariant:
            continue
        bundle = bundle_of(options, knobs_of(options), None, result.trace_hash)
        differs = bundle.disagreement
        if mutant not in REFINED or (differs and 300 < differs.at_step < bundle.violation.at_step - 100):
            return bundle
    raise AssertionError(f"no seed shows {mutant}")


def chart(mutant: str) -> Chart:
    return chart_of_bundle(failed(mutant), f"{mutant}.json")


def trace(path: Path) -> Path:
    """The trace of a run in which nothing went wrong."""
    with WorldTraceWriter(path) as writer:
        result = run_seed(RunOptions(seed=3, nodes=3, duration_s=4, faults="none"), writer.attach)
    assert result.good
    return path


def huge(nodes: int = 9, steps: int = 120_000) -> Chart:
    """As long as an hour of a cluster: an appended record or a heartbeat at each step."""
    made: list[ChartStep] = []
    for place in range(steps):
        node = place % nodes + 1
        changes = {} if place % 3 else {"7/0 LEO": place, "7/0 durable LEO": place - 1, "7/0 HW": place - 2}
        if place < nodes:
            changes = {"7/0 role": "leader" if place == 0 else "follower", "7/0 epoch": 1}
        made.append(
            ChartStep(
                number=place,
                at_us=place * 300,
                node=node,
                kind=START if place < nodes else MESSAGE,
                words="starts" if place < nodes else f"receives Fetch (epoch 1, offset {place}) from node 1",
                effects=[
                    f"appends offset {place} of epoch 1 to s0/0 (ticket {place})",
                    "sends Heartbeat to node 1",
                ],
                changes=dict(changes),
                causes=[place - 1] if place else [],
                arrival=Arrival("Fetch", (place - 1) % nodes + 1, place - 1) if place >= nodes else None,
                label="" if place % 50 else f"writes {place}",
            )
        )
    logs = {"raft": "metadata group", "7/0": "s0/0"}
    return Chart(
        title="a long run",
        source="a long run",
        clocks=True,
        nodes=list(range(1, nodes + 1)),
        logs=logs,
        steps=made,
    )
