"""M5: a disk of another cluster with the same name and the same founders is not believed, and keeps all."""

from __future__ import annotations

import msgspec
import pytest

from liftlog.commands.clusterview import ClusterView
from liftlog.core.node import Node
from liftlog.core.raft.birth import birth_name
from liftlog.core.total_loss.reports import surveyed
from liftlog.messages import (
    TIMER_TICK,
    AppendRequest,
    Durable,
    PeerMessage,
    Received,
    SaveIdentity,
    TimerFired,
    VoteReply,
    VoteRequest,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.nodeconfig import NodeConfig
from liftlog.types import (
    FIRST_CLUSTER,
    NO_CLUSTER,
    ClusterEpoch,
    Entry,
    HardState,
    Identity,
    LiftlogError,
    Recovered,
)
from tests.core.test_clusterview import answer, contact, stream
from tests.core.test_total_loss import report

OURS = ((1, "a1"), (2, "a2"), (3, "a3"))
TWIN = ((1, "b1"), (2, "b2"), (3, "b3"))
HERE, THERE = ClusterEpoch(1, birth_name(OURS)), ClusterEpoch(1, birth_name(TWIN))


def founder(mutants: Mutants = NO_MUTANTS) -> Node:
    """Node 1, born with our certificate, with one entry of term 3 in its log."""
    state = HardState(3, 0, OURS, born=True)
    recovered = Recovered(Identity(1, "a1", 5), state, [Entry(1, 3, b"")], [], False, 7)
    node = Node(NodeConfig(1, (1, 2, 3)), recovered, mutants)
    node.start(0.0)
    return node


def spare(identity: Identity | None = None, entries: list[Entry] | None = None) -> Node:
    """Node 4, which never votes and so has no certificate."""
    recovered = Recovered(identity or Identity(4, "d4"), HardState(), entries or [], [], False, 7)
    node = Node(NodeConfig(4, (1, 2, 3), (4,)), recovered)
    node.start(0.0)
    return node


def heartbeat(term: int = 3) -> AppendRequest:
    return AppendRequest(term, 2, 0, 0, 1, 1, [Entry(1, 3, b"")])


def test_M5_a_birth_names_the_cluster_and_no_other() -> None:
    assert birth_name(OURS) == birth_name(OURS) != birth_name(TWIN)
    assert founder().cluster_epoch == HERE
    # A copied certificate is somebody else's.
    recovered = Recovered(Identity(1, "c1", 5), HardState(3, 0, OURS, born=True), [], [], False, 7)
    assert Node(NodeConfig(1, (1, 2, 3)), recovered).cluster_epoch == FIRST_CLUSTER


@pytest.mark.parametrize(
    "message",
    [VoteRequest(9, 2, 50, 3, False, True, "b2"), VoteReply(9, 2, False, False, "b2"), heartbeat(9)],
)
def test_M5_nobody_of_another_birth_is_heard(message: PeerMessage) -> None:
    node = founder()
    outcome = node.step(Received(2, message, THERE))
    assert not outcome.effects
    assert node.raft.term == 3
    assert node.marks["M5.other-birth"] == 1 and "M5.other-epoch" not in node.marks
    assert THERE.name in node.ctx.last_refusal and HERE.name in node.ctx.last_refusal
    assert "with the node's own data folder or an empty one" in node.ctx.last_refusal


def test_M5_it_is_said_once_and_taken_back_when_the_right_disk_is_heard() -> None:
    node = founder()
    for _ in range(3):
        node.step(Received(2, heartbeat(), THERE))
    assert node.ctx.refused == 1 and node.marks["M5.other-birth"] == 3
    assert list(node.lineage.strangers) == [2]
    node.step(Received(2, heartbeat(), HERE))
    assert not node.lineage.strangers and node.raft.leader == 2


@pytest.mark.parametrize("theirs", [NO_CLUSTER, FIRST_CLUSTER, HERE])
def test_M5_who_does_not_know_the_birth_is_heard(theirs: ClusterEpoch) -> None:
    """A disk that is new, and a node of release 0.1.0, which does not say it."""
    node = founder()
    node.step(Received(2, heartbeat(), theirs))
    assert node.raft.leader == 2 and not node.ctx.refused


@pytest.mark.parametrize(
    ("mutants", "message"),
    [
        (Mutants(without="M5.other-birth"), VoteRequest(9, 2, 50, 3, False, True, "b2")),
        (Mutants(other_birth_votes=True), VoteRequest(9, 2, 50, 3, False, True, "b2")),
        (Mutants(other_birth_appends=True), heartbeat(9)),
    ],
)
def test_M5_without_the_rule_a_stranger_moves_the_term(mutants: Mutants, message: PeerMessage) -> None:
    node = founder(mutants)
    node.step(Received(2, message, THERE))
    assert node.raft.term == 9


def test_M5_who_has_signed_a_birth_takes_no_other_for_it_before_that_is_complete() -> None:
    state = HardState(0, 0, OURS, born=False)
    recovered = Recovered(Identity(1, "a1"), state, [], [], False, 7)
    node = Node(NodeConfig(1, (1, 2, 3)), recovered)
    node.start(0.0)
    effects = list(node.step(Received(2, heartbeat(9), THERE)).effects)
    assert not saved(effects) and not node.raft.log and node.raft.term == 0
    assert node.cluster_epoch == HERE and list(node.lineage.strangers) == [2]


def saved(effects: list[object]) -> list[SaveIdentity]:
    return [effect for effect in effects if isinstance(effect, SaveIdentity)]


def test_M5_a_disk_without_a_certificate_takes_nothing_before_the_birth_is_durable() -> None:
    node = spare()
    effects = list(node.step(Received(2, heartbeat(), HERE)).effects)
    (write,) = saved(effects)
    assert write.identity == Identity(4, "d4", cluster_epoch=1, recovery=HERE.name)
    assert not node.raft.log and node.raft.term == 0
    # The leader repeats it, and nothing is written twice.
    assert not node.step(Received(2, heartbeat(), HERE)).effects and not node.raft.log
    node.step(Durable(write.ticket))
    assert node.cluster_epoch == HERE and node.marks["M5.told-birth"] == 1
    node.step(Received(2, heartbeat(), HERE))
    assert len(node.raft.log) == 1
    node.step(Received(3, heartbeat(9), THERE))
    assert node.raft.term == 3 and list(node.lineage.strangers) == [3]
    # A start knows it.
    assert spare(write.identity, node.raft.log).cluster_epoch == HERE


def test_M5_who_has_kept_nothing_of_what_it_was_told_of_is_told_anew() -> None:
    """What it heard first was late, of before a recovery: an empty disk must not be of that for ever."""
    node = spare()
    (write,) = saved(list(node.step(Received(2, heartbeat(), THERE)).effects))
    node.step(Durable(write.ticket))
    assert node.cluster_epoch == THERE and not node.raft.log
    for now in (HERE, ClusterEpoch(2, "recovered")):
        (write,) = saved(list(node.step(Received(2, heartbeat(), now)).effects))
        assert write.identity.belongs_to == now and not node.raft.log
        node.step(Durable(write.ticket))
        assert node.cluster_epoch == now
    node.step(Received(2, heartbeat(), ClusterEpoch(2, "recovered")))
    assert len(node.raft.log) == 1 and not node.lineage.strangers
    assert not node.step(Received(3, heartbeat(9), HERE)).effects and list(node.lineage.strangers) == [3]


def test_M5_a_certificate_says_more_than_what_a_leader_has_told() -> None:
    recovered = Recovered(
        Identity(1, "a1", 0, cluster_epoch=1, recovery=THERE.name), HardState(0, 0, OURS), [], [], False, 7
    )
    assert Node(NodeConfig(1, (1, 2, 3)), recovered).cluster_epoch == HERE


def test_M5_a_log_of_an_earlier_release_is_called_after_its_leader() -> None:
    node = spare(Identity(4, "d4", 5, cluster_epoch=1), [Entry(1, 3, b"")])
    assert node.cluster_epoch == FIRST_CLUSTER
    (write,) = saved(list(node.step(Received(2, heartbeat(), HERE)).effects))
    assert write.identity.belongs_to == HERE and write.identity.incarnation == 5


def test_M5_a_birth_that_is_completed_is_known_at_the_next_tick() -> None:
    recovered = Recovered(Identity(1, "a1"), HardState(), [], [], False, 7)
    node = Node(NodeConfig(1, (1,)), recovered)
    node.start(0.0)
    assert node.cluster_epoch == NO_CLUSTER
    node.step(TimerFired(TIMER_TICK, 100.0, 100))
    assert node.cluster_epoch == ClusterEpoch(1, birth_name(((1, "a1"),)))


def test_M5_a_recovery_takes_no_disks_of_two_clusters() -> None:
    with pytest.raises(LiftlogError, match="two clusters of one name"):
        surveyed([report(1, epoch=HERE), report(2, epoch=THERE)])
    assert surveyed([report(1, epoch=HERE), report(2, epoch=FIRST_CLUSTER)]).chosen


def test_M5_status_says_who_runs_on_a_disk_of_another_cluster() -> None:
    name, other = "1-aa", "1-bb"
    away = msgspec.structs.replace(answer(1, contact(cluster=other, has_controller=False)), term=99)
    others = {node: answer(node, contact(cluster=name, controller=2)) for node in (2, 3)}
    view = ClusterView({1: away, **others}, [stream(leader=2, isr=(2, 3))])
    assert not view.takes_messages and view.newest.term == 4
    assert view.problems == [
        "node 1 runs on a data folder of another cluster or of another epoch of this one (1-bb, here 1-aa): "
        "nobody hears it and it keeps what it holds; stop it, and start it with its own data folder or with "
        "an empty one; or it is of another cluster that has this one's name and NATS"
    ]
    assert not [remark for remark in view.remarks if "does not hear" in remark]
    # Its door is shut, so the others say it.
    heard = answer(2, contact(cluster=name, controller=2, strangers=[(1, "it is of 1-bb")]))
    told = ClusterView({2: heard, 3: others[3]}, [stream(leader=2, isr=(2, 3))])
    assert told.takes_messages and "node 2 does not hear node 1: it is of 1-bb" in told.remarks
    unnamed = {1: answer(1, contact(cluster="1-")), **others}
    assert ClusterView(unnamed, [stream(leader=2)]).takes_messages
