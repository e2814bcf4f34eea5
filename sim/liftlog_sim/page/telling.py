"""The story of a bundle, line by line as it is printed, taken apart into what happened at which step."""

from __future__ import annotations

import re
from collections.abc import Sequence

from liftlog_sim.page.chart import StoryLine

BEGINS = re.compile(r"\s*\d+\.\d{4} (?:#(\d+)|(=>))? +(.*)")
"""When, and the step, or the sign of the verdict; a fault has neither."""

REMARK = "^ "


def story_of(lines: Sequence[str]) -> list[StoryLine]:
    """What happened, causes first. A line that begins with no time belongs to the one before it."""
    told: list[StoryLine] = []
    for line in lines:
        begins = BEGINS.fullmatch(line)
        if begins is not None and begins[2]:
            break  # What is violated, and the rule's sentence, the page says by itself.
        if begins is not None:
            told.append(StoryLine(int(begins[1]) if begins[1] else -1, begins[3]))
        elif told:
            told[-1].words += _more(line.strip())
        else:
            told.append(StoryLine(-1, line.strip()))
    return told


def _more(line: str) -> str:
    """What follows a line: the rest of its sentence, or a remark on it."""
    return f"; {line.removeprefix(REMARK)}" if line.startswith(REMARK) else f" {line}"
