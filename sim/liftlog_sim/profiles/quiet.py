"""Profiles of worlds in which little happens, so that all that follows must have a cause (N2, M1o, R15, R17).

Times of the protocol are those of production, in its proportions. What they promise is judged in
`watching/causes.py`, and in `runs/sickness.py`.
"""

from __future__ import annotations

from liftlog.types import StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.devices.connections import HintOptions
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.options import BusOptions, NetworkOptions, StorageTimes
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.profiles.settings import base_knobs, draw_streams

QUIET_PROFILES = ("hiccups", "failover", "sick")


def hints_of(seed: int) -> HintOptions:
    """How well deaths are told in the world of a seed that is not quiet."""
    draws = Draws(seed, "hints")
    return HintOptions(
        delay_us=draws.choice((1_117, 3_117, 40_117)),
        spread_us=draws.choice((1_000, 200_000)),
        late=draws.choice((0.0, 0.2, 0.5)),
        late_max_us=draws.choice((1, 5)) * SECOND,
        missing=draws.choice((0.0, 0.2, 0.5)),
    )


def _quiet(draws: Draws, **fixed: object) -> Knobs:
    nodes = draws.choice((3, 3, 3, 5))
    drawn: dict[str, object] = {
        "nodes": nodes,
        "streams": draw_streams(draws, nodes, 1),
        "network": NetworkOptions(draws.choice((200, 2_000)), draws.choice((200, 3_000))),
        "bus": BusOptions(latency_us=500, jitter_us=500),
        "storage_times": StorageTimes(50, draws.choice((300, 2_000)), draws.choice((300, 4_000))),
        "clock_drift": draws.choice((0.0, 0.001, 0.01)),
        "tick_ms": 50,
        "election_ticks": 14,
        "election_spread_ticks": 8,
        "suspicion_ticks": 6,
        "session_ticks": 30,
        "lease_ticks": 13,
        "margin_ticks": 1,
        "report_ticks": 18,
        "lag_ticks": 60,
        "fetch_wait_ticks": 10,
        "admin_interval_us": 0,
        "quiet_from_us": 5 * SECOND,
    }
    drawn.update(fixed)
    return base_knobs(draws, **drawn)


def hiccups(draws: Draws) -> Knobs:
    """Processes pause for up to half a second, connections break and are made anew, hints are false: one
    after the other, and nothing of it is a reason for others to take over.
    """
    return _quiet(
        draws,
        faults=(("pause", 3), ("flap", 2), ("accuse", 2)),
        fault_interval_us=SECOND,
        fault_spacing_us=1500 * MILLISECOND,
        fault_duration_us=draws.choice((300, 2000)) * MILLISECOND,
        fault_duration_max_us=500 * MILLISECOND,
    )


def failover(draws: Draws) -> Knobs:
    """One process after the other is killed, and is back some seconds later: others take over soon."""
    return _quiet(
        draws,
        faults=(("kill", 1),),
        fault_interval_us=SECOND,
        fault_spacing_us=9 * SECOND,
        fault_duration_us=10 * SECOND,
        fault_duration_max_us=3 * SECOND,
        hints=HintOptions(draws.choice((1_117, 50_117)), draws.choice((1_000, 50_000))),
        killed=True,
    )


def sick(draws: Draws) -> Knobs:
    """A steady load, and one node falls sick: nobody else may feel it for long."""
    nodes = draws.choice((3, 3, 5))
    minimum = draws.choice((2, 2, 2, nodes))
    return _quiet(
        draws,
        nodes=nodes,
        streams=(StreamConfig("s0", "s0.in", 1, nodes, minimum),),
        quiet_from_us=0,
        duration_us=60 * SECOND,
        sick_from_us=15 * SECOND,
        faults=(("slow_disk", 2), ("stutter", 1)),
        probation_ticks=200,
        probation_max_ticks=800,
        network=NetworkOptions(draws.choice((100, 500)), 300),
        bus=BusOptions(latency_us=100, jitter_us=100),
        storage_times=StorageTimes(50, 300, draws.choice((100, 700))),
        publishers=1,
        publish_interval_us=20 * MILLISECOND,
        burst_max=6,
        with_reply=1.0,
        value_filler=0,
        # What followers ask for lies in memory: else they wait for a slow leader's disk as well.
        fetch_max_bytes=1 << 20,
        tail_cache_bytes=8 << 20,
        readers=1,
    )
