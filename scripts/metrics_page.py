"""Writes the tables of docs/operating/metrics.md anew, from the list of what nodes tell.

    .venv/bin/python scripts/metrics_page.py
"""

from __future__ import annotations

from pathlib import Path

from liftlog.eyes.names import tables

PAGE = Path(__file__).resolve().parent.parent / "docs" / "operating" / "metrics.md"
BEGIN, END = "<!-- metrics -->\n", "<!-- end of metrics -->"


if __name__ == "__main__":
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + tables() + END + rest.partition(END)[2])
