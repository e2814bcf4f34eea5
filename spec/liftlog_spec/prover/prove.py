"""Proofs from beginning to end: every query, a run that shows life, and that no conjunct can be left out."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec

from liftlog_spec.lang.model import Model
from liftlog_spec.proofs import Proof
from liftlog_spec.prover.fragment import Fragment, fragment_of
from liftlog_spec.prover.induction import BEGINNING, FOLLOWS, Induction, QueryAnswer, check_names
from liftlog_spec.prover.picture import Counterexample, changes, lines_of, universe_of
from liftlog_spec.prover.queries import FEW, Queries
from liftlog_spec.prover.scenario import find_run

TIMEOUT_S = 60.0
Progress = Callable[[str], None]


class UnprovedQuery(msgspec.Struct, frozen=True):
    """A query that was not proved: refuted, with the pair of states, or unknown."""

    action: str
    conjunct: str
    verdict: str
    states: list[str]


class Deletion(msgspec.Struct, frozen=True):
    """What happens without one conjunct.

    "needed", with a query that fails then; "redundant"; "unknown"; "wanted": the others are proved without
    it, but it is one of the claims for whose sake there is a proof.
    """

    conjunct: str
    verdict: str
    failure: UnprovedQuery | None = None


class ProofReport(msgspec.Struct):
    """Of one proof. `run`: "found", "none" or "unknown"."""

    proof: str
    model: str
    settings: dict[str, str]
    holds: bool
    conjuncts: list[str]
    safety: list[str]
    fragment: Fragment
    queries: int
    seconds: float
    slowest_seconds: float
    failures: list[UnprovedQuery]
    run: str
    run_steps: list[str]
    deletions: list[Deletion]


def prove(
    proof: Proof,
    model: Model | None = None,
    *,
    minimal: bool = False,
    timeout_s: float = TIMEOUT_S,
    progress: Progress = lambda text: None,
) -> ProofReport:
    """All of it. `model` replaces the proof's own, to see a variant fail. Raises SpecError."""
    started = time.monotonic()
    model = model or proof.load()
    check_names(model, proof.safety)
    induction = Induction(model, timeout_s, proof.follows)
    queries = Queries(induction, timeout_s)
    names = list(induction.conjuncts)
    answers: list[QueryAnswer] = []
    failures: list[UnprovedQuery] = []
    for action, conjunct in induction.cases(names):
        progress(f"{proof.name}: {action}, {conjunct}")
        answer = queries.answer(action, conjunct, names)
        answers.append(answer)
        if answer.verdict != "proved":
            failures.append(_failure(queries, answer, names))
    run, steps = find_run(induction, proof.scenario, proof.reaches, timeout_s)
    deletions: list[Deletion] = []
    if minimal and not failures:
        for name in names:
            progress(f"{proof.name}: without {name}")
            deletions.append(_without(queries, name, names, answers, name in proof.safety))
    fine = all(deletion.verdict in ("needed", "wanted") for deletion in deletions)
    return ProofReport(
        proof=proof.name,
        model=model.name,
        settings=model.settings,
        holds=not failures and run == "found" and fine,
        conjuncts=names,
        safety=list(proof.safety),
        fragment=fragment_of(induction),
        queries=len(answers),
        seconds=time.monotonic() - started,
        slowest_seconds=max((answer.seconds for answer in answers), default=0.0),
        failures=failures,
        run=run,
        run_steps=steps,
        deletions=deletions,
    )


def _failure(queries: Queries, answer: QueryAnswer, given: list[str]) -> UnprovedQuery:
    """With the smallest states that can be found."""
    small = queries.counterexample(answer.action, answer.conjunct, given)
    if small is not None:
        answer = small
    if answer.verdict == "unknown":
        return UnprovedQuery(answer.action, answer.conjunct, "unknown", [])
    return UnprovedQuery(answer.action, answer.conjunct, "refuted", show(queries.induction, answer))


def _without(
    queries: Queries, name: str, names: list[str], answers: list[QueryAnswer], wanted: bool
) -> Deletion:
    """Only proofs that needed the conjunct can fail without it: those that needed least are tried first."""
    rest = [other for other in names if other != name]
    concerned = [answer for answer in answers if name in answer.core and answer.conjunct != name]
    concerned.sort(key=lambda answer: len(answer.core))
    few = queries.finite(dict.fromkeys(queries.induction.sorts, FEW))
    for answer in concerned:
        again = few.ask(answer.action, answer.conjunct, rest, queries.timeout_s)
        if again.verdict == "refuted":
            shown = show(queries.induction, queries.smaller(again, rest))
            return Deletion(name, "needed", UnprovedQuery(answer.action, answer.conjunct, "refuted", shown))
    undecided = False
    for answer in concerned:
        again = queries.answer(answer.action, answer.conjunct, rest)
        if again.verdict == "proved":
            continue
        found = queries.large(answer.action, answer.conjunct, rest)
        if found is not None or again.verdict == "refuted":
            shown = show(queries.induction, found or again)
            return Deletion(name, "needed", UnprovedQuery(answer.action, answer.conjunct, "refuted", shown))
        undecided = True
    if undecided:
        return Deletion(name, "unknown")
    return Deletion(name, "wanted" if wanted else "redundant")


def show(induction: Induction, answer: QueryAnswer) -> list[str]:
    """The state before, the action, and what it changes."""
    translator = induction.translator
    universe = answer.elements or universe_of(answer.model, translator, induction.sorts)
    translator.values.universe = universe
    try:
        picture = Counterexample(translator, answer.model, universe)
        sizes = ", ".join(f"{len(elements)} {name}" for name, elements in universe.items())
        if answer.action == BEGINNING:
            head = f"with {sizes}, {answer.conjunct} is false in a first state:"
            return [head, *lines_of(picture.facts(induction.first))]
        if answer.action == FOLLOWS:
            head = f"with {sizes}, in a state where every other claim holds, {answer.conjunct} does not:"
            return [head, *lines_of(picture.facts(induction.before))]
        step = answer.step or induction.steps[answer.action]
        before, after = picture.facts(induction.before), picture.facts(step.after)
        return [
            f"with {sizes}, in a state where every other claim holds:",
            *lines_of(before),
            f"{picture.step(step)} is possible, and breaks {answer.conjunct}:",
            *changes(before, after),
        ]
    finally:
        translator.values.universe = None
