"""C7: a log that begins at a first offset, as the model sees it: as one that begins at 0.

What lies below the first offset never was, so that nothing but the numbers differs. A copy that has not begun
yet, or has lost all that it had, ends at 0, and is empty: as one that ends at the first offset.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from liftlog.trace.replica_lines import Copy, Group, GroupStep, Letter, ReplicaState, ReplicaStep, Step


def shifted(step: Step, first: int) -> Step:
    """The same of a log whose offsets are lower by `first`."""
    if isinstance(step, GroupStep):
        return replace(
            step,
            first=0,
            after=None if step.after is None else _group(step.after, first),
            found=_less(step.found, first, "leo"),
            told=_less(step.told, first, "leo"),
        )
    return _replica_step(step, first)


def _replica_step(step: ReplicaStep, first: int) -> ReplicaStep:
    cause = step.cause
    if cause.letter is not None:
        cause = replace(cause, letter=_letter(cause.letter, first))
    return replace(
        step,
        cause=cause,
        sent=tuple(_letter(letter, first) for letter in step.sent),
        after=None if step.after is None else _state(step.after, first),
        appended=tuple((epoch, max(0, end - first)) for epoch, end in step.appended),
        reports=tuple(_less(report, first, "leo") for report in step.reports),
    )


def _less(found: Any, first: int, *names: str) -> Any:
    """With these offsets lowered; None stays None."""
    if found is None:
        return None
    return replace(found, **{name: max(0, getattr(found, name) - first) for name in names})


def _letter(letter: Letter, first: int) -> Letter:
    lowered: Letter = _less(
        letter, first, "offset", "durable", "hw", "log_start", "end_offset", "first", "end"
    )
    return lowered


def _group(group: Group, first: int) -> Group:
    known: dict[int, Copy] = {node: _less(copy, first, "leo") for node, copy in group.known.items()}
    return replace(group, known=known)


def _state(state: ReplicaState, first: int) -> ReplicaState:
    office = state.office
    if office is not None:
        progress = {
            node: (run, durable if durable < 0 else max(0, durable - first))
            for node, (run, durable) in office.progress.items()
        }
        office = replace(office, began=max(0, office.began - first), progress=progress)
    lowered: ReplicaState = _less(state, first, "leo", "durable", "hw", "log_start")
    return replace(
        lowered,
        history=tuple((epoch, max(0, start - first)) for epoch, start in state.history),
        damage=tuple((max(0, start - first), max(0, end - first)) for start, end in state.damage),
        office=office,
    )
