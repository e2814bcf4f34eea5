"""The models by name, with the flags by which `liftlog spec` sets their constants."""

from __future__ import annotations

import importlib
import re
from typing import Any

import msgspec

from liftlog_spec.lang.model import Model, Setting
from liftlog_spec.lang.types import SpecError


class ModelEntry(msgspec.Struct, frozen=True):
    """One model: a class in the module of its name. `may_be_none`: constants that may be 0. `renamed`: by
    constant, the flag that sets it, where it is not the constant's name.

    `small`: bounds by flag at which TLC comes through in seconds; what is not named has its default.
    """

    name: str
    classname: str
    about: str
    constants: tuple[str, ...]
    may_be_none: tuple[str, ...] = ()
    renamed: dict[str, str] = {}
    small: dict[str, int] = {}

    def load(self) -> type[Model]:
        module = importlib.import_module(f"liftlog_spec.models.{self.name.replace('-', '_')}")
        found: type[Model] = getattr(module, self.classname)
        return found

    @property
    def flags(self) -> dict[str, str]:
        """By flag of the command line, without dashes in front: the constant."""
        return {self.renamed.get(name) or _flag(name): name for name in self.constants}


def _flag(constant: str) -> str:
    """LogSize is --log-size."""
    return re.sub(r"(?<!^)(?=[A-Z])", "-", constant).lower()


MODELS: dict[str, ModelEntry] = {
    entry.name: entry
    for entry in (
        ModelEntry(
            "twophase",
            "TwoPhase",
            "first lesson: two-phase commit",
            ("Nodes",),
        ),
        ModelEntry(
            "kafka",
            "Kafka",
            "five generations of Kafka's log truncation",
            ("Replicas", "LogSize", "Records", "Epochs"),
            small={"replicas": 2, "epochs": 2},
        ),
        ModelEntry(
            "raft",
            "Raft",
            "the metadata group: election, replication, commit, restart",
            ("Nodes", "Terms", "Entries", "Campaigns", "Appends", "Batch", "Writes", "Restarts", "Losses"),
            may_be_none=("Campaigns", "Appends", "Writes", "Restarts", "Losses"),
            small={"nodes": 2, "appends": 1},
        ),
        ModelEntry(
            "raft-membership",
            "RaftMembership",
            "a design: voters added and removed one at a time, learners, lost disks",
            ("Nodes", "Voters", "Learning", "Terms", "Entries", "Campaigns", "Changes", "Restarts", "Losses"),
            may_be_none=("Learning", "Campaigns", "Changes", "Restarts", "Losses"),
            small={"nodes": 2, "entries": 2, "changes": 1, "campaigns": 1},
        ),
        ModelEntry(
            "raft-steps",
            "RaftSteps",
            "the metadata group with its membership, message by message: what runs are checked against",
            (
                *("Nodes", "Voters", "Learning", "Terms", "Entries", "Campaigns", "Changes", "Appends"),
                *("Batch", "Writes", "Restarts", "Losses", "Snapshots"),
            ),
            may_be_none=(
                *("Learning", "Campaigns", "Changes", "Appends", "Writes", "Restarts", "Losses"),
                "Snapshots",
            ),
            small={"nodes": 2, "entries": 2, "campaigns": 1},
        ),
        ModelEntry(
            "raft-snapshots",
            "RaftSnapshots",
            "a design: logs that begin with a snapshot, and installing one",
            (
                *("Nodes", "Voters", "Learning", "Terms", "Entries", "Campaigns", "Changes"),
                *("Restarts", "Losses", "Snapshots", "Installs"),
            ),
            may_be_none=("Learning", "Campaigns", "Changes", "Restarts", "Losses", "Snapshots", "Installs"),
            small={"nodes": 2, "voters": 2, "campaigns": 1},
        ),
        ModelEntry(
            "commands",
            "Commands",
            "commands of the metadata group that come late or twice; names that are used again",
            ("Requests", "Entries", "Span"),
            small={"requests": 1, "entries": 4},
        ),
        ModelEntry(
            "births",
            "Births",
            "two clusters of one name, whose disks are put into each other's nodes",
            ("Terms", "Entries", "Joiners", "Crashes"),
            may_be_none=("Joiners", "Crashes"),
            small={"terms": 1},
        ),
        ModelEntry(
            "leases",
            "Leases",
            "leases of nodes with the controller, elections of another one, and hints",
            ("Moments", "Lease", "Suspicion", "Election"),
            small={"moments": 3, "lease": 2, "suspicion": 1, "election": 2},
        ),
        ModelEntry(
            "isr",
            "Isr",
            "a partition: in-sync replicas, epochs, incarnations, tails",
            ("Replicas", "Minimum", "Records", "Epochs", "Changes", "Crashes", "Damages", "Delays"),
            may_be_none=("Changes", "Crashes", "Damages", "Delays"),
            renamed={"Replicas": "nodes"},
            small={"nodes": 2, "damages": 0},
        ),
        ModelEntry(
            "isr-steps",
            "IsrSteps",
            "the same in the program's steps, message by message: what runs are checked against",
            (
                *("Replicas", "Minimum", "Records", "Epochs", "Changes", "Crashes", "Damages", "Mail"),
                "Confessions",
            ),
            may_be_none=("Changes", "Crashes", "Damages", "Mail", "Confessions"),
            renamed={"Replicas": "nodes"},
            small={"epochs": 1, "changes": 1},
        ),
        ModelEntry(
            "isr-pair",
            "IsrPair",
            "a design: a partition's data and its journal, two logs under one record",
            ("Replicas", "Minimum", "Records", "Epochs", "Shrinks", "Crashes", "Damages"),
            may_be_none=("Shrinks", "Crashes", "Damages"),
            renamed={"Replicas": "nodes"},
            small={"crashes": 1},
        ),
        ModelEntry(
            "compaction",
            "Compaction",
            "keys, clean points and tombstones across copies",
            (
                *("Replicas", "Records", "Given", "Keys", "Epochs", "Shrinks", "Wipes", "Damages"),
                *("Delays", "Retains", "Readers"),
            ),
            may_be_none=("Given", "Shrinks", "Wipes", "Damages", "Delays", "Retains", "Readers"),
            renamed={"Replicas": "nodes"},
            small={"epochs": 1, "wipes": 0},
        ),
        ModelEntry(
            "removal",
            "Removal",
            "a design: what is gone of a partition, by entries, limits and expiry, on every copy alike",
            (
                *("Replicas", "Records", "Entries", "Keys", "Limit", "Epochs", "Deletes", "Purges"),
                *("Keeps", "Lowered", "Rollups", "Expiries", "Snapshots", "Thinned", "Starts"),
                *("Restarts", "Looks"),
            ),
            may_be_none=(
                *("Deletes", "Purges", "Keeps", "Lowered", "Rollups", "Expiries", "Snapshots"),
                *("Thinned", "Starts", "Restarts", "Looks"),
            ),
            renamed={"Replicas": "nodes"},
            small={"records": 2, "limit": 1, "epochs": 1},
        ),
        ModelEntry(
            "producers",
            "Producers",
            "a design: producers whose retries are stored once",
            ("Replicas", "Records", "Producers", "Runs", "Messages", "InFlight", "Epochs", "Retains"),
            may_be_none=("Retains",),
            renamed={"Replicas": "nodes"},
            small={"records": 2, "runs": 1, "epochs": 2},
        ),
        ModelEntry(
            "expectations",
            "Expectations",
            "compare-and-set by the last record of a subject",
            ("Replicas", "Records", "Subjects", "Publishers", "Epochs", "Removals"),
            renamed={"Replicas": "nodes"},
            small={"publishers": 2, "epochs": 2},
        ),
        ModelEntry(
            "batches",
            "Batches",
            "messages that come one by one are stored together or not at all",
            ("Publishers", "Records", "Epochs"),
            small={"records": 4, "epochs": 1},
        ),
        ModelEntry(
            "fast-batches",
            "AckedByNumber",
            "of messages that are acked many at a time all up to the number are there",
            ("Publishers", "Records", "Epochs"),
            small={"records": 4, "publishers": 1},
        ),
        ModelEntry(
            "dead-letters",
            "DeadLettersOfAConsumer",
            "what was delivered for the last time goes to another stream, once, under leaders that change",
            ("Entries", "Epochs"),
            small={"entries": 2, "epochs": 2},
        ),
        ModelEntry(
            "priority-groups",
            "PriorityGroups",
            "whom of those that pull a leader gives messages: one client is pinned, pulls have minima",
            ("Clients", "Leaders", "Pins", "Messages", "Time"),
            small={"leaders": 1, "pins": 1, "messages": 1},
        ),
        ModelEntry(
            "mirrors",
            "Mirrors",
            "a log that has what another one has committed, under leaders of both that change",
            ("Records", "Epochs", "Deletes"),
            small={"records": 1, "epochs": 2},
        ),
        ModelEntry(
            "named-origins",
            "NamedOrigins",
            "a mirror of another cluster's stream, which may be made again under its name",
            ("Makings", "Records", "Epochs"),
        ),
        ModelEntry(
            "sources",
            "Sources",
            "a log that has what several others have committed, at offsets of its own",
            ("Records", "Entries", "Epochs"),
            small={"entries": 2, "epochs": 2},
        ),
        ModelEntry(
            "filtered-reads",
            "FilteredReads",
            "a reader that is sent what matches, and told up to where was looked, by any copy",
            ("Copies", "Records", "Room", "Elections", "Deletes", "Trims", "Thinned"),
            may_be_none=("Trims", "Thinned"),
            renamed={"Copies": "nodes"},
            small={"nodes": 1},
        ),
        ModelEntry(
            "full-subjects",
            "FullSubjects",
            "of a subject so many messages are held at most, and new ones are refused",
            ("Records", "Entries", "Limit", "Epochs"),
        ),
        ModelEntry(
            "activity",
            "ActivityStream",
            "what the metadata group decides, told in a stream, in order and at least once",
            ("Events", "Room", "Entries", "Epochs"),
            small={"events": 2, "room": 1, "entries": 2},
        ),
        ModelEntry(
            "subject-limits",
            "LimitsBySubject",
            "of each subject the newest so many messages stay, beside deletions",
            ("Records", "Entries", "Subjects", "Limit", "Epochs", "Deletes", "Alterations"),
            small={"records": 3, "entries": 2, "subjects": 1},
        ),
        ModelEntry(
            "front-limits",
            "LimitsAtFront",
            "the newest so much stays, by messages or bytes, beside deletions and a limit by subject",
            (
                *("Records", "Entries", "Subjects", "OfSubject", "Limit", "Epochs", "Deletes", "Larges"),
                *("Olds", "Alterations"),
            ),
            small={"records": 2, "entries": 2, "subjects": 1},
        ),
        ModelEntry(
            "times-to-live",
            "TimesToLive",
            "a message goes when its time is over, beside new leaders, clocks that jump and lost data",
            ("Records", "Entries", "Times", "Room", "Epochs", "Losses", "Jumps"),
            small={"records": 2, "entries": 2, "room": 1},
        ),
        ModelEntry(
            "markers",
            "DeleteMarkers",
            "the last message of a subject goes by its time, and a marker stays, beside new leaders",
            ("Records", "Entries", "Times", "Epochs"),
            small={"records": 3, "entries": 2},
        ),
        ModelEntry(
            "roll-ups",
            "RollUpMessages",
            "a message takes the older ones of its subject, beside new leaders and lost data",
            ("Records", "Entries", "Subjects", "Epochs", "Losses"),
            small={"records": 2, "entries": 2, "subjects": 1, "losses": 1},
        ),
        ModelEntry(
            "work-queue",
            "WorkQueueMessages",
            "what a consumer is done with goes by the entry that says so, beside new leaders and consumers",
            ("Records", "Entries", "Consumers", "Epochs", "Filters", "Removals"),
            small={"records": 1, "entries": 3, "epochs": 2},
            may_be_none=("Filters", "Removals"),
        ),
        ModelEntry(
            "interest",
            "InterestMessages",
            "a message goes when every consumer that is to be given it is done, beside new leaders",
            ("Records", "Entries", "Consumers", "Epochs", "Alterations", "Choices", "Removals"),
            small={"records": 1, "entries": 4},
            may_be_none=("Alterations", "Choices", "Removals"),
        ),
        ModelEntry(
            "message-ids",
            "MessageIds",
            "a design: messages with ids, stored once for the length of a window",
            ("Ids", "Records", "Moments", "Window", "Most", "Epochs", "Removals"),
            may_be_none=("Removals",),
        ),
        ModelEntry(
            "processor",
            "Processor",
            "a design: a processor whose cursor lies with its outputs, exactly once from input to output",
            ("Inputs", "Records", "Entries", "Runs", "Epochs", "Tables"),
            may_be_none=("Tables",),
            small={"records": 2, "entries": 2},
        ),
        ModelEntry(
            "openings",
            "Openings",
            "a processor whose runs are opened in the log of its outputs, exactly once",
            ("Inputs", "Records", "Runs", "Epochs", "Windows"),
            may_be_none=("Windows",),
            small={"records": 3, "runs": 2},
        ),
        ModelEntry(
            "consumers",
            "DurableConsumers",
            "durable consumers: deliveries and acks are entries of a partition's journal",
            (
                *("Replicas", "Records", "Entries", "Limit", "Room", "Epochs", "Snapshots", "Deletes"),
                *("Resets", "Shrinks", "Trims", "Queue", "Losses", "Doubts"),
            ),
            may_be_none=("Snapshots", "Deletes", "Resets", "Shrinks", "Trims", "Queue", "Losses", "Doubts"),
            renamed={"Replicas": "nodes"},
            small={"records": 1, "entries": 4},
        ),
        ModelEntry(
            "groups",
            "Groups",
            "consumer groups: generations, cursors, fenced commits",
            ("Members", "Partitions", "Records", "Generations", "Failovers", "Delays", "Resets"),
            may_be_none=("Failovers", "Delays", "Resets"),
            small={"records": 1, "generations": 2},
        ),
        ModelEntry(
            "nats-streaming",
            "NatsStreaming",
            "the NATS Streaming clustering proposal: GUIDs, catch-up",
            ("Messages", "Length", "Terms", "Restarts", "Panics", "Resends"),
            may_be_none=("Restarts", "Panics", "Resends"),
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
    flags, given = entry.flags, dict[str, Any]()
    for flag, value in constants.items():
        if flag not in flags:
            known = ", ".join(f"--{known}" for known in flags)
            raise SpecError(f"model {name!r} has no --{flag}; it has {known}")
        lowest = 0 if flags[flag] in entry.may_be_none else 1
        if value < lowest:
            raise SpecError(f"--{flag} {value} is too small: give at least {lowest}")
        given[flags[flag]] = value
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
