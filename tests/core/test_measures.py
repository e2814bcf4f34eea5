"""What is counted at each step: once for what happens once, by the clock, and nothing of what is history."""

from __future__ import annotations

from collections.abc import Iterator

from liftlog.eyes.durations import Durations
from liftlog.eyes.measures import CHANGE, INFO, OFFSET, READ, STATUS, TAIL, Measures, kind_of
from liftlog.messages import (
    ClusterStatusRequest,
    Event,
    OffsetRequest,
    Outcome,
    ReadRequest,
    RebalanceRequest,
    StreamInfoRequest,
)
from liftlog.real.breakdown import GroupTimes
from liftlog.types import ClientRef, PartitionId
from tests.core.node_harness import World

PARTITION = PartitionId(1, 0)


class Measured(World):
    """Every run of a node is measured."""

    def __init__(self, count: int = 3) -> None:
        self.measures: dict[int, Measures] = {}
        self.of_earlier_runs: list[Measures] = []
        super().__init__(count, replica_slow_ms=0)

    def observed(self, node: int, event: Event | None, outcome: Outcome) -> None:
        if event is None:
            if node in self.measures:
                self.of_earlier_runs.append(self.measures[node])
            self.measures[node] = Measures(self.nodes[node])
            self.measures[node].use_clock(lambda: self.now * 1000 + 0.25, lambda: self.now * 1000)
        self.measures[node].stepped(event, outcome)

    def each(self) -> Iterator[Measures]:
        yield from self.measures.values()
        yield from self.of_earlier_runs

    def total(self, name: str) -> int:
        return sum(getattr(measures, name) for measures in self.each())


def test_durations_are_counted_where_they_belong_and_cumulated_for_prometheus() -> None:
    durations = Durations((0.001, 0.01))
    durations.add(1.0)
    durations.add(1.5, 3)
    durations.add(11.0)
    assert durations.counts == [1, 3, 1]
    assert durations.cumulated() == [("0.001", 1), ("0.01", 4), ("+Inf", 5)]
    assert durations.sum_ms == 1.0 + 4.5 + 11.0


def test_each_message_is_measured_from_its_read_to_its_commit_by_its_leader_alone() -> None:
    world = Measured()
    partition = world.create()
    leader = world.leader(partition)
    world.publish(partition, b"a", b"b")
    world.publish(partition, b"c")
    assert world.run_until(lambda: world.committed(partition, 3))
    commits = world.measures[leader].commits
    assert sum(commits.counts) == 3
    assert commits.sum_ms > 0
    others = [measures for node, measures in world.measures.items() if node != leader]
    assert all(sum(measures.commits.counts) == 0 for measures in others)
    assert sum(world.measures[leader].steps.counts) * 0.25 == world.measures[leader].steps.sum_ms


def test_messages_of_a_leader_that_lost_its_office_are_not_measured() -> None:
    world = Measured()
    partition = world.create()
    leader = world.leader(partition)
    world.drop = lambda sender, to, message: leader in (sender, to)
    world.publish(partition, b"never acked by this one")
    assert world.run_until(lambda: world.leader(partition) != leader)
    world.drop = lambda sender, to, message: False
    assert world.run_until(lambda: world.nodes[leader].replicas[partition].leading is None)
    world.run(2)
    assert sum(world.measures[leader].commits.counts) == 0
    assert not world.measures[leader]._waiting.get(partition)


def test_elections_and_changes_of_in_sync_sets_are_counted_once_and_no_history() -> None:
    world = Measured()
    partition = world.create()
    assert world.run_until(lambda: world.leader(partition) != 0)
    first = world.leader(partition)
    # An in-sync set begins with its leader.
    assert world.run_until(lambda: len(world.nodes[first].replicas[partition].isr) == 3)
    assert (world.total("elections"), world.total("isr_shrinks"), world.total("isr_expands")) == (1, 0, 2)
    world.kill(first)
    assert world.run_until(lambda: world.leader(partition) not in (0, first))
    second = world.leader(partition)
    assert world.run_until(lambda: len(world.nodes[second].replicas[partition].isr) == 2)
    assert (world.total("elections"), world.total("isr_shrinks"), world.total("isr_expands")) == (2, 1, 2)
    world.restart(first)
    assert world.run_until(lambda: len(world.nodes[second].replicas[partition].isr) == 3)
    world.run(2)
    assert (world.total("elections"), world.total("isr_shrinks"), world.total("isr_expands")) == (2, 1, 3)
    assert world.measures[first].elections == 0
    assert world.total("unclean_elections") == 0


def test_all_nodes_started_anew_count_their_new_elections_only() -> None:
    world = Measured()
    partition = world.create()
    for node in (1, 2, 3):
        world.kill(node)
    for node in (1, 2, 3):
        world.restart(node)
    assert world.run_until(lambda: world.leader(partition) != 0)
    world.run(3)
    now = sum(measures.elections for measures in world.measures.values())
    epoch = world.nodes[world.leader(partition)].replicas[partition].epoch
    assert 1 <= now < epoch, "the first epoch was of an earlier run"


def test_a_request_is_measured_by_its_kind_and_forgotten_when_its_client_leaves() -> None:
    world = Measured()
    world.run_until(lambda: world.nodes[1].incarnation > 0)
    measures = world.measures[1]
    number = world.ask(1, ClusterStatusRequest())
    assert world.run_until(lambda: number in world.replies)
    measures.answered(ClientRef(number))
    assert sum(measures.requests[STATUS].counts) == 1
    measures.answered(ClientRef(number))
    assert sum(measures.requests[STATUS].counts) == 1, "once"
    gone = world.ask(1, ClusterStatusRequest())
    world.run(0.1)
    measures.left(ClientRef(gone))
    measures.answered(ClientRef(gone))
    assert sum(measures.requests[STATUS].counts) == 1
    kinds = {
        READ: ReadRequest(PARTITION, 0),
        TAIL: ReadRequest(PARTITION, 0, wait_ms=10),
        OFFSET: OffsetRequest(PARTITION, "new"),
        INFO: StreamInfoRequest(),
        CHANGE: RebalanceRequest(),
    }
    assert {kind: kind_of(request) for kind, request in kinds.items()} == {kind: kind for kind in kinds}


def test_a_storage_group_is_measured_whole_and_its_sync_alone() -> None:
    measures = Measured().measures[1]
    measures.group_ended(GroupTimes(100.0, 101.0, 130.0))
    assert (measures.groups.sum_ms, measures.syncs.sum_ms) == (30.0, 29.0)
