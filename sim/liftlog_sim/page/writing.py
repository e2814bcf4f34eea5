"""Writes a chart as one HTML file, with style, script and data inside and nothing from elsewhere.

The page says itself what it may do: its policy allows the one script, by its hash, and no request. The data
is an island of JSON in which no character can end the element that holds it.
"""

from __future__ import annotations

import base64
import hashlib
import re
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.page.chart import Chart, ChartStep, Verdict
from liftlog_sim.page.reducing import reduced

PAGE_BYTES_MAX = 3_000_000
SCRIPTS = ("model.js", "diagram.js", "panels.js", "main.js")
PLACE = re.compile("@([A-Z]+)@")
_encode = msgspec.json.Encoder().encode


def write_page(chart: Chart, path: Path) -> int:
    """Write the page, replacing an older one; returns its size in bytes. Raises LiftlogError."""
    data = page_of(chart).encode()
    try:
        path.write_bytes(data)
    except OSError as error:
        raise LiftlogError(
            f"cannot write the page {path}: {error.strerror}; choose another with --html"
        ) from None
    return len(data)


def page_of(chart: Chart) -> str:
    """The whole file."""
    data = _safe(_encode(_plain(reduced(chart))).decode())
    script = "(() => {\n'use strict';\n" + "".join(_resource(name) for name in SCRIPTS) + "})();\n"
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {
        "POLICY": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        "TITLE": escape(chart.title),
        "STYLE": _resource("page.css"),
        "DATA": data,
        "SCRIPT": script,
    }
    return PLACE.sub(lambda place: parts[place[1]], _resource("page.html"))


def _plain(chart: Chart) -> dict[str, Any]:
    """What the script reads (`model.js`); steps are rows, and what they say is numbered."""
    texts: dict[str, int] = {}

    def number(text: str) -> int:
        return texts.setdefault(text, len(texts))

    rows = [_row(step, number) for step in chart.steps]
    return {
        "title": chart.title,
        "source": chart.source,
        "clocks": chart.clocks,
        "facts": chart.facts,
        "replay": chart.replay,
        "nodes": chart.nodes,
        "logs": list(chart.logs.items()),
        "texts": list(texts),
        "steps": rows,
        "marks": [[mark.before, mark.at_us, mark.what, mark.detail, mark.node] for mark in chart.marks],
        "violation": _verdict(chart.violation),
        "disagreement": _verdict(chart.disagreement),
        "story": [[line.at_step, line.words] for line in chart.story],
        "notes": chart.notes,
    }


def _row(step: ChartStep, number: Any) -> list[Any]:
    arrival = step.arrival
    row = [
        step.number,
        step.at_us,
        step.node,
        step.kind,
        number(step.words),
        step.changes or 0,
        step.causes or 0,
        [number(effect) for effect in step.effects] or 0,
        [arrival.name, arrival.sender, arrival.sent] if arrival is not None else 0,
        step.departures or 0,
        step.unheard or 0,
        step.label or 0,
    ]
    while row and row[-1] == 0:
        row.pop()
    return row


def _verdict(verdict: Verdict | None) -> dict[str, Any] | None:
    return msgspec.to_builtins(verdict) if verdict is not None else None


def _safe(text: str) -> str:
    """JSON that can stand in an element: no character of it begins a tag."""
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _resource(name: str) -> str:
    return files("liftlog_sim.page").joinpath(name).read_text(encoding="utf-8")
