"""A move from its beginning to its end: plan, copy, compare, make consumers, open.

While a stream is being copied it is nobody's: it has a note that says so, and hardly a limit of its own. It
is ready after one alteration, made when both are alike and the origin has stood still meanwhile.
"""

from __future__ import annotations

import asyncio
import functools
from typing import NamedTuple

import nats.errors

from liftlog.client.client import Client
from liftlog.moving.copying import MoveBounds, StreamCopying, Tells, too_many
from liftlog.moving.origin import JetStreamOrigin, OriginStream
from liftlog.moving.plan import MovePlan, MoveWishes, plan_move
from liftlog.moving.positions import ConsumerPlan, make_consumer, plan_consumers
from liftlog.moving.target import MoveTarget
from liftlog.types import LiftlogError

HEARD_S = 0.5
"""So long a message has to come from the target's NATS to the origin's."""
ROUNDS = 3
"""So often the origin may have got messages while both were compared."""
COMPARED_EVERY = 10_000
"""A mirror is compared with the origin once so many messages were copied."""
LOOKS, LOOK_S = 20, 0.1
"""So often, and so far apart, messages are counted."""


class Differs(LiftlogError):
    """Origin and copy are not alike."""


class Outlook(NamedTuple):
    """What a move would do."""

    plan: MovePlan
    origin: OriginStream
    consumers: ConsumerPlan
    fillers: int
    begun: bool


class Moved(NamedTuple):
    """What a move has done. `late`: messages that the origin got after it was seen to stand still."""

    messages: int
    last_seq: int
    consumers: ConsumerPlan
    digest: str
    late: int


class Move:
    """Moves one stream. Everything raises LiftlogError."""

    def __init__(
        self, origin: JetStreamOrigin, client: Client, wishes: MoveWishes, bounds: MoveBounds, tell: Tells
    ) -> None:
        self._origin = origin
        self._client = client
        self._wishes = wishes
        self._bounds = bounds
        self._tell = tell
        self._target = MoveTarget(client, wishes.name or origin.place.stream)
        self._digest = ""

    async def outlook(self) -> Outlook:
        """What would be done. Nothing is, and what cannot be is an error."""
        there = await self._target.look()
        origin = await self._origin.stream()
        plan = plan_move(origin, self._wishes, there)
        consumers = plan_consumers(await self._origin.consumers(), plan, self._wishes)
        await self._refuse_loop(plan)
        done = await self._target.end() if there is not None else 0
        # Of what is done nobody knows how much of it was filled.
        last = plan.provenance.offset(origin.state.last_seq) + 1
        fillers = max(0, last - max(done, plan.provenance.first + origin.state.messages))
        if fillers > self._bounds.fillers:
            raise too_many(fillers, self._bounds.fillers)
        return Outlook(plan, origin, consumers, fillers, there is not None)

    async def _refuse_loop(self, plan: MovePlan) -> None:
        """What is published to the target must not come back to the origin's streams."""
        if not await self._origin_hears():
            return
        for subject in dict.fromkeys((*plan.ready.subjects, plan.packet_subject)):
            names = await self._origin.streams_of(subject)
            if names:
                raise LiftlogError(
                    f"the origin is in the same NATS account as this cluster, and its stream '{names[0]}' "
                    f"takes what is published on {subject!r}: each message would be kept by both; give "
                    "liftlog's nodes an account of their own, or the origin's stream other subjects "
                    "(docs/moving.md)"
                )

    async def _origin_hears(self) -> bool:
        """Whether what we publish as clients of the cluster comes to clients of the origin."""
        origin = self._origin.nats
        inbox = origin.new_inbox()
        try:
            subscription = await origin.subscribe(inbox)
            await origin.flush()
            await self._client.nats.publish(inbox, b"")
            try:
                await subscription.next_msg(HEARD_S)
            except nats.errors.TimeoutError:
                return False
            finally:
                await subscription.unsubscribe()
        except nats.errors.Error as error:
            raise LiftlogError(f"cannot see whether both are one NATS account: {error}") from None
        return True

    async def begin(self, outlook: Outlook, stop: asyncio.Event) -> StreamCopying:
        """Have a target to copy to. What is done with it ends where it is once `stop` is set."""
        await self._target.prepare(outlook.plan)
        return StreamCopying(
            self._origin,
            self._target,
            outlook.plan,
            self._wishes,
            bounds=self._bounds,
            tell=self._tell,
            stop=stop,
        )

    # -- a mirror ------------------------------------------------------------------------------------------

    async def follow(self, copying: StreamCopying) -> int:
        """Copy what comes until it is stopped. Returns the sequence up to which all is copied."""
        said = False

        async def near() -> None:
            nonlocal said
            compared = copying.plan.provenance.compared
            if copying.stored_to - compared >= (COMPARED_EVERY if said else 1):
                await self._compare(copying, compared)
            if not said:
                said = True
                seq = copying.sequence
                self._tell(
                    "caught-up",
                    f"'{copying.plan.name}' has caught up, at sequence {seq}. To cut over: stop what "
                    "publishes to the origin, end this command (Ctrl-C), and run it again without --follow",
                    sequence=seq,
                )

        await copying.mirror(near)
        return copying.sequence

    # -- cutting over --------------------------------------------------------------------------------------

    async def cut_over(self, copying: StreamCopying) -> Moved:
        """Copy the rest, compare, make the consumers, and open it."""
        last = await self._until_alike(copying)
        plan = copying.plan
        found = await copying.insist(self._origin.consumers)
        consumers = plan_consumers(found, plan, self._wishes)
        await copying.insist(self._target.refresh)
        for one in consumers.made:
            await copying.insist(functools.partial(make_consumer, self._client, self._target.stream, one))
        found_last = (await copying.insist(copying.look)).state.last_seq
        if found_last != last:
            raise _got_more(found_last - last)
        messages = await copying.insist(self._target.messages)
        await copying.insist(lambda: self._target.finish(plan))
        late = max(0, (await self._origin.stream()).state.last_seq - last)
        return Moved(messages, last, consumers, self._digest, late)

    async def _until_alike(self, copying: StreamCopying) -> int:
        """Copy until both are alike and the origin has no more. Returns the last sequence."""
        found = await copying.insist(copying.look)
        for _ in range(ROUNDS):
            last = found.state.last_seq
            await copying.copy(last)
            if copying.sequence < last:
                raise LiftlogError("it was stopped; start it again, and it goes on where it is")
            await self._compare(copying, copying.plan.provenance.compared)
            found = await copying.insist(copying.look)
            if not await self._has_as_many(copying, found.state.messages):
                await self._compare(copying, copying.plan.provenance.first)
                found = await copying.insist(copying.look)
                ours = await copying.insist(self._target.messages)
                if ours < found.state.messages:
                    text = f"'{copying.plan.name}' has {ours} messages, the origin {found.state.messages}"
                    raise Differs(f"{text}: were some deleted here?")
            if found.state.last_seq == last:
                return last
        raise _got_more(found.state.last_seq - last)

    async def _has_as_many(self, copying: StreamCopying, messages: int) -> bool:
        """Whether both have as many messages; what the target deletes by itself takes it a moment."""
        for _ in range(LOOKS):
            ours = await copying.insist(self._target.messages)
            if ours <= messages:
                return ours == messages
            await asyncio.sleep(LOOK_S)
        return False

    async def _compare(self, copying: StreamCopying, begin: int) -> None:
        """Compare from the offset `begin` on, delete what the origin has deleted, note how far it went."""
        plan, end = copying.plan, copying.stored_to
        if begin >= end:
            return
        result = await copying.insist(lambda: copying.compare(range(begin, end)))
        if result.difference:
            raise Differs(f"'{plan.name}' is not what '{plan.provenance.stream}' is: {result.difference}")
        await copying.insist(lambda: self._target.delete(result.gone))
        await copying.insist(lambda: copying.was_compared(end))
        places = plan.provenance
        self._digest = result.digest
        gone = f", {len(result.gone)} deleted that the origin has no more" if result.gone else ""
        self._tell(
            "compared",
            f"sequences {places.seq(begin)} to {places.seq(end) - 1}: {result.equal} messages are alike"
            f"{gone} (sha256 {result.digest[:16]})",
            equal=result.equal,
            gone=len(result.gone),
            digest=result.digest,
            first=places.seq(begin),
            last=places.seq(end) - 1,
        )


def _got_more(messages: int) -> LiftlogError:
    return LiftlogError(
        f"the origin has got {messages} messages meanwhile: stop what publishes to it, and run this again; "
        "until then --follow keeps the copy near"
    )
