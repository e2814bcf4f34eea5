"""A client that reads metadata: which streams there are, and what one of them is. It asks any node.

What it is told is judged as a history (`sim/metadata_truth.py`): MetadataReads. Names that are created and
deleted all the time are asked for as well, since "there is no such stream" is an answer like any other.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from liftlog.messages import ERR_NOT_FOUND, ErrorReply, StreamInfoReply, StreamInfoRequest
from sim.invariants import Violation
from sim.kernel import SECOND

if TYPE_CHECKING:
    from sim.workload import Workload

TIMEOUT_US = 4 * SECOND


class Inspector:
    """Asks for one stream or for all, again and again."""

    __slots__ = ("_names", "_random", "workload", "world")

    def __init__(self, workload: Workload, extra_names: tuple[str, ...]) -> None:
        self.workload = workload
        self.world = workload.world
        self._random = random.Random(f"{self.world.seed}/inspector")
        self._names = ("", "", *(config.name for config in self.world.knobs.streams), *extra_names)

    def start(self) -> None:
        self._schedule()

    def _schedule(self) -> None:
        mean_us = self.world.knobs.inspect_interval_us
        if mean_us and not self.workload.stopping:
            self.world.kernel.after(int(self._random.expovariate(1.0) * mean_us) + 1, self._fire)

    def _fire(self, first: object, second: object) -> None:
        if self.workload.stopping:
            return
        name = self._names[self._random.randrange(len(self._names))]
        node = self._random.randrange(self.world.knobs.nodes) + 1
        truth = self.world.observer.metadata
        asked_at = truth.committed

        def answered(reply: object) -> None:
            answer = None
            if isinstance(reply, StreamInfoReply):
                answer = reply.streams
            elif isinstance(reply, ErrorReply) and reply.code == ERR_NOT_FOUND:
                answer = []
            if answer is not None:
                self.world.observer.checks.counts["MetadataReads"] += 1
                problem = truth.judge(name, answer, asked_at)
                if problem:
                    self.world.observer.fail(Violation("MetadataReads", f"node {node}: {problem}"))
            self._schedule()

        self.world.clients.request(node, StreamInfoRequest(name), answered, TIMEOUT_US)
