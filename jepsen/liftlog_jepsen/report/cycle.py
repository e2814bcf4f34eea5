"""A cycle of transactions as a drawing: boxes in a ring, an arrow for each dependency, each step in words.

Arrows are named as in Adya's definitions: `ww` the second overwrote what the first wrote, `wr` it
read what the first wrote, `rw` it wrote over what the first had read; `process` and `realtime` say only which
of the two came first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from liftlog_jepsen.events import OK, Operation
from liftlog_jepsen.report.operation_text import (
    answered,
    call,
    clip,
    describe,
    micro,
    micro_operations,
    sentence,
    show,
)
from liftlog_jepsen.report.shell import text
from liftlog_jepsen.result import printable

EDGES = {
    "ww": "overwrites",
    "wr": "is read by",
    "rw": "is overwritten unseen by",
    "process": "comes before, in one process,",
    "realtime": "ended before the start of",
}
"""What an arrow says about the transactions at its two ends, as a verb between them."""

WIDTH = 640
BOX, COMPACT = 196, 64
LINE = 15
CHARACTERS = 26
"""Characters that fit into a line of a box."""
LINES_MAX = 4
"""Steps of a transaction that its box shows."""
DETAILED_MAX = 6
"""Transactions in a cycle whose boxes show their steps; in a longer one they have only their numbers."""
DRAWN_MAX = 24
"""Transactions in a cycle that is drawn at all."""


class CycleBox(NamedTuple):
    """What a box says: its name, who acted, what was done, one line each, and all of it in words."""

    name: str
    who: str
    lines: tuple[str, ...]
    words: str


class _Box(NamedTuple):
    node: CycleBox
    x: float
    y: float
    width: float
    height: float


def transaction_nodes(
    steps: Sequence[Mapping[str, Any]], operations: Mapping[int, Operation]
) -> dict[int, CycleBox]:
    """The boxes of transactions, as far as their operations are at hand."""
    nodes = {}
    for step in steps:
        operation = operations.get(step["from"])
        if operation is not None:
            who = f"process {printable(str(operation.process))}"
            lines = _lines(operation, steps)
            nodes[step["from"]] = CycleBox(f"T{step['from']}", who, lines, describe(operation))
    return nodes


def cycle_figure(steps: Sequence[Mapping[str, Any]], nodes: Mapping[int, CycleBox]) -> str:
    """The drawing and its steps beside it. What has no node in `nodes` is drawn by number alone."""
    known = {step["from"]: _bare(step["from"]) for step in steps} | dict(nodes)
    told = "".join(
        f'<li data-step="{place}"><b>{text(known[step["from"]].name)} <span class="edge-name {_kind(step)}">'
        f"{text(_name(step))}</span> {text(known[step['to']].name)}</b> "
        f"{text(sentence(str(step.get('words') or '')))}</li>"
        for place, step in enumerate(steps)
    )
    listed = f'<ol class="steps">{told}</ol>'
    if len(steps) > DRAWN_MAX:
        listed = (
            f'<p class="soft">{len(steps)} transactions: too many to draw; these are the steps.</p>{listed}'
        )
        return f'<div class="cycle">{listed}</div>\n'
    return f'<div class="cycle">{_drawing(steps, known)}{listed}</div>\n'


def _bare(number: int) -> CycleBox:
    return CycleBox(f"T{number}", "", (), f"T{number}")


def _kind(step: Mapping[str, Any]) -> str:
    """The class of an edge; a kind that nobody knows has the look of an order without data."""
    edge = str(step["edge"])
    return edge if edge in EDGES else "process"


def _name(step: Mapping[str, Any]) -> str:
    key = step.get("key")
    edge = clip(printable(str(step["edge"])), 14)
    return edge if key is None else f"{edge} {clip(printable(str(key)), 14)}"


def _drawing(steps: Sequence[Mapping[str, Any]], nodes: Mapping[int, CycleBox]) -> str:
    count = len(steps)
    detailed = count <= DETAILED_MAX
    shown = [nodes[step["from"]] for step in steps]
    if not detailed:
        shown = [node._replace(who="", lines=()) for node in shown]
    tallest = 24 + LINE * max(len(node.lines) for node in shown)
    width = BOX if detailed else COMPACT
    ring_x = WIDTH / 2 - width / 2 - (6 if detailed else 25)
    ring_y = 0.0 if count == 2 else (tallest + 46 if detailed else 40) * max(1.0, count / 4)
    boxes = []
    for place, node in enumerate(shown):
        angle = 2 * math.pi * place / count + (math.pi if count == 2 else -math.pi / 2)
        x, y = WIDTH / 2 + ring_x * math.cos(angle), ring_y * math.sin(angle)
        boxes.append(_Box(node, x, y, width, 24 + LINE * len(node.lines)))
    room = 75 if count == 2 else 30
    top = min(box.y - box.height / 2 for box in boxes) - room
    height = max(box.y + box.height / 2 for box in boxes) + room - top
    boxes = [box._replace(y=box.y - top) for box in boxes]
    parts = [f'<svg class="ring" viewBox="0 0 {WIDTH} {height:.0f}" role="img">']
    parts += [
        _arrow(place, step, boxes[place], boxes[(place + 1) % count]) for place, step in enumerate(steps)
    ]
    parts += [_node(box) for box in boxes]
    parts.append("</svg>")
    return f'<div class="drawing">{"".join(parts)}</div>'


def _lines(operation: Operation, steps: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    """What a transaction's box says: its steps on the keys of the cycle before all others."""
    parts = micro_operations(answered(operation))
    if parts is None:
        return (clip(call(operation), CHARACTERS),)
    keys = {str(step["key"]) for step in steps if step.get("key") is not None}
    mine = [place for place, part in enumerate(parts) if len(part) > 1 and show(part[1]).strip('"') in keys]
    order = mine + [place for place in range(len(parts)) if place not in mine]
    chosen = sorted(order[:LINES_MAX])
    lines = [micro(parts[place], CHARACTERS, operation.outcome == OK) for place in chosen]
    more = len(parts) - len(chosen)
    return (*lines, f"… {more} more") if more else tuple(lines)


def _node(box: _Box) -> str:
    left, top = box.x - box.width / 2, box.y - box.height / 2
    rows = "".join(
        f'<text class="mop" x="{left + 9:.1f}" y="{top + 32 + LINE * place:.1f}">{text(line)}</text>'
        for place, line in enumerate(box.node.lines)
    )
    title = " · ".join(filter(None, (box.node.name, clip(box.node.who, 20))))
    return (
        f'<g class="node"><title>{text(box.node.words)}</title>'
        f'<rect x="{left:.1f}" y="{top:.1f}" width="{box.width:.0f}" height="{box.height:.0f}" rx="5"/>'
        f'<text class="who" x="{left + 9:.1f}" y="{top + 16:.1f}">{text(title)}</text>'
        f"{rows}</g>"
    )


def _arrow(place: int, step: Mapping[str, Any], source: _Box, target: _Box) -> str:
    """A curve that bends away from the middle of the ring, with its name half-way."""
    dx, dy = target.x - source.x, target.y - source.y
    length = math.hypot(dx, dy) or 1.0
    bend = (source.height / 2 + 78) if dy == 0 and abs(dx) > BOX else 0.16 * length
    cx = (source.x + target.x) / 2 + dy / length * bend
    cy = (source.y + target.y) / 2 - dx / length * bend
    x1, y1 = _border(source, cx, cy, 1)
    x2, y2 = _border(target, cx, cy, 5)
    mx, my = 0.25 * x1 + 0.5 * cx + 0.25 * x2, 0.25 * y1 + 0.5 * cy + 0.25 * y2
    name = _name(step)
    half = len(name) * 3.3 + 6
    mx = min(max(mx, half + 1), WIDTH - half - 1)
    angle = math.atan2(y2 - cy, x2 - cx)
    head = " ".join(
        f"{x2 + 4 * math.cos(angle) - reach * math.cos(angle + turn):.1f},"
        f"{y2 + 4 * math.sin(angle) - reach * math.sin(angle + turn):.1f}"
        for reach, turn in ((0, 0.0), (10, 0.42), (10, -0.42))
    )
    words = f"{source.node.name} {EDGES.get(str(step['edge']), 'comes before')} {target.node.name}"
    if step.get("words"):
        words += f": {step['words']}"
    return (
        f'<g class="edge {_kind(step)}" data-step="{place}"><title>{escape(sentence(words))}</title>'
        f'<path class="reach" d="M{x1:.1f} {y1:.1f}Q{cx:.1f} {cy:.1f} {x2:.1f} {y2:.1f}"/>'
        f'<path class="way" d="M{x1:.1f} {y1:.1f}Q{cx:.1f} {cy:.1f} {x2:.1f} {y2:.1f}"/>'
        f'<polygon points="{head}"/>'
        f'<rect class="chip" x="{mx - half:.1f}" y="{my - 9:.1f}" width="{2 * half:.1f}" height="18" rx="9"/>'
        f'<text x="{mx:.1f}" y="{my + 4:.1f}" text-anchor="middle">{escape(name)}</text></g>'
    )


def _border(box: _Box, x: float, y: float, gap: float) -> tuple[float, float]:
    """Where the way from a box's middle to a point leaves the box, `gap` pixels outside of it."""
    dx, dy = x - box.x, y - box.y
    if not dx and not dy:
        return box.x, box.y
    reach = min(
        (box.width / 2 + gap) / abs(dx) if dx else math.inf,
        (box.height / 2 + gap) / abs(dy) if dy else math.inf,
    )
    return box.x + dx * reach, box.y + dy * reach
