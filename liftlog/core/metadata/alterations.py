"""What of a stream's configuration can be altered while it is in use, and into what (R19).

The metadata state machine judges by this page, with the limits of `liftlog.core.metadata.limits`, and looks
at the other streams when there are to be more partitions (N7).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
from msgspec import UNSET

from liftlog.core.metadata.elsewhere import naming_problem
from liftlog.core.metadata.limits import limits_problem, notes_bytes
from liftlog.core.metadata.subjects import partitions_problem, subjects_problem
from liftlog.messages import StreamChanges
from liftlog.types import OPTIONAL, SWITCHES, PartitionId, StreamConfig

SEALED = ("read_only", "deny_delete", "deny_purge")
"""What a sealed stream is."""
FOR_EVER = ("deny_delete", "deny_purge", "sealed")


def altered(config: StreamConfig, changes: StreamChanges) -> StreamConfig:
    """The configuration that comes of it, whether it may be or not."""
    values: dict[str, Any] = changes.named
    if values.get("sealed"):
        values |= dict.fromkeys(SEALED, True)
        values["allow_rollup"] = False
        values["marker_ttl_ms"] = 0
    if changes.mirror == "" or changes.sources == ():
        values |= {"origins": (), "starts": (), "mirror_filter": ""}
    elif changes.sources is not UNSET and changes.starts is UNSET and config.starts is not UNSET:
        names = [name for name, _ in changes.sources]
        values["starts"] = tuple(start for start in config.starts if start[0] in names)
    values |= {name: UNSET for name in OPTIONAL if name in values and not values[name]}
    return msgspec.structs.replace(config, **values)


def alteration_problem(config: StreamConfig, changes: StreamChanges) -> str:
    """Why a stream cannot be altered so; empty if it can."""
    if config.compact and changes.compact is False:
        return (
            "compact cannot be switched off again: compaction has left gaps, which would count as lost "
            "records; copy what is left into a new stream"
        )
    for name in FOR_EVER:
        if getattr(config, name) is True and getattr(changes, name) is False:
            return f"{name} cannot be switched off again: whoever relies on that is promised it for ever"
    if changes.mirror:
        return (
            f"mirror = {changes.mirror!r} is not accepted: a stream is a mirror from its creation on, of one "
            'stream; it can only end (mirror = "", stream alter --no-mirror)'
        )
    if changes.origins is not UNSET and (problem := naming_problem(config, changes.origins)):
        return problem
    if changes.starts is not UNSET and config.sources is UNSET:
        return "where a mirror begins is said when it is created, and nothing else begins anywhere"
    if changes.sources and config.sources is UNSET:
        return (
            "sources are not given to a stream that has none: what lies in it does not say how far they are "
            "copied; create another stream, with this one among its sources"
        )
    if changes.sources and changes.origins is not UNSET:
        return "sources and origins are not altered at once: what sources mean follows from their names"
    if changes.read_only is False and (config.sealed is True or changes.sealed is True):
        return "a sealed stream is read-only for ever: create another stream, and publish to that"
    after = altered(config, changes)
    if changes.dedupe_ids_max and not after.remembers_ms:
        return "dedupe_ids_max bounds what a stream remembers that has a dedupe_window_ms: set that too"
    least, factor = after.min_insync_replicas, after.replication_factor
    if changes.min_insync_replicas is not UNSET and not 1 <= least <= factor:
        return (
            f"min_insync_replicas = {least} is not accepted; it must be 1 to the replication factor, "
            f"which is {factor} and can be altered too"
        )
    if least > factor >= 1:
        return (
            f"replication_factor = {factor} is fewer copies than the {least} that must be in sync; lower "
            "min_insync_replicas too"
        )
    if after.partitions < config.partitions:
        return (
            f"partitions = {after.partitions} is not accepted; there are {config.partitions}, and what those "
            "beyond hold would be gone: create another stream, and remove this one when all is read"
        )
    if after.subjects != config.subjects:
        if config.partitions > 1:
            return (
                f"stream {config.name!r} has {config.partitions} partitions, each with a subject of its own: "
                "the subjects of such a stream cannot be altered"
            )
        problem = subjects_problem(after)
        if problem:
            return problem
    if after.partitions > config.partitions:
        return limits_problem(after) or partitions_problem(after)
    return limits_problem(after)


def minimum_problem(minimum: int, copies: Mapping[PartitionId, Collection[int]]) -> str:
    """Why so many cannot have to be in sync, by who is to have a copy; empty if they can."""
    for partition, nodes in copies.items():
        if minimum > len(nodes):
            return (
                f"min_insync_replicas = {minimum} is not accepted; partition {partition.index} is to have a "
                f"copy on {len(nodes)} nodes: move it to more of them first"
            )
    return ""


def describe_alteration(before: StreamConfig, after: StreamConfig) -> str:
    """Each field that is another one now, with both values; in one line."""
    changed = [
        f"{name} {_text(name, getattr(before, name))} -> {_text(name, getattr(after, name))}"
        for name in before.__struct_fields__
        if getattr(before, name) != getattr(after, name)
    ]
    return ", ".join(changed) or "nothing has changed: it was so already"


def _text(name: str, value: object) -> str:
    if value is UNSET:
        return "false" if name in SWITCHES else "none"
    if name == "notes" and isinstance(value, tuple):
        return f"{len(value)} of {notes_bytes(value):,} bytes"
    if name == "sources" and isinstance(value, tuple):
        return ", ".join(f"{source}{filter and f':{filter}'}" for source, filter in value)
    if name == "starts" and isinstance(value, tuple):
        return ", ".join(f"{origin} from {start}" for origin, start in value)
    if name == "origins" and isinstance(value, tuple):
        return ", ".join(f"{origin} is {identity}" for origin, identity in value)
    if isinstance(value, tuple):
        return " ".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)
