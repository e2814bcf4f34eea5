"""What a history says of a record beside where it lies: its key, that it deletes it, its number.

The facts are those of docs/promises.md. A key is told where nothing goes but by compaction, since else its
last record may be gone as well. A number is told where a leader never forgets one: within its window, and as
long as the records are there by which it remembers.
"""

from __future__ import annotations

from collections.abc import Iterator

from liftlog.types import PartitionId, Record
from liftlog_jepsen.history import Mop, Value
from liftlog_jepsen.logs import facts_of
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.workload.targets import Target
from liftlog_sim.world import World

KEY, TOMBSTONE = b"Liftlog-Key: ", b"Liftlog-Tombstone: 1"


def loses(world: World, target: Target) -> bool:
    """Whether messages of a partition were deleted, or lie below a log start."""
    partition = target.partition
    return bool(world.account.deletions(partition).named()) or world.account.furthest_start(partition) > 0


class RecordFacts:
    """Of the records of a world that has run."""

    def __init__(self, world: World) -> None:
        self.contents: dict[str, dict[tuple[int, int], Value]] = {}
        """By log, offset and epoch: what a reader was told to lie there, or lies there in the end."""
        self._world = world
        self._told: dict[PartitionId, frozenset[str]] = {}

    def _tells(self, target: Target) -> frozenset[str]:
        """Which facts of this log say something."""
        known = self._told.get(target.partition)
        if known is None:
            config = target.config
            stays = not loses(self._world, target)
            keyed = stays and config.compact and config.retention.unlimited and not config.goes_when_done
            lasts = config.remembers_ms * 1000 > self._world.kernel.now_us
            numbered = stays and lasts and not config.compact
            known = frozenset(
                (*(("record-key", "tombstone") if keyed else ()), *(("producer",) if numbered else ()))
            )
            self._told[target.partition] = known
        return known

    def of_send(self, operation: ClientOperation) -> Iterator[Mop]:
        """What the sender says of it."""
        target, tells = operation.target, self._tells(operation.target)
        key = next((line[len(KEY) :] for line in operation.lines if line.startswith(KEY)), None)
        deletes = TOMBSTONE in operation.lines
        if key is not None and "record-key" in tells:
            yield Mop("tombstone" if deletes else "record-key", target.name, None, key.decode())
        numbered = self._world.clientele.numbers.of(operation.value)
        if numbered is not None and "producer" in tells:
            producer, run, sequence = numbered
            yield Mop("producer", target.name, sequence, producer.decode(), run)

    def of_poll(self, operation: ClientOperation) -> Iterator[Mop]:
        """What a reader was told."""
        for record, epoch in operation.records:
            yield from self.of_record(operation.target, record, epoch)
        if operation.hw >= 0:
            yield Mop("hw", operation.target.name, operation.hw, None, operation.epoch)

    def of_record(self, target: Target, record: Record, epoch: int) -> Iterator[Mop]:
        """A record of an answer, or of a copy in the end. Values are filled up with dots."""
        value = None if record.value is None else record.value.rstrip(b".").decode()
        self.contents.setdefault(target.name, {})[record.offset, epoch] = value
        yield Mop("poll", target.name, record.offset, value)
        tells = self._tells(target)
        yield from (fact for fact in facts_of(target.name, record) if fact.f in tells)
