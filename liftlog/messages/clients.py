"""Client requests and replies; the TCP and NATS APIs turn bytes into these and back."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from liftlog.messages.consumers import FILTERS_MAX, ConsumerReply, ConsumerRequest
from liftlog.messages.struct import Struct
from liftlog.types import (
    NO_OFFSET,
    NUMBER_MAX,
    Line,
    NodeId,
    NodeOrNobody,
    Number,
    PartitionId,
    PartitionIndex,
    StreamConfig,
    TimestampMs,
    Word,
)

SUBJECTS_PAGE_MAX = 1000
"""Subjects in one answer."""


class ReadRequest(Struct):
    """Records from `offset` on, below this replica's HW (R3). `seen_*` = the greatest the client has seen."""

    partition: PartitionId
    offset: Number
    max_bytes: Number = 1024 * 1024
    wait_ms: Number = 0
    seen_epoch: Number = 0
    seen_hw: Number = 0
    seen_dropped: Annotated[int, Meta(ge=-1, le=NUMBER_MAX)] = -1
    """C4: `dropped_below` of the first answer this reader got; -1 = it does not mind missing tombstones."""
    verify: bool = False
    """D2: an answer to this request was damaged: the server looks itself this time, instead of passing on
    what lies on its disk."""


class ReadReply(Struct):
    partition: PartitionId
    epoch: int
    hw: int
    log_start: int
    next_offset: int
    """Where to read next. Batches may begin before the asked offset, or lie there: the client skips."""
    batches: list[bytes]
    """Each item holds one frame or several, one after the other."""
    dropped_below: int = 0
    """C4: tombstones below this offset may be gone on this replica."""
    first_offset: int = NO_OFFSET
    """Where the first batch begins: what lies in files was not looked at (D1). NO_OFFSET: there is none."""


class VisibleReadRequest(ReadRequest):
    """The same of a stream whose messages can be deleted: what the client once saw deleted it never sees
    again (R3). `seen_journal` = the greatest HW of the partition's journal that it has seen.
    """

    seen_journal: Number = 0


KEYS_MAX = 256
"""So many keys one reader may name."""


class FilteredReadRequest(VisibleReadRequest):
    """S2: the same, of the records alone whose subject one of the patterns matches, and that have one of the
    keys. Without patterns of all subjects, without keys of any key or none. `max_bytes` is for what is sent;
    the answer's `next_offset` says up to where was looked, and nothing is left out below it.
    """

    subjects: Annotated[list[Line], Meta(max_length=FILTERS_MAX)] = field(default_factory=list)
    keys: Annotated[list[bytes], Meta(max_length=KEYS_MAX)] = field(default_factory=list)


class VisibleReadReply(ReadReply):
    """`journal`: every deletion below this offset of the partition's journal is heeded here."""

    journal: int = 0


class OffsetRequest(Struct):
    """`what`: "earliest", "latest" (HW - 1), "new" (HW) or "time" (first record at or after timestamp_ms)."""

    partition: PartitionId
    what: Word
    timestamp_ms: TimestampMs = 0


class OffsetReply(Struct):
    partition: PartitionId
    offset: int
    epoch: int


LAST_OF_SUBJECT = "last"
NEXT_MATCH = "next"
MATCHING_SUBJECTS = "subjects"
SUBJECT_QUESTIONS = (LAST_OF_SUBJECT, NEXT_MATCH, MATCHING_SUBJECTS)


class SubjectRequest(Struct):
    """S1: a question about the subjects of a partition's committed records.

    `what`: "last" = the offset of the last record with exactly the subject `pattern`; "next" = that of the
    next one at `offset` or above whose subject the filter `pattern` matches; "subjects" = which subjects the
    filter matches, each with the number of its records, at most `limit` of them: the page that begins at
    place `offset` of the index with this number.
    """

    partition: PartitionId
    what: Word
    pattern: Line
    offset: Number = 0
    limit: Annotated[int, Meta(ge=1, le=SUBJECTS_PAGE_MAX)] = SUBJECTS_PAGE_MAX
    index: Number = 0
    known: bool = False
    """False: the partition's leader answers, behind a read-index round, with everything that was acked when
    the request came. True: any copy answers with what it knows to be committed."""
    wait_ms: Number = 0
    """How long to wait for the index to be made; 0 = as long as any request waits."""


class SubjectReply(Struct):
    """S1: what holds of the committed records at offsets [log_start, hw) of the partition."""

    partition: PartitionId
    epoch: int
    hw: int
    log_start: int
    offset: int = NO_OFFSET
    """Where the record lies; NO_OFFSET: there is none."""
    subjects: list[tuple[bytes, int]] = field(default_factory=list)
    messages: int = 0
    """"subjects": how many records match, those of other pages too."""
    place: int = NO_OFFSET
    """"subjects": where the next page begins; NO_OFFSET: this was the last."""
    index: int = 0
    """"subjects": number of the index. Pages of one reading come from one index."""
    journal: int = 0
    """R21: up to where the partition's journal is heeded: what it deletes below is not counted."""
    size: int = 0
    """R25: bytes that all messages of the partition count for (`liftlog/sizes.py`), whatever was asked."""
    behind: list[tuple[str, int]] = field(default_factory=list)
    """R28, R29: by streams that it copies and its leader hears of, how many offsets of theirs it has not
    looked at; whatever was asked."""
    problem: str = ""
    """R28, R29: why its leader copies nothing of what it is to copy, or of some of it; empty: it does."""


class CreateStreamRequest(Struct):
    config: StreamConfig


class StreamChanges(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """R19: new values of fields of a `StreamConfig`; what is not named stays as it is.

    These fields, and no others, can be altered. What their values may be is judged with the configuration
    that comes of it (`liftlog/core/metadata/alterations.py`).
    """

    retention_ms: Number | UnsetType = UNSET
    retention_bytes: Number | UnsetType = UNSET
    retention_messages: Number | UnsetType = UNSET
    compact: bool | UnsetType = UNSET
    min_compaction_lag_ms: Number | UnsetType = UNSET
    dirty_ratio_percent: Number | UnsetType = UNSET
    tombstone_retention_ms: Number | UnsetType = UNSET
    segment_bytes: Number | UnsetType = UNSET
    segment_ms: Number | UnsetType = UNSET
    segment_records: Number | UnsetType = UNSET
    codec: Word | UnsetType = UNSET
    read_only: bool | UnsetType = UNSET
    replication_factor: Number | UnsetType = UNSET
    min_insync_replicas: Number | UnsetType = UNSET
    partitions: Number | UnsetType = UNSET
    paused: bool | UnsetType = UNSET
    dedupe_window_ms: Number | UnsetType = UNSET
    dedupe_ids_max: Number | UnsetType = UNSET
    messages_max: Number | UnsetType = UNSET
    bytes_max: Number | UnsetType = UNSET
    max_messages_per_subject: Number | UnsetType = UNSET
    subject: Line | UnsetType = UNSET
    more_subjects: tuple[Line, ...] | UnsetType = UNSET
    allow_rollup: bool | UnsetType = UNSET
    notes: tuple[tuple[Word, str], ...] | UnsetType = UNSET
    deny_delete: bool | UnsetType = UNSET
    deny_purge: bool | UnsetType = UNSET
    sealed: bool | UnsetType = UNSET
    allow_ttl: bool | UnsetType = UNSET
    marker_ttl_ms: Number | UnsetType = UNSET
    allow_batches: bool | UnsetType = UNSET
    allow_fast_batches: bool | UnsetType = UNSET
    mirror: Line | UnsetType = UNSET
    sources: tuple[tuple[Line, str], ...] | UnsetType = UNSET
    origins: tuple[tuple[Line, Line], ...] | UnsetType = UNSET
    starts: tuple[tuple[Line, Word], ...] | UnsetType = UNSET
    interest: bool | UnsetType = UNSET
    subject_messages_max: Number | UnsetType = UNSET
    max_payload_bytes: Number | UnsetType = UNSET

    @property
    def named(self) -> dict[str, Any]:
        """The new values, by the names of their fields."""
        fields = self.__struct_fields__
        return {name: value for name in fields if (value := getattr(self, name)) is not UNSET}


class AlterStreamRequest(Struct):
    """R19: change the configuration of a stream that exists. `id`: as in `DeleteStreamRequest`."""

    name: Line
    changes: StreamChanges
    id: Number = 0


class DeleteStreamRequest(Struct):
    """`id` 0 = the stream that bears the name when the request comes; else only the one with this id (I1)."""

    name: Line
    id: Number = 0


class PurgeRequest(Struct):
    """C3: remove every record below `before` (at most the HW).

    The partition's leader answers `DoneReply` once the log start is durable on the whole ISR.
    """

    partition: PartitionId
    before: Number


class DeleteMessageRequest(Struct):
    """Delete the message at `offset`, which is committed: no reader gets it any more (ADR 0062).

    The partition's leader answers `MessageDeleted` once that is committed. Of a message that is gone it
    answers the same.
    """

    partition: PartitionId
    offset: Number


class PurgeSubjectsRequest(Struct):
    """Delete the messages below offset `below`, at most the HW, whose subject the filter `pattern` matches:
    all but the newest `keep` of them (R21).

    The partition's leader answers `SubjectsPurged` once all of that is committed. What is answered with an
    error may have been done in part; to ask again does the rest, and never more.
    """

    partition: PartitionId
    pattern: Line
    below: Number
    keep: Number = 0


Deleting = DeleteMessageRequest | PurgeSubjectsRequest
"""What deletes messages by the journal (R21)."""


class SubjectsPurged(Struct):
    """`messages`: how many were still there. `journal`: as in `MessageDeleted`."""

    partition: PartitionId
    messages: int
    journal: int


class MessageDeleted(Struct):
    """Who reads and repeats `journal` (`VisibleReadRequest`) does not get the message at `offset`."""

    partition: PartitionId
    offset: int
    journal: int


class StreamInfoRequest(Struct):
    """`name` empty = all streams. Linearizable: answered after a read-index round (M1).

    `known`: answered at once, by what the asked node has applied; that may be old, or still to come.
    """

    name: Line = ""
    known: bool = False


class ClusterStatusRequest(Struct):
    pass


class ElectLeaderRequest(Struct):
    """Explicit election (R14, R16). `unclean` allows a replica that may lack committed data.

    `id`, `version`: of the stream and of its partition, as the operator has seen them (`StreamInfo`); 0 = as
    they are when the request comes.
    """

    name: Line
    partition: PartitionIndex
    node: NodeId
    unclean: bool = False
    id: int = 0
    version: int = 0


class RebalanceRequest(Struct):
    """R16: give every partition back to the first live ISR member of its replica list."""


class MoveReplicasRequest(Struct):
    """R20: `partition` of the stream is to have its copies on `replicas`, the first of which is to lead it.

    Empty: a move that is under way is cancelled, and the copies stay where they were before it. `id`: as in
    `DeleteStreamRequest`. `assignment`: of the partition, as the operator has seen it (`PartitionInfo`); -1 =
    as it is when the request comes.
    """

    name: Line
    partition: PartitionIndex
    replicas: Annotated[list[NodeId], Meta(max_length=64)]
    id: Number = 0
    assignment: Annotated[int, Meta(ge=-1, le=NUMBER_MAX)] = -1


class TransferControllerRequest(Struct):
    to: NodeId


class SetVoterRequest(Struct):
    """M2: whether a node is to vote in the metadata group. It serves its partitions either way."""

    node: NodeId
    votes: bool


class RaiseLevelRequest(Struct):
    """U2: the controller is to raise the cluster's feature level as far as it knows any."""


class AddNodeRequest(Struct):
    """I3: admit a node, where the others call it; or say that it is called there from now on."""

    node: NodeId
    address: Line


class RemoveNodeRequest(Struct):
    """I3: a node is of the cluster no more, for good. It has to keep nothing, and is not to vote."""

    node: NodeId


class DrainNodeRequest(Struct):
    """R20: a node is to keep no copy that another one can have, or may keep some again."""

    node: NodeId
    drains: bool


class RetireNodeRequest(Struct):
    """I3: a node is to give away what it has, and to be removed then; `heir` is to have it, if one is named.
    Not `retires`: it is not, if it is not removed yet.
    """

    node: NodeId
    retires: bool
    heir: NodeOrNobody = 0


class SlowReplica(Struct):
    """R17: for this one the others had to wait. `removals`: how often it left the ISR for that."""

    node: int
    removals: int


class PartitionInfo(Struct):
    index: int
    leader: int
    epoch: int
    version: int
    replicas: list[int]
    isr: list[int]
    eligible: list[int]
    ready: bool
    min_insync: int = 0
    """How many must be in sync for anything to be committed."""
    refusal: str = ""
    """N1: why NATS does not let the leader subscribe, in its words."""
    slow: list[SlowReplica] = field(default_factory=list)
    """R17: who is known to be slow."""
    target: list[int] = field(default_factory=list)
    """R20: who is to have a copy when the move that is under way is over; empty = nothing is moved."""
    adding: list[int] = field(default_factory=list)
    """R20: those of the replicas that had no copy before the move."""
    dropping: list[int] = field(default_factory=list)
    """R20: who has left and has not said yet that its copy is gone."""
    assignment: int = 0
    """R20: index of the last word about who is to have copies; 0 = none since the stream was created."""


class StreamInfo(Struct):
    id: int
    config: StreamConfig
    partitions: list[PartitionInfo]
    revision: int = 0
    """R19: index of the last alteration of the configuration; 0 = it is as it was created."""


class StreamInfoReply(Struct):
    streams: list[StreamInfo]
    told_by: int = 0
    linearizable: bool = False
    """It holds everything that was decided before the request came."""
    age_ms: int = 0
    """How long ago who tells it heard a controller, or a quorum as one: what was decided since may be
    missing. -1 = never in this run."""
    applied: int = 0
    """Index up to which it has applied the metadata."""


class DoneReply(Struct):
    detail: str = ""


class NodeInfo(Struct):
    node: int
    live: bool
    incarnation: int
    address: str
    voter: bool
    state: str = ""
    """Its session: "registered" (starting), "live", "expired" (lost), "left" (stopped in an orderly way)."""


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
    clean_point: int = 0
    """C1: how far this copy has compacted."""
    damage: tuple[str, ...] = ()
    """D2: ranges of offsets that cannot be read, as text; no copy with damage is in sync."""


class Contact(Struct):
    """What the answering node knows of the metadata group, by its own clock; -1 = never in this run."""

    vote: str = ""
    """"born": its vote counts. "learner": never. "withheld", "wiped": its disk was found rolled back or
    empty (I2). "fresh", "signed": the cluster's birth is not complete."""
    has_controller: bool = False
    """It hears, or is, a controller that hears a quorum."""
    last_controller: int = 0
    controller_ms: int = -1
    """How long ago that one was heard, or, on the controller, a quorum."""
    session_ms: int = -1
    """How long ago the last heartbeat was sent that the controller answered."""
    fenced: bool = False
    """N2: it takes no messages and answers none."""
    nats: bool = False
    """It is connected to NATS."""
    leaving: bool = False
    """An orderly stop is under way."""
    metadata_refused: str = ""
    """Why its disk takes no metadata (D5); empty = it does."""
    voters: tuple[int, ...] = ()
    """Who votes, by the last configuration in this node's log (M2)."""
    learners: tuple[int, ...] = ()
    """Who is on the way to a vote."""
    cluster: str = ""
    """M5: number and name of its cluster's epoch, as "1-36bfdf4c9df7d2ee"; "1-": the name is unknown."""
    strangers: list[tuple[int, str]] = field(default_factory=list)
    """M5: nodes that it does not hear, since they are of another cluster or epoch, and why."""


class ClusterStatusReply(Struct):
    answered_by: int
    controller: int
    term: int
    applied: int
    nodes: list[NodeInfo]
    replicas: list[ReplicaInfo]
    counters: dict[str, int]
    contact: Contact = field(default_factory=Contact)
    snapshot: int = 0
    """M1p: how many entries this node's snapshot of the metadata holds; 0: it has none."""
    log_start: int = 0
    """Behind which entry its log of commands begins."""
    installing: tuple[int, int, int] | None = None
    """(entries in it, chunks that have come, chunks) of a snapshot that is on its way to this node."""


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
ERR_EXPECTED_OFFSET = "expected-offset"
"""L6: the message would not come to lie where its publisher expects it."""
ERR_EXPECTED_LAST = "expected-last"
"""L9: the last record of its subject is not the one that its publisher expects."""
ERR_NOT_DUE = "sequence-not-due"
"""L2: what precedes this message of its producer is not there."""
ERR_FENCED = "producer-fenced"
"""L2: a newer run of the message's producer has begun."""
ERR_LONG_STORED = "sequence-long-stored"
"""L2: the message is stored, so long ago that nobody remembers where."""
ERR_CURSOR = "cursor-refused"
"""L10: the message's cursor, or that it has none, does not fit what its producer has stored."""
ERR_NO_CURSOR = "cursor-unknown"
"""L10: a run is to be opened, and nothing is known of its producer; it did not say where to begin."""
ERR_HEADER = "header-not-honoured"
ERR_ENVELOPE = "envelope-not-honoured"
ERR_ENVELOPE_DAMAGED = "envelope-damaged"
ERR_WRONG_STREAM = "wrong-stream"
ERR_PARCEL = "parcel-refused"
"""L8: what came as a parcel is none, or holds a record that cannot be stored so."""
ERR_PARCEL_HERE = "parcel-refused-here"
"""L8: this leader cannot take the parcel, and another may: it is too large for its batches, or packed with a
codec whose library it lacks."""
ERR_TTL_DISABLED = "ttl-disabled"
ERR_TTL_INVALID = "ttl-invalid"
ERR_ROLLUP_DISABLED = "rollup-disabled"
ERR_COUNTER_DISABLED = "counters-disabled"
ERR_BATCH_DISABLED = "batches-disabled"
ERR_SCHEDULE_DISABLED = "schedules-disabled"
ERR_SOURCE_HEADER = "source-header"
"""The last thirteen: what a message's headers or its envelope ask for is not done here (L1, L4)."""
ERR_BATCH_ID = "batch-id"
ERR_BATCH_SEQUENCE = "batch-sequence"
ERR_BATCH_COMMIT = "batch-commit"
ERR_BATCH_HEADER = "batch-header"
"""L11: what a message asks for is not done within a batch."""
ERR_BATCH_DUPLICATE = "batch-duplicate"
"""L11: a message of the batch is there already, by its id (L7), or is in it twice."""
ERR_EXPECTED_ID = "expected-last-id"
"""L7: the message before it has not the id that it expects."""
ERR_EXPECTED_WITHIN = "expected-within-batch"
"""L11: a message expects what those before it in its batch would have changed."""
ERR_BATCH_LARGE = "batch-too-large"
ERR_BATCH_INCOMPLETE = "batch-incomplete"
"""L11: this leader lacks messages that precede it in its batch; the batch is given up here."""
ERR_BATCH_MANY = "too-many-batches"
ERR_FAST_DISABLED = "fast-batches-disabled"
ERR_FAST_PATTERN = "fast-batch-pattern"
ERR_FAST_ID = "fast-batch-id"
ERR_FAST_UNKNOWN = "fast-batch-unknown"
ERR_FAST_MANY = "too-many-fast-batches"
"""L12: of fast batches."""
ERR_READ_ONLY = "read-only"
"""R19: the stream takes no messages until an operator lets it."""
ERR_FULL = "full"
"""C6: the partition holds as many messages as it may."""
ERR_NATS_REFUSES = "nats-refuses"
"""N1: NATS lets no replica subscribe."""
ERR_COMPACTED = "compacted-past-start"
"""C4: tombstones that this reader has not seen yet are gone: begin again from the front."""
ERR_INDEX_FULL = "subject-index-full"
"""S1: the subjects of this partition need more memory than the node gives to subject indexes."""
ERR_INDEX_RENEWED = "subject-index-renewed"
"""S1: the index was made anew between two pages of subjects: begin again with the first page."""
ERR_PIN_OTHER = "pin-other"
"""K10: another client is pinned than that of the pin which a pull names."""
ERR_PIN_LOST = "pin-lost"
"""K10: the client of the pin which a pull names is pinned no more."""
ERR_NOT_ALLOWED = "not-allowed"
"""V9: the client has not the right that the request needs."""
ERR_STALE = "stale"
"""The stream was altered, or the copies moved, since the author of the request had looked."""

ClientMessage = (
    ReadRequest
    | OffsetRequest
    | SubjectRequest
    | CreateStreamRequest
    | AlterStreamRequest
    | DeleteStreamRequest
    | PurgeRequest
    | DeleteMessageRequest
    | PurgeSubjectsRequest
    | VisibleReadRequest
    | FilteredReadRequest
    | StreamInfoRequest
    | ClusterStatusRequest
    | ElectLeaderRequest
    | MoveReplicasRequest
    | RebalanceRequest
    | TransferControllerRequest
    | SetVoterRequest
    | RaiseLevelRequest
    | AddNodeRequest
    | RemoveNodeRequest
    | DrainNodeRequest
    | RetireNodeRequest
    | ConsumerRequest
)
ClientReply = (
    ReadReply
    | VisibleReadReply
    | OffsetReply
    | SubjectReply
    | StreamInfoReply
    | DoneReply
    | MessageDeleted
    | SubjectsPurged
    | ClusterStatusReply
    | ConsumerReply
    | ErrorReply
)
