"""What a run is: its options, the phases of a world's life, and its verdict.

The verdict is a `RunResult`. A violation of an invariant ends the run where it is found; what raises it is
described in `truth/invariants.py`. After the fault phase everything is healed and every node started;
then the cluster must within a bounded time have a leader for each partition, all replicas in sync, and
acknowledge new messages, nothing that was damaged may be left, and the replicas are compared
(`runs/comparing.py`).

Nothing here knows a gear: `runs/runner.py` chooses one, and each drives the phases in its own way.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator

import msgspec

from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.records import PartitionState
from liftlog.core.metadata.subjects import listened_to
from liftlog.messages import ConsumersRequest, ElectLeaderRequest
from liftlog.types import PartitionId, StreamConfig
from liftlog_sim.devices.copies import spans_of
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.runs.comparing import compare_copies
from liftlog_sim.runs.mirrored import behind
from liftlog_sim.runs.recounted import untold
from liftlog_sim.runs.sickness import judge_sickness
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.removals import DeletionTruth
from liftlog_sim.workload.inspecting import QuietQuestion
from liftlog_sim.workload.targets import Target
from liftlog_sim.world import World

HEAL_LIMIT_US = 90 * SECOND
OVER_FOR_MS = 2000
"""R24: so long after its time a message is to be gone, when all is whole."""
HEAL_STEP_US = 500 * MILLISECOND
EMPTY_LIMIT_US = 60 * SECOND
"""Within so much simulated time a healed world has nothing left that a consumer has to be given."""


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller may fix of a run; the seed draws the rest."""

    seed: int
    profile: str = ""
    nodes: int = 0
    streams: int = 0
    duration_s: float = 0
    faults: str = "all"
    gear: str = "step"
    mutant: str = ""
    refine: bool = False
    """Check every step against the model (`refine/replicas.py`)."""
    studies: tuple[str, ...] = ()
    """Files with own faults, clients and invariants (`study/own.py`)."""

    def replay_command(self) -> str:
        """The command line that runs exactly this again."""
        parts = ["liftlog sim run", f"--seed {self.seed}"]
        if self.profile:
            parts.append(f"--profile {self.profile}")
        if self.nodes:
            parts.append(f"--nodes {self.nodes}")
        if self.streams:
            parts.append(f"--streams {self.streams}")
        if self.duration_s:
            parts.append(f"--duration {self.duration_s:g}")
        parts.append(f"--faults {self.faults}")
        if self.gear != "step":
            parts.append(f"--gear {self.gear}")
        if self.mutant:
            parts.append(f"--mutant {self.mutant}")
        if self.refine:
            parts.append("--refine")
        parts += [f"--with {shlex.quote(file)}" for file in self.studies]
        return " ".join(parts)


class RunResult(msgspec.Struct, kw_only=True):
    """The outcome of one seed. `invariant` empty = nothing was violated."""

    seed: int
    profile: str
    gear: str
    nodes: int
    streams: int
    invariant: str
    finding: str
    at_s: float
    simulated_s: float
    seconds: float
    events: int
    steps: int
    trace_hash: str
    counters: dict[str, int]
    marks: dict[str, int]
    checks: dict[str, int]
    replay: str
    refined: dict[str, int] = {}
    """What was checked against the model (`refine/replicas.py`); empty if the run was not refined."""
    encounters: dict[str, int] = {}
    """How often which operation came under which fault in which state (`watching/encounters.py`)."""

    @property
    def good(self) -> bool:
        return not self.invariant


Watch = Callable[[World], None]


def phases(world: World) -> Iterator[int]:
    """Drive a world through its life; yields the simulated time up to which to run it next. Raises
    Violation.
    """
    world.start()
    yield world.knobs.duration_us
    judge_sickness(world)
    yield from heal(world)
    yield from empty(world)
    compare_copies(world)
    for look in world.endings:
        look()


def verdict(options: RunOptions, world: World, violation: Violation | None, seconds: float) -> RunResult:
    """The outcome as plain data. What refinement finds in steps that it has noted was first."""
    observer = world.observer
    world.workload.jetstream.end()
    observer.checks.counts["TimePasses"] += world.kernel.events
    if observer.refining is not None:
        try:
            observer.refining.check()
        except Violation as found:
            violation = found
    at_us = violation.at_us if violation is not None and violation.at_us is not None else world.kernel.now_us
    for machine in world.machines.values():
        observer.went_down(machine)
    counters = dict(observer.counters)
    counters["messages"] = world.network.delivered
    counters["messages lost"] = world.network.dropped
    counters["messages duplicated"] = world.network.duplicated
    counters["published"] = world.bus.published
    counters["no responders"] = world.bus.unheard
    counters["committed"] = sum(truth.hw - truth.first for truth in observer.partitions.values())
    return RunResult(
        seed=options.seed,
        profile=world.knobs.profile,
        gear=options.gear,
        nodes=world.knobs.nodes,
        streams=len(world.knobs.streams),
        invariant=violation.invariant if violation else "",
        finding=violation.finding if violation else "",
        at_s=at_us / SECOND,
        simulated_s=world.kernel.now_us / SECOND,
        seconds=seconds,
        events=world.kernel.events,
        steps=observer.busy.steps,
        trace_hash=world.kernel.trace_hash,
        counters=dict(sorted(counters.items())),
        marks=dict(sorted({**observer.marks, **observer.metadata_counts}.items())),
        checks=dict(observer.checks.counts),
        replay=options.replay_command(),
        refined=_refined(world),
        encounters=world.encounters.named(),
    )


def _refined(world: World) -> dict[str, int]:
    """What was held against models."""
    refining, held = world.observer.refining, world.account.held
    found = refining.counters() if refining is not None else {}
    return found | held.counters() if held is not None else found


# -- healing -----------------------------------------------------------------------------------------------


def heal(world: World) -> Iterator[int]:
    """End all faults, then wait until the cluster is whole. Raises Violation(Convergence)."""
    world.faults.end()
    world.workload.stop()
    world.observer.row("heal", "all faults are over")
    world.observer.checks.counts["Convergence"] += 1
    end_us = world.kernel.now_us + HEAL_LIMIT_US
    probes: dict[PartitionId, int] = {}
    untold = {target.partition for target in world.workload.targets if target.config.has_journal}
    problem, invariant = "nothing ran", "Convergence"
    while world.kernel.now_us < end_us:
        yield world.kernel.now_us + HEAL_STEP_US
        _operate(world)
        invariant = "Convergence"
        problem = unhealed(world) or damaged(world)
        if problem:
            continue
        newest = world.newest_metadata()
        world.workload.look_again(newest.streams.values() if newest is not None else ())
        problem = _probe(world, probes)
        if not problem:
            problem, invariant = _not_removed(world)
        problem = problem or _told_of_consumers(world, untold)
        if not problem:
            return
    left = damaged(world)
    raise Violation(
        "DamageRepaired" if left else invariant,
        f"{HEAL_LIMIT_US // SECOND} s after all faults were over: {left or problem}",
    )


def empty(world: World) -> Iterator[int]:
    """Have all consumers given what there is (K6). Raises Violation(Convergence)."""
    emptying = world.workload.emptying
    emptying.start()
    end_us = world.kernel.now_us + EMPTY_LIMIT_US
    while problem := emptying.left() or unhealed(world):
        if world.kernel.now_us >= end_us:
            text = f"{EMPTY_LIMIT_US // SECOND} s after the cluster was whole: {problem}"
            raise Violation("Convergence", text)
        yield world.kernel.now_us + HEAL_STEP_US


def damaged(world: World) -> str:
    """Which damage has not been repaired; empty if there is none."""
    world.observer.checks.counts["DamageRepaired"] += 1
    for machine in world.machines.values():
        world.faults.atlas.refresh(machine)
        for harm in world.faults.atlas.to_mend(machine):
            if not harm.path:
                return f"what node {machine.number} has lost with its disk is not there again"
            return (
                f"node {machine.number} still has bytes {harm.start}..{harm.end - 1} of {harm.path} damaged"
            )
        for replica in machine.node.replicas.values() if machine.node is not None else ():
            if replica.repairs.ranges:
                ranges = ", ".join(str(range) for range in replica.repairs.ranges)
                return f"node {machine.number} has not repaired {ranges} of {replica.id}"
            copy = spans_of(machine.disk, replica.id, world.sealer)
            if not copy.covers(replica.log_start, replica.leo):
                return f"node {machine.number} does not hold all of {replica.id}, only {copy.spans}"
    return ""


def _operate(world: World) -> None:
    """What an operator does where a copy that is missing will never report (R14): elect explicitly.

    Once everybody is back, of the copies that are left the one that reaches furthest is chosen. That must
    lose nothing, since the atlas has left enough copies; `PartitionTruth.elected` sees to it.
    """
    newest = world.newest_metadata()
    if newest is None or any(
        (m.node is None or not m.node.incarnation) and not is_outside(world, m.number)
        for m in world.machines.values()
    ):
        return
    for stream in newest.streams.values():
        for partition in stream.partitions:
            state = newest.partitions[partition]
            if state.leader or state.isr or not any(known.lost for known in state.last_known.values()):
                continue
            chosen = _furthest(state)
            request = ElectLeaderRequest(stream.config.name, partition.index, chosen, True)
            world.observer.count("explicit elections")
            world.clients.request(f"operator/{partition}", chosen, request, lambda reply: None, SECOND)


def _furthest(state: PartitionState) -> int:
    """The copy with the greatest (epoch, LEO) of those that are not lost; any, if all are."""
    known = {node: found for node, found in state.last_known.items() if not found.lost}
    if not known:
        return state.replicas[0]
    return max(known, key=lambda node: (known[node].epoch, known[node].leo))


def _probe(world: World, probes: dict[PartitionId, int]) -> str:
    """Publish one message into each partition until one is acknowledged; what is missing, or nothing."""
    for target in world.workload.targets:
        acked = _answered_up_to(world, target)
        before = probes.get(target.partition)
        if before is None or (acked <= before and world.kernel.now_us % SECOND == 0):
            probes[target.partition] = acked if before is None else before
            world.workload.publish(target, 1, True)
    for target in world.workload.targets:
        if _answered_up_to(world, target) <= probes[target.partition]:
            return f"partition {target.partition} acknowledges nothing"
    # The last commits still have to reach the followers.
    return unhealed(world)


def _over_front(world: World, config: StreamConfig, deletions: DeletionTruth, start: int) -> str:
    newest = world.newest_metadata()
    leader = newest.partitions[deletions.data.id].leader if newest is not None else 0
    return deletions.over_front(config, start, world.machines[leader].clock.wall_ms()) if leader else ""


def _overdue(world: World, _: StreamConfig, deletions: DeletionTruth, start: int) -> str:
    """Over its time by every clock, for a while already."""
    now_ms = min(machine.clock.wall_ms() for machine in world.machines.values()) - OVER_FOR_MS
    return deletions.overdue(start, now_ms)


LeftOf = Callable[[World, StreamConfig, DeletionTruth, int], str]
WAYS: tuple[tuple[str, Callable[[StreamConfig], bool], LeftOf], ...] = (
    (
        "LimitHolds",
        lambda config: config.keeps_of_subject > 0,
        lambda world, config, deletions, start: deletions.over_limit(config.keeps_of_subject, start),
    ),
    ("LimitHolds", lambda config: config.limits_front, _over_front),
    (
        "HoldsNoMore",
        lambda config: config.holds_bytes > 0,
        lambda world, config, deletions, start: deletions.over_full(config.holds_bytes),
    ),
    (
        "RollUpHolds",
        lambda config: config.rolls_up,
        lambda world, config, deletions, start: deletions.left_before(start),
    ),
    ("TtlHolds", lambda config: config.has_ttl, _overdue),
    (
        "WorkQueueHolds",
        lambda config: config.is_queue,
        lambda world, config, deletions, start: deletions.done_and_left(start),
    ),
    (
        "InterestHolds",
        lambda config: config.interest is True,
        lambda world, config, deletions, start: deletions.unwanted(start),
    ),
)
"""In which ways leaders remove messages (R22 to R27): the invariant, of which streams, and what is left that
should be gone, from an offset on; empty if nothing is.
"""


def _not_removed(world: World) -> tuple[str, str]:
    """What is left that a leader should have removed, and which invariant says so; "", if nothing is."""
    for invariant, how, left_of in WAYS:
        for config, deletions, start in _removing(world, how):
            world.observer.checks.counts[invariant] += 1
            problem = left_of(world, config, deletions, start)
            if problem:
                return problem, invariant
    return "", "Convergence"


def _removing(
    world: World, how: Callable[[StreamConfig], bool]
) -> Iterator[tuple[StreamConfig, DeletionTruth, int]]:
    """Of each partition whose leader removes messages so: the stream, what is removed, the furthest start."""
    newest = world.newest_metadata()
    for partition in newest.partitions if newest is not None else ():
        config = newest.by_id[partition.stream].config if newest is not None else None
        if config is not None and how(config) and not config.read_only:
            yield config, world.account.deletions(partition), world.account.furthest_start(partition)


def _told_of_consumers(world: World, untold: set[PartitionId]) -> str:
    """Ask each leader for its consumers until all have told exactly; what is missing, or nothing."""
    for target in world.workload.targets:
        if target.partition in untold:
            _ask_for_consumers(world, target, untold)
    return f"nobody tells of the consumers of {min(untold)}" if untold else ""


def _ask_for_consumers(world: World, target: Target, untold: set[PartitionId]) -> None:
    question = QuietQuestion(world.cluster, world.account, target)

    def answered(reply: object) -> None:
        try:
            if question.exact(reply):
                untold.discard(target.partition)
        except Violation as violation:
            world.account.fail(violation)

    newest = world.newest_metadata()
    leader = newest.partitions[target.partition].leader if newest is not None else 0
    if leader:
        request = ConsumersRequest(target.partition)
        name = f"inspector/{target.partition}"
        world.clients.request(name, leader, request, answered, HEAL_STEP_US)


def _answered_up_to(world: World, target: Target) -> int:
    """Where acks end; where what is committed ends, of a stream that says nothing (N8)."""
    truth = world.observer.truth(target.partition)
    return truth.acked_end if target.config.ack_reply else truth.hw


def _without_vote(world: World) -> str:
    """Which node that is to vote does not (M2); empty if all do."""
    rafts = [machine.node.raft for machine in world.machines.values() if machine.node is not None]
    leader = next((raft for raft in rafts if raft.is_leader), None)
    if leader is None:
        return "nobody leads the metadata group"
    if leader.member not in leader.members.voters:
        return f"node {leader.node} leads the group, whose members are {leader.members.text}"
    newest = world.newest_metadata()
    told = newest.founders if newest is not None else ()
    founders = [node for node, _ in told] or leader.config.voters
    for raft in rafts:
        record = newest.nodes.get(raft.node) if newest is not None else None
        if record is None:
            continue
        votes = raft.may_vote and raft.member in leader.members.voters
        if votes != record.is_to_vote(founders):
            wish = "is not to vote" if votes else "is to vote"
            return f"node {raft.node} {wish}, the group has {leader.members.text}"
    return ""


def is_outside(world: World, number: int) -> bool:
    """I3: whether a machine's node was never added, or was removed."""
    newest = world.newest_metadata()
    if newest is None:
        return False
    joins = number > world.knobs.nodes - world.knobs.joiners
    return newest.is_removed(number) or (joins and number not in newest.admissions)


def _not_retired(newest: Metadata) -> str:
    """I3: which node is still there although nothing keeps it; empty if none is."""
    founders = [node for node, _ in newest.founders]
    for node in newest.nodes.values() if founders else ():
        if not node.retires:
            continue
        kept = newest.replicas_on(node.node)
        if any(node.heir and node.heir not in partition.replicas for partition in kept):
            return f"node {node.node} retires and has copies that node {node.heir} is to have"
        others = [other for other in newest.nodes.values() if other is not node]
        if not kept and any(other.is_to_vote(founders) for other in others):
            return f"node {node.node} retires, keeps nothing, and is there"
    return ""


def unhealed(world: World) -> str:
    """What keeps the cluster from being whole; empty if nothing does."""
    applied = set()
    for machine in world.machines.values():
        node = machine.node
        if is_outside(world, machine.number):
            continue
        if node is None:
            return f"node {machine.number} does not run"
        if not node.incarnation:
            return f"node {machine.number} is not registered"
        applied.add(node.metadata.applied)
    newest = world.newest_metadata()
    assert newest is not None
    if len(applied) != 1:
        return f"metadata is applied up to {sorted(applied)}"
    if problem := _without_vote(world):
        return problem
    if not world.workload.targets and world.knobs.streams:
        return "the streams were never created"
    if problem := _not_retired(newest) or behind(world, newest) or untold(world, newest):
        return problem
    drained = [node.node for node in newest.nodes.values() if node.is_emptied]
    for partition, state in newest.partitions.items():
        kept = [node for node in state.replicas if node in drained]
        if kept and len(newest.nodes) - len(drained) >= len(state.replicas):
            return f"{partition} has copies on {kept}, which are drained"
        if state.target or state.dropping:
            return f"{partition} is moved to {list(state.target)}, to be dropped by {list(state.dropping)}"
        if not state.leader or not state.ready:
            return f"partition {partition} has no ready leader (leader {state.leader}, ISR {list(state.isr)})"
        for subject in listened_to(newest.by_id[partition.stream].config, partition.index):
            if not world.bus.has(state.leader, partition, state.epoch, subject):
                missing = f"no subscription of its leader {state.leader} to {subject!r}"
                return f"{partition} is ready, but NATS has {missing}"
        if sorted(state.isr) != sorted(state.replicas):
            return f"partition {partition} has the ISR {list(state.isr)} of {list(state.replicas)}"
        leader = world.machines[state.leader].node
        assert leader is not None
        if problem := _journal_unhealed(world, state):
            return problem
        if partition not in leader.replicas:
            return f"leader {state.leader} of {partition} has no replica"
        leo = leader.replicas[partition].leo
        roles = leader.replicas[partition].roles
        if roles is not None and roles.leader.ids.on and not roles.leader.ids.whole:
            return f"leader {state.leader} of {partition} has not read which message ids its log has"
        for number in state.replicas:
            node = world.machines[number].node
            replica = node.replicas.get(partition) if node is not None else None
            if replica is None or replica.state != "ready":
                return f"node {number} has no open replica of {partition}"
            if problem := _written_otherwise(world, number, partition):
                return problem
            if replica.hw != leo or replica.leo != leo or replica.durable_leo != leo:
                return (
                    f"node {number} has {partition} up to {replica.hw}/{replica.leo}, the leader up to {leo}"
                )
    return ""


def _journal_unhealed(world: World, state: PartitionState) -> str:
    """Which copy of a partition's journal is not like its leader's, or not heeded; empty if all are."""
    newest = world.newest_metadata()
    assert newest is not None
    if not newest.by_id[state.id.stream].config.has_journal:
        return ""
    ends = set()
    for number in state.replicas:
        node = world.machines[number].node
        replica = node.replicas.get(state.id.journal) if node is not None else None
        if replica is None or replica.state != "ready" or replica.removed is None:
            return f"node {number} has no open journal of {state.id}"
        if not replica.hw == replica.leo == replica.durable_leo == replica.removed.folded:
            return f"node {number} has the journal of {state.id} up to {replica.hw} of {replica.leo}"
        ends.add(replica.leo)
    return f"the journals of {state.id} end at {sorted(ends)}" if len(ends) > 1 else ""


def _written_otherwise(world: World, number: int, partition: PartitionId) -> str:
    """R19: storage writes each log as its stream is configured now; else how it does; empty if so. Or more
    safely: who could not write that it trusts the kernel goes on syncing (D5).
    """
    machine, newest = world.machines[number], world.newest_metadata()
    assert machine.engine is not None and newest is not None
    wanted = newest.by_id[partition.stream].config.options_of(partition)
    found = machine.engine.log_options().get(partition)
    safer = msgspec.structs.replace(wanted, durability="sync")
    return "" if found in (wanted, safer) else f"node {number} writes {partition} with {found}, not {wanted}"
