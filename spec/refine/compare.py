"""The model's replica beside the program's: each value that both have must be equal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from liftlog.core.steps import ReplicaState
from spec.refine.abstract import Abstract, Disagreement
from spec.refine.runs import Runs


def compare(a: Abstract, r: int, after: ReplicaState) -> None:
    """Raises Disagreement with what differs, and nothing else."""
    if after.state != "ready" or not a["here"][r]:
        return
    up = a["up"][r]
    view = a.view(r)
    leads = up and view.leader == r
    role = "leader" if leads else "follower" if up and view.leader >= 0 else "idle"
    found: list[tuple[str, Any, Any]] = [
        ("role", after.role, role),
        ("leo", after.leo, len(a["log"][r])),
        ("durable", after.durable, a["synced"][r]),
        ("leader", after.view.leader, a.node(view.leader)),
        ("isr", sorted(after.view.isr), a.nodes(view.isr)),
        ("epoch", after.view.epoch, a.epoch_at.get(a["applied"][r])),
        ("version", after.view.version, a.version_at.get(a["applied"][r])),
    ]
    if up:
        found.append(("hw", after.hw, a["hw"][r]))
    if leads:
        found += _office(a, r, after)
    wrong = [f"{name} is {real}, in the model {model}" for name, real, model in found if real != model]
    wrong += _history(a, a["log"][r], after)
    if wrong:
        raise Disagreement("", "; ".join(wrong))


def _office(a: Abstract, r: int, after: ReplicaState) -> list[tuple[str, Any, Any]]:
    office = after.office
    if office is None:
        return [("office", None, "an epoch")]
    pending = a["pending"][r]
    found: list[tuple[str, Any, Any]] = [
        ("epoch's start", office.began, a["first"][r]),
        ("pending", office.pending.who if office.pending is not None else 0, a.node(pending)),
    ]
    for place, node in enumerate(a.members):
        if place != r:
            known = office.progress.get(node, (0, -1))[1]
            found.append((f"progress[{node}]", known, a["progress"][r][place]))
    return found


def _history(a: Abstract, log: Runs, after: ReplicaState) -> list[str]:
    """Which epoch wrote what: from the log's start on, where it can be read (D2)."""
    history = after.history
    known_from = max(after.log_start, history[0][1]) if history else after.leo
    real = [(start, a.epochs.get(epoch, -1)) for epoch, start in history]
    points = {known_from, after.leo}
    points.update(start for start, _ in real)
    points.update(log.ends)
    for start, end in after.damage:
        points.update((start, end))
    stretches = sorted(point for point in points if known_from <= point <= after.leo)
    for start, end in pairwise(stretches):
        if any(first <= start < last for first, last in after.damage) or start >= len(log):
            continue
        epoch = _epoch_at(real, start)
        if epoch != log[start][0]:
            return [f"offsets {start}..{end - 1} are of epoch {epoch}, in the model of {log[start][0]}"]
    return []


def _epoch_at(history: Sequence[tuple[int, int]], offset: int) -> int:
    found = 0
    for start, epoch in history:
        if start > offset:
            break
        found = epoch
    return found
