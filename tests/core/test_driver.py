"""The driver on trio: order of effects, persist-then-send, timers, what is taken. Run on a virtual clock."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
import trio
import trio.testing

from liftlog.driver.driver import NodeDriver
from liftlog.driver.interpreter import NodeStopped, Ports
from liftlog.messages import (
    AckPublishes,
    AppendLog,
    BusUp,
    DoneReply,
    Drain,
    Durable,
    Effect,
    Event,
    Heartbeat,
    Outcome,
    PeerMessage,
    PublishLetter,
    Received,
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
from liftlog.types import ClientRef, PartitionId, Ticket

pytestmark = pytest.mark.trio

PARTITION = PartitionId(5, 0)
DONE = DoneReply("done")


class World:
    """All ports at once; remembers every call in order."""

    def __init__(self) -> None:
        self.calls: list[object] = []

    def send(self, to: int, message: PeerMessage) -> None:
        self.calls.append(("send", to, message))

    def know(self, peers: Mapping[int, str]) -> None:
        pass

    def submit(self, job: StorageJob) -> None:
        self.calls.append(job)

    def subscribe(self, request: Subscribe) -> None:
        self.calls.append(request)

    def unsubscribe(self, partition: PartitionId) -> None:
        self.calls.append(("unsubscribe", partition))

    def drain(self, partition: PartitionId, number: int = 0) -> None:
        self.calls.append(("drain", partition))

    def acknowledge(self, acks: AckPublishes) -> None:
        self.calls.append(acks)

    def staged(self, told: TellStaged) -> None:
        self.calls.append(told)

    def fast(self, told: TellFast) -> None:
        self.calls.append(told)

    def refuse(self, refusal: RefusePublishes) -> None:
        self.calls.append(refusal)

    def publish(self, letter: PublishLetter) -> None:
        self.calls.append(letter)

    def reply(self, client: ClientRef, reply: object) -> None:
        self.calls.append(("reply", client, reply))

    def monotonic_ms(self) -> float:
        return trio.current_time() * 1000

    def wall_ms(self) -> int:
        return 0

    def uniform(self, low: float, high: float) -> float:
        return (low + high) / 2

    def bits(self, count: int) -> int:
        return 0


class ScriptedNode:
    """Answers each event by what the script says, and remembers the events."""

    def __init__(self, first: list[Effect] | None = None) -> None:
        self.first = first or []
        self.answers: list[list[Effect]] = []
        self.events: list[tuple[float, Event]] = []

    def start(self, now_ms: float) -> Outcome:
        return Outcome(self.first)

    def step(self, event: Event) -> Outcome:
        self.events.append((trio.current_time(), event))
        return Outcome(self.answers.pop(0) if self.answers else [])


def make(node: ScriptedNode) -> tuple[NodeDriver, World]:
    world = World()
    driver = NodeDriver(node, Ports(*[world] * 6))  # type: ignore[arg-type]
    return driver, world


def heartbeat(sequence: int) -> Heartbeat:
    return Heartbeat(incarnation=1, sequence=sequence, applied=0)


async def run_for(driver: NodeDriver, seconds: float) -> None:
    with trio.move_on_after(seconds):
        await driver.run()


async def test_effects_are_carried_out_in_order(autojump_clock: trio.testing.MockClock) -> None:
    job = AppendLog(PARTITION, [], Ticket(1))
    subscribe = Subscribe(PARTITION, 1, "s", 10, True)
    acks = AckPublishes(PARTITION, "s", 1, 9, 0, [b"r"])
    refusal = RefusePublishes(PARTITION, "s", 1, "overload", "x", [b"r"])
    node = ScriptedNode(
        [
            job,
            Send(2, heartbeat(1)),
            subscribe,
            Unsubscribe(PARTITION),
            Drain(PARTITION),
            acks,
            refusal,
            ReplyClient(ClientRef(1), DONE),
        ]
    )
    driver, world = make(node)
    await run_for(driver, 1)
    assert world.calls == [
        job,
        ("send", 2, heartbeat(1)),
        subscribe,
        ("unsubscribe", PARTITION),
        ("drain", PARTITION),
        acks,
        refusal,
        ("reply", ClientRef(1), DONE),
    ]


async def test_a_send_waits_for_its_ticket_and_a_failed_one_is_dropped(
    autojump_clock: trio.testing.MockClock,
) -> None:
    waiting = [Send(2, heartbeat(1), Ticket(1)), Send(3, heartbeat(2), Ticket(2)), Send(2, heartbeat(3))]
    driver, world = make(ScriptedNode(list(waiting)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(driver.run)
        await trio.sleep(0.1)
        assert world.calls == [("send", 2, heartbeat(3))]
        driver.post(StorageFailed(PARTITION, Ticket(2), sync=True, error="EIO"))
        driver.post(Durable(Ticket(1)))
        await trio.sleep(0.1)
        nursery.cancel_scope.cancel()
    assert world.calls == [("send", 2, heartbeat(3)), ("send", 2, heartbeat(1))]


async def test_what_waited_for_a_ticket_goes_out_before_what_the_core_does_next(
    autojump_clock: trio.testing.MockClock,
) -> None:
    node = ScriptedNode([Send(2, heartbeat(1), Ticket(1))])
    node.answers = [[Send(2, heartbeat(2))]]
    driver, world = make(node)
    driver.post(Durable(Ticket(1)))
    await run_for(driver, 1)
    assert world.calls == [("send", 2, heartbeat(1)), ("send", 2, heartbeat(2))]


async def test_a_timer_fires_once_after_the_drawn_time_and_a_new_one_replaces_it(
    autojump_clock: trio.testing.MockClock,
) -> None:
    node = ScriptedNode(
        [SetTimer("election", 100, 300), SetTimer("tick", 50, 50), SetTimer("election", 400, 800)]
    )
    node.answers = [[SetTimer("tick", 500, 500)]]
    driver, _ = make(node)
    start = trio.current_time()
    await run_for(driver, 10)
    fired = [(round((when - start) * 1000), event) for when, event in node.events]
    assert [(at_ms, event.kind) for at_ms, event in fired if isinstance(event, TimerFired)] == [
        (50, "tick"),
        (550, "tick"),
        (600, "election"),
    ]


async def test_N2_after_a_pause_the_clock_comes_first_then_what_waited_then_other_timers(
    autojump_clock: trio.testing.MockClock,
) -> None:
    node = ScriptedNode([SetTimer("tick", 50, 50), SetTimer("election", 300, 300)])
    driver, world = make(node)
    driver.post_all([BusUp(), Durable(Ticket(1))])
    stopped_ms = world.monotonic_ms()
    node.answers = [[SetTimer("tick", 50, 50)]]

    def start(now_ms: float) -> Outcome:
        # The process is stopped for ten seconds while its first events wait.
        autojump_clock.jump(10.0)
        return Outcome(node.first)

    node.start = start  # type: ignore[method-assign]
    await run_for(driver, 0.01)
    late_ms = stopped_ms + 10_000
    assert [event for _, event in node.events] == [
        TimerFired("tick", late_ms),
        BusUp(),
        Durable(Ticket(1)),
        TimerFired("election", late_ms),
    ]


async def test_a_pause_within_a_step_does_not_delay_the_next_tick(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """The timer that a step asks for runs from the step's beginning: it is due when the process runs on."""
    node = ScriptedNode([SetTimer("tick", 50, 50)])
    driver, world = make(node)
    begun_ms = world.monotonic_ms()

    def step(event: Event) -> Outcome:
        node.events.append((trio.current_time(), event))
        if len(node.events) == 1:
            autojump_clock.jump(10.0)
            driver.post(BusUp())
            return Outcome([SetTimer("tick", 50, 50)])
        return Outcome([])

    node.step = step  # type: ignore[method-assign]
    await run_for(driver, 20)
    assert [event for _, event in node.events] == [
        TimerFired("tick", begun_ms + 50),
        TimerFired("tick", begun_ms + 10_050),
        BusUp(),
    ]


async def test_everything_queued_is_handled_before_the_driver_waits_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    node = ScriptedNode()
    driver, _ = make(node)
    waits = 0
    real_wait = driver.wait_until

    async def counting_wait(deadline_ms: float) -> None:
        nonlocal waits
        waits += 1
        await real_wait(deadline_ms)

    driver.wait_until = counting_wait  # type: ignore[method-assign]
    for _ in range(500):
        driver.post(BusUp())
    await run_for(driver, 1)
    assert len(node.events) == 500
    assert waits == 1


async def test_what_is_taken_is_stepped_at_once_and_within_a_step_afterwards(
    autojump_clock: trio.testing.MockClock,
) -> None:
    node = ScriptedNode()
    driver, _ = make(node)
    flushed: list[int] = []
    driver.interpreter._flush = lambda: flushed.append(len(node.events))
    driver.take(Received(2, heartbeat(0)))
    assert node.events == []  # it has not started
    stepped = node.step

    def step(event: Event) -> Outcome:
        if event == Received(2, heartbeat(1)):
            driver.take(Received(2, heartbeat(2)))
            assert len(node.events) == 1
        return stepped(event)

    node.step = step  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(driver.run)
        await trio.testing.wait_all_tasks_blocked()
        driver.take(Received(2, heartbeat(1)))
        assert [event for _, event in node.events] == [Received(2, heartbeat(n)) for n in range(3)]
        driver.take_all([Received(2, heartbeat(3)), Received(2, heartbeat(4))])
        assert len(node.events) == 5
        nursery.cancel_scope.cancel()
    assert flushed == [1, 3, 5]


async def test_a_timer_that_is_set_while_the_driver_sleeps_is_not_slept_through(
    autojump_clock: trio.testing.MockClock,
) -> None:
    node = ScriptedNode()
    driver, _ = make(node)
    begun_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(driver.run)
        await trio.testing.wait_all_tasks_blocked()
        node.answers = [[SetTimer("tick", 50, 50)]]
        driver.take(BusUp())
        await trio.sleep(1)
        nursery.cancel_scope.cancel()
    assert [round(at - begun_s, 3) for at, _ in node.events] == [0, 0.05]


async def test_what_the_ports_have_to_say_when_they_are_flushed_is_stepped_too(
    autojump_clock: trio.testing.MockClock,
) -> None:
    node = ScriptedNode()
    driver, _ = make(node)
    told = [Durable(Ticket(1))]
    driver.interpreter._flush = lambda: driver.take_all([told.pop()] if told else [])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(driver.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert [event for _, event in node.events] == [Durable(Ticket(1))]


async def test_stop_node_ends_the_run_with_its_reason(autojump_clock: trio.testing.MockClock) -> None:
    driver, _ = make(ScriptedNode([StopNode("the disk is gone")]))
    with pytest.raises(NodeStopped, match="the disk is gone"):
        await driver.run()
