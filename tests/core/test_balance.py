"""`liftlog cluster balance`: what it makes of a cluster, what it says, and how it goes on (R20)."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Callable
from typing import cast

import pytest

from liftlog.client import Client, RequestFailed, Unreachable
from liftlog.commands import balance, cluster
from liftlog.commands.balanceplan import PlacedCopies
from liftlog.commands.balanceview import Placement, alone_lines, placement, verdict
from liftlog.commands.clusterview import ClusterView
from liftlog.messages import (
    ERR_STALE,
    ClusterStatusReply,
    Contact,
    NodeInfo,
    PartitionInfo,
    ReplicaInfo,
    SlowReplica,
    StreamInfo,
)
from liftlog.types import LiftlogError, PartitionId, StreamConfig

VOTERS = (1, 2, 3)


def partition(index: int, replicas: list[int], **moves: object) -> PartitionInfo:
    known: dict[str, object] = {"isr": list(replicas), "leader": replicas[0], "min_insync": 1}
    given = known | moves
    return PartitionInfo(
        index=index,
        epoch=1,
        version=1,
        replicas=replicas,
        eligible=[],
        ready=True,
        **given,  # type: ignore[arg-type]
    )


class Group:
    """A cluster that answers as `Client` does. A move takes `looks` looks; `refusals` come first."""

    def __init__(self, copies: list[list[int]], nodes: int = 4, looks: int = 1) -> None:
        factor = len(copies[0]) if copies else 1
        partitions = [partition(index, replicas) for index, replicas in enumerate(copies)]
        config = StreamConfig("orders", "orders", max(1, len(copies)), factor)
        self.listed = [StreamInfo(8, config, partitions)] if copies else []
        self.states = {node: "live" for node in range(1, nodes + 1)}
        self.controller = 1
        self.counters: dict[str, int] = {}
        self.refusals: list[RequestFailed | None] = []
        self.at_each_look: Callable[[int], None] = lambda look: None
        self.hangs = False
        """A move is not answered."""
        self.most_at_once = 0
        self.asked: list[tuple[int, list[int]]] = []
        self.rebalanced = 0
        self.leo: dict[int, Callable[[int], int]] = {}
        """Of nodes that answer beside node 1: where their copy of partition 0 ends, at the n-th look."""
        self._looks = looks
        self._looked = 0
        self._ends: dict[int, int] = {}

    @property
    def partitions(self) -> list[PartitionInfo]:
        return self.listed[0].partitions if self.listed else []

    async def __aenter__(self) -> Group:
        return self

    async def __aexit__(self, *_: object) -> None: ...

    async def status(self, node: int = 0, timeout_ms: int = 0) -> ClusterStatusReply:
        if node > 1 and node not in self.leo:
            raise Unreachable("this node does not answer")
        infos = [
            NodeInfo(number, state == "live", 10 + number, f"h:{number}", number in VOTERS, state)
            for number, state in self.states.items()
        ]
        told = Contact(vote="born", has_controller=bool(self.controller), voters=VOTERS)
        ends = [self.leo[node](self._looked)] if node in self.leo else []
        copies = [
            ReplicaInfo(PartitionId(8, 0), "follower", 1, leo, leo, leo, 0, "clean", "ready") for leo in ends
        ]
        return ClusterStatusReply(node or 1, self.controller, 4, 90, infos, copies, self.counters, told)

    async def streams(self, timeout_ms: int = 0) -> list[StreamInfo]:
        self._looked += 1
        self.at_each_look(self._looked)
        for one in self.partitions:
            if one.target and self._ends.setdefault(one.index, self._looked + self._looks) <= self._looked:
                one.replicas = one.isr = one.target
                one.target = []
                one.leader = one.leader if one.leader in one.replicas else one.replicas[-1]
        return self.listed

    async def move_replicas(
        self, name: str, number: int, replicas: tuple[int, ...], *, assignment: int
    ) -> str:
        assert assignment == self.partitions[number].assignment
        refusal = self.refusals.pop(0) if self.refusals else None
        if refusal is not None:
            raise refusal
        self.asked.append((number, list(replicas)))
        if self.hangs:
            await asyncio.sleep(60)
        one = self.partitions[number]
        one.target = list(replicas)
        one.adding = [node for node in replicas if node not in one.replicas]
        self._ends[number] = self._looked + self._looks
        self.most_at_once = max(self.most_at_once, sum(bool(other.target) for other in self.partitions))
        return ""

    async def rebalance(self) -> str:
        self.rebalanced += 1
        for one in self.partitions:
            one.leader = one.replicas[0]
        return "1 partitions moved"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(balance, "LOOK_AGAIN_S", 0.001)


def command(monkeypatch: pytest.MonkeyPatch, group: Group, *words: str) -> int:
    async def connect(args: argparse.Namespace) -> Group:
        return group

    monkeypatch.setattr(balance, "connect", connect)
    parser = argparse.ArgumentParser()
    cluster.add_parser(parser.add_subparsers())
    args = parser.parse_args(["cluster", "balance", *words])
    return int(args.run(args))


THREE = [[1, 2], [2, 3], [3, 1], [1, 2], [2, 3], [3, 1]]


def seen(group: Group) -> Placement:
    return placement(asyncio.run(balance.look(cast(Client, group))))


def test_copies_move_a_few_at_a_time_until_nodes_keep_as_many(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = Group([list(replicas) for replicas in THREE], looks=2)
    assert command(monkeypatch, group, "--at-a-time", "2") == 0
    said = capsys.readouterr().out.splitlines()
    assert said[:6] == [
        "NODE  COPIES  THEN  PREFERRED  THEN",
        "   1       4     3          2     1",
        "   2       4     3          2     2",
        "   3       4     3          2     2",
        "   4       0     3          0     1",
        "3 copies are to move",
    ]
    assert said[6:8] == [
        "'orders' partition 0: nodes 1, 2 -> 4, 2",
        "'orders' partition 1: nodes 2, 3 -> 2, 4",
    ]
    assert said[-1] == "balanced: nodes 1, 2, 3, 4 keep 3 copies"
    assert sum(line.endswith(": done") for line in said) == 3 == len(group.asked)
    assert group.most_at_once == 2
    # Partition 0 is led by node 2 now, and node 4 is the first of it.
    assert group.rebalanced == 1 and "preferred leaders lead again: 1 partitions moved" in said


def test_a_dry_run_says_all_that_would_move_and_moves_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = Group([list(replicas) for replicas in THREE])
    group.partitions[5].leader = 1
    assert command(monkeypatch, group, "--dry-run") == 0
    said = capsys.readouterr().out
    assert "orders          0  1 2       4 2\n" in said
    assert said.endswith("\n3 copies are to move; 1 partition goes back to the preferred leader\n")
    assert command(monkeypatch, group, "--dry-run", "--json") == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["balanced"] is False and plan["led_elsewhere"] == 1
    assert plan["moves"][0] == {"stream": "orders", "partition": 0, "replicas": [1, 2], "to": [4, 2]}
    assert plan["nodes"][3] == {"node": 4, "copies": 0, "copies_then": 3, "preferred": 0, "preferred_then": 1}
    assert group.asked == [] and group.rebalanced == 0


def test_what_is_balanced_is_left_as_it_is(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = Group([list(replicas) for replicas in THREE], nodes=3)
    assert command(monkeypatch, group) == 0
    assert capsys.readouterr().out == "balanced: nodes 1, 2, 3 keep 4 copies\n"
    assert command(monkeypatch, Group([])) == 0
    assert capsys.readouterr().out == "there are no streams, so there is nothing to balance\n"
    assert group.asked == [] and group.rebalanced == 0


def test_as_json_there_is_one_object_and_the_rest_is_for_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = Group([list(replicas) for replicas in THREE])
    assert command(monkeypatch, group, "--json") == 0
    out, error = capsys.readouterr()
    told = json.loads(out)
    assert told["balanced"] is True and told["failed"] == [] and told["leaders"] == "1 partitions moved"
    assert told["led_elsewhere"] == 0
    assert [(move["partition"], move["to"]) for move in told["moves"]] == group.asked
    assert "'orders' partition 0: done" in error


def test_partitions_that_somebody_moves_are_counted_as_they_will_be_and_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = Group([list(replicas) for replicas in THREE], looks=3)
    group.partitions[0].target = [4, 2]
    group.partitions[1].dropping = [4]
    found = seen(group)
    assert found.partitions[0] == PlacedCopies("orders", 0, (4, 2), True, 0) and found.partitions[1].stays
    assert [str(one) for one in found.moving] == ["'orders' partition 0"]
    assert [str(one) for one in found.dropping] == ["'orders' partition 1"] and not found.settled

    def drops_at_last(look: int) -> None:
        if look == 4:
            group.partitions[1].dropping = []

    group.at_each_look = drops_at_last
    monkeypatch.setattr(balance, "PROGRESS_S", 0)
    assert command(monkeypatch, group) == 0
    said = capsys.readouterr().out
    assert "  'orders' partition 1: waits until a node has dropped its former copy\n" in said
    assert "2 copies are to move; 1 partition is being moved already\n" in said
    assert 0 not in dict(group.asked) and 1 not in dict(group.asked)


def test_how_far_copies_are_is_told_as_stream_moves_tells_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = Group([list(replicas) for replicas in THREE], looks=4)
    group.leo = {2: lambda look: 100, 4: lambda look: 20 * (look - 1)}
    monkeypatch.setattr(balance, "PROGRESS_S", 0)
    monkeypatch.setattr(balance, "LOOK_AGAIN_S", 0.1)
    assert command(monkeypatch, group, "--at-a-time", "1") == 0
    said = capsys.readouterr().out
    assert "1 partition is being moved, 2 to begin\n" in said
    (line,) = [line for line in said.splitlines() if "node 4 40%" in line]
    assert line.startswith("  'orders' partition 0: node 4 40% of 100 records, ") and line.endswith("s left")


def test_a_move_that_is_refused_is_told_and_the_rest_planned_anew(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = Group([list(replicas) for replicas in THREE])
    group.refusals = [RequestFailed(ERR_STALE, "the partition has changed", False)]

    def somebody_moves(look: int) -> None:
        if look == 2:
            group.partitions[0].replicas = group.partitions[0].isr = [4, 2]
            group.partitions[0].leader = 4

    group.at_each_look = somebody_moves
    assert command(monkeypatch, group) == 0
    said = capsys.readouterr().out
    refused = "'orders' partition 0: nodes 1, 2 -> 4, 2: refused: the partition has changed\n"
    assert refused in said
    assert len(group.asked) == 2 and 0 not in dict(group.asked)
    assert said.endswith("balanced: nodes 1, 2, 3, 4 keep 3 copies\n")


def test_a_move_that_somebody_changes_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = Group([list(replicas) for replicas in THREE], looks=3)

    def somebody_cancels(look: int) -> None:
        if look == 2:
            group.partitions[0].target = [1, 2]

    group.at_each_look = somebody_cancels
    assert command(monkeypatch, group) == 0
    said = capsys.readouterr().out
    assert "'orders' partition 0: somebody else had it moved meanwhile, to nodes 1, 2\n" in said
    assert said.endswith("balanced: nodes 1, 2, 3, 4 keep 3 copies\n")


def test_what_is_refused_again_and_again_ends_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = Group([list(replicas) for replicas in THREE])
    group.refusals = [RequestFailed("invalid", "raise the level first", False)] * 9
    with pytest.raises(LiftlogError, match="3 moves in a row have failed: raise the level first"):
        command(monkeypatch, group)
    said = capsys.readouterr().out
    assert said.endswith("nothing is being moved; 'liftlog cluster balance' goes on from here\n")
    assert len(group.refusals) == 6
    refused = RequestFailed(ERR_STALE, "the partition has changed", False)
    group.refusals = [refused, None, refused, None, refused]
    assert command(monkeypatch, group, "--at-a-time", "1") == 0, "never three in a row"
    assert capsys.readouterr().out.count("refused: the partition has changed") == 3


def test_without_a_controller_or_a_node_nothing_is_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    group = Group([list(replicas) for replicas in THREE])
    group.controller = 0
    with pytest.raises(LiftlogError, match=r"no controller: 1 of 3 votes .* 2 are needed; start nodes 2, 3"):
        command(monkeypatch, group, "--dry-run")
    group.controller = 1
    group.states[3] = "expired"
    with pytest.raises(LiftlogError, match=r"node 3, .* is not here \(lost\): start it; .* drain 3"):
        command(monkeypatch, group)
    assert group.asked == []
    group.counters = {"drained.3": 1}
    assert seen(group).able == [1, 2, 4], "of a node that is drained nothing is expected"


def test_a_node_that_is_away_for_a_moment_is_waited_for_and_one_that_stays_away_is_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = Group([list(replicas) for replicas in THREE], looks=6)

    def away(look: int) -> None:
        group.states[4] = "expired" if 2 <= look < 5 else "live"

    group.at_each_look = away
    assert command(monkeypatch, group) == 0
    said = capsys.readouterr().out
    assert said.count("waits for at most 12 s: node 4, which is to keep copies, is not here (lost)") == 1
    assert "goes on\n" in said

    group = Group([list(replicas) for replicas in THREE], looks=9)
    group.at_each_look = lambda look: group.states.update({4: "expired" if look > 1 else "live"})
    with pytest.raises(LiftlogError, match="node 4"):
        command(monkeypatch, group, "--timeout", "0.05")
    said = capsys.readouterr().out
    assert "3 partitions are being moved, and that goes on by itself" in said
    assert "  to take it back: liftlog stream move orders 0 --cancel\n" in said


@pytest.mark.parametrize("hangs", [False, True])
def test_an_interrupt_leaves_moves_that_were_begun_and_says_so(
    hangs: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = Group([list(replicas) for replicas in THREE], looks=1000)
    group.hangs = hangs

    async def interrupted() -> None:
        args = argparse.Namespace(at_a_time=1, json=False, timeout=1.0)
        run = asyncio.create_task(balance._Balancing(cast(Client, group), args).run())
        while not group.asked:
            await asyncio.sleep(0.001)
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(interrupted())
    assert capsys.readouterr().out.splitlines()[-2:] == [
        "1 partition is being moved, and that goes on by itself: 'liftlog stream moves' tells how far, and "
        "'liftlog cluster balance' goes on from there",
        "  to take it back: liftlog stream move orders 0 --cancel",
    ]


def test_copies_that_the_controller_is_to_move_are_left_to_it() -> None:
    group = Group([list(replicas) for replicas in THREE], nodes=5)
    group.counters = {"retires.1": 5, "drained.2": 1}
    found = seen(group)
    assert found.able == [3, 4, 5] and all(copies.stays for copies in found.partitions)
    assert found.partitions[0].nodes == (5, 2), "the heir is to have the copies of the node that retires"
    assert found.left_alone[0] == (
        "'orders' partition 0 has a copy on node 1, which is drained or retires: the controller moves it"
    )
    assert verdict(found) == "not even: nodes 3, 4, 5 keep 0 to 4 copies, and no copy that may move helps"
    assert alone_lines(found) == [
        *(f"left alone: {text}" for text in found.left_alone[:3]),
        "left alone: 3 more",
    ]
    # The heir has a copy already: the controller chooses somebody else.
    group.partitions[0].replicas = [1, 5]
    assert seen(group).partitions[0].nodes == (1, 5)


def test_partitions_that_cannot_move_are_named() -> None:
    group = Group([[1, 2], [1], [3, 1]])
    group.partitions[2].leader = 0
    assert seen(group).left_alone == [
        "'orders' partition 1 has 1 copies instead of 2",
        "'orders' partition 2 has no leader, from whom a new copy could come",
    ]


def test_R16_only_leaders_count_whom_a_rebalance_would_change() -> None:
    group = Group([list(replicas) for replicas in THREE], nodes=3)
    for one in group.partitions:
        one.leader = one.replicas[1]
    group.partitions[0].isr = [2]
    group.partitions[1].slow = [SlowReplica(2, 1)]
    group.partitions[2].leader = 3
    group.partitions[3].target = [1, 3]
    assert seen(group).elsewhere == 2


def test_the_only_node_and_no_node_at_all_have_a_sentence_too() -> None:
    group = Group([[1]], nodes=1)
    assert verdict(seen(group)) == "balanced: node 1 keeps 1 copy"
    group.counters = {"drained.1": 1}
    assert verdict(seen(group)) == "every node is drained or retires, so that none may be given a copy"


def test_a_view_without_a_controller_has_no_placement() -> None:
    group = Group([[1]])
    group.controller = 0
    view = asyncio.run(balance.look(cast(Client, group)))
    assert isinstance(view, ClusterView) and view.streams == []
