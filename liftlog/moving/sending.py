"""Packets on their way to the leader: some at once, in order, each expected at its offset (L6).

Where one is not stored none behind it is either. So at the first trouble nothing more is sent; the next
sender begins with what the target has.

A leader gets in order what comes by one of its subscriptions, and each of the stream's subjects is one. So
what is under way at any time comes by the same: parcels, which may come on any subject, follow the messages
that travel alone, and before one of another subscription all others are waited for.
"""

from __future__ import annotations

import asyncio
import contextlib

import nats.errors
from nats.aio.client import Client as NatsConnection
from nats.aio.msg import Msg

from liftlog.client.publisher import FAIL, OK, expecting, result_of
from liftlog.jetstream.blocks import publish_block
from liftlog.messages import ERR_HEADER, ERR_PARCEL, ERR_TOO_LARGE
from liftlog.moving.outgoing import Packet, parcel_headers
from liftlog.moving.plan import MovePlan
from liftlog.options.envelope import INCORRECT_OFFSET, TOO_LARGE, Envelope, open_ack, seal
from liftlog.options.envelope import OK as STORED
from liftlog.options.wishes import ALL
from liftlog.subjects.grammar import matches
from liftlog.types import LiftlogError

PACKETS_MAX = 256
BYTES_MAX = 4 * 1024 * 1024
"""So many packets, and about so many bytes, are under way at once."""
ACK_S = 5.0
NEVER = (ERR_PARCEL, ERR_TOO_LARGE, ERR_HEADER)
"""What a leader answers to a message that it will never take."""


class Trouble(LiftlogError):
    """A packet was not stored, or it is not known. `sure`: it never will be, as the stream is."""

    def __init__(self, text: str, sure: bool = False) -> None:
        super().__init__(text)
        self.sure = sure


class PacketSender:
    """Use as an async context manager. Everything raises Trouble after the first one."""

    def __init__(self, nats: NatsConnection, stored_to: int, plan: MovePlan) -> None:
        self._nats = nats
        self._patterns = plan.staged.subjects
        self._places = plan.provenance
        self._carrier = plan.packet_subject
        """On which parcels come."""
        self._inbox = ""
        self._waiting: dict[int, Packet] = {}
        """By offset; sent in order."""
        self._bytes = 0
        self._moved = asyncio.Event()
        self._trouble: Trouble | None = None
        self.stored_to = stored_to
        """Up to this offset everything is stored, as acks say."""

    async def __aenter__(self) -> PacketSender:
        self._inbox = self._nats.new_inbox() + "."
        try:
            self._subscription = await self._nats.subscribe(
                self._inbox + "*", cb=self._answered, pending_msgs_limit=-1, pending_bytes_limit=-1
            )
        except nats.errors.Error as error:
            raise Trouble(f"the target's NATS takes no subscription: {error}") from None
        return self

    async def __aexit__(self, *_: object) -> None:
        with contextlib.suppress(nats.errors.Error):
            await self._subscription.unsubscribe()

    async def send(self, packet: Packet) -> None:
        """Send one, once there is room for it."""
        if packet.block is not None and not self._is_in_line(packet.subject):
            await self.drain()
            self._carrier = packet.subject
        size = len(packet.body) + len(packet.block or b"")
        while self._waiting and (len(self._waiting) >= PACKETS_MAX or self._bytes + size > BYTES_MAX):
            await self._wait()
        if self._trouble is not None:
            raise self._trouble
        self._waiting[packet.offset] = packet
        self._bytes += size
        try:
            await self._publish(packet)
        except nats.errors.MaxPayloadError:
            raise self._too_large(packet) from None
        except nats.errors.Error as error:
            raise Trouble(f"the target's NATS takes no message: {error}") from None

    def _is_in_line(self, subject: str) -> bool:
        """Whether it comes by the subscription by which parcels come now."""
        both = self._carrier, subject
        return any(all(matches(pattern, one) for one in both) for pattern in self._patterns)

    def _too_large(self, packet: Packet) -> Trouble:
        limit = self._nats.max_payload
        text = f"sequence {self._places.seq(packet.offset)} ({len(packet.body)} bytes with what carries it)"
        return Trouble(f"{text} exceeds what the target's NATS takes ({limit}): raise its max_payload", True)

    async def _publish(self, packet: Packet) -> None:
        inbox = f"{self._inbox}{packet.offset}"
        if packet.block is None:
            headers = parcel_headers(expecting(packet.offset))
            await self._nats.publish(self._carrier, packet.body, reply=inbox, headers=headers)
            return
        body = seal(Envelope(offset=packet.offset, value=packet.body, ack_inbox=inbox, policy=ALL))
        if len(body) + len(packet.block) > self._nats.max_payload:
            raise nats.errors.MaxPayloadError
        await publish_block(self._nats, packet.subject, packet.block, body)

    async def drain(self) -> None:
        """Wait until all that was sent is stored."""
        while self._waiting:
            await self._wait()
        if self._trouble is not None:
            raise self._trouble

    async def _wait(self) -> None:
        """Until something is answered."""
        if self._trouble is not None:
            raise self._trouble
        self._moved.clear()
        try:
            async with asyncio.timeout(ACK_S):
                await self._moved.wait()
        except TimeoutError:
            self._trouble = Trouble("the target stored nothing in time; see 'liftlog cluster status'")
        if self._trouble is not None:
            raise self._trouble

    async def _answered(self, message: Msg) -> None:
        offset = int(message.subject[len(self._inbox) :])
        packet = self._waiting.get(offset)
        if packet is not None and self._trouble is None:
            self._trouble = self._of_parcel(packet, message) if packet.block is None else self._of_alone(
                packet, message
            )
            if self._trouble is None:
                del self._waiting[offset]
                self._bytes -= len(packet.body) + len(packet.block or b"")
                # Answers come in order: nothing is stored where what is before it is not.
                self.stored_to = max(self.stored_to, offset + packet.span)
        self._moved.set()

    def _of_parcel(self, packet: Packet, message: Msg) -> Trouble | None:
        result = result_of(packet.offset, message)
        if result.outcome != OK:
            sure = result.outcome == FAIL and result.code in NEVER
            seq = self._places.seq(packet.offset)
            return Trouble(f"sequence {seq} is not stored here: {result.error}", sure)
        return self._elsewhere(packet, result.offset)

    def _of_alone(self, packet: Packet, message: Msg) -> Trouble | None:
        ack = open_ack(message.data)
        if ack is None:
            return Trouble(f"an answer that is not liftlog's: {message.data[:100]!r}")
        if ack.error == INCORRECT_OFFSET:
            text = f"sequence {self._places.seq(packet.offset)} is not the next one here"
            return Trouble(f"{text}: what came before it is not stored, or somebody else writes there")
        if ack.error != STORED:
            text = "it is too large for the stream" if ack.error == TOO_LARGE else "it takes no messages now"
            seq = self._places.seq(packet.offset)
            text = f"sequence {seq} ({packet.subject}) is not stored here: {text}"
            return Trouble(text, ack.error == TOO_LARGE)
        return self._elsewhere(packet, ack.offset)

    def _elsewhere(self, packet: Packet, offset: int) -> Trouble | None:
        """A repetition is answered with the offset of the first message that has its id."""
        if offset == packet.offset:
            return None
        first, other = self._places.seq(offset), self._places.seq(packet.offset)
        return Trouble(f"sequence {other} has the id of {first}, which was stored a moment ago")
