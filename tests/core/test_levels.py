"""The feature level rises when every node can follow, and nothing newer is in the log before that (U2)."""

from __future__ import annotations

import re
from typing import Any, get_args, get_type_hints

import pytest
from msgspec import Struct

from liftlog.api.nats_api import SINCE
from liftlog.api.wire import REQUEST_SINCE
from liftlog.core.foreign import TooNew, foreign_command
from liftlog.core.metadata import image, levels
from liftlog.core.metadata.commands import UNSENT, Command, NodeLevel, RaiseLevel, Rebalance, encode_command
from liftlog.core.metadata.records import STALE
from liftlog.core.node import Node
from liftlog.messages import (
    SINCE_PROTOCOL,
    AlterConsumerRequest,
    AppendRequest,
    ClientReply,
    ConsumersReply,
    ConsumersRequest,
    CreateConsumerRequest,
    DeleteConsumerRequest,
    DeleteMessageRequest,
    DoneReply,
    ErrorReply,
    FilteredReadRequest,
    Forward,
    LevelReport,
    MessageDeleted,
    PartitionInfo,
    PeerMessage,
    PullReply,
    PullRequest,
    PurgeSubjectsRequest,
    RaiseLevelRequest,
    RebalanceRequest,
    ResetConsumerRequest,
    SettledReply,
    SettleRequest,
    StopNode,
    SubjectReply,
    SubjectRequest,
    SubjectsPurged,
    UnpinRequest,
    VisibleReadReply,
    VisibleReadRequest,
)
from liftlog.mutants import Mutants
from liftlog.nodeconfig import NodeConfig
from liftlog.types import (
    FEATURE_LEVEL,
    Entry,
    HardState,
    Identity,
    LiftlogError,
    LogBase,
    Recovered,
    Snapshot,
    StreamConfig,
)
from tests.core.metadata_harness import Cluster, picture
from tests.core.node_harness import World
from tests.releases import releases, source

ANSWER_OF = {
    SubjectRequest: SubjectReply,
    DeleteMessageRequest: MessageDeleted,
    PurgeSubjectsRequest: SubjectsPurged,
    VisibleReadRequest: VisibleReadReply,
    FilteredReadRequest: VisibleReadReply,
    CreateConsumerRequest: ConsumersReply,
    AlterConsumerRequest: ConsumersReply,
    DeleteConsumerRequest: DoneReply,
    ResetConsumerRequest: ConsumersReply,
    ConsumersRequest: ConsumersReply,
    PullRequest: PullReply,
    SettleRequest: SettledReply,
    UnpinRequest: DoneReply,
}
"""Of the requests that came with a later version of the protocol."""


def raised(cluster: Cluster, to: int = 2, **can: int) -> RaiseLevel:
    """The command with what each node can, by its present run; 2 unless said."""
    nodes = cluster.metadata.nodes.values()
    said = [NodeLevel(node.node, node.incarnation, can.get(f"n{node.node}", 2)) for node in nodes]
    return RaiseLevel(cluster.request(), to, said)


# -- the state machine ---------------------------------------------------------------------------------------


def test_u2_the_level_rises_when_every_node_s_present_run_can_and_never_falls() -> None:
    cluster = Cluster(level=levels.FIRST)
    assert cluster.metadata.level == 1
    assert cluster.apply(raised(cluster)).code == ""
    assert cluster.metadata.level == 2
    assert cluster.apply(raised(cluster, to=1)) is STALE and cluster.metadata.level == 2


def test_u2_a_node_that_can_less_keeps_the_level_down() -> None:
    cluster = Cluster(level=levels.FIRST)
    assert cluster.apply(raised(cluster, n3=1)) is STALE
    assert cluster.metadata.level == 1
    assert cluster.metadata.counts["U2.cannot"] == 1


@pytest.mark.parametrize("what", ["runs anew", "is new"])
def test_u2_what_was_said_counts_only_while_the_same_runs_are_registered(what: str) -> None:
    cluster = Cluster(level=levels.FIRST)
    command = raised(cluster)
    cluster.register(3 if what == "runs anew" else 4)
    assert cluster.apply(command) is STALE
    assert (cluster.metadata.level, cluster.metadata.counts["U2.other-run"]) == (1, 1)


def test_u2_a_command_above_the_level_takes_no_effect_and_names_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(levels.SINCE, Rebalance, 2)
    cluster = Cluster(level=levels.FIRST)
    result = cluster.apply(Rebalance(cluster.request(), cluster.metadata.applied))
    assert "'liftlog cluster level --raise'" in result.detail and "Rebalance" in result.detail
    assert cluster.metadata.counts["U2.above-level"] == 1
    cluster.apply(raised(cluster))
    assert cluster.apply(Rebalance(cluster.request(), cluster.metadata.applied)).code == ""


# -- snapshots -----------------------------------------------------------------------------------------------


def read(snapshot: Snapshot) -> image.ImageReader:
    reader = image.ImageReader()
    for chunk in snapshot.chunks:
        reader.take(chunk)
    return reader


def test_u2_a_snapshot_remembers_the_level_and_is_of_the_version_that_all_nodes_read() -> None:
    cluster = Cluster(level=levels.FIRST)
    low = read(picture(cluster.metadata))
    cluster.apply(raised(cluster))
    high = read(picture(cluster.metadata))
    assert low.head is not None and high.head is not None
    assert (low.head.version, low.head.level) == (2, 1)
    assert (high.head.version, high.head.level) == (3, 2)
    for mutants, level in ((Mutants(), 2), (Mutants(level_forgotten_in_snapshot=True), 1)):
        other = Cluster(0, mutants)
        other.metadata.adopt(high)
        assert other.metadata.level == level


def test_u2_a_process_that_cannot_the_level_of_its_disk_does_not_start() -> None:
    cluster = Cluster(level=levels.FIRST)
    cluster.apply(raised(cluster))
    identity = Identity(1, "disk-1")
    snapshot = picture(cluster.metadata)
    base = LogBase(snapshot.index, snapshot.term)
    recovered = Recovered(identity, HardState(), [], [], True, 1, base, snapshot)
    with pytest.raises(LiftlogError, match=r"at feature level 2, .* up to 1: start a newer"):
        Node(NodeConfig(1, (1, 2, 3), can_level=1), recovered)
    Node(NodeConfig(1, (1, 2, 3)), recovered)


# -- what comes from others ----------------------------------------------------------------------------------


def test_u2_an_older_process_does_not_take_in_what_it_does_not_know() -> None:
    """As release 0.1.0 does, which cannot decode it: neither from a node nor from a leader's log."""
    cluster = Cluster(level=levels.FIRST)
    data = encode_command(raised(cluster))
    append = AppendRequest(1, 2, 0, 0, 0, 0, [Entry(1, 1, data)])
    assert foreign_command(2, append, 2) == ""
    with pytest.raises(TooNew, match="later feature level"):
        foreign_command(2, append, 1)
    assert "the controller alone" in foreign_command(2, Forward(data), 2)


# -- nodes ---------------------------------------------------------------------------------------------------


class Levels(World):
    """A cluster whose nodes can different levels; `can` is asked at each start."""

    def __init__(self, can: dict[int, int], **config: Any) -> None:
        self.can = can
        super().__init__(3, **config)

    def restart(self, node: int, *args: Any) -> None:
        self.config["can_level"] = self.can[node]
        super().restart(node, *args)

    def upgrade(self, node: int, can: int = 2) -> None:
        self.can[node] = can
        self.kill(node)
        assert self.run_until(lambda: any(each.raft.is_leader for each in self.nodes.values()))
        self.restart(node)
        assert self.run_until(lambda: self.live(node))
        self.run(1.0)

    def live(self, node: int) -> bool:
        known = [each.metadata.nodes.get(node) for each in self.nodes.values()]
        mine = self.nodes[node].incarnation
        return mine > 0 and all(
            one is not None and one.state == "live" and one.incarnation == mine for one in known
        )

    @property
    def controller(self) -> int:
        return next(node for node, each in self.nodes.items() if each.raft.is_leader)

    @property
    def levels(self) -> set[int]:
        return {each.metadata.level for each in self.nodes.values()}

    def told(self, request: Any) -> Any:
        """What the controller answers."""
        client = self.ask(self.controller, request)
        assert self.run_until(lambda: client in self.replies)
        return self.replies[client]


def started(can: int = 1, **config: Any) -> Levels:
    world = Levels(dict.fromkeys((1, 2, 3), can), **config)
    world.create()
    world.run(3.0)
    return world


def test_u2_a_cluster_that_is_born_has_the_newest_level_without_anybody_s_word() -> None:
    assert started(can=FEATURE_LEVEL).levels == {FEATURE_LEVEL}


def test_u2_a_rolling_upgrade_may_be_taken_back_until_an_operator_raises_the_level() -> None:
    world = started()
    for node in (1, 2):
        world.upgrade(node)
    told = world.told(RaiseLevelRequest()) if world.controller != 3 else None
    if told is not None:
        assert isinstance(told, ErrorReply) and "node 3 (can 1)" in told.description
    world.upgrade(2, can=1)
    for node in (2, 3):
        world.upgrade(node)
    world.run(5.0)
    assert world.levels == {1}, "nobody has asked"
    assert isinstance(world.told(RaiseLevelRequest()), DoneReply)
    assert world.run_until(lambda: world.levels == {2})
    again = world.told(RaiseLevelRequest())
    assert isinstance(again, DoneReply) and "at feature level 2" in again.detail


def test_u2_what_an_earlier_run_could_does_not_count_for_the_present_one() -> None:
    world = started()
    for node in (1, 2, 3):
        world.upgrade(node)
    other = next(node for node in world.nodes if node != world.controller)
    world.upgrade(other, can=1)
    told = world.told(RaiseLevelRequest())
    assert isinstance(told, ErrorReply) and f"node {other} (can 1)" in told.description
    world.run(3.0)
    assert world.levels == {1}


def test_u2_a_client_that_asks_for_more_than_the_level_is_told_the_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(levels.SINCE, Rebalance, 2)
    world = started(can=1)
    told = world.told(RebalanceRequest())
    assert isinstance(told, ErrorReply) and "'liftlog cluster level --raise'" in told.description
    controller = world.nodes[world.controller]
    assert controller.marks["U2.not-proposed"] == 1
    controller.proposals.on_forward(encode_command(Rebalance(controller.ctx.new_request(), 1)))
    assert controller.marks["U2.not-written"] == 1
    assert controller.proposals.want(Rebalance(UNSENT, 1)) is None


def test_u2_a_process_that_cannot_a_later_level_ends_with_one_line() -> None:
    """Of levels that are to come: a process of this release reads the command and cannot follow it."""
    world = started(can=2)
    node = world.nodes[1]
    node.metadata.raise_level(3)
    node._keep_up()
    (stop,) = [effect for effect in node.ctx.effects if isinstance(effect, StopNode)]
    assert stop.reason == (
        "node 1: this cluster is at feature level 3, this liftlog knows levels up to 2: start a newer one"
    )
    assert node.lowest_protocol == levels.PROTOCOL[2]


@pytest.mark.parametrize("mutant", ["", "level_raised_too_early", "level_of_earlier_run"])
def test_u2_a_controller_that_guesses_raises_the_level_too_early(mutant: str) -> None:
    mutants = Mutants(
        level_raised_too_early=mutant == "level_raised_too_early",
        level_of_earlier_run=mutant == "level_of_earlier_run",
    )
    world = started(mutants=mutants)
    for node in (1, 2, 3):
        world.upgrade(node)
    # A node that says nothing, as release 0.1.0; one that has said it in its earlier run, and went back.
    controller = world.controller
    other = next(node for node in world.nodes if node != controller)
    world.drop = lambda sender, to, message: isinstance(message, LevelReport) and sender == other
    if mutant == "level_raised_too_early":
        world.nodes[controller].raising.begin()
        world.run(0.5)
    world.upgrade(other, can=1)
    told = world.told(RaiseLevelRequest())
    assert isinstance(told, DoneReply if mutant else ErrorReply)


def test_every_command_that_release_0_1_0_does_not_know_has_a_line() -> None:
    """U2: by that release's own module. A new command without a line would be read by nobody older."""
    first = source(releases()[0], "liftlog/core/metadata/commands.py")
    known = {kind for kind in get_args(Command) if f"class {kind.__name__}(Struct):" in first}
    assert {kind for kind in get_args(Command) if kind not in known} == set(levels.SINCE)
    for kind in known:
        text = first.partition(f"class {kind.__name__}(Struct):")[2].partition("\nclass ")[0]
        fields = re.findall(r"^    (\w+): ", text, re.M)
        assert [f for f in kind.__struct_fields__ if f not in fields] == [], f"{kind.__name__} has new fields"


def test_u1_every_message_of_nodes_that_release_0_1_0_does_not_know_has_a_line() -> None:
    """And those that it knows are as it knows them: it refuses a field more (V1)."""
    first = source(releases()[0], "liftlog/messages/peers.py")
    for kind in get_args(PeerMessage):
        text = first.partition(f"class {kind.__name__}(Struct):")[2].partition("\nclass ")[0]
        fields = re.findall(r"^    (\w+): ", text, re.M)
        assert (kind in SINCE_PROTOCOL) != bool(fields), kind.__name__
        if fields:
            assert [f for f in kind.__struct_fields__ if f not in fields] == [], (
                f"{kind.__name__} has new fields"
            )


def test_u1_every_field_of_an_answer_that_release_0_1_0_does_not_know_has_a_line() -> None:
    """It refuses an answer of the API with a field more; who says nothing else is taken for that release."""
    release = releases()[0]
    first = source(release, "liftlog/messages/clients.py") + source(release, "liftlog/types.py")
    # Whoever speaks an earlier version asks none of these questions.
    newer_answers = {ANSWER_OF[request] for request in REQUEST_SINCE}
    left = [kind for kind in (*get_args(ClientReply), StreamConfig) if kind not in newer_answers]
    seen = set[type]()
    while left:
        kind = left.pop()
        if kind in seen:
            continue
        seen.add(kind)
        known = re.findall(r"^    (\w+): ", class_text(first, kind.__name__), re.M)
        assert known, f"{kind.__name__} is not in {release.version}: what asks for it has to be newer as well"
        newer = {name for name in kind.__struct_fields__ if name not in known}
        assert newer == set(SINCE.get(kind, {})), kind.__name__
        for hint in get_type_hints(kind).values():
            parts = get_args(hint) or (hint,)
            left += [part for part in parts if isinstance(part, type) and issubclass(part, Struct)]
    assert {PartitionInfo, StreamConfig} <= seen and set(SINCE) <= seen


def class_text(module: str, name: str) -> str:
    """The text of a class in that of its module; empty if it is not there."""
    return re.split(r"\n(?=class |def )", module.partition(f"class {name}(")[2])[0]
