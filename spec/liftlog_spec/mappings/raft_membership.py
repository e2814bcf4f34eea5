"""Raft's membership changes as the proof `membership` sees them: a tree of entries with configurations.

The proof's root is where every log begins, and an entry of the model is the element of its term and index;
that no term has two at one index is part of what is checked, as is that a log is what lies below its last
entry. A configuration that is written is an element of its own, even if its voters were the same before.
Learners are not in it: whoever is not counted is nobody. What a server acknowledged up to an index it
acknowledged for all entries of that term.

Where an election or a commit is one that the proof shows to be impossible, the mapping says so by its name
(`ElectWithout`, `ElectAnother`, `CommitLate`): the right model never takes one. Whoever lost its disk does
nothing more, which is what the proof allows everybody.

Bounds: three nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from liftlog_spec.lang.types import SpecError
from liftlog_spec.mappings.checker import AbstractStep, Mapping, Steps
from liftlog_spec.mappings.raft_election import only
from liftlog_spec.mappings.reading import NamedItem, NamedState
from liftlog_spec.models.raft_membership import RaftMembership
from liftlog_spec.proofs.membership import Membership
from liftlog_spec.proofs.voters import SETS, voters_of

ROOT = 0


class MembershipToProof(Mapping):
    """`constants`: of the model. Raises SpecError for bounds that the mapping is not made for."""

    def __init__(self, variant: str, constants: dict[str, Any]) -> None:
        if constants.get("Nodes", 3) != 3:
            raise SpecError("mapping raft-membership: the proof's sets are of three; give --nodes 3")
        self.concrete = RaftMembership(**({"variant": variant} if variant else {}), **constants)
        bounds = self.concrete.bindings
        self.entries = bounds["Entries"]
        self.abstract = Membership(
            Nodes=3,
            Terms=bounds["Terms"] + 1,
            Entries=1 + bounds["Terms"] * self.entries,
            Configs=SETS * (bounds["Changes"] + 1),
            Quorums=SETS,
        )

    def entry(self, term: int, index: int) -> int:
        """The element of what was written in the term at the index, which is counted from 0."""
        return 1 + (term - 1) * self.entries + index

    def path(self, log: tuple[NamedItem, ...]) -> list[int]:
        """All elements of a log."""
        return [ROOT, *(self.entry(item.term, index) for index, item in enumerate(log))]

    def begin(self, state: NamedState, abstract: NamedState) -> Steps:
        leader = next(n for n, role in state.role.items() if role == "leader")
        first = number_of(state.first.voters)
        yield "Found", {"c": first}
        yield "Campaign", {"n": leader, "t": 1}
        for n in sorted(state.first.voters - {leader}):
            yield "Vote", {"n": n, "to": leader, "t": 1, "a": ROOT}
        yield "Elect", {"n": leader, "c": first, "q": number_of(state.first.voters)}

    def steps(
        self, action: str, given: dict[str, Any], before: NamedState, after: NamedState, abstract: NamedState
    ) -> Steps:
        n = given["n"]
        term, log = after.term[n], before.log[n]
        match action:
            case "Campaign":
                yield "Campaign", {"n": n, "t": term}
            case "GrantVote":
                to = given["to"]
                yield "Vote", {"n": n, "to": to, "t": term, "a": abstract.log[to]}
            case "BecomeLeader":
                yield _elect(abstract, n, number_of(before.votes[n]))
            case "StepDown":
                yield "Hear", {"n": n, "t": term}
            case "Propose":
                yield "Write", {"n": n, **_office(abstract, n), "x": self.entry(term, len(log))}
            case "Add" | "Promote" | "Remove":
                config = after.log[n][-1].config
                yield (
                    "Change",
                    {
                        "n": n,
                        **_office(abstract, n),
                        "x": self.entry(term, len(log)),
                        "c": unused(abstract, number_of(config.voters)),
                        "old": config_of(abstract, abstract.log[n]),
                        "b": self.path(log)[before.commit[n]],
                    },
                )
            case "Accept" | "Heartbeat":
                sent = given["before"] + (action == "Accept")
                theirs, t = self.path(before.written[given["term"]]), given["term"]
                yield "Accept", {"n": n, "t": t, "h": theirs[-1], "x": theirs[sent]}
            case "Commit":
                index = given["index"]
                have = {o for o, known in before.match[n].items() if o == n or known >= index}
                yield _commit(abstract, self.path(log)[index], abstract.log[n], number_of(have))

    def disagreements(self, state: NamedState, abstract: NamedState) -> Iterator[str]:
        for n, term in state.term.items():
            if abstract.term[n] != term or only(abstract.vote[n][term]) != state.vote[n]:
                yield f"node {n + 1} is in term {term} and voted for node number {state.vote[n]}"
            if path_to(abstract, abstract.log[n]) != self.path(state.log[n]):
                yield f"node {n + 1} has the log {state.log[n]}"
            if state.role[n] == "leader" and abstract.log[n] not in true_of(abstract.head[term]):
                yield f"node {n + 1} leads term {term}, of which its log is not the log"
            for e, item in zip(self.path(state.log[n])[1:], state.log[n], strict=True):
                if voters_of(config_of(abstract, e)) != mask_of(item.config.voters):
                    yield f"in the log of node {n + 1} stands the configuration {item.config}"
        for term, leaders in state.elected.items():
            if {n for n, bases in abstract.elected[term].items() if any(_records(bases))} != leaders:
                yield f"elected in term {term}: {sorted(n + 1 for n in leaders)}"
            if leaders and true_of(abstract.head[term]) != [self.path(state.written[term])[-1]]:
                yield f"written in term {term}: {state.written[term]}"
        for index, found in state.decided.items():
            if found is not None and not self._is_decided(abstract, index, found):
                yield f"term {found.term} committed the entry of term {found.entry} at {index + 1}"

    def _is_decided(self, abstract: NamedState, index: int, found: NamedItem) -> bool:
        """By a commit of that term, of this entry or of one after it."""
        e = self.entry(found.entry, index)
        return any(abstract.upto[e][f] and abstract.at[f] == found.term for f in true_of(abstract.committed))


def _elect(abstract: NamedState, n: int, q: int) -> AbstractStep:
    """One of three actions: is anything lacking, and is there a leader already?"""
    term, log = abstract.term[n], abstract.log[n]
    given = {"n": n, "c": config_of(abstract, log), "q": q}
    earlier = [e for e in true_of(abstract.committed) if abstract.at[e] < term]
    lacking = [e for e in earlier if not abstract.upto[e][log]]
    if lacking:
        lowest = min(lacking, key=lambda e: len(path_to(abstract, e)))
        h, r = next(_records(abstract.counted[lowest]))
        return "ElectWithout", {**given, "e": lowest, "h": h, "d": config_of(abstract, h), "r": r}
    for m, bases in abstract.elected[term].items():
        for b, r in _records(bases):
            return "ElectAnother", {**given, "m": m, "b": b, "d": config_of(abstract, b), "r": r}
    return "Elect", given


def _commit(abstract: NamedState, e: int, h: int, q: int) -> AbstractStep:
    """One of two actions: is it lacking anywhere?"""
    given = {"e": e, "h": h, "c": config_of(abstract, h), "q": q}
    for u in true_of(abstract.lacks[e]):
        for n, bases in abstract.elected[u].items():
            for a, r in _records(bases):
                d = config_of(abstract, a)
                return "CommitLate", {**given, "u": u, "n": n, "a": a, "d": d, "r": r}
    return "Commit", given


def _office(abstract: NamedState, n: int) -> dict[str, int]:
    """With which log and quorum it was elected; any, if it was not, and then the step is refused."""
    a, q = next(_records(abstract.elected[abstract.term[n]][n]), (ROOT, 0))
    return {"a": a, "q": q}


def _records(relation: dict[int, dict[int, bool]]) -> Iterator[tuple[int, int]]:
    """The pairs of a relation."""
    return ((a, b) for a, row in relation.items() for b, there in row.items() if there)


def true_of(relation: dict[int, bool]) -> list[int]:
    return [element for element, there in relation.items() if there]


def mask_of(nodes: Iterable[int]) -> int:
    return sum(1 << n for n in nodes)


def number_of(nodes: Iterable[int]) -> int:
    """The quorum of these nodes, and the first configuration with them as its voters."""
    return mask_of(nodes) - 1


def unused(abstract: NamedState, number: int) -> int:
    """Of the configurations with the same voters the first that no entry has."""
    used = {c for configs in abstract.config.values() for c in true_of(configs)}
    return next(c for c in range(number, number + SETS * (len(used) + 1), SETS) if c not in used)


def config_of(abstract: NamedState, e: int) -> int:
    """The configuration of an entry; the first one if it has none, and then the step is refused."""
    return next(iter(true_of(abstract.config[e])), 0)


def path_to(abstract: NamedState, e: int) -> list[int]:
    """What is below an entry, from the root on."""
    below = [x for x in abstract.upto if abstract.upto[x][e]]
    return sorted(below, key=lambda x: sum(abstract.upto[y][x] for y in below))
