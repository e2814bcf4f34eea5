"""Long fork: two reads disagree about which of two writes came first, as parallel snapshot isolation allows.

After `jepsen.tests.long-fork`: every key is written once, by a transaction of its own, and reads cover a
whole group of keys. What a read saw is then a set of keys, and these sets must form a chain: if one read saw
x but not y, and another y but not x, the history forked.

Jepsen compares every two reads. Here the sets of a group are sorted by size; they are a chain if each is part
of the next, and only a group that is none is looked at pair by pair.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Any

from liftlog_jepsen.events import OK, Operation
from liftlog_jepsen.formats.edn import write
from liftlog_jepsen.judgement import Judgement
from liftlog_jepsen.tallies.common import Collected, TallyOptions, frozen, is_collection, listed, unknown

Seen = dict[Any, Any]
"""What one read saw: key to value, None where it saw nothing."""


def check_long_fork(operations: Iterable[Operation], options: TallyOptions | None = None) -> Judgement:
    """Judge the `ok` transactions that only read. A key that is written twice, reads of other than
    `group_size` keys, or two values of one key leave the verdict unknown, as nothing can be compared then.
    """
    chosen = options or TallyOptions()
    every = list(operations)
    twice = _written_twice(every)
    if twice is not None:
        return unknown(twice)
    groups: dict[frozenset[Any], list[tuple[int, Seen]]] = {}
    size = chosen.group_size
    for operation in sorted(_reads(every), key=lambda one: one.end or 0):
        seen: Seen = {frozen(mop[1]): frozen(mop[2]) for mop in operation.result}
        if size is None:
            size = len(seen)
        if len(seen) != size:
            return unknown(
                f"operation {operation.number} reads {len(seen)} keys, but groups have {size}: "
                "every read must cover one whole group (--set group-size=N)"
            )
        groups.setdefault(frozenset(seen), []).append((operation.number, seen))
    found = Collected(chosen.examples)
    for reads in groups.values():
        conflict = _two_values(reads)
        if conflict is not None:
            return unknown(conflict)
        _check_group(reads, found)
    return found.judgement()


def _written_twice(operations: list[Operation]) -> str | None:
    written: dict[Any, int] = {}
    for operation in operations:
        mops = operation.argument
        if _is_transaction(mops) and len(mops) == 1 and mops[0][0] == "w":
            key = frozen(mops[0][1])
            if key in written:
                return (
                    f"key {write(key)} is written by operation {written[key]} and by {operation.number}: "
                    "long forks can be told only if each key is written once"
                )
            written[key] = operation.number
    return None


def _reads(operations: list[Operation]) -> Iterable[Operation]:
    for operation in operations:
        mops = operation.result
        if operation.outcome == OK and _is_transaction(mops) and all(mop[0] == "r" for mop in mops):
            yield operation


def _is_transaction(value: Any) -> bool:
    return (
        is_collection(value)
        and bool(value)
        and all(isinstance(mop, list | tuple) and len(mop) == 3 for mop in value)
    )


def _two_values(reads: list[tuple[int, Seen]]) -> str | None:
    values: dict[Any, tuple[Any, int]] = {}
    for number, seen in reads:
        for key, value in seen.items():
            if value is None:
                continue
            other, first = values.setdefault(key, (value, number))
            if other != value:
                return (
                    f"operations {first} and {number} saw two values of key {write(key)}, {write(other)} and "
                    f"{write(value)}: long forks can be told only if each key is written once"
                )
    return None


def _check_group(reads: list[tuple[int, Seen]], found: Collected) -> None:
    readers: dict[frozenset[Any], list[int]] = {}
    for number, seen in reads:
        keys = frozenset(key for key, value in seen.items() if value is not None)
        readers.setdefault(keys, []).append(number)
    chain = sorted(readers, key=len)
    if all(small <= large for small, large in pairwise(chain)):
        return
    for place, first in enumerate(chain):
        for second in chain[place + 1 :]:
            if not first <= second:
                _report(first, second, readers, found)


def _report(
    first: frozenset[Any], second: frozenset[Any], readers: dict[frozenset[Any], list[int]], found: Collected
) -> None:
    one, other = sorted((readers[first][0], readers[second][0]))
    mine, theirs = (first, second) if readers[first][0] == one else (second, first)
    words = (
        f"operation {one} saw the write of {listed(mine - theirs)} but not that of {listed(theirs - mine)}; "
        f"operation {other} saw it the other way round, so no order of the writes explains both"
    )
    found.add("long-fork", [one, other], words)
    found.count("long-fork", len(readers[first]) * len(readers[second]) - 1)
