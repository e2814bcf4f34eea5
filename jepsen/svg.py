"""The drawings of the HTML report as inline SVG: plots over time with fault bands, and a timeline.

Colours come from CSS variables of the page, so that the drawings follow its light and dark schemes.
Everything that a history contains passes through `html.escape`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from jepsen.result import Lane, Picture, printable, shorten

WIDTH = 960
LEFT, RIGHT, TOP, BOTTOM = 84, 12, 12, 24
PLOT_HEIGHT = 170
ROW_HEIGHT = 11
LEVELS_MAX = 14
"""Rows of one process in the timeline; operations beyond that share the last row."""
TICK_STEPS = (1, 2, 5)


class Series(NamedTuple):
    """One line of a plot; a None interrupts it."""

    name: str
    color: str
    values: Sequence[float | None]


def plot(
    picture: Picture,
    t_first_ns: int,
    series: Sequence[Series],
    show: Callable[[float], str],
    logarithmic: bool = False,
) -> str:
    """One plot over the whole run. `show` turns a value of the vertical axis into words."""
    span_ns = picture.width_ns * len(picture.moments)
    known = [value for one in series for value in one.values if value is not None]
    scale = _logarithmic_scale(known) if logarithmic else _linear_scale(known)
    height = TOP + PLOT_HEIGHT + BOTTOM
    parts = [f'<svg viewBox="0 0 {WIDTH} {height}" role="img">']
    parts += _bands(picture, t_first_ns, t_first_ns, span_ns, PLOT_HEIGHT)
    for value in scale.ticks:
        y = TOP + PLOT_HEIGHT * (1 - scale.share(value))
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_label(LEFT - 6, y + 4, "end", show(value)))
    parts += _time_ticks(0.0, span_ns / 1e9, TOP + PLOT_HEIGHT)
    step = (WIDTH - LEFT - RIGHT) / len(picture.moments)
    for one in series:
        parts += _line(one, scale, step, show, picture.width_ns)
    parts.append("</svg>")
    return "".join(parts)


class _Scale(NamedTuple):
    ticks: tuple[float, ...]
    share: Callable[[float], float]


def _linear_scale(values: Sequence[float]) -> _Scale:
    highest = max(values, default=0) or 1
    step = _round_step(highest / 4)
    top = math.ceil(highest / step) * step
    ticks = tuple(step * number for number in range(round(top / step) + 1))
    return _Scale(ticks, lambda value: value / top)


def _logarithmic_scale(values: Sequence[float]) -> _Scale:
    positive = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    high = max(high, low + 1)
    ticks = tuple(10.0**power for power in range(low, high + 1))
    return _Scale(ticks, lambda value: (math.log10(max(value, 10.0**low)) - low) / (high - low))


def _round_step(rough: float) -> float:
    """The next number of the form 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next((power * step for step in TICK_STEPS if power * step >= rough), power * 10)


def _line(one: Series, scale: _Scale, step: float, show: Callable[[float], str], width_ns: int) -> list[str]:
    runs: list[list[tuple[float, float]]] = [[]]
    dots = []
    for number, value in enumerate(one.values):
        if value is None:
            runs.append([])
            continue
        x, y = LEFT + (number + 0.5) * step, TOP + PLOT_HEIGHT * (1 - scale.share(value))
        runs[-1].append((x, y))
        words = f"{one.name}: {show(value)} at {number * width_ns / 1e9:.2f} s"
        hit = f'<circle class="hit" cx="{x:.1f}" cy="{y:.1f}" r="5">'
        dots.append(f"{hit}<title>{escape(words)}</title></circle>")
    lines = []
    for run in runs:
        if len(run) == 1:
            x, y = run[0]
            lines.append(f'<circle style="fill:var({one.color})" cx="{x:.1f}" cy="{y:.1f}" r="2"/>')
        elif run:
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in run)
            lines.append(f'<polyline style="stroke:var({one.color})" points="{points}"/>')
    return lines + dots


def _label(x: float, y: float, anchor: str, words: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _bands(picture: Picture, t_first_ns: int, low_ns: int, span_ns: int, height: float) -> list[str]:
    """Every fault that touches the span from `low_ns` on, as a band behind the plot."""
    scale = (WIDTH - LEFT - RIGHT) / span_ns
    bands = []
    for kind, target, start_ns, end_ns in picture.faults:
        if start_ns > low_ns + span_ns or (end_ns is not None and end_ns < low_ns):
            continue
        low = max(start_ns - low_ns, 0)
        high = span_ns if end_ns is None else min(end_ns - low_ns, span_ns)
        words = f"{printable(kind)}: {printable(target)}, from {(start_ns - t_first_ns) / 1e9:.2f} s"
        words += " to the end" if end_ns is None else f" to {(end_ns - t_first_ns) / 1e9:.2f} s"
        x, width = LEFT + low * scale, max((high - low) * scale, 2)
        bands.append(
            f'<rect class="band" x="{x:.1f}" y="{TOP}" width="{width:.1f}" height="{height:.0f}">'
            f"<title>{escape(words)}</title></rect>"
        )
    return bands


def _time_ticks(low_s: float, high_s: float, y: float) -> list[str]:
    """Ticks of the horizontal axis, in seconds since the run's first operation."""
    step = _round_step(max(high_s - low_s, 1e-9) / 8)
    decimals = max(0, -math.floor(math.log10(step)))
    number, last = math.ceil(low_s / step), math.floor(high_s / step)
    parts = []
    for tick in range(number, last + 1):
        x = LEFT + (tick * step - low_s) / (high_s - low_s or 1) * (WIDTH - LEFT - RIGHT)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{y + 4:.1f}"/>')
        parts.append(_label(x, y + 16, "middle", f"{tick * step:.{decimals}f} s"))
    return parts


# -- timeline ------------------------------------------------------------------------------------------------


def timeline(picture: Picture, t_first_ns: int, marked: frozenset[int]) -> str:
    """A lane for each process, a bar for each operation; those in `marked` stand out.

    An operation that never completed reaches to the right edge.
    """
    lanes = picture.lanes
    if not lanes:
        return ""
    low_ns = min(lane.t_inv_ns for lane in lanes)
    high_ns = max(lane.t_inv_ns if lane.t_ret_ns is None else lane.t_ret_ns for lane in lanes)
    span_ns = max(high_ns - low_ns, 1)
    low_ns, span_ns = low_ns - span_ns // 40, span_ns + span_ns // 20 + 2
    scale = (WIDTH - LEFT - RIGHT) / span_ns
    y, body, rules = float(TOP), [], []
    for process in sorted({lane.process for lane in lanes}):
        mine = sorted((lane for lane in lanes if lane.process == process), key=lambda lane: lane.idx_inv)
        levels = _levels(mine, 3 / scale)
        name = printable(next((lane.client for lane in mine if lane.client), None) or f"process {process}")
        height = (max(levels) + 1) * ROW_HEIGHT + 6
        rules.append(f'<line class="grid" x1="0" x2="{WIDTH}" y1="{y + height:.1f}" y2="{y + height:.1f}"/>')
        title = f"<title>{escape(name)}, process {process}</title>"
        rules.append(f'<text class="lane" x="4" y="{y + 12:.1f}">{escape(_clip(name))}{title}</text>')
        for lane, level in zip(mine, levels, strict=True):
            x = LEFT + (lane.t_inv_ns - low_ns) * scale
            end_ns = low_ns + span_ns if lane.t_ret_ns is None else lane.t_ret_ns
            body.append(
                _bar(lane, x, max((end_ns - lane.t_inv_ns) * scale, 2.5), y + 3 + level * ROW_HEIGHT, marked)
            )
        y += height
    shift_s = (low_ns - t_first_ns) / 1e9
    parts = [f'<svg viewBox="0 0 {WIDTH} {y + BOTTOM:.0f}" role="img">']
    parts += _bands(picture, t_first_ns, low_ns, span_ns, y - TOP)
    parts += rules + body + _time_ticks(shift_s, shift_s + span_ns / 1e9, y)
    parts.append("</svg>")
    return "".join(parts)


def _levels(lanes: Sequence[Lane], gap_ns: float) -> list[int]:
    """A row for each operation of a process, so that operations at the same time lie below each other."""
    free_ns = [-math.inf] * LEVELS_MAX
    levels = []
    for lane in lanes:
        level = next((n for n, free in enumerate(free_ns) if free <= lane.t_inv_ns), LEVELS_MAX - 1)
        end_ns = math.inf if lane.t_ret_ns is None else lane.t_ret_ns
        free_ns[level] = max(free_ns[level], max(end_ns, lane.t_inv_ns + gap_ns))
        levels.append(level)
    return levels


def _bar(lane: Lane, x: float, width: float, y: float, marked: frozenset[int]) -> str:
    kind = lane.outcome if lane.f == "send" or lane.outcome != "ok" else "read"
    classes = f"bar {kind}" + (" marked" if lane.op_id in marked else "")
    return (
        f'<rect class="{classes}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" '
        f'height="{ROW_HEIGHT - 2}" rx="1.5"><title>{escape(describe(lane))}</title></rect>'
    )


def describe(lane: Lane) -> str:
    """One operation in words."""
    words = [f"#{lane.op_id} {lane.f} {lane.outcome}"]
    if lane.key is not None:
        words.append(f"on {lane.key}")
    if lane.value is not None:
        words.append(shorten(lane.value))
    if lane.records > 1:
        words.append(f"{lane.records:,} records")
    if lane.first_offset is not None:
        same = lane.first_offset == lane.last_offset
        words.append(
            f"at offset {lane.first_offset}"
            if same
            else f"at offsets {lane.first_offset} to {lane.last_offset}"
        )
    if lane.t_ret_ns is None:
        words.append("never answered")
    else:
        words.append(f"took {milliseconds(lane.t_ret_ns - lane.t_inv_ns)}")
    if lane.error is not None:
        words.append(f"({lane.error})")
    return printable(" ".join(words))


def milliseconds(duration_ns: float) -> str:
    """A duration with three figures."""
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if duration_ns >= size:
            return f"{duration_ns / size:.3g} {unit}"
    return f"{duration_ns:.0f} ns"


def _clip(name: str) -> str:
    return name if len(name) <= 12 else name[:11] + "…"
