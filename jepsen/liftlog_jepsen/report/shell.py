"""The frame of every report: one HTML file with its style and its script inside, and nothing from elsewhere.

The page says itself what it may do: a content security policy allows the one script, by its hash, and neither
requests nor handlers in attributes. So nothing that a history contains can run, even if it got through.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path

from liftlog.types import LiftlogError
from liftlog_jepsen.result import printable


def write_page(page: str, path: Path) -> None:
    """Write a report, replacing an older one. Raises LiftlogError if the file cannot be written."""
    try:
        path.write_text(page, encoding="utf-8")
    except OSError as error:
        raise LiftlogError(
            f"cannot write the report {path}: {error.strerror}; choose another with --html"
        ) from None


def document(title: str, body: str) -> str:
    """The whole file around a body that is HTML already."""
    script, style = _resource("page.js"), _resource("page.css")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{text(title)}</title><style>{style}</style></head><body>\n<main>{body}</main>\n"
        f"<script>{script}</script></body></html>\n"
    )


@cache
def _resource(name: str) -> str:
    return files("liftlog_jepsen.report").joinpath(name).read_text(encoding="utf-8")


def text(raw: str) -> str:
    """Any text as HTML that shows it."""
    return escape(printable(raw))


def table(
    header: Iterable[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = (), hot: Sequence[int] = ()
) -> str:
    """A table of cells that are HTML already; `numbers` are columns to align right, `hot` rows to mark."""

    def kind(column: int) -> str:
        return ' class="number"' if column in numbers else ""

    head = "".join(f"<th{kind(column)}>{name}</th>" for column, name in enumerate(header))
    lines = []
    for place, row in enumerate(rows):
        cells = "".join(f"<td{kind(column)}>{cell}</td>" for column, cell in enumerate(row))
        lines.append(f'<tr class="hot">{cells}</tr>' if place in hot else f"<tr>{cells}</tr>")
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{''.join(lines)}</tbody></table></div>\n"
    )


def legend(keys: Iterable[tuple[str, str]]) -> str:
    """Names of colours; each comes as (name, class of its patch)."""
    return "".join(
        f'<span class="entry"><span class="key {kind}"></span>{text(name)}</span>' for name, kind in keys
    )


def disclosure(summary: str, body: str, open: bool = False) -> str:
    """A part that can be folded away; `summary` is text, `body` HTML."""
    return f"<details{' open' if open else ''}><summary>{text(summary)}</summary>{body}</details>\n"
