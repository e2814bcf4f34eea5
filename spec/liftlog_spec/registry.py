"""The models by name, with the flags by which `liftlog spec` sets their constants."""

from __future__ import annotations

import importlib
from typing import Any

import msgspec

from liftlog_spec.lang.model import Model, Setting
from liftlog_spec.lang.types import SpecError


class ModelEntry(msgspec.Struct, frozen=True):
    """One model. `flags`: command-line flag (without dashes) -> constant. `events`: those that may be 0.

    `small`: bounds by flag at which TLC comes through in seconds; what is not named has its default.
    """

    name: str
    module: str
    classname: str
    about: str
    flags: dict[str, str]
    events: tuple[str, ...] = ()
    small: dict[str, int] = {}

    def load(self) -> type[Model]:
        found: type[Model] = getattr(importlib.import_module(self.module), self.classname)
        return found


MODELS: dict[str, ModelEntry] = {
    entry.name: entry
    for entry in (
        ModelEntry(
            "twophase",
            "liftlog_spec.models.twophase",
            "TwoPhase",
            "first lesson: two-phase commit",
            {"nodes": "Nodes"},
        ),
        ModelEntry(
            "kafka",
            "liftlog_spec.models.kafka",
            "Kafka",
            "five generations of Kafka's log truncation",
            {"replicas": "Replicas", "log-size": "LogSize", "records": "Records", "epochs": "Epochs"},
            small={"replicas": 2, "epochs": 2},
        ),
        ModelEntry(
            "raft",
            "liftlog_spec.models.raft",
            "Raft",
            "the metadata group: election, replication, commit, restart",
            {
                "nodes": "Nodes",
                "terms": "Terms",
                "entries": "Entries",
                "campaigns": "Campaigns",
                "appends": "Appends",
                "batch": "Batch",
                "writes": "Writes",
                "restarts": "Restarts",
                "losses": "Losses",
            },
            ("campaigns", "appends", "writes", "restarts", "losses"),
            small={"nodes": 2, "appends": 1},
        ),
        ModelEntry(
            "raft-membership",
            "liftlog_spec.models.raft_membership",
            "RaftMembership",
            "a design: voters added and removed one at a time, learners, lost disks",
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
            ("learning", "campaigns", "changes", "restarts", "losses"),
            small={"nodes": 2, "entries": 2, "changes": 1, "campaigns": 1},
        ),
        ModelEntry(
            "raft-steps",
            "liftlog_spec.models.raft_steps",
            "RaftSteps",
            "the metadata group with its membership, message by message: what runs are checked against",
            {
                "nodes": "Nodes",
                "voters": "Voters",
                "learning": "Learning",
                "terms": "Terms",
                "entries": "Entries",
                "campaigns": "Campaigns",
                "changes": "Changes",
                "appends": "Appends",
                "batch": "Batch",
                "writes": "Writes",
                "restarts": "Restarts",
                "losses": "Losses",
                "snapshots": "Snapshots",
            },
            (
                "learning",
                "campaigns",
                "changes",
                "appends",
                "writes",
                "restarts",
                "losses",
                "snapshots",
            ),
            small={"nodes": 2, "entries": 2, "campaigns": 1},
        ),
        ModelEntry(
            "raft-snapshots",
            "liftlog_spec.models.raft_snapshots",
            "RaftSnapshots",
            "a design: logs that begin with a snapshot, and installing one",
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
                "snapshots": "Snapshots",
                "installs": "Installs",
            },
            ("learning", "campaigns", "changes", "restarts", "losses", "snapshots", "installs"),
            small={"nodes": 2, "voters": 2, "campaigns": 1},
        ),
        ModelEntry(
            "commands",
            "liftlog_spec.models.commands",
            "Commands",
            "commands of the metadata group that come late or twice; names that are used again",
            {"requests": "Requests", "entries": "Entries", "span": "Span"},
            small={"requests": 1, "entries": 4},
        ),
        ModelEntry(
            "births",
            "liftlog_spec.models.births",
            "Births",
            "two clusters of one name, whose disks are put into each other's nodes",
            {"terms": "Terms", "entries": "Entries", "joiners": "Joiners", "crashes": "Crashes"},
            ("joiners", "crashes"),
            small={"terms": 1},
        ),
        ModelEntry(
            "leases",
            "liftlog_spec.models.leases",
            "Leases",
            "leases of nodes with the controller, elections of another one, and hints",
            {"moments": "Moments", "lease": "Lease", "suspicion": "Suspicion", "election": "Election"},
            small={"moments": 3, "lease": 2, "suspicion": 1, "election": 2},
        ),
        ModelEntry(
            "isr",
            "liftlog_spec.models.isr",
            "Isr",
            "a partition: in-sync replicas, epochs, incarnations, tails",
            {
                "nodes": "Replicas",
                "minimum": "Minimum",
                "records": "Records",
                "epochs": "Epochs",
                "changes": "Changes",
                "crashes": "Crashes",
                "damages": "Damages",
                "delays": "Delays",
            },
            ("changes", "crashes", "damages", "delays"),
            small={"nodes": 2, "damages": 0},
        ),
        ModelEntry(
            "isr-steps",
            "liftlog_spec.models.isr_steps",
            "IsrSteps",
            "the same in the program's steps, message by message: what runs are checked against",
            {
                "nodes": "Replicas",
                "minimum": "Minimum",
                "records": "Records",
                "epochs": "Epochs",
                "changes": "Changes",
                "crashes": "Crashes",
                "damages": "Damages",
                "mail": "Mail",
                "confessions": "Confessions",
            },
            ("changes", "crashes", "damages", "mail", "confessions"),
            small={"epochs": 1, "changes": 1},
        ),
        ModelEntry(
            "isr-pair",
            "liftlog_spec.models.isr_pair",
            "IsrPair",
            "a design: a partition's data and its journal, two logs under one record",
            {
                "nodes": "Replicas",
                "minimum": "Minimum",
                "records": "Records",
                "epochs": "Epochs",
                "shrinks": "Shrinks",
                "crashes": "Crashes",
                "damages": "Damages",
            },
            ("shrinks", "crashes", "damages"),
            small={"crashes": 1},
        ),
        ModelEntry(
            "compaction",
            "liftlog_spec.models.compaction",
            "Compaction",
            "keys, clean points and tombstones across copies",
            {
                "nodes": "Replicas",
                "records": "Records",
                "given": "Given",
                "keys": "Keys",
                "epochs": "Epochs",
                "shrinks": "Shrinks",
                "wipes": "Wipes",
                "damages": "Damages",
                "delays": "Delays",
                "retains": "Retains",
                "readers": "Readers",
            },
            ("given", "shrinks", "wipes", "damages", "delays", "retains", "readers"),
            small={"epochs": 1, "wipes": 0},
        ),
        ModelEntry(
            "removal",
            "liftlog_spec.models.removal",
            "Removal",
            "a design: what is gone of a partition, by entries, limits and expiry, on every copy alike",
            {
                "nodes": "Replicas",
                "records": "Records",
                "entries": "Entries",
                "keys": "Keys",
                "limit": "Limit",
                "epochs": "Epochs",
                "deletes": "Deletes",
                "purges": "Purges",
                "keeps": "Keeps",
                "lowered": "Lowered",
                "rollups": "Rollups",
                "expiries": "Expiries",
                "snapshots": "Snapshots",
                "thinned": "Thinned",
                "starts": "Starts",
                "restarts": "Restarts",
                "looks": "Looks",
            },
            (
                "deletes",
                "purges",
                "keeps",
                "lowered",
                "rollups",
                "expiries",
                "snapshots",
                "thinned",
                "starts",
                "restarts",
                "looks",
            ),
            small={"records": 2, "limit": 1, "epochs": 1},
        ),
        ModelEntry(
            "producers",
            "liftlog_spec.models.producers",
            "Producers",
            "a design: producers whose retries are stored once",
            {
                "nodes": "Replicas",
                "records": "Records",
                "producers": "Producers",
                "runs": "Runs",
                "messages": "Messages",
                "in-flight": "InFlight",
                "epochs": "Epochs",
                "retains": "Retains",
            },
            ("retains",),
            small={"records": 2, "runs": 1, "epochs": 2},
        ),
        ModelEntry(
            "expectations",
            "liftlog_spec.models.expectations",
            "Expectations",
            "compare-and-set by the last record of a subject",
            {
                "nodes": "Replicas",
                "records": "Records",
                "subjects": "Subjects",
                "publishers": "Publishers",
                "epochs": "Epochs",
                "removals": "Removals",
            },
            small={"publishers": 2, "epochs": 2},
        ),
        ModelEntry(
            "batches",
            "liftlog_spec.models.batches",
            "Batches",
            "messages that come one by one are stored together or not at all",
            {"publishers": "Publishers", "records": "Records", "epochs": "Epochs"},
            small={"records": 4, "epochs": 1},
        ),
        ModelEntry(
            "fast-batches",
            "liftlog_spec.models.fast_batches",
            "AckedByNumber",
            "of messages that are acked many at a time all up to the number are there",
            {"publishers": "Publishers", "records": "Records", "epochs": "Epochs"},
            small={"records": 4, "publishers": 1},
        ),
        ModelEntry(
            "dead-letters",
            "liftlog_spec.models.dead_letters",
            "DeadLettersOfAConsumer",
            "what was delivered for the last time goes to another stream, once, under leaders that change",
            {"entries": "Entries", "epochs": "Epochs"},
            small={"entries": 2, "epochs": 2},
        ),
        ModelEntry(
            "priority-groups",
            "liftlog_spec.models.priority_groups",
            "PriorityGroups",
            "whom of those that pull a leader gives messages: one client is pinned, pulls have minima",
            {
                "clients": "Clients",
                "leaders": "Leaders",
                "pins": "Pins",
                "messages": "Messages",
                "time": "Time",
            },
            small={"leaders": 1, "pins": 1, "messages": 1},
        ),
        ModelEntry(
            "mirrors",
            "liftlog_spec.models.mirrors",
            "Mirrors",
            "a log that has what another one has committed, under leaders of both that change",
            {"records": "Records", "epochs": "Epochs", "deletes": "Deletes"},
            small={"records": 1, "epochs": 2},
        ),
        ModelEntry(
            "sources",
            "liftlog_spec.models.sources",
            "Sources",
            "a log that has what several others have committed, at offsets of its own",
            {"records": "Records", "entries": "Entries", "epochs": "Epochs"},
            small={"entries": 2, "epochs": 2},
        ),
        ModelEntry(
            "filtered-reads",
            "liftlog_spec.models.filtered_reads",
            "FilteredReads",
            "a reader that is sent what matches, and told up to where was looked, by any copy",
            {
                "nodes": "Copies",
                "records": "Records",
                "room": "Room",
                "elections": "Elections",
                "deletes": "Deletes",
                "trims": "Trims",
                "thinned": "Thinned",
            },
            ("trims", "thinned"),
            small={"nodes": 1},
        ),
        ModelEntry(
            "full-subjects",
            "liftlog_spec.models.full_subjects",
            "FullSubjects",
            "of a subject so many messages are held at most, and new ones are refused",
            {"records": "Records", "entries": "Entries", "limit": "Limit", "epochs": "Epochs"},
        ),
        ModelEntry(
            "activity",
            "liftlog_spec.models.activity",
            "ActivityStream",
            "what the metadata group decides, told in a stream, in order and at least once",
            {"events": "Events", "room": "Room", "entries": "Entries", "epochs": "Epochs"},
            small={"events": 2, "room": 1, "entries": 2},
        ),
        ModelEntry(
            "subject-limits",
            "liftlog_spec.models.subject_limits",
            "LimitsBySubject",
            "of each subject the newest so many messages stay, beside deletions",
            {
                "records": "Records",
                "entries": "Entries",
                "subjects": "Subjects",
                "limit": "Limit",
                "epochs": "Epochs",
                "deletes": "Deletes",
            },
            small={"records": 3, "entries": 2, "subjects": 1},
        ),
        ModelEntry(
            "front-limits",
            "liftlog_spec.models.front_limits",
            "LimitsAtFront",
            "the newest so much stays, by messages or bytes, beside deletions and a limit by subject",
            {
                "records": "Records",
                "entries": "Entries",
                "subjects": "Subjects",
                "of_subject": "OfSubject",
                "limit": "Limit",
                "epochs": "Epochs",
                "deletes": "Deletes",
                "larges": "Larges",
            },
            small={"records": 2, "entries": 2, "subjects": 1},
        ),
        ModelEntry(
            "times-to-live",
            "liftlog_spec.models.times_to_live",
            "TimesToLive",
            "a message goes when its time is over, beside new leaders, clocks that jump and lost data",
            {
                "records": "Records",
                "entries": "Entries",
                "times": "Times",
                "room": "Room",
                "epochs": "Epochs",
                "losses": "Losses",
                "jumps": "Jumps",
            },
            small={"records": 2, "entries": 2, "room": 1},
        ),
        ModelEntry(
            "markers",
            "liftlog_spec.models.markers",
            "DeleteMarkers",
            "the last message of a subject goes by its time, and a marker stays, beside new leaders",
            {"records": "Records", "entries": "Entries", "times": "Times", "epochs": "Epochs"},
            small={"records": 3, "entries": 2},
        ),
        ModelEntry(
            "roll-ups",
            "liftlog_spec.models.roll_ups",
            "RollUpMessages",
            "a message takes the older ones of its subject, beside new leaders and lost data",
            {
                "records": "Records",
                "entries": "Entries",
                "subjects": "Subjects",
                "epochs": "Epochs",
                "losses": "Losses",
            },
            small={"records": 2, "entries": 2, "subjects": 1, "losses": 1},
        ),
        ModelEntry(
            "work-queue",
            "liftlog_spec.models.work_queue",
            "WorkQueueMessages",
            "what a consumer is done with goes by the entry that says so, beside new leaders and consumers",
            {
                "records": "Records",
                "entries": "Entries",
                "consumers": "Consumers",
                "epochs": "Epochs",
            },
            small={"records": 1, "entries": 3, "epochs": 2},
        ),
        ModelEntry(
            "interest",
            "liftlog_spec.models.interest",
            "InterestMessages",
            "a message goes when every consumer that is to be given it is done, beside new leaders",
            {
                "records": "Records",
                "entries": "Entries",
                "consumers": "Consumers",
                "epochs": "Epochs",
            },
            small={"records": 1, "entries": 4},
        ),
        ModelEntry(
            "message-ids",
            "liftlog_spec.models.message_ids",
            "MessageIds",
            "a design: messages with ids, stored once for the length of a window",
            {
                "ids": "Ids",
                "records": "Records",
                "moments": "Moments",
                "window": "Window",
                "most": "Most",
                "epochs": "Epochs",
                "removals": "Removals",
            },
            ("removals",),
        ),
        ModelEntry(
            "processor",
            "liftlog_spec.models.processor",
            "Processor",
            "a design: a processor whose cursor lies with its outputs, exactly once from input to output",
            {
                "inputs": "Inputs",
                "records": "Records",
                "entries": "Entries",
                "runs": "Runs",
                "epochs": "Epochs",
                "tables": "Tables",
            },
            ("tables",),
            small={"records": 2, "entries": 2},
        ),
        ModelEntry(
            "openings",
            "liftlog_spec.models.openings",
            "Openings",
            "a processor whose runs are opened in the log of its outputs, exactly once",
            {
                "inputs": "Inputs",
                "records": "Records",
                "runs": "Runs",
                "epochs": "Epochs",
                "windows": "Windows",
            },
            ("windows",),
            small={"records": 3, "runs": 2},
        ),
        ModelEntry(
            "consumers",
            "liftlog_spec.models.consumers",
            "DurableConsumers",
            "durable consumers: deliveries and acks are entries of a partition's journal",
            {
                "nodes": "Replicas",
                "records": "Records",
                "entries": "Entries",
                "limit": "Limit",
                "room": "Room",
                "epochs": "Epochs",
                "snapshots": "Snapshots",
                "deletes": "Deletes",
                "shrinks": "Shrinks",
                "trims": "Trims",
                "queue": "Queue",
                "losses": "Losses",
                "doubts": "Doubts",
            },
            ("snapshots", "deletes", "shrinks", "trims", "queue", "losses", "doubts"),
            small={"records": 1, "entries": 4},
        ),
        ModelEntry(
            "groups",
            "liftlog_spec.models.groups",
            "Groups",
            "consumer groups: generations, cursors, fenced commits",
            {
                "members": "Members",
                "partitions": "Partitions",
                "records": "Records",
                "generations": "Generations",
                "failovers": "Failovers",
                "delays": "Delays",
                "resets": "Resets",
            },
            ("failovers", "delays", "resets"),
            small={"records": 1, "generations": 2},
        ),
        ModelEntry(
            "nats-streaming",
            "liftlog_spec.models.nats_streaming",
            "NatsStreaming",
            "the NATS Streaming clustering proposal: GUIDs, catch-up",
            {
                "messages": "Messages",
                "length": "Length",
                "terms": "Terms",
                "restarts": "Restarts",
                "panics": "Panics",
                "resends": "Resends",
            },
            ("restarts", "panics", "resends"),
            small={"messages": 1, "resends": 0},
        ),
    )
}


def entry_of(name: str) -> ModelEntry:
    """Raises SpecError for a name that is not there."""
    if name not in MODELS:
        raise SpecError(f"there is no model {name!r}; models: {', '.join(MODELS)}")
    return MODELS[name]


def build(name: str, variant: str, constants: dict[str, int]) -> Model:
    """A model with its constants by flag. Raises SpecError that names what does not fit."""
    entry = entry_of(name)
    kind = entry.load()
    given: dict[str, Any] = {}
    for flag, value in constants.items():
        if flag not in entry.flags:
            known = ", ".join(f"--{known}" for known in entry.flags)
            raise SpecError(f"model {name!r} has no --{flag}; it has {known}")
        lowest = 0 if flag in entry.events else 1
        if value < lowest:
            raise SpecError(f"--{flag} {value} is too small: give at least {lowest}")
        given[entry.flags[flag]] = value
    if variant:
        if not isinstance(kind.declared.get("variant"), Setting):
            raise SpecError(f"model {name!r} has no variants")
        given["variant"] = variant
    return kind(**given)


def variants_of(name: str) -> tuple[str, ...]:
    """The variants of a model, its default first. Raises SpecError for a name that is not there."""
    variants = entry_of(name).load().declared.get("variant")
    return variants.choices if isinstance(variants, Setting) else ("",)


def every_model() -> list[Model]:
    """Each model in each of its variants, with default constants: what can be exported."""
    return [build(name, variant, {}) for name in MODELS for variant in variants_of(name)]


def right_models() -> list[Model]:
    """Each model in its default variant, with default constants: what is committed as TLA+."""
    return [build(name, "", {}) for name in MODELS]
