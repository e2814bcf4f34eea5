"""Percentiles as a picture, the way HdrHistogram's users know it: an SVG with both axes logarithmic.

From left to right stand 0 %, 90 %, 99 %, 99.9 % and so on, each nine as wide as the one before: the place of
a share p is the logarithm of 1 / (1 - p). Upwards stand milliseconds. A line ends where its messages do: of
90,000 nobody can tell 99.9999 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

from liftlog.bench.histogram import Histogram

LEFT, RIGHT, TOP, BOTTOM = 64, 20, 46, 46
PLOT_WIDTH, PLOT_HEIGHT = 620, 300
LEGEND_SAMPLE = 34
LINE_HEIGHT = 22
LETTER_WIDTH = 7.4
"""Of a letter at 13 px, generously."""
POINTS = 240
NINES_MAX = 6
STYLES = {
    "request-reply": ("#94a3b8", "2 3"),
    "responder": ("#64748b", ""),
    "responder-sync": ("#0f172a", ""),
    "liftlog": ("#047857", ""),
    "jetstream-default": ("#1d4ed8", ""),
    "jetstream-always": ("#c2410c", ""),
}
"""System -> colour and dashes; with three replicas all are dashed."""
OTHER = ("#7c3aed", "")
REPLICATED_DASH = "9 4"


@dataclass(frozen=True, slots=True)
class Panel:
    """One set of axes: a title, and for each system its distribution in nanoseconds."""

    title: str
    curves: dict[str, Histogram]


def percentile_picture(panels: Sequence[Panel]) -> str:
    """An SVG with the panels one above the other. ValueError without any."""
    if not panels:
        raise ValueError("a picture needs a panel")
    names = [name for panel in panels for name in panel.curves]
    words = max([len(name) for name in names], default=0)
    longest = max(len(panel.title) for panel in panels)
    width = LEFT + PLOT_WIDTH + RIGHT + LEGEND_SAMPLE + words * LETTER_WIDTH + RIGHT
    width = max(width, LEFT + longest * LETTER_WIDTH * 1.2)
    rows = max([len(panel.curves) for panel in panels])
    height = max(TOP + PLOT_HEIGHT + BOTTOM, TOP + rows * LINE_HEIGHT)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height * len(panels):.0f}" '
        'role="img" font-family="ui-sans-serif, system-ui, sans-serif" font-size="13">',
        f"<title>{escape('; '.join(panel.title for panel in panels))}</title>",
        "<style>.a{fill:#475569}.h{fill:#0f172a;font-size:15px}.g{stroke:#e2e8f0}.d{stroke:#94a3b8}</style>",
        f'<rect width="{width:.0f}" height="{height * len(panels):.0f}" fill="#f8fafc" rx="8"/>',
    ]
    for index, panel in enumerate(panels):
        parts.append(f'<g transform="translate(0 {index * height:.0f})">')
        parts += _panel(panel)
        parts.append("</g>")
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _panel(panel: Panel) -> list[str]:
    curves = {name: histogram for name, histogram in panel.curves.items() if len(histogram)}
    nines = max([log10(len(histogram)) for histogram in curves.values()], default=1.0)
    axes = _Axes(min(NINES_MAX, max(1, ceil(nines))), *_decades(curves))
    parts = [f'<text class="h" x="{LEFT}" y="26">{escape(panel.title)}</text>', *axes.drawn()]
    ends: list[tuple[float, str]] = []
    for name, histogram in curves.items():
        color, dash = style_of(name)
        reach = min(axes.nines, log10(len(histogram)))
        shares = [reach * point / POINTS for point in range(POINTS + 1)]
        values = histogram.at_all([100 * (1 - 10**-nines) for nines in shares])
        points = [
            f"{axes.x(nines):.1f},{axes.y(value / 1e6):.1f}"
            for nines, value in zip(shares, values, strict=True)
        ]
        parts.append(
            f'<polyline fill="none" stroke="{color}" stroke-width="2"{dash} points="{" ".join(points)}"/>'
        )
        ends.append((axes.y(values[-1] / 1e6), name))
    # The names stand in the order in which the lines end, from above.
    for row, (_, name) in enumerate(sorted(ends)):
        color, dash = style_of(name)
        x, y = LEFT + PLOT_WIDTH + RIGHT, TOP + LINE_HEIGHT * row + LINE_HEIGHT / 2
        parts.append(
            f'<path d="M{x} {y}h{LEGEND_SAMPLE - 8}" fill="none" stroke="{color}" stroke-width="2"{dash}/>'
        )
        parts.append(f'<text class="a" x="{x + LEGEND_SAMPLE}" y="{y + 4}">{escape(name)}</text>')
    return parts


def style_of(name: str) -> tuple[str, str]:
    """Colour, and the attribute for dashes or nothing. A number at the end of a name is the replicas."""
    base, _, last = name.rpartition("-")
    color, dash = STYLES.get(base if last.isdigit() else name, OTHER)
    if last.isdigit() and last != "1":
        dash = REPLICATED_DASH
    return color, f' stroke-dasharray="{dash}"' if dash else ""


def _decades(curves: dict[str, Histogram]) -> tuple[int, int]:
    """Powers of ten of milliseconds between which everything lies."""
    least = min([histogram.at(0) for histogram in curves.values()], default=100_000)
    greatest = max([histogram.greatest for histogram in curves.values()], default=1_000_000)
    low = floor(log10(max(least, 1000) / 1e6))
    return low, max(low + 1, ceil(log10(max(greatest, 1000) / 1e6)))


@dataclass(frozen=True, slots=True)
class _Axes:
    """`nines` decades of 1 / (1 - share) by milliseconds from 10**low to 10**high."""

    nines: int
    low: int
    high: int

    def x(self, nines: float) -> float:
        return LEFT + PLOT_WIDTH * nines / self.nines

    def y(self, milliseconds: float) -> float:
        share = (log10(max(milliseconds, 10**self.low)) - self.low) / (self.high - self.low)
        return TOP + PLOT_HEIGHT * (1 - share)

    def drawn(self) -> list[str]:
        parts = []
        for nines in range(self.nines + 1):
            x = self.x(nines)
            parts.append(f'<path class="{"g" if nines else "d"}" d="M{x:.1f} {TOP}v{PLOT_HEIGHT}"/>')
            parts.append(
                f'<text class="a" x="{x:.1f}" y="{TOP + PLOT_HEIGHT + 20}" text-anchor="middle">'
                f"{nines_text(nines)}</text>"
            )
        parts.append(
            f'<text class="a" x="{LEFT + PLOT_WIDTH / 2}" y="{TOP + PLOT_HEIGHT + 38}" text-anchor="middle">'
            "share of the messages that were acknowledged by then</text>"
        )
        for decade in range(self.low, self.high + 1):
            y = self.y(10**decade)
            parts.append(f'<path class="d" d="M{LEFT} {y:.1f}h{PLOT_WIDTH}"/>')
            parts.append(
                f'<text class="a" x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{10**decade:g}</text>'
            )
            if decade < self.high:
                between = (self.y(step * 10**decade) for step in (2, 5))
                parts += [f'<path class="g" d="M{LEFT} {y:.1f}h{PLOT_WIDTH}"/>' for y in between]
        parts.append(f'<text class="a" x="{LEFT - 8}" y="{TOP - 12}" text-anchor="end">ms</text>')
        return parts


def nines_text(nines: int) -> str:
    """0 -> "0 %", 1 -> "90 %", 3 -> "99.9 %"."""
    if nines < 2:
        return f"{90 * nines} %"
    return "99" + ("." + "9" * (nines - 2) if nines > 2 else "") + " %"
