"""What of a group of jobs waits for its sync, and which of it is metadata (D5)."""

from __future__ import annotations

from liftlog.messages import (
    AppendLog,
    InstallSnapshot,
    SaveHardState,
    SaveIdentity,
    StorageJob,
    TruncateLog,
)
from liftlog.storage.layout import SNAPSHOT
from liftlog.storage.log import Log
from liftlog.types import RAFT_LOG, Ticket


class Unsynced:
    """A ticket of the present group. Its outcome is that of the log or the state file it stands on."""

    __slots__ = ("content", "log", "path", "ticket")

    def __init__(self, ticket: Ticket, log: Log | None, path: str = "", content: bytes = b"") -> None:
        self.ticket = ticket
        self.log = log
        self.path = path
        self.content = content

    @property
    def is_metadata(self) -> bool:
        return self.path != SNAPSHOT and (self.log is None or self.log.id == RAFT_LOG)


def is_metadata(job: StorageJob) -> bool:
    """Whether the metadata group's word rests on this write (M1, I2)."""
    kind = type(job)
    if kind in (AppendLog, TruncateLog):
        return job.log == RAFT_LOG  # type: ignore[attr-defined, no-any-return]
    return kind in (SaveHardState, SaveIdentity, InstallSnapshot)
