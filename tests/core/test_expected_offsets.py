"""A message that expects an offset is stored there or not at all, and who is refused hears the truth (L6)."""

from __future__ import annotations

import json

import pytest

from liftlog.messages import Published, RefusePublishes
from liftlog.mutants import Mutants
from liftlog.options.envelope import INCORRECT_OFFSET, Envelope, open_ack, seal
from liftlog.options.reading import wishes_of
from liftlog.real import nats_wire
from liftlog.types import Message, PartitionId
from tests.core.node_harness import World
from tests.core.test_ack_policies import acks_for, publish, split
from tests.core.test_headers import block
from tests.core.test_replication import others, ready


def expecting(offset: int, reply: bytes = b"", value: bytes = b"x") -> Message:
    return Message(b"orders", reply, block(f"Liftlog-Expected-Offset: {offset}"), value)


def end(world: World, partition: PartitionId) -> int:
    return world.replica(world.leader(partition), partition).leo


def refusals(world: World) -> list[tuple[bytes, int]]:
    """Who was refused so, and what for."""
    assert {refusal.code for refusal in world.refusals} <= {"expected-offset"}
    return [(reply, one.next_offset) for one in world.refusals for reply in one.replies]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["Liftlog-Expected-Offset: 17"], 17),
        (["liftlog-expected-offset:  0 "], 0),
        (["Nats-Expected-Last-Sequence: 17"], 17),
        (["nats-expected-last-sequence: 17"], None),
        (["Nats-Expected-Last-Sequence: "], None),
        (["Nats-Expected-Last-Sequence: 17", "Liftlog-Expected-Offset: 17"], 17),
    ],
)
def test_L6_headers_say_which_offset(lines: list[str], expected: int | None) -> None:
    wish = wishes_of(Message(b"orders", b"", block(*lines), b"x"), "orders")
    assert wish.expected == expected and wish.refusal is None


@pytest.mark.parametrize(
    "lines",
    [
        ["Liftlog-Expected-Offset: -1"],
        ["Liftlog-Expected-Offset: 1e3"],
        ["Liftlog-Expected-Offset: " + "9" * 19],
        ["Nats-Expected-Last-Sequence: none"],
        ["Nats-Expected-Last-Sequence: 4", "Liftlog-Expected-Offset: 5"],
    ],
)
def test_L6_what_is_no_offset_is_refused(lines: list[str]) -> None:
    refusal = wishes_of(Message(b"orders", b"", block(*lines), b"x"), "orders").refusal
    assert refusal is not None and refusal.code == "header-not-honoured"


def test_L6_an_envelope_names_the_offset_and_no_header_another() -> None:
    for message in (
        Message(b"orders", b"", b"", seal(Envelope(offset=5))),
        Message(b"orders", b"", block("Nats-Expected-Last-Sequence: 5"), seal(Envelope(offset=5))),
        Message(b"orders", b"", block("Nats-Expected-Last-Sequence: 5"), seal(Envelope())),
    ):
        wish = wishes_of(message, "orders")
        assert (wish.expected, wish.refusal) == (5, None)
    both = Message(b"orders", b"", block("Nats-Expected-Last-Sequence: 4"), seal(Envelope(offset=5)))
    refusal = wishes_of(both, "orders").refusal
    assert refusal is not None and "two offsets" in refusal.text


def test_L6_each_message_is_compared_with_all_that_is_before_it() -> None:
    world, partition = ready()
    base = end(world, partition)
    publish(
        world,
        partition,
        expecting(base, b"_INBOX.a", b"a"),
        expecting(base, b"_INBOX.b", b"b"),
        expecting(base + 1, b"", b"c"),
        expecting(base + 1, b"", b"nobody hears of it"),
        Message(b"orders", b"_INBOX.d", b"", b"d"),
        expecting(base + 3, b"_INBOX.e", b"e"),
    )
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.e")))
    (ack,) = acks_for(world, b"_INBOX.a")
    assert (ack.offsets_from, ack.replies) == (base, [b"_INBOX.a", b"", b"_INBOX.d", b"_INBOX.e"])
    assert world.values(world.leader(partition), partition)[base:] == [b"a", b"c", b"d", b"e"]
    assert refusals(world) == [(b"_INBOX.b", base + 1)]
    assert "wrong last sequence" in world.refusals[0].description
    assert world.nodes[world.leader(partition)].marks["L6.dropped"] == 1


def test_L6_a_refusal_waits_until_what_it_rests_on_is_committed() -> None:
    world, partition = ready()
    base = end(world, partition)
    for node in others(world, partition):
        world.hold_storage(node)
    publish(world, partition, Message(b"orders", b"", b"", b"first"))
    publish(world, partition, expecting(base, b"_INBOX.late"), expecting(base + 1, b"", b"second"))
    publish(world, partition, expecting(base + 1, b"_INBOX.later"))
    world.run(0.3)
    assert refusals(world) == []
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: len(world.refusals) == 2)
    assert refusals(world) == [(b"_INBOX.late", base + 1), (b"_INBOX.later", base + 2)]
    publish(world, partition, expecting(base, b"_INBOX.at-once"))
    assert refusals(world)[2:] == [(b"_INBOX.at-once", base + 2)], "all of that is committed"


def test_L6_nobody_hears_of_a_refusal_that_rested_on_what_was_cut() -> None:
    world, partition = ready()
    base, first = end(world, partition), world.leader(partition)
    for node in others(world, partition):
        world.hold_storage(node)
    publish(world, partition, Message(b"orders", b"", b"", b"cut later"), expecting(base, b"_INBOX.a"))
    world.run(0.1)
    world.kill(first)
    for node in list(world.nodes):
        world.release_storage(node)
    assert world.run_until(lambda: world.leader(partition) not in (0, first))
    world.run(2.0)
    assert refusals(world) == []


@pytest.mark.parametrize("answers", [False, True])
def test_L6_N2_a_fenced_leader_tells_nobody(answers: bool) -> None:
    world = World(mutants=Mutants(fenced_leader_answers=answers))
    partition = world.create()
    leader, base = world.leader(partition), end(world, partition)
    for node in others(world, partition):
        world.hold_storage(node)
    publish(world, partition, Message(b"orders", b"", b"", b"first"), expecting(base, b"_INBOX.a"))
    role = world.nodes[leader].replicas[partition].roles.leader
    assert role is not None and role.inflight_bytes > len(b"first")
    role.fence()
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: world.committed(partition, base + 1))
    assert bool(world.refusals) == answers
    assert role.inflight_bytes == 0


def test_L6_refusals_that_wait_are_bounded() -> None:
    """They count with what is in flight: a publisher that is always wrong does not fill a leader's memory."""
    world = World(inflight_max_bytes=2_000)
    partition = world.create()
    base = end(world, partition)
    for node in others(world, partition):
        world.hold_storage(node)
    for number in range(60):
        publish(world, partition, expecting(base, b"_INBOX.%d" % number, b"." * 40))
    world.run(0.1)
    told = {refusal.code for refusal in world.refusals}
    assert told == {"overload"} and 10 < sum(len(one.replies) for one in world.refusals) < 60
    world.refusals.clear()
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: world.committed(partition, base + 1))
    assert world.run_until(lambda: bool(world.refusals))
    publish(world, partition, Message(b"orders", b"_INBOX.again", b"", b"there is room"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.again")))


def test_L6_on_the_wire_a_refusal_is_jetstream_s_or_liftbridge_s() -> None:
    refusal = RefusePublishes(
        PartitionId(5, 2), "s", 7, "expected-offset", "why", [b"a", b"b"], [False, True], next_offset=9
    )
    (_, plain), (_, full) = split(nats_wire.refusals(refusal))
    assert json.loads(plain) == {
        "error": {"code": 400, "err_code": 10071, "description": "why"},
        "stream": "s",
        "seq": 0,
    }
    ours = {"code": "expected-offset", "outcome": "info", "next_offset": 9}
    assert json.loads(full)["liftlog"] == ours
    world, partition = ready()
    payload = seal(Envelope(value=b"x", offset=99, ack_inbox="acks.1", correlation_id="c"))
    leader, epoch = world.subscriptions[partition]
    world.step(leader, Published(partition, epoch, [Message(b"orders", b"", b"", payload)], 1))
    ((inbox, sealed),) = split(nats_wire.refusals(world.refusals[-1]))
    ack = open_ack(sealed)
    assert inbox == b"acks.1" and ack is not None and (ack.error, ack.offset) == (INCORRECT_OFFSET, -1)


@pytest.mark.parametrize("bug", ["expected_by_committed", "expected_by_arrival"])
def test_L6_planted_bugs_store_what_did_not_fit(bug: str) -> None:
    world = World(mutants=Mutants(**{bug: True}))
    partition = world.create()
    base = end(world, partition)
    wrong = base if bug == "expected_by_committed" else base + 2
    first = Message(b"orders", b"", b"", b"first")
    unfit = [expecting(base + 7)] if bug == "expected_by_arrival" else []
    if bug == "expected_by_committed":
        publish(world, partition, first)
        publish(world, partition, expecting(wrong, b"", b"wrong"))
    else:
        publish(world, partition, first, *unfit, expecting(wrong, b"", b"wrong"))
    assert world.values(world.leader(partition), partition)[-1] == b"wrong"
