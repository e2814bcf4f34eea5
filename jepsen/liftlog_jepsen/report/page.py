"""The check's outcome as one HTML file: no scripts, no external resources, readable in light and dark.

What a history contains was written by others: all of it is made printable and escaped before it enters
the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from liftlog_jepsen.report import timeline as lanes
from liftlog_jepsen.report.anomaly_texts import meaning_in_log
from liftlog_jepsen.report.cycle import CHARACTERS, CycleBox, cycle_figure
from liftlog_jepsen.report.operation_text import clip, duration
from liftlog_jepsen.report.plots import Frame, Series, fault_words, plot, rate
from liftlog_jepsen.report.shell import disclosure, document, legend, table, text, write_page
from liftlog_jepsen.report.text import VERDICT_WORDS, counts_by_function, overall_verdict, summary_line
from liftlog_jepsen.result import (
    CYCLE_MEANINGS,
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

LEGEND = (
    ("acknowledged", "bar-ok"),
    ("read", "bar-read"),
    ("failed", "bar-fail"),
    ("outcome unknown", "bar-info"),
    ("part of an anomaly", "bar-named"),
)
HEADINGS_OF_OPERATIONS = ("operation", "process", "invoked (position)", "completed", "what")


def write_html(results: Sequence[CheckResult], path: Path) -> None:
    """Write the report, replacing an older one. Raises LiftlogError if the file cannot be written."""
    write_page(page(results), path)


def page(results: Sequence[CheckResult]) -> str:
    """The whole document. With several histories those that are not valid come first."""
    ordered = sorted(results, key=lambda one: (INVALID, UNKNOWN, VALID).index(one.verdict))
    title = f"{overall_verdict(results)}: {', '.join(one.history for one in ordered[:3])}"
    body = "".join(part for number, result in enumerate(ordered) for part in _history(result, number))
    if len(ordered) > 1:
        rows = [
            (
                text(one.history),
                one.verdict,
                f"{one.operations:,}",
                text(", ".join(finding.name for finding in one.findings)),
            )
            for one in ordered
        ]
        body = table(("history", "verdict", "operations", "anomalies"), rows, numbers=(2,)) + body
    return document(title, body)


def _history(result: CheckResult, number: int) -> Iterator[str]:
    """One history; `number` tells its anchors from those of the others."""
    yield (
        f'<h1><span class="verdict {result.verdict}">{result.verdict}</span> {text(result.history)}: '
        f"{VERDICT_WORDS[result.verdict]}</h1>\n"
        f"<p>{text(summary_line(result))}</p>\n"
        f'<p class="soft">history: <code>{text(result.source)}</code></p>\n'
    )
    for reason in result.reasons:
        yield f"<p>Note: {text(reason)}.</p>\n"
    yield from _anomalies(result, number)
    yield "<h2>Operations</h2>\n"
    rows = [(text(f), *(f"{number:,}" for number in numbers)) for f, *numbers in counts_by_function(result)]
    yield table(("operation", "ok", "fail", "info"), rows, numbers=(1, 2, 3))
    if result.picture is not None:
        yield from _drawings(result, result.picture)
    yield from _what_was_checked(result)
    if result.picture is not None and result.picture.meta:
        yield "<h2>Recorded with the history</h2>\n"
        yield table(("name", "value"), [(text(name), text(value)) for name, value in result.picture.meta])


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
            text(meaning_in_log(finding.name)) + ("" if finding.failing else " (does not count)"),
        )
        for finding in result.findings
    ]
    yield table(("anomaly", "count", "logs", "meaning"), rows, numbers=(1, 2))
    involved = {lane.op_id: lane for lane in result.picture.involved} if result.picture else {}
    places = {place.name: place for place in result.picture.surroundings} if result.picture else {}
    for finding in result.findings:
        yield f'<h3 id="{number}-{finding.name}">{finding.name}: {finding.total:,}</h3>\n'
        words = meaning_in_log(finding.name)
        if words:
            yield f"<p>{text(words[:1].upper() + words[1:])}.</p>\n"
        yield '<ol class="examples">'
        for anomaly in finding.examples:
            yield f"<li>In <code>{text(anomaly.key)}</code>: {text(explain(anomaly))}."
            yield _operations(result, anomaly, involved)
            if anomaly.cycle:
                yield cycle_figure(anomaly.cycle, _nodes(anomaly, involved))
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
    return table(HEADINGS_OF_OPERATIONS, [_operation(result, lane) for lane in lanes])


def _nodes(anomaly: Anomaly, involved: dict[int, Lane]) -> dict[int, CycleBox]:
    """The boxes of a cycle. Its sentences call the operations T1, T2 and so on, in the order of the steps."""
    nodes = {}
    for place, op in enumerate(dict.fromkeys(step["from"] for step in anomaly.cycle), 1):
        lane = involved.get(op)
        lines = () if lane is None else (clip(_label(lane), CHARACTERS), clip(f"on {lane.key}", CHARACTERS))
        who = f"operation {op}" if lane is None else f"#{op}, process {lane.process}"
        nodes[op] = CycleBox(f"T{place}", who, lines, f"#{op}" if lane is None else describe(lane))
    return nodes


def _operation(result: CheckResult, lane: Lane) -> tuple[str, ...]:
    def moment(t_ns: int | None, position: int | None) -> str:
        if t_ns is None:
            return "never"
        place = "" if position is None else f"&nbsp;({position:,})"
        return f"{(t_ns - result.t_first_ns) / 1e9:.4f}&nbsp;s{place}"

    who = f"{lane.process}" if lane.client is None else f"{lane.process}, {lane.client}"
    return (
        f"#{lane.op_id}",
        text(who),
        moment(lane.t_inv_ns, lane.idx_inv),
        moment(lane.t_ret_ns, lane.idx_ret),
        text(describe(lane)),
    )


def _neighbourhood(place: Surroundings) -> str:
    """The log around the first example: one row per offset and value, with who sent and who read it."""
    rows: dict[tuple[int, str], tuple[list[str], list[str]]] = {}
    for seen in place.sightings:
        sent, read = rows.setdefault((seen.offset, seen.value), ([], []))
        words = f"#{seen.op_id} ({seen.outcome}, process {seen.process})"
        (sent if seen.f == "send" else read).append(words)
    cells = [
        (f"{offset:,}", f"<code>{text(shorten(value))}</code>", _some(sent), _some(read))
        for (offset, value), (sent, read) in rows.items()
    ]
    hot = [number for number, (offset, _) in enumerate(rows) if offset == place.offset]
    shown = table(("offset", "value", "sent by", "read by"), cells, numbers=(0,), hot=hot)
    return disclosure(f"The log around the first of them, {place.key}", shown, open=True)


def _some(words: list[str]) -> str:
    shown = ", ".join(words[:6]) or "nobody"
    return text(shown) + (f" and {len(words) - 6} more" if len(words) > 6 else "")


# -- drawings ------------------------------------------------------------------------------------------------


def _drawings(result: CheckResult, picture: Picture) -> Iterator[str]:
    yield f"<h2>Timeline: {text(picture.focus)}</h2>\n"
    yield _timeline(result, picture)
    yield "<h2>The run over time</h2>\n"
    if picture.faults:
        yield '<p class="soft">Bands behind the lines are faults; hover for details.</p>\n'
    per_second = 1e9 / picture.width_ns
    moments = picture.moments
    frame = Frame(result.t_first_ns, picture.width_ns, len(moments), picture.faults)
    sends = (
        Series("ok", "ok", [moment.sends_ok * per_second for moment in moments]),
        Series("failed", "fail", [moment.sends_fail * per_second for moment in moments]),
        Series("outcome unknown", "info", [moment.sends_info * per_second for moment in moments]),
    )
    reads = (Series("read", "read", [moment.records_read * per_second for moment in moments]),)
    latencies = (
        Series("half of the sends", "ok", [moment.latency_p50_ns for moment in moments]),
        Series("99 % of the sends", "slow", [moment.latency_p99_ns for moment in moments]),
    )
    yield plot(frame, "Sends completed per second", sends, rate)
    yield plot(frame, "Records read per second", reads, rate)
    yield plot(frame, "Latency of acknowledged sends, at most", latencies, duration, logarithmic=True)
    yield from _freshness(frame, picture)


def _freshness(frame: Frame, picture: Picture) -> Iterator[str]:
    """How far readers were behind; nothing for a history that does not tell."""
    moments = picture.moments
    if all(moment.unseen is None for moment in moments):
        return
    about = "" if picture.every == 1 else f", estimated from every {picture.every}th offset"
    unseen = (Series("unseen", "info", [moment.unseen for moment in moments]),)
    lags = (
        Series("half of the polls", "read", [moment.lag_p50_ns for moment in moments]),
        Series("the worst poll", "slow", [moment.lag_worst_ns for moment in moments]),
    )
    yield plot(frame, f"Acknowledged values that nobody had read yet{about}", unseen, _count)
    yield plot(frame, f"Age of what polls did not reach, at most{about}", lags, duration)


def _count(value: float) -> str:
    return f"{value:,.0f}" if value == round(value) else f"{value:,.1f}"


def _timeline(result: CheckResult, picture: Picture) -> str:
    """Lanes of the processes around the first anomaly, or the first fault."""
    marked = {op for finding in result.findings for example in finding.examples for op in example.ops}
    worst = sorted(result.findings, key=lambda finding: not finding.failing)
    first_ops = next((example.ops for finding in worst for example in finding.examples), ())
    bars = [
        lanes.TimelineBar(
            lane.op_id,
            lane.client or f"process {lane.process}",
            lane.idx_inv,
            lane.idx_ret,
            lane.outcome if lane.f == "send" or lane.outcome != "ok" else "read",
            _label(lane),
            describe(lane),
            "named" if lane.op_id in marked else "",
            lane.t_inv_ns,
            -1 if lane.t_ret_ns is None else lane.t_ret_ns,
        )
        for lane in picture.lanes
    ]
    first = result.t_first_ns
    drawn = lanes.timeline(
        lanes.Timeline(
            bars,
            focus=first_ops,
            bands=_bands(picture, first),
            origin=first,
        )
    )
    caption = "A bar is an operation from invocation to completion; a lane is a process, one step an event:"
    return f"<figure><figcaption>{text(caption)}{legend(LEGEND)}</figcaption>{drawn}</figure>\n"


def _bands(picture: Picture, first: int) -> list[lanes.Band]:
    """Faults among the events of the timeline. Only times tell where a fault lies."""
    events: dict[int, int] = {}
    for lane in picture.lanes:
        events[lane.idx_inv] = lane.t_inv_ns
        if lane.idx_ret is not None and lane.t_ret_ns is not None:
            events[lane.idx_ret] = lane.t_ret_ns
    positions = sorted(events)

    def behind(t_ns: int) -> float:
        """Just behind the last event that was over by then."""
        return max((position for position in positions if events[position] <= t_ns), default=-1) + 0.5

    bands = []
    for kind, target, start_ns, end_ns in picture.faults:
        low, high = behind(start_ns), None if end_ns is None else behind(end_ns)
        if positions and low < positions[-1] and (high is None or high > positions[0]):
            words = fault_words(kind, target, start_ns - first, None if end_ns is None else end_ns - first)
            bands.append(lanes.Band(low, high, words))
    return bands


def _label(lane: Lane) -> str:
    """What is written into a bar."""
    words = [lane.f]
    if lane.value is not None:
        words.append(shorten(lane.value, 20))
    elif lane.records:
        words.append(f"{lane.records:,} records")
    if lane.first_offset is not None:
        same = lane.first_offset == lane.last_offset
        words.append(f"at {lane.first_offset}" if same else f"at {lane.first_offset} to {lane.last_offset}")
    return printable(" ".join(words))


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
        words.append(f"took {duration(lane.t_ret_ns - lane.t_inv_ns)}")
    if lane.error is not None:
        words.append(f"({lane.error})")
    return printable(" ".join(words))


def _what_was_checked(result: CheckResult) -> Iterator[str]:
    found = {finding.name: finding.total for finding in result.findings}
    yield "<h2>What was checked</h2>\n"
    rows = [
        (text(name), f"{found[name]:,}" if name in found else "none", text(meaning_in_log(name)))
        for name in dict.fromkeys((*MEANINGS, *found))
    ]
    yield table(("anomaly", "found", "meaning"), rows, numbers=(1,))
    if not any(name in CYCLE_MEANINGS for name in found):
        yield "<p>Cycles between operations are searched for with --cycles only.</p>\n"
