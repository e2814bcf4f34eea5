"""Bundles and pages for the tests of `liftlog sim report`."""

from __future__ import annotations

import functools

from liftlog_sim.explain.bundle import Bundle
from liftlog_sim.explain.recording import bundle_of
from liftlog_sim.page.chart import Chart
from liftlog_sim.page.from_trace import chart_of_bundle
from liftlog_sim.runner import knobs_of, run_seed
from liftlog_sim.runs import RunOptions

MUTANTS = {"truncate_to_hw": 1, "ack_at_append": 1, "raft_vote_forgotten": 8}
"""Three planted bugs, each with a seed that shows it."""


@functools.cache
def failed(mutant: str) -> Bundle:
    options = RunOptions(seed=MUTANTS[mutant], mutant=mutant)
    result = run_seed(options)
    assert result.invariant
    return bundle_of(options, knobs_of(options), None, result.trace_hash)


def chart(mutant: str) -> Chart:
    return chart_of_bundle(failed(mutant), f"{mutant}.json")
