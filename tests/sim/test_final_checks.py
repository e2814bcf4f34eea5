"""The checks after healing can fail: a cluster that is whole is doctored in one place."""

from __future__ import annotations

from functools import cache

import msgspec
import pytest

from liftlog.format import encode_records
from liftlog.messages import ConfigureLog
from liftlog.types import PartitionId, Record, StreamConfig
from liftlog_sim.devices.copies import segment_paths
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.kernel import SECOND
from liftlog_sim.runs.comparing import _compare_values, compare_copies
from liftlog_sim.runs.runs import damaged, heal, phases, unhealed
from liftlog_sim.runs.step_gear import StepProcess
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.world import World


def whole_world(seed: int, *streams: StreamConfig) -> World:
    """A healthy cluster with some records on every replica. `streams`: else the usual one."""
    usual = Knobs(duration_us=10 * SECOND, tick_ms=100, admin_interval_us=0)
    knobs = msgspec.structs.replace(usual, streams=streams or usual.streams)
    world = World(seed, knobs, StepProcess)
    for end_us in phases(world):
        world.kernel.run_until(end_us)
    assert unhealed(world) == ""
    return world


@cache
def partition_of(world: World) -> PartitionId:
    return world.workload.targets[0].partition


def test_a_whole_cluster_passes() -> None:
    compare_copies(whole_world(1))


def test_convergence_fails_when_a_node_does_not_run() -> None:
    world = whole_world(2)
    world.machines[2].kill()
    assert unhealed(world) == "node 2 does not run"


def test_convergence_fails_when_a_replica_stays_behind() -> None:
    world = whole_world(3)
    node = world.machines[2].node
    assert node is not None
    node.replicas[partition_of(world)].log.hw -= 1
    assert unhealed(world).startswith(f"node 2 has {partition_of(world)} up to")


def test_convergence_fails_when_a_log_is_written_otherwise_than_configured() -> None:
    """R19"""
    world = whole_world(3)
    engine = world.machines[2].engine
    assert engine is not None
    wanted = engine.log_options()[partition_of(world)]
    other = msgspec.structs.replace(wanted, segment_bytes=wanted.segment_bytes + 1)
    engine.write([ConfigureLog(partition_of(world), other)])
    assert unhealed(world).startswith(f"node 2 writes {partition_of(world)} with")
    engine.write([ConfigureLog(partition_of(world), wanted)])
    assert unhealed(world) == ""


def test_a_log_that_syncs_though_it_need_not_is_no_failure_of_convergence() -> None:
    """Seed 1104: a copy was created anew, and the disk refused to note that its stream trusts the kernel."""
    stream = StreamConfig("s0", "s0.in", 1, 3, durability="os")
    world = whole_world(3, stream)
    engine = world.machines[2].engine
    assert engine is not None
    wanted = engine.log_options()[partition_of(world)]
    assert wanted.durability == "os"
    engine.write([ConfigureLog(partition_of(world), msgspec.structs.replace(wanted, durability="sync"))])
    assert unhealed(world) == ""


def test_convergence_fails_when_the_cluster_cannot_heal() -> None:
    world = World(4, Knobs(duration_us=2 * SECOND, tick_ms=100), StepProcess)
    world.start()
    world.kernel.run_until(SECOND)
    with pytest.raises(Violation) as caught:
        for end_us in heal(world):
            for number in (1, 2):
                world.machines[number].kill()
            world.kernel.run_until(end_us)
    assert caught.value.invariant == "Convergence"


def test_replicas_equal_fails_when_a_copy_cannot_be_read() -> None:
    world = whole_world(5)
    partition = partition_of(world)
    disk = world.machines[3].disk
    path = next(path for path in disk.files() if path.startswith("streams/") and disk.content(path))
    disk.flip(path, 70, 3)
    with pytest.raises(Violation) as caught:
        compare_copies(world)
    assert caught.value.invariant == "ReplicasEqual"
    assert str(partition) in caught.value.finding


def test_replicas_equal_fails_when_a_copy_is_shorter() -> None:
    world = whole_world(6)
    node = world.machines[3].node
    assert node is not None
    replica = node.replicas[partition_of(world)]
    replica.log.leo = replica.log.cache.batches[-1].base_offset
    with pytest.raises(Violation) as caught:
        compare_copies(world)
    assert caught.value.invariant == "ReplicasEqual"


def test_no_acked_record_lost_fails_when_an_acknowledged_value_is_elsewhere() -> None:
    world = whole_world(7)
    acked = world.workload.acked[partition_of(world)]
    offset = next(iter(acked))
    acked[offset] = b"something else"
    with pytest.raises(Violation) as caught:
        compare_copies(world)
    assert caught.value.invariant == "NoAckedRecordLost"


def test_damage_repaired_fails_while_a_damaged_batch_is_there_and_while_its_offsets_are_missing() -> None:
    world = whole_world(8)
    assert damaged(world) == ""
    machine, log = world.machines[3], partition_of(world)
    path = segment_paths(machine.disk, log)[0]
    harm = world.faults.atlas.harm_of(machine, path, 70, 71)
    assert harm is not None
    machine.disk.flip(path, 70, 3)
    assert damaged(world).startswith("node 3 does not hold all of")
    world.faults.atlas.note(machine, harm)
    assert damaged(world).startswith("node 3 still has bytes 70..70 of")


def test_no_resurrection_fails_when_two_copies_have_other_values_of_a_key() -> None:
    world = whole_world(9)
    log = partition_of(world)
    newest = world.newest_metadata()
    assert newest is not None
    state = newest.partitions[log]
    keyed = [Record(0, 1, b"s", b"", b"", b"k", value) for value in (b"v", b"w", b"v")]
    copies = [[(encode_records(log, 1, [record]), [record])] for record in keyed]
    with pytest.raises(Violation) as caught:
        _compare_values(world, state, copies)
    assert caught.value.invariant == "NoResurrection" and "b'k'" in caught.value.finding
