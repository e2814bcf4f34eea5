"""Events and effects in words, from the plain data of a trace (`runs/trace.py`)."""

from __future__ import annotations

from typing import Any

from liftlog.messages import (
    FETCH_BELOW_START,
    FETCH_DAMAGED,
    FETCH_DIVERGED,
    FETCH_FENCED,
    FETCH_OK,
    FETCH_UNKNOWN,
)
from liftlog_sim.explain.command_words import command_words
from liftlog_sim.explain.journal_words import FEW_ENTRIES, entries_in, entry_words
from liftlog_sim.explain.words import many
from liftlog_sim.page.chart import BUS, CLIENT, DISK, MESSAGE, OTHER, START, TIMER, log_key
from liftlog_sim.runs.trace import read_batch

TOLD = {
    "term": "term",
    "epoch": "epoch",
    "candidate": "candidate",
    "offset": "offset",
    "durable_leo": "durable",
    "prev_index": "after index",
    "commit": "commit",
    "match": "match",
    "hw": "HW",
    "leader_leo": "LEO of the leader",
    "end_offset": "ends at",
    "last_epoch": "after epoch",
    "incarnation": "incarnation",
    "applied": "applied",
    "index": "index",
}
"""Fields of messages that are told, and how."""
STATUS = {
    FETCH_OK: "OK",
    FETCH_DIVERGED: "DIVERGED",
    FETCH_FENCED: "FENCED",
    FETCH_UNKNOWN: "UNKNOWN",
    FETCH_DAMAGED: "DAMAGED",
    FETCH_BELOW_START: "BELOW_START",
}
KINDS = {
    "Received": MESSAGE,
    "PeerLost": MESSAGE,
    "PeerBack": MESSAGE,
    "TimerFired": TIMER,
    "ClientRequest": CLIENT,
    "ClientGone": CLIENT,
    **dict.fromkeys(("BusUp", "BusDown", "Subscribed", "SubscriptionRefused", "Drained", "Published"), BUS),
    **dict.fromkeys(
        ("Durable", "StorageFailed", "MetadataStalled", "LogOpened", "LogRead", "TimeFound"), DISK
    ),
    **dict.fromkeys(("LogStartMoved", "Compacted", "Scrubbed", "LogRepaired", "StorageWork"), DISK),
}
LONGEST = 160


def kind_of(event: Any) -> int:
    return START if event is None else KINDS.get(event[0], OTHER)


def named(log: str, logs: dict[str, str]) -> str:
    """A log's name for people."""
    return logs.get(log) or log


def message_words(message: Any) -> str:
    """A message between nodes: its name, and the few of its fields that matter."""
    name, fields = message
    told = []
    if "status" in fields:
        told.append(STATUS[fields["status"]])
    told += [f"{words} {fields[key]}" for key, words in TOLD.items() if fields.get(key)]
    for key, yes, no in (("granted", "granted", "not granted"), ("success", "accepted", "refused")):
        if key in fields:
            told.append(yes if fields[key] else no)
    if fields.get("pre_vote"):
        told.append("pre-vote")
    for key in ("entries", "batches"):
        if fields.get(key):
            told.append(many(len(fields[key]), "entry" if key == "entries" else "batch"))
    commands = [entry[1]["data"] for entry in fields.get("entries", ())]
    commands += [fields["command"]] if "command" in fields else []
    said = command_words(commands[-1]) if commands else ""
    if said:
        told.append(said if len(commands) == 1 else f"at the end: {said}")
    return f"{name} ({', '.join(told)})" if told else name


def event_words(event: Any, logs: dict[str, str]) -> str:
    """What a step takes in, as a sentence without its subject."""
    if event is None:
        return "starts"
    name, fields = event
    log = named(log_key(fields["log"]), logs) if "log" in fields else ""
    log = log or (named(log_key(fields["partition"]), logs) if "partition" in fields else "")
    match name:
        case "Received":
            return f"receives {message_words(fields['message'])} from node {fields['sender']}"
        case "TimerFired":
            return "its clock ticks" if fields["kind"] == "tick" else f"its {fields['kind']} timer fires"
        case "Durable":
            return f"hears that ticket {fields['ticket']} is durable"
        case "StorageFailed":
            what = "a sync" if fields["sync"] else "a write"
            return f"hears that {what} of {log} failed: {fields['error']}"
        case "Published":
            count = many(len(fields["messages"]), "message")
            return f"takes {count} from NATS for {log} in epoch {fields['epoch']}"
        case "ClientRequest":
            return f"is asked by client {fields['client']}: {_request(fields['request'])}"
        case "PeerLost":
            return f"hears that nobody listens at node {fields['peer']}"
        case "PeerBack":
            return f"is connected to node {fields['peer']} again"
        case "BusUp" | "BusDown":
            return "is connected to NATS" if name == "BusUp" else "loses NATS"
        case "StopRequested":
            return "is asked to stop"
        case "StorageWork":
            return "its storage does what it was asked for"
        case "LogOpened":
            summary = _fields(fields["summary"])
            name = named(log_key(summary["log"]), logs)
            return f"has opened {name}, which ends at {summary.get('leo', '?')}"
    return clipped(f"hears {name}{f' of {log}' if log else ''}{_scalars(fields)}")


def effect_words(effect: Any, logs: dict[str, str]) -> str:
    """What a step asks for."""
    name, fields = effect
    where = fields.get("log") or fields.get("partition")
    log = named(log_key(where), logs) if where else ""
    match name:
        case "Send":
            held = f", once ticket {fields['after']} is durable" if fields["after"] else ""
            return f"sends {message_words(fields['message'])} to node {fields['to']}{held}"
        case "SetTimer":
            return f"sets its {fields['kind']} timer to {fields['min_ms']} to {fields['max_ms']} ms"
        case "AppendLog":
            batches, ticket = fields["batches"], fields["ticket"]
            return clipped(f"appends {appended(batches)} to {log} (ticket {ticket}){said_by(batches)}")
        case "TruncateLog":
            return f"cuts {log} to {fields['offset']} (ticket {fields['ticket']})"
        case "AckPublishes":
            replies = fields["replies"]
            records = fields.get("records")
            count = f"a parcel of {many(records, 'record')}" if records else many(len(replies), "message")
            alone = " by its own word alone" if fields.get("by_leader") else ""
            return f"acknowledges {count} of {log} from offset {fields['offsets_from']}{alone}"
        case "TellStaged":
            return f"keeps {many(len(fields['replies']), 'message')} of {log} for their batches"
        case "TellFast":
            return f"tells of a fast batch of {log}: {fields['word']} {fields['number']}"
        case "RefusePublishes":
            return clipped(f"refuses {many(len(fields['replies']), 'message')} of {log}: {fields['code']}")
        case "ReplyClient":
            return clipped(f"answers client {fields['client']}: {_request(fields['reply'])}")
        case "Raised":
            return clipped(f"raises {fields['error']} at {fields['place']}")
        case "CheckpointHw":
            return f"remembers HW {fields['hw']} of {log} on disk"
        case "Subscribe":
            return f"subscribes to {fields['subject']} for {log} in epoch {fields['epoch']}"
    return clipped(f"{name}{f' of {log}' if log else ''}{_scalars(fields)}")


def appended(batches: list[str]) -> str:
    """Which offsets batches hold."""
    first, last = (read_batch(batches[0]), read_batch(batches[-1])) if batches else (None, None)
    if first is None or last is None:
        return many(len(batches), "batch")
    start, (_, end, epoch) = first[0], last
    offsets = f"offset {start}" if end == start + 1 else f"offsets {start} to {end - 1}"
    return f"{offsets} of epoch {epoch}"


def said_by(batches: list[str]) -> str:
    """What a journal's entries say, as the end of a sentence; empty if these are no entries."""
    entries = entries_in(batches)
    told = "; ".join(entry_words(entry) for entry in entries[:FEW_ENTRIES])
    more = len(entries) - FEW_ENTRIES
    return f": {told}{f'; and {more} more' if more > 0 else ''}" if told else ""


def end_of(batches: list[str]) -> tuple[int, int] | None:
    """Where batches end, and the epoch of the last one."""
    found = read_batch(batches[-1]) if batches else None
    return found[1:] if found is not None else None


def clipped(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def _fields(raw: Any) -> dict[str, Any]:
    found: dict[str, Any] = raw[1] if isinstance(raw, list) else raw
    return found


def _request(raw: Any) -> str:
    if not isinstance(raw, list) or len(raw) != 2 or not isinstance(raw[0], str):
        return "an answer"
    return raw[0] + (_scalars(raw[1]) if isinstance(raw[1], dict) else "")


def _scalars(fields: dict[str, Any]) -> str:
    told = [
        f"{key.replace('_', ' ')} {value}"
        for key, value in fields.items()
        if isinstance(value, (int, str)) and not isinstance(value, bool) and value not in ("", 0)
        if key != "monotonic_ms"
    ]
    return f" ({', '.join(told[:5])})" if told else ""
