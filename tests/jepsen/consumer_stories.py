"""What clients of durable consumers saw: each promise broken once, near misses, and random histories with
the definitions of docs/promises.md over operations instead of columns.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations
from typing import Any

from liftlog_jepsen.history import FINAL_POLL, History, HistoryWriter, Mop, Op
from tests.jepsen.promise_stories import Story

Broken = tuple[Any, ...]
NUMBER = 7
"""Of the consumer, where there is one."""


def made(story: Story, start: int | None = 0, limit: int | None = None, number: int = NUMBER) -> None:
    story.do(5, "create-consumer", Mop("consumer", story.key, start, number, limit))


def given(
    story: Story,
    *messages: tuple[int, int],
    recorded: int | None = None,
    epoch: int = 1,
    outcome: str = "ok",
    number: int = NUMBER,
) -> None:
    """Each message: offset and count."""
    mops = [Mop("deliver", story.key, offset, f"v{offset}", count) for offset, count in messages]
    story.do(6, "pull", Mop("pull", story.key, recorded, number, epoch), *mops, outcome=outcome)


def acked(story: Story, *offsets: int, journal: int | None, outcome: str = "ok", unknown: int = -1) -> None:
    mops = [Mop("settle", story.key, offset, NUMBER, journal) for offset in offsets]
    mops += [Mop("unknown-delivery", story.key, unknown, NUMBER)] if unknown >= 0 else []
    story.do(6, "ack", *mops, outcome=outcome)


def floor(story: Story, offset: int, outcome: str = "ok") -> None:
    story.do(6, "consumer-info", Mop("floor", story.key, offset, NUMBER), outcome=outcome)


def final(story: Story, count: int) -> None:
    story.final(9, *((offset, f"v{offset}") for offset in range(count)))


# -- broken --------------------------------------------------------------------------------------------------


def acked_again(story: Story) -> None:
    made(story)
    given(story, (0, 1), (1, 1), recorded=2)
    acked(story, 0, 1, journal=3)
    given(story, (1, 2), recorded=4)


def delivered_too_often(story: Story) -> None:
    made(story, limit=2)
    given(story, (0, 1))
    given(story, (0, 1), recorded=3, epoch=2)
    given(story, (0, 2), recorded=4, epoch=2)
    given(story, (0, 3), recorded=5, epoch=2)


def count_back(story: Story) -> None:
    given(story, (0, 1), recorded=2)
    given(story, (0, 2), recorded=3)
    given(story, (0, 2), recorded=4, epoch=2)


def unrecorded_again(story: Story) -> None:
    given(story, (0, 1), epoch=1)
    given(story, (0, 1), epoch=2)


def unrecorded_elsewhere(story: Story) -> None:
    story.do(1, "send", Mop("send", story.key, 0, "v0", 1))
    given(story, (0, 1), epoch=2)


def first_out_of_order(story: Story) -> None:
    given(story, (1, 1), recorded=3)
    given(story, (0, 1), recorded=4)


def delivered_otherwise(story: Story) -> None:
    story.sent(0, "another")
    given(story, (0, 1))


def skipped(story: Story) -> None:
    made(story)
    given(story, (0, 1), (2, 1), recorded=3)
    acked(story, 0, 2, journal=4)
    floor(story, 3)
    final(story, 4)


def done_unsaid(story: Story) -> None:
    made(story)
    given(story, (0, 1), (1, 1), recorded=3)
    acked(story, 1, journal=4)
    floor(story, 2)
    final(story, 2)


BROKEN = {
    "acked-again": acked_again,
    "delivered-too-often": delivered_too_often,
    "count-back": count_back,
    "unrecorded-again": unrecorded_again,
    "unrecorded-elsewhere": unrecorded_elsewhere,
    "first-out-of-order": first_out_of_order,
    "delivered-otherwise": delivered_otherwise,
    "skipped": skipped,
    "done-unsaid": done_unsaid,
}


# -- near misses ---------------------------------------------------------------------------------------------


def an_answer_that_came_after_the_ack(story: Story) -> None:
    """It was recorded before that, and somebody else has acked the delivery behind it."""
    made(story)
    slow = story.writer.invoke(8, "pull")
    given(story, (0, 2), recorded=3)
    acked(story, 0, journal=4)
    mops = Mop("pull", story.key, 2, NUMBER, 1), Mop("deliver", story.key, 0, "v0", 1)
    story.end(slow, *mops)
    floor(story, 1)
    final(story, 1)


def a_late_first_delivery_of_who_wrote_it(story: Story) -> None:
    """It has not noticed that another one leads, which knows the ack."""
    story.do(1, "send", Mop("send", story.key, 0, "v0", 1))
    given(story, (0, 1), recorded=3, epoch=2)
    acked(story, 0, journal=4)
    given(story, (0, 1), epoch=1)


def acks_that_do_not_count(story: Story) -> None:
    given(story, (0, 1), (1, 1), (2, 1), recorded=2)
    acked(story, 0, 1, journal=3, unknown=0)
    acked(story, 2, journal=None, outcome="info")
    given(story, (0, 2), (2, 2), recorded=4)


def once_more_than_the_limit(story: Story) -> None:
    made(story, limit=2)
    given(story, (0, 1))
    given(story, (0, 1), recorded=3, epoch=2)
    given(story, (0, 2), recorded=4, epoch=2)


def answers_that_never_came(story: Story) -> None:
    given(story, (0, 2), recorded=2, outcome="info")
    given(story, (0, 5), recorded=3)
    given(story, (1, 1), recorded=4)


def two_consumers(story: Story) -> None:
    made(story)
    given(story, (1, 1), recorded=3)
    acked(story, 1, journal=4)
    given(story, (1, 1), recorded=5, number=8)
    given(story, (0, 1), recorded=6, number=9)
    given(story, (0, 1), number=10)
    given(story, (0, 1), number=11)


def pulls_that_overlap(story: Story) -> None:
    slow = story.writer.invoke(8, "pull")
    given(story, (1, 1))
    story.end(slow, Mop("pull", story.key, None, NUMBER, 1), Mop("deliver", story.key, 0, "v0", 1))


def done_by_who_never_heard_so(story: Story) -> None:
    made(story, start=1)
    given(story, (1, 1), (2, 1), recorded=3)
    acked(story, 1, journal=None, outcome="info")
    acked(story, 2, journal=5)
    floor(story, 3)
    floor(story, 9, outcome="info")
    final(story, 4)


def not_said_of_whom(story: Story) -> None:
    """With a limit, or a filter, what nobody saw may be done."""
    made(story, limit=1)
    made(story, start=None, number=8)
    floor(story, 1)
    story.do(6, "consumer-info", Mop("floor", story.key, 1, 8))
    final(story, 1)


NEAR = (
    an_answer_that_came_after_the_ack,
    a_late_first_delivery_of_who_wrote_it,
    acks_that_do_not_count,
    once_more_than_the_limit,
    answers_that_never_came,
    two_consumers,
    pulls_that_overlap,
    done_by_who_never_heard_so,
    not_said_of_whom,
)


# -- the definitions -----------------------------------------------------------------------------------------


class ConsumersBruteForce:
    """All promises about the consumers of one log."""

    def __init__(self, history: History, key: str) -> None:
        self.key = key
        self.ops = sorted(history.ops(), key=lambda op: op.op_id)
        self.ok = [op for op in self.ops if op.outcome == "ok"]
        self.spoiled = {op.process for op in self.ops if op.f == FINAL_POLL and op.outcome != "ok"}

    def mops(self, f: str, ops: list[Op]) -> list[tuple[Op, Mop]]:
        return [(op, mop) for op in ops for mop in op.mops if mop.f == f and mop.key == self.key]

    def check(self) -> set[Broken]:
        names = ("consumer", "pull", "settle", "unknown-delivery", "floor")
        numbers = {mop.value for f in names for _, mop in self.mops(f, self.ops)}
        return {
            (name, self.key, str(number), offset) for number in numbers for name, offset in self.of(number)
        }

    def given(self, number: Any) -> list[tuple[Op, Mop, Mop]]:
        """Operation, pull, delivery."""
        return [
            (op, pull, mop)
            for op, pull in self.mops("pull", self.ok)
            if pull.value == number
            for mop in op.mops
            if mop.f == "deliver" and mop.key == self.key
        ]

    def of(self, number: Any) -> Iterator[tuple[str, int]]:
        given = self.given(number)
        created = [mop for _, mop in self.mops("consumer", self.ok) if mop.value == number]
        limit = max((mop.epoch for mop in created if mop.epoch is not None), default=None)
        start = min((mop.offset for mop in created if mop.offset is not None), default=None)
        for offset in {mop.offset or 0 for _, _, mop in given}:
            its = [one for one in given if one[2].offset == offset]
            yield from ((name, offset) for name in self.message(number, offset, its, limit))
        yield from (("first-out-of-order", offset) for offset in self.late(given))
        floors = [mop.offset or 0 for _, mop in self.mops("floor", self.ok) if mop.value == number]
        if start is not None and limit is None and floors:
            asked = {
                mop.offset
                for op, mop in self.mops("settle", self.ops)
                if op.outcome != "fail" and mop.value == number
            }
            seen = {mop.offset for _, _, mop in given}
            for op, mop in self.mops("poll", self.ok):
                final = op.f == FINAL_POLL and op.process not in self.spoiled
                if final and mop.offset is not None and start <= mop.offset < max(floors):
                    if mop.offset not in seen:
                        yield "skipped", mop.offset
                    elif mop.offset not in asked:
                        yield "done-unsaid", mop.offset

    def message(
        self, number: Any, offset: int, its: list[tuple[Op, Mop, Mop]], limit: int | None
    ) -> Iterator[str]:
        counts = [mop.epoch or 0 for _, _, mop in its]
        records = [(pull.offset, mop.epoch or 0) for _, pull, mop in its if pull.offset is not None]
        bare = [(pull.epoch, mop.epoch) for _, pull, mop in its if pull.offset is None]
        for op, mop in self.mops("settle", self.ok):
            unknown = [m.offset for _, m in self.mops("unknown-delivery", [op]) if m.value == number]
            if (mop.value, mop.offset) != (number, offset) or offset in unknown or mop.epoch is None:
                continue
            if any(record > mop.epoch for record, _ in records):
                yield "acked-again"
        if limit is not None and (len(its) > limit + 1 or max(counts) > limit):
            yield "delivered-too-often"
        for one, two in combinations(sorted(records), 2):
            if two[1] <= one[1]:
                yield "count-back"
        if len(bare) > 1 or any(count != 1 for _, count in bare):
            yield "unrecorded-again"
        sends = [mop for _, mop in self.mops("send", self.ok) if mop.offset == offset]
        polls = [mop for _, mop in self.mops("poll", self.ok) if mop.offset == offset]
        if any(mop.epoch is not None and mop.epoch != epoch for mop in sends for epoch, _ in bare):
            yield "unrecorded-elsewhere"
        if any(known.value != mop.value for known in sends + polls for _, _, mop in its):
            yield "delivered-otherwise"

    def late(self, given: list[tuple[Op, Mop, Mop]]) -> Iterator[int]:
        firsts = [one for one in given if one[2].epoch == 1]
        for op, pull, mop in firsts:
            for other, others_pull, higher in firsts:
                if (higher.offset or 0) <= (mop.offset or 0):
                    continue
                behind = None not in (pull.offset, others_pull.offset)
                behind = behind and (others_pull.offset or 0) < (pull.offset or 0)
                ended = other.idx_ret is not None and other.idx_ret < op.idx_inv
                if behind or (ended and pull.epoch == others_pull.epoch):
                    yield mop.offset or 0


def random_consumers(rng: random.Random) -> History:
    """Makes sense about half of the time."""
    writer = HistoryWriter("consumers", clock_ns=iter(range(10**6)).__next__)
    open_ops: dict[int, tuple[int, list[Mop]]] = {}
    journal = 0

    def operation() -> tuple[str, list[Mop]]:
        nonlocal journal
        key, number, offset = rng.choice(("k", "k", "k", "j")), rng.choice((3, 3, 3, 5)), rng.randrange(4)
        kind = rng.randrange(10)
        if kind == 0:
            return "send", [Mop("send", key, offset, f"v{offset}", rng.choice((1, 1, 2, None)))]
        if kind == 1:
            start, limit = rng.choice((0, 0, 1, None)), rng.choice((None, None, None, 1, 2))
            return "create-consumer", [Mop("consumer", key, start, number, limit)]
        if kind <= 4:
            journal += rng.choice((0, 1, 1))
            record, epoch = rng.choice((None, journal, journal)), rng.choice((1, 1, 2))
            messages = sorted(rng.sample(range(4), rng.randrange(1, 3)))
            values = [f"v{n}" if rng.random() < 0.9 else "x" for n in messages]
            mops = [
                Mop("deliver", key, n, value, rng.choice((1, 1, 2)))
                for n, value in zip(messages, values, strict=True)
            ]
            return "pull", [Mop("pull", key, record, number, epoch), *mops]
        if kind == 5:
            journal += 1
            mops = [Mop("settle", key, offset, number, rng.choice((journal, None)))]
            if rng.random() < 0.3:
                mops.append(Mop("unknown-delivery", key, rng.randrange(4), number))
            return "ack", mops
        if kind <= 7:
            return "consumer-info", [Mop("floor", key, offset, number)]
        return FINAL_POLL, [Mop("poll", key, n, f"v{n}") for n in range(offset + 1)]

    for _ in range(rng.randrange(10, 50)):
        process = rng.randrange(4)
        if process in open_ops:
            op_id, mops = open_ops.pop(process)
            writer.mops(op_id, mops)
            rng.choice((writer.ok, writer.ok, writer.ok, writer.ok, writer.fail, writer.info))(op_id)
        else:
            f, mops = operation()
            open_ops[process] = (writer.invoke(process, f), mops)
    for op_id, mops in open_ops.values():
        writer.mops(op_id, mops)
    return writer.close()
