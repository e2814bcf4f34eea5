"""What the page shows, whatever it was made from: steps of nodes in one order, and what befell the world.

A `Chart` is made from a failure bundle or from the trace of a simulated run (`from_trace.py`), or from the
traces that real nodes have written (`from_nodes.py`). Then it is made small enough (`reducing.py`)
and written (`writing.py`).

State is kept as changes: each step says which values it gave to which names of its node, as in a bundle
(`explain/states.py`): `raft term`, `7/0 LEO` for partition 7/0. Beside these stands `disk 31` for
the write with ticket 31 that is not synced yet. None ends a name; the start of a process ends all of them.
"""

from __future__ import annotations

from typing import Any

import msgspec

CLIENTS, NATS = -1, -2
"""Lanes beside those of the nodes."""
RAFT = "raft"
START, MESSAGE, TIMER, DISK, CLIENT, BUS, OTHER = range(7)
"""What kind of event a step takes in."""


class Arrival(msgspec.Struct, array_like=True):
    """The message that a step took in, where it is known which step sent it."""

    name: str
    sender: int
    """A node, or one of the lanes beside."""
    sent: int = -1
    """Place of the step that sent it; -1 = unknown, or not a node."""


class ChartStep(msgspec.Struct, kw_only=True, array_like=True):
    """One step of one node. `causes`: places of earlier steps, but for the one before it on the same node."""

    number: int
    """Place in the file, from 0 on; it stays when others are left out."""
    at_us: int
    node: int
    kind: int
    words: str
    effects: list[str]
    changes: dict[str, Any]
    causes: list[int]
    arrival: Arrival | None = None
    departures: list[tuple[int, str]] = []
    """What goes to clients and NATS: the lane, and what."""
    unheard: list[tuple[int, str]] = []
    """Messages that nobody received: the node they were for, and their name."""
    label: str = ""
    """A few words, if this step is worth naming in the diagram."""


class Mark(msgspec.Struct):
    """Something that befell the world before a step: a fault, a stop, healing."""

    before: int
    at_us: int
    what: str
    detail: str
    node: int = 0


class Verdict(msgspec.Struct, kw_only=True):
    """What is wrong: the invariant and its rule, or a step that the model does not explain."""

    name: str
    finding: str
    rule: str = ""
    sentence: str = ""
    at_step: int = msgspec.field(default=-1, name="step")
    node: int = 0
    at_us: int = 0
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}


class StoryLine(msgspec.Struct):
    """One thing that led to the violation. `at_step`: at which; -1 = it is none of a node's steps."""

    at_step: int
    words: str


class Chart(msgspec.Struct, kw_only=True):
    """See the module."""

    title: str
    source: str
    """Which kind of file it is made from, for people."""
    clocks: bool
    """Whether the times of different nodes can be compared."""
    facts: list[tuple[str, str]] = []
    replay: str = ""
    nodes: list[int]
    logs: dict[str, str]
    """Name of each log by the beginning of its names: `raft`, `7/0`."""
    steps: list[ChartStep]
    marks: list[Mark] = []
    violation: Verdict | None = None
    disagreement: Verdict | None = None
    story: list[StoryLine] = []
    """What led to the violation, causes first."""
    notes: list[str] = []
    """What was left out, and why."""


def log_key(raw: Any) -> str:
    """The beginning of a log's names, from a partition as a trace holds it."""
    stream, index = (raw["stream"], raw["index"]) if isinstance(raw, dict) else raw
    return f"{stream}/{index}" if stream else RAFT
