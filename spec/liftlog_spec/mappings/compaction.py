"""Compaction as the proof `compaction` sees it: rules C1, C2, C5.

The proof's log is what is committed; a copy reaches an offset when it holds what was committed there, which
for what is copied before it is committed is at the commit. A run of compaction takes out one record after the
other (`Thin`, and `Drop` for a tombstone), and at its end passes what it went through. A horizon rises by
`Learn`, offset by offset, in the proof as soon as it may.

A leader of the model may know clean points as they were, before a disk was lost of which it has not heard;
the proof's know them as they are. So the proof learns early, while all clean points have passed an offset,
and counts a copy that begins anew as passed until it gets there. That this is enough is checked, with two
replicas in every state within small bounds, with three on random walks. A record that is damaged is
repaired, for the proof, when it is asked for: until it is back nobody can read it.

Bounds: no late reports, log starts or slow readers (`Delays`, `Retains`, `Readers` = 0).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from liftlog_spec.mappings.checker import Mapping, Steps
from liftlog_spec.mappings.reading import NamedItem, NamedState
from liftlog_spec.models.compaction import Compaction as Model
from liftlog_spec.proofs.compaction import Compaction as Proof

OUTSIDE = ("Delays", "Retains", "Readers")


class CompactionToProof(Mapping):
    """`constants`: of the model."""

    def __init__(self, variant: str, constants: dict[str, Any]) -> None:
        given = {**dict.fromkeys(OUTSIDE, 0), **constants}
        self.concrete = Model(**({"variant": variant} if variant else {}), **given)
        bounds = self.concrete.bindings
        self.abstract = Proof(Nodes=bounds["Replicas"], Offsets=bounds["Records"], Keys=bounds["Keys"])

    def begin(self, state: NamedState, abstract: NamedState) -> Steps:
        for i in range(state.committed):
            yield from _write(0, i, state)

    def steps(
        self, action: str, given: dict[str, Any], before: NamedState, after: NamedState, abstract: NamedState
    ) -> Steps:
        now = abstract
        steps = self._own_steps(action, given, before, after)
        try:
            step = next(steps)
            while True:
                now = yield step
                step = steps.send(now)
        except StopIteration:
            yield from _learn(now)

    def _own_steps(self, action: str, given: dict[str, Any], before: NamedState, after: NamedState) -> Steps:
        match action:
            case "Commit" if after.committed > before.committed:
                yield from _write(given["lead"], before.committed, after)
            case "Fetch":
                f = given["f"]
                for i in range(before.leo[f], after.leo[f]):
                    if holds(after, f, i):
                        yield "Fetch", {"n": f, "source": given["lead"], "i": i}
            case "Rewrite":
                yield from _rewrite(given["r"], before, after)
            case "EndRun":
                r = given["r"]
                if after.clean[r] > before.clean[r]:
                    yield "Pass", {"n": r, "c": after.clean[r] - 1}
            case "AskForRange":
                yield "Repair", {"n": given["f"], "source": given["lead"], "i": before.bad[given["f"]]}
            case "LoseDisk":
                yield "Wipe", {"n": given["f"]}

    def disagreements(self, state: NamedState, abstract: NamedState) -> Iterator[str]:
        for i, written in abstract.written.items():
            if written != (i < state.committed):
                yield f"committed is what lies below {state.committed}"
            elif written and (abstract.key[i], abstract.tombstone[i]) != fields(state.truth[i]):
                yield f"at {i} stands {state.truth[i]}"
        for r, slots in state.log.items():
            for i, slot in slots.items():
                reached = holds(state, r, i)
                if abstract.reached[r][i] != reached:
                    yield f"replica {r + 1} has {'' if reached else 'not '}come past {i}"
                if i != state.bad[r] and abstract.has[r][i] != (reached and slot.there):
                    yield f"replica {r + 1} has {'a' if slot.there else 'no'} record at {i}"
                if i < clean_point(state, r) and not abstract.passed[r][i]:
                    yield f"the clean point of replica {r + 1} is {clean_point(state, r)}"
                if i < state.horizon[r] and not abstract.horizon[i]:
                    yield f"the horizon of replica {r + 1} is {state.horizon[r]}"


def holds(state: NamedState, r: int, i: int) -> bool:
    """The copy has the committed record, or the place where it was."""
    here = i < state.committed and i < state.leo[r]
    return bool(here and state.log[r][i].epoch == state.truth[i].epoch)


def clean_point(state: NamedState, r: int) -> int:
    """As far as there is no damage."""
    whole = state.bad[r]
    return int(state.clean[r] if whole is None else min(state.clean[r], whole))


def fields(slot: NamedItem) -> tuple[int, bool]:
    """Of a committed record."""
    return slot.key, slot.deletes


def _write(lead: int, i: int, after: NamedState) -> Steps:
    """An offset is committed: the leader has written it, and whoever has it already has copied it."""
    key, deletes = fields(after.truth[i])
    yield "Append", {"n": lead, "i": i, "k": key, "deletes": deletes}
    for r in after.log:
        if r != lead and holds(after, r, i):
            yield "Fetch", {"n": r, "source": lead, "i": i}


def _learn(now: NamedState) -> Steps:
    """Whatever may be learned, at once: later somebody may begin anew."""
    for i, known in now.horizon.items():
        if now.written[i] and not known and all(_passed_or_empty(now, n, i) for n in now.passed):
            now = yield "Learn", {"i": i}


def _passed_or_empty(now: NamedState, n: int, i: int) -> bool:
    return now.passed[n][i] or not any(now.reached[n][j] for j in range(i + 1))


def _rewrite(r: int, before: NamedState, after: NamedState) -> Steps:
    """A record gone: for a later one of its key that the run knows of, or as a tombstone."""
    run, mine = before.run[r], before.log[r]
    i = run.done
    if not mine[i].there or after.log[r][i].there:
        return
    known = range(max(run.base, i + 1), run.end)
    later = next((j for j in known if mine[j].there and mine[j].key == mine[i].key), None)
    if later is None:
        yield "Drop", {"n": r, "i": i}
    else:
        yield "Thin", {"n": r, "i": i, "j": later}
