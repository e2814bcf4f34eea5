"""All five structures do what `matches` over all patterns says, whatever is subscribed and removed."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from liftlog.subjects.bitmaps import InvertedBitmap, OptimizedInvertedBitmap
from liftlog.subjects.grammar import PatternRefused, matches, overlap
from liftlog.subjects.matcher import Matcher
from liftlog.subjects.naive import NaiveMap
from liftlog.subjects.persistent import FrozenTrie, PersistentTrie
from liftlog.subjects.trie import Trie

# Few tokens, so that they repeat and one pattern is the beginning of another; some are no wildcards but look
# like them.
TOKENS = st.sampled_from(["a", "b", "aa", "a*", ">b"])
PATTERNS = st.builds(
    lambda tokens, rest: ".".join([*tokens, *rest]) or ">",
    st.lists(st.one_of(TOKENS, st.just("*")), max_size=6),
    st.sampled_from([[], [], [">"]]),
)
# Subjects as they come from a wire: with empty tokens, and with wildcards, which stand for themselves there.
SUBJECTS = st.lists(st.one_of(TOKENS, st.sampled_from(["", "*", ">"])), min_size=1, max_size=8).map(".".join)
SUBSCRIBERS = st.integers(-2, 5)
KNOWN = ("a", "a.b", "a.a.a", "b.aa", "a.b.a.b.a.b")


def structures() -> dict[str, Matcher]:
    return {
        "naive": NaiveMap(),
        "inverted bitmap": InvertedBitmap(KNOWN),
        "inverted bitmap that learns two": InvertedBitmap(learned_max=2),
        "inverted bitmap that learns nothing": InvertedBitmap(KNOWN[:2], learned_max=0),
        "optimized inverted bitmap": OptimizedInvertedBitmap(),
        "trie": Trie(),
        "persistent trie": PersistentTrie(),
    }


class Subscriptions(RuleBasedStateMachine):
    """`expected` is the specification: a list of pairs, and `matches`."""

    def __init__(self) -> None:
        super().__init__()
        self.all = structures()
        self.expected: dict[tuple[str, int], None] = {}
        self.snapshots: list[tuple[FrozenTrie, dict[tuple[str, int], None]]] = []

    @rule(pattern=PATTERNS, subscriber=SUBSCRIBERS)
    def subscribe(self, pattern: str, subscriber: int) -> None:
        new = (pattern, subscriber) not in self.expected
        self.expected[pattern, subscriber] = None
        for name, matcher in self.all.items():
            assert matcher.subscribe(pattern, subscriber) is new, name

    @rule(pattern=PATTERNS, subscriber=SUBSCRIBERS)
    def unsubscribe(self, pattern: str, subscriber: int) -> None:
        there = (pattern, subscriber) in self.expected
        self.expected.pop((pattern, subscriber), None)
        for name, matcher in self.all.items():
            assert matcher.unsubscribe(pattern, subscriber) is there, name

    @rule(data=st.data())
    def unsubscribe_one_that_there_is(self, data: st.DataObject) -> None:
        if self.expected:
            self.unsubscribe(*data.draw(st.sampled_from(list(self.expected))))

    @rule(subject=SUBJECTS)
    def match(self, subject: str) -> None:
        found = sorted({number for pattern, number in self.expected if matches(pattern, subject)})
        for name, matcher in self.all.items():
            assert matcher.match(subject) == found, name

    @rule(pattern=PATTERNS)
    def find_what_meets(self, pattern: str) -> None:
        found = sorted({number for other, number in self.expected if overlap(pattern, other)})
        for name in ("trie", "persistent trie"):
            matcher = self.all[name]
            assert isinstance(matcher, Trie | PersistentTrie)
            assert matcher.overlapping(pattern) == found, name

    @rule()
    def take_a_snapshot(self) -> None:
        trie = self.all["persistent trie"]
        assert isinstance(trie, PersistentTrie)
        self.snapshots.append((trie.snapshot(), dict(self.expected)))

    @rule(subject=SUBJECTS, data=st.data())
    def ask_a_snapshot(self, subject: str, data: st.DataObject) -> None:
        """It says what was true when it was taken, whatever came after it."""
        if self.snapshots:
            snapshot, then = data.draw(st.sampled_from(self.snapshots))
            assert len(snapshot) == len(then)
            assert snapshot.match(subject) == sorted({n for pattern, n in then if matches(pattern, subject)})
            assert snapshot.overlapping(">") == sorted({n for _, n in then})

    @invariant()
    def all_count_alike(self) -> None:
        assert {len(matcher) for matcher in self.all.values()} == {len(self.expected)}

    def teardown(self) -> None:
        """What has left leaves nothing behind."""
        for pattern, subscriber in list(self.expected):
            self.unsubscribe(pattern, subscriber)
        trie, persistent = self.all["trie"], self.all["persistent trie"]
        assert isinstance(trie, Trie) and isinstance(persistent, PersistentTrie)
        assert trie._root.is_empty and persistent.snapshot()._root.is_empty
        optimized = self.all["optimized inverted bitmap"]
        assert isinstance(optimized, OptimizedInvertedBitmap)
        for position in optimized._positions:
            assert (position.tokens, position.other, position.none) == ({}, 0, 0)


TestSubscriptions = Subscriptions.TestCase
TestSubscriptions.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)


@pytest.mark.parametrize("name", structures())
def test_thousands_of_the_same_pattern_are_told_in_order_and_leave_one_by_one(name: str) -> None:
    matcher = structures()[name]
    count = 2000
    for number in reversed(range(count)):
        assert matcher.subscribe("a.*", number)
    matcher.subscribe("a.>", 7)
    assert len(matcher) == count + 1
    assert matcher.match("a.b") == list(range(count))
    assert matcher.match("a") == [] and matcher.match("a.b.c") == [7]
    for number in range(0, count, 2):
        assert matcher.unsubscribe("a.*", number)
    assert matcher.match("a.b") == [*range(1, 7, 2), 7, *range(9, count, 2)]


@pytest.mark.parametrize("name", structures())
def test_wildcards_at_every_position_of_a_long_subject(name: str) -> None:
    """Each pattern has `*` at other places: a match looks at every path that there is."""
    matcher = structures()[name]
    depth = 10
    for number in range(1 << depth):
        matcher.subscribe(".".join("*" if number >> bit & 1 else "a" for bit in range(depth)), number)
    for position in range(depth):
        matcher.subscribe(".".join([*["*"] * position, ">"]), -1 - position)
    assert matcher.match(".".join("a" * depth)) == list(range(-depth, 1 << depth))
    every_second = ".".join("ab" * (depth // 2))
    assert len(matcher.match(every_second)) == (1 << depth // 2) + depth
    assert matcher.match("b") == [-1] and matcher.match(".".join("a" * 200)) == list(range(-depth, 0))


@pytest.mark.parametrize("name", structures())
def test_nothing_subscribed_matches_nothing(name: str) -> None:
    matcher = structures()[name]
    for subject in ("", "a", "a.b.c", ".", ">"):
        assert matcher.match(subject) == []
    assert len(matcher) == 0 and not matcher.unsubscribe("a", 1)


@pytest.mark.parametrize("name", structures())
@pytest.mark.parametrize("pattern", ["", "a..b", "a.>.b"])
def test_what_is_no_pattern_is_refused_and_changes_nothing(name: str, pattern: str) -> None:
    matcher = structures()[name]
    matcher.subscribe("a.b", 1)
    with pytest.raises(PatternRefused, match="is no pattern"):
        matcher.subscribe(pattern, 2)
    with pytest.raises(PatternRefused, match="is no pattern"):
        matcher.unsubscribe(pattern, 1)
    assert len(matcher) == 1 and matcher.match("a.b") == [1]


@given(st.lists(SUBJECTS, max_size=30), st.integers(0, 3))
def test_an_inverted_bitmap_keeps_what_it_knows_and_so_many_that_it_has_learned(
    subjects: list[str], learned_max: int
) -> None:
    matcher = InvertedBitmap(KNOWN, learned_max)
    for subject in subjects:
        matcher.match(subject)
    strange = len(set(subjects) - set(KNOWN))
    assert matcher.known == len(KNOWN) + min(strange, learned_max)
