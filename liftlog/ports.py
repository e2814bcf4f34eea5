"""The ports: what the core, the storage code and the driver need from a world.

Two worlds plug in: `liftlog/real/` and `sim/`, with mirrored file names. `liftlog.testing` ships a
conformance suite that every implementation of a port must pass.

All ports are callback-style and non-blocking except `Disk`, which only the storage thread calls.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from liftlog.messages import (
    AckPublishes,
    Event,
    PeerMessage,
    PublishLetter,
    RefusePublishes,
    StorageJob,
    Subscribe,
    TellFast,
    TellStaged,
)
from liftlog.types import ClientRef, PartitionId


class DiskError(OSError):
    """A Disk call failed; `errno` tells why. Sync failures raise `SyncFailed`."""


class SyncFailed(DiskError):
    """A sync did not succeed: whether what was written since the last good one is durable is unknown (R5)."""


class DiskFile(Protocol):
    """An open file. Reads see this process's own writes at once; only `sync` makes them durable."""

    def append(self, parts: Sequence[bytes | memoryview]) -> int:
        """Write all parts at the end, in one vectored call where possible; return the position of the first.

        Raises DiskError (ENOSPC, EIO); a failed append may have written a prefix.
        """
        ...

    def read_at(self, position: int, length: int) -> bytes:
        """Bytes from `position`; fewer than `length` only at the end of the file. Raises DiskError."""
        ...

    def size(self) -> int: ...

    def sync(self) -> None:
        """Make data and size durable (fdatasync). Raises SyncFailed, after which this file is not trusted."""
        ...

    def truncate(self, size: int) -> None:
        """Cut the end off, not durably before a sync. Raises DiskError, also if that would grow the file."""
        ...

    def send_to(self, descriptor: int, position: int, length: int) -> int:
        """Send bytes to a connected, non-blocking socket without copying them through this process.

        Returns how many bytes the socket took, 0 if it is full. Waits for the disk, so reader threads call
        it, on a handle of their own. Raises DiskError, also if the file ends before `length` bytes;
        ConnectionError if the socket is broken.
        """
        ...

    def close(self) -> None:
        """Release the file; a second time does nothing. To use a closed file otherwise is a DiskError."""
        ...


class Disk(Protocol):
    """A folder tree of one node. Paths are relative, with "/" between parts."""

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        """Open for reading and appending. Raises FileNotFoundError unless `create`."""
        ...

    def rename(self, source: str, target: str) -> None:
        """Atomic; replaces a target file. Durable only after `sync_directory` of both folders."""
        ...

    def remove(self, path: str) -> None: ...

    def remove_tree(self, path: str) -> None: ...

    def list(self, path: str) -> list[str]:
        """Names in a folder, sorted. A folder that does not exist is empty."""
        ...

    def exists(self, path: str) -> bool: ...

    def make_directory(self, path: str) -> None:
        """With parents; no error if it is there."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in this folder durable. Raises SyncFailed."""
        ...

    def lock(self, path: str) -> None:
        """Take an exclusive lock for this process's life. Raises LiftlogError if another holds it."""
        ...

    def free_bytes(self) -> int: ...


class StorageRunner(Protocol):
    """Carries out storage jobs in order and delivers their completion events to the node's event sink."""

    def submit(self, job: StorageJob) -> None: ...


class StorageGroups(Protocol):
    """What a `StorageRunner` runs: `liftlog.storage.engine.StorageEngine`. A group of jobs, then its sync."""

    def is_quick(self, job: StorageJob) -> bool:
        """Whether to write this job is no more than to copy bytes into memory: nobody need wait for it."""
        ...

    def write(self, jobs: Sequence[StorageJob]) -> list[Event]: ...

    def unsynced(self, logs: Collection[PartitionId]) -> list[DiskFile] | None:
        """The files that `sync_logs` of these will sync; None if only `sync` will do."""
        ...

    def sync_logs(self, logs: Collection[PartitionId]) -> list[Event]:
        """Of quick jobs, which were appends to these logs; others' groups may wait for theirs meanwhile."""
        ...

    def sync(self) -> list[Event]:
        """Of everything that was written."""
        ...

    def close(self, clean: bool) -> None: ...


class Network(Protocol):
    """Node to node. Best effort: may lose, delay, duplicate and reorder; never blocks; queues are bounded."""

    def send(self, to: int, message: PeerMessage) -> None: ...

    def know(self, peers: Mapping[int, str]) -> None:
        """I3: these are the other nodes, and where they are called; nobody else is let in."""
        ...


class Bus(Protocol):
    """NATS, as the driver sees it. Answers come to the event sink: Subscribed, Published, Drained,
    BusUp, BusDown."""

    def subscribe(self, request: Subscribe) -> None: ...

    def unsubscribe(self, partition: PartitionId) -> None:
        """From all of its subjects."""
        ...

    def drain(self, partition: PartitionId, number: int = 0) -> None:
        """End one subscription; `Drained` follows behind the last message that the server had sent."""
        ...

    def acknowledge(self, acks: AckPublishes) -> None: ...

    def staged(self, told: TellStaged) -> None: ...

    def fast(self, told: TellFast) -> None: ...

    def refuse(self, refusal: RefusePublishes) -> None: ...

    def publish(self, letter: PublishLetter) -> None:
        """Send it, if NATS is connected. LetterAnswered follows for each answer."""
        ...


class ClientReplies(Protocol):
    """Way back to clients of the TCP and NATS APIs."""

    def reply(self, client: ClientRef, reply: object) -> None: ...


class Clock(Protocol):
    """`monotonic_ms` for timers, `wall_ms` (Unix epoch) for record timestamps only."""

    def monotonic_ms(self) -> float: ...

    def wall_ms(self) -> int: ...


class Random(Protocol):
    def uniform(self, low: float, high: float) -> float: ...

    def bits(self, count: int) -> int: ...
