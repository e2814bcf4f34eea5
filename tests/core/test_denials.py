"""What a stream lets nobody do for ever (R19), and what its owner keeps in it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem, altered, describe_alteration
from liftlog.core.metadata.commands import CreateStream, RequestId
from liftlog.core.metadata.limits import limits_problem
from liftlog.core.metadata.subjects import config_problem
from liftlog.messages import (
    AlterStreamRequest,
    DeleteMessageRequest,
    DoneReply,
    ErrorReply,
    MessageDeleted,
    PurgeRequest,
    PurgeSubjectsRequest,
    StreamChanges,
    StreamInfoReply,
    StreamInfoRequest,
    SubjectsPurged,
)
from liftlog.types import PartitionId, StreamConfig
from tests.core.node_harness import World
from tests.core.test_subject_limits import put, shows

PLAIN = StreamConfig("orders", "orders.*", 1, 3, 2)


def written(**kwargs: Any) -> tuple[World, PartitionId]:
    """A stream with a journal and three messages."""
    world = World()
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    partition = world.create(removal=True, **kwargs)
    assert world.run_until(lambda: partition in world.subscriptions)
    put(world, partition, "a", "b", "a")
    return world, partition


def asked(world: World, partition: PartitionId, request: Any) -> Any:
    return world.answer(world.leader(partition), request)


def refused(reply: object, what: str) -> bool:
    return isinstance(reply, ErrorReply) and (reply.code, reply.retryable) == ("invalid", False) and (
        what in reply.description and "stream rm" in reply.description
    )


def test_R19_single_messages_of_a_stream_with_deny_delete_stay_and_it_can_be_purged() -> None:
    world, partition = written(deny_delete=True)
    assert refused(asked(world, partition, DeleteMessageRequest(partition, 1)), "deny_delete")
    assert isinstance(asked(world, partition, PurgeSubjectsRequest(partition, "orders.b", 3)), SubjectsPurged)
    assert isinstance(asked(world, partition, PurgeRequest(partition, 1)), DoneReply)
    assert world.replica(world.leader(partition), partition).log_start == 1


def test_R19_a_stream_with_deny_purge_is_not_purged_and_single_messages_can_be_deleted() -> None:
    world, partition = written(deny_purge=True)
    assert refused(asked(world, partition, PurgeSubjectsRequest(partition, "orders.b", 3)), "deny_purge")
    assert refused(asked(world, partition, PurgeRequest(partition, 1)), "deny_purge")
    assert isinstance(asked(world, partition, DeleteMessageRequest(partition, 1)), MessageDeleted)
    assert shows(world, partition, 0, 2)


def test_R19_limits_go_on_where_requests_are_denied() -> None:
    world, partition = written(deny_delete=True, deny_purge=True, max_messages_per_subject=1)
    assert shows(world, partition, 1, 2)


def test_R19_a_sealed_stream_takes_nothing_and_gives_nothing_away_under_every_leader() -> None:
    world, partition = written()
    told = world.answer(1, AlterStreamRequest("orders", StreamChanges(sealed=True)))
    assert told == DoneReply(
        "read_only false -> true, deny_delete false -> true, deny_purge false -> true, sealed false -> true"
    )
    for _ in range(2):
        assert refused(asked(world, partition, DeleteMessageRequest(partition, 1)), "deny_delete")
        assert refused(asked(world, partition, PurgeRequest(partition, 1)), "deny_purge")
        world.publish(partition, b"more")
        world.run(0.5)
        (last,) = world.refusals[-1:]
        assert last.code == "read-only" and "sealed" in last.description
        before = world.leader(partition)
        world.kill(before)
        assert world.run_until(lambda gone=before: world.leader(partition) not in (0, gone))
        assert world.run_until(lambda: partition in world.subscriptions)
        world.restart(before)
        assert world.run_until(lambda back=before: partition in world.nodes[back].replicas)
    assert shows(world, partition, 0, 1, 2)


def test_R19_a_purge_that_is_under_way_ends_where_purging_is_denied() -> None:
    world, partition = written()
    leader = world.leader(partition)
    for node in world.nodes:
        if node != leader:
            world.hold_storage(node)
    number = world.ask(leader, PurgeSubjectsRequest(partition, "orders.*", 3))
    world.answer(leader, AlterStreamRequest("orders", StreamChanges(deny_purge=True)))
    for node in list(world.held):
        world.release_storage(node)
    assert world.run_until(lambda: number in world.replies)


@pytest.mark.parametrize("name", ["deny_delete", "deny_purge", "sealed"])
def test_R19_what_is_denied_is_denied_for_ever(name: str) -> None:
    off, on = StreamChanges(**{name: False}), StreamChanges(**{name: True})
    assert alteration_problem(PLAIN, off) == "" and altered(PLAIN, off) == PLAIN
    assert alteration_problem(PLAIN, on) == ""
    denied = altered(PLAIN, on)
    assert getattr(denied, name) is True
    assert "cannot be switched off again" in alteration_problem(denied, off)
    assert alteration_problem(denied, on) == "" and altered(denied, on) == denied


def test_R19_what_rolls_up_takes_messages_away() -> None:
    rolls = altered(PLAIN, StreamChanges(allow_rollup=True))
    assert "exclude each other" in limits_problem(altered(rolls, StreamChanges(deny_purge=True)))
    assert altered(rolls, StreamChanges(sealed=True)).allow_rollup is UNSET


def test_R19_sealing_is_for_ever_and_not_for_a_new_stream() -> None:
    sealed = altered(PLAIN, StreamChanges(sealed=True))
    assert (sealed.read_only, sealed.deny_delete, sealed.deny_purge) == (True, True, True)
    assert "read-only for ever" in alteration_problem(sealed, StreamChanges(read_only=False))
    assert "read-only for ever" in alteration_problem(PLAIN, StreamChanges(read_only=False, sealed=True))
    assert alteration_problem(sealed, StreamChanges(retention_ms=5)) == ""
    new = StreamConfig("s", "s", 1, 1, 1, sealed=True)
    assert "a new stream is not sealed" in config_problem(new)


def noted(*notes: tuple[str, str]) -> StreamConfig:
    return StreamConfig("s", "s", 1, 1, 1, notes=notes)


@pytest.mark.parametrize(
    ("config", "says"),
    [
        (noted(), "must be left out"),
        (noted(*((f"n{number}", "") for number in range(65))), "1 to 64"),
        (noted(("a", "1"), ("a", "2")), "'a' twice"),
        (noted(("", "1")), "1 to 64 bytes"),
        (noted(("\u00e4" * 33, "1")), "1 to 64 bytes, not 66"),
        (noted(("a", "x" * 16384)), "16385 bytes, and may have 16384"),
    ],
)
def test_R19_which_notes_a_stream_may_have(config: StreamConfig, says: str) -> None:
    assert says in limits_problem(config) and says in config_problem(config)


def test_R19_notes_are_kept_told_and_altered_as_a_whole() -> None:
    world = World()
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    world.create(notes=(("description", "what we owe"), ("a" * 64, "x" * 16000)))

    def told(node: int) -> Any:
        reply = world.answer(node, StreamInfoRequest("orders"))
        assert isinstance(reply, StreamInfoReply)
        return reply.streams[0].config.notes

    assert told(2)[0] == ("description", "what we owe")
    changes = StreamChanges(notes=(("team", "7"),))
    assert world.answer(1, AlterStreamRequest("orders", changes)) == DoneReply(
        "notes 2 of 16,086 bytes -> 1 of 5 bytes"
    )
    assert told(3) == (("team", "7"),)
    assert isinstance(world.answer(1, AlterStreamRequest("orders", StreamChanges(notes=()))), DoneReply)
    assert told(1) is UNSET
    assert describe_alteration(noted(("a", "b")), noted(("a", "b"))).startswith("nothing has changed")


def test_R19_older_nodes_never_see_them() -> None:
    for field in ({"notes": (("a", "b"),)}, {"deny_delete": True}, {"deny_purge": True}):
        config = StreamConfig("s", "s", 1, 1, 1, **field)  # type: ignore[arg-type]
        assert levels.since(CreateStream(RequestId(1, 1, 1), config, 0)) == 2
    for name in ("notes", "deny_delete", "deny_purge", "sealed", "subject", "more_subjects"):
        assert levels.ALTERABLE_SINCE[name] == 2
