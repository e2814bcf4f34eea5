"""What clients publish to and read: one partition, as they know it."""

from __future__ import annotations

from liftlog.core.metadata.subjects import partition_subject
from liftlog.types import PartitionId, StreamConfig
from liftlog_sim.chance.draws import Draws

WORDS = ("own", "two", "three")
"""What stands in a subject in the place of a wildcard; messages have the first one, but where subjects are
asked about."""


class Target:
    """One partition as clients know it."""

    __slots__ = ("config", "more_subjects", "partition", "pattern", "stream", "subject")

    def __init__(self, config: StreamConfig, partition: PartitionId) -> None:
        self.config = config
        self.stream = config.name
        self.partition = partition
        self.pattern = partition_subject(config.subject, partition.index)
        """What the partition listens on; `subject`: what clients publish to, where that is of wildcards."""
        self.subject = self.subject_with(WORDS[0])
        more = config.subjects[1:] if partition.index == 0 else ()
        self.more_subjects = [pattern.replace("*", WORDS[0]).encode() for pattern in more]
        """N10: what else clients publish to, whether the stream listens on it at present or not."""

    def subject_with(self, word: str) -> bytes:
        """A literal one, with this word for each wildcard."""
        return self.pattern.replace("*", word).encode()

    def drawn_subject(self, draws: Draws, asked: bool, fresh: str) -> bytes:
        """What a burst is published to. `asked`: subjects are asked about. `fresh`: a word that no other has
        had, if there is to be room: every other subject may have all the messages that it holds.
        """
        if fresh and self.config.holds_of_subject:
            return self.subject_with(fresh)
        subject = self.subject_with(draws.part("subject").choice(WORDS)) if asked else self.subject
        if self.more_subjects:
            return draws.part("among").choice((subject, *self.more_subjects))
        return subject

    @property
    def name(self) -> str:
        """As plans name it."""
        return f"{self.stream}/{self.partition.index}"


def loses_records(target: Target) -> bool:
    """Whether the stream's front, or records within it, may go."""
    config = target.config
    return config.compact or config.goes_when_done or not config.retention.unlimited
