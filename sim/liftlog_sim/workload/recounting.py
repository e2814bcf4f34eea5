"""An operator who has the cluster's activity told in a stream, gives that another leader, and removes it
again; and somebody who publishes to it, though it takes nothing (N12).
"""

from __future__ import annotations

from liftlog.messages import ClientMessage, CreateStreamRequest, DeleteStreamRequest, ElectLeaderRequest
from liftlog.types import Message, StreamConfig
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.workload.clients import Clientele

ACTIVITY = "__activity"
SUBJECT = f"{ACTIVITY}.in"
REMOVED_SHARE, ELECTED_SHARE = 0.03, 0.6
"""What becomes of the stream while it is there; else somebody publishes to it."""


class Recounter:
    """Of one activity stream, which comes and goes."""

    __slots__ = ("_cluster", "_shared", "_strays", "_turns")

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._strays = 0
        self._turns = self._cluster.chances.turns("recounter/0", self._cluster.knobs.activity_interval_us)

    def start(self) -> None:
        if self._cluster.knobs.activity_interval_us:
            self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        turn.noted()
        request = self._wanted(turn.draws)
        if request is not None:
            node, patience_us = self._shared.any_node(turn.draws), self._cluster.knobs.admin_patience_us
            self._shared.hub.request(turn.name, node, request, lambda reply: None, patience_us)
        self._turns.take(self._fire)

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
        self._strays += 1
        value = b"stray-%d" % self._strays
        self._cluster.bus.publish(SUBJECT.encode(), [Message(SUBJECT.encode(), b"", b"", value)])
        return None
