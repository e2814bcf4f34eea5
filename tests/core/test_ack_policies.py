"""When a message is answered is its publisher's to say: of all, of the leader alone, or never (R4)."""

from __future__ import annotations

import json

import pytest

from liftlog.messages import AckPublishes, EnvelopeAnswer, Published, RefusePublishes
from liftlog.mutants import Mutants
from liftlog.options.envelope import Envelope, EnvelopeAck, open_ack, seal
from liftlog.options.wishes import ALL, LEADER, NONE
from liftlog.real import nats_wire
from liftlog.types import Message, PartitionId
from tests.core.node_harness import World
from tests.core.test_headers import block
from tests.core.test_nats_parser import parse_publishes
from tests.core.test_replication import others, ready

PARTITION = PartitionId(5, 2)


def message(policy: str, reply: bytes, value: bytes = b"x", *lines: str) -> Message:
    return Message(b"orders", reply, block(f"Liftlog-Ack-Policy: {policy}", *lines), value)


def publish(world: World, partition: PartitionId, *messages: Message) -> int:
    """Hand these to the leader; returns the offset of the first."""
    leader, epoch = world.subscriptions[partition]
    leo = world.replica(leader, partition).leo
    world.step(leader, Published(partition, epoch, list(messages), 1))
    return leo


def acks_for(world: World, reply: bytes) -> list[AckPublishes]:
    return [ack for ack in world.acks if reply in ack.replies]


def test_R4_the_leader_gives_its_word_after_its_sync_and_does_not_wait_for_the_others() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    for node in others(world, partition):
        world.hold_storage(node)
    world.hold_storage(leader)
    base = publish(
        world,
        partition,
        message("all", b"_INBOX.all"),
        message("leader", b"_INBOX.leader"),
        Message(b"orders", b"_INBOX.plain", b"", b"x"),
    )
    world.run(0.3)
    assert not any(acks_for(world, reply) for reply in (b"_INBOX.all", b"_INBOX.leader", b"_INBOX.plain"))
    world.release_storage(leader)
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.leader")))
    (word,) = acks_for(world, b"_INBOX.leader")
    assert word.by_leader and word.replies == [b"", b"_INBOX.leader", b""]
    assert word.offsets_from == base
    world.run(0.2)
    assert not acks_for(world, b"_INBOX.all"), "nothing is committed yet"
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.all")))
    (committed,) = acks_for(world, b"_INBOX.all")
    assert not committed.by_leader and committed.replies == [b"_INBOX.all", b"", b"_INBOX.plain"]
    assert len(acks_for(world, b"_INBOX.leader")) == 1, "one message, one ack"


def test_R4_who_wants_no_answer_gets_none_not_even_a_refusal() -> None:
    world, partition = ready()
    base = publish(world, partition, message("none", b"service.x"), message("all", b"_INBOX.all"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.all")))
    (ack,) = acks_for(world, b"_INBOX.all")
    assert (ack.offsets_from, ack.replies) == (base, [b"", b"_INBOX.all"]), "it is stored all the same"
    publish(world, partition, message("none", b"service.x", b"x", "Nats-TTL: 1"))
    assert [(one.code, one.replies) for one in world.refusals] == [("ttl-disabled", [b""])]
    assert world.nodes[world.leader(partition)].marks["R4.none"] >= 2


def test_R4_N3_a_leader_that_steps_down_gives_no_more_words() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    world.hold_storage(leader)
    publish(world, partition, message("leader", b"_INBOX.leader"))
    world.fail_sync(leader, partition)
    world.run(1.0)
    assert not acks_for(world, b"_INBOX.leader")
    assert world.nodes[leader].marks["N3.unanswered"] == 1


def test_R4_an_envelope_is_answered_in_its_inbox() -> None:
    world, partition = ready()
    sealed = [
        seal(Envelope(value=b"%d" % policy, ack_inbox=f"acks.{policy}", correlation_id="c", policy=policy))
        for policy in (LEADER, ALL, NONE)
    ]
    publish(world, partition, *(Message(b"orders", b"service.x", b"", payload) for payload in sealed))
    assert world.run_until(lambda: bool(acks_for(world, b"acks.1")) and bool(acks_for(world, b"acks.0")))
    (word,), (committed,) = acks_for(world, b"acks.0"), acks_for(world, b"acks.1")
    assert word.by_leader and word.replies == [b"acks.0", b"", b""]
    assert committed.replies == [b"", b"acks.1", b""]
    assert committed.enveloped is not None and committed.enveloped[1] is not None
    assert committed.enveloped[1].correlation_id == "c"
    assert world.values(world.leader(partition), partition)[-3:] == [b"0", b"1", b"2"]


@pytest.mark.parametrize("value", ["some", "", "ALL", "full", "leader,all"])
def test_L4_an_unknown_policy_is_refused(value: str) -> None:
    world, partition = ready()
    publish(world, partition, message(value, b"_INBOX.a"))
    (refusal,) = world.refusals
    assert (refusal.code, refusal.replies) == ("header-not-honoured", [b"_INBOX.a"])
    assert "'all', 'leader' and 'none'" in refusal.description


def test_R4_a_planted_bug_gives_the_word_before_the_sync() -> None:
    for bug, early in ((Mutants(), False), (Mutants(without="R4.leader-synced"), True)):
        world = World(mutants=bug)
        partition = world.create()
        world.hold_storage(world.leader(partition))
        publish(world, partition, message("leader", b"_INBOX.leader"))
        assert bool(acks_for(world, b"_INBOX.leader")) is early


def test_R4_on_the_wire_the_leader_s_word_says_so() -> None:
    acks = AckPublishes(PARTITION, "s", 7, 31, 9, [b"a", b"b"], [False, True], by_leader=True)
    assert parse_publishes(nats_wire.acknowledgements(acks)) == [
        (b"a", {"stream": "s", "seq": 10, "policy": "leader"}),
        (
            b"b",
            {"stream": "s", "seq": 11, "offset": 10, "partition": 2, "epoch": 7, "incarnation": 31}
            | {"policy": "leader"},
        ),
    ]


def split(data: bytes) -> list[tuple[bytes, bytes]]:
    """(Subject, payload) of each PUB."""
    found = []
    while data:
        line, _, rest = data.partition(b"\r\n")
        _, subject, size = line.split(b" ")
        found.append((subject, rest[: int(size)]))
        data = rest[int(size) + 2 :]
    return found


def test_R4_on_the_wire_an_envelope_s_ack_is_liftbridge_s() -> None:
    answers: list[EnvelopeAnswer | None] = [
        None,
        EnvelopeAnswer("c1", ALL, b"orders.new", "orders", 5),
        EnvelopeAnswer("c2", ALL, b"orders.new", "orders", 5),
    ]
    acks = AckPublishes(PARTITION, "s", 7, 31, 9, [b"a", b"acks.1", b""], None, answers)
    (plain, in_json), (inbox, payload) = split(nats_wire.acknowledgements(acks, 8))
    assert (plain, json.loads(in_json)) == (b"a", {"stream": "s", "seq": 10})
    assert inbox == b"acks.1"
    assert open_ack(payload) == EnvelopeAck(
        "s", "orders", "orders.new", 10, "acks.1", "c1", ALL, 5_000_000, 8_000_000, 0
    )


@pytest.mark.parametrize(("code", "error"), [("too-large", 3), ("overload", 1), ("expected-offset", 2)])
def test_R4_on_the_wire_a_refused_envelope_has_an_error_and_no_offset_of_a_record(
    code: str, error: int
) -> None:
    answers: list[EnvelopeAnswer | None] = [EnvelopeAnswer("c1", LEADER, b"m", "orders", 5), None]
    refusal = RefusePublishes(PARTITION, "s", 7, code, "because", [b"acks.1", b"b"], None, answers)
    (inbox, payload), (reply, in_json) = split(nats_wire.refusals(refusal))
    assert (inbox, reply) == (b"acks.1", b"b")
    ack = open_ack(payload)
    assert ack is not None
    assert (ack.error, ack.offset, ack.correlation_id, ack.commit_timestamp) == (error, -1, "c1", 0)
    assert json.loads(in_json)["seq"] == 0
