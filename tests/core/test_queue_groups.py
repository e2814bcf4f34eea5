"""Streams that share what comes on a subject (N11)."""

from __future__ import annotations

import pytest
from msgspec import UNSET

from liftlog.core.context import Context
from liftlog.core.guards import Guards
from liftlog.core.metadata import levels
from liftlog.core.metadata.alterations import alteration_problem
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.subjects import config_problem, queue_of, rivalry
from liftlog.core.replica.listening import Listening
from liftlog.messages import StreamChanges, Subscribe
from liftlog.mutants import Mutants
from liftlog.nodeconfig import NodeConfig
from liftlog.types import PartitionId, StreamConfig
from liftlog_sim.workload.elsewhere import SentElsewhere
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.workload.targets import Target
from tests.core.metadata_harness import Cluster


def shared(name: str = "s", group: str = "desks", *, ack_reply: bool = True) -> StreamConfig:
    return StreamConfig(name, "orders.*", 1, 1, 1, ack_reply=ack_reply, queue_group=group)


def test_N11_a_name_of_a_group_is_one_word() -> None:
    assert config_problem(shared()) == ""
    for name in ("", "a b", "a.b", "x" * 65, "a\r\nPUB"):
        assert "1 to 64 letters" in config_problem(shared(group=name))


def test_N11_streams_of_one_group_may_both_answer_and_no_others() -> None:
    alone = StreamConfig("alone", "orders.new", 1, 1)
    assert rivalry(shared("a"), shared("b")) == ""
    for other in (shared("b", "another"), alone):
        assert "queue group" in rivalry(shared("a"), other) and "queue group" in rivalry(other, shared("a"))


def test_N11_message_ids_and_a_group_exclude_each_other() -> None:
    both = StreamConfig("s", "s", 1, 1, 1, queue_group="g", dedupe_window_ms=1000)
    assert "may go to another stream of the group" in config_problem(both)
    assert "may go to" in alteration_problem(shared(), StreamChanges(dedupe_window_ms=1000))


@pytest.mark.parametrize("mutant", [False, True])
def test_N11_every_subscription_of_a_leader_is_in_the_group(mutant: bool) -> None:
    guards = Guards(Mutants(queue_group_ignored=mutant))
    ctx = Context(NodeConfig(1, (1,)), Metadata(guards), 1, guards)
    config = StreamConfig("s", "a", 1, 1, 1, more_subjects=("b.*",), queue_group="g")
    Listening(ctx, PartitionId(1, 0), 1).ask(config)
    asked = [effect for effect in ctx.effects if isinstance(effect, Subscribe)]
    assert [one.subject for one in asked] == ["a", "b.*"]
    assert {one.queue for one in asked} == ({""} if mutant else {"liftlog.streams.g"})
    assert queue_of(StreamConfig("s", "a")) == ""


def test_N11_nodes_of_an_older_release_never_see_a_group() -> None:
    cluster = Cluster(level=levels.FIRST)
    assert "feature level 2" in cluster.apply(cluster.creation(shared())).detail
    assert StreamConfig("s", "a").queue_group is UNSET


def test_N11_an_ack_of_another_stream_says_that_the_first_one_has_nothing() -> None:
    mine, other = Target(shared("a"), PartitionId(1, 0)), Target(shared("b"), PartitionId(2, 0))
    meant, elsewhere = (ClientOperation("send", 1, target, 0, b"v") for target in (mine, other))
    sent = SentElsewhere()
    sent.sent([elsewhere])
    assert sent.meant(meant, mine.partition, 5) is meant and meant.outcome == "info"
    assert sent.meant(meant, other.partition, 5) is elsewhere and meant.outcome == "fail"
