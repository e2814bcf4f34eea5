"""The worked examples of Tyler Treat's "Fast Topic Matching", as it prints them, on our structures.

His subscriptions, his topics, and the rows of his tables. One row of the article is wrong, and is corrected
here (docs/adr/0002-ten-contradictions.md). His wildcard is `*` only; `>` is NATS's.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from liftlog.subjects.bitmaps import InvertedBitmap, OptimizedInvertedBitmap
from liftlog.subjects.matcher import Matcher
from liftlog.subjects.naive import NaiveMap
from liftlog.subjects.persistent import PersistentTrie
from liftlog.subjects.trie import Trie

STRUCTURES: list[Callable[[], Matcher]] = [
    NaiveMap,
    InvertedBitmap,
    OptimizedInvertedBitmap,
    Trie,
    PersistentTrie,
]
SPACE = ("forex.usd", "forex.gbp", "forex.jpy", "forex.eur", "stock.nasdaq", "stock.nyse")


def filled(matcher: Matcher, *patterns: str) -> Matcher:
    """The subscriptions 0, 1, ..."""
    for number, pattern in enumerate(patterns):
        assert matcher.subscribe(pattern, number)
    return matcher


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_opening_table_routes_each_message_to_its_subscribers(structure: Callable[[], Matcher]) -> None:
    matcher = structure()
    for subscriber, pattern in ((1, "forex.usd"), (2, "forex.*"), (3, "stock.nasdaq.msft")):
        matcher.subscribe(pattern, subscriber)
    routed = {
        "forex.gbp": [2],
        "stock.nyse.ibm": [],
        "stock.nyse.ge": [],
        "forex.eur": [2],
        "forex.usd": [1, 2],
        "stock.nasdaq.msft": [3],
    }
    assert {subject: matcher.match(subject) for subject in routed} == routed


def test_the_inverted_bitmap_of_a_known_space_has_the_rows_of_the_article() -> None:
    matcher = InvertedBitmap(SPACE)
    filled(matcher, "forex.*", "stock.nyse", "*.*", "stock.*")
    rows = {subject: [*matcher.row(subject), 0, 0, 0, 0][:4] for subject in SPACE}
    assert rows == {
        "forex.usd": [1, 0, 1, 0],
        "forex.gbp": [1, 0, 1, 0],
        "forex.jpy": [1, 0, 1, 0],
        "forex.eur": [1, 0, 1, 0],
        "stock.nasdaq": [0, 0, 1, 1],
        "stock.nyse": [0, 1, 1, 1],
    }
    assert matcher.match("stock.nyse") == [1, 2, 3]


EXAMPLE = ("forex.*", "stock.nyse", "index", "stock.*")


def optimized() -> OptimizedInvertedBitmap:
    matcher = OptimizedInvertedBitmap()
    filled(matcher, *EXAMPLE)
    return matcher


def test_the_first_constituents_bitmap_has_the_rows_of_the_article() -> None:
    matcher = optimized()
    assert matcher.row(0, None) == [0, 0, 0, 0]
    assert matcher.row(0, "forex") == [1, 0, 0, 0]
    assert matcher.row(0, "stock") == [0, 1, 0, 1]
    assert matcher.row(0, "index") == [0, 0, 1, 0]
    assert matcher.row(0, "*") == [0, 0, 0, 0]


def test_the_second_constituents_bitmap_has_the_rows_of_the_article() -> None:
    matcher = optimized()
    assert matcher.row(1, None) == [0, 0, 1, 0]
    assert matcher.row(1, "nyse") == [0, 1, 0, 0]
    assert matcher.row(1, "*") == [1, 0, 0, 1]


def both(first: list[int], second: list[int]) -> list[int]:
    return [left & right for left, right in zip(first, second, strict=True)]


def either(first: list[int], second: list[int]) -> list[int]:
    return [left | right for left, right in zip(first, second, strict=True)]


def test_forex_eur_is_matched_by_the_and_of_forex_and_other() -> None:
    matcher = optimized()
    assert both(matcher.row(0, "forex"), matcher.row(1, "*")) == [1, 0, 0, 0]
    assert matcher.match("forex.eur") == [0]


def test_stock_nyse_needs_the_or_with_other_which_the_article_prints_wrong() -> None:
    """It prints 0101 for "nyse OR other"; its own rows give 1101. The AND is the same."""
    matcher = optimized()
    nyse = either(matcher.row(1, "nyse"), matcher.row(1, "*"))
    assert nyse == [1, 1, 0, 1]
    assert both(matcher.row(0, "stock"), nyse) == [0, 1, 0, 1]
    assert matcher.match("stock.nyse") == [1, 3]


def test_a_topic_shorter_than_the_longest_pattern_meets_the_null_row() -> None:
    assert optimized().match("index") == [2]
    assert optimized().match("stock") == []


def test_a_topic_longer_than_the_longest_pattern_matches_nothing() -> None:
    """But for patterns that end in `>`, which the article does not have."""
    matcher = optimized()
    assert matcher.match("stock.nyse.ibm") == []
    matcher.subscribe("stock.>", 4)
    assert matcher.match("stock.nyse.ibm") == [4]


@pytest.mark.parametrize("structure", [Trie, PersistentTrie])
def test_the_trie_goes_back_to_the_wildcard_after_a_literal_match(structure: Callable[[], Matcher]) -> None:
    matcher = filled(structure(), *EXAMPLE)
    assert matcher.match("stock.nyse") == [1, 3]
    assert matcher.match("stock.nasdaq") == [3]
    assert matcher.match("forex.nyse") == [0]
    assert matcher.match("index") == [2]


X, Y, Z = 1, 2, 3


@pytest.mark.parametrize("structure", STRUCTURES)
def test_subscribers_x_y_and_z_of_the_concurrent_trie(structure: Callable[[], Matcher]) -> None:
    matcher = structure()
    for subscriber, patterns in (
        (X, ("foo", "bar", "bar.baz")),
        (Y, ("foo", "bar.qux")),
        (Z, ("bar.*",)),
    ):
        for pattern in patterns:
            matcher.subscribe(pattern, subscriber)
    assert len(matcher) == 6
    assert matcher.match("foo") == [X, Y]
    assert matcher.match("bar") == [X]
    assert matcher.match("bar.baz") == [X, Z]
    assert matcher.match("bar.qux") == [Y, Z]
    assert matcher.match("bar.other") == [Z]


@pytest.mark.parametrize("structure", STRUCTURES)
def test_the_unit_test_of_the_articles_code(structure: Callable[[], Matcher]) -> None:
    """Its five structures share one; one subscriber has several patterns that match one topic."""
    matcher = structure()
    subscriptions = [
        ("forex.*", 0),
        ("*.usd", 0),
        ("forex.eur", 0),
        ("*.eur", 1),
        ("forex.*", 1),
        ("trade", 1),
        ("*", 2),
    ]
    for pattern, subscriber in subscriptions:
        matcher.subscribe(pattern, subscriber)
    routed = {
        "forex.eur": [0, 1],
        "forex": [2],
        "trade.jpy": [],
        "forex.jpy": [0, 1],
        "trade": [1, 2],
    }
    assert {subject: matcher.match(subject) for subject in routed} == routed
    for pattern, subscriber in subscriptions:
        assert matcher.unsubscribe(pattern, subscriber)
    assert {subject: matcher.match(subject) for subject in routed} == {subject: [] for subject in routed}


def test_a_bit_that_is_used_again_keeps_nothing_of_its_former_subscription() -> None:
    """The article's code leaves the null rows of a subscription as they are when it is removed: its successor
    in that place would also match topics that are shorter than its pattern.
    """
    matcher = OptimizedInvertedBitmap()
    matcher.subscribe("a.b.c", 1)
    matcher.subscribe("a", 2)
    matcher.unsubscribe("a", 2)
    matcher.subscribe("a.b", 3)
    assert matcher.match("a") == []
    assert matcher.match("a.b") == [3]
