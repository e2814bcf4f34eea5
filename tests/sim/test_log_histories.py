"""What the history of a simulated run tells of the HW, of numbers, keys and what was cut: nothing is wrong
with it, and what is told otherwise, or goes wrong, is found."""

from __future__ import annotations

from collections import Counter

import pytest

from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.truth.producers import StoredNumbers
from tests.jepsen.tampered import OF_CUTS, OF_KEYS, OF_NUMBERS, Tamper
from tests.sim.test_histories import anomalies, history


@pytest.mark.parametrize(
    ("profile", "seed", "facts", "tampered"),
    [
        ("kills", 0, ("hw", "truncate"), OF_CUTS),
        ("repeats", 3, ("producer",), OF_NUMBERS),
        ("compaction", 3, ("record-key", "tombstone"), OF_KEYS),
    ],
)
def test_R2_R3_L2_C1_C2_nothing_is_wrong_with_a_history_unless_it_is_told_otherwise(
    profile: str, seed: int, facts: tuple[str, ...], tampered: dict[str, Tamper]
) -> None:
    found = history(RunOptions(seed=seed, profile=profile, duration_s=15))
    told = Counter(mop.f for op in found.ops() for mop in op.mops)
    assert min(told[f] for f in facts) > 20
    assert anomalies(found) == set()
    for anomaly, change in tampered.items():
        assert anomaly in anomalies(change(found)), anomaly


@pytest.mark.parametrize(
    ("mutant", "seed", "profile", "found"),
    [
        ("R3.behind", 2, "power", "hw-back"),
        ("read_above_hw", 1, "partitions", "read-above-hw"),
    ],
)
def test_R3_what_a_server_tells_too_much_or_has_forgotten_shows_in_the_history(
    mutant: str, seed: int, profile: str, found: str
) -> None:
    options = RunOptions(seed=seed, profile=profile, duration_s=15, mutant=mutant)
    assert anomalies(history(options)) == {found}


@pytest.mark.parametrize(
    ("mutant", "found"),
    [
        ("L2.stored", {"sequence-duplicate"}),
        ("L2.due", {"sequence-gap"}),
        ("L2.fenced", {"fenced-producer", "sequence-gap"}),
    ],
)
def test_L2_what_a_leader_stores_that_is_not_due_shows_in_the_history(
    mutant: str, found: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The invariants end such a run at the first of them, before anybody has read it."""
    committed = StoredNumbers.committed

    def hold_your_tongue(self: StoredNumbers, *told: object) -> None:
        committed(self, *told)  # type: ignore[arg-type]

    monkeypatch.setattr(StoredNumbers, "committed", hold_your_tongue)
    planted = RunOptions(seed=3, profile="repeats", duration_s=15, mutant=mutant)
    assert anomalies(history(planted, judged=False)) == found
