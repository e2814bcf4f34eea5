"""The faults of a seed, drawn before its world starts: each by its name, by weight, at random intervals."""

from __future__ import annotations

from liftlog_sim.chance.draws import Draws
from liftlog_sim.chance.fault_plan import FIRST_DECAY, FIRST_LIE, INDEX_DECAY, LIES, TARGETS, Fault
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.kernel import MILLISECOND, SECOND


def draw_plan(seed: int | str, knobs: Knobs) -> list[Fault]:
    """The fault plan of a seed: kinds by weight, at random intervals, until the fault phase is over.

    Lies, and what befalls indexes, have draws of their own: all else is drawn the same with them and without.
    """
    weights = {kind: weight for kind, weight in knobs.faults if weight > 0}
    if knobs.sick_from_us:
        return _one_sickness(Draws(seed, "sick"), knobs, weights)
    plan = _drawn(Draws(seed, "plan"), knobs, weights, knobs.fault_interval_us, 0)
    lies = dict(LIES) if knobs.lies_interval_us else {}
    plan += _drawn(Draws(seed, "lies"), knobs, lies, knobs.lies_interval_us, FIRST_LIE)
    decays = {INDEX_DECAY: 1.0} if knobs.index_decay_us else {}
    return plan + _drawn(Draws(seed, "decays"), knobs, decays, knobs.index_decay_us, FIRST_DECAY)


def _one_sickness(draws: Draws, knobs: Knobs, kinds: dict[str, float]) -> list[Fault]:
    """One node, until the end. A leader that is stopped again and again is a matter of elections."""
    kind = draws.choices(list(kinds), list(kinds.values()))[0] if kinds else ""
    target = draws.choice(("leader", "follower")) if kind == "slow_disk" else "follower"
    return [Fault(knobs.sick_from_us, kind, target, knobs.duration_us)] if kind else []


def _drawn(
    stream: Draws, knobs: Knobs, kinds: dict[str, float], interval_us: int, first: int
) -> list[Fault]:
    plan: list[Fault] = []
    if not kinds:
        return plan
    now_us = knobs.quiet_from_us or 2 * SECOND
    targets = [name for name, _ in TARGETS]
    shares = [share for _, share in TARGETS]
    while True:
        draws = stream.part(len(plan))
        now_us += knobs.fault_spacing_us + int(draws.expovariate(1.0) * interval_us)
        if now_us >= knobs.duration_us:
            return plan
        kind = draws.choices(list(kinds), list(kinds.values()))[0]
        target = draws.choices(targets, shares)[0]
        duration_us = int(draws.expovariate(1.0) * knobs.fault_duration_us) + 10 * MILLISECOND
        duration_us = min(duration_us, knobs.fault_duration_max_us or duration_us)
        plan.append(Fault(now_us, kind, target, duration_us, first + len(plan)))
