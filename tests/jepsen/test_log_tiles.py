"""Logs cut into tiles give the same anomalies as whole ones, and both give what the definitions say."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog_jepsen.history import History
from liftlog_jepsen.log import ANOMALIES, EVIDENCE, Rules, check_table, check_whole
from liftlog_jepsen.log.columns import NONE, Block, mix, pack, sort_order, take, unpack
from liftlog_jepsen.log.found import FOUND_COLUMNS
from liftlog_jepsen.log.hashing import text_number
from liftlog_jepsen.log.table import as_rows
from liftlog_jepsen.log.tiles import LargeLog, run_here
from tests.jepsen.brute_force import brute_force
from tests.jepsen.kernel_input import kernel_input
from tests.jepsen.random_logs import random_log

NAMES = ("history", "log")
MISCHIEF = (0.0, 0.03, 0.15, 0.4)


def logs_of(rows: Block) -> list[LargeLog]:
    """What a survey says of each log."""
    found = []
    for log in np.unique(rows["log"]).tolist():
        part = take(rows, rows["log"] == log)
        offsets = part["offset"][part["offset"] != NONE]
        found.append(
            LargeLog(
                int(part["history"][0]),
                log,
                len(part["log"]),
                int(offsets.min()) if len(offsets) else None,
                int(offsets.max()) if len(offsets) else None,
                int(part["inv"].min()),
                int(part["inv"].max()),
            )
        )
    return found


def as_counter(found: Block) -> Counter[tuple[int, ...]]:
    return Counter(zip(*(found[name].tolist() for name in FOUND_COLUMNS), strict=True))


def some_histories(seed: int, number: int = 2) -> list[History]:
    rng = random.Random(seed)
    return [random_log(rng, f"h{n}", rng.choice(MISCHIEF)) for n in range(number)]


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    gaps=st.sampled_from(("known", "any")),
    unseen=st.sampled_from(("final", "all")),
)
def test_whole_logs_agree_with_the_definitions(seed: int, gaps: str, unseen: str) -> None:
    histories = some_histories(seed)
    found = check_table(kernel_input(histories), Rules(gaps, unseen)).to_pylist()
    for history in histories:
        rows = [
            (one["anomaly"], one["key"], tuple(one["ops"]), tuple(one["evidence"][name] for name in EVIDENCE))
            for one in found
            if one["history_id"] == history.name
        ]
        assert set(rows) == brute_force(history, gaps, unseen)


@pytest.mark.slow
@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    gaps=st.sampled_from(("known", "any")),
    unseen=st.sampled_from(("final", "all")),
    rows_max=st.sampled_from((1, 3, 7, 25, 1000)),
    splits=st.integers(1, 5),
)
def test_tiles_agree_with_whole_logs(seed: int, gaps: str, unseen: str, rows_max: int, splits: int) -> None:
    rows, _ = as_rows(kernel_input(some_histories(seed)))
    rows = take(rows, np.random.default_rng(seed).permutation(len(rows["log"])))
    rules = Rules(gaps, unseen)
    expected = as_counter(check_whole(rows, rules))
    assert as_counter(run_here(rows, logs_of(rows), rules, rows_max, splits)) == expected


def test_neither_order_nor_names_nor_numbers_of_histories_matter() -> None:
    rows, _ = as_rows(kernel_input(some_histories(11, 12)))
    expected = as_counter({**check_whole(rows, Rules())})
    mixed = take(rows, np.random.default_rng(5).permutation(len(rows["log"])))
    back = {
        name: {int(new): int(old) for old, new in zip(rows[name], mix(rows[name]), strict=True)}
        for name in NAMES
    }
    found = check_whole({**mixed, **{name: mix(mixed[name]) for name in NAMES}}, Rules())
    plain = {name: np.array([back[name][each] for each in found[name].tolist()], np.int64) for name in NAMES}
    assert len(expected) > 100
    assert as_counter({**found, **plain}) == expected


def test_random_logs_show_every_anomaly_somewhere() -> None:
    seen: Counter[str] = Counter()
    for seed in range(60):
        rows, _ = as_rows(kernel_input(some_histories(seed, 3)))
        seen.update(ANOMALIES[number] for number in check_whole(rows, Rules())["anomaly"].tolist())
    assert set(seen) == set(ANOMALIES)


def test_a_packed_block_comes_back_as_it_was() -> None:
    rng = np.random.default_rng(3)
    block = {
        "constant": np.full(1000, 7),
        "bytes": rng.integers(-100, 100, 1000),
        "shorts": rng.integers(0, 60_000, 1000),
        "words": rng.integers(0, 2**32, 1000),
        "anything": rng.integers(-(2**63) + 1, 2**63 - 1, 1000),
        "nothing": np.full(1000, NONE),
        "some": np.where(rng.random(1000) < 0.5, NONE, rng.integers(0, 200, 1000)),
    }
    data = pack(block)
    again = unpack(data)
    assert all((again[name] == block[name]).all() for name in block)
    assert len(data) < 1000 * (1 + 2 + 4 + 8 + 1) + 1000
    assert {
        name: len(column) for name, column in unpack(pack(take(block, slice(0, 0)))).items()
    } == dict.fromkeys(block, 0)


def test_an_order_by_columns_that_do_not_fit_into_one_is_the_same() -> None:
    rng = np.random.default_rng(4)
    keys = [rng.integers(0, 5, 500), rng.integers(-(2**62), 2**62, 500), rng.integers(0, 2**40, 500)]
    assert (sort_order(keys) == np.lexsort(tuple(reversed(keys)))).all()
    small = [rng.integers(0, 5, 500), rng.integers(-9, 9, 500)]
    assert (sort_order(small) == np.lexsort(tuple(reversed(small)))).all()


@pytest.mark.parametrize(
    ("text", "seed", "number"),
    [("", 0, -1205034819632174695), ("a", 0, -3292477735350538661), ("abc", 0, 4952883123889572249)],
)
def test_texts_have_the_numbers_of_xxh64(text: str, seed: int, number: int) -> None:
    assert text_number(text, seed) == number
