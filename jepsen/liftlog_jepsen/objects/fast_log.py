"""Logs whose appends say their offsets, in O(n log n): offset order is the linearization order.

Appends stand in the order of their offsets; a tail that answered n stands between those of n - 1 and n. A
read of a value at an offset comes after that append, so it ends the time in which the append can have
happened; a read of nothing comes before, and begins it. Then the row only has to respect time.

Appends that never returned fill offsets that somebody saw, or that others skipped; at the latest possible
place, because the others only bound when they began: earlier starts go to earlier gaps. Those that are not
needed are left out.
"""

from __future__ import annotations

from typing import Any

from liftlog_jepsen.events import INFO
from liftlog_jepsen.objects.fast_blocks import Groups, order_groups
from liftlog_jepsen.objects.model import Call, Contradiction, freeze, show, tell


def offset_of(argument: Any, result: Any) -> int | None:
    """The offset that an append answered: a number, `{"offset": N}` or `[N argument]`; None = not said."""
    if isinstance(result, dict):
        result = result.get("offset")
    elif isinstance(result, (list, tuple)) and len(result) == 2 and freeze(result[1]) == freeze(argument):
        result = result[0]
    return result if type(result) is int else None


def check_log(calls: list[Call]) -> Contradiction | bool | None:
    """Whether a log can explain calls append, read and tail; None = an append did not say its offset, or
    histories give hashes instead of values, or two open appends of one value may be what was seen.
    """
    row = _Row()
    for call in calls:
        if not _plain(call):
            return None
        wrong = row.add(call)
        if wrong is not None:
            return wrong
    found = row.place_seen()
    if found is not None:
        return found if isinstance(found, Contradiction) else None
    wrong = row.fill() or row.check()
    return wrong or True


def _plain(call: Call) -> bool:
    if call.f == "append":
        known = call.outcome == INFO or offset_of(call.argument, call.result) is not None
        return known and call.argument is not None and not isinstance(call.argument, dict)
    if isinstance(call.result, dict):
        return False
    if call.f == "tail":
        return type(call.result) is int
    whole = call.argument is None and isinstance(call.result, (list, tuple))
    return whole or type(call.argument) is int


class _Row:
    def __init__(self) -> None:
        self.appends: dict[int, Call] = {}
        self.open: list[Call] = []
        self.tails: dict[int, list[Call]] = {}
        self.seen: dict[int, tuple[Any, Call]] = {}
        """What was read at an offset, and by the reader that ended first."""
        self.nothing: dict[int, Call] = {}
        """Who read nothing at an offset, of several the one that began last."""
        self.length = 0

    def add(self, call: Call) -> Contradiction | None:
        if call.f == "append":
            return self._add_append(call)
        if call.f == "tail":
            return self._add_tail(call, call.result)
        if call.argument is None:
            for offset, value in enumerate(call.result):
                wrong = self._add_read(call, offset, value)
                if wrong is not None:
                    return wrong
            return self._add_tail(call, len(call.result))
        return self._add_read(call, call.argument, call.result)

    def _add_append(self, call: Call) -> Contradiction | None:
        if call.outcome == INFO:
            self.open.append(call)
            return None
        offset = offset_of(call.argument, call.result)
        assert offset is not None
        if offset < 0:
            return Contradiction((call,), f"{tell(call)}: no log has such an offset")
        if offset in self.appends:
            other = self.appends[offset]
            return Contradiction((other, call), f"{tell(other)} and {tell(call)} have the same offset")
        self.appends[offset] = call
        self.length = max(self.length, offset + 1)
        return None

    def _add_tail(self, call: Call, tail: int) -> Contradiction | None:
        if tail < 0:
            return Contradiction((call,), f"{tell(call)}: no log has such a tail")
        self.tails.setdefault(tail, []).append(call)
        self.length = max(self.length, tail)
        return None

    def _add_read(self, call: Call, offset: int, value: Any) -> Contradiction | None:
        if value is None:
            last = self.nothing.get(offset)
            if last is None or call.start > last.start:
                self.nothing[offset] = call
            return None
        if offset < 0:
            return Contradiction((call,), f"{tell(call)}: no log has such an offset")
        value = freeze(value)
        known = self.seen.get(offset)
        if known is not None and known[0] != value:
            words = f"{tell(known[1])} and {tell(call)} saw different values at offset {offset}"
            return Contradiction((known[1], call), words)
        if known is None or call.end < known[1].end:
            self.seen[offset] = value, call
        self.length = max(self.length, offset + 1)
        return None

    def place_seen(self) -> Contradiction | bool | None:
        """Give open appends that were read their offsets; True = it is not clear which one was."""
        by_value: dict[Any, list[Call]] = {}
        for call in self.open:
            by_value.setdefault(freeze(call.argument), []).append(call)
        for offset, (value, reader) in sorted(self.seen.items()):
            if offset in self.appends:
                append = self.appends[offset]
                if freeze(append.argument) != value:
                    words = f"{tell(reader)} saw {show(value)} at offset {offset}, where {tell(append)} is"
                    return Contradiction((append, reader), words)
                continue
            found = by_value.get(value, [])
            if not found:
                words = f"{tell(reader)}: nobody can have appended {show(value)} at offset {offset}"
                return Contradiction((reader,), words)
            if len(found) > 1:
                return True
            self.appends[offset] = found.pop()
        placed = {call.number for call in self.appends.values()}
        self.open = [call for call in self.open if call.number not in placed]
        return None

    def fill(self) -> Contradiction | None:
        """Open appends for the offsets that nobody claims, and that must be there."""
        gaps = [offset for offset in range(self.length) if offset not in self.appends]
        if len(gaps) > len(self.open):
            above = self.appends.get(gaps[-1] + 1)
            calls = (above,) if above is not None else tuple(self.tails.get(self.length, ()))[:1]
            words = (
                f"nobody can have appended anything at offset {gaps[-1]}, though the log went on behind it"
            )
            return Contradiction(calls, words + "".join(f": {tell(call)}" for call in calls))
        for offset, call in zip(gaps, sorted(self.open, key=lambda call: call.start), strict=False):
            self.appends[offset] = call
        return None

    def check(self) -> Contradiction | None:
        """Whether the row respects time."""
        because: dict[int, list[Call]] = {}
        groups: Groups = []
        for offset in range(self.length):
            groups.append(self.tails.get(offset, []))
            append = self.appends[offset]
            start, end = append.start, append.end
            if offset in self.seen and self.seen[offset][1].end < end:
                because.setdefault(append.number, []).append(self.seen[offset][1])
                end = self.seen[offset][1].end
            if offset in self.nothing and self.nothing[offset].start > start:
                because.setdefault(append.number, []).append(self.nothing[offset])
                start = self.nothing[offset].start
            if end < start:
                calls = (append, *because[append.number])
                words = f"{tell(calls[-1])} began after {tell(calls[1])} had ended" if len(calls) > 2 else ""
                return Contradiction(calls, words or f"{tell(calls[-1])} contradicts {tell(append)}")
            groups.append([append._replace(start=start, end=end)])
        groups.append(self.tails.get(self.length, []))
        found = order_groups(groups)
        if not isinstance(found, Contradiction):
            return None
        shown = [reader for call in found.calls for reader in because.get(call.number, [])]
        real = {call.number: call for call in self.appends.values()}
        calls = tuple(real.get(call.number, call) for call in found.calls)
        words = found.words + "".join(f"; {tell(reader)} bounds when" for reader in shown)
        return Contradiction((*calls, *shown), words)
