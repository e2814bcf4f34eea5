"""Trees over a row of numbers: the smallest of a stretch, and how often each place is covered."""

from __future__ import annotations

FAR = 1 << 63
"""Greater than every number that is kept."""


class Minimum:
    """Numbers at places 0 … n - 1; the smallest of a stretch in O(log n)."""

    def __init__(self, numbers: list[int]) -> None:
        self.size = 1
        while self.size < len(numbers):
            self.size *= 2
        self.tree = [FAR] * self.size + numbers + [FAR] * (self.size - len(numbers))
        for place in range(self.size - 1, 0, -1):
            left, right = self.tree[2 * place], self.tree[2 * place + 1]
            self.tree[place] = left if left < right else right

    def set(self, place: int, number: int) -> None:
        tree = self.tree
        place += self.size
        tree[place] = number
        place //= 2
        while place:
            left, right = tree[2 * place], tree[2 * place + 1]
            smaller = left if left < right else right
            if tree[place] == smaller:
                return
            tree[place] = smaller
            place //= 2

    def smallest(self, begin: int, end: int) -> int:
        """The smallest number at begin … end - 1, FAR if there is none."""
        tree = self.tree
        found = FAR
        begin += self.size
        end += self.size
        while begin < end:
            if begin & 1:
                if tree[begin] < found:
                    found = tree[begin]
                begin += 1
            if end & 1:
                end -= 1
                if tree[end] < found:
                    found = tree[end]
            begin //= 2
            end //= 2
        return found

    def first_below(self, begin: int, end: int, limit: int) -> int:
        """The first place of begin … end - 1 with a number below `limit`, -1 if there is none."""
        tree = self.tree
        left, right = begin + self.size, end + self.size
        later: list[int] = []
        while left < right:
            if left & 1:
                if tree[left] < limit:
                    return self._descend(left, limit)
                left += 1
            if right & 1:
                right -= 1
                later.append(right)
            left //= 2
            right //= 2
        while later:
            node = later.pop()
            if tree[node] < limit:
                return self._descend(node, limit)
        return -1

    def _descend(self, node: int, limit: int) -> int:
        while node < self.size:
            node *= 2
            if self.tree[node] >= limit:
                node += 1
        return node - self.size


class Cover:
    """How often places 0 … n - 1 are covered by stretches; an uncovered place in O(log n)."""

    def __init__(self, count: int) -> None:
        self.size = 1
        while self.size < max(count, 1):
            self.size *= 2
        self.added = [0] * (2 * self.size)
        self.least = [0] * (2 * self.size)
        """The least cover within a node, apart from what is added above it."""

    def add(self, begin: int, end: int, by: int) -> None:
        """Cover begin … end - 1 `by` times more."""
        if begin >= end:
            return
        added, least = self.added, self.least
        left, right = begin + self.size, end + self.size
        first, last = left, right - 1
        while left < right:
            if left & 1:
                added[left] += by
                least[left] += by
                left += 1
            if right & 1:
                right -= 1
                added[right] += by
                least[right] += by
            left //= 2
            right //= 2
        for node in (first // 2, last // 2):
            while node:
                one, other = least[2 * node], least[2 * node + 1]
                least[node] = (one if one < other else other) + added[node]
                node //= 2

    def uncovered(self, begin: int, end: int) -> int:
        """The first place of begin … end - 1 that nothing covers, -1 if there is none."""
        if begin >= end:
            return -1
        left, right = begin + self.size, end + self.size
        nodes: list[int] = []
        later: list[int] = []
        while left < right:
            if left & 1:
                nodes.append(left)
                left += 1
            if right & 1:
                right -= 1
                later.append(right)
            left //= 2
            right //= 2
        for node in nodes + later[::-1]:
            above = 0
            parent = node // 2
            while parent:
                above += self.added[parent]
                parent //= 2
            if self.least[node] + above == 0:
                while node < self.size:
                    above += self.added[node]
                    node *= 2
                    if self.least[node] + above:
                        node += 1
                return node - self.size
        return -1
