"""The trace of a run: every step of every node as one JSON line, on request.

The rolling hash that proves determinism is kept by the kernel and costs next to nothing; this file is for
people and tools who want to see what happened. Each line holds the simulated time, the node, the event and
the effects:

    {"at_us": 1234567, "node": 2, "event": ["Received", {...}], "effects": [["Send", {...}]], "hash": "..."}

Byte strings are shown as text where they are text, else in hexadecimal; metadata commands as what they say;
batches and spans of files by their position only, but for batches of a journal (R21): behind the position
stands what the first entries say, each by the name of its class, with fields that are not empty:

    batch 7+2 of epoch 2: RemovedRuns(epoch 1, runs 3 9..11); Done(consumer 5, how acked, runs 4)

Of a list so many items are shown, `and 12 more to 99` counts the others; of a consumer's configuration its
filters. A step that raised has what it raised in place of effects:
`["Raised", {"error": "KeyError: 3", "place": "replica.py:210 in take"}]`.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path
from typing import Any, TextIO

import msgspec

from liftlog.core.consumers.entries import decode_entry as decode_consumers
from liftlog.core.consumers.entries import is_consumers
from liftlog.core.metadata.commands import decode_command
from liftlog.core.raft.members import decode_members, is_change
from liftlog.core.replica.removal.entries import decode_entry
from liftlog.format import decode_values, parse_batch
from liftlog.messages import ConsumerConfig, Effect, Event, Forward, StreamChanges, intake
from liftlog.messages.filespan import FileSpan
from liftlog.types import Batch, Entry, EpochStart, LiftlogError, OffsetRange, PartitionId
from liftlog_sim.devices.machine import Machine
from liftlog_sim.world import World

_encode = msgspec.json.Encoder().encode
LONGEST_BYTES = 120
ENTRIES_SHOWN = 8
"""Of a journal's batch."""
ITEMS_SHOWN = 40
"""Of a list in such an entry."""
COMMANDS: dict[type, str] = {Entry: "data", Forward: "command"}
"""What carries a metadata command, and in which field."""
_BATCH = re.compile(r"batch (\d+)\+(\d+) of epoch (\d+)")
_BARE = re.compile(r'[^\s"(),;]+')
"""Words that need no quotes in an entry."""
_NO_MATTER_IF_0 = ("since", "heeds", "instead", "sequence")
"""Fields of entries that say something where they are not 0."""


class WorldTraceWriter:
    """Writes the steps of one world to a file. Use as a context manager; `attach` before the world starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None
        self._world: World | None = None
        self._runs: dict[int, int] = {}
        """The run of each node that has stepped."""

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
        world.observer.on_raised = self._raised

    def _step(self, machine: Machine, event: Event | None, effects: list[Effect]) -> None:
        self._runs[machine.number] = machine.restarts
        self._write(machine, None if event is None else plain(event), [plain(effect) for effect in effects])

    def _raised(self, machine: Machine, event: Event | None, error: Exception) -> None:
        started = self._runs.get(machine.number) == machine.restarts
        self._write(machine, raising_event(event, started), [raised(error)])

    def _write(self, machine: Machine, event: Any, effects: list[Any]) -> None:
        assert self._file is not None and self._world is not None
        kernel = self._world.kernel
        line = {
            "at_us": kernel.now_us,
            "node": machine.number,
            "event": event,
            "effects": effects,
            "hash": kernel.trace_hash,
        }
        self._file.write(_encode(line).decode())
        self._file.write("\n")


def raised(error: Exception) -> list[Any]:
    """An exception as an effect: what it says, and where in the code it came from."""
    text = " ".join(str(error).split())
    frames = traceback.extract_tb(error.__traceback__)
    # Where it was raised, not the function that raises for others.
    own = [frame for frame in frames if frame.name != "invariant"] or frames
    place = f"{Path(own[-1].filename).name}:{own[-1].lineno} in {own[-1].name}" if own else ""
    name = type(error).__name__
    return ["Raised", {"error": f"{name}: {text}" if text else name, "place": place}]


def raising_event(event: Event | None, started: bool) -> Any:
    """Over what a node raised: an event, its start, or, once it has started, what its storage was doing."""
    if event is None:
        return ["StorageWork", {}] if started else None
    return plain(event)


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
    if type(value) in COMMANDS:
        name = COMMANDS[type(value)]
        fields = {each: plain(getattr(value, each)) for each in value.__struct_fields__}
        return [type(value).__name__, {**fields, name: _command(getattr(value, name))}]
    if isinstance(value, StreamChanges):
        return [type(value).__name__, value.named]
    if isinstance(value, msgspec.Struct):
        known = {name: getattr(value, name) for name in value.__struct_fields__}
        fields = {name: plain(one) for name, one in known.items() if one is not msgspec.UNSET}
        log = known.get("log", known.get("partition"))
        if isinstance(log, PartitionId) and log.is_journal and isinstance(known.get("batches"), list):
            fields["batches"] = [_journal_batch(log, batch) for batch in known["batches"]]
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


def _command(data: bytes) -> Any:
    """A metadata command, or the members of the group; as text if it is neither."""
    try:
        if is_change(data):
            return plain(decode_members(data))
        return plain(decode_command(data)) if data else ""
    except intake.InputRefused:
        return _text(data)


# -- journals ------------------------------------------------------------------------------------------------


def _journal_batch(log: PartitionId, batch: Any) -> Any:
    """A batch of a journal, or its frame: where it lies, and what its entries say."""
    try:
        known = parse_batch(log, batch) if isinstance(batch, bytes) else batch
        entries = decode_values(known)
    except (LiftlogError, ValueError):
        return plain(batch)
    said = [_entry(entry) for entry in entries[:ENTRIES_SHOWN]]
    if len(entries) > ENTRIES_SHOWN:
        said.append(f"and {len(entries) - ENTRIES_SHOWN} more")
    return f"{plain(known)}: {'; '.join(said)}"


def _entry(data: bytes) -> str:
    """One entry: its class, and its fields that are not empty."""
    entry: Any
    try:
        entry = decode_consumers(data) if is_consumers(data) else decode_entry(data)
    except LiftlogError:
        return f"Unreadable(kind {data[0] if data else 'none'})"
    names = entry.__struct_fields__ if isinstance(entry, msgspec.Struct) else entry._fields
    told = [_told(name, getattr(entry, name)) for name in names]
    return f"{type(entry).__name__}({', '.join(each for each in told if each)})"


def _told(name: str, value: Any) -> str:
    """A field of an entry; empty if that says nothing."""
    if isinstance(value, ConsumerConfig):
        name, value = "filters", [each for each in (value.filter, *value.filters) if each]
    if isinstance(value, bool):
        return name if value else ""
    if isinstance(value, (list, tuple)):
        shown = [_item(each) for each in value[:ITEMS_SHOWN]]
        if len(value) > ITEMS_SHOWN:
            last = _item(value[-1]).rpartition("..")[2]
            shown.append(f"and {len(value) - ITEMS_SHOWN} more to {last}")
        return f"{name} {' '.join(shown)}" if shown else ""
    return "" if value == 0 and name in _NO_MATTER_IF_0 else f"{name} {_item(value)}"


def _item(value: Any) -> str:
    """A number, a word, or a run of offsets: `3`, `9..11`, `4..7x2` if that was for the second time."""
    if isinstance(value, EpochStart):
        return f"{value.epoch}@{value.start}"
    if isinstance(value, tuple):
        start, end = value if isinstance(value, OffsetRange) else (value[0], value[0] + value[1])
        run = f"{start}" if end == start + 1 else f"{start}..{end - 1}"
        if isinstance(value, OffsetRange) or len(value) == 2:
            return run
        return f"{run}x{value[2]}" if isinstance(value[2], int) else f"{run}:{value[2]}"
    text = str(value)
    return text if _BARE.fullmatch(text) else _encode(text).decode()


def _text(data: bytes) -> str:
    shown = data[:LONGEST_BYTES]
    more = "..." if len(data) > LONGEST_BYTES else ""
    try:
        text = shown.decode("ascii")
    except UnicodeDecodeError:
        return "0x" + shown.hex() + more
    return text + more if text.isprintable() else "0x" + shown.hex() + more
