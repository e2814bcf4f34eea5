"""Proofs: the translation means what the generated Python means, and proofs fail when they should."""

from __future__ import annotations

import random
import re
from typing import Any

import pytest
import z3

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.lang import (
    And,
    Bool,
    Enum,
    Exists,
    Fn,
    Forall,
    Implies,
    Model,
    Not,
    Option,
    Or,
    Range,
    Record,
    Rigid,
    Set,
    Sort,
    SpecError,
    Var,
    action,
    axiom,
    difference,
    elements,
    get,
    having,
    intersection,
    invariant,
    is_some,
    member,
    size,
    some,
    sometimes,
    subset,
    such_that,
    union,
    when,
    with_member,
    without,
)
from liftlog_spec.lang.types import Type
from liftlog_spec.proofs import PROOFS, Proof, proof_of
from liftlog_spec.proofs.compaction import Compaction
from liftlog_spec.proofs.election import Election
from liftlog_spec.proofs.isr import Isr
from liftlog_spec.proofs.membership import Membership
from liftlog_spec.proofs.raftlog import RaftLog
from liftlog_spec.proofs.twophase import TwoPhaseProof
from liftlog_spec.proofs.voters import are_neighbours, is_quorum
from liftlog_spec.prover.finite import Finite
from liftlog_spec.prover.fragment import cycle_in, fragment_of
from liftlog_spec.prover.induction import FOLLOWS, Induction, QueryAnswer
from liftlog_spec.prover.prove import ProofReport, prove, show
from liftlog_spec.prover.queries import Queries
from liftlog_spec.prover.values import Maybe, SymbolicValues, Value
from liftlog_spec.run.compiled import CompiledModel, compile_model

# mypy does not read models: see pyproject.toml
# mypy: ignore-errors


class Mixed(Model):
    """Every word that proofs understand, in small actions and properties that may be true or false."""

    Node = Sort(2)
    Key = Sort(2)
    Color = Enum("red", "green")
    Note = Record(color=Color, key=Option(Key))

    color = Var(Fn(Node, Color), init="red")
    best = Var(Fn(Node, Option(Key)))
    seen = Var(Fn(Node, Set(Key)))
    notes = Var(Set(Note))
    link = Var(Fn(Node, Node, Bool), init=False)
    note = Var(Note)
    flag = Var(Bool)

    @action
    def paint(s, n: Node, c: Color):
        when(s.color[n] != c, Or(s.flag, Exists(s.seen[n], lambda k: True)))
        s.color[n] = c
        s.note.color = c
        s.flag = Not(s.flag)

    @action
    def see(s, n: Node, m: Node, k: Key):
        when(Not(member(k, s.seen[n])))
        s.seen[n] = with_member(s.seen[n], k)
        s.best[n] = k
        s.link[n][m] = True
        s.notes = with_member(s.notes, {"color": s.color[n], "key": s.best[m]})

    @action
    def share(s, n: Node):
        note = some(s.notes, "note")
        when(is_some(note.key))
        s.best[n] = None
        s.seen[n] = union(without(s.seen[n], get(note.key)), such_that(s.Key, lambda k: note.key != k))
        s.note = having(note, color="red")

    @invariant
    def sets(s):
        def one(a, b):
            both = intersection(s.seen[a], s.seen[b])
            return subset(both, difference(s.seen[a], s.seen[b])) | (both == elements(s.Key))

        return Forall(s.Node, s.Node, one)

    @invariant
    def noted(s):
        return Forall(s.notes, lambda m: Implies(is_some(m.key), m.color == "red")) | (size(s.notes) > 0)

    @invariant
    def linked(s):
        return Forall(s.Node, lambda a: Exists(s.Node, lambda b: s.link[a][b] == (s.best[a] == s.best[b])))

    @invariant
    def same(s):
        return member(s.note, s.notes) | (s.note == {"color": "green", "key": None})


# -- the translation -----------------------------------------------------------------------------------------


class Instance:
    """A state of the explorer, as a moment of the prover: elements are z3 constants of the same numbers."""

    def __init__(self, induction: Induction) -> None:
        self.values: SymbolicValues = induction.translator.values
        self.induction = induction
        self.universe = {
            name: [z3.Const(f"{name} {n + 1}", self.values.sort(sort)) for n in range(sort.size)]
            for name, sort in induction.sorts.items()
        }
        self.values.universe = self.universe

    def value(self, kind: Type, held: Any) -> Value:
        match kind:
            case Sort(name=name):
                return self.universe[name][held]
            case Option(of=of):
                there = held != kind.none
                inner = held if kind.flat else (held[0] if there else None)
                return Maybe(z3.BoolVal(there), self.value(of, inner) if there else self.first(of))
            case Record(fields=fields):
                return {n: self.value(k, v) for (n, k), v in zip(fields.items(), held, strict=True)}
            case Fn():
                return lambda key: self.item(kind, held, key)
            case Set(of=of):
                return lambda key: self.is_one_of(of, key, kind.members(held))
        return self.values.constant(kind, held)

    def first(self, kind: Type) -> Value:
        return self.universe[kind.name][0] if isinstance(kind, Sort) else self.values.constant(kind, 0)

    def is_one_of(self, kind: Type, key: Value, members: list[Any]) -> Any:
        return z3.Or(*(self.values.equal(kind, key, self.value(kind, m)) for m in members))

    def item(self, kind: Fn, held: Any, key: Value) -> Value:
        """By cases, since the key may be unknown."""
        found = self.value(kind.to, held[-1])
        for element, item in zip(self.values.every(kind.domain), held, strict=True):
            same = self.values.equal(kind.domain, key, element)
            found = self.values.merge(kind.to, same, self.value(kind.to, item), found)
        return found

    def moment(self, state: tuple[Any, ...]) -> dict[str, Value]:
        types = self.induction.model.types
        return {n: self.value(k, v) for (n, k), v in zip(types.items(), state, strict=True)}

    def is_true(self, formula: Any) -> bool:
        """Whether it holds; the elements differ."""
        solver = z3.Solver()
        for members in self.universe.values():
            solver.add(z3.Distinct(*members))
        solver.add(z3.Not(formula))
        return solver.check() == z3.unsat


def some_states(compiled: CompiledModel, number: int) -> list[tuple[Any, ...]]:
    """Distinct states of random walks, always the same ones."""
    chance, found = random.Random(7), {}
    while len(found) < number:
        state = compiled.initial()[0]
        for _ in range(12):
            found[state] = None
            following = compiled.next_states(state)
            if not following:
                break
            state = chance.choice(following)
    return list(found)[:number]


def test_properties_mean_in_logic_what_they_mean_in_python() -> None:
    induction = Induction(Mixed(), 5.0)
    instance, compiled = Instance(induction), compile_model(Mixed())
    verdicts = set()
    for state in some_states(compiled, 40):
        moment = instance.moment(state)
        for (name, holds), found in zip(compiled.invariants, induction.model.invariants, strict=True):
            said = instance.is_true(induction.translator.property(found, moment))
            assert said == holds(state), (name, compiled.show(state))
            verdicts.add((name, said))
    assert len(verdicts) >= 6  # most were seen true and false


def test_actions_do_in_logic_what_they_do_in_python() -> None:
    """For each state and each choice of parameters: possible in both or neither, and the same state after."""
    induction = Induction(Mixed(), 5.0)
    instance, compiled = Instance(induction), compile_model(Mixed())
    types, taken = induction.model.types, 0
    for state in some_states(compiled, 12):
        moment = instance.moment(state)
        for number, parameters, after in compiled.successors(state):
            step = induction.translator.step(induction.model.actions[number], moment)
            given = [
                induction.translator.values.equal(v.type, value, instance.value(v.type, p))
                for v, value, p in zip(step.chosen, step.parameters, parameters, strict=True)
            ]
            expected = instance.moment(after)
            same = [
                induction.translator.values.equal(kind, step.after[name], expected[name])
                for name, kind in types.items()
            ]
            assert instance.is_true(z3.Implies(z3.And(*given), z3.And(*step.guards, *same)))
            taken += 1
    assert taken > 40


def test_an_action_is_possible_in_logic_only_where_it_is_in_python() -> None:
    induction = Induction(Mixed(), 5.0)
    instance, compiled = Instance(induction), compile_model(Mixed())
    for state in some_states(compiled, 10):
        moment = instance.moment(state)
        possible = {number for number, _, _ in compiled.successors(state)}
        for number, recorded in enumerate(induction.model.actions):
            step = induction.translator.step(recorded, moment)
            elsewhere = z3.Not(z3.And(*step.guards, *_inside(instance, step.chosen, step.parameters)))
            assert instance.is_true(elsewhere) == (number not in possible)


def _inside(instance: Instance, chosen: list[Any], parameters: list[Value]) -> list[Any]:
    every = instance.values.every
    return [
        z3.Or(*(instance.values.equal(v.type, p, value) for value in every(v.type)))
        for v, p in zip(chosen, parameters, strict=True)
    ]


class Counting(Model):
    Node = Sort(2)
    seen = Var(Set(Node))

    @action
    def two(s):
        when(size(s.seen) > 1)
        s.seen = []


class Numbered(Model):
    value = Var(Range(0, 3))


class LooseAxiom(Model):
    flag = Var(Bool)

    @axiom
    def Wrong(s):
        return s.flag


@pytest.mark.parametrize(
    ("model", "text"),
    [
        (Counting, r"model Counting, two \(.*:\d+\): test_prover.py:\d+: a proof compares no numbers"),
        (Numbered, "model Numbered, variable value: 0..3 has no place in a proof"),
        (LooseAxiom, r"model LooseAxiom, Wrong \(.*:\d+\): an axiom speaks of rigid parts only, not of flag"),
    ],
)
def test_what_does_not_translate_is_refused_with_its_place(model: type[Model], text: str) -> None:
    with pytest.raises(SpecError, match=text):
        Induction(model(), 5.0)


def test_what_is_rigid_cannot_be_assigned() -> None:
    class Bent(Model):
        Node = Sort(2)
        le = Rigid(Fn(Node, Node, Bool), lambda a, b: a <= b)

        @action
        def bend(s, n: Node):
            s.le[n][n] = False

    with pytest.raises(SpecError, match=r"model Bent, bend \(.*\): le is rigid"):
        Bent()


# -- the proofs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(PROOFS.keys() - {"raft-log"}))
def test_every_proof_holds(name: str) -> None:
    report = prove(proof_of(name))
    assert report.failures == []
    assert report.run == "found" and len(report.run_steps) > len(proof_of(name).scenario)
    assert report.holds


@pytest.mark.parametrize("name", ["twophase", "election", "compaction"])
def test_no_conjunct_can_be_left_out(name: str) -> None:
    all_are_needed(prove(proof_of(name), minimal=True))


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["isr", "raft-log", "membership"])
def test_no_conjunct_of_a_long_proof_can_be_left_out(name: str) -> None:
    """Minutes; so is the proof of Raft's log alone."""
    all_are_needed(prove(proof_of(name), minimal=True))


def all_are_needed(report: ProofReport) -> None:
    """Each with the states that show it; the claims themselves may carry nothing else."""
    assert report.holds and report.failures == []
    assert [d.conjunct for d in report.deletions] == report.conjuncts
    for deletion in report.deletions:
        if deletion.verdict == "wanted":
            assert deletion.conjunct in report.safety
        else:
            assert deletion.verdict == "needed" and deletion.failure, deletion.conjunct
            shown = "\n".join(deletion.failure.states)
            assert "is possible, and breaks" in shown or deletion.failure.action == FOLLOWS


class MembershipInWords(Membership):
    """What its cases rely on: a leader who lacks an entry is the first or after it; who counts commits."""

    @invariant
    def GoneIsLackedBefore(s):
        def before(e, t):
            return Exists(s.Term, lambda u: And(s.below(u, t), s.lacks[e][u]))

        return Forall(s.Entry, s.Term, lambda e, t: s.gone[e][t] == before(e, t))

    @invariant
    def LackedAtABeginning(s):
        def lacked(e, t):
            def beginning(n, a, q):
                return And(s.elected[t][n][a][q], s.misses(a, e, t))

            return Exists(s.Node, s.Entry, s.Quorum, beginning)

        return Forall(s.Entry, s.Term, lambda e, t: Implies(s.lacks[e][t], lacked(e, t)))

    @invariant
    def LedWasElected(s):
        def elected(t):
            return Exists(s.Node, s.Entry, s.Quorum, lambda n, a, q: s.elected[t][n][a][q])

        return Forall(s.Term, lambda t: Implies(s.led[t], elected(t)))

    @invariant
    def CommittedWasCounted(s):
        def counted(e):
            return (e == s.root) | Exists(s.Entry, s.Quorum, lambda h, q: s.counted[e][h][q])

        return Forall(s.Entry, lambda e: Implies(s.committed[e], counted(e)))


IN_WORDS = {
    "GoneIsLackedBefore": {"LackedIsGoneLater"},
    "LackedAtABeginning": {
        "LedWasElected", "TheElectedLed", "WhatWasAskedWith", "EntriesAreInTheTree", "OnlyLeadersLack"
    },
    "LedWasElected": set(),
    "CommittedWasCounted": set(),
}  # fmt: skip


def test_the_cases_of_membership_are_all_there_are() -> None:
    """Outside of EPR, so with only what matters: the first who lacks an entry is no later than the others."""
    induction = Induction(MembershipInWords(), 20.0, PROOFS["membership"].follows)
    asked = [case for case in induction.cases(list(induction.conjuncts)) if case[1] in IN_WORDS]
    for step, conjunct in asked:
        few = (
            [conjunct, *IN_WORDS[conjunct]]
            if step in ("Write", "Change")
            else [conjunct, "LackedIsGoneLater"]
        )
        assert induction.ask(step, conjunct, sorted(few)).verdict == "proved", (step, conjunct)
    assert len(asked) == 19 and {conjunct for _, conjunct in asked} == IN_WORDS.keys()


SMALL = [
    (TwoPhaseProof(), 80),
    (Election(Nodes=3, Terms=2), 100),
    (Isr(Nodes=2, Epochs=2), 1000),
    (Compaction(), 500),
    (RaftLog(), 4_000),
    (MembershipInWords(), 4_000),
]


@pytest.mark.parametrize(("model", "at_least"), SMALL, ids=lambda value: getattr(value, "name", ""))
def test_every_state_of_a_small_instance_satisfies_axioms_and_conjuncts(model: Model, at_least: int) -> None:
    model.invariants = [*model.axioms, *model.invariants]
    report = check(model, Bounds(1, True, 4_000, 0), lambda text: None)
    assert report.invariant == "" and report.distinct_states >= at_least


def test_quorums_of_neighbours_meet() -> None:
    """The axiom of `membership`, for at most five voters. It is not so of some that are two voters apart."""
    apart = 0
    for nodes in range(1, 6):
        sets = range(1, 1 << nodes)
        quorums = {c: [q for q in sets if is_quorum(q, c)] for c in sets}
        for c in sets:
            for d in sets:
                meet = all(q & r for q in quorums[c] for r in quorums[d])
                assert meet or not are_neighbours(c, d)
                apart += not meet and (c ^ d).bit_count() == 2
    assert apart > 0  # two voters at once are too many


BROKEN = [
    ("twophase", "impatient", "Commit", "CommitHeardEverybody"),
    ("election", "vote-before-sync", "Answer", "WhatIsToldIsOnDisk"),
    ("isr", "committed-isr-only", "Ask", "MaximalIsMaximal"),
    ("isr", "join-without-start", "Ask", "AskedHadTheStart"),
    ("isr", "cut-what-agrees", "Fetch", "AckedIsDurable"),
    ("isr", "report-before-sync", "Acknowledge", "AckedIsDurable"),
    ("isr", "leads-on-after-a-crash", "Crash", "TheLeaderHoldsItsLog"),
    ("membership", "change-before-own-commit", "Change", "NeighboursMeet"),
    ("membership", "two-changes", "Change", "NeighboursMeet"),
    ("membership", "two-voters-at-once", "Change", "NeighboursMeet"),
    ("membership", "effective-at-commit", "ElectAnother", "ElectionSafety"),
    ("membership", "quorum-of-election", "Commit", "CountedByItsConfiguration"),
    ("membership", "learner-counts", "ElectWithout", "LeaderCompleteness"),
    ("membership", "removed-leader-counts", "Commit", "AQuorumAcked"),
    ("membership", "wiped-voter-rejoins", "Wipe", "VotersAreInTheTerm"),
    ("compaction", "own-clean-point", "Learn", "NothingOlderIsAnywhere"),
    ("compaction", "repair-keeps-clean-point", "Repair", "NothingOlderIsPassed"),
    ("compaction", "clean-before-rewritten", "Pass", "NothingOlderIsPassed"),
]


@pytest.mark.parametrize(("name", "variant", "step", "conjunct"), BROKEN)
def test_a_broken_protocol_has_a_counterexample(name: str, variant: str, step: str, conjunct: str) -> None:
    proof = proof_of(name)
    induction = Induction(proof.load(variant=variant), 60.0, proof.follows)
    found = Queries(induction, 60.0).counterexample(step, conjunct, list(induction.conjuncts))
    assert found is not None and found.verdict == "refuted"
    text = "\n".join(show(induction, found))
    assert re.search(rf"^{step}\(.*\) is possible, and breaks {conjunct}:$", text, re.M)
    assert "!" not in text  # no names of z3's own


def test_the_proof_of_a_broken_protocol_fails_where_it_is_broken() -> None:
    proof = proof_of("compaction")
    report = prove(proof, proof.load(variant="own-clean-point"))
    assert not report.holds
    assert [(f.action, f.conjunct, f.verdict) for f in report.failures] == [
        ("Learn", "NothingOlderIsAnywhere", "refuted")
    ]


REACHABLE = [
    (Election(Terms=2, variant="vote-before-sync"), "election", "OneLeaderInATerm"),
    (Compaction(variant="own-clean-point"), "compaction", "NothingComesBack"),
    (Compaction(variant="repair-keeps-clean-point"), "compaction", "NothingComesBack"),
]


@pytest.mark.parametrize(("model", "name", "broken"), REACHABLE, ids=lambda value: str(value)[:20])
def test_what_a_broken_protocol_does_is_found_by_exploring_too(model: Model, name: str, broken: str) -> None:
    model.invariants = [found for found in model.invariants if found.name in PROOFS[name].safety]
    assert check(model, Bounds(1, True, 150_000, 0), lambda text: None).invariant == broken


def test_a_counterexample_is_as_small_as_it_can_be() -> None:
    """That somebody commits while somebody aborts takes two participants, not one and not three."""
    induction = Induction(TwoPhaseProof(), 5.0)
    given = [name for name in induction.conjuncts if name != "ToldAbortIsDecided"]
    report = prove(PROOFS["twophase"], minimal=True)
    deletion = next(d for d in report.deletions if d.conjunct == "ToldAbortIsDecided")
    assert deletion.failure and deletion.failure.states[0].startswith("with 2 Node,")
    one = induction.ask(deletion.failure.action, deletion.failure.conjunct, given, {"Node": 1})
    assert one.verdict == "proved"


def test_a_finite_universe_refutes_what_logic_refutes() -> None:
    """Without what excludes it: the same answer, whether elements are counted or not."""
    induction = Induction(TwoPhaseProof(), 5.0)
    small = Finite(induction, {"Node": 2})
    rest = [name for name in induction.conjuncts if name != "ToldAbortIsDecided"]
    for step, conjunct in induction.cases(rest):
        logic = induction.ask(step, conjunct, rest, {"Node": 2})
        found = small.ask(step, conjunct, rest, 5.0)
        assert found.verdict == logic.verdict, (step, conjunct)
        if found.verdict == "refuted":
            assert found.elements and len(found.elements["Node"]) == 2
    one = small.ask("Abort", "AllOrNothing", [], 5.0, frozenset(("Node",)))
    assert one.verdict == "proved"  # a participant does not disagree with itself


def test_a_query_in_which_z3_gets_lost_is_proved_with_what_mattered_in_a_small_universe() -> None:
    """Given no time for everything at once, it goes by the conjuncts that two elements needed."""
    induction = Induction(Isr(), 20.0)
    queries, names = Queries(induction, 20.0), list(induction.conjuncts)
    asked: list[int] = []
    ask = induction.ask

    def only_with_few(action, conjunct, given, most=None, timeout_s=0.0):
        asked.append(len(given))
        if len(given) == len(names):
            return QueryAnswer(action, conjunct, "unknown", 1.0)
        return ask(action, conjunct, given, most, timeout_s)

    induction.ask = only_with_few
    answer = queries.answer("Hear", "ACandidateLacksWhatIsBlocked", names)
    assert answer.verdict == "proved" and answer.core < set(names)
    assert asked[0] == len(names) and asked[-1] < len(names)


# -- the fragment --------------------------------------------------------------------------------------------


class Chain(Model):
    """A function from a sort to itself."""

    Node = Sort(2)
    following = Var(Fn(Node, Node))

    @action
    def swap(s, n: Node, m: Node):
        s.following[n] = m

    @invariant
    def Nothing(s):
        return Forall(s.Node, lambda n: s.following[n] == s.following[n])


class Pairs(Model):
    """Each sort gives rise to elements of the other: no function, two quantifiers."""

    Node = Sort(2)
    Key = Sort(2)
    owns = Var(Fn(Node, Key, Bool), init=True)

    @action
    def take(s, n: Node, k: Key):
        s.owns[n][k] = True

    @invariant
    def EachNodeHasAKey(s):
        return Forall(s.Node, lambda n: Exists(s.Key, lambda k: s.owns[n][k]))

    @invariant
    def NoKeyIsForNobody(s):
        return Not(Exists(s.Key, lambda k: Forall(s.Node, lambda n: Not(s.owns[n][k]))))


class Apart(Pairs):
    """The inner quantifier says nothing of the outer variable, so that nothing depends on it."""

    @invariant
    def NoKeyIsForNobody(s):
        return Forall(s.Key, lambda k: s.owns[s.first][k] | Exists(s.Node, lambda n: Not(s.free[n])))

    first = Var(Pairs.Node)
    free = Var(Fn(Pairs.Node, Bool), init=False)


class Compared(Model):
    """A quantifier in a comparison stands for both truth values."""

    Node = Sort(2)
    link = Var(Fn(Node, Node, Bool), init=False)
    mark = Var(Fn(Node, Bool), init=False)

    @action
    def set(s, n: Node):
        s.mark[n] = True

    @invariant
    def Marked(s):
        return Forall(s.Node, lambda n: Or(s.mark[n], s.mark[n] == Exists(s.Node, lambda m: s.link[n][m])))


def test_every_proof_is_in_epr() -> None:
    for name in PROOFS:
        proof = proof_of(name)
        fragment = fragment_of(Induction(proof.load(), 5.0, proof.follows))
        assert fragment.decidable and fragment.cycle == []
    assert fragment.edges == {"Offset": ["Key"]}  # of the last one, compaction: each record has a key


@pytest.mark.parametrize(
    ("model", "cycle"),
    [
        (Chain, ["Node", "Node"]),
        (Pairs, ["Key", "Node", "Key"]),
        (Apart, []),
        (Compared, ["Node", "Node"]),
    ],
)
def test_a_sort_that_gives_rise_to_itself_is_named(model: type[Model], cycle: list[str]) -> None:
    fragment = fragment_of(Induction(model(), 5.0))
    assert fragment.cycle == cycle and fragment.decidable == (cycle == [])
    assert bool(fragment.conjunct) == bool(cycle)


def test_the_shortest_cycle_is_named() -> None:
    assert cycle_in({("a", "b"), ("b", "c"), ("c", "a"), ("c", "b")}) == ["b", "c", "b"]
    assert cycle_in({("a", "b"), ("b", "c"), ("a", "c")}) == []


# -- proofs that fail for other reasons ----------------------------------------------------------------------


class Lock(Model):
    """A lock that one client holds. `spare` says nothing that `One` does not."""

    Client = Sort(2)
    held = Var(Fn(Client, Bool), init=False)

    @action
    def take(s, c: Client):
        when(Forall(s.Client, lambda other: Not(s.held[other])))
        s.held[c] = True

    @action
    def release(s, c: Client):
        when(s.held[c])
        s.held[c] = False

    @action
    def never(s):
        when(Exists(s.Client, lambda c: And(s.held[c], Not(s.held[c]))))

    @invariant
    def One(s):
        return Forall(s.Client, s.Client, lambda a, b: Implies(And(s.held[a], s.held[b]), a == b))

    @invariant
    def Spare(s):
        return Forall(s.Client, s.Client, lambda a, b: Or(a == b, Not(s.held[a]), Not(s.held[b])))

    @sometimes
    def Held(s):
        return Exists(s.Client, lambda c: s.held[c])


class ThirdClient(Lock):
    """Reached with three clients only."""

    @sometimes
    def Three(s):
        def differ(a, b, c):
            return And(a != b, b != c, a != c)

        return Exists(s.Client, s.Client, s.Client, differ)


def lock(scenario: tuple[str, ...] = ("take",), reaches: str = "Held") -> Proof:
    return Proof("lock", "one client at a time", __name__, "Lock", ("One",), scenario, reaches)


def test_a_redundant_conjunct_is_reported() -> None:
    report = prove(lock(), Lock(), minimal=True)
    assert [(d.conjunct, d.verdict) for d in report.deletions] == [("One", "wanted"), ("Spare", "redundant")]
    assert not report.holds and report.failures == []


def test_a_run_that_does_not_exist_fails_the_proof() -> None:
    for scenario in (("never",), ("take", "take"), ("take", "release")):
        report = prove(lock(scenario), Lock())
        assert report.run == "none" and not report.holds and report.failures == []


def test_a_run_stays_among_the_elements_of_the_instance() -> None:
    """The last property was once asked of a universe with further elements."""
    report = prove(lock(reaches="Three"), ThirdClient())
    assert report.run == "none"


def test_a_query_that_takes_too_long_is_unknown_and_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(z3.Solver, "check", lambda self, *assumptions: z3.unknown)
    report = prove(lock(), Lock())
    assert not report.holds and report.run == "unknown"
    assert {failure.verdict for failure in report.failures} == {"unknown"}
    assert len(report.failures) == report.queries


def test_a_time_limit_is_given_to_z3() -> None:
    """A hard query with next to no time: never counted as proved."""
    induction = Induction(Isr(), 0.001)
    answer = induction.ask("Fetch", "ACandidateLacksWhatIsBlocked", list(induction.conjuncts))
    assert answer.verdict == "unknown"


def test_a_first_state_that_breaks_a_conjunct_is_shown() -> None:
    class HeldAtFirst(Lock):
        held = Var(Fn(Lock.Client, Bool), init=True)

    report = prove(lock(()), HeldAtFirst())
    failure = next(f for f in report.failures if f.conjunct == "One")
    assert failure.action == "(first state)" and "client1, client2" in "\n".join(failure.states)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(SpecError, match="there is no proof 'x'; proofs: twophase"):
        proof_of("x")
    with pytest.raises(SpecError, match="no sometimes property 'Nowhere'"):
        prove(lock(reaches="Nowhere"), Lock())
    with pytest.raises(SpecError, match="no action 'fly'; it has: take"):
        prove(lock(("fly",)), Lock())
    wrong = Proof("lock", "", __name__, "Lock", ("Two",), (), "Held")
    with pytest.raises(SpecError, match="no invariant 'Two'"):
        prove(wrong, Lock())


# -- the command ---------------------------------------------------------------------------------------------


def test_the_command_proves_and_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    from liftlog.cli import main

    assert main(["spec", "prove", "--proof", "twophase", "--minimal", "--show"]) == 0
    out = capfd.readouterr().out
    assert "every query is in EPR, hence decidable" in out
    assert "twophase (patient): holds. 7 conjuncts, 1 wanted, 6 of 6 others needed; 36 queries" in out
    assert re.search(r"^without HeardWasPromised, \w+ does not keep \w+:$", out, re.M)
    assert main(["spec", "prove", "--proof", "twophase", "--variant", "impatient"]) == 1
    assert "does not hold" in capfd.readouterr().out
    assert main(["spec", "prove", "--proof", "election", "--json"]) == 0
    assert '"holds": true' in capfd.readouterr().out
    assert main(["spec", "prove", "--proof", "nothing"]) == 2
    assert main(["spec", "prove", "--variant", "impatient"]) == 2
    assert main(["spec", "prove", "--timeout", "0"]) == 2
    assert main(["spec", "prove", "--list"]) == 0
