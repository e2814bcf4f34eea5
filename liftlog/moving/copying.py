"""The copying itself: rounds, each of which begins with what the target has, and ends at the first trouble.

What a round finds in the target that no ack has told of is compared with the origin first: an earlier process
may have written it, or somebody else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.moving.comparing import CopyComparison, compare
from liftlog.moving.origin import JetStreamOrigin, OriginAway, OriginStream
from liftlog.moving.outgoing import outgoing, packets
from liftlog.moving.plan import MovePlan, MoveWishes, plan_move
from liftlog.moving.reading import OriginChunk, OriginReading
from liftlog.moving.sending import PacketSender, Trouble
from liftlog.moving.target import MoveTarget
from liftlog.types import LiftlogError

T = TypeVar("T")

PAUSE_S = 0.25
"""Before another attempt."""
LOOK_BACK = 1000
"""So many of the last messages of a copy that was begun are compared before it goes on."""
FILLERS_AT_ONCE = 200_000
"""More of them are not left in the target."""
IDLE_MS = 1000
"""So long a mirror waits for a message before it looks around."""
PROGRESS_S = 1.0


class Tells(Protocol):
    """Is told what happens: an event's name, a sentence, and its numbers."""

    def __call__(self, event: str, text: str, **numbers: object) -> None: ...


class MoveBounds(NamedTuple):
    """`fillers`: more places of messages that are gone are not filled. `patience_s`: so long without progress
    what may pass is waited for.
    """

    fillers: int = 5_000_000
    patience_s: float = 60.0


class StreamCopying:
    """One copy on its way. `plan` follows the origin, if that is altered."""

    def __init__(
        self,
        origin: JetStreamOrigin,
        target: MoveTarget,
        plan: MovePlan,
        wishes: MoveWishes,
        bounds: MoveBounds,
        tell: Tells,
        stop: asyncio.Event,
    ) -> None:
        self._origin = origin
        self._target = target
        self.plan = plan
        self._wishes = wishes
        self._bounds = bounds
        self._tell = tell
        self._stop = stop
        self.stored_to = 0
        """Up to this offset the target has what the origin had: acks say so, or it was compared."""
        self._began = False
        self._fillers = 0
        self._fillers_here = 0
        """Those that are not deleted yet."""
        self._progress_s = self._told_s = 0.0
        self._trouble = ""
        self._said = (0, 0)

    @property
    def sequence(self) -> int:
        """The origin's last one that is stored here."""
        return self.plan.provenance.seq(self.stored_to) - 1

    # -- patience ------------------------------------------------------------------------------------------

    async def insist(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do it until it is done. What may pass is told once, and waited for; raises LiftlogError after
        `patience_s` without progress, and at once for what will not pass.
        """
        loop = asyncio.get_running_loop()
        self._progress_s = loop.time()
        while True:
            try:
                done = await work()
                self._trouble = ""
                return done
            except (OriginAway, Unreachable, RequestFailed, Trouble) as error:
                if isinstance(error, RequestFailed) and not error.retryable:
                    raise
                if isinstance(error, Trouble) and error.sure and not await self._altered():
                    raise
                waited_s = loop.time() - self._progress_s
                if self._stop.is_set() or waited_s > self._bounds.patience_s:
                    raise LiftlogError(f"{error}; start it again, and it goes on where it is") from None
                if str(error) != self._trouble:
                    self._trouble = str(error)
                    self._tell("trouble", f"{error}; trying again", stored=self.stored_to)
            await asyncio.sleep(PAUSE_S)

    async def look(self) -> OriginStream:
        """The origin as it is. Raises LiftlogError if it is another stream than this is a copy of."""
        found = await self._origin.stream()
        provenance = self.plan.provenance
        if found.created != provenance.created:
            raise LiftlogError(
                f"stream '{provenance.stream}' at the origin was deleted and made anew since this copy was "
                f"begun: remove '{self.plan.name}' here, and begin anew"
            )
        return found

    async def _altered(self) -> bool:
        """Whether the origin has another configuration now; if so the target gets it too."""
        plan = plan_move(await self.look(), self._wishes, self.plan.provenance)
        if plan == self.plan:
            return False
        await self._target.prepare(plan)
        self.plan = plan
        self._tell("altered", f"stream '{plan.provenance.stream}' was altered at the origin, and so here")
        return True

    async def was_compared(self, end: int) -> None:
        """Up to this offset both are alike: that is noted."""
        provenance = msgspec.structs.replace(self.plan.provenance, compared=end)
        self.plan = plan_move(await self.look(), self._wishes, provenance)
        await self._target.alter(self.plan.staged)

    def progressed(self) -> None:
        """Both answer, and nothing waits."""
        self._progress_s = asyncio.get_running_loop().time()

    async def compare(self, offsets: range) -> CopyComparison:
        """Compare what is at these offsets. Raises OriginAway, LiftlogError."""

        def came_to(seq: int) -> None:
            self.progressed()
            if self._progress_s - self._told_s >= PROGRESS_S:
                self._told_s = self._progress_s
                end = self.plan.provenance.seq(offsets.stop) - 1
                self._tell("comparing", f"comparing: sequence {seq} of {end}", sequence=seq, last=end)

        return await compare(self._origin, self._target, self.plan, self._wishes, offsets, came_to)

    # -- copying -------------------------------------------------------------------------------------------

    async def copy(self, last: int) -> None:
        """Copy up to this sequence, unless it is stopped. Raises LiftlogError."""
        await self.insist(lambda: self._round(last, None))

    async def mirror(self, near: Callable[[], Awaitable[None]]) -> None:
        """Copy what there is and what comes, until it is stopped; each time that all is copied, `near` is
        called. Raises LiftlogError.
        """
        await self.insist(lambda: self._round(None, near))

    async def _round(self, last: int | None, near: Callable[[], Awaitable[None]] | None) -> None:
        await self._altered()
        position = await self._begin()
        places = self.plan.provenance
        async with (
            PacketSender(self._target.client.nats, position, self.plan) as sender,
            OriginReading(self._origin, places.seq(position)) as reading,
        ):
            try:
                while not self._stop.is_set() and (last is None or places.seq(position) <= last):
                    chunk = await reading.next(IDLE_MS if last is None else 0)
                    told = chunk.told if last is None else min(chunk.told, last)
                    position = await self._send(sender, chunk, position, places.offset(told) + 1)
                    if sender.stored_to > self.stored_to or sender.stored_to == position:
                        self.progressed()
                    self.stored_to = max(self.stored_to, sender.stored_to)
                    await self._say_how_far(position)
                    if near is not None and reading.level:
                        await self._settle(sender)
                        await near()
                await self._settle(sender)
            finally:
                self.stored_to = max(self.stored_to, sender.stored_to)

    async def _begin(self) -> int:
        """Where to go on. What is there and was not written by us is compared."""
        await self._target.refresh()
        places, end = self.plan.provenance, await self._target.end()
        known = self.stored_to if self._began else max(places.first, end - LOOK_BACK)
        found = await self.look()
        if places.seq(end) > found.state.last_seq + 1:
            raise LiftlogError(
                f"'{self.plan.name}' has {end} messages, and '{places.stream}' ends at sequence "
                f"{found.state.last_seq}: something else was published to '{self.plan.name}'; remove it, and "
                "begin anew when nobody does"
            )
        if end > places.first and not self._began:
            # An earlier process may have left some.
            self._fillers_here = 1
        if end > known:
            result = await self.compare(range(known, end))
            if result.difference:
                raise LiftlogError(
                    f"'{self.plan.name}' is no copy of '{places.stream}': {result.difference}; was something "
                    "else published to it? Remove it, and begin anew when nobody does"
                )
        self._began, self.stored_to = True, end
        return end

    async def _send(self, sender: PacketSender, chunk: OriginChunk, position: int, until: int) -> int:
        """Send what a chunk tells, up to the offset `until`. Returns where it ends."""
        if until <= position:
            return position
        messages = (outgoing(message, self.plan, self._wishes) for message in chunk.messages)
        some = [message for message in messages if message.offset < until]
        for packet in packets(self.plan, some, position, until):
            if packet.fills:
                self._fillers += packet.span
                self._fillers_here += packet.span
                if self._fillers > self._bounds.fillers:
                    raise too_many(self._fillers, self._bounds.fillers)
            await sender.send(packet)
            if self._fillers_here >= FILLERS_AT_ONCE:
                await self._settle(sender)
                await self._say_how_far(sender.stored_to)
        return until

    async def _settle(self, sender: PacketSender) -> None:
        """Wait until all that was sent is stored, and delete the fillers among it."""
        await sender.drain()
        self.stored_to = sender.stored_to
        if self._fillers_here:
            await self._target.drop_fillers(self.plan, self.stored_to)
            self._fillers_here = 0
            self.progressed()

    async def _say_how_far(self, position: int) -> None:
        """Once a second, if there is something new to say."""
        now_s = asyncio.get_running_loop().time()
        if now_s - self._told_s < PROGRESS_S:
            return
        self._told_s = now_s
        last = (await self._origin.stream()).state.last_seq
        seq = self.plan.provenance.seq(position) - 1
        if (seq, last) == self._said:
            return
        self._said = seq, last
        lag = max(0, last - seq)
        self._tell("progress", f"sequence {seq} of {last}, {lag} to come", sequence=seq, last=last, lag=lag)


def too_many(fillers: int, most: int) -> LiftlogError:
    """Why a copy is not begun, or does not go on."""
    return LiftlogError(
        f"{fillers} sequences of the origin have no message any more, and each takes a place here that is "
        f"written and deleted again: more than {most}; allow more with --gaps-max N"
    )
