"""What a study is made of: own faults, own clients, own invariants, as classes in a Python file.

    class Brownout(OwnFault):             strikes machines; stands in the plan as "brownout"
    class ReadYourWrites(OwnClient):      does something again and again; stands there as "read_your_writes/0"
    class OneLeaderAtATime(OwnInvariant): looks at every step, and at the end

`liftlog sim run`, `sweep` and `replay` take such a file with `--with FILE`. For each world each class is made
anew, so what an object keeps is of that world alone. What it draws it draws by name, from what it is handed:
all else of a world is drawn the same with it and without. What it finds is a finding like any other.

What does not hold is said by `must`; the class's name is the invariant's, its docstring the sentence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from liftlog.messages import AckPublishes, ClientMessage, Effect, Event, RefusePublishes
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.chance.fault_plan import Fault
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.machine import Machine
from liftlog_sim.kernel import SECOND
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.workload.targets import Target
from liftlog_sim.workload.workload import ACK_TIMEOUT_US, Publisher
from liftlog_sim.world import World

FIRST_US = 2 * SECOND
"""Nothing strikes before."""


class Own:
    """Of one world. Put what has to be kept into `setup`."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.setup()

    def setup(self) -> None:
        """Called once, before the world starts."""

    @classmethod
    def plan_name(cls) -> str:
        """As plans write it: `ReadYourWrites` is `read_your_writes`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()

    @classmethod
    def sentence(cls) -> str:
        """The first paragraph of the class's docstring, in one line."""
        return " ".join((cls.__doc__ or "").partition("\n\n")[0].split())

    @property
    def now_s(self) -> float:
        """Simulated time, in seconds."""
        return self.world.kernel.now_us / SECOND

    def must(self, holds: bool, finding: str) -> None:
        """Count that this was looked at; if it does not hold, the run ends with the finding."""
        account, name = self.world.account, type(self).__name__
        account.checks.counts[name] = account.checks.counts.get(name, 0) + 1
        if not holds:
            account.fail(Violation(name, finding))


class OwnInvariant(Own):
    """Looks on; it must change nothing. Say `must` in one of these, or in both."""

    def stepped(self, machine: Machine, event: Event | None, effects: Sequence[Effect]) -> None:
        """A node has taken a step (`event` None: it starts), and nothing has come of that yet."""

    def ended(self) -> None:
        """All faults are over, and the cluster is whole again."""


class OwnFault(Own):
    """Strikes one machine at a time, for a while; it may strike another one meanwhile, or the same again.

    The atlas of damage (`faults/atlas.py`) does not know of it: whoever takes away more than the protocol
    promises to survive finds losses that are nobody's fault.
    """

    every_s = 10.0
    """How often it strikes, on average."""
    lasting_s = 2.0
    """How long it lasts, on average; 0 = it is over at once."""
    target = "any"
    """Whom: any, controller, leader, follower, or a node's number."""

    def strike(self, machine: Machine, draws: Draws) -> str:
        """Do it; returns what happened, in words that name the node. Empty: it could not be done now."""
        raise NotImplementedError

    def take_back(self, machine: Machine) -> None:
        """The time of one strike is over, or the whole fault phase."""

    @classmethod
    def drawn(cls, seed: int | str, knobs: Knobs, first: int) -> Iterator[Fault]:
        """When it strikes in the world of a seed. `first`: its first number in the plan."""
        kind = cls.plan_name()
        stream = Draws(seed, "own", kind)
        at_us, number = FIRST_US, 0
        while True:
            draws = stream.part(number)
            at_us += 1 + int(draws.expovariate(1.0) * cls.every_s * SECOND)
            if at_us >= knobs.duration_us:
                return
            duration_us = int(draws.expovariate(1.0) * cls.lasting_s * SECOND)
            yield Fault(at_us, kind, cls.target, duration_us, first + number)
            number += 1


class OwnClient(Own):
    """Does something again and again, from when the streams are there until the fault phase is over."""

    every_s = 1.0
    """How long it waits between two turns, on average."""
    clients = 1
    """How many of it there are."""

    def __init__(self, world: World, number: int, guard: Callable[..., Any]) -> None:
        self.number = number
        """Among those of its class, from 0 on."""
        self._guard = guard
        self._asked = 0
        self._publisher = _Publishing(world, 1000 + world.workload.joined, self._call)
        super().__init__(world)

    def _call(self, what: Callable[..., Any], *arguments: Any) -> Any:
        return self._guard(self, what, *arguments)

    def act(self, turn: Turn) -> None:
        """One turn. What it draws it draws from `turn.draws`."""
        raise NotImplementedError

    def partition(self, turn: Turn) -> Target | None:
        """The partition of this turn: as the plan says, or drawn. None: there is none of that name."""
        target = self.world.clientele.target_of(turn)
        turn.noted(target.name if target is not None else turn.target, turn.count)
        return target

    def node(self, turn: Turn) -> int:
        """Any node's number."""
        return self.world.clientele.any_node(turn.draws)

    def publish(self, turn: Turn, target: Target, then: Callable[[int | None], None]) -> None:
        """Publish one message, and ask for the ack. `then` is called once: with the offset, or with None if
        it was refused, or not acknowledged in time.
        """
        self._publisher.send(turn, target, then)

    def ask(
        self,
        turn: Turn,
        node: int,
        request: ClientMessage,
        then: Callable[[Any], None],
        patience_s: float = 4.0,
    ) -> None:
        """Ask a node for something. `then` is called once, with the reply, or with None: outcome unknown."""
        self._asked += 1
        name = f"{turn.name}/{self._asked}"
        self.world.clients.request(
            name, node, request, lambda reply: self._call(then, reply), int(patience_s * SECOND)
        )

    def join(self) -> None:
        """The streams are there: take one turn after the other."""
        name = f"{self.plan_name()}/{self.number}"
        turns = self.world.chances.turns(name, max(1, int(self.every_s * SECOND)))
        clientele = self.world.clientele

        def fire(turn: Turn, second: object) -> None:
            if not clientele.stopping:
                turn.noted(turn.target, turn.count)
                self.world.account.count(f"turns of {self.plan_name()}")
                self._call(self.act, turn)
                turns.take(fire)

        turns.take(fire)


class _Publishing(Publisher):
    """Publishes one value at a time for an own client, and tells what came of it."""

    __slots__ = ("_call", "_then", "_world")

    def __init__(self, world: World, number: int, call: Callable[..., Any]) -> None:
        super().__init__(world.clientele, number)
        self._world = world
        self._call = call
        self._then: dict[bytes, Callable[[int | None], None]] = {}
        world.workload.add_publisher(self)

    def send(self, turn: Turn, target: Target, then: Callable[[int | None], None]) -> None:
        burst = f"{turn.client}/{turn.number}"
        value = f"{self.number}-{burst}-0".encode()
        self._then[value] = then
        self.publish(target, 1, True, burst, turn.draws.part("publish"), strange=0.0)
        if value in self._waiting:
            self._world.kernel.after(ACK_TIMEOUT_US, self._late, value)
        else:
            self._world.kernel.after(0, self._late, value)

    def acked(self, value: bytes, acks: AckPublishes, offset: int) -> None:
        super().acked(value, acks, offset)
        self._over(value, offset)

    def refused(self, value: bytes, refusal: RefusePublishes, place: int) -> None:
        super().refused(value, refusal, place)
        self._over(value, None)

    def _late(self, value: bytes, second: object) -> None:
        self._give_up()
        self._over(value, None)

    def _over(self, value: bytes, offset: int | None) -> None:
        then = self._then.pop(value, None)
        if then is not None:
            self._call(then, offset)
