"""Nodes that retire: they give away what they have and are removed, or another one takes their place (I3)."""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.commands.retirements import retirements
from liftlog.core.draining import Draining
from liftlog.core.metadata import levels
from liftlog.core.metadata.commands import (
    AdmitNode,
    DrainNode,
    FinishMove,
    MoveReplicas,
    PassVote,
    RemoveNode,
    RetireNode,
    SetVoter,
)
from liftlog.core.metadata.records import CommandResult
from liftlog.core.metadata.retiring import vote_problem
from liftlog.core.retiring import Retiring
from liftlog.messages import (
    DoneReply,
    DrainNodeRequest,
    ErrorReply,
    NodeInfo,
    PartitionInfo,
    RemoveNodeRequest,
    RetireNodeRequest,
    StreamInfo,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import GroupMember, Members, StreamConfig
from tests.core.metadata_harness import Cluster
from tests.core.node_harness import World

FOUNDERS = [(1, "a:1"), (2, "b:1"), (3, "c:1")]


class Group:
    """The records of five nodes, of which three vote, and what a controller wants of them on a tick."""

    def __init__(self, mutants: Mutants = NO_MUTANTS, copies: int = 1) -> None:
        self.cluster = Cluster(5, mutants)
        self.metadata = self.cluster.metadata
        self.members = [1, 2, 3]
        self.wanted: list[Any] = []
        self.metadata.grouped(self._members())
        self.cluster.apply(AdmitNode(self.cluster.request(), 4, "d:1", 0, FOUNDERS))
        self.partitions = [self.cluster.create(f"s{number}", replicas=3) for number in range(copies)]
        self.mutants = mutants

    def _members(self) -> Members:
        return Members(tuple(GroupMember(node, f"disk-{node}") for node in self.members), ())

    def demoted(self, node: int) -> None:
        """Raft has followed what the metadata say."""
        self.members.remove(node)
        self.metadata.grouped(self._members())

    def retire(self, node: int, heir: int = 0, retires: bool = True, version: int = -1) -> CommandResult:
        read = self.metadata.nodes[node].retires_at if version < 0 else version
        return self.cluster.apply(RetireNode(self.cluster.request(), node, retires, heir, read))

    def tick(self) -> list[Any]:
        """What a controller asks for now, each with a request of its own."""
        group = self

        class Ctx:
            metadata = group.metadata
            founders = (1, 2, 3)
            mutants = group.mutants

            def want(self, command: Any) -> None:
                group.wanted.append(command)

        class Raft:
            members = group._members()

        class Roster:
            founders = FOUNDERS

        self.wanted = []
        ctx: Any = Ctx()
        Draining(ctx).tick()
        Retiring(ctx, Raft(), Roster()).tick()  # type: ignore[arg-type]
        return [self._sent(command) for command in self.wanted]

    def _sent(self, command: Any) -> Any:
        fields = {name: getattr(command, name) for name in command.__struct_fields__}
        return type(command)(**{**fields, "request": self.cluster.request()})

    def settle(self, ticks: int = 30) -> None:
        """Let the controller go on as long as it wants something; whoever is to have a copy gets in sync."""
        for _ in range(ticks):
            for command in self.tick():
                self.cluster.apply(command)
                if isinstance(command, PassVote):
                    self.demoted(command.node)
            for partition in self.partitions:
                for node in partition.target:
                    if node not in partition.isr and self.metadata.is_live(node):
                        isr = [other for other in partition.replicas if other in (*partition.isr, node)]
                        self.cluster.change_isr(partition, isr, node)
                move = FinishMove(self.cluster.request(), partition.id, partition.assignment)
                self.cluster.apply(move)


def test_i3_a_node_that_retires_gives_away_copies_then_its_vote_and_is_removed() -> None:
    group = Group(copies=3)
    assert group.retire(3).code == ""
    assert all(partition.leader != 3 for partition in group.partitions), "offices go at once"
    kept = [partition for partition in group.partitions if 3 in partition.replicas]
    first = group.tick()
    assert kept and {type(command) for command in first} == {MoveReplicas}
    assert {command.partition for command in first} == {partition.id for partition in kept}
    group.settle()
    assert group.metadata.is_removed(3) and 3 not in group.metadata.nodes
    assert all(3 not in partition.replicas and len(partition.isr) == 3 for partition in group.partitions)
    assert group.members == [1, 2]


def test_i3_the_vote_goes_last_where_there_is_no_heir() -> None:
    group = Group(copies=3)
    group.retire(3)
    assert not any(isinstance(command, PassVote) for command in group.tick())
    late = RemoveNode(
        group.cluster.request(), 3, group.metadata.admitted_at, FOUNDERS, group.metadata.nodes[3].retires_at
    )
    assert group.cluster.apply(late).code == "stale"
    assert 3 in group.metadata.nodes


def test_i3_a_spare_votes_in_the_place_of_a_node_that_has_no_heir() -> None:
    group = Group()
    group.cluster.apply(SetVoter(group.cluster.request(), 4, False, group.metadata.voters_at))
    group.retire(3)
    group.settle()
    assert group.metadata.is_removed(3)
    votes = [node for node, record in group.metadata.nodes.items() if record.is_to_vote([1, 2, 3])]
    assert votes == [1, 2, 5], "an operator has said of node 4 that it shall not"


def test_i3_without_a_spare_that_is_here_the_group_becomes_smaller() -> None:
    group = Group(copies=0)
    group.cluster.expire(4)
    group.cluster.expire(5)
    group.retire(3)
    wish, voters = group.metadata.nodes[3].retires_at, group.metadata.voters_at
    to_absent = PassVote(group.cluster.request(), 3, 5, wish, voters)
    assert group.cluster.apply(to_absent).code == "stale", "it went away meanwhile"
    assert group.metadata.counts["I3.taken-back"] == 1
    group.settle()
    assert group.metadata.is_removed(3)
    assert not any(group.metadata.nodes[node].is_to_vote([1, 2, 3]) for node in (4, 5))


def test_i3_a_wish_that_was_taken_back_removes_nobody_and_passes_no_vote() -> None:
    group = Group()
    group.retire(5)
    at = group.metadata.nodes[5].retires_at
    group.settle(3)
    assert group.metadata.is_removed(5)
    group = Group()
    group.retire(5)
    at = group.metadata.nodes[5].retires_at
    assert group.retire(5, retires=False).code == ""
    known = group.metadata.admitted_at, FOUNDERS
    assert group.cluster.apply(RemoveNode(group.cluster.request(), 5, *known, at)).code == "stale"
    assert group.metadata.counts["I3.taken-back"] == 1
    group.retire(3, 4)
    wish, voters = group.metadata.nodes[3].retires_at, group.metadata.voters_at
    group.retire(3, retires=False)
    assert group.cluster.apply(PassVote(group.cluster.request(), 3, 4, wish, voters)).code == "stale"
    assert group.metadata.counts["I3.taken-back"] == 2


def test_i3_who_has_not_read_the_last_wish_changes_none() -> None:
    group = Group()
    group.retire(5)
    assert group.retire(5, retires=False, version=0).code == "stale"
    assert group.metadata.nodes[5].retires
    assert group.metadata.counts["I3.stale-wish"] == 1


def test_i3_an_heir_gets_every_copy_and_the_vote_though_others_keep_less() -> None:
    group = Group(copies=6)
    kept = [partition for partition in group.partitions if 3 in partition.replicas]
    heir = 5
    both = [partition for partition in kept if heir in partition.replicas]
    group.cluster.expire(3)
    assert group.retire(3, heir).code == ""
    assert any(isinstance(command, PassVote) for command in group.tick()), "as soon as the heir is here"
    group.settle()
    assert group.metadata.is_removed(3)
    assert all(heir in partition.replicas for partition in kept)
    assert all(len(partition.replicas) == 3 for partition in both), "what it had is not had twice"
    assert group.metadata.nodes[heir].is_to_vote([1, 2, 3])


def test_i3_the_place_is_kept_for_an_heir_that_is_away() -> None:
    group = Group(copies=4)
    group.cluster.expire(5)
    group.cluster.expire(3)
    group.retire(3, 5)
    alone = [p for p in group.partitions if 3 in p.replicas and 5 not in p.replicas]
    wanted = [command.partition for command in group.tick() if isinstance(command, MoveReplicas)]
    assert alone and not {partition.id for partition in alone} & set(wanted)
    assert not any(isinstance(command, PassVote) for command in group.tick())
    group.cluster.register(5)
    group.cluster.confirm(5)
    group.settle()
    assert group.metadata.is_removed(3)
    assert all(5 in partition.replicas for partition in alone)


def test_i3_a_wish_outlives_the_process_and_the_disk() -> None:
    group = Group()
    group.retire(3, 5)
    at = group.metadata.nodes[3].retires_at
    group.cluster.expire(3)
    group.cluster.register(3, disk="another")
    node = group.metadata.nodes[3]
    assert (node.retires, node.heir, node.retires_at) == (True, 5, at)


@pytest.mark.parametrize(
    ("node", "heir", "said"),
    [
        (3, 3, "cannot take its own place"),
        (3, 9, "liftlog cluster add 9 HOST:PORT"),
        (3, 2, "liftlog cluster remove 2 --cancel"),
        (3, 1, "liftlog cluster drain 1 --cancel"),
        (3, 5, "takes the place of node 2 already"),
        (5, 0, "liftlog cluster replace 2 NEW"),
        (7, 0, "there is no node 7"),
    ],
)
def test_i3_each_bad_wish_is_refused_with_its_reason(node: int, heir: int, said: str) -> None:
    group = Group()
    assert group.retire(2, 5).code == ""
    assert group.cluster.apply(DrainNode(group.cluster.request(), 1, True, 0)).code == ""
    version = 0 if node == 7 else -1
    result = group.retire(node, heir, version=version)
    assert result.code in ("invalid", "not-found")
    assert said in result.detail


def test_i3_an_heir_is_neither_drained_nor_removed() -> None:
    group = Group()
    group.retire(3, 5)
    refused = group.cluster.apply(DrainNode(group.cluster.request(), 5, True, 0))
    assert "is to take the place of node 3" in refused.detail
    group = Group(copies=0)
    group.retire(3, 5)
    known = group.metadata.admitted_at, FOUNDERS
    assert group.cluster.apply(RemoveNode(group.cluster.request(), 5, *known)).code == "stale"
    assert group.metadata.counts["I3.heir"] == 1


def test_m2_what_was_said_of_votes_does_not_count_again_once_a_node_is_removed() -> None:
    """The removed node's record had the index of the last word; it must not go back."""
    group = Group(copies=0)
    before = group.metadata.voters_at
    group.cluster.apply(SetVoter(group.cluster.request(), 5, False, before))
    known = group.metadata.admitted_at, FOUNDERS
    assert group.cluster.apply(RemoveNode(group.cluster.request(), 5, *known)).code == ""
    assert group.cluster.apply(SetVoter(group.cluster.request(), 4, True, before)).code == "stale"


def test_i3_a_vote_that_the_group_needs_is_not_given_up() -> None:
    group = Group()
    assert vote_problem(group.metadata, [1, 2, 3], 3, 0) == ""
    group.cluster.expire(2)
    assert "of which 2 must be there, and 1 is" in vote_problem(group.metadata, [1, 2, 3], 3, 0)
    assert vote_problem(group.metadata, [1, 2, 3], 3, 5) == ""
    assert "only node 3 is to vote" in vote_problem(group.metadata, [3], 3, 0)


# -- on nodes ------------------------------------------------------------------------------------------------


def ready_world(count: int = 5) -> World:
    world = World(count)
    assert world.run_until(lambda: world.nodes[1].ctx.metadata.level == levels.NEWEST)
    return world


def test_i3_nodes_carry_a_retirement_through_while_their_controllers_change() -> None:
    world = ready_world()
    partitions = [world.create(f"s{number}") for number in range(4)]
    records = lambda: world.nodes[1].ctx.metadata  # noqa: E731
    node = max(range(2, 6), key=lambda n: sum(n in records().partitions[p].replicas for p in partitions))
    assert world.answer(1, RetireNodeRequest(node, True)) == DoneReply("")
    other = next(n for n in world.nodes if n not in (1, node))
    world.kill(other)
    world.run(1.0)
    world.restart(other)
    assert world.run_until(lambda: records().is_removed(node), 90.0)
    assert all(node not in records().partitions[p].replicas for p in partitions)
    assert world.run_until(lambda: node not in world.nodes[1].raft.members.nodes)


def test_i3_a_dead_node_is_replaced_by_the_one_that_is_named() -> None:
    world = ready_world()
    partitions = [world.create(f"s{number}") for number in range(5)]
    records = lambda: world.nodes[1].ctx.metadata  # noqa: E731
    copies = {n: {p for p in partitions if n in records().partitions[p].replicas} for n in range(2, 6)}
    old, heir = sorted(copies, key=lambda n: (-len(copies[n]), n))[::3]
    # The heir has a vote of its own, and none is missing when that of the dead node goes.
    world.kill(old)
    assert world.answer(1, RetireNodeRequest(old, True, heir)) == DoneReply("")
    assert world.run_until(lambda: records().is_removed(old), 90.0)
    assert all(heir in records().partitions[p].replicas for p in copies[old])


def test_i3_clients_are_told_what_does_not_fit_together() -> None:
    world = ready_world()

    def told(request: Any) -> str:
        reply = world.answer(1, request)
        return reply.description if isinstance(reply, ErrorReply) else reply.detail

    assert told(RetireNodeRequest(4, False)) == "node 4 does not retire"
    assert "there is no node 9" in told(RetireNodeRequest(9, True))
    assert "liftlog cluster add 9 HOST:PORT" in told(RetireNodeRequest(3, True, 9))
    world.create()
    world.kill(4)
    assert world.run_until(lambda: not world.nodes[1].ctx.metadata.is_live(4))
    assert told(RetireNodeRequest(3, True, 4)) == ""
    assert told(RetireNodeRequest(3, True, 4)) == "node 3 retires already"
    assert "is to take the place of node 3" in told(DrainNodeRequest(4, True))
    assert "is to take the place of node 3" in told(RemoveNodeRequest(4))
    assert "liftlog cluster remove 3 --cancel" in told(DrainNodeRequest(3, False))
    world.run(5.0)
    assert world.nodes[1].ctx.metadata.nodes[3].retires, "it waits for its heir"
    assert told(RetireNodeRequest(3, False)) == ""
    world.run(5.0)
    assert 3 in world.nodes[1].ctx.metadata.nodes


# -- what is told --------------------------------------------------------------------------------------------


def info(node: int, live: bool = True, voter: bool = False) -> NodeInfo:
    return NodeInfo(node, live, 1, "", voter)


def stream(*replicas: int, **fields: Any) -> StreamInfo:
    partition = PartitionInfo(0, replicas[0], 1, 1, list(replicas), list(replicas), [], True, **fields)
    return StreamInfo(1, StreamConfig("orders", "orders"), [partition])


@pytest.mark.parametrize(
    ("counters", "nodes", "streams", "said"),
    [
        ({}, [info(1)], [], []),
        (
            {"retires.4": 0},
            [info(1), info(2), info(4)],
            [stream(1, 4)],
            ["node 4 retires: 1 copy to move"],
        ),
        (
            {"retires.4": 0, "drained.2": 1},
            [info(1), info(2), info(4)],
            [stream(1, 4)],
            [
                "node 4 retires: 1 copy to move; 'orders' partition 0 has no other node: add one, or lower "
                "its number of replicas"
            ],
        ),
        (
            {"retires.4": 5},
            [info(1), info(4, False)],
            [stream(1, 4)],
            [
                "node 4 retires in favour of node 5: 1 copy to move; node 5 is not here: start it, or name "
                "another one"
            ],
        ),
        (
            {"retires.4": 0},
            [info(1), info(2, False), info(4)],
            [stream(1, 4, 2, target=[1, 2])],
            ["node 4 retires: 1 copy to move; 'orders' partition 0 waits for node 2, which is not here"],
        ),
        (
            {"retires.4": 0},
            [info(1, voter=True), info(2, False, True), info(4, voter=True)],
            [],
            ["node 4 retires: its vote: of 2 other voters 2 must be here, and 1 are; start them"],
        ),
        ({"retires.4": 0}, [info(1), info(4)], [], ["node 4 retires: it is being removed"]),
    ],
)
def test_i3_the_cluster_s_status_says_what_a_retirement_waits_for(
    counters: dict[str, int], nodes: list[NodeInfo], streams: list[StreamInfo], said: list[str]
) -> None:
    assert retirements(counters, nodes, streams) == said
