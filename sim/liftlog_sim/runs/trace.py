"""The trace of a run: every step of every node as one JSON line, on request.

The rolling hash that proves determinism is kept by the kernel and costs next to nothing; this file is for
people and tools who want to see what happened. Each line holds the simulated time, the node, the event and
the effects:

    {"at_us": 1234567, "node": 2, "event": ["Received", {...}], "effects": [["Send", {...}]], "hash": "..."}

Byte strings are shown as text where they are text, else in hexadecimal; batches and spans of files by their
position only.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, TextIO

import msgspec

from liftlog.messages import Effect, Event
from liftlog.types import Batch, FileSpan
from liftlog_sim.devices.machine import Machine
from liftlog_sim.world import World

_encode = msgspec.json.Encoder().encode
LONGEST_BYTES = 120
_BATCH = re.compile(r"batch (\d+)\+(\d+) of epoch (\d+)")


class WorldTraceWriter:
    """Writes the steps of one world to a file. Use as a context manager; `attach` before the world starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._world: World | None = None

    def __enter__(self) -> WorldTraceWriter:
        self._file = self._path.open("w", encoding="utf-8")
        return self

    def __exit__(self, *exception: object) -> None:
        if self._file is not None:
            self._file.close()

    def attach(self, world: World) -> None:
        """Write every step of this world from now on."""
        self._world = world
        world.observer.on_step = self._step

    def _step(self, machine: Machine, event: Event | None, effects: list[Effect]) -> None:
        assert self._file is not None and self._world is not None
        kernel = self._world.kernel
        line = {
            "at_us": kernel.now_us,
            "node": machine.number,
            "event": None if event is None else plain(event),
            "effects": [plain(effect) for effect in effects],
            "hash": kernel.trace_hash,
        }
        self._file.write(_encode(line).decode())
        self._file.write("\n")


def read_batch(text: Any) -> tuple[int, int, int] | None:
    """(first offset, end, epoch) of a batch as `plain` writes it; None if this is none."""
    found = _BATCH.match(text) if isinstance(text, str) else None
    if found is None:
        return None
    start, count, epoch = map(int, found.groups())
    return start, start + count, epoch


def plain(value: Any) -> Any:
    """A structure as JSON can hold it."""
    if isinstance(value, Batch):
        return f"batch {value.base_offset}+{value.count} of epoch {value.epoch}"
    if isinstance(value, FileSpan):
        return f"offsets {value.base_offset} to {value.end_offset} at byte {value.position}"
    if isinstance(value, msgspec.Struct):
        fields = {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        return [type(value).__name__, fields]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {name: plain(item) for name, item in zip(value._fields, value, strict=True)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return _text(value)
    return value


def _text(data: bytes) -> str:
    shown = data[:LONGEST_BYTES]
    more = "..." if len(data) > LONGEST_BYTES else ""
    try:
        text = shown.decode("ascii")
    except UnicodeDecodeError:
        return "0x" + shown.hex() + more
    return text + more if text.isprintable() else "0x" + shown.hex() + more
