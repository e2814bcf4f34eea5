"""The model's replica beside the program's: each value that both have must be equal."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from liftlog.trace.replica_lines import ReplicaState
from liftlog_spec.refine.abstract import (
    APPLIED,
    FIRST,
    HERE,
    HW,
    LOG,
    PENDING,
    PROGRESS,
    SYNCED,
    UP,
    VIEW,
    Abstract,
    Agreed,
    Disagreement,
)
from liftlog_spec.refine.runs import Runs

NAMES = ("role", "leo", "durable", "leader", "isr", "epoch", "version", "hw")


def compare(a: Abstract, r: int, after: ReplicaState) -> None:
    """Raises Disagreement with what differs, and nothing else."""
    state = a.state
    if after.state != "ready" or not state[HERE][r]:
        return
    up, log, applied = state[UP][r], state[LOG][r], state[APPLIED][r]
    leader, _, _, isr, _, _ = state[VIEW][r]
    leads = up and leader == r
    role = "leader" if leads else "follower" if up and leader >= 0 else "idle"
    view = after.view
    real = (
        after.role,
        after.leo,
        after.durable,
        view.leader,
        sorted(view.isr),
        view.epoch,
        view.version,
        after.hw,
    )
    model = (
        role,
        len(log),
        state[SYNCED][r],
        a.members[leader] if leader >= 0 else 0,
        sorted(a.nodes(isr)),
        a.epoch_at.get(applied),
        a.version_at.get(applied),
        state[HW][r] if up else after.hw,
    )
    wrong = _shown(real, model) if real != model else []
    if leads:
        wrong += _office(a, r, after)
    agreed = a.agreed[r]
    if agreed is None or after.damage or not agreed.still(after, log):
        wrong += _history(a, r, log, after)
    if wrong:
        raise Disagreement("", "; ".join(wrong))


def _shown(real: tuple[Any, ...], model: tuple[Any, ...]) -> list[str]:
    found = []
    for name, mine, theirs in zip(NAMES, real, model, strict=True):
        if mine != theirs:
            found.append(f"{name} is {mine}, in the model {theirs}")
    return found


def _office(a: Abstract, r: int, after: ReplicaState) -> list[str]:
    office = after.office
    if office is None:
        return ["office is None, in the model an epoch"]
    state = a.state
    pending = a.node(state[PENDING][r])
    found: list[tuple[str, Any, Any]] = []
    if office.began != state[FIRST][r]:
        found.append(("epoch's start", office.began, state[FIRST][r]))
    if (office.pending.who if office.pending is not None else 0) != pending:
        found.append(("pending", office.pending.who if office.pending is not None else 0, pending))
    progress = state[PROGRESS][r]
    for place, node in enumerate(a.members):
        if place != r:
            known = office.progress.get(node, NO_PROGRESS)[1]
            if known != progress[place]:
                found.append((f"progress[{node}]", known, progress[place]))
    return [f"{name} is {real}, in the model {model}" for name, real, model in found]


NO_PROGRESS = (0, -1)


def _history(a: Abstract, r: int, log: Runs, after: ReplicaState) -> list[str]:
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
    # All of it was looked at, the beginning of the last stretch included: a longer one is no other.
    whole = history and log.values and after.leo == len(log) > max(known_from, history[-1][1], *log.ends[:-1])
    whole = whole and not after.damage
    a.agreed[r] = Agreed(history, after.log_start, log.values, log.ends[:-1]) if whole else None
    return []


def _epoch_at(history: Sequence[tuple[int, int]], offset: int) -> int:
    found = 0
    for start, epoch in history:
        if start > offset:
            break
        found = epoch
    return found
