"""Notes what every replica of a simulated run has: where its log ends, and how far it is committed.

The history tells it as facts of operations "replica", as `liftlog_jepsen.replicas` does of the traces of real
nodes: what is there no more in the next step of the same process was cut off. A log that is opened anew is
another run of its replica.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from liftlog.core.replica.state.log import READY
from liftlog.messages import Effect, Event
from liftlog.types import PartitionId
from liftlog_jepsen.history import Mop, Value
from liftlog_jepsen.replicas import ReplicaFacts, Tail
from liftlog_sim.devices.machine import Machine
from liftlog_sim.world import World

PROCESSES = 3_000_000
"""From here on runs of replicas are numbered."""


class _Noted(NamedTuple):
    """A replica after a step. `run`: number of the log's run."""

    at_us: int
    run: int
    partition: PartitionId
    tail: Tail
    epoch: int
    hw: int


class ReplicaTold(NamedTuple):
    """What one step of a replica adds: when, by which process, and the facts."""

    at_us: int
    process: int
    facts: list[Mop]


class ReplicaLog:
    """Notes it while the world runs. Attach it last: who watched steps before is still told."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._before = world.observer.on_step
        self._noted: list[_Noted] = []
        self._open: dict[tuple[int, PartitionId], tuple[int, int, _Noted | None]] = {}
        """By node and partition: the process of the node, the run of the log, and what was noted last."""
        self._runs = 0
        world.observer.on_step = self._stepped

    def _stepped(self, machine: Machine, event: Event | None, effects: list[Effect]) -> None:
        if self._before is not None:
            self._before(machine, event, effects)
        node = machine.node
        assert node is not None
        for partition, replica in node.replicas.items():
            key, log = (machine.number, partition), replica.log
            if log.state != READY:
                self._open.pop(key, None)
                continue
            restarts, run, last = self._open.get(key, (-1, 0, None))
            if restarts != machine.restarts:
                self._runs += 1
                run, last = self._runs, None
            tail = Tail(log.log_start, log.leo, tuple(log.history.entries))
            now_us = self._world.kernel.now_us
            noted = _Noted(now_us, run, partition, tail, log.epoch, log.hw)
            if last is None or noted[3:] != last[3:]:
                self._noted.append(noted)
                self._open[key] = machine.restarts, run, noted

    def told(
        self, names: Mapping[PartitionId, str], contents: Mapping[str, Mapping[tuple[int, int], Value]]
    ) -> Iterator[ReplicaTold]:
        """`contents`: by log what is known to lie, or have lain, there, by offset and epoch."""
        runs: dict[int, ReplicaFacts] = {}
        for at_us, run, partition, tail, epoch, hw in self._noted:
            if partition not in names:
                continue
            if run not in runs:
                name = names[partition]
                runs[run] = ReplicaFacts(name, contents.get(name, {}))
            facts = runs[run].stepped(tail, epoch, hw)
            if facts:
                yield ReplicaTold(at_us, PROCESSES + run, facts)
