"""Shrinks a world that fails: as little as possible happens in it, and it still fails in the same way.

Delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002) over the
entries of a plan, in an order in which what is cheap and cuts much comes first: what lies after the
violation; whole kinds of things (all fates of messages, all faults, one client and then the next); halves and
then ever smaller parts of what is left; nodes, streams and the other parameters; lengths. What comes out of a
step is the whole of the next. A violation other than the wanted one is no progress, but it is kept, since it
is a find.

A world of hundreds of entries is first cut in large parts alone: trying each entry by itself takes hundreds
of runs, most of them for nothing while much is left. And before that other worlds of its kind are drawn,
shorter ones and ones in which clients do less: where the same violation comes by chance in one of a tenth of
the size, that is a better beginning than any part of this one. Where a single run takes long, nothing else is
done before: the budget is too short for runs of that world.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.chance.plan import DRAWN, Plan, fault_name
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.options import NetworkOptions
from liftlog_sim.explain.bundle import Bundle
from liftlog_sim.explain.bursts import in_larger_bursts
from liftlog_sim.explain.candidates import STEPS_TIMES, Candidate, Court, drawn_candidate, fingerprint_of
from liftlog_sim.explain.words import many
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.profiles.settings import of_size

Report = Callable[[str], None]
SLACK_US = 10 * MILLISECOND
_READY_US = 3 * SECOND
"""About then streams are there and clients begin."""
LONG_US = 15 * SECOND
OTHERS = 30
"""So many other worlds are drawn in a round, for a failure that takes longer to come than that,"""
MUCH = 60
"""or for which more faults and operations than that are left."""
SHARES = (8, 4, 2)
"""Such a world lasts one of these parts of what this one takes,"""
CALMER = (1, 1, 1, 4, 4, 4)
"""and its clients wait so many times as long."""
SHORTEST_US = 4 * SECOND
"""No shorter one is drawn."""
COARSE = 160
"""With more entries than that only large parts are taken away at first:"""
LARGE_PART = 8
"""this part of all, or more."""
SLOW_PART = 20
"""A world of which one run takes this part of the budget is slow: shorter ones are drawn before all else."""
SOONER_PART = 8
"""Another seed has to spare this part of the time from when clients begin, to be worth it."""
FEW = 6
"""So many entries are taken in at a glance. Of more, parts are taken away with other chances."""
MANY = 12
"""More faults and operations than that are too many."""
CHANCES, CHANCES_S = 8, 10.0
"""So many seeds are tried with each part, and so long in all, unless too much is left."""
_KEPT = ("profile", "nodes", "streams", "duration_us")
"""Parameters that are not simply set to what they are by default."""
_CLIENTS_WAIT = (
    "publish_interval_us",
    "read_interval_us",
    "door_interval_us",
    "consume_interval_us",
    "member_interval_us",
)


class Shrunk(msgspec.Struct, kw_only=True):
    """What came of it."""

    candidate: Candidate
    at_us: int
    runs: int
    seconds: float
    done: bool
    """False: the budget was spent first."""
    faults: int
    operations: int
    fates: int


def counts(plan: Plan) -> tuple[int, int, int]:
    """Faults (with hunts), operations, fates."""
    return len(plan.faults or ()) + len(plan.hunts or ()), len(plan.operations or ()), len(plan.fates or ())


def sizes(plan: Plan) -> str:
    """A plan's size in words."""
    return in_words(*counts(plan))


def in_words(faults: int, operations: int, fates: int) -> str:
    """So many of each."""
    return f"{many(faults, 'fault')}, {many(operations, 'operation')}, {many(fates, 'message fate')}"


def say(candidate: Candidate, at_us: int) -> str:
    """A candidate's size in words."""
    nodes, streams = candidate.knobs.nodes, len(candidate.knobs.streams)
    return (
        f"{sizes(candidate.plan)}; {many(nodes, 'node')}, {many(streams, 'stream')}; {at_us / SECOND:.3f} s"
    )


class Shrinker:
    """See the module. `report` is told of each progress."""

    def __init__(self, bundle: Bundle, seconds: float, report: Report) -> None:
        settings = bundle.settings
        self._report = report
        options = settings.options
        started_s = time.process_time()
        whole, result = drawn_candidate(options, settings.knobs, bundle.plan)
        if result is None or result.good:
            raise LiftlogError(
                f"this world does not fail any more; the bundle shows {bundle.violation.invariant}. "
                "See 'liftlog sim replay' whether the code is another one"
            )
        self.court = Court(options, fingerprint_of(result), seconds)
        self.best, self.at_us = whole, round(result.at_s * SECOND)
        if result.invariant != bundle.violation.invariant:
            raise LiftlogError(
                f"this world violates {result.invariant} now; the bundle shows {bundle.violation.invariant}"
            )
        self.court.expect_by(self.at_us)
        self.court.steps_max = STEPS_TIMES * result.steps
        self._slow = (time.process_time() - started_s) * SLOW_PART > seconds
        """One run takes long."""
        self._seed = options.seed
        self._others = 0
        """Worlds that were drawn."""
        self._chances_s = 0.0
        """What was spent on other chances."""
        self._fine = sum(counts(whole.plan)) <= COARSE
        """Small parts are tried, too."""

    def run(self) -> Shrunk:
        """Shrink until nothing helps any more or the budget is spent."""
        self._report(f"whole: {say(self.best, self.at_us)}")
        if self._slow:
            self._fail_sooner()
            self._report(f"{self.court.spent_s:6.1f} s, a shorter world: {say(self.best, self.at_us)}")
        helped = True
        while (helped or not self._fine) and not self.court.over:
            # When large parts help no more, or little is left, small ones are tried.
            self._fine = self._fine or not helped or sum(counts(self.best.plan)) <= COARSE
            before = self.best
            for stage, act in (
                ("time", self._cut_time),
                ("healing", self._heal_sooner),
                ("kinds", self._without_kinds),
                ("late start", self._start_late),
                ("sooner", self._sooner_by_chance),
                ("other seeds", self._fail_sooner),
                ("bursts", self._fewer_bursts),
                ("clients", self._without_clients),
                ("parts", self._without_parts),
                ("nodes and streams", self._fewer_nodes),
                ("parameters", self._simpler_knobs),
                ("lengths", self._simpler_values),
                ("other chances", self._with_other_chances),
            ):
                size = self.best
                act()
                if self.best != size:
                    told = f"{self.court.spent_s:6.1f} s {self.court.runs:5} runs, {stage}: "
                    self._report(told + say(self.best, self.at_us))
            helped = self.best != before
        faults, operations, fates = counts(self.best.plan)
        return Shrunk(
            candidate=self.best,
            at_us=self.at_us,
            runs=self.court.runs,
            seconds=self.court.spent_s,
            done=not self.court.over,
            faults=faults,
            operations=operations,
            fates=fates,
        )

    # -- trying --------------------------------------------------------------------------------------------

    def _try(self, candidate: Candidate, by_us: int = 0) -> bool:
        """Whether a candidate fails as wanted, by a moment if one is named; it is the best one then."""
        if candidate == self.best:
            return False
        at_us = self.court.fails(candidate, by_us)
        if at_us < 0:
            return False
        other = candidate.knobs != self.best.knobs or candidate.seed != self.best.seed
        if other and not self.court.is_clean(candidate):
            return False  # It would fail without the mutant as well.
        self.best, self.at_us = candidate, at_us
        self.court.expect_by(at_us)
        return True

    def _try_plan(self, plan: Plan) -> bool:
        return self._try(msgspec.structs.replace(self.best, plan=plan))

    def _try_knobs(self, **changes: Any) -> bool:
        knobs = msgspec.structs.replace(self.best.knobs, **changes)
        return self._try(msgspec.structs.replace(self.best, knobs=knobs))

    @property
    def _struck_us(self) -> int:
        """When it is violated, or everything is healed, if that comes first."""
        return min(self.at_us, self.best.knobs.duration_us)

    # -- stages --------------------------------------------------------------------------------------------

    def _cut_time(self) -> None:
        """What comes after the violation, and the time itself."""
        end_us = self.at_us
        self._try_plan(_until(self.best.plan, end_us))
        if end_us + SLACK_US < self.best.knobs.duration_us:
            self._try_knobs(duration_us=end_us + SLACK_US)

    def _heal_sooner(self) -> None:
        """What shows when everything is healed may have been there long before."""
        if self.court.limit_us:
            return
        for share in (16, 8, 4, 2):
            end_us = self.best.knobs.duration_us // share
            if end_us >= _READY_US and self._try(_healed_at(self.best, end_us)):
                return

    def _without_kinds(self) -> None:
        """All of one kind at once: what is mostly noise first."""
        for kind in ("fates", "hunts", "faults", "operations"):
            if getattr(self.best.plan, kind):
                self._try_plan(msgspec.structs.replace(self.best.plan, **{kind: ()}))

    def _start_late(self) -> None:
        """Nothing happens but shortly before the violation; then all of it sooner."""
        for window_us in (SECOND, 2 * SECOND, 4 * SECOND, 8 * SECOND, 16 * SECOND, 32 * SECOND):
            first_us = self._struck_us - window_us
            if first_us < _READY_US or self._try_plan(_since(self.best.plan, first_us)):
                break
        first_s = min((time_us // SECOND for time_us in _times(self.best.plan)), default=0)
        sooner_s = first_s - _READY_US // SECOND
        while sooner_s > 0:
            if self._try_plan(_sooner(self.best.plan, sooner_s)):
                self._cut_time()
            sooner_s //= 2

    def _sooner_by_chance(self) -> None:
        """The same plan with another seed may fail in the same way much sooner, so that less of it is needed:
        where many things hang together by their moments, there are many ways to it.
        """
        tries = 0
        while self.court.limit_us and _entries(self.best.plan) > MANY and tries < CHANCES:
            by_us = self.at_us - (self.at_us - _READY_US) // SOONER_PART
            if by_us >= self.at_us:
                return
            tries += 1
            knobs = msgspec.structs.replace(self.best.knobs, duration_us=by_us)
            other = Candidate(knobs, _until(self.best.plan, by_us), self.best.seed + tries)
            if self._try(other, by_us):
                self._cut_time()
                tries = 0

    def _fail_sooner(self) -> None:
        """A long or large world may need all that happens in it; but in another one of its kind the same may
        come much sooner, or with much less. So others are drawn with the same parameters, or nearly.
        """
        if self.court.at_end:
            return  # It is judged by what was before and after a moment that stays where it is.
        for _ in range(OTHERS):
            long = self._slow or self._struck_us > LONG_US
            if self.court.over or (not long and _entries(self.best.plan) <= MUCH):
                break
            drawn = self.court.draw(self._other())
            if drawn is not None:
                found = msgspec.structs.replace(drawn[0], plan=_until(drawn[0].plan, drawn[1]))
                smaller = _entries(found.plan) * 2 <= _entries(self.best.plan)
                if (long or smaller) and self._try(found):
                    self._slow = False
                    self._cut_time()

    def _other(self) -> Candidate:
        """The next world to be drawn: nobody has tried its seed yet."""
        share = SHARES[self._others % len(SHARES)]
        times = CALMER[self._others % len(CALMER)]
        self._others += 1
        duration_us = max(min(SHORTEST_US, self._struck_us), self._struck_us // share)
        knobs = msgspec.structs.replace(_calmer(self.best.knobs, times), duration_us=duration_us)
        return Candidate(knobs, DRAWN, self._seed + self._others)

    def _fewer_bursts(self) -> None:
        """Where it takes many messages, a few publications may bring as many."""
        for together in (64, 16, 4, 2):
            while _entries(self.best.plan) > MANY:
                if not self._try_plan(in_larger_bursts(self.best.plan, together)):
                    break

    def _without_clients(self) -> None:
        """One client after the other, and one link's fates after the other."""
        plan = self.best.plan
        for client in sorted({one.client for one in plan.operations or ()}):
            rest = tuple(one for one in self.best.plan.operations or () if one.client != client)
            self._try_plan(msgspec.structs.replace(self.best.plan, operations=rest))
        if not self._fine:
            return
        for kind in sorted({fate.kind for fate in plan.fates or ()}):
            left = tuple(fate for fate in self.best.plan.fates or () if fate.kind != kind)
            self._try_plan(msgspec.structs.replace(self.best.plan, fates=left))

    def _without_parts(self) -> None:
        """Halves, then quarters, and so on, of each list."""
        for names in (
            lambda plan: [fault_name(fault) for fault in plan.faults or ()],
            lambda plan: [one.name for one in plan.operations or ()],
            lambda plan: [hunt.name for hunt in plan.hunts or ()],
            lambda plan: [fate.name for fate in plan.fates or ()],
        ):
            self._minimize(names)

    def _minimize(self, names: Callable[[Plan], list[str]]) -> None:
        """Take parts of a list away while that fails, the latest first, ever smaller ones."""
        size = len(names(self.best.plan))
        part = max(1, (size + 1) // 2)
        while size and not self.court.over:
            helped = False
            end = size
            while end > 0:
                listed = names(self.best.plan)
                gone = listed[max(0, end - part) : end]
                if self._try_plan(self.best.plan.without(gone)):
                    helped = True
                    # Whatever the violation now comes before is gone at once.
                    self._cut_time()
                end = min(end - part, len(names(self.best.plan)))
            size = len(names(self.best.plan))
            if part == 1 and not helped:
                return
            if not self._fine and part * LARGE_PART <= size:
                return
            part = max(1, min(part // 2 if not helped or part > 1 else 1, size))

    def _fewer_nodes(self) -> None:
        knobs = self.best.knobs
        for nodes in range(1 if knobs.nodes <= 3 else 3, knobs.nodes):
            streams = tuple(
                msgspec.structs.replace(stream, replication_factor=min(stream.replication_factor, nodes))
                for stream in self.best.knobs.streams
            )
            if self._try_knobs(**of_size(knobs, nodes), streams=streams):
                break
        for place in range(len(self.best.knobs.streams) - 1, -1, -1):
            streams = self.best.knobs.streams
            if len(streams) > 1:
                self._try_knobs(streams=streams[:place] + streams[place + 1 :])

    def _simpler_knobs(self) -> None:
        """All parameters to what they are by default; where that is too much, in halves."""
        default = Knobs()
        fields = [
            name
            for name in Knobs.__struct_fields__
            if name not in _KEPT and getattr(self.best.knobs, name) != getattr(default, name)
        ]
        self._set(fields, default)
        network, plain = self.best.knobs.network, NetworkOptions()
        for name in NetworkOptions.__struct_fields__:
            simple = msgspec.structs.replace(network, **{name: getattr(plain, name)})
            if simple != network and self._try_knobs(network=simple):
                network = simple

    def _set(self, fields: Sequence[str], default: Knobs) -> None:
        if not fields or self.court.over:
            return
        if self._try_knobs(**{name: getattr(default, name) for name in fields}) or len(fields) == 1:
            return
        half = len(fields) // 2
        self._set(fields[:half], default)
        self._set(fields[half:], default)

    def _simpler_values(self) -> None:
        """Faults that last a round time, bursts of one message."""
        if not self._fine:
            return
        for place, fault in enumerate(self.best.plan.faults or ()):
            for duration_us in (100 * MILLISECOND, SECOND, 3 * SECOND):
                if fault.duration_us > duration_us and self._replace(
                    "faults", place, duration_us=duration_us
                ):
                    break
        for place, one in enumerate(self.best.plan.operations or ()):
            if one.count > 1:
                self._replace("operations", place, count=1)

    def _replace(self, kind: str, place: int, **changes: Any) -> bool:
        entries = list(getattr(self.best.plan, kind))
        entries[place] = msgspec.structs.replace(entries[place], **changes)
        return self._try_plan(msgspec.structs.replace(self.best.plan, **{kind: tuple(entries)}))

    def _with_other_chances(self) -> None:
        """What is left may hang together by its exact moments alone: take anything away, and all that is
        drawn comes a little otherwise. So parts are taken away while another seed draws the rest.
        """
        faults, operations, fates = counts(self.best.plan)
        if faults + operations + fates <= FEW:
            return
        patience_s = CHANCES_S if faults + operations <= MANY else 1e9
        started_s = self.court.spent_s - self._chances_s
        names = self.best.plan.names()
        part = (len(names) + 1) // 2
        while part and (self._fine or part * LARGE_PART >= 2 * len(names)):
            for end in range(len(names), 0, -part):
                less = self.best.plan.without(names[max(0, end - part) : end])
                for more in range(1, CHANCES + 1):
                    seed = self.best.seed + more
                    helped = self._try(msgspec.structs.replace(self.best, plan=less, seed=seed))
                    self._chances_s = self.court.spent_s - started_s
                    if helped:
                        self._cut_time()
                        return
                    if self._chances_s > patience_s or self.court.over:
                        return
            part //= 2


def _entries(plan: Plan) -> int:
    """Faults and operations."""
    faults, operations, _ = counts(plan)
    return faults + operations


def _calmer(knobs: Knobs, times: int) -> Knobs:
    """Clients wait so many times as long between one thing and the next."""
    return msgspec.structs.replace(knobs, **{name: getattr(knobs, name) * times for name in _CLIENTS_WAIT})


def _healed_at(candidate: Candidate, end_us: int) -> Candidate:
    """Faults and operations end then."""
    knobs = msgspec.structs.replace(candidate.knobs, duration_us=end_us)
    return msgspec.structs.replace(candidate, knobs=knobs, plan=_until(candidate.plan, end_us))


def _until(plan: Plan, end_us: int) -> Plan:
    """What happens up to a time. Hunts strike when they do."""
    return Plan(
        faults=_before(plan.faults, lambda fault: fault.at_us, end_us),
        operations=_before(plan.operations, lambda one: one.at_us, end_us),
        hunts=plan.hunts,
        fates=_before(plan.fates, lambda fate: fate.second * SECOND, end_us),
    )


def _since(plan: Plan, first_us: int) -> Plan:
    """What happens from a time on. Hunts strike when they do."""
    return Plan(
        faults=tuple(fault for fault in plan.faults or () if fault.at_us >= first_us),
        operations=tuple(one for one in plan.operations or () if one.at_us >= first_us),
        hunts=plan.hunts,
        fates=tuple(fate for fate in plan.fates or () if fate.second * SECOND >= first_us - SECOND),
    )


def _times(plan: Plan) -> list[int]:
    return [
        *(fault.at_us for fault in plan.faults or ()),
        *(one.at_us for one in plan.operations or ()),
        *(fate.second * SECOND for fate in plan.fates or ()),
    ]


def _sooner(plan: Plan, seconds: int) -> Plan:
    """All of it so many seconds earlier."""
    replace, less_us = msgspec.structs.replace, seconds * SECOND
    return Plan(
        faults=tuple(replace(fault, at_us=fault.at_us - less_us) for fault in plan.faults or ()),
        operations=tuple(replace(one, at_us=one.at_us - less_us) for one in plan.operations or ()),
        hunts=plan.hunts,
        fates=tuple(replace(fate, second=fate.second - seconds) for fate in plan.fates or ()),
    )


def _before(entries: Any, at_us: Callable[[Any], int], end_us: int) -> Any:
    return None if entries is None else tuple(entry for entry in entries if at_us(entry) <= end_us)
