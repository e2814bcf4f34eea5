"""The `trio` gear: the production driver itself, on trio, over the same simulated world.

`liftlog.driver.driver.NodeDriver` is the class that `liftlog serve` runs. Here each process of a simulated
machine is a trio task that runs it, with simulated ports. Two things make that deterministic:

*The kernel in the clock.* trio asks its clock how long to sleep only when no task can run. `KernelClock`
answers by running the next entry of the event heap, which wakes whom it concerns, and says 0: do not sleep
at all. So simulated time moves exactly when everybody waits, no matter how many tasks there are, and an
empty heap with nobody due is a deadlock that shows at once.

*A seeded scheduler.* trio shuffles the tasks that can run. With its deterministic flag on and its random
source seeded, the order follows from the seed. Both are private names of trio; they are set for one run and
restored.

A crash detaches disk, network, NATS and clients first (`Machine._take_down`) and cancels the task
afterwards, since cancelling runs `finally:` blocks, which a dead process does not.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

import trio
import trio._core._run as trio_run

from liftlog.driver.driver import NodeDriver
from liftlog.driver.interpreter import NodeStopped
from liftlog.messages import Event
from liftlog.mutants import Mutants
from liftlog_sim.chance.chances import ChanceLane, Chances
from liftlog_sim.chance.plan import OwnNames, Plan
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.machine import Machine
from liftlog_sim.kernel import SECOND, STANDSTILL, Kernel, TimeStands
from liftlog_sim.runs.runs import RunOptions, RunResult, Watch, phases, verdict
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.world import World


class KernelClock(trio.abc.Clock):
    """trio's clock, and the place where simulated time passes."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel
        self._reached_s = 0.0
        self.scope: trio.CancelScope | None = None
        self.finished = False
        """The run is over: trio winds itself up, with its own tasks and its own wake-up socket."""
        self._standing = 0
        """So many deadlines in a row did not move the time."""
        self.failure: BaseException | None = None
        """What an entry of the heap raised. It must not reach trio, which would take it for a bug of its
        own.
        """

    def start_clock(self) -> None:
        """Simulated time does not run by itself."""

    def current_time(self) -> float:
        return max(self._kernel.now_us / SECOND, self._reached_s)

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Nothing can run: let the next thing happen, or move to the deadline if that comes first."""
        if self.failure is not None or self.finished:
            return 0.0
        kernel = self._kernel
        next_us = kernel.next_time_us()
        if next_us is None and math.isinf(deadline):
            self._fail(RuntimeError("deadlock: no task can run and nothing is due"))
        elif math.isinf(deadline) or (next_us is not None and next_us <= round(deadline * SECOND)):
            try:
                kernel.run_next()
            except BaseException as error:
                self._fail(error)
        else:
            due_us = round(deadline * SECOND)
            self._standing = self._standing + 1 if due_us <= kernel.now_us else 0
            if self._standing > STANDSTILL:
                self._fail(TimeStands(f"{STANDSTILL} timers in a row were due at {due_us / SECOND:.6f} s"))
            kernel.now_us = max(kernel.now_us, due_us)
            self._reached_s = deadline
        return 0.0

    def _fail(self, error: BaseException) -> None:
        self.failure = error
        if self.scope is not None:
            self.scope.cancel()


class TrioProcess:
    """One run of a node: a task that runs the production driver."""

    __slots__ = ("_machine", "_nursery", "_scope", "driver")

    def __init__(self, machine: Machine, nursery: trio.Nursery) -> None:
        self._machine = machine
        self._nursery = nursery
        self._scope = trio.CancelScope()
        self.driver = NodeDriver(machine.running, machine.ports(), [machine.stepped], machine.raised)

    def start(self) -> None:
        self._nursery.start_soon(self._run, name=f"node {self._machine.number} run {self._machine.restarts}")

    def post(self, event: Event) -> None:
        self.driver.post(event)

    def resumed(self) -> None:
        """Wake the driver, which finds the timers that came due."""
        self.driver.post_all(())

    def end(self) -> None:
        self.driver.interpreter.end()
        self._scope.cancel()

    async def _run(self) -> None:
        with self._scope:
            try:
                await self.driver.run()
            except NodeStopped as stopped:
                self._machine.stop(str(stopped))


class _Scheduling:
    """What trio asks of a random source: in which order its runnable tasks take their turns."""

    def __init__(self, lane: ChanceLane) -> None:
        self._lane = lane

    def random(self) -> float:
        return self._lane.draws().random()

    def shuffle(self, tasks: list[object]) -> None:
        self._lane.draws().shuffle(tasks)


@contextmanager
def deterministic_scheduler(chances: Chances) -> Iterator[None]:
    """Make trio's choice among runnable tasks follow from the seed; restore everything afterwards."""
    flag = trio_run._ALLOW_DETERMINISTIC_SCHEDULING
    source = trio_run._r
    trio_run._ALLOW_DETERMINISTIC_SCHEDULING = True  # type: ignore[misc]
    trio_run._r = _Scheduling(chances.lane("trio", "scheduler"))  # type: ignore[assignment]
    try:
        yield
    finally:
        trio_run._ALLOW_DETERMINISTIC_SCHEDULING = flag  # type: ignore[misc]
        trio_run._r = source


def run_on_trio(
    options: RunOptions,
    knobs: Knobs,
    plan: Plan | None,
    mutants: Mutants,
    own: OwnNames,
    watch: Watch | None,
    keep_values: bool,
    noting: bool,
) -> RunResult:
    """Run a world to its verdict with the production driver."""
    started = time.process_time()
    kernel = Kernel()
    clock = KernelClock(kernel)
    nurseries: list[trio.Nursery] = []
    world = World(
        options.seed,
        knobs,
        lambda machine: TrioProcess(machine, nurseries[0]),
        mutants,
        plan=plan,
        keep_values=keep_values,
        noting=noting,
        kernel=kernel,
        own=own,
    )
    if watch is not None:
        watch(world)

    async def live() -> None:
        with trio.CancelScope() as scope:
            clock.scope = scope
            async with trio.open_nursery() as nursery:
                nurseries.append(nursery)
                for end_us in phases(world):
                    await trio.sleep_until(end_us / SECOND)
                clock.finished = True
                nursery.cancel_scope.cancel()

    try:
        with deterministic_scheduler(world.cluster.chances):
            trio.run(live, clock=clock)
    except BaseExceptionGroup as group:
        if clock.failure is None and world.account.violation is None:
            clock.failure = _first(group)
    violation = world.account.violation
    failure = clock.failure
    if violation is None and isinstance(failure, Violation):
        violation = failure
    elif violation is None and isinstance(failure, TimeStands):
        violation = Violation("TimePasses", str(failure))
    elif violation is None and failure is not None:
        raise failure
    return verdict(options, world, violation, time.process_time() - started)


def _first(error: BaseException) -> BaseException:
    """The first exception in a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
