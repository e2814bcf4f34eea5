"""Bugs of the literature that are not planted, each with what it waits for, or why it cannot show."""

from __future__ import annotations

import msgspec


class Unplanted(msgspec.Struct, frozen=True):
    """A bug of the literature that is not planted here. `why`: what it waits for, or why it cannot show."""

    row: int
    bug: str
    source: str
    why: str


WAITING: tuple[Unplanted, ...] = (
    Unplanted(
        5,
        "one quorum over the union of the old and the new configuration",
        "CCF (NSDI 2025)",
        "cannot show: one voter comes or goes at a time, so that old and new quorums share a node (M2)",
    ),
    Unplanted(
        6,
        "an index in a refusal counts as stored",
        "CCF (NSDI 2025)",
        "cannot show: a leader probes one place until an answer agrees, and entries of older terms are not "
        "counted; planted, it survived 57 worlds of terms and elections",
    ),
    Unplanted(
        14,
        "a snapshot holds a leader that is not in the ISR",
        "Liftbridge #354, #443",
        "cannot show: such a record is refused when the snapshot is read (`Records`)",
    ),
    Unplanted(
        19,
        "epochs are kept after a truncation to the log's end",
        "KAFKA-10706",
        "cannot show: a log whose epochs go beyond its end breaks a promise of its state, and its replica "
        "ends in that step (`LogState.check`, V5)",
    ),
    Unplanted(
        47,
        "an assignment that iterates over a set gives a partition two owners",
        "liftlog, a danger of its own",
        "cannot show: who stores the group's state first has decided for all (ADR 0070); sets may not be "
        "iterated over in `liftlog/groups` and `liftlog/core` (tests/test_architecture.py)",
    ),
)
