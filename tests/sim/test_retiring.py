"""I3 in the simulator: what is judged of nodes that are added, that retire and that are removed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from liftlog.core.guards import Guards
from liftlog.core.metadata import levels
from liftlog.core.metadata.commands import (
    AdmitNode,
    Command,
    ConfirmNode,
    CreateStream,
    MoveReplicas,
    PassVote,
    RegisterNode,
    RemoveNode,
    RequestId,
    RetireNode,
    SetVoter,
)
from liftlog.core.metadata.metadata import Metadata
from liftlog.messages import AddNodeRequest, CreateStreamRequest, RemoveNodeRequest, RetireNodeRequest
from liftlog.types import GroupMember, Members, PartitionId, StreamConfig
from liftlog_sim.kernel import Kernel
from liftlog_sim.truth.authors import Authors

FOUNDERS = [(1, "a:1"), (2, "b:1")]


class Group:
    """Four nodes, of which two vote, a stream on one of them, and those who judge it."""

    def __init__(self, copy_on: int = 3) -> None:
        self.metadata = Metadata(Guards())
        self.metadata.raise_level(levels.NEWEST)
        self.authors = Authors({"CommandOnce": 0, "CommandAsMeant": 0, "OnlyAsAltered": 0}, Kernel())
        self.number = 0
        self.metadata.grouped(Members((GroupMember(1, "disk-1"), GroupMember(2, "disk-2")), ()))
        self.commit(RegisterNode(self.request(), copy_on, 0, f"disk-{copy_on}", 0, 1, "", []))
        self.commit(ConfirmNode(self.request(), copy_on, self.metadata.applied, self.metadata.applied))
        self.authors.asks(CreateStreamRequest(StreamConfig("a", "a", 1, 1)))
        self.commit(CreateStream(self.request(), StreamConfig("a", "a", 1, 1), 0))
        self.partition = PartitionId(self.metadata.applied, 0)
        for node in {1, 2, 3, 4} - {copy_on}:
            self.commit(RegisterNode(self.request(), node, 0, f"disk-{node}", 0, 1, "", []))
            self.commit(ConfirmNode(self.request(), node, self.metadata.applied, self.metadata.applied))
        self.authors.asks(AddNodeRequest(5, "e:1"))
        self.commit(AdmitNode(self.request(), 5, "e:1", 0, FOUNDERS))

    def request(self) -> RequestId:
        self.number += 1
        return RequestId(1, self.number, 1000)

    def commit(self, command: Command) -> str:
        """Returns the name of what it violates."""
        index = self.metadata.applied + 1
        self.metadata.apply(index, command)
        self.authors.applied(index, command, self.metadata)
        return str(self.authors.violation).partition(":")[0] if self.authors.violation is not None else ""

    def retire(self, node: int, heir: int = 0, retires: bool = True, asked: bool = True) -> str:
        if asked:
            self.authors.asks(RetireNodeRequest(node, retires, heir))
        read = self.metadata.nodes[node].retires_at
        return self.commit(RetireNode(self.request(), node, retires, heir, read))

    def move(self, *replicas: int) -> str:
        read = self.metadata.partitions[self.partition].assignment
        return self.commit(MoveReplicas(self.request(), self.partition, read, list(replicas)))

    def admit(self, node: int) -> str:
        """Nobody has asked for it."""
        return self.commit(AdmitNode(self.request(), node, "f:1", self.metadata.admitted_at, FOUNDERS))

    def removal(self, node: int, wish: int = 0) -> RemoveNode:
        return RemoveNode(self.request(), node, self.metadata.admitted_at, FOUNDERS, wish)


def test_what_somebody_has_asked_for_is_meant() -> None:
    group = Group()
    assert group.retire(3, 4) == ""
    assert group.move(4) == "", "the controller's, to the heir"
    assert group.retire(2) == ""
    wish = group.metadata.nodes[2].retires_at
    assert group.commit(PassVote(group.request(), 2, 0, wish, group.metadata.voters_at)) == ""
    group.metadata.grouped(Members((GroupMember(1, "disk-1"),), ()))
    assert group.commit(group.removal(2, wish)) == ""
    assert group.metadata.is_removed(2)
    group.authors.asks(RemoveNodeRequest(5))
    assert group.commit(group.removal(5)) == ""
    assert group.metadata.is_removed(5)


def pass_vote(group: Group, node: int, to: int) -> str:
    wish = group.metadata.nodes[node].retires_at
    return group.commit(PassVote(group.request(), node, to, wish, group.metadata.voters_at))


def test_a_vote_without_an_heir_goes_to_whom_nobody_has_told_not_to_vote() -> None:
    group = Group()
    assert group.retire(3) == "" and pass_vote(group, 3, 4) == ""
    group = Group()
    assert group.commit(SetVoter(group.request(), 4, False, group.metadata.voters_at)).startswith("Command")
    group.authors.violation = None
    assert group.retire(3) == "" and pass_vote(group, 3, 4).startswith("CommandAsMeant")


@pytest.mark.parametrize(
    "act",
    [
        lambda group: group.retire(3, asked=False),
        lambda group: group.retire(3, 4) or group.retire(3, 4, retires=False, asked=False),
        lambda group: group.move(4),
        lambda group: group.retire(3, 4) or group.move(1),
        lambda group: group.commit(group.removal(4)),
        lambda group: group.admit(6),
    ],
    ids=["retires", "does not retire", "moved", "moved to another", "removed", "admitted"],
)
def test_what_nobody_has_asked_for_is_found(act: Callable[[Group], str]) -> None:
    assert act(Group()).startswith("CommandAsMeant")


def test_a_wish_that_is_forgotten_is_found() -> None:
    group = Group()
    group.retire(3)
    index = group.metadata.applied + 1
    command = group.removal(9)
    group.metadata.apply(index, command)
    group.metadata.nodes[3] = group.metadata.nodes[1]
    group.authors.applied(index, command, group.metadata)
    assert str(group.authors.violation).startswith("CommandAsMeant")


@pytest.mark.parametrize(("node", "said"), [(3, "which has a copy of"), (2, "which votes")])
def test_a_node_that_is_removed_with_what_it_has_is_found(node: int, said: str) -> None:
    """Whatever the state machine thinks of it."""
    group = Group()
    group.retire(node)
    wish = group.metadata.nodes[node].retires_at
    index = group.metadata.applied + 1
    command = group.removal(node, wish)
    group.metadata.apply(index, command)
    assert not group.metadata.is_removed(node)
    del group.metadata.nodes[node]
    group.authors.applied(index, command, group.metadata)
    assert said in str(group.authors.violation)
