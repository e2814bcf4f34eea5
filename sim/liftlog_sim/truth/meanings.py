"""What the names of a stream's sources mean when these are altered (R29), by what is so before: the truth
about `origins`, where the state machine's own page is `core/metadata/gathering.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import UNSET, UnsetType

from liftlog.types import StreamConfig


def meant_by(
    copy: int, names: Mapping[str, tuple[int, StreamConfig]], wanted: Sequence[tuple[str, str]]
) -> tuple[tuple[str, str], ...] | UnsetType:
    """`names`: every stream, by its name, with its id."""
    config = next(one for id, one in names.values() if id == copy)
    said = {} if config.origins is UNSET else dict(config.origins)
    had = () if config.sources is UNSET else config.sources
    before, now = [name for name, _ in had], [name for name, _ in wanted]
    if dict(had) == dict(wanted):
        return config.origins
    found = [(name, one) for name, one in said.items() if "@" in name]
    for name in dict.fromkeys([*said, *before, *now]):
        if "@" in name:
            continue
        id = names[name][0] if name in names else 0
        if name in now and name in before:
            meant = said.get(name, "")
        elif name in now:
            meant = f"/{id}"
        else:  # What it has meant, if that is there.
            there = said[name] == f"/{id}" if name in said else 0 < id < copy
            meant = f"/{id}" if there else ""
        found += [(name, meant)] * bool(meant)
    return tuple(found) or UNSET


def kept_starts(
    config: StreamConfig, wanted: Sequence[tuple[str, str]]
) -> tuple[tuple[str, str], ...] | UnsetType:
    """Where those begin that it has, and goes on to have."""
    said = () if config.starts is UNSET else config.starts
    return tuple(one for one in said if one[0] in dict(wanted)) or UNSET
