"""The promises over columns agree with their definitions on random histories."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from liftlog_jepsen.promises import PROMISES, check_table
from tests.jepsen.consumer_stories import ConsumersBruteForce, random_consumers
from tests.jepsen.promise_brute_force import Broken, BruteForce, identity, random_facts
from tests.jepsen.promise_stories import promise_input


def found(seed: int) -> set[Broken]:
    history = random_facts(random.Random(seed))
    rows = check_table(promise_input([history])).to_pylist()
    identities = [identity(row) for row in rows]
    assert len(identities) == len(set(identities))
    assert set(identities) == BruteForce(history).check(), seed
    return set(identities)


def found_of_consumers(seed: int) -> set[Broken]:
    history = random_consumers(random.Random(seed))
    rows = check_table(promise_input([history])).to_pylist()
    evidence = [row["evidence"] for row in rows]
    identities = [
        (row["anomaly"], row["key"], e["subject"], e["offset"])
        for row, e in zip(rows, evidence, strict=True)
    ]
    assert len(identities) == len(set(identities))
    due = {one for key in ("j", "k") for one in ConsumersBruteForce(history, key).check()}
    assert set(identities) == due, seed
    return due


@pytest.mark.slow
def test_columns_agree_with_the_definitions() -> None:
    kinds = Counter(one[0] for seed in range(220) for one in found(seed))
    kinds.update(one[0] for seed in range(150) for one in found_of_consumers(seed))
    assert set(kinds) == set(PROMISES)


@settings(max_examples=60, deadline=None)
@example(4589458)  # One operation that was told two records at the last offset of a key.
@given(st.integers(10**6, 10**9))
def test_columns_agree_with_the_definitions_on_any_seed(seed: int) -> None:
    found(seed)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 10**9))
def test_what_consumers_were_given_is_judged_as_the_definitions_say(seed: int) -> None:
    found_of_consumers(seed)


def test_histories_and_shards_do_not_mix() -> None:
    histories = []
    for seed in range(30):
        history = random_facts(random.Random(seed))
        history.name = f"h{seed}"
        histories.append(history)
    rows = check_table(promise_input(histories)).to_pylist()
    for history in histories:
        its = {identity(row) for row in rows if row["history_id"] == history.name}
        assert its == BruteForce(history).check()
