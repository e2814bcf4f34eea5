"""What clients publish to and read: one partition, as they know it."""

from __future__ import annotations

from liftlog.types import PartitionId, StreamConfig


class Target:
    """One partition as clients know it."""

    __slots__ = ("config", "partition", "stream", "subject")

    def __init__(self, config: StreamConfig, partition: PartitionId, subject: str) -> None:
        self.config = config
        self.stream = config.name
        self.partition = partition
        self.subject = subject.encode()

    @property
    def name(self) -> str:
        """As plans name it."""
        return f"{self.stream}/{self.partition.index}"


def loses_records(target: Target) -> bool:
    """Whether the stream's front, or records within it, may go."""
    return target.config.compact or not target.config.retention.unlimited
