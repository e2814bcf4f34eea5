"""The state of a node from what it was told and what it asked for, where a file holds no states.

A trace holds events and effects. From these follow where each log ends, how far it is synced, which writes
are under way, the term and who leads. It is what the node believes; what only its memory knows, as a leader's
HW before it has told anybody, is missing.
"""

from __future__ import annotations

from typing import Any

from liftlog_sim.page.chart import log_key
from liftlog_sim.page.words import appended, end_of, named

Changes = dict[str, Any]
WRITES = ("AppendLog", "TruncateLog", "ResetLog", "SaveHardState", "SaveIdentity")


class UnsyncedWrites:
    """The writes of one node that are not synced: what a power loss would take."""

    def __init__(self) -> None:
        self.tickets: dict[int, tuple[str, int]] = {}
        """Log and its end after the write, by ticket."""

    def take(self, event: Any, effects: list[Any], logs: dict[str, str]) -> Changes:
        """The names `disk TICKET`: what is written, and nothing once it is synced."""
        changes: Changes = {}
        if event is None:
            self.tickets.clear()
        elif event[0] in ("Durable", "StorageFailed") and event[1]["ticket"] in self.tickets:
            del self.tickets[event[1]["ticket"]]
            changes[f"disk {event[1]['ticket']}"] = None
        for name, fields in effects:
            if name not in WRITES or not fields.get("ticket"):
                continue
            log = log_key(fields["log"]) if "log" in fields else ""
            end = end_of(fields["batches"]) if name == "AppendLog" else None
            self.tickets[fields["ticket"]] = (log, end[0] if end else fields.get("offset", -1))
            changes[f"disk {fields['ticket']}"] = _written(name, fields, named(log, logs))
        return changes


def _written(name: str, fields: dict[str, Any], log: str) -> str:
    if name == "AppendLog":
        return f"{appended(fields['batches'])} of {log}"
    if name == "TruncateLog":
        return f"the cut of {log} to {fields['offset']}"
    if name == "ResetLog":
        return f"the new beginning of {log} at {fields['start']}"
    if name == "SaveHardState":
        return f"term {_hard_state(fields)['term']} and the vote"
    return "the node's identity"


def _hard_state(fields: dict[str, Any]) -> dict[str, Any]:
    state: dict[str, Any] = fields["state"][1] if isinstance(fields["state"], list) else fields["state"]
    return state


class Deriver:
    """One node. `take` gives what changed; feed it every step of the node in order."""

    def __init__(self) -> None:
        self._unsynced = UnsyncedWrites()
        self._known: Changes = {}

    def take(self, event: Any, effects: list[Any], logs: dict[str, str]) -> Changes:
        """What this step changed on its node."""
        now: Changes = {}
        if event is None:
            self._known.clear()
            now["raft role"] = "follower"
        else:
            self._event(event, now)
        for effect in effects:
            self._effect(effect, now)
        changes = {key: value for key, value in now.items() if self._known.get(key) != value}
        self._known |= changes
        return changes | self._unsynced.take(event, effects, logs)

    def _event(self, event: Any, now: Changes) -> None:
        name, fields = event
        if name == "Received":
            self._received(fields["message"], now)
        elif name == "Durable" and fields["ticket"] in self._unsynced.tickets:
            log, end = self._unsynced.tickets[fields["ticket"]]
            if log and end >= 0:
                now[f"{log} durable LEO"] = end
        elif name == "LogOpened":
            summary = fields["summary"][1] if isinstance(fields["summary"], list) else fields["summary"]
            log = log_key(summary["log"])
            if "leo" in summary:
                now[f"{log} LEO"] = now[f"{log} durable LEO"] = summary["leo"]

    def _received(self, received: Any, now: Changes) -> None:
        name, message = received
        if name == "AppendRequest" and message["term"] >= (self._known.get("raft term") or 0):
            now["raft term"], now["raft role"] = message["term"], "follower"
            now["raft commit"] = max(message["commit"], self._known.get("raft commit") or 0)
        elif name == "FetchReply" and message["status"] == 0:
            log = log_key(message["partition"])
            end = self._known.get(f"{log} LEO") or 0
            now[f"{log} HW"] = max(self._known.get(f"{log} HW") or 0, min(message["hw"], end))

    def _effect(self, effect: Any, now: Changes) -> None:
        name, fields = effect
        log = (
            log_key(fields.get("log") or fields["partition"])
            if "log" in fields or "partition" in fields
            else ""
        )
        if name == "AppendLog":
            end = end_of(fields["batches"])
            if end is not None:
                now[f"{log} LEO"] = end[0]
        elif name == "TruncateLog":
            for key in ("LEO", "durable LEO"):
                known = self._known.get(f"{log} {key}")
                now[f"{log} {key}"] = fields["offset"] if known is None else min(fields["offset"], known)
        elif name == "SaveHardState":
            now["raft term"] = _hard_state(fields)["term"]
        elif name == "Subscribe":
            now[f"{log} role"], now[f"{log} epoch"] = "leader", fields["epoch"]
        elif name == "AckPublishes" and not fields.get("by_leader"):
            end = fields["offsets_from"] + (fields.get("records") or len(fields["replies"]))
            now[f"{log} HW"] = max(end, self._known.get(f"{log} HW") or 0)
        elif name == "Send":
            self._sent(fields["message"], now)

    def _sent(self, sent: Any, now: Changes) -> None:
        name, message = sent
        if name == "AppendRequest":
            now["raft term"], now["raft role"] = message["term"], "leader"
            now["raft commit"] = max(message["commit"], self._known.get("raft commit") or 0)
        elif name == "VoteRequest" and not message["pre_vote"]:
            now["raft term"], now["raft role"] = message["term"], "candidate"
        elif name == "Fetch":
            log = log_key(message["partition"])
            now[f"{log} role"], now[f"{log} epoch"] = "follower", message["epoch"]
            now.setdefault(f"{log} LEO", message["offset"])
            now.setdefault(f"{log} durable LEO", message["durable_leo"])
        elif name == "FetchReply" and message["status"] == 0:
            log = log_key(message["partition"])
            now[f"{log} HW"] = max(message["hw"], self._known.get(f"{log} HW") or 0)
