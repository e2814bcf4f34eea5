"""Histories that others published: every one about an object has the verdict that they state."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from liftlog_jepsen.events import pair
from liftlog_jepsen.formats import FORMATS, read_history
from liftlog_jepsen.objects import MODELS, check_object

ROOT = Path(__file__).resolve().parents[2]
HISTORIES = Path(os.environ.get("LIFTLOG_HISTORIES", ROOT.parent / "shared" / "histories"))
VERDICTS = {"linearizable": True, "valid": True, "NOT linearizable": False, "INVALID": False}
OTHER_NAMES = {"priorityqueue": "priority-queue"}
TALLIES = ("set", "counter")
"""Of elle-cli, these are Jepsen's counts of what was added, not objects."""


def listed() -> Iterator[tuple[str, str, str, bool]]:
    """File, format, model and stated verdict."""
    for line in (HISTORIES / "INDEX.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) < 9 or not cells[4].isdecimal() or cells[6] not in VERDICTS:
            continue
        name = cells[3].split(",")[0].split()[0].lower()
        name = OTHER_NAMES.get(name, name)
        if name in MODELS and not (name in TALLIES and cells[0].startswith("elle-cli")):
            yield cells[0], cells[2], name, VERDICTS[cells[6]]


@pytest.mark.skipif(
    not (HISTORIES / "INDEX.md").is_file(),
    reason=f"there are no histories by others in {HISTORIES}; set LIFTLOG_HISTORIES to their folder",
)
def test_every_history_by_others_has_its_verdict() -> None:
    wrong, count, operations = [], 0, 0
    began = time.process_time()
    for file, format, name, expected in listed():
        history = pair(read_history(HISTORIES / file, format), file)
        found = check_object(MODELS[name], history, FORMATS[format].options)
        count += 1
        operations += len(history)
        if found.valid is not expected:
            wrong.append(f"{file}: {found.valid}, not {expected}: {found.problems[:1]} {found.reasons}")
        for problem in found.problems:
            numbers = {one.number for one in history}
            assert problem.words and set(problem.operations) <= numbers, file
    print(f"{count} files, {operations} operations, {time.process_time() - began:.1f} s of CPU")
    assert wrong == []
    assert count > 150
