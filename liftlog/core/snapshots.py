"""When this node takes a snapshot of the metadata, and how: in the background, a chunk at each tick (M1p).

Theory. The log of commands grows for ever, what they have come to does not. So from time to time a node
writes down what it has applied, and forgets the commands behind it. Each node does that by itself, with its
own state, at its own time. What is written is what was applied at one index: the records never change, so
that a picture of them costs the copying of four dictionaries, and is then encoded while commands go on being
applied. The disk gets it in one job. Only when that is durable does the log lose its beginning.

A disk that does not take it, for want of space say, changes nothing: it is tried again later.
"""

from __future__ import annotations

from liftlog.core.context import Context
from liftlog.core.metadata.image import Certificate, ImageReader, ImageWriter
from liftlog.core.raft.raft import Raft
from liftlog.messages import SaveSnapshot, SnapshotRefused, intake
from liftlog.nodeconfig import NodeConfig
from liftlog.types import NO_TICKET, Entry, GroupMember, InvariantViolation, LiftlogError, Members, Snapshot

BYTES_MAX = 16 * 1024 * 1024
"""Commands of so many bytes since the last snapshot are a reason for the next, however few they are."""
RETRY_TICKS = 200
"""For so long a disk is left alone that did not take a snapshot."""


def read_snapshot(snapshot: Snapshot, config: NodeConfig) -> ImageReader:
    """What a disk's snapshot holds. Raises LiftlogError: it is none that this node can go on from."""
    reader = ImageReader()
    try:
        for chunk in snapshot.chunks:
            reader.take(chunk)
        problem = reader.problem(snapshot.index, snapshot.term, ())
    except intake.InputRefused as error:
        problem = str(error)
    if problem:
        raise LiftlogError(
            f"node {config.node}: the snapshot of the metadata in raft/snapshot cannot be used: {problem}"
        )
    return reader


class Snapshots:
    """The snapshots that this node takes."""

    __slots__ = ("_bytes", "_cluster", "_ctx", "_pause_ticks", "_raft", "_saving", "_ticket", "_writer")

    def __init__(self, ctx: Context, raft: Raft, cluster: Certificate) -> None:
        """`cluster`: the certificate that the last snapshot names."""
        self._ctx = ctx
        self._raft = raft
        self._cluster = cluster
        self._bytes = 0
        """Of the commands since the last snapshot."""
        self._writer: ImageWriter | None = None
        self._saving: Snapshot | None = None
        self._ticket = NO_TICKET
        self._pause_ticks = 0

    @property
    def index(self) -> int:
        """Of the newest snapshot; 0: there is none."""
        snapshot = self._raft.snapshot
        return snapshot.index if snapshot is not None else 0

    def applied(self, entry: Entry) -> None:
        """The state machine has taken this in."""
        self._bytes += len(entry.data)

    def tick(self) -> None:
        """Go on with the picture, or take one if it is time."""
        writer = self._writer
        if writer is None:
            if self._pause_ticks:
                self._pause_ticks -= 1
            elif self._is_due():
                last_index = self._raft.raft_log.last_index
                if self._ctx.mutants.snapshot_of_uncommitted and self._raft.commit < last_index:
                    self._raft.commit_to(last_index)
                    return
                self._begin()
            return
        if writer.go_on():
            self._writer = None
            self._saving = Snapshot(writer.index, writer.term, tuple(writer.chunks))
            self._ticket = self._ctx.new_ticket()
            self._ctx.mark("M1.snapshot")
            self._ctx.effects.append(SaveSnapshot(self._saving, self._ticket))

    def _is_due(self) -> bool:
        ctx = self._ctx
        if self._saving is not None or ctx.stalled or self._raft.installing.under_way is not None:
            return False
        if ctx.config.joins and not ctx.metadata.founders:
            # I3: whom the log goes on from, which a snapshot has to say, is not known here yet.
            return False
        behind = ctx.metadata.applied - self.index
        return behind >= ctx.config.raft_snapshot_entries or (behind > 0 and self._bytes >= BYTES_MAX)

    def _begin(self) -> None:
        ctx, raft = self._ctx, self._raft
        cluster, members = raft.certificate or self._cluster, raft.membership.at(ctx.metadata.applied)
        if ctx.mutants.snapshot_forgets_members:
            members = Members(tuple(GroupMember(node, disk) for node, disk in cluster), ())
        self._bytes = 0
        self._writer = ImageWriter(
            ctx.metadata,
            ctx.metadata.results,
            term=raft.raft_log.term_at(ctx.metadata.applied),
            members=members,
            cluster=cluster,
            chunk_records=ctx.config.raft_chunk_records,
        )

    def durable(self, ticket: int) -> bool:
        """True if this was our snapshot: the log may lose its beginning."""
        saved = self._saving
        if saved is None or ticket != self._ticket:
            return False
        self._saving = None
        if saved.index > self.index:
            self._raft.snapshot_saved(saved)
        return True

    def refused(self, event: SnapshotRefused) -> None:
        """The disk did not take it."""
        if self._saving is not None and event.ticket == self._ticket:
            self._ctx.mark("M1.snapshot-refused")
            self._saving = None
            self._pause_ticks = RETRY_TICKS

    def installed(self, image: ImageReader) -> None:
        """A leader's snapshot has taken the place of all that this node was about to write."""
        if image.head is None:
            raise InvariantViolation("a snapshot without a chunk was installed")
        self._cluster = image.head.cluster or self._cluster
        self._writer = None
        self._bytes = 0
