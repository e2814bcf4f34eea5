"""Planned faults: what strikes when and whom.

They are values, so that they can be written down, shortened and replayed. A seed draws some before its world
starts (`faults/drawing.py`); whom one strikes is decided when it strikes (`faults.py`).
"""

from __future__ import annotations

import msgspec


class Fault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One planned fault. `target`: who it strikes; `duration_us`: until it is taken back, where that
    applies.
    """

    at_us: int
    kind: str
    target: str = "any"
    duration_us: int = 0
    ordinal: int = 0
    links: tuple[tuple[int, int], ...] = ()
    """For cuts: exactly these directed links, instead of drawn ones."""


DISK_KINDS = (
    "slow_disk",
    "sync_failure",
    "write_failure",
    "full_disk",
    "flip",
    "sector",
    "misdirect",
    "latent",
    "lost_sync",
    "lost_folder",
)
"""What a disk does wrong."""

KINDS = (
    "kill",
    "power",
    "power_all",
    "kill_all",
    "kill_then_power",
    "stop",
    "stop_all",
    "stop_then_power",
    "crash_inside",
    "partition",
    "isolate",
    "one_way",
    "link",
    "cut_bus",
    "cut_both",
    "deny",
    "slow_node",
    "storm",
    "pause",
    "accuse",
    "flap",
    "stutter",
    *DISK_KINDS,
    "wipe",
    "rollback",
    "lost_promises",
    "stranger",
    "broken_peer",
    "wire_flips",
    "index_decay",
    "total_loss",
)
"""Names for `--faults`; what each does stands at its method, or in `faults/damage.py`."""

LIES = (("stranger", 1.0), ("broken_peer", 2.0), ("wire_flips", 1.0))
LIAR_KINDS = tuple(kind for kind, _ in LIES)
"""Who is not to be believed (`faults/liars.py`)."""
FIRST_LIE = 1_000_000
"""Lies are numbered apart from the other faults."""

INDEX_DECAY = "index_decay"
"""Comes beside the other faults, and for itself (`Knobs.index_decay_us`)."""
FIRST_DECAY = 2_000_000
BESIDE_KINDS = (*LIAR_KINDS, INDEX_DECAY)
"""What has draws of its own: all else in a world is drawn the same with it and without."""

TARGETS = (("any", 0.5), ("controller", 0.2), ("leader", 0.2), ("follower", 0.1))
