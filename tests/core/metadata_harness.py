"""A metadata state machine that is driven directly: commands go in, one Raft index each."""

from __future__ import annotations

from typing import Any

from liftlog.core.guards import Guards
from liftlog.core.metadata import levels
from liftlog.core.metadata.commands import (
    ChangeIsr,
    Command,
    ConfirmNode,
    CreateStream,
    DeleteStream,
    ExpireNode,
    RegisterNode,
    RequestId,
    TailReport,
)
from liftlog.core.metadata.image import ImageWriter
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.records import CommandResult, PartitionState
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.types import GroupMember, Members, PartitionId, Snapshot, StreamConfig


class Present:
    """A partition's record as it is whenever it is looked at."""

    def __init__(self, metadata: Metadata, partition: PartitionId) -> None:
        self._metadata = metadata
        self.id = partition

    def __getattr__(self, name: str) -> Any:
        return getattr(self._metadata.partitions[self.id], name)


class Cluster:
    """Three registered live nodes and helpers that build commands with fresh request ids."""

    def __init__(
        self,
        nodes: int = 3,
        mutants: Mutants = NO_MUTANTS,
        streams_max: int = 100,
        level: int = levels.NEWEST,
        room: int = 4096,
    ) -> None:
        self.metadata = Metadata(Guards(mutants), streams_max, room)
        if level > levels.FIRST:
            self.metadata.raise_level(level)
        self.counter = 0
        for node in range(1, nodes + 1):
            self.register(node)
            self.confirm(node)

    def request(self, span: int = 1000) -> RequestId:
        self.counter += 1
        return RequestId(99, self.counter, self.metadata.applied + span)

    def apply(self, command: Command) -> CommandResult:
        return self.metadata.apply(self.metadata.applied + 1, command)

    def register(
        self,
        node: int,
        tails: list[TailReport] | None = None,
        disk: str = "",
        remembered: int | None = None,
    ) -> int:
        known = self.metadata.nodes.get(node)
        if remembered is None:
            remembered = known.confirmed if known is not None else 0
        if tails is None:
            tails = [
                TailReport(partition.id, "intact", partition.epoch, 10)
                for partition in self.metadata.partitions.values()
                if node in partition.replicas
            ]
        command = RegisterNode(
            self.request(),
            node,
            known.incarnation if known else 0,
            disk or f"disk-{node}",
            remembered,
            1000 + self.counter,
            f"h{node}:1",
            tails,
        )
        self.apply(command)
        return self.metadata.nodes[node].incarnation

    def confirm(self, node: int) -> CommandResult:
        state = self.metadata.nodes[node]
        return self.apply(ConfirmNode(self.request(), node, state.incarnation, state.since))

    def expire(self, node: int) -> CommandResult:
        state = self.metadata.nodes[node]
        return self.apply(ExpireNode(self.request(), node, state.incarnation, state.since))

    def creation(self, config: StreamConfig) -> CreateStream:
        return CreateStream(self.request(), config, self.metadata.applied)

    def deletion(self, name: str) -> DeleteStream:
        return DeleteStream(self.request(), self.metadata.streams[name].id, name)

    def create(self, name: str = "orders", replicas: int = 3, minimum: int = 0) -> Present:
        config = StreamConfig(name, name, 1, replicas, minimum)
        result = self.apply(self.creation(config))
        assert not result.code, result
        return Present(self.metadata, PartitionId(result.stream, 0))

    def change_isr(
        self,
        partition: PartitionState | Present,
        isr: list[int],
        joiner: int = 0,
        incarnation: int | None = None,
    ) -> CommandResult:
        if incarnation is None:
            incarnation = self.metadata.nodes[joiner].incarnation if joiner else 0
        return self.apply(
            ChangeIsr(
                self.request(),
                partition.id,
                partition.leader,
                partition.epoch,
                partition.version,
                isr,
                joiner,
                incarnation,
            )
        )


def picture(metadata: Metadata) -> Snapshot:
    """A snapshot of all that was applied."""
    members = Members(tuple(GroupMember(node, f"disk-{node}") for node in metadata.nodes))
    writer = ImageWriter(metadata, metadata.results, 1, members, (), 100)
    while not writer.go_on():
        pass
    return Snapshot(writer.index, writer.term, tuple(writer.chunks))
