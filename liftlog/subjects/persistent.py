"""A tree of tokens that never changes: a subscription makes a new one, which shares all but a path with it.

    before   root --- a --- b            after   root' --- a' --- b
               |      +---- *                     |        +---- *
               +- c (large)                       |        +---- x     new
                                                  +- c                 the same c, not copied

Who has the root has a snapshot of all subscriptions, for as long as he likes: he waits for nobody, and nobody
waits for him. That is what the concurrent trie of the literature (CS-trie, after the Ctrie) gives to readers,
with one root in place of an indirection node above each branch. Writers come one at a time: Python has no
compare-and-swap, and threads that change one tree share a lock of their own, which readers never take.
"""

from __future__ import annotations

from bisect import bisect_left

from liftlog.subjects.grammar import ANY, REST, pattern_tokens
from liftlog.subjects.matcher import Subscriber
from liftlog.subjects.trie import matching, overlapping


class _FrozenNode:
    """A node that is never changed once it is made."""

    __slots__ = ("children", "ends", "rest", "star")

    def __init__(
        self,
        children: dict[str, _FrozenNode],
        star: _FrozenNode | None = None,
        ends: tuple[Subscriber, ...] = (),
        rest: tuple[Subscriber, ...] = (),
    ) -> None:
        self.children = children
        self.star = star
        self.ends = ends
        self.rest = rest

    @property
    def is_empty(self) -> bool:
        return not (self.ends or self.children or self.rest or self.star is not None)

    def child(self, token: str) -> _FrozenNode | None:
        return self.star if token == ANY else self.children.get(token)

    def with_child(self, token: str, child: _FrozenNode) -> _FrozenNode:
        """This node with another child; with none of that token if it is empty."""
        kept = None if child.is_empty else child
        if token == ANY:
            return _FrozenNode(self.children, kept, self.ends, self.rest)
        children = self.children.copy()
        if kept is not None:
            children[token] = kept
        else:
            children.pop(token, None)
        return _FrozenNode(children, self.star, self.ends, self.rest)

    def with_ends(self, ends: tuple[Subscriber, ...]) -> _FrozenNode:
        return _FrozenNode(self.children, self.star, ends, self.rest)

    def with_rest(self, rest: tuple[Subscriber, ...]) -> _FrozenNode:
        return _FrozenNode(self.children, self.star, self.ends, rest)


_EMPTY = _FrozenNode({})


class FrozenTrie:
    """All subscriptions as they were at one moment."""

    __slots__ = ("_count", "_root")

    def __init__(self, root: _FrozenNode = _EMPTY, count: int = 0) -> None:
        self._root = root
        self._count = count

    def __len__(self) -> int:
        return self._count

    def match(self, subject: str) -> list[Subscriber]:
        return matching(self._root, subject)

    def overlapping(self, pattern: str) -> list[Subscriber]:
        """Who has a pattern that some literal subject matches together with this one."""
        return overlapping(self._root, pattern)

    def subscribed(self, pattern: str, subscriber: Subscriber) -> FrozenTrie:
        """These subscriptions and one more; this very snapshot if it has it already."""
        return self._changed(pattern, subscriber, 1)

    def unsubscribed(self, pattern: str, subscriber: Subscriber) -> FrozenTrie:
        """These subscriptions without one; this very snapshot if it does not have it."""
        return self._changed(pattern, subscriber, -1)

    def _changed(self, pattern: str, subscriber: Subscriber, by: int) -> FrozenTrie:
        tokens = pattern_tokens(pattern)
        is_open = tokens[-1] == REST
        if is_open:
            tokens.pop()
        path = [self._root]
        for token in tokens:
            path.append(path[-1].child(token) or _EMPTY)
        last = path.pop()
        before = last.rest if is_open else last.ends
        after = _with(before, subscriber) if by > 0 else _without(before, subscriber)
        if len(after) == len(before):
            return self
        node = last.with_rest(after) if is_open else last.with_ends(after)
        for parent, token in zip(reversed(path), reversed(tokens), strict=True):
            node = parent.with_child(token, node)
        return FrozenTrie(node, self._count + by)


class PersistentTrie:
    """The latest snapshot. A reader in another thread may match at any time, or take the snapshot."""

    __slots__ = ("_latest",)

    def __init__(self) -> None:
        self._latest = FrozenTrie()

    def __len__(self) -> int:
        return len(self._latest)

    def subscribe(self, pattern: str, subscriber: Subscriber) -> bool:
        before = self._latest
        self._latest = before.subscribed(pattern, subscriber)
        return self._latest is not before

    def unsubscribe(self, pattern: str, subscriber: Subscriber) -> bool:
        before = self._latest
        self._latest = before.unsubscribed(pattern, subscriber)
        return self._latest is not before

    def match(self, subject: str) -> list[Subscriber]:
        return self._latest.match(subject)

    def overlapping(self, pattern: str) -> list[Subscriber]:
        """Who has a pattern that some literal subject matches together with this one."""
        return self._latest.overlapping(pattern)

    def snapshot(self) -> FrozenTrie:
        return self._latest


def _with(subscribers: tuple[Subscriber, ...], one: Subscriber) -> tuple[Subscriber, ...]:
    place = bisect_left(subscribers, one)
    if place < len(subscribers) and subscribers[place] == one:
        return subscribers
    return (*subscribers[:place], one, *subscribers[place:])


def _without(subscribers: tuple[Subscriber, ...], one: Subscriber) -> tuple[Subscriber, ...]:
    place = bisect_left(subscribers, one)
    if place == len(subscribers) or subscribers[place] != one:
        return subscribers
    return subscribers[:place] + subscribers[place + 1 :]
