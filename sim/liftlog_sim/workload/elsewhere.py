"""Messages that may lie in another stream than the one that their client has in mind (N11)."""

from __future__ import annotations

from collections.abc import Iterable

from liftlog.types import PartitionId
from liftlog_sim.workload.operations import ClientOperation


class SentElsewhere:
    """Of one publisher: what it sent to the other streams of a queue group, with the same messages."""

    __slots__ = ("_sent",)

    def __init__(self) -> None:
        self._sent: dict[tuple[bytes, PartitionId], ClientOperation] = {}

    def sent(self, operations: Iterable[ClientOperation]) -> None:
        """They are under way; of silent streams nobody hears again."""
        for operation in operations:
            if operation.target.config.shares_in:
                self._sent[operation.value, operation.target.partition] = operation

    def meant(self, operation: ClientOperation, partition: PartitionId, now_us: int) -> ClientOperation:
        """What this partition's ack is the end of: if that is another stream's, the message is not in the
        one that it was sent to.
        """
        if operation.target.partition == partition:
            return operation
        other = self._sent.get((operation.value, partition), operation)
        if other is not operation:
            operation.end("fail", now_us, error="another of its queue group has it")
        return other
