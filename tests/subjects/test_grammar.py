"""The grammar of subjects: what a pattern is, what it matches, and when two patterns meet."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.subjects.grammar import (
    PatternRefused,
    is_literal,
    matches,
    overlap,
    pattern_tokens,
    publish_problem,
    subject_problem,
)

WORDS = st.sampled_from(["a", "b"])
SUBJECTS = st.lists(WORDS, min_size=1, max_size=4).map(".".join)
PATTERNS = st.builds(
    lambda tokens, rest: ".".join([*tokens, *rest]) or ">",
    st.lists(st.sampled_from(["a", "b", "*"]), max_size=4),
    st.sampled_from([[], [">"]]),
)


@pytest.mark.parametrize(
    ("pattern", "subject", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.c", False),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.b.c", False),
        ("*.b", "a.b", True),
        ("a.>", "a.b.c", True),
        ("a.>", "a", False),
        (">", "a", True),
        ("a*", "ab", False),
        ("a*", "a*", True),
    ],
)
def test_wildcards_match_as_in_nats(pattern: str, subject: str, expected: bool) -> None:
    assert matches(pattern, subject) is expected


@pytest.mark.parametrize("pattern", ["", ".", "a.", ".a", "a..b", "a.>.b", ">.a", ">.>"])
def test_a_structure_refuses_what_means_nothing(pattern: str) -> None:
    with pytest.raises(PatternRefused, match="is no pattern"):
        pattern_tokens(pattern)
    assert subject_problem(pattern)


@pytest.mark.parametrize(
    ("subject", "why"),
    [
        ("a", ""),
        ("a.b*.c", ""),
        ("a." * 200 + "b", ""),
        ("", "empty"),
        ("a..b", "empty token"),
        ("a.*", "wildcard"),
        ("a.>", "wildcard"),
        (">", "wildcard"),
        ("a b", "white space"),
        ("a\nb", "control"),
        ("a\udcff", "UTF-8"),
    ],
)
def test_who_publishes_names_a_literal_subject(subject: str, why: str) -> None:
    assert why in publish_problem(subject) and bool(why) is bool(publish_problem(subject))


@given(PATTERNS)
def test_what_a_stream_may_be_attached_to_is_a_pattern(pattern: str) -> None:
    assert not subject_problem(pattern)
    tokens = pattern_tokens(pattern)
    assert is_literal(tokens) is not ("*" in pattern or ">" in pattern)


@given(PATTERNS, PATTERNS, SUBJECTS)
def test_patterns_meet_if_one_subject_matches_both(first: str, second: str, subject: str) -> None:
    if matches(first, subject) and matches(second, subject):
        assert overlap(first, second) and overlap(second, first)


@given(PATTERNS, PATTERNS)
def test_patterns_that_meet_have_a_subject_that_matches_both(first: str, second: str) -> None:
    assert overlap(first, second) is overlap(second, first)
    if not overlap(first, second):
        return
    left, right = first.split("."), second.split(".")
    length = max(len(left), len(right))
    subject = []
    for position in range(length):
        named = [
            tokens[position]
            for tokens in (left, right)
            if position < len(tokens) and tokens[position] not in ("*", ">")
        ]
        subject.append(named[0] if named else "a")
    assert matches(first, ".".join(subject)) and matches(second, ".".join(subject))
