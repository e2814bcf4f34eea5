"""A mask has a flag for each subject that the grammar says is matched."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.subjects.grammar import PatternRefused, tokens_match
from liftlog.subjects.index import filters
from liftlog.subjects.index.filters import MASKS_MAX, Masks
from liftlog.subjects.index.interface import filter_tokens
from liftlog.subjects.index.plain import tokens_of
from liftlog.subjects.index.table import SubjectTable

TOKENS = ["a", "b", "ab", "a*", ">b", "ä", "x" * 20]
PATTERNS = st.builds(
    lambda tokens, rest: ".".join([*tokens, *rest]) or ">",
    st.lists(st.sampled_from([*TOKENS, "*", "*"]), max_size=5),
    st.sampled_from([[], [], [">"]]),
)
SUBJECTS = st.one_of(
    st.lists(st.sampled_from([*TOKENS, "", "*", ">"]), min_size=1, max_size=6).map(
        lambda each: ".".join(each).encode()
    ),
    st.binary(max_size=4),
)


def table_of(subjects: list[bytes]) -> SubjectTable:
    table = SubjectTable(1, 1 << 30)
    table.intern(subjects)
    return table


def expected(table: SubjectTable, pattern: str) -> list[bool]:
    tokens = filter_tokens(pattern)
    return [tokens_match(tokens, tokens_of(table.subject(sid))) for sid in range(len(table))]


@settings(deadline=None)
@given(st.lists(SUBJECTS, max_size=30), PATTERNS)
def test_a_mask_is_what_the_grammar_says(subjects: list[bytes], pattern: str) -> None:
    table = table_of(subjects)
    assert Masks(table).of(pattern).tolist() == expected(table, pattern)


def test_slices_and_what_has_come_since_make_one_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filters, "SLICE", 7)
    table = table_of([])
    masks = Masks(table)
    for count in (0, 3, 7, 20, 23, 60):
        table.intern([b"app.%s.%d" % (b"ab"[number % 2 : number % 2 + 1], number) for number in range(count)])
        for pattern in ("app.*.3", "app.a.>", "*.b.*", "app.>", "b.>"):
            assert masks.of(pattern).tolist() == expected(table, pattern)
    table.cut(10)
    masks.cut(10)
    table.intern([b"other", b"app.a.x"])
    assert masks.of("app.a.>").tolist() == expected(table, "app.a.>") and len(table) == 12


def test_so_many_masks_are_kept_and_the_one_not_asked_for_longest_goes() -> None:
    table = table_of([b"a.%d" % number for number in range(100)])
    masks = Masks(table)
    first = masks.of("a.>")
    for number in range(MASKS_MAX - 1):
        masks.of(f"*.{number}")
    assert masks.of("a.>") is first
    masks.of("*.another")
    assert masks.of("a.>") is first and masks.memory == MASKS_MAX * 100


@pytest.mark.parametrize("pattern", ["", "a..b", "a.>.b", "a.\ud800"])
def test_what_is_no_filter_is_refused(pattern: str) -> None:
    with pytest.raises(PatternRefused, match="is no pattern"):
        Masks(table_of([b"a"])).of(pattern)
