"""What is remembered of one log between two batches, and the anomalies that show as it grows.

*The late bound.* Time is counted in records of this log that have arrived. What has not been touched while
`late` further ones arrived is forgotten, so a log's state is at most that many values, and each batch costs
no more than its own records and these. What was forgotten leaves two numbers behind: `settled`, the highest
offset among it, and `settled_inv`, the latest invocation among its sends. At or below `settled`, nothing that
depends on what was forgotten is judged any more; the batch check at the end judges everything.

Sends that may have happened and whose offset nobody knows yet are kept whatever their age: only they could
make a record that turns up later look like one that nobody sent.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

OK, FAIL, INFO = 0, 1, 2
UNSENT = -1
SEND, POLL, REBALANCE = 0, 1, 3
"""Kinds of records, numbered as in the log checks; assignments come separately."""

Assignments = Mapping[int, Sequence[tuple[int, frozenset[str]]]]
"""By process: position and keys of its latest assigns and subscribes, in order."""
ASSIGNMENTS_MAX = 64
"""Of each process that many are known; a position from before them counts as dropped."""


class OnlineValue:
    """One value: its send, its offsets, its first ok read."""

    __slots__ = (
        "first", "last", "outcome", "read_op", "read_ret", "read_seen", "reported", "seen", "send_inv",
        "send_offset", "send_op", "send_ret", "sends", "taken",
    )  # fmt: skip

    def __init__(self) -> None:
        self.sends = 0
        self.send_op = self.send_inv = -1
        self.send_ret: int | None = None
        self.send_offset: int | None = None
        self.outcome = UNSENT
        self.taken = 0
        """Of an info send: 1 if an ok poll read one of the values that its operation sent to this log."""
        self.first: int | None = None
        self.last: int | None = None
        self.read_op = -1
        self.read_ret: int | None = None
        self.read_seen = -1
        """When an ok poll first returned it, counted in records; -1 = never."""
        self.seen = 0
        self.reported = 0

    def committed(self) -> bool:
        return self.outcome == OK or bool(self.taken)

    def may_turn_up(self) -> bool:
        return self.outcome in (OK, INFO) and self.first is None


DUPLICATE, G1A, PHANTOM, FUTURE, REALTIME = 1, 2, 4, 8, 16


class OnlineLog:
    """One log. `found` collects anomalies as (name, operations, facts)."""

    def __init__(self, key: str, gaps: str) -> None:
        self.key = key
        self.any_gap = gaps == "any"
        self.values: dict[str, OnlineValue] = {}
        self.pairs: dict[int, list[Any]] = {}
        """Offset -> value, operation, whether a conflict was reported, when last seen."""
        self.unsure: dict[int, list[str]] = {}
        """The values of each info operation."""
        self.cursors: dict[int, list[int]] = {}
        """Process -> offset, operation, position of its invocation, when seen."""
        self.jumps: list[tuple[int, int, int, int, int, int]] = []
        """Low and high offset, first and second operation, process, when seen."""
        self.seen = 0
        self.settled = -1
        self.settled_inv = -1
        self.found: list[tuple[str, list[int], dict[str, Any]]] = []

    # -- records arrive ------------------------------------------------------------------------------------

    def send(self, op: int, offset: int | None, value: str, outcome: int, inv: int, ret: int | None) -> None:
        self.seen += 1
        entry = self._entry(value)
        entry.sends += 1
        entry.send_op, entry.send_inv, entry.outcome = op, inv, outcome
        entry.send_ret = ret if outcome == OK else None
        entry.send_offset = offset
        if outcome == INFO:
            together = self.unsure.setdefault(op, [])
            together.append(value)
            if any(self.values[one].read_op >= 0 for one in together):
                self._take(op)
        elif outcome == OK and offset is not None:
            self._place(entry, value, offset, op)
        self._judge(entry, value, op)

    def poll(
        self, process: int, op: int, outcome: int, inv: int, ret: int | None,
        records: Sequence[tuple[int, str]], rebalanced: bool, assignments: Assignments,
    ) -> None:  # fmt: skip
        """The records that one operation returned of this log, in their order."""
        before: int | None = None
        for offset, value in records:
            self.seen += 1
            entry = self._entry(value)
            if outcome == OK:
                if entry.read_op < 0:
                    entry.read_op, entry.read_seen = op, self.seen
                    if entry.outcome == INFO:
                        self._take(entry.send_op)
                if entry.read_ret is None or (ret is not None and ret < entry.read_ret):
                    entry.read_ret = ret
            self._place(entry, value, offset, op)
            self._judge(entry, value, op)
            if before is None:
                cursor = self._cursor(process, inv, assignments)
                if cursor is not None:
                    self._step(cursor[0], offset, cursor[1], op, process)
            elif not rebalanced:
                self._step(before, offset, op, op, process)
            before = offset
        if outcome == OK and before is not None:
            self.cursors[process] = [before, op, inv, self.seen]

    def _take(self, op: int) -> None:
        """An info operation did happen: one of its values was read."""
        for value in self.unsure.get(op, ()):
            entry = self.values.get(value)
            if entry is not None and entry.send_op == op:
                entry.taken = 1
                if entry.send_offset is not None:
                    self._place(entry, value, entry.send_offset, op)

    def _entry(self, value: str) -> OnlineValue:
        entry = self.values.get(value)
        if entry is None:
            entry = self.values[value] = OnlineValue()
        entry.seen = self.seen
        return entry

    def _place(self, entry: OnlineValue, value: str, offset: int, op: int) -> None:
        entry.first = offset if entry.first is None else min(entry.first, offset)
        entry.last = offset if entry.last is None else max(entry.last, offset)
        pair = self.pairs.setdefault(offset, [value, op, 0, self.seen])
        pair[3] = self.seen
        if pair[0] != value and not pair[2]:
            pair[2] = 1
            low, high = sorted((value, pair[0]))
            self._report("inconsistent-offsets", [pair[1], op], value=low, other_value=high, offset=offset)

    def _judge(self, entry: OnlineValue, value: str, op: int) -> None:
        if entry.sends > 1:
            return
        if entry.first != entry.last and self._new(entry, DUPLICATE):
            ops = [each for each in (entry.send_op, entry.read_op) if each >= 0] or [op]
            self._report("duplicate", ops, value=value, offset=entry.first, other_offset=entry.last)
        if not entry.sends or entry.read_op < 0:
            return
        ops = [entry.send_op, entry.read_op]
        if entry.outcome == FAIL and self._new(entry, G1A):
            self._report("G1a", ops, value=value, offset=entry.first)
        if entry.read_ret is not None and entry.read_ret < entry.send_inv and self._new(entry, FUTURE):
            self._report("future-read", ops, value=value, offset=entry.first)

    def _cursor(self, process: int, inv: int, assignments: Assignments) -> list[int] | None:
        """Where a process was, unless it was assigned other keys since."""
        cursor = self.cursors.get(process)
        told = assignments.get(process, ())
        if cursor is None or (len(told) >= ASSIGNMENTS_MAX and told[0][0] > cursor[2]):
            return None
        dropped = any(cursor[2] < position < inv and self.key not in keys for position, keys in told)
        return None if dropped else cursor

    def _step(self, low: int, high: int, first: int, second: int, process: int) -> None:
        inside = "int-" if first == second else ""
        ops = [first] if inside else [first, second]
        if high <= low:
            self._report(f"{inside}nonmonotonic-poll", ops, offset=high, other_offset=low, process=process)
        elif high > low + 1 and self.any_gap:
            self._report(f"{inside}poll-skip", ops, offset=high, other_offset=low, process=process)
        elif high > low + 1 and low >= self.settled:
            self.jumps.append((low, high, first, second, process, self.seen))

    def _new(self, entry: OnlineValue, anomaly: int) -> bool:
        fresh = not entry.reported & anomaly
        entry.reported |= anomaly
        return fresh

    def _report(self, name: str, ops: list[int], **facts: Any) -> None:
        self.found.append((name, ops, facts))

    # -- a batch ends --------------------------------------------------------------------------------------

    def close_batch(self, late: int) -> None:
        """Judge what needs the batch as a whole, then forget what is older than `late` records."""
        self._check_jumps()
        self._check_real_time()
        limit = self.seen - late
        for value, entry in self.values.items():
            unknown = not entry.sends and 0 <= entry.read_seen < limit
            if unknown and self._is_recent(entry) and self._new(entry, PHANTOM):
                self._report("phantom", [entry.read_op], value=value, offset=entry.first)
        self._forget(limit)

    def _check_jumps(self) -> None:
        if not self.jumps:
            return
        known = sorted(self.pairs)
        waiting = []
        for jump in self.jumps:
            low, high, first, second, process, _ = jump
            if bisect_right(known, low) < bisect_left(known, high):
                inside = "int-" if first == second else ""
                ops = [first] if inside else [first, second]
                self._report(f"{inside}poll-skip", ops, offset=high, other_offset=low, process=process)
            else:
                waiting.append(jump)
        self.jumps = waiting

    def _check_real_time(self) -> None:
        """In offset order the latest invocation so far must not come after the completion of a send."""
        placed = sorted(
            (entry.first, value)
            for value, entry in self.values.items()
            if entry.sends == 1 and self._is_recent(entry) and entry.committed()
        )
        latest, other = self.settled_inv, -1
        below, below_op = latest, other
        offset: int | None = None
        for first, value in placed:
            if first != offset:
                offset, latest, other = first, below, below_op
            entry = self.values[value]
            ret = entry.send_ret
            if ret is not None and latest > ret and self._new(entry, REALTIME):
                ops = [entry.send_op] if other < 0 else [entry.send_op, other]
                self._report("realtime-order", ops, value=value, offset=entry.first)
            if entry.send_inv > below:
                below, below_op = entry.send_inv, entry.send_op

    def _is_recent(self, entry: OnlineValue) -> bool:
        """Whether all that lies at its offset and above is still remembered."""
        return entry.first is not None and entry.first > self.settled

    def _forget(self, limit: int) -> None:
        if limit <= 0:
            return
        for value in [value for value, entry in self.values.items() if entry.seen < limit]:
            entry = self.values[value]
            if entry.may_turn_up():
                continue
            del self.values[value]
            if entry.last is not None:
                self.settled = max(self.settled, entry.last)
                if entry.sends == 1 and entry.committed():
                    self.settled_inv = max(self.settled_inv, entry.send_inv)
        for offset in [offset for offset, pair in self.pairs.items() if pair[3] < limit]:
            del self.pairs[offset]
            self.settled = max(self.settled, offset)
        self.cursors = {process: one for process, one in self.cursors.items() if one[3] >= limit}
        self.jumps = [jump for jump in self.jumps if jump[5] >= limit and jump[0] >= self.settled]

    # -- between batches -----------------------------------------------------------------------------------

    def dump(self) -> Iterator[tuple[str, str | None, list[int | None]]]:
        """The state as rows: what it is, a text, and numbers."""
        yield "head", None, [self.seen, self.settled, self.settled_inv]
        for value, one in self.values.items():
            numbers = [getattr(one, name) for name in OnlineValue.__slots__]
            yield "value", value, numbers
        for offset, pair in self.pairs.items():
            yield "pair", pair[0], [offset, *pair[1:]]
        for process, cursor in self.cursors.items():
            yield "cursor", None, [process, *cursor]
        for jump in self.jumps:
            yield "jump", None, list(jump)

    def load(self, what: str, text: str | None, numbers: list[Any]) -> None:
        """One row of `dump`."""
        if what == "head":
            self.seen, self.settled, self.settled_inv = numbers
        elif what == "value":
            entry = self.values[str(text)] = OnlineValue()
            for name, number in zip(OnlineValue.__slots__, numbers, strict=True):
                setattr(entry, name, number)
            if entry.outcome == INFO:
                self.unsure.setdefault(entry.send_op, []).append(str(text))
        elif what == "pair":
            self.pairs[numbers[0]] = [text, *numbers[1:]]
        elif what == "cursor":
            self.cursors[numbers[0]] = numbers[1:]
        else:
            low, high, first, second, process, seen = numbers
            self.jumps.append((low, high, first, second, process, seen))
