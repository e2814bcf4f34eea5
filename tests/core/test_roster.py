"""Which nodes there are, as one of them knows it (I3)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from liftlog.core.metadata.commands import AdmitNode, RemoveNode
from liftlog.core.roster import Roster
from liftlog.messages import Effect, JoinQuery, JoinReply, KnowPeers, Send
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.nodeconfig import NodeConfig
from tests.core.metadata_harness import Cluster

FOUNDERS = [(1, "h1:2"), (2, "h2:2"), (3, "h3:2")]


class Office:
    """A roster, its metadata, and what it asks for."""

    def __init__(self, config: NodeConfig, mutants: Mutants = NO_MUTANTS) -> None:
        self.cluster = Cluster(3)
        self.effects: list[Effect] = []
        self.founders: list[int] = []
        self.marks: list[str] = []
        self.silent_ms = 0.0
        """For how long the leader is silent, if one is known."""
        ctx: Any = SimpleNamespace(
            config=config,
            node=config.node,
            metadata=self.cluster.metadata,
            effects=self.effects,
            mutants=mutants,
            mark=self.marks.append,
        )
        self.raft: Any = SimpleNamespace(
            leader=0,
            election_max_ticks=4,
            quorum_age_ms=lambda: self.silent_ms if self.raft.leader else None,
            follow_nodes=lambda nodes: None,
            told_founders=lambda nodes: self.founders.extend(nodes),
        )
        self.roster = Roster(ctx, self.raft)

    def known(self) -> dict[int, str]:
        """Whom the network was last told to call."""
        return [effect.peers for effect in self.effects if isinstance(effect, KnowPeers)][-1]

    def asked(self) -> list[int]:
        return [each.to for each in self.effects if isinstance(each, Send) and each.message == JoinQuery()]

    def admit(self, node: int, address: str) -> None:
        at = self.cluster.metadata.admitted_at
        self.cluster.apply(AdmitNode(self.cluster.request(), node, address, at, FOUNDERS))


def test_I3_a_node_that_joins_asks_whom_it_knows_and_takes_its_founders_from_the_metadata() -> None:
    office = Office(NodeConfig(4, (2,), peers=((2, "h2:2"), (4, "h4:2")), joins=True))
    office.roster.tick()
    assert office.asked() == [2]
    office.roster.on_reply(2, JoinReply([(1, "h1:2"), (2, "h2:2"), (3, "h3:2")], 9))
    assert office.known() == dict(FOUNDERS) and office.roster.other_nodes == {1, 2, 3}
    assert office.founders == []
    office.admit(4, "h4:2")
    office.roster.follow()
    assert office.founders == [1, 2, 3]


def test_I3_who_hears_no_leader_asks_after_a_while_and_believes_what_is_newer_only() -> None:
    office = Office(NodeConfig(1, (1, 2, 3), peers=tuple(FOUNDERS)))
    office.raft.leader = 2
    for _ in range(100):
        office.roster.tick()
    newer = JoinReply([(2, "h2:2"), (3, "h3:2"), (4, "h4:2")], 99)
    office.roster.on_reply(2, newer)
    assert office.effects == []
    office.raft.leader = 0
    for _ in range(12):
        office.roster.tick()
    assert office.effects == []
    for _ in range(10):
        office.roster.tick()
    assert office.asked()[:2] == [2, 3]
    office.roster.on_reply(2, newer)
    assert office.known() == {2: "h2:2", 3: "h3:2", 4: "h4:2"}
    # What is applied is older than what was told: who leads now must stay known until it is caught up.
    office.admit(5, "h5:2")
    office.roster.follow()
    office.roster.on_reply(3, JoinReply([(2, "h2:2")], 98))
    assert office.roster.other_nodes == {2, 3, 4}


def test_I3_a_node_that_joins_asks_again_when_its_leader_is_silent() -> None:
    """Seed 5598: the one that it knew lost power, and became a follower of one that it did not let in."""
    joining = NodeConfig(4, (2,), peers=((2, "h2:2"), (4, "h4:2")), joins=True)
    deaf = Office(joining, Mutants(leader_heard_for_ever=True))
    deaf.raft.leader, deaf.silent_ms = 2, 100.0 * joining.election_max_ms
    deaf.roster.tick()
    assert deaf.asked() == []
    office = Office(joining)
    office.raft.leader = 2
    newer = JoinReply([(1, "h1:2"), (2, "h2:2"), (3, "h3:2")], 9)
    for office.silent_ms in (0.0, float(joining.election_max_ms)):
        office.roster.tick()
        office.roster.on_reply(2, newer)
    assert office.effects == []
    office.silent_ms += 1
    office.roster.tick()
    office.roster.on_reply(2, newer)
    assert office.asked() == [2]
    assert office.roster.other_nodes == {1, 2, 3}


def test_I3_a_member_tells_whom_there_is_and_who_was_removed_is_forgotten() -> None:
    office = Office(NodeConfig(1, (1, 2, 3), peers=tuple(FOUNDERS)))
    office.roster.on_query(2, JoinQuery())
    assert office.effects == []
    office.admit(4, "h4:2")
    office.admit(5, "h5:2")
    at = office.cluster.metadata.admitted_at
    office.cluster.apply(RemoveNode(office.cluster.request(), 4, at, FOUNDERS))
    office.roster.follow()
    assert office.known() == {2: "h2:2", 3: "h3:2", 5: "h5:2"} and office.roster.count == 4
    office.roster.on_query(5, JoinQuery())
    at = office.cluster.metadata.admitted_at
    assert office.effects[-1] == Send(5, JoinReply([(1, "h1:2"), (2, "h2:2"), (3, "h3:2")], at))
