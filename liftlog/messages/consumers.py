"""Requests about durable consumers of a partition, and their answers (K1-K8). Its leader answers them.

A consumer is known by its name until it is deleted, and by its number for ever: what names another number
than that of the consumer which is there changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Annotated

import msgspec
from msgspec import Meta, field

from liftlog.messages.struct import Struct
from liftlog.types import NUMBER_MAX, Line, Number, PartitionId, Word

PENDING_MAX = 65_536
"""Messages of one consumer that may wait for an ack."""
PULL_MAX = 1000
"""Messages in one answer."""
SETTLE_MAX = 10_000
"""Messages that one request may name."""
BACKOFF_MAX = 16
"""Waits that a consumer names one by one."""
FILTERS_MAX = 16
"""Patterns of one consumer."""
INACTIVE_MS_MAX = 31_536_000_000
"""A year."""
NOTES_BYTES_MAX = 8192
"""Of all that is noted on a consumer, names and values."""
RUNS_MAX = 2000
"""Runs of offsets in one request, and in one answer."""
DELIVER_ALL = "all"
DELIVER_NEW = "new"
DELIVER_FROM = "offset"
DELIVER_LAST = "last"
DELIVER_TIME = "time"
DELIVER_LASTS = "last-per-subject"
DELIVERS = (DELIVER_ALL, DELIVER_NEW, DELIVER_FROM, DELIVER_LAST, DELIVER_TIME, DELIVER_LASTS)
BY_OVERFLOW = "overflow"
BY_PIN = "pinned_client"
BY_NUMBER = "prioritized"
PRIORITIES = (BY_OVERFLOW, BY_PIN, BY_NUMBER)
"""K10: a pull waits for its minima; one client is given everything; who says the least number goes first."""
GROUPS_MAX = 16
"""Priority groups of one consumer."""
PIN_MS = 120_000
"""So long a pin lasts that nobody begins a pull with, if its consumer does not say otherwise."""
LEAST_PRIORITY = 9
ACK = "ack"
TERM = "term"
NAK = "nak"
PROGRESS = "progress"
TO_FLOOR = -1
"""Where a consumer is reset to: to the first message that is not done."""
SETTLES = (ACK, TERM, NAK, PROGRESS)

Named = tuple[Number, Annotated[int, Meta(ge=1, le=PENDING_MAX)]]
"""(first offset, number of offsets)."""
Counted = tuple[Number, Annotated[int, Meta(ge=1, le=PENDING_MAX)], Annotated[int, Meta(ge=1, le=1 << 31)]]
"""(first offset, number of offsets, how often each was delivered, this time included)."""


def runs_of(offsets: Iterable[int]) -> list[tuple[int, int]]:
    """Ascending offsets as (first, number) of those that follow each other."""
    runs: list[tuple[int, int]] = []
    first = end = -1
    for offset in offsets:
        if offset != end:
            if end >= 0:
                runs.append((first, end - first))
            first = offset
        end = offset + 1
    if end >= 0:
        runs.append((first, end - first))
    return runs


def offsets_of(runs: Iterable[Named]) -> Iterator[int]:
    """The offsets that runs name."""
    for offset, length in runs:
        yield from range(offset, offset + length)


Wait = Annotated[int, Meta(ge=1, le=86_400_000)]


class ConsumerConfig(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False
):
    """What a consumer is made with, and keeps."""

    ack_wait_ms: Wait = 30_000
    """A message that was not acked for so long is delivered again."""
    max_deliver: Annotated[int, Meta(ge=0, le=1 << 30)] = 0
    """So often a message is delivered; then it is given up. 0 = without limit."""
    max_ack_pending: Annotated[int, Meta(ge=1, le=PENDING_MAX)] = 1000
    """So many messages may wait for an ack; until then nothing new is delivered."""
    deliver: Word = DELIVER_ALL
    """Where it begins: at the log start, at what is committed next, at `offset`, at the last message that is
    committed and not deleted (as "new" if there is none), at the first message that has come at
    `timestamp_ms` or later, or with the last message of each subject, as of when it is made, and then all
    that is new.
    """
    offset: Number = 0
    filter: Line = ""
    """It is given only messages whose subjects this pattern matches, or one of `filters`. Empty: all."""
    backoff_ms: Annotated[tuple[Wait, ...], Meta(max_length=BACKOFF_MAX)] = ()
    """In place of `ack_wait_ms` for the first delivery, the second, and so on; not for those after these."""
    filters: Annotated[tuple[Line, ...], Meta(max_length=FILTERS_MAX)] = ()
    """More patterns, beside `filter`; no subject is matched by two."""
    notes: tuple[tuple[Line, str], ...] = ()
    """What its owner keeps here, as (name, value); liftlog makes nothing of it. 8 KiB in all."""
    timestamp_ms: Number = 0
    """Since 1970."""
    inactive_ms: Annotated[int, Meta(ge=0, le=INACTIVE_MS_MAX)] = 0
    """It goes when nobody has pulled, settled or asked about it for so long, as its leader sees it; a new
    leader begins to count anew. 0 = it stays.
    """
    pause_until_ms: Number = 0
    """Nothing is delivered before, by its leader's clock; since 1970."""
    dead_letter: Line = ""
    """Where to a message is published that was delivered for the last time, by `max_deliver`, or was
    terminated; until a stream has stored it there it is pending. Empty: nowhere, it is done at once.
    """
    priority: Word = ""
    """K10: how its leader chooses among those that pull: one of `PRIORITIES`. Empty: who waits longest."""
    groups: Annotated[tuple[Line, ...], Meta(max_length=GROUPS_MAX)] = ()
    """With a priority: each pull names one of these groups."""
    pin_ms: Annotated[int, Meta(ge=0, le=86_400_000)] = 0
    """With `pinned_client`: so long a client stays pinned that begins no pull. 0 = two minutes."""

    @property
    def patterns(self) -> tuple[str, ...]:
        """One of these matches the subject of each message that it is given; none = all."""
        return (self.filter, *self.filters) if self.filter else self.filters

    def wait_ms(self, count: int) -> int:
        """How long the delivery with this count waits for its ack."""
        return self.backoff_ms[count - 1] if 0 < count <= len(self.backoff_ms) else self.ack_wait_ms


class ConsumerInfo(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """As the partition's leader knows it."""

    name: str
    number: int
    config: ConsumerConfig
    position: int
    """Below it everything was delivered."""
    floor: int
    """Below it everything is done."""
    ack_pending: int
    num_pending: int
    """Committed messages that match and were not delivered yet; -1: nobody can count them now."""
    sequence: int = 0
    """K8: so many deliveries there were, of any message."""
    floor_sequence: int = 0
    """So many of these nobody waits for: of what is pending one for each is left out. Where acks come in
    order that is the number of the last delivery below the floor.
    """
    redelivered: int = 0
    """Of those that are pending, so many were delivered more than once."""
    pulls: int = 0
    """So many wait for messages."""
    dead: int = 0
    """Of those that are pending, so many wait to be stored where dead letters go (K9)."""
    dead_problem: str = ""
    """Why one of them was not stored there yet; empty: nothing is known to be wrong."""
    pin: str = ""
    """K10: the pin of the client that is given everything, since `pinned_ms`; empty: nobody is pinned."""
    pinned_ms: int = 0
    delivered_ms: int = 0
    """When the leader of now gave a message last, by its clock; 0 = since it leads it gave none."""
    acked_ms: int = 0
    """When it was told last that one is done."""


class CreateConsumerRequest(Struct):
    """K1: answered by `ConsumersReply`, also if it is there with this very configuration."""

    partition: PartitionId
    name: Line
    config: ConsumerConfig


class AlterConsumerRequest(Struct):
    """K1: from now on it has this configuration, in which where it begins is as it was. `consumer`: its
    number. `was`: what the client takes it to have; with another one, and not
    `config`, the request is refused. Answered by `ConsumersReply`.
    """

    partition: PartitionId
    consumer: Number
    was: ConsumerConfig
    config: ConsumerConfig


class DeleteConsumerRequest(Struct):
    """K1: answered by `DoneReply` when that is committed."""

    partition: PartitionId
    name: Line


class ResetConsumerRequest(Struct):
    """K1: another consumer takes the place of this one, with its name and configuration, which begins at
    `offset`, or at the log start if that is behind it. `TO_FLOOR`: at the first that is not done. Answered
    by `ConsumersReply`. If it is asked twice both may come about, one behind the other.
    """

    partition: PartitionId
    name: Line
    offset: Annotated[int, Meta(ge=TO_FLOOR, le=NUMBER_MAX)]


class ConsumersRequest(Struct):
    """One consumer, or all of the partition where `name` is empty."""

    partition: PartitionId
    name: Line = ""


class ConsumersReply(Struct):
    """`epoch`: in which its leader leads."""

    partition: PartitionId
    epoch: int
    consumers: list[ConsumerInfo] = field(default_factory=list)


class PullRequest(Struct):
    """K4: at most so many messages, as soon as there are any. `consumer`: its number. `wait_ms` 0 = what is
    there now. The first message comes even if it is larger than `max_bytes`.
    """

    partition: PartitionId
    consumer: Number
    messages: Annotated[int, Meta(ge=1, le=PULL_MAX)] = 100
    max_bytes: Number = 1024 * 1024
    wait_ms: Number = 0
    group: Line = ""
    """K10: of a consumer with a priority: one of its groups."""
    min_pending: Number = 0
    """With `overflow`: it is given a message if so many are to come, that one counted, or if as many as
    `min_ack_pending` says wait for acks. 0 = by the other one; both 0 = always.
    """
    min_ack_pending: Number = 0
    priority: Annotated[int, Meta(ge=0, le=LEAST_PRIORITY)] = 0
    """With `prioritized`: the least number goes first."""
    pin: Line = ""
    """With `pinned_client`: the pin that came with earlier messages."""
    begins: bool = True
    """Whether that gives the pin its time anew: not if this goes on with a pull that has begun before."""


class PullReply(Struct):
    """What is delivered: the records in `batches` that `runs` name, and no others of these.

    `recorded`: where the entry of the journal ends that says so; 0: it left before that was committed, which
    it may once, by the leader of the epoch that wrote the messages. Without runs nothing came in time.
    `sequence`: the number of the first delivery in `runs`; the others follow (K8). `to_come`: so many that
    match were committed and not delivered behind these, not before the pull came; -1: nobody can tell.
    """

    partition: PartitionId
    consumer: int
    epoch: int
    recorded: int = 0
    runs: list[Counted] = field(default_factory=list)
    batches: list[bytes] = field(default_factory=list)
    sequence: int = 0
    to_come: int = -1
    pin: str = ""
    """K10: with `pinned_client`: that of whoever is given this, to be named by its next pulls."""


class UnpinRequest(Struct):
    """K10: whoever is pinned is so no more. `consumer`: its number; `group`: one of its groups. Answered by
    `DoneReply`, at once.
    """

    partition: PartitionId
    consumer: Number
    group: Line


class SettleRequest(Struct):
    """K3: what became of messages that a consumer was given. `consumer`: its number. `how`:

    "ack" = done; "term" = given up; both are answered when that is committed, and the messages never come
    again. "nak" = to come again, `delay_ms` from now; "progress" = the time to ack begins anew; the leader
    remembers both as long as it leads.
    """

    partition: PartitionId
    consumer: Number
    how: Word
    runs: Annotated[list[Named], Meta(min_length=1, max_length=RUNS_MAX)]
    delay_ms: Annotated[int, Meta(ge=0, le=86_400_000)] = 0


class SettledReply(Struct):
    """`unknown`: of these no delivery is known, as after a change of leader: they will come again.
    `journal`: below it stands what it says.
    """

    partition: PartitionId
    consumer: int
    journal: int = 0
    unknown: list[tuple[int, int]] = field(default_factory=list)


ConsumerRequest = (
    CreateConsumerRequest
    | AlterConsumerRequest
    | DeleteConsumerRequest
    | ResetConsumerRequest
    | ConsumersRequest
    | PullRequest
    | SettleRequest
    | UnpinRequest
)
ConsumerReply = ConsumersReply | PullReply | SettledReply
