"""What headers ask for, and that nobody is told yes who asks for what is not done (L1, L4)."""

from __future__ import annotations

import pytest

from liftlog.messages import Published
from liftlog.options.headers import NOT_HONOURED
from liftlog.options.reading import read
from liftlog.options.wishes import NO_WISHES, Wishes
from liftlog.types import Message
from tests.core.node_harness import World
from tests.core.test_replication import ready


def block(*lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in ("NATS/1.0", *lines, "")).encode()


def wishes(*lines: str) -> Wishes:
    (found,) = read([Message(b"orders", b"", block(*lines), b"x")], "orders") or [NO_WISHES]
    return found


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("Nats-Msg-Id: 1", "header-not-honoured"),
        ("Nats-Msg-Id:1", "header-not-honoured"),
        ("Nats-Expected-Stream: other", "wrong-stream"),
        ("Nats-Expected-Stream: Orders", "wrong-stream"),
        ("Nats-Expected-Last-Sequence: first", "header-not-honoured"),
        ("Nats-Expected-Last-Msg-Id: a", "header-not-honoured"),
        ("Nats-Expected-Last-Subject-Sequence-Subject: a", "header-not-honoured"),
        ("Nats-Expected-Last-Msg-Id: 1", "header-not-honoured"),
        ("Nats-Expected-Whatever-Comes: 1", "header-not-honoured"),
        ("Nats-TTL: 1h", "ttl-disabled"),
        ("Nats-Rollup: all", "rollup-disabled"),
        ("Nats-Batch-Id: b", "batches-disabled"),
        ("Nats-Batch-Commit: 1", "batches-disabled"),
        ("Nats-Schedule: @every 5m", "schedules-disabled"),
        ("Nats-Schedule-Target: a", "schedules-disabled"),
        ("Nats-Scheduler: a", "schedules-disabled"),
        ("Nats-Incr: +1", "counters-disabled"),
        ("Nats-Stream-Source: a", "source-header"),
        ("Liftlog-Ack: half", "header-not-honoured"),
        ("Liftlog-Policy: leader", "header-not-honoured"),
        ("liftlog-unknown: 1", "header-not-honoured"),
        ("Liftlog-Tombstone: 1", "header-not-honoured"),
    ],
)
def test_L4_a_header_that_asks_for_what_is_not_done_has_a_refusal_that_names_it(line: str, code: str) -> None:
    refusal = wishes("Kind: x", line, "Liftlog-Ack: full").refusal
    assert refusal is not None
    assert refusal.code == code
    name, _, value = line.partition(":")
    assert name.lower() in refusal.text.lower() or value.strip() in refusal.text
    # A block that is cut short or not quite one is no way around it.
    for damaged in (block(line)[:-2], b"NATS/1.0\r\nno colon\r\n" + block(line)[len(b"NATS/1.0\r\n") :]):
        found = read([Message(b"orders", b"", damaged, b"x")], "orders")
        assert found is not None and found[0].refusal is not None


@pytest.mark.parametrize(
    "line",
    [
        "Nats-Expected-Stream: orders",
        "Nats-Expected-Stream:",
        "Nats-Msg-Id:",
        "nats-msg-id: 1",
        "NATS-TTL: 1",
        "X-Nats-TTL: 1",
        "Note: Nats-TTL: 1",
        "Nats-Sequence: 5",
        "Nats-Stream: elsewhere",
        "Nats-Time-Stamp: 2026",
        "Nats-Incremental: 1",
        "Traceparent: 00-1",
        "Liftlog-Tombstone:",
    ],
)
def test_L4_what_asks_for_nothing_here_or_for_what_is_done_is_stored(line: str) -> None:
    """Names as nats-server compares them: exactly; what it only reads back, or ignores, is stored."""
    assert wishes(line).refusal is None


def test_the_full_ack_is_asked_for_by_name_and_value() -> None:
    assert wishes("Liftlog-Ack: full").full_ack and wishes("LIFTLOG-ACK:full ").full_ack
    assert not wishes("Kind: x").full_ack
    assert wishes("Nats-TTL: 1", "Liftlog-Ack: full").full_ack, "also by who is refused"


def test_messages_without_headers_cost_no_list() -> None:
    assert read([Message(b"orders", b"r", b"", b"x")] * 3, "orders") is None
    plain, other = (Message(b"orders", b"r", headers, b"x") for headers in (b"", block("A: b")))
    both = read([plain, other], "orders")
    assert both == [NO_WISHES, NO_WISHES]


def publish(world: World, headers: bytes, reply: bytes) -> None:
    partition = next(iter(world.subscriptions))
    leader, epoch = world.subscriptions[partition]
    world.step(leader, Published(partition, epoch, [Message(b"orders", reply, headers, b"x")], 1))


def test_L4_such_a_message_is_not_stored_with_a_reply_subject_or_without() -> None:
    world, partition = ready()
    leader = world.leader(partition)
    before = world.replica(leader, partition).leo
    for beginning, code, _ in NOT_HONOURED:
        world.refusals.clear()
        header = block(f"{beginning.decode()}{'x' if beginning.endswith(b'-') else ''}: 1")
        publish(world, header, b"_INBOX.a")
        publish(world, header, b"")
        assert [(one.code, one.replies) for one in world.refusals] == [(code, [b"_INBOX.a"]), (code, [b""])]
    assert world.replica(leader, partition).leo == before
    marks = world.nodes[leader].marks
    assert marks["L4.refused"] == marks["L4.dropped"] == len(NOT_HONOURED)
    publish(world, block("Nats-Expected-Stream: orders"), b"_INBOX.right")
    assert world.run_until(lambda: any(b"_INBOX.right" in ack.replies for ack in world.acks))


def test_R4_only_who_asks_gets_the_full_ack() -> None:
    world, partition = ready()
    leader, epoch = world.subscriptions[partition]
    messages = [
        Message(b"orders", b"_INBOX.plain", b"", b"1"),
        Message(b"orders", b"_INBOX.full", block("Liftlog-Ack: full"), b"2"),
    ]
    world.step(leader, Published(partition, epoch, messages, 1))
    assert world.run_until(lambda: any(b"_INBOX.full" in ack.replies for ack in world.acks))
    (ack,) = [ack for ack in world.acks if b"_INBOX.full" in ack.replies]
    assert (ack.replies, ack.full) == ([b"_INBOX.plain", b"_INBOX.full"], [False, True])
    assert ack.incarnation == world.nodes[leader].incarnation
