"""SickIsAlone: a sick node is not everybody's latency (R17, R18).

In a world in which nothing happens but that one node falls sick, its disk slow or its process stopped now and
then, messages wait hardly longer than before, from the third second on, and somebody always has an ack soon.
Judged from what the publishers saw.
"""

from __future__ import annotations

from itertools import pairwise

from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.world import World

LEARNING_US = 2 * SECOND
"""For so long a sick node may be everybody's latency."""
WAIT_FACTOR = 3
GAP_US = 2 * SECOND
PERCENT = 99
FEWEST = 200
"""So many messages are needed before and after, else nothing is said."""


def judge_sickness(world: World) -> None:
    """To be called when the fault phase ends. Raises Violation(SickIsAlone)."""
    sick_us = world.knobs.sick_from_us
    if not sick_us or any(stream.min_insync_replicas >= world.knobs.nodes for stream in world.knobs.streams):
        return  # Nobody is sick, or nothing is committed without the sick one.
    end_us = world.kernel.now_us - SECOND
    answered = [each for each in world.workload.operations if _is_answered(world, each)]
    sent = [each for each in answered if each.invoked_us < end_us]
    before = sorted(_wait_us(each, end_us) for each in sent if each.invoked_us < sick_us - SECOND)
    waits = sorted(_wait_us(each, end_us) for each in sent if each.invoked_us >= sick_us + LEARNING_US)
    if min(len(before), len(waits)) < FEWEST:
        return
    world.observer.checks.counts["SickIsAlone"] += 1
    limit_ms = world.knobs.node_config(1).replica_slow_ms
    usual_us, now_us = (ordered[len(ordered) * PERCENT // 100] for ordered in (before, waits))
    allowed_us = WAIT_FACTOR * usual_us + 2 * limit_ms * MILLISECOND
    if now_us > allowed_us:
        raise Violation(
            "SickIsAlone",
            f"messages waited {now_us / 1000:.1f} ms (p{PERCENT}) from {LEARNING_US // SECOND} s after one "
            f"node fell sick, {usual_us / 1000:.1f} ms before; {allowed_us / 1000:.1f} ms are allowed",
        )
    acks = sorted(each.returned_us for each in sent if each.outcome == "ok" and each.returned_us >= sick_us)
    gap_us = max((later - earlier for earlier, later in pairwise(acks)), default=end_us)
    if gap_us > GAP_US:
        raise Violation(
            "SickIsAlone",
            f"no ack for {gap_us / 1000:.0f} ms while one node was sick; {GAP_US // 1000} ms are allowed",
        )


def _is_answered(world: World, operation: ClientOperation) -> bool:
    """Whether this is a message that a stream answers, and does not refuse for what it asks (L4, N8)."""
    strange = operation.value in world.workload.strange
    return operation.kind == "send" and operation.target.config.ack_reply and not strange


def _wait_us(operation: ClientOperation, end_us: int) -> int:
    """Until the ack; without one, until the end."""
    return (operation.returned_us if operation.outcome == "ok" else end_us) - operation.invoked_us
