"""Registers and key-value stores whose written values are unique, in O(n log n).

If every value is written once, each read names its write. A write and the reads of its value then stand
together in every linearization, because a write in between would change what they read: they are a *block*. A
compare-and-set (or append) that read a value of the block extends it: write, reads, cas, reads, … in this
order. A whole linearization is a row of blocks.

Let e(A) be the earliest end and s(A) the latest start within a block A. A must stand before B if e(A) < s(B),
because then some call of A ended before some call of B began. There is a row unless this relation has a
cycle, and then there is a cycle of two: e(A) < s(B) and e(B) < s(A). For take a shortest longer one, A → B →
C → … → A. No two of its neighbours conflict, so s(A) ≤ e(B), s(B) ≤ e(C) and so on. With e(A) < s(B) ≤ e(C)
and onwards, every e of the cycle is smaller than the next but one, and walking on leads back to e(A) < e(A).

A block with e < s is a forward zone [e, s], else a backward zone [s, e]; two blocks conflict if two forward
zones overlap, or a backward zone lies within a forward one (Gibbons & Korach 1997, Theorem 4.2). What is new
here is that blocks may be chains, for cas, read-modify-write and append.

What never returned and was not read is left out, because it may as well not have happened.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from liftlog_jepsen.events import FAIL, OK
from liftlog_jepsen.objects.model import FALSE, Call, Contradiction, distinct, freeze, show, tell

Groups = list[list[Call]]
"""A block: calls of one group in any order, groups in this one."""


class _Zone(NamedTuple):
    """A block as the others see it. `first` ended at `e`, `last` began at `s`; None = the initial value."""

    e: int
    s: int
    first: Call | None
    last: Call | None
    name: str


def order_blocks(blocks: Iterable[tuple[str, Groups, bool]]) -> Contradiction | None:
    """Why blocks cannot stand in a row, None = they can.

    Each comes with a name for people, and whether it begins with the initial state, before everything.
    """
    forward: list[_Zone] = []
    backward: list[_Zone] = []
    for name, groups, initial in blocks:
        found = order_groups(groups)
        if isinstance(found, Contradiction):
            return found
        if found is None:
            continue
        first, last = found
        zone = _Zone(-1 if initial else first.end, last.start, None if initial else first, last, name)
        (forward if zone.e < zone.s else backward).append(zone)
    forward.sort()
    for before, after in itertools.pairwise(forward):
        # Until a conflict is found the zones are apart, so that the last one reaches furthest.
        if after.e < before.s:
            return _conflict(before, after)
    begins = [zone.e for zone in forward]
    for zone in backward:
        place = bisect.bisect_left(begins, zone.s) - 1
        if place >= 0 and zone.e < forward[place].s:
            return _conflict(forward[place], zone)
    return None


def order_groups(groups: Groups) -> Contradiction | tuple[Call, Call] | None:
    """The call that ends first and the one that starts last of a block; or why its order is impossible.

    None if there are no calls.
    """
    latest: Call | None = None
    first: Call | None = None
    for group in groups:
        for call in group:
            if latest is not None and call.end < latest.start:
                return Contradiction(
                    (call, latest),
                    f"{tell(call)} must come after {tell(latest)}, but it had ended before that began",
                )
            if first is None or call.end < first.end:
                first = call
        for call in group:
            if latest is None or call.start > latest.start:
                latest = call
    return None if first is None or latest is None else (first, latest)


def _conflict(a: _Zone, b: _Zone) -> Contradiction:
    """Two blocks of which each must come before the other."""
    assert b.first is not None and a.last is not None
    after = f"{tell(b.first)} had ended before {tell(a.last)} began"
    if a.first is None:
        return Contradiction((b.first, a.last), f"{after}, though {b.name} comes after {a.name}")
    assert b.last is not None
    calls = distinct((a.first, b.last, b.first, a.last))
    before = f"{tell(a.first)} had ended before {tell(b.last)} began"
    return Contradiction(
        calls, f"{before}, so {a.name} came before {b.name}; but {after}, so {b.name} came before {a.name}"
    )


def check_register(calls: list[Call], initial: Any) -> Contradiction | bool | None:
    """A register with read, write, cas and rmw. None = values are not unique, or a cas saw another value."""
    reads: dict[Any, list[Call]] = {}
    changes: list[tuple[Call, Any, Any]] = []
    for call in calls:
        if call.f in ("read", "get"):
            reads.setdefault(freeze(call.result), []).append(call)
        elif call.outcome == FAIL or call.f not in ("write", "put", "cas", "rmw"):
            return None
        elif call.f in ("write", "put"):
            changes.append((call, _NONE, freeze(call.argument)))
        elif freeze(call.result) == FALSE:
            return None
        else:
            changes.append((call, freeze(call.argument[0]), freeze(call.argument[1])))
    writers: dict[Any, Call] = {}
    successors: dict[Any, tuple[Call, Any]] = {}
    for call, _, new in _that_happened(changes, set(reads)):
        if new in writers or new == initial:
            return None
        writers[new] = call
    chained = 0
    for call, old, new in changes:
        if writers.get(new) != call or old is _NONE:
            continue
        if old in successors:
            words = f"{tell(successors[old][0])} and {tell(call)} both read {show(old)} and replaced it"
            return Contradiction((successors[old][0], call), words)
        successors[old] = call, new
        chained += 1
    unread = next(
        (value for value in (*reads, *successors) if value not in writers and value != initial), _NONE
    )
    if unread is not _NONE:
        reader = reads[unread][0] if unread in reads else successors[unread][0]
        return Contradiction((reader,), f"{tell(reader)}: no write of {show(unread)} can have happened")
    blocks = []
    for value in (initial, *writers):
        if value in writers and writers[value].f in ("cas", "rmw"):
            continue
        name = f"the value {show(value)}" if value in writers else f"the initial value {show(value)}"
        groups = [[writers[value]]] if value in writers else []
        groups.append(reads.get(value, []))
        current = value
        while current in successors:
            call, current = successors[current]
            groups += [[call], reads.get(current, [])]
            chained -= 1
        blocks.append((name, groups, value not in writers))
    if chained:
        return _circle(successors, [value for value in writers])
    return order_blocks(blocks) or True


_NONE = object()


def _that_happened(changes: list[tuple[Call, Any, Any]], read: set[Any]) -> list[tuple[Call, Any, Any]]:
    """Changes without those that never returned and whose value nobody saw."""
    kept = [change for change in changes if change[0].outcome == OK]
    read = read | {old for _, old, _ in kept}
    waiting = [change for change in changes if change[0].outcome != OK]
    while True:
        seen = [change for change in waiting if change[2] in read]
        if not seen:
            return kept
        kept += seen
        waiting = [change for change in waiting if change[2] not in read]
        read |= {old for _, old, _ in seen}


def _circle(successors: dict[Any, tuple[Call, Any]], values: list[Any]) -> Contradiction:
    """Calls that read from each other in a circle, found from any value on it."""
    for value in values:
        walked: dict[Any, Call] = {}
        current = value
        while current in successors and current not in walked:
            walked[current], current = successors[current]
        if current == value and walked:
            calls = tuple(walked.values())
            words = f"{', '.join(map(tell, calls[:4]))}: each read what the one before it wrote, in a circle"
            return Contradiction(calls, words)
    raise AssertionError("a change that no block contains reads from a circle")


def check_values(calls: list[Call], initial: Any) -> Contradiction | bool | None:
    """A key with get, put and append of texts; None = nobody can tell from a text what it is made of.

    No text may be put twice or be the beginning of another. A text may be put and appended, or appended
    several times, as long as time says which of them somebody saw.
    """
    if not any(call.f == "append" for call in calls):
        return check_register(calls, initial)
    gets: list[Call] = []
    puts: dict[str, Call] = {}
    appends: dict[str, list[Call]] = {}
    for call in calls:
        if call.f == "get":
            gets.append(call)
        elif call.f not in ("put", "append") or not isinstance(call.argument, str) or not call.argument:
            return None
        elif call.f == "append":
            appends.setdefault(call.argument, []).append(call)
        elif call.argument in puts:
            return None
        else:
            puts[call.argument] = call
    if initial not in (None, "") or not _prefix_free({**puts, **appends}):
        return None
    return _Texts(puts, appends, initial).check(gets)


def _prefix_free(parts: Iterable[str]) -> bool:
    return not any(after.startswith(before) for before, after in itertools.pairwise(sorted(parts)))


class _Chain:
    """What was appended to the initial value, or to a put: the longest text that somebody got."""

    def __init__(self) -> None:
        self.text = ""
        self.pieces: list[str] = []
        self.last: Call | None = None
        self.gets: dict[int, list[Call]] = {}
        """By the number of pieces."""


class _Texts:
    def __init__(self, puts: dict[str, Call], appends: dict[str, list[Call]], initial: Any) -> None:
        self.puts, self.appends, self.initial = puts, appends, initial
        self.chains: dict[str | None, _Chain] = {None: _Chain()}
        changes = [*puts.values(), *(call for several in appends.values() for call in several)]
        self.changes = changes
        self.first_change = min(call.end for call in changes)

    def check(self, gets: list[Call]) -> Contradiction | bool | None:
        cut = _cutter({call.argument for call in self.changes})
        # Sorted texts come after their beginnings, so that each chain grows.
        texts: list[tuple[Call, list[str]]] = []
        for get in sorted(gets, key=lambda call: str(call.result)):
            if get.result == self.initial:
                self.chains[None].gets.setdefault(0, []).append(get)
                continue
            pieces = cut(get.result) if isinstance(get.result, str) and get.result else None
            if pieces is None:
                return Contradiction((get,), f"{tell(get)}: that is not made of what was put and appended")
            texts.append((get, pieces))
        inside = {piece for _, pieces in texts for piece in pieces[1:]}
        for get, pieces in texts:
            head = pieces[0]
            if head in self.puts and head in self.appends and self._may_be_first(head, inside):
                return None
            root = head if head in self.puts else None
            wrong = self._add(get, root, pieces if root is None else pieces[1:])
            if wrong is not None:
                return wrong
        return self._order()

    def _may_be_first(self, piece: str, inside: set[str]) -> bool:
        """Whether an append may have been the first change of all."""
        if piece in inside and len(self.appends[piece]) == 1:
            return False
        return any(call.start < self.first_change for call in self.appends[piece])

    def _add(self, get: Call, root: str | None, pieces: list[str]) -> Contradiction | None:
        wrong = next((piece for piece in pieces if piece not in self.appends), None)
        if wrong is not None:
            words = f"{tell(get)}: {show(wrong)} was put, so that nothing can stand before it"
            return Contradiction((get, self.puts[wrong]), words)
        chain = self.chains.setdefault(root, _Chain())
        if not get.result.startswith(chain.text):
            assert chain.last is not None
            words = f"{tell(chain.last)} and {tell(get)}: neither begins the other"
            return Contradiction((chain.last, get), words)
        chain.text, chain.pieces, chain.last = get.result, pieces, get
        chain.gets.setdefault(len(pieces), []).append(get)
        return None

    def _order(self) -> Contradiction | bool | None:
        blocks: list[tuple[str, Groups, bool]] = []
        placed: dict[int, Call] = {}
        for root, chain in self.chains.items():
            groups: Groups = [[] if root is None else [self.puts[root]], chain.gets.get(0, [])]
            windows = self._windows(chain, groups) if chain.pieces else []
            for size, piece in enumerate(chain.pieces, 1):
                before, after = windows[size - 1]
                assert chain.last is not None
                several = self.appends[piece]
                fitting = [
                    call
                    for call in several
                    if (before is None or call.end > before.start) and call.start < after.end
                ]
                if len(several) > 1 and len(fitting) > 1:
                    return None
                if len(several) > 1 and not fitting:
                    bounds = [after] if before is None else [before, after]
                    words = f"no append of {show(piece)} fits between {' and '.join(map(tell, bounds))}"
                    return Contradiction((*bounds, *several), words)
                append = fitting[0] if len(several) > 1 else several[0]
                if append.number in placed:
                    seen = distinct((append, placed[append.number], chain.last))
                    words = f"{tell(append)} was seen in two places, though it happened once: "
                    return Contradiction(seen, words + ", ".join(map(tell, seen[1:])))
                placed[append.number] = chain.last
                groups += [[append], chain.gets.get(size, [])]
            name = "the initial value" if root is None else f"put {show(root)}"
            blocks.append((f"{name} with what was appended to it", groups, root is None))
        unseen = [
            call
            for call in self.changes
            if call.number not in placed and (call.f == "append" or call.argument not in self.chains)
        ]
        blocks += [(tell(call), [[call]], False) for call in unseen if call.outcome == OK]
        found = order_blocks(blocks)
        return True if found is None else self._with_gets(found, placed)

    def _with_gets(self, found: Contradiction, placed: dict[int, Call]) -> Contradiction:
        """A contradiction with the gets that say what was appended to what."""
        gets = [placed[call.number] for call in found.calls if call.number in placed]
        heads = (self.chains.get(call.argument) for call in found.calls if call.f == "put")
        gets += [chain.last for chain in heads if chain is not None and chain.last is not None]
        more = [get for get in distinct(gets) if get not in found.calls]
        words = f"{found.words}; see {', '.join(map(tell, more))}" if more else found.words
        return Contradiction((*found.calls, *more), words)

    def _windows(self, chain: _Chain, first: Groups) -> list[tuple[Call | None, Call]]:
        """For each piece the last call to start of those before it, and the first to end of those after."""
        latest = max((call for group in first for call in group), key=_start, default=None)
        befores: list[Call | None] = []
        for size in range(1, len(chain.pieces) + 1):
            befores.append(latest)
            here = chain.gets.get(size, [])
            latest = max([*here] if latest is None else [latest, *here], key=_start, default=None)
        assert chain.last is not None
        earliest, afters = chain.last, []
        for size in range(len(chain.pieces), 0, -1):
            earliest = min([earliest, *chain.gets.get(size, [])], key=_end)
            afters.append(earliest)
        return list(zip(befores, reversed(afters), strict=True))


def _start(call: Call) -> int:
    return call.start


def _end(call: Call) -> int:
    return call.end


def _cutter(parts: Collection[str]) -> Callable[[str], list[str] | None]:
    """A function from a text to the parts that it is made of, None if it is not. Texts come sorted."""
    lengths = sorted({len(part) for part in parts})
    known: tuple[str, list[str]] = "", []

    def cut(text: str) -> list[str] | None:
        nonlocal known
        place, found = (len(known[0]), list(known[1])) if text.startswith(known[0]) else (0, [])
        while place < len(text):
            for length in lengths:
                piece = text[place : place + length]
                if piece in parts:
                    break
            else:
                return None
            found.append(piece)
            place += length
        known = (text, found)
        return found

    return cut
