"""Events: what the driver tells the core."""

from __future__ import annotations

import msgspec

from liftlog.messages.clients import ClientMessage
from liftlog.messages.filespan import FileSpan
from liftlog.messages.peers import MirrorReply, PeerMessage
from liftlog.types import (
    FIRST_CLUSTER,
    NO_OFFSET,
    Batch,
    ClientRef,
    ClusterEpoch,
    LogSummary,
    Message,
    OffsetRange,
    PartitionId,
    StreamConfig,
    Ticket,
)


class Event(msgspec.Struct, gc=False):
    """Base of events."""


class Received(Event):
    sender: int
    message: PeerMessage
    epoch: ClusterEpoch = FIRST_CLUSTER
    """M5: the cluster that the sender said it belongs to when it sent this."""


class PeerLost(Event):
    """A host has answered that nobody listens where this node should be: a killed process, most likely.

    A hint, never a proof: it may be late, missing or false. Said again as long as it is so.
    """

    peer: int


class PeerBack(Event):
    """A connection to this node stands, again or for the first time."""

    peer: int


class TimerFired(Event):
    """`monotonic_ms`: the node's monotonic clock. The tick is how time reaches the core: it comes before
    whatever was queued when it was due; the election timer comes behind that, since what is queued may be
    word of a leader.
    """

    kind: str
    monotonic_ms: float
    wall_ms: int = 0
    """The node's wall clock (Unix epoch): for record ages only (C2, C3), never for the protocol."""


class Durable(Event):
    ticket: Ticket


class StorageFailed(Event):
    """A job failed. `sync`: a sync failed (R5, final for the replica); else a write was refused (D5)."""

    log: PartitionId
    ticket: Ticket
    sync: bool
    error: str


class SnapshotRefused(Event):
    """M1p: the disk did not take the snapshot of `SaveSnapshot`; nothing has changed."""

    ticket: Ticket
    error: str


class MetadataStalled(Event):
    """D5: the disk refuses to write metadata, for the reason in `error`; empty: everything is written.

    Until then no ticket of a write that is held back becomes durable, so nothing is said that rests on it.
    """

    error: str


class LogOpened(Event):
    summary: LogSummary


class LogRead(Event):
    """Answer to `ReadLog`. `error` not empty: the range could not be read or verified.

    With `spans` there are no `batches`: they lie there, from the one that holds the asked offset or a little
    before it. Spans that the core does not pass on to a client are dropped, which closes their files. Of a
    job that picks (S2) `looked` says up to where all that is wanted is here; NO_OFFSET: of another one.
    """

    log: PartitionId
    request: int
    batches: list[Batch]
    error: str = ""
    damage: OffsetRange | None = None
    """With an error: which offsets cannot be read, if it was damage rather than a disk that fails (D2)."""
    spans: list[FileSpan] = []
    looked: int = NO_OFFSET


class TimeFound(Event):
    log: PartitionId
    request: int
    offset: int
    error: str = ""
    """What had to be looked at could not be read; `damage` as in `LogRead`."""
    damage: OffsetRange | None = None


class SubjectsFolded(Event):
    """S1: the subject index of a log has everything below `folded`, -1: there is none; `ready`: and nothing
    of that has to be looked at again. `request`: of the question that it was not far enough for; 0 = this
    answers `FoldSubjects`.
    """

    log: PartitionId
    folded: int
    ready: bool
    request: int = 0
    error: str = ""
    """What had to be read could not be; `damage` as in `LogRead`."""
    damage: OffsetRange | None = None
    full: bool = False
    """With an error: the index has no room."""
    filed: bool = False
    """Some of it came out of a subject file just now."""


class SubjectsTold(Event):
    """S1: the answer to a question about the offsets [first, folded). The fields of `SubjectReply`.

    `place`: for who asks for the next match, up to where there is none; the question is to be asked again
    from there. `runs`: of `MATCHING_RUNS`. With an `error` there is no answer.
    """

    log: PartitionId
    request: int
    folded: int
    first: int
    offset: int
    subjects: list[tuple[bytes, int]]
    messages: int
    place: int
    index: int
    error: str = ""
    runs: tuple[OffsetRange, ...] = ()
    size: int = 0


class LastsTold(Event):
    """L9: the last records of these subjects among all below `folded`; NO_OFFSET for one that has none. With
    an `error` there is no answer. `counts`: how many there are of each, if that was asked for.
    """

    log: PartitionId
    request: int
    folded: int
    subjects: list[bytes]
    offsets: list[int]
    error: str = ""
    counts: list[int] = []


class LogStartMoved(Event):
    """The log start is durable (C3). Also the answer when there was nothing to move."""

    log: PartitionId
    log_start: int


class Compacted(Event):
    """A slice is done; `done` = nothing is left to do for now. What it tells is durable."""

    log: PartitionId
    done: bool
    clean_point: int
    dropped_below: int
    error: str = ""
    damage: OffsetRange | None = None
    """With an error: which offsets cannot be read (D2)."""


class Scrubbed(Event):
    """`next_offset` = where to go on; the log start when the end was reached. `damage`: newly found."""

    log: PartitionId
    next_offset: int
    damage: OffsetRange | None = None
    error: str = ""


class LogRepaired(Event):
    """`next_offset` = where the range still lacks batches; `range.end` = it is whole and durable.

    `damage`: what else was found damaged in the same segments, and is noted by now.
    """

    log: PartitionId
    range: OffsetRange
    next_offset: int
    error: str = ""
    damage: tuple[OffsetRange, ...] = ()


class BusUp(Event):
    """NATS is connected; all earlier subscriptions are gone."""


class BusDown(Event):
    """NATS is not reachable."""


class Subscribed(Event):
    """NATS has the subscription of this number. Here and below it is that of `Subscribe` (N10)."""

    partition: PartitionId
    epoch: int
    number: int = 0


class Drained(Event):
    """Nothing more comes for this subscription."""

    partition: PartitionId
    epoch: int
    number: int = 0


class SubscriptionRefused(Event):
    """NATS does not let us subscribe, or has taken a confirmed subscription away, in these words (N1).

    Nothing of it will be heard until a later `Subscribe` succeeds.
    """

    partition: PartitionId
    epoch: int
    reason: str
    number: int = 0


class Published(Event):
    """Messages from NATS for one subscription, in order, stamped by the driver's wall clock."""

    partition: PartitionId
    epoch: int
    messages: list[Message]
    timestamp_ms: int
    plain: bool = False
    """Somebody has looked already: none has headers, none is in an envelope (L4)."""


class LetterAnswered(Event):
    """K9: a stream has stored a dead letter, or has it already; or `problem` says why not."""

    partition: PartitionId
    epoch: int
    token: int
    problem: str = ""


class OriginAnswered(Event):
    """R28, R29: what another cluster has said to `AskOrigin`: which cluster it is (M5), the stream that bears
    the name there, and what its leader says. With a `problem` there is no answer, for that reason.
    """

    partition: PartitionId
    origin: str
    """As `AskOrigin` has called it."""
    cluster: str = ""
    stream: int = 0
    config: StreamConfig | None = None
    reply: MirrorReply | None = None
    problem: str = ""


class ClientRequest(Event):
    client: ClientRef
    request: ClientMessage


class ClientGone(Event):
    """The client's connection closed: forget what it waits for."""

    client: ClientRef


class StopRequested(Event):
    """Orderly shutdown: hand over what can be handed over."""
