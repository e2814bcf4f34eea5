"""The causal cone of a step: the earlier steps without which it would not have been as it was.

A step depends on the step that sent its message, asked the disk or set the timer (`origins.py`), and on
those that last wrote what it is about on its own node: the group's log and votes, or one partition. Time
alone is no cause: what a node did about another partition stays outside.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Sequence
from typing import Any

from liftlog.types import PartitionId
from liftlog_sim.explain.bundle import Bundle

GROUP = "group"
"""The subject of what concerns the metadata group; a log's is its id, as in 5/0, or 5/0.journal."""


def subject_of_key(key: str) -> str:
    """What a state's name is about."""
    first = key.partition(" ")[0]
    return first if "/" in first else GROUP


def partition_in(fields: Any) -> str:
    """The partition that an event, an effect or a message speaks of; empty if none."""
    if not isinstance(fields, dict):
        return ""
    for name in ("partition", "log"):
        found = fields.get(name)
        if isinstance(found, dict) and "stream" in found:
            return str(PartitionId(found["stream"], found["index"])) if found["stream"] else ""
    for name in ("message", "summary", "request"):
        inner = fields.get(name)
        if isinstance(inner, list) and len(inner) == 2:
            return partition_in(inner[1])
    return ""


class Cone:
    """The dependencies of a bundle's steps."""

    def __init__(self, bundle: Bundle) -> None:
        self._bundle = bundle
        self._writers: dict[tuple[int, str], dict[str, list[int]]] = {}
        for step, changed in enumerate(bundle.changes):
            node = bundle.trace[step].node
            for key in changed:
                keys = self._writers.setdefault((node, subject_of_key(key)), {})
                keys.setdefault(key, []).append(step)

    def subjects(self, step: int) -> list[str]:
        """What a step is about: by its event, and by what it changed."""
        event = self._bundle.trace[step].event
        found = [partition_in(event[1]) or GROUP] if event is not None else [GROUP]
        for key in self._bundle.changes[step]:
            subject = subject_of_key(key)
            if subject not in found:
                found.append(subject)
        return found

    def before(self, step: int, subject: str) -> list[tuple[int, str]]:
        """What a step depends on, as far as it is about a subject."""
        node = self._bundle.trace[step].node
        found: list[tuple[int, str]] = []
        for cause in self._bundle.causes[step]:
            event = self._bundle.trace[step].event
            about = partition_in(event[1]) if event is not None else ""
            found.append((cause, about or subject))
        for writers in self._writers.get((node, subject), {}).values():
            place = bisect_left(writers, step)
            if place:
                found.append((writers[place - 1], subject))
        return found

    def of(self, steps: Sequence[int], subjects: Collection[str]) -> set[int]:
        """All steps that these came from, themselves included."""
        waiting = [(step, subject) for step in steps for subject in (*subjects, *self.subjects(step))]
        seen = set(waiting)
        while waiting:
            for each in self.before(*waiting.pop()):
                if each not in seen:
                    seen.add(each)
                    waiting.append(each)
        return {step for step, _ in seen}
