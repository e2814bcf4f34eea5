"""Makes a chart small enough for one file: what is far from what matters is told more briefly, or left out.

What matters is the violation, the first disagreement with the model, the steps of the story, or, if there is
nothing of these, the end. Steps near one of them stay as they are. Further away go first what steps ask for,
then steps that change nothing, then steps at all; what those changed is added to the next step of the
same node, so that every state that is shown is right. The page says what was left out.
"""

from __future__ import annotations

import msgspec

from liftlog_sim.page.chart import START, Chart, ChartStep

BUDGET_BYTES = 2_400_000
"""Of the steps; the page may have 3 MB."""
NEAR = 1_500
"""So many steps around what matters stay whole."""
_encode = msgspec.json.Encoder().encode


def reduced(chart: Chart, budget_bytes: int = BUDGET_BYTES) -> Chart:
    """A chart that fits; the same one if it does already."""
    sizes = [len(_encode(step)) for step in chart.steps]
    total = sum(sizes)
    if total <= budget_bytes:
        return chart
    distances = _distances(chart)
    far = sorted(range(len(chart.steps)), key=lambda place: -distances[place])
    far = [place for place in far if distances[place] > NEAR] or far
    steps = chart.steps
    briefer = quiet = gone = 0
    for place in far:
        if total <= budget_bytes:
            break
        step = steps[place]
        if step.effects:
            total -= len(_encode(step.effects)) - 2
            step.effects = []
            briefer += 1
    left_out: set[int] = set()
    for plain_only in (True, False):
        for place in far:
            if total <= budget_bytes:
                break
            step = steps[place]
            if place in left_out or step.kind == START or (plain_only and step.changes):
                continue
            left_out.add(place)
            total -= len(_encode(step))
            quiet, gone = (quiet + 1, gone) if plain_only else (quiet, gone + 1)
    return _without(chart, left_out, briefer, quiet, gone)


def _distances(chart: Chart) -> list[int]:
    """Of each step to the nearest one that matters, in steps."""
    verdicts = [verdict.at_step for verdict in (chart.violation, chart.disagreement) if verdict is not None]
    told = [line.at_step for line in chart.story]
    last = len(chart.steps) - 1
    matter = sorted({step for step in (*verdicts, *told) if 0 <= step <= last}) or [last]
    distances = [len(chart.steps)] * len(chart.steps)
    weight = {place: 0 if place in verdicts or place == last else NEAR * 3 // 4 for place in matter}
    for order in (range(len(distances)), range(last, -1, -1)):
        near = len(distances)
        for place in order:
            near = min(near + 1, weight.get(place, near + 1))
            distances[place] = min(distances[place], near)
    return distances


def _without(chart: Chart, left_out: set[int], briefer: int, quiet: int, gone: int) -> Chart:
    """The chart without these steps; places of all others are counted anew, numbers stay."""
    held: dict[int, dict[str, object]] = {}
    places: dict[int, int] = {}
    kept: list[ChartStep] = []
    for place, step in enumerate(chart.steps):
        if place in left_out:
            if step.changes:
                held.setdefault(step.node, {}).update(step.changes)
            continue
        places[place] = len(kept)
        before = held.pop(step.node, {})
        if step.kind != START:
            step.changes = before | step.changes
        kept.append(step)
    for step in kept:
        step.causes = [places[cause] for cause in step.causes if cause in places]
        if step.arrival is not None:
            step.arrival.sent = places.get(step.arrival.sent, -1)
    after = sorted(places)
    for mark in chart.marks:
        mark.before = next((places[place] for place in after if place >= mark.before), len(kept))
    for verdict in (chart.violation, chart.disagreement):
        if verdict is not None and verdict.at_step >= 0:
            verdict.at_step = places.get(verdict.at_step, -1)
    for line in chart.story:
        line.at_step = places.get(line.at_step, -1)
    total = len(chart.steps)
    chart.steps = kept
    notes = []
    if left_out:
        merged = f", and {gone:,} whose changes the next step of their node has" if gone else ""
        notes.append(
            f"{len(left_out):,} of {total:,} steps, far from what matters, are left out to keep the page "
            f"small: {quiet:,} that change nothing{merged}."
        )
    if briefer:
        notes.append(f"What {briefer:,} steps far from what matters asked for is left out too.")
    chart.notes = [*chart.notes, *notes]
    return chart
