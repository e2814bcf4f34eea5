"""An operator who has the cluster's activity told in a stream, gives that another leader, and removes it
again; and somebody who publishes to it, though it takes nothing (N12).
"""

from __future__ import annotations

from liftlog.messages import ClientMessage, CreateStreamRequest, DeleteStreamRequest, ElectLeaderRequest
from liftlog.types import StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.operating import StreamOperator

ACTIVITY = "__activity"
SUBJECT = f"{ACTIVITY}.in"
REMOVED_SHARE, ELECTED_SHARE = 0.03, 0.6
"""What becomes of the stream while it is there; else somebody publishes to it."""


class Recounter(StreamOperator):
    """Of one activity stream, which comes and goes."""

    __slots__ = ()

    def __init__(self, shared: Clientele) -> None:
        every_us = shared.cluster.knobs.activity_interval_us
        super().__init__(shared, shared.cluster.chances.turns("recounter/0", every_us), every_us)

    def _wanted(self, draws: Draws) -> ClientMessage | None:
        newest = self._cluster.newest_metadata()
        if newest is None:
            return None
        if ACTIVITY not in newest.streams:
            self._shared.account.count("activity streams asked for")
            return CreateStreamRequest(StreamConfig(ACTIVITY, SUBJECT, 1, 3, activity=True))
        choice = draws.random()
        if choice < REMOVED_SHARE:
            return DeleteStreamRequest(ACTIVITY)
        if choice < REMOVED_SHARE + ELECTED_SHARE:
            return ElectLeaderRequest(ACTIVITY, 0, self._shared.any_node(draws))
        self._stray(SUBJECT, "stray")
        return None
