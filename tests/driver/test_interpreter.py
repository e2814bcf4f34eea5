"""One order for everybody who runs a node: the same steps and the same calls of ports, up to the same end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from liftlog.driver.interpreter import Interpreter, NodeStopped, Ports
from liftlog.messages import (
    TIMER_ELECTION,
    TIMER_TICK,
    AckPublishes,
    AppendLog,
    BusDown,
    BusUp,
    DoneReply,
    Drain,
    Durable,
    Effect,
    Event,
    Heartbeat,
    Outcome,
    Received,
    RefusePublishes,
    ReplyClient,
    SaveHardState,
    Send,
    SetTimer,
    StopNode,
    StorageFailed,
    Subscribe,
    TellFast,
    TellStaged,
    TimerFired,
    Unsubscribe,
)
from liftlog.types import ClientRef, HardState, InvariantViolation, PartitionId, Ticket
from liftlog_sim.devices.still import STILL, StillWorld
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from tests.driver.interpreter_users import (
    STILL_USERS,
    TIMED_USERS,
    UNIT_MS,
    Broken,
    Calls,
    Expected,
    Happening,
    Script,
    Scripted,
    before_a_write_fails,
    manual_node,
)

EXAMPLES = settings(max_examples=100, deadline=None)
PARTITION = PartitionId(5, 0)
TICKETS_MAX = 4

numbers = st.integers(0, 9)
tickets = st.integers(1, TICKETS_MAX).map(Ticket)


def heartbeat(number: int) -> Heartbeat:
    return Heartbeat(incarnation=1, sequence=number, applied=0)


def set_timer(kind: str, length: int, spread: int) -> SetTimer:
    """Events come at multiples of sixteen, timers never do: at most fifteen of them follow one another."""
    least = (16 * length + 1) * UNIT_MS
    return SetTimer(kind, least, least + 32 * spread * UNIT_MS)  # type: ignore[arg-type]


timers = st.builds(set_timer, st.sampled_from([TIMER_TICK, TIMER_ELECTION]), numbers, st.integers(0, 2))
sends = st.builds(
    lambda to, number, after: Send(to, heartbeat(number), Ticket(after)),
    st.integers(2, 3),
    numbers,
    st.integers(0, TICKETS_MAX),
)
others = st.sampled_from(
    [
        AppendLog(PARTITION, [], Ticket(1)),
        SaveHardState(HardState(), Ticket(2)),
        Subscribe(PARTITION, 1, "s", 10, True),
        Unsubscribe(PARTITION),
        Drain(PARTITION),
        AckPublishes(PARTITION, "s", 1, 9, 0, [b"r"]),
        TellStaged(PARTITION, [b"r"]),
        TellFast(PARTITION, "s", b"x", b"r", "ack", 2, 2),
        RefusePublishes(PARTITION, "s", 1, "overload", "x", [b"r"]),
        ReplyClient(ClientRef(1), DoneReply("done")),
    ]
)
effects: st.SearchStrategy[Effect] = st.one_of(sends, sends, timers, others)
answers = st.lists(effects, max_size=6)
last_answers = st.one_of(
    st.just(Broken("the node")),
    st.tuples(answers, answers).map(lambda parts: [*parts[0], StopNode("asked"), *parts[1]]),
    answers,
)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Durable, tickets),
    st.builds(Durable, tickets),
    st.builds(lambda ticket: StorageFailed(PARTITION, ticket, True, "EIO"), tickets),
    st.builds(lambda number: Received(2, heartbeat(number)), numbers),
    st.builds(lambda kind: TimerFired(kind, 0.0), st.sampled_from([TIMER_TICK, TIMER_ELECTION])),
    st.just(BusDown()),
)


@st.composite
def scripts(draw: Any, pauses: bool) -> Script:
    at, happenings = 0, [Happening(0, BusUp())]
    for _ in range(draw(st.integers(0, 12))):
        at += 16 * draw(st.integers(0, 6)) if pauses else 0
        happenings.append(Happening(at, draw(st.one_of(events, st.none()) if pauses else events)))
    said: list[Any] = draw(st.lists(answers, max_size=10))
    said.append(draw(last_answers))
    return Script(happenings, said, draw(st.one_of(st.just(-1), st.integers(0, 30))))


@pytest.mark.parametrize("user", TIMED_USERS)
@EXAMPLES
@given(script=scripts(pauses=True))
def test_who_lets_time_pass_calls_the_ports_in_one_order(user: str, script: Script) -> None:
    assert TIMED_USERS[user](script) == Expected(script).calls


@pytest.mark.parametrize("user", STILL_USERS)
@EXAMPLES
@given(script=scripts(pauses=False))
def test_who_is_handed_one_event_after_the_other_calls_the_ports_in_one_order(
    user: str, script: Script
) -> None:
    wanted = before_a_write_fails(script) if STILL_USERS[user] is manual_node else script
    assert STILL_USERS[user](script) == Expected(wanted, has_timers=False).calls


@pytest.fixture(scope="module")
def simulated() -> Script:
    """What one simulated node has met from its first start on, and what it answered; BusUp before that."""
    happenings = [Happening(0, BusUp())]
    answered: list[list[Effect]] = []

    def watch(world: Any) -> None:
        def note(machine: Any, event: Event | None, effects: list[Effect]) -> None:
            if machine.number == 1 and machine.restarts == 1:
                answered.append(list(effects))
                if event is not None:
                    happenings.append(Happening(0, event))

        world.observer.on_step = note

    run_seed(RunOptions(seed=15), watch)
    return Script(happenings, [answered[0], [], *answered[1:]])


@pytest.mark.parametrize("user", [*TIMED_USERS, *STILL_USERS])
def test_a_simulated_nodes_steps_come_to_the_same_calls_everywhere(user: str, simulated: Script) -> None:
    run: Callable[[Script], Calls] = (TIMED_USERS | STILL_USERS)[user]
    wanted = before_a_write_fails(simulated) if run is manual_node else simulated
    calls = run(simulated)
    assert calls == Expected(wanted, has_timers=user in TIMED_USERS).calls
    assert len(calls) > 500 and ("step", BusUp()) in calls
    assert any(call[0] == "send" for call in calls) and any(call[0] == "submit" for call in calls)


# -- what only the interpreter can show -------------------------------------------------------------------


def make(answers: list[Any], **more: Any) -> tuple[Interpreter, Scripted]:
    node = Scripted(Script([], answers))
    return Interpreter(node, node.ports(STILL), **more), node


def test_observers_see_a_step_before_anything_of_it_is_carried_out_or_leaves() -> None:
    told: list[Any] = []

    def observer(name: str) -> Callable[[Event | None, Outcome], None]:
        return lambda event, outcome: told.append((name, event, len(outcome.effects), len(node.calls)))

    waits = Send(2, heartbeat(1), Ticket(1))
    interpreter, node = make([[waits], [Drain(PARTITION)]], observers=[observer("first"), observer("then")])
    interpreter.start()
    assert interpreter.waiting == [waits]
    interpreter.take(Durable(Ticket(1)))
    assert told == [
        ("first", None, 1, 1),
        ("then", None, 1, 1),
        ("first", Durable(Ticket(1)), 1, 2),
        ("then", Durable(Ticket(1)), 1, 2),
    ]
    assert node.calls[2:] == [("send", 2, heartbeat(1)), ("drain", PARTITION, 0)]
    assert interpreter.waiting == []


def test_an_observer_that_raises_ends_the_run_and_nothing_of_the_step_leaves() -> None:
    def refuse(event: Event | None, outcome: Outcome) -> None:
        if event is not None:
            raise Broken("the observer")

    raised: list[Any] = []
    interpreter, node = make(
        [[Send(2, heartbeat(1), Ticket(1))], [Drain(PARTITION)]],
        observers=[refuse],
        raised=lambda event, error: raised.append(event),
    )
    interpreter.start()
    with pytest.raises(Broken, match="the observer"):
        interpreter.take(Durable(Ticket(1)))
    assert interpreter.ended and interpreter.waiting == [] and raised == []
    interpreter.take(Durable(Ticket(1)))
    assert node.calls == ["start", ("step", Durable(Ticket(1)))]


def test_who_asked_is_told_over_which_event_the_node_raised() -> None:
    raised: list[Any] = []
    interpreter, _ = make(
        [[], Broken("the node")], raised=lambda event, error: raised.append((event, str(error)))
    )
    interpreter.start()
    with pytest.raises(Broken, match="the node"):
        interpreter.take(BusUp())
    assert raised == [(BusUp(), "the node")] and interpreter.ended


def test_a_stop_says_why_and_leaves_no_timer() -> None:
    interpreter, node = make([[SetTimer(TIMER_TICK, 50, 50), StopNode("superseded"), Drain(PARTITION)]])
    with pytest.raises(NodeStopped, match="superseded"):
        interpreter.start()
    assert interpreter.timers.next_ms == float("inf")
    assert node.calls == ["start"]


def test_a_port_must_not_call_back_into_the_step_that_calls_it() -> None:
    class Loop(StillWorld):
        def drain(self, partition: PartitionId, number: int = 0) -> None:
            interpreter.take(BusUp())

    node = Scripted(Script([], [[Drain(PARTITION)]]))
    interpreter = Interpreter(node, Ports(node, Loop(), node, node, STILL, STILL))
    with pytest.raises(InvariantViolation, match="called back"):
        interpreter.start()
    assert interpreter.ended and node.calls == ["start"]


def test_a_process_that_ends_within_a_step_asks_nothing_more_of_the_world() -> None:
    class Killed(StillWorld):
        def drain(self, partition: PartitionId, number: int = 0) -> None:
            interpreter.end()

    node = Scripted(Script([], [[Drain(PARTITION), Send(2, heartbeat(1)), SetTimer(TIMER_TICK, 1, 1)]]))
    interpreter = Interpreter(node, Ports(node, Killed(), node, node, STILL, STILL))
    interpreter.start()
    interpreter.take(BusUp())
    interpreter.fire_due()
    assert node.calls == ["start"]
