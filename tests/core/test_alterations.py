"""Streams are altered while they are in use (R19)."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import pytest
from msgspec import UNSET

from liftlog.api.nats_api import parse_request
from liftlog.commands.stream import add_parser
from liftlog.core.metadata.commands import AlterStream, decode_command, encode_command
from liftlog.core.metadata.image import ImageReader, ImageWriter
from liftlog.core.metadata.records import CommandResult
from liftlog.messages import ERR_READ_ONLY, AlterStreamRequest, DoneReply, ErrorReply, StreamChanges
from liftlog.messages.intake import InputRefused
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.real.nats_wire import FAILS
from liftlog.types import Members, StreamConfig
from tests.core.metadata_harness import Cluster
from tests.core.node_harness import World


@dataclass
class Altered:
    """A stream, and who alters it by what he has read."""

    cluster: Cluster

    @property
    def config(self) -> StreamConfig:
        return self.cluster.metadata.streams["orders"].config

    @property
    def revision(self) -> int:
        return self.cluster.metadata.streams["orders"].revision

    def alter(self, changes: StreamChanges, revision: int | None = None) -> CommandResult:
        stream = self.cluster.metadata.streams["orders"]
        read = stream.revision if revision is None else revision
        return self.cluster.apply(AlterStream(self.cluster.request(), stream.id, "orders", read, changes))


def altered(mutants: Mutants = NO_MUTANTS) -> Altered:
    cluster = Cluster(mutants=mutants)
    cluster.create("orders")
    return Altered(cluster)


def test_r19_an_alteration_changes_what_it_names_and_says_so() -> None:
    orders = altered()
    before = orders.config
    result = orders.alter(StreamChanges(retention_ms=5000, read_only=True))
    assert (result.code, result.detail) == ("", "retention_ms 0 -> 5000, read_only false -> true")
    assert orders.config == StreamConfig(
        "orders", "orders", 1, 3, before.min_insync_replicas, retention_ms=5000, read_only=True
    )
    assert orders.revision == orders.cluster.metadata.applied


def test_r19_who_has_not_read_the_last_alteration_changes_nothing() -> None:
    orders = altered()
    assert orders.alter(StreamChanges(retention_ms=5000), 0).code == ""
    late = orders.alter(StreamChanges(retention_ms=1), 0)
    assert late.code == "stale"
    assert orders.config.retention_ms == 5000
    assert orders.cluster.metadata.counts["R19.stale"] == 1


def test_r19_the_same_values_once_more_make_what_is_under_way_too_late() -> None:
    """An operator is told that the stream is writable; what was asked for before must not undo that."""
    orders = altered()
    assert "so already" in orders.alter(StreamChanges(read_only=False)).detail
    assert orders.alter(StreamChanges(read_only=True), 0).code == "stale"
    assert not orders.config.read_only


def test_the_mutant_of_r19_undoes_what_it_has_not_seen() -> None:
    orders = altered(Mutants(alteration_blind=True))
    orders.alter(StreamChanges(read_only=False))
    assert orders.alter(StreamChanges(read_only=True), 0).code == ""
    assert orders.config.read_only


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (StreamChanges(segment_bytes=3), "segment_bytes = 3 is not accepted; it must be 1024 to"),
        (StreamChanges(dirty_ratio_percent=101), "dirty_ratio_percent = 101"),
        (StreamChanges(codec="zip"), "codec = 'zip' is not accepted; use one of: none, zstd, lz4"),
    ],
)
def test_r19_the_limits_of_a_creation_hold_for_an_alteration(changes: StreamChanges, says: str) -> None:
    orders = altered()
    before = orders.config
    result = orders.alter(changes)
    assert result.code == "invalid" and says in result.detail
    assert (orders.config, orders.revision) == (before, 0)


def test_r19_compaction_is_switched_on_and_never_off() -> None:
    orders = altered()
    assert orders.alter(StreamChanges(compact=True)).detail == "compact false -> true"
    refused = orders.alter(StreamChanges(compact=False))
    assert refused.code == "invalid" and "gaps, which would count as lost" in refused.detail
    assert orders.config.compact
    assert orders.alter(StreamChanges(compact=True)).code == ""


def test_r19_a_stream_that_is_gone_is_not_altered_by_its_name() -> None:
    """I1: another stream that bears the name is another stream."""
    orders = altered()
    cluster = orders.cluster
    old = cluster.metadata.streams["orders"].id
    cluster.apply(cluster.deletion("orders"))
    cluster.create("orders")
    late = AlterStream(cluster.request(), old, "orders", 0, StreamChanges(retention_ms=1))
    assert cluster.apply(late).code == "not-found"
    assert orders.config.retention_ms == 0


def test_an_alteration_names_only_what_it_changes_in_its_bytes() -> None:
    orders = altered()
    command = AlterStream(orders.cluster.request(), 7, "orders", 0, StreamChanges(segment_ms=3, compact=True))
    read = decode_command(encode_command(command))
    assert read == command
    assert isinstance(read, AlterStream) and read.changes.named == {"segment_ms": 3, "compact": True}
    assert read.changes.codec is UNSET


def test_r19_a_snapshot_holds_what_was_altered_and_tells_the_replicas() -> None:
    """M1p: of a node that was away, the replicas hear of another configuration although no record moved."""
    orders = altered()
    metadata = orders.cluster.metadata

    def chunks() -> list[bytes]:
        writer = ImageWriter(metadata, metadata.results, 1, Members(()), (), 100)
        while not writer.go_on():
            pass
        return writer.chunks

    def adopt(images: list[bytes], into: Cluster) -> None:
        reader = ImageReader()
        for chunk in images:
            reader.take(chunk)
        into.metadata.adopt(reader)

    other = Cluster(nodes=0)
    adopt(chunks(), other)
    other.metadata.take_changed()
    orders.alter(StreamChanges(segment_bytes=4096))
    adopt(chunks(), other)
    stream = other.metadata.streams["orders"]
    assert (stream.config, stream.revision) == (orders.config, orders.revision)
    assert other.metadata.by_id[stream.id] == stream
    assert other.metadata.take_changed() == list(stream.partitions)


def test_an_alteration_is_asked_for_by_the_names_of_its_fields() -> None:
    request = parse_request("STREAM.ALTER", b'{"name": "orders", "changes": {"retention_ms": 9}}')
    assert request == AlterStreamRequest("orders", StreamChanges(retention_ms=9))


@pytest.mark.parametrize("name", ["name", "durability", "ack_reply"])
def test_r19_what_is_fixed_is_refused_by_name(name: str) -> None:
    with pytest.raises(InputRefused, match=f"{name} cannot be altered: fixed when the stream is created"):
        parse_request("STREAM.ALTER", b'{"name": "orders", "changes": {"%b": 1}}' % name.encode())


@pytest.mark.parametrize("changes", [b"5", b"null", b'"compact"', b'["partitions"]', b"true"])
def test_v1_changes_that_are_no_object_are_refused(changes: bytes) -> None:
    with pytest.raises(InputRefused, match="changes"):
        parse_request("STREAM.ALTER", b'{"name": "orders", "changes": %b}' % changes)


def test_an_unknown_field_of_an_alteration_is_refused() -> None:
    with pytest.raises(InputRefused, match="unknown field `colour`"):
        parse_request("STREAM.ALTER", b'{"name": "orders", "changes": {"colour": 1}}')


def test_r19_a_leader_refuses_messages_of_a_read_only_stream_and_says_what_to_do() -> None:
    """N4: those that ask for an answer get one, and none is stored: with a reply subject or without."""
    world = World()
    partition = world.create()
    world.publish(partition, b"before")
    assert world.run_until(lambda: world.committed(partition, 1))
    done = world.answer(2, AlterStreamRequest("orders", StreamChanges(read_only=True)))
    assert done == DoneReply("read_only false -> true")
    world.run(1.0)
    leader = world.leader(partition)
    world.publish(partition, b"asks", reply=b"_INBOX.q")
    world.publish(partition, b"asks nothing", reply=b"")
    world.run(1.0)
    assert [(refusal.code, refusal.replies) for refusal in world.refusals] == [("read-only", [b"_INBOX.q"])]
    assert "--read-write" in world.refusals[0].description
    assert world.values(leader, partition) == [b"before"]
    world.answer(3, AlterStreamRequest("orders", StreamChanges(read_only=False)))
    world.run(1.0)
    world.publish(partition, b"after")
    assert world.run_until(lambda: world.committed(partition, 2))


def test_r19_a_read_only_refusal_leaves_the_outcome_open() -> None:
    """Of two leaders that both got the message one may know already that it may be stored again."""
    assert ERR_READ_ONLY not in FAILS


def test_r19_a_stream_stays_read_only_under_another_leader_and_after_a_restart() -> None:
    world = World()
    partition = world.create()
    world.answer(1, AlterStreamRequest("orders", StreamChanges(read_only=True, segment_bytes=4096)))
    before = world.leader(partition)
    world.kill(before)
    assert world.run_until(lambda: world.leader(partition) not in (0, before))
    assert world.run_until(lambda: partition in world.subscriptions)
    world.publish(partition, b"a")
    world.run(1.0)
    assert [refusal.code for refusal in world.refusals] == ["read-only"]
    world.restart(before)
    assert world.run_until(lambda: partition in world.nodes[before].replicas)
    assert world.run_until(lambda: world.replica(before, partition).log.options.segment_bytes == 4096)


def test_r19_storage_is_told_how_to_write_from_now_on() -> None:
    world = World()
    partition = world.create()
    world.answer(1, AlterStreamRequest("orders", StreamChanges(segment_bytes=4096, segment_records=7)))
    world.run(1.0)
    for node in (1, 2, 3):
        options = world.replica(node, partition).log.options
        assert (options.segment_bytes, options.segment_records) == (4096, 7)


def test_r19_two_operators_at_once_both_get_what_they_asked_for() -> None:
    """The node that finds another revision than it had read looks again while its client waits."""
    world = World()
    world.create()
    first = world.ask(1, AlterStreamRequest("orders", StreamChanges(retention_ms=5)))
    second = world.ask(2, AlterStreamRequest("orders", StreamChanges(retention_bytes=6)))
    assert world.run_until(lambda: {first, second} <= set(world.replies))
    assert world.replies[first] == DoneReply("retention_ms 0 -> 5")
    assert world.replies[second] == DoneReply("retention_bytes 0 -> 6")
    assert any("R19.stale" in node.ctx.metadata.counts for node in world.nodes.values())
    config = world.nodes[3].ctx.metadata.streams["orders"].config
    assert (config.retention_ms, config.retention_bytes) == (5, 6)


@pytest.mark.parametrize(
    ("request_", "says"),
    [
        (AlterStreamRequest("none", StreamChanges(read_only=True)), "does not exist"),
        (AlterStreamRequest("orders", StreamChanges(read_only=True), 99), "with id 99 was deleted"),
        (AlterStreamRequest("orders", StreamChanges()), "nothing to alter; what can be: retention_ms"),
        (AlterStreamRequest("orders", StreamChanges(segment_bytes=1)), "segment_bytes = 1 is not accepted"),
    ],
)
def test_r19_what_cannot_be_is_told_at_once(request_: AlterStreamRequest, says: str) -> None:
    world = World()
    world.create()
    told = world.answer(2, request_)
    assert isinstance(told, ErrorReply) and says in told.description and not told.retryable


def parsed(*arguments: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_parser(parser.add_subparsers())
    return parser.parse_args(["stream", "alter", "s", *arguments])


def test_what_is_not_given_on_the_command_line_is_not_named() -> None:
    def named(*arguments: str) -> dict[str, object]:
        given = parsed(*arguments)
        return {**StreamChanges(**{f: getattr(given, f) for f in StreamChanges.__struct_fields__}).named}

    assert named() == {}
    assert named("--read-only", "--compact") == {"read_only": True, "compact": True}
    assert named("--read-write", "--retention-bytes", "1KiB") == {"read_only": False, "retention_bytes": 1024}
    with pytest.raises(SystemExit):
        parsed("--read-only", "--read-write")


def test_r19_a_log_that_failed_when_it_was_altered_hears_of_it_when_it_is_rebuilt() -> None:
    """Storage knows of the failure before the replica does, and takes no word about such a log any more."""
    world = World()
    partition = world.create()
    node = next(number for number in (1, 2, 3) if number != world.leader(partition))
    before = world.options[node, partition]
    world.answer(1, AlterStreamRequest("orders", StreamChanges(segment_bytes=4096)))
    assert world.run_until(lambda: world.options[node, partition].segment_bytes == 4096)
    world.options[node, partition] = before
    world.fail_sync(node, partition)
    assert world.run_until(lambda: world.replica(node, partition).state != "ready")
    assert world.run_until(lambda: world.replica(node, partition).state == "ready")
    assert world.options[node, partition].segment_bytes == 4096
