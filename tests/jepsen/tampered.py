"""Histories in which one thing is told otherwise than it was, so that a check has to see it: for histories
that are sound, and have what the check is about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from liftlog_jepsen.history import FINAL_POLL, History, Mop, Op

Tamper = Callable[[History], History]


def rebuilt(history: History, change: Callable[[Op], Op]) -> History:
    """The same with other operations."""
    made = History(history.name, history.meta)
    for op in history.ops():
        made.append(change(op))
    return made


def _with(history: History, op_id: int, *mops: Mop) -> History:
    return rebuilt(history, lambda op: op._replace(mops=mops) if op.op_id == op_id else op)


def _okay(history: History) -> Iterator[Op]:
    """In the order in which they began."""
    yield from sorted((op for op in history.ops() if op.outcome == "ok"), key=lambda op: op.idx_inv)


def hw_back(history: History) -> History:
    """A reader's last answer names a lower HW than the one before."""
    told: dict[tuple[str, int], int] = {}
    for op in _okay(history):
        for place, mop in enumerate(op.mops):
            if mop.f == "hw" and op.f == "poll" and mop.offset is not None:
                if told.get((mop.key, op.process), 0) > 1:
                    lower = mop._replace(offset=told[mop.key, op.process] - 1)
                    return _with(history, op.op_id, *op.mops[:place], lower)
                told[mop.key, op.process] = mop.offset
    raise AssertionError("no reader was told two HWs")


def read_above_hw(history: History) -> History:
    """An answer says that its last record is not committed."""
    for op in _okay(history):
        offsets = [mop.offset for mop in op.mops if mop.f == "poll" and mop.offset is not None]
        if offsets and op.mops[-1].f == "hw":
            return _with(history, op.op_id, *op.mops[:-1], op.mops[-1]._replace(offset=offsets[-1]))
    raise AssertionError("no answer has records and an HW")


def read_truncated(history: History) -> History:
    """A record that was cut off had been read before; final reads do not have it."""
    cut, when = next((mop, op.idx_inv) for op in _okay(history) for mop in op.mops if mop.f == "truncate")
    read = Mop("poll", cut.key, cut.offset, cut.value)
    early = next(op for op in _okay(history) if op.f == "poll" and any(m.key == cut.key for m in op.mops))
    assert early.idx_inv < when
    return _with(history, early.op_id, read)


def _renumbered(history: History, change: Callable[[Mop], Mop]) -> History:
    def told(op: Op) -> Op:
        return op._replace(mops=tuple(change(mop) if mop.f == "producer" else mop for mop in op.mops))

    return rebuilt(history, told)


def _numbers(history: History) -> tuple[Mop, list[int]]:
    """The run that has most numbers, and these."""
    found: dict[tuple[object, int | None], tuple[Mop, dict[int, None]]] = {}
    for op in _okay(history):
        for mop in op.mops:
            if mop.f == "producer" and mop.offset is not None:
                found.setdefault((mop.value, mop.epoch), (mop, {}))[1][mop.offset] = None
    one, numbers = max(found.values(), key=lambda each: len(each[1]))
    return one, sorted(numbers)


def _of(one: Mop, mop: Mop) -> bool:
    return (mop.value, mop.epoch) == (one.value, one.epoch)


def sequence_duplicate(history: History) -> History:
    """A message has the number of the one before."""
    one, numbers = _numbers(history)
    middle = numbers[len(numbers) // 2]

    def change(mop: Mop) -> Mop:
        return mop._replace(offset=middle - 1) if _of(one, mop) and mop.offset == middle else mop

    return _renumbered(history, change)


def sequence_reordered(history: History) -> History:
    """Two neighbours have each other's numbers."""
    one, numbers = _numbers(history)
    middle = numbers[len(numbers) // 2]
    swapped = {middle: middle + 1, middle + 1: middle}

    def change(mop: Mop) -> Mop:
        if not _of(one, mop) or mop.offset is None:
            return mop
        return mop._replace(offset=swapped.get(mop.offset, mop.offset))

    return _renumbered(history, change)


def sequence_gap(history: History) -> History:
    """From some message on all numbers are higher by one."""
    one, numbers = _numbers(history)
    middle = numbers[len(numbers) // 2]

    def change(mop: Mop) -> Mop:
        late = _of(one, mop) and mop.offset is not None and mop.offset >= middle
        return mop._replace(offset=(mop.offset or 0) + 1) if late else mop

    return _renumbered(history, change)


def fenced_producer(history: History) -> History:
    """The last message of a run is of an earlier run."""
    one, numbers = _numbers(history)

    def change(mop: Mop) -> Mop:
        last = _of(one, mop) and mop.offset == numbers[-1]
        return mop._replace(epoch=(mop.epoch or 0) - 1) if last else mop

    return _renumbered(history, change)


def _last_of_keys(history: History) -> dict[object, Mop]:
    """By record key its last fact, with the offset of its record."""
    last: dict[object, Mop] = {}
    for op in _okay(history):
        for mop, fact in zip(op.mops, op.mops[1:], strict=False):
            if fact.f not in ("record-key", "tombstone") or mop.offset is None:
                continue
            if fact.value not in last or mop.offset > (last[fact.value].offset or 0):
                last[fact.value] = fact._replace(offset=mop.offset)
    return last


def _without(history: History, offsets: set[int | None], instead: tuple[Mop, ...] = ()) -> History:
    """Final reads lack records at these offsets, and what they say of themselves."""

    def told(op: Op) -> Op:
        if op.f != FINAL_POLL:
            return op
        kept, leaves = [], False
        for mop in op.mops:
            leaves = mop.offset in offsets if mop.f == "poll" else leaves and mop.f != "hw"
            kept += [] if leaves else [mop]
        return op._replace(mops=(*instead, *kept))

    return rebuilt(history, told)


def last_value_lost(history: History) -> History:
    """Final reads lack the last value of a key."""
    last = next(fact for fact in _last_of_keys(history).values() if fact.f == "record-key")
    return _without(history, {last.offset})


def deleted_value_back(history: History) -> History:
    """Final reads have a value of a key, and not what deleted it later."""
    gone = next(fact for fact in _last_of_keys(history).values() if fact.f == "tombstone")
    for op in _okay(history):
        for mop, fact in zip(op.mops, op.mops[1:], strict=False):
            if (fact.f, fact.value) == ("record-key", gone.value) and mop.offset is not None:
                older = Mop("poll", mop.key, mop.offset, mop.value), fact
                return _without(history, {gone.offset}, older)
    raise AssertionError("no key was deleted that had a value")


OF_CUTS: dict[str, Tamper] = {
    "hw-back": hw_back,
    "read-above-hw": read_above_hw,
    "read-truncated": read_truncated,
}
"""By the anomaly that it makes, of a log from which something was cut off that somebody knew."""
OF_NUMBERS: dict[str, Tamper] = {
    "sequence-duplicate": sequence_duplicate,
    "sequence-reordered": sequence_reordered,
    "sequence-gap": sequence_gap,
    "fenced-producer": fenced_producer,
}
"""The same of a log with numbered messages."""
OF_KEYS: dict[str, Tamper] = {
    "last-value-lost": last_value_lost,
    "deleted-value-back": deleted_value_back,
}
"""The same of a compacted log, in which the last record of some key deletes it."""
