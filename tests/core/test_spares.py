"""A voter that is gone for long gives its place to a node that does not vote (M2), by one command."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec

from liftlog.core.metadata.commands import UNSENT, PromoteSpare, SetVoter
from liftlog.core.metadata.records import SPARE, STALE, VOTES
from liftlog.core.replacing import Replacing
from liftlog.mutants import Mutants
from liftlog.nodeconfig import NodeConfig
from tests.core.metadata_harness import Cluster

CONFIG = NodeConfig(node=1, voters=(1, 2, 3), learners=(4, 5), tick_ms=100, spare_after_ms=1000)


class Office:
    """A controller's look at who is gone; `wanted`: the commands that it asks for."""

    def __init__(self, cluster: Cluster, config: NodeConfig = CONFIG) -> None:
        self.wanted: list[PromoteSpare] = []
        ctx: Any = SimpleNamespace(
            metadata=cluster.metadata,
            config=config,
            founders=config.voters,
            ticks_of=lambda ms: ms // config.tick_ms,
            want=self.wanted.append,
        )
        self.replacing = Replacing(ctx, raft=None)  # type: ignore[arg-type]

    def ticks(self, count: int) -> list[PromoteSpare]:
        self.wanted.clear()
        for _ in range(count):
            self.replacing._want_spare()
        return self.wanted


def sent(cluster: Cluster, command: PromoteSpare) -> PromoteSpare:
    return msgspec.structs.replace(command, request=cluster.request())


def test_M2_a_spare_takes_the_place_of_a_voter_that_is_gone_for_long() -> None:
    cluster = Cluster(5)
    office = Office(cluster)
    assert office.ticks(50) == []
    cluster.expire(2)
    assert office.ticks(10) == []
    (command,) = office.ticks(1)
    assert command == PromoteSpare(UNSENT, 2, cluster.metadata.nodes[2].since, 4, 0)
    assert cluster.apply(sent(cluster, command)).code == ""
    nodes = cluster.metadata.nodes
    assert (nodes[2].voter, nodes[4].voter) == (SPARE, VOTES)
    assert not nodes[2].is_to_vote(CONFIG.voters) and nodes[4].is_to_vote(CONFIG.voters)
    assert nodes[2].voter_at == nodes[4].voter_at == cluster.metadata.applied
    assert office.ticks(50) == [], "nobody who is to vote is gone any more"
    # It comes back, and takes the place of the next one that goes.
    cluster.register(2)
    cluster.confirm(2)
    cluster.expire(3)
    assert office.ticks(11)[0].spare == 2


def test_M2_a_new_controller_counts_anew_and_whoever_was_back_begins_anew() -> None:
    cluster = Cluster(5)
    office = Office(cluster)
    cluster.expire(3)
    office.ticks(9)
    office.replacing.begin()
    assert office.ticks(10) == []
    cluster.register(3)
    cluster.confirm(3)
    cluster.expire(3)
    assert office.ticks(10) == [] and len(office.ticks(1)) == 1


def test_M2_without_a_spare_or_with_the_setting_0_nothing_is_asked_for() -> None:
    cluster = Cluster(3)
    cluster.expire(2)
    assert Office(cluster).ticks(100) == []
    cluster = Cluster(5)
    cluster.expire(2)
    assert Office(cluster, msgspec.structs.replace(CONFIG, spare_after_ms=0)).ticks(100) == []
    for node in (4, 5):
        cluster.apply(SetVoter(cluster.request(), node, False, cluster.metadata.voters_at))
    assert Office(cluster).ticks(100) == [], "an operator has said that these shall not vote"
    cluster = Cluster(5)
    for node in (2, 4, 5):
        cluster.expire(node)
    assert Office(cluster).ticks(100) == [], "they are gone themselves"


def test_M2_a_voter_that_is_back_keeps_its_vote_and_an_operator_is_not_overruled() -> None:
    """`M2.back`, `M2.stale-wish`: what was so when the controller asked is judged when it takes effect."""
    for mutants, kept in ((Mutants(), True), (Mutants(without="M2.back"), False)):
        cluster = Cluster(5, mutants)
        cluster.expire(2)
        (command,) = Office(cluster).ticks(11)
        cluster.register(2)
        cluster.confirm(2)
        result = cluster.apply(sent(cluster, command))
        assert (result is STALE) == kept
        assert cluster.metadata.nodes[2].is_to_vote(CONFIG.voters) == kept
    cluster = Cluster(5)
    cluster.expire(2)
    (command,) = Office(cluster).ticks(11)
    cluster.apply(SetVoter(cluster.request(), 4, False, 0))
    assert cluster.apply(sent(cluster, command)) is STALE
