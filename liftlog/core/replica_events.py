"""Events that are for replicas: messages of replication, what storage has done for a log, what NATS says.

A node hands them here; what they mean is the replica's to know. For one that is not there, or not open yet,
an answer says so.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from liftlog.core.context import Context
from liftlog.core.replica.leader import Leader
from liftlog.core.replica.replica import Replica
from liftlog.core.replica.serving import range_refusal, refusal
from liftlog.core.replica.state.log import OPENING
from liftlog.messages import (
    FETCH_UNKNOWN,
    BusDown,
    BusUp,
    ClientRequest,
    Compacted,
    Drained,
    Durable,
    Event,
    Fetch,
    FetchProgress,
    FetchReply,
    LastsTold,
    LetterAnswered,
    LogOpened,
    LogRead,
    LogRepaired,
    LogStartMoved,
    MirrorFetch,
    MirrorReply,
    OriginAnswered,
    Published,
    RangeFetch,
    RangeReply,
    Received,
    Scrubbed,
    SubjectsFolded,
    SubjectsTold,
    Subscribed,
    SubscriptionRefused,
    TimeFound,
)
from liftlog.types import PartitionId


def addressee(event: Event, ctx: Context) -> PartitionId | None:
    """Whose replica takes an event in; None if that is not one partition's."""
    if isinstance(event, Durable):
        return ctx.owner_of(event.ticket)
    about: Any = event
    if isinstance(event, Received):
        about = event.message
    elif isinstance(event, ClientRequest):
        about = event.request
    elif isinstance(event, LogOpened):
        about = event.summary
    found = getattr(about, "partition", None) or getattr(about, "log", None)
    return found if isinstance(found, PartitionId) else None


class ReplicaEvents:
    """Of one node. `after`: what follows when a leader may have said something to the metadata group."""

    __slots__ = ("_after", "_ctx", "_replicas")

    def __init__(
        self, ctx: Context, replicas: Mapping[PartitionId, Replica], after: Callable[[], None]
    ) -> None:
        self._ctx = ctx
        self._replicas = replicas
        self._after = after


    # -- peers ------------------------------------------------------------------------------------

    def on_fetch(self, sender: int, message: Fetch) -> None:
        replica = self._ready_replica(message.partition)
        if replica is not None:
            replica.on_fetch(sender, message)
        else:
            # Not heard of, or not open yet: the follower asks again at its next tick.
            self._ctx.effects.append(refusal(sender, message, FETCH_UNKNOWN))

    def on_progress(self, sender: int, message: FetchProgress) -> None:
        replica = self._ready_replica(message.partition)
        if replica is not None:
            replica.on_progress(sender, message)

    def on_fetch_reply(self, sender: int, message: FetchReply) -> None:
        replica = self._ready_replica(message.partition)
        if replica is not None:
            replica.on_reply(sender, message)

    def on_range_fetch(self, sender: int, message: RangeFetch) -> None:
        replica = self._ready_replica(message.partition)
        if replica is not None:
            replica.on_range_fetch(sender, message)
        else:
            self._ctx.effects.append(range_refusal(sender, message, FETCH_UNKNOWN))

    def on_range_reply(self, sender: int, message: RangeReply) -> None:
        replica = self._ready_replica(message.partition)
        if replica is not None:
            replica.on_range_reply(sender, message)

    def on_mirror_fetch(self, sender: int, message: MirrorFetch) -> None:
        """A copy that is not open, or none, says nothing: the mirror asks again."""
        replica = self._ready_replica(message.partition)
        if replica is not None and replica.data is None:
            replica.on_mirror_fetch(sender, message)

    def on_mirror_reply(self, sender: int, message: MirrorReply) -> None:
        replica = self._ready_replica(message.partition)
        if replica is not None and replica.data is None:
            replica.on_mirror_reply(sender, message)

    def on_origin_answered(self, event: OriginAnswered) -> None:
        """R28: another cluster has answered, or cannot be asked."""
        replica = self._ready_replica(event.partition)
        if replica is not None and replica.data is None:
            replica.on_mirror_reply(0, event)

    def hear_self(self, look: Callable[[PartitionId], None]) -> None:
        """What this node has said to itself: a mirror and its origin may have their leaders here (R28)."""
        for message in self._ctx.take_to_self():
            look(message.partition)
            if isinstance(message, MirrorFetch):
                self.on_mirror_fetch(self._ctx.node, message)
            else:
                self.on_mirror_reply(self._ctx.node, message)

    def _ready_replica(self, partition: PartitionId) -> Replica | None:
        replica = self._replicas.get(partition)
        return replica if replica is not None and replica.state != OPENING else None

    # -- storage ----------------------------------------------------------------------------------

    def of_storage(self) -> dict[type, Callable[[Any], None]]:
        """Who takes in what storage has done for a log."""
        return {
            OriginAnswered: self.on_origin_answered,
            LogOpened: self.on_log_opened,
            LogRead: self.on_log_read,
            TimeFound: self.on_time_found,
            SubjectsTold: self.on_subjects_told,
            SubjectsFolded: self.on_subjects_folded,
            LastsTold: self.on_lasts_told,
            **dict.fromkeys((LogStartMoved, Compacted, Scrubbed, LogRepaired), self.on_upkeep),
        }

    def on_log_opened(self, event: LogOpened) -> None:
        replica = self._replicas.get(event.summary.log)
        if replica is not None:
            replica.opened(event.summary)

    def on_log_read(self, event: LogRead) -> None:
        self._ctx.reads.done(event.request)
        replica = self._replicas.get(event.log)
        if replica is not None:
            replica.on_read(event)

    def on_time_found(self, event: TimeFound) -> None:
        self._ctx.reads.done(event.request)
        replica = self._replicas.get(event.log)
        if replica is not None:
            replica.on_time(event)

    def on_subjects_told(self, event: SubjectsTold) -> None:
        self._ctx.reads.done(event.request)
        replica = self._replicas.get(event.log)
        if replica is not None:
            replica.on_subjects(event)

    def on_lasts_told(self, event: LastsTold) -> None:
        self._ctx.reads.done(event.request)
        replica = self._replicas.get(event.log)
        if replica is not None:
            replica.on_lasts(event)

    def on_subjects_folded(self, event: SubjectsFolded) -> None:
        self._ctx.reads.done(event.request)
        replica = self._replicas.get(event.log)
        if replica is not None:
            if event.request:
                replica.on_subjects(event)
            else:
                replica.on_upkeep(event)

    def on_upkeep(self, event: LogStartMoved | Compacted | Scrubbed | LogRepaired) -> None:
        replica = self._replicas.get(event.log)
        if replica is not None:
            replica.on_upkeep(event)

    # -- NATS -------------------------------------------------------------------------------------

    def of_nats(self) -> dict[type, Callable[[Any], None]]:
        """Who takes in which event."""
        return {
            BusUp: self.on_bus_up,
            BusDown: self.on_bus_down,
            Subscribed: self.on_subscribed,
            SubscriptionRefused: self.on_subscription_refused,
            Drained: self.on_drained,
            Published: self.on_published,
            LetterAnswered: self.on_letter_answered,
        }

    def _leader_of(self, partition: PartitionId, epoch: int) -> Leader | None:
        replica = self._replicas.get(partition)
        return replica.leader_of(epoch) if replica is not None else None

    def on_bus_up(self, event: BusUp) -> None:
        self._ctx.see_bus(True)
        for replica in self._replicas.values():
            if replica.roles is not None:
                replica.roles.leader.bus_lost()
                replica.roles.leader.subscribe()

    def on_bus_down(self, event: BusDown) -> None:
        self._ctx.see_bus(False)
        for replica in self._replicas.values():
            if replica.roles is not None:
                replica.roles.leader.bus_lost()

    def on_subscribed(self, event: Subscribed) -> None:
        leader = self._leader_of(event.partition, event.epoch)
        if leader is not None:
            leader.on_subscribed(event.number)
            self._after()

    def on_drained(self, event: Drained) -> None:
        leader = self._leader_of(event.partition, event.epoch)
        if leader is not None:
            leader.drained(event.number)

    def on_subscription_refused(self, event: SubscriptionRefused) -> None:
        leader = self._leader_of(event.partition, event.epoch)
        if leader is not None:
            leader.on_refused(event.number, event.reason)
            self._after()

    def on_letter_answered(self, event: LetterAnswered) -> None:
        replica = self._replicas.get(event.partition)
        if replica is not None:
            replica.letter_answered(event)

    def on_published(self, event: Published) -> None:
        replica = self._replicas.get(event.partition)
        if replica is not None:
            replica.publish(event)
