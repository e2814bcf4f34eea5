"""Simulated publishers send batches, and what is committed of one is all of it (L11)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from liftlog_sim.chance.draws import Draws
from liftlog_sim.profiles.profiles import draw_knobs
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.workload import batching
from liftlog_sim.workload.fasting import batch, wronged


def numbers(sent: list[tuple[int, object]]) -> list[int]:
    lines = [message.headers.split(b"\r\n") for _, message in sent]  # type: ignore[attr-defined]
    found = [line for block in lines for line in block if line.startswith(b"Nats-Batch-Sequence: ")]
    return [int(line.partition(b": ")[2]) for line in found]


def test_L11_batches_are_sent_in_order_but_for_those_that_are_wrong() -> None:
    wrong = ended = 0
    for seed in range(200):
        size = 1 + seed % 5
        values: list[tuple[bytes, list[bytes]]] = [(b"v%d" % place, []) for place in range(size)]
        sent = batching.messages(values, b"r", b"s", b"", [], Draws(seed))
        found, whole = numbers(list(sent)), set(range(1, size + 1))
        good = found == sorted(found) and whole <= set(found) and b"Commit" in sent[-1][1].headers
        wrong += not good
        ended += b"eob" in sent[-1][1].headers if sent else 0
        assert [after for after, _ in sent] == sorted(after for after, _ in sent)
    assert 20 < wrong < 80 and ended > 20


def test_L11_sizes_cover_all_values() -> None:
    for seed in range(50):
        sizes = batching.sizes(17, Draws(seed))
        assert sum(sizes) == 18 and min(sizes) >= 1 and max(sizes) <= batching.VALUES_MAX


def test_L11_some_worlds_have_batches_and_what_they_check_holds() -> None:
    def takes(seed: int) -> bool:
        return any(config.allow_batches is True for config in draw_knobs(seed, profile="mixed").streams)

    assert 0.05 < sum(map(takes, range(200))) / 200 < 0.2
    result = run_seed(RunOptions(seed=24, profile="mixed"))
    assert not result.invariant and result.checks["ParcelWhole"] > 5
    assert result.marks["L11.whole"] > 10 and result.marks["L11.unknown"] > 0


@pytest.mark.parametrize(
    ("mutant", "seed", "invariant"),
    [
        ("batch_stored_at_once", 0, "ParcelWhole"),
        ("batch_expects_nothing", 0, "StoredAsExpected"),
        ("batch_begins_anywhere", 0, "ParcelWhole"),
        ("L11.due", 4, "ParcelWhole"),
    ],
)
def test_L11_planted_bugs_are_seen(mutant: str, seed: int, invariant: str) -> None:
    assert run_seed(RunOptions(seed=seed, profile="mixed", mutant=mutant)).invariant == invariant


class Twice(Draws):
    """Draws by which a message comes twice."""

    def choice(self, among: Sequence[Any]) -> Any:
        return "twice" if "twice" in among else super().choice(among)


def test_a_message_that_is_a_fast_batch_alone_does_not_come_twice() -> None:
    """Seed 60: it did, and was stored twice, as two batches of one id: what was acked seemed to change."""
    draws = Twice(1, "fast")
    alone, two = ([b"x"], [b"x", b"y"])
    made = next(
        one
        for number in range(50)
        if len(one := batch(b"f", alone, b"1.ok", b"s", Draws(number))) == 1 and b".2.$FI" in one[0].reply
    )
    assert wronged(made, draws) == made
    more = batch(b"f", two, b"1.ok", b"s", Draws(0))
    assert len(wronged(more, draws)) == len(more) + 1
