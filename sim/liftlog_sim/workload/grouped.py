"""Clients of consumers with priority groups (K10): they pull with minima, numbers, and the pins that they
were given, and go on with a pull in slices, as JetStream's door does.

What becomes of messages is said as by all clients of consumers; whom they are given to is judged by
`truth/pins.py`.
"""

from __future__ import annotations

import msgspec

from liftlog.messages import (
    BY_NUMBER,
    BY_OVERFLOW,
    BY_PIN,
    ERR_PIN_LOST,
    ERR_PIN_OTHER,
    ConsumerConfig,
    ErrorReply,
    PullReply,
    PullRequest,
)
from liftlog_sim.chance.draws import Draws
from liftlog_sim.truth.pins import LeaderTime
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.consuming import GROUPED, ConsumingClient
from liftlog_sim.workload.inspecting import leading_of
from liftlog_sim.workload.targets import Target

BEGINS_SHARE = 0.25
"""How often it begins a pull, when it does not go on with one."""
PINNED_BEGINS_SHARE = 0.08
"""Of those that may hold a pin so few, or hardly any pin would end while somebody asks with it."""
FORGETS_SHARE = 0.1
"""How often somebody does not name the pin that it has."""


class GroupedClient(ConsumingClient):
    """One of them."""

    __slots__ = ("_pins",)

    def __init__(self, shared: Clientele, number: int) -> None:
        super().__init__(shared, number)
        self._pins: dict[tuple[Target, int], str] = {}
        """What it was given last, by the consumer's number."""

    def called(self, number: int) -> str:
        return f"grouped/{number}"

    def names(self, target: Target) -> tuple[str, ...]:
        return () if target.config.goes_when_done else tuple(GROUPED)

    def _config(self, target: Target, number: int) -> ConsumerConfig:
        known = self._account.consumers(target.partition).known().get(number)
        return known.config if known is not None else ConsumerConfig()

    def wishes(self, target: Target, request: PullRequest, draws: Draws, had: int) -> PullRequest:
        config, own = self._config(target, request.consumer), draws.part("grouped")
        if not config.priority:
            return request
        share = PINNED_BEGINS_SHARE if config.priority == BY_PIN else BEGINS_SHARE
        begins = not had and own.random() < share
        wanted: dict[str, object] = {"group": own.choice(config.groups), "begins": begins}
        if config.priority == BY_OVERFLOW:
            wanted |= {"min_pending": own.choice((0, 1, 2, 4)), "min_ack_pending": own.choice((0, 0, 0, 3))}
        elif config.priority == BY_NUMBER:
            wanted["priority"] = own.randrange(10)
        elif had or own.random() >= FORGETS_SHARE:
            wanted["pin"] = self._pins.get((target, request.consumer), "")
        request = msgspec.structs.replace(request, **wanted)
        self._account.pins(target.partition).asks(request)
        return request

    def heard(
        self, target: Target, request: PullRequest, reply: object, sent: tuple[int, int]
    ) -> bool:
        config, named = self._config(target, request.consumer), (target, request.consumer)
        epoch = reply.epoch if isinstance(reply, PullReply) else 0
        # Ticks of one leader are compared, which leads from the one to the other.
        ticks = [at if leading == epoch else None for leading, at in (sent, self.time(target))]
        # For so many a pin holds.
        lasts = -(-config.pin_ms // self._cluster.knobs.tick_ms)
        time = LeaderTime(ticks[0], ticks[1], lasts)
        self._account.pins(target.partition).answered(request, config, reply, time)
        if isinstance(reply, PullReply) and reply.pin:
            self._pins[named] = reply.pin
        elif isinstance(reply, ErrorReply) and reply.code in (ERR_PIN_LOST, ERR_PIN_OTHER):
            self._account.count(f"pulls told {reply.code}")
            self._pins.pop(named, None)
        empty = isinstance(reply, PullReply) and not reply.runs
        return empty and config.priority == BY_PIN and bool(request.pin)

    def time(self, target: Target) -> tuple[int, int]:
        leading = leading_of(self._account, target)
        node = self._cluster.machines[leading[1]].node if leading is not None else None
        return (leading[0], node.ctx.ticks) if leading is not None and node is not None else (-1, 0)
