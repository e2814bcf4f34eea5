"""The check's outcome as one HTML file: no scripts, no external resources, readable in light and dark.

What a history contains was written by others: all of it is made printable and escaped before it enters
the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path

from jepsen.report import VERDICT_WORDS, counts_by_function, overall_verdict, summary_line
from jepsen.result import (
    INVALID,
    MEANINGS,
    UNKNOWN,
    VALID,
    Anomaly,
    CheckResult,
    Lane,
    Picture,
    Surroundings,
    explain,
    printable,
    shorten,
)
from jepsen.svg import Series, describe, milliseconds, plot, timeline
from liftlog.types import LiftlogError

STYLE = """
:root{color-scheme:light dark;--bg:#fff;--fg:#1c2127;--soft:#5b6570;--line:#dde2e7;--panel:#f6f8fa;
--ok:#2468b4;--fail:#c22f2f;--info:#b7791f;--read:#1b8a6b;--slow:#8a4bb5;--band:#c22f2f22;--good:#1a7f4b}
@media (prefers-color-scheme:dark){:root{--bg:#14181d;--fg:#dde3ea;--soft:#98a3af;--line:#2c343d;
--panel:#1b2027;--ok:#62a4ec;--fail:#f07a7a;--info:#e0ac4f;--read:#4cc3a0;--slow:#c08fe6;--band:#f07a7a2a;--good:#56c98c}}
*{box-sizing:border-box}
body{margin:0 auto;padding:1.5rem 1.25rem 4rem;max-width:1080px;background:var(--bg);color:var(--fg);
font:15px/1.5 system-ui,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.35rem;margin:0 0 .25rem}h2{font-size:1.1rem;margin:2.2rem 0 .5rem}
h3{font-size:1rem;margin:1.6rem 0 .3rem}
p{margin:.3rem 0}.soft{color:var(--soft)}
.verdict{display:inline-block;padding:.05rem .6rem;border-radius:.4rem;color:#fff;font-weight:600}
.verdict.valid{background:#1a7f4b}.verdict.invalid{background:#b42a2a}.verdict.unknown{background:#8f5d10}
.scroll{overflow-x:auto}table{border-collapse:collapse;margin:.5rem 0;font-size:.92rem}
th,td{padding:.2rem .7rem .2rem 0;text-align:left;vertical-align:top;border-bottom:1px solid var(--line)}
th{font-weight:600;color:var(--soft);white-space:nowrap}td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}
tr.hot td{background:var(--band)}code,td.code{font-family:ui-monospace,monospace;font-size:.88em}
ol.examples{padding-left:1.4rem}details{margin:.5rem 0}summary{cursor:pointer;color:var(--soft)}
figure{margin:.8rem 0 1.4rem}figcaption{color:var(--soft);font-size:.9rem}
.key{display:inline-block;width:.75em;height:.75em;margin:0 .3em 0 .9em;border-radius:2px}
svg{display:block;width:100%;height:auto;background:var(--panel);border-radius:.4rem}
svg text{font:11px system-ui,sans-serif;fill:var(--soft)}svg .lane{fill:var(--fg)}
.grid{stroke:var(--line)}.axis{stroke:var(--soft)}.band{fill:var(--band)}
polyline{fill:none;stroke-width:1.6}.hit{fill:transparent}.hit:hover{fill:var(--soft)}
.bar.ok{fill:var(--ok)}.bar.fail{fill:var(--fail)}.bar.info{fill:var(--info)}.bar.read{fill:var(--read)}
.bar{opacity:.75}.bar:hover{opacity:1}.bar.marked{opacity:1;stroke:var(--fg);stroke-width:1.8}
"""
KEYS = {
    "ok": "--ok",
    "failed": "--fail",
    "unknown outcome": "--info",
    "read": "--read",
    "half of the sends": "--ok",
    "99 % of the sends": "--slow",
}
HEADINGS_OF_OPERATIONS = ("operation", "process", "invoked (position)", "completed", "what")


def write_html(results: Sequence[CheckResult], path: Path) -> None:
    """Write the report, replacing an older one. Raises LiftlogError if the file cannot be written."""
    try:
        path.write_text(page(results), encoding="utf-8")
    except OSError as error:
        raise LiftlogError(
            f"cannot write the report {path}: {error.strerror}; choose another with --html"
        ) from None


def page(results: Sequence[CheckResult]) -> str:
    """The whole document. With several histories those that are not valid come first."""
    ordered = sorted(results, key=lambda one: (INVALID, UNKNOWN, VALID).index(one.verdict))
    title = f"{overall_verdict(results)}: {', '.join(_text(one.history) for one in ordered[:3])}"
    body = "".join(part for number, result in enumerate(ordered) for part in _history(result, number))
    if len(ordered) > 1:
        body = (
            _table(
                ("history", "verdict", "operations", "anomalies"),
                [
                    (
                        _text(one.history),
                        one.verdict,
                        f"{one.operations:,}",
                        _text(", ".join(f.name for f in one.findings)),
                    )
                    for one in ordered
                ],
            )
            + body
        )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{title}</title><style>{STYLE}</style></head><body>\n{body}\n</body></html>\n"
    )


def _text(raw: str) -> str:
    return escape(printable(raw))


def _history(result: CheckResult, number: int) -> Iterator[str]:
    """One history; `number` tells its anchors from those of the others."""
    yield (
        f'<h1><span class="verdict {result.verdict}">{result.verdict}</span> {_text(result.history)}: '
        f"{VERDICT_WORDS[result.verdict]}</h1>\n"
        f"<p>{_text(summary_line(result))}</p>\n"
        f'<p class="soft">history: <code>{_text(result.source)}</code></p>\n'
    )
    for reason in result.reasons:
        yield f"<p>Note: {_text(reason)}.</p>\n"
    yield from _anomalies(result, number)
    yield "<h2>Operations</h2>\n"
    rows = [(_text(f), *(f"{number:,}" for number in numbers)) for f, *numbers in counts_by_function(result)]
    yield _table(("operation", "ok", "fail", "info"), rows, numbers=(1, 2, 3))
    if result.picture is not None:
        yield from _drawings(result, result.picture)
    yield from _what_was_checked(result)
    if result.picture is not None and result.picture.meta:
        yield "<h2>Recorded with the history</h2>\n"
        yield _table(("name", "value"), [(_text(name), _text(value)) for name, value in result.picture.meta])


def _table(
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
    return f'<div class="scroll"><table><tr>{head}</tr>\n{"".join(lines)}</table></div>\n'


# -- anomalies -----------------------------------------------------------------------------------------------


def _anomalies(result: CheckResult, number: int) -> Iterator[str]:
    if not result.findings:
        return
    yield "<h2>Anomalies</h2>\n"
    rows = [
        (
            f'<a href="#{number}-{finding.name}">{finding.name}</a>',
            f"{finding.total:,}",
            f"{finding.keys:,}",
            MEANINGS[finding.name] + ("" if finding.failing else " (does not count)"),
        )
        for finding in result.findings
    ]
    yield _table(("anomaly", "count", "logs", "meaning"), rows, numbers=(1, 2))
    involved = {lane.op_id: lane for lane in result.picture.involved} if result.picture else {}
    places = {place.name: place for place in result.picture.surroundings} if result.picture else {}
    for finding in result.findings:
        yield f'<h3 id="{number}-{finding.name}">{finding.name}: {finding.total:,}</h3>\n'
        yield f"<p>{_text(MEANINGS[finding.name])[:1].upper()}{_text(MEANINGS[finding.name])[1:]}.</p>\n"
        yield '<ol class="examples">'
        for anomaly in finding.examples:
            yield f"<li>In <code>{_text(anomaly.key)}</code>: {_text(explain(anomaly))}."
            yield _operations(result, anomaly, involved)
            yield "</li>\n"
        yield "</ol>\n"
        more = finding.total - len(finding.examples)
        if more:
            yield f'<p class="soft">… and {more:,} more.</p>\n'
        if finding.name in places:
            yield _neighbourhood(places[finding.name])


def _operations(result: CheckResult, anomaly: Anomaly, involved: dict[int, Lane]) -> str:
    lanes = [involved[op] for op in anomaly.ops if op in involved]
    if not lanes:
        return ""
    return _table(HEADINGS_OF_OPERATIONS, [_operation(result, lane) for lane in lanes])


def _operation(result: CheckResult, lane: Lane) -> tuple[str, ...]:
    def moment(t_ns: int | None, position: int | None) -> str:
        if t_ns is None:
            return "never"
        place = "" if position is None else f"&nbsp;({position:,})"
        return f"{(t_ns - result.t_first_ns) / 1e9:.4f}&nbsp;s{place}"

    who = f"{lane.process}" if lane.client is None else f"{lane.process}, {lane.client}"
    return (
        f"#{lane.op_id}",
        _text(who),
        moment(lane.t_inv_ns, lane.idx_inv),
        moment(lane.t_ret_ns, lane.idx_ret),
        _text(describe(lane)),
    )


def _neighbourhood(place: Surroundings) -> str:
    """The log around the first example: one row per offset and value, with who sent and who read it."""
    rows: dict[tuple[int, str], tuple[list[str], list[str]]] = {}
    for seen in place.sightings:
        sent, read = rows.setdefault((seen.offset, seen.value), ([], []))
        words = f"#{seen.op_id} ({seen.outcome}, process {seen.process})"
        (sent if seen.f == "send" else read).append(words)
    cells = [
        (f"{offset:,}", f"<code>{_text(shorten(value))}</code>", _some(sent), _some(read))
        for (offset, value), (sent, read) in rows.items()
    ]
    hot = [number for number, (offset, _) in enumerate(rows) if offset == place.offset]
    table = _table(("offset", "value", "sent by", "read by"), cells, numbers=(0,), hot=hot)
    summary = f"<summary>The log around the first of them, {_text(place.key)}</summary>"
    return f"<details open>{summary}{table}</details>\n"


def _some(words: list[str]) -> str:
    shown = ", ".join(words[:6]) or "nobody"
    return _text(shown) + (f" and {len(words) - 6} more" if len(words) > 6 else "")


# -- drawings ------------------------------------------------------------------------------------------------


def _drawings(result: CheckResult, picture: Picture) -> Iterator[str]:
    yield "<h2>The run over time</h2>\n"
    if picture.faults:
        yield '<p class="soft">Bands behind the lines are faults; hover for details.</p>\n'
    per_second = 1e9 / picture.width_ns
    moments = picture.moments
    sends = (
        Series("ok", KEYS["ok"], [moment.sends_ok * per_second for moment in moments]),
        Series("failed", KEYS["failed"], [moment.sends_fail * per_second for moment in moments]),
        Series(
            "unknown outcome", KEYS["unknown outcome"], [moment.sends_info * per_second for moment in moments]
        ),
    )
    reads = (Series("read", KEYS["read"], [moment.records_read * per_second for moment in moments]),)
    latencies = (
        Series("half of the sends", KEYS["half of the sends"], [moment.latency_p50_ns for moment in moments]),
        Series("99 % of the sends", KEYS["99 % of the sends"], [moment.latency_p99_ns for moment in moments]),
    )
    t_first_ns = result.t_first_ns
    yield _figure(plot(picture, t_first_ns, sends, _rate), "Sends completed per second", sends)
    yield _figure(plot(picture, t_first_ns, reads, _rate), "Records read per second", reads)
    yield _figure(
        plot(picture, t_first_ns, latencies, milliseconds, logarithmic=True),
        "Latency of acknowledged sends, at most",
        latencies,
    )
    yield f"<h2>Timeline: {_text(picture.focus)}</h2>\n"
    marked = frozenset(op for f in result.findings for example in f.examples for op in example.ops)
    legend = "A bar is an operation from invocation to completion, a row a process"
    kinds = [Series(name, KEYS[name], ()) for name in ("ok", "failed", "unknown outcome", "read")]
    yield _figure(timeline(picture, t_first_ns, marked), legend, kinds)


def _rate(value: float) -> str:
    return f"{value:,.0f}/s" if value >= 10 or value == 0 else f"{value:.1f}/s"


def _figure(svg: str, caption: str, series: Sequence[Series]) -> str:
    keys = "".join(
        f'<span class="key" style="background:var({one.color})"></span>{one.name}' for one in series
    )
    return f"<figure><figcaption>{_text(caption)}:{keys}</figcaption>{svg}</figure>\n"


def _what_was_checked(result: CheckResult) -> Iterator[str]:
    found = {finding.name: finding.total for finding in result.findings}
    yield "<h2>What was checked</h2>\n"
    rows = [(name, f"{found[name]:,}" if name in found else "none", MEANINGS[name]) for name in MEANINGS]
    yield _table(("anomaly", "found", "meaning"), rows, numbers=(1,))
