"""Linearizable answers: a client waits for a read-index round that began after its request arrived (R3, M1j).

Requests that arrive while a round is under way share the next one.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.core.context import Context
from liftlog.core.raft.raft import Raft
from liftlog.core.waiting import Clients, Waiting
from liftlog.messages import ERR_TIMEOUT, ErrorReply
from liftlog.types import ClientRef

Answer = Callable[[Waiting], None]
"""Answers the client, or lets it go on to another place."""


class Barrier:
    """A place for clients (`WaitingPlace`)."""

    __slots__ = ("_clients", "_ctx", "_index", "_number", "_queued", "_raft", "_round")

    def __init__(self, ctx: Context, raft: Raft, clients: Clients) -> None:
        self._ctx = ctx
        self._raft = raft
        self._clients = clients
        self._queued: dict[Waiting, Answer] = {}
        self._round: dict[Waiting, Answer] = {}
        self._index: int | None = None
        """What has to be applied before the round's clients are answered; None: not known yet."""
        self._number = 0
        """The read that the round waits for; what an earlier one found out is older than these requests."""

    def after(self, client: ClientRef, answer: Answer, wait_ms: int = 0) -> None:
        """`wait_ms`: how long to wait for the round; 0 = as long as for any request."""
        ticks = self._ctx.ticks_of(wait_ms or self._ctx.config.request_timeout_ms)
        waiting = self._clients.enter(client, self, ticks)
        if waiting is not None:
            self._queued[waiting] = answer
            self._start_round()

    def _start_round(self) -> None:
        if self._round or not self._queued:
            return
        self._round, self._queued = self._queued, {}
        self._index = None
        self._number += 1
        self._raft.read(self._number)

    def ready(self, number: int, index: int) -> None:
        if number != self._number:
            self._ctx.mark("R3.earlier-round")
        else:
            self._index = index

    def failed(self, number: int) -> None:
        """The round could not be finished; those who wait try again at the next tick while they have time."""
        if number == self._number:
            self._queued = {**self._round, **self._queued}
            self._round = {}

    def advance(self) -> None:
        """Answer what the applied metadata now allows."""
        ctx = self._ctx
        if self._index is None:
            return
        if ctx.metadata.applied < self._index and not ctx.mutants.metadata_read_before_applied:
            return
        ready, self._round = self._round, {}
        self._index = None
        for waiting, answer in ready.items():
            answer(waiting)
        self._start_round()

    def tick(self) -> None:
        self._start_round()

    # -- a place ----------------------------------------------------------------------------------

    def left(self, waiting: Waiting) -> None:
        self._queued.pop(waiting, None)
        self._round.pop(waiting, None)

    def late(self, waiting: Waiting) -> ErrorReply:
        text = "the metadata group did not confirm in time: nothing was done; try again"
        return ErrorReply(ERR_TIMEOUT, text, True)
