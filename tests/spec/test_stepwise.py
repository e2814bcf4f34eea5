"""One step at a time: the same as exploring, for any bounds, and a refusal names the guard."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from liftlog_spec.lang import (
    Bool,
    Constant,
    Enum,
    Fn,
    Forall,
    If,
    Implies,
    Model,
    Option,
    Range,
    Record,
    Rigid,
    Seq,
    Set,
    Sort,
    SpecError,
    Var,
    action,
    append,
    axiom,
    definition,
    function,
    get,
    initial,
    invariant,
    is_some,
    member,
    numbers,
    record,
    size,
    some,
    such_that,
    when,
    with_member,
    without,
)
from liftlog_spec.lang.model import Model as AnyModel
from liftlog_spec.lang.sparse import Sparse
from liftlog_spec.models.isr import Isr
from liftlog_spec.models.kafka import Kafka
from liftlog_spec.models.raft import Raft
from liftlog_spec.models.twophase import TwoPhase
from liftlog_spec.run.compiled import compile_model
from liftlog_spec.run.stepwise import Refused, Stepper, held

# mypy does not read models: see pyproject.toml
# mypy: ignore-errors

HUGE = 10**9


@pytest.mark.parametrize(
    "model",
    [TwoPhase(), Kafka(variant="kip-279"), Kafka(variant="truncate-to-hw"), Raft(), Isr(Delays=1)],
    ids=lambda model: model.name,
)
def test_each_step_that_exploring_makes_is_made_alone_and_no_other(model: AnyModel) -> None:
    """On random walks: every successor, and one that was made up is refused if exploring does not know it."""
    compiled = compile_model(model)
    steps = Stepper(model)
    chance = Random(7)
    refused = 0
    for _ in range(6):
        state = chance.choice(compiled.initial())
        for _ in range(15):
            successors = compiled.successors(state)
            known = {(compiled.actions[a], parameters): after for a, parameters, after in successors}
            for (action_name, parameters), after in known.items():
                assert steps.apply(action_name, parameters, state) == after
            assert steps.read(steps.show(state)) == state
            for action_name in compiled.actions:
                kinds = [kind for _, kind in steps.parameters(action_name)]
                if not all(kind.whole for kind in kinds):
                    continue
                made_up = tuple(chance.choice(kind.values()) for kind in kinds)
                after = steps.apply(action_name, made_up, state)
                if isinstance(after, Refused):
                    refused += 1
                    assert (action_name, made_up) not in known
                else:
                    assert known[action_name, made_up] == after
            if not successors:
                break
            state = chance.choice(successors)[2]
    assert refused > 20


class Desk(Model):
    """Tickets are taken from a set and served; the desk may be closed."""

    Most = Constant(5)
    Clerk = Sort(2)
    Ticket = Range(0, Most)
    Note = Record(clerk=Clerk, ticket=Ticket)

    open = Var(Bool, init=True)
    waiting = Var(Set(Range(0, 20)))
    asked = Var(Set(Note))
    served = Var(Seq(Ticket, Most))
    by = Var(Fn(Ticket, Option(Clerk)))
    mood = Var(Fn(Clerk, Enum("good", "bad")), init="good")
    last = Var(Option(Note))

    @initial
    def Begin(s, first: Clerk):
        s.mood[first] = "bad"

    @definition
    def Free(s, t: Ticket):
        return ~is_some(s.by[t])

    def is_open(s):
        when(s.open)

    @action
    def Ask(s, c: Clerk, t: Ticket):
        s.is_open()
        s.asked = with_member(s.asked, {"clerk": c, "ticket": t})

    @action
    def Serve(s, c: Clerk):
        note = some(s.asked, "note")
        when(
            s.open,
            note.clerk == c,
            s.Free(note.ticket) & (size(s.served) < 3),
        )
        s.served = append(s.served, note.ticket)
        s.by[note.ticket] = c
        s.asked = without(s.asked, note)
        s.last = record(s.Note, clerk=c, ticket=note.ticket)

    @action
    def Pick(s):
        number = some(such_that(numbers(2, 9), lambda n: n != 4), "number")
        s.waiting = with_member(s.waiting, number)

    @action
    def Unwait(s):
        s.waiting = without(s.waiting, some(s.waiting, "number"))

    @action
    def Repeat(s):
        s.served = append(s.served, get(s.last).ticket)

    @action
    def Reset(s):
        s.by = function(s.Ticket, lambda t: If(s.open, s.by[t], None))

    @action
    def Forget(s):
        s.by = None

    @action
    def Peek(s):
        when(s.served[3] == 1)

    @invariant
    def ServedByOne(s):
        return Forall(numbers(0, size(s.served)), lambda i: is_some(s.by[s.served[i]]))


def line_of(text: str) -> str:
    with open(__file__, encoding="utf-8") as file:
        numbers_of = [number for number, line in enumerate(file, 1) if text in line]
    return f"test_stepwise.py:{numbers_of[0]}"


@pytest.fixture
def desk() -> Stepper:
    return Stepper(Desk())


def test_a_refusal_names_the_argument_of_when_and_its_own_line(desk: Stepper) -> None:
    state = desk.state_of({"asked": ((0, 3), (1, 4)), "by": (-1, -1, -1, -1, 1, -1)})
    refused = desk.apply("Serve", (1, (0, 3)), state)
    assert refused == Refused("Serve", line_of("            note.clerk == c,"), "note.clerk == c")
    refused = desk.apply("Serve", {"note": (1, 4), "c": 1}, state)
    assert refused.line == line_of("            s.Free(note.ticket) & (size")
    assert refused.text == "s.Free(note.ticket) & (size(s.served) < 3)"
    assert str(refused).startswith("Serve is refused at test_stepwise.py:")
    closed = desk.with_values(state, {"open": False})
    assert desk.apply("Serve", (0, (0, 3)), closed).text == "s.open"
    assert desk.apply("Ask", (0, 0), closed) == Refused("Ask", line_of("        when(s.open)"), "s.open")


def test_a_parameter_that_is_none_of_its_domain_is_refused(desk: Stepper) -> None:
    state = desk.state_of({"asked": ((0, 3),)})
    refused = desk.apply("Serve", (1, (1, 1)), state)
    assert refused.line == line_of('some(s.asked, "note")')
    assert refused.text == "note = {'clerk': 'clerk2', 'ticket': 1} is none of s.asked"
    assert desk.apply("Serve", (5, (0, 3)), state).text == "c = 5 is none of Clerk"
    for number, possible in ((1, False), (2, True), (4, False), (8, True), (9, False)):
        assert isinstance(desk.apply("Pick", (number,), state), tuple) is possible
    waiting = desk.with_values(state, {"waiting": 0b1010})
    for number, possible in ((0, False), (1, True), (3, True), (4, False), (-1, False)):
        assert isinstance(desk.apply("Unwait", (number,), waiting), tuple) is possible


def test_a_step_changes_what_it_names(desk: Stepper) -> None:
    state = desk.apply("Begin", (1,), desk.first())
    assert desk.value("mood", state) == (0, 1)
    state = desk.apply("Ask", {"t": 4, "c": 0}, state)
    after = desk.apply("Serve", (0, (0, 4)), state)
    assert desk.differences(state, after) == [
        ("asked", [{"clerk": "clerk1", "ticket": 4}], []),
        ("served", [], [4]),
        ("by[4]", None, "clerk1"),
        ("last", None, {"clerk": "clerk1", "ticket": 4}),
    ]
    assert desk.evaluate("Free", (4,), state) is True
    assert desk.evaluate("Free", (4,), after) is False
    assert desk.evaluate("ServedByOne", (), after) is True
    assert desk.evaluate("ServedByOne", (), desk.with_values(after, {"served": (4, 2)})) is False


def test_values_that_people_write_are_read(desk: Stepper) -> None:
    types = desk.types
    assert held(types["asked"], [{"clerk": "clerk2", "ticket": 0}, {"clerk": 0, "ticket": 3}]) == (
        (0, 3),
        (1, 0),
    )
    assert held(types["waiting"], [1, 3]) == 0b1010
    assert held(types["mood"], {"clerk1": "bad", "clerk2": "good"}) == (1, 0)
    assert held(types["mood"], ["good", "bad"]) == (0, 1)
    assert held(types["last"], {"ticket": 2}) == ((0, 2),)
    assert held(types["last"], None) == ()
    state = desk.read({"served": [1, 2], "open": False})
    assert (desk.value("served", state), desk.value("open", state)) == ((1, 2), False)
    wrong: list[tuple[str, Any, str]] = [
        ("open", 1, "1 is no BOOLEAN"),
        ("served", [9], "9 is no 0..Most"),
        ("mood", {"clerk1": "bad"}, "1 values for a"),
        ("mood", ["angry", "bad"], "'angry' is no"),
        ("last", {"name": 1}, "no field 'name'"),
    ]
    for name, shown, message in wrong:
        with pytest.raises(SpecError, match=message):
            held(types[name], shown)


def test_wrong_use_is_named(desk: Stepper) -> None:
    state = desk.first()
    with pytest.raises(SpecError, match="no action 'Dance'; it has Begin, Ask, Serve"):
        desk.apply("Dance", (), state)
    with pytest.raises(SpecError, match=r"Serve takes 2 parameters \(c, note\), not 1"):
        desk.apply("Serve", (1,), state)
    with pytest.raises(SpecError, match="Serve takes c, note, not c"):
        desk.apply("Serve", {"c": 1}, state)
    with pytest.raises(SpecError, match="no variable 'opened'"):
        desk.state_of({"opened": True})
    with pytest.raises(SpecError, match="no definition or property 'Freed'"):
        desk.evaluate("Freed", (), state)
    with pytest.raises(SpecError, match="Free takes 1 arguments, not 0"):
        desk.evaluate("Free", (), state)
    assert desk.wrong_type(desk.with_values(state, {"served": (9,)})).startswith("served = (9,) is no")
    assert desk.wrong_type(state) == ""


def test_a_term_without_a_value_is_an_error_that_names_the_step(desk: Stepper) -> None:
    with pytest.raises(
        SpecError, match=r"model Desk, Peek\(\) \(test_stepwise.py:\d+\): a term has no value"
    ):
        desk.apply("Peek", (), desk.first())
    with pytest.raises(SpecError, match="Repeat"):
        desk.apply("Repeat", (), desk.first())


# -- bounds of any size ------------------------------------------------------------------------------------


def test_bounds_may_be_huge() -> None:
    """Nothing is written out: neither states nor code grow with the bounds."""
    desk = Stepper(Desk(Most=HUGE))
    state = desk.apply("Ask", (1, HUGE - 1), desk.first())
    state = desk.apply("Serve", (1, (1, HUGE - 1)), state)
    assert desk.value("by", state)[HUGE - 1] == 1
    assert desk.value("by", state)[5] == -1
    assert desk.show(state)["by"] == {HUGE - 1: "clerk2"}
    assert desk.read(desk.show(state)) == state
    assert desk.wrong_type(state) == ""
    assert desk.apply("Forget", (), state) == desk.with_values(state, {"by": Sparse(HUGE + 1, -1)})
    assert desk.evaluate("ServedByOne", (), state) is True
    assert all(len(source) < 4000 for source in desk.sources.values())
    with pytest.raises(SpecError, match="a function over the 1,000,000,001 values"):
        desk.apply("Reset", (), state)


def test_the_isr_model_steps_at_huge_bounds() -> None:
    model = Isr(Records=HUGE, Epochs=HUGE, Changes=1000, Crashes=HUGE, Damages=HUGE)
    steps = Stepper(model)
    state = steps.apply("Begin", (0,), steps.first())
    for _ in range(2000):
        state = steps.apply("Write", (0,), state)
        assert isinstance(state, tuple)
    assert len(steps.value("log", state)[0]) == 2000


def test_sparse_functions_are_equal_if_their_values_are() -> None:
    one = Sparse(100, 0).put(3, 1).put(4, 2)
    other = Sparse(100, 0, {4: 2}).put(3, 7).put(3, 1).put(9, 5).put(9, 0)
    assert one == other
    assert hash(one) == hash(other)
    assert one != one.put(4, 0)
    assert Sparse(100, 0) != Sparse(100, 1)
    assert (len(one), one[3], one[50], list(one)[:5]) == (100, 1, 0, [0, 0, 0, 1, 2])


# -- axioms ------------------------------------------------------------------------------------------------


class Ordered(Model):
    Step = Sort(3)
    le = Rigid(Fn(Step, Step, Bool), lambda a, b: a <= b)
    now = Var(Step)

    @axiom
    def Antisymmetric(s):
        return Forall(s.Step, s.Step, lambda a, b: Implies(s.le[a][b] & s.le[b][a], a == b))

    @action
    def move(s, to: Step):
        when(s.le[s.now][to], member(to, such_that(s.Step, lambda x: x != s.now)))
        s.now = to


class Disordered(Ordered):
    le = Rigid(Fn(Ordered.Step, Ordered.Step, Bool), lambda a, b: True)


def test_an_instance_against_its_own_axioms_is_an_error() -> None:
    assert compile_model(Ordered()).initial()
    assert isinstance(Stepper(Ordered()).apply("move", (1,), Stepper(Ordered()).first()), tuple)
    for use in (compile_model, lambda model: Stepper(model).first()):
        with pytest.raises(SpecError, match=r"its rigid parts \(le\) is against the axiom Antisymmetric"):
            use(Disordered())
