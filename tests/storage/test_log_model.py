"""The storage engine and a dictionary cannot be told apart, whatever happens (D1-D5, C1-C3, R5-R8, R14)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from liftlog.mutants import Mutants
from liftlog.types import InvariantViolation
from tests.storage.log_model_machine import REACHED, LogMachine

HEALTH = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def lives(examples: int, steps: int, phases: tuple[Phase, ...] = tuple(Phase)) -> settings:
    return settings(
        phases=phases,
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=HEALTH,
    )


@pytest.mark.slow
def test_the_log_does_what_the_model_does() -> None:
    REACHED.clear()
    run_state_machine_as_test(LogMachine, settings=lives(100, 50))
    assert {what for what, times in REACHED.items() if times > 1} == set(REACHED), REACHED


@pytest.mark.nightly
def test_the_log_does_what_the_model_does_in_many_and_long_lives() -> None:
    run_state_machine_as_test(LogMachine, settings=lives(1500, 80))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "mutant",
    [
        "sync_failure_retried",
        "recovery_reports_unsynced",
        "hw_not_clamped",
        "tombstone_dropped_by_age",
        "compaction_above_hw",
        "compaction_checkpoint_at_segment_end",
    ],
)
def test_the_model_tells_the_log_from_one_with_a_planted_bug(mutant: str) -> None:
    class Mutated(LogMachine):
        mutants = Mutants(**{mutant: True})

    with pytest.raises((AssertionError, InvariantViolation)):
        run_state_machine_as_test(Mutated, settings=lives(600, 60, (Phase.generate,)))
