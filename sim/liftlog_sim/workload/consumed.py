"""Somebody who empties all consumers when a world has healed: what is left is delivered, and acked (K6).

Until here clients went away in the midst of their work. Now each consumer that is there is pulled, and acked,
until every message that its filter matches is done, or gone. A message that a consumer has passed, and
that is neither pending nor done, is one that nobody will ever be given: NoneSkipped, end to end.
"""

from __future__ import annotations

import msgspec

from liftlog.messages import (
    ACK,
    ClientMessage,
    ConsumersRequest,
    PullReply,
    PullRequest,
    SettledReply,
    SettleRequest,
)
from liftlog_sim.kernel import MILLISECOND
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.workload import consumer_facts
from liftlog_sim.workload.clients import Clientele, OnReply
from liftlog_sim.workload.consuming import TIMEOUT_US
from liftlog_sim.workload.inspecting import CountedPull, QuietQuestion, leading_of
from liftlog_sim.workload.targets import Target

AGAIN_US = 200 * MILLISECOND
"""After so long who was given nothing asks again."""
MESSAGES, BYTES, WAIT_MS = 100, 1 << 20, 200


class Emptying:
    """Of all consumers of a world that has healed."""

    __slots__ = ("_account", "_asked", "_kernel", "_pins", "_shared", "_told", "_work")

    def __init__(self, shared: Clientele) -> None:
        self._shared = shared
        self._account = shared.account
        self._kernel = shared.cluster.kernel
        self._asked = 0
        self._work: list[tuple[Target, int]] = []
        self._pins: dict[tuple[Target, int], str] = {}
        """With which pin it was given messages last (K10)."""
        self._told: set[Target] = set()
        """Whose leader has told exactly where its consumers stand then."""

    def start(self) -> None:
        """Begin with those that are there."""
        for target in self._shared.targets:
            if target.config.has_journal:
                known = self._account.consumers(target.partition).known()
                self._work += [(target, number) for number, one in known.items() if not one.deleted]
        for target, number in self._work:
            self._pull(target, number)

    def left(self) -> str:
        """What somebody has yet to be given, or told; empty if nothing is. Raises Violation(NoneSkipped)."""
        for target, number in self._work:
            left = self._account.consumers(target.partition).left(number)
            if left:
                return f"consumer {number} of {target.partition} has {len(left)} to give, from {left[0]} on"
        for target, number in self._work:
            if dead := self._account.consumers(target.partition).unburied(number):
                text = f"consumer {number} of {target.partition} has {len(dead)} dead messages to publish"
                return f"{text}: {self._problem(target, number) or 'nobody says why'}"
        untold = [target.name for target, _ in self._work if target not in self._told]
        return f"nobody tells that the consumers of {untold[0]} are empty" if untold else ""

    def _problem(self, target: Target, number: int) -> str:
        """Why its leader has dead messages yet, as far as that knows."""
        leading = leading_of(self._account, target)
        node = self._shared.cluster.machines[leading[1]].node if leading is not None else None
        journal = node.replicas.get(target.partition.journal) if node is not None else None
        roles = journal.roles if journal is not None else None
        consumer = journal.removed.consumers.by_number.get(number) if journal and journal.removed else None
        if roles is None or roles.consumers is None or consumer is None:
            return ""
        return roles.consumers.letters.problem_of(consumer)

    def _pull(self, target: Target, number: int) -> None:
        """Also when nothing is left for now: then it does no harm."""
        leading = leading_of(self._account, target)
        truth = self._account.consumers(target.partition)
        if not truth.left(number) or leading is None:
            self._inspect(target)
            return
        told, ended = self._account.deletions(target.partition).told, truth.ended()
        purged = truth.purged()
        counted = CountedPull(self._account, target)

        def answered(reply: object) -> None:
            if isinstance(reply, PullReply) and reply.runs:
                truth.pulled(number, reply, ended, told, purged)
                counted.judge(reply)
                self._pins[target, number] = reply.pin
                self._ack(target, reply)
                self._pull(target, number)
            else:
                self._pins.pop((target, number), None)
                self._kernel.after(AGAIN_US, self._pull, target, number)

        self._account.count("pulls when all was healed")
        request = PullRequest(target.partition, number, MESSAGES, BYTES, WAIT_MS)
        if (config := truth.known()[number].config).priority:
            pin = self._pins.get((target, number), "")
            request = msgspec.structs.replace(request, group=config.groups[0], pin=pin)
        self._ask(target, leading[1], request, answered)

    def _ack(self, target: Target, given: PullReply) -> None:
        leading = leading_of(self._account, target)
        assert leading is not None
        truth = self._account.consumers(target.partition)
        runs = [(first, length) for first, length, _ in given.runs]
        offsets = [one for first, length in runs for one in range(first, first + length)]
        truth.says(given.consumer, offsets)

        def answered(reply: object) -> None:
            if isinstance(reply, SettledReply):
                truth.settled(given.consumer, offsets, reply.journal)

        request = SettleRequest(target.partition, given.consumer, ACK, runs)
        self._ask(target, leading[1], request, answered)

    def _inspect(self, target: Target) -> None:
        """Nothing is left for a consumer: its leader tells so."""
        leading = leading_of(self._account, target)
        assert leading is not None
        question = QuietQuestion(self._shared.cluster, self._account, target)

        def answered(reply: object) -> None:
            if question.exact(reply):
                self._told.add(target)
            elif target not in self._told:
                self._kernel.after(AGAIN_US, self._inspect_again, target)

        self._ask(target, leading[1], ConsumersRequest(target.partition), answered)

    def _inspect_again(self, target: Target, second: object) -> None:
        self._inspect(target)

    def _ask(self, target: Target, node: int, request: ClientMessage, on_reply: OnReply) -> None:
        self._asked += 1
        operation = consumer_facts.begun(self._shared, target, request)

        def answered(reply: object) -> None:
            consumer_facts.ended(operation, reply, self._kernel.now_us)
            try:
                on_reply(reply)
            except Violation as violation:
                self._account.fail(violation)

        self._shared.hub.request(f"emptying/{self._asked}", node, request, answered, TIMEOUT_US)
