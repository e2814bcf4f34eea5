"""A message that expects which id the one before it has is stored behind that, or not at all (L7)."""

from __future__ import annotations

import pytest

from liftlog.messages import ERR_BATCH_HEADER, ERR_EXPECTED_ID, ERR_HEADER, ERR_NOT_READY
from liftlog.options.envelope import Envelope, seal
from liftlog.options.reading import wishes_of
from liftlog.options.wishes import Terms
from liftlog.types import Message, Record
from liftlog_sim.truth.message_ids import StoredIds
from tests.core.node_harness import World
from tests.core.test_ack_policies import acks_for
from tests.core.test_headers import block
from tests.core.test_message_ids import (
    T0,
    WINDOW_MS,
    fail_over,
    hold_others,
    ids,
    marks,
    publish,
    stored,
    with_id,
    world_with_ids,
)
from tests.core.test_replication import others

NAME = "Nats-Expected-Last-Msg-Id"


def behind(last: str, reply: bytes = b"", value: bytes = b"x", *lines: str) -> Message:
    return Message(b"orders", reply, block(f"{NAME}: {last}", *lines), value)


def refused(world: World) -> list[tuple[str, bytes]]:
    return [(one.code, reply) for one in world.refusals for reply in one.replies]


def test_L7_who_expects_an_id_says_so_where_ids_are_remembered() -> None:
    terms = Terms(remembers=True)
    assert wishes_of(behind("a"), "orders", terms=terms).after == b"a"
    within = Message(b"orders", b"", behind("a").headers, seal(Envelope(value=b"x")))
    assert wishes_of(within, "orders", terms=terms).after == b"a"
    assert wishes_of(behind(""), "orders", terms=terms).after is None
    refusal = wishes_of(behind("a"), "orders").refusal
    assert refusal is not None and f"header {NAME}: stream 'orders' remembers no" in refusal.text
    for lines in ([f"{NAME}: {'i' * 257}"], [f"{NAME}: a", "Liftlog-Batch: 1"]):
        refusal = wishes_of(Message(b"orders", b"", block(*lines), b"x"), "orders", terms=terms).refusal
        assert refusal is not None and refusal.code == ERR_HEADER


@pytest.mark.parametrize("without", ["", "L7.last-id"])
def test_L7_it_is_stored_right_behind_that_one_or_not_at_all(without: str) -> None:
    world, partition = world_with_ids(without)
    publish(world, partition, behind("a", b"_INBOX.0", b"too early"))
    publish(world, partition, with_id("a"), behind("a", b"_INBOX.1", b"1"), behind("a", b"_INBOX.2", b"2"))
    publish(world, partition, with_id("b", b"", b"x", f"{NAME}: c"), with_id("b", b"", b"x", f"{NAME}: a"))
    publish(world, partition, with_id("c"), with_id("d", b"_INBOX.3", b"x", f"{NAME}: c"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.3")))
    found = [value for value, _ in stored(world, partition)]
    if without:
        assert found == [b"too early", b"a", b"1", b"2", b"b", b"c", b"d"]
        return
    assert found == [b"a", b"1", b"c", b"d"]
    assert refused(world) == [(ERR_EXPECTED_ID, b"_INBOX.0"), (ERR_EXPECTED_ID, b"_INBOX.2")]
    assert "gets offset 0, and the id is not remembered" in world.refusals[0].description
    assert "gets offset 2, and the id is that of the message at offset 0" in world.refusals[1].description
    assert marks(world, partition)["L7.last-id"] == 4


def test_L7_a_refusal_waits_until_what_it_rests_on_is_committed() -> None:
    world, partition = world_with_ids()
    hold_others(world, partition)
    publish(world, partition, with_id("a"), with_id("b"), behind("a", b"_INBOX.0"))
    world.run(0.3)
    assert refused(world) == []
    for node in others(world, partition):
        world.release_storage(node)
    assert world.run_until(lambda: refused(world) == [(ERR_EXPECTED_ID, b"_INBOX.0")])


def test_L7_a_new_leader_knows_it_when_it_has_read_its_log() -> None:
    world, partition = world_with_ids()
    publish(world, partition, with_id("a", b"_INBOX.a"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.a")))
    fail_over(world, partition)
    assert not ids(world, partition).whole
    publish(world, partition, behind("a", b"_INBOX.0"))
    assert refused(world) == [(ERR_NOT_READY, b"_INBOX.0")]
    assert world.run_until(lambda: ids(world, partition).whole)
    publish(world, partition, behind("a", b"_INBOX.1"))
    assert world.run_until(lambda: bool(acks_for(world, b"_INBOX.1")))


def test_L7_an_id_that_is_too_old_is_not_remembered() -> None:
    world, partition = world_with_ids()
    publish(world, partition, with_id("a"))
    publish(world, partition, behind("a", b"_INBOX.0"), at_ms=T0 + WINDOW_MS)
    assert world.run_until(lambda: refused(world) == [(ERR_EXPECTED_ID, b"_INBOX.0")])


def test_L11_no_message_of_a_batch_expects_an_id() -> None:
    world, partition = world_with_ids(allow_batches=True)
    assert world.run_until(lambda: partition in world.subscriptions)
    lines = ("Nats-Batch-Id: b", "Nats-Batch-Sequence: 1", "Nats-Batch-Commit: 1")
    publish(world, partition, behind("a", b"_INBOX.0", b"x", *lines))
    assert refused(world) == [(ERR_BATCH_HEADER, b"_INBOX.0")]


def test_L7_the_simulators_judge_sees_one_that_lies_elsewhere() -> None:
    def record(offset: int, *lines: str) -> Record:
        return Record(offset, 5, b"s", b"", block(*lines), None, b"x")

    found = StoredIds()
    assert found.committed(0, record(0, "Nats-Msg-Id: a")) is None
    assert found.committed(1, record(1, f"{NAME}: a", "Nats-Msg-Id: b")) is None
    finding = found.committed(2, record(2, f"{NAME}: a"))
    assert finding is not None and finding.invariant == "StoredAsExpected"
    assert finding.text == "offset 2 expects id a before it; 1 has b'b'"
    assert found.committed(3, record(3, f"{NAME}: ")) is None
