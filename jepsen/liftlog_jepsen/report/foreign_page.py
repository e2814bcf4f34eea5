"""Verdicts on foreign histories as one HTML file: the faults in plain words, with timelines and cycles.

What a history contains was written by others: all of it is made printable and escaped before it enters
the page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from liftlog_jepsen.events import FAIL, INFO, Operation
from liftlog_jepsen.judgement import Judgement, Problem
from liftlog_jepsen.report import timeline as lanes
from liftlog_jepsen.report.anomaly_texts import covered, meaning
from liftlog_jepsen.report.cycle import cycle_figure, transaction_nodes
from liftlog_jepsen.report.foreign import (
    AROUND,
    LINEARIZED_MAX,
    ForeignResult,
    Overview,
    centre,
    drawn,
    keys_of,
    named,
)
from liftlog_jepsen.report.linearization import Linearization, linearization_of
from liftlog_jepsen.report.operation_text import (
    QUESTIONS,
    call,
    clip,
    describe,
    duration,
    full,
    micro_operations,
    name,
    sentence,
)
from liftlog_jepsen.report.plots import Frame, Series, plot, rate, raw_plot
from liftlog_jepsen.report.shell import disclosure, document, legend, table, text, write_page

VERDICTS = {True: "valid", False: "invalid", None: "unknown"}
HEADLINES = {
    "valid": "no anomaly was found",
    "invalid": "the history breaks its model",
    "unknown": "neither valid nor invalid can be shown",
}
FILES_MAX = 40
"""Files with a section of their own; the others have their line in the summary."""
DRAWINGS_MAX = 24
"""Problems with drawings on one page, over all files; the words of the others are listed."""
PLOTTED_MAX = 6
"""Files whose whole run is plotted."""
LISTED_MAX = 40
"""Problems of one file that are listed in words below those that are drawn."""
LISTED_WORDS = 300
"""Characters of each of them."""
OPERATIONS_MAX = 90
"""Operations of one timeline."""
LEGEND = (
    ("answered", "bar-ok"),
    ("read", "bar-read"),
    ("failed", "bar-fail"),
    ("outcome unknown", "bar-info"),
)


def write_foreign_html(results: Sequence[ForeignResult], path: Path) -> None:
    """Write the report, replacing an older one. Raises LiftlogError if the file cannot be written."""
    write_page(foreign_page(results), path)


def foreign_page(results: Sequence[ForeignResult]) -> str:
    """The whole document. With several files, those that are not valid come first."""
    order = ("invalid", "unknown", "valid")
    ordered = sorted(results, key=lambda one: order.index(verdict_of(one)))
    worst = verdict_of(ordered[0]) if ordered else "valid"
    title = f"{worst}: {', '.join(one.file for one in ordered[:3])}"
    parts: list[str] = []
    if len(ordered) != 1:
        parts.append(_summary(ordered, worst))
    telling = [(n, one) for n, one in enumerate(ordered) if len(ordered) == 1 or _is_telling(one)]
    drawings, plots = DRAWINGS_MAX, PLOTTED_MAX
    for number, result in telling[:FILES_MAX]:
        chosen = drawn(result.judgement)[:drawings]
        drawings -= len(chosen)
        if result.overview is not None:
            plots -= 1
        shown = result if plots >= 0 else result._replace(overview=None)
        parts.append(
            f'<section class="file" id="f{number}">{"".join(_file(shown, number, chosen))}</section>\n'
        )
    if len(telling) > FILES_MAX:
        parts.append(
            f'<p class="soft">{len(telling) - FILES_MAX:,} more files are in the list above; '
            "check them on their own to see what happened there.</p>\n"
        )
    return document(title, "".join(parts))


def _is_telling(result: ForeignResult) -> bool:
    """Whether there is more to say about a file than that it is valid."""
    return verdict_of(result) != "valid" or bool(result.judgement.allowed)


def verdict_of(result: ForeignResult) -> str:
    """valid, invalid or unknown; a file that could not be checked is unknown."""
    return "unknown" if result.error is not None else VERDICTS[result.judgement.valid]


def _summary(ordered: Sequence[ForeignResult], worst: str) -> str:
    counts = {name: sum(verdict_of(one) == name for one in ordered) for name in HEADLINES}
    said = ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "nothing to check"
    rows = []
    sections = 0
    for number, one in enumerate(ordered):
        verdict = verdict_of(one)
        file = text(one.file)
        if _is_telling(one):
            sections += 1
            file = f'<a href="#f{number}">{file}</a>' if sections <= FILES_MAX else file
        found = one.error if one.error is not None else _totals(one.judgement)
        rows.append(
            (
                f'<span class="verdict small {verdict}">{verdict}</span>',
                file,
                text(one.model),
                f"{one.total:,}",
                text(clip(sentence(found), LISTED_WORDS)),
                f"{one.seconds:.2f}",
            )
        )
    head = ("verdict", "file", "model", "operations", "anomalies", "seconds")
    return (
        f'<h1><span class="verdict {worst}">{worst}</span> {len(ordered):,} histories: {text(said)}</h1>\n'
        f"{table(head, rows, numbers=(3, 5))}"
    )


def totals_of(judgement: Judgement) -> dict[str, int]:
    """How many of each kind, at least those that are listed."""
    totals = dict(judgement.totals)
    listed: dict[str, int] = {}
    for problem in judgement.problems:
        listed[problem.anomaly] = listed.get(problem.anomaly, 0) + 1
    counts = {name: max(totals.get(name, 0), listed.get(name, 0)) for name in (*listed, *totals)}
    return {name: count for name, count in counts.items() if count}


def _totals(judgement: Judgement) -> str:
    return ", ".join(f"{name} {count:,}" for name, count in totals_of(judgement).items())


# -- one file ------------------------------------------------------------------------------------------------


def _file(result: ForeignResult, number: int, chosen: Sequence[Problem]) -> Iterator[str]:
    verdict = verdict_of(result)
    heading = result.error if result.error is not None else HEADLINES[verdict]
    yield (
        f'<h1><span class="verdict {verdict}">{verdict}</span> {text(result.file)}: '
        f"{text(sentence(heading))}</h1>\n"
        f"<p>{result.total:,} operations, {text(result.format)}, held against the model "
        f"<b>{text(result.model)}</b>; checked in {result.seconds:.2f} s.</p>\n"
    )
    for reason in result.judgement.reasons:
        yield f"<p>Note: {text(sentence(reason))}</p>\n"
    operations = {operation.number: operation for operation in result.operations}
    counted = len(result.judgement.problems)
    everything = (*result.judgement.problems, *result.judgement.allowed)
    allowed = {id(problem) for problem in result.judgement.allowed}
    if everything:
        yield "<h2>What went wrong</h2>\n" if counted else "<h2>What was found, but is allowed</h2>\n"
    kinds = {problem.anomaly: place for place, problem in reversed(list(enumerate(chosen)))}
    for place, problem in enumerate(sorted(chosen, key=lambda each: kinds[each.anomaly])):
        yield _problem(problem, f"f{number}-p{place}", id(problem) in allowed, result, operations)
    shown = {id(problem) for problem in chosen}
    rest = [problem for problem in everything if id(problem) not in shown]
    if rest:
        yield _more(rest, result.judgement, len(everything))
    if result.overview is not None:
        yield from _run_over_time(result, result.overview)
    yield from _what_was_checked(result)


def _problem(
    problem: Problem, anchor: str, allowed: bool, result: ForeignResult, operations: Mapping[int, Operation]
) -> str:
    about = "" if problem.key is None else f", key <code>{text(sentence(problem.key))}</code>"
    note = ' <span class="soft">(allowed: it does not count)</span>' if allowed else ""
    words = meaning(problem.anomaly)
    parts = [
        f'<section class="problem{" allowed" if allowed else ""}" id="{anchor}">'
        f"<h3>{text(problem.anomaly)}{about}{note}</h3>\n<p>{text(full(problem.words))}</p>\n"
    ]
    if words:
        parts.append(f'<p class="soft">{text(problem.anomaly)}: {text(words)}.</p>\n')
    steps = problem.detail.get("cycle")
    linearization = linearization_of(problem)
    if steps:
        parts.append(cycle_figure(steps, transaction_nodes(steps, operations)))
    if linearization is not None:
        parts.append(_stuck(linearization, operations))
    parts.append(_timeline(problem, linearization, result, operations))
    if linearization is not None and linearization.order:
        parts.append(_steps(linearization, operations))
    parts.append(_operations(problem, operations, open=not steps and linearization is None))
    return "".join(parts) + "</section>\n"


def _stuck(linearization: Linearization, operations: Mapping[int, Operation]) -> str:
    """Where the longest partial linearization ends, in words."""
    said = (
        f"<p>{text(linearization.how_far())}. {linearization.after()}: "
        f"<code>{text(linearization.state)}</code>. "
    )
    if not linearization.stuck:
        return said + "No operation could follow.</p>\n"
    rows = "".join(
        f"<li><b>{_title(each.number, operations)}</b>: {text(each.words)}</li>"
        for each in linearization.stuck
    )
    return (
        f"{said}One of these would have to come next, and none explains the rest:</p>\n"
        f'<ul class="stuck">{rows}</ul>\n'
    )


def _title(number: int, operations: Mapping[int, Operation]) -> str:
    operation = operations.get(number)
    return text(f"#{number}" if operation is None else f"{name(operation)} {call(operation)}")


def _steps(linearization: Linearization, operations: Mapping[int, Operation]) -> str:
    """The order as a list, for who wants to follow it."""
    first = max(0, len(linearization.order) - LINEARIZED_MAX)
    items = []
    for number in linearization.order[first:]:
        state = linearization.states.get(number)
        then = "" if state is None else f' <span class="soft">then</span> <code>{text(state)}</code>'
        items.append(f"<li>{_title(number, operations)}{then}</li>")
    before = f" (the last {LINEARIZED_MAX} of {len(linearization.order):,})" if first else ""
    body = f'<ol class="steps" start="{first + 1}">{"".join(items)}</ol>'
    return disclosure(f"The order, step by step{before}", body)


def _operations(problem: Problem, operations: Mapping[int, Operation], open: bool) -> str:
    rows = []
    for number in dict.fromkeys(problem.operations):
        operation = operations.get(number)
        if operation is None:
            rows.append((f"#{number}", "", "", "", ""))
            continue
        end = "never" if operation.end is None else f"{operation.end:,}"
        took = (
            duration(operation.end_time - operation.time) if 0 <= operation.time <= operation.end_time else ""
        )
        rows.append(
            (
                name(operation),
                text(str(operation.process)),
                f"{operation.start:,} to {end}",
                took,
                text(call(operation, 400)),
            )
        )
    if not rows:
        return ""
    head = ("operation", "process", "events", "took", "what")
    return disclosure(f"The operations involved ({len(rows)})", table(head, rows[:LISTED_MAX]), open=open)


def _more(rest: Sequence[Problem], judgement: Judgement, listed: int) -> str:
    items = "".join(
        f"<li><b>{text(problem.anomaly)}</b>"
        + (f", key <code>{text(sentence(problem.key))}</code>" if problem.key is not None else "")
        + f": {text(clip(full(problem.words), LISTED_WORDS))}</li>"
        for problem in rest[:LISTED_MAX]
    )
    hidden = max(0, sum(totals_of(judgement).values()) + len(judgement.allowed) - listed) + max(
        0, len(rest) - LISTED_MAX
    )
    end = f'<p class="soft">… and {hidden:,} more.</p>' if hidden else ""
    return disclosure(f"{len(rest):,} more, in words", f'<ul class="stuck">{items}</ul>{end}')


# -- timeline ------------------------------------------------------------------------------------------------


def _timeline(
    problem: Problem,
    linearization: Linearization | None,
    result: ForeignResult,
    operations: Mapping[int, Operation],
) -> str:
    """The operations around a problem, in lanes, with the order if there is one."""
    chosen = _neighbours(problem, operations)
    if not chosen:
        return ""
    known = linearization or Linearization((), "", {}, (), False)
    places = {number: place for place, number in enumerate(known.order, 1)}
    reasons = {each.number: each for each in known.stuck}
    marked = set(problem.operations)
    bars = []
    for operation in chosen:
        number = operation.number
        words = [describe(operation)]
        if number in places:
            words.append(f"step {places[number]} of the order")
        if number in known.states:
            words.append(f"then {known.states[number]}")
        if number in reasons:
            words.append(f"stuck: {reasons[number].words}")
        blocked = number in reasons and not reasons[number].possible
        mark = "stuck" if blocked else "named" if number in marked else ""
        kind = _kind(operation) + (" after" if known.order and number not in places and not mark else "")
        bars.append(_bar(operation, kind, mark, "\n".join(map(sentence, words))))
    points = [
        lanes.Point(number, _step(operations[number], places[number], known), places[number])
        for number in known.order[-LINEARIZED_MAX:]
        if number in operations
    ]
    shown = lanes.Timeline(
        bars,
        [*centre(problem), *known.order[-4:]],
        points,
        known.stuck,
        [lanes.Band(band.start - 0.5, band.end, f"fault: {band.name}") for band in result.bands],
        origin=min((each.time for each in chosen if each.time >= 0), default=0),
    )
    keys = [
        *LEGEND,
        *([("point of the linearization", "path")] if points else []),
        *([("cannot come next", "bar-stuck")] if any(not each.possible for each in known.stuck) else []),
        *([("can, but is no help", "maybe")] if any(each.possible for each in known.stuck) else []),
        *([("involved", "bar-named")] if marked - set(reasons) else []),
        *([("fault", "fault")] if result.bands else []),
    ]
    about = "the operations of this key" if keys_of(problem, dict(operations)) else "operations"
    caption = f"Around the fault: {about}, one lane per process, one step per event."
    drawing = lanes.timeline(shown)
    return f"<figure><figcaption>{text(caption)}{legend(keys)}</figcaption>{drawing}</figure>\n"


def _bar(operation: Operation, kind: str, mark: str, words: str) -> lanes.TimelineBar:
    return lanes.TimelineBar(
        operation.number,
        _lane(operation),
        operation.start,
        operation.end,
        kind,
        call(operation, 60),
        words,
        mark,
        operation.time,
        operation.end_time,
    )


def _step(operation: Operation, place: int, linearization: Linearization) -> str:
    """What a point of a linearization tells."""
    words = sentence(f"step {place}: {name(operation)} {call(operation)}")
    state = linearization.states.get(operation.number)
    return words if state is None else f"{words}\nthen {state}"


def _neighbours(problem: Problem, operations: Mapping[int, Operation]) -> list[Operation]:
    """The operations of a problem's timeline: those that it names and those that ran around them."""
    keys = keys_of(problem, dict(operations))
    mine = [each for each in operations.values() if not keys or repr(each.key) in keys]
    mine.sort(key=lambda each: each.number)
    ranks = {each.number: rank for rank, each in enumerate(mine)}
    chosen = {number for number in named(problem) if number in operations}
    middle = [number for number in centre(problem) if number in ranks]
    for reach in range(AROUND + 1):
        for number in middle:
            for rank in (ranks[number] - reach, ranks[number] + reach):
                if 0 <= rank < len(mine) and len(chosen) < OPERATIONS_MAX:
                    chosen.add(mine[rank].number)
    return [operations[number] for number in sorted(chosen)[: 2 * OPERATIONS_MAX]]


def _kind(operation: Operation) -> str:
    if operation.outcome in (FAIL, INFO):
        return operation.outcome
    steps = micro_operations(operation.argument)
    if steps is not None:
        return "read" if all(str(step[0]) == "r" for step in steps) else "ok"
    return "read" if str(operation.f) in QUESTIONS else "ok"


def _lane(operation: Operation) -> str:
    return f"process {operation.process}" if isinstance(operation.process, int) else str(operation.process)


# -- the whole run -------------------------------------------------------------------------------------------


def _run_over_time(result: ForeignResult, overview: Overview) -> Iterator[str]:
    faults = tuple(
        (band.name, "", band.time, band.end_time if band.end is not None else None)
        for band in result.bands
        if band.time >= 0
    )
    frame = Frame(overview.first, overview.width, len(overview.moments), faults)
    per_second = 1e9 / overview.width
    moments = overview.moments
    rates = (
        Series("ok", "ok", [moment.ok * per_second for moment in moments]),
        Series("failed", "fail", [moment.fail * per_second for moment in moments]),
        Series("outcome unknown", "info", [moment.info * per_second for moment in moments]),
    )
    quantiles = (
        Series("half of the operations", "ok", [moment.latency_p50 for moment in moments]),
        Series("99 % of the operations", "slow", [moment.latency_p99 for moment in moments]),
    )
    yield "<h2>The run over time</h2>\n"
    if faults:
        yield '<p class="soft">Bands behind the lines are faults; point at them for details.</p>\n'
    yield plot(frame, "Operations completed per second", rates, rate)
    yield raw_plot(frame, "Latency of single operations", overview.raw, duration)
    yield plot(frame, "Latency of answered operations, at most", quantiles, duration, logarithmic=True)


def _what_was_checked(result: ForeignResult) -> Iterator[str]:
    looked_for, limits = covered(result.model)
    found = totals_of(result.judgement)
    allowed: dict[str, int] = {}
    for problem in result.judgement.allowed:
        allowed[problem.anomaly] = allowed.get(problem.anomaly, 0) + 1
    rows = []
    for anomaly in dict.fromkeys((*looked_for, *found, *allowed)):
        if anomaly in found:
            said = f"{found[anomaly]:,}"
        elif anomaly in allowed:
            said = f"{allowed[anomaly]:,}, allowed"
        elif result.error is not None:
            said = "not checked"
        else:
            said = "not decided" if result.judgement.valid is None else "none"
        rows.append((text(anomaly), said, text(meaning(anomaly))))
    yield "<h2>What was checked</h2>\n"
    yield table(("anomaly", "found", "meaning"), rows)
    if limits:
        listed = "".join(f"<li>{text(words)}</li>" for words in limits)
        yield f'<p>What this leaves open:</p><ul class="stuck">{listed}</ul>\n'
