"""What of a stream's configuration can be altered while it is in use, and into what (R19).

The metadata state machine judges by this page, with the limits of `liftlog.core.metadata.limits`.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET

from liftlog.core.metadata.limits import limits_problem
from liftlog.messages import StreamChanges
from liftlog.types import StreamConfig


def altered(config: StreamConfig, changes: StreamChanges) -> StreamConfig:
    """The configuration that comes of it, whether it may be or not."""
    values: dict[str, Any] = changes.named
    if changes.paused is False:
        values["paused"] = UNSET
    return msgspec.structs.replace(config, **values)


def alteration_problem(config: StreamConfig, changes: StreamChanges) -> str:
    """Why a stream cannot be altered so; empty if it can."""
    if config.compact and changes.compact is False:
        return (
            "compact cannot be switched off again: compaction has left gaps, which would count as lost "
            "records; copy what is left into a new stream"
        )
    return limits_problem(altered(config, changes))


def describe_alteration(before: StreamConfig, after: StreamConfig) -> str:
    """Each field that is another one now, with both values; in one line."""
    changed = [
        f"{name} {_text(getattr(before, name))} -> {_text(getattr(after, name))}"
        for name in before.__struct_fields__
        if getattr(before, name) != getattr(after, name)
    ]
    return ", ".join(changed) or "nothing has changed: it was so already"


def _text(value: object) -> str:
    if value is UNSET:
        value = False
    return str(value).lower() if isinstance(value, bool) else str(value)
