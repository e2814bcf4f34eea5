"""Sets: elements are added one by one, and reads return all of them.

`check_set`, after `jepsen.checker/set`: the last read must have every acknowledged element, and none that
nobody tried to add. `check_set_full`, after `jepsen.checker/set-full`, follows each element through every
read:

- It is *known* from the completion of its add, or of the first read that returned it, whichever is earlier.
- Of the reads that ended after its add began, take the one that was invoked last. If that one has the
  element, it is *stable*; if not, and that read began after the element was known, it is *lost*.
- A stable element is *stale* if a read that began after it was known missed it. That alone is a fault only
  with `linearizable`.

Two deliberate differences. Staleness goes by the order of events here; Jepsen goes by times in whole
milliseconds and overlooks what is shorter. And an element that one read returned twice is reported as
`duplicated`, as Jepsen's documentation has it; the released code compares the wrong way round and never does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from liftlog_jepsen.events import OK, Operation
from liftlog_jepsen.formats.edn import write
from liftlog_jepsen.judgement import Judgement
from liftlog_jepsen.tallies.common import (
    Collected,
    TallyOptions,
    added,
    completed,
    elements,
    frozen,
    is_collection,
    listed,
    unknown,
)

NEVER_READ = "the set was never read"


def check_set(operations: Iterable[Operation], options: TallyOptions | None = None) -> Judgement:
    """Judge the last `ok` read; without one, unknown."""
    chosen = options or TallyOptions()
    every = list(operations)
    reads = completed(every, "read")
    if not reads or reads[-1].result is None:
        return unknown(NEVER_READ)
    last = reads[-1]
    if not is_collection(last.result):
        return _no_collection(last)
    adds = [one for one in every if one.f == "add"]
    attempts = {frozen(add.argument): add.number for add in reversed(adds)}
    acknowledged = {added(add): add.number for add in reversed(adds) if add.outcome == OK}
    seen = set(elements(last.result))
    found = Collected(chosen.examples)
    for element, number in reversed(acknowledged.items()):
        if element not in seen:
            words = f"{write(element)} was added and acknowledged, but the last read does not have it"
            found.add("lost", [number, last.number], words, element=write(element))
    unexpected = [element for element in seen if element not in attempts]
    if unexpected:
        words = f"the last read returned what nobody tried to add: {listed(unexpected)}"
        found.add("unexpected", [last.number], words)
        found.count("unexpected", len(unexpected) - 1)
    return found.judgement()


class _Read(NamedTuple):
    number: int
    start: int
    end: int
    seen: frozenset[Any]


class _Known(NamedTuple):
    """Since when an element is known, and the operation that showed it."""

    position: int
    number: int


def check_set_full(operations: Iterable[Operation], options: TallyOptions | None = None) -> Judgement:
    """Judge every `ok` read. Unknown if no element is lost but none is stable either."""
    chosen = options or TallyOptions()
    every = list(operations)
    found = Collected(chosen.examples)
    reads: list[_Read] = []
    for read in completed(every, "read"):
        if not is_collection(read.result):
            return _no_collection(read)
        assert read.end is not None  # completed
        values = elements(read.result)
        reads.append(_Read(read.number, read.start, read.end, frozenset(values)))
        for element, times in Counter(values).items():
            if times > 1:
                words = f"the read of process {read.process} returned {write(element)} {times} times"
                found.add("duplicated", [read.number], words, element=write(element), times=times)
    adds: dict[Any, list[Operation]] = {}
    for add in every:
        if add.f == "add":
            adds.setdefault(frozen(add.argument), []).append(add)
    holders = _holders(reads, adds)
    by_start = sorted(reads, key=lambda read: -read.start)
    stable = 0
    for element, its in adds.items():
        stable += _follow(element, its, holders[element], by_start, chosen.linearizable, found)
    if not adds:
        return found.judgement(["nothing was added"])
    reason = "no element is known to have stayed: each was never read, or only by reads that began before"
    return found.judgement([] if stable else [reason])


def _holders(reads: list[_Read], adds: dict[Any, list[Operation]]) -> dict[Any, list[_Read]]:
    """The reads that returned each element, in the order of their completions."""
    holders: dict[Any, list[_Read]] = {element: [] for element in adds}
    for read in reads:
        for element in read.seen:
            if element in holders:
                holders[element].append(read)
    return holders


def _follow(
    element: Any,
    adds: list[Operation],
    holders: list[_Read],
    by_start: list[_Read],
    linearizable: bool,
    found: Collected,
) -> bool:
    """Report what happened to one element; return whether it is stable.

    If an element is added again, only what follows the beginning of the last add counts.
    """
    begun = adds[-1].start
    present = [read for read in holders if read.end > begun]
    known = _known(adds, present)
    last_present = max((read.start for read in present), default=-1)
    # Every read passed over returned the element: over all elements, no more steps than values were read.
    absent = next((read for read in by_start if read.end > begun and element not in read.seen), None)
    if absent is None or absent.start < last_present:
        if not present:
            return False
        if absent is not None and known is not None and absent.start > known.position and linearizable:
            words = (
                f"{write(element)} was known to be in the set (operation {known.number}), then a read that "
                "began later missed it, though it came back"
            )
            found.add("stale", [known.number, absent.number], words, element=write(element))
        return True
    if known is not None and known.position < absent.start:
        words = (
            f"{write(element)} was known to be in the set (operation {known.number}), but it is not in the "
            "last read, which began later"
        )
        found.add("lost", [known.number, absent.number], words, element=write(element))
    return False


def _known(adds: list[Operation], present: list[_Read]) -> _Known | None:
    begun = adds[-1].start
    shown = [
        _Known(add.end, add.number)
        for add in adds
        if add.outcome == OK and add.end is not None and add.end > begun
    ]
    shown += [_Known(read.end, read.number) for read in present[:1]]
    return min(shown, default=None)


def _no_collection(read: Operation) -> Judgement:
    return unknown(f"the read of operation {read.number} returned {write(read.result)}, no collection")
