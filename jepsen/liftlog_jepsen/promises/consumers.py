"""Durable consumers: acks stay, deliveries are bounded, nothing is skipped (K3, K4, K6 of spec/README.md).

A consumer has a number in its log. A `pull` fact says for which consumer an answer is, in which epoch, and
where in the journal its record ends, or that it left without one; the `deliver` facts behind it count the
deliveries of each message. `settle` facts say what was acked, or given up, and below which offset of the
journal that stands.

- `acked-again`: an ack was answered, and a delivery of the message has its record behind what that named.
- `delivered-too-often`: more deliveries than the consumer's limit and one, or a count above the limit.
- `count-back`: in the order of the journal, a delivery's count is not above that of the one before.
- `unrecorded-again`: a delivery without a record is not the first, or not the only one of its kind.
- `unrecorded-elsewhere`: a delivery without a record is of another epoch than the message.
- `first-out-of-order`: a message was given for the first time behind one with a higher offset, by their
  records; or, in one epoch, when the other answer had ended before.
- `delivered-otherwise`: a message that was given has another value than who sent or read it knows.
- `skipped`: all below a floor is said to be done, a final read has a message there, and nobody was given it.
- `done-unsaid`: the same, but somebody was given it, and nobody ever asked to have it settled.
"""

from __future__ import annotations

import numpy as np

from liftlog_jepsen.promises.columns import (
    CONSUMER,
    DELIVER,
    FAIL,
    FINAL,
    FLOOR,
    NONE,
    OK,
    POLL,
    PULL,
    SEND,
    SETTLE,
    UNKNOWN_DELIVERY,
    Ints,
    PromiseFindings,
    Rows,
    factorize,
    greatest_before,
)

NAMING = (CONSUMER, PULL, SETTLE, UNKNOWN_DELIVERY, FLOOR)
"""Facts whose value is a consumer's number."""


def check_consumers(rows: Rows, found: PromiseFindings) -> None:
    naming = np.isin(rows.kind, NAMING)
    if naming.any():
        _Consumers(rows.pick(np.isin(rows.log, rows.log[naming])), found).check()


class _Consumers:
    """Of some logs. `who` and `message` are numbers of a row's consumer, and of that and its offset."""

    def __init__(self, rows: Rows, found: PromiseFindings) -> None:
        self.rows, self.found = rows, found
        places = np.arange(len(rows.op))
        pull = np.maximum.accumulate(np.where(rows.kind == PULL, places, -1))
        pull = np.where((pull >= 0) & (rows.op[pull] == rows.op) & (rows.log[pull] == rows.log), pull, -1)
        named = np.where(np.isin(rows.kind, NAMING), places, np.where(rows.kind == DELIVER, pull, -1))
        self.named = named
        self.who, _ = factorize(rows.log, np.where(named >= 0, rows.text[named], -1))
        self.message, _ = factorize(self.who, rows.offset)
        self.place, _ = factorize(rows.log, rows.offset)
        """Number of the log and offset."""
        given = (rows.kind == DELIVER) & (named >= 0) & (rows.outcome == OK)
        self.given = np.flatnonzero(given & (rows.offset != NONE) & (rows.epoch != NONE))
        self.count = rows.epoch
        self.record = np.where(named >= 0, rows.offset[named], NONE)
        """Of a delivery: where its record ends, or NONE."""
        self.epoch = np.where(named >= 0, rows.epoch[named], NONE)
        created = np.flatnonzero((rows.kind == CONSUMER) & (rows.outcome == OK))
        self.limit, self.start = (np.full(int(self.who.max()) + 1, NONE, np.int64) for _ in range(2))
        """By consumer; NONE where there is none, or it is not said."""
        np.maximum.at(self.limit, self.who[created], rows.epoch[created])
        from_where = created[rows.offset[created] != NONE]
        from_where = from_where[np.argsort(-rows.offset[from_where], kind="stable")]
        self.start[self.who[from_where]] = rows.offset[from_where]  # Of several, the least.

    def check(self) -> None:
        unrecorded = self.record[self.given] == NONE
        recorded, unrecorded = self.given[~unrecorded], self.given[unrecorded]
        self._check_acks(recorded)
        self._check_limits()
        self._check_counts(recorded)
        self._check_unrecorded(unrecorded)
        self._check_epochs(unrecorded)
        self._check_order(recorded)
        self._check_values()
        self._check_done()

    def _tell(self, anomaly: str, places: Ints, others: Ints, **more: Ints) -> None:
        """Once for each message, the first of its places. `others`: rows that show it too, -1 for none."""
        rows, seen = self.rows, set[int]()
        for at, (place, other) in enumerate(zip(places.tolist(), others.tolist(), strict=True)):
            if int(self.message[place]) in seen:
                continue
            seen.add(int(self.message[place]))
            ops = [int(rows.op[place])] if other < 0 else [int(rows.op[other]), int(rows.op[place])]
            told = {name: int(column[at]) for name, column in more.items()}
            self.found.add(
                rows.name(place),
                anomaly,
                ops,
                offset=int(rows.offset[place]),
                value=rows.value(place),
                other_value=rows.value(other) if other >= 0 else None,
                process=int(rows.process[place]),
                subject=rows.value(int(self.named[place])),
                **told,
            )

    def _check_acks(self, recorded: Ints) -> None:
        rows = self.rows
        asked, known = rows.kind == SETTLE, (rows.outcome == OK) & (rows.epoch != NONE)
        answer, _ = factorize(self.message, rows.op)
        unknown = np.isin(answer, answer[rows.kind == UNKNOWN_DELIVERY])
        acked = np.flatnonzero(asked & known & ~unknown)
        earliest = acked[np.argsort(-rows.epoch[acked], kind="stable")]
        ack = np.full(int(self.message.max()) + 1, -1, np.int64)
        ack[self.message[earliest]] = earliest
        its = ack[self.message[recorded]]
        again = (its >= 0) & (self.record[recorded] > rows.epoch[its])
        places, its = recorded[again], its[again]
        self._tell("acked-again", places, its, sequence=self.record[places], other_sequence=rows.epoch[its])

    def _check_limits(self) -> None:
        size = int(self.message.max()) + 1
        times, most = np.zeros(size, np.int64), np.zeros(size, np.int64)
        np.add.at(times, self.message[self.given], 1)
        np.maximum.at(most, self.message[self.given], self.count[self.given])
        last = np.full(size, -1, np.int64)
        last[self.message[self.given]] = self.given
        its, limit = self.message[self.given], self.limit[self.who[self.given]]
        often = (limit != NONE) & ((times[its] > limit + 1) | (most[its] > limit))
        places, its, limit = self.given[often], its[often], limit[often]
        others = np.where(last[its] == places, -1, last[its])
        self._tell(
            "delivered-too-often",
            places,
            others,
            sequence=times[its],
            other_sequence=most[its],
            expected=limit,
        )

    def _check_counts(self, recorded: Ints) -> None:
        order = recorded[np.lexsort((self.count[recorded], self.record[recorded], self.message[recorded]))]
        one, two = order[:-1], order[1:]
        back = (self.message[one] == self.message[two]) & (self.count[two] <= self.count[one])
        one, two = one[back], two[back]
        self._tell("count-back", two, one, sequence=self.count[two], other_sequence=self.count[one])

    def _check_unrecorded(self, unrecorded: Ints) -> None:
        order = unrecorded[np.argsort(self.message[unrecorded], kind="stable")]
        before = np.full(len(order), -1, np.int64)
        same = self.message[order[1:]] == self.message[order[:-1]]
        before[1:] = np.where(same, order[:-1], -1)
        again = (before >= 0) | (self.count[order] != 1)
        self._tell("unrecorded-again", order[again], before[again], sequence=self.count[order[again]])

    def _check_epochs(self, unrecorded: Ints) -> None:
        rows = self.rows
        sends = np.flatnonzero((rows.kind == SEND) & (rows.outcome == OK) & (rows.epoch != NONE))
        sender = self._differing(sends, rows.epoch, unrecorded, self.epoch)
        wrong = sender >= 0
        places, sender = unrecorded[wrong], sender[wrong]
        self._tell(
            "unrecorded-elsewhere",
            places,
            sender,
            epoch=self.epoch[places],
            other_epoch=rows.epoch[sender],
        )

    def _differing(self, known: Ints, its: Ints, asked: Ints, said: Ints) -> Ints:
        """For each row asked about one of those known of its offset that says something else, -1 if none."""
        low, high = (np.full(int(self.place.max()) + 1, -1, np.int64) for _ in range(2))
        order = known[np.argsort(its[known], kind="stable")]
        high[self.place[order]] = order
        low[self.place[order[::-1]]] = order[::-1]
        least, most = low[self.place[asked]], high[self.place[asked]]
        other = np.where((least >= 0) & (its[least] != said[asked]), least, -1)
        return np.where((most >= 0) & (its[most] != said[asked]), most, other)

    def _check_order(self, recorded: Ints) -> None:
        """Along the journal, and, within an epoch, as answers followed each other."""
        rows = self.rows
        by_epoch, _ = factorize(self.who, self.epoch)
        one, one_before = self._behind(recorded, self.who, self.record, self.record)
        two, two_before = self._behind(self.given, by_epoch, rows.ret, rows.inv)
        places, others = np.concatenate([one, two]), np.concatenate([one_before, two_before])
        self._tell("first-out-of-order", places, others, other_offset=rows.offset[others])

    def _behind(self, places: Ints, group: Ints, ended: Ints, begun: Ints) -> tuple[Ints, Ints]:
        """The first deliveries among these whose group had given a higher offset before, and that one."""
        offset = self.rows.offset
        firsts = places[self.count[places] == 1]
        its = group[firsts]
        before = greatest_before(its, ended[firsts], offset[firsts], its, begun[firsts])
        firsts, before = firsts[before >= 0], firsts[before[before >= 0]]
        late = offset[before] > offset[firsts]
        return firsts[late], before[late]

    def _check_values(self) -> None:
        rows = self.rows
        stored = np.isin(rows.kind, (SEND, POLL)) & (rows.outcome == OK) & (rows.offset != NONE)
        other = self._differing(np.flatnonzero(stored), rows.text, self.given, rows.text)
        self._tell("delivered-otherwise", self.given[other >= 0], other[other >= 0])

    def _check_done(self) -> None:
        """What lies below the highest floor that was told of each consumer without a limit."""
        rows = self.rows
        floors = np.flatnonzero((rows.kind == FLOOR) & (rows.outcome == OK) & (rows.offset != NONE))
        highest = np.full(len(self.start), -1, np.int64)
        order = floors[np.argsort(rows.offset[floors], kind="stable")]
        highest[self.who[order]] = order
        finals = (rows.role == FINAL) & (rows.kind == POLL) & (rows.outcome == OK) & (rows.offset != NONE)
        for floor in highest[(highest >= 0) & (self.start != NONE) & (self.limit == NONE)].tolist():
            who = self.who[floor]
            there = np.flatnonzero(finals & (rows.log == rows.log[floor]) & (rows.offset >= self.start[who]))
            there = there[rows.offset[there] < rows.offset[floor]]
            _, first = np.unique(rows.offset[there], return_index=True)
            there = there[first]
            mine = self.given[self.who[self.given] == who]
            given = np.isin(rows.offset[there], rows.offset[mine])
            asked = (rows.kind == SETTLE) & (self.who == who) & (rows.outcome != FAIL)
            said = np.isin(rows.offset[there], rows.offset[asked])
            self._tell_done("skipped", there[~given], floor)
            self._tell_done("done-unsaid", there[given & ~said], floor)

    def _tell_done(self, anomaly: str, there: Ints, floor: int) -> None:
        rows = self.rows
        for place in there.tolist():
            self.found.add(
                rows.name(place),
                anomaly,
                [int(rows.op[place]), int(rows.op[floor])],
                value=rows.value(place),
                offset=int(rows.offset[place]),
                other_offset=int(rows.offset[floor]),
                process=int(rows.process[floor]),
                subject=rows.value(floor),
            )
