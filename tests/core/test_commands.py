"""M3, I1: a metadata command takes effect at most once, on what its author meant, and in his time.

Also L3: what a node itself wants of the group is never dropped for want of room.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from liftlog.core.metadata.commands import (
    SPAN_MAX,
    Command,
    ConfirmNode,
    DeleteStream,
    ElectLeader,
    ExpireNode,
    ExpireReports,
    Rebalance,
    ReplicaFailed,
    ReportLeader,
    RequestId,
    Resign,
    decode_command,
)
from liftlog.core.metadata.records import LATE, STALE
from liftlog.messages import (
    AppendRequest,
    BusDown,
    BusUp,
    ClientGone,
    CreateStreamRequest,
    DeleteStreamRequest,
    DoneReply,
    ElectLeaderRequest,
    ErrorReply,
    Fetch,
    FetchProgress,
    Forward,
    PeerMessage,
    StopRequested,
    StreamInfoReply,
    StreamInfoRequest,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import ClientRef, PartitionId, StreamConfig
from tests.core.metadata_harness import Cluster
from tests.core.node_harness import World

ORDERS = StreamConfig("orders", "orders", 1, 3)


def outsider(world: World) -> int:
    """A node that is not controller."""
    return next(number for number, node in world.nodes.items() if not node.raft.is_leader)


def controller(world: World) -> int:
    return next(number for number, node in world.nodes.items() if node.raft.is_leader)


def holds(message: PeerMessage, kind: type[Command]) -> bool:
    """Whether this brings a command of that kind to the controller."""
    return isinstance(message, Forward) and isinstance(decode_command(message.command), kind)


def pass_entries(world: World, count: int) -> None:
    """So many entries more in the group's log."""
    raft = world.nodes[controller(world)].raft
    for _ in range(count):
        raft.propose(b"")
    world.run(0.5)


def recreate(world: World, at: int) -> PartitionId:
    """Delete orders, create it again, and have something acknowledged in it."""
    assert isinstance(world.answer(at, DeleteStreamRequest("orders")), DoneReply)
    reply = world.answer(at, CreateStreamRequest(ORDERS))
    partition = PartitionId(reply.streams[0].id, 0)
    acks = len(world.acks)
    world.publish(partition, b"acknowledged")
    assert world.run_until(lambda: len(world.acks) > acks)
    return partition


# -- names and ids (I1) --------------------------------------------------------------------------------


@pytest.mark.parametrize("by_name", [False, True])
def test_I1_a_deletion_that_was_held_back_does_not_delete_the_next_stream_of_that_name(
    by_name: bool,
) -> None:
    """The mutant is what was: the command named a name, and the next stream was gone."""
    world = World(3, Mutants(delete_by_name=by_name))
    world.create("orders")
    node = outsider(world)
    held: list[PeerMessage] = []

    def hold(sender: int, to: int, message: PeerMessage) -> bool:
        held.extend([message] if sender == node and holds(message, DeleteStream) else [])
        return sender == node and holds(message, DeleteStream)

    world.drop = hold
    world.ask(node, DeleteStreamRequest("orders"))
    assert world.run_until(lambda: bool(held), 2)
    world.post(node, ClientGone(ClientRef(world.clients)))
    second = recreate(world, controller(world))
    world.nodes[controller(world)].proposals.on_forward(held[0].command)  # type: ignore[attr-defined]
    world.run(5)
    assert (second in world.nodes[node].metadata.partitions) is not by_name


def test_I1_a_node_that_is_cut_off_does_not_delete_what_bears_the_name_when_it_is_back() -> None:
    world = World(3)
    world.create("orders")
    node = outsider(world)
    world.drop = lambda sender, to, message: node in (sender, to)
    asked = world.ask(node, DeleteStreamRequest("orders"))
    second = recreate(world, controller(world))
    assert world.replies[asked].retryable, "refused soon, while it is certain that nothing was done"
    assert "nothing was done" in world.replies[asked].description
    world.drop = lambda sender, to, message: False
    world.run(15)
    for each in world.nodes.values():
        assert second in each.metadata.partitions


def test_I1_a_deletion_names_the_stream_that_its_client_has_seen() -> None:
    world = World(3)
    first = world.create("orders")
    second = recreate(world, 1)
    refused = world.answer(1, DeleteStreamRequest("orders", first.stream))
    assert refused.code == "not-found" and str(second.stream) in refused.description
    assert isinstance(world.answer(2, DeleteStreamRequest("orders", second.stream)), DoneReply)


def test_I1_two_deletions_at_once_delete_one_stream() -> None:
    world = World(3)
    world.create("orders")
    asked = [world.ask(node, DeleteStreamRequest("orders")) for node in (1, 2, 3)]
    assert world.run_until(lambda: all(number in world.replies for number in asked))
    answers = [world.replies[number] for number in asked]
    assert sum(isinstance(answer, DoneReply) for answer in answers) == 1
    assert {answer.code for answer in answers if isinstance(answer, ErrorReply)} == {"not-found"}


def test_R16_an_election_in_a_situation_that_is_over_is_refused() -> None:
    world = World(3)
    partition = world.create("orders")
    world.run(2)
    version = world.nodes[1].metadata.partitions[partition].version
    other = next(node for node in (1, 2, 3) if node != world.leader(partition))
    assert isinstance(world.answer(1, ElectLeaderRequest("orders", 0, other, version=version)), DoneReply)
    refused = world.answer(1, ElectLeaderRequest("orders", 0, other, version=version))
    assert refused.code == "stale" and not refused.retryable
    missing = world.answer(1, ElectLeaderRequest("orders", 7, other))
    assert "partitions 0 to 0" in missing.description


# -- clients that have gone ----------------------------------------------------------------------------


@pytest.mark.parametrize("gone", [True, False])
def test_M3_what_a_client_no_longer_waits_for_is_withdrawn(gone: bool) -> None:
    """Whether its connection is closed or its time is up."""
    world = World(3)
    partition = world.create("orders")
    node = outsider(world)
    world.drop = lambda sender, to, message: sender == node and isinstance(message, Forward)
    client = world.ask(node, DeleteStreamRequest("orders"))
    assert world.run_until(lambda: bool(world.nodes[node].proposals.requests), 2)
    if gone:
        world.post(node, ClientGone(ClientRef(client)))
    else:
        assert world.run_until(lambda: client in world.replies, 15)
        assert "unknown" in world.replies[client].description
    world.run(1)
    world.drop = lambda sender, to, message: False
    world.run(5)
    assert partition in world.nodes[node].metadata.partitions
    assert not world.nodes[node].proposals.requests


def test_M3_a_request_whose_bound_has_passed_is_proposed_again_while_its_client_waits() -> None:
    world = World(3, raft_proposal_span=3)
    world.create("orders")
    node = outsider(world)
    world.drop = lambda sender, to, message: sender == node and isinstance(message, Forward)
    asked = world.ask(node, DeleteStreamRequest("orders"))
    assert world.run_until(lambda: bool(world.nodes[node].proposals.requests), 2)
    (first,) = world.nodes[node].proposals.requests
    pass_entries(world, 5)
    assert asked not in world.replies
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: asked in world.replies, 5)
    assert isinstance(world.replies[asked], DoneReply)
    assert world.nodes[node].ctx.marks["M3.again"] >= 1
    assert world.nodes[node].metadata.applied > first.until


# -- late and repeated commands ------------------------------------------------------------------------


def pass_by(cluster: Cluster, entries: int) -> None:
    for _ in range(entries):
        cluster.metadata.apply(cluster.metadata.applied + 1, None)


def test_M3_a_command_repeated_after_any_number_of_others_takes_effect_once() -> None:
    """It was forgotten after 4,096 others, and then made the deleted stream anew."""
    cluster = Cluster()
    command = cluster.creation(ORDERS)
    assert not cluster.apply(command).code
    cluster.apply(cluster.deletion("orders"))
    assert not cluster.apply(command).code, "the same answer"
    for _ in range(5000):
        cluster.apply(Rebalance(cluster.request(), cluster.metadata.applied))
    assert cluster.apply(command) is LATE
    assert "orders" not in cluster.metadata.streams


def test_M3_the_memory_of_requests_lasts_as_long_as_their_bounds_and_no_longer() -> None:
    cluster = Cluster()
    pass_by(cluster, 1000)
    assert not cluster.metadata.results and not cluster.metadata._ends
    short = ExpireReports(cluster.request(span=1), PartitionId(1, 0), 1, 0)
    long = ExpireReports(cluster.request(span=30), PartitionId(1, 0), 1, 0)
    assert cluster.apply(short) is STALE, "up to the bound itself it is applied"
    assert cluster.apply(short) is LATE
    cluster.apply(long)
    pass_by(cluster, 26)
    assert list(cluster.metadata.results) == [long.request]
    assert cluster.apply(long) is STALE
    pass_by(cluster, 1)
    assert not cluster.metadata.results
    assert cluster.apply(long) is LATE


def test_M3_a_bound_beyond_all_measure_means_nothing() -> None:
    """Else the memory would have none."""
    cluster = Cluster()
    request = RequestId(1, 1, cluster.metadata.applied + 2 + SPAN_MAX)
    assert cluster.apply(Rebalance(request, 0)) is LATE


def test_M3_a_creation_does_not_bring_back_what_was_deleted_after_it_was_asked_for() -> None:
    cluster = Cluster()
    late = cluster.creation(ORDERS)
    cluster.create("orders")
    cluster.apply(cluster.deletion("orders"))
    assert cluster.apply(late) is STALE
    assert not cluster.apply(cluster.creation(ORDERS)).code


def test_M3_a_waiting_client_gets_its_stream_although_another_was_deleted_meanwhile() -> None:
    world = World(3)
    world.create("other")
    asked = [
        world.ask(1, DeleteStreamRequest("other")),
        world.ask(2, CreateStreamRequest(ORDERS)),
        world.ask(3, CreateStreamRequest(StreamConfig("third", "third", 1, 3))),
    ]
    assert world.run_until(lambda: all(number in world.replies for number in asked), 20)
    assert [type(world.replies[number]) for number in asked] == [
        DoneReply,
        StreamInfoReply,
        StreamInfoReply,
    ]


def test_R15_an_expiry_or_a_confirmation_of_an_earlier_state_means_nothing() -> None:
    cluster = Cluster()
    node = cluster.metadata.nodes[2]
    late_expiry = ExpireNode(cluster.request(), 2, node.incarnation, node.since)
    cluster.expire(2)
    late_confirmation = ConfirmNode(cluster.request(), 2, node.incarnation, node.since)
    cluster.confirm(2)
    assert cluster.apply(late_expiry) is STALE
    assert cluster.metadata.is_live(2), "it has come back since"
    cluster.expire(2)
    assert cluster.apply(late_confirmation) is STALE
    assert not cluster.metadata.is_live(2), "and gone again"


def test_R15_a_report_of_a_round_that_is_over_means_nothing() -> None:
    cluster = Cluster()
    partition = cluster.create()
    others = [node for node in partition.isr if node != partition.leader]
    epoch = partition.epoch

    def report(node: int, number: int) -> ReportLeader:
        incarnation = cluster.metadata.nodes[node].incarnation
        return ReportLeader(cluster.request(), partition.id, epoch, number, node, incarnation)

    late = report(others[0], 0)
    cluster.apply(report(others[0], 0))
    expiry = ExpireReports(cluster.request(), partition.id, epoch, 0)
    assert not cluster.apply(expiry).code
    assert cluster.apply(late) is STALE
    assert not cluster.apply(report(others[1], 1)).code
    again = ExpireReports(cluster.request(), partition.id, epoch, 0)
    assert cluster.apply(again) is STALE, "nor does an old expiry end a new round"
    assert partition.epoch == epoch and list(partition.reports) == [others[1]]


def test_N5_a_resignation_from_an_earlier_situation_means_nothing() -> None:
    cluster = Cluster()
    partition = cluster.create()
    late = Resign(cluster.request(), partition.id, partition.epoch, partition.version)
    follower = next(node for node in partition.isr if node != partition.leader)
    cluster.change_isr(partition, [node for node in partition.isr if node != follower])
    epoch = partition.epoch
    assert cluster.apply(late) is STALE
    assert partition.epoch == epoch


def test_R16_an_unclean_election_means_nothing_once_anything_has_changed() -> None:
    cluster = Cluster()
    partition = cluster.create()
    cluster.change_isr(partition, [1, 2])
    late = ElectLeader(cluster.request(), partition.id, partition.version, 3, True)
    cluster.change_isr(partition, [1, 2, 3], 3)
    assert cluster.apply(late) is STALE
    assert partition.unclean_epochs == ()


def test_R16_a_rebalancing_leaves_leaders_alone_that_were_elected_after_it_was_asked_for() -> None:
    cluster = Cluster()
    partition = cluster.create()
    other = next(node for node in partition.isr if node != partition.leader)
    early, at_once = cluster.metadata.applied, partition.version
    cluster.apply(ElectLeader(cluster.request(), partition.id, at_once, other, False))
    assert cluster.apply(Rebalance(cluster.request(), early)).detail == "0 partitions moved"
    assert partition.leader == other
    now = cluster.metadata.applied
    assert cluster.apply(Rebalance(cluster.request(), now)).detail == "1 partitions moved"


def test_R5_a_failure_is_heard_once_and_never_after_a_later_one() -> None:
    cluster = Cluster()
    partition = cluster.create()
    node = next(node for node in partition.isr if node != partition.leader)
    incarnation = cluster.metadata.nodes[node].incarnation

    def failed(number: int) -> ReplicaFailed:
        return ReplicaFailed(cluster.request(), partition.id, node, incarnation, number, 1, 5)

    first, copy = failed(1), failed(1)
    cluster.apply(first)
    cluster.change_isr(partition, [1, 2, 3], node)
    assert cluster.apply(copy) is STALE
    assert node in partition.isr, "it has caught up since"
    assert not cluster.apply(failed(3)).code
    cluster.change_isr(partition, [1, 2, 3], node)
    assert cluster.apply(failed(2)) is STALE


# -- want of room (L3) ---------------------------------------------------------------------------------


def lead_everything(world: World, node: int, count: int, replicas: int) -> list[PartitionId]:
    """`count` partitions that `node` leads."""
    found: list[PartitionId] = []
    number = 0
    while len(found) < count:
        config = StreamConfig(f"s{number}", f"s{number}", 1, replicas)
        reply = world.answer(1, CreateStreamRequest(config))
        number += 1
        if reply.streams[0].partitions[0].leader == node:
            found.append(PartitionId(reply.streams[0].id, 0))
    return found


@pytest.mark.parametrize("dropped", [False, True])
def test_L3_ten_logs_that_fail_together_are_all_led_again_whatever_the_limit(dropped: bool) -> None:
    """The mutant is what was: of ten reports of failures four had room, and the rest were forgotten."""
    world = World(3, Mutants(proposals_dropped_when_full=dropped), raft_inflight_proposals_max=4)
    node = outsider(world)
    partitions = lead_everything(world, node, 10, 1)
    epochs = {partition: world.replica(node, partition).epoch for partition in partitions}
    for partition in partitions:
        world.fail_sync(node, partition)
    world.run(10)
    led = [p for p in partitions if world.leader(p) == node and world.replica(node, p).epoch > epochs[p]]
    assert len(led) == (4 if dropped else 10)
    if not dropped:
        for partition in partitions:
            assert world.publish(partition, b"taken again")
        world.run(1)
        assert {ack.partition for ack in world.acks} >= set(partitions)


def test_L3_every_partition_becomes_ready_whatever_the_limit() -> None:
    world = World(3, raft_inflight_proposals_max=4)
    numbers = [world.ask(1, CreateStreamRequest(StreamConfig(name, name, 64, 1))) for name in ("a", "b")]
    assert world.run_until(lambda: all(number in world.replies for number in numbers), 60)
    for number in numbers:
        assert isinstance(world.replies[number], StreamInfoReply)
        assert all(partition.ready for partition in world.replies[number].streams[0].partitions)


def test_L3_an_orderly_stop_hands_over_every_leadership_whatever_the_limit() -> None:
    world = World(3, raft_inflight_proposals_max=2)
    node = outsider(world)
    partitions = lead_everything(world, node, 8, 3)
    world.post(node, StopRequested())
    assert world.run_until(lambda: world.nodes[node].handed_over, 20)
    assert all(world.run_until(lambda p=p: world.leader(p) not in (0, node), 5) for p in partitions)


def test_L3_only_clients_are_refused_for_want_of_room() -> None:
    world = World(3, raft_inflight_proposals_max=2)
    world.create("orders")
    node = outsider(world)
    world.drop = lambda sender, to, message: sender == node and isinstance(message, Forward)
    names = ["a", "b", "c"]
    asked = [world.ask(node, CreateStreamRequest(StreamConfig(name, name))) for name in names]
    world.run(2)
    (refused,) = [world.replies[number] for number in asked if number in world.replies]
    assert refused.code == "overload" and refused.retryable
    assert world.nodes[node].ctx.want(Resign(RequestId(0, 0, 0), PartitionId(1, 0), 1, 1)) is not None


def test_M3_a_wish_that_is_not_said_any_more_is_not_repeated() -> None:
    """A leader that has NATS back does not go on asking to be relieved."""
    world = World(3)
    partition = world.create("orders")
    node = world.leader(partition)
    world.drop = lambda sender, to, message: sender == node and isinstance(message, Forward)
    if world.nodes[node].raft.is_leader:
        other = outsider(world)
        world.answer(node, ElectLeaderRequest("orders", 0, other))
        assert world.run_until(lambda: world.leader(partition) == other)
        node = other
    epoch = world.replica(node, partition).epoch
    world.post(node, BusDown())
    assert world.run_until(lambda: bool(world.nodes[node].proposals.under_way), 5)
    world.post(node, BusUp())
    world.run(0.5)
    world.drop = lambda sender, to, message: False
    world.run(5)
    assert world.replica(node, partition).epoch == epoch
    assert not world.nodes[node].proposals.under_way and not world.nodes[node].proposals.wishes


# -- what was decided is seen in the state, not in a remembered answer ---------------------------------


@pytest.mark.parametrize("remembered", [False, True])
def test_R5_a_report_heard_while_its_node_was_cut_off_is_seen_in_the_state(remembered: bool) -> None:
    """Six thousand commands later its answer is forgotten; the mutant waits for it for ever."""
    world = World(3, Mutants(repair_waits_for_answer=True) if remembered else NO_MUTANTS)
    partition = world.create("orders")
    leader = controller(world)
    node = next(n for n in (1, 2, 3) if n not in (leader, world.leader(partition)))

    def deaf(sender: int, to: int, message: PeerMessage) -> bool:
        return to == node and isinstance(message, AppendRequest)

    world.drop = deaf
    world.fail_sync(node, partition)
    assert world.run_until(lambda: node not in world.nodes[leader].metadata.partitions[partition].isr, 5)
    world.drop = lambda sender, to, message: node in (sender, to)
    raft = world.nodes[leader].raft
    sent = 0
    while sent < 6000:
        sent += raft.propose(b"") is not None
        if sent % 500 == 0:
            world.run(0.1)
    world.run(1)
    world.drop = lambda sender, to, message: False
    joined = world.run_until(lambda: node in world.nodes[leader].metadata.partitions[partition].isr, 120)
    assert joined is not remembered


def test_R2_a_change_of_the_isr_stays_pending_beyond_its_bound() -> None:
    """Only a newer version ends it: it may have been granted."""
    world = World(3, raft_proposal_span=2, replica_lag_max_ms=1000)
    partition = world.create("orders")
    leader = controller(world)
    assert world.run_until(lambda: len(world.nodes[leader].metadata.partitions[partition].isr) == 3)
    if world.leader(partition) != outsider(world):
        world.answer(leader, ElectLeaderRequest("orders", 0, outsider(world)))
        assert world.run_until(lambda: world.leader(partition) == outsider(world))
    world.run(2)
    node = world.leader(partition)
    lagging = next(n for n in (1, 2, 3) if n not in (node, leader))
    world.drop = lambda sender, to, message: (
        isinstance(message, Forward) or (sender == lagging and isinstance(message, Fetch | FetchProgress))
    )
    world.publish(partition, b"this one has not got")
    leading = world.replica(node, partition).leading
    assert leading is not None
    assert world.run_until(lambda: leading.pending is not None, 10)
    pass_entries(world, 5)
    assert leading.pending is not None
    world.drop = lambda sender, to, message: sender == lagging and isinstance(message, Fetch | FetchProgress)
    assert world.run_until(lambda: lagging not in leading.record.isr, 10)


def test_R2_an_addition_to_the_isr_counts_while_it_waits_for_room() -> None:
    """It goes as soon as there is room, and nothing may commit without the joiner from then on."""
    world = World(3, replica_lag_max_ms=1000, replica_slow_ms=0)
    partition = world.create("orders")
    node = world.leader(partition)
    lagging = next(n for n in world.nodes if n not in (node, controller(world)))
    world.drop = lambda sender, to, message: sender == lagging and isinstance(message, Fetch | FetchProgress)
    world.publish(partition, b"this one has not got")
    leading = world.replica(node, partition).leading
    assert leading is not None
    assert world.run_until(lambda: lagging not in leading.record.isr, 10)
    ctx = world.nodes[node].ctx
    ctx.config = msgspec.structs.replace(ctx.config, raft_inflight_proposals_max=0)
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: leading.pending is not None, 10)
    assert lagging in leading.maximal_isr()
    assert not world.nodes[node].proposals.under_way
    ctx.config = msgspec.structs.replace(ctx.config, raft_inflight_proposals_max=1)
    assert world.run_until(lambda: lagging in leading.record.isr, 5)


def test_M3_linearizable_reads_still_work_while_nothing_can_be_proposed() -> None:
    world = World(3)
    world.create("orders")
    world.drop = lambda sender, to, message: isinstance(message, Forward)
    assert isinstance(world.answer(outsider(world), StreamInfoRequest("orders")), StreamInfoReply)


def test_M3_request_ids_travel_as_they_are() -> None:
    command = Rebalance(RequestId(1 << 47, 3, 1 << 40), 9)
    encoded: Any = msgspec.msgpack.decode(msgspec.msgpack.encode(command))
    assert encoded == ["Rebalance", [1 << 47, 3, 1 << 40], 9]
