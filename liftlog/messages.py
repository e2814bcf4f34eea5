"""Every event, effect and peer message: the vocabulary of the core on one page.

    event  ->  Node.step(event)  ->  list of effects

*Events* tell the core what happened; *effects* tell the driver what to do. Nothing in the core waits: an
effect that takes time answers with a later event. The contract of each effect stands on its class.

*Peer messages* travel between nodes (`Send` -> network -> `Received`). The network may lose, delay, duplicate
and reorder them; no message is needed for safety.
"""

from __future__ import annotations

import msgspec

from liftlog.types import (
    NO_TICKET,
    Batch,
    ClientRef,
    Entry,
    HardState,
    Identity,
    LogSummary,
    Message,
    PartitionId,
    StreamConfig,
    Ticket,
)


class Struct(msgspec.Struct, tag=True, array_like=True):
    """Base of peer messages and commands: compact, tagged by class name."""


# --------------------------------------------------------------------------------------------------
# Peer messages: Raft (M1)
# --------------------------------------------------------------------------------------------------


class VoteRequest(Struct):
    term: int
    candidate: int
    last_index: int
    last_term: int
    pre_vote: bool
    transfer: bool = False
    """Set when the old leader asked for this election (leadership transfer): leader stickiness is waived."""


class VoteReply(Struct):
    term: int
    voter: int
    granted: bool
    pre_vote: bool


class AppendRequest(Struct):
    term: int
    leader: int
    prev_index: int
    prev_term: int
    commit: int
    round: int
    """Number of the leader's heartbeat round, for check-quorum and read-index."""
    entries: list[Entry]


class AppendReply(Struct):
    term: int
    follower: int
    success: bool
    match: int
    """success: how far the follower's durable log is known to equal the leader's, never beyond the request
    answered; else: where the leader should try next."""
    round: int
    counts: bool = True
    """False while the follower's disk must not vote (I2): the leader counts this reply for nothing."""


class ReadIndexRequest(Struct):
    request: int


class ReadIndexReply(Struct):
    request: int
    index: int
    """-1: the asked node is not the leader (any more), or has too many reads waiting."""


class TimeoutNow(Struct):
    term: int


class BirthQuery(Struct):
    """I2: a disk that has never been in a cluster asks the others who they are before it may vote."""

    disk_id: str


class BirthReply(Struct):
    disk_id: str
    fresh: bool
    """The answering disk has never been part of a cluster either: it has signed no birth certificate."""
    knows_you: bool
    """The asker's disk id stands in the certificate that the answering disk has signed."""
    signed: list[tuple[int, str]]
    """That certificate (`HardState.peer_disks`), durable; empty when fresh."""
    born: bool
    """All disks of the certificate are known to have signed it."""


class Forward(Struct):
    """A metadata command on its way to the controller; sent again until it is seen applied (M3)."""

    command: bytes


class Heartbeat(Struct):
    """Session of a node with the controller. `sequence` comes back and tells the node when it was sent."""

    incarnation: int
    sequence: int
    applied: int


class HeartbeatReply(Struct):
    incarnation: int
    sequence: int


# --------------------------------------------------------------------------------------------------
# Peer messages: replication (R6-R11)
# --------------------------------------------------------------------------------------------------


class Fetch(Struct):
    """R6. `last_epoch` is the epoch of the follower's record before `offset`, 0 if there is none."""

    partition: PartitionId
    epoch: int
    incarnation: int
    request: int
    offset: int
    durable_leo: int
    last_epoch: int
    max_bytes: int


class FetchProgress(Struct):
    """A follower's durable LEO between two fetches, so that commits need not wait for a parked fetch (R7).

    Sent only after a reply in this epoch passed the epoch check.
    """

    partition: PartitionId
    epoch: int
    incarnation: int
    offset: int
    durable_leo: int
    last_epoch: int


class FetchReply(Struct):
    """`status` is one of the FETCH_* constants.

    OK: `batches` continue the log at the asked offset, `hw` is the leader's. DIVERGED: the leader's largest
    epoch not above the asked one is `end_epoch` and ends at `end_offset`. FENCED / UNKNOWN: nothing else is
    meaningful. DAMAGED: the leader could not read that range.
    """

    partition: PartitionId
    epoch: int
    incarnation: int
    """Of the follower that asked: its next run numbers its fetches anew, perhaps in the same epoch (R6)."""
    request: int
    status: int
    hw: int
    log_start: int
    leader_leo: int
    end_epoch: int
    end_offset: int
    batches: list[bytes]


FETCH_OK, FETCH_DIVERGED, FETCH_FENCED, FETCH_UNKNOWN, FETCH_DAMAGED = 0, 1, 2, 3, 4


# --------------------------------------------------------------------------------------------------
# Client requests and replies (TCP and NATS API; the driver turns bytes into these and back)
# --------------------------------------------------------------------------------------------------


class ReadRequest(Struct):
    """Records from `offset` on, below this replica's HW (R3). `seen_*` = the greatest the client has seen."""

    partition: PartitionId
    offset: int
    max_bytes: int = 1024 * 1024
    wait_ms: int = 0
    seen_epoch: int = 0
    seen_hw: int = 0


class ReadReply(Struct):
    partition: PartitionId
    epoch: int
    hw: int
    log_start: int
    next_offset: int
    """Where to read next. Batches may begin before the asked offset: the client skips."""
    batches: list[bytes]


class OffsetRequest(Struct):
    """`what`: "earliest", "latest" (HW - 1), "new" (HW) or "time" (first record at or after timestamp_ms)."""

    partition: PartitionId
    what: str
    timestamp_ms: int = 0


class OffsetReply(Struct):
    partition: PartitionId
    offset: int
    epoch: int


class CreateStreamRequest(Struct):
    config: StreamConfig


class DeleteStreamRequest(Struct):
    name: str


class StreamInfoRequest(Struct):
    """`name` empty = all streams. Linearizable: answered after a read-index round (M1)."""

    name: str = ""


class ClusterStatusRequest(Struct):
    pass


class ElectLeaderRequest(Struct):
    """Explicit election (R14, R16). `unclean` allows a replica that may lack committed data."""

    name: str
    partition: int
    node: int
    unclean: bool = False


class RebalanceRequest(Struct):
    """R16: give every partition back to the first live ISR member of its replica list."""


class TransferControllerRequest(Struct):
    to: int


class PartitionInfo(Struct):
    index: int
    leader: int
    epoch: int
    version: int
    replicas: list[int]
    isr: list[int]
    eligible: list[int]
    ready: bool


class StreamInfo(Struct):
    id: int
    config: StreamConfig
    partitions: list[PartitionInfo]


class StreamInfoReply(Struct):
    streams: list[StreamInfo]


class DoneReply(Struct):
    detail: str = ""


class NodeInfo(Struct):
    node: int
    live: bool
    incarnation: int
    address: str
    voter: bool


class ReplicaInfo(Struct):
    """A replica as the answering node sees its own copy."""

    partition: PartitionId
    role: str
    epoch: int
    leo: int
    durable_leo: int
    hw: int
    log_start: int
    tail: str
    state: str


class ClusterStatusReply(Struct):
    answered_by: int
    controller: int
    term: int
    applied: int
    nodes: list[NodeInfo]
    replicas: list[ReplicaInfo]
    counters: dict[str, int]


class ErrorReply(Struct):
    """`code`: one of the ERR_* names. `retryable`: another server or a later try may succeed (R3, N4)."""

    code: str
    description: str
    retryable: bool
    leader: int = 0


ERR_NO_LEADER = "no-leader"
ERR_NOT_LEADER = "not-leader"
ERR_NOT_READY = "not-ready"
ERR_NOT_FOUND = "not-found"
ERR_EXISTS = "already-exists"
ERR_INVALID = "invalid"
ERR_OFFSET_RANGE = "offset-out-of-range"
ERR_DAMAGED = "damaged"
ERR_OVERLOAD = "overload"
ERR_TIMEOUT = "timeout"
ERR_TOO_FEW_INSYNC = "too-few-in-sync"
ERR_TOO_LARGE = "too-large"
ERR_FAILED = "storage-failed"

ClientMessage = (
    ReadRequest
    | OffsetRequest
    | CreateStreamRequest
    | DeleteStreamRequest
    | StreamInfoRequest
    | ClusterStatusRequest
    | ElectLeaderRequest
    | RebalanceRequest
    | TransferControllerRequest
)
ClientReply = ReadReply | OffsetReply | StreamInfoReply | DoneReply | ClusterStatusReply | ErrorReply

PeerMessage = (
    VoteRequest
    | VoteReply
    | AppendRequest
    | AppendReply
    | ReadIndexRequest
    | ReadIndexReply
    | TimeoutNow
    | BirthQuery
    | BirthReply
    | Forward
    | Heartbeat
    | HeartbeatReply
    | Fetch
    | FetchProgress
    | FetchReply
)


# --------------------------------------------------------------------------------------------------
# Effects: what the core asks the driver to do
# --------------------------------------------------------------------------------------------------


class Effect(msgspec.Struct):
    """Base of effects. A driver carries them out in list order."""


class Send(Effect):
    """Give `message` to the network once ticket `after` is durable (0 = at once); drop it if that fails."""

    to: int
    message: PeerMessage
    after: Ticket = NO_TICKET


class SetTimer(Effect):
    """Fire `TimerFired(kind)` once, after a time drawn from [min_ms, max_ms]; one timer a kind."""

    kind: str
    min_ms: int
    max_ms: int


TIMER_ELECTION = "election"
TIMER_TICK = "tick"


class StorageJob(Effect):
    """Base of effects for the storage thread, which carries them out in the order of submission."""


class OpenLog(StorageJob):
    """Open, or create empty, a partition's log -> `LogOpened`. `fresh`: trash what is there first (I2)."""

    log: PartitionId
    fresh: bool = False


class AppendLog(StorageJob):
    """Append at the LEO, then sync -> `Durable(ticket)` or `StorageFailed(ticket)`. Group-committed."""

    log: PartitionId
    batches: list[Batch]
    ticket: Ticket


class TruncateLog(StorageJob):
    """Remove everything at or above `offset`, durably, before any later job -> `Durable(ticket)`."""

    log: PartitionId
    offset: int
    ticket: Ticket


class RebuildLog(StorageJob):
    """After a failed sync (R5): keep only what lies below `keep_below`, copied into a new file and synced.

    -> `LogOpened` with tail DAMAGED if anything was cut, or `StorageFailed`.
    """

    log: PartitionId
    keep_below: int


class CheckpointHw(StorageJob):
    """Remember the HW, atomically; never above the durable LEO (R8). No answer."""

    log: PartitionId
    hw: int


class SaveHardState(StorageJob):
    """Replace the Raft hard state atomically and durably -> `Durable(ticket)`."""

    state: HardState
    ticket: Ticket


class SaveIdentity(StorageJob):
    """Replace the identity file atomically and durably -> `Durable(ticket)`."""

    identity: Identity
    ticket: Ticket


class TrashLog(StorageJob):
    """I1: move the log's folder to the trash, where it is kept for a time. No answer."""

    log: PartitionId


class ReadLog(StorageJob):
    """Read whole batches from the one that holds `offset`, below `limit` -> `LogRead`. At least one batch."""

    log: PartitionId
    request: int
    offset: int
    limit: int
    max_bytes: int


class LookupTime(StorageJob):
    """First offset whose timestamp is at or after `timestamp_ms`, else the LEO -> `TimeFound`."""

    log: PartitionId
    request: int
    timestamp_ms: int


STORAGE_JOBS: tuple[type[StorageJob], ...] = (
    OpenLog,
    AppendLog,
    TruncateLog,
    RebuildLog,
    CheckpointHw,
    SaveHardState,
    SaveIdentity,
    TrashLog,
    ReadLog,
    LookupTime,
)
"""What a driver hands to its `StorageRunner`."""


class Subscribe(Effect):
    """Subscribe at NATS -> `Subscribed(partition, epoch)` once the server confirmed it (N1)."""

    partition: PartitionId
    epoch: int
    subject: str
    max_payload_bytes: int
    ack_reply: bool


class Unsubscribe(Effect):
    """Unsubscribe and drop what is buffered for this partition, unanswered (N2, N3)."""

    partition: PartitionId


class AckPublishes(Effect):
    """Answer publishers: message i of the list has offset `offsets_from + i`; an empty reply gets nothing."""

    partition: PartitionId
    stream: str
    epoch: int
    offsets_from: int
    replies: list[bytes]


class RefusePublishes(Effect):
    """Tell publishers that this epoch did not store their message (N4, N6)."""

    partition: PartitionId
    stream: str
    epoch: int
    code: str
    description: str
    replies: list[bytes]


class ReplyClient(Effect):
    client: ClientRef
    reply: ClientReply


class StopNode(Effect):
    """The node cannot go on (its Raft state cannot be stored, say): end the process with this text."""

    reason: str


# --------------------------------------------------------------------------------------------------
# Events: what the driver tells the core
# --------------------------------------------------------------------------------------------------


class Event(msgspec.Struct):
    """Base of events."""


class Received(Event):
    sender: int
    message: PeerMessage


class TimerFired(Event):
    kind: str


class Durable(Event):
    ticket: Ticket


class StorageFailed(Event):
    """A job failed. `sync`: a sync failed (R5, final for the replica); else a write was refused (D5)."""

    log: PartitionId
    ticket: Ticket
    sync: bool
    error: str


class LogOpened(Event):
    summary: LogSummary


class LogRead(Event):
    """Answer to `ReadLog`. `error` not empty: the range could not be read or verified."""

    log: PartitionId
    request: int
    batches: list[Batch]
    error: str = ""


class TimeFound(Event):
    log: PartitionId
    request: int
    offset: int


class BusUp(Event):
    """NATS is connected; all earlier subscriptions are gone."""


class BusDown(Event):
    """NATS is not reachable."""


class Subscribed(Event):
    partition: PartitionId
    epoch: int


class Published(Event):
    """Messages from NATS for one subscription, in order, stamped by the driver's wall clock."""

    partition: PartitionId
    epoch: int
    messages: list[Message]
    timestamp_ms: int


class ClientRequest(Event):
    client: ClientRef
    request: ClientMessage


class ClientGone(Event):
    """The client's connection closed: forget what it waits for."""

    client: ClientRef


class StopRequested(Event):
    """Orderly shutdown: hand over what can be handed over."""


__all__ = [name for name in dir() if not name.startswith("_")]
