"""A tree of tokens: a pattern is a path from the root, and a match follows a subject's tokens down.

    subscribe a.b, a.*, a.>, b          root
                                        +- a        > a.>
                                        |  +- b     = a.b
                                        |  +- *     = a.*
                                        +- b        = b

A node keeps who has a pattern that ends there, and who has one that takes all that is left from there. Where
a node has a branch for `*`, a match goes on in both: it looks at as many nodes as there are paths that match
the beginning of the subject, however many subscriptions there are.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Protocol

from liftlog.subjects.grammar import ANY, REST, SEPARATOR, pattern_tokens
from liftlog.subjects.matcher import Subscriber, in_order


class TrieNode(Protocol):
    """What a walk down sees of a node, of a tree that changes or of one that does not."""

    @property
    def children(self) -> Mapping[str, TrieNode]:
        """By the token that is named next."""
        ...

    @property
    def star(self) -> TrieNode | None:
        """Below `*`."""
        ...

    @property
    def ends(self) -> Iterable[Subscriber]:
        """Whose patterns end here."""
        ...

    @property
    def rest(self) -> Iterable[Subscriber]:
        """Whose patterns end here in a `>`."""
        ...


def matching(root: TrieNode, subject: str) -> list[Subscriber]:
    """Who has a pattern that matches a literal subject."""
    found: list[Subscriber] = []
    level = [root]
    for token in subject.split(SEPARATOR):
        below: list[TrieNode] = []
        for node in level:
            if node.rest:
                found.extend(node.rest)
            child = node.children.get(token)
            if child is not None:
                below.append(child)
            if node.star is not None:
                below.append(node.star)
        if not below:
            break
        level = below
    else:
        for node in level:
            found.extend(node.ends)
    return in_order(found)


def overlapping(root: TrieNode, pattern: str) -> list[Subscriber]:
    """Who has a pattern that some literal subject matches together with this one."""
    found: list[Subscriber] = []
    level = [root]
    for token in pattern_tokens(pattern):
        if token == REST:
            for node in level:
                found.extend(_all_below(node))
            break
        below: list[TrieNode] = []
        for node in level:
            found.extend(node.rest)
            if token == ANY:
                below.extend(node.children.values())
            elif token in node.children:
                below.append(node.children[token])
            if node.star is not None:
                below.append(node.star)
        level = below
    else:
        for node in level:
            found.extend(node.ends)
    return in_order(found)


def _all_below(top: TrieNode) -> list[Subscriber]:
    """Who has a pattern that goes on from this node."""
    found = list(top.rest)
    left = list(_branches(top))
    while left:
        node = left.pop()
        found.extend(node.ends)
        found.extend(node.rest)
        left.extend(_branches(node))
    return found


def _branches(node: TrieNode) -> list[TrieNode]:
    return [*node.children.values(), *([node.star] if node.star is not None else [])]


# Of all nodes that have none, since an empty one takes as much memory as a node: never written to.
_CHILDLESS: dict[str, _Node] = {}
_NOBODY: list[Subscriber] = []


class _Node:
    """A node that changes. What is empty is taken away, so that a tree never keeps what has left it."""

    __slots__ = ("children", "ends", "rest", "star")

    def __init__(self) -> None:
        self.children = _CHILDLESS
        self.star: _Node | None = None
        self.ends = _NOBODY
        self.rest = _NOBODY

    @property
    def is_empty(self) -> bool:
        return not (self.ends or self.children or self.rest or self.star is not None)

    def child(self, token: str) -> _Node | None:
        return self.star if token == ANY else self.children.get(token)

    def grown(self, token: str) -> _Node:
        """The child of a token, there from now on."""
        found = self.child(token)
        if found is None:
            found = _Node()
            if token == ANY:
                self.star = found
            else:
                self.children = {} if self.children is _CHILDLESS else self.children
                self.children[token] = found
        return found

    def subscribers(self, is_open: bool) -> list[Subscriber]:
        """Whose patterns end here, in a `>` or without one, in rising order: to be written to."""
        if is_open:
            self.rest = [] if self.rest is _NOBODY else self.rest
            return self.rest
        self.ends = [] if self.ends is _NOBODY else self.ends
        return self.ends

    def prune(self, token: str) -> None:
        if token == ANY:
            self.star = None
        else:
            del self.children[token]


class Trie:
    """A tree of tokens that is changed in place."""

    __slots__ = ("_count", "_root")

    def __init__(self) -> None:
        self._root = _Node()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def subscribe(self, pattern: str, subscriber: Subscriber) -> bool:
        node = self._root
        tokens = pattern_tokens(pattern)
        is_open = tokens[-1] == REST
        for token in tokens[:-1] if is_open else tokens:
            node = node.grown(token)
        subscribers = node.subscribers(is_open)
        place = bisect_left(subscribers, subscriber)
        if place < len(subscribers) and subscribers[place] == subscriber:
            return False
        subscribers.insert(place, subscriber)
        self._count += 1
        return True

    def unsubscribe(self, pattern: str, subscriber: Subscriber) -> bool:
        node = self._root
        path: list[tuple[_Node, str]] = []
        tokens = pattern_tokens(pattern)
        for token in tokens:
            if token == REST:
                break
            child = node.child(token)
            if child is None:
                return False
            path.append((node, token))
            node = child
        subscribers = node.rest if tokens[-1] == REST else node.ends
        place = bisect_left(subscribers, subscriber)
        if place == len(subscribers) or subscribers[place] != subscriber:
            return False
        del subscribers[place]
        self._count -= 1
        while path and node.is_empty:
            node, token = path.pop()
            node.prune(token)
        return True

    def match(self, subject: str) -> list[Subscriber]:
        return matching(self._root, subject)

    def overlapping(self, pattern: str) -> list[Subscriber]:
        """Who has a pattern that some literal subject matches together with this one: each once, in rising
        order.
        """
        return overlapping(self._root, pattern)
