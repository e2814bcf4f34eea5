"""What a copy has left of a partition's logs, as its node tells it (R14).

A partition with a journal has two logs under one record (ADR 0048). A copy is as doubtful as the more
doubtful of them, and is one without a folder if either is gone: whoever counts on it counts on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from liftlog.core.metadata.commands import PairFailed, ReplicaFailed, TailReport
from liftlog.core.metadata.records import LastKnown, PartitionState, StreamState
from liftlog.types import PartitionId, TailState

_WORSE = tuple(state.value for state in TailState)
"""Each is more doubtful than those before it."""


class FoundCopy(NamedTuple):
    """What a start found of one copy. `state`: a `TailState` value."""

    state: str
    ends: LastKnown
    by_journal: bool = False
    """The journal is more doubtful than the data."""


def found_of(
    stream: StreamState, partition: PartitionState, reports: Mapping[PartitionId, TailReport]
) -> FoundCopy | None:
    """By the reports of a registration; None if the copy has no folder, or only one of two."""
    data = reports.get(partition.id)
    if data is None:
        return None
    ends = LastKnown(data.epoch, data.leo)
    if not stream.config.has_journal:
        return FoundCopy(data.state, ends)
    journal = reports.get(partition.id.journal)
    if journal is None:
        return None
    ends = LastKnown(data.epoch, data.leo, journal_epoch=journal.epoch, journal_leo=journal.leo)
    by_journal = _WORSE.index(journal.state) > _WORSE.index(data.state)
    return FoundCopy(journal.state if by_journal else data.state, ends, by_journal)


def ends_told(command: ReplicaFailed | PairFailed) -> LastKnown:
    """What a copy that has failed still trusts."""
    if isinstance(command, ReplicaFailed):
        return LastKnown(command.epoch, command.leo)
    return LastKnown(
        command.epoch, command.leo, journal_epoch=command.journal_epoch, journal_leo=command.journal_leo
    )
