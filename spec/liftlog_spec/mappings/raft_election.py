"""Raft's elections as the proof `election` sees them: terms and votes, in memory and on disk.

The proof knows nothing of logs: a vote that is refused for the log's sake is just not given. An answer is
`Answer` when it leaves, a candidate's own vote is one too. What a restart finds is the disk before or after
the write under way, which is `Sync` and then `Crash`.

Bounds: no lost disks (a voter that forgot is no voter, I2), and at most one write under way: with more, an
older one than the present memory may reach the disk, of which the proof's `Sync` knows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from liftlog_spec.lang.types import SpecError
from liftlog_spec.mappings.checker import Mapping, Steps
from liftlog_spec.mappings.reading import NamedItem, NamedState
from liftlog_spec.models.raft import Raft
from liftlog_spec.proofs.election import Election


class RaftElection(Mapping):
    """`constants`: of the model. Raises SpecError for bounds that the mapping is not made for."""

    def __init__(self, variant: str, constants: dict[str, Any]) -> None:
        if constants.get("Writes", 1) > 1:
            raise SpecError("mapping raft-election: at most one write under way; give --writes 0 or 1")
        if constants.get("Nodes", 3) != 3:
            raise SpecError("mapping raft-election: any two of three are its quorums; give --nodes 3")
        self.concrete = Raft(**({"variant": variant} if variant else {}), **constants, Losses=0)
        self.abstract = Election(Nodes=3, Terms=self.concrete.bindings["Terms"] + 1)

    def begin(self, state: NamedState, abstract: NamedState) -> Steps:
        yield from ()

    def steps(
        self, action: str, given: dict[str, Any], before: NamedState, after: NamedState, abstract: NamedState
    ) -> Steps:
        n = given["n"]
        if action == "Restart":
            yield from _restart(n, given, before, after)
            return
        if action == "BecomeLeader":
            term = before.term[n]
            voters = {m.source for m in before.messages if (m.kind, m.term, m.to) == ("vote", term, n)}
            yield "Answer", {"n": n, "to": n}
            yield "Elect", {"n": n, "t": term, "q": quorum_within(voters | {n})}
            return
        yield from _in_memory(action, n, given, before, after)
        for node in after.disk:
            if kept(before.disk[node]) != kept(after.disk[node]):
                yield "Sync", {"n": node}
        for message in said(after, "vote") - said(before, "vote"):
            yield "Answer", {"n": message.source, "to": message.to}

    def disagreements(self, state: NamedState, abstract: NamedState) -> Iterator[str]:
        for n in state.term:
            mine = (state.term[n], state.vote[n])
            if mine != (abstract.term[n], only(abstract.vote[n])):
                yield f"term and vote of node {n + 1}, in memory: {mine}"
            disk = kept(state.disk[n])
            if disk != (abstract.disk_term[n], only(abstract.disk_vote[n])):
                yield f"term and vote of node {n + 1}, on disk: {disk}"
            led = any(abstract.elected[state.term[n]][n].values())
            if state.role[n] == "leader" and not led:
                yield f"node {n + 1} leads term {state.term[n]}, in which nobody elected it"
        for m in said(state, "vote"):
            if not abstract.granted[m.source][m.term][m.to]:
                yield f"node {m.source + 1} told a vote for node {m.to + 1} in term {m.term}"


def _in_memory(action: str, n: Any, given: dict[str, Any], before: NamedState, after: NamedState) -> Steps:
    """What the step does to term and vote."""
    term = after.term[n]
    if action == "Campaign":
        yield "Campaign", {"n": n, "t": term}
    elif action == "GrantVote":
        yield "Grant", {"n": n, "to": given["request"].source, "t": term}
    elif term > before.term[n]:
        yield "Hear", {"n": n, "t": term}


def _restart(n: Any, given: dict[str, Any], before: NamedState, after: NamedState) -> Steps:
    """The disk before or after the write; then, if the log tells of a later term, that term (M1a)."""
    if given["voted"]:
        yield "Sync", {"n": n}
    yield "Crash", {"n": n}
    found = kept(before.writes[n][given["voted"] - 1] if given["voted"] else before.disk[n])
    if after.term[n] > found[0]:
        yield "Hear", {"n": n, "t": after.term[n]}
        yield "Sync", {"n": n}


def kept(image: NamedItem) -> tuple[int, int | None]:
    """Term and vote on a disk."""
    return image.term, image.vote


def only(votes: dict[int, bool]) -> int | None:
    """For whom; None for nobody."""
    found = [node for node, voted in votes.items() if voted]
    return found[0] if len(found) == 1 else None if not found else -1


def said(state: NamedState, kind: str) -> set[NamedItem]:
    """Messages of a kind."""
    return {message for message in state.messages if message.kind == kind}


def quorum_within(voters: set[int]) -> int:
    """Of three nodes the quorum q is all but q: the first one whose members are all among the voters."""
    return next((q for q in range(3) if all(n in voters for n in range(3) if n != q)), 0)
