"""Everything that runs nodes, each made to run a scripted one over ports that only note what they are asked.

A `Script` is what happens: when, which event, and what the node answers to its first, second, third step.
Each user here is the real one, with its own way of waiting, of keeping events and of being stopped; the node
and the ports behind its interpreter are exchanged. `Expected` says without an interpreter what must come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import takewhile
from typing import Any, NamedTuple
from unittest import mock

import trio
import trio.testing

import liftlog_sim.cover.manual_node
import liftlog_sim.cover.raft_alone
import liftlog_sim.fuzz.node
import tests.core.node_harness
from liftlog.driver.driver import NodeDriver
from liftlog.driver.interpreter import Interpreter, NodeStopped, Ports
from liftlog.driver.timers import NEVER_MS
from liftlog.messages import (
    TIMER_TICK,
    AckPublishes,
    BusUp,
    Drain,
    Durable,
    Effect,
    Event,
    Outcome,
    RefusePublishes,
    ReplyClient,
    Send,
    SetTimer,
    StopNode,
    StorageFailed,
    StorageJob,
    Subscribe,
    TellFast,
    TellStaged,
    TimerFired,
    Unsubscribe,
)
from liftlog.mutants import NO_MUTANTS
from liftlog.nodeconfig import NodeConfig
from liftlog_sim.cover.manual_node import ManualNode, ScenarioRefused
from liftlog_sim.cover.raft import Voter
from liftlog_sim.devices.clock import STANDSTILL_MS, SimClock
from liftlog_sim.kernel import Kernel
from liftlog_sim.runs.step_gear import StepProcess
from liftlog_sim.runs.trio_gear import TrioProcess
from tests.core.raft_harness import Group

UNIT_MS = 15.625
"""A sixty-fourth of a second: exact in floating point in seconds and milliseconds, whole in microseconds."""
END = 100_000
"""When a script is over, in units."""

Calls = list[Any]


class Broken(Exception):
    """What a scripted node, or a scripted port, raises."""


class Happening(NamedTuple):
    """At this time, in units, an event comes; None: the process is stopped, or, if it is, runs on."""

    at: int
    event: Event | None


class Script(NamedTuple):
    happenings: list[Happening]
    answers: list[list[Effect] | Broken]
    """What the start and each step after it come to; a step beyond them does nothing."""
    port_fails: int = -1
    """The call of a port that raises."""


class Scripted:
    """The node, and all ports but clock and alarm."""

    def __init__(self, script: Script) -> None:
        self.calls: Calls = []
        self._answers = list(script.answers)
        self._port_fails = script.port_fails

    def _next(self) -> Outcome:
        answer = self._answers.pop(0) if self._answers else []
        if isinstance(answer, Broken):
            raise Broken(str(answer))
        return Outcome(answer)

    def start(self, now_ms: float) -> Outcome:
        self.calls.append("start")
        return self._next()

    def step(self, event: Event) -> Outcome:
        self.calls.append(("step", shown(event)))
        return self._next()

    def _call(self, *call: Any) -> None:
        self.calls.append(call)
        self._port_fails -= 1
        if self._port_fails == -1:
            raise Broken("a port")

    def send(self, to: int, message: Any) -> None:
        self._call("send", to, message)

    def know(self, peers: Mapping[int, str]) -> None:
        pass

    def submit(self, job: Any) -> None:
        self._call("submit", job)

    def subscribe(self, request: Any) -> None:
        self._call("subscribe", request)

    def unsubscribe(self, partition: Any) -> None:
        self._call("unsubscribe", partition)

    def drain(self, partition: Any, number: int = 0) -> None:
        self._call("drain", partition, number)

    def acknowledge(self, acks: Any) -> None:
        self._call("acknowledge", acks)

    def staged(self, told: Any) -> None:
        self._call("staged", told)

    def fast(self, told: Any) -> None:
        self._call("fast", told)

    def refuse(self, refusal: Any) -> None:
        self._call("refuse", refusal)

    def publish(self, letter: Any) -> None:
        self._call("publish", letter)

    def reply(self, client: Any, reply: Any) -> None:
        self._call("reply", client, reply)

    def uniform(self, low: float, high: float) -> float:
        self._call("draw", low, high)
        return (low + high) / 2

    def bits(self, count: int) -> int:
        raise AssertionError("nobody asks for bits")

    def ports(self, clock: Any, alarm: Callable[[float], None] = lambda next_ms: None) -> Ports:
        return Ports(self, self, self, self, clock, self, alarm)  # type: ignore[arg-type]

    @contextmanager
    def behind(self, module: Any) -> Iterator[None]:
        """Whoever makes an interpreter in this module gets one of this node and these ports."""

        def make(node: Any, ports: Ports, observers: Any = (), raised: Any = None) -> Interpreter:
            return Interpreter(self, self.ports(ports.clock, ports.alarm))

        with mock.patch.object(module, "Interpreter", make):
            yield


def shown(event: Event | None) -> Any:
    """Clocks begin at different times: of a timer, only which one."""
    return ("fired", event.kind) if isinstance(event, TimerFired) else event


# -- what must come out -----------------------------------------------------------------------------------


class Over(Exception):
    """The run has ended."""


class Expected:
    """The rules, in the plainest words: see `liftlog/driver/interpreter.py`."""

    def __init__(self, script: Script, has_timers: bool = True) -> None:
        self.calls: Calls = []
        self._answers = list(script.answers)
        self._port_fails = script.port_fails
        self._has_timers = has_timers
        self._waiting: list[Send] = []
        self._ended: dict[int, bool] = {}
        self._deadlines: dict[str, float] = {}
        with suppress(Over):
            self._step(None, 0)
            self._run(script.happenings)

    def _run(self, happenings: list[Happening]) -> None:
        stopped: list[Event] | None = None
        for at, event in [*happenings, Happening(END, BusUp())]:
            if stopped is None:
                self._timers_before(at)
            if at == END:
                return
            if event is None and stopped is None:
                stopped = []
            elif event is None:
                for waited in stopped or ():
                    self._event(waited, at)
                stopped = None
                self._round(at)
            elif stopped is not None:
                stopped.append(event)
            else:
                self._event(event, at)

    def _timers_before(self, at: float) -> None:
        while self._has_timers and min(self._deadlines.values(), default=END) < at:
            self._round(min(self._deadlines.values()))

    def _round(self, now: float) -> None:
        due = sorted((deadline, kind) for kind, deadline in self._deadlines.items() if deadline <= now)
        for _, kind in due:
            del self._deadlines[kind]
        for _, kind in due:
            if kind not in self._deadlines:
                self._step(TimerFired(kind, 0.0), now)

    def _event(self, event: Event, now: float) -> None:
        if self._has_timers and self._deadlines.get(TIMER_TICK, END) <= now:
            del self._deadlines[TIMER_TICK]
            self._step(TimerFired(TIMER_TICK, 0.0), now)
        self._step(event, now)

    def _step(self, event: Event | None, now: float) -> None:
        self.calls.append("start" if event is None else ("step", shown(event)))
        answer = self._answers.pop(0) if self._answers else []
        if isinstance(answer, Broken):
            raise Over
        if isinstance(event, (Durable, StorageFailed)):
            self._ended[event.ticket] = isinstance(event, Durable)
            for send in [send for send in self._waiting if send.after == event.ticket]:
                self._waiting.remove(send)
                if isinstance(event, Durable):
                    self._call("send", send.to, send.message)
        for effect in answer:
            self._effect(effect, now)

    def _effect(self, effect: Effect, now: float) -> None:
        match effect:
            case Send():
                if effect.after == 0 or self._ended.get(effect.after):
                    self._call("send", effect.to, effect.message)
                elif effect.after not in self._ended:
                    self._waiting.append(effect)
            case SetTimer():
                length_ms: float = effect.min_ms
                if effect.max_ms > effect.min_ms:
                    self._call("draw", effect.min_ms, effect.max_ms)
                    length_ms = (effect.min_ms + effect.max_ms) / 2
                self._deadlines[effect.kind] = now + length_ms / UNIT_MS
            case StorageJob():
                self._call("submit", effect)
            case Subscribe():
                self._call("subscribe", effect)
            case Unsubscribe():
                self._call("unsubscribe", effect.partition)
            case Drain():
                self._call("drain", effect.partition, effect.number)
            case AckPublishes():
                self._call("acknowledge", effect)
            case TellStaged():
                self._call("staged", effect)
            case TellFast():
                self._call("fast", effect)
            case RefusePublishes():
                self._call("refuse", effect)
            case ReplyClient():
                self._call("reply", effect.client, effect.reply)
            case StopNode():
                raise Over
            case _:
                raise AssertionError(effect)

    def _call(self, *call: Any) -> None:
        self.calls.append(call)
        self._port_fails -= 1
        if self._port_fails == -1:
            raise Over


# -- users to which time passes ---------------------------------------------------------------------------

ENDS = (Broken, NodeStopped)


class Machine:
    """What a gear asks of a simulated machine."""

    number = restarts = 1

    def __init__(self, node: Scripted, clock: Any, kernel: Kernel | None = None) -> None:
        self.running = node
        self.clock = clock
        self.kernel = kernel
        self.process: Any = None
        self._waiting: list[Event] = []

    @property
    def paused(self) -> bool:
        return bool(self.clock.paused)

    def ports(self, alarm: Callable[[float], None] = lambda next_ms: None) -> Ports:
        return self.running.ports(self.clock, alarm)

    def stepped(self, event: Event | None, outcome: Outcome) -> None:
        pass

    def raised(self, event: Event | None, error: Exception) -> None:
        pass

    def stop(self, reason: str) -> None:
        self.process.end()

    def happen(self, event: Event | None) -> None:
        """As `liftlog_sim.devices.machine.Machine` has it."""
        if event is not None and self.paused:
            self._waiting.append(event)
        elif event is not None:
            self.process.post(event)
        elif not self.paused:
            self.clock.paused = True
        else:
            self.clock.paused = False
            waiting, self._waiting = self._waiting, []
            for waited in waiting:
                self.process.post(waited)
            self.process.resumed()


class TrioClock:
    """The clock of the trio gear: a stopped process does not ask, so it stands."""

    paused = False

    def monotonic_ms(self) -> float:
        return STANDSTILL_MS if self.paused else trio.current_time() * 1000

    def wall_ms(self) -> int:
        return 0


class DriverProcess:
    """The production driver as its own user."""

    def __init__(self, machine: Machine, nursery: trio.Nursery) -> None:
        self._driver = NodeDriver(machine.running, machine.ports())
        self._nursery = nursery
        self.post = self._driver.post

    def start(self) -> None:
        self._nursery.start_soon(self._driver.run)

    def resumed(self) -> None:
        self._driver.post_all(())


def _on_trio(script: Script, make: Any) -> Calls:
    node = Scripted(script)
    machine = Machine(node, TrioClock())

    async def main() -> None:
        async with trio.open_nursery() as outer, trio.open_nursery() as nursery:
            machine.process = make(machine, nursery)
            machine.process.start()
            for at, event in script.happenings:
                await trio.sleep_until(at / 64)
                machine.happen(event)
                # Whoever is stopped next has done before what came before.
                await trio.testing.wait_all_tasks_blocked()
            await trio.sleep_until(END / 64)
            outer.cancel_scope.cancel()

    try:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    except* ENDS:
        pass
    return node.calls


def driver(script: Script) -> Calls:
    return _on_trio(script, DriverProcess)


def trio_gear(script: Script) -> Calls:
    return _on_trio(script, TrioProcess)


def step_gear(script: Script) -> Calls:
    node, kernel = Scripted(script), Kernel()
    machine = Machine(node, SimClock(kernel), kernel)
    machine.process = StepProcess(machine)  # type: ignore[arg-type]
    with suppress(*ENDS):
        machine.process.start()
    for at, event in script.happenings:
        kernel.at(at * 15_625, lambda event, _: machine.happen(event), event)
    while kernel.next_time_us() is not None:
        with suppress(*ENDS):
            kernel.run_next()
    return node.calls


def node_harness(script: Script) -> Calls:
    node = Scripted(script)
    with node.behind(tests.core.node_harness), suppress(*ENDS):
        world = tests.core.node_harness.World(0)
        world.count = 1
        world.disks[1], world.runs[1] = tests.core.node_harness.Disk(1, "disk-1"), 0
        world.wakes[1] = NEVER_MS
        world.restart(1)
    world.heap = [entry for entry in world.heap if not isinstance(entry[-1], BusUp)]

    def run(until_s: float) -> None:
        while world.now < until_s:
            with suppress(*ENDS):
                world.run(until_s - world.now)

    for at, event in script.happenings:
        run(at / 64)
        with suppress(*ENDS):
            if event is not None:
                world.post(1, event)
                world.run(0)
            elif 1 in world.paused:
                world.resume(1)
            else:
                world.pause(1)
    run(END / 64)
    return node.calls


# -- users to which nothing happens by itself -------------------------------------------------------------


Take = Callable[[Event], object]


def _fed(node: Scripted, script: Script, start: Callable[[], object], take: Take) -> Calls:
    with suppress(*ENDS, ScenarioRefused):
        start()
    for _, event in script.happenings:
        assert event is not None
        with suppress(*ENDS, ScenarioRefused):
            take(event)
    return node.calls


def before_a_write_fails(script: Script) -> Script:
    """What is left of a script for who refuses to go on with a disk that fails."""
    kept = takewhile(lambda one: not isinstance(one.event, StorageFailed), script.happenings)
    return script._replace(happenings=list(kept))


def manual_node(script: Script) -> Calls:
    node = Scripted(script)
    manual = ManualNode(1, lambda sender, to, message: None, NO_MUTANTS)
    # It brings BusUp by itself, with which every script begins.
    script = before_a_write_fails(script)
    script = script._replace(happenings=script.happenings[1:])
    with node.behind(liftlog_sim.cover.manual_node):
        return _fed(node, script, lambda: manual.start(NodeConfig(1, (1,)), None), manual.take)


def fuzzed_node(script: Script) -> Calls:
    node = Scripted(script)
    with node.behind(liftlog_sim.fuzz.node):
        episode = liftlog_sim.fuzz.node.Episode("1")
        return _fed(node, script, lambda: episode._drive(episode._interpreter.start), episode._step)


def raft_harness(script: Script) -> Calls:
    node, group = Scripted(script), Group(0)
    group.nodes = [1]
    group.configs[1], group.disks[1] = NodeConfig(1, (1,)), liftlog_sim.cover.raft_alone.RaftDisk("disk-1")
    with node.behind(liftlog_sim.cover.raft_alone):
        return _fed(node, script, lambda: group.restart(1), lambda event: group.take_in(1, event))


def covering_raft(script: Script) -> Calls:
    node = Scripted(Script([], [[]]))
    with node.behind(liftlog_sim.cover.raft_alone):
        voter = Voter(1, 1, NO_MUTANTS)
    node = Scripted(script)
    with node.behind(liftlog_sim.cover.raft_alone):
        return _fed(node, script, voter.start, voter.take)


TIMED_USERS = {user.__name__: user for user in (driver, trio_gear, step_gear, node_harness)}
STILL_USERS = {user.__name__: user for user in (manual_node, fuzzed_node, raft_harness, covering_raft)}
