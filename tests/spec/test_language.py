"""The language: what can be said, that it means what Python means, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog_spec.lang import (
    Bool,
    Constant,
    Enum,
    Exists,
    Fn,
    Forall,
    If,
    Implies,
    Model,
    Option,
    Range,
    Record,
    Seq,
    Set,
    Setting,
    Sort,
    SpecError,
    Var,
    action,
    append,
    collect,
    concat,
    count,
    definition,
    difference,
    elements,
    function,
    get,
    greatest,
    having,
    indexes,
    initial,
    intersection,
    invariant,
    is_none,
    is_some,
    last,
    least,
    maximum,
    member,
    minimum,
    numbers,
    only,
    prefix,
    rest,
    size,
    some,
    subset,
    such_that,
    union,
    when,
    with_member,
    without,
)
from liftlog_spec.run.compiled import CompiledModel, compile_model
from liftlog_spec.run.stepwise import Stepper

# mypy does not read models: see pyproject.toml
# mypy: ignore-errors


class Everything(Model):
    """One value of every type, and an invariant for every word: each holds by construction of the state."""

    Size = Constant(4)
    Node = Sort(3)
    Number = Range(0, Size)
    Pair = Record(a=Number, b=Option(Node))

    numbers_ = Var(Set(Number))
    pairs = Var(Set(Pair))
    log = Var(Seq(Number, 6))
    table = Var(Fn(Node, Number), init=0)
    pair = Var(Pair)
    chosen = Var(Option(Pair))
    flag = Var(Bool)

    @invariant
    def sets(s):
        both = intersection(s.numbers_, such_that(s.Number, lambda n: n > 1))
        return (
            subset(both, s.numbers_)
            & (size(union(both, s.numbers_)) == size(s.numbers_))
            & (size(difference(s.numbers_, both)) == count(s.numbers_, lambda n: n <= 1))
            & Forall(s.numbers_, lambda n: member(n, with_member(without(s.numbers_, 0), 0, n)))
        )

    @invariant
    def collected(s):
        firsts = collect(s.pairs, lambda p: p.a)
        return Forall(s.Number, lambda n: member(n, firsts) == Exists(s.pairs, lambda p: p.a == n))

    @invariant
    def sequences(s):
        longer = append(s.log, 2)
        return (
            (size(longer) == size(s.log) + 1)
            & (last(longer) == 2)
            & (prefix(longer, size(s.log)) == s.log)
            & Implies(
                size(s.log) > 0,
                greatest(indexes(s.log), lambda i: s.log[i]) >= least(indexes(s.log), lambda i: s.log[i]),
            )
        )

    @invariant
    def options(s):
        return If(is_none(s.chosen), ~is_some(s.chosen), get(s.chosen).a <= s.Size)

    @invariant
    def functions(s):
        doubled = function(s.Node, lambda n: minimum(s.table[n], 2) + maximum(0, 0))
        return Forall(s.Node, lambda n: (doubled[n] <= 2) & (doubled[n] <= s.table[n]))

    @invariant
    def records(s):
        changed = having(s.pair, a=3)
        return (changed.a == 3) & (changed.b == s.pair.b) & (having(changed, a=s.pair.a) == s.pair)


COMPILED: CompiledModel = compile_model(Everything())

numbers_of = st.integers(0, 4)
pair_of = st.tuples(numbers_of, st.integers(-1, 2))


@settings(max_examples=300, deadline=None)
@given(
    st.tuples(
        st.integers(0, 31),
        st.sets(pair_of, max_size=5).map(lambda found: tuple(sorted(found))),
        st.lists(numbers_of, max_size=6).map(tuple),
        st.tuples(numbers_of, numbers_of, numbers_of),
        pair_of,
        st.one_of(st.just(()), st.tuples(pair_of)),
        st.booleans(),
    )
)
def test_words_mean_what_they_say_on_any_state(state: tuple[Any, ...]) -> None:
    assert COMPILED.wrong_type(state) == ""
    for name, holds in COMPILED.invariants:
        assert holds(state), (name, COMPILED.show(state))


class Steps(Model):
    """Actions of every shape."""

    variant = Setting("plain", "other")
    Node = Sort(2)
    Word = Enum("no", "yes")
    row = Var(Fn(Node, Record(word=Word, seen=Set(Node))), init={"word": "no", "seen": []})
    waiting = Var(Set(Range(0, 3)), init=[1, 3])
    total = Var(Range(0, 10), init=0)

    @initial
    def Begin(s, first: Node):
        s.row[first].word = "yes"

    @definition
    def Said(s, n: Node, word: Word):
        return s.row[n].word == word

    @action
    def take(s):
        """Chooses from a set that depends on the state."""
        number = some(s.waiting)
        when(s.total + number <= 10)
        s.waiting = without(s.waiting, number)
        s.total = s.total + number

    @action
    def see(s, a: Node, b: Node):
        when(a != b, s.Said(a, "yes"))
        s.row[b].seen = with_member(s.row[b].seen, a)
        s.row[a].word = "no"

    @only("variant", "other")
    @action
    def refill(s):
        s.waiting = elements(Range(0, 3))


def test_actions_read_the_state_before_and_change_what_they_name() -> None:
    compiled = compile_model(Steps())
    begun = sorted(compiled.initial())
    assert begun == [(((0, 0), (1, 0)), 0b1010, 0), (((1, 0), (0, 0)), 0b1010, 0)]
    steps = {compiled.show_step(a, p): state for a, p, state in compiled.successors(begun[0])}
    assert set(steps) == {"take(1)", "take(3)", "see(node2, node1)"}
    assert steps["take(3)"] == (((0, 0), (1, 0)), 0b0010, 3)
    assert steps["see(node2, node1)"] == (((0, 0b10), (0, 0)), 0b1010, 0)
    assert [state for _, _, state in compiled.successors(begun[0])] == compiled.next_states(begun[0])


def test_a_variant_has_its_own_actions() -> None:
    assert "refill" not in compile_model(Steps()).actions
    other = compile_model(Steps(variant="other"))
    assert "refill" in other.actions
    assert any(other.show_step(a, p) == "refill()" for a, p, _ in other.successors(other.initial()[0]))


def test_symmetry_maps_every_image_to_one_representative() -> None:
    compiled = compile_model(Steps())
    first, second = compiled.initial()
    assert compiled.canonical(first) == compiled.canonical(second)
    state = (((0, 0b10), (1, 0b01)), 0, 0)
    image = (((1, 0b10), (0, 0b01)), 0, 0)
    assert compiled.canonical(state) == compiled.canonical(image)


class _Base(Model):
    Node = Sort(2)
    word = Var(Enum("a", "b"), init="a")
    number = Var(Range(0, 3), init=0)
    table = Var(Fn(Node, Range(0, 3)), init=0)


def model_with(function: Any, kind: Any = action) -> type[Model]:
    return type("Broken", (_Base,), {"broken": kind(function)})


def assigned_twice(s):
    s.number = 1
    s.number = 2


def plain_if(s):
    if s.number == 1:
        s.number = 2


def chained(s):
    when(0 < s.number < 3)


def wrong_name(s):
    s.word = "c"


def unknown(s):
    s.nothing = 1


def wrong_type(s):
    s.number = "a"


def no_order(s):
    when(s.word < "b")


def misplaced(s):
    s.table[0] = 1


def untyped(s, n):
    s.number = 1


def contains(s):
    when(1 in such_that(Range(0, 3), lambda n: n == s.number))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (assigned_twice, "assigns the same place twice"),
        (plain_if, "no truth value"),
        (chained, "no truth value"),
        (wrong_name, "'c' is not one of a, b"),
        (unknown, "has no 'nothing'"),
        (wrong_type, "'a' is no 0..3"),
        (no_order, "have no order"),
        (misplaced, "0 is no Node"),
        (untyped, "needs a type of the model"),
        (contains, "write member"),
    ],
)
def test_an_error_names_the_model_the_action_and_the_line(function: Any, message: str) -> None:
    with pytest.raises(SpecError) as raised:
        model_with(function)()
    text = str(raised.value)
    assert message in text
    assert ("Broken" in text and "broken" in text) or "needs a type" in text
    assert "test_language.py:" in text


def test_an_invariant_must_be_a_truth() -> None:
    with pytest.raises(SpecError, match="BOOLEAN"):
        model_with(lambda s: s.number + 1, invariant)()


def test_constants_and_settings_are_checked() -> None:
    with pytest.raises(SpecError, match="no constant or setting 'Sise'"):
        Everything(Sise=3)
    with pytest.raises(SpecError, match="choose one of: plain, other"):
        Steps(variant="third")
    with pytest.raises(SpecError, match="give a whole number"):
        Everything(Size="many")


def test_bounds_come_from_constants() -> None:
    assert Everything(Size=7).types["log"].of.size == 8
    assert Everything(Size=7).types["log"].of.tla() == "0..Size"
    with pytest.raises(SpecError, match="is empty"):
        type("Empty", (Model,), {"N": Constant(0), "v": Var(Range(1, 0))})()


def test_numbers_is_a_half_open_interval() -> None:
    class Sum(Model):
        n = Var(Range(0, 5), init=3)

        @invariant
        def below(s):
            return (count(numbers(0, s.n), lambda i: i >= 0) == s.n) & (
                size(such_that(numbers(1, 3), lambda i: i > 1)) == 1
            )

    compiled = compile_model(Sum())
    assert all(holds((n,)) for n in range(6) for _, holds in compiled.invariants)


def chain(length: int, nested: bool) -> CompiledModel:
    """A model in which each of `length` terms is needed twice by the next one."""
    fields = {f"f{number}": Range(0, 9) for number in range(length)}

    class Chain(Model):
        Node = Sort(2)
        row = Var(Fn(Node, Record(**fields)))
        x = Var(Range(0, 9))

        @action
        def go(s, a: Node):
            if nested:
                value = s.x
                for number, name in enumerate(fields):
                    field = getattr(s.row[a], name)
                    value = If(field > number, If(value > 3, value, 3), If(value < 5, value, number))
                s.x = value
            else:
                for name in fields:
                    setattr(s.row[a], name, minimum(getattr(s.row[a], name) + 1, 9))

    return compile_model(Chain())


@pytest.mark.parametrize("nested", [False, True])
def test_code_for_shared_terms_grows_linearly(nested: bool) -> None:
    """As a tree the longer chain has 2^30 nodes and more."""
    short, long = chain(15, nested), chain(30, nested)
    assert len(long.source) < 3 * len(short.source)
    state = (((8,) * 30, (8,) * 30), 7)
    after = (((8,) * 30, (8,) * 30), 29) if nested else (((9,) * 30, (8,) * 30), 7)
    assert long.next_states(state)[0] == after
    assert Stepper(long.model).apply("go", (0,), state) == after


def test_sequences_are_joined_and_cut() -> None:
    class Joined(Model):
        q = Var(Seq(Range(0, 9), 4))

        @invariant
        def halves(s):
            return Forall(numbers(0, 5), lambda i: concat(prefix(s.q, i), rest(s.q, i)) == s.q)

        @invariant
        def longer(s):
            return size(concat(s.q, [1, 2])) == size(s.q) + 2

    compiled = compile_model(Joined())
    for state in (((),), ((3,),), ((1, 2, 3, 4),)):
        assert all(holds(state) for _, holds in compiled.invariants)


def test_large_domains_become_loops() -> None:
    class Wide(Model):
        Place = Range(0, 400)
        Clerk = Sort(15)
        marks = Var(Fn(Place, Bool))
        busy = Var(Set(Clerk))
        at = Var(Place)

        @action
        def mark(s, p: Place):
            when(p <= s.at, ~s.marks[p])
            s.marks = function(s.Place, lambda q: s.marks[q] | (p == q))

        @action
        def ring(s):
            c = some(s.busy)
            s.busy = without(s.busy, c)

        @invariant
        def everywhere(s):
            return Forall(s.Place, lambda p: member(p, elements(s.Place)) & (p <= 400))

    compiled = compile_model(Wide())
    assert len(compiled.source) < 8000 + len("".join(f"{n}, " for n in range(401))) * 6
    nothing = (False,) * 401
    found = compiled.next_states((nothing, 0b100000000000010, 2))
    assert len(found) == 3 + 2
    assert found[1][0] == (False, True, *nothing[2:])
    assert {state[1] for state in found[3:]} == {0b10, 0b100000000000000}
    assert compiled.invariants[0][1](found[0])


def test_a_name_that_the_language_needs_is_refused() -> None:
    with pytest.raises(
        SpecError, match="model Caller: 'call' is a word of the language; choose another name"
    ):
        type("Caller", (_Base,), {"call": action(assigned_twice)})


def test_a_guard_that_can_never_be_true_leaves_no_empty_block() -> None:
    """One that is false for all values that were chosen, behind one that is not known beforehand."""

    class Stuck(Model):
        Node = Sort(1)
        value = Var(Range(0, 2), init=0)

        @action
        def Pair(s, a: Node, b: Node):
            when(s.value < 2)
            when(a != b)
            s.value = s.value + 1

        @action
        def Step(s):
            when(s.value < 2)
            s.value = s.value + 1

    compiled = compile_model(Stuck())
    assert compiled.next_states((0,)) == [(1,)]
    assert compiled.next_states((2,)) == []
