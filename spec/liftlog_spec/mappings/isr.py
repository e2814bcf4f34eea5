"""Replication with an ISR as the proof `isr` sees it: rules R1, R2, R6, R7, R9, R10, R13.

The proof's offset 0 is before every record, and record number i of the model stands at i + 1; epoch zero is
the time before the first election. In sync counts for the proof whoever is in the ISR or eligible (R13): a
removal below the minimum changes nothing there, and `Remove` is when eligibility ends. What the leader
reckons with is told late: just before it commits, the proof's leader forgets all whom the model's leader does
not count.

Bounds: no damage (`Damages` = 0). What a group does when all that is left are copies with doubtful tails
(R14) is outside the proof.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, ClassVar

from liftlog_spec.mappings.checker import Mapping, Steps
from liftlog_spec.mappings.raft_log import entries_of, newest
from liftlog_spec.mappings.reading import NamedState
from liftlog_spec.models.isr import Isr as Model
from liftlog_spec.proofs.isr import Isr as Proof

ELECTIONS = ("ElectAnother", "ElectFromIsr", "ElectFromEligible")
FOLLOWING = {
    "Fetch": "Fetch",
    "LateRecordsArrive": "Fetch",
    "Truncate": "Cut",
    "LateCutArrives": "Cut",
}
"""Steps of a follower `f` that change its log, as the proof calls them."""


class IsrToProof(Mapping):
    """`constants`: of the model."""

    outside: ClassVar[dict[str, str]] = {
        "ElectFromLastKnown": "R14: only doubtful copies are left, and the best of them is elected",
    }

    def __init__(self, variant: str, constants: dict[str, Any]) -> None:
        self.concrete = Model(**({"variant": variant} if variant else {}), **{**constants, "Damages": 0})
        bounds = self.concrete.bindings
        self.abstract = Proof(
            Nodes=bounds["Replicas"], Epochs=bounds["Epochs"] + 1, Offsets=bounds["Records"] + 1
        )

    def begin(self, state: NamedState, abstract: NamedState) -> Steps:
        leader, epoch = state.now.leader, state.now.epoch
        yield "Elect", {"n": leader, "e": epoch}
        for node in state.view:
            yield "Hear", {"n": node, "e": epoch}
        yield "Begin", {"n": leader, "e": epoch}

    def steps(
        self, action: str, given: dict[str, Any], before: NamedState, after: NamedState, abstract: NamedState
    ) -> Steps:
        r: Any = given.get("r", given.get("f"))
        epoch = 0 if r is None else before.view[r].epoch
        if action in FOLLOWING:
            if after.log[r] != before.log[r]:
                yield FOLLOWING[action], {"n": r, "e": epoch, "k": len(after.log[r])}
            return
        match action:
            case "Write":
                yield "Append", {"n": r, "e": epoch, "i": len(after.log[r])}
            case "Sync":
                yield "Sync", {"n": r, "k": after.synced[r]}
            case "Report":
                yield "Acknowledge", {"n": r, "e": epoch, "k": after.progress[given["lead"]][r]}
            case "ReportIsLate":
                yield "Acknowledge", {"n": r, "e": epoch, "k": after.late.to}
            case "Commit":
                yield from _commit(r, epoch, before, after, abstract)
            case "ProposeAddition":
                yield "Ask", {"n": given["who"], "e": before.view[given["lead"]].epoch}
            case "ApplyNewEpoch":
                yield from _new_epoch(r, after)
            case "Crash" | "CrashWithTornTail":
                yield "Crash", {"n": r, "k": len(after.log[r])}
                yield "Sync", {"n": r, "k": after.synced[r]}
            case "Register" | "RegisterAfterDamage":
                yield from _command(action, before, after)
                if not abstract.heard[r][after.view[r].epoch]:
                    yield "Hear", {"n": r, "e": after.view[r].epoch}
            case _:
                yield from _command(action, before, after)

    def disagreements(self, state: NamedState, abstract: NamedState) -> Iterator[str]:
        now, asked = state.now, {n for n, there in abstract.asked[state.now.epoch].items() if there}
        if abstract.now != now.epoch:
            yield f"the newest epoch is {now.epoch}"
        if {n for n, there in abstract.isr[now.epoch].items() if there} != in_sync(state):
            yield f"in sync or eligible are {named(in_sync(state))}"
        if asked != joining(state):
            yield f"to be added are {named(joining(state))}"
        for r, log in state.log.items():
            epochs = [record.epoch for record in log]
            if entries_of(abstract.holds[r]) != epochs:
                yield f"replica {r + 1} has the log {epochs}"
            if entries_of(abstract.durable[r]) != epochs[: state.synced[r]]:
                yield f"of the log {epochs} of replica {r + 1}, {state.synced[r]} records are durable"
            if state.up[r]:
                yield from _views_differ(r, epochs, state, abstract)
        for place, record in enumerate(state.committed):
            if not any(abstract.committed[e][place + 1][record.epoch] for e in abstract.committed):
                yield f"record {place} of epoch {record.epoch} is committed"


def _views_differ(r: int, epochs: list[int], state: NamedState, abstract: NamedState) -> Iterator[str]:
    """Of a replica that runs: the epoch it is in, and what it leads."""
    view = state.view[r]
    if newest(abstract.heard[r]) != view.epoch:
        yield f"replica {r + 1} is in epoch {view.epoch}"
    if view.leader != r:
        return
    e = view.epoch
    if not (abstract.leads[e][r] and abstract.begun[e]) or abstract.over[e]:
        yield f"replica {r + 1} leads epoch {e}"
    if entries_of(abstract.log[e]) != epochs:
        yield f"the log of epoch {e} is that of replica {r + 1}: {epochs}"
    for place, epoch in enumerate(epochs[: state.hw[r]]):
        if not any(abstract.committed[f][place + 1][epoch] for f in range(e + 1)):
            yield f"what lies below {state.hw[r]}, the HW of the leader of epoch {e}, is committed"


def in_sync(state: NamedState) -> frozenset[int]:
    """For the proof: in the ISR or eligible."""
    return frozenset(state.now.isr | state.eligible)


def named(replicas: Iterable[int]) -> str:
    """As people call them."""
    return ", ".join(f"replica {r + 1}" for r in sorted(replicas)) or "nobody"


def joining(state: NamedState) -> set[int]:
    """Whose addition is on its way."""
    return {state.change.who} if state.change is not None and state.change.joins else set()


def _command(action: str, before: NamedState, after: NamedState) -> Steps:
    """What the metadata group applies: an addition is granted or lapses, somebody goes, an election."""
    epoch = before.now.epoch
    for who in sorted(joining(before) - joining(after)):
        if action == "ApplyAddition":
            yield "Grant", {"n": who}
        yield "Lapse", {"n": who, "e": epoch}
    for who in sorted(in_sync(before) - in_sync(after)):
        yield "Remove", {"n": who}
    if action in ELECTIONS:
        yield "Elect", {"n": after.now.leader, "e": after.now.epoch}


def _new_epoch(r: int, after: NamedState) -> Steps:
    epoch = after.view[r].epoch
    yield "Hear", {"n": r, "e": epoch}
    if after.view[r].leader == r:
        yield "Begin", {"n": r, "e": epoch}


def _commit(r: int, epoch: int, before: NamedState, after: NamedState, abstract: NamedState) -> Steps:
    """R2: with the ISR that this leader knows, and whom it has proposed."""
    now = yield "Acknowledge", {"n": r, "e": epoch, "k": before.synced[r]}
    counted = before.view[r].isr | {before.pending[r], r}
    for node, counts in now.maximal[epoch].items():
        if counts and node not in counted:
            now = yield "Forget", {"n": node, "e": epoch}
    for place, record in enumerate(before.log[r][: after.hw[r]]):
        if not now.committed[epoch][place + 1][record.epoch]:
            now = yield "Commit", {"e": epoch, "i": place + 1, "w": record.epoch}
