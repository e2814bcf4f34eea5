"""R19 in the simulator: what is judged of alterations, and how they are told."""

from __future__ import annotations

import msgspec
import pytest

from liftlog.core.guards import Guards
from liftlog.core.metadata.alterations import altered
from liftlog.core.metadata.commands import AlterStream, ConfirmNode, CreateStream, RegisterNode, RequestId
from liftlog.core.metadata.metadata import Metadata
from liftlog.messages import AlterStreamRequest, ClientRequest, CreateStreamRequest, StreamChanges
from liftlog.types import ClientRef, PartitionId, StreamConfig
from liftlog_sim.chance.fault_plan import DISK_KINDS
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.kernel import MILLISECOND, SECOND, Kernel
from liftlog_sim.profiles.profiles import draw_knobs
from liftlog_sim.profiles.settings import HARMLESS
from liftlog_sim.runs.step_gear import StepProcess
from liftlog_sim.runs.trace import plain
from liftlog_sim.truth.authors import Authors
from liftlog_sim.world import World

CHANGES = StreamChanges(segment_ms=3, read_only=True)


def request(number: int) -> RequestId:
    return RequestId(1, number, 1000)


class Group:
    """A metadata group with one stream, and those who judge it."""

    def __init__(self) -> None:
        self.metadata = Metadata(Guards())
        self.authors = Authors({"CommandOnce": 0, "CommandAsMeant": 0, "OnlyAsAltered": 0}, Kernel())
        self.authors.asks(CreateStreamRequest(StreamConfig("a", "a", 1, 1)))
        self.commit(RegisterNode(request(1), 1, 0, "disk", 0, 1, "", []))
        self.commit(ConfirmNode(request(2), 1, 1, 1))
        self.commit(CreateStream(request(3), StreamConfig("a", "a", 1, 1), 0))

    def commit(self, command: RegisterNode | ConfirmNode | CreateStream | AlterStream) -> None:
        index = self.metadata.applied + 1
        self.metadata.apply(index, command)
        self.authors.applied(index, command, self.metadata)

    def alteration(self, number: int) -> AlterStream:
        stream = self.metadata.streams["a"]
        return AlterStream(request(number), stream.id, "a", stream.revision, CHANGES)


def test_an_alteration_that_somebody_asked_for_is_meant() -> None:
    group = Group()
    group.authors.asks(AlterStreamRequest("a", CHANGES))
    group.commit(group.alteration(4))
    assert group.authors.violation is None


def test_an_alteration_that_nobody_asked_for_is_found() -> None:
    group = Group()
    group.authors.asks(AlterStreamRequest("a", StreamChanges(segment_ms=4)))
    group.commit(group.alteration(4))
    assert str(group.authors.violation).startswith("CommandAsMeant")


@pytest.mark.parametrize("more", [StreamChanges(codec="lz4"), StreamChanges(read_only=False)])
def test_an_alteration_that_changes_something_else_is_found(more: StreamChanges) -> None:
    group = Group()
    group.authors.asks(AlterStreamRequest("a", CHANGES))
    command = group.alteration(4)
    index = group.metadata.applied + 1
    group.metadata.apply(index, command)
    stream = group.metadata.streams["a"]
    wrong = msgspec.structs.replace(stream, config=altered(stream.config, more))
    group.metadata.alter_stream(wrong)
    group.authors.applied(index, command, group.metadata)
    assert str(group.authors.violation).startswith("OnlyAsAltered")


def test_a_partition_that_nobody_asked_for_is_found() -> None:
    """R19: a stream has the partitions that its configuration says."""
    group = Group()
    group.authors.asks(AlterStreamRequest("a", CHANGES))
    command = group.alteration(4)
    index = group.metadata.applied + 1
    group.metadata.apply(index, command)
    first = group.metadata.partitions[group.metadata.streams["a"].partitions[0]]
    more = PartitionId(first.id.stream, 1)
    group.metadata.partitions[more] = msgspec.structs.replace(first, id=more)
    group.authors.applied(index, command, group.metadata)
    assert "OnlyAsAltered" in str(group.authors.violation)
    assert "has [0, 1], and is configured to have 1" in str(group.authors.violation)


def test_a_trace_names_only_what_is_altered() -> None:
    """What is not named has no value that JSON knows."""
    asked = ClientRequest(ClientRef(1), AlterStreamRequest("a", CHANGES))
    shown = msgspec.json.decode(msgspec.json.encode(plain(asked)))
    assert shown[1]["request"][1]["changes"] == ["StreamChanges", {"segment_ms": 3, "read_only": True}]


def test_a_minimum_that_no_alteration_names_is_found() -> None:
    """R19: the partition's record says what its stream's configuration says."""
    group = Group()
    group.authors.asks(AlterStreamRequest("a", CHANGES))
    command = group.alteration(4)
    index = group.metadata.applied + 1
    group.metadata.apply(index, command)
    partition = next(iter(group.metadata.partitions.values()))
    group.metadata.partitions[partition.id] = msgspec.structs.replace(partition, min_insync=2)
    group.authors.applied(index, command, group.metadata)
    assert str(group.authors.violation).startswith("OnlyAsAltered")
    assert "makes the minimum in sync" in str(group.authors.violation)


def test_worlds_in_which_copies_are_damaged_keep_a_minimum_of_two() -> None:
    """D3: who lowers it to one while a copy is damaged is promised nothing."""
    drawn = {1: 0, 2: 0}
    for seed in range(300):
        knobs = draw_knobs(seed)
        damaged = any(kind in (*DISK_KINDS, "wipe") and kind not in HARMLESS for kind, _ in knobs.faults)
        if knobs.minimum_from:
            assert knobs.alter_interval_us
            assert knobs.minimum_from == 2 or not damaged
            drawn[knobs.minimum_from] += 1
    assert all(drawn.values())


def test_an_operator_lowers_the_minimum_and_raises_it_again() -> None:
    world = World(
        3,
        Knobs(
            streams=(StreamConfig("orders", "orders", 1, 3, 3),),
            alter_interval_us=300 * MILLISECOND,
            minimum_from=1,
            duration_us=40 * SECOND,
            faults=(),
        ),
        StepProcess,
    )
    world.start()
    world.kernel.run_until(40 * SECOND)
    assert world.account.counters["minima asked for"] > 10
    nodes = [machine.node for machine in world.machines.values() if machine.node is not None]
    marks = {name for node in nodes for name in node.marks}
    assert {"R19.minimum-lower", "R19.minimum-higher"} <= marks
