"""A chart from the steps of a simulated run: those of a trace file, or of a failure bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.explain.bundle import Bundle
from liftlog_sim.page.chart import RAFT, Chart, ChartStep, Mark, Verdict, log_key
from liftlog_sim.page.deriving import Changes, Deriver, UnsyncedWrites
from liftlog_sim.page.labels import label
from liftlog_sim.page.linking import IN_FLIGHT_US, Linker, departures
from liftlog_sim.page.telling import story_of
from liftlog_sim.page.words import effect_words, event_words, kind_of

UNTOLD = ("SetTimer",)
PROTOCOL_ROWS = ("controller", "leader", "isr", "start", "truncate", "rebuild", "reset", "repair")
"""Rows that tell of steps; all others tell what befell the world."""


class TraceLine(msgspec.Struct):
    """A line of a trace, as far as the page needs it."""

    at_us: int
    node: int
    event: Any
    effects: list[Any]


def chart_of_trace(path: Path) -> Chart:
    """The chart of a file that `liftlog sim run --trace` wrote. Raises LiftlogError."""
    decode = msgspec.json.Decoder(TraceLine).decode
    lines: list[TraceLine] = []
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                try:
                    lines.append(decode(text))
                except msgspec.MsgspecError as error:
                    raise LiftlogError(
                        f"{path} line {number}: {error}; 'liftlog sim run --trace FILE' writes a trace"
                    ) from None
    except OSError as error:
        raise LiftlogError(f"cannot read {path}: {error.strerror}") from None
    chart = Chart(
        title=path.name,
        source="the trace of a simulated run",
        clocks=True,
        nodes=sorted({line.node for line in lines}),
        logs=log_names(lines),
        steps=[],
    )
    chart.steps = steps_of(lines, chart.logs)
    return chart


def log_names(lines: list[Any]) -> dict[str, str]:
    """Each log by its key; the streams' names are told where a leader subscribes."""
    logs = {RAFT: "metadata group"}
    for line in lines:
        for name, fields in line.effects:
            if name in ("AppendLog", "OpenLog"):
                logs.setdefault(log_key(fields["log"]), "")
            elif name in ("Subscribe", "AckPublishes") and fields.get("stream"):
                partition = fields["partition"]
                index = partition["index"] if isinstance(partition, dict) else partition[1]
                logs[log_key(partition)] = f"{fields['stream']}/{index} (log {log_key(partition)})"
    return {key: name or key for key, name in logs.items()}


def steps_of(
    lines: list[Any],
    logs: dict[str, str],
    changes: list[Changes] | None = None,
    causes: list[list[int]] | None = None,
) -> list[ChartStep]:
    """The steps in words, linked. Without `changes` the states are derived, as far as that goes."""
    linker = Linker()
    derivers: dict[int, Deriver] = {}
    unsynced: dict[int, UnsyncedWrites] = {}
    short = {key: name.partition(" (")[0] for key, name in logs.items()}
    steps: list[ChartStep] = []
    for place, line in enumerate(lines):
        linked, arrival = linker.link(place, line.node, line.event, line.effects)
        if changes is None:
            deriver = derivers.setdefault(line.node, Deriver())
            changed = deriver.take(line.event, line.effects, short)
        else:
            disk = unsynced.setdefault(line.node, UnsyncedWrites()).take(line.event, line.effects, short)
            changed = {key: value for key, value in changes[place].items()} | disk
        given = [cause for cause in causes[place] if cause < place] if causes is not None else []
        told = [effect_words(effect, short) for effect in line.effects if effect[0] not in UNTOLD]
        step = ChartStep(
            number=place,
            at_us=line.at_us,
            node=line.node,
            kind=kind_of(line.event),
            words=event_words(line.event, short),
            effects=told,
            changes=changed,
            causes=sorted({*linked, *given}),
            arrival=arrival,
            departures=departures(line.effects),
        )
        step.label = label(line.event, line.effects, changed, short)
        steps.append(step)
    last_us = steps[-1].at_us if steps else 0
    for place, to, name in linker.unheard():
        if steps[place].at_us < last_us - IN_FLIGHT_US:
            steps[place].unheard = [*steps[place].unheard, (to, name)]
    return steps


def chart_of_bundle(bundle: Bundle, title: str) -> Chart:
    """The chart of a failure bundle (`explain/bundle.py`)."""
    found = bundle.violation
    logs = log_names(bundle.trace)
    for changed in bundle.changes:
        for key in changed:
            log = key.partition(" ")[0]
            if "/" in log:
                logs.setdefault(log, log)
    options = bundle.settings.options
    chart = Chart(
        title=f"{options.mutant or found.invariant}, seed {bundle.seed}",
        source="a failure bundle of a simulated run",
        clocks=True,
        facts=[
            ("file", title),
            ("seed", str(bundle.seed)),
            ("liftlog", bundle.liftlog),
            *([("planted bug", options.mutant)] if options.mutant else []),
            ("profile", bundle.settings.knobs.profile),
            ("trace hash", bundle.trace_hash),
        ],
        replay=bundle.replay,
        nodes=sorted({line.node for line in bundle.trace} | set(range(1, bundle.settings.knobs.nodes + 1))),
        logs=logs,
        steps=steps_of(bundle.trace, logs, bundle.changes, bundle.causes),
        marks=[
            Mark(one.before_step, one.at_us, one.what, one.detail, one.node)
            for one in bundle.happenings
            if one.what not in PROTOCOL_ROWS
        ],
        story=story_of(bundle.story),
    )
    chart.violation = Verdict(
        name=found.invariant,
        finding=found.finding,
        rule=found.rule,
        sentence=found.sentence,
        at_step=found.at_step,
        node=found.node,
        at_us=found.at_us,
        before=found.before,
        after=found.after,
    )
    other = bundle.disagreement
    if other is not None:
        name = f"{other.model}: {other.action}" if other.action else other.model
        chart.disagreement = Verdict(
            name=name, finding=other.finding, at_step=other.at_step, node=other.node, at_us=other.at_us
        )
    return chart
