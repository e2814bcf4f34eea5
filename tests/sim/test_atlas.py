"""The atlas knows what is damaged and never lets the last good copy go."""

from __future__ import annotations

import pytest

from liftlog.types import OffsetRange, PartitionId, StreamConfig
from liftlog_sim.chance.draws import Draws
from liftlog_sim.chance.fault_plan import Fault
from liftlog_sim.devices.copies import Place, copy_of, places, segment_paths
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.machine import Machine
from liftlog_sim.faults.atlas import FOREVER, WHOLE, Harm, is_metadata, log_of, overlap
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.runs.runs import damaged
from liftlog_sim.runs.step_gear import StepProcess
from liftlog_sim.world import World

pytestmark = pytest.mark.slow


def world_with(
    *,
    minimum: int = 0,
    nodes: int = 3,
    records: int = 10,
    also: tuple[StreamConfig, ...] = (),
    until_us: int = 12 * SECOND,
) -> World:
    stream = StreamConfig("orders", "orders", 1, min(nodes, 3), minimum, segment_records=records)
    knobs = Knobs(nodes=nodes, streams=(stream, *also), tick_ms=100, admin_interval_us=0)
    world = World(1, knobs, StepProcess)
    world.start()
    world.kernel.run_until(until_us)
    return world


def log_in(world: World) -> PartitionId:
    return world.workload.targets[0].partition


def segments(world: World, machine: Machine) -> list[str]:
    found = segment_paths(machine.disk, log_in(world))
    assert len(found) > 3
    return found


def first_batch(machine: Machine, path: str) -> Place:
    return next(places(path, machine.disk.content(path)))


def test_a_damaged_byte_is_known_by_its_offsets() -> None:
    world = world_with()
    machine = world.machines[1]
    path = segments(world, machine)[1]
    batches = list(places(path, machine.disk.content(path)))
    for place in batches:
        harm = world.faults.atlas.harm_of(machine, path, place.position, place.position + 1)
        assert harm is not None and harm.log == log_in(world)
        assert harm.range == OffsetRange(place.base, place.base + place.span)
    both = world.faults.atlas.harm_of(machine, path, batches[0].end - 1, batches[0].end + 1)
    assert both is not None and both.range.start == batches[0].base
    assert both.range.end == batches[1].base + batches[1].span


def test_damage_in_the_last_segment_reaches_to_the_end_of_the_log() -> None:
    world = world_with()
    machine = world.machines[1]
    path = segments(world, machine)[-1]
    harm = world.faults.atlas.harm_of(machine, path, 0, 1)
    assert harm is not None and harm.range.end == FOREVER


def test_derived_files_are_no_copies_and_other_files_are_the_whole_copy() -> None:
    world = world_with()
    machine = world.machines[1]
    folder = segments(world, machine)[0].rpartition("/")[0]
    atlas = world.faults.atlas
    assert atlas.harm_of(machine, "hw", 0, 1) is None
    assert atlas.harm_of(machine, f"{folder}/00000000000000000000.index", 0, 1) is None
    assert atlas.harm_of(machine, f"{folder}/clean", 0, 1) is None
    whole = atlas.harm_of(machine, f"{folder}/start", 0, 1)
    assert whole is not None and whole.range == WHOLE
    assert log_of("streams/7/1/start") == PartitionId(7, 1) and log_of("quarantine/x") is None
    assert is_metadata("vote") and is_metadata("raft/00000000000000000000.log") and not is_metadata("hw")


def test_a_file_struck_before_its_rename_takes_the_damage_along() -> None:
    """Disk profile, seed 502: the output of a compaction was struck before it took its segment's name."""
    world = world_with()
    machine = world.machines[1]
    atlas, disk, path = world.faults.atlas, world.machines[1].disk, segments(world, world.machines[1])[1]
    for suffix in (".tmp", ".new.tmp"):
        content = disk.content(path)
        file = disk.open(path + suffix, create=True)
        file.append([content])
        file.sync()
        place = first_batch(machine, path)
        harm = atlas.harm_of(machine, path + suffix, place.end - 1, place.end)
        assert harm is not None and harm.range == OffsetRange(place.base, place.base + place.span)
        disk.unreadable(path + suffix, place.end - 1, 1)
        atlas.note(machine, harm)
        assert atlas.was_struck(machine, log_in(world))
        assert atlas.harms(machine) == [harm], "the old file is still whole, the new one is not"
        disk.rename(path + suffix, path)
        assert atlas.harms(machine) == [harm]
        disk.rescue()
        disk.flip(path, place.end - 1, 0)
        disk.remove(path)
        file = disk.open(path, create=True)
        file.append([content])
        file.sync()
        assert atlas.harms(machine) == []
    folder = path.rpartition("/")[0]
    start = atlas.harm_of(machine, f"{folder}/start.tmp", 0, 1)
    assert start is not None and start.range == WHOLE
    assert atlas.harm_of(machine, f"{path.removesuffix('.log')}.index.tmp", 0, 1) is None


def test_a_minimum_of_one_covers_nothing() -> None:
    world = world_with(minimum=1)
    atlas = world.faults.atlas
    assert not any(atlas.allows(machine, log_in(world), WHOLE) for machine in world.machines.values())
    assert not any(atlas.allows_disk(machine) for machine in world.machines.values())


def test_no_disk_is_damaged_while_a_stream_of_one_copy_is_still_to_come() -> None:
    """It could be placed there: damage that shows at the next start would take all that there is of it."""
    lone = StreamConfig("lone", "lone", 1, 1)
    world = world_with(also=(lone,), until_us=0)
    machines, allows_disk, waited = world.machines.values(), world.faults.atlas.allows_disk, 0
    for now_ms in range(0, 12_000, 5):
        world.kernel.run_until(now_ms * MILLISECOND)
        newest = world.newest_metadata()
        if newest is not None and "orders" in newest.streams and "lone" not in newest.streams:
            waited += 1
            assert not any(allows_disk(machine) for machine in machines)
    assert waited
    assert sorted(allows_disk(machine) for machine in machines) == [False, True, True]


def test_different_offsets_may_be_damaged_on_two_nodes_but_not_the_same() -> None:
    world = world_with()
    one, two, three = world.machines.values()
    atlas, log = world.faults.atlas, log_in(world)
    path = segments(world, one)[0]
    harm = atlas.harm_of(one, path, 0, 1)
    assert harm is not None and atlas.allows(one, log, harm.range)
    one.disk.flip(path, 0, 1)
    atlas.note(one, harm)
    assert not atlas.allows(two, log, harm.range)
    later = OffsetRange(harm.range.end, harm.range.end + 1)
    assert atlas.allows(two, log, later)
    place = next(p for p in places(path, two.disk.content(path)) if p.base == later.start)
    two.disk.flip(path, place.position, 1)
    atlas.note(two, Harm(2, path, place.position, place.position + 1, log, later))
    assert not atlas.allows(three, log, OffsetRange(500, 501)), "the last whole copy"
    assert not any(atlas.allows_disk(machine) for machine in world.machines.values())
    assert damaged(world) != ""


def test_a_copy_that_is_not_whole_elsewhere_forbids_damage() -> None:
    world = world_with()
    one, two, three = world.machines.values()
    two.kill()
    three.kill()
    assert not world.faults.atlas.allows(one, log_in(world), WHOLE)


def test_damage_counts_until_it_is_overwritten_or_gone() -> None:
    world = world_with()
    machine = world.machines[1]
    atlas = world.faults.atlas
    path = segments(world, machine)[0]
    harm = atlas.harm_of(machine, path, 40, 41)
    assert harm is not None
    machine.disk.flip(path, 40, 1)
    atlas.note(machine, harm)
    assert atlas.harms(machine) == [harm] and machine.damaged_run == machine.restarts
    assert not atlas.registered(machine), "it is still there"
    machine.disk.flip(path, 40, 1)
    assert atlas.harms(machine) == [] and atlas.refresh(machine)
    assert machine.damaged_run == -1


def test_damage_below_the_log_start_counts_while_a_start_would_cut_there_and_is_nothing_to_mend() -> None:
    """A copy that a start then cut was held to have all, and one that nobody reads to be unmended.

    Seeds 2463 and 7540.
    """
    world = world_with()
    machine = world.machines[1]
    atlas, log = world.faults.atlas, log_in(world)
    *_, before_last, last = segments(world, machine)
    for path, counts in ((before_last, False), (last, True)):
        place = first_batch(machine, path)
        harm = atlas.harm_of(machine, path, place.position, place.position + 1)
        assert harm is not None
        machine.disk.flip(path, place.position, 1)
        atlas.note(machine, harm)
        assert harm in atlas.to_mend(machine)
        world.account.log_starts[machine.number, log] = harm.held_below
        assert (harm in atlas.harms(machine)) is counts
        assert atlas.to_mend(machine) == []


def test_nothing_is_damaged_while_no_running_node_knows_what_is_committed() -> None:
    """After a restart of all the partition was not known, and any copy of it could be struck. Seed 7516."""
    world = world_with()
    atlas, log = world.faults.atlas, log_in(world)
    assert atlas.allows(world.machines[1], log, WHOLE)
    for machine in world.machines.values():
        machine.kill()
    for machine in world.machines.values():
        machine.start()
    newest = world.newest_metadata()
    assert newest is not None and newest.applied < world.account.metadata.committed
    assert not any(atlas.allows(machine, log, WHOLE) for machine in world.machines.values())


def test_a_wipe_waits_until_everything_else_is_whole() -> None:
    world = world_with()
    atlas = world.faults.atlas
    machine = world.machines[1]
    assert atlas.allows_disk(machine)
    path = segments(world, world.machines[2])[0]
    harm = atlas.harm_of(world.machines[2], path, 0, 1)
    assert harm is not None
    world.machines[2].disk.flip(path, 0, 1)
    atlas.note(world.machines[2], harm)
    assert not atlas.allows_disk(machine)


@pytest.mark.parametrize(("path", "counter"), [("identity", "metadata refused"), ("vote", "voters renewed")])
def test_damaged_metadata_ends_in_another_disk_or_in_another_voter(path: str, counter: str) -> None:
    """M4: an operator replaces a disk that does not say who it is; one that has only promised goes on."""
    world = world_with(nodes=3)
    victim = next(m for m in world.machines.values() if m.node is not None and not m.node.raft.is_leader)
    assert world.faults.atlas.allows_wipe(victim)
    world.faults.atlas.note_disk(victim)
    victim.disk.flip(path, 20, 2)
    world.faults._apply(Fault(world.kernel.now_us, "kill", str(victim.number), SECOND), None)
    world.kernel.run_until(world.kernel.now_us + 10 * SECOND)
    assert {"metadata refused", "voters renewed"} & set(world.observer.counters) == {counter}
    assert world.observer.counters[counter] == 1
    assert victim.node is not None and victim.damaged_run == -1


@pytest.mark.parametrize("kind", ["flip", "sector", "misdirect", "latent"])
def test_what_a_strike_does_is_what_the_atlas_notes(kind: str) -> None:
    struck = 0
    for ordinal in range(6):
        world = world_with()
        machine = world.machines[1]
        before = {path: machine.disk.content(path) for path in machine.disk.files()}
        fault = Fault(world.kernel.now_us, kind, "1", SECOND, ordinal)
        strike = getattr(world.faults._disks, kind)
        strike(fault, machine, Draws("strike", ordinal))
        machine.disk.evict()
        after = {path: machine.disk.content(path) for path in machine.disk.files()}
        changed = {path for path in before if before[path] != after[path]}
        unread = {path for path, _, _ in machine.disk.harmed()} - changed
        assert kind == "latent" or not unread
        noted = {harm.path for harm in world.faults.atlas.harms(machine)}
        assert {path for path in changed | unread if path.endswith(".log") and log_of(path)} <= noted
        struck += bool(noted)
    assert struck > 0


def test_a_copy_is_read_without_the_damaged_batches() -> None:
    world = world_with()
    machine = world.machines[1]
    whole = copy_of(machine.disk, log_in(world))
    assert len(whole.spans) == 1 and list(whole.records) == list(range(len(whole.records)))
    path = segments(world, machine)[0]
    place = first_batch(machine, path)
    machine.disk.flip(path, place.end - 1, 0)
    damaged_copy = copy_of(machine.disk, log_in(world))
    assert min(damaged_copy.records) == place.span and not damaged_copy.covers(0, place.span)
    assert damaged_copy.covers(place.span, len(whole.records))


def test_ranges_overlap_when_they_share_an_offset() -> None:
    assert overlap(OffsetRange(0, 5), OffsetRange(4, 9)) and not overlap(OffsetRange(0, 5), OffsetRange(5, 9))
