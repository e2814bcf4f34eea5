"""All that chance decides in one world: drawn by name from its seed, or stated by a plan; noted on request.

Who happens again and again draws from a *lane*: the messages of one kind on one link, the syncs of one disk.
A lane numbers what happens within each second of simulated time and begins anew with the next one. With a
count from the beginning, one message more would shift the fates of all that follow for ever; so a world from
which something was taken away is soon again the world that it was.

Clients draw by *turns*, one operation after the other (`PlannedOperation`); hunters by *occasions* (`Hunt`).
Faults draw by their ordinal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec

from liftlog_sim.chance.draws import SPREAD, Draws, Eight, eight
from liftlog_sim.chance.fault_plan import Fault
from liftlog_sim.chance.plan import DRAWN, OCCASIONS, Fate, Hunt, Plan, PlannedOperation
from liftlog_sim.kernel import SECOND, Kernel

ORDINARY = Fate("", "", 0, 0)
"""Arrives once, after the usual time."""


class Noted:
    """What was drawn in a run, as far as it had an effect."""

    def __init__(self) -> None:
        self.operations: dict[str, PlannedOperation] = {}
        self.hunts: list[Hunt] = []
        self.fates: dict[tuple[str, str, int, int], Fate] = {}


class Chances:
    """The draws of a world. `noting`: whether to keep what is drawn, for `World.drawn`."""

    def __init__(
        self, kernel: Kernel, seed: int | str, plan: Plan | None = None, *, noting: bool = False
    ) -> None:
        plan = plan or DRAWN
        self.kernel = kernel
        self.seed = seed
        self.noted = Noted() if noting else None
        self.fates = _by_key(plan.fates)
        """None: the seed's."""
        self.hunts = None if plan.hunts is None else {hunt.name for hunt in plan.hunts}
        self._operations = None if plan.operations is None else _by_client(plan.operations)
        self._occasions: dict[tuple[str, int], int] = {}
        self._lanes: dict[tuple[str, str], ChanceLane] = {}

    def draws(self, *name: object) -> Draws:
        """The draws of one name."""
        return Draws(self.seed, *name)

    def lane(self, link: str, kind: str) -> ChanceLane:
        """The lane of what is called so; always the same one."""
        lane = self._lanes.get((link, kind))
        if lane is None:
            lane = self._lanes[link, kind] = ChanceLane(self, link, kind)
        return lane

    def turns(self, client: str, mean_us: int) -> Turns:
        """The turns of a client."""
        stated = self._operations
        return Turns(self, client, mean_us, None if stated is None else stated.get(client, []))

    def occasion(self, name: str, node: int, share: float) -> Draws | None:
        """A hunter may strike now, since this happened to a node: what he draws, or None if he does not."""
        assert name in OCCASIONS, f"no plan could name the occasion '{name}'"
        number = self._occasions[name, node] = self._occasions.get((name, node), -1) + 1
        hunt = Hunt(name, node, number)
        draws = self.draws(hunt.name)
        struck = draws.random() < share
        if self.hunts is not None:
            struck = hunt.name in self.hunts
        if not struck:
            return None
        if self.noted is not None:
            self.noted.hunts.append(hunt)
        return draws

    def drawn(self, faults: Iterable[Fault]) -> Plan:
        """The plan of what was noted. Run with it, the world goes the same way."""
        noted = self.noted
        assert noted is not None
        return Plan(
            faults=tuple(faults),
            operations=tuple(noted.operations.values()),
            hunts=tuple(noted.hunts),
            fates=tuple(noted.fates.values()),
        )


class ChanceLane:
    """What happens again and again under one name; see the module."""

    __slots__ = ("_chances", "_kernel", "_name", "_number", "_second", "_within", "kind", "link")

    def __init__(self, chances: Chances, link: str, kind: str) -> None:
        self._chances = chances
        self._kernel = chances.kernel
        self._name = f"{chances.seed}/{link}/{kind}".encode()
        self._within = b""
        """Name and second, with what separates them from the number."""
        self._second = self._number = -1
        self.link = link
        self.kind = kind

    def next(self) -> Eight:
        """It happens once more: eight numbers for it."""
        second = self._kernel.now_us // SECOND
        if second == self._second:
            self._number += 1
        else:
            self._begin(second)
        return eight(b"%b%d" % (self._within, self._number))

    def draws(self) -> Draws:
        """It happens once more: any number of draws for it."""
        second = self._kernel.now_us // SECOND
        if second == self._second:
            self._number += 1
        else:
            self._begin(second)
        return Draws.named((b"%b%d" % (self._within, self._number)).decode())

    def _begin(self, second: int) -> None:
        self._second, self._number = second, 0
        self._within = b"%b/%d/" % (self._name, second)

    @property
    def stated(self) -> Fate | None:
        """What the plan says of what happens just now; None if the seed decides."""
        fates = self._chances.fates
        return None if fates is None else fates.get(self.place, ORDINARY)

    @property
    def place(self) -> tuple[str, str, int, int]:
        """Of what happens just now."""
        return self.link, self.kind, self._second, self._number

    def note(
        self,
        place: tuple[str, str, int, int],
        *,
        lost: bool = False,
        late_us: int = 0,
        twice: bool = False,
        twice_late_us: int = 0,
        echo_us: int = -1,
    ) -> None:
        """Note what befell it; what was noted of it before stays."""
        noted = self._chances.noted
        if noted is None:
            return
        known = noted.fates.get(place) or Fate(*place)
        noted.fates[place] = msgspec.structs.replace(
            known,
            lost=known.lost or lost,
            late_us=known.late_us or late_us,
            twice=known.twice or twice,
            twice_late_us=known.twice_late_us or twice_late_us,
            echo_us=max(known.echo_us, echo_us),
        )


class Turn:
    """One operation of a client. What the plan does not state is drawn from `draws`."""

    __slots__ = ("_chances", "at_us", "client", "count", "draws", "number", "target")

    def __init__(
        self, chances: Chances, client: str, number: int, at_us: int, draws: Draws, target: str, count: int
    ) -> None:
        self._chances = chances
        self.client = client
        self.number = number
        self.at_us = at_us
        self.draws = draws
        self.target = target
        self.count = count

    @property
    def name(self) -> str:
        return f"{self.client}/{self.number}"

    def noted(self, target: str = "", count: int = 0) -> None:
        """The operation has begun, to this partition and with so many messages. One that is still to come
        when the run ends is noted as well: the client waited for it.
        """
        noted = self._chances.noted
        if noted is not None:
            operation = PlannedOperation(self.client, self.number, self.at_us, target, count)
            noted.operations[operation.name] = operation


class Turns:
    """When a client does what: at random intervals of `mean_us` (0 = never), or as a plan says."""

    __slots__ = ("_chances", "_client", "_mean_us", "_next", "_stated")

    def __init__(
        self, chances: Chances, client: str, mean_us: int, stated: list[PlannedOperation] | None
    ) -> None:
        self._chances = chances
        self._client = client
        self._mean_us = mean_us
        self._stated = stated
        self._next = 0

    def next(self) -> Turn | None:
        """What the client does next, and when; None: nothing any more."""
        chances, number, now_us = self._chances, self._next, self._chances.kernel.now_us
        self._next += 1
        if self._stated is None:
            if not self._mean_us:
                return None
            draws = chances.draws(self._client, number)
            at_us = now_us + int(draws.expovariate(1.0) * self._mean_us) + 1
            return self._turn(number, at_us, draws)
        if number >= len(self._stated):
            return None
        stated = self._stated[number]
        draws = chances.draws(stated.client, stated.number)
        draws.word()
        at_us = max(now_us, stated.at_us)
        return self._turn(stated.number, at_us, draws, stated.target, stated.count)

    def take(self, do: Callable[[Turn, object], None]) -> None:
        """Have the next turn done when it comes, if there is one."""
        turn = self.next()
        if turn is not None:
            self._chances.kernel.at(turn.at_us, do, turn)

    def _turn(self, number: int, at_us: int, draws: Draws, target: str = "", count: int = 0) -> Turn:
        turn = Turn(self._chances, self._client, number, at_us, draws, target, count)
        turn.noted(target, count)
        return turn


def below(word: int, share: float) -> bool:
    """Whether one of `eight` falls within a share of all."""
    return word < share * SPREAD


def amount(word: int, most: int) -> int:
    """One of `eight`, as a number below `most`, or 0."""
    return (word * most) >> 32


def _by_key(fates: tuple[Fate, ...] | None) -> dict[tuple[str, str, int, int], Fate] | None:
    if fates is None:
        return None
    return {(fate.link, fate.kind, fate.second, fate.number): fate for fate in fates}


def _by_client(operations: tuple[PlannedOperation, ...]) -> dict[str, list[PlannedOperation]]:
    clients: dict[str, list[PlannedOperation]] = {}
    for operation in sorted(operations, key=lambda one: (one.at_us, one.number)):
        clients.setdefault(operation.client, []).append(operation)
    return clients
