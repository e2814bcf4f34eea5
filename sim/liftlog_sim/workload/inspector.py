"""A client that reads metadata: which streams there are, and what one of them is. It asks any node.

What it is told is judged as a history (`truth/metadata.py`): MetadataReads. Names that are
created and deleted all the time are asked for as well, since "there is no such stream" is an answer like any
other.
"""

from __future__ import annotations

from liftlog.messages import ERR_NOT_FOUND, ErrorReply, StreamInfoReply, StreamInfoRequest
from liftlog_sim.chance.chances import Turn
from liftlog_sim.kernel import SECOND
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.workload.clients import Clientele

TIMEOUT_US = 4 * SECOND


class Inspector:
    """Asks for one stream or for all, again and again."""

    __slots__ = ("_account", "_cluster", "_names", "_shared", "_turns")

    def __init__(self, shared: Clientele, extra_names: tuple[str, ...]) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._account = shared.account
        self._turns = self._cluster.chances.turns("inspector/0", self._cluster.knobs.inspect_interval_us)
        self._names = ("", "", *(config.name for config in self._cluster.knobs.streams), *extra_names)

    def start(self) -> None:
        self._schedule()

    def _schedule(self) -> None:
        if not self._shared.stopping:
            self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        turn.noted()
        name = self._names[turn.draws.randrange(len(self._names))]
        node = self._shared.any_node(turn.draws)
        truth = self._account.metadata
        asked_at = truth.committed

        def answered(reply: object) -> None:
            answer = None
            if isinstance(reply, StreamInfoReply):
                answer = reply.streams
            elif isinstance(reply, ErrorReply) and reply.code == ERR_NOT_FOUND:
                answer = []
            if answer is not None:
                self._account.checks.counts["MetadataReads"] += 1
                problem = truth.judge(name, answer, asked_at)
                if problem:
                    self._account.fail(Violation("MetadataReads", f"node {node}: {problem}"))
            self._schedule()

        self._shared.hub.request(turn.name, node, StreamInfoRequest(name), answered, TIMEOUT_US)
