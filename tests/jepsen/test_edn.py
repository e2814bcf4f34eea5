"""EDN: everything that is written is read back unchanged; what is broken is named with line and column."""

from __future__ import annotations

import math
import pickle
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog_jepsen.events import BadHistory
from liftlog_jepsen.formats.edn import (
    DEPTH_MAX,
    NUMBER_BITS_MAX,
    BigInt,
    Char,
    FrozenMap,
    Keyword,
    Symbol,
    Tagged,
    Vector,
    line_of,
    read,
    read_all,
    write,
)

NAMES = st.from_regex(
    r"[a-zA-Z*!_?<>=][a-zA-Z0-9*!_?<>=.\-+]{0,6}(/[a-z][a-z0-9\-]{0,3})?", fullmatch=True
).filter(lambda name: name not in ("nil", "true", "false"))
ATOMS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers().map(BigInt),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False),
    st.fractions().filter(lambda ratio: ratio.denominator > 1),
    st.text(),
    NAMES.map(Keyword),
    NAMES.map(Symbol),
    st.characters(max_codepoint=0xFFFF).map(Char),
)
HASHED = st.one_of(st.integers(), NAMES.map(Keyword), st.lists(st.integers(), max_size=2).map(Vector))
"""No two of these are equal unless they are the same."""
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(HASHED, inner, max_size=4),
        st.frozensets(HASHED, max_size=4),
        st.builds(Tagged, st.from_regex(r"[a-z]{1,4}(\.[a-z]{1,3})?", fullmatch=True), inner),
    ),
    max_leaves=12,
)


def same(left: Any, right: Any) -> bool:
    """Equal, of the same types all the way down."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, frozenset):
        return left == right and sorted(map(write, left)) == sorted(map(write, right))
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return math.copysign(1, left) == math.copysign(1, right) and left == right
    return bool(left == right) and str(left) == str(right)


@settings(max_examples=150, deadline=None)
@given(VALUES)
def test_what_is_written_is_read_back(value: Any) -> None:
    text = write(value)
    assert same(read(text), value)
    assert "\n" not in text


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet='[]{}()#_:"\\;,^ \n01ab/.-+N', max_size=14))
def test_any_text_is_read_or_refused_with_its_place(text: str) -> None:
    try:
        values = read_all(text, "x.edn")
    except BadHistory as error:
        assert str(error).startswith("x.edn line ")
        assert "expected" in str(error)
    else:
        written = list(map(write, values))
        assert list(map(write, read_all("\n".join(written)))) == written


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("nil", None),
        ("  true ; a comment\n", True),
        (":a/b", Keyword("a/b")),
        (":1", Keyword("1")),
        ("-", Symbol("-")),
        ("+a", Symbol("+a")),
        ("/", Symbol("/")),
        ("+7", 7),
        ("-0", 0),
        ("12N", BigInt(12)),
        ("017", 15),
        ("0x1F", 31),
        ("2r101", 5),
        ("1.", 1.0),
        ("1e3", 1000.0),
        ("1.50M", Decimal("1.50")),
        ("7M", Decimal(7)),
        ("2/3", Fraction(2, 3)),
        ("4/2", 2),
        ("##Inf", math.inf),
        (r"\a", Char("a")),
        (r"\newline", Char("\n")),
        (r"\u0041", Char("A")),
        (r"\o101", Char("A")),
        (r"\(", Char("(")),
        (r"\,", Char(",")),
        (r'"a\tb\"\\\u0041\101"', 'a\tb"\\AA'),
        (r'"\ud83d\ude00"', "\U0001f600"),
        ('"two\nlines"', "two\nlines"),
        ("[1,2,,3]", [1, 2, 3]),
        ("(1 [2])", (1, [2])),
        ("#{[1] {:a [2]}}", frozenset([Vector([1]), FrozenMap({Keyword("a"): Vector([2])})])),
        ("{[1] 2}", {Vector([1]): 2}),
        ("[1 #_ 2 3]", [1, 3]),
        ("[#_ #_ 1 2 3]", [3]),
        ("#_[broken {:in side}] 1", 1),
        ('#inst "2024"', Tagged("inst", "2024")),
        ("#a #b 1", Tagged("a", Tagged("b", 1))),
        ("#a #_ 1 2", Tagged("a", 2)),
        ("#op{:a 1}", Tagged("op", {Keyword("a"): 1})),
        ("#:n{:a 1 :_/b 2 :c/d 3 e 4}", {"n/a": 1, "b": 2, "c/d": 3, "n/e": 4}),
        ("{:a 1;c]\n}", {Keyword("a"): 1}),
    ],
)
def test_forms(text: str, value: Any) -> None:
    found = read(text)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{:a 1", "line 1, column 6: expected } for the { of line 1, found the end"),
        ("\n [1\n 2 (]", "line 3, column 5: expected ) for the ( of line 3, found ]"),
        ("1 ]", "line 1, column 3: expected a value, found ]"),
        ("{:a}", "line 1, column 4: expected a value for each key of the map, which has 1 elements, found }"),
        ("{:a 1 :a 2}", "expected each key once, but :a comes twice"),
        ("#{1 true}", "true comes twice (1 and true count as the same here)"),
        ('{:a 1 "a" 2}', '"a" comes twice (:a and "a" count as the same here)'),
        ('1 "abc', 'line 1, column 3: expected a string with a closing "'),
        (r'"a\qb"', r"expected one of the escapes \t \r \n \b \f \\ \" \uXXXX, found \q"),
        ("[1 #tag]", "line 1, column 4: expected a value behind it, found #tag"),
        ("#_", "expected a value behind it, found #_"),
        ("#:n[1]", "expected a map behind it, found #:n"),
        ("#(f)", "expected #{, #_, #tag"),
        ("::a", "expected a keyword such as :name, found ::a"),
        ("12x", "expected a number, found 12x"),
        ("1/0", "expected a number that can be read, found 1/0"),
        ("^{:a 1} b", "expected a value, found ^"),
        (r"\abc", "expected a character such as"),
        ("[" * (DEPTH_MAX + 1), f"expected at most {DEPTH_MAX} brackets within each other"),
        ("#a " * (DEPTH_MAX + 1) + "1", f"expected at most {DEPTH_MAX} brackets within each other"),
        ("9" * 4000, "expected a number of at most 3900 digits"),
        ("9" * 5000, "expected a number that can be read"),
        ("0x" + "f" * 5000, "expected a number of at most 3900 digits"),
        ("1/" + "9" * 4000, "expected a number of at most 3900 digits"),
        ("1." + "1" * 4000 + "M", "expected a number of at most 3900 digits"),
    ],
)
def test_what_is_broken_is_named_with_its_place(text: str, words: str) -> None:
    with pytest.raises(BadHistory) as caught:
        read_all(text, "x.edn")
    assert str(caught.value).startswith("x.edn line ")
    assert words in str(caught.value)


def test_one_value_means_one() -> None:
    with pytest.raises(BadHistory, match="expected one value, found 2"):
        read("1 2")


@pytest.mark.parametrize(
    "value",
    [object(), Keyword(""), Keyword("a b"), Symbol("nil"), Symbol("1a"), Tagged("a b", 1), Decimal("NaN")],
)
def test_what_edn_cannot_say_is_refused(value: Any) -> None:
    with pytest.raises(BadHistory, match="EDN"):
        write([value])


def test_keywords_are_texts_that_keep_their_kind() -> None:
    key = Keyword("read")
    assert key == "read"
    assert {key: 1}["read"] == 1
    copied = pickle.loads(pickle.dumps(key))
    assert type(copied) is Keyword
    assert repr(copied) == ":read"


def test_sets_are_written_in_one_order() -> None:
    assert write(frozenset([Keyword(name) for name in "cab"])) == "#{:a :b :c}"


def test_lines_of_elements() -> None:
    text = "; head\n[#_ 1\n {:a\n 1}\n #t [2]\n 3]"
    assert [line_of(text, number, 1) for number in range(3)] == [3, 5, 6]
    assert line_of(text, 0, 0) == 2


@pytest.mark.parametrize(
    "text", ["[" * DEPTH_MAX + "]" * DEPTH_MAX, "[#a " * (DEPTH_MAX // 2) + "1" + "]" * (DEPTH_MAX // 2)]
)
def test_depth_that_is_allowed_can_be_written_and_no_more(text: str) -> None:
    value = read(text)
    assert write(value) == text
    assert read(f"[1 #a [2 #b 3] {text[1:-1]}]")
    for deeper in ([value], {1: value}, Tagged("a", value), (value,)):
        with pytest.raises(BadHistory, match=f"at most {DEPTH_MAX} brackets and tags"):
            write(deeper)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("kind", [int, BigInt, Fraction, Decimal])
def test_numbers_that_are_written_can_be_read_and_no_longer_ones_are(kind: Any, sign: int) -> None:
    last = kind(sign * (10**3900 - 1)) if kind is Decimal else kind(sign * ((1 << NUMBER_BITS_MAX) - 1))
    if kind is Fraction:
        last = Fraction(sign, (1 << NUMBER_BITS_MAX) - 1)
    assert read(write(last)) == last
    for longer in (10**5000, Decimal(10**5000 - 1), Fraction(1, 10**5000), BigInt(10**5000)):
        with pytest.raises(BadHistory, match="more than 3900 digits"):
            write([longer])
