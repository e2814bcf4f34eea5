"""Anomalies that are no faults under some circumstances, as jepsen.tests.kafka has them."""

from __future__ import annotations

ALLOWED_ALWAYS = frozenset({"int-send-skip"})
"""The records of two transactions may lie between each other."""
ALLOWED_WITH_SUBSCRIBE = frozenset({"poll-skip", "nonmonotonic-poll"})
"""A rebalance between two polls moves a reader."""
CYCLES_ALLOWED_ALWAYS = frozenset({"G0", "G0-process", "G0-realtime"})
"""Writes of transactions to a log are never isolated."""
CYCLES_ALLOWED_WITH_WW = frozenset({"G1c", "G1c-process", "G1c-realtime"})
"""With edges from write to write, such cycles follow from G0's being allowed."""


def allowed(*, sub_via: str = "assign", ww_deps: bool = False) -> frozenset[str]:
    """What does not count. `sub_via`: assign, subscribe or both; `ww_deps`: the cycles have ww edges."""
    names = ALLOWED_ALWAYS | CYCLES_ALLOWED_ALWAYS
    if sub_via != "assign":
        names |= ALLOWED_WITH_SUBSCRIBE
    if ww_deps:
        names |= CYCLES_ALLOWED_WITH_WW
    return names
