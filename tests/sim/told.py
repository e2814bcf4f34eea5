"""A partition with a journal, as the simulator's truths are told of it."""

from __future__ import annotations

from liftlog.types import EpochStart, PartitionId, Record
from liftlog_sim.truth.invariants import Checks, PartitionTruth

PARTITION = PartitionId(7, 0)


class ToldLogs:
    """`data`: these messages (subject, value), of epoch 1, all committed. `journal`: what `put` writes."""

    def __init__(self, *messages: tuple[bytes, bytes]) -> None:
        checks = Checks()
        self.data = PartitionTruth(PARTITION, checks)
        self.journal = PartitionTruth(PARTITION.journal, checks)
        self.data.history, self.data.hw = [EpochStart(1, 0)], len(messages)
        for offset, (subject, value) in enumerate(messages):
            self.data.contents.committed.append(Record(offset, 5, subject, b"", b"", None, value))

    def put(self, data: bytes, epoch: int = 1) -> int:
        """An entry is committed. Where it ends."""
        committed, history = self.journal.contents.committed, self.journal.history
        if not history or history[-1].epoch != epoch:
            history.append(EpochStart(epoch, len(committed)))
        committed.append(Record(len(committed), 5, b"", b"", b"", None, data))
        self.journal.hw = len(committed)
        return len(committed)
