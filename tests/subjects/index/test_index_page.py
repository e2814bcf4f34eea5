"""docs/subject-index.md is true: its example runs, and what it says of sizes is what the code has."""

from __future__ import annotations

import re
from pathlib import Path

from liftlog.subjects.index.chunk import CHUNK_BITS
from liftlog.subjects.index.chunks import CACHED
from liftlog.subjects.index.columns import FOLD, MEMORY_MAX
from liftlog.subjects.index.filters import MASKS_MAX
from liftlog.subjects.index.interface import ChunkDamaged

PAGE = (Path(__file__).resolve().parents[3] / "docs/subject-index.md").read_text()


def test_the_example_runs_as_printed() -> None:
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(example, "docs/subject-index.md", "exec"), {})


def test_its_bounds_are_those_of_the_code() -> None:
    assert (1 << CHUNK_BITS, FOLD, MEMORY_MAX) == (65_536, 4096, 256 << 20)
    assert (CACHED, MASKS_MAX) == (8, 8)
    for words in ("65,536 offsets", "At 4,096 messages", "(256 MiB)", "eight chunks", "eight masks"):
        assert words in PAGE


def test_the_refusal_that_it_quotes_is_the_one_that_is_told() -> None:
    problem = "its checksum is wrong, or it is another log's"
    assert str(ChunkDamaged(7, problem)) in " ".join(PAGE.split())
