"""Commands on their way to the metadata group (M3).

Whoever wants a change of the cluster's state says so here. The command is sent to the controller, again and
again, until this node sees it applied; the request id makes the repetition harmless. Since every node applies
every command, nobody has to answer: the outcome is read off this node's own copy of the metadata.

Two kinds of commands differ in who would miss them:

*Wishes* are this node's own (`want`). They follow from its state, so whoever has one says it anew on every
tick, for as long as the state demands it. There may be no room now: then it goes when there is. Its index
bound may pass before it reaches the log: then it goes again, under a new one. What is not said any more is
obsolete, and is not repeated. So nothing that must reach the group is ever dropped for good (L3).

*Requests* are clients' (`submit`). There may be no room: then the client is told. They are repeated until
they are applied, until the client waits no more (`withdraw`), or until their bound has passed: then they have
certainly not been carried out, and never will be.

Bounded: at most `raft_inflight_proposals_max` commands of each kind are on their way; wishes that wait for
room are as many as there are partitions and nodes to have them.
"""

from __future__ import annotations

import msgspec

from liftlog.core.context import Context
from liftlog.core.metadata.commands import (
    CONTROLLERS,
    UNSENT,
    Command,
    LeaderReady,
    ReplicaFailed,
    RequestId,
    decode_command,
    encode_command,
)
from liftlog.core.metadata.levels import is_above
from liftlog.core.metadata.records import LATE, CommandResult
from liftlog.core.raft.raft import Raft
from liftlog.messages import Forward, Send
from liftlog.types import NO_NODE, invariant

REPEAT_TICKS = 5
"""A command is sent again after so many ticks; a wish that was applied in vain is proposed again then."""
REPEAT_MAX_TICKS = 20
"""The pause doubles up to this, as long as the same controller is asked: one that has thousands of commands
to take in is not to get each of them over and over."""


class Sending:
    """A command on its way: sent again until it is applied."""

    __slots__ = ("_age_ticks", "_asked", "_pause_ticks", "data", "request")

    def __init__(self, command: Command) -> None:
        self.request = command.request
        self.data = encode_command(command)
        self._age_ticks = 0
        self._pause_ticks = REPEAT_TICKS
        self._asked = NO_NODE

    def sent(self, controller: int) -> None:
        """It has gone to this one; NO_NODE: there is none, and it goes on the next tick."""
        again = controller == self._asked and controller != NO_NODE
        self._pause_ticks = min(2 * self._pause_ticks, REPEAT_MAX_TICKS) if again else REPEAT_TICKS
        self._asked = controller
        self._age_ticks = 0 if controller != NO_NODE else REPEAT_TICKS - 1

    def is_due(self, controller: int) -> bool:
        """Once per tick: whether it is to be sent again; to another controller than before sooner."""
        self._age_ticks += 1
        same = controller == self._asked
        return self._age_ticks >= (self._pause_ticks if same else REPEAT_TICKS)


class Wish:
    """`sending` None: not on its way, for want of room or since it was applied `pause_ticks` to go ago."""

    __slots__ = ("command", "dropped", "pause_ticks", "renewed", "sending")

    def __init__(self, command: Command) -> None:
        self.command = command
        self.sending: Sending | None = None
        self.renewed = True
        self.pause_ticks = 0
        self.dropped = False

    def renew(self) -> None:
        """Somebody says it again."""
        self.renewed = True

    def is_wanted(self) -> bool:
        """Once per tick: whether it was said again since the last one."""
        renewed, self.renewed = self.renewed, False
        return renewed

    def go(self, sending: Sending) -> None:
        self.sending = sending

    def stop(self, pause_ticks: int = 0) -> None:
        """It is on its way no more: applied, or its bound has passed."""
        self.sending = None
        self.pause_ticks = pause_ticks

    def wait(self) -> None:
        """A tick of its pause is over."""
        self.pause_ticks -= 1

    def drop(self) -> None:
        """The mutant of L3: never to be sent."""
        self.dropped = True


class Proposals:
    """The commands that this node waits for, and as controller those of others that are in its log."""

    __slots__ = ("_crowded", "ctx", "in_log", "raft", "requests", "term", "under_way", "wishes")

    def __init__(self, ctx: Context, raft: Raft) -> None:
        self.ctx = ctx
        self.raft = raft
        self.requests: dict[RequestId, Sending] = {}
        self.wishes: dict[bytes, Wish] = {}
        """By what they say, without the request id."""
        self.under_way: dict[RequestId, Wish] = {}
        self.in_log: dict[RequestId, int] = {}
        self.term = 0
        self._crowded = False

    # -- what this node wants ---------------------------------------------------------------------

    def want(self, command: Command) -> RequestId | None:
        """Say that this node wants `command` (its request id UNSENT). None if it is not on its way yet.

        To be said again on every tick of the node while it is so.
        """
        invariant(command.request == UNSENT, "a wish gets its request id when it is sent")
        key = encode_command(command)
        wish = self.wishes.get(key)
        if wish is None:
            wish = self.wishes[key] = Wish(command)
        wish.renew()
        if wish.sending is None and wish.pause_ticks <= 0:
            self._propose(wish)
        return wish.sending.request if wish.sending is not None else None

    def _propose(self, wish: Wish) -> None:
        if len(self.under_way) >= self.ctx.config.raft_inflight_proposals_max:
            self.ctx.mark("L3.proposals-full")
            self._crowded = True
            dropped = isinstance(wish.command, LeaderReady | ReplicaFailed)
            if dropped and self.ctx.mutants.proposals_dropped_when_full:
                wish.drop()
            return
        if wish.dropped or (isinstance(wish.command, CONTROLLERS) and not self.raft.is_leader):
            return
        if is_above(wish.command, self.ctx.metadata.level):
            # U2: it is one for later.
            return
        sending = Sending(msgspec.structs.replace(wish.command, request=self.ctx.new_request()))
        wish.go(sending)
        self.under_way[sending.request] = wish
        self._send(sending)

    def _use_room(self) -> None:
        """Wishes under way were applied: those that waited for room go now."""
        self._crowded = False
        for wish in self.wishes.values():
            if wish.sending is None and wish.pause_ticks <= 0:
                self._propose(wish)
                if self._crowded:
                    return

    # -- what clients want ------------------------------------------------------------------------

    def submit(self, command: Command) -> bool:
        """Propose a client's command. False if too many are on their way already (L3)."""
        if len(self.requests) >= self.ctx.config.raft_inflight_proposals_max:
            self.ctx.mark("L3.requests-full")
            return False
        sending = self.requests[command.request] = Sending(command)
        self._send(sending)
        return True

    def withdraw(self, request: RequestId) -> None:
        """Nobody waits for it any more: stop repeating it. What is in the network or in a log may be applied
        all the same, up to its bound.
        """
        if self.requests.pop(request, None) is not None:
            self.ctx.mark("M3.withdrawn")

    def settled(self, request: RequestId) -> None:
        """What became of it is known: stop repeating it."""
        self.requests.pop(request, None)

    # -- the way there ----------------------------------------------------------------------------

    def _send(self, sending: Sending) -> None:
        """Where nobody leads, it is sent again on the next tick."""
        leader = self.raft.leader
        if self.raft.is_leader:
            self.on_forward(sending.data)
        elif leader:
            self.ctx.effects.append(Send(leader, Forward(sending.data)))
        sending.sent(leader)

    def on_forward(self, data: bytes) -> None:
        """As controller: put a command into the log, once a term."""
        if not self.raft.is_leader:
            return
        if self.raft.term != self.term:
            self.term = self.raft.term
            self.in_log.clear()
        command = decode_command(data)
        if is_above(command, self.ctx.metadata.level):
            self.ctx.mark("U2.not-written")
            return
        request = command.request
        if request in self.in_log or request in self.ctx.metadata.results:
            self.ctx.mark("M3.repeat")
            return
        index = self.raft.propose(data)
        if index is not None:
            self.in_log[request] = index

    def applied(self, command: Command, result: CommandResult) -> None:
        request = command.request
        self.requests.pop(request, None)
        self.in_log.pop(request, None)
        wish = self.under_way.pop(request, None)
        if wish is not None:
            wish.stop(0 if result is LATE else REPEAT_TICKS)
        if self._crowded:
            self._use_room()

    def jumped(self) -> None:
        """M1q: a snapshot was installed. What became of commands that were applied on the way is remembered
        until their bound has passed; a wish whose bound has passed is said anew, if it is still one.
        """
        results = self.ctx.metadata.results
        for request, wish in list(self.under_way.items()):
            result = results.get(request)
            if result is not None:
                del self.under_way[request]
                wish.stop(0 if result is LATE else REPEAT_TICKS)

    def tick(self) -> None:
        """After everybody has said what they want: forget what nobody wants, repeat what is not applied."""
        index, controller = self.ctx.metadata.applied, self.raft.leader
        for key, wish in list(self.wishes.items()):
            sending = wish.sending
            if not wish.is_wanted():
                del self.wishes[key]
                if sending is not None:
                    del self.under_way[sending.request]
            elif sending is None:
                wish.wait()
            elif index >= sending.request.until:
                self.ctx.mark("M3.outlived")
                del self.under_way[sending.request]
                wish.stop()
            elif sending.is_due(controller):
                self._send(sending)
        for sending in self.requests.values():
            if sending.is_due(controller):
                self._send(sending)
