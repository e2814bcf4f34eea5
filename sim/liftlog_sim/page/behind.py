"""The steps behind a violation: of all that it came from, those that changed what it is about.

From the step that shows the violation one walks back: to the steps it came from, and to the one before it on
the same node. Of these steps count those that changed a role, an epoch, an end or the in-sync set of the log
that the finding speaks of, that cut or acknowledged something, and the starts of processes.
"""

from __future__ import annotations

import re

from liftlog_sim.page.chart import RAFT, START, Chart, ChartStep

MOST = 12
GROUP = ("ElectionSafety", "RaftLogMatching", "LeaderCompleteness", "StateMachineSafety")
LOG = re.compile(r"\b(\d+)/(\d+)\b")
TELLING = ("role", "epoch", "ISR", "term", "vote")
ENDS = ("LEO", "durable LEO", "HW", "last", "commit")


def behind(chart: Chart) -> list[int]:
    """Numbers of the steps, causes first; the one that shows the violation is the last."""
    violation = chart.violation
    if violation is None or not 0 <= violation.step < len(chart.steps):
        return []
    cone = _cone(chart, violation.step)
    logs = _logs(chart)
    told = [place for place in cone if _weight(chart.steps[place], logs) > 1]
    if len(told) < MOST:
        more = [place for place in cone if _weight(chart.steps[place], logs) == 1]
        told = sorted({*told, *more[-(MOST - len(told)) :]})
    kept = [place for place in told if place != violation.step][-MOST + 1 :]
    return [*kept, violation.step]


def _logs(chart: Chart) -> list[str]:
    """The beginnings of the names that matter: the logs that the violation is about."""
    violation = chart.violation
    assert violation is not None
    found = [f"{stream}/{index}" for stream, index in LOG.findall(violation.finding)]
    found += [key.partition(" ")[0] for key in (*violation.before, *violation.after)]
    if violation.name in GROUP or violation.finding.startswith("Raft"):
        found = [RAFT]
    known = [log for log in dict.fromkeys(found) if log in chart.logs]
    return known or list(chart.logs)


def _cone(chart: Chart, last: int) -> list[int]:
    """Every step that could have had a part in it, in order."""
    former: dict[int, int] = {}
    before: list[int] = []
    for place, step in enumerate(chart.steps[: last + 1]):
        before.append(former.get(step.node, -1))
        former[step.node] = place
    seen = {last}
    waiting = [last]
    while waiting:
        place = waiting.pop()
        for cause in (*chart.steps[place].causes, before[place]):
            if cause >= 0 and cause not in seen:
                seen.add(cause)
                waiting.append(cause)
    return sorted(seen)


def _weight(step: ChartStep, logs: list[str]) -> int:
    """2 = it tells something by itself; 1 = it moves an end; 0 = neither."""
    if step.kind == START:
        return 2
    weight = 0
    for key in step.changes:
        log, _, name = key.partition(" ")
        if log in logs:
            weight = max(weight, 2 if name in TELLING else 1 if name in ENDS else 0)
    if step.label.startswith(("cuts", "acks", "begins anew", "sync fails", "write fails", "stops")):
        weight = 2
    return weight
