"""Plots over the time of a run as inline SVG: lines, or a dot for each operation, with bands for faults.

Colours come from classes of the page's style, so that the drawings follow its light and dark schemes.
Everything that a history contains passes through `html.escape`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

from liftlog_jepsen.report.shell import legend, text
from liftlog_jepsen.result import printable

WIDTH = 960
LEFT, RIGHT, TOP, BOTTOM = 84, 12, 12, 24
HEIGHT = 170
TICK_STEPS = (1, 2, 5)
RAW_LAYERS = ("ok", "fail", "info")
"""Later ones are drawn over earlier ones: what went wrong must not hide behind what went well."""


class Frame(NamedTuple):
    """The horizontal axis. Times in nanoseconds; `faults`: (kind, target, begin, end or None)."""

    first: int
    width: int
    moments: int
    faults: Sequence[tuple[str, str, int, int | None]] = ()


class Series(NamedTuple):
    """One line of a plot; a None interrupts it. `color`: a class of the page's style."""

    name: str
    color: str
    values: Sequence[float | None]


def plot(
    frame: Frame,
    caption: str,
    series: Sequence[Series],
    show: Callable[[float], str],
    logarithmic: bool = False,
) -> str:
    """One figure over the whole run. `show` turns a value of the vertical axis into words."""
    known = [value for one in series for value in one.values if value is not None]
    scale = _logarithmic_scale(known) if logarithmic else _linear_scale(known)
    parts = []
    for one in series:
        parts += _line(one, scale, frame, show)
    keys = legend((one.name, one.color) for one in series)
    return _figure(frame, scale, show, caption, keys, parts)


def raw_plot(
    frame: Frame, caption: str, raw: Sequence[tuple[int, int, str]], show: Callable[[float], str]
) -> str:
    """A dot for each of some operations: (time of completion, duration, outcome)."""
    scale = _logarithmic_scale([took for _, took, _ in raw])
    span = frame.width * frame.moments
    layers = {outcome: [each for each in raw if each[2] == outcome] for outcome in RAW_LAYERS}
    parts = []
    for outcome, dots in layers.items():
        # One path for all dots of a layer: far smaller than an element each.
        path = "".join(
            f"M{LEFT + (time - frame.first) / span * (WIDTH - LEFT - RIGHT):.0f} "
            f"{TOP + HEIGHT * (1 - scale.share(took)):.0f}h0"
            for time, took, _ in dots
        )
        if path:
            parts.append(f'<path class="dots line-{outcome}" d="{path}"/>')
    names = {"ok": "ok", "fail": "failed", "info": "outcome unknown"}
    keys = legend((names[outcome], outcome) for outcome, dots in layers.items() if dots)
    return _figure(frame, scale, show, caption, keys, parts)


class _Scale(NamedTuple):
    ticks: tuple[float, ...]
    share: Callable[[float], float]


def _figure(
    frame: Frame, scale: _Scale, show: Callable[[float], str], caption: str, keys: str, body: Sequence[str]
) -> str:
    span_ns = frame.width * frame.moments
    parts = [f'<svg class="plot" viewBox="0 0 {WIDTH} {TOP + HEIGHT + BOTTOM}" role="img">']
    parts += _bands(frame, span_ns)
    for value in scale.ticks:
        y = TOP + HEIGHT * (1 - scale.share(value))
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(_label(LEFT - 6, y + 4, "end", show(value)))
    parts += _time_ticks(span_ns / 1e9)
    parts += body
    parts.append("</svg>")
    return (
        f'<figure><figcaption>{text(caption)}:{keys}</figcaption><div class="plotbox">{"".join(parts)}</div>'
        "</figure>\n"
    )


def _linear_scale(values: Sequence[float]) -> _Scale:
    highest = max(values, default=0) or 1
    step = round_step(highest / 4)
    top = math.ceil(highest / step) * step
    ticks = tuple(step * number for number in range(round(top / step) + 1))
    return _Scale(ticks, lambda value: value / top)


def _logarithmic_scale(values: Sequence[float]) -> _Scale:
    positive = [value for value in values if value > 0] or [1.0]
    low, high = math.floor(math.log10(min(positive))), math.ceil(math.log10(max(positive)))
    high = max(high, low + 1)
    ticks = tuple(10.0**power for power in range(low, high + 1))
    return _Scale(ticks, lambda value: (math.log10(max(value, 10.0**low)) - low) / (high - low))


def round_step(rough: float) -> float:
    """The next number of the form 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(rough)) if rough > 0 else 1.0
    return next((power * step for step in TICK_STEPS if power * step >= rough), power * 10)


def _line(one: Series, scale: _Scale, frame: Frame, show: Callable[[float], str]) -> list[str]:
    step = (WIDTH - LEFT - RIGHT) / frame.moments
    runs: list[list[tuple[float, float]]] = [[]]
    hits = []
    for number, value in enumerate(one.values):
        if value is None:
            runs.append([])
            continue
        x, y = LEFT + (number + 0.5) * step, TOP + HEIGHT * (1 - scale.share(value))
        runs[-1].append((x, y))
        words = f"{one.name}: {show(value)} at {number * frame.width / 1e9:.2f} s"
        hit = f'<circle class="hit" cx="{x:.1f}" cy="{y:.1f}" r="5">'
        hits.append(f"{hit}<title>{escape(words)}</title></circle>")
    lines = []
    for run in runs:
        if len(run) == 1:
            x, y = run[0]
            lines.append(f'<circle class="dot-{one.color}" cx="{x:.1f}" cy="{y:.1f}" r="2"/>')
        elif run:
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in run)
            lines.append(f'<polyline class="line-{one.color}" points="{points}"/>')
    return lines + hits


def _label(x: float, y: float, anchor: str, words: str) -> str:
    return f'<text class="tick" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _bands(frame: Frame, span_ns: int) -> list[str]:
    """Every fault as a band behind the plot."""
    scale = (WIDTH - LEFT - RIGHT) / span_ns
    bands = []
    for kind, target, start_ns, end_ns in frame.faults:
        if start_ns > frame.first + span_ns or (end_ns is not None and end_ns < frame.first):
            continue
        low = max(start_ns - frame.first, 0)
        high = span_ns if end_ns is None else min(end_ns - frame.first, span_ns)
        words = fault_words(
            kind, target, start_ns - frame.first, None if end_ns is None else end_ns - frame.first
        )
        x, width = LEFT + low * scale, max((high - low) * scale, 2)
        bands.append(
            f'<rect class="band" x="{x:.1f}" y="{TOP}" width="{width:.1f}" height="{HEIGHT}">'
            f"<title>{escape(words)}</title></rect>"
        )
    return bands


def fault_words(kind: str, target: str, start_ns: int, end_ns: int | None) -> str:
    """A fault and when it was, in nanoseconds since the run began."""
    words = f"{kind}: {target}" if target else kind
    words += f", from {start_ns / 1e9:.2f} s"
    return printable(words + (" to the end" if end_ns is None else f" to {end_ns / 1e9:.2f} s"))


def rate(value: float) -> str:
    """So many per second."""
    return f"{value:,.0f}/s" if value >= 10 or value == 0 else f"{value:.1f}/s"


def _time_ticks(high_s: float) -> list[str]:
    """Ticks of the horizontal axis, in seconds since the run's first operation."""
    step = round_step(max(high_s, 1e-9) / 8)
    decimals = max(0, -math.floor(math.log10(step)))
    y = TOP + HEIGHT
    parts = []
    for tick in range(math.floor(high_s / step) + 1):
        x = LEFT + tick * step / high_s * (WIDTH - LEFT - RIGHT)
        parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{y:.1f}" y2="{y + 4:.1f}"/>')
        parts.append(_label(x, y + 16, "middle", f"{tick * step:.{decimals}f} s"))
    return parts
