"""What comes from outside is judged in one place, and ends neither a node nor a partition (V1 to V5)."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from liftlog.api import wire
from liftlog.api.handshake import PEER, Answerer, HandshakeError, Party
from liftlog.core.metadata.commands import (
    AlterStream,
    ChangeIsr,
    CreateStream,
    DeleteStream,
    ElectLeader,
    RegisterNode,
    RequestId,
    decode_command,
    encode_command,
)
from liftlog.core.metadata.metadata import STREAMS_MAX
from liftlog.core.raft.gate import INDEX_JUMP_MAX, TERM_ALLOWANCE
from liftlog.epochs import EpochHistory
from liftlog.messages import (
    FETCH_BELOW_START,
    FETCH_DIVERGED,
    FETCH_OK,
    AppendReply,
    AppendRequest,
    BirthReply,
    Fetch,
    FetchProgress,
    FetchReply,
    Forward,
    HeartbeatReply,
    PeerMessage,
    RangeFetch,
    ReadIndexReply,
    Received,
    SaveHardState,
    Send,
    StreamChanges,
    VoteReply,
    VoteRequest,
    intake,
)
from liftlog.types import (
    NUMBER_MAX,
    Entry,
    EpochStart,
    HardState,
    InvariantViolation,
    LiftlogError,
    PartitionId,
    StreamConfig,
)
from tests.core.node_harness import World
from tests.core.raft_harness import Group
from tests.core.test_replication import others, ready

encode = msgspec.msgpack.encode
LOG = PartitionId(5, 0)


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\xc1",
        b"\x91" * 100_000,
        b"\x93\x01\xa2\xff\xff\x00",
        b"\xdd\xff\xff\xff\xff",
        encode(["VoteReply", (1 << 64) - 1, 1, True, False]),
        encode(["VoteReply", -1, 1, True, False]),
        encode(["VoteReply", 1, 70_000, True, False]),
        encode(["VoteReply", 1, 1, True, False, "disk", "surplus"]),
        encode(["Fetch", [5, 2048], 1, 1, 1, 0, 0, 0, 1]),
        encode(["Fetch", [5, -1], 1, 1, 1, 0, 0, 0, 1]),
        encode(["Fetch", [5, 0], 1, 1, 1, 0, 0, 0, 1 << 40]),
        encode(["FetchReply", [5, 0], 1, 1, 1, 6, 0, 0, 0, 0, 0, []]),
        encode(["BirthQuery", "x" * 65]),
    ],
)
def test_v1_what_is_no_message_is_refused_with_a_reason(frame: bytes) -> None:
    for read in (intake.peer_message, wire.client_call, wire.client_answer, decode_command):
        with pytest.raises(intake.InputRefused, match=r"^not a"):
            read(frame)  # type: ignore[operator]
    with pytest.raises(HandshakeError):
        Answerer(Party("liftlog", 1, (b"s" * 32,)), PEER, lambda node: True, lambda: bytes(32)).receive(frame)


def test_v1_a_reason_names_the_field_and_what_is_accepted() -> None:
    with pytest.raises(intake.InputRefused, match=f"<= {NUMBER_MAX} - at `\\$\\[1\\]`"):
        intake.peer_message(encode(["VoteReply", (1 << 64) - 1, 1, True, False]))


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "\ud800", "a\n"])
def test_v1_what_cannot_be_a_stream_s_name_is_none(name: str) -> None:
    assert "use 1 to 64 letters" in intake.name_problem(name)


APPEND = AppendRequest(5, 1, 3, 2, 3, 7, [Entry(4, 2, b""), Entry(5, 4, b"")])
ANSWER = FetchReply(LOG, 2, 3, 4, FETCH_OK, 7, 5, 9, 0, 0, [], 3, 2)
CERTIFICATE = [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        (VoteRequest(5, 1, 3, 4, False), {"last_term": 5}),
        (APPEND, {"prev_term": 6}),
        (APPEND, {"prev_index": 4}),
        (APPEND, {"prev_term": 3}),
        (APPEND, {"term": 3}),
        (APPEND, {"entries": [Entry(4, 4, b""), Entry(5, 3, b"")]}),
        (BirthReply("a", False, True, CERTIFICATE, True), {"fresh": True}),
        (BirthReply("a", False, True, CERTIFICATE, True), {"signed": []}),
        (BirthReply("a", False, True, CERTIFICATE, True), {"signed": CERTIFICATE[::-1]}),
        (Fetch(LOG, 2, 3, 4, 9, 8, 2, 100, 5, 9), {"durable_leo": 10}),
        (Fetch(LOG, 2, 3, 4, 9, 8, 2, 100, 5, 9), {"log_start": 10}),
        (Fetch(LOG, 2, 3, 4, 9, 8, 2, 100, 5, 9), {"clean_point": 10}),
        (FetchProgress(LOG, 2, 3, 9, 8, 2, 5), {"durable_leo": 10}),
        (ANSWER, {"hw": 10}),
        (ANSWER, {"log_start": 8}),
        (ANSWER, {"tombstones_below": 10}),
        (ANSWER, {"status": FETCH_DIVERGED}),
        (FetchReply(LOG, 2, 3, 4, FETCH_BELOW_START, 0, 5, 9, 1, 4, []), {"log_start": 10}),
        (FetchReply(LOG, 2, 3, 4, FETCH_BELOW_START, 0, 5, 9, 1, 4, []), {"end_offset": 6}),
        (FetchReply(LOG, 2, 3, 4, FETCH_DIVERGED, 0, 5, 9, 1, 4, []), {"batches": [b""]}),
        (RangeFetch(LOG, 2, 3, 4, 5, 7, 100), {"end": 5}),
    ],
)
def test_v3_a_message_that_contradicts_itself_is_known_by_that(
    right: PeerMessage, wrong: dict[str, Any]
) -> None:
    assert intake.contradiction(right) == ""
    assert intake.contradiction(msgspec.structs.replace(right, **wrong)) != ""


def state_of(world: World, node: int) -> tuple[object, ...]:
    """What a node must not change because of a message that it refuses."""
    one = world.nodes[node]
    raft = one.raft
    return (
        raft.term,
        raft.voted_for,
        raft.commit,
        raft.leader,
        list(raft.log),
        [(r.leo, r.durable_leo, r.hw, r.log_start, r.epoch, r.role) for r in one.replicas.values()],
    )


def refused(world: World, node: int, sender: int, message: PeerMessage, mark: str) -> None:
    """The node takes the message, does nothing about it, and counts it."""
    one = world.nodes[node]
    before, count = state_of(world, node), one.marks.get(mark, 0)
    effects = one.step(Received(sender, message)).effects
    assert not any(isinstance(effect, (SaveHardState, Send)) for effect in effects)
    assert state_of(world, node) == before
    assert one.marks.get(mark, 0) == count + 1, (mark, one.marks)


def test_v2_a_peer_speaks_for_itself_alone() -> None:
    world, partition = ready()
    controller = next(number for number, node in world.nodes.items() if node.raft.is_leader)
    one, two = (number for number in world.nodes if number != controller)
    term = world.nodes[controller].raft.term
    refused(world, one, two, AppendRequest(term, controller, 0, 0, 0, 0, []), "V2.AppendRequest")
    refused(world, controller, one, AppendReply(term, two, True, 1, 0), "V2.AppendReply")
    refused(world, one, two, VoteReply(term + 9, controller, False, False), "V2.VoteReply")
    refused(world, one, two, VoteRequest(term + 9, controller, 99, term, False), "V2.VoteRequest")
    refused(world, one, 77, VoteReply(term + 9, 77, False, False), "V2.VoteReply")
    incarnation = world.nodes[two].incarnation
    register = RegisterNode(RequestId(1, 1, 1000), two, incarnation, "other", 0, 1, "", [])
    refused(world, controller, one, Forward(encode_command(register)), "V3.Forward")
    isr = ChangeIsr(RequestId(1, 2, 1000), partition, two, 1, 1, [two], 0, 0)
    refused(world, controller, one, Forward(encode_command(isr)), "V3.Forward")


def test_v3_what_contradicts_a_node_s_own_state_is_refused() -> None:
    world, partition = ready()
    controller = next(number for number, node in world.nodes.items() if node.raft.is_leader)
    one, two = (number for number in world.nodes if number != controller)
    raft = world.nodes[controller].raft
    term, last = raft.term, raft.raft_log.last_index
    assert raft.leadership is not None
    refused(world, one, two, AppendRequest(term, two, 0, 0, 0, 0, []), "V3.AppendRequest")
    refused(world, controller, one, AppendRequest(term, one, 0, 0, 0, 0, []), "V3.AppendRequest")
    other = [Entry(1, term + 1, b"")]
    refused(world, one, two, AppendRequest(term + 1, two, 0, 0, 0, 0, other), "V3.AppendRequest")
    refused(world, controller, one, AppendReply(term, one, True, last + 1, 0), "V3.AppendReply")
    ahead = AppendReply(term, one, True, last, 1 << 40, True, world.nodes[one].raft.disk_id)
    refused(world, controller, one, ahead, "V3.AppendReply")
    late = HeartbeatReply(world.nodes[one].incarnation, 1 << 40)
    refused(world, one, controller, late, "V3.HeartbeatReply")

    leader = world.leader(partition)
    follower = others(world, partition)[0]
    replica = world.replica(follower, partition)
    for reply in (
        FetchReply(partition, replica.epoch, 0, 0, FETCH_DIVERGED, 0, 0, 0, 0, 0, []),
        FetchReply(partition, replica.epoch, 0, 0, FETCH_DIVERGED, 0, 0, 0, 1 << 40, 0, []),
        FetchReply(partition, replica.epoch, 0, 0, FETCH_BELOW_START, 0, 1, 9, 0, 0, []),
    ):
        assert replica.follower is not None and replica.following is not None
        replica.follower.fetch()
        world.nodes[follower].step(Received(leader, HeartbeatReply(0, 0)))
        reply.incarnation, reply.request = world.nodes[follower].incarnation, replica.following.request
        refused(world, follower, leader, reply, "V3.FetchReply")
    incarnation = world.nodes[follower].incarnation
    beyond = RangeFetch(partition, replica.epoch, incarnation, 99, 0, 1 << 40, 100)
    refused(world, leader, follower, beyond, "V3.RangeFetch")


def test_v4_a_term_or_an_index_that_no_honest_peer_can_have_come_to_is_refused() -> None:
    world, _ = ready()
    controller = next(number for number, node in world.nodes.items() if node.raft.is_leader)
    one, two = (number for number in world.nodes if number != controller)
    raft = world.nodes[one].raft
    term = raft.term_at_start + raft.ticks + TERM_ALLOWANCE + 1
    index = raft.raft_log.last_index + INDEX_JUMP_MAX + 1
    refused(world, one, two, VoteReply(term, two, False, False), "V4.VoteReply")
    refused(world, one, two, VoteRequest(term, two, 1, 1, False), "V4.VoteRequest")
    refused(world, one, two, VoteRequest(raft.term + 1, two, index, raft.term, False), "V4.VoteRequest")
    refused(world, one, two, AppendRequest(term, two, 0, 0, 0, 0, []), "V4.AppendRequest")
    ahead = AppendRequest(raft.term, controller, 0, 0, index, 0, [])
    refused(world, one, controller, ahead, "V4.AppendRequest")
    refused(world, one, two, AppendReply(term, two, False, 0, 0), "V4.AppendReply")
    refused(world, one, controller, ReadIndexReply(1, index), "V4.ReadIndexReply")


def test_v4_the_terms_of_a_long_absence_are_believed() -> None:
    group = Group(3)
    group.elect(1)
    raft = group.raft(2)
    group.step(2, lambda: raft.on_message(3, VoteReply(TERM_ALLOWANCE, 3, False, False)))
    assert raft.term == TERM_ALLOWANCE


def test_v4_a_disk_with_a_term_that_no_group_gets_to_is_named_with_a_remedy() -> None:
    group = Group(3)
    group.crash(1)
    group.disks[1].hard_state = HardState(NUMBER_MAX)
    with pytest.raises(LiftlogError, match=r"node 1: its disk holds term \d+ .* empty this node"):
        group.restart(1)


@pytest.mark.parametrize(
    "command",
    [
        b"\xc1",
        b"",
        b"\x91" * 50_000,
        encode(["Nothing", [1, 1, 1]]),
        encode(["Rebalance", [1, 1, 1], 7, 7]),
        encode(["Rebalance", [1, 1], 7]),
        encode(["Rebalance", [1, 1, -1], 7]),
        encode(["Rebalance", [-1, 1, 1], 7]),
        encode(["RegisterNode", [1, 1, 1], 2, 0, "disk", 0, 1, "", [[[5, 0], "fine", 0, 0]]]),
    ],
)
def test_v5_bytes_that_are_no_command_get_into_no_log(command: bytes) -> None:
    world, _ = ready()
    controller = next(number for number, node in world.nodes.items() if node.raft.is_leader)
    one = next(number for number in world.nodes if number != controller)
    refused(world, controller, one, Forward(command), "V3.Forward")
    raft = world.nodes[controller].raft
    if command:
        entry = Entry(raft.raft_log.last_index + 1, raft.term, command)
        previous = raft.raft_log.last_term
        request = AppendRequest(raft.term, controller, entry.index - 1, previous, 0, 0, [entry])
        refused(world, one, controller, request, "V3.AppendRequest")


def test_v5_an_entry_of_the_node_s_own_log_that_is_no_command_stops_it_with_a_reason() -> None:
    world = World(1)
    assert world.run_until(lambda: world.nodes[1].incarnation > 0)
    world.nodes[1].raft.propose(b"\xc1")
    with pytest.raises(InvariantViolation, match=r"metadata log is not a command: .*newer liftlog"):
        world.run(5)


SOME = RequestId(1, 1, 1000)


@pytest.mark.parametrize(
    "command",
    [
        CreateStream(SOME, StreamConfig("a", "b", partitions=STREAMS_MAX), 1000),
        CreateStream(SOME, StreamConfig("no name", "b"), 1000),
        DeleteStream(SOME, NUMBER_MAX, "\x00"),
        AlterStream(SOME, NUMBER_MAX, "\x00", 0, StreamChanges(read_only=True)),
        ElectLeader(SOME, PartitionId(NUMBER_MAX, 1023), 1, 65535, True),
    ],
)
def test_v5_a_command_that_means_nothing_is_applied_to_no_effect(command: Any) -> None:
    world, _ = ready()
    streams = dict(world.nodes[1].metadata.streams)
    node = next(node for node in world.nodes.values() if node.raft.is_leader)
    sender = next(number for number in world.nodes if number != node.config.node)
    node.step(Received(sender, Forward(encode_command(command))))
    world.run(3)
    assert dict(world.nodes[1].metadata.streams) == streams


def test_v3_a_record_behind_damage_has_an_epoch_that_fits_what_is_around_it() -> None:
    history = EpochHistory([EpochStart(2, 0), EpochStart(4, 10), EpochStart(7, 20)])
    for epoch, offset, fits in (
        (2, 5, True),
        (3, 5, True),
        (4, 5, True),
        (5, 5, False),
        (1, 5, False),
        (4, 10, True),
        (3, 10, False),
        (9, 25, True),
        (6, 25, False),
    ):
        assert history.admits(epoch, offset) == fits, (epoch, offset)


def test_v3_an_answer_to_a_leader_of_the_past_is_no_lie() -> None:
    """Found by the simulator: the same node leads again, and has not begun so many rounds yet (M1n)."""
    world, _ = ready()
    controller = next(number for number, node in world.nodes.items() if node.raft.is_leader)
    one = next(number for number in world.nodes if number != controller)
    node = world.nodes[controller]
    answer = AppendReply(node.raft.term, one, False, 0, 1 << 20, False)
    node.step(Received(one, answer))
    assert node.ctx.refused == 0


def test_v3_a_fetch_numbered_beyond_reason_does_not_freeze_a_clean_point() -> None:
    """Found by the simulator: whatever came later counted as older, and a copy may be reset (C2)."""
    world, partition = ready()
    leader, follower = world.leader(partition), others(world, partition)[0]
    replica = world.replica(leader, partition)
    incarnation = world.nodes[follower].incarnation
    for request, clean_point in ((1 << 40, 3), (7, 1)):
        epoch = replica.epoch
        fetch = Fetch(partition, epoch, incarnation, request, 3, 3, epoch, 100, 0, clean_point)
        world.nodes[leader].step(Received(follower, fetch))
    assert replica.leading is not None
    assert replica.leading.followers[follower].clean_point == 1
