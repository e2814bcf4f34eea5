"""Work split over steps: counted in replicas and commands, never in time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from liftlog.core.metadata.commands import ConfirmNode, RequestId
from liftlog.core.node import Node
from liftlog.core.proposals import Sending
from liftlog.core.slices import Slices
from liftlog.messages import ClientRequest, CreateStreamRequest, Event, Outcome, TimerFired
from liftlog.mutants import Mutants
from liftlog.nodeconfig import NodeConfig
from liftlog.types import ClientRef, Entry, HardState, Identity, LogBase, PartitionId, Recovered, StreamConfig
from tests.core.metadata_harness import picture
from tests.core.node_harness import World

PARTITIONS = 500
STEP_MAX = NodeConfig(1, (1,)).step_partitions_max


class Counting(World):
    """Knows how many replicas each step has touched, and how many it has ticked."""

    most_touched = 0

    def observed(self, node: int, event: Event | None, outcome: Outcome) -> None:
        self.most_touched = max(self.most_touched, len(outcome.touched))


def created(world: World, partitions: int) -> None:
    world.run(2.0)
    world.clients += 1
    config = StreamConfig("many", "many", partitions, 3)
    client = ClientRef(world.clients)
    world.post(1, ClientRequest(client, CreateStreamRequest(config)))
    assert world.run_until(lambda: world.clients in world.replies), "not created"


def is_led(world: World) -> bool:
    return all(
        record.ready and record.leader in world.nodes
        for node in world.nodes.values()
        for record in node.metadata.partitions.values()
    )


def test_no_step_cares_for_more_than_its_share_of_many_replicas() -> None:
    world = Counting()
    created(world, PARTITIONS)
    assert all(len(node.replicas) == PARTITIONS for node in world.nodes.values())
    assert 0 < world.most_touched <= 2 * STEP_MAX, "a step may end one round and begin another"
    world.kill(3)
    assert world.run_until(lambda: is_led(world))
    world.restart(3)
    assert world.run_until(
        lambda: all(len(record.isr) == 3 for record in world.nodes[1].metadata.partitions.values())
    )
    assert world.most_touched <= 2 * STEP_MAX


def test_a_share_of_one_ends_where_no_share_does() -> None:
    ends = []
    for share in (1, STEP_MAX):
        world = World()
        for node in world.nodes.values():
            node.slices.share = share
        created(world, 7)
        world.kill(2)
        assert world.run_until(lambda world=world: is_led(world))  # type: ignore[misc]
        metadata = world.nodes[1].metadata
        ends.append({id: (one.replicas, one.isr, one.leader) for id, one in metadata.partitions.items()})
    assert ends[0] == ends[1]


@pytest.mark.parametrize("mutants", [Mutants(), Mutants(start_owes_the_snapshot=True)])
def test_L5_a_start_from_a_snapshot_of_many_partitions_applies_what_comes(mutants: Mutants) -> None:
    """Found in the simulator: such a node applied nothing more, and went round for ever."""
    world = World()
    created(world, STEP_MAX + 1)
    snapshot = picture(world.nodes[1].metadata)
    base = LogBase(snapshot.index, snapshot.term)
    config = NodeConfig(1, (1, 2, 3))
    recovered = Recovered(Identity(1, "disk-1"), HardState(), [], [], True, 1, base, snapshot)
    node = Node(config, recovered, mutants)
    node.start(0)
    entries = [Entry(snapshot.index + number, 1, b"") for number in (1, 2, 3)]
    node.slices.committed(entries)
    for _ in entries:
        node.step(TimerFired("rest", 0, 0))
    stands = mutants.start_owes_the_snapshot
    assert node.slices.has_rest == stands and node.metadata.applied == snapshot.index + 3 * (not stands)


def test_every_replica_has_every_tick_though_the_next_one_comes_before_the_last_is_through() -> None:
    world = World()
    created(world, 7)
    node = world.nodes[1]
    node.slices.share = 2
    waited = {id: replica.upkeep.retain_ticks for id, replica in node.replicas.items()}
    for _ in range(3):
        node.step(TimerFired("tick", world.now * 1000, 0))
    assert node.slices.is_ticking
    while node.slices.is_ticking:
        node.step(TimerFired("rest", world.now * 1000, 0))
    assert {id: replica.upkeep.retain_ticks - waited[id] for id, replica in node.replicas.items()} == (
        dict.fromkeys(waited, 3)
    )


def test_L3_a_command_goes_again_ever_more_seldom_to_the_same_controller_and_soon_to_another() -> None:
    sending = Sending(ConfirmNode(RequestId(1, 1, 99), 1, 1, 1))

    def ticks(controller: int) -> int:
        count = 1
        while not sending.is_due(controller):
            count += 1
        sending.sent(controller)
        return count

    sending.sent(0)
    assert ticks(1) == 1, "nobody was there: at once"
    assert [ticks(1) for _ in range(5)] == [5, 10, 20, 20, 20]
    assert [ticks(2) for _ in range(3)] == [5, 5, 10]


@given(st.integers(1, 5), st.lists(st.integers(0, 9), max_size=30), st.lists(st.integers(0, 4), max_size=30))
def test_nothing_is_left_out_or_done_twice(share: int, numbers: list[int], touched: list[int]) -> None:
    slices = Slices(share)
    ids = [PartitionId(1, number) for number in numbers]
    slices.follow(ids, 1)
    followed = []
    while slices.is_following:
        taken = slices.following()
        assert 0 < len(taken) <= share
        followed += taken
    assert followed == list(dict.fromkeys(ids))
    entries = [Entry(index, 1, b"") for index in range(len(touched))]
    slices.committed(entries)
    applied = []
    while slices.has_rest:
        already = 0
        while (entry := slices.next_entry(already)) is not None:
            already += touched[entry.index]
            applied.append(entry)
    assert applied == entries


def test_who_looks_twice_in_a_step_is_behind_as_of_the_second_look() -> None:
    """A node that leaves applies twice in a step: its trace called a replica as old as the step before, with
    the record that it had seen in the middle (`sim run --seed 77 --profile growing` of that day).
    """
    slices = Slices(1)
    first, second = PartitionId(1, 0), PartitionId(1, 1)
    slices.follow([first], 184)
    assert slices.following() == [first]
    slices.follow([second, first], 185)
    slices.follow([first], 186)
    assert slices.following() == [second]
    assert dict(slices.waiting) == {first: 185}
