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

from liftlog.core.commands import (
    CONTROLLERS,
    UNSENT,
    Command,
    LeaderReady,
    ReplicaFailed,
    RequestId,
    decode_command,
    encode_command,
)
from liftlog.core.context import Context
from liftlog.core.raft import Raft
from liftlog.core.records import LATE, Result
from liftlog.messages import Forward, Send
from liftlog.types import invariant

REPEAT_TICKS = 5
"""A command is sent again after so many ticks; a wish that was applied in vain is proposed again then."""


class Request:
    """A client's command."""

    __slots__ = ("age_ticks", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.age_ticks = 0


class Wish:
    """`request` None: not on its way, for want of room or since it was applied `pause_ticks` to go ago."""

    __slots__ = ("age_ticks", "command", "data", "dropped", "pause_ticks", "renewed", "request")

    def __init__(self, command: Command) -> None:
        self.command = command
        self.request: RequestId | None = None
        self.data = b""
        self.renewed = True
        self.age_ticks = 0
        self.pause_ticks = 0
        self.dropped = False


class Proposals:
    """The commands that this node waits for, and as controller those of others that are in its log."""

    __slots__ = ("_crowded", "ctx", "in_log", "raft", "requests", "term", "under_way", "wishes")

    def __init__(self, ctx: Context, raft: Raft) -> None:
        self.ctx = ctx
        self.raft = raft
        self.requests: dict[RequestId, Request] = {}
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
        wish.renewed = True
        if wish.request is None and wish.pause_ticks <= 0:
            self._propose(wish)
        return wish.request

    def _propose(self, wish: Wish) -> None:
        if len(self.under_way) >= self.ctx.config.raft_inflight_proposals_max:
            self.ctx.mark("L3.proposals-full")
            self._crowded = True
            if self.ctx.mutants.proposals_dropped_when_full:
                wish.dropped = isinstance(wish.command, LeaderReady | ReplicaFailed)
            return
        if wish.dropped or (isinstance(wish.command, CONTROLLERS) and not self.raft.is_leader):
            return
        wish.request = self.ctx.new_request()
        wish.data = encode_command(msgspec.structs.replace(wish.command, request=wish.request))
        self.under_way[wish.request] = wish
        wish.age_ticks = self._send(wish.data)

    def _use_room(self) -> None:
        """Wishes under way were applied: those that waited for room go now."""
        self._crowded = False
        for wish in self.wishes.values():
            if wish.request is None and wish.pause_ticks <= 0:
                self._propose(wish)
                if self._crowded:
                    return

    # -- what clients want ------------------------------------------------------------------------

    def submit(self, command: Command) -> bool:
        """Propose a client's command. False if too many are on their way already (L3)."""
        if len(self.requests) >= self.ctx.config.raft_inflight_proposals_max:
            self.ctx.mark("L3.requests-full")
            return False
        request = self.requests[command.request] = Request(encode_command(command))
        request.age_ticks = self._send(request.data)
        return True

    def withdraw(self, request: RequestId) -> None:
        """Nobody waits for it any more: stop repeating it. What is in the network or in a log may be applied
        all the same, up to its bound.
        """
        if self.requests.pop(request, None) is not None:
            self.ctx.mark("M3.withdrawn")

    # -- the way there ----------------------------------------------------------------------------

    def _send(self, data: bytes) -> int:
        """Returns the age with which it goes on: where nobody leads, it is sent again on the next tick."""
        if self.raft.is_leader:
            self.on_forward(data)
        elif self.raft.leader:
            self.ctx.effects.append(Send(self.raft.leader, Forward(data)))
        else:
            return REPEAT_TICKS - 1
        return 0

    def on_forward(self, data: bytes) -> None:
        """As controller: put a command into the log, once a term."""
        if not self.raft.is_leader:
            return
        if self.raft.term != self.term:
            self.term = self.raft.term
            self.in_log.clear()
        request = decode_command(data).request
        if request in self.in_log or request in self.ctx.metadata.results:
            self.ctx.mark("M3.repeat")
            return
        index = self.raft.propose(data)
        if index is not None:
            self.in_log[request] = index

    def applied(self, command: Command, result: Result) -> None:
        request = command.request
        self.requests.pop(request, None)
        self.in_log.pop(request, None)
        wish = self.under_way.pop(request, None)
        if wish is not None:
            wish.request = None
            wish.pause_ticks = 0 if result is LATE else REPEAT_TICKS
        if self._crowded:
            self._use_room()

    def tick(self) -> None:
        """After everybody has said what they want: forget what nobody wants, repeat what is not applied."""
        index = self.ctx.metadata.applied
        for key, wish in list(self.wishes.items()):
            if not wish.renewed:
                del self.wishes[key]
                if wish.request is not None:
                    del self.under_way[wish.request]
                continue
            wish.renewed = False
            if wish.request is None:
                wish.pause_ticks -= 1
            elif index >= wish.request.until:
                self.ctx.mark("M3.outlived")
                del self.under_way[wish.request]
                wish.request = None
            else:
                wish.age_ticks += 1
                if wish.age_ticks >= REPEAT_TICKS:
                    wish.age_ticks = self._send(wish.data)
        for request in self.requests.values():
            request.age_ticks += 1
            if request.age_ticks >= REPEAT_TICKS:
                request.age_ticks = self._send(request.data)
