"""The kernels of cycles over logs, without Spark: however rows are dealt to tasks, the definitions hold."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from liftlog_jepsen.generate import random_history
from liftlog_jepsen.graph import kernels, versions
from liftlog_jepsen.graph.intervals import Ints
from liftlog_jepsen.graph.search import WR
from liftlog_jepsen.transactions.classify import find_cycles
from tests.jepsen.log_graph import LOG_KINDS, chaos, depend, kernel_cycles, run


@pytest.mark.slow
@pytest.mark.parametrize("ww_deps", [False, True])
@pytest.mark.parametrize("tasks", [1, 3])
def test_kernels_agree_with_the_definitions(
    ww_deps: bool, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tasks > 1:
        monkeypatch.setattr(versions, "RANGE_BITS", 1)  # ranges of two offsets, so that borders matter
    seen: Counter[str] = Counter()
    for seed in range(150):
        rng = random.Random(seed)
        history = chaos(rng, "chaos") if seed % 5 else random_history(rng, "toy", mischief=0.3, strings=False)
        place = {op.idx_inv: op.op_id for op in history.ops()}
        cycles = find_cycles(depend(history, ww_deps))
        found = kernel_cycles(history, ww_deps, tasks, rng)
        assert Counter((name, len(ops)) for name, ops in found) == Counter(
            (cycle.anomaly, len(cycle.edges)) for cycle in cycles
        ), seed
        edges = {(source, target) for source, target, _ in depend(history, ww_deps)}
        for _, ops in found:
            ids = [place[at] for at in ops]
            assert edges.issuperset(zip(ids, [*ids[1:], ids[0]], strict=True))
        seen.update(cycle.anomaly for cycle in cycles)
    assert set(seen) == {kind for kind in LOG_KINDS if ww_deps or not kind.startswith("G0")}


def test_values_of_different_logs_that_mix_to_one_number_are_told_apart() -> None:
    multiplier = 0x9E3779B97F4A7C15
    signed = np.array([multiplier], np.uint64).astype(np.int64)[0]
    rows: dict[str, Ints] = {
        # log 0 with value a, and log 1 with value a ^ multiplier: the same after mixing.
        "log": np.array([0, 1, 0, 1], np.int64),
        "value": np.array([5, 5 ^ signed, 5, 5 ^ signed], np.int64),
        "at": np.array([0, 10, 20, 30], np.int64),
        "ret": np.array([1, 11, 21, 31], np.int64),
        "who": np.array([0, 0, kernels.POLL, kernels.POLL], np.int64),
    }
    sender, reader = kernels.match(rows)
    assert sorted(zip(sender.tolist(), reader.tolist(), strict=True)) == [(0, 2), (1, 3)]


def test_a_value_that_two_operations_sent_gives_no_edge_even_if_one_of_them_is_elsewhere() -> None:
    """Rows within a piece are only some: what the other rows say about a value must count, too."""
    row = {"log": 1, "value": 2, "ret": 5, "who": kernels.OK}
    rows = [{**row, "at": 0}, {**row, "at": 9}, {**row, "at": 4, "who": kernels.OK | kernels.POLL}]
    marks = run(kernels.marks, rows)
    assert marks == [{"mark": kernels.REUSED, "first": 1, "second": 2}]
    assert run(kernels.reused, marks) == [{"log": 1, "value": 2}]
    assert run(kernels.pieces, marks) == []


def test_a_piece_with_too_many_rows_is_reported_instead_of_searched() -> None:
    def g1c(piece: int, at: int, copies: int) -> list[dict[str, int]]:
        edge = dict.fromkeys(kernels.PIECE_ROW, 0) | {"piece": piece, "kind": WR, "ret": 99, "to_ret": 99}
        return [edge | {"at": at, "to_at": at + 1}, edge | {"at": at + 1, "to_at": at}] * copies

    rows = [*g1c(1, 10, 3), *g1c(2, 20, 4), *g1c(3, 30, 1)]

    def searched(most: int, seed: int = 0) -> list[tuple[str, str, int, int]]:
        shuffled = random.Random(seed).sample(rows, len(rows))
        steps = run(kernels.cycles, shuffled, ("G0", "G1c"), most)
        return sorted((s["anomaly"], s["edge"], s["source"], s["target"]) for s in steps if s["step"] == 0)

    all_three = [("G1c", "wr", at, at + 1) for at in (10, 20, 30)]
    given_up = [(kernels.LIMIT, kind, 20, 21) for kind in ("G0", "G1c")]
    assert searched(8) == all_three
    for seed in range(20):
        assert searched(7, seed) == [all_three[0], all_three[2], *given_up]
    assert [found[0] for found in searched(1)] == [kernels.LIMIT] * 6
