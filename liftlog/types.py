"""The nouns of liftlog: identities, offsets, records, metadata records, limits.

Everything here is plain data, shared by the pure core, the storage code, the drivers and the simulator.
This module imports nothing of the project, so that every other room may import it.

Conventions: times carry their unit last in the name; node ids are positive and 0 stands for "nobody"; `HW`
is exclusive (the first offset that is *not* committed, 0 at birth); `LEO` is the next offset to write.
"""

from __future__ import annotations

from enum import Enum
from typing import Annotated, NamedTuple, NewType

import msgspec
from msgspec import UNSET, Meta, UnsetType

NUMBER_MAX = (1 << 53) - 1
"""V1: no number that counts is greater: a million a second are 285 years, and JSON holds it exactly."""
FIRST_OFFSET_MOST = 1 << 52
"""C7: a stream begins no higher: half of these numbers are left for its messages."""
HANDLE_MAX = (1 << 63) - 1
NODE_MAX = 65535

# What decoders accept (V1): the types of fields that come from outside.
Level = Annotated[int, Meta(ge=1, le=65_535)]
"""A feature level (U2)."""
FEATURE_LEVEL = 2
"""The newest that this liftlog can; what each brings stands in `liftlog/core/metadata/levels.py`."""
Number = Annotated[int, Meta(ge=0, le=NUMBER_MAX)]
"""A term, epoch, offset, index, version, incarnation, count of bytes or milliseconds."""
TimestampMs = Annotated[int, Meta(ge=-NUMBER_MAX, le=NUMBER_MAX)]
Handle = Annotated[int, Meta(ge=0, le=HANDLE_MAX)]
"""A number that comes back as it was sent, or is only compared: it is never counted up."""
NodeId = Annotated[int, Meta(ge=1, le=NODE_MAX)]
NodeOrNobody = Annotated[int, Meta(ge=0, le=NODE_MAX)]
PARTITIONS_MAX = 1024
PartitionIndex = Annotated[int, Meta(ge=0, le=PARTITIONS_MAX - 1)]
LogIndex = Annotated[int, Meta(ge=0, le=2 * PARTITIONS_MAX - 1)]
"""A partition's data, or behind all of these its journal."""
Word = Annotated[str, Meta(max_length=64)]
"""A disk's id, a word out of a fixed list."""
Line = Annotated[str, Meta(max_length=1024)]
"""A name, a subject, an address: long enough for a wrong one to be named in the refusal."""
CommandBytes = Annotated[bytes, Meta(max_length=32 * 1024 * 1024)]
"""An encoded metadata command. The registration of a node with many replicas is the greatest there is."""
ChunkBytes = Annotated[bytes, Meta(max_length=32 * 1024 * 1024)]
"""A part of a snapshot: some hundred records."""

Ticket = NewType("Ticket", int)
"""Number of one durability promise within one run of a node; 0 = nothing to wait for."""
ClientRef = NewType("ClientRef", int)
"""Handle by which a driver finds the way back to the client that asked."""
NO_TICKET = Ticket(0)
NO_NODE = 0
NO_OFFSET = -1
"""Node ids are positive; 0 stands for "nobody"."""


class InvariantViolation(Exception):
    """A condition the protocol guarantees does not hold: a bug in liftlog or damage that was not detected.

    Nothing goes on with a state it cannot explain: a replica stops, or the node if it is not one replica's.
    """


class GroupInDoubt(InvariantViolation):
    """It is the metadata group's: whoever was at work when it was found, the process stops (V5)."""


def invariant(condition: object, message: str) -> None:
    """Raise `InvariantViolation` unless `condition` holds. Stays on under ``python -O``, unlike assert."""
    if not condition:
        raise InvariantViolation(message)


class LiftlogError(Exception):
    """Wrong use or an environment that does not allow the work: the CLI prints it as one line, exit code 2.

    The text names the thing and the remedy.
    """


class PartitionId(NamedTuple):
    """One log: partition `index` of stream `stream` (I1: a stream's id is the Raft index of its create).

    The journal of a partition is a log of its own, whose index is that of the partition and `PARTITIONS_MAX`
    (ADR 0062). What the metadata and clients name are partitions only.
    """

    stream: Number
    index: LogIndex  # type: ignore[assignment]  # hides tuple.index, which nobody needs here

    @property
    def is_journal(self) -> bool:
        return self.index >= PARTITIONS_MAX

    @property
    def partition(self) -> PartitionId:
        """Whose log this is; its record is what the metadata say of both logs."""
        return PartitionId(self.stream, self.index % PARTITIONS_MAX) if self.is_journal else self

    @property
    def journal(self) -> PartitionId:
        """The other log of this partition."""
        return PartitionId(self.stream, self.index % PARTITIONS_MAX + PARTITIONS_MAX)

    @property
    def label(self) -> str:
        """Which of its stream's logs this is, for people and for folders."""
        return f"{self.index - PARTITIONS_MAX}.journal" if self.is_journal else str(self.index)

    def __str__(self) -> str:
        return f"{self.stream}/{self.label}"


LogId = PartitionId
RAFT_LOG = PartitionId(0, 0)
"""The metadata group's own log. No stream has id 0, since Raft indexes start at 1."""


class Message(NamedTuple):
    """One message as it came from NATS, before it has an offset. Bytes, never decoded."""

    subject: bytes
    reply: bytes
    headers: bytes
    value: bytes


class Record(NamedTuple):
    """One stored record. `key` and `value` None are different from empty."""

    offset: int
    timestamp_ms: int
    subject: bytes
    reply: bytes
    headers: bytes
    key: bytes | None
    value: bytes | None


class Batch(msgspec.Struct, frozen=True, gc=False):
    """A run of `count` offsets with one epoch and the records that are there, encoded (see `liftlog.format`).

    `data` is the frame exactly as it travels and, unless it is sealed there, as it lies on disk, except for
    the replica-local prefix, which each replica stamps anew when it appends.
    """

    base_offset: int
    count: int
    epoch: int
    data: bytes

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.count


class EpochStart(NamedTuple):
    """One line of an epoch history: the first offset written in `epoch`."""

    epoch: int
    start: int


class TailState(Enum):
    """What recovery found at the end of a log (R14)."""

    CLEAN = "clean"
    """Stopped cleanly, or nothing was ever written; every byte verified as far as a clean open looks."""
    INTACT = "intact"
    """Unclean stop, but every byte found was good."""
    SUSPECT = "suspect"
    """Unclean stop with bad bytes in the last group: cut and quarantined; something synced may be gone."""
    DAMAGED = "damaged"
    """Bad bytes where a torn write cannot have put them: cut there and quarantined."""
    LOST = "lost"
    """The disk is known to have held this log, and nothing of it is left: a new log was begun (M4)."""


class OffsetRange(NamedTuple):
    """Offsets [start, end)."""

    start: int
    end: int

    def __str__(self) -> str:
        return f"[{self.start}, {self.end})"


class LogOptions(msgspec.Struct, frozen=True):
    """How one log is written. A segment ends when any of its limits is reached; 0 = no such limit."""

    segment_bytes: int = 64 * 1024 * 1024
    segment_ms: int = 0
    """Greatest distance of record timestamps within one segment (storage reads no clock)."""
    segment_records: int = 0
    durability: str = "sync"
    """"sync": durable means synced (R5). "os": a write counts as durable once the kernel has it."""


class CompactionPolicy(msgspec.Struct, frozen=True):
    """Key compaction of one log (C1, C2). Times are compared with record timestamps and the node's clock."""

    min_lag_ms: int = 0
    """Records younger than this are left alone."""
    dirty_ratio_percent: int = 50
    """A run begins when so much of the compactable bytes was never compacted."""
    tombstone_retention_ms: int = 24 * 3600 * 1000
    map_bytes: int = 128 * 1024 * 1024
    """Bound on the key map's memory; more keys take more passes."""


class RetentionPolicy(msgspec.Struct, frozen=True):
    """What leaves a log at its front (C3). 0 = no such limit."""

    retention_ms: int = 0
    retention_bytes: int = 0
    retention_messages: int = 0

    @property
    def unlimited(self) -> bool:
        return not (self.retention_ms or self.retention_bytes or self.retention_messages)


class LogSummary(msgspec.Struct, frozen=True):
    """What the core needs to know of a log that storage has opened. All of it is durable."""

    log: PartitionId
    log_start: int
    leo: int
    hw: int
    epochs: tuple[EpochStart, ...]
    tail: TailState
    damage: tuple[OffsetRange, ...] = ()
    """Ranges below the LEO that cannot be read (D2), ascending: to be refetched before this copy counts."""
    clean_point: int = 0
    """Offset below which this replica has compacted: of every key only the last record below it is left."""
    dropped_below: int = 0
    """Tombstones below this offset may be gone (C4)."""
    late_epochs: tuple[int, ...] = ()
    """Offsets at the end of damage at which an epoch seems to begin that may have begun inside it (R6)."""
    newest_ms: TimestampMs = 0
    """L7: the greatest time of its records, 0 if there is none."""


class Entry(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, gc=False):
    """Of the Raft log. `data`: a metadata command, a configuration (M2), or empty, a new leader's no-op."""

    index: Number
    term: Number
    data: CommandBytes


Disks = tuple[tuple[int, str], ...]
"""Nodes, each with the id of a disk."""


class GroupMember(NamedTuple):
    """M2: who votes or learns in the metadata group: a node, as long as it lives on this disk."""

    node: NodeId
    disk: Word
    """Empty: of a founder, whose disk is not known here. It counts for nothing."""


class Members(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """M2: a configuration of the metadata group, each part sorted."""

    voters: tuple[GroupMember, ...]
    learners: tuple[GroupMember, ...] = ()

    @property
    def nodes(self) -> tuple[int, ...]:
        """The voters' nodes."""
        return tuple(voter.node for voter in self.voters)

    @property
    def known(self) -> bool:
        """Whether it is known which disks are meant."""
        return all(voter.disk for voter in self.voters)

    @property
    def text(self) -> str:
        """For people."""
        voters, learners = (
            ", ".join(f"{node} ({disk or 'disk unknown'})" for node, disk in group)
            for group in (self.voters, self.learners)
        )
        return f"voters {voters or 'none'}" + (f"; learners {learners}" if learners else "")

    def member(self, node: int) -> GroupMember | None:
        """The node's."""
        for member in (*self.voters, *self.learners):
            if member.node == node:
                return member
        return None


class LogBase(NamedTuple):
    """The entry behind which a Raft log begins; (0, 0): it begins at its beginning."""

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    term: int


BEGINNING = LogBase(0, 0)


class Snapshot(msgspec.Struct, frozen=True):
    """What the metadata group's commands up to `index` have come to, in pieces that are read in turn (M1p).

    `term`: of the entry at `index`. What a chunk holds is `liftlog.core.metadata.image`'s to know.
    """

    index: int
    term: int
    chunks: tuple[bytes, ...]

    @property
    def base(self) -> LogBase:
        return LogBase(self.index, self.term)


class HardState(msgspec.Struct, frozen=True):
    """What a Raft voter must never forget: synced before any answer that depends on it (M1).

    `peer_disks` is the birth certificate that this disk has signed (I2): the disk ids of all voters, sorted
    by node. Empty = this disk has never been part of a cluster. `born` = every disk named in the certificate
    has signed it; only then may this voter vote. A voter whose disk is not in the certificate was wiped.
    """

    term: int = 0
    voted_for: int = 0
    peer_disks: tuple[tuple[int, str], ...] = ()
    vote_withheld: bool = False
    born: bool = False
    voted_disk: str = ""
    """Of the candidate: a node that comes back with another disk is another candidate (M2)."""


class ClusterEpoch(NamedTuple):
    """M5: the cluster as it was born is of epoch 1; each recovery from a total loss begins the next.

    `name`: of the first, the birth that it follows from, empty if that is not known; it tells two clusters
    apart. Of a later one, of the recovery: it tells two of the same number apart, of which one must have been
    a mistake. Number 0: a disk that has belonged to no cluster yet.
    """

    number: int
    name: str


NO_CLUSTER = ClusterEpoch(0, "")
FIRST_CLUSTER = ClusterEpoch(1, "")


class Identity(msgspec.Struct, frozen=True):
    """Who this disk says it is. `incarnation` = the last one it remembers, 0 = none.

    `vote_id`: under which it takes part in the metadata group since it has lost what it had promised there
    (M4), or the cluster was recovered (M5); empty: under its own. `renewing`: that is being carried out.
    `cluster_epoch`, `recovery`: number and name of the cluster's epoch (M5), told when the disk registers.
    `recovering`: while it is being renewed, the folder of the new beginning takes that of the group's log.
    """

    node: int
    disk_id: str
    incarnation: int = 0
    vote_id: str = ""
    renewing: bool = False
    cluster_epoch: int = 0
    recovery: str = ""
    recovering: bool = False

    @property
    def belongs_to(self) -> ClusterEpoch:
        """The cluster that this disk knows to be its own (M5), whatever its metadata say beyond that."""
        if self.cluster_epoch:
            return ClusterEpoch(self.cluster_epoch, self.recovery)
        return FIRST_CLUSTER if self.incarnation else NO_CLUSTER

    @property
    def votes_as(self) -> str:
        """What stands for this disk in the configuration of the metadata group (M2)."""
        return self.vote_id or self.disk_id


class Recovered(msgspec.Struct):
    """Everything a node knows when its process starts, read back and re-synced from its disk (R7)."""

    identity: Identity
    hard_state: HardState
    raft_entries: list[Entry]
    logs: list[LogSummary]
    clean: bool
    nonce: int
    """Random number of this start, drawn by the driver: tells this start's registration from older ones."""
    raft_base: LogBase = BEGINNING
    """What the entries follow; never behind the snapshot's end."""
    snapshot: Snapshot | None = None
    renewed: str = ""
    """M4: why this start has given up what the disk remembered of the metadata group; empty: it has not."""


DEDUPE_IDS_MAX = 1_000_000
"""L7: message ids that a partition remembers, if its stream does not say how many."""
JOURNAL_SEGMENT_BYTES = 1024 * 1024


class StreamConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a user asks for in `stream create`."""

    name: Line
    subject: Line
    partitions: Number = 1
    replication_factor: Number = 0
    """0 = the safe default: 3, or as many as the cluster has nodes."""
    min_insync_replicas: Number = 0
    """0 = the safe default: 2 with three or more replicas, else 1."""
    ack_reply: bool = True
    """False where replies are a request/reply service's (N8), or it copies what another one answers (N9)."""
    max_payload_bytes: Number = 1024 * 1024
    retention_ms: Number = 0
    retention_bytes: Number = 0
    retention_messages: Number = 0
    """C3: 0 = keep for ever."""
    compact: bool = False
    """C1: keep at least the last record of every key."""
    min_compaction_lag_ms: Number = 0
    dirty_ratio_percent: Number = 50
    tombstone_retention_ms: Number = 24 * 3600 * 1000
    segment_bytes: Number = 64 * 1024 * 1024
    segment_ms: Number = 0
    segment_records: Number = 0
    codec: Word = "none"
    """Compression of record payloads: "none", "zstd" or "lz4"."""
    durability: Word = "sync"
    """"sync" (R5), or "os": acknowledged before it is synced, an explicit opt-out."""
    read_only: bool = False
    """R19: leaders take no more messages; what is there is kept and read as before."""
    paused: bool | UnsetType = UNSET
    """N1: leaders have no subscription. Unset, and never False, if they have: release 0.1.0 reads it then."""
    dedupe_window_ms: Number | UnsetType = UNSET
    """L7, L2: so long, by times in the log, an id or a number is stored once. Unset, and never 0: none is."""
    dedupe_ids_max: Number | UnsetType = UNSET
    """L7: so many ids a partition remembers at most; unset: `DEDUPE_IDS_MAX`."""
    messages_max: Number | UnsetType = UNSET
    """C6: so many messages a partition holds at most; it refuses more. Unset, and never 0: any number."""
    removal: bool | UnsetType = UNSET
    """Messages can be deleted: partitions have a journal (ADR 0062). Unset, and never False: they cannot."""
    max_messages_per_subject: Number | UnsetType = UNSET
    """R22: of a subject, so many messages stay in a partition, the newest. Unset, and never 0: all do."""
    more_subjects: tuple[Line, ...] | UnsetType = UNSET
    """N10: on what else the only partition listens, beside `subject`. Unset, and never empty: on nothing."""
    allow_rollup: bool | UnsetType = UNSET
    """R23: a message may say that those before it go. Unset, and never False, if it may not."""
    work_queue: bool | UnsetType = UNSET
    """R26: what its consumers are done with goes. Unset, and never False, if it stays."""
    interest: bool | UnsetType = UNSET
    """R27: what no consumer is to be given any more goes. Unset, and never False, if it stays."""
    notes: tuple[tuple[Word, str], ...] | UnsetType = UNSET
    """What its owner keeps here, as (name, value): liftlog makes nothing of it. Unset, and never empty."""
    deny_delete: bool | UnsetType = UNSET
    """R19: no single message can be deleted by a request, for ever. Unset, and never False, if they can."""
    deny_purge: bool | UnsetType = UNSET
    """R19: nothing can be purged, for ever. Unset, and never False, if it can."""
    sealed: bool | UnsetType = UNSET
    """R19: read-only, with these two, for ever. Unset, and never False, if it is not."""
    allow_ttl: bool | UnsetType = UNSET
    """R24: a message may say for how long it is to stay. Unset, and never False, if it may not."""
    allow_batches: bool | UnsetType = UNSET
    """L11: messages may come in batches (Nats-Batch-Id). Unset, and never False, if they may not."""
    allow_fast_batches: bool | UnsetType = UNSET
    """L12: messages may come in fast batches. Unset, and never False, if they may not."""
    queue_group: Line | UnsetType = UNSET
    """N11: of streams that share one and a subject one gets a message. Unset, and never empty: all do."""
    marker_ttl_ms: Number | UnsetType = UNSET
    """R24: so long a marker stays where a subject's last message expires. Unset, and never 0: none does."""
    bytes_max: Number | UnsetType = UNSET
    """C6: so many bytes of messages a partition holds at most. Unset, and never 0: any number."""
    mirror: Line | UnsetType = UNSET
    sources: tuple[tuple[Line, str], ...] | UnsetType = UNSET
    """R28, R29: it has what this stream has, or these, of subjects (all if empty). Unset, and never empty."""
    origins: tuple[tuple[Line, Line], ...] | UnsetType = UNSET
    """R28: which stream of another cluster it copies, by how it is called here. Unset, and never empty."""
    starts: tuple[tuple[Line, Word], ...] | UnsetType = UNSET
    """R28, R29: where it begins with some of what it copies: offsets, times. Unset, and never empty."""
    mirror_filter: Line | UnsetType = UNSET
    """R28: what subjects it has of its origin. Unset, and never empty: all."""
    subject_messages_max: Number | UnsetType = UNSET
    """C6: of a subject, so many messages a partition holds at most. Unset, and never 0: any number."""
    first_offset: Number | UnsetType = UNSET
    """C7: where each partition's data begin. Unset, and never 0: at 0."""
    activity: bool | UnsetType = UNSET
    """N12: it tells what the metadata group does, and takes nothing else. Unset, and never False, if not."""

    @property
    def mirrors(self) -> str:
        """R28: the stream whose copy it is; empty: of none."""
        return "" if self.mirror is UNSET else self.mirror

    @property
    def shares_in(self) -> str:
        """N11: the queue group in which it listens; empty: none."""
        return "" if self.queue_group is UNSET else self.queue_group

    @property
    def subjects(self) -> tuple[str, ...]:
        """N10: all that the stream's first partition listens on."""
        return (self.subject,) if self.more_subjects is UNSET else (self.subject, *self.more_subjects)

    @property
    def has_journal(self) -> bool:
        """Whether each partition has a second log beside its data."""
        return self.removal is True

    @property
    def remembers_ms(self) -> int:
        """L7: the window of message ids; 0 = there are none."""
        return 0 if self.dedupe_window_ms is UNSET else self.dedupe_window_ms

    @property
    def remembers_max(self) -> int:
        """L7: how many ids a partition remembers at most."""
        return DEDUPE_IDS_MAX if self.dedupe_ids_max is UNSET else self.dedupe_ids_max

    @property
    def holds_most(self) -> int:
        """C6: how many messages a partition holds at most; 0 = any number."""
        return 0 if self.messages_max is UNSET else self.messages_max

    @property
    def holds_bytes(self) -> int:
        """C6: how many bytes of messages a partition holds at most; 0 = any number."""
        return 0 if self.bytes_max is UNSET else self.bytes_max

    @property
    def holds_of_subject(self) -> int:
        """C6: how many messages of a subject a partition holds at most; 0 = any number."""
        return 0 if self.subject_messages_max is UNSET else self.subject_messages_max

    @property
    def keeps_of_subject(self) -> int:
        """R22: how many messages of a subject stay in a partition; 0 = all of them."""
        return 0 if self.max_messages_per_subject is UNSET else self.max_messages_per_subject

    @property
    def limits_front(self) -> bool:
        """R25: whether the oldest messages go, one by one, when there is too much or they are too old."""
        return self.has_journal and not self.retention.unlimited

    @property
    def rolls_up(self) -> bool:
        """R23: whether a message may say that those before it go."""
        return self.allow_rollup is True

    @property
    def has_ttl(self) -> bool:
        """R24: whether a message may say for how long it is to stay."""
        return self.allow_ttl is True

    @property
    def is_queue(self) -> bool:
        """R26: whether what its consumers are done with goes."""
        return self.work_queue is True

    @property
    def goes_when_done(self) -> bool:
        """R26, R27: whether its consumers take messages out."""
        return self.is_queue or self.interest is True

    def options_of(self, log: PartitionId) -> LogOptions:
        """How one log of a partition is written."""
        if log.is_journal:
            return LogOptions(JOURNAL_SEGMENT_BYTES, durability=self.durability)
        return LogOptions(self.segment_bytes, self.segment_ms, self.segment_records, self.durability)

    @property
    def retention(self) -> RetentionPolicy:
        return RetentionPolicy(self.retention_ms, self.retention_bytes, self.retention_messages)

    @property
    def compaction(self) -> CompactionPolicy:
        lag_ms, dirty = self.min_compaction_lag_ms, self.dirty_ratio_percent
        return CompactionPolicy(lag_ms, dirty, self.tombstone_retention_ms)


OPTIONAL = tuple(field.name for field in msgspec.structs.fields(StreamConfig) if field.default is UNSET)
"""Fields that a configuration has with a true value, or not at all: release 0.1.0 can read one without them.
Each came with feature level 2 and version 3 of the protocol (U1, U2).
"""
SWITCHES = tuple(
    field.name for field in msgspec.structs.fields(StreamConfig) if field.type == bool | UnsetType
)
"""Those that are on, or absent."""
