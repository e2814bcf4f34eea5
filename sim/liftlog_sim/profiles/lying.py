"""In which worlds there are strangers and broken peers (`faults/liars.py`): one of five, of any profile.

Drawn apart from everything else, so that all else in such a world is what it would be without them.
"""

from __future__ import annotations

from liftlog_sim.chance.draws import Draws
from liftlog_sim.kernel import SECOND

LIES_GROUP = "lies"
"""Among fault kinds: whoever is not to be believed. For mutants: the seeds whose worlds have such."""
LIES_SHARE = 0.2
"""In so many worlds, of every profile, strangers come and peers break beside all else."""


def with_lies(seed: int) -> bool:
    """Whether there are strangers and broken peers in the world of a seed."""
    return Draws(seed, "with-lies").random() < LIES_SHARE


def lies_interval_us(seed: int) -> int:
    """How often somebody comes or breaks in the world of a seed; 0 = never."""
    return Draws(seed, "liars").choice((1, 2, 5)) * SECOND if with_lies(seed) else 0
