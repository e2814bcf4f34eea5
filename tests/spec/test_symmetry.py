"""Symmetry reduction: exchanging elements of a symmetric sort changes nothing that a check can see.

Brute force is written down here a second time, by type and without generated code. Sound is what holds on
every state: the successors of an image are the images of the successors, the properties are the same, and all
images have one representative. That is looked at on random walks of every model, and for small models the
orbits are counted one by one.
"""

from __future__ import annotations

from itertools import permutations, product
from random import Random
from typing import Any

import pytest

from liftlog_spec.explore.report import Bounds
from liftlog_spec.explore.search import check
from liftlog_spec.lang import (
    Constant,
    Enum,
    Fn,
    Model,
    Option,
    Range,
    Record,
    Seq,
    Set,
    Sort,
    SpecError,
    Var,
    action,
    some,
    when,
)
from liftlog_spec.lang.build import append, get, is_some, member, record, size, with_member
from liftlog_spec.lang.model import Model as AnyModel
from liftlog_spec.lang.types import Type
from liftlog_spec.models.kafka import Kafka
from liftlog_spec.models.twophase import TwoPhase
from liftlog_spec.registry import MODELS, build, variants_of
from liftlog_spec.run.compiled import CompiledModel, compile_model

# mypy does not read models: see pyproject.toml
# mypy: ignore-errors

Renaming = dict[str, tuple[int, ...]]


def image(kind: Type, value: Any, renaming: Renaming) -> Any:
    """A held value with the elements of sorts renamed."""
    match kind:
        case Sort():
            return renaming[kind.name][value] if kind.name in renaming else value
        case Option(of=of):
            if value == kind.none:
                return value
            return image(of, value, renaming) if kind.flat else (image(of, value[0], renaming),)
        case Set(of=of):
            found = sorted({image(of, item, renaming) for item in kind.members(value)})
            return sum(1 << (item - of.low) for item in found) if kind.mask else tuple(found)
        case Seq(of=of):
            return tuple(image(of, item, renaming) for item in value)
        case Fn(domain=domain, to=to):
            found = {
                image(domain, key, renaming): image(to, value[key - domain.low], renaming)
                for key in domain.values()
            }
            return tuple(found[key] for key in domain.values())
        case Record(fields=fields):
            parts = zip(fields.values(), value, strict=True)
            return tuple(image(field, item, renaming) for field, item in parts)
    return value


def image_of_state(compiled: CompiledModel, state: Any, renaming: Renaming) -> Any:
    kinds = compiled.model.types.values()
    return tuple(image(kind, value, renaming) for kind, value in zip(kinds, state, strict=True))


def renamings(model: AnyModel) -> list[Renaming]:
    sorts = [sort.bind(model.bindings) for sort in model.sorts if sort.symmetric]
    choices = [list(permutations(range(sort.size))) for sort in sorts]
    return [
        {sort.name: chosen for sort, chosen in zip(sorts, combination, strict=True)}
        for combination in product(*choices)
    ]


def reachable(compiled: CompiledModel) -> set[Any]:
    seen = set(compiled.initial())
    layer = list(seen)
    while layer:
        new = {after for state in layer for after in compiled.next_states(state)} - seen
        seen |= new
        layer = list(new)
        assert len(seen) < 100_000, "too many for brute force: choose smaller bounds"
    return seen


class Office(Model):
    """Every type that can hold an element of a sort, and two sorts."""

    Clerks = Constant(3)
    Clerk = Sort(Clerks)
    Desk = Sort(2)
    Form = Record(by=Clerk, at=Option(Desk), read=Set(Clerk))

    at = Var(Fn(Clerk, Option(Desk)))
    forms = Var(Set(Form))
    boss = Var(Option(Clerk))
    queue = Var(Seq(Clerk, 2))
    filed = Var(Option(Form))
    keys = Var(Fn(Desk, Set(Clerk)))
    mood = Var(Fn(Desk, Clerk, Enum("good", "bad")), init="good")
    day = Var(Range(0, 2))

    @action
    def Sit(s, c: Clerk, d: Desk):
        when(~is_some(s.at[c]), size(s.queue) < 2)
        s.at[c] = d
        s.keys[d] = with_member(s.keys[d], c)
        s.queue = append(s.queue, c)

    @action
    def Write(s, c: Clerk, reader: Clerk):
        when(is_some(s.at[c]), size(s.forms) < 1)
        s.forms = with_member(s.forms, {"by": c, "at": s.at[c], "read": [reader]})

    @action
    def File(s, c: Clerk):
        form = some(s.forms)
        when(member(c, form.read), s.boss == None, s.day < 1)  # noqa: E711
        s.filed = record(s.Form, by=form.by, at=form.at, read=form.read)
        s.boss = form.by
        s.mood[get(form.at)][c] = "bad"
        s.day = s.day + 1


SMALL = [
    Office(),
    TwoPhase(),
    Kafka(variant="truncate-to-hw", Replicas=2, LogSize=2, Records=1, Epochs=2),
    pytest.param(
        Kafka(variant="kip-320", Replicas=3, LogSize=1, Records=1, Epochs=1), marks=pytest.mark.nightly
    ),
]


@pytest.mark.parametrize("model", SMALL, ids=lambda model: model.name)
def test_the_search_counts_orbits(model: AnyModel) -> None:
    compiled = compile_model(model)
    states = reachable(compiled)
    every = renamings(model)
    orbits = {min(image_of_state(compiled, state, renaming) for renaming in every) for state in states}
    whole = check(model, Bounds())
    reduced = check(model, Bounds(symmetry=True))
    if whole.verdict != "violated":
        assert whole.distinct_states == len(states)
        assert reduced.distinct_states == len(orbits) < len(states)
    assert (reduced.verdict, reduced.invariant, reduced.unreached) == (
        whole.verdict,
        whole.invariant,
        whole.unreached,
    )
    assert (reduced.depth, len(reduced.trace)) == (whole.depth, len(whole.trace))
    assert reduced.never == whole.never


@pytest.mark.parametrize("name", MODELS)
def test_renaming_changes_nothing_on_any_walk(name: str) -> None:
    renaming_changes_nothing(build(name, "", {}))


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "variant"), [(name, each) for name in MODELS for each in variants_of(name)])
def test_renaming_changes_nothing_in_any_variant(name: str, variant: str) -> None:
    renaming_changes_nothing(build(name, variant, {}))


def renaming_changes_nothing(model: AnyModel) -> None:
    compiled = compile_model(model)
    every = renamings(model)
    properties = [holds for _, holds in (*compiled.invariants, *compiled.sometimes)]
    chance = Random(model.name)
    for _ in range(2):
        state = chance.choice(compiled.initial())
        for _ in range(20):
            renaming = chance.choice(every)
            other = image_of_state(compiled, state, renaming)
            assert compiled.canonical(other) == compiled.canonical(state)
            assert compiled.allowed(other) == compiled.allowed(state)
            assert [holds(other) for holds in properties] == [holds(state) for holds in properties]
            successors = compiled.next_states(state)
            images = {image_of_state(compiled, after, renaming) for after in successors}
            assert images == set(compiled.next_states(other))
            if not successors:
                break
            state = chance.choice(successors)


def test_a_sort_that_is_not_symmetric_is_left_alone() -> None:
    class Ranked(Model):
        One = Sort(3, symmetric=False)
        at = Var(One)

        @action
        def move(s, to: One):
            s.at = to

    compiled = compile_model(Ranked())
    assert [compiled.canonical((number,)) for number in range(3)] == [(0,), (1,), (2,)]
    assert check(Ranked(), Bounds(symmetry=True)).distinct_states == 3


def test_too_many_permutations_are_refused_and_only_if_asked_for() -> None:
    report = check(TwoPhase(Nodes=7), Bounds(depth=2))
    assert report.verdict == "bounded"
    with pytest.raises(SpecError, match=r"5,040 permutations of its sorts \(Node 7\); symmetry goes up to"):
        check(TwoPhase(Nodes=7), Bounds(symmetry=True))
