"""A few words for the steps that are worth naming in the diagram."""

from __future__ import annotations

from typing import Any

from liftlog_sim.page.chart import RAFT
from liftlog_sim.page.words import appended, named


def label(event: Any, effects: list[Any], changes: dict[str, Any], logs: dict[str, str]) -> str:
    """The one most telling thing about a step; empty for most steps."""
    if any(name == "Raised" for name, _ in effects):
        return "raises"
    if event is None:
        return "starts"
    for name, fields in effects:
        if name in ("TruncateLog", "ResetLog", "RebuildLog"):
            place = fields.get("offset", fields.get("start", fields.get("keep_below")))
            return f"cuts to {place}" if name == "TruncateLog" else f"begins anew at {place}"
        if name == "StopNode":
            return "stops itself"
    found = role_label(changes, logs)
    if found:
        return found
    if event[0] == "StorageFailed":
        return "sync fails" if event[1]["sync"] else "write fails"
    for name, fields in effects:
        if name == "AckPublishes":
            first = fields["offsets_from"]
            last = first + (fields.get("records") or len(fields["replies"])) - 1
            return f"acks {first}" if last == first else f"acks {first} to {last}"
        if name == "AppendLog" and fields["log"] not in ({"stream": 0, "index": 0}, [0, 0]):
            told = appended(fields["batches"]).partition(" of epoch")[0]
            return told.replace("offsets ", "writes ").replace("offset ", "writes ")
    return {"StopRequested": "stops in order", "BusDown": "loses NATS"}.get(event[0], "")


def role_label(changes: dict[str, Any], logs: dict[str, str]) -> str:
    """A change of who leads."""
    for key, value in changes.items():
        if not key.endswith(" role") or value not in ("leader", "candidate"):
            continue
        log = key.partition(" ")[0]
        if log == RAFT:
            term = changes.get("raft term")
            who = "controller" if value == "leader" else "candidate"
            return f"{who}, term {term}" if term else who
        if value == "leader":
            return f"leads {named(log, logs)}"
    for key, value in changes.items():
        if key.endswith(" ISR") and value:
            return f"ISR {' '.join(str(node) for node in value)}"
    return ""
