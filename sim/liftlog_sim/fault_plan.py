"""A plan of faults: what strikes when and whom, drawn from the seed before the world starts.

A plan is a list of values, so that it can be written down, shortened and replayed. Whom a fault strikes is
decided when it happens (`liftlog_sim/faults.py`).
"""

from __future__ import annotations

import random

import msgspec

from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.knobs import Knobs


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
    "wipe",
    "rollback",
    "stranger",
    "broken_peer",
    "wire_flips",
    "index_decay",
)
"""Names for `--faults`; what each does stands at its method, or in `liftlog_sim/damage.py`."""

LIES = (("stranger", 1.0), ("broken_peer", 2.0), ("wire_flips", 1.0))
LIAR_KINDS = tuple(kind for kind, _ in LIES)
"""Who is not to be believed (`liftlog_sim/liars.py`)."""
FIRST_LIE = 1_000_000
"""Lies are numbered apart from the other faults."""

INDEX_DECAY = "index_decay"
"""Comes beside the other faults, and for itself (`Knobs.index_decay_us`)."""
FIRST_DECAY = 2_000_000
BESIDE_KINDS = (*LIAR_KINDS, INDEX_DECAY)
"""What has draws of its own: all else in a world is drawn the same with it and without."""

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

TARGETS = (("any", 0.5), ("controller", 0.2), ("leader", 0.2), ("follower", 0.1))


def draw_plan(seed: int | str, knobs: Knobs) -> list[Fault]:
    """The fault plan of a seed: kinds by weight, at random intervals, until the fault phase is over.

    Lies, and what befalls indexes, have draws of their own: all else is drawn the same with them and without.
    """
    weights = {kind: weight for kind, weight in knobs.faults if weight > 0}
    if knobs.sick_from_us:
        return _one_sickness(random.Random(f"{seed}/sick"), knobs, weights)
    plan = _drawn(random.Random(f"{seed}/plan"), knobs, weights, knobs.fault_interval_us, 0)
    lies = dict(LIES) if knobs.lies_interval_us else {}
    plan += _drawn(random.Random(f"{seed}/lies"), knobs, lies, knobs.lies_interval_us, FIRST_LIE)
    decays = {INDEX_DECAY: 1.0} if knobs.index_decay_us else {}
    return plan + _drawn(random.Random(f"{seed}/decays"), knobs, decays, knobs.index_decay_us, FIRST_DECAY)


def _one_sickness(draws: random.Random, knobs: Knobs, kinds: dict[str, float]) -> list[Fault]:
    """One node, until the end. A leader that is stopped again and again is a matter of elections."""
    kind = draws.choices(list(kinds), list(kinds.values()))[0] if kinds else ""
    target = draws.choice(("leader", "follower")) if kind == "slow_disk" else "follower"
    return [Fault(knobs.sick_from_us, kind, target, knobs.duration_us)] if kind else []


def _drawn(
    draws: random.Random, knobs: Knobs, kinds: dict[str, float], interval_us: int, first: int
) -> list[Fault]:
    plan: list[Fault] = []
    if not kinds:
        return plan
    now_us = knobs.quiet_from_us or 2 * SECOND
    targets = [name for name, _ in TARGETS]
    shares = [share for _, share in TARGETS]
    while True:
        now_us += knobs.fault_spacing_us + int(draws.expovariate(1.0) * interval_us)
        if now_us >= knobs.duration_us:
            return plan
        kind = draws.choices(list(kinds), list(kinds.values()))[0]
        target = draws.choices(targets, shares)[0]
        duration_us = int(draws.expovariate(1.0) * knobs.fault_duration_us) + 10 * MILLISECOND
        duration_us = min(duration_us, knobs.fault_duration_max_us or duration_us)
        plan.append(Fault(now_us, kind, target, duration_us, first + len(plan)))
