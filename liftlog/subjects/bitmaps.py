"""Inverted bitmaps: a row of bits for what a subject may be, with a bit for each subscription.

    InvertedBitmap             one row for each known subject          match: one look
    OptimizedInvertedBitmap    one row for each token at each place    match: an AND for each token

A bitmap is a Python integer: its bits are the subscriptions' places, and AND and OR of two go through them
some thirty at a time. A place that has become free is used again, so that rows stay as long as there were
subscriptions at one time.
"""

from __future__ import annotations

from collections.abc import Iterable

from liftlog.subjects.grammar import ANY, REST, SEPARATOR, is_literal, pattern_tokens, tokens_match
from liftlog.subjects.matcher import Subscriber, in_order

_FEW = 12
"""So many bits are looked for one by one, each by a walk through the integer; more of them in its digits."""


class _Places:
    """Which subscription has which bit."""

    __slots__ = ("_free", "_of", "_owners")

    def __init__(self) -> None:
        self._of: dict[tuple[str, Subscriber], int] = {}
        self._owners: list[Subscriber] = []
        self._free: list[int] = []

    def __len__(self) -> int:
        return len(self._of)

    def take(self, pattern: str, subscriber: Subscriber) -> int:
        """The bit of a new subscription; 0: it has one already."""
        if (pattern, subscriber) in self._of:
            return 0
        if self._free:
            place = self._free.pop()
            self._owners[place] = subscriber
        else:
            place = len(self._owners)
            self._owners.append(subscriber)
        self._of[pattern, subscriber] = place
        return 1 << place

    def give_back(self, pattern: str, subscriber: Subscriber) -> int:
        """The bit that a subscription had; 0: it had none."""
        place = self._of.pop((pattern, subscriber), None)
        if place is None:
            return 0
        self._free.append(place)
        return 1 << place

    def patterns(self) -> Iterable[tuple[str, int]]:
        """Every subscription's pattern, and its place."""
        return ((pattern, place) for (pattern, _), place in self._of.items())

    def owners(self, bits: int) -> list[Subscriber]:
        """Whose bits are set."""
        found = []
        if bits.bit_count() <= _FEW:
            while bits:
                place = bits.bit_length() - 1
                found.append(self._owners[place])
                bits ^= 1 << place
            return in_order(found)
        text = bin(bits)[:1:-1]
        place = text.find("1")
        while place >= 0:
            found.append(self._owners[place])
            place = text.find("1", place + 1)
        return in_order(found)


class InvertedBitmap:
    """A row for each subject of a space that is known beforehand: a match is one look.

    Subscribing to a pattern with wildcards compares it with every known subject. A subject that is not known
    is compared with every pattern when it is matched for the first time, and learned; of those that were
    learned so many are kept, and the oldest is forgotten.
    """

    __slots__ = ("_learned", "_places", "_rows", "_space", "learned_max")

    def __init__(self, subjects: Iterable[str] = (), learned_max: int = 10_000) -> None:
        """`subjects`: the known ones, which are kept for good."""
        self._space: dict[str, list[str]] = {subject: subject.split(SEPARATOR) for subject in subjects}
        self._rows: dict[str, int] = dict.fromkeys(self._space, 0)
        self._learned: dict[str, None] = {}
        self._places = _Places()
        self.learned_max = learned_max

    def __len__(self) -> int:
        return len(self._places)

    @property
    def known(self) -> int:
        """How many subjects have a row."""
        return len(self._space)

    def row(self, subject: str) -> list[int]:
        """The bits of a known subject, by place: for whoever wants to see them."""
        bits = self._rows[subject]
        return [bits >> place & 1 for place in range(bits.bit_length())]

    def subscribe(self, pattern: str, subscriber: Subscriber) -> bool:
        tokens = pattern_tokens(pattern)
        bit = self._places.take(pattern, subscriber)
        if not bit:
            return False
        self._flip(pattern, tokens, bit)
        return True

    def unsubscribe(self, pattern: str, subscriber: Subscriber) -> bool:
        tokens = pattern_tokens(pattern)
        bit = self._places.give_back(pattern, subscriber)
        if not bit:
            return False
        self._flip(pattern, tokens, bit)
        return True

    def _flip(self, pattern: str, tokens: list[str], bit: int) -> None:
        """A subscription comes or goes, in the rows of all subjects that it matches."""
        rows = self._rows
        if is_literal(tokens):
            if pattern in rows:
                rows[pattern] ^= bit
            return
        for subject, its in self._space.items():
            if tokens_match(tokens, its):
                rows[subject] ^= bit

    def match(self, subject: str) -> list[Subscriber]:
        row = self._rows.get(subject)
        if row is None:
            row = self._learn(subject)
        return self._places.owners(row)

    def _learn(self, subject: str) -> int:
        tokens = subject.split(SEPARATOR)
        row = 0
        for pattern, place in self._places.patterns():
            if tokens_match(pattern.split(SEPARATOR), tokens):
                row |= 1 << place
        if self.learned_max > 0:
            if len(self._learned) >= self.learned_max:
                oldest = next(iter(self._learned))
                del self._learned[oldest], self._space[oldest], self._rows[oldest]
            self._learned[subject] = None
            self._space[subject] = tokens
            self._rows[subject] = row
        return row


class _Position:
    """The rows of one position in a subject: what a token there, any other token, or none leaves possible."""

    __slots__ = ("none", "other", "tokens")

    def __init__(self, other: int, none: int) -> None:
        self.tokens: dict[str, int] = {}
        self.other = other
        """Subscriptions that take any token here."""
        self.none = none
        """Subscriptions that may have ended before."""

    def flip(self, token: str, bit: int) -> None:
        """A subscription that names this token here comes or goes."""
        if token == ANY:
            self.other ^= bit
            return
        row = self.tokens.get(token, 0) ^ bit
        if row:
            self.tokens[token] = row
        else:
            del self.tokens[token]

    def flip_rest(self, bit: int, begins: bool) -> None:
        """A subscription that takes all that is left, from here or from before."""
        self.other ^= bit
        if not begins:
            self.none ^= bit


class OptimizedInvertedBitmap:
    """Rows for each position's tokens instead of whole subjects: nothing has to be known beforehand.

    A match takes the row of each token, with the one for any other token, and ANDs them; it stops as soon as
    nothing is left. There are as many positions as the longest pattern has tokens. A subject with more tokens
    can be matched by patterns that end in `>` only: `_open` has those.
    """

    __slots__ = ("_live", "_open", "_places", "_positions")

    def __init__(self) -> None:
        self._places = _Places()
        self._positions: list[_Position] = []
        self._live = 0
        self._open = 0

    def __len__(self) -> int:
        return len(self._places)

    def row(self, position: int, token: str | None) -> list[int]:
        """The bits of a position's row, by place: of a token that is named there, of "other" (`*`), or of
        "null" (None).
        """
        rows = self._positions[position]
        bits = rows.none if token is None else rows.other if token == ANY else rows.tokens[token]
        return [bits >> place & 1 for place in range(self._live.bit_length())]

    def subscribe(self, pattern: str, subscriber: Subscriber) -> bool:
        tokens = pattern_tokens(pattern)
        bit = self._places.take(pattern, subscriber)
        if not bit:
            return False
        while len(self._positions) < len(tokens):
            # All that there are have ended before this position, or take whatever comes.
            self._positions.append(_Position(other=self._open, none=self._live))
        self._flip(tokens, bit)
        return True

    def unsubscribe(self, pattern: str, subscriber: Subscriber) -> bool:
        tokens = pattern_tokens(pattern)
        bit = self._places.give_back(pattern, subscriber)
        if not bit:
            return False
        self._flip(tokens, bit)
        return True

    def _flip(self, tokens: list[str], bit: int) -> None:
        """Enter a subscription into all rows, or take it out of all that it was entered into."""
        self._live ^= bit
        is_open = tokens[-1] == REST
        named = len(tokens) - is_open
        for position, rows in enumerate(self._positions):
            if position < named:
                rows.flip(tokens[position], bit)
            elif is_open:
                rows.flip_rest(bit, begins=position == named)
            else:
                rows.none ^= bit
        if is_open:
            self._open ^= bit

    def match(self, subject: str) -> list[Subscriber]:
        tokens = subject.split(SEPARATOR)
        positions = self._positions
        bits = self._live if len(tokens) <= len(positions) else self._open
        for position, token in zip(positions, tokens, strict=False):
            bits &= position.tokens.get(token, 0) | position.other
            if not bits:
                return []
        for position in positions[len(tokens) :]:
            bits &= position.none
        return self._places.owners(bits)
