"""Dependencies and cycles word by word from their definitions: every pair, every simple cycle; exponential
and obvious.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from liftlog_jepsen.events import FAIL, OK, Operation
from liftlog_jepsen.transactions.classify import CYCLES, classify, components, implies

Triple = tuple[int, int, str]


def smallest_cycles(edges: Iterable[Triple]) -> list[tuple[str, int]]:
    """(kind, length) of the smallest cycle of every kind in each component that no other there implies."""
    found = []
    for part in components(sorted(set(edges))):
        lengths = _all_cycles(part)
        implied: set[str] = set()
        for kind in CYCLES:
            if kind in lengths and kind not in implied:
                found.append((kind, lengths[kind]))
                implied.update(implies(kind))
    return found


def _all_cycles(edges: list[Triple]) -> dict[str, int]:
    """The length of the smallest simple cycle of every kind, by walking along every path."""
    out: dict[int, list[tuple[int, str]]] = {}
    for source, target, kind in edges:
        out.setdefault(source, []).append((target, kind))
    lengths: dict[str, int] = {}

    def walk(first: int, node: int, seen: frozenset[int], kinds: list[str]) -> None:
        for target, kind in out[node]:
            if target == first:
                anomaly = classify([*kinds, kind])
                if anomaly is not None:
                    lengths[anomaly] = min(lengths.get(anomaly, 99), len(kinds) + 1)
            elif target > first and target not in seen:
                walk(first, target, seen | {target}, [*kinds, kind])

    for node in sorted(out):
        walk(node, node, frozenset((node,)), [])
    return lengths


def time_edges(operations: list[Operation]) -> Iterator[Triple]:
    """Every pair that a process or time puts in order, not only neighbours."""
    for first in operations:
        for second in operations:
            if first.outcome != OK or second.outcome == FAIL:
                continue
            if first.process == second.process and first.start < second.start:
                yield first.number, second.number, "process"
            if first.end is not None and first.end < second.start:
                yield first.number, second.number, "realtime"


def append_edges(operations: list[Operation]) -> Iterator[Triple]:
    """Dependencies of transactions over lists. Every element is appended once."""
    reads: list[tuple[Operation, Any, list[Any]]] = []
    appends: list[tuple[Operation, Any, Any]] = []
    for operation in operations:
        for name, key, value in _parts(operation):
            if name == "append" and operation.outcome != FAIL:
                appends.append((operation, key, value))
            elif name == "r" and operation.outcome == OK:
                reads.append((operation, key, value or []))
    for key in sorted({key for _, key, _ in appends} | {key for _, key, _ in reads}):
        longest = max((value for _, other, value in reads if other == key), key=len, default=[])
        order = list(dict.fromkeys(longest))
        writers = {value: operation for operation, other, value in appends if other == key}
        chain = [element for element in order if element in writers]
        unseen = [element for element in writers if element not in order]
        versions = [*([element] for element in chain), unseen]
        for older, newer in zip(chain, versions[1:], strict=True):
            yield from _join([writers[older]], [writers[each] for each in newer], "ww")
        for reader, other, value in reads:
            if other != key:
                continue
            if value and value[-1] in writers:
                yield from _join([writers[value[-1]]], [reader], "wr")
            if value and value[-1] not in order:
                continue
            known = order[: order.index(value[-1]) + 1] if value else []
            newer = next((each for each in chain if each not in known), None)
            after = [newer] if newer is not None else unseen
            yield from _join([reader], [writers[each] for each in after], "rw")


def register_edges(operations: list[Operation]) -> Iterator[Triple]:
    """Dependencies of transactions over registers, with nil before all else. Every value is written once."""
    for writer in operations:
        if writer.outcome == FAIL:
            continue
        last = {key: value for name, key, value in _parts(writer) if name == "w"}
        for reader in operations:
            if reader.outcome != OK:
                continue
            for key, value in _outer_reads(reader).items():
                if key in last and last[key] == value:
                    yield from _join([writer], [reader], "wr")
                if key in last and value is None:
                    yield from _join([reader], [writer], "rw")


def _outer_reads(operation: Operation) -> dict[Any, Any]:
    reads: dict[Any, Any] = {}
    written = set()
    for name, key, value in _parts(operation):
        if name == "w":
            written.add(key)
        elif key not in written:
            reads.setdefault(key, value)
    return reads


def _parts(operation: Operation) -> list[list[Any]]:
    return operation.result if operation.outcome == OK else operation.argument


def _join(sources: list[Operation], targets: list[Operation], kind: str) -> Iterator[Triple]:
    for source in sources:
        for target in targets:
            if source.number != target.number:
                yield source.number, target.number, kind


def has_order(operations: list[Operation], *, snapshots: bool, time: str) -> bool:
    """Whether transactions over registers, which start as nil, can have run in some order: by trying all.

    `time`: "free", "sessions" or "realtime". With `snapshots` a transaction reads what was committed when it
    began, and commits only if nobody has committed to a key since that it writes itself. One that failed
    does not run; one that is unknown may.
    """
    happened = [each for each in operations if each.outcome != FAIL]
    before = {each.number: _before(each, happened, time) for each in happened}

    def walk(begun: dict[int, dict[Any, Any]], done: frozenset[int], state: dict[Any, Any]) -> bool:
        left = [each for each in happened if each.number not in done]
        if not begun and all(each.outcome != OK for each in left):
            return True
        for each in left:
            number = each.number
            if number not in begun:
                # One that is unknown and never runs holds up nobody.
                if not all(first in done for first in before[number]) or not _reads_fit(each, state):
                    continue
                if snapshots:
                    if walk({**begun, number: state}, done, state):
                        return True
                elif walk(begun, done | {number}, {**state, **_writes(each)}):
                    return True
                continue
            if any(begun[number].get(key) is not state.get(key) for key in _writes(each)):
                continue
            rest = {other: seen for other, seen in begun.items() if other != number}
            if walk(rest, done | {number}, {**state, **_writes(each)}):
                return True
        return False

    return walk({}, frozenset(), {})


def _before(operation: Operation, others: list[Operation], time: str) -> list[int]:
    """What must have ended before this one begins."""
    found = []
    for other in others:
        session = time != "free" and other.process == operation.process and other.start < operation.start
        ended = time == "realtime" and other.end is not None and other.end < operation.start
        if other.outcome == OK and (session or ended):
            found.append(other.number)
    return found


def _writes(operation: Operation) -> dict[Any, Any]:
    """What it writes last, each an object of its own, so that a value that was written again is another."""
    return {key: [value] for name, key, value in _parts(operation) if name == "w"}


def _reads_fit(operation: Operation, state: dict[Any, Any]) -> bool:
    if operation.outcome != OK:
        return True
    own: dict[Any, Any] = {}
    for name, key, value in _parts(operation):
        if name == "w":
            own[key] = value
        elif own.get(key, state.get(key, [None])[0]) != value:
            return False
    return True
