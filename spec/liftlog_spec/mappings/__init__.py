"""From what is explored to what is proved: each step of a model as steps of the proof's model.

    liftlog spec map --list
    liftlog spec map --mapping isr --records 2

A proof speaks of relations and orders, a model of logs, messages and budgets. That the one says anything
about the other is checked here, in every state of the model within bounds: liftlog_spec/mappings/checker.py.
"""

from __future__ import annotations

import importlib

import msgspec

from liftlog_spec.lang.types import SpecError
from liftlog_spec.mappings.checker import Mapping


class MappingEntry(msgspec.Struct, frozen=True):
    """One mapping. `flags`: command-line flag -> constant of the concrete model."""

    name: str
    about: str
    module: str
    classname: str
    flags: dict[str, str]

    def kind(self) -> type[Mapping]:
        found: type[Mapping] = getattr(importlib.import_module(self.module), self.classname)
        return found

    def load(self, variant: str = "", constants: dict[str, int] | None = None) -> Mapping:
        """Raises SpecError for a constant or a variant that is not there."""
        for flag in constants or {}:
            if flag not in self.flags:
                raise SpecError(f"mapping {self.name} has no --{flag}; it has: --{', --'.join(self.flags)}")
        given = {self.flags[flag]: value for flag, value in (constants or {}).items()}
        return self.kind()(variant, given)


_RAFT = {
    "nodes": "Nodes",
    "terms": "Terms",
    "entries": "Entries",
    "campaigns": "Campaigns",
    "appends": "Appends",
    "batch": "Batch",
    "writes": "Writes",
    "restarts": "Restarts",
}

MAPPINGS: dict[str, MappingEntry] = {
    entry.name: entry
    for entry in (
        MappingEntry(
            "raft-election", "raft -> election", "liftlog_spec.mappings.raft_election", "RaftElection", _RAFT
        ),
        MappingEntry(
            "raft-log",
            "raft -> raft-log",
            "liftlog_spec.mappings.raft_log",
            "RaftToLog",
            {flag: name for flag, name in _RAFT.items() if flag != "writes"},
        ),
        MappingEntry(
            "raft-membership",
            "raft-membership -> membership",
            "liftlog_spec.mappings.raft_membership",
            "MembershipToProof",
            {
                "nodes": "Nodes",
                "voters": "Voters",
                "learning": "Learning",
                "terms": "Terms",
                "entries": "Entries",
                "campaigns": "Campaigns",
                "changes": "Changes",
                "restarts": "Restarts",
                "losses": "Losses",
            },
        ),
        MappingEntry(
            "isr",
            "isr -> isr",
            "liftlog_spec.mappings.isr",
            "IsrToProof",
            {
                "replicas": "Replicas",
                "minimum": "Minimum",
                "records": "Records",
                "epochs": "Epochs",
                "changes": "Changes",
                "crashes": "Crashes",
                "delays": "Delays",
            },
        ),
        MappingEntry(
            "compaction",
            "compaction -> compaction",
            "liftlog_spec.mappings.compaction",
            "CompactionToProof",
            {
                "replicas": "Replicas",
                "records": "Records",
                "given": "Given",
                "keys": "Keys",
                "epochs": "Epochs",
                "shrinks": "Shrinks",
                "wipes": "Wipes",
                "damages": "Damages",
            },
        ),
    )
}


def mapping_of(name: str) -> MappingEntry:
    """Raises SpecError for a name that is not there."""
    if name not in MAPPINGS:
        raise SpecError(f"there is no mapping {name!r}; mappings: {', '.join(MAPPINGS)}")
    return MAPPINGS[name]
