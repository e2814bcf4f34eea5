"""What nodes are told of the connections to their peers: hints, true, late, missing and false (N2, M1o).

Mirrors `liftlog/real/peers.py`: whoever keeps a connection to a process that dies tries it anew, and is told
each time that nobody listens there, until somebody does. While a link is cut nobody is told anything. What
the real port does rarely happens here often: a death that no host tells of, as if the power had gone; a hint
that comes when the node has long been back; and hints about a node that lives, see `accuse` and `flap`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from liftlog.messages import Event, PeerBack, PeerLost
from liftlog_sim.chance.chances import Chances, amount, below
from liftlog_sim.devices.network import SimNetwork
from liftlog_sim.kernel import MILLISECOND, Kernel

RETRY_MIN_US = 50 * MILLISECOND + 113
RETRY_MAX_US = 500 * MILLISECOND + 113
"""How long somebody who was refused waits until he tries again; twice as long each time."""

Link = tuple[int, int]
"""Who connects, and to whom."""


class HintOptions(msgspec.Struct, frozen=True):
    """How well deaths are told. Times in microseconds; probabilities for each death and peer."""

    delay_us: int = 3_117
    spread_us: int = 0
    """Evenly drawn, on top."""
    late: float = 0.0
    late_max_us: int = 0
    """A hint comes so late that the node may be back."""
    missing: float = 0.0
    """Nobody tells of it."""


class Host(Protocol):
    """What is asked of a machine."""

    @property
    def number(self) -> int: ...

    @property
    def up(self) -> bool: ...

    def post(self, event: Event) -> None: ...


class Connections:
    """All connections of a cluster, as far as somebody is told of them."""

    __slots__ = ("_chances", "_hosts", "_kernel", "_network", "_runs", "active", "options")

    def __init__(
        self,
        chances: Chances,
        options: HintOptions,
        network: SimNetwork,
        hosts: Mapping[int, Host],
    ) -> None:
        self._kernel: Kernel = chances.kernel
        self._chances = chances
        self._network = network
        self._hosts = hosts
        self._runs: dict[int, int] = {}
        """How often each machine came up or went down: what was planned before means nothing then."""
        self.options = options
        self.active = True
        """Whether anything false is told."""

    # -- what happens --------------------------------------------------------------------------------------

    def came_up(self, machine: Host) -> None:
        """A process listens: it is connected to, and connects to the others."""
        self._move(machine)
        for peer in self._hosts.values():
            if peer is not machine:
                self._try_later((peer.number, machine.number), RETRY_MIN_US)
                self._try_later((machine.number, peer.number), RETRY_MIN_US)

    def went_down(self, machine: Host) -> None:
        """A process is gone, and its connections with it."""
        self._move(machine)
        options = self.options
        for peer in self._hosts.values():
            if peer is machine:
                continue
            lane = self._chances.lane(f"{machine.number}>{peer.number}", "PeerLost")
            drawn, stated = lane.next(), lane.stated
            missing = below(drawn[0], options.missing)
            late_us = amount(drawn[3], options.late_max_us) if below(drawn[2], options.late) else 0
            if stated is not None:
                missing, late_us = stated.lost, stated.late_us
            delay_us = options.delay_us + amount(drawn[1], options.spread_us)
            if missing:
                lane.note(lane.place, lost=True)
            elif late_us:
                lane.note(lane.place, late_us=late_us)
                self._kernel.after(delay_us + late_us, self._tell_late, (peer.number, machine.number))
            else:
                self._try_later((peer.number, machine.number), RETRY_MIN_US, delay_us)

    def _move(self, machine: Host) -> None:
        self._runs[machine.number] = self._runs.get(machine.number, 0) + 1

    # -- what is told --------------------------------------------------------------------------------------

    def _try_later(self, link: Link, backoff_us: int, delay_us: int = 0) -> None:
        runs = (self._runs.get(link[0], 0), self._runs.get(link[1], 0))
        delay_us = delay_us or self.options.delay_us
        self._kernel.after(delay_us, self._try, (link, runs), backoff_us)

    def _try(self, attempt: tuple[Link, tuple[int, int]], backoff_us: int) -> None:
        link, runs = attempt
        if runs != (self._runs.get(link[0], 0), self._runs.get(link[1], 0)):
            return
        one, other = self._hosts[link[0]], self._hosts[link[1]]
        if not one.up:
            return
        if self._network.joins(*link):
            if other.up:
                one.post(PeerBack(link[1]))
                return
            one.post(PeerLost(link[1]))
        self._try_later(link, min(RETRY_MAX_US, 2 * backoff_us), backoff_us)

    def _tell_late(self, link: Link, second: object) -> None:
        if self.active:
            self.tell(link, PeerLost(link[1]))

    def tell(self, link: Link, event: PeerLost | PeerBack) -> None:
        """Tell somebody something, true or not."""
        self._hosts[link[0]].post(event)

    # -- what is false -------------------------------------------------------------------------------------

    def accuse(self, accused: Host, until_us: int) -> None:
        """Everybody is told again and again that nobody listens there, which is not so."""
        kernel = self._kernel
        over = kernel.now_us >= until_us or not self.active
        for peer in self._hosts.values():
            if peer is not accused:
                event = PeerBack(accused.number) if over and accused.up else PeerLost(accused.number)
                self.tell((peer.number, accused.number), event)
        if not over:
            kernel.after(RETRY_MAX_US // 4, self.accuse, accused, until_us)

    def flap(self, link: Link, until_us: int) -> None:
        """The connections between two nodes are cut and made anew, now and then refused at first; what is on
        its way is lost, and nobody is silent for long.
        """
        kernel, network = self._kernel, self._network
        if kernel.now_us >= until_us or not self.active:
            return
        draws = self._chances.lane(f"{link[0]}>{link[1]}", "flap").draws()
        for one, other in (link, (link[1], link[0])):
            network.block(one, other)
            if draws.random() < 0.5:
                self.tell((one, other), PeerLost(other))
        cut_us = draws.randrange(5, 60) * MILLISECOND
        kernel.after(cut_us, self._join, link, until_us)

    def _join(self, link: Link, until_us: int) -> None:
        for one, other in (link, (link[1], link[0])):
            self._network.unblock(one, other)
            self.tell((one, other), PeerBack(other))
        draws = self._chances.lane(f"{link[0]}>{link[1]}", "joined").draws()
        joined_us = draws.randrange(100, 400) * MILLISECOND
        self._kernel.after(joined_us, self.flap, link, until_us)
