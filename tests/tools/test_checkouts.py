"""What scripts that compare two checkouts have in common."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import pytest

from liftlog.bench.checkouts import beside, in_turns, parsed, threads_us


class System:
    def __init__(self, name: str) -> None:
        self.name = name


def test_rounds_alternate_and_the_first_does_not_count() -> None:
    order: list[tuple[str, int]] = []

    def one_round(system: System, number: int) -> list[float]:
        order.append((system.name, number))
        return [float(number)]

    found = in_turns([System("before"), System("after")], 2, one_round)
    assert found == {"before": [[1.0], [2.0]], "after": [[1.0], [2.0]]}
    assert [name for name, number in order if number == 1] == ["after", "before"]
    assert [name for name, number in order if number == 2] == ["before", "after"]


def test_both_medians_stand_beside_the_ratios_within_the_rounds() -> None:
    assert beside([1.0, 2.0, 4.0], [2.0, 2.0, 2.0]) == "2.0 and 2.0, 1.00 (0.50 to 2.00)"
    assert beside([1.0], [3.0], 2, " ms") == "1.00 and 3.00 ms, 3.00 (3.00 to 3.00)"


def test_a_checkout_is_a_name_and_a_folder_with_the_package(tmp_path: Path) -> None:
    (tmp_path / "liftlog").mkdir()
    assert parsed(f"after={tmp_path}") == ("after", str(tmp_path))
    for wrong in ("after", "after=", f"={tmp_path}", f"after={tmp_path / 'liftlog'}"):
        with pytest.raises(argparse.ArgumentTypeError, match="names no checkout: say NAME=FOLDER"):
            parsed(wrong)


def test_the_time_of_threads_is_that_of_the_first_and_of_all_others() -> None:
    first, rest = threads_us(os.getpid())
    assert first > 0 and rest >= 0
