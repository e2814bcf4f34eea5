"""What an index of subjects costs those who publish: a cluster of which somebody asks about subjects (S1).

A node makes its index with the first question, and lets it follow the log from then on; whoever publishes
pays for that. It may fall behind, since appends go first: so a round ends with a question that the index can
answer only when it knows all of the round's messages. What the node does until then counts as the round's
processor time, and how long that took is told beside the rate.
"""

from __future__ import annotations

import statistics
import time

from liftlog.bench.cluster import LiftlogCluster
from liftlog.bench.load import subject_of
from liftlog.client import Client
from liftlog.local import ask
from liftlog.scratch import Scratch
from liftlog.types import LiftlogError

ANSWER_WITHIN_MS = 60_000


class Indexed(LiftlogCluster):
    """As its base, with an index that is kept up. The stream's subjects are `subjects` ones below `above`."""

    def __init__(self, scratch: Scratch, replicas: int, above: str, stream: str, subjects: int) -> None:
        super().__init__(scratch, replicas, f"{above}.*", stream, "liftlog, indexed")
        self._stream = stream
        self._subject = subject_of(above, 0, subjects)
        self._behind_s: list[float] = []

    def catch_up(self) -> None:
        """Returns when the index knows all messages. Raises LiftlogError if that takes too long."""
        began_s = time.perf_counter()

        async def known(client: Client) -> bool:
            return await client.last(self._stream, self._subject, timeout_ms=ANSWER_WITHIN_MS) is not None

        if not ask(self.local, known):
            raise LiftlogError(f"the index of {self.name} does not know '{self._subject}'")
        self._behind_s.append(time.perf_counter() - began_s)

    @property
    def behind_s(self) -> float:
        """How long after the last ack the index knew all messages: the median of the rounds."""
        return statistics.median(self._behind_s[1:])
