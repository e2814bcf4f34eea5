"""Messages between nodes: Raft (M1) and replication (R6-R11). None is needed for safety."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from liftlog.messages.struct import Struct
from liftlog.types import (
    NUMBER_MAX,
    ChunkBytes,
    CommandBytes,
    Entry,
    Handle,
    Level,
    Line,
    NodeId,
    Number,
    PartitionId,
    Word,
)

ITEMS_MAX = 1 << 20
"""Items of one message; the greatest limits of the configuration allow about a quarter of it."""
Frames = Annotated[list[bytes], Meta(max_length=ITEMS_MAX)]
FetchStatus = Annotated[int, Meta(ge=0, le=5)]
FetchBytes = Annotated[int, Meta(ge=1, le=16 * 1024 * 1024)]

# ----- Raft (M1) --------------------------------------------------


class VoteRequest(Struct):
    term: Number
    candidate: NodeId
    last_index: Number
    last_term: Number
    pre_vote: bool
    transfer: bool = False
    """Set when the old leader asked for this election (leadership transfer): leader stickiness is waived."""
    disk: Word = ""
    """The candidate's (M2b)."""


class VoteReply(Struct):
    term: Number
    voter: NodeId
    granted: bool
    pre_vote: bool
    disk: Word = ""
    """The voter's (M2b)."""


class AppendRequest(Struct):
    term: Number
    leader: NodeId
    prev_index: Number
    prev_term: Number
    commit: Number
    round: Number
    """Number of the leader's heartbeat round, for check-quorum and read-index."""
    entries: Annotated[list[Entry], Meta(max_length=ITEMS_MAX)]


class AppendReply(Struct):
    term: Number
    follower: NodeId
    success: bool
    match: Number
    """success: how far the follower's durable log is known to equal the leader's, never beyond the request
    answered; else: where the leader should try next."""
    round: Number
    counts: bool = True
    """False while the follower's disk must not vote (I2): the leader counts this reply for nothing."""
    disk: Word = ""
    """The follower's (M2b)."""


class SnapshotChunk(Struct):
    """M1q: a part of the leader's snapshot, for a node that needs entries which the leader has dropped."""

    term: Number
    leader: NodeId
    index: Number
    """Of the last entry that is in the snapshot, and its term."""
    index_term: Number
    number: Annotated[int, Meta(ge=0, le=ITEMS_MAX)]
    """Of this chunk, from 0 on, and how many there are."""
    count: Annotated[int, Meta(ge=1, le=ITEMS_MAX)]
    commit: Number
    round: Number
    data: ChunkBytes


class SnapshotReply(Struct):
    """M1q: which chunk the follower needs next. Once it has them all it answers with an `AppendReply`."""

    term: Number
    follower: NodeId
    index: Number
    wanted: Annotated[int, Meta(ge=0, le=ITEMS_MAX)]
    round: Number
    counts: bool = True
    disk: Word = ""


class ReadIndexRequest(Struct):
    request: Handle


class ReadIndexReply(Struct):
    request: Handle
    index: Annotated[int, Meta(ge=-1, le=NUMBER_MAX)]
    """-1: the asked node is not the leader (any more), or has too many reads waiting."""


class TimeoutNow(Struct):
    term: Number


class Belongs(Struct):
    """M5: of which epoch of which cluster all that follows on this connection is; before it, of the first of
    one that is not named. The network takes it in (`Received.epoch`), and no node.
    """

    number: Number
    name: Word


class BirthQuery(Struct):
    """I2: a disk that has never been in a cluster asks the others who they are before it may vote."""

    disk_id: Word


class BirthReply(Struct):
    disk_id: Word
    fresh: bool
    """The answering disk has never been part of a cluster either: it has signed no birth certificate."""
    knows_you: bool
    """The asker's disk id stands in the certificate that the answering disk has signed."""
    signed: Annotated[list[tuple[NodeId, Word]], Meta(max_length=64)]
    """That certificate (`HardState.peer_disks`), durable; empty when fresh."""
    born: bool
    """All disks of the certificate are known to have signed it; or, if nothing is signed here, there is a
    cluster already."""


class Forward(Struct):
    """A metadata command on its way to the controller; sent again until it is seen applied (M3)."""

    command: CommandBytes


class Heartbeat(Struct):
    """Session of a node with the controller. `sequence` comes back and tells the node when it was sent."""

    incarnation: Number
    sequence: Number
    applied: Number


class LevelReport(Struct):
    """U2: up to which feature level this run of a node can follow, for the controller."""

    incarnation: Number
    level: Level


class HeartbeatReply(Struct):
    incarnation: Number
    sequence: Number


# ----- replication (R6-R11) --------------------------------------------------


class Fetch(Struct):
    """R6. `last_epoch` is the epoch of the follower's record before `offset`, 0 if there is none."""

    partition: PartitionId
    epoch: Number
    incarnation: Number
    request: Number
    offset: Number
    durable_leo: Number
    last_epoch: Number
    max_bytes: FetchBytes
    log_start: Number = 0
    """The follower's durable log start: a purge is done when every ISR member has it (C3)."""
    clean_point: Number = 0
    """How far the follower has compacted, durably (C2)."""


class FetchProgress(Struct):
    """A follower's durable LEO between two fetches, so that commits need not wait for a parked fetch (R7).

    Sent only after a reply in this epoch passed the epoch check.
    """

    partition: PartitionId
    epoch: Number
    incarnation: Number
    offset: Number
    durable_leo: Number
    last_epoch: Number
    log_start: Number = 0


class FetchReply(Struct):
    """`status` is one of the FETCH_* constants.

    OK: `batches` continue the log at the asked offset, `hw` is the leader's. DIVERGED: the leader's largest
    epoch not above the asked one is `end_epoch` and ends at `end_offset`. FENCED / UNKNOWN: nothing else is
    meaningful. DAMAGED: the leader could not read that range. BELOW_START: the asked offset lies below the
    leader's `log_start`; the record before that has epoch `end_epoch`, which begins at `end_offset` (C3).
    """

    partition: PartitionId
    epoch: Number
    incarnation: Number
    """Of the follower that asked: its next run numbers its fetches anew, perhaps in the same epoch (R6)."""
    request: Number
    status: FetchStatus
    hw: Number
    log_start: Number
    leader_leo: Number
    end_epoch: Number
    end_offset: Number
    batches: Frames
    tombstones_below: Number = 0
    """Every replica has compacted past this offset: tombstones below it may go (C2)."""
    dropped_below: Number = 0
    """Tombstones below this offset may be missing from the batches (C4)."""

    @classmethod
    def refused(cls, fetch: Fetch, status: int) -> FetchReply:
        """R6: without anything that could be acted on."""
        return cls(
            partition=fetch.partition,
            epoch=fetch.epoch,
            incarnation=fetch.incarnation,
            request=fetch.request,
            status=status,
            hw=0,
            log_start=0,
            leader_leo=0,
            end_epoch=0,
            end_offset=0,
            batches=[],
        )


FETCH_OK, FETCH_DIVERGED, FETCH_FENCED, FETCH_UNKNOWN, FETCH_DAMAGED, FETCH_BELOW_START = 0, 1, 2, 3, 4, 5


class RangeFetch(Struct):
    """D2: a follower with a damaged range asks for the batches of [offset, end), all below the HW."""

    partition: PartitionId
    epoch: Number
    incarnation: Number
    request: Number
    offset: Number
    end: Number
    max_bytes: FetchBytes


class RangeReply(Struct):
    """`status` as in `FetchReply` (OK, FENCED, UNKNOWN, DAMAGED, BELOW_START). The batches cover a run from
    the asked offset on; the first may begin before it and the last may end after the range.
    """

    partition: PartitionId
    epoch: Number
    incarnation: Number
    request: Number
    status: FetchStatus
    log_start: Number
    batches: Frames
    dropped_below: Number = 0

    @classmethod
    def refused(cls, fetch: RangeFetch, status: int, log_start: int = 0) -> RangeReply:
        """Without any batch."""
        return cls(
            partition=fetch.partition,
            epoch=fetch.epoch,
            incarnation=fetch.incarnation,
            request=fetch.request,
            status=status,
            log_start=log_start,
            batches=[],
        )


class MirrorFetch(Struct):
    """R28, R29: the leader of a partition that is a copy asks who leads the same partition of the origin for
    what is committed there from `offset` on, up to where it has that.
    """

    partition: PartitionId
    """The origin's."""
    mirror: PartitionId
    offset: Number
    max_bytes: FetchBytes


class MirrorReply(Struct):
    """R28. `status`: OK: `batches` are what is left of the offsets from the asked one up to `next_offset`,
    all of them committed; the first may begin before it. BELOW_START: the asked one lies below the origin's
    `log_start`. `partition` is the mirror's, `offset` what was asked for; `origin` the stream that answers.
    """

    partition: PartitionId
    offset: Number
    status: FetchStatus
    hw: Number
    log_start: Number
    next_offset: Number
    batches: Frames
    origin: Number = 0


class JoinQuery(Struct):
    """I3: a node that hears no leader asks another one who else there is."""


class JoinReply(Struct):
    """I3: whom there is but for the one who asks, and where they are called, as said at index `at`."""

    peers: Annotated[list[tuple[NodeId, Line]], Meta(max_length=64)]
    at: Number


PeerMessage = (
    VoteRequest
    | VoteReply
    | AppendRequest
    | AppendReply
    | SnapshotChunk
    | SnapshotReply
    | ReadIndexRequest
    | ReadIndexReply
    | TimeoutNow
    | BirthQuery
    | Belongs
    | BirthReply
    | Forward
    | Heartbeat
    | HeartbeatReply
    | LevelReport
    | Fetch
    | FetchProgress
    | FetchReply
    | RangeFetch
    | RangeReply
    | JoinQuery
    | JoinReply
    | MirrorFetch
    | MirrorReply
)

SINCE_PROTOCOL: dict[type, int] = {
    **{LevelReport: 3, Belongs: 3, JoinQuery: 3, JoinReply: 3},
    **{MirrorFetch: 3, MirrorReply: 3},
}
"""U1: messages that are of a later version of the protocol than the first released one, by kind. To a peer
that speaks an earlier one they are not sent."""
