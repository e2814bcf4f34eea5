"""Anomalies amid the traffic of a large history: what to change at one place so that exactly one arises.

A site is one stream in one round. Most stories turn on its last record there, between the last poll of the
round and the first one of the next. What a record loses by a change (its only reader, say) is made up for by
an auditor, a process that does one poll in the round's tail.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from liftlog_jepsen.generate.answers import Planted, planted
from liftlog_jepsen.generate.edits import Edits
from liftlog_jepsen.generate.layout import FAIL, INFO, OK, STRIDE, Layout
from liftlog_jepsen.generate.pieces import (
    ASSIGN,
    ASSIGNING,
    EPOCH,
    LEADER,
    POLL,
    POLLING,
    SEND,
    SENDING,
    Sends,
    stream_name,
)
from liftlog_jepsen.generate.wanted import PLANTABLE_AMID
from liftlog_jepsen.history import NULL

PROCESSES = 16
"""Process numbers of one planted story."""


class _Record(NamedTuple):
    """One stored record of a site."""

    op: int
    burst: int
    member: int
    fate: int
    value: int
    offset: int


class Site:
    """One stream in one round, and a planted anomaly's room in this round's tail."""

    def __init__(self, layout: Layout, sends: Sends, group: int, round_: int, number: int) -> None:
        self.layout, self.group, self.round_, self.number = layout, group, round_, number
        row = group - sends.first_group
        rounds = sends.totals.shape[1]
        place = round_ - sends.first_round
        size = len(sends.op) // sends.totals.size
        start = (row * rounds + place) * size
        self._sends = sends
        self._stored = start + np.flatnonzero(sends.stored[start : start + size])
        self.count = len(self._stored)
        self.next_count = int(sends.totals[row, place + 1]) if place + 1 < rounds else 0
        self.key = stream_name(group, layout.groups)
        self._ops = 0

    def record(self, within: int) -> _Record:
        """The `within`th record that the round stored; -1 = the last."""
        row, sends = self._stored[within], self._sends
        every = self.layout.shape.gap_every
        dense = int(sends.dense[row])
        return _Record(
            int(sends.op[row]),
            int(sends.burst[row]),
            int(sends.member[row]),
            int(sends.fate[row]),
            int(sends.value[row]),
            dense + (dense // every if every else 0),
        )

    def end_of(self, record: _Record) -> int:
        """The position of the completion of a record's send."""
        return int(self.layout.send_positions(np.array(record.burst), np.array(record.member))[1])

    @property
    def last_poll_records(self) -> int:
        """How many records the round's last poll has."""
        return (self.count - 1) % self.layout.shape.batch + 1

    def poll_op(self, reader: int = 0) -> int:
        """The last poll of this round."""
        place = self.layout.first_poll[self.group] + (self.count - 1) // self.layout.shape.batch
        return int(self.layout.poll_op(np.array(self.round_), reader, place))

    def next_poll_op(self, reader: int = 0) -> int:
        return int(self.layout.poll_op(np.array(self.round_ + 1), reader, self.layout.first_poll[self.group]))

    def poll_cells(self, op: int, round_: int, place: int) -> dict[str, int]:
        """What a micro-operation of a poll by the first reader says of it."""
        where = np.array(self.layout.first_poll[self.group] + place)
        invoked = int(self.layout.poll_invoked(np.array(round_), 0, where))
        process = int(self.layout.consumer[0][self.group])
        return {
            "key": self.group, "op_id": op, "f": POLLING, "op_f": POLL, "process": process,
            "outcome": OK, "idx_inv": invoked, "idx_ret": invoked + STRIDE,
        }  # fmt: skip

    def extra_op(self, edits: Edits, f: int, process: int | None = None, outcome: int = OK) -> dict[str, int]:
        """One more operation in the round's tail, by a process of its own; returns what its parts say."""
        op = self.layout.first_planted_op + 32 * self.number + self._ops
        invoked = self.layout.tail_position(self.round_) + 2 * self._ops
        own = self.layout.first_planted_process + PROCESSES * self.number + self._ops
        self._ops += 1
        cells = {
            "op_id": op,
            "process": own if process is None else process,
            "outcome": outcome,
            "idx_inv": invoked,
            "idx_ret": NULL if outcome == INFO else invoked + 1,
        }
        edits.add_op(self.round_, f=f, **cells)
        return {**cells, "op_f": f}

    def audit(self, edits: Edits, value: int, offset: int, round_: int | None = None) -> int:
        """Somebody else reads this record; returns the operation."""
        cells = self.extra_op(edits, POLL)
        where = self.round_ if round_ is None else round_
        edits.add(self.group, where, key=self.group, pos=0, f=POLLING, value=value, offset=offset, **cells)
        return cells["op_id"]

    def fresh_value(self) -> int:
        """A value that no send of the plan has."""
        return -1 - self.number

    def found(self, anomaly: str, *ops: int) -> Planted:
        return planted(anomaly, self.key, *ops)


def _nonmonotonic(site: Site, edits: Edits) -> list[Planted]:
    """The next poll begins with the last record once more."""
    last, after = site.record(-1), site.next_poll_op()
    edits.make_room(after, 0)
    cells = site.poll_cells(after, site.round_ + 1, 0)
    edits.add(site.group, site.round_, pos=0, value=last.value, offset=last.offset, **cells)
    return [site.found("nonmonotonic-poll", site.poll_op(), after)]


def _internal_nonmonotonic(site: Site, edits: Edits) -> list[Planted]:
    """A poll has its last record twice."""
    last, poll = site.record(-1), site.poll_op()
    cells = site.poll_cells(poll, site.round_, (site.count - 1) // site.layout.shape.batch)
    edits.add(
        site.group, site.round_, pos=site.last_poll_records, value=last.value, offset=last.offset, **cells
    )
    return [site.found("int-nonmonotonic-poll", poll)]


def _skip(site: Site, edits: Edits) -> list[Planted]:
    """A poll lacks its last record, which only an auditor reads."""
    last, poll = site.record(-1), site.poll_op()
    edits.drop(poll, site.last_poll_records - 1)
    site.audit(edits, last.value, last.offset)
    return [site.found("poll-skip", poll, site.next_poll_op())]


def _internal_skip(site: Site, edits: Edits) -> list[Planted]:
    """A poll lacks its last record but one, which only an auditor reads."""
    missing, poll = site.record(-2), site.poll_op()
    edits.drop(poll, site.last_poll_records - 2)
    site.audit(edits, missing.value, missing.offset)
    return [site.found("int-poll-skip", poll)]


def _lost(site: Site, edits: Edits) -> list[Planted]:
    """Nobody reads the last record; each reader is assigned something else before it goes on, so that its
    step over the record is allowed.
    """
    last = site.record(-1)
    for reader in range(site.layout.shape.reads):
        edits.drop(site.poll_op(reader), site.last_poll_records - 1)
        process = int(site.layout.consumer[reader][site.group])
        cells = site.extra_op(edits, ASSIGN, process)
        edits.add(-1, site.round_, key=-1, pos=0, f=ASSIGNING, **cells)
    return [site.found("lost-write", last.op)]


def _aborted(site: Site, edits: Edits) -> list[Planted]:
    """The send of the last record failed, and yet it is read."""
    last = site.record(-1)
    _take_back(site, edits, last, FAIL, last.value)
    return [site.found("G1a", last.op, site.poll_op())]


def _phantom(site: Site, edits: Edits) -> list[Planted]:
    """What sent the last record sent something else, and never heard of it."""
    last = site.record(-1)
    _take_back(site, edits, last, INFO, site.fresh_value())
    return [site.found("phantom", site.poll_op())]


def _take_back(site: Site, edits: Edits, record: _Record, outcome: int, value: int) -> None:
    """An acknowledged send becomes one that was not."""
    invoked, ended = site.layout.send_positions(np.array(record.burst), np.array(record.member))
    process = site.layout.send_process(np.array(record.burst), np.array(record.member))
    edits.change(record.op, outcome=outcome)
    edits.drop(record.op, 0)
    edits.add(
        site.group, site.round_, key=site.group, op_id=record.op, pos=0, f=SENDING, op_f=SEND, value=value,
        process=int(process), outcome=outcome, idx_inv=int(invoked), idx_ret=int(ended),
    )  # fmt: skip


def _realtime(site: Site, edits: Edits) -> list[Planted]:
    """Of a burst, the send with the lowest offset begins only after the first ack."""
    members = _first_burst(site)
    ends = [site.end_of(each) for each in members]
    first = min(range(len(members)), key=ends.__getitem__)
    edits.change(members[0].op, idx_inv=ends[first] + 1)
    return [site.found("realtime-order", members[0].op, members[first].op)]


def _first_burst(site: Site) -> list[_Record]:
    """The records of the stream's first burst in this round, by offset."""
    records = [site.record(within) for within in range(min(site.layout.shape.concurrency, site.count))]
    return [each for each in records if each.burst == records[0].burst]


def _duplicate(site: Site, edits: Edits) -> list[Planted]:
    """An auditor finds the last record once more, far behind the end of the log."""
    last, layout = site.record(-1), site.layout
    records = layout.rounds * int(layout.bursts[site.group]) * layout.shape.concurrency
    site.audit(edits, last.value, 2 * records + site.number, layout.rounds - 1)
    return [site.found("duplicate", last.op, site.poll_op())]


def _inconsistent(site: Site, edits: Edits) -> list[Planted]:
    """Another send is acknowledged with the last record's offset, where an auditor finds its value."""
    last = site.record(-1)
    cells = site.extra_op(edits, SEND)
    edits.add(
        site.group, site.round_, key=site.group, pos=0, f=SENDING, value=site.fresh_value(),
        offset=last.offset, epoch=EPOCH, leader=LEADER, **cells,
    )  # fmt: skip
    site.audit(edits, site.fresh_value(), last.offset)
    return [site.found("inconsistent-offsets", cells["op_id"], last.op)]


def _reused(site: Site, edits: Edits) -> list[Planted]:
    """The last record's value is sent again, and nobody knows what became of that."""
    last = site.record(-1)
    cells = site.extra_op(edits, SEND, outcome=INFO)
    edits.add(site.group, site.round_, key=site.group, pos=0, f=SENDING, value=last.value, **cells)
    return [site.found("reused-value", cells["op_id"], site.poll_op())]


AMID: dict[str, Callable[[Site, Edits], list[Planted]]] = dict(
    zip(
        PLANTABLE_AMID,
        (
            _inconsistent,
            _duplicate,
            _lost,
            _aborted,
            _phantom,
            _realtime,
            _nonmonotonic,
            _internal_nonmonotonic,
            _skip,
            _internal_skip,
            _reused,
        ),
        strict=True,
    )
)
NOT_WITH_FINAL_READS = ("inconsistent-offsets", "lost-write")
"""Final readers would find more wrong than what was planted."""


def suits(anomaly: str, site: Site) -> bool:
    """Whether the anomaly can be planted here."""
    if site.last_poll_records < 4 or not site.next_count or site.round_ + 1 >= site.layout.rounds:
        return False
    if anomaly != "realtime-order":
        return site.record(-1).fate == OK
    # All of the first burst must be acknowledged, not first the one with the lowest offset, and before the
    # round's polls, which would otherwise read it before it was sent.
    members = _first_burst(site)
    ends = [site.end_of(each) for each in members]
    in_time = (members[0].burst + 1) // site.layout.round_bursts == site.round_
    return in_time and all(each.fate == OK for each in members) and min(ends) != ends[0]
