"""The exported TLA+ modules: up to date, well formed, and the same state space in TLC's eyes."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest
import tla

from spec.explore.report import Bounds
from spec.explore.search import check
from spec.lang import Bool, Constant, Fn, Forall, Range, Sort, SpecError, Var, action, invariant
from spec.lang.model import Model
from spec.models.kafka import Kafka
from spec.models.twophase import TwoPhase
from spec.registry import every_model
from spec.tla.export import module_name, module_text
from spec.tla.files import FOLDER, TLC_VARIABLE, differences, run_tlc

JAR = os.environ.get(TLC_VARIABLE, "")


def test_the_committed_modules_are_those_of_the_models() -> None:
    assert differences(every_model(), FOLDER) == [], "run: liftlog spec export"


def modules() -> Iterator[object]:
    """The first variant of each model; the others, which differ in a line or two, in the nightly run."""
    seen: set[str] = set()
    for model in every_model():
        marks = [pytest.mark.nightly] if model.name in seen else []
        seen.add(model.name)
        yield pytest.param(model, id=module_name(model), marks=marks)


@pytest.mark.parametrize("model", list(modules()))
def test_a_module_parses_and_names_every_action_and_invariant(model: Model) -> None:
    text = module_text(model)
    tla.parse(text)
    for name in [*(a.name for a in model.actions), *(p.name for p in model.invariants)]:
        assert f"\n{name} ==" in text or f"\n{name}(" in text, name


def test_a_damaged_module_does_not_parse() -> None:
    """So that the test above can fail."""
    with pytest.raises(Exception, match=r".*"):
        tla.parse(module_text(TwoPhase()).replace("\\in", "\\inn", 1))


@pytest.mark.skipif(not JAR, reason=f"{TLC_VARIABLE} names no tla2tools.jar")
@pytest.mark.parametrize(
    "model",
    [TwoPhase(), Kafka(variant="kip-320", Replicas=2, LogSize=2, Records=2, Epochs=3)],
    ids=module_name,
)
def test_tlc_finds_the_same_states(model: Model) -> None:
    ours = check(model, Bounds())
    theirs = run_tlc(model, JAR)
    assert (theirs.distinct_states, theirs.depth) == (ours.distinct_states, ours.depth)
    assert not theirs.violated


@pytest.mark.skipif(not JAR, reason=f"{TLC_VARIABLE} names no tla2tools.jar")
def test_tlc_finds_the_same_violation() -> None:
    theirs = run_tlc(TwoPhase(variant="impatient"), JAR)
    assert theirs.violated == "AllOrNothing"


def test_a_name_that_tla_has_already_is_refused() -> None:
    class Taken(Model):
        value = Var(Bool, init=False)

        @action
        def Append(s) -> None:  # type: ignore[no-untyped-def]
            s.value = True

    with pytest.raises(SpecError, match="Append is a name of TLA"):
        module_text(Taken())


def test_functions_within_functions_use_different_variables() -> None:
    class Nested(Model):
        Node = Sort(2)
        value = Var(Fn(Node, Fn(Node, Bool)), init=False)

    assert re.search(r"\[x \\in Node \|-> \[x\d \\in Node \|-> FALSE\]\]", module_text(Nested()))


def test_what_is_printed_does_not_depend_on_what_was_read_before() -> None:
    """Two ranges of one size, with bounds of different names."""

    class First(Model):
        Runs = Constant(3)
        Numbers = Range(1, Runs)
        value = Var(Bool, init=False)

        @invariant
        def Holds(s):  # type: ignore[no-untyped-def]
            return Forall(s.Numbers, lambda n: n > 0)

    class Second(Model):
        Length = Constant(3)
        Numbers = Range(1, Length)
        value = Var(Bool, init=False)

        @invariant
        def Holds(s):  # type: ignore[no-untyped-def]
            return Forall(s.Numbers, lambda n: n > 0)

    assert "1..Runs" in module_text(First())
    assert "1..Length" in module_text(Second())
