"""An operator who alters streams while they are in use (R19): how their logs are written, and that they take
nothing: read-only (R19), or paused (N1).

What is asked for is judged in `truth/authors.py`: an alteration is somebody's who waited for it, and changes
what it names. A stream that was closed so is given back after a while, also when all load is over, so
that it can be written when everything is whole again.
"""

from __future__ import annotations

from typing import Any

from liftlog.messages import AlterStreamRequest, DoneReply, StreamChanges
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.workload.clients import Clientele

CLOSED_SHARE = 0.3
PAUSED_SHARE = 0.5
"""Of the streams that are closed."""
CLOSES = {"read_only": StreamChanges(read_only=True), "paused": StreamChanges(paused=True)}
OPENS = {"read_only": StreamChanges(read_only=False), "paused": StreamChanges(paused=False)}
RIVAL_SHARE = 0.4
"""How often two operators alter a stream at once, by two nodes."""
LOCKED_MAX_US = 2 * SECOND
AGAIN_US = 300 * MILLISECOND


class Alterer:
    """Alters one stream after the other, without waiting for what becomes of it."""

    __slots__ = ("_account", "_cluster", "_lifts", "_locked", "_shared", "_turns")

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._account = shared.account
        self._turns = self._cluster.chances.turns("alterer/0", self._cluster.knobs.alter_interval_us)
        self._locked: set[str] = set()
        """Streams that are read-only or paused, or may yet become so."""
        self._lifts = 0

    def start(self) -> None:
        if self._cluster.knobs.alter_interval_us:
            self._schedule()

    def _schedule(self) -> None:
        turn = self._turns.next()
        if turn is not None:
            self._cluster.kernel.at(turn.at_us, self._fire, turn)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        draws = turn.draws
        turn.noted()
        stream = self._shared.targets[draws.randrange(len(self._shared.targets))].stream
        if draws.random() < CLOSED_SHARE and stream not in self._locked:
            self._lock(stream, turn)
        else:
            self._ask(turn.name, stream, draws)
            if draws.random() < RIVAL_SHARE:
                self._ask(f"{turn.name}/rival", stream, draws.part("rival"))
        self._schedule()

    def _ask(self, name: str, stream: str, draws: Draws) -> None:
        self._account.count("alterations asked for")
        request = AlterStreamRequest(stream, _changes(draws))
        node, patience_us = self._shared.any_node(draws), self._cluster.knobs.admin_patience_us
        self._shared.hub.request(name, node, request, self._answered, patience_us)

    def _answered(self, reply: object) -> None:
        if isinstance(reply, DoneReply):
            self._account.count("alterations")

    def _lock(self, stream: str, turn: Turn) -> None:
        self._locked.add(stream)
        locked_us = turn.draws.randrange(LOCKED_MAX_US)
        way = "paused" if turn.draws.part("way").random() < PAUSED_SHARE else "read_only"

        def answered(reply: object) -> None:
            self._answered(reply)
            self._cluster.kernel.after(locked_us, self._lift, (stream, way))

        self._account.count("pauses" if way == "paused" else "read-only streams")
        request = AlterStreamRequest(stream, CLOSES[way])
        node, patience_us = self._shared.any_node(turn.draws), self._cluster.knobs.admin_patience_us
        self._shared.hub.request(turn.name, node, request, answered, patience_us)

    def _lift(self, closed: tuple[str, str], second: object) -> None:
        """Until somebody says that it is done."""
        stream, way = closed
        self._lifts += 1
        name = f"lift/{self._lifts}"

        def answered(reply: object) -> None:
            self._answered(reply)
            if isinstance(reply, DoneReply):
                self._locked.discard(stream)
            else:
                self._cluster.kernel.after(AGAIN_US, self._lift, closed)

        request = AlterStreamRequest(stream, OPENS[way])
        node = self._shared.any_node(self._cluster.chances.draws(name))
        self._shared.hub.request(name, node, request, answered, self._cluster.knobs.admin_patience_us)


def _changes(draws: Draws) -> StreamChanges:
    """How the log is written from now on; one change or two."""
    values: dict[str, Any] = {
        "segment_records": draws.randrange(5, 200),
        "segment_bytes": draws.randrange(1, 64) * 1024,
        "segment_ms": draws.randrange(1, 60) * 1000,
    }
    names = list(values)
    chosen = {names[draws.randrange(len(names))], names[draws.randrange(len(names))]}
    return StreamChanges(**{name: values[name] for name in names if name in chosen})
