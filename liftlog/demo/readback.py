"""Reads the whole stream back from one replica at a time, and compares it with what was acknowledged."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from liftlog.client.client import Client
from liftlog.demo.publisher import OK, Attempts
from liftlog.local import ask
from liftlog.real.local_cluster import LocalCluster


@dataclass(slots=True)
class Poll:
    """One answer of a replica: contiguous values from `first` on, when it was asked for and when it came."""

    first: int
    values: list[str]
    t_inv_ns: int
    t_ret_ns: int


@dataclass(slots=True)
class ReplicaRead:
    """Everything one replica had below the HW."""

    node: int
    polls: list[Poll] = field(default_factory=list)

    @property
    def records(self) -> int:
        return sum(len(poll.values) for poll in self.polls)

    def by_offset(self) -> dict[int, str]:
        return {
            offset: value for poll in self.polls for offset, value in enumerate(poll.values, start=poll.first)
        }


def read_replica(
    cluster: LocalCluster, stream: str, node: int, progress: Callable[[int], None]
) -> ReplicaRead:
    """Read the stream from `node` alone, up to the leader's present HW. Raises LiftlogError."""
    result = ReplicaRead(node)

    async def read(client: Client) -> None:
        asked_ns = time.monotonic_ns()
        async for records in client.read_all(await client.stream(stream), node=node):
            came_ns = time.monotonic_ns()
            values = [(record.value or b"").decode() for record in records]
            for first, last in _runs([record.offset for record in records]):
                poll = Poll(records[first].offset, values[first:last], asked_ns, came_ns)
                result.polls.append(poll)
            progress(len(values))
            asked_ns = time.monotonic_ns()

    ask(cluster, read)
    return result


def _runs(offsets: list[int]) -> Iterable[tuple[int, int]]:
    """Index ranges of contiguous offsets: one, unless the replica skipped some."""
    first = 0
    for index in range(1, len(offsets) + 1):
        if index == len(offsets) or offsets[index] != offsets[index - 1] + 1:
            yield first, index
            first = index


def count_lost(attempts: Attempts, reads: Iterable[ReplicaRead]) -> int:
    """How many acknowledged values at least one replica does not have at the acknowledged offset."""
    logs = [read.by_offset() for read in reads]
    lost = 0
    for number, outcome in enumerate(attempts.outcome):
        if outcome == OK:
            offset, value = attempts.offset[number], attempts.value[number]
            lost += any(log.get(offset) != value for log in logs)
    return lost
