"""The metadata as chunks of bytes, and back: what a snapshot of the metadata group holds (M1p).

    ImageWriter(metadata, ...)  ->  chunk, chunk, ...  ->  ImageReader.take(chunk), ...  ->  Metadata.adopt

All that later commands are judged by goes in: nodes, streams, partitions, when a stream was last deleted,
and the results of the commands whose bound has not passed, without which a repetition would take effect again
(M3). What follows from these is not written: the reader derives it. With the first chunk go the index and
term of the last entry, the configuration of the group (M2), and the certificate of the cluster's birth, which
says whose state this is (I2).

Records never change, so a picture is taken by copying four dictionaries and encoded later, a chunk a step,
while commands go on being applied. A chunk can be read alone. `VERSION` says what the chunks mean: a reader
refuses what is newer than itself, and reads whatever an earlier release has written (U3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice
from typing import Annotated

import msgspec
from msgspec import Meta

from liftlog.core.metadata.commands import RequestId
from liftlog.core.metadata.levels import IMAGE
from liftlog.core.metadata.outbox import ActivityEvent, OutboxHead
from liftlog.core.metadata.placement import Loads
from liftlog.core.metadata.records import (
    LATE,
    OK,
    STALE,
    Admission,
    CommandResult,
    Founders,
    NodeState,
    PartitionState,
    Records,
    StreamState,
)
from liftlog.messages import intake
from liftlog.subjects.grammar import subject_problem
from liftlog.types import (
    FIRST_CLUSTER,
    ClusterEpoch,
    GroupMember,
    Level,
    Members,
    NodeId,
    Number,
    PartitionId,
    Word,
)

VERSION = 3
"""1: without the disks of voters and learners. They are those of the cluster's birth. 2: without a feature
level above 1, an epoch and admissions (release 0.1.0). What is written is what all nodes can read: the level
says it (U2).
"""

Certificate = tuple[tuple[NodeId, Word], ...]


class ImageHead(msgspec.Struct, frozen=True, array_like=True):
    """What the first chunk begins with. The four numbers say how many of each follow, in all chunks."""

    version: Annotated[int, Meta(ge=1)]
    index: Number
    term: Number
    voters: tuple[NodeId, ...]
    learners: tuple[NodeId, ...]
    cluster: Certificate
    """Disks that the cluster was born from; empty if whoever took the snapshot never knew."""
    deleted_at: Number
    nodes: Number
    streams: Number
    partitions: Number
    results: Number
    disks: Certificate = ()
    """Of the voters and learners, those that are known (M2)."""
    level: Level = 1
    """The cluster's feature level. Version 2 knows none: its readers skip a 1 here."""
    epoch: Number = FIRST_CLUSTER.number
    recovery: Word = ""
    """M5: the number and the name of the cluster's epoch."""
    founders: Founders = ()
    admissions: tuple[Admission, ...] = ()

    @property
    def belongs_to(self) -> ClusterEpoch:
        return ClusterEpoch(self.epoch, self.recovery)


Known = tuple[RequestId, CommandResult]


class _Chunk(msgspec.Struct, frozen=True, array_like=True):
    head: ImageHead | None
    nodes: list[NodeState]
    streams: list[StreamState]
    partitions: list[PartitionState]
    results: list[Known]
    events: list[ActivityEvent] = []
    outbox: OutboxHead | None = None
    """N12: these two are there as long as there is an activity stream; `outbox` in the first chunk."""


SAME = {result: result for result in (OK, STALE, LATE)}
"""Results that are told from others by being one object."""
_encode = msgspec.msgpack.Encoder().encode
_decoder = msgspec.msgpack.Decoder(_Chunk)


class ImageWriter:
    """The records as they are now, on their way to become chunks."""

    def __init__(
        self,
        records: Records,
        results: dict[RequestId, CommandResult],
        term: int,
        members: Members,
        cluster: Certificate,
        chunk_records: int,
    ) -> None:
        """`results`: of the commands that are still remembered. `members`: by the entries up to the same."""
        self.index = records.applied
        self.term = term
        self.chunks: list[bytes] = []
        self._size = chunk_records
        nodes, streams = list(records.nodes.values()), list(records.streams.values())
        partitions, known = list(records.partitions.values()), list(results.items())
        self._head: ImageHead | None = ImageHead(
            version=IMAGE[records.level],
            index=self.index,
            term=term,
            voters=members.nodes,
            learners=tuple(learner.node for learner in members.learners),
            cluster=cluster,
            deleted_at=records.deleted_at,
            nodes=len(nodes),
            streams=len(streams),
            partitions=len(partitions),
            results=len(known),
            disks=tuple((node, disk) for node, disk in (*members.voters, *members.learners) if disk),
            level=records.level,
            epoch=records.epoch.number,
            recovery=records.epoch.name,
            founders=records.founders,
            admissions=tuple(records.admissions.values()),
        )
        self._rest: Iterator[tuple[int, object]] = chain(
            _numbered(0, nodes), _numbered(1, streams), _numbered(2, partitions), _numbered(3, known),
            _numbered(4, list(records.outbox.events)),
        )
        self._outbox = records.outbox.head if records.outbox.on else None
        self._kinds = 5 if records.outbox.on else 4

    def go_on(self) -> bool:
        """Encode the next chunk. True if there is none left."""
        parts: tuple[list[object], ...] = tuple([] for _ in range(self._kinds))
        taken = 0
        for place, record in islice(self._rest, self._size):
            parts[place].append(record)
            taken += 1
        if taken or self._head is not None:
            outbox = () if self._outbox is None else (self._outbox if self._head is not None else None,)
            self.chunks.append(_encode((self._head, *parts, *outbox)))
            self._head = None
        return taken < self._size


def _numbered(place: int, records: Iterable[object]) -> Iterator[tuple[int, object]]:
    return ((place, record) for record in records)


class ImageReader:
    """Takes in the chunks of one snapshot, in their order, and is then what `Metadata.adopt` takes over."""

    def __init__(self) -> None:
        self.head: ImageHead | None = None
        self.nodes: dict[int, NodeState] = {}
        self.streams: dict[str, StreamState] = {}
        self.partitions: dict[PartitionId, PartitionState] = {}
        self.results: dict[RequestId, CommandResult] = {}
        self.outbox: OutboxHead | None = None
        self.events: list[ActivityEvent] = []
        self.loads = Loads()

    def take(self, data: bytes) -> None:
        """The next chunk. Raises InputRefused for bytes that are none (V1), or of a newer version."""
        try:
            chunk = intake.decode(_decoder, data, "a chunk of a snapshot")
        except intake.InputRefused:
            version = _version_of(data)
            if version > VERSION:
                raise intake.InputRefused(
                    f"a snapshot of version {version}, this liftlog reads {VERSION}: upgrade it"
                ) from None
            raise
        if (chunk.head is not None) != (self.head is None):
            raise intake.InputRefused("not the chunk of a snapshot that comes next")
        if chunk.head is not None:
            self.head = chunk.head
            self.outbox = chunk.outbox
            if chunk.head.version > VERSION:
                raise intake.InputRefused(
                    f"a snapshot of version {chunk.head.version}, this liftlog reads {VERSION}: upgrade it"
                )
        for node in chunk.nodes:
            self.nodes[node.node] = node
        for stream in chunk.streams:
            for subject in stream.config.subjects:
                problem = subject_problem(subject)
                if problem:
                    # No release has created one: later creations could not be judged beside it (N7).
                    raise intake.InputRefused(f"a snapshot's stream on {subject!r}: {problem}")
            self.streams[stream.config.name] = stream
        for partition in chunk.partitions:
            self.partitions[partition.id] = partition
            self.loads.placed(partition.replicas)
            self.loads.led(0, partition.leader)
        for request, result in chunk.results:
            self.results[request] = SAME.get(result, result)
        self.events += chunk.events

    @property
    def members(self) -> Members | None:
        """The group's configuration at the snapshot's end."""
        head = self.head
        if head is None:
            return None
        disks = dict(head.disks or head.cluster)
        voters, learners = (
            tuple(GroupMember(node, disks.get(node, "")) for node in sorted(nodes))
            for nodes in (head.voters, head.learners)
        )
        # A learner that no entry has named is in no configuration (M1m).
        return Members(voters, tuple(learner for learner in learners if learner.disk))

    def problem(self, index: int, term: int, cluster: Certificate) -> str:
        """Why this, with all chunks taken in, is not the snapshot that is meant; empty if it is."""
        head = self.head
        if head is None:
            return "it has no chunk"
        if (head.index, head.term) != (index, term):
            return f"it ends at index {head.index} of term {head.term}, not at {index} of {term}"
        found = (len(self.nodes), len(self.streams), len(self.partitions), len(self.results))
        told = (head.nodes, head.streams, head.partitions, head.results)
        if found != told:
            return f"it holds {found} nodes, streams, partitions and results of {told}"
        waiting = self.outbox.events if self.outbox is not None else 0
        if len(self.events) != waiting:
            return f"it holds {len(self.events)} events of {waiting}"
        if not head.voters:
            return "it is of a group without voters"
        if head.cluster and cluster and head.cluster != cluster:
            return "it is of another cluster, which was born from other disks"
        return ""


def _version_of(data: bytes) -> int:
    """What the head of a chunk says; 0 if it says nothing that can be read."""
    try:
        chunk = msgspec.msgpack.decode(data)
        return int(chunk[0][0])
    except (msgspec.DecodeError, ValueError, TypeError, IndexError, KeyError):
        return 0
