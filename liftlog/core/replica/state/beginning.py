"""C7: where the logs of a stream begin, if it was created to begin elsewhere than at 0.

What lies below the first offset never was: no copy has it, and nobody waits for it. A new copy begins there,
durably, before it is anything to anybody, so that whoever is elected first gives that offset. A copy whose
log ends below has lost what it had, and nothing of what is left can be of use: it begins anew.
"""

from __future__ import annotations

from msgspec import UNSET

from liftlog.core.replica.state.log import LogState
from liftlog.messages import OpenLog
from liftlog.types import LogSummary, PartitionId, StreamConfig


def begins_at(config: StreamConfig, log: PartitionId) -> int:
    """The first offset of one log of a partition; its journal begins at 0."""
    return 0 if config.first_offset is UNSET or log.is_journal else config.first_offset


def first_of(log: LogState) -> int:
    """The first offset of this log."""
    config = log.config
    return 0 if config is None else begins_at(config, log.id)


def opening_of(log: LogState, fresh: bool = False) -> OpenLog:
    """Storage is to open the log, or to create it where it begins."""
    return OpenLog(log.id, fresh, log.options, _given(log))


def ends_below_first(log: LogState, summary: LogSummary) -> bool:
    """Whether storage has found less than a new copy has, so that the log is to be created anew."""
    if summary.leo >= _given(log) or log.ctx.mutants.lost_copy_begins_at_zero:
        return False
    log.ctx.mark("C7.below")
    return True


def _given(log: LogState) -> int:
    """Where a new copy begins. With the planted bug only those that are there when the first leader is."""
    led = log.record is not None and log.record.epoch > 1
    return 0 if led and log.ctx.mutants.copy_begins_at_zero else first_of(log)
