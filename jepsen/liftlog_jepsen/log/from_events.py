"""Histories of jepsen.tests.kafka, and of anything that writes like it, as histories of logs.

An operation's value is a vector of micro-operations: `[:send k v]`, `[:send k [offset v]]`, `[:poll]`,
`[:poll {k [[offset v] …]}]`. An assign's or subscribe's value is a vector of keys. `:rebalance-log` lists the
rebalances during the operation, each with the `:keys` that it concerned. `{:f :debug-topic-partitions}` and
other functions are kept without micro-operations, and thus ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from liftlog_jepsen.events import INFO, INVOKE, BadHistory, Event
from liftlog_jepsen.history import History, Mop, Op, Value

DATA = ("send", "poll", "txn", "final-poll")
ASSIGNING = ("assign", "subscribe")


def to_history(events: Iterable[Event], name: str = "history") -> History:
    """The history that these events make up; events of no client (a nemesis) are left out.

    Positions are the events' order. A completion without a value says what its invocation said. Raises
    BadHistory for a process that invokes twice at a time or completes what it did not invoke, and for values
    of another shape.
    """
    history = History(name)
    waiting: dict[int, tuple[int, Event]] = {}
    done: list[tuple[int, int | None, Event, Event | None]] = []
    for position, event in enumerate(each for each in events if isinstance(each.process, int)):
        process = int(event.process)
        if event.type == INVOKE:
            if process in waiting:
                raise BadHistory(
                    f"{name}: event {position}: process {process} invokes {event.f}, "
                    f"but its operation of event {waiting[process][0]} has not ended"
                )
            waiting[process] = (position, event)
        elif process in waiting:
            start, asked = waiting.pop(process)
            done.append((start, position, asked, event))
        else:
            raise BadHistory(
                f"{name}: event {position}: process {process} completes {event.f}, which it never invoked"
            )
    done += [(start, None, asked, None) for start, asked in waiting.values()]
    for number, (start, end, asked, answer) in enumerate(sorted(done, key=lambda each: each[0])):
        history.append(_operation(f"{name}: event {start}", number, start, end, asked, answer))
    return history


def _operation(
    where: str, number: int, start: int, end: int | None, asked: Event, answer: Event | None
) -> Op:
    f = str(asked.f)
    told = answer if answer is not None and answer.value is not None else asked
    mops: list[Mop] = []
    if f in DATA:
        mops = [mop for each in _listed(where, told.value) for mop in _mops(where, each)]
        mops += _rebalances(answer)
    elif f in ASSIGNING:
        mops = [Mop(f, _text(key)) for key in dict.fromkeys(map(_text, _listed(where, asked.value)))]
    start_ns = max(asked.time, 0)
    return Op(
        number,
        start,
        end,
        int(asked.process),
        None,
        f,
        answer.type if answer is not None else INFO,
        start_ns if asked.time >= 0 else start,
        None if answer is None or end is None else max(answer.time, start_ns) if answer.time >= 0 else end,
        None if answer is None or answer.error is None else str(answer.error),
        tuple(mops),
    )


def _mops(where: str, part: Any) -> Iterator[Mop]:
    """One micro-operation of theirs: one send, or all records of a poll."""
    part = _listed(where, part)
    kind = str(part[0]) if part else ""
    if kind == "send" and len(part) == 3:
        offset, value = None, part[2]
        if isinstance(value, list | tuple):
            if len(value) != 2:
                raise BadHistory(f"{where}: expected [offset value] in a send, got {value!r}")
            offset, value = value
        yield Mop("send", _text(part[1]), _offset(where, offset), _value(where, value))
    elif kind == "poll" and len(part) <= 2:
        records = part[1] if len(part) == 2 else {}
        if not isinstance(records, dict):
            raise BadHistory(f"{where}: expected a map of keys to records in a poll, got {records!r}")
        for key, pairs in records.items():
            for pair in _listed(where, pairs):
                if not isinstance(pair, list | tuple) or len(pair) != 2:
                    raise BadHistory(f"{where}: expected [offset value] in a poll, got {pair!r}")
                yield Mop("poll", _text(key), _offset(where, pair[0]), _value(where, pair[1]))
            if not pairs:
                yield Mop("poll", _text(key))
    else:
        raise BadHistory(f"{where}: expected [:send k v] or [:poll {{k [[offset v] …]}}], got {part!r}")


def _rebalances(answer: Event | None) -> list[Mop]:
    extra = dict(answer.extra) if answer is not None else {}
    keys: dict[str, None] = {}
    for event in extra.get("rebalance-log") or ():
        if isinstance(event, dict):
            keys.update(dict.fromkeys(_text(key) for key in event.get("keys") or ()))
    return [Mop("rebalance", key) for key in keys]


def _listed(where: str, value: Any) -> list[Any]:
    if isinstance(value, list | tuple):
        return list(value)
    raise BadHistory(f"{where}: expected a vector, got {value!r}")


def _offset(where: str, offset: Any) -> int | None:
    if offset is None or (isinstance(offset, int) and not isinstance(offset, bool) and offset >= 0):
        return offset
    raise BadHistory(f"{where}: expected an offset or nil, got {offset!r}")


def _value(where: str, value: Any) -> Value:
    if value is None:
        raise BadHistory(f"{where}: expected a value, got nil")
    if isinstance(value, int) and not isinstance(value, bool) and -(2**63) < value < 2**63:
        return int(value)
    return str(value)


def _text(key: Any) -> str:
    return str(key)
