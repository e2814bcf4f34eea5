"""Messages between nodes: Raft (M1) and replication (R6-R11). None is needed for safety."""

from __future__ import annotations

from liftlog.messages.struct import Struct
from liftlog.types import Entry, PartitionId

# ----- Raft (M1) --------------------------------------------------


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


# ----- replication (R6-R11) --------------------------------------------------


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
    log_start: int = 0
    """The follower's durable log start: a purge is done when every ISR member has it (C3)."""
    clean_point: int = 0
    """How far the follower has compacted, durably (C2)."""


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
    log_start: int = 0


class FetchReply(Struct):
    """`status` is one of the FETCH_* constants.

    OK: `batches` continue the log at the asked offset, `hw` is the leader's. DIVERGED: the leader's largest
    epoch not above the asked one is `end_epoch` and ends at `end_offset`. FENCED / UNKNOWN: nothing else is
    meaningful. DAMAGED: the leader could not read that range. BELOW_START: the asked offset lies below the
    leader's `log_start`; the record before that has epoch `end_epoch`, which begins at `end_offset` (C3).
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
    tombstones_below: int = 0
    """Every replica has compacted past this offset: tombstones below it may go (C2)."""
    dropped_below: int = 0
    """Tombstones below this offset may be missing from the batches (C4)."""


FETCH_OK, FETCH_DIVERGED, FETCH_FENCED, FETCH_UNKNOWN, FETCH_DAMAGED, FETCH_BELOW_START = 0, 1, 2, 3, 4, 5


class RangeFetch(Struct):
    """D2: a follower with a damaged range asks for the batches of [offset, end), all below the HW."""

    partition: PartitionId
    epoch: int
    incarnation: int
    request: int
    offset: int
    end: int
    max_bytes: int


class RangeReply(Struct):
    """`status` as in `FetchReply` (OK, FENCED, UNKNOWN, DAMAGED, BELOW_START). The batches cover a run from
    the asked offset on; the first may begin before it and the last may end after the range.
    """

    partition: PartitionId
    epoch: int
    incarnation: int
    request: int
    status: int
    log_start: int
    batches: list[bytes]
    dropped_below: int = 0


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
    | RangeFetch
    | RangeReply
)
