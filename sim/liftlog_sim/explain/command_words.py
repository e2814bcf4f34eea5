"""Metadata commands in words, from the plain data of a trace (`runs/trace.py`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from liftlog_sim.explain.cone import partition_in

Fields = dict[str, Any]


def command_words(command: Any) -> str:
    """What a command says, as a sentence; empty for the entry that says nothing, or for what is none."""
    if not isinstance(command, list) or len(command) != 2:
        return ""
    name, fields = command
    say = _SAY.get(name)
    return say(fields) if say is not None else str(name)


def partition_of(command: Any) -> str:
    """The partition that it is about; empty if none."""
    if not isinstance(command, list) or len(command) != 2:
        return ""
    return partition_in(command[1])


def _registers(fields: Fields) -> str:
    former = f" in place of incarnation {fields['replaces']}" if fields["replaces"] else ""
    return f"node {fields['node']} registers{former}"


def _changes(fields: Fields) -> str:
    where = f"the ISR of {partition_in(fields)} (version {fields['version']})"
    if fields["joiner"]:
        return f"node {fields['joiner']}, of incarnation {fields['joiner_incarnation']}, joins {where}"
    return f"only {fields['isr']} stay in {where}"


def _alters(fields: Fields) -> str:
    changes = ", ".join(f"{name} {value}" for name, value in fields["changes"][1].items())
    asked = f"asked for as of index {fields['revision']}"
    return f"the stream {fields['name']} (number {fields['stream']}) gets {changes} ({asked})"


def _ready(fields: Fields) -> str:
    if fields["refusal"]:
        return f"NATS refuses the leader of {partition_in(fields)} its subscription"
    return f"the leader of {partition_in(fields)} in epoch {fields['epoch']} is ready"


_SAY: dict[str, Callable[[Fields], str]] = {
    "RegisterNode": _registers,
    "ConfirmNode": lambda f: f"node {f['node']} has its incarnation {f['incarnation']} on disk",
    "ExpireNode": lambda f: f"the session of node {f['node']}, incarnation {f['incarnation']}, ends",
    "LeaveNode": lambda f: f"node {f['node']}, incarnation {f['incarnation']}, leaves in order",
    "CreateStream": lambda f: (
        f"the stream {f['config'][1]['name']} is created (asked for as of index {f['as_of']})"
    ),
    "DeleteStream": lambda f: f"the stream {f['name']} (number {f['stream']}) is deleted",
    "AlterStream": _alters,
    "ChangeIsr": _changes,
    "ReplicaFailed": lambda f: f"the copy of {partition_in(f)} on node {f['node']} has failed at {f['leo']}",
    "ReportLeader": lambda f: (
        f"node {f['reporter']} misses the leader of {partition_in(f)} in epoch {f['epoch']}"
    ),
    "ExpireReports": lambda f: f"the reports of a missing leader of {partition_in(f)} count no more",
    "LeaderReady": _ready,
    "Resign": lambda f: f"the leader of {partition_in(f)} in epoch {f['epoch']} asks for another one",
    "ForgetSlow": lambda f: f"node {f['node']} has kept up in {partition_in(f)}",
    "ElectLeader": lambda f: f"node {f['node']} is elected for {partition_in(f)} by an operator",
    "SetVoter": lambda f: f"node {f['node']} is {'' if f['votes'] else 'not '}to vote",
    "RetireNode": lambda f: (
        f"node {f['node']} retires" + (f", and node {f['heir']} takes its place" if f["heir"] else "")
        if f["retires"]
        else f"node {f['node']} does not retire any more"
    ),
    "PassVote": lambda f: f"node {f['node']} votes no more" + (
        f", and node {f['heir']} does" if f["heir"] else ""
    ),
    "ReadyAgain": lambda f: (
        f"the leader of {partition_in(f)} in epoch {f['epoch']} has subscribed again after the pause"
    ),
    "RaiseLevel": lambda f: f"the feature level rises to {f['to']}",
    "PromoteSpare": lambda f: f"node {f['spare']} is to vote in the place of node {f['node']}",
    "Rebalance": lambda f: "leaders go back to where they belong",
}
