"""N12: what the metadata group does is told in a stream, in order, whoever leads it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from liftlog.core.guards import Guards
from liftlog.core.metadata import levels
from liftlog.core.metadata.activity import DETAIL_MAX, EVENTS_MISSING, KINDS, LISTED_MAX
from liftlog.core.metadata.commands import (
    AlterStream,
    ElectLeader,
    LeaveNode,
    NodeLevel,
    RaiseLevel,
    TrimActivity,
)
from liftlog.core.metadata.image import ImageReader
from liftlog.core.metadata.limits import UNFIT_FOR_ACTIVITY
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.records import CommandResult
from liftlog.core.replica.copying.recounting import body_of
from liftlog.format import decode_records
from liftlog.messages import (
    AlterStreamRequest,
    CreateStreamRequest,
    DeleteStreamRequest,
    Fetch,
    StreamChanges,
)
from liftlog.mutants import Mutants
from liftlog.types import PartitionId, StreamConfig
from tests.core.metadata_harness import Cluster, picture
from tests.core.node_harness import World

NAME = "__activity"


def activity(**settings: Any) -> StreamConfig:
    return StreamConfig(NAME, f"{NAME}.>", **{"replication_factor": 3, **settings}, activity=True)


def told(metadata: Metadata) -> list[tuple[int, str]]:
    return [(event.id, event.event) for event in metadata.outbox.events]


def kinds(cluster: Cluster) -> list[str]:
    return [event.event for event in cluster.metadata.outbox.events]


def with_activity(room: int = 4096, mutants: Mutants | None = None) -> Cluster:
    cluster = Cluster(room=room, mutants=mutants or Mutants())
    assert not cluster.apply(cluster.creation(activity())).code
    return cluster


def alter(cluster: Cluster, name: str, **changes: Any) -> CommandResult:
    stream = cluster.metadata.streams[name]
    changed = StreamChanges(**changes)
    return cluster.apply(AlterStream(cluster.request(), stream.id, name, stream.revision, changed))


# -- events --------------------------------------------------------------------------------------------------


def test_n12_nothing_is_kept_before_there_is_an_activity_stream_nor_after() -> None:
    cluster = Cluster()
    cluster.create()
    assert not cluster.metadata.outbox.on and not cluster.metadata.outbox.events
    cluster.apply(cluster.creation(activity()))
    stream = cluster.metadata.streams[NAME].id
    assert told(cluster.metadata) == [(stream, "stream.created")]
    cluster.apply(cluster.deletion(NAME))
    cluster.create("other")
    assert not cluster.metadata.outbox.on and not cluster.metadata.outbox.events


def test_n12_each_command_that_changes_something_is_one_event_with_its_index() -> None:
    cluster = with_activity()
    cluster.create("orders")
    partition = cluster.metadata.partitions[PartitionId(cluster.metadata.streams["orders"].id, 0)]
    alter(cluster, "orders", retention_ms=5000)
    alter(cluster, "orders", paused=True)
    alter(cluster, "orders", paused=False)
    cluster.change_isr(partition, [partition.leader])
    cluster.expire(partition.leader)
    cluster.confirm(partition.leader)
    cluster.apply(cluster.deletion("orders"))
    assert kinds(cluster) == [
        *("stream.created", "stream.created", "stream.altered", "stream.paused", "stream.resumed"),
        *("partition.isr", "node.expired", "node.live", "stream.deleted"),
    ]
    ids = [number for number, _ in told(cluster.metadata)]
    assert ids == sorted(set(ids)) and ids[-1] == cluster.metadata.applied
    expired = cluster.metadata.outbox.events[6]
    assert {change.stream for change in expired.partitions} <= {"orders", NAME}
    assert set(kinds(cluster)) <= set(KINDS)


def test_n12_what_changes_nothing_is_no_event() -> None:
    cluster = with_activity()
    cluster.create("orders")
    known = len(cluster.metadata.outbox.events)
    again = cluster.creation(cluster.metadata.streams["orders"].config)
    cluster.apply(again)
    cluster.apply(again)  # A repetition.
    cluster.apply(cluster.creation(StreamConfig("orders", "elsewhere")))  # Refused.
    alter(cluster, "orders", retention_ms=0)  # It was so.
    cluster.apply(LeaveNode(cluster.request(), 1, 77, 77))  # Stale.
    cluster.apply(TrimActivity(cluster.request(), 77, 1))
    cluster.metadata.apply(cluster.metadata.applied + 1, None)
    assert len(cluster.metadata.outbox.events) == known


def test_n12_a_change_of_the_isr_says_who_came_and_who_left() -> None:
    cluster = with_activity()
    orders = cluster.create("orders")
    first = orders.leader
    others = [node for node in orders.isr if node != first]
    cluster.change_isr(orders, [first, others[0]])
    [change] = cluster.metadata.outbox.events[-1].partitions
    assert (change.stream, change.partition, change.leader) == ("orders", 0, first)
    assert (change.left, change.joined) == ((others[1],), ())
    cluster.change_isr(orders, list(orders.replicas), joiner=others[1])
    [change] = cluster.metadata.outbox.events[-1].partitions
    assert (change.left, change.joined) == ((), (others[1],))
    cluster.apply(ElectLeader(cluster.request(), orders.id, orders.version, others[0], False))
    last = cluster.metadata.outbox.events[-1]
    assert last.event == "partition.leader" and last.partitions[0].leader == others[0]


def test_n12_an_event_lists_so_many_partitions_and_counts_the_rest() -> None:
    cluster = with_activity()
    for number in range(LISTED_MAX + 6):
        cluster.create(f"s{number}")
    cluster.expire(1)
    last = cluster.metadata.outbox.events[-1]
    assert (last.event, last.node, len(last.partitions)) == ("node.expired", 1, LISTED_MAX)
    changed = sum(1 for one in cluster.metadata.partitions.values() if 1 in one.replicas)
    assert last.more == changed - LISTED_MAX


def test_n12_of_a_long_alteration_the_beginning_is_told() -> None:
    cluster = with_activity()
    cluster.create("orders")
    alter(cluster, "orders", more_subjects=tuple(f"{'long' * 20}.{number}" for number in range(40)))
    detail = cluster.metadata.outbox.events[-1].detail
    assert detail.startswith("more_subjects none -> longlong") and len(detail) == DETAIL_MAX + 4


def test_n12_the_body_is_json_with_what_is_not_empty() -> None:
    cluster = with_activity()
    event = msgspec.json.decode(body_of(cluster.metadata.outbox.events[0]))
    partition = cluster.metadata.partitions[PartitionId(event["id"], 0)]
    assert event == {
        "id": event["stream_id"],
        "event": "stream.created",
        "stream": NAME,
        "stream_id": cluster.metadata.streams[NAME].id,
        "partitions": [
            {
                **{"stream": NAME, "partition": 0, "leader": partition.leader, "epoch": 1},
                **{"isr": list(partition.isr), "joined": [], "left": []},
            }
        ],
    }


# -- the outbox ----------------------------------------------------------------------------------------------


def test_n12_a_trim_is_monotone_and_of_one_stream() -> None:
    cluster = with_activity()
    for number in range(4):
        cluster.create(f"s{number}")
    metadata = cluster.metadata
    stream, ids = metadata.outbox.stream, [number for number, _ in told(metadata)]
    assert cluster.apply(TrimActivity(cluster.request(), stream, ids[2])).code == ""
    assert [number for number, _ in told(metadata)] == ids[3:]
    for other in (
        TrimActivity(cluster.request(), stream, ids[1]),
        TrimActivity(cluster.request(), stream, ids[2]),
        TrimActivity(cluster.request(), stream + 1, ids[3]),
        TrimActivity(cluster.request(), stream, metadata.applied + 7),
    ):
        assert cluster.apply(other).code == "stale"
    assert [number for number, _ in told(metadata)] == ids[3:] and metadata.outbox.trimmed == ids[2]
    assert metadata.counts["N12.late-trim"] == 3 and metadata.counts["N12.other-stream"] == 1


def test_n12_when_there_is_no_room_the_oldest_goes_and_that_is_known() -> None:
    cluster = with_activity(room=3)
    for number in range(5):
        cluster.create(f"s{number}")
    outbox = cluster.metadata.outbox
    assert len(outbox.events) == 3 and outbox.missed == outbox.events[0].id - 1
    assert cluster.metadata.counts["N12.missed"] == 3
    assert [event.id for event in outbox.behind(outbox.missed, 2)] == [outbox.missed + 1, outbox.missed + 2]


def test_n12_a_snapshot_has_the_outbox_and_one_without_is_read() -> None:
    cluster = with_activity(room=8)
    for number in range(12):
        cluster.create(f"s{number}")
    metadata = cluster.metadata
    cluster.apply(TrimActivity(cluster.request(), metadata.outbox.stream, metadata.applied - 2))
    for mutants in (Mutants(), Mutants(activity_forgotten_in_snapshot=True)):
        image, other = ImageReader(), Metadata(Guards(mutants))
        for chunk in picture(metadata).chunks:
            image.take(chunk)
        assert image.problem(metadata.applied, 1, ()) == ""
        other.adopt(image)
        assert other.outbox.head.trimmed == metadata.outbox.trimmed
        assert told(other) == ([] if mutants.activity_forgotten_in_snapshot else told(metadata))
    cluster.apply(cluster.deletion(NAME))
    image = ImageReader()
    for chunk in picture(metadata).chunks:
        image.take(chunk)
        assert len(msgspec.msgpack.decode(chunk)) == 5  # As nodes have written it that know no activity.
    assert image.outbox is None
    other.adopt(image)
    assert not other.outbox.on


def test_n12_a_snapshot_that_lacks_events_is_refused() -> None:
    cluster = with_activity()
    image = ImageReader()
    for chunk in picture(cluster.metadata).chunks:
        image.take(chunk)
    image.events.clear()
    assert image.problem(cluster.metadata.applied, 1, ()) == "it holds 0 events of 1"


# -- which stream it may be ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", UNFIT_FOR_ACTIVITY)
def test_n12_it_excludes_what_is_about_messages_that_are_published(name: str) -> None:
    values = {"queue_group": "q", "mirror": "s", "sources": (("s", ""),)}
    values |= dict.fromkeys(("compact", "read_only", "sealed"), True)
    flags = ("paused", "removal", "allow_rollup", "allow_ttl", "allow_batches", "work_queue", "interest")
    values |= dict.fromkeys((*flags, "allow_fast_batches"), True)
    cluster = Cluster()
    config = msgspec.structs.replace(activity(), **{name: values.get(name, 1000)})
    result = cluster.apply(cluster.creation(config))
    assert result.code == "invalid" and name in result.detail


def test_n12_it_has_one_partition_and_there_is_one_such_stream() -> None:
    cluster = Cluster()
    two = StreamConfig(NAME, NAME, 2, 3, activity=True)
    assert "one order" in cluster.apply(cluster.creation(two)).detail
    off = msgspec.structs.replace(activity(), activity=False)
    assert "leave it out" in cluster.apply(cluster.creation(off)).detail
    assert not cluster.apply(cluster.creation(activity())).code
    second = StreamConfig("second", "second", 1, 3, activity=True)
    assert "one such stream" in cluster.apply(cluster.creation(second)).detail
    for changes in ({"paused": True}, {"read_only": True}, {"partitions": 2}):
        assert alter(cluster, NAME, **changes).code == "invalid"
    assert not alter(cluster, NAME, retention_ms=1000).code
    assert not cluster.apply(cluster.deletion(NAME)).code
    assert not cluster.apply(cluster.creation(second)).code


def test_n12_it_needs_the_second_feature_level() -> None:
    cluster = Cluster(level=levels.FIRST)
    assert "feature level 2" in cluster.apply(cluster.creation(activity())).detail
    trim = TrimActivity(cluster.request(), 1, 1)
    assert "feature level 2" in cluster.apply(trim).detail
    assert activity().activity is True and StreamConfig("s", "s").activity is UNSET


def test_n12_the_level_that_rises_is_told() -> None:
    cluster = with_activity()
    nodes = [NodeLevel(node.node, node.incarnation, 3) for node in cluster.metadata.nodes.values()]
    cluster.apply(RaiseLevel(cluster.request(), 3, nodes))
    last = cluster.metadata.outbox.events[-1]
    assert (last.event, last.level) == ("level.raised", 3)


# -- who writes it -------------------------------------------------------------------------------------------


def a_world(mutants: Mutants | None = None, **config: Any) -> World:
    world = World(3, mutants or Mutants(), **config)
    assert world.run_until(lambda: world.nodes[1].metadata.level == levels.NEWEST)
    return world


def made(world: World, config: StreamConfig) -> PartitionId:
    node = next(iter(world.nodes))
    world.answer(node, CreateStreamRequest(config))
    assert world.run_until(lambda: config.name in world.nodes[node].metadata.streams)
    return PartitionId(world.nodes[node].metadata.streams[config.name].id, 0)


def events_of(world: World, partition: PartitionId) -> list[dict[str, Any]]:
    """What is committed, as the leader's disk has it."""
    leader = world.leader(partition)
    hw = world.replica(leader, partition).hw
    batches = world.disks[leader].logs[partition].batches
    records = [one for batch in batches for one in decode_records(batch) if one.offset < hw]
    for one in records:
        body = msgspec.json.decode(one.value or b"")
        assert one.subject.decode() == f"{NAME}.{body['event']}"
    return [msgspec.json.decode(one.value or b"") for one in records]


def empty(world: World) -> bool:
    """Whether all that has happened is told, and trimmed, and nothing is under way."""
    return all(node.metadata.outbox.on and not node.metadata.outbox.events for node in world.nodes.values())


def test_n12_what_happens_is_told_in_order_and_leaves_the_metadata() -> None:
    world = a_world()
    partition = made(world, activity())
    for name in ("a", "b"):
        world.create(name)
    world.answer(1, AlterStreamRequest("a", StreamChanges(paused=True)))
    world.answer(1, DeleteStreamRequest("b"))
    assert world.run_until(lambda: "b" not in world.nodes[1].metadata.streams)
    assert world.run_until(lambda: empty(world))
    found = events_of(world, partition)
    ids = [event["id"] for event in found]
    assert ids == sorted(set(ids)) and ids[0] == partition.stream
    of_streams = [
        (event["event"], event["stream"]) for event in found if event["event"].startswith("stream.")
    ]
    assert of_streams == [
        *(("stream.created", NAME), ("stream.created", "a"), ("stream.created", "b")),
        *(("stream.paused", "a"), ("stream.deleted", "b")),
    ]


def test_n12_it_comes_to_rest() -> None:
    world = a_world()
    made(world, activity())
    assert world.run_until(lambda: empty(world))
    world.run(20)
    applied = world.nodes[1].metadata.applied
    world.run(40)
    assert world.nodes[1].metadata.applied == applied and empty(world)


def test_n12_a_new_leader_begins_behind_what_is_trimmed() -> None:
    world = a_world()
    partition = made(world, activity())
    for number in range(4):
        world.create(f"s{number}")
        victim = world.leader(partition)
        world.kill(victim)
        world.run(8)
        world.restart(victim)
        world.run(8)
    assert world.run_until(lambda: empty(world), 60)
    found = events_of(world, partition)
    assert all(event["event"] != EVENTS_MISSING for event in found)
    names = [event["stream"] for event in found if event["event"] == "stream.created"]
    assert list(dict.fromkeys(names)) == [NAME, "s0", "s1", "s2", "s3"]
    assert {"node.expired", "node.registered", "node.live"} <= {event["event"] for event in found}


def test_n12_what_had_no_room_is_told_to_be_missing() -> None:
    world = a_world(activity_room=3)
    partition = made(world, activity())
    assert world.run_until(lambda: empty(world))
    leader = world.leader(partition)
    followers = [node for node in world.nodes if node != leader]
    world.drop = lambda sender, to, message: isinstance(message, Fetch) and to == leader
    for number in range(8):
        world.answer(leader, CreateStreamRequest(StreamConfig(f"s{number}", f"s{number}", 1, 1)))
    assert world.run_until(lambda: world.nodes[followers[0]].metadata.outbox.missed > 0)
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: empty(world), 60)
    found = events_of(world, partition)
    lost = [event for event in found if event["event"] == EVENTS_MISSING]
    assert len(lost) >= 1 and lost[0].keys() == {"id", "event"}
    for before, event in pairwise(found):
        assert event["id"] > before["id"]


def test_n12_it_takes_no_messages() -> None:
    world = a_world()
    partition = made(world, activity())
    assert world.run_until(lambda: empty(world))
    known = len(events_of(world, partition))
    world.publish(partition, b"mine")
    assert world.run_until(lambda: bool(world.refusals))
    assert "tells what happens in the cluster" in world.refusals[-1].description
    world.run(3)
    assert len(events_of(world, partition)) == known
