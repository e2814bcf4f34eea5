"""R29: a stream with sources has what they have committed, each record once, whoever leads which of them."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.metadata import levels
from liftlog.core.replica.copying.passing import passing
from liftlog.format import decode_records
from liftlog.messages import (
    AlterStreamRequest,
    CreateStreamRequest,
    DeleteStreamRequest,
    DoneReply,
    ErrorReply,
    MirrorReply,
    PeerMessage,
    PurgeRequest,
    StreamChanges,
    SubjectReply,
    SubjectRequest,
)
from liftlog.mutants import Mutants
from liftlog.options.copied import copied_headers, copy_of, positions_in, stream_source
from liftlog.types import PartitionId, Record, StreamConfig
from tests.core.node_harness import World
from tests.core.test_mirrors import a_world, made, put

BOTH = (("s", ""), ("t", ""))


def all_config(sources: tuple[tuple[str, str], ...] = BOTH, **settings: Any) -> StreamConfig:
    return StreamConfig("all", "all.in", **{"replication_factor": 3, **settings}, sources=sources)


def three(
    count: int = 3, mutants: Mutants | None = None, **settings: Any
) -> tuple[World, PartitionId, PartitionId, PartitionId]:
    """A world with two streams of three messages, and one that has both as its sources."""
    world = a_world(count, mutants)
    replicas = min(3, count)
    left, right = world.create("s", replicas=replicas), world.create("t", replicas=replicas)
    put(world, left, b"s0", b"s1", b"s2")
    put(world, right, b"t0", b"t1", b"t2")
    return world, left, right, made(world, all_config(replication_factor=replicas, **settings))


def there(world: World, partition: PartitionId) -> list[Record]:
    log = world.disks[world.leader(partition)].logs[partition]
    return [one for batch in log.batches for one in decode_records(batch)]


def values(world: World, partition: PartitionId, begin: bytes = b"") -> list[bytes]:
    found = [one.value or b"" for one in there(world, partition)]
    return [value for value in found if value.startswith(begin)]


def has(world: World, partition: PartitionId, count: int) -> bool:
    leader = world.leader(partition)
    return leader in world.nodes and world.replica(leader, partition).hw == count


def test_r29_all_that_the_sources_have_comes_once_and_in_their_order() -> None:
    world, left, right, copy = three()
    assert world.run_until(lambda: has(world, copy, 6))
    put(world, left, b"s3")
    put(world, right, b"t3")
    assert world.run_until(lambda: has(world, copy, 8))
    assert world.run_until(lambda: len(values(world, copy)) == 8)
    assert values(world, copy, b"s") == [b"s0", b"s1", b"s2", b"s3"]
    assert values(world, copy, b"t") == [b"t0", b"t1", b"t2", b"t3"]
    records = there(world, copy)
    assert [one.offset for one in records] == list(range(8))
    assert positions_in(records[-1].headers) == {left.stream: 4, right.stream: 4}
    times = [one.timestamp_ms for one in records]
    assert times == sorted(times)


def test_r29_C7_it_may_begin_elsewhere_than_at_0() -> None:
    """An empty log that does not end at 0 was taken for one whose last record is gone, and stood still."""
    world, left, _, copy = three(first_offset=100)
    assert world.run_until(lambda: has(world, copy, 106))
    assert [one.offset for one in there(world, copy)] == list(range(100, 106))
    put(world, left, b"s3")
    assert world.run_until(lambda: has(world, copy, 107))


def test_r29_one_node_says_it_to_itself() -> None:
    world, _, _, copy = three(1)
    assert world.run_until(lambda: has(world, copy, 6))


def test_r29_leaders_are_killed_on_all_sides() -> None:
    world, left, right, copy = three()
    for number in range(3, 9):
        victim = world.leader((left, right, copy)[number % 3])
        world.kill(victim)
        world.run(8)
        put(world, left, b"s%d" % number)
        put(world, right, b"t%d" % number)
        world.restart(victim)
        world.run(8)
        assert world.run_until(lambda: has(world, copy, 2 * number + 2), 60)  # noqa: B023
    assert world.run_until(lambda: len(values(world, copy)) == 18)
    assert values(world, copy, b"s") == [b"s%d" % number for number in range(9)]
    assert values(world, copy, b"t") == [b"t%d" % number for number in range(9)]


def test_r29_a_leader_that_has_nothing_in_memory_reads_the_last_record() -> None:
    world, left, _, copy = three(1)
    assert world.run_until(lambda: has(world, copy, 6))
    world.kill(1)
    world.run(2)
    world.restart(1)
    assert world.run_until(lambda: world.leader(copy) == 1)
    world.run(8)
    put(world, left, b"s3")
    assert world.run_until(lambda: has(world, copy, 7))
    assert values(world, copy, b"s") == [b"s0", b"s1", b"s2", b"s3"]


def test_r29_a_filter_lets_pass_what_has_its_subjects() -> None:
    assert passing("")(b"anything")
    assert passing("eu.*")(b"eu.berlin") and not passing("eu.*")(b"us.austin")
    world = a_world()
    left = world.create("s")
    put(world, left, b"s0", b"s1")
    copy = made(world, all_config((("s", "nobody.>"),)))
    world.run(3)
    assert values(world, copy) == []
    roles = world.replica(world.leader(copy), copy).roles
    assert roles is not None and roles.sourcing.lags() == {"s": 0}
    assert world.nodes[world.leader(copy)].marks["R29.nothing-passed"] > 0


def test_r29_questions_about_subjects_are_told_how_far_behind_it_is() -> None:
    world, left, right, copy = three()
    assert world.run_until(lambda: has(world, copy, 6))
    world.run(3)
    leader = world.leader(copy)

    def behind() -> list[tuple[str, int]]:
        reply = world.answer(leader, SubjectRequest(copy, "subjects", ">"))
        assert isinstance(reply, SubjectReply)
        return reply.behind

    assert behind() == [("s", 0), ("t", 0)]
    roles = world.replica(leader, copy).roles
    assert roles is not None
    positions = roles.sourcing._positions
    assert positions is not None
    positions[left.stream] -= 2
    assert behind() == [("s", 2), ("t", 0)]
    positions[left.stream] += 2
    world.ask(leader, DeleteStreamRequest("t", right.stream))
    assert world.run_until(lambda: "t" not in dict(behind()))
    assert world.answer(leader, SubjectRequest(left, "subjects", ">", known=True)).behind == []


def test_r29_it_takes_no_messages_until_it_has_no_sources() -> None:
    world, left, _, copy = three()
    assert world.run_until(lambda: has(world, copy, 6))
    world.publish(copy, b"mine")
    assert world.run_until(lambda: bool(world.refusals))
    assert "publish to one of them: 's', 't'" in world.refusals[-1].description
    world.answer(1, AlterStreamRequest("all", StreamChanges(sources=())))
    world.run(1)
    refused = world.answer(1, AlterStreamRequest("all", StreamChanges(sources=BOTH)))
    assert "not given to a stream that has none" in refused.description
    world.publish(copy, b"mine")
    put(world, left, b"theirs")
    assert world.run_until(lambda: len(values(world, copy)) == 7)
    world.run(3)
    assert values(world, copy)[-1] == b"mine"


def test_r29_the_last_message_stays() -> None:
    world, left, _, copy = three()
    assert world.run_until(lambda: has(world, copy, 6))
    refused = world.answer(world.leader(copy), PurgeRequest(copy, 6))
    assert isinstance(refused, ErrorReply) and "purge up to 5" in refused.description
    assert isinstance(world.answer(world.leader(copy), PurgeRequest(copy, 5)), DoneReply)
    world.kill(world.leader(copy))
    world.run(8)
    put(world, left, b"s3")
    assert world.run_until(lambda: has(world, copy, 7), 60)
    world.run(1)
    assert values(world, copy)[-1] == b"s3"


def test_r29_what_was_purged_at_a_source_is_passed_over() -> None:
    world = a_world()
    left = world.create("s")
    put(world, left, b"s0", b"s1", b"s2")
    world.answer(world.leader(left), PurgeRequest(left, 2))
    world.run(2)
    copy = made(world, all_config((("s", ""),)))
    assert world.run_until(lambda: has(world, copy, 1))
    assert copy_of(there(world, copy)[0].headers) == (left.stream, 2)


def test_r29_a_source_that_is_removed_stands_still_and_the_other_goes_on() -> None:
    world, left, right, copy = three()
    assert world.run_until(lambda: has(world, copy, 6))
    world.answer(1, DeleteStreamRequest("s"))
    world.run(1)
    again = world.create("s")
    put(world, again, *[b"other"] * 9)
    put(world, right, b"t3")
    assert world.run_until(lambda: has(world, copy, 7))
    world.run(3)
    assert values(world, copy, b"other") == []
    roles = world.replica(world.leader(copy), copy).roles
    assert roles is not None and "was removed" in roles.sourcing.problems()["s"]
    assert left.stream < copy.stream < again.stream


def test_r29_an_answer_about_another_place_is_not_stored() -> None:
    world, left, _, copy = three()
    answers: list[MirrorReply] = []

    def keep(sender: int, to: int, message: PeerMessage) -> bool:
        if isinstance(message, MirrorReply) and message.batches:
            answers.append(message)
        return False

    world.drop = keep
    put(world, left, b"s3", b"s4")
    assert world.run_until(lambda: has(world, copy, 8))
    leader = world.nodes[world.leader(copy)]
    for reply in answers:
        leader.replicas[copy].on_mirror_reply(2, reply)
    leader.replicas[copy].on_mirror_reply(2, MirrorReply(copy, 99, 0, 120, 0, 120, [], left.stream))
    assert leader.replicas[copy].leo == 8 and leader.marks["R29.place"] >= 1


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        ({"sources": ()}, "must be left out, or name 1 to 64"),
        ({"sources": (("nobody", ""),)}, "there is no such stream"),
        ({"sources": (("all", ""),)}, "is the stream itself"),
        ({"sources": (("s", ""), ("s", "x"))}, "twice"),
        ({"sources": (("s", "a..b"),)}, "filter 'a..b'"),
        ({"mirror": "s"}, "sources and mirror"),
        ({"partitions": 2}, "as many partitions"),
        ({"compact": True}, "sources and compact"),
        ({"dedupe_window_ms": 1000}, "sources and dedupe_window_ms"),
        ({"messages_max": 10}, "sources and messages_max"),
    ],
)
def test_r29_what_can_have_no_such_sources_is_refused(settings: dict[str, Any], word: str) -> None:
    world = a_world()
    world.create("s")
    config = StreamConfig("all", "all", **{"replication_factor": 3, "sources": (("s", ""),), **settings})
    refused = world.answer(1, CreateStreamRequest(config))
    assert isinstance(refused, ErrorReply) and word in refused.description


def test_r29_it_may_have_a_journal() -> None:
    world, _, _, copy = three(removal=True)
    assert world.run_until(lambda: has(world, copy, 6))
    assert levels.NEWEST == 2


def test_r29_headers_name_the_place_and_those_of_all_others() -> None:
    block = b"NATS/1.0\r\nA: b\r\nLiftlog-Sources: 9@9\r\nNats-Stream-Source: x 1 > > x\r\n\r\n"
    value = stream_source("orders", 17, "", b"orders.eu")
    made_of = copied_headers(block, (4, 17), {5: 3, 4: 12, 2: 8}, value)
    assert made_of == (
        b"NATS/1.0\r\nA: b\r\nLiftlog-Sources: 4@17 2@8 5@3\r\n"
        b"Nats-Stream-Source: orders 18 > > orders.eu\r\n\r\n"
    )
    assert copy_of(made_of) == (4, 17) and positions_in(made_of) == {4: 18, 2: 8, 5: 3}
    assert copied_headers(b"", (4, 0), {}, value).startswith(b"NATS/1.0\r\nLiftlog-Sources: 4@0\r\n")
    assert copy_of(b"") is None and positions_in(b"NATS/1.0\r\nA: b\r\n\r\n") is None
