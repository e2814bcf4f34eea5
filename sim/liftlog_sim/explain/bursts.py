"""As many messages in fewer publications, for who shrinks a world in which it takes many to fail."""

from __future__ import annotations

import msgspec

from liftlog_sim.chance.plan import Plan, PlannedOperation

MOST_IN_A_BURST = 200
"""Bursts that are thrown together have no more messages than that."""


def in_larger_bursts(plan: Plan, together: int) -> Plan:
    """So many bursts of one publisher on one partition become one, at the time of the first."""
    kept: list[PlannedOperation] = []
    filling: dict[tuple[str, str], tuple[int, int]] = {}
    """By publisher and partition: where in `kept` its last burst is, and how many it stands for."""
    for one in plan.operations or ():
        place, held = filling.get((one.client, one.target), (-1, together))
        if not one.count or held == together or kept[place].count + one.count > MOST_IN_A_BURST:
            place, held = len(kept), 0
            kept.append(one)
        else:
            kept[place] = msgspec.structs.replace(kept[place], count=kept[place].count + one.count)
        if one.count:
            filling[one.client, one.target] = place, held + 1
    return msgspec.structs.replace(plan, operations=tuple(kept))
