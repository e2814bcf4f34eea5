"""What clients publish to and read: one partition, as they know it."""

from __future__ import annotations

from liftlog.core.metadata.subjects import partition_subject
from liftlog.types import PartitionId, StreamConfig


class Target:
    """One partition as clients know it."""

    __slots__ = ("config", "partition", "pattern", "stream", "subject")

    def __init__(self, config: StreamConfig, partition: PartitionId) -> None:
        self.config = config
        self.stream = config.name
        self.partition = partition
        self.pattern = partition_subject(config.subject, partition.index)
        """What the partition listens on; `subject`: what clients publish to, where that is of wildcards."""
        self.subject = self.pattern.replace("*", "own").encode()

    @property
    def name(self) -> str:
        """As plans name it."""
        return f"{self.stream}/{self.partition.index}"


def loses_records(target: Target) -> bool:
    """Whether the stream's front, or records within it, may go."""
    return target.config.compact or not target.config.retention.unlimited
