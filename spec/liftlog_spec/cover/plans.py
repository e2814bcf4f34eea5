"""Bounds at which a model's scenarios are made when none are given, and the limits of each model's core.

One choice of bounds that has every pair would have far too many states; several small ones have them
together. Later ones make scenarios only for what earlier ones lack.
"""

from __future__ import annotations

import msgspec

from liftlog_spec.cover.isr_limits import IsrLimits
from liftlog_spec.cover.limits import Limits
from liftlog_spec.cover.raft_limits import RaftLimits
from liftlog_spec.cover.raft_snapshots_limits import RaftSnapshotsLimits

LIMITS: dict[str, type[Limits]] = {
    "isr": IsrLimits,
    "raft": RaftLimits,
    "raft-snapshots": RaftSnapshotsLimits,
}
"""A model that is not here is walked as it is."""


class BoundsChoice(msgspec.Struct, frozen=True):
    """One choice of bounds. `constants`: by flag. `most`: states to look at, 0 = all.

    `walks`: nothing is walked through; of so many random paths those are kept that have something new.
    """

    name: str
    constants: dict[str, int]
    most: int = 0
    walks: int = 0


def _isr(**constants: int) -> dict[str, int]:
    return {
        "nodes": 2,
        "minimum": 2,
        "records": 1,
        "epochs": 2,
        "changes": 2,
        "crashes": 0,
        "damages": 0,
        **constants,
    }


def _raft(**constants: int) -> dict[str, int]:
    return {
        "nodes": 2,
        "terms": 2,
        "entries": 1,
        "campaigns": 2,
        "appends": 1,
        "restarts": 0,
        "writes": 1,
        **constants,
    }


def _raft_snapshots(**constants: int) -> dict[str, int]:
    return {
        "nodes": 2,
        "voters": 2,
        "terms": 2,
        "entries": 2,
        "campaigns": 1,
        "changes": 0,
        "restarts": 0,
        "losses": 0,
        "snapshots": 1,
        "installs": 1,
        **constants,
    }


WIDE: dict[str, BoundsChoice] = {
    "isr": BoundsChoice(
        "wide",
        _isr(nodes=3, records=3, epochs=5, changes=9, crashes=4, damages=1, delays=4),
        walks=600,
    ),
    "raft": BoundsChoice(
        "wide",
        _raft(nodes=3, terms=5, entries=4, campaigns=6, appends=12, restarts=3, losses=1, writes=3),
        walks=300,
    ),
    "raft-snapshots": BoundsChoice(
        "wide",
        _raft_snapshots(
            nodes=3, voters=3, terms=4, entries=6, campaigns=4, restarts=2, snapshots=4, installs=3
        ),
        walks=200,
    ),
}
"""Bounds that are far too large to be walked through."""

PLANS: dict[str, tuple[BoundsChoice, ...]] = {
    "isr": (
        BoundsChoice("minimum-one", _isr(minimum=1, crashes=1)),
        BoundsChoice("late", _isr(delays=1)),
        BoundsChoice("damage", _isr(crashes=1, damages=1)),
        BoundsChoice("last-known", _isr(changes=3, crashes=2)),
        BoundsChoice("three-late", _isr(nodes=3, epochs=1, changes=0, delays=1)),
        BoundsChoice("three", _isr(nodes=3, changes=1)),
        BoundsChoice("three-choose", _isr(nodes=3), 10_000),
        WIDE["isr"],
    ),
    "raft": (
        BoundsChoice("two", _raft(entries=2, appends=2)),
        BoundsChoice("crash", _raft(entries=2, restarts=1, writes=2)),
        BoundsChoice("loss", _raft(restarts=1, losses=1)),
        BoundsChoice("three", _raft(nodes=3)),
        WIDE["raft"],
    ),
    "raft-snapshots": (
        BoundsChoice("two", _raft_snapshots(entries=3)),
        BoundsChoice("crash", _raft_snapshots(restarts=1)),
        BoundsChoice("three", _raft_snapshots(nodes=3, voters=3, losses=1), 20_000),
        WIDE["raft-snapshots"],
    ),
}
