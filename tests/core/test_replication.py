"""ISR replication keeps R1-R16 and N1-N4: each test is a sentence of the protocol, on whole nodes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from liftlog.format import encode_messages
from liftlog.messages import (
    FETCH_DIVERGED,
    FETCH_FENCED,
    FETCH_UNKNOWN,
    ClientGone,
    ElectLeaderRequest,
    Fetch,
    FetchProgress,
    FetchReply,
    Forward,
    HeartbeatReply,
    OffsetReply,
    OffsetRequest,
    Published,
    ReadReply,
    ReadRequest,
    Received,
    StreamInfoRequest,
)
from liftlog.mutants import Mutants
from liftlog.types import ClientRef, Message, PartitionId, TailState
from tests.core.node_harness import World


def others(world: Any, partition: PartitionId) -> list[int]:
    return [node for node in world.nodes if node != world.leader(partition)]


def ready(minimum: int = 0, replicas: int = 3, **kwargs: Any) -> tuple[Any, PartitionId]:
    """A cluster with one stream on which three values are committed everywhere."""
    world = World(**kwargs)
    partition = world.create(minimum=minimum, replicas=replicas)
    world.publish(partition, b"a", b"b", b"c")
    assert world.run_until(lambda: world.committed(partition, 3))
    return world, partition


def cut(*isolated: int) -> Any:
    """A drop rule: the isolated nodes hear nobody and are heard by nobody."""
    return lambda sender, to, message: sender in isolated or to in isolated


# -- leader, commit, acks ----------------------------------------------------------------------------


def test_R1_a_restarted_leader_leads_only_in_a_new_epoch() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    epoch = world.replica(leader, partition).epoch
    world.kill(leader)
    world.restart(leader)
    assert world.run_until(lambda: world.leader(partition) != 0 and world.nodes[leader].incarnation != 0)
    assert world.run_until(lambda: world.replica(world.leader(partition), partition).epoch > epoch)


def test_R1_every_batch_carries_the_epoch_that_ordered_it() -> None:
    world, partition = ready()
    first = world.leader(partition)
    world.kill(first)
    assert world.run_until(
        lambda: partition in world.subscriptions and world.leader(partition) not in (0, first)
    )
    world.publish(partition, b"d")
    survivor = world.leader(partition)
    assert world.run_until(lambda: world.replica(survivor, partition).leo == 4)
    epochs = [(entry.epoch, entry.start) for entry in world.replica(survivor, partition).epochs]
    assert [start for _, start in epochs] == [0, 3]
    assert epochs[0][0] < epochs[1][0]


def test_R2_nothing_commits_before_every_member_has_synced_it() -> None:
    world, partition = ready()
    slow = others(world, partition)[0]
    world.hold_storage(slow)
    world.publish(partition, b"d")
    world.run(1.0)
    leader = world.replica(world.leader(partition), partition)
    assert (leader.leo, leader.hw) == (4, 3)
    assert len(world.acks) == 1
    world.release_storage(slow)
    assert world.run_until(lambda: world.committed(partition, 4))
    assert len(world.acks) == 2


def test_R7_a_leader_knows_whether_what_came_now_would_leave_for_all_followers_at_once() -> None:
    world, partition = ready()
    node = world.nodes[world.leader(partition)]
    assert world.run_until(lambda: not node.awaits_followers([partition]))
    slow, quick = others(world, partition)
    world.hold_storage(slow)
    world.publish(partition, b"d")
    assert world.run_until(lambda: world.replica(quick, partition).durable_leo == 4)
    assert node.awaits_followers([partition]), "one has its hands full"
    world.release_storage(slow)
    assert world.run_until(lambda: not node.awaits_followers([partition]))
    alone = world.create("alone", replicas=1)
    owner = world.nodes[world.leader(alone)]
    world.publish(alone, b"a")
    assert world.run_until(lambda: world.replica(world.leader(alone), alone).leo == 1)
    assert not owner.awaits_followers([alone])
    assert not owner.awaits_followers([PartitionId(99, 0)])


def test_R2_the_leader_counts_itself_only_when_it_has_synced() -> None:
    world, partition = ready()
    number = world.leader(partition)
    world.hold_storage(number)
    world.publish(partition, b"d")
    world.run(0.5)
    leader = world.replica(number, partition)
    assert all(world.replica(node, partition).durable_leo == 4 for node in others(world, partition))
    assert (leader.leo, leader.durable_leo, leader.hw) == (4, 3, 3)


def test_R2_a_pending_addition_counts_until_the_metadata_decides() -> None:
    """The joiner may already be in the committed ISR while the leader has not heard of it."""
    world, partition = ready(replica_lag_max_ms=300, session_timeout_ms=60_000, leader_timeout_ms=60_000)
    leader = world.leader(partition)
    joiner = others(world, partition)[0]
    quiet = (Fetch, FetchProgress)
    world.drop = lambda sender, to, message: sender == joiner and isinstance(message, quiet)
    world.publish(partition, b"not for the joiner")
    assert world.run_until(lambda: joiner not in world.replica(leader, partition).isr)
    # The addition is proposed, but no metadata command reaches a log from here on: it stays pending.
    world.nodes[leader].raft.propose = lambda data: None
    world.drop = lambda sender, to, message: isinstance(message, Forward)
    assert world.run_until(lambda: world.replica(leader, partition).leading.pending is not None)
    world.hold_storage(joiner)
    hw = world.replica(leader, partition).hw
    world.publish(partition, b"d")
    world.run(2.0)
    assert world.replica(leader, partition).leo == hw + 1
    assert world.replica(leader, partition).hw == hw


def test_R4_an_ack_names_stream_partition_offset_and_epoch_and_is_sent_once() -> None:
    world, partition = ready()
    world.run(2.0)
    (ack,) = world.acks
    assert (ack.stream, ack.partition, ack.offsets_from) == ("orders", partition, 0)
    assert ack.epoch == world.replica(world.leader(partition), partition).epoch
    assert ack.replies == [b"_INBOX.x"] * 3


def test_R4_mutant_29_acknowledges_what_may_be_lost() -> None:
    world = World(mutants=Mutants(ack_at_append=True))
    partition = world.create()
    for node in others(world, partition):
        world.hold_storage(node)
    world.publish(partition, b"a")
    world.run(0.5)
    assert len(world.acks) == 1
    assert world.replica(world.leader(partition), partition).hw == 0


def test_R5_a_failed_sync_ends_leadership_and_isr_membership() -> None:
    world, partition = ready()
    failed = world.leader(partition)
    world.fail_sync(failed, partition)
    assert world.run_until(lambda: world.leader(partition) not in (0, failed))
    assert failed not in world.replica(world.leader(partition), partition).isr
    world.publish(partition, b"d")
    assert world.run_until(lambda: world.committed(partition, 4)), "it refetches and catches up"


# -- followers ---------------------------------------------------------------------------------------


def test_R6_a_fetch_of_another_epoch_is_answered_without_data() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    follower = others(world, partition)[0]
    seen: list[FetchReply] = []

    def record(sender: int, to: int, message: Any) -> bool:
        if isinstance(message, FetchReply) and message.request >= 900:
            seen.append(message)
            return True
        return False

    world.drop = record
    incarnation = world.nodes[follower].incarnation
    epoch = world.replica(leader, partition).epoch
    for request, fetch_epoch in ((901, epoch - 1), (902, epoch + 1)):
        fetch = Fetch(partition, fetch_epoch, incarnation, request, 0, 0, 0, 1000)
        world.post(leader, Received(follower, fetch))
    world.run(0.1)
    assert [(reply.request, reply.status, reply.batches) for reply in seen] == [
        (901, FETCH_FENCED, []),
        (902, FETCH_UNKNOWN, []),
    ]


def test_R6_a_diverged_tail_is_cut_and_replaced() -> None:
    world, partition = ready()
    old = world.leader(partition)
    world.drop = cut(old)
    world.publish(partition, b"stored by the old leader only")
    world.run(0.2)
    assert world.replica(old, partition).leo == 4
    assert world.run_until(
        lambda: world.leader(partition) not in (0, old) and partition in world.subscriptions
    )
    world.publish(partition, b"kept", b"kept too")
    assert world.run_until(lambda: world.replica(world.leader(partition), partition).hw == 5)
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: world.replica(old, partition).hw == 5)
    assert world.values(old, partition) == [b"a", b"b", b"c", b"kept", b"kept too"]
    assert world.nodes[old].marks["R6.truncate"] >= 1


def test_R6_truncation_goes_back_over_several_epochs_in_rounds() -> None:
    """A tail of two epochs that the present leader has never seen is cut epoch by epoch (KIP-279)."""
    world, partition = ready()
    follower = others(world, partition)[0]
    leader = world.replica(world.leader(partition), partition)
    world.kill(follower)
    assert world.run_until(lambda: leader.epoch and follower not in leader.isr)
    log = world.disks[follower].logs[partition]
    own = leader.epochs[-1].epoch
    # What two unlucky leaders in a row may have left: a record of the common epoch, then one of a later one.
    for epoch, offset in ((own, 3), (own + 1, 4)):
        log.batches.append(encode_messages(partition, offset, epoch, 1, [Message(b"orders", b"", b"", b"x")]))
    log.durable = len(log.batches)
    leader.history.note(own + 2, 3)
    leader.history.truncate(3)
    world.restart(follower)
    assert world.run_until(lambda: follower in world.replica(world.leader(partition), partition).isr)
    assert world.values(follower, partition) == [b"a", b"b", b"c"]
    assert world.nodes[follower].marks["R6.diverged"] >= 1


def test_R6_a_late_answer_is_thrown_away() -> None:
    world, partition = ready()
    follower = others(world, partition)[0]
    following = world.replica(follower, partition).following
    before = world.replica(follower, partition).leo
    leader = world.leader(partition)
    present = world.nodes[follower].incarnation
    for incarnation, request in ((present, following.request - 1), (present - 1, following.request)):
        stale = FetchReply(partition, following.epoch, incarnation, request, 1, 0, 0, 0, 0, 0, [])
        world.replica(follower, partition).on_reply(leader, stale)
        assert world.replica(follower, partition).leo == before


def test_R6_an_answer_to_an_earlier_run_cuts_nothing() -> None:
    """Regression (simulator seed 81): the new run asks in the same epoch and numbers its fetches anew."""
    world, partition = ready()
    follower = others(world, partition)[0]
    leader = world.leader(partition)
    epoch = world.replica(leader, partition).epoch
    earlier = world.nodes[follower].incarnation
    world.kill(follower)
    world.restart(follower)
    world.drop = lambda sender, to, message: isinstance(message, FetchReply) and to == follower
    assert world.run_until(lambda: partition in world.nodes[follower].replicas)
    replica = world.replica(follower, partition)
    assert world.run_until(lambda: replica.following is not None and replica.following.epoch == epoch)
    late = FetchReply(partition, epoch, earlier, replica.following.request, FETCH_DIVERGED, 0, 0, 9, 1, 0, [])
    world.step(follower, Received(leader, late))
    assert replica.leo == 3


def test_R7_a_follower_asks_for_more_before_it_has_synced() -> None:
    world, partition = ready()
    slow = others(world, partition)[0]
    world.hold_storage(slow)
    for value in (b"d", b"e", b"f"):
        world.publish(partition, value)
        world.run(0.1)
    assert world.replica(slow, partition).leo == 6
    assert world.replica(slow, partition).durable_leo == 3


def test_R8_a_follower_never_knows_more_committed_than_it_has() -> None:
    world, partition = ready()
    behind = others(world, partition)[0]
    world.drop = cut(behind)
    assert world.run_until(lambda: behind not in world.replica(world.leader(partition), partition).isr)
    assert world.run_until(lambda: partition in world.subscriptions)
    for number in range(5):
        world.publish(partition, b"more %d" % number)
        world.run(0.2)
    world.drop = lambda sender, to, message: False
    replica = world.replica(behind, partition)
    while replica.hw < 8:
        assert world.run_until(lambda: True)
        world.run(0.001)
        assert replica.hw <= replica.leo


# -- ISR ---------------------------------------------------------------------------------------------


def test_R10_R11_a_lagging_replica_leaves_and_joins_again_when_it_has_caught_up() -> None:
    world, partition = ready()
    lagging = others(world, partition)[0]
    world.hold_storage(lagging)
    world.publish(partition, b"d")
    leader = world.leader(partition)
    assert world.run_until(lambda: lagging not in world.replica(leader, partition).isr)
    assert world.run_until(lambda: world.replica(leader, partition).hw == 4), "the others commit without it"
    world.release_storage(lagging)
    assert world.run_until(lambda: lagging in world.replica(leader, partition).isr)


def test_R13_below_the_minimum_commits_stop_and_nothing_is_lost() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    for node in others(world, partition):
        world.hold_storage(node)
    world.publish(partition, b"d")
    replica = world.replica(leader, partition)
    assert world.run_until(lambda: len(replica.isr) == 1)
    world.run(2.0)
    assert (replica.leo, replica.hw) == (4, 3), "alone it commits nothing"
    assert replica.record.eligible, "the one removed last still has everything committed"
    world.publish(partition, b"e")
    world.run(0.2)
    assert [refusal.code for refusal in world.refusals] == ["too-few-in-sync"]
    for node in list(world.held):
        world.release_storage(node)
    assert world.run_until(lambda: world.committed(partition, 4))


def test_R14_all_tails_suspect_the_greatest_is_elected_when_all_have_reported() -> None:
    world, partition = ready()
    for node in (1, 2, 3):
        world.kill(node)
    for node in (1, 2, 3):
        world.restart(node, TailState.SUSPECT)
    assert world.run_until(lambda: partition in world.subscriptions)
    leader = world.leader(partition)
    assert world.run_until(lambda: len(world.replica(leader, partition).isr) == 3)
    world.publish(partition, b"d")
    assert world.run_until(lambda: world.committed(partition, 4))
    assert all(world.values(node, partition) == [b"a", b"b", b"c", b"d"] for node in (1, 2, 3))


def test_R15_controller_and_leader_may_be_the_same_victim() -> None:
    world, partition = ready()
    controller = world.nodes[1].raft.leader
    if world.leader(partition) != controller:
        world.answer(controller, ElectLeaderRequest("orders", 0, controller))
        assert world.run_until(lambda: world.leader(partition) == controller)
        assert world.run_until(lambda: world.subscriptions.get(partition, (0, 0))[0] == controller)
    start = world.now
    world.kill(controller)
    assert world.run_until(lambda: partition in world.subscriptions, 20)
    acks = len(world.acks)
    world.publish(partition, b"d", reply=b"")
    world.publish(partition, b"e")
    new = world.leader(partition)
    assert world.run_until(lambda: len(world.acks) > acks or world.replica(new, partition).hw == 5, 20)
    assert world.now - start < 5.0, "simulated seconds at default settings"


# -- readers -----------------------------------------------------------------------------------------


def test_R3_readers_see_nothing_above_the_hw() -> None:
    world, partition = ready()
    for node in others(world, partition):
        world.hold_storage(node)
    world.publish(partition, b"d")
    world.run(0.3)
    reply = world.answer(world.leader(partition), ReadRequest(partition, 0))
    assert isinstance(reply, ReadReply)
    assert (reply.hw, reply.next_offset) == (3, 3)


def test_R3_a_server_behind_the_reader_waits_and_then_says_not_ready() -> None:
    world, partition = ready()
    reply = world.answer(others(world, partition)[0], ReadRequest(partition, 0, wait_ms=500, seen_hw=4))
    assert (reply.code, reply.retryable) == ("not-ready", True)


def test_R3_a_server_of_an_earlier_epoch_waits_until_it_has_heard_of_the_readers() -> None:
    """Where a leader was elected uncleanly, its log may lack what this one still has."""
    world, partition = ready()
    follower = others(world, partition)[0]
    epoch = world.replica(follower, partition).epoch
    asked = ReadRequest(partition, 0, wait_ms=500, seen_epoch=epoch + 1, seen_hw=1)
    reply = world.answer(follower, asked)
    assert (reply.code, reply.retryable) == ("not-ready", True)
    assert f"epoch {epoch}, the reader has seen 1 and epoch {epoch + 1}" in reply.description
    assert world.nodes[follower].marks["R3.earlier-epoch"]
    waiting = world.ask(follower, msgspec.structs.replace(asked, wait_ms=60_000))
    world.kill(world.leader(partition))
    assert world.run_until(lambda: world.replica(follower, partition).epoch > epoch, 20)
    assert world.run_until(lambda: waiting in world.replies, 5)
    assert world.replies[waiting].epoch == epoch + 1 and world.replies[waiting].hw == 3


def test_R3_latest_is_answered_only_by_the_confirmed_leader() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    reply = world.answer(leader, OffsetRequest(partition, "latest"))
    assert isinstance(reply, OffsetReply)
    assert reply.offset == 2
    refused = world.answer(others(world, partition)[0], OffsetRequest(partition, "latest"))
    assert (refused.code, refused.leader) == ("not-leader", leader)
    # A leader that the metadata group cannot hear does not answer at all.
    world.drop = cut(leader)
    number = world.ask(leader, OffsetRequest(partition, "latest"))
    world.run(15.0)
    assert world.replies[number].code in ("timeout", "not-leader")


def test_R3_a_read_is_not_answered_by_the_round_of_a_client_that_has_gone() -> None:
    world, _ = ready()
    controller = next(number for number, node in world.nodes.items() if node.raft.is_leader)
    kept: list[Received] = []

    def keep(sender: int, to: int, message: Any) -> bool:
        if to == controller:
            kept.append(Received(sender, message))
        return to == controller

    world.drop = keep
    first = world.ask(controller, StreamInfoRequest("orders"))
    world.run(0.05)
    world.drop = cut(controller)
    world.post(controller, ClientGone(ClientRef(first)))
    second = world.ask(controller, StreamInfoRequest("orders"))
    world.run(0.05)
    for answer in kept:
        world.post(controller, answer)
    world.run(0.05)
    marks = world.nodes[controller].marks
    # The quorum said that it followed this leader before the second client asked, not afterwards.
    assert marks["R3.earlier-round"] == 1 and second not in world.replies
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: second in world.replies) and first not in world.replies


# -- NATS --------------------------------------------------------------------------------------------


def test_N1_only_the_leader_subscribes_and_the_stream_is_ready_after_its_confirmation() -> None:
    world, partition = ready()
    info = world.answer(2, StreamInfoRequest("orders"))
    assert info.streams[0].partitions[0].ready
    assert world.subscriptions[partition][0] == world.leader(partition)


def test_N2_a_leader_out_of_contact_unsubscribes_and_answers_nothing() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    world.drop = cut(leader)
    assert world.run_until(lambda: world.nodes[leader].ctx.fenced, 2.5)
    acks = len(world.acks)
    epoch = world.replica(leader, partition).epoch
    message = Message(b"orders", b"_INBOX.y", b"", b"late")
    world.step(leader, Published(partition, epoch, [message], 1))
    world.run(0.5)
    assert [ack for ack in world.acks[acks:] if b"_INBOX.y" in ack.replies] == []


@pytest.mark.parametrize("replicas", [1, 3])
def test_N2_a_leader_that_was_paused_judges_what_waited_by_the_time_that_has_passed(replicas: int) -> None:
    """All that came meanwhile is handled before its second tick: heartbeats' answers and fetches among it."""
    world, partition = ready(replicas=replicas)
    leader = world.leader(partition)
    epoch = world.replica(leader, partition).epoch
    world.publish(partition, b"in flight", reply=b"_INBOX.flight")
    world.pause(leader)
    world.run(0.3)
    message = Message(b"orders", b"_INBOX.late", b"", b"late")
    for _ in range(20):
        world.post(leader, Published(partition, epoch, [message], 1))
        world.run(0.5)
    acks, end = len(world.acks), world.replica(leader, partition).leo
    world.resume(leader)
    assert world.nodes[leader].ctx.fenced
    assert world.nodes[leader].marks["N2.fenced"] == 1
    assert [ack for ack in world.acks[acks:] if ack.epoch == epoch] == []
    world.run(10.0)
    assert [ack for ack in world.acks[acks:] if ack.epoch == epoch] == []
    assert not [ack for ack in world.acks if b"_INBOX.late" in ack.replies]
    assert b"late" not in world.values(leader, partition)[:end]
    assert world.leader(partition) and world.replica(world.leader(partition), partition).epoch > epoch
    assert world.publish(partition, b"goes on", reply=b"_INBOX.on")
    assert world.run_until(lambda: any(b"_INBOX.on" in ack.replies for ack in world.acks))


def test_N2_a_node_whose_session_ended_is_not_answered_before_it_knows() -> None:
    """It might not have applied yet that others lead; what it applies first is its own expiry."""
    world, partition = ready()
    leader = world.leader(partition)
    controller = next(node for node, each in world.nodes.items() if each.raft.is_leader)
    if controller == leader:
        world.nodes[leader].raft.transfer(others(world, partition)[0])
        assert world.run_until(lambda: any(n.raft.is_leader for k, n in world.nodes.items() if k != leader))
        controller = next(node for node, each in world.nodes.items() if each.raft.is_leader)
    # Heartbeats go through, what the controller has to say of the log does not.
    world.drop = lambda sender, to, message: to == leader and not isinstance(message, HeartbeatReply)
    world.pause(leader)
    known = world.nodes[controller].metadata.nodes
    assert world.run_until(lambda: known[leader].state == "expired")
    world.resume(leader)
    world.run(0.4)
    assert world.nodes[leader].raft.leader == controller
    world.run(3.0)
    assert world.nodes[leader].ctx.fenced
    assert world.nodes[controller].marks["N2.unanswered"] > 0
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: not world.nodes[leader].ctx.fenced)
    assert world.replica(leader, partition).leading is None


def test_N3_stepping_down_answers_no_publish_in_flight() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    world.drop = cut(leader)
    world.publish(partition, b"in flight", reply=b"_INBOX.z")
    assert world.run_until(lambda: world.leader(partition) not in (0, leader))
    world.drop = lambda sender, to, message: False
    world.run(5.0)
    assert not [ack for ack in world.acks if b"_INBOX.z" in ack.replies]
    assert not [refusal for refusal in world.refusals if b"_INBOX.z" in refusal.replies]


def test_N4_too_few_in_sync_is_said_and_plain_messages_are_kept() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    for node in others(world, partition):
        world.kill(node)
    replica = world.replica(leader, partition)
    alone = replace(replica.leading.record, isr=(leader,))
    replica.leading.view(alone)
    epoch = replica.epoch
    asked = Message(b"orders", b"_INBOX.q", b"", b"asked")
    plain = Message(b"orders", b"", b"", b"plain")
    world.step(leader, Published(partition, epoch, [asked, plain], 1))
    assert [(refusal.code, refusal.replies) for refusal in world.refusals] == [
        ("too-few-in-sync", [b"_INBOX.q"])
    ]
    assert replica.leo == 4, "the message without a reply subject is stored, not committed"
    assert replica.hw == 3


def test_N6_over_the_limit_requesters_are_answered_and_the_drop_is_counted() -> None:
    world, partition = ready(inflight_max_bytes=1)
    for node in others(world, partition):
        world.hold_storage(node)
    world.publish(partition, b"waits for its commit")
    world.publish(partition, b"one too many", b"and another", reply=b"_INBOX.full")
    world.publish(partition, b"plain", reply=b"")
    world.run(0.1)
    leader = world.replica(world.leader(partition), partition)
    assert [(refusal.code, refusal.replies) for refusal in world.refusals] == [
        ("overload", [b"_INBOX.full"] * 2)
    ]
    assert leader.leo == 4
    assert world.nodes[world.leader(partition)].marks["N6.dropped"] == 1


# -- unclean elections ---------------------------------------------------------------------------------


def unclean() -> tuple[Any, PartitionId, int]:
    """An operator has elected a node that lacks two committed records; two others were committed since."""
    world, partition = ready(replica_lag_max_ms=1000, leader_timeout_ms=60_000)
    behind = others(world, partition)[0]
    world.drop = lambda sender, to, message: (
        behind in (sender, to) and isinstance(message, Fetch | FetchProgress | FetchReply)
    )
    world.publish(partition, b"d", b"e")
    leader = world.leader(partition)
    assert world.run_until(lambda: behind not in world.replica(leader, partition).isr, 10)
    assert world.run_until(lambda: world.replica(leader, partition).hw == 5, 10)
    world.ask(leader, ElectLeaderRequest("orders", 0, behind, True))
    assert world.run_until(lambda: world.leader(partition) == behind)
    world.drop = lambda sender, to, message: False
    return world, partition, behind


def test_R6_what_an_unclean_election_has_lost_may_be_cut() -> None:
    world, partition, leader = unclean()
    assert world.run_until(lambda: len(world.replica(leader, partition).isr) == 3)
    for node in world.nodes:
        assert world.values(node, partition) == [b"a", b"b", b"c"]


def test_R6_an_unclean_election_excuses_no_cut_of_what_was_committed_after_it() -> None:
    """It excused every one from then on: a wrong answer threw away what everybody had acknowledged."""
    world, partition, leader = unclean()
    assert world.run_until(lambda: len(world.replica(leader, partition).isr) == 3)
    world.publish(partition, b"x", b"y")
    assert world.run_until(lambda: world.committed(partition, 5))
    follower = others(world, partition)[0]
    replica = world.replica(follower, partition)
    epoch, incarnation = replica.epoch, world.nodes[follower].incarnation
    reply = FetchReply(
        partition, epoch, incarnation, replica.following.request, FETCH_DIVERGED, 0, 0, 5, 1, 3, []
    )
    world.step(follower, Received(leader, reply))
    assert "below the committed offset 5" in world.nodes[follower].ctx.last_refusal
    assert world.values(follower, partition) == [b"a", b"b", b"c", b"x", b"y"]


def test_R6_after_a_restart_the_epoch_of_the_last_committed_record_says_what_is_excused() -> None:
    world, partition, leader = unclean()
    assert world.run_until(lambda: len(world.replica(leader, partition).isr) == 3)
    world.publish(partition, b"x", b"y")
    assert world.run_until(lambda: world.committed(partition, 5))
    world.run(5)
    follower = others(world, partition)[0]
    epoch = world.replica(follower, partition).epoch
    world.kill(follower)
    world.restart(follower)
    assert world.run_until(lambda: partition in world.nodes[follower].replicas)
    replica = world.replica(follower, partition)
    assert (replica.hw, replica.log.hw_epoch) == (5, epoch)
