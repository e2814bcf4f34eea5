"""One planted bug in every sweep, in a seed of its own: proof that what found nothing could have found
something.

A sweep that is clean says as much as its invariants see. If they were switched off by mistake, by an
observer that is not attached, say, thousands of seeds would be clean. So each sweep plants one bug, another
one by its first seed, in worlds that the sweep itself does not run, and fails if that is not caught.
"""

from __future__ import annotations

from liftlog_sim.profiles.mutants import mutant_named
from liftlog_sim.sweeps.catching import Caught, catch

FIRST_SEED = 10_000_000
"""A canary's seeds are the sweep's first one and those behind it, so far away."""
SEEDS = 200
"""Of these, those of the bug's profiles are tried, mostly one or two."""

CANARIES = (
    "truncate_to_hw",
    "fetch_not_fenced",
    "ack_at_append",
    "restarted_leader_keeps_epoch",
    "raft_quorum_half",
    "metadata_read_at_once",
    "header_ignored",
    "tombstone_dropped_by_age",
    "R9.joiner",
    "hint_leaves_isr",
)
"""Bugs that most of their worlds show; of several layers: log, replication, metadata, clients, compaction."""


def sing(first: int) -> Caught:
    """Plant the canary of the sweep that begins with this seed, and look for it."""
    mutant = mutant_named(CANARIES[first % len(CANARIES)])
    start = FIRST_SEED + first
    return catch(mutant, range(start, start + SEEDS))


def told(canary: Caught) -> str:
    """For people: one line."""
    if not canary.caught:
        text = f"canary: planted {canary.name}, and nothing noticed it in {canary.searched} seeds"
        return f"{text}: what this sweep did not find, it could not have found"
    text = f"canary: planted {canary.name} was caught by {canary.invariant} in seed {canary.seed}"
    return f"{text} ({canary.searched} tried, {canary.seconds:.1f} s); {canary.replay}"
