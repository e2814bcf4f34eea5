"""Which files a read means and how they are shared out: the plain half of the Data Source.

A part is plain data, so that it travels: names of files to be read whole, or one block of a large file.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from liftlog_jepsen.events import BadHistory
from liftlog_jepsen.foreign.blocks import BLOCK_BYTES, Block, plan_blocks, read_block
from liftlog_jepsen.foreign.reading import Conventions
from liftlog_jepsen.foreign.rows import OPERATION_COLUMNS, broken_batch, file_batches, operation_batches
from liftlog_jepsen.formats import AUTO, find_format

ROWS = ("operations", "events")
BROKEN = ("fail", "keep")
PART_BYTES = 256 << 10
"""Small files share a task until they have this many bytes: a task costs as much as parsing ten thousand."""
PART_FILES = 64

Part = tuple[Any, ...]
"""("files", (name, format, intervals)…), or ("block", intervals, …) with the fields of `Block`."""
_Said = tuple[str, str, str | None]


def plan(options: Mapping[str, str]) -> list[Part]:
    """The parts of a read: small files together, in the order of their names.

    Raises BadHistory for a path that is not there and for options that do not exist.
    """
    _require(options, "rows", ROWS)
    _require(options, "broken", BROKEN)
    if options.get("format", AUTO) != AUTO:
        find_format(options["format"])
    Conventions(intervals=options.get("intervals")).options(None)
    keep = options.get("broken") == "keep"
    cut = options.get("rows", ROWS[0]) == ROWS[0] and options.get("whole", "false") != "true"
    block_bytes = int(options.get("block_bytes", BLOCK_BYTES))
    parts: list[Part] = []
    together: list[list[_Said]] = []
    weight = 0
    for file, (format, intervals) in _files(options, keep).items():
        blocks = plan_blocks(file, format, block_bytes) if cut else None
        if blocks is not None:
            parts.extend(("block", intervals, *block) for block in blocks)
            continue
        size = os.path.getsize(file) if os.path.isfile(file) else 0
        if not together or weight + size > PART_BYTES or len(together[-1]) >= PART_FILES:
            together.append([])
            weight = 0
        together[-1].append((file, format, intervals))
        weight += size
    return [*parts, *(("files", *files) for files in together)]


def read_part(part: Part, options: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """The rows of a part's files."""
    keep = options.get("broken") == "keep"
    rows = options.get("rows", ROWS[0])
    if part[0] == "block":
        yield from _read_block(Block(*part[2:]), Conventions(intervals=part[1]), keep)
        return
    for file, format, intervals in part[1:]:
        yield from file_batches(file, format, Conventions(intervals=intervals), rows, keep)


def _read_block(block: Block, conventions: Conventions, keep: bool) -> Iterator[pa.RecordBatch]:
    try:
        operations = read_block(block, conventions)
        yield from operation_batches(block.file, block.format, operations)
    except BadHistory as problem:
        if not keep:
            raise
        yield broken_batch(block.file, block.format, str(problem), OPERATION_COLUMNS)


def _require(options: Mapping[str, str], name: str, known: tuple[str, ...]) -> None:
    said = options.get(name, known[0])
    if said not in known:
        raise BadHistory(f"option {name} {said}: give one of {', '.join(known)}")


def _files(options: Mapping[str, str], keep: bool) -> dict[str, tuple[str, str | None]]:
    """The files that paths and globs mean, each once, in order, with format and rule for intervals."""
    usual = (options.get("format", AUTO), options.get("intervals"))
    said: dict[str, tuple[str, str | None]] = {}
    if "paths" in options:
        paths = json.loads(options["paths"])
        if isinstance(paths, dict):
            said |= {path: (format, intervals) for path, (format, intervals) in paths.items()}
        else:
            said |= dict.fromkeys(paths, usual)
    if "path" in options:
        said[options["path"]] = usual
    if not said:
        raise BadHistory("which histories? give their paths to load()")
    found: dict[str, tuple[str, str | None]] = {}
    for each, how in said.items():
        path = each.removeprefix("file://") if each.startswith("file:///") else each.removeprefix("file:")
        matching = [path] if os.path.exists(path) else sorted(glob.glob(path, recursive=True))
        if not matching and not keep:
            raise BadHistory(f"cannot read {path}: there is no such file")
        for name in matching or [path]:
            if Path(name).is_dir() and not keep:
                raise BadHistory(f"{name} is a folder: give its files, such as {name}/*.edn")
            found[name] = how
    return found
