"""What leaders have given their word for, without waiting for the others (R4, policy `leader`).

Such an ack promises that the record is durable where it came to, at that offset of that epoch. It stays there
while the epoch lasts, and goes with it only if a later one began without it. LeaderAckDurable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from liftlog.messages import AckPublishes
from liftlog.types import EpochStart
from liftlog_sim.truth.leaders_log import LeadersLog


class LeaderAck(NamedTuple):
    """Offsets [first, end) of an epoch."""

    epoch: int
    first: int
    end: int


class LeaderAcks:
    """Of one partition, in the order of acknowledgement, merged."""

    __slots__ = ("runs",)

    def __init__(self) -> None:
        self.runs: list[LeaderAck] = []

    def given(self, acks: AckPublishes, epoch: int, durable_leo: int) -> str:
        """A leader whose log is durable up to there gives its word for records of this epoch; what is wrong
        with that, if anything.
        """
        asked = [place for place, reply in enumerate(acks.replies) if reply]
        first, end = acks.offsets_from + asked[0], acks.offsets_from + asked[-1] + 1
        if acks.records:
            end = acks.end
        if self.runs and self.runs[-1].epoch == epoch and self.runs[-1].end == first:
            self.runs[-1] = self.runs[-1]._replace(end=end)
        else:
            self.runs.append(LeaderAck(epoch, first, end))
        if end > durable_leo:
            return f"gives its word for offset {end - 1}, and is durable only below {durable_leo}"
        return ""

    def lost(
        self,
        history: Sequence[EpochStart],
        hw: int,
        elected_with: Mapping[int, LeadersLog],
        epoch_at: Callable[[Sequence[EpochStart], int], int],
    ) -> tuple[int, str]:
        """Everybody is well again: how many of these records are gone, and which of them must not be."""
        gone = 0
        for epoch, first, end in self.runs:
            kept = first
            while kept < end and kept < hw and epoch_at(history, kept) == epoch:
                kept += 1
            if kept == end:
                continue
            gone += end - kept
            if not any(
                later > epoch and _lacks(log, history, epoch, kept, epoch_at)
                for later, log in elected_with.items()
            ):
                text = f"offset {kept}, with the word of epoch {epoch}'s leader, is gone"
                return gone, f"{text}, and no later leader lacked it"
        return gone, ""


def _lacks(
    log: LeadersLog,
    committed: Sequence[EpochStart],
    epoch: int,
    offset: int,
    epoch_at: Callable[[Sequence[EpochStart], int], int],
) -> bool:
    """Whether a leader began without the record that this epoch had there."""
    return offset >= log.leo or offset < log.start or epoch_at(log.history(committed), offset) != epoch
