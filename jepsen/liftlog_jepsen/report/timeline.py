"""Operations in lanes: a bar from invocation to completion, one lane for each client, as inline SVG.

The horizontal axis counts events: each of those shown takes one step, so that what overlaps is plain to see
however unequal the times are. Where the history has times the reader may switch to them. The page's script
moves everything when the reader zooms; without it the picture stands as drawn here, zoomed to the fault.

A linearization is drawn as points under the bars, one for each operation in the order in which they took
effect, joined by a line. Point k lies at the latest invocation among the first k operations: no earlier place
is possible, and if the order respects real time, none of them has ended by then.
"""

from __future__ import annotations

import itertools
import math
import re
from bisect import bisect_left
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from liftlog_jepsen.result import printable

WIDTH = 960
LEFT, TOP, BOTTOM = 96, 8, 24
ROW = 33
BAR = 18
PLAIN_ROW = 22
"""Rows of a picture without points."""
DENSE_ROW, DENSE_BAR, DENSE_LEVELS = 14, 11, 8
"""Rows of a picture without points in which a lane holds more than so many operations at a time."""
LANES_MAX = 40
LEVELS_MAX = 14
"""Rows of one lane; operations beyond that share the last row."""
CHARACTER = 6.3
"""Width of a character in a bar."""
GAP = 3
"""Room below the last row of a lane."""
VIEW_MIN = 14
"""Steps of the first view, if there are so many."""
MARGIN = 0.6
"""Steps left and right of all events."""


class TimelineBar(NamedTuple):
    """One operation. `start`, `end`: positions of its events, `end` None = open for ever. `kind`: the class
    that colours it. `words`: what the pointer tells. `mark`: stuck, named or none.
    """

    id: int
    lane: str
    start: int
    end: int | None
    kind: str
    label: str
    words: str
    mark: str = ""
    time: int = -1
    end_time: int = -1


class Band(NamedTuple):
    """A fault, in positions; `end` None = to the right edge."""

    start: float
    end: float | None
    words: str


class Point(NamedTuple):
    """One operation of a linearization: the bar's id and what is so after it."""

    id: int
    words: str
    number: int


class Timeline(NamedTuple):
    """What is drawn. `focus`: ids of what the first view shows. `stuck`: ids of what could come
    next in time, each with the reason why it does not help, and whether the object allows it nevertheless.
    """

    bars: Sequence[TimelineBar]
    focus: Sequence[int] = ()
    points: Sequence[Point] = ()
    stuck: Sequence[tuple[int, str, bool]] = ()
    bands: Sequence[Band] = ()
    by_time: bool = False
    """Whether the first view goes by time rather than by events."""
    origin: int = 0
    """The time, in nanoseconds, that the axis calls 0."""


class _Axis:
    """Steps for events: event number r of those shown lies at r, whatever its position in the history."""

    def __init__(self, shown: Timeline) -> None:
        times: dict[int, int] = {}
        for bar in shown.bars:
            times[bar.start] = bar.time
            if bar.end is not None:
                times[bar.end] = bar.end_time
        self.positions = sorted(times)
        self.times = [times[position] for position in self.positions]
        ascending = all(a <= b for a, b in zip(self.times, self.times[1:], strict=False))
        self.timed = len(self.times) > 1 and ascending and 0 <= self.times[0] < self.times[-1]
        self.low, self.high = -MARGIN, len(self.positions) - 1 + MARGIN

    def step(self, position: float | None) -> float:
        """Where an event lies; between two events, in the middle. None is the right edge."""
        if position is None:
            return self.high
        rank = bisect_left(self.positions, position)
        if rank < len(self.positions) and self.positions[rank] == position:
            return float(rank)
        return max(self.low, rank - 0.5)


def timeline(shown: Timeline) -> str:
    """The figure, with its tools, which the script brings to life. Nothing for no operations."""
    if not shown.bars:
        return ""
    axis = _Axis(shown)
    lanes, dropped = _lanes(shown)
    kept = [bar for bars in lanes.values() for bar in bars]
    view = _view(shown, axis, kept)
    row, rows, tops, bottom = _rows(lanes, axis, view, pointed=bool(shown.points or shown.stuck))
    draw = _Drawing(shown, axis, view, rows, row)
    parts = [f'<svg class="lanes" viewBox="0 0 {WIDTH} {bottom + BOTTOM:.0f}" role="img">']
    parts += _names(tops, row)
    parts.append(
        f'<svg class="area" x="{LEFT}" y="0" width="{WIDTH - LEFT}" height="{bottom:.0f}" '
        f'viewBox="0 0 {WIDTH - LEFT} {bottom:.0f}" preserveAspectRatio="none">'
    )
    parts += [draw.band(band, bottom - TOP) for band in shown.bands]
    for place, bars in enumerate(lanes.values()):
        parts += [draw.bar(bar, place) for bar in bars]
    parts += draw.linearization()
    parts.append(f'</svg><g class="ticks" data-y="{bottom:.0f}">{"".join(draw.ticks(bottom))}</g></svg>')
    note = f'<p class="soft">{dropped:,} operations of other clients are left out.</p>' if dropped else ""
    return f"<div {_settings(shown, axis, view)}>{_tools(shown, axis)}{''.join(parts)}{note}</div>\n"


def _settings(shown: Timeline, axis: _Axis, view: tuple[float, float]) -> str:
    settings = {
        "class": "timeline",
        "tabindex": "0",
        "role": "group",
        "aria-label": "Timeline. Plus and minus zoom, arrows move, n and p go through the operations, "
        "brackets through the linearization, 0 returns to the fault.",
        "data-low": f"{view[0]:.2f}",
        "data-high": f"{view[1]:.2f}",
        "data-first": f"{axis.low:.2f}",
        "data-last": f"{axis.high:.2f}",
        "data-axis": "time" if shown.by_time and axis.timed else "order",
        "data-rows": "fixed" if shown.points or shown.stuck else "free",
        "data-positions": " ".join(map(str, axis.positions)),
    }
    if axis.timed:
        settings["data-times"] = " ".join(str(time - shown.origin) for time in axis.times)
    return " ".join(f'{name}="{escape(value)}"' for name, value in settings.items())


def _tools(shown: Timeline, axis: _Axis) -> str:
    """Buttons, hidden until the script runs."""
    buttons = [
        ("left", "◀", "move left (arrow keys)"),
        ("right", "▶", "move right (arrow keys)"),
        ("out", "&minus;", "zoom out (minus key)"),
        ("in", "+", "zoom in (plus key)"),
        ("fault", "fault", "back to the first view (0)"),
        ("all", "all", "everything that is drawn (a)"),
    ]
    if axis.timed:
        buttons.append(("axis", "by time" if not shown.by_time else "by event", "what the axis counts (t)"))
    if shown.points:
        buttons += [
            ("back", "&lsaquo; step", "linearization: one back ([)"),
            ("next", "step &rsaquo;", "and one on (])"),
        ]
    row = "".join(
        f'<button type="button" data-do="{do}" title="{escape(words)}">{face}</button>'
        for do, face, words in buttons
    )
    return f'<div class="tools" hidden>{row}<output></output></div>'


# -- lanes ---------------------------------------------------------------------------------------------------


def _lanes(shown: Timeline) -> tuple[dict[str, list[TimelineBar]], int]:
    """Bars by lane, and how many were left out. With too many clients, or where each has one operation only,
    lanes are shared by bars that do not overlap; with still too many, those with nothing of interest go.
    """
    lanes: dict[str, list[TimelineBar]] = {}
    for bar in sorted(shown.bars, key=lambda one: (one.start, one.id)):
        lanes.setdefault(bar.lane, []).append(bar)
    lanes = dict(sorted(lanes.items(), key=lambda lane: _natural(lane[0])))
    single = len(lanes) > 1 and all(len(bars) == 1 for bars in lanes.values())
    if single or len(lanes) > LANES_MAX // 2:
        packed: list[list[TimelineBar]] = []
        for bar in sorted(shown.bars, key=lambda one: (one.start, one.id)):
            free = next(
                (bars for bars in packed if bars[-1].end is not None and bars[-1].end < bar.start), None
            )
            if free is None:
                packed.append([bar])
            else:
                free.append(bar)
        if len(packed) < len(lanes):
            lanes = {f"lane {number}": bars for number, bars in enumerate(packed, 1)}
    if len(lanes) <= LANES_MAX:
        return lanes, 0
    wanted = {*shown.focus, *(point.id for point in shown.points), *(id for id, _, _ in shown.stuck)}
    weight = {name: sum(bar.id in wanted or bool(bar.mark) for bar in bars) for name, bars in lanes.items()}
    kept = set(sorted(lanes, key=lambda name: -weight[name])[:LANES_MAX])
    dropped = sum(len(bars) for name, bars in lanes.items() if name not in kept)
    return {name: bars for name, bars in lanes.items() if name in kept}, dropped


def _natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """A key that puts process 9 before process 10."""
    parts = re.findall(r"\d+|\D+", name)
    return tuple((part.isdecimal(), int(part) if part.isdecimal() else 0, part) for part in parts)


def _levels(bars: Sequence[TimelineBar]) -> list[int]:
    """A row for each bar of a lane, so that those at the same time lie below each other."""
    free = [-math.inf] * LEVELS_MAX
    levels = []
    for bar in bars:
        level = next((n for n, end in enumerate(free) if end <= bar.start), LEVELS_MAX - 1)
        free[level] = max(free[level], math.inf if bar.end is None else bar.end)
        levels.append(level)
    return levels


def _rows(
    lanes: dict[str, list[TimelineBar]], axis: _Axis, view: tuple[float, float], pointed: bool
) -> tuple[int, dict[int, float], dict[str, float], float]:
    """The height of a row, the upper edge of each bar and of each lane, and the lower edge of all.

    Only bars in view need a row of their own; the script finds rows again when the view moves.
    """
    levels: dict[str, dict[int, int]] = {}
    for name, bars in lanes.items():
        seen = [bar for bar in bars if pointed or _in_view(bar, axis, view)]
        levels[name] = {bar.id: level for bar, level in zip(seen, _levels(seen), strict=True)}
    deepest = {name: max(mine.values(), default=0) for name, mine in levels.items()}
    row = ROW if pointed else DENSE_ROW if max(deepest.values()) >= DENSE_LEVELS else PLAIN_ROW
    rows: dict[int, float] = {}
    tops: dict[str, float] = {}
    y = float(TOP)
    for name, bars in lanes.items():
        tops[name] = y
        rows.update({bar.id: y + 3 + levels[name].get(bar.id, 0) * row for bar in bars})
        y += (deepest[name] + 1) * row + GAP
    return row, rows, tops, y


def _in_view(bar: TimelineBar, axis: _Axis, view: tuple[float, float]) -> bool:
    return axis.step(bar.start) <= view[1] and axis.step(bar.end) >= view[0]


def _names(tops: dict[str, float], row: int) -> list[str]:
    parts = []
    for name, top in tops.items():
        shown = printable(name)
        short = shown if len(shown) <= 13 else shown[:12] + "…"
        parts.append(
            f'<g class="head" transform="translate(0 {top:.1f})"><line class="grid" x1="0" x2="100%"/>'
            f'<text class="lane" x="4" y="{13 if row == DENSE_ROW else 16}">{escape(short)}'
            f"<title>{escape(shown)}</title></text></g>"
        )
    return parts


def _view(shown: Timeline, axis: _Axis, bars: Sequence[TimelineBar]) -> tuple[float, float]:
    """The steps of the first view: the focus with some room, or all if that is not much more.

    What is linearized is looked at where it takes effect, however long ago it was invoked.
    """
    points = dict(_effects(shown, axis))
    focus = set(shown.focus)
    lows, highs = [], []
    for bar in bars:
        if bar.id in focus and bar.id in points:
            lows.append(points[bar.id])
            highs.append(points[bar.id])
        elif bar.id in focus or not focus:
            lows.append(axis.step(bar.start))
            highs.append(axis.step(bar.end) if bar.end is not None else axis.step(bar.start) + 2)
    if not lows:
        return axis.low, axis.high
    low, high = min(lows), max(highs)
    room = max(2.5, (high - low) * 0.2, (VIEW_MIN - (high - low)) / 2)
    view = max(axis.low, low - room), min(axis.high, high + room)
    return (axis.low, axis.high) if view[1] - view[0] > 0.75 * (axis.high - axis.low) else view


def _effects(shown: Timeline, axis: _Axis) -> list[tuple[int, float]]:
    """Where each operation of the linearization takes effect: (id, step), in order.

    Points behind the same invocation share the way to the next event.
    """
    starts = {bar.id: axis.step(bar.start) for bar in shown.bars}
    known = [point.id for point in shown.points if point.id in starts]
    bases = list(itertools.accumulate((starts[id] for id in known), max))
    effects = []
    for base, several in itertools.groupby(zip(bases, known, strict=True), key=lambda pair: pair[0]):
        ids = [id for _, id in several]
        effects += [(id, base + (place + 1) / (len(ids) + 1)) for place, id in enumerate(ids)]
    return effects


# -- shapes --------------------------------------------------------------------------------------------------


def _lines(words: str) -> str:
    """Words of several lines as HTML."""
    return escape("\n".join(map(printable, words.split("\n"))))


class _Drawing:
    """The elements of one timeline at the first view. `data-a` and `data-b` are their places in steps."""

    def __init__(
        self, shown: Timeline, axis: _Axis, view: tuple[float, float], rows: dict[int, float], row: int
    ) -> None:
        self._shown, self._axis, self._rows = shown, axis, rows
        self._height = DENSE_BAR if row == DENSE_ROW else BAR
        self._bars = {bar.id: bar for bar in shown.bars if bar.id in rows}
        self._low, self._span = view[0], max(view[1] - view[0], 1e-9)

    def x(self, step: float) -> float:
        """Pixels from the left edge of the area, at the first view by events."""
        return (step - self._low) / self._span * (WIDTH - LEFT)

    def band(self, band: Band, height: float) -> str:
        low, high = self._axis.step(band.start), self._axis.step(band.end)
        return (
            f'<rect class="band" data-a="{low:.2f}" data-b="{high:.2f}" x="{self.x(low):.1f}" y="{TOP}" '
            f'width="{max(self.x(high) - self.x(low), 2):.1f}" height="{height:.0f}">'
            f"<title>{escape(printable(band.words))}</title></rect>"
        )

    def bar(self, bar: TimelineBar, lane: int) -> str:
        low, high = self._axis.step(bar.start), self._axis.step(bar.end)
        x, width, y = self.x(low), max(self.x(high) - self.x(low), 3), self._rows[bar.id]
        classes = " ".join(filter(None, ("bar", bar.kind, bar.mark, "open" if bar.end is None else "")))
        label = printable(bar.label)
        fits = int((width - 6) / CHARACTER)
        short = label if len(label) <= fits else label[: max(fits - 1, 0)] + "…" if fits > 2 else ""
        hidden = ' style="display:none"' if self._height < BAR else ""
        written = (
            f'<text x="{max(x, 0) + 4:.1f}" y="{y + 13:.1f}" data-label="{escape(label)}"{hidden}>'
            f"{escape(short)}</text>"
        )
        return (
            f'<g class="{classes}" data-id="{bar.id}" data-lane="{lane}" '
            f'data-a="{low:g}" data-b="{high:g}">'
            f"<title>{_lines(bar.words)}</title>"
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{self._height}" rx="2.5"/>'
            f"{written}</g>"
        )

    def linearization(self) -> list[str]:
        """The line, its points, and the operations at which it ends."""
        places = self._places()
        if not places:
            return self._stuck(None, 0.0)
        line = " ".join(f"{self.x(step):.1f},{y:.1f}" for _, step, y in places)
        shape = '<line y1="-8" y2="0"/><circle r="6.5"/><text y="3">'
        dots = [
            self._sign("point", point.id, step, y, point.words, f"{shape}{point.number}</text>")
            for point, step, y in places
        ]
        return [f'<polyline class="order" points="{line}"/>', *self._stuck(places[-1], places[-1][1]), *dots]

    def _sign(self, kind: str, id: int, step: float, y: float, words: str, shape: str) -> str:
        """A mark under a bar: a point of the linearization, or where it ends."""
        return (
            f'<g class="{kind}" data-a="{step:.3f}" data-y="{y:.1f}" data-id="{id}" '
            f'transform="translate({self.x(step):.1f} {y:.1f})">'
            f"<title>{_lines(words)}</title>{shape}</g>"
        )

    def _places(self) -> list[tuple[Point, float, float]]:
        """(point, step, y) in order."""
        points = {point.id: point for point in self._shown.points}
        return [
            (points[id], step, self._rows[id] + BAR + 5)
            for id, step in _effects(self._shown, self._axis)
            if id in self._rows
        ]

    def _stuck(self, last: tuple[Point, float, float] | None, reached: float) -> list[str]:
        parts = []
        for id, words, possible in self._shown.stuck:
            bar = self._bars.get(id)
            if bar is None:
                continue
            start = self._axis.step(bar.start)
            step = start + 0.5 if last is None or start > reached else reached + 0.25
            y = self._rows[id] + BAR + 5
            if last is not None:
                parts.append(
                    f'<line class="jump" data-a="{last[1]:.3f}" data-c="{step:.3f}" '
                    f'x1="{self.x(last[1]):.1f}" x2="{self.x(step):.1f}" y1="{last[2]:.1f}" y2="{y:.1f}"/>'
                )
            cross = '<circle r="6.5"/><path d="M-3 -3L3 3M3 -3L-3 3"/>'
            parts.append(self._sign("block possible" if possible else "block", id, step, y, words, cross))
        return parts

    def ticks(self, y: float) -> list[str]:
        """Some of the events by their positions in the history."""
        low, high = math.ceil(self._low), math.floor(self._low + self._span)
        every = max(1, math.ceil((high - low + 1) / 12))
        parts = []
        for rank in range(max(low, 0), min(high, len(self._axis.positions) - 1) + 1):
            if rank % every == 0:
                x = LEFT + self.x(rank)
                parts.append(
                    f'<text class="tick" x="{x:.1f}" y="{y + 16:.0f}" text-anchor="middle">'
                    f"{self._axis.positions[rank]}</text>"
                )
        return parts
