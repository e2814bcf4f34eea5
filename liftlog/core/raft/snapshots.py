"""Snapshots on their way from a leader to who needs entries that are gone (M1q). Rules: `liftlog.core.raft`.

A leader sends the chunks of its newest snapshot in order, a few ahead of what the follower has said that it
needs next; each heartbeat sends the first of them again. The follower takes them in their order and no other,
each as soon as it can. Those that come before their turn are kept: a leader that had to send them again would
be one heartbeat late for each chunk from its first loss on, and a snapshot that takes so long is overtaken by
the next, and that by the one after it. All chunks are of one snapshot of one leader's term: what belongs to a
later one begins anew, what belongs to an earlier one of that term says nothing. Nothing of the node has
changed until the last one is there and what they are together is what was announced; then the snapshot is
installed in one step, and acknowledged when it is durable.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from liftlog.core.raft.birth import Certificate
from liftlog.core.raft.state import RaftState
from liftlog.messages import AppendReply, SnapshotChunk, SnapshotReply, intake
from liftlog.types import NO_TICKET, Members, Snapshot, Ticket

CHUNKS_AHEAD = 4
"""Chunks under way to one follower, and kept there before their turn: times the size of a chunk bounds
memory, and what one step has to decode.
"""


class Transfer:
    """A leader's snapshot on its way to one follower."""

    __slots__ = ("_beat_at", "_sent", "_told", "_wanted", "snapshot")

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._wanted = 0
        """The chunk that the follower needs next, as far as it has told."""
        self._told = 0
        """What it has told last. An answer of before its restart may have come after one of its new process,
        so that it needs less than it seemed to.
        """
        self._sent = 0
        self._beat_at = -1
        """What it needed at the heartbeat before."""

    def due(self, beat: bool) -> list[int]:
        """The numbers of the chunks to be sent now. With a heartbeat one is sent in any case; if the follower
        has not come on since the last, all that is under way is taken for lost, and its last word holds.
        """
        numbers: list[int] = []
        if beat and self._wanted == self._beat_at:
            self._wanted = min(self._wanted, self._told)
            self._sent = self._wanted
        elif beat and self._wanted < self._sent:
            numbers.append(self._wanted)
        if beat:
            self._beat_at = self._wanted
        end = min(len(self.snapshot.chunks), self._wanted + CHUNKS_AHEAD)
        numbers += range(self._sent, end)
        self._sent = max(self._sent, end)
        return numbers

    def asked_for(self, wanted: int) -> None:
        """The follower says what it needs next; 0 after it had more: it begins again."""
        last = len(self.snapshot.chunks) - 1
        self._told = min(wanted, last)
        if wanted > self._wanted:
            self._wanted = min(wanted, last)
            self._sent = max(self._sent, self._wanted)
        elif wanted == 0 and self._wanted:
            self._wanted = self._sent = 0


class SnapshotReader(Protocol):
    """What the chunks are taken in by; `liftlog.core.metadata.image.ImageReader` says what it does."""

    def take(self, data: bytes) -> None: ...

    def problem(self, index: int, term: int, cluster: Certificate) -> str: ...

    @property
    def members(self) -> Members | None: ...


class AnyBytes:
    """For a group whose state machine takes any chunks for its state."""

    def take(self, data: bytes) -> None:
        pass

    def problem(self, index: int, term: int, cluster: Certificate) -> str:
        return ""

    @property
    def members(self) -> Members | None:
        return None


class Arriving:
    """The part of a leader's snapshot that has come."""

    __slots__ = ("_ahead", "chunks", "name", "reader")

    def __init__(self, name: tuple[int, ...], reader: SnapshotReader) -> None:
        self.name = name
        self.reader = reader
        self.chunks: list[bytes] = []
        self._ahead: dict[int, bytes] = {}
        """What has come before its turn."""

    def is_newer(self, chunk: SnapshotChunk) -> bool:
        """Whether the chunk is of an earlier snapshot of the same leader and term, and has been on its way
        for long.
        """
        leader, term, index = self.name[:3]
        return (leader, term) == (chunk.leader, chunk.term) and chunk.index < index

    def keep(self, number: int, data: bytes) -> bool:
        """Keep a chunk unless it was taken in or is far from its turn. Whether its turn has not come."""
        early = number - len(self.chunks)
        if 0 <= early < CHUNKS_AHEAD:
            self._ahead.setdefault(number, data)
        return early > 0

    def take_in(self) -> None:
        """Take in all whose turn has come.

        Raises `InputRefused`.
        """
        while (data := self._ahead.pop(len(self.chunks), None)) is not None:
            self.reader.take(data)
            self.chunks.append(data)


class Installing:
    """The follower's side."""

    __slots__ = ("_incoming", "_new_reader", "_new_ticket", "_state", "installed", "ticket")

    def __init__(
        self, state: RaftState, new_reader: Callable[[], SnapshotReader], new_ticket: Callable[[], Ticket]
    ) -> None:
        self._state = state
        self._new_reader = new_reader
        self._new_ticket = new_ticket
        self._incoming: Arriving | None = None
        self.installed: SnapshotReader | None = None
        """What the state machine has to take over."""
        self.ticket = NO_TICKET
        """Of the newest installation."""

    @property
    def under_way(self) -> tuple[int, int, int] | None:
        """(index, chunks that have come, chunks) of a snapshot that is on its way here."""
        incoming = self._incoming
        return None if incoming is None else (incoming.name[2], len(incoming.chunks), incoming.name[4])

    def take_installed(self) -> SnapshotReader | None:
        """What the state machine has to take over before it applies more; once."""
        installed, self.installed = self.installed, None
        return installed

    def take_chunk(
        self, chunk: SnapshotChunk, cluster: Certificate
    ) -> tuple[AppendReply | SnapshotReply | None, Ticket]:
        """Take in a chunk of the term's leader; the answer, and the ticket that it has to wait for.

        `cluster`: the certificate of the cluster's birth, if this disk has signed it (I2).
        """
        state = self._state
        if chunk.index <= state.commit and not state.mutants.install_of_older:
            # It says nothing new, whatever it is: up to there the logs are equal (M1f).
            state.mark("M1.snapshot-known")
            self._incoming = None
            return self._acknowledge(chunk)
        name = (chunk.leader, chunk.term, chunk.index, chunk.index_term, chunk.count)
        incoming = self._incoming
        if incoming is None or incoming.name != name:
            if incoming is not None and incoming.is_newer(chunk):
                state.mark("M1.earlier-snapshot")
                return None, NO_TICKET
            if incoming is not None:
                state.mark("M1.other-snapshot")
            incoming = self._incoming = Arriving(name, self._new_reader())
        if incoming.keep(chunk.number, chunk.data):
            state.mark("M1.early-chunk")
        try:
            incoming.take_in()
        except intake.InputRefused as error:
            return self._give_up(chunk, str(error))
        if len(incoming.chunks) < chunk.count:
            return self._want(chunk, incoming), NO_TICKET
        problem = incoming.reader.problem(chunk.index, chunk.index_term, cluster)
        if problem:
            return self._give_up(chunk, problem)
        self._incoming = None
        self._install(Snapshot(chunk.index, chunk.index_term, tuple(incoming.chunks)), incoming.reader)
        return self._acknowledge(chunk)

    def _give_up(self, chunk: SnapshotChunk, problem: str) -> tuple[None, Ticket]:
        self._incoming = None
        self._state.refuse("V3", chunk.leader, chunk, problem)
        return None, NO_TICKET

    def _want(self, chunk: SnapshotChunk, incoming: Arriving) -> SnapshotReply:
        state = self._state
        wanted = len(incoming.chunks)
        return SnapshotReply(
            state.term,
            state.node,
            chunk.index,
            wanted,
            chunk.round,
            counts=state.may_vote,
            disk=state.disk_id,
        )

    def _acknowledge(self, chunk: SnapshotChunk) -> tuple[AppendReply, Ticket]:
        """M1g: everything up to the snapshot's end is here, when it is durable."""
        state = self._state
        after = state.raft_log.ticket_for(chunk.index)
        if after != NO_TICKET:
            state.mark("M1.held-back")
        if state.mutants.install_acked_early:
            after = NO_TICKET
        reply = AppendReply(
            state.term,
            state.node,
            True,
            chunk.index,
            chunk.round,
            counts=state.may_vote,
            disk=state.disk_id,
        )
        return reply, after

    def _install(self, snapshot: Snapshot, reader: SnapshotReader) -> None:
        state = self._state
        log = state.raft_log
        keeps_log = log.term_at(snapshot.index) == snapshot.term
        state.mark("M1.install-within" if keeps_log else "M1.install")
        self.ticket = self._new_ticket()
        state.install(snapshot, keeps_log, self.ticket, reader.members)
        self.installed = reader
