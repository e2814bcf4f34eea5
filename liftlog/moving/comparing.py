"""Origin and copy, message by message: subject, headers and body under one digest."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from liftlog.moving.origin import JetStreamOrigin
from liftlog.moving.outgoing import Outgoing, outgoing
from liftlog.moving.plan import MovePlan, MoveWishes
from liftlog.moving.reading import OriginReading
from liftlog.moving.target import MoveTarget
from liftlog.types import Record


class CopyComparison(NamedTuple):
    """Of a range of sequences. `equal`: so many messages are on both sides and alike, and `digest` is over
    all of them, in order. `gone`: offsets of messages that the origin does not have any more. `difference`:
    the first one, in words; empty: there is none.
    """

    equal: int = 0
    gone: tuple[int, ...] = ()
    difference: str = ""
    digest: str = ""


class _Sides:
    """What has been compared."""

    def __init__(self, plan: MovePlan) -> None:
        self._plan = plan
        self._sum = hashlib.sha256()
        self.equal = 0
        self.gone: list[int] = []
        self.difference = ""

    def only_copied(self, record: Record) -> None:
        if record.subject.decode("utf-8", "replace") != self._plan.packet_subject:
            self.gone.append(record.offset)

    def both(self, one: Outgoing, record: Record) -> None:
        here = (record.subject, record.headers, record.value or b"")
        if (one.subject, one.block, one.body) == here:
            self.equal += 1
            for part in (one.offset.to_bytes(8), *here):
                self._sum.update(len(part).to_bytes(8) + part)
            return
        names = ("subject", "headers", "body")
        pairs = zip(names, (one.subject, one.block, one.body), here, strict=True)
        name, left, right = next(pair for pair in pairs if pair[1] != pair[2])
        self._differs(one, f"its {name} is {_shown(left)} at the origin, and {_shown(right)} here")

    def only_at_origin(self, one: Outgoing) -> None:
        self._differs(one, "it is not here")

    def _differs(self, one: Outgoing, how: str) -> None:
        seq = self._plan.provenance.seq(one.offset)
        subject = one.subject.decode("utf-8", "replace")
        self.difference = self.difference or f"sequence {seq} ({subject}) differs: {how}"

    def result(self) -> CopyComparison:
        return CopyComparison(self.equal, tuple(self.gone), self.difference, self._sum.hexdigest())


def _shown(part: bytes) -> str:
    return f"{part[:64]!r}" + (f"... ({len(part)} bytes)" if len(part) > 64 else "")


async def compare(
    origin: JetStreamOrigin,
    target: MoveTarget,
    plan: MovePlan,
    wishes: MoveWishes,
    offsets: range,
    came_to: Callable[[int], None],
) -> CopyComparison:
    """Compare what is at these offsets of the target, which must be stored, with the origin; `came_to` hears
    up to which sequence that is done. Ends at the first difference. Raises OriginAway, LiftlogError.
    """
    sides = _Sides(plan)
    records = target.records(offsets.start, offsets.stop)
    record = await anext(records, None)
    last = plan.provenance.seq(offsets.stop - 1)
    async with OriginReading(origin, plan.provenance.seq(offsets.start)) as reading:
        told = plan.provenance.seq(offsets.start) - 1
        while told < last and not sides.difference:
            chunk = await reading.next()
            told = max(told, chunk.told)
            came_to(min(told, last))
            for message in chunk.messages:
                if message.seq > last:
                    break
                one = outgoing(message, plan, wishes)
                while record is not None and record.offset < one.offset:
                    sides.only_copied(record)
                    record = await anext(records, None)
                if record is None or record.offset > one.offset:
                    sides.only_at_origin(one)
                else:
                    sides.both(one, record)
                    record = await anext(records, None)
    while record is not None and not sides.difference:
        sides.only_copied(record)
        record = await anext(records, None)
    await records.aclose()
    return sides.result()
