"""Directed fault scenarios: small stories with fixed latencies, played in either gear.

A scenario is a TOML file in `liftlog_sim/scenarios/`: a cluster, a load, faults at stated times, and what
must come of it. All latencies are constant, so that the step gear and the trio gear go through the same
events; after healing, both must end in the same logs, HW, epochs and ISR (`compare`). That is how the fast
gear stays an honest stand-in for the production driver.

The format of the files, and what is wrong with one: `directed/form.py`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from liftlog.format import decode_records
from liftlog.messages import (
    ClientMessage,
    CreateStreamRequest,
    DeleteStreamRequest,
    MoveReplicasRequest,
    RetireNodeRequest,
)
from liftlog.types import PartitionId, StreamConfig
from liftlog_sim.chance.fault_plan import Fault
from liftlog_sim.chance.plan import Plan
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.options import BusOptions, NetworkOptions, StorageTimes
from liftlog_sim.directed.form import PublishPart, RequestPart, Scenario
from liftlog_sim.kernel import MILLISECOND
from liftlog_sim.profiles.mutants import mutant_named
from liftlog_sim.runs.comparing import read_copy
from liftlog_sim.runs.runner import run_world
from liftlog_sim.runs.runs import RunOptions, RunResult
from liftlog_sim.world import World

OFF_GRID_US = 337
"""Load and faults happen this far beside the full millisecond: nothing coincides with the tick of a node, and
so nothing depends on the order of things that are due at the same instant, which a scenario does not say.
"""


class ReplicaOutcome(msgspec.Struct, frozen=True):
    """The end state of one replica."""

    node: int
    hw: int
    leo: int
    epochs: tuple[tuple[int, int], ...]
    records: tuple[tuple[int, int, bytes], ...]
    """(offset, epoch, value) of every record."""


class PartitionOutcome(msgspec.Struct, frozen=True):
    partition: PartitionId
    leader: int
    epoch: int
    isr: tuple[int, ...]
    replicas: tuple[ReplicaOutcome, ...]


class ScenarioOutcome(msgspec.Struct, frozen=True):
    """How a scenario ended in one gear."""

    gear: str
    invariant: str
    finding: str
    unexpected: tuple[str, ...]
    partitions: tuple[PartitionOutcome, ...]
    result: RunResult


def knobs_of(scenario: Scenario) -> Knobs:
    """A world with constant latencies and no load but the stated one."""
    streams = tuple(
        StreamConfig(part.name, part.subject or part.name, part.partitions, part.replicas, part.min_insync)
        for part in scenario.stream
    )
    return Knobs(
        profile="scenario",
        nodes=scenario.nodes,
        streams=streams,
        duration_us=scenario.duration_ms * MILLISECOND,
        network=NetworkOptions(latency_us=1_000, jitter_us=0),
        bus=BusOptions(latency_us=1_000, jitter_us=0),
        client_jitter_us=0,
        storage_times=StorageTimes(write_us=50, sync_us=700, sync_jitter_us=0),
        tick_ms=scenario.tick_ms,
        publishers=1,
        publish_interval_us=0,
        readers=1,
        read_interval_us=scenario.read.every_ms * MILLISECOND,
        ask_latest=scenario.read.ask_latest,
        admin_interval_us=0,
        inspect_interval_us=0,
    )


def plan_of(scenario: Scenario) -> Plan:
    """The stated faults."""
    faults = [
        Fault(
            part.at_ms * MILLISECOND + 2 * OFF_GRID_US,
            part.kind,
            str(part.node),
            part.for_ms * MILLISECOND,
            ordinal,
            part.links,
        )
        for ordinal, part in enumerate(scenario.fault)
    ]
    return Plan(faults=tuple(faults))


def run_scenario(scenario: Scenario, gear: str, mutant: str = "") -> ScenarioOutcome:
    """Play a scenario in a gear, perhaps with a planted bug, and describe how it ended.

    With a bug the models look on only if nothing else shows it: an invariant says more.
    """
    worlds: list[World] = []

    def watch(world: World) -> None:
        worlds.append(world)
        for part in scenario.publish:
            _schedule(world, part, scenario)
        for request in scenario.request:
            world.kernel.at(request.at_ms * MILLISECOND + OFF_GRID_US, _ask, world, request)

    refine = not mutant or mutant_named(mutant).refine
    options = RunOptions(seed=0, gear=gear, faults="none", refine=refine, mutant=mutant)
    result = run_world(options, knobs_of(scenario), plan_of(scenario), watch)
    world = worlds[0]
    return ScenarioOutcome(
        gear=gear,
        invariant=result.invariant,
        finding=result.finding,
        # What ends where an invariant is violated comes to no end that one could expect.
        unexpected=() if result.invariant else tuple(_unexpected(scenario, result, world)),
        partitions=() if result.invariant else tuple(_partitions(world)),
        result=result,
    )


def _schedule(world: World, part: PublishPart, scenario: Scenario) -> None:
    until_ms = part.until_ms or scenario.duration_ms
    for at_ms in range(part.from_ms, until_ms, part.every_ms):
        world.kernel.at(at_ms * MILLISECOND + OFF_GRID_US, _publish, world, part)


def _publish(world: World, part: PublishPart) -> None:
    for target in world.workload.targets:
        if target.stream == part.stream and target.partition.index == part.partition:
            world.workload.publish(target, part.count, part.reply)


def _ask(world: World, part: RequestPart) -> None:
    name = f"scenario/{part.at_ms}/{part.kind}/{part.stream or part.who}"
    request = _request(part, world)
    world.clients.request(name, part.node, request, lambda reply: None, part.wait_ms * MILLISECOND)


def _request(part: RequestPart, world: World) -> ClientMessage:
    match part.kind:
        case "create":
            return CreateStreamRequest(StreamConfig(part.stream, part.stream, 1, min(3, world.knobs.nodes)))
        case "delete":
            return DeleteStreamRequest(part.stream)
        case "move":
            ids = [one.partition.stream for one in world.workload.targets if one.stream == part.stream]
            return MoveReplicasRequest(part.stream, 0, list(part.to), ids[0])
        case "retire":
            return RetireNodeRequest(part.who, True)


def _unexpected(scenario: Scenario, result: RunResult, world: World) -> list[str]:
    expect = scenario.expect
    problems: list[str] = []
    for name, least in {"acks received": expect.acked, **expect.at_least}.items():
        if result.counters.get(name, 0) < least:
            problems.append(f"{name}: {result.counters.get(name, 0)}, at least {least} expected")
    problems += [f"rule case {mark} was not reached" for mark in expect.marks if not result.marks.get(mark)]
    problems += [f"rule case {mark} was reached" for mark in expect.never if result.marks.get(mark)]
    newest = world.newest_metadata()
    found = sorted(newest.streams) if newest is not None else []
    if expect.streams and found != sorted(expect.streams):
        problems.append(f"the streams are {found}, {sorted(expect.streams)} expected")
    return problems


def _partitions(world: World) -> list[PartitionOutcome]:
    newest = world.newest_metadata()
    assert newest is not None
    outcomes = []
    for partition, state in newest.partitions.items():
        replicas = tuple(_replica(world, number, partition) for number in state.replicas)
        outcomes.append(PartitionOutcome(partition, state.leader, state.epoch, state.isr, replicas))
    return outcomes


def _replica(world: World, number: int, partition: PartitionId) -> ReplicaOutcome:
    node = world.machines[number].node
    assert node is not None
    replica = node.replicas[partition]
    records = tuple(
        (record.offset, batch.epoch, record.value or b"")
        for batch in read_copy(world, number, partition)
        for record in decode_records(batch)
    )
    epochs = tuple((entry.epoch, entry.start) for entry in replica.epochs)
    return ReplicaOutcome(number, replica.hw, replica.leo, epochs, records)


def compare(one: ScenarioOutcome, other: ScenarioOutcome) -> list[str]:
    """What differs between two gears' ends of a scenario; empty if nothing does."""
    if len(one.partitions) != len(other.partitions):
        return [f"{len(one.partitions)} partitions in {one.gear}, {len(other.partitions)} in {other.gear}"]
    problems: list[str] = []
    for left, right in zip(one.partitions, other.partitions, strict=True):
        problems += _differences(f"partition {left.partition}", left, right, one.gear, other.gear)
        for mine, theirs in zip(left.replicas, right.replicas, strict=False):
            where = f"partition {left.partition} on node {mine.node}"
            problems += _differences(where, mine, theirs, one.gear, other.gear)
    return problems


def _differences(where: str, left: Any, right: Any, one: str, other: str) -> list[str]:
    return [
        f"{where}: {name} is {_short(getattr(left, name))} in {one}, "
        f"{_short(getattr(right, name))} in {other}"
        for name in left.__struct_fields__
        if name != "replicas" and getattr(left, name) != getattr(right, name)
    ]


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:120]}..."
