"""The definitions of `liftlog_jepsen.log`, word by word, over operations instead of columns; quadratic and
obvious.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from liftlog_jepsen.history import FINAL_POLL, History, Mop, Op

Row = tuple[str, str, tuple[int, ...], tuple[Any, ...]]


def text(value: int | str) -> str:
    if isinstance(value, int):
        return str(value)
    return f'"{value}"' if value[:1] in set('"-0123456789') else value


def row(anomaly: str, key: str, ops: list[int], **evidence: Any) -> Row:
    fields = ("value", "other_value", "offset", "other_offset", "process", "position", "other_position")
    fields += ("epoch", "other_epoch", "leader", "other_leader")
    return anomaly, key, tuple(ops), tuple(evidence.get(field) for field in fields)


def brute_force(history: History, gaps: str = "known", unseen: str = "final") -> set[Row]:
    """All anomalies: (anomaly, key, operations, evidence)."""
    ops = sorted(history.ops(), key=lambda op: op.op_id)
    keys = sorted({mop.key for op in ops for mop in op.mops})
    found: set[Row] = set()
    for key in keys:
        found |= _Log(ops, key, unseen).check(gaps)
    return found


def parts(ops: list[Op], f: str, key: str | None = None) -> list[tuple[Op, int, Mop]]:
    return [
        (op, pos, mop)
        for op in ops
        for pos, mop in enumerate(op.mops)
        if mop.f == f and mop.value is not None and key in (None, mop.key)
    ]


class _Log:
    def __init__(self, ops: list[Op], key: str, unseen: str) -> None:
        self.ops, self.key, self.unseen = ops, key, unseen
        self.sends = parts(ops, "send", key)
        self.polls = parts(ops, "poll", key)
        self.ok_polls = [part for part in self.polls if part[0].outcome == "ok"]
        everywhere = {(mop.key, mop.value) for op, _, mop in parts(ops, "poll") if op.outcome == "ok"}
        self.committed = {
            op.op_id
            for op, _, mop in parts(ops, "send")
            if op.outcome == "ok" or (op.outcome == "info" and (mop.key, mop.value) in everywhere)
        }
        places = [(mop.offset, mop.value) for op, _, mop in self.sends if op.op_id in self.committed]
        places += [(mop.offset, mop.value) for _, _, mop in self.polls]
        self.pairs = {(offset, value) for offset, value in places if offset is not None}
        self.values = list(dict.fromkeys(mop.value for op in ops for mop in op.mops if self._here(mop)))
        self.offsets = {v: sorted(o for o, w in self.pairs if w == v) for v in self.values}
        self.senders = {v: [op for op, _, mop in self.sends if mop.value == v] for v in self.values}
        self.readers = {v: [op for op, _, mop in self.ok_polls if mop.value == v] for v in self.values}

    def _here(self, mop: Mop) -> bool:
        return mop.key == self.key and mop.f in ("send", "poll") and mop.value is not None

    def check(self, gaps: str) -> set[Row]:
        found: set[Row] = set()
        for value in self.values:
            found |= self.check_value(value)
        found |= self.check_epochs() | self.check_leaders()
        found |= self.check_offsets() | self.check_real_time() | self.check_sessions(gaps)
        return found

    def first(self, value: Any) -> int | None:
        return self.offsets[value][0] if self.offsets[value] else None

    def check_value(self, value: Any) -> set[Row]:
        senders, readers, offsets = self.senders[value], self.readers[value], self.offsets[value]
        first = self.first(value)
        send_op = [max(op.op_id for op in senders)] if senders else []
        read_op = [min(op.op_id for op in readers)] if readers else []
        shown_by = [min(op.op_id for op, _, mop in self.polls if mop.value == value)] if not senders else []
        both = send_op + read_op or shown_by
        shared = {"value": text(value), "offset": first}
        if len(senders) > 1:
            return {row("reused-value", self.key, both, **shared)}
        found = set()
        if len(offsets) > 1:
            found.add(row("duplicate", self.key, both, **shared, other_offset=offsets[-1]))
        if not senders:
            if readers:
                found.add(row("phantom", self.key, both, **shared))
            return found
        (send,) = senders
        if readers and send.outcome == "fail":
            found.add(row("G1a", self.key, both, **shared))
        if any(op.op_id == send.op_id for op, _, mop in self.polls if mop.value == value):
            found.add(row("precommitted-read", self.key, send_op, **shared))
        ends = [op.idx_ret for op in readers if op.idx_ret is not None]
        if ends and min(ends) < send.idx_inv:
            moments = {"position": min(ends), "other_position": send.idx_inv}
            found.add(row("future-read", self.key, both, **shared, **moments))
        bound = max(
            (self.offsets[v][0] for v in self.values if self.readers[v] and self.offsets[v]), default=-1
        )
        if send.op_id in self.committed and not readers and offsets and offsets[-1] <= bound:
            found.add(
                row(
                    "lost-write", self.key, send_op, value=text(value), offset=offsets[-1], other_offset=bound
                )
            )
        if send.outcome == "ok":
            found |= self.check_final_reads(value, send)
        return found

    def final_readers(self) -> dict[int, list[Op]]:
        reading: dict[int, list[Op]] = {}
        for op in self.ops:
            if op.f == FINAL_POLL and any(mop.f == "poll" and mop.key == self.key for mop in op.mops):
                reading.setdefault(op.process, []).append(op)
        spoiled = {op.process for op in self.ops if op.f == FINAL_POLL and op.outcome != "ok"}
        return {process: some for process, some in reading.items() if process not in spoiled}

    def check_final_reads(self, value: Any, send: Op) -> set[Row]:
        assert send.idx_ret is not None
        shared = {"value": text(value), "offset": self.first(value), "position": send.idx_ret}
        began = {process: min(op.idx_inv for op in ops) for process, ops in self.final_readers().items()}
        if not self.readers[value]:
            last = max(began.values(), default=None)
            if self.unseen == "all" or any(send.idx_ret < moment for moment in began.values()):
                return {row("unseen", self.key, [send.op_id], **shared, other_position=last)}
            return set()
        found = set()
        for process, ops in self.final_readers().items():
            seen = {mop.value for op in ops for mop in op.mops if self._here(mop)}
            if send.idx_ret < began[process] and value not in seen:
                where = {"process": process, "other_position": began[process]}
                found.add(row("missing-in-final-read", self.key, [send.op_id], **shared, **where))
        return found

    def shown_by(self, value: Any) -> tuple[int, int]:
        """The operation and position that name this value: its last send, or else its first poll."""
        sends = [(op.op_id, pos) for op, pos, mop in self.sends if mop.value == value]
        return max(sends) if sends else min((o.op_id, p) for o, p, mop in self.polls if mop.value == value)

    def check_offsets(self) -> set[Row]:
        found = set()
        for offset in {offset for offset, _ in self.pairs}:
            holders = sorted((v for o, v in self.pairs if o == offset), key=self.shown_by)
            if len(holders) > 1:
                low, high = holders[:2]
                ops = [self.shown_by(low)[0], self.shown_by(high)[0]]
                texts = {"value": text(low), "other_value": text(high)}
                found.add(row("inconsistent-offsets", self.key, ops, **texts, offset=offset))
        return found

    def check_real_time(self) -> set[Row]:
        placed = [
            (value, self.senders[value][0], self.offsets[value][0])
            for value in self.values
            if len(self.senders[value]) == 1 and self.offsets[value]
        ]
        placed = [one for one in placed if one[1].op_id in self.committed]
        found = set()
        for value, send, offset in placed:
            if send.outcome != "ok":
                continue
            assert send.idx_ret is not None
            below = [other for other in placed if other[2] < offset]
            if not below:
                continue
            other, sender, other_offset = max(
                below, key=lambda one: (one[1].idx_inv, one[2], self.shown_by(one[0]))
            )
            if sender.idx_inv > send.idx_ret:
                found.add(
                    row(
                        "realtime-order",
                        self.key,
                        [send.op_id, sender.op_id],
                        value=text(value),
                        other_value=text(other),
                        offset=offset,
                        other_offset=other_offset,
                        position=send.idx_ret,
                        other_position=sender.idx_inv,
                    )
                )
        return found

    def acked(self) -> list[tuple[int, int, int, Mop]]:
        """(offset, operation, position, micro-operation) of acknowledgements that name an epoch, in order."""
        told = [part for part in self.sends if part[0].outcome == "ok" and part[2].epoch is not None]
        return sorted((m.offset, op.op_id, pos, m) for op, pos, m in told if m.offset is not None)

    def pair(self, anomaly: str, one: tuple[int, int, int, Mop], other: tuple[int, int, int, Mop]) -> Row:
        named = {"value": text(one[3].value), "other_value": text(other[3].value)}
        named |= {"offset": one[0], "other_offset": other[0], "epoch": one[3].epoch}
        named |= {"other_epoch": other[3].epoch, "leader": one[3].leader, "other_leader": other[3].leader}
        return row(anomaly, self.key, [one[1], other[1]], **named)

    def check_epochs(self) -> set[Row]:
        found = set()
        for epoch in {mop.epoch for _, _, _, mop in self.acked()}:
            own = [each for each in self.acked() if each[3].epoch == epoch]
            later = [each for each in self.acked() if each[3].epoch > epoch]
            highest = min(each for each in own if each[0] == max(offset for offset, _, _, _ in own))
            if later and min(later)[0] < highest[0]:
                found.add(self.pair("nonmonotonic-epoch", highest, min(later)))
        return found

    def check_leaders(self) -> set[Row]:
        found = set()
        for epoch in {mop.epoch for _, _, _, mop in self.acked()}:
            own = [each for each in self.acked() if each[3].epoch == epoch and each[3].leader is not None]
            others = [each for each in own if each[3].leader != own[0][3].leader]
            if others:
                found.add(self.pair("two-leaders", own[0], others[0]))
        return found

    def check_sessions(self, gaps: str) -> set[Row]:
        found: set[Row] = set()
        for process in {op.process for op in self.ops}:
            own = sorted((op for op in self.ops if op.process == process), key=lambda op: op.idx_inv)
            found |= self.check_polls(process, own, gaps) | self.check_sends(process, own, gaps)
        return found

    def check_polls(self, process: int, ops: list[Op], gaps: str) -> set[Row]:
        found: set[Row] = set()
        position: tuple[int, int] | None = None
        for op in ops:
            if op.f in ("assign", "subscribe") and op.outcome != "fail":
                if all(mop.key != self.key for mop in op.mops):
                    position = None
                continue
            read = [mop.offset for mop in op.mops if self._here(mop) and mop.f == "poll"]
            offsets = [offset for offset in read if offset is not None]
            if not offsets:
                continue
            if position is not None:
                found |= self.step("", process, position[0], offsets[0], [position[1], op.op_id], gaps)
            if not any(mop.f == "rebalance" and mop.key == self.key for mop in op.mops):
                for low, high in pairwise(offsets):
                    found |= self.step("int-", process, low, high, [op.op_id], gaps)
            if op.outcome == "ok":
                position = (offsets[-1], op.op_id)
        return found

    def step(self, prefix: str, process: int, low: int, high: int, ops: list[int], gaps: str) -> set[Row]:
        where = {"offset": high, "other_offset": low, "process": process}
        if high <= low:
            return {row(f"{prefix}nonmonotonic-poll", self.key, ops, **where)}
        if self.skips(low, high, gaps):
            return {row(f"{prefix}poll-skip", self.key, ops, **where)}
        return set()

    def skips(self, low: int, high: int, gaps: str) -> bool:
        between = [offset for offset, _ in self.pairs if low < offset < high]
        return bool(between) or (gaps == "any" and high > low + 1)

    def place(self, op: Op, mop: Mop) -> int | None:
        """Where a send's value lies: as its committed send was told, or else as polls saw it."""
        if op.op_id in self.committed and mop.offset is not None:
            return mop.offset
        seen = [other.offset for _, _, other in self.polls if other.value == mop.value]
        return max((offset for offset in seen if offset is not None), default=None)

    def check_sends(self, process: int, ops: list[Op], gaps: str) -> set[Row]:
        found: set[Row] = set()
        last: tuple[int | None, Op] | None = None
        for op in ops:
            if op.f in ("assign", "subscribe") and op.outcome != "fail":
                if all(mop.key != self.key for mop in op.mops):
                    last = None
                continue
            places = [self.place(op, mop) for mop in op.mops if self._here(mop) and mop.f == "send"]
            if not places:
                continue
            for low, high in pairwise(places):
                if low is None or high is None:
                    continue
                where = {"offset": high, "other_offset": low, "process": process}
                if high < low:
                    found.add(row("int-nonmonotonic-send", self.key, [op.op_id], **where))
                elif low < high and self.skips(low, high, gaps):
                    found.add(row("int-send-skip", self.key, [op.op_id], **where))
            if op.outcome == "fail":
                continue
            if last is not None and None not in (last[0], places[0]) and last[1].outcome == "ok":
                before, high = last[1], places[0]
                assert before.idx_ret is not None and last[0] is not None and high is not None
                if before.idx_ret < op.idx_inv and high < last[0]:
                    where = {"offset": high, "other_offset": last[0], "process": process}
                    found.add(row("nonmonotonic-send", self.key, [before.op_id, op.op_id], **where))
            last = (places[-1], op)
        return found
