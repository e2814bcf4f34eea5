"""D2 on whole nodes: damage that is found while running costs a replica its place, never anybody a record."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from liftlog.core.metadata.commands import ReplicaFailed, decode_command
from liftlog.core.replica.repair import Repairs
from liftlog.messages import (
    ElectLeaderRequest,
    Fetch,
    FetchReply,
    Forward,
    LogRead,
    LogStartMoved,
    LookupTime,
    OffsetRequest,
    PurgeRequest,
    RangeFetch,
    RangeReply,
    ReadReply,
    ReadRequest,
    RebuildLog,
    Received,
    RepairLog,
    RetainLog,
    Send,
    StorageFailed,
    TimeFound,
)
from liftlog.types import NO_TICKET, OffsetRange, PartitionId, TailState, Ticket
from tests.core.node_harness import World
from tests.core.test_upkeep import jobs_of, keyed, others, put, ready

SLOW = {"compaction_check_ms": 500, "scrub_bytes_per_s": 0, "retention_check_ms": 60_000}
SIX = [b"%d" % number for number in range(6)]


def six(**settings: Any) -> tuple[World, PartitionId]:
    return ready(6, World(**SLOW), **settings)


def plant(world: World, node: int, partition: PartitionId, start: int, end: int) -> None:
    """Bytes of [start, end) go bad on this node's disk, and nothing of the log is in its memory."""
    world.disks[node].logs[partition].bad.append(OffsetRange(start, end))
    world.replica(node, partition).log.cache.clear()


def read(world: World, node: int, partition: PartitionId, offset: int) -> Any:
    return world.answer(node, ReadRequest(partition, offset, max_bytes=1))


def whole(world: World, node: int, partition: PartitionId) -> bool:
    """The node's copy is repaired and back in the ISR."""
    if node not in world.nodes or partition not in world.nodes[node].replicas:
        return False
    replica = world.replica(node, partition)
    log = world.disks[node].logs[partition]
    return (
        replica.state == "ready"
        and not replica.repairs.ranges
        and not log.damage
        and node in world.replica(world.leader(partition), partition).isr
    )


def test_D2_a_follower_with_damage_leaves_the_isr_is_repaired_and_rejoins() -> None:
    world, partition = six()
    node = others(world, partition)[0]
    leader = world.replica(world.leader(partition), partition)
    plant(world, node, partition, 2, 4)
    world.drop = lambda sender, to, message: isinstance(message, RangeReply)
    refused = read(world, node, partition, 2)
    assert (refused.code, refused.retryable) == ("damaged", True)
    assert "byte" in refused.description
    assert world.run_until(lambda: node not in world.replica(world.leader(partition), partition).isr)
    for offset in (0, 4):
        assert isinstance(read(world, node, partition, offset), ReadReply), "other ranges are read"
    world.publish(partition, b"on")
    assert world.run_until(lambda: world.replica(node, partition).hw == 7), "it goes on following"
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: whole(world, node, partition))
    assert world.values(node, partition) == [*SIX, b"on"]
    assert leader.leading is not None, "the leader stays"
    marks = world.nodes[node].marks
    assert (marks["D2.found"], marks["D2.repaired"], marks["D2.whole"]) == (1, 1, 1)
    assert "D2.cut" not in marks


def test_D2_R10_a_damaged_copy_reports_no_offset_behind_its_damage() -> None:
    world, partition = six()
    node = others(world, partition)[0]
    world.drop = lambda sender, to, message: isinstance(message, RangeReply)
    plant(world, node, partition, 2, 4)
    read(world, node, partition, 2)
    leader = world.replica(world.leader(partition), partition)
    assert world.run_until(lambda: node not in leader.isr)
    world.run(5.0)
    assert leader.leading is not None
    assert leader.leading.followers[node].durable == 2
    assert world.replica(node, partition).durable_leo == 6
    assert node not in leader.isr


def test_D2_R2_nothing_reported_before_the_damage_counts_after_it() -> None:
    """The report begins a new epoch, in which the leader knows nothing of this copy."""
    world, partition = six()
    node = others(world, partition)[0]
    leader = world.replica(world.leader(partition), partition)
    epoch = leader.epoch
    assert leader.leading is not None
    assert leader.leading.followers[node].durable == 6
    world.drop = lambda sender, to, message: isinstance(message, RangeReply)
    plant(world, node, partition, 2, 4)
    read(world, node, partition, 2)
    assert world.run_until(lambda: leader.epoch > epoch and node in leader.leading.followers)
    assert leader.leading.followers[node].durable == 2


def test_D2_a_damaged_leader_hands_over_and_is_repaired() -> None:
    world, partition = six()
    first = world.leader(partition)
    plant(world, first, partition, 1, 3)
    assert read(world, first, partition, 1).code == "damaged"
    assert world.run_until(lambda: world.leader(partition) not in (0, first))
    assert world.run_until(lambda: whole(world, first, partition))
    assert world.values(first, partition) == SIX
    assert world.nodes[first].marks["D2.yield"] >= 1


def test_D2_damage_that_a_followers_fetch_meets_makes_the_leader_hand_over() -> None:
    world, partition = six()
    node = others(world, partition)[0]
    first = world.leader(partition)
    world.kill(node)
    assert world.run_until(lambda: node not in world.replica(first, partition).isr)
    world.disks[node].logs[partition].truncate(partition, 1)
    plant(world, first, partition, 3, 4)
    world.restart(node)
    assert world.run_until(lambda: world.leader(partition) not in (0, first), 40)
    assert world.run_until(lambda: whole(world, first, partition) and whole(world, node, partition), 40)
    assert world.values(node, partition) == SIX == world.values(first, partition)


def test_D2_scrubbing_finds_damage_that_nobody_reads() -> None:
    world, partition = ready(6, World(**{**SLOW, "scrub_bytes_per_s": 4 * 1024 * 1024}))
    assert world.run_until(lambda: all(node.marks.get("D2.scrubbed", 0) for node in world.nodes.values()))
    node = others(world, partition)[0]
    plant(world, node, partition, 3, 4)
    assert world.run_until(lambda: world.nodes[node].marks.get("D2.repaired", 0) == 1)
    assert world.run_until(lambda: whole(world, node, partition))


def test_D2_compaction_that_meets_damage_has_it_repaired_first() -> None:
    world = World(**SLOW)
    partition = world.create(compact=True)
    for number in range(6):
        put(world, partition, b"%d" % number, headers=keyed(b"%d" % number))
    node = others(world, partition)[0]
    plant(world, node, partition, 3, 4)
    assert world.run_until(lambda: world.nodes[node].marks.get("D2.repaired", 0) == 1)
    assert world.run_until(lambda: world.replica(node, partition).log.clean_point >= 5)
    assert world.values(node, partition) == SIX


def test_D2_the_only_copy_goes_on_leading_and_names_the_bytes() -> None:
    world, partition = ready(0, World(count=1, **SLOW), replicas=1)
    for value in SIX:
        put(world, partition, value)
    plant(world, 1, partition, 2, 4)
    refused = read(world, 1, partition, 2)
    assert (refused.code, "byte" in refused.description) == ("damaged", True)
    epoch = world.replica(1, partition).epoch
    world.run(3.0)
    assert world.replica(1, partition).epoch == epoch, "nobody else could lead"
    put(world, partition, b"more")
    for offset in (0, 4, 6):
        assert isinstance(read(world, 1, partition, offset), ReadReply)
    assert read(world, 1, partition, 3).code == "damaged"


def test_D2_a_lonely_damaged_leader_hands_over_when_somebody_joins() -> None:
    world, partition = six()
    first = world.leader(partition)
    absent = others(world, partition)
    for node in absent:
        world.kill(node)
    plant(world, first, partition, 2, 4)
    assert read(world, first, partition, 2).code == "damaged"
    world.run(3.0)
    assert world.leader(partition) == first
    for node in absent:
        world.restart(node)
    assert world.run_until(lambda: world.leader(partition) not in (0, first), 40)
    assert world.run_until(lambda: whole(world, first, partition), 40)
    assert world.values(first, partition) == SIX


def leading_alone_with_damage(minimum: int) -> tuple[World, PartitionId, int]:
    """Every copy was in doubt; the longest one leads, and is damaged where the others end."""
    world, partition = six(minimum=minimum)
    first = world.leader(partition)
    world.drop = lambda sender, to, message: first in (sender, to)
    world.publish(partition, b"only here")
    world.publish(partition, b"and here")
    world.run(0.1)
    for node in list(world.nodes):
        world.kill(node)
    world.drop = lambda sender, to, message: False
    others_of = [node for node in world.disks if node != first]
    for node in others_of:
        world.restart(node, TailState.SUSPECT)
    # If it registered while two others are in sync, nobody would remember it (R13).
    assert world.run_until(lambda: all(world.nodes[node].incarnation for node in others_of))
    world.restart(first, TailState.SUSPECT)
    assert world.run_until(lambda: world.leader(partition) == first)
    assert world.replica(first, partition).leo == 8
    plant(world, first, partition, 6, 7)
    return world, partition, first


def heard_at(world: World, partition: PartitionId, first: int, leo: int) -> Repairs:
    """The leader's repairs, when both others have told that their logs end there."""
    heard = world.replica(first, partition).leading
    assert heard is not None
    mine = world.replica(first, partition).repairs
    assert world.run_until(lambda: len(heard.followers) == 2 and bool(mine.ranges))
    for other in heard.followers.values():
        other.leo = leo
    return mine


def test_D2_a_leader_cuts_off_damage_behind_which_nobody_else_has_anything() -> None:
    """Found in seed 2042: nobody could fetch past it, so that nobody came into sync for ever."""
    world, partition, first = leading_alone_with_damage(minimum=2)
    assert world.run_until(lambda: world.nodes[first].marks.get("D2.lone-tail", 0) == 1)
    assert world.run_until(lambda: world.leader(partition) != 0 and world.replica(first, partition).leo == 6)
    world.run(5.0)
    assert all(whole(world, node, partition) for node in world.nodes)
    assert {tuple(world.values(node, partition)) for node in world.nodes} == {tuple(SIX)}


def test_D2_what_another_damaged_copy_has_too_is_not_cut_off() -> None:
    """Found in seed 166 of disk faults: a copy reports nothing behind its own damage, yet has it."""
    world, partition, first = leading_alone_with_damage(minimum=2)
    mine = heard_at(world, partition, first, 8)
    assert mine.lone_tail() is None


def test_D2_what_may_be_committed_on_one_copy_alone_is_not_cut_off() -> None:
    world, partition, first = leading_alone_with_damage(minimum=1)
    world.run(20.0)
    assert world.nodes[first].marks.get("D2.lone-tail", 0) == 0
    assert b"and here" in world.values(first, partition)


def test_D2_nor_what_was_committed_alone_before_the_minimum_was_raised() -> None:
    """R19: the ISR has not been at the higher minimum since."""
    world, partition, first = leading_alone_with_damage(minimum=2)
    mine = heard_at(world, partition, first, 6)
    partitions = world.nodes[first].metadata.partitions
    record = partitions[partition]
    assert mine.lone_tail() == 6
    partitions[partition] = msgspec.structs.replace(record, alone=True)
    mine.log.looks()
    assert mine.lone_tail() is None


def test_D2_two_copies_with_different_damage_repair_each_other() -> None:
    world, partition = ready(6, World(count=2, **SLOW), replicas=2)
    first = world.leader(partition)
    second = others(world, partition)[0]
    plant(world, first, partition, 1, 2)
    plant(world, second, partition, 4, 5)
    read(world, second, partition, 4)
    assert world.run_until(lambda: whole(world, second, partition), 40)
    read(world, first, partition, 1)
    assert world.run_until(lambda: world.leader(partition) == second, 40)
    assert world.run_until(lambda: whole(world, first, partition), 40)
    assert world.values(first, partition) == SIX == world.values(second, partition)


def test_D2_R10_a_copy_is_not_whole_while_its_repair_has_met_more_damage() -> None:
    """Seeds 473, 524 of profile disk: the copy joined with a hole next to what had been repaired."""
    world, partition = six()
    node = others(world, partition)[0]
    plant(world, node, partition, 1, 2)
    plant(world, node, partition, 4, 5)
    world.drop = lambda sender, to, message: isinstance(message, RangeFetch) and message.offset == 4
    read(world, node, partition, 1)
    assert world.run_until(lambda: "D2.repaired" in world.nodes[node].marks)
    replica = world.replica(node, partition)
    assert replica.repairs.ranges == [OffsetRange(4, 5)] and replica.repairs.told
    world.run(5.0)
    assert node not in world.replica(world.leader(partition), partition).isr
    assert "D2.whole" not in world.nodes[node].marks
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: whole(world, node, partition))
    assert world.values(node, partition) == SIX


def test_D2_R14_damage_found_at_the_start_is_told_with_the_registration() -> None:
    world, partition = six()
    node = others(world, partition)[0]
    world.kill(node)
    world.disks[node].logs[partition].damage.append(OffsetRange(2, 4))
    world.disks[node].logs[partition].bad.append(OffsetRange(2, 4))
    world.restart(node)
    world.drop = lambda sender, to, message: isinstance(message, RangeReply)
    assert world.run_until(lambda: world.nodes[node].incarnation > 0)
    assert world.run_until(lambda: partition in world.nodes[node].replicas)
    assert node not in world.replica(node, partition).isr
    world.run(3.0)
    assert node not in world.replica(world.leader(partition), partition).isr
    world.drop = lambda sender, to, message: False
    world.disks[node].logs[partition].bad.clear()
    assert world.run_until(lambda: whole(world, node, partition))
    assert world.values(node, partition) == SIX


def test_D2_R14_a_copy_with_a_hole_is_worth_more_than_one_without_an_end() -> None:
    """If it counted only up to its first damaged offset, a suspect copy that lacks more would be elected."""
    world, partition = six()
    absent, suspect = others(world, partition)
    holed = world.leader(partition)
    leader = world.replica(holed, partition)
    world.kill(absent)
    assert world.run_until(lambda: absent not in leader.isr)
    world.kill(suspect)
    world.disks[suspect].logs[partition].truncate(partition, 4)
    world.drop = lambda sender, to, message: to == suspect and isinstance(message, FetchReply)
    world.restart(suspect, TailState.SUSPECT)
    assert world.run_until(lambda: leader.isr == (holed,))
    world.kill(holed)
    world.drop = lambda sender, to, message: False
    world.disks[holed].logs[partition].damage.append(OffsetRange(1, 2))
    world.restart(holed)
    assert world.run_until(lambda: world.leader(partition) == holed, 40)
    assert world.run_until(lambda: whole(world, holed, partition) and whole(world, suspect, partition), 60)
    assert world.values(suspect, partition) == SIX == world.values(holed, partition)


def test_D2_damage_at_or_above_the_hw_is_cut_and_fetched_again() -> None:
    world, partition = six()
    node, other = others(world, partition)
    world.hold_storage(other)
    for value in (b"x", b"y"):
        world.publish(partition, value)
        world.run(0.2)
    replica = world.replica(node, partition)
    assert (replica.hw, replica.durable_leo) == (6, 8)
    world.disks[node].logs[partition].bad.append(OffsetRange(6, 7))
    world.step(
        node, LogRead(partition, 0, [], "bad", OffsetRange(6, 7))
    )  # Nobody reads above the HW but a follower of a former leader.
    replica.repairs.note(OffsetRange(6, 7))
    assert world.run_until(lambda: world.nodes[node].marks.get("D2.cut", 0) == 1)
    assert world.run_until(lambda: replica.state == "ready" and replica.leo == 8)
    world.release_storage(other)
    assert world.run_until(lambda: whole(world, node, partition))
    assert world.values(node, partition) == [*SIX, b"x", b"y"]
    assert world.nodes[node].marks["D2.shortfall"] == 1, "the group hears of it before the copy is used"


def test_D2_a_range_that_storage_cannot_repair_is_cut_off_in_the_end() -> None:
    world, partition = six()
    node = others(world, partition)[0]
    world.disks[node].logs[partition].refuse_repairs = True
    plant(world, node, partition, 2, 4)
    read(world, node, partition, 2)
    assert world.run_until(lambda: world.nodes[node].marks.get("D2.cut", 0) == 1, 60)
    assert world.nodes[node].marks["D2.repair-failed"] >= 3
    assert world.run_until(lambda: whole(world, node, partition))
    assert world.values(node, partition) == SIX


def test_D2_C3_damage_below_the_leaders_log_start_needs_no_repair() -> None:
    world, partition = six()
    node = others(world, partition)[0]
    world.drop = lambda sender, to, message: isinstance(message, RangeFetch)
    plant(world, node, partition, 1, 4)
    read(world, node, partition, 1)
    leader = world.leader(partition)
    assert world.run_until(lambda: node not in world.replica(leader, partition).isr)
    seen = jobs_of(world, RepairLog)
    world.answer(leader, PurgeRequest(partition, 3))
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: whole(world, node, partition))
    (repair,) = seen
    assert repair.range == (3, 4)
    assert [(batch.base_offset, batch.end_offset) for batch in repair.batches] == [(3, 4)]
    assert isinstance(read(world, node, partition, 3), ReadReply)


def test_D2_C3_damage_found_late_counts_only_above_the_log_start() -> None:
    """A batch that the log start lies in is found damaged from its first offset on, of which no leader has
    anything any more: asked for from there, the range would never be mended."""
    world, partition = six()
    leader = world.leader(partition)
    node = others(world, partition)[0]
    world.answer(leader, PurgeRequest(partition, 3))
    replica = world.replica(node, partition)
    assert world.run_until(lambda: replica.log_start == 3)
    replica.repairs.note(OffsetRange(1, 3))
    assert replica.repairs.ranges == []
    replica.repairs.note(OffsetRange(1, 5))
    assert replica.repairs.ranges == [OffsetRange(3, 5)]


def test_D2_C3_damage_wholly_below_the_log_start_is_forgotten() -> None:
    world, partition = six()
    node = others(world, partition)[0]
    world.drop = lambda sender, to, message: isinstance(message, RangeFetch)
    plant(world, node, partition, 1, 3)
    read(world, node, partition, 1)
    leader = world.leader(partition)
    assert world.run_until(lambda: node not in world.replica(leader, partition).isr)
    world.answer(leader, PurgeRequest(partition, 4))
    assert world.run_until(lambda: whole(world, node, partition))
    assert world.nodes[node].marks.get("D2.repaired", 0) == 0


def test_D2_C2_a_repaired_copy_is_clean_only_up_to_the_repair() -> None:
    world = World(**SLOW)
    partition = world.create(compact=True)
    for number in range(6):
        put(world, partition, b"%d" % number, headers=keyed(b"%d" % number))
    assert world.run_until(
        lambda: all(world.replica(node, partition).log.clean_point == 5 for node in world.nodes)
    )
    node = others(world, partition)[0]
    leader = world.replica(world.leader(partition), partition)
    assert world.run_until(lambda: leader.log.horizon() == 5)  # type: ignore[union-attr]
    plant(world, node, partition, 2, 4)
    world.nodes[node].ctx.config = world.nodes[node].config
    jobs = jobs_of(world, RepairLog)
    read(world, node, partition, 2)
    assert world.run_until(lambda: bool(jobs))
    assert world.replica(node, partition).log.clean_point == 2
    progress = world.replica(world.leader(partition), partition).leading.followers[node]  # type: ignore[union-attr]
    assert progress.clean_point <= 2


def test_D2_a_late_range_answer_repairs_nothing() -> None:
    world, partition = six()
    node = others(world, partition)[0]
    kept: list[RangeReply] = []

    def keep(sender: int, to: int, message: Any) -> bool:
        if isinstance(message, RangeReply):
            kept.append(message)
            return True
        return False

    world.drop = keep
    jobs = jobs_of(world, RepairLog)
    plant(world, node, partition, 2, 4)
    read(world, node, partition, 2)
    assert world.run_until(lambda: len(kept) >= 3)
    world.step(node, Received(world.leader(partition), kept[0]))
    world.run(0.1)
    assert jobs == [], "only the newest request's answer counts"
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: whole(world, node, partition))


def test_D2_a_damaged_member_reports_again_when_it_is_in_the_isr_after_all() -> None:
    """Elected as the only copy it became a member; whoever leads next must not count on it."""
    world, partition = six()
    first = world.leader(partition)
    for node in others(world, partition):
        world.kill(node)
    plant(world, first, partition, 2, 4)
    read(world, first, partition, 2)
    seen: list[ReplicaFailed] = []

    def record(sender: int, to: int, message: Any) -> bool:
        if isinstance(message, Forward):
            command = decode_command(message.command)
            if isinstance(command, ReplicaFailed):
                seen.append(command)
        return isinstance(message, RangeReply)

    world.drop = record
    for node in (1, 2, 3):
        if node != first:
            world.restart(node)
    assert world.run_until(lambda: world.leader(partition) not in (0, first), 40)
    leader = world.leader(partition)
    world.run(3.0)
    assert first not in world.replica(leader, partition).isr
    world.ask(leader, ElectLeaderRequest("orders", 0, first))
    world.run(2.0)
    assert world.leader(partition) == leader, "it is not eligible"


# -- writes that are refused (D5) --------------------------------------------------------------------


def test_D5_a_refused_write_stops_writing_and_it_resumes() -> None:
    world, partition = six()
    leader = world.leader(partition)
    store = world._store
    full = True

    def refuse(node: int, job: Any) -> None:
        if full and node == leader and type(job).__name__ == "AppendLog" and job.log == partition:
            world.post(node, StorageFailed(partition, Ticket(job.ticket), False, "no space left"), 0.001)
        else:
            store(node, job)

    world._store = refuse  # type: ignore[method-assign]
    world.publish(partition, b"refused")
    assert world.run_until(lambda: world.nodes[leader].marks.get("D5.refused", 0) == 1)
    assert world.replica(leader, partition).state == "failed"
    told = read(world, leader, partition, 0)
    assert isinstance(told, ReadReply) and told.batches, "what was stored is read from this very copy"
    assert world.replica(leader, partition).state == "failed"
    beyond = read(world, leader, partition, world.replica(leader, partition).log.keep_below)
    assert isinstance(beyond, ReadReply) and not beyond.batches, "what was refused is not there"
    assert world.run_until(lambda: world.leader(partition) not in (0, leader), 40)
    full = False
    assert world.run_until(lambda: whole(world, leader, partition), 40)
    assert world.run_until(lambda: partition in world.subscriptions)
    assert world.publish(partition, b"later")
    successor = world.leader(partition)
    assert world.run_until(lambda: b"later" in world.values(leader, partition), 40)
    assert world.run_until(lambda: world.replica(successor, partition).hw >= 7)


def answer_moves(world: World, leader: int, event: StorageFailed) -> dict[str, int]:
    """The first move of the leader's log start is answered with `event`; counts the moves."""
    moves = {"asked": 0}
    store = world._store

    def refuse(node: int, job: Any) -> None:
        if node == leader and isinstance(job, RetainLog):
            moves["asked"] += 1
            if moves["asked"] == 1:
                world.post(node, event, 0.001)
                return
        store(node, job)

    world._store = refuse  # type: ignore[method-assign]
    return moves


def test_D5_an_upkeep_job_that_is_refused_is_done_later_and_costs_nothing_else() -> None:
    world, partition = ready(6, World(**{**SLOW, "retention_check_ms": 3000}), retention_messages=2)
    leader = world.leader(partition)
    epoch = world.replica(leader, partition).epoch
    moves = answer_moves(world, leader, StorageFailed(partition, NO_TICKET, False, "no space left"))
    assert world.run_until(lambda: world.nodes[leader].marks.get("D5.upkeep-refused", 0) == 1)
    assert world.run_until(lambda: all(world.replica(node, partition).log_start == 4 for node in world.nodes))
    assert world.replica(leader, partition).epoch == epoch
    assert moves["asked"] == 2


def test_D5_a_copy_whose_write_is_refused_while_its_log_start_moves_knows_where_it_begins() -> None:
    """It went on to say that it had what storage had let go, and a lookup by time found too late an offset.

    Simulator seed 5059.
    """
    world, partition = ready(6, World(**{**SLOW, "retention_check_ms": 3000}), retention_messages=2)
    leader = world.leader(partition)
    store = world._store
    begins = []

    def refuse(node: int, job: Any) -> None:
        if node == leader and isinstance(job, RetainLog) and not begins:
            begins.append(world.replica(leader, partition).log_start)
            world.post(node, StorageFailed(partition, Ticket(1 << 40), False, "no space left"), 0.001)
            world.post(node, LogStartMoved(partition, 4), 0.002)
        elif not (node == leader and isinstance(job, RebuildLog)):
            store(node, job)

    world._store = refuse  # type: ignore[method-assign]
    assert world.run_until(lambda: world.replica(leader, partition).state == "failed")
    assert world.run_until(lambda: world.replica(leader, partition).log_start == 4)
    assert world.replica(leader, partition).state == "failed" and begins == [0]


def test_R5_a_failed_sync_in_an_upkeep_job_ends_the_leadership_and_a_refused_reopening_is_repeated() -> None:
    """Regression: the answer to the reopening was taken for that to the job, and nobody tried again."""
    world, partition = ready(6, World(**{**SLOW, "retention_check_ms": 3000}), retention_messages=2)
    leader = world.leader(partition)
    answer_moves(world, leader, StorageFailed(partition, NO_TICKET, True, "input/output error"))
    store = world._store
    refused = []

    def refuse_once(node: int, job: Any) -> None:
        if isinstance(job, RebuildLog) and not refused:
            refused.append(job)
            world.post(node, StorageFailed(partition, NO_TICKET, True, "input/output error"), 0.001)
        else:
            store(node, job)

    world._store = refuse_once  # type: ignore[method-assign]
    assert world.run_until(lambda: world.leader(partition) not in (0, leader), 20)
    assert world.run_until(lambda: whole(world, leader, partition), 20)
    assert refused


def test_R5_a_late_refusal_of_an_upkeep_job_is_not_taken_for_the_answer_to_a_reopening() -> None:
    """Else the log would be rebuilt twice, and the second time cut what was appended after the first."""
    world, partition = six()
    node = others(world, partition)[0]
    replica = world.replica(node, partition)
    replica.upkeep.busy = True
    world.fail_sync(node, partition)
    world.run(0.1)
    replica.upkeep.busy = replica.reopening.under_way = True
    world.step(node, StorageFailed(partition, NO_TICKET, True, "the job of before"))
    assert replica.reopening.under_way
    world.step(node, StorageFailed(partition, NO_TICKET, True, "the reopening"))
    assert not replica.reopening.under_way


def test_D2_a_lookup_by_time_that_meets_damage_is_an_error_and_the_range_is_repaired() -> None:
    world, partition = six()
    node = others(world, partition)[0]
    world.disks[node].logs[partition].damage.append(OffsetRange(2, 4))
    store = world._store

    def damaged(to: int, job: Any) -> None:
        if to == node and isinstance(job, LookupTime):
            world.post(node, TimeFound(partition, job.request, 0, "byte 7 of a", OffsetRange(2, 4)), 0.001)
        else:
            store(to, job)

    world._store = damaged  # type: ignore[method-assign]
    reply = world.answer(node, OffsetRequest(partition, "time", 5))
    assert (reply.code, reply.description, reply.retryable) == ("damaged", "byte 7 of a", True)
    assert world.run_until(lambda: world.nodes[node].marks.get("D2.repaired", 0) == 1)
    assert world.run_until(lambda: whole(world, node, partition))


# -- durability "os" ---------------------------------------------------------------------------------


def test_R14_with_durability_os_an_unclean_stop_makes_the_copy_suspect() -> None:
    world, partition = six(durability="os")
    node = others(world, partition)[0]
    world.kill(node)
    leader = world.replica(world.leader(partition), partition)
    isr = leader.isr
    world.restart(node, TailState.INTACT)
    world.drop = lambda sender, to, message: to == node and type(message).__name__ == "FetchReply"
    assert world.run_until(lambda: world.nodes[node].incarnation > 0)
    assert node in isr
    assert world.run_until(lambda: node not in leader.isr)
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: whole(world, node, partition))


def test_R14_with_durability_os_a_clean_stop_leaves_the_copy_in_place() -> None:
    world, partition = six(durability="os")
    node = others(world, partition)[0]
    world.kill(node)
    world.restart(node, TailState.CLEAN)
    assert world.run_until(lambda: world.nodes[node].incarnation > 0)
    assert world.nodes[node].metadata.counts.get("R14.suspect", 0) == 0


def test_a_copy_that_is_given_up_does_not_ask_for_more_in_the_same_step(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever is asked would take it for one that goes on (seed 7237)."""
    said: list[list[type]] = []

    class Looking(World):
        def observed(self, number: int, event: object, outcome: Any) -> None:
            failed = [found for found in self.nodes[number].replicas.values() if found.state == "failed"]
            if failed and not said:
                said.append([type(effect.message) for effect in outcome.effects if isinstance(effect, Send)])

    world, partition = ready(6, Looking(**SLOW))
    node, other = others(world, partition)
    world.hold_storage(other)
    for value in (b"x", b"y"):
        world.publish(partition, value)
        world.run(0.2)
    replica = world.replica(node, partition)
    assert replica.follower is not None
    world.disks[node].logs[partition].bad.append(OffsetRange(6, 7))
    replica.repairs.note(OffsetRange(6, 7))
    world.run_until(lambda: world.nodes[node].marks.get("D2.hole", 0) == 2)
    monkeypatch.setattr(type(replica.follower), "tick", type(replica.follower).fetch)
    assert world.run_until(lambda: bool(said))
    assert world.nodes[node].marks["D2.cut"] == 1 and Fetch not in said[0]
