"""R28, R29: which records of an origin a copy takes: those whose subject its filter matches, from where it
begins on, an offset or a time.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.messages.copying import Start, start_in
from liftlog.mutants import Mutants
from liftlog.subjects.grammar import pattern_tokens, tokens_match
from liftlog.types import Record, StreamConfig


def passing(filter: str) -> Callable[[bytes], bool]:
    """Whether a record of this subject passes; empty: all do."""
    if not filter:
        return lambda subject: True
    pattern = pattern_tokens(filter)
    return lambda subject: tokens_match(pattern, subject.decode("utf-8", "replace").split("."))


def taking(filter: str, start: Start) -> Callable[[Record], bool]:
    """Whether a copy takes this record of an origin, of which it has this filter, and this start."""
    matches = passing(filter)

    def takes(record: Record) -> bool:
        after = record.offset >= start.offset and record.timestamp_ms >= start.time_ms
        return after and matches(record.subject)

    return takes


def begins(config: StreamConfig, name: str, mutants: Mutants) -> Start:
    """Where it begins with what it calls so."""
    return Start() if mutants.copy_start_ignored else start_in(config, name)
