"""The models by name, with the flags by which `liftlog spec` sets their constants."""

from __future__ import annotations

import importlib
from typing import Any

import msgspec

from spec.lang.model import Model, Setting
from spec.lang.types import Constant, SpecError


class Entry(msgspec.Struct, frozen=True):
    """One model. `flags`: command-line flag (without dashes) -> constant. `events`: those that may be 0."""

    name: str
    module: str
    classname: str
    about: str
    flags: dict[str, str]
    events: tuple[str, ...] = ()

    def load(self) -> type[Model]:
        found: type[Model] = getattr(importlib.import_module(self.module), self.classname)
        return found


MODELS: dict[str, Entry] = {
    entry.name: entry
    for entry in (
        Entry(
            "twophase",
            "spec.models.twophase",
            "TwoPhase",
            "first lesson: two-phase commit",
            {"nodes": "Nodes"},
        ),
        Entry(
            "kafka",
            "spec.models.kafka",
            "Kafka",
            "five generations of Kafka's log truncation",
            {"replicas": "Replicas", "log-size": "LogSize", "records": "Records", "epochs": "Epochs"},
        ),
        Entry(
            "raft",
            "spec.models.raft",
            "Raft",
            "the metadata group: election, replication, commit, restart",
            {
                "nodes": "Nodes",
                "terms": "Terms",
                "entries": "Entries",
                "campaigns": "Campaigns",
                "appends": "Appends",
                "restarts": "Restarts",
            },
            ("campaigns", "appends", "restarts"),
        ),
        Entry(
            "isr",
            "spec.models.isr",
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
        ),
    )
}


def entry_of(name: str) -> Entry:
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


def every_model() -> list[Model]:
    """Each model in each of its variants, with default constants: what is exported."""
    found: list[Model] = []
    for entry in MODELS.values():
        variants = entry.load().declared.get("variant")
        choices = variants.choices if isinstance(variants, Setting) else ("",)
        found += [build(entry.name, variant, {}) for variant in choices]
    return found


def describe(entry: Entry) -> dict[str, Any]:
    """Constants with their defaults and variants, for `--list`."""
    declared = entry.load().declared
    variants = declared.get("variant")
    return {
        "name": entry.name,
        "about": entry.about,
        "variants": list(variants.choices) if isinstance(variants, Setting) else [],
        "constants": {
            flag: declared[name].default
            for flag, name in entry.flags.items()
            if isinstance(declared[name], Constant)
        },
    }
