"""Messages that are stored as they come, and acked many at a time (L12)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import UNSET

from liftlog.core import batchroom
from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem, altered, describe_alteration
from liftlog.core.metadata.limits import limits_problem
from liftlog.core.replica.publishing import fast
from liftlog.core.replica.publishing.fast import SILENT_MS
from liftlog.messages import (
    ERR_FAST_DISABLED,
    ERR_FAST_ID,
    ERR_FAST_MANY,
    ERR_FAST_PATTERN,
    ERR_FAST_UNKNOWN,
    ERR_HEADER,
    AlterStreamRequest,
    StreamChanges,
    TellFast,
)
from liftlog.mutants import Mutants
from liftlog.options.fast import fast_part
from liftlog.options.wishes import FastPart
from liftlog.real import nats_wire
from liftlog.real.nats_parser import NatsParser
from liftlog.types import Message, PartitionId, StreamConfig
from tests.core.node_harness import World
from tests.core.test_ack_policies import publish
from tests.core.test_headers import block
from tests.core.test_replication import cut

SUBJECT = b"orders"
BEGIN, GO_ON, COMMIT, CLOSE, PING = range(5)


def opened(**settings: Any) -> tuple[World, PartitionId]:
    """A stream that takes fast batches, and is empty."""
    mutants = settings.pop("mutants", Mutants())
    world = World(mutants=mutants, **settings.pop("config", {}))
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(**({"allow_fast_batches": True} | settings))
    assert world.run_until(lambda: partition in world.subscriptions)
    return world, partition


def one(
    number: int, operation: int | None = None, *lines: str, id: str = "x", gap: str = "fail", flow: int = 2
) -> Message:
    """A message of a fast batch; its value says which."""
    what = operation if operation is not None else (GO_ON if number > 1 else BEGIN)
    reply = f"_INBOX.{id}.{flow}.{gap}.{number}.{what}.$FI".encode()
    value = b"" if what in (CLOSE, PING) else f"{id}{number}".encode()
    return Message(SUBJECT, reply, block(*lines) if lines else b"", value)


def stored(world: World, partition: PartitionId) -> list[bytes | None]:
    return world.values(world.leader(partition), partition)


def told(world: World) -> list[tuple[str, int, int]]:
    return [(one.word, one.number, one.other) for one in world.fast]


def refused(world: World) -> list[tuple[str, bytes]]:
    return [(one.code, reply) for one in world.refusals for reply in one.replies]


# -- what is said ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reply", "part"),
    [
        ("i.b.10.ok.1.0.$FI", FastPart(b"b", 1, 10, True, False, True)),
        ("a.i.b.10.fail.7.1.$FI", FastPart(b"b", 7, 10, False, False, True)),
        ("i.b.10.fail.1.2.$FI", FastPart(b"b", 1, 10, False, True, True)),
        ("i.b.0.fail.7.3.$FI", FastPart(b"b", 7, 10, False, True, False)),
        ("i.b.99999.fail.7.4.$FI", FastPart(b"b", 7, 65535, False, False, False)),
        ("i.b.many.ok.7.1.$FI", FastPart(b"b", 7, 10, True, False, True)),
        *[
            (reply, None)
            for reply in (
                "i.b.10.ok.1.5.$FI",
                "i.b.10.ok.1.x.$FI",
                "i.b.10.ok.2.0.$FI",
                "i.b.10.ok.1.1.$FI",
                "i.b.10.ok.1.3.$FI",
                "i.b.10.ok.0.4.$FI",
                "i.b.10.maybe.1.0.$FI",
                "i.b.10.ok.1000000000000000.1.$FI",
                "b.10.ok.1.0.$FI",
                "$FI",
                ".$FI",
            )
        ],
    ],
)
def test_L12_a_reply_subject_says_which_part_of_which_batch(reply: str, part: FastPart | None) -> None:
    assert fast_part(reply.encode()) == part


def test_L12_what_is_told_has_the_form_that_clients_of_jetstream_know() -> None:
    log = PartitionId(5, 0)

    def sent(*words: Any) -> object:
        line, _, payload = nats_wire.fast(TellFast(log, "s", b"x", b"r", *words)).partition(b"\r\n")
        assert line.startswith(b"PUB r ")
        return json.loads(payload)

    assert sent("ack", 10, 15) == {"type": "ack", "seq": 10, "msgs": 15}
    assert sent("gap", 15, 10) == {"type": "gap", "last_seq": 10, "seq": 15}
    assert sent("end", 7, 41) == {"stream": "s", "seq": 42, "batch": "x", "count": 7}
    error = {"code": 400, "err_code": 10208, "description": "no"}
    assert sent("err", 3, 0, ERR_FAST_UNKNOWN, "no") == {"type": "err", "seq": 3, "error": error}


def test_L12_what_is_read_from_a_socket_is_not_plain_if_a_batch_is_in_it() -> None:
    assert NatsParser().feed(b"MSG a 1 r 1\r\nx\r\n").plain
    assert not NatsParser().feed(b"MSG a 1 i.b.10.ok.1.0.$FI 1\r\nx\r\n").plain


# -- batches ---------------------------------------------------------------------------------------------


def test_L12_a_batch_is_acked_many_at_a_time_once_that_is_committed() -> None:
    world, partition = opened()
    publish(world, partition, *[one(number) for number in range(1, 6)], one(6, COMMIT))
    world.run(0.001)
    assert told(world) == [("ack", 0, 2)]
    assert world.run_until(lambda: len(world.fast) > 1)
    assert told(world) == [("ack", 0, 2), ("end", 6, 5)]
    assert stored(world, partition) == [b"x%d" % number for number in range(1, 7)]
    assert world.fast[1].reply == b"_INBOX.x.2.fail.6.2.$FI"
    assert not world.acks and not world.refusals


def test_L12_acks_come_at_multiples_and_the_last_one_says_how_many() -> None:
    world, partition = opened()
    for number in range(1, 6):
        publish(world, partition, one(number))
        world.run(0.5)
    assert told(world) == [("ack", 0, 2), ("ack", 2, 2), ("ack", 4, 2)]
    publish(world, partition, one(6, CLOSE))
    world.run(0.5)
    assert told(world)[3:] == [("end", 5, 4)]
    publish(world, partition, one(7))
    world.run(0.5)
    assert refused(world) == [(ERR_FAST_UNKNOWN, one(7).reply)]


def test_L12_the_end_waits_for_what_came_with_it() -> None:
    world, partition = opened()
    publish(world, partition, one(1), one(2), one(3, CLOSE))
    world.run(0.001)
    assert told(world) == [("ack", 0, 2)]
    world.run(0.5)
    assert told(world)[1:] == [("end", 2, 1)]


def test_L12_one_message_is_a_batch() -> None:
    world, partition = opened()
    publish(world, partition, one(1, COMMIT))
    world.run(0.5)
    assert told(world) == [("end", 1, 0)]


def test_L12_the_leader_says_how_many_lie_between_two_acks() -> None:
    world, partition = opened()
    publish(world, partition, one(1, flow=1000))
    world.run(0.5)
    publish(world, partition, one(1, id="y", flow=4))
    world.run(0.5)
    assert told(world) == [("ack", 0, 500), ("ack", 0, 1), ("ack", 1, 2)]
    publish(world, partition, one(2, id="y", flow=4), one(3, id="y", flow=4))
    world.run(0.5)
    assert told(world)[3:] == [("ack", 3, 4)]


def test_L12_large_messages_are_acked_sooner() -> None:
    world, partition = opened(config={"inflight_max_bytes": 4000})
    large = one(1, flow=100)._replace(value=b"v" * 200)
    publish(world, partition, large)
    world.run(0.5)
    assert told(world)[0] == ("ack", 0, 5)


# -- gaps ------------------------------------------------------------------------------------------------


def test_L12_a_gap_ends_a_batch_that_takes_none() -> None:
    world, partition = opened()
    publish(world, partition, one(1), one(2), one(4), one(5), one(6, COMMIT))
    world.run(0.5)
    assert told(world) == [("ack", 0, 2), ("gap", 4, 3), ("end", 2, 1)]
    assert stored(world, partition) == [b"x1", b"x2"]


def test_L12_a_gap_is_told_by_a_batch_that_takes_it() -> None:
    world, partition = opened()
    publish(world, partition, one(1, gap="ok"), one(4, gap="ok"), one(5, COMMIT, gap="ok"))
    world.run(0.5)
    assert told(world) == [("ack", 0, 2), ("gap", 4, 2), ("end", 5, 2)]
    assert stored(world, partition) == [b"x1", b"x4", b"x5"]


@pytest.mark.parametrize("gap", ["ok", "fail"])
def test_L12_a_message_that_came_already_ends_it(gap: str) -> None:
    world, partition = opened()
    publish(world, partition, one(1, gap=gap), one(2, gap=gap), one(2, gap=gap), one(3, gap=gap))
    world.run(0.5)
    assert told(world) == [("ack", 0, 2), ("gap", 2, 3), ("end", 2, 1)]
    assert stored(world, partition) == [b"x1", b"x2"]


def test_L12_who_asks_is_told_the_last_ack_again() -> None:
    world, partition = opened()
    publish(world, partition, one(1), one(2), one(3))
    world.run(0.5)
    publish(world, partition, one(3, PING))
    world.run(0.5)
    assert told(world) == [("ack", 0, 2), ("ack", 2, 2), ("ack", 2, 2)]
    publish(world, partition, one(5, PING), one(6))
    world.run(0.5)
    assert told(world)[3:] == [("gap", 6, 4), ("end", 3, 2)]


def test_L12_who_asks_after_a_gap_that_is_taken_goes_on() -> None:
    world, partition = opened()
    publish(world, partition, one(1, gap="ok"), one(3, PING, gap="ok"), one(4, COMMIT, gap="ok"))
    world.run(0.5)
    assert told(world) == [("ack", 0, 2), ("gap", 4, 2), ("ack", 0, 2), ("end", 4, 1)]


# -- refusals --------------------------------------------------------------------------------------------


def test_L12_what_a_message_cannot_ask_for_ends_a_batch_without_gaps() -> None:
    world, partition = opened()
    publish(world, partition, one(1), one(2, None, "Nats-Expected-Last-Sequence: 1"), one(3))
    world.run(0.5)
    assert told(world) == [("ack", 0, 2), ("err", 2, 0), ("end", 1, 0)]
    assert world.fast[1].code == ERR_HEADER
    assert stored(world, partition) == [b"x1"]


def test_L12_and_is_left_out_of_one_with_gaps() -> None:
    world, partition = opened()
    wrong = one(2, None, "Nats-Msg-Id: a", gap="ok")
    publish(world, partition, one(1, gap="ok"), wrong, one(3, COMMIT, gap="ok"))
    world.run(0.5)
    assert told(world) == [("ack", 0, 2), ("err", 2, 0), ("end", 3, 1)]
    assert stored(world, partition) == [b"x1", b"x3"]


def test_L12_a_batch_whose_first_message_is_refused_does_not_begin() -> None:
    world, partition = opened()
    first = one(1, None, "Nats-Msg-Id: a")
    publish(world, partition, first, one(2))
    world.run(0.5)
    assert refused(world) == [(ERR_HEADER, first.reply), (ERR_FAST_UNKNOWN, one(2).reply)]
    assert told(world) == [] and stored(world, partition) == []


def test_L12_headers_of_users_are_stored() -> None:
    world, partition = opened()
    publish(world, partition, one(1), one(2, COMMIT, "Mine: 1"))
    world.run(0.5)
    assert told(world)[1:] == [("end", 2, 1)]


def test_L12_a_stream_that_takes_none_says_so() -> None:
    world, partition = opened(allow_fast_batches=UNSET)
    publish(world, partition, one(1))
    world.run(0.5)
    assert refused(world) == [(ERR_FAST_DISABLED, one(1).reply)] and stored(world, partition) == []


def test_L12_subjects_that_say_nothing_and_long_ids_are_refused() -> None:
    world, partition = opened()
    bad = one(1)._replace(reply=b"_INBOX.x.2.maybe.1.0.$FI")
    long = one(1, id="b" * 65)
    publish(world, partition, bad, long)
    world.run(0.5)
    assert refused(world) == [(ERR_FAST_PATTERN, bad.reply), (ERR_FAST_ID, long.reply)]


def test_L12_a_partition_has_so_many_and_a_node(monkeypatch: pytest.MonkeyPatch) -> None:
    world, partition = opened()
    monkeypatch.setattr(fast, "OF_STREAM_MAX", 1)
    publish(world, partition, one(1), one(1, id="y"))
    world.run(0.5)
    assert refused(world) == [(ERR_FAST_MANY, one(1, id="y").reply)]
    publish(world, partition, one(2, CLOSE))
    world.run(0.5)
    monkeypatch.setattr(batchroom, "FAST_BATCHES_MAX", 0)
    publish(world, partition, one(1, id="z"))
    world.run(0.5)
    assert refused(world)[1:] == [(ERR_FAST_MANY, one(1, id="z").reply)]


# -- ends ------------------------------------------------------------------------------------------------


def test_L12_a_silent_batch_is_given_up() -> None:
    world, partition = opened()
    publish(world, partition, one(1))
    world.run(SILENT_MS / 1000 + 1)
    room = world.replica(world.leader(partition), partition).ctx.batches
    assert room.fast == 0
    publish(world, partition, one(2))
    world.run(0.5)
    assert refused(world) == [(ERR_FAST_UNKNOWN, one(2).reply)]


@pytest.mark.parametrize("gap", ["ok", "fail"])
def test_L12_another_leader_does_not_know_it(gap: str) -> None:
    world, partition = opened()
    publish(world, partition, one(1, gap=gap))
    world.run(0.5)
    world.kill(world.leader(partition))
    assert world.run_until(lambda: partition in world.subscriptions)
    publish(world, partition, one(2, gap=gap))
    world.run(0.5)
    assert refused(world) == [(ERR_FAST_UNKNOWN, one(2, gap=gap).reply)]
    assert stored(world, partition) == [b"x1"]


@pytest.mark.parametrize("early", [False, True])
def test_L12_nothing_is_acked_that_is_not_committed(early: bool) -> None:
    world, partition = opened(mutants=Mutants(fast_acked_at_append=early))
    publish(world, partition, one(1))
    world.run(0.5)
    world.drop = cut(world.leader(partition))
    publish(world, partition, one(2), one(3))
    world.run(0.2)
    assert told(world)[1:] == ([("ack", 2, 2)] if early else [])


def test_L12_a_planted_bug_begins_anywhere() -> None:
    world, partition = opened(mutants=Mutants(fast_begins_anywhere=True))
    publish(world, partition, one(3), one(4, COMMIT))
    world.run(0.5)
    assert told(world)[-1] == ("end", 4, 1)


# -- the stream --------------------------------------------------------------------------------------------


def test_L12_a_stream_may_take_them_no_more() -> None:
    world, partition = opened()
    publish(world, partition, one(1))
    world.run(0.5)
    world.answer(1, AlterStreamRequest("orders", StreamChanges(allow_fast_batches=False)))
    world.run(0.5)
    publish(world, partition, one(2))
    world.run(0.5)
    assert refused(world) == [(ERR_FAST_DISABLED, one(2).reply)]


def test_L12_the_option() -> None:
    config = StreamConfig("s", "s", 1, 3, allow_fast_batches=True)
    assert limits_problem(config) == ""
    off = altered(config, StreamChanges(allow_fast_batches=False))
    assert off.allow_fast_batches is UNSET
    assert describe_alteration(config, off) == "allow_fast_batches true -> false"
    shared = StreamConfig("s", "s", 1, 3, queue_group="g")
    assert "queue_group" in alteration_problem(shared, StreamChanges(allow_fast_batches=True))
    full = StreamConfig("s", "s", 1, 3, messages_max=5)
    assert "messages_max" in alteration_problem(full, StreamChanges(allow_fast_batches=True))
