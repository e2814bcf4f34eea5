"""What the simulator once found, as small directed stories: each test is named for what it guards.

Seeds drift when profiles change, so the stories are told by faults at stated moments, not by the seeds that
first showed them.
"""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import cast

import pytest

from liftlog.core.replica.replica import Replica
from liftlog.core.replica.state.log import READY
from liftlog.messages import (
    AppendRequest,
    CreateStreamRequest,
    DeleteStreamRequest,
    FetchReply,
    Forward,
    PurgeRequest,
    StorageFailed,
    TrashLog,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.protocolranges import SPANS_OF_UNCOMMITTED
from liftlog.storage.layout import IDENTITY, VOTE, log_directory
from liftlog.storage.logstate import start_path
from liftlog.types import NO_TICKET, GroupMember, LogSummary, Members, PartitionId, StreamConfig, TailState
from liftlog_sim.chance.draws import Draws
from liftlog_sim.chance.fault_plan import Fault
from liftlog_sim.chance.plan import Plan
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.machine import Machine
from liftlog_sim.devices.options import StorageTimes
from liftlog_sim.faults.atlas import WHOLE, Harm
from liftlog_sim.kernel import MILLISECOND, SECOND
from liftlog_sim.profiles.profiles import draw_knobs
from liftlog_sim.runs.comparing import compare_copies
from liftlog_sim.runs.runs import heal, unhealed
from liftlog_sim.runs.step_gear import StepProcess
from liftlog_sim.truth.authors import FOR_EVER_US
from liftlog_sim.truth.invariants import Checks, Violation
from liftlog_sim.watching.failures import Failures
from liftlog_sim.watching.log_starts import LogStarts
from liftlog_sim.watching.silence import ProcessContact
from liftlog_sim.workload.workload import CREATE_TIMEOUT_US
from liftlog_sim.world import World


def new_world(seed: int, **changes: object) -> World:
    fixed: dict[str, object] = {"duration_us": 60 * SECOND, "tick_ms": 100, "admin_interval_us": 0}
    plan, mutants = changes.pop("plan", None), changes.pop("mutants", NO_MUTANTS)
    knobs = Knobs(**{**fixed, **changes})  # type: ignore[arg-type]
    world = World(seed, knobs, StepProcess, mutants, plan=plan)  # type: ignore[arg-type]
    world.start()
    return world


def run(world: World, duration_us: int) -> None:
    world.kernel.run_until(world.kernel.now_us + duration_us)


def strike(world: World, kind: str, node: int, duration_us: int = SECOND) -> None:
    world.faults._apply(Fault(world.kernel.now_us, kind, str(node), duration_us), None)


def finish(world: World) -> None:
    """Heal, converge, compare: raises a Violation if anything is wrong."""
    for end_us in heal(world):
        world.kernel.run_until(end_us)
    compare_copies(world)


def partition_of(world: World) -> PartitionId:
    return world.workload.targets[0].partition


def replica_on(world: World, number: int) -> Replica:
    node = world.machines[number].node
    assert node is not None
    return node.replicas[partition_of(world)]


def follower(world: World) -> int:
    for number, machine in world.machines.items():
        node = machine.node
        assert node is not None
        if not node.raft.is_leader and replica_on(world, number).role == "follower":
            return number
    raise AssertionError("no follower")


def test_a_stream_asked_for_while_the_cluster_starts_gets_a_leader() -> None:
    world = new_world(1, streams=())
    request = CreateStreamRequest(StreamConfig("early", "early", 1, 3))

    def ask(first: object, second: object) -> None:
        """Every node, all the time, though not as often as makes work for all of its time (Busy): one of the
        requests comes when nodes are registered but not yet live.
        """
        for number in world.machines:
            world.clients.request("test", number, request, lambda reply: None, CREATE_TIMEOUT_US)

    for at_ms in range(0, 2500, 10):
        world.kernel.at(at_ms * MILLISECOND, ask)
    run(world, 20 * SECOND)
    newest = world.newest_metadata()
    assert newest is not None and newest.partitions
    assert all(state.leader and state.ready for state in newest.partitions.values())
    finish(world)


def test_a_late_registration_of_an_earlier_run_does_not_fence_the_running_one() -> None:
    world = new_world(2)
    run(world, 5 * SECOND)
    victim = follower(world)
    machine = world.machines[victim]
    for peer in world.machines:
        if peer != victim:
            world.network.hold(victim, peer, Forward, world.kernel.now_us + 6 * SECOND)
    strike(world, "kill", victim, 10 * MILLISECOND)
    run(world, SECOND)
    assert machine.node is not None and machine.node.incarnation == 0, "its registration is on its way"
    strike(world, "kill", victim, 10 * MILLISECOND)
    world.network.heal()
    run(world, 12 * SECOND)
    newest = world.newest_metadata()
    assert newest is not None and machine.node is not None
    assert newest.nodes[victim].incarnation == machine.node.incarnation > 0
    assert newest.nodes[victim].state == "live"
    assert newest.counts.get("I2.stale-registration", 0) >= 1, "the late one came, and was refused"
    assert "stops" not in world.observer.counters
    finish(world)


def test_a_log_that_could_not_be_created_is_created_when_there_is_space() -> None:
    world = new_world(3)
    run(world, 900 * MILLISECOND)
    world.machines[3].disk.fail_next("append", matching="streams/")
    world.machines[3].disk.fail_next("make_directory", matching="streams/")
    run(world, 12 * SECOND)
    assert replica_on(world, 3).state == "ready"
    finish(world)


def test_a_folder_whose_sync_failed_is_not_taken_for_durable() -> None:
    world = new_world(4)
    run(world, 900 * MILLISECOND)
    world.machines[3].disk.fail_next_sync("streams/")
    run(world, 10 * SECOND)
    assert replica_on(world, 3).durable_leo > 0
    strike(world, "power", 3)
    run(world, 3 * SECOND)
    finish(world)


def test_a_rebuild_is_not_repeated_while_a_slow_disk_still_works_on_it() -> None:
    world = new_world(5, storage_times=StorageTimes(50, 700, 0))
    run(world, 6 * SECOND)
    victim = follower(world)
    strike(world, "sync_failure", victim)
    while replica_on(world, victim).state != "failed":
        run(world, 50 * MILLISECOND)
    storage = world.machines[victim].storage
    assert storage is not None
    # Something is written, and then the disk takes its time over the sync in front of the rebuild.
    storage.slowness = 100_000
    run(world, 8 * SECOND)
    storage.slowness = 1
    run(world, 5 * SECOND)
    assert replica_on(world, victim).state == "ready"
    assert world.observer.counters["rebuilds"] <= 2
    finish(world)


def test_a_rebuilt_copy_that_lost_more_than_its_leader_knows_is_not_taken_back_unseen() -> None:
    world = new_world(6, scrub_bytes_per_s=0)
    run(world, 8 * SECOND)
    victim = follower(world)
    machine = world.machines[victim]
    partition = partition_of(world)
    path = next(p for p in machine.disk.files() if p.startswith("streams/") and machine.disk.content(p))
    machine.disk.flip(path, 100, 1)
    machine.damaged_run = machine.restarts
    strike(world, "sync_failure", victim)
    run(world, 6 * SECOND)
    newest = world.newest_metadata()
    assert newest is not None and machine.node is not None
    assert machine.node.ctx.marks.get("D2.shortfall", 0) == 1
    assert newest.partitions[partition].epoch > 1, "old fetches of the copy count no more"
    finish(world)


def test_copies_beside_the_elected_one_are_remembered_in_case_it_is_damaged() -> None:
    """All three fail at once, one of them with a rotten file: the sound ones must not be forgotten."""
    world = new_world(8, scrub_bytes_per_s=0)
    run(world, 8 * SECOND)
    newest = world.newest_metadata()
    assert newest is not None
    rotten, sound, down = newest.partitions[partition_of(world)].replicas
    machine = world.machines[rotten]
    path = next(p for p in machine.disk.files() if p.startswith("streams/") and machine.disk.content(p))
    machine.disk.flip(path, 100, 1)
    machine.damaged_run = machine.restarts
    strike(world, "kill", down, 12 * SECOND)
    run(world, 4 * SECOND)
    for number in (rotten, sound):
        world.machines[number].disk.fail_next_sync("streams/")
    run(world, 6 * SECOND)
    assert newest.counts.get("R14.last-known", 0) >= 1
    assert machine.node is not None and machine.node.ctx.marks.get("D2.shortfall", 0) == 1
    finish(world)


def test_an_answer_to_an_earlier_run_cuts_nothing() -> None:
    """A fetch answer that was under way when its node died reaches the node's next run."""
    world = new_world(7)
    run(world, 6 * SECOND)
    victim = follower(world)
    leader = next(number for number in world.machines if replica_on(world, number).role == "leader")
    before = world.network.delivered
    world.network.hold(leader, victim, FetchReply, world.kernel.now_us + 3 * SECOND)
    run(world, SECOND)
    strike(world, "kill", victim, 20 * MILLISECOND)
    run(world, 6 * SECOND)
    assert world.network.delivered > before
    finish(world)


def test_a_disk_that_is_set_back_to_a_damaged_copy_of_itself_is_still_damaged() -> None:
    """The copy was taken while a state file was damaged: who forgets that blames storage for it."""
    world = new_world(9, scrub_bytes_per_s=0, faults=(("rollback", 1),), plan=Plan(faults=()))
    run(world, 8 * SECOND)
    machine = world.machines[follower(world)]
    partition = partition_of(world)
    path = start_path(partition)
    size = len(machine.disk.content(path))
    harm = world.faults.atlas.harm_of(machine, path, 0, size)
    assert harm is not None
    machine.disk.overwrite(path, 0, bytes(size))
    world.faults.atlas.note(machine, harm)
    strike(world, "kill", machine.number)
    run(world, 10 * SECOND)
    newest = world.newest_metadata()
    assert newest is not None and machine.number in newest.partitions[partition].isr
    assert not machine.disk.harmed()
    strike(world, "rollback", machine.number)
    assert world.observer.counters["fault rollback"] == 1
    assert [path for path, _, _ in machine.disk.harmed()] == [path]
    run(world, 5 * SECOND)
    finish(world)


def test_a_copy_that_is_begun_anew_begins_where_its_stream_does() -> None:
    """Not at 0, which was taken for the sign of a new log: its disk was set back, and its log
    had been cut off in front.
    """
    stream = StreamConfig("orders", "orders", 1, 3, segment_bytes=1024, retention_bytes=2048, first_offset=7)
    world = new_world(11, streams=(stream,), faults=(("rollback", 1),), plan=Plan(faults=()))
    run(world, 10 * SECOND)
    victim = follower(world)
    strike(world, "kill", victim)
    run(world, 10 * SECOND)
    assert world.observer._log_starts._starts[victim, partition_of(world)] > 7
    strike(world, "rollback", victim)
    assert world.observer.counters["fault rollback"] == 1
    run(world, 5 * SECOND)
    finish(world)


@pytest.mark.parametrize("emptied", [False, True])
def test_a_folder_that_is_lost_in_the_run_that_made_the_stream_is_not_an_empty_log(emptied: bool) -> None:
    """With one replica nobody else knows: it must not lead again from offset 0 as if nothing had been."""
    stream = StreamConfig("alone", "alone", 1, 1)
    world = new_world(10, streams=(stream,), faults=(), plan=Plan(faults=()))
    run(world, 10 * SECOND)
    newest = world.newest_metadata()
    assert newest is not None
    state = newest.partitions[partition_of(world)]
    machine = world.machines[state.leader]
    confirmed = newest.nodes[machine.number].confirmed
    assert world.observer.truth(state.id).hw > 0
    strike(world, "kill", machine.number)
    for path in machine.disk.files_below("streams/") if emptied else ["streams"]:
        machine.disk.vanish(path)
    harm = Harm(machine.number, start_path(state.id), 0, 0, state.id, WHOLE)
    world.faults.atlas.note(machine, harm)
    run(world, 8 * SECOND)
    newest = world.newest_metadata()
    assert newest is not None
    assert confirmed < newest.nodes[machine.number].confirmed, "it is back"
    state = newest.partitions[state.id]
    assert (state.leader, state.last_known[machine.number].lost) == (0, True)
    assert newest.counts["M4.lost"] == 1
    assert "no ready leader" in unhealed(world)


def test_a_full_disk_under_the_metadata_does_not_end_a_node() -> None:
    """D5: it votes for nobody, acknowledges nothing that is not stored, and goes on when there is space."""
    world = new_world(11, faults=(), plan=Plan(faults=()))
    run(world, 8 * SECOND)
    newest = world.newest_metadata()
    assert newest is not None
    leads = next(one for one in world.machines.values() if one.node and one.node.raft.is_leader)
    process = leads.process
    strike(world, "full_disk", leads.number, 12 * SECOND)
    strike(world, "kill", next(number for number in world.machines if number != leads.number), SECOND)
    run(world, 10 * SECOND)
    assert leads.process is process and leads.node is not None and leads.node.ctx.stalled
    assert leads.node.marks["D5.metadata"] >= 1 and not leads.node.raft.is_leader
    others = [machine.node for machine in world.machines.values() if machine is not leads]
    assert any(node is not None and node.raft.is_leader for node in others)
    held = leads.node.raft.durable_index
    assert held < leads.node.raft.raft_log.last_index or leads.node.raft.commit > held
    run(world, 6 * SECOND)
    assert leads.process is process and leads.node is not None and not leads.node.ctx.stalled
    assert leads.node.raft.durable_index > held
    finish(world)


def purge(world: World, before: int) -> None:
    """Every copy's log begins at `before`, or at the batch that holds it."""
    partition = partition_of(world)
    world.observer.truth(partition).purge_asked = before
    for number in world.machines:
        request = PurgeRequest(partition, before)
        world.clients.request("test", number, request, lambda reply: None, CREATE_TIMEOUT_US)


def test_a_lost_copy_that_was_begun_anew_at_its_leaders_log_start_is_whole() -> None:
    """Disk profile, seed 2316: nobody heard of where the reset made the log begin, and so the offsets below
    it counted as still missing.
    """
    world = new_world(11, faults=(), plan=Plan(faults=()))
    run(world, 8 * SECOND)
    partition, machine = partition_of(world), world.machines[follower(world)]
    purge(world, world.observer.truth(partition).hw - 3)
    run(world, 2 * SECOND)
    strike(world, "kill", machine.number)
    machine.disk.vanish(log_directory(partition))
    harm = Harm(machine.number, start_path(partition), 0, 0, partition, WHOLE)
    world.faults.atlas.note(machine, harm)
    assert world.faults.atlas.harms(machine) == [harm], "its records are nowhere"
    run(world, 8 * SECOND)
    assert world.observer.counters["log resets"] == 1
    replica = replica_on(world, machine.number)
    assert world.account.log_starts[machine.number, partition] == replica.log_start > 0
    assert world.faults.atlas.harms(machine) == []
    finish(world)


@pytest.mark.parametrize("mutants", [NO_MUTANTS, Mutants(damaged_end_kept=True)], ids=["clean", "planted"])
def test_R6_damaged_end_a_copy_that_lost_all_of_an_epoch_gives_it_up(mutants: Mutants) -> None:
    """Profile failures, seed 0: nothing tells the copy which epoch its end was of, so it asked for ever."""
    streams = (StreamConfig("s0", "s0.in", 1, 3, segment_records=10),)
    changes = {"publish_interval_us": 250 * MILLISECOND, "lag_ticks": 6}
    world = new_world(23, streams=streams, hunt_tail=1.0, mutants=mutants, plan=Plan(faults=()), **changes)
    run(world, 8 * SECOND)
    leader = next(number for number in world.machines if replica_on(world, number).role == "leader")
    strike(world, "kill", leader, 600 * MILLISECOND)
    if mutants.damaged_end_kept:
        with pytest.raises(Violation, match=r"HonestHeard: node . refuses FetchReply .* below the committed"):
            run(world, 20 * SECOND)
        return
    run(world, 20 * SECOND)
    assert world.observer.counters["fault sector"] >= 1
    nodes = [machine.node for machine in world.machines.values()]
    assert sum(node.marks.get("R6.damaged-end", 0) for node in nodes if node is not None) >= 1
    finish(world)


def test_a_copy_that_was_destroyed_with_its_disk_begins_at_the_front_again() -> None:
    """Mixed profile, seed 13: a write had failed before the log was opened on the new disk, so that nobody
    saw it empty, and it was held to where the destroyed one began.
    """
    world = new_world(11, faults=(), plan=Plan(faults=()))
    partition, machine = PartitionId(6, 0), world.machines[1]
    starts = LogStarts(world.cluster, world.account)
    for exempt, expected in ((False, 20), (True, 0)):
        world.account.log_starts[1, partition] = 20
        world.account.log_starts[2, partition] = 20
        starts.began(machine, [], exempt)
        assert world.account.log_starts == {(1, partition): expected, (2, partition): 20}


def test_a_copy_that_went_to_the_trash_is_found_where_another_one_was_begun() -> None:
    """Seed 8616: a partition moved away from a node, and came back. The sync of the new log failed before it
    was set to where its stream begins, and the next process found it empty from 0 on.
    """
    world = new_world(11, faults=(), plan=Plan(faults=()))
    partition, machine = PartitionId(6, 0), world.machines[1]
    starts = LogStarts(world.cluster, world.account)
    world.account.log_starts[1, partition] = 100
    summary = LogSummary(partition, 0, 0, 0, (), TailState.CLEAN)
    with pytest.raises(Violation, match="LogStartMonotone"):
        starts.opened(machine, summary, False)
    starts.trashed(machine, TrashLog(partition))
    starts.opened(machine, summary, False)


@pytest.mark.parametrize("refused", [False, True])
def test_a_sync_that_fails_when_a_write_was_refused_before_has_nothing_to_tell(refused: bool) -> None:
    """Seed 2720: on a full disk a follower's copy had stopped, with all that was durable; then the sync of
    what it had cut failed. It went on in a new file with as much, and the group had not heard of anything.
    """
    world = new_world(5, faults=(), plan=Plan(faults=()))
    world.kernel.run_until(8 * SECOND)
    failures = Failures(world.cluster, world.account)
    machine, copy = next(
        (machine, replica)
        for machine in world.machines.values()
        if machine.node is not None
        for replica in machine.node.replicas.values()
        if replica.role == "follower"
    )
    failures.began(machine)
    failures.opened(machine, LogSummary(copy.id, 0, 0, 0, (), TailState.CLEAN))
    if refused:
        copy.storage_failed(StorageFailed(copy.id, NO_TICKET, False, "no space"))
        failures.failed(machine, StorageFailed(copy.id, NO_TICKET, False, "no space"))
    failures.failed(machine, StorageFailed(copy.id, NO_TICKET, True, "input/output error"))
    copy.log.state = READY
    with nullcontext() if refused else pytest.raises(Violation, match="FailureHeard"):
        failures.look(machine)


@pytest.mark.parametrize("voters", [1, 3])
def test_the_only_voter_is_in_contact_as_long_as_it_is_in_office(voters: int) -> None:
    """Seed 8008: its metadata could not be stored any more, and it served on for as long as it was granted,
    counted from its last step in office; the simulator counted from the last message that it had taken.
    """
    world = new_world(5, faults=(), plan=Plan(faults=()))
    own, now_ms = GroupMember(1, "a"), 1000.0
    members = Members((own, GroupMember(2, "b"), GroupMember(3, "c"))[:voters], ())
    office = SimpleNamespace(in_office=True)
    raft = SimpleNamespace(term=4, member=own, members=members, leadership=office)
    clock = SimpleNamespace(monotonic_ms=lambda: now_ms)
    machine = SimpleNamespace(number=1, clock=clock, knobs=world.knobs, node=SimpleNamespace(raft=raft))
    contact = ProcessContact(cast(Machine, machine), Checks())
    contact.begin()
    for round in range(3):
        now_ms += 500
        for _ in range(2):
            contact.sent(AppendRequest(4, 1, 0, 0, 0, round, []))
    raft.leadership = None
    now_ms += 500
    if voters == 1:
        contact.check("takes a message")
        now_ms += 2000
    with pytest.raises(Violation, match="FencedInTime: node 1 takes a message"):
        contact.check("takes a message")


@pytest.mark.parametrize("lost", ["", "all", VOTE, IDENTITY])
def test_a_disk_of_a_twin_that_is_lost_itself_is_not_judged(lost: str) -> None:
    """Seed 7517: the node had an empty disk when its own was brought back, and the simulator failed. It did
    where what the group had promised, or whose disk it is, had decayed, too.
    """
    world = new_world(31, faults=(), plan=Plan(faults=()))
    run(world, 5 * SECOND)
    draws = Draws("twin")
    assert world.faults.total_loss._twins.strike(draws).startswith("node ")
    (number,) = world.faults.total_loss._twins._own
    run(world, SECOND)
    if lost:
        world.machines[number].kill()
    if lost == "all":
        world.machines[number].disk.wipe()
    elif lost:
        world.machines[number].disk.flip(lost, 9, 1)
    run(world, 5 * SECOND)
    assert world.account.checks.counts["OldMemberKept"] == (not lost)
    node = world.machines[number].node
    assert node is not None and node.incarnation
    finish(world)


def test_no_world_lets_more_proposals_be_under_way_than_its_span_lets_through() -> None:
    """Seed 5118: commands meant something for 12 entries, and 64 could be uncommitted. Once over 12 were,
    each was too old at its turn, was said again, and kept the next ones waiting, for ever.
    """
    profiles = ("commands", "snapshots", "")
    drawn = [draw_knobs(seed, profile=profile) for profile in profiles for seed in range(60)]
    assert all(SPANS_OF_UNCOMMITTED * one.proposals_max <= one.proposal_span for one in drawn)
    assert min(one.proposal_span for one in drawn) == 12 and max(one.proposals_max for one in drawn) == 1024


def test_the_last_probe_is_acked_where_every_subject_is_full_for_good() -> None:
    """Seed 6713: a stream refused a second message of each subject, and an operator had altered its age limit
    away. Nothing that the simulator's last probe could say was there to be taken.
    """
    stream = StreamConfig("s0", "s0.in.*", 1, 3, removal=True, subject_messages_max=1, retention_ms=0)
    world = new_world(7, faults=(), streams=(stream,), plan=Plan(faults=()))
    run(world, 20 * SECOND)
    assert world.account.counters["refused for full subjects"] > 0
    finish(world)


def test_M3_a_client_waits_until_its_node_hears_that_it_has_left() -> None:
    """Seed 89 of profile "commands": a controller stood still, its client left, and another's alteration was
    committed. When it went on it worked off its messages as they had come: the client's command was void, and
    was proposed again on what there was then, before the news that the client had left.
    """
    world = new_world(41, faults=(), plan=Plan(faults=()))
    run(world, 5 * SECOND)
    machine, answers = world.machines[2], list[object]()
    machine.pause()
    asked = DeleteStreamRequest("nothing-here")
    world.workload._shared.hub.request("leaving", 2, asked, answers.append, 100 * MILLISECOND)
    run(world, SECOND)
    (author,) = world.account.authors._authors["delete", "nothing-here"]
    assert answers == [None] and author.until_us == FOR_EVER_US
    machine.resume()
    assert author.until_us == world.kernel.now_us
