"""Publishers that give their messages ids, and send again under the same id what may be stored or not (L7).

Each attempt is a message with a value of its own, as everywhere, so that a value that shows up twice is
always a bug; what is to be there once is the id. Ids are sent again after an unknown outcome, by a publisher
that has heard of one before, or by two at once, within the window and after it.
"""

from __future__ import annotations

from collections import deque

from liftlog.bounds import ID_BYTES_MAX
from liftlog.types import PartitionId
from liftlog_sim.chance.draws import Draws

PLAIN_SHARE, RETRIED_SHARE, REPEATED_SHARE = 0.15, 0.25, 0.35
WITHIN_SHARE = 0.25
"""So many messages of a batch have an id."""
BEHIND_SHARE = 0.1
"""So many messages expect the last id that was drawn on the message before them."""
RECENT = 12
"""So many ids of a partition are sent again for no reason."""
TOO_LONG = b"Nats-Msg-Id: " + b"i" * (ID_BYTES_MAX + 1)
"""L4: what is refused where ids are remembered."""


class MessageIdsInUse:
    """Of all publishers of a world."""

    __slots__ = ("_of", "_recent", "_unknown")

    def __init__(self) -> None:
        self._of: dict[bytes, bytes] = {}
        self._recent: dict[PartitionId, deque[bytes]] = {}
        self._unknown: dict[PartitionId, deque[bytes]] = {}

    def of(self, value: bytes) -> bytes | None:
        """The id of the message with this value; None: it has none."""
        return self._of.get(value)

    def draw(self, partition: PartitionId, value: bytes, draws: Draws) -> bytes | None:
        """The id of the next message."""
        kind = draws.random()
        if kind < PLAIN_SHARE:
            return None
        recent = self._recent.setdefault(partition, deque(maxlen=RECENT))
        unknown = self._unknown.setdefault(partition, deque())
        if unknown and kind < PLAIN_SHARE + RETRIED_SHARE:
            id = unknown.popleft()
        elif recent and kind > 1 - REPEATED_SHARE:
            id = recent[draws.randrange(len(recent))]
        else:
            id = value
        recent.append(id)
        self._of[value] = id
        return id

    def line(self, partition: PartitionId, value: bytes, draws: Draws) -> list[bytes]:
        """The header of a message of a batch; most have none, and most ids are new."""
        if draws.random() >= WITHIN_SHARE:
            return []
        id = self.draw(partition, value, draws.part("drawn"))
        return [] if id is None else [b"Nats-Msg-Id: " + id]

    def behind(self, partition: PartitionId, draws: Draws) -> list[bytes]:
        """The header of a message that is to lie behind the one whose id was drawn last; none: anywhere."""
        recent = self._recent.get(partition)
        if not recent or draws.random() >= BEHIND_SHARE:
            return []
        return [b"Nats-Expected-Last-Msg-Id: " + recent[-1]]

    def unknown(self, partition: PartitionId, value: bytes) -> None:
        """Nobody knows whether this message was stored, or a leader says that it has not stored it."""
        id = self._of.get(value)
        if id is not None:
            self._unknown.setdefault(partition, deque()).append(id)
