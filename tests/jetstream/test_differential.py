"""Drawn sequences of calls give the same on nats-server and on liftlog: 20 in CI, 10,000 nightly."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.jetstream.differential import Step, differences, draw

if TYPE_CHECKING:
    from tests.jetstream.conftest import Stage

QUICK = 20
NIGHTLY = 10_000
BLOCK = 500
"""So many sequences are one test of the nightly run."""


async def found(plan: list[Step], stage: Stage) -> list[str]:
    return await differences(plan, stage.server("nats-server"), stage.server("liftlog"))


async def smallest(plan: list[Step], stage: Stage) -> list[Step]:
    """The plan without the steps that a difference does not need; the stream is always made."""
    at = len(plan) - 1
    while at > 0:
        shorter = plan[:at] + plan[at + 1 :]
        if await found(shorter, stage):
            plan = shorter
        at -= 1
    return plan


async def check(seeds: range, stage: Stage) -> None:
    for seed in seeds:
        if await found(draw(seed), stage):
            plan = await smallest(draw(seed), stage)
            steps = "\n".join(f"  {number} {step}" for number, step in enumerate(plan))
            told = "\n".join(await found(plan, stage))
            raise AssertionError(f"seed {seed} differs, and so does\n{steps}\n{told}")


@pytest.mark.real
def test_drawn_sequences_give_the_same(stage: Stage) -> None:
    stage.start("nats-server", "liftlog")
    stage.runner.run(check(range(QUICK), stage))


@pytest.mark.real
@pytest.mark.nightly
@pytest.mark.parametrize("begin", range(QUICK, NIGHTLY, BLOCK))
def test_many_drawn_sequences_give_the_same(begin: int, stage: Stage) -> None:
    stage.start("nats-server", "liftlog")
    stage.runner.run(check(range(begin, begin + BLOCK), stage))


def test_a_seed_draws_the_same_plan_always() -> None:
    assert draw(7) == draw(7) != draw(8)
    assert [kind for kind, _ in draw(7)[:2]] == ["stream", "consumer"]
