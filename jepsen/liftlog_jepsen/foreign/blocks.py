"""Large files by blocks of lines, so that several tasks parse one file.

Formats with one event a line can be cut anywhere between lines, but for what crosses the cut: an operation is
invoked in one block and completed in a later one. Its block reads on behind its own end, and parses there
only the lines of processes that it still waits for; the later block passes over completions of what it has
not seen begin. Positions are numbers of lines, and operations are numbered in the order of their invocations,
which `plan_blocks` counts by looking for the word `invoke` only; a block that finds another number says so.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from liftlog_jepsen.events import INVOKE, BadHistory, Event, Operation, join
from liftlog_jepsen.foreign.reading import Conventions
from liftlog_jepsen.formats import AUTO, detect, find_format
from liftlog_jepsen.formats.options import Format

BLOCK_BYTES = 16 << 20
"""About as much as one core parses in five seconds."""
_READ_BYTES = 1 << 20
_HEAD_BYTES = 1 << 10

INVOCATIONS = {
    "edn-lines": re.compile(rb":invoke\b"),
    "kv-edn": re.compile(rb":invoke\b"),
    "json": re.compile(rb'"invoke"'),
    "jepsen-log": re.compile(rb":invoke\b"),
}
"""Formats that may be cut, with what each invocation has once."""
_PROCESS = {
    "edn-lines": re.compile(r":process[\s,]+(\d+)"),
    "kv-edn": re.compile(r":process[\s,]+(\d+)"),
    "json": re.compile(r'"process"\s*:\s*(\d+)'),
    "jepsen-log": re.compile(r"(?:^|- )(\d+)\s+:"),
}
_COMMENTS = {"json": "\0", "jepsen-log": ";"}


class Block(NamedTuple):
    """Bytes of a file, from the start of a line to the end of one, and what comes before them."""

    file: str
    format: str
    first: int
    end: int
    lines_before: int
    invocations_before: int
    invocations: int


def plan_blocks(file: str, format: str, block_bytes: int) -> list[Block] | None:
    """The blocks of a file; None if it is small, cannot be cut or cannot be read."""
    try:
        size = os.path.getsize(file)
        if size <= block_bytes:
            return None
        name = detect(file) if format == AUTO else format
        if name not in INVOCATIONS:
            return None
        return list(_blocks(file, name, block_bytes)) or None
    except (OSError, BadHistory):
        return None  # whoever reads the file says what is wrong


def _blocks(file: str, format: str, block_bytes: int) -> Iterator[Block]:
    invocation = INVOCATIONS[format]
    first = lines = invocations = 0
    with open(file, "rb") as source:
        if source.read(_HEAD_BYTES).lstrip()[:1] in (b"[", b"("):
            return  # one vector of everything
        source.seek(0)
        while data := source.read(block_bytes):
            data += source.readline()
            found = sum(1 for _ in invocation.finditer(data))
            yield Block(file, format, first, first + len(data), lines, invocations, found)
            first += len(data)
            lines += data.count(b"\n")
            invocations += found


def read_block(block: Block, conventions: Conventions) -> list[Operation]:
    """The operations that are invoked in this block. Raises BadHistory as `read_history` does."""
    format = find_format(block.format)
    with open(block.file, "rb") as source:
        source.seek(block.first)
        data = source.read(block.end - block.first)
    text = _decoded(data, block, first=block.first == 0)
    events = _events(text, block.lines_before, block, format, conventions)
    places = _places(text, block)
    if len(events) != len(places):
        raise _not_by_lines(block, f"{len(events)} events in {len(places)} lines")
    waiting: dict[int, tuple[int, int, Event]] = {}
    found: list[Operation | None] = []
    for place, event in zip(places, events, strict=True):
        if not isinstance(event.process, int):
            continue
        if event.type == INVOKE:
            if event.process in waiting:
                raise _twice(block, event, place)
            waiting[event.process] = (len(found), place, event)
            found.append(None)
        elif event.process in waiting:
            number, start, asked = waiting.pop(event.process)
            found[number] = join(block.invocations_before + number, start, asked, place, event)
    if len(found) != block.invocations:
        raise _not_by_lines(block, f"{len(found)} invocations, but {block.invocations} times `invoke`")
    if waiting:
        for place, event in _behind(block, frozenset(waiting), format, conventions):
            if event.process not in waiting:
                continue
            number, start, asked = waiting.pop(event.process)
            if event.type == INVOKE:
                raise _twice(block, event, place)
            found[number] = join(block.invocations_before + number, start, asked, place, event)
            if not waiting:
                break
    for number, start, asked in waiting.values():
        found[number] = join(block.invocations_before + number, start, asked, None, None)
    return [one for one in found if one is not None]


def _decoded(data: bytes, block: Block, first: bool) -> str:
    try:
        return data.decode("utf-8-sig" if first else "utf-8").replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        line = block.lines_before + data.count(b"\n", 0, error.start) + 1
        found = f"the byte {data[error.start]:#04x}"
        raise BadHistory(f"{block.file} line {line}: expected text in UTF-8, found {found}") from None


def _events(
    text: str, lines_before: int, block: Block, format: Format, conventions: Conventions
) -> list[Event]:
    """Events of some lines. Empty lines in front of them make errors name the right line."""
    return format.read("\n" * lines_before + text, block.file, conventions.options(format))


def _places(text: str, block: Block) -> list[int]:
    """The numbers, from 0, of the lines that hold an event."""
    comment = _COMMENTS.get(block.format, ";")
    lines = enumerate((line.strip() for line in text.split("\n")), block.lines_before)
    return [number for number, line in lines if line and not line.startswith(comment)]


def _behind(
    block: Block, processes: frozenset[int], format: Format, conventions: Conventions
) -> Iterator[tuple[int, Event]]:
    """(place, event) of what these processes do behind the block, up to the end of the file."""
    pattern = _PROCESS[block.format]
    lines = block.lines_before + _line_count(block)
    with open(block.file, "rb") as source:
        source.seek(block.end)
        while data := source.read(_READ_BYTES):
            text = _decoded(data + source.readline(), block, first=False)
            for place, line in enumerate(text.split("\n"), lines):
                said = pattern.search(line)
                if said is not None and int(said[1]) in processes:
                    for event in _events(line, place, block, format, conventions):
                        yield place, event
            lines += text.count("\n")


def _line_count(block: Block) -> int:
    with open(block.file, "rb") as source:
        source.seek(block.first)
        return source.read(block.end - block.first).count(b"\n")


def _twice(block: Block, event: Event, place: int) -> BadHistory:
    return BadHistory(
        f"{block.file} line {place + 1}: process {event.process} invokes {event.f} before its last operation "
        "has ended"
    )


def _not_by_lines(block: Block, found: str) -> BadHistory:
    return BadHistory(
        f"{block.file} line {block.lines_before + 1}: expected one event a line from here on, found {found}; "
        "read the file as a whole (--whole)"
    )
