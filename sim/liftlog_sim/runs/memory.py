"""What a run holds of the machine's memory, and how that stays bounded however long the run lasts.

A process of a simulated node ends again and again, and leaves cycles: its node, the log in it, buffers.
Python finds such cycles by going through all that lives, which is far too dear to do often; and what is freed
in the middle of the C library's heap goes back to the system on request only. So a usual run, which ends
before any of that weighs, collects hardly ever; a long one does both once in a simulated minute, between two
events, where neither can change what happens.
"""

from __future__ import annotations

import ctypes
import gc
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from liftlog_sim.kernel import SECOND
from liftlog_sim.profiles.lasting import USUAL_US

USUAL_PACE, LONG_PACE = (200_000, 10, 10), (50_000, 4, 2)
"""Thresholds of Python's collector, for a usual run and for a long one."""
TIDY_EVERY_US = 60 * SECOND
M_MMAP_THRESHOLD = -3
"""Of glibc's `mallopt`: from which size on a block stands apart, and goes back to the system when freed."""
APART_BYTES = 65536


@cache
def collect_seldom() -> None:
    """For the rest of this process: a world makes much that lives for some hundred steps, and a collector
    that goes through all of it each time costs more than what it finds.
    """
    gc.collect()
    gc.freeze()


def set_pace(duration_us: int) -> None:
    """How often Python collects during a run of this length. In a long one large blocks stand apart: glibc
    raises its bound by itself with each that is freed, and then puts a disk's files among what stays.
    """
    gc.set_threshold(*(USUAL_PACE if duration_us <= USUAL_US else LONG_PACE))
    mallopt = _of_c("mallopt")
    if duration_us > USUAL_US and mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, APART_BYTES)


def tidy() -> None:
    """Collect what has died, and give what is free back to the system."""
    gc.collect()
    trim = _of_c("malloc_trim")
    if trim is not None:
        trim(0)


@cache
def _of_c(name: str) -> Any:
    """A call of glibc; None where the C library has no such call, and gives memory back on its own."""
    return getattr(ctypes.CDLL(None), name, None)


def tidied(phases: Iterable[int], duration_us: int) -> Iterator[int]:
    """The ends of these phases; in a long run with one more at each simulated minute, to tidy there."""
    reached = 0
    for end_us in phases:
        if duration_us > USUAL_US:
            while reached + TIDY_EVERY_US < end_us:
                reached += TIDY_EVERY_US
                yield reached
                tidy()
        yield end_us
        reached = max(reached, end_us)
