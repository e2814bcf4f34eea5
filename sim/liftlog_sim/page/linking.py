"""Which earlier step each step came from: by messages, tickets, reads and timers.

A message is known by its content, sender and receiver; of equal ones the first that was sent came first, and
one that comes twice is the last that was sent. What was sent and never received is found on the way.
"""

from __future__ import annotations

from collections import defaultdict, deque
from typing import Any

import msgspec

from liftlog_sim.page.chart import CLIENTS, NATS, Arrival

_encode = msgspec.json.Encoder().encode
ANSWERS = {
    "LogRead": "ReadLog",
    "TimeFound": "LookupTime",
    "SubjectsTold": "AskSubjects",
    "LastsTold": "AskLasts",
    "SubjectsFolded": "FoldSubjects",
    "LogOpened": "OpenLog",
    "Subscribed": "Subscribe",
    "Drained": "Drain",
    "Compacted": "CompactLog",
    "Scrubbed": "ScrubLog",
    "LogRepaired": "RepairLog",
    "LogStartMoved": "MoveLogStart",
}
"""Events that answer an effect: the newest of this node and log."""
TO_CLIENTS = {"ReplyClient": CLIENTS, "AckPublishes": NATS, "RefusePublishes": NATS, "Subscribe": NATS}
IN_FLIGHT_US = 20_000
"""What was sent so shortly before the end may be on its way."""


class Linker:
    """Feed it the steps in order."""

    def __init__(self) -> None:
        self._sent: dict[bytes, deque[tuple[int, int, str]]] = defaultdict(deque)
        self._before: dict[bytes, int] = {}
        self._asked: dict[tuple[int, str, str], int] = {}
        self._tickets: dict[tuple[int, int], int] = {}
        self._durable: dict[tuple[int, int], int] = {}
        self._runs: dict[int, int] = {}

    def link(self, place: int, node: int, event: Any, effects: list[Any]) -> tuple[list[int], Arrival | None]:
        """The steps that this one came from, and the message that it took in."""
        causes, arrival = self._causes(node, event)
        if event is None:
            self._runs[node] = place
            self._tickets = {key: found for key, found in self._tickets.items() if key[0] != node}
        for name, fields in effects:
            if name == "Send":
                self._send(place, node, fields)
            elif name == "SetTimer":
                self._asked[node, "TimerFired", fields["kind"]] = place
            else:
                if fields.get("ticket"):
                    self._tickets[node, fields["ticket"]] = place
                self._asked[node, name, _log(fields)] = place
        return sorted({cause for cause in causes if 0 <= cause < place}), arrival

    def unheard(self) -> list[tuple[int, int, str]]:
        """Messages that nobody received: the step, the node they were for, their name."""
        return [left for waiting in self._sent.values() for left in waiting]

    def _send(self, place: int, node: int, fields: dict[str, Any]) -> None:
        key = _encode((node, fields["to"], fields["message"]))
        self._sent[key].append((place, fields["to"], fields["message"][0]))

    def _causes(self, node: int, event: Any) -> tuple[list[int], Arrival | None]:
        if event is None:
            return [], None
        name, fields = event
        if name == "Received":
            key = _encode((fields["sender"], node, fields["message"]))
            waiting = self._sent.get(key)
            if waiting:
                self._before[key] = waiting.popleft()[0]
            sent = self._before.get(key, -1)
            return [sent], Arrival(fields["message"][0], fields["sender"], sent)
        if name in ("Durable", "StorageFailed"):
            return [self._tickets.pop((node, fields["ticket"]), -1)], None
        if name == "TimerFired":
            return [self._asked.get((node, name, fields["kind"]), -1)], None
        if name == "ClientRequest":
            return [], Arrival(fields["request"][0], CLIENTS)
        if name == "Published":
            return [self._asked.get((node, "Subscribe", _log(fields)), -1)], Arrival("Published", NATS)
        asked = ANSWERS.get(name)
        return ([self._asked.get((node, asked, _log(fields)), -1)] if asked else []), None


def departures(effects: list[Any]) -> list[tuple[int, str]]:
    """What a step sends to clients and NATS."""
    return [(TO_CLIENTS[name], name) for name, _ in effects if name in TO_CLIENTS]


def _log(fields: dict[str, Any]) -> str:
    if "summary" in fields:
        fields = fields["summary"][1] if isinstance(fields["summary"], list) else fields["summary"]
    where = fields.get("log") or fields.get("partition")
    return _encode(where).decode() if where else ""
