"""docs/matching.md is true: its example runs, and the article's figures on it are what the bench prints."""

from __future__ import annotations

import re
from pathlib import Path

from liftlog.bench.matching import ARTICLE_OPERATIONS, ARTICLE_THROUGHPUT, STRUCTURES
from liftlog.bench.matching_command import MEASURED

PAGE = (Path(__file__).resolve().parents[2] / "docs/matching.md").read_text()


def test_the_example_runs_as_printed() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "docs/matching.md", "exec"), {})


def test_the_articles_figures_are_on_the_page() -> None:
    lines = [line for line in PAGE.splitlines() if line.startswith("| ")]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    for name in STRUCTURES:
        place = next(
            number for number, row in enumerate(rows) if row[0].startswith(name) and row[1] == "cold"
        )
        for row, start in zip(rows[place : place + 2], ("cold", "hot"), strict=True):
            expected = [f"{value:,.0f}" for value in ARTICLE_OPERATIONS[name][start].values()]
            assert row[1] == start and row[3::2] == expected
        assert any(
            row[0].startswith(name) and len(row) > 3 and row[3] == f"{ARTICLE_THROUGHPUT[name]:,.0f}"
            for row in rows
        )


def test_the_tables_that_the_page_names_can_be_asked_for() -> None:
    named = set(re.findall(r"--tables (\w+)", PAGE))
    assert named and named <= set(MEASURED)
