"""Faults do what they say, and the atlas refuses damage that the protocol does not promise to survive."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from liftlog.types import LiftlogError, StreamConfig
from liftlog_sim.chance.fault_plan import DISK_KINDS, FIRST_DECAY, FIRST_LIE, KINDS, Fault
from liftlog_sim.chance.plan import Plan
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.faults.drawing import draw_plan
from liftlog_sim.faults.faults import BETWEEN_NODES
from liftlog_sim.kernel import SECOND
from liftlog_sim.profiles.profiles import APART, PROFILES, WEIGHTS, draw_knobs, profile_of
from liftlog_sim.runs.runs import unhealed
from liftlog_sim.runs.step_gear import StepProcess
from liftlog_sim.world import World

pytestmark = pytest.mark.slow


def world_with(seed: int = 1, *, minimum: int = 0, nodes: int = 3, replicas: int = 3) -> World:
    stream = StreamConfig("orders", "orders", 1, replicas, minimum, segment_records=10)
    world = World(seed, Knobs(nodes=nodes, streams=(stream,), tick_ms=100, admin_interval_us=0), StepProcess)
    world.start()
    world.kernel.run_until(8 * SECOND)
    return world


def strike(world: World, kind: str, node: int, duration_us: int = SECOND) -> None:
    world.faults._apply(Fault(world.kernel.now_us, kind, str(node), duration_us), None)


def follower_of(world: World) -> int:
    """A node that leads nothing, not even the metadata group."""
    for machine in world.machines.values():
        node = machine.node
        if (
            node is not None
            and not node.raft.is_leader
            and all(r.role != "leader" for r in node.replicas.values())
        ):
            return machine.number
    raise AssertionError("everybody leads something")


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "rollback"])
def test_every_fault_strikes_and_the_cluster_recovers(kind: str) -> None:
    world = world_with(3)
    strike(world, kind, follower_of(world))
    world.kernel.run_until(world.kernel.now_us + 4 * SECOND)
    assert world.observer.counters.get(f"fault {kind}") == 1
    world.faults.end()
    world.workload.stop()
    world.kernel.run_until(world.kernel.now_us + 30 * SECOND)
    assert unhealed(world) == ""


def test_a_node_that_is_alone_has_nobody_to_be_cut_from() -> None:
    world = world_with(3, nodes=1, replicas=1)
    for kind in KINDS:
        if kind != "rollback":
            strike(world, kind, 1, SECOND // 10)
            world.kernel.run_until(world.kernel.now_us + 4 * SECOND)
    assert not [kind for kind in BETWEEN_NODES if f"fault {kind}" in world.observer.counters]
    world.faults.end()
    world.workload.stop()
    world.kernel.run_until(world.kernel.now_us + 30 * SECOND)
    assert unhealed(world) == ""


def test_a_disk_is_set_back_only_to_before_an_earlier_start() -> None:
    stream = StreamConfig("orders", "orders", 1, 3)
    knobs = Knobs(streams=(stream,), tick_ms=100, admin_interval_us=0, faults=(("rollback", 1.0),))
    world = World(5, knobs, StepProcess, plan=Plan(faults=()))
    world.start()
    world.kernel.run_until(6 * SECOND)
    victim = follower_of(world)
    strike(world, "rollback", victim)
    assert "fault rollback" not in world.observer.counters, "no old state is known yet"
    strike(world, "kill", victim)
    strike(world, "rollback", victim)
    assert "fault rollback" not in world.observer.counters, "the state is that of the last run"
    world.kernel.run_until(world.kernel.now_us + 8 * SECOND)
    strike(world, "rollback", victim)
    assert world.observer.counters["fault rollback"] == 1
    world.kernel.run_until(world.kernel.now_us + 8 * SECOND)
    assert world.observer.counters["repairs"] == 1


def test_the_atlas_wipes_a_minority_of_the_voters_until_they_vote_again() -> None:
    world = world_with()
    strike(world, "wipe", follower_of(world))
    world.kernel.run_until(world.kernel.now_us + SECOND)
    for number in world.machines:
        strike(world, "wipe", number)
    assert world.observer.counters["fault wipe"] == 1
    world.kernel.run_until(world.kernel.now_us + 10 * SECOND)
    for number in world.machines:
        strike(world, "wipe", number)
    assert world.observer.counters["fault wipe"] == 2


@pytest.mark.parametrize("nodes", [3, 5])
def test_M2_each_disk_is_lost_in_turn_twice_round_and_each_node_votes_again(nodes: int) -> None:
    """Each time the cluster is whole again, and in the end no voter is one of the first."""
    world = world_with(nodes=nodes)
    first = [machine.recovered.identity for machine in world.machines.values() if machine.recovered]
    for turn in range(2 * nodes):
        node = world.machines[turn % nodes + 1].node
        if node is not None and node.raft.is_leader:
            # The atlas asks for a controller among the others.
            strike(world, "stop", node.config.node)
            become_whole(world)
        strike(world, "wipe", turn % nodes + 1)
        assert world.observer.counters["fault wipe"] == turn + 1
        become_whole(world)
    rafts = [machine.node.raft for machine in world.machines.values() if machine.node is not None]
    members = next(raft.members for raft in rafts if raft.is_leader)
    assert len(members.voters) == nodes and not members.learners
    assert not {one.votes_as for one in first} & {voter.disk for voter in members.voters}


def become_whole(world: World) -> None:
    """Every node votes and every copy is in sync; that one lags by some records does not matter."""
    for _ in range(60):
        world.kernel.run_until(world.kernel.now_us + SECOND)
        lacks = unhealed(world)
        if (not lacks or " up to " in lacks) and all(m.damaged_run < 0 for m in world.machines.values()):
            return
    raise AssertionError(lacks)


def test_a_plan_follows_from_the_seed_and_one_fault_can_be_left_out() -> None:
    knobs = draw_knobs(3, profile="mixed")
    plan = draw_plan(3, knobs)
    assert plan == draw_plan(3, knobs) and plan
    faults = [fault.ordinal for fault in plan if fault.ordinal < FIRST_LIE]
    lies = [fault.ordinal for fault in plan if fault.ordinal >= FIRST_LIE]
    assert sorted(faults) == list(range(len(faults))), "each draws for itself, whatever else is planned"
    assert sorted(lies) == list(range(FIRST_LIE, FIRST_LIE + len(lies)))
    assert plan[4:] == draw_plan(3, knobs)[4:]


def test_indexes_decay_beside_the_other_faults() -> None:
    """A third of the disk profile's worlds; what else strikes there is drawn as without."""
    worlds = {seed: draw_knobs(seed, profile="disk") for seed in range(20)}
    seed, decaying = next((seed, knobs) for seed, knobs in worlds.items() if knobs.index_decay_us)
    assert any(not knobs.index_decay_us for knobs in worlds.values())
    assert not any(draw_knobs(seed, profile="power").index_decay_us for seed in worlds)
    assert not draw_knobs(seed, profile="disk", faults="none").index_decay_us
    plan, without = draw_plan(seed, decaying), draw_plan(seed, replace(decaying, index_decay_us=0))
    assert [fault for fault in plan if fault.ordinal < FIRST_DECAY] == without
    decays = [fault for fault in plan if fault.ordinal >= FIRST_DECAY]
    assert len(decays) > 30 and {fault.kind for fault in decays} == {"index_decay"}


def test_healing_takes_everything_back() -> None:
    world = world_with()
    for kind in ("isolate", "cut_bus", "slow_node", "storm", "pause", "full_disk", "slow_disk"):
        strike(world, kind, 2, 1000 * SECOND)
    world.faults.end()
    assert world.network.is_whole() and not world.bus.is_cut(2)
    assert world.network.options.loss == 0.0
    assert not world.machines[2].paused and not world.machines[2].disk.full


def test_a_restored_disk_has_exactly_the_old_content() -> None:
    world = world_with()
    machine = world.machines[2]
    old = machine.disk.image()
    world.kernel.run_until(world.kernel.now_us + 3 * SECOND)
    machine.kill()
    machine.disk.restore(old)
    machine.lose_power()
    assert machine.disk.image() == old


def test_every_profile_is_drawn_by_some_seed() -> None:
    drawn = [profile_of(seed) for seed in range(1000)]
    assert sorted(set(drawn)) == sorted(name for name, _ in (*WEIGHTS, *APART)) == sorted(PROFILES)
    assert draw_knobs(17).profile == profile_of(17)


def test_a_choice_of_faults_is_obeyed_and_checked() -> None:
    assert draw_knobs(1, faults="none").faults == ()
    assert [kind for kind, _ in draw_knobs(1, faults="kill,power").faults] == ["kill", "power"]
    assert draw_knobs(1, faults="wipes").profile == "wipes"
    assert [kind for kind, _ in draw_knobs(1, faults="disk,kill").faults] == ["kill", *DISK_KINDS]
    disk = dict(draw_knobs(1, faults="disk").faults)
    assert set(disk) >= {*DISK_KINDS, "power", "kill", "crash_inside"}
    with pytest.raises(LiftlogError, match="no fault 'fire'"):
        draw_knobs(1, faults="kill,fire")
    with pytest.raises(LiftlogError, match="no fault profile 'fire'"):
        draw_knobs(1, profile="fire")


def test_given_numbers_replace_drawn_ones() -> None:
    knobs = draw_knobs(1, nodes=5, streams=3, duration_s=12.5)
    assert knobs.nodes == 5 and len(knobs.streams) == 3 and knobs.duration_us == 12_500_000
    alone = draw_knobs(2, nodes=1)
    assert all(stream.replication_factor == 1 for stream in alone.streams)
