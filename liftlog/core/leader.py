"""The leader's role: order, commit, acknowledge, keep the ISR true (R2, R4, R10, R11, N1-N4).

A leader's view of ISR, minimum and version is the metadata it has applied, nothing else. What it has asked
for and not yet seen decided (`pending`) counts on the unfavourable side: a pending addition must hold every
record before it commits, a pending removal still must. Answers to followers' fetches are in `serving.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

from liftlog import headers
from liftlog.core.commands import UNSENT, ChangeIsr, LeaderReady, Resign
from liftlog.core.purge import Purges
from liftlog.core.sequencer import sequence
from liftlog.core.serving import Serving
from liftlog.core.subjects import partition_subject
from liftlog.headers import Wishes
from liftlog.messages import (
    ERR_OVERLOAD,
    ERR_TOO_FEW_INSYNC,
    AckPublishes,
    Drain,
    Fetch,
    Published,
    RefusePublishes,
    Subscribe,
    Unsubscribe,
)
from liftlog.types import Batch, Message

if TYPE_CHECKING:
    from liftlog.core.records import PartitionState
    from liftlog.core.replica import Replica


RETRY_MIN_MS, RETRY_MAX_MS = 500, 10_000
"""N1: pauses between attempts to subscribe while NATS refuses; they double."""
REFUSED_TURN_MS = 60_000
"""N5: for so long a leader that NATS refuses goes on trying when all the others were refused as well."""
RESIGN_AFTER_MS = 1000
"""N5: for so long a leader waits for NATS before it asks to be relieved."""


class FollowerState:
    """What the leader knows of one follower, from fetches of this epoch and of one incarnation only (R2)."""

    __slots__ = (
        "clean_point",
        "durable",
        "incarnation",
        "lag_ticks",
        "leo",
        "log_start",
        "mark",
        "parked",
        "parked_ticks",
        "request",
        "sent_hw",
        "sent_start",
    )

    def __init__(self, incarnation: int, leo: int) -> None:
        self.incarnation = incarnation
        self.durable = -1
        """Durable LEO of the follower, -1 until a fetch of this epoch passed the epoch check."""
        self.leo = -1
        """The greatest offset that it has asked for in this epoch, behind a log that is a prefix of ours."""
        self.mark = leo
        """R11: the follower is caught up each time its durable LEO reaches the LEO noted here."""
        self.lag_ticks = 0
        self.parked: Fetch | None = None
        self.parked_ticks = 0
        self.sent_hw = -1
        self.sent_start = -1
        self.log_start = 0
        """C3: the follower's durable log start."""
        self.clean_point = 0
        """C2: how far it has compacted, by the newest fetch; `request` is that fetch's number."""
        self.request = 0


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


class Leadership:
    """State of leading one partition in one epoch. A new epoch gets a new object."""

    __slots__ = (
        "bus_down_ticks",
        "confirmed",
        "ctx",
        "epoch",
        "epoch_start",
        "followers",
        "inflight",
        "inflight_bytes",
        "pending",
        "pending_ticks",
        "purges",
        "record",
        "refusal",
        "refusals",
        "refused_ticks",
        "replica",
        "retry_ticks",
        "serving",
        "subscribed",
    )

    def __init__(self, replica: Replica, record: PartitionState) -> None:
        self.replica = replica
        self.ctx = replica.ctx
        self.record = record
        self.epoch = record.epoch
        self.epoch_start = replica.leo
        self.followers: dict[int, FollowerState] = {}
        self.inflight: deque[Inflight] = deque()
        self.inflight_bytes = 0
        self.pending: ChangeIsr | None = None
        self.pending_ticks = 0
        self.subscribed = False
        self.confirmed = False
        """NATS has confirmed the subscription (N1)."""
        self.refusal = ""
        """Why NATS did not let us subscribe when we last tried; empty if it did, or has not said yet."""
        self.refusals = 0
        self.refused_ticks = 0
        self.retry_ticks = 0
        self.serving = Serving(self)
        self.purges = Purges(self)
        self.bus_down_ticks = 0

    # -- life -------------------------------------------------------------------------------------

    def start(self) -> None:
        self.subscribe()
        self.advance()

    def stop(self) -> None:
        """N3: nothing in flight is answered."""
        if any(inflight.replies is not None and any(inflight.replies) for inflight in self.inflight):
            self.ctx.mark("N3.unanswered")
        self.inflight.clear()
        self.purges.stop()
        self.unsubscribe()

    def view(self, record: PartitionState) -> None:
        """The applied metadata has moved within our epoch (R2, R9)."""
        self.replica.touch()
        self.record = record
        if self.pending is not None and record.version > self.pending.version:
            self.pending = None
        nodes = self.ctx.metadata.nodes
        for node in list(self.followers):
            if node not in nodes or nodes[node].incarnation != self.followers[node].incarnation:
                del self.followers[node]
        self.advance()
        self.purges.check()

    def subscribe(self) -> None:
        """N1, N2: only a leader that has contact to the controller takes messages."""
        ctx = self.ctx
        if self.subscribed or ctx.leaving or not ctx.bus_up or self.retry_ticks > 0:
            return
        if ctx.fenced:
            ctx.mark("N2.fenced-subscribe")
            return
        stream = ctx.metadata.by_id.get(self.replica.id.stream)
        if stream is None:
            return
        self.subscribed = True
        config = stream.config
        ctx.effects.append(
            Subscribe(
                self.replica.id,
                self.epoch,
                partition_subject(config.subject, self.replica.id.index),
                config.max_payload_bytes,
                config.ack_reply,
                config.name,
            )
        )
        if ctx.mutants.ready_before_confirmed:
            self._tell_ready()

    def unsubscribe(self) -> None:
        if self.subscribed:
            self.subscribed = self.confirmed = False
            self.ctx.effects.append(Unsubscribe(self.replica.id))

    def drain(self) -> None:
        """N3: an orderly stop. Take in what NATS has sent already, and no more; what commits is answered."""
        if self.subscribed:
            self.ctx.effects.append(Drain(self.replica.id))

    def drained(self) -> None:
        """Nothing more comes from NATS."""
        self.ctx.mark("N3.drained")
        self.subscribed = False

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
                inflight.replies = None

    def bus_lost(self) -> None:
        self.subscribed = self.confirmed = False
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
        self.subscribed = self.confirmed = False
        self.refusal = reason
        self.retry_ticks = ctx.ticks_of(min(RETRY_MIN_MS << min(self.refusals, 10), RETRY_MAX_MS))
        self.refusals += 1
        self._tell_ready()

    def _tell_ready(self) -> None:
        """N1: until the group has heard it."""
        ctx, record = self.ctx, self.record
        confirmed = self.confirmed or (self.subscribed and ctx.mutants.ready_before_confirmed)
        if confirmed and (not record.ready or ctx.node in record.refused):
            ctx.want(LeaderReady(UNSENT, self.replica.id, self.epoch))
        elif self.refusal and (record.ready or record.refused.get(ctx.node) != self.refusal):
            ctx.want(LeaderReady(UNSENT, self.replica.id, self.epoch, self.refusal))

    # -- publishing (R4, N4, N6) ------------------------------------------------------------------

    def publish(self, event: Published) -> None:
        """Give messages their offsets and hand them to storage and followers."""
        ctx, replica = self.ctx, self.replica
        if ctx.fenced or not self.subscribed:
            if ctx.fenced:
                ctx.mark("N2.fenced-publish")
            return
        messages = event.messages
        if len(self.record.isr) < self.record.min_insync:
            ctx.mark("N4.too-few")
            messages = self._refuse(
                messages,
                ERR_TOO_FEW_INSYNC,
                f"{len(self.record.isr)} in sync, {self.record.min_insync} needed; try again later",
            )
        if self.inflight_bytes >= ctx.config.inflight_max_bytes:
            dropped = self._refuse(messages, ERR_OVERLOAD, "too much waits for replication; try again later")
            ctx.mark("N6.overload")
            for _ in dropped:
                ctx.mark("N6.dropped")
            return
        wishes = headers.read(messages, self._name())
        if wishes is not None:
            messages, wishes = self._heed(messages, wishes)
        if not messages:
            return
        config = replica.config
        batches = sequence(
            replica.id,
            replica.leo,
            self.epoch,
            event.timestamp_ms,
            messages,
            wishes,
            ctx.config.batch_max_bytes,
            config.codec if config is not None else "none",
        )
        self._track(batches, messages, wishes)
        replica.append(batches)
        for node, progress in self.followers.items():
            if progress.parked is not None:
                self.serving.answer(node, progress)

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
                self.replica.id, self._name(), self.epoch, code, text, replies, full if any(full) else None
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
            ctx = self.ctx
            ctx.mark("R4.ack")
            ctx.effects.append(
                AckPublishes(self.replica.id, self._name(), self.epoch, ctx.incarnation, base, replies, full)
            )

    # -- commit (R2) ------------------------------------------------------------------------------

    def advance(self) -> None:
        """Move the HW to the least durable LEO over the maximal ISR, if enough replicas are in sync."""
        record, replica = self.record, self.replica
        if len(record.isr) < record.min_insync and not self.ctx.mutants.commit_below_minimum:
            self.ctx.mark("R13.below-minimum")
            if self._least_durable(record.isr) > replica.hw:
                self.ctx.mark("R2.below-minimum")
            return
        lowest = self._least_durable(self._maximal_isr())
        if lowest <= replica.hw:
            self._weigh()
            return
        replica.raise_hw(lowest)
        inflight = self.inflight
        while inflight and inflight[0].end <= lowest:
            done = inflight.popleft()
            self.inflight_bytes -= done.size
            if done.replies is not None:
                self._acknowledge(done.base, done.replies, done.full)

    def _least_durable(self, members: Iterable[int], unheard: int = -1) -> int:
        """The least durable LEO of these; `unheard` of one that was not heard of in this epoch."""
        lowest = self.replica.durable_leo
        for node in members:
            if node != self.ctx.node:
                progress = self.followers.get(node)
                durable = progress.durable if progress is not None else unheard
                if durable < lowest:
                    lowest = durable
        return lowest

    def _weigh(self) -> None:
        """Nothing more is committed: count which guard alone is why."""
        replica, record, pending = self.replica, self.record, self.pending
        if replica.leo == replica.hw:
            return
        heard = [node for node in self._maximal_isr() if node == self.ctx.node or node in self.followers]
        if replica.durable_leo <= replica.hw:
            others = [self.followers[node].durable for node in heard if node != self.ctx.node]
            if others and min(others) > replica.hw:
                self.ctx.mark("R2.own-sync")
        elif len(heard) < len(self._maximal_isr()) and self._least_durable(heard) > replica.hw:
            self.ctx.mark("R2.unheard")
        elif pending is not None:
            without = record.isr if pending.joiner else pending.isr
            if self._least_durable(without) > replica.hw:
                self.ctx.mark("R2.pending-addition" if pending.joiner else "R2.pending-removal")

    def _maximal_isr(self) -> tuple[int, ...]:
        """Committed ISR plus pending additions; pending removals still count (R2)."""
        pending = self.pending
        if pending is None:
            return self.record.isr
        if self.ctx.mutants.hw_over_shrunk_isr and not pending.joiner:
            return tuple(pending.isr)
        if pending.joiner and pending.joiner not in self.record.isr:
            return (*self.record.isr, pending.joiner)
        return self.record.isr

    # -- followers --------------------------------------------------------------------------------

    def note(self, sender: int, incarnation: int, durable: int, log_start: int) -> FollowerState:
        """Take over a follower's durable LEO; it may commit, join or show that it is caught up."""
        self.replica.touch()
        progress = self.followers.get(sender)
        if progress is None:
            progress = self.followers[sender] = FollowerState(incarnation, self.replica.leo)
        if durable > progress.durable:
            progress.durable = durable
            self.advance()
        if log_start > progress.log_start:
            progress.log_start = log_start
            self.purges.check()
        if progress.durable >= progress.mark:
            limit = self.ctx.ticks_of(self.ctx.config.replica_lag_max_ms)
            if progress.lag_ticks >= limit and durable < self.replica.leo:
                self.ctx.mark("R11.caught-up")
            progress.lag_ticks = 0
            progress.mark = self.replica.leo
        if sender not in self.record.isr:
            self._consider_joiner(sender, progress)
        return progress

    def log_start_moved(self) -> None:
        """Our own log start is durable at a higher offset; followers learn it within a tick (C3)."""
        self.purges.check()

    def least_log_start(self) -> int:
        """The log start that the whole maximal ISR has durably (C3)."""
        least = self.replica.log_start
        for node in self._maximal_isr():
            if node != self.ctx.node:
                progress = self.followers.get(node)
                least = min(least, progress.log_start if progress is not None else 0)
        return least

    def tombstones_below(self) -> int:
        """C2: the offset that every replica has compacted past; what is not known counts as 0."""
        replica = self.replica
        config = replica.config
        if config is None or not config.compact:
            return 0
        first = replica.repairs.first
        least = replica.clean_point if first is None else min(replica.clean_point, first)
        for node in self.record.replicas:
            if node != self.ctx.node:
                progress = self.followers.get(node)
                least = min(least, progress.clean_point if progress is not None else 0)
        if least > replica.tombstones_below:
            self.ctx.mark("C2.all-clean")
            replica.tombstones_below = least
        return replica.tombstones_below

    # -- ISR (R9, R10, R11) -----------------------------------------------------------------------

    def _consider_joiner(self, node: int, progress: FollowerState) -> None:
        """R10: durable up to the HW and to the epoch's start, in this epoch and incarnation, and live.

        And with our log start: an election must not bring back what was purged (C3).
        """
        replica = self.replica
        if self.ctx.decides(
            ("R10.one-pending", self.pending is None),
            ("R10.hw", progress.durable >= replica.hw),
            ("R10.epoch-start", progress.durable >= self.epoch_start),
            ("R10.log-start", progress.log_start >= replica.log_start),
            ("R10.live", self.ctx.metadata.is_live(node)),
        ):
            self.ctx.mark("R10.join")
            isr = [member for member in self.record.replicas if member in self.record.isr or member == node]
            self._propose(isr, node, progress.incarnation)

    def _propose(self, isr: list[int], joiner: int, incarnation: int) -> None:
        ctx = self.ctx
        command = ChangeIsr(
            UNSENT,
            self.replica.id,
            ctx.node,
            self.epoch,
            self.record.version,
            isr,
            joiner,
            incarnation,
        )
        # Also while there is no room for it yet: it goes as soon as there is, and must count by then (R2).
        self.replica.touch()
        self.pending = command
        self.pending_ticks = 0
        ctx.want(command)
        self.advance()

    def tick(self) -> None:
        ctx, config = self.ctx, self.ctx.config
        wait = ctx.ticks_of(config.fetch_wait_ms)
        for node, progress in self.followers.items():
            progress.lag_ticks += 1
            progress.parked_ticks += 1
            if progress.parked is not None and (
                progress.sent_hw != self.replica.hw
                or progress.sent_start != self.replica.log_start
                or progress.parked_ticks >= wait
            ):
                self.serving.answer(node, progress)
            if progress.durable >= self.replica.leo:
                progress.lag_ticks = 0
                progress.mark = self.replica.leo
        if self.pending is not None:
            self.pending_ticks += 1
            # Its bound may pass: then it goes again, and is pending as before (R2).
            ctx.want(self.pending)
            if ctx.mutants.pending_ended_by_timeout and self.pending_ticks > 3:
                self.replica.touch()
                self.pending = None
        else:
            self._remove_lagging()
        self.purges.tick()
        self._watch_bus()
        self.retry_ticks = max(0, self.retry_ticks - 1)
        self.subscribe()
        self._tell_ready()

    def _remove_lagging(self) -> None:
        """R11: who has not been caught up for `replica_lag_max_ms` is proposed for removal."""
        limit = self.ctx.ticks_of(self.ctx.config.replica_lag_max_ms)
        for node in self.record.isr:
            if node == self.ctx.node:
                continue
            progress = self.followers.get(node)
            if progress is None:
                # Nothing heard in this epoch yet: the clock starts now.
                self.replica.touch()
                state = self.ctx.metadata.nodes[node]
                progress = self.followers[node] = FollowerState(state.incarnation, self.replica.leo)
            if progress.lag_ticks > limit:
                self.ctx.mark("R11.removal")
                self._propose([member for member in self.record.isr if member != node], 0, 0)
                return

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
        ctx, record = self.ctx, self.record
        if not self.refusal:
            return
        self.refused_ticks += 1
        after_ms = REFUSED_TURN_MS if ctx.metadata.refused_by_nats(record) else RESIGN_AFTER_MS
        if self.refused_ticks >= ctx.ticks_of(after_ms) and ctx.node in record.refused and not ctx.fenced:
            self.resign()

    def resign(self) -> None:
        """Ask the metadata group for another leader, if there can be one. To be repeated on each tick."""
        record, ctx = self.record, self.ctx
        if any(node != ctx.node and ctx.metadata.is_live(node) for node in record.isr):
            ctx.mark("N5.resign")
            ctx.want(Resign(UNSENT, self.replica.id, self.epoch, record.version))

    def _name(self) -> str:
        stream = self.ctx.metadata.by_id.get(self.replica.id.stream)
        return stream.config.name if stream is not None else ""
