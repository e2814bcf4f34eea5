"""The leader's role: order, acknowledge, and take messages from NATS (R4, N1-N6).

What is committed and who is in the ISR is decided in `isr.py`; followers' fetches are answered in
`serving.py`.
"""

from __future__ import annotations

from collections import deque

from liftlog import headers
from liftlog.core.metadata.commands import UNSENT, LeaderReady, ReadyAgain, Resign
from liftlog.core.metadata.subjects import partition_subject
from liftlog.core.replica.role_state import LeaderState
from liftlog.core.replica.sequencer import sequence
from liftlog.core.replica.state import LogState
from liftlog.headers import Wishes
from liftlog.messages import (
    ERR_OVERLOAD,
    ERR_READ_ONLY,
    ERR_TOO_FEW_INSYNC,
    AckPublishes,
    Drain,
    Published,
    RefusePublishes,
    Subscribe,
    Unsubscribe,
)
from liftlog.types import Batch, Message

RETRY_MIN_MS, RETRY_MAX_MS = 500, 10_000
"""N1: pauses between attempts to subscribe while NATS refuses; they double."""
REFUSED_TURN_MS = 60_000
"""N5: for so long a leader that NATS refuses goes on trying when all the others were refused as well."""
RESIGN_AFTER_MS = 1000
"""N5: for so long a leader waits for NATS before it asks to be relieved."""


def read_only(stream: str) -> str:
    """R19: what a publisher is told."""
    return f"stream '{stream}' is read-only; to write to it again: liftlog stream alter {stream} --read-write"


class Inflight:
    """Publishes of one batch that wait for their commit."""

    __slots__ = ("base", "end", "full", "replies", "size")

    def __init__(
        self, base: int, end: int, replies: list[bytes] | None, full: list[bool] | None, size: int
    ) -> None:
        self.base = base
        self.end = end
        self.replies = replies
        self.full = full
        self.size = size

    def silence(self) -> None:
        """Nobody is to be answered."""
        self.replies = None


class Leader:
    """Publishing to one partition in one epoch. A new epoch gets a new object."""

    __slots__ = (
        "began_paused",
        "bus_down_ticks",
        "confirmed",
        "ctx",
        "draining",
        "inflight",
        "inflight_bytes",
        "leading",
        "log",
        "refusal",
        "refusals",
        "refused_ticks",
        "retry_ticks",
        "subscribed",
    )

    def __init__(self, log: LogState, leading: LeaderState) -> None:
        self.log = log
        self.leading = leading
        self.ctx = log.ctx
        self.inflight: deque[Inflight] = deque()
        self.inflight_bytes = 0
        self.subscribed = False
        self.confirmed = False
        """NATS has confirmed the subscription (N1)."""
        self.draining = False
        """N1: the stream was paused while this leader had a subscription, which ends."""
        self.began_paused = log.config is not None and bool(log.config.paused)
        self.refusal = ""
        """Why NATS did not let us subscribe when we last tried; empty if it did, or has not said yet."""
        self.refusals = 0
        self.refused_ticks = 0
        self.retry_ticks = 0
        self.bus_down_ticks = 0

    # -- life -------------------------------------------------------------------------------------

    def stop(self) -> None:
        """N3: nothing in flight is answered."""
        if any(inflight.replies is not None and any(inflight.replies) for inflight in self.inflight):
            self.ctx.mark("N3.unanswered")
        for inflight in self.inflight if self.ctx.mutants.step_down_acks else ():
            self._acknowledge(inflight.base, inflight.replies or [], inflight.full)
        self.inflight.clear()

    def subscribe(self) -> None:
        """N1, N2: only a leader that has contact to the controller takes messages."""
        ctx = self.ctx
        if self.subscribed or ctx.leaving or not ctx.bus_up or self.retry_ticks > 0 or self.paused:
            return
        if ctx.fenced:
            ctx.mark("N2.fenced-subscribe")
            return
        stream = ctx.metadata.by_id.get(self.log.id.stream)
        if stream is None:
            return
        self.subscribed = True
        config = stream.config
        ctx.effects.append(
            Subscribe(
                self.log.id,
                self.leading.epoch,
                partition_subject(config.subject, self.log.id.index),
                config.max_payload_bytes,
                config.ack_reply,
                config.name,
            )
        )
        if ctx.mutants.ready_before_confirmed:
            self._tell_ready()

    @property
    def paused(self) -> bool:
        """N1: whether the stream is, as far as this leader goes by that."""
        config = self.log.config
        if config is None or (self.ctx.mutants.paused_until_restart and self.began_paused):
            return False
        return bool(config.paused)

    def altered(self) -> None:
        """N1: the stream may be paused now, or not any more. What NATS has sent until it heard of that is
        taken and answered, as in an orderly stop.
        """
        if not self.paused:
            self.subscribe()
            return
        self.refusal = ""
        self.refusals = self.refused_ticks = self.retry_ticks = 0
        if self.subscribed and not self.draining:
            self.ctx.mark("N1.pause")
            self.draining = True
            self.drain()

    def unsubscribe(self) -> None:
        if self.subscribed:
            self.subscribed = self.confirmed = self.draining = False
            self.ctx.effects.append(Unsubscribe(self.log.id))

    def drain(self) -> None:
        """N3: an orderly stop. Take in what NATS has sent already, and no more; what commits is answered."""
        if self.subscribed:
            self.ctx.effects.append(Drain(self.log.id))

    def drained(self) -> None:
        """Nothing more comes from NATS."""
        if self.ctx.leaving:
            self.ctx.mark("N3.drained")
            self.subscribed = False
        elif self.draining:
            self.unsubscribe()
            # The pause may be over already.
            self.subscribe()

    @property
    def settled(self) -> bool:
        """Nothing more comes, and everything that came has been answered."""
        return not self.subscribed and not self.inflight

    def fence(self) -> None:
        """N2: contact to the controller is too old: take nothing more and answer nothing."""
        self.ctx.mark("N2.fenced")
        self.unsubscribe()
        for inflight in self.inflight:
            if inflight.replies is not None and any(inflight.replies):
                self.ctx.mark("N2.fenced-ack")
            if not self.ctx.mutants.fenced_leader_answers:
                inflight.silence()

    def bus_lost(self) -> None:
        self.subscribed = self.confirmed = self.draining = False
        self.retry_ticks = 0

    def on_subscribed(self) -> None:
        """NATS has confirmed our subscription (N1)."""
        if self.subscribed and not self.confirmed:
            self.confirmed = True
            self.refusal = ""
            self.refusals = self.refused_ticks = self.retry_ticks = 0
            self.ctx.mark("N1.ready")
            self._tell_ready()

    def on_refused(self, reason: str) -> None:
        """N1: NATS does not let us subscribe, or no longer. We try again, less and less often."""
        if not self.subscribed:
            return
        ctx = self.ctx
        if ctx.mutants.refusal_confirms:
            self.on_subscribed()
            return
        ctx.mark("N1.refused")
        self.subscribed = self.confirmed = self.draining = False
        self.refusal = reason
        self.retry_ticks = ctx.ticks_of(min(RETRY_MIN_MS << min(self.refusals, 10), RETRY_MAX_MS))
        self.refusals += 1
        self._tell_ready()

    def _tell_ready(self) -> None:
        """N1: until the group has heard it."""
        ctx, record = self.ctx, self.leading.record
        if self.draining or self.paused:
            return
        confirmed = self.confirmed or (self.subscribed and ctx.mutants.ready_before_confirmed)
        if confirmed and (not record.ready or ctx.node in record.refused):
            if record.paused_at > record.led_since:
                ctx.want(ReadyAgain(UNSENT, self.log.id, self.leading.epoch, record.paused_at))
            else:
                ctx.want(LeaderReady(UNSENT, self.log.id, self.leading.epoch))
        elif self.refusal and (record.ready or record.refused.get(ctx.node) != self.refusal):
            ctx.want(LeaderReady(UNSENT, self.log.id, self.leading.epoch, self.refusal))

    # -- publishing (R4, N4, N6) ------------------------------------------------------------------

    def publish(self, event: Published) -> bool:
        """Give messages their offsets and hand them to storage. Whether there were any to be stored."""
        ctx, log = self.ctx, self.log
        record = self.leading.record
        if ctx.fenced or not self.subscribed:
            if ctx.fenced:
                ctx.mark("N2.fenced-publish")
            return False
        messages, config = event.messages, log.config
        if config is not None and config.read_only:
            self._refuse(messages, ERR_READ_ONLY, read_only(config.name))
            ctx.mark("R19.read-only")
            return False
        if len(record.isr) < record.min_insync:
            ctx.mark("N4.too-few")
            messages = self._refuse(
                messages,
                ERR_TOO_FEW_INSYNC,
                f"{len(record.isr)} in sync, {record.min_insync} needed; try again later",
            )
        if self.inflight_bytes >= ctx.config.inflight_max_bytes:
            dropped = self._refuse(messages, ERR_OVERLOAD, "too much waits for replication; try again later")
            ctx.mark("N6.overload")
            for _ in dropped:
                ctx.mark("N6.dropped")
            return False
        wishes = headers.read(messages, self._name())
        if wishes is not None:
            messages, wishes = self._heed(messages, wishes)
        if not messages:
            return False
        batches = sequence(
            partition=log.id,
            base_offset=log.leo,
            epoch=self.leading.epoch,
            timestamp_ms=event.timestamp_ms,
            messages=messages,
            wishes=wishes,
            batch_max_bytes=ctx.config.batch_max_bytes,
            codec=config.codec if config is not None else "none",
        )
        self._track(batches, messages, wishes)
        log.append(batches)
        return True

    def _refuse(self, messages: list[Message], code: str, text: str) -> list[Message]:
        """N4: tell requesters that this epoch did not store it; return those who did not ask."""
        asked = [message for message in messages if message.reply]
        if asked:
            self.ctx.mark("N4.refused")
            self._tell_refused(asked, code, text)
        return [message for message in messages if not message.reply]

    def _heed(self, messages: list[Message], wishes: list[Wishes]) -> tuple[list[Message], list[Wishes]]:
        """L4: what asks for something that we do not do is not stored; returns the rest."""
        if self.ctx.mutants.header_ignored or all(wish.refusal is None for wish in wishes):
            return messages, wishes
        refused: dict[headers.Refusal, list[Message]] = {}
        kept = []
        for message, wish in zip(messages, wishes, strict=True):
            if wish.refusal is None:
                kept.append((message, wish))
            else:
                self.ctx.mark("L4.refused" if message.reply else "L4.dropped")
                refused.setdefault(wish.refusal, []).append(message)
        for refusal, those in refused.items():
            self._tell_refused(those, refusal.code, refusal.text)
        return [message for message, _ in kept], [wish for _, wish in kept]

    def _tell_refused(self, messages: list[Message], code: str, text: str) -> None:
        replies = [message.reply for message in messages]
        full = [headers.asks_full_ack(message.headers) for message in messages]
        self.ctx.effects.append(
            RefusePublishes(
                partition=self.log.id,
                stream=self._name(),
                epoch=self.leading.epoch,
                code=code,
                description=text,
                replies=replies,
                full=full if any(full) else None,
            )
        )

    def _track(self, batches: list[Batch], messages: list[Message], wishes: list[Wishes] | None) -> None:
        replies = [message.reply for message in messages]
        full = None if wishes is None else [wish.full_ack for wish in wishes]
        if full is not None and not any(full):
            full = None
        base = batches[0].base_offset
        for batch in batches:
            self.inflight_bytes += len(batch.data)
            first = batch.base_offset - base
            wanted: list[bytes] | None = replies[first : first + batch.count]
            wanted_full = None if full is None else full[first : first + batch.count]
            if self.ctx.mutants.ack_at_append and wanted is not None:
                self._acknowledge(batch.base_offset, wanted, wanted_full)
                wanted = None
            self.inflight.append(
                Inflight(batch.base_offset, batch.end_offset, wanted, wanted_full, len(batch.data))
            )

    def _acknowledge(self, base: int, replies: list[bytes], full: list[bool] | None) -> None:
        if any(replies):
            ctx, epoch = self.ctx, self.leading.epoch
            ctx.mark("R4.ack")
            ctx.effects.append(
                AckPublishes(
                    partition=self.log.id,
                    stream=self._name(),
                    epoch=epoch,
                    incarnation=ctx.incarnation,
                    offsets_from=base,
                    replies=replies,
                    full=full,
                )
            )

    def hw_moved(self) -> None:
        """Acknowledge what is committed now (R4)."""
        hw, inflight = self.log.hw, self.inflight
        while inflight and inflight[0].end <= hw:
            done = inflight.popleft()
            self.inflight_bytes -= done.size
            if done.replies is not None:
                self._acknowledge(done.base, done.replies, done.full)

    # -- time -------------------------------------------------------------------------------------

    def tick(self) -> None:
        self._watch_bus()
        self.retry_ticks = max(0, self.retry_ticks - 1)
        self.subscribe()
        self._tell_ready()

    def _watch_bus(self) -> None:
        """N5: a leader that has lost NATS, but not its peers, asks to be relieved."""
        ctx = self.ctx
        if ctx.bus_up:
            self.bus_down_ticks = 0
            self._watch_refusal()
            return
        self.bus_down_ticks += 1
        overdue = self.bus_down_ticks >= ctx.ticks_of(RESIGN_AFTER_MS)
        if overdue and ctx.decides(("N5.still-fenced", not ctx.fenced)):
            self.resign()

    def _watch_refusal(self) -> None:
        """N5: whom NATS refuses hands over to somebody who may be let in; if nobody is left, seldom."""
        ctx, record = self.ctx, self.leading.record
        if not self.refusal:
            return
        self.refused_ticks += 1
        after_ms = REFUSED_TURN_MS if ctx.metadata.refused_by_nats(record) else RESIGN_AFTER_MS
        if self.refused_ticks >= ctx.ticks_of(after_ms) and ctx.node in record.refused and not ctx.fenced:
            self.resign()

    def resign(self, slow: bool = False) -> None:
        """Ask the metadata group for another leader, if there can be one. To be repeated on each tick.

        R17: `slow` if it is for the sake of the others, which wait for our disk.
        """
        record, ctx = self.leading.record, self.ctx
        if any(node != ctx.node and ctx.metadata.is_live(node) for node in record.isr):
            ctx.mark("R17.handover" if slow else "N5.resign")
            ctx.want(Resign(UNSENT, self.log.id, self.leading.epoch, record.version, slow))

    def _name(self) -> str:
        stream = self.ctx.metadata.by_id.get(self.log.id.stream)
        return stream.config.name if stream is not None else ""
