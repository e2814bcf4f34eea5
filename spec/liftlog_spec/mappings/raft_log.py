"""Raft's log as the proof `raft-log` sees it: elections with logs, replication, commits.

The proof's index 0 is where every log begins, and entry number i of the model stands at i + 1. What a node
acknowledges up to an index is acknowledged there for all entries of the leader's term, also where the model's
answer says less. The proof's message of a leader is its whole log up to an index: the model's messages are
older and shorter, which by log matching comes to the same; that it does is what is checked here.

Bounds: disks as fast as memory (`Writes` = 0: what was promised is on disk, as the proof assumes and the
proof `election` looks into), and no lost disks.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from liftlog_spec.lang.types import SpecError
from liftlog_spec.mappings.checker import Mapping, Steps
from liftlog_spec.mappings.raft_election import only, quorum_within, said
from liftlog_spec.mappings.reading import NamedItem, NamedState
from liftlog_spec.models.raft import Raft
from liftlog_spec.proofs.raftlog import RaftLog


class RaftToLog(Mapping):
    """`constants`: of the model. Raises SpecError for bounds that the mapping is not made for."""

    def __init__(self, variant: str, constants: dict[str, Any]) -> None:
        if constants.get("Nodes", 3) != 3:
            raise SpecError("mapping raft-log: any two of three are its quorums; give --nodes 3")
        given = {**constants, "Writes": 0, "Losses": 0}
        self.concrete = Raft(**({"variant": variant} if variant else {}), **given)
        bounds = self.concrete.bindings
        self.abstract = RaftLog(Nodes=3, Terms=bounds["Terms"] + 1, Indexes=bounds["Entries"] + 1)

    def begin(self, state: NamedState, abstract: NamedState) -> Steps:
        yield from ()

    def steps(
        self, action: str, given: dict[str, Any], before: NamedState, after: NamedState, abstract: NamedState
    ) -> Steps:
        n = given["n"]
        term, log = after.term[n], before.log[n]
        end = {"i": len(log), "w": log[-1] if log else 0}
        match action:
            case "Campaign":
                yield "Campaign", {"n": n, "t": term, **end}
            case "GrantVote":
                m = given["request"]
                yield "Vote", {"n": n, "to": m.source, "t": term, "i": m.index, "w": m.index_term}
            case "BecomeLeader":
                voters = {m.source for m in said(before, "vote") if (m.term, m.to) == (term, n)}
                yield "Elect", {"n": n, "t": term, "q": quorum_within(voters | {n}), **end}
            case "Propose":
                yield "Append", {"n": n, "t": term, "q": elected_by(abstract, term, n), "i": len(log) + 1}
            case "Commit":
                index = given["index"]
                has_it = {m.source for m in said(before, "ack") if acknowledges(m, term, n, index)}
                yield "Commit", {"t": term, "i": index, "q": quorum_within(has_it | {n})}
            case "Accept":
                m = given[next(name for name in given if name not in ("n", "acked"))]
                known = m.index + len(m.entries)
                same = log[m.index : known] == m.entries
                yield "AcceptWhatIsThere" if same else "Accept", {"n": n, "t": term, "k": known}
            case "StepDown" if term > before.term[n]:
                yield "Hear", {"n": n, "t": term}

    def disagreements(self, state: NamedState, abstract: NamedState) -> Iterator[str]:
        for n, term in state.term.items():
            if newest(abstract.heard[n]) != term:
                yield f"node {n + 1} is in term {term}"
            if [t for t, left in abstract.left[n].items() if left] != list(range(term)):
                yield f"node {n + 1} has left the terms below {term} and no other"
            if only(abstract.vote[n][term]) != state.vote[n]:
                yield f"node {n + 1} voted for node number {state.vote[n]} in term {term}"
            if entries_of(abstract.holds[n]) != list(state.log[n]):
                yield f"node {n + 1} has the log {state.log[n]}"
            if state.role[n] == "leader":
                if not any(abstract.elected[term][n].values()):
                    yield f"node {n + 1} leads term {term}, in which nobody elected it"
                if entries_of(abstract.log[term]) != list(state.log[n]):
                    yield f"the log of term {term} is that of node {n + 1}: {state.log[n]}"
        for m in said(state, "ack"):
            log, acked = abstract.log[m.term], abstract.acked[m.source][m.term]
            if any(log[i][m.term] and not acked[i] for i in range(1, m.index + 1)):
                yield f"node {m.source + 1} acknowledged in term {m.term} up to {m.index}"
        for decision in state.decisions:
            if not any(abstract.committed[decision.term][decision.upto].values()):
                yield f"term {decision.term} committed up to {decision.upto}"


def acknowledges(m: NamedItem, term: int, leader: int, index: int) -> bool:
    """An answer to this leader that covers the index."""
    return bool((m.term, m.to) == (term, leader) and m.index >= index)


def elected_by(abstract: NamedState, term: int, n: int) -> int:
    """The quorum that made n the leader; some quorum if none did, and then the step is refused."""
    return next((q for q, won in abstract.elected[term][n].items() if won), 0)


def newest(heard: dict[int, bool]) -> int:
    """The latest of the terms or epochs that a node has heard of; -1 if there is none."""
    return max((t for t, true in heard.items() if true), default=-1)


def entries_of(log: dict[int, dict[int, bool]]) -> list[int | None]:
    """The terms at 1, 2, ... of a log that holds one entry at each index; None for a gap."""
    found = {i: w for i, terms in log.items() if i for w, there in terms.items() if there}
    return [found.get(i) for i in range(1, max(found, default=0) + 1)]
