"""What others look at of a replica: its log's state, and the role that it has."""

from __future__ import annotations

from collections import deque

from liftlog.core.metadata.records import PartitionState
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import Following, LeaderState
from liftlog.epochs import EpochHistory
from liftlog.types import EpochStart, PartitionId


class LogView:
    """Of one log, under the names by which watchers know it."""

    __slots__ = ()
    log: LogState

    @property
    def id(self) -> PartitionId:
        return self.log.id

    @property
    def role(self) -> str:
        if self.log.leading is not None:
            return "leader"
        return "follower" if self.log.following is not None else "idle"

    @property
    def state(self) -> str:
        return self.log.state

    @property
    def leading(self) -> LeaderState | None:
        return self.log.leading

    @property
    def following(self) -> Following | None:
        return self.log.following

    @property
    def epoch(self) -> int:
        return self.log.epoch

    @property
    def log_start(self) -> int:
        return self.log.log_start

    @property
    def leo(self) -> int:
        return self.log.leo

    @property
    def durable_leo(self) -> int:
        return self.log.durable_leo

    @property
    def hw(self) -> int:
        return self.log.hw

    @property
    def history(self) -> EpochHistory:
        return self.log.history

    @property
    def epochs(self) -> list[EpochStart]:
        return self.log.history.entries

    @property
    def pending(self) -> deque[tuple[int, int]]:
        return self.log.pending

    @property
    def record(self) -> PartitionState | None:
        return self.log.record

    @property
    def isr(self) -> tuple[int, ...]:
        return self.log.isr
