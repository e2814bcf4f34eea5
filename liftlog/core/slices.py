"""Work that grows with the number of partitions, split over steps: nobody else is heard during one (L5).

    a tick           visits every replica; what everybody has said on the way is judged after the last one
    commands         are applied until they have touched so many partitions; the others wait
    their replicas   follow the metadata, so many at a time; until all have, no further command is applied

What is left when a step has done its share goes on with `TIMER_REST`, which is due at once: the event loop
goes round in between, and messages, heartbeats among them, are taken in. A node of few replicas never has a
rest.

To be late here is nothing new to the protocol: a node may apply what is committed at any time. But who acts
while it waits for its turn would mix what the node knows by now of others with what it has seen itself. So a
replica that is spoken to, or ticks, looks first. A tick that comes before the last one is through does first
what is left of that: every replica has every tick.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from itertools import islice

from liftlog.types import Entry, PartitionId


class Slices:
    """What is left to do. `share`: how many partitions a step may care for."""

    __slots__ = ("_entries", "_following", "_ticking", "share")

    def __init__(self, share: int) -> None:
        self.share = share
        self._ticking: deque[PartitionId] = deque()
        self._following: dict[PartitionId, int] = {}
        self._entries: deque[Entry] = deque()

    @property
    def is_ticking(self) -> bool:
        """Whether there are replicas that the last tick has not come to."""
        return bool(self._ticking)

    @property
    def is_following(self) -> bool:
        """Whether there are replicas that are not as the metadata applied so far says."""
        return bool(self._following)

    @property
    def waiting(self) -> Mapping[PartitionId, int]:
        """Partitions whose replicas have not looked at what was applied last; as of which index each is."""
        return self._following

    @property
    def has_rest(self) -> bool:
        return bool(self._ticking or self._following or self._entries)

    @property
    def has_commands(self) -> bool:
        """Whether commands, or replicas that follow them, have their turn still to come."""
        return bool(self._following or self._entries)

    # -- a tick ------------------------------------------------------------------------------------

    def tick(self, replicas: Iterable[PartitionId]) -> None:
        """A tick begins."""
        self._ticking.extend(replicas)

    def ticking(self, whole: bool = False) -> list[PartitionId]:
        """The next replicas of the tick, or all that are left. Some may have been removed meanwhile."""
        count = len(self._ticking) if whole else min(self.share, len(self._ticking))
        return [self._ticking.popleft() for _ in range(count)]

    # -- commands ----------------------------------------------------------------------------------

    def committed(self, entries: list[Entry]) -> None:
        """These are to be applied, in this order, after those that wait."""
        self._entries.extend(entries)

    def next_entry(self, touched: int) -> Entry | None:
        """The next one to be applied in this step, whose commands have touched so many partitions."""
        return self._entries.popleft() if self._entries and touched < self.share else None

    def installed(self) -> None:
        """A snapshot holds all that was committed."""
        self._entries.clear()

    # -- replicas follow ---------------------------------------------------------------------------

    def follow(self, partitions: Iterable[PartitionId], as_of: int) -> None:
        """The replicas of these have to look at the metadata, which they know as of this index."""
        for partition in partitions:
            self._following.setdefault(partition, as_of)

    def called(self, partition: PartitionId) -> bool:
        """Whether the replica of this one has to look now, out of its turn, since it is spoken to."""
        if partition not in self._following:
            return False
        del self._following[partition]
        return True

    def following(self) -> list[PartitionId]:
        """Those whose turn it is."""
        taken = list(islice(self._following, self.share))
        for partition in taken:
            del self._following[partition]
        return taken
