"""Purges that a leader has been asked for (C3).

A purge is done when the new log start is durable on every member of the *maximal* ISR and the committed ISR
is at its minimum: then whoever can be elected has it, and it never goes back. A replica joins only with the
leader's log start (R10). To ask again is harmless, so that a purge whose leader has gone is an error to
retry.
"""

from __future__ import annotations

from liftlog.core.replica.copying.sourcing import front_max
from liftlog.core.replica.state.forbidding import not_purged
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.messages import (
    ERR_INVALID,
    ERR_NOT_LEADER,
    ERR_NOT_READY,
    ERR_OFFSET_RANGE,
    ERR_OVERLOAD,
    ERR_TIMEOUT,
    ClientReply,
    DoneReply,
    ErrorReply,
    PurgeRequest,
    ReplyClient,
)
from liftlog.types import ClientRef

PURGES_MAX = 64


class Purge:
    __slots__ = ("before", "client", "ticks_left")

    def __init__(self, client: ClientRef, before: int, ticks_left: int) -> None:
        self.client = client
        self.before = before
        self.ticks_left = ticks_left

    def expires(self) -> bool:
        """A tick has passed. Whether it was the last that this purge waits."""
        self.ticks_left -= 1
        return self.ticks_left <= 0


class Purges:
    """The purges of one leadership that are not done yet. Bounded by `PURGES_MAX`."""

    __slots__ = ("ctx", "leading", "log", "waiting")

    def __init__(self, log: LogState, leading: LeaderState) -> None:
        self.log = log
        self.leading = leading
        self.ctx = log.ctx
        self.waiting: list[Purge] = []

    def ask(self, client: ClientRef, request: PurgeRequest) -> None:
        log, before = self.log, request.before
        denied = not_purged(log.config)
        if denied is not None:
            self._reply(client, denied)
        elif before < 0:
            self._fail(client, ERR_INVALID, f"offset {before} is negative", False)
        elif self.ctx.fenced:
            self._fail(client, ERR_NOT_READY, "this leader has no contact to the cluster; try again", True)
        elif not self.ctx.decides(("C3.purge-above-hw", before <= log.hw)):
            text = f"offset {before} lies above {log.hw}, the end of what is committed; purge up to that"
            self._fail(client, ERR_OFFSET_RANGE, text, False)
        elif not self.ctx.decides(("L7.purge", not self._takes_needed(before))):
            self._fail(client, ERR_OFFSET_RANGE, self._ids_needed(), False)
        elif before == log.hw and before > front_max(log):
            text = (
                f"offset {before - 1} is that of the last message, which says how far the sources are copied "
                f"and stays: purge up to {before - 1}"
            )
            self.ctx.mark("R29.purge")
            self._fail(client, ERR_OFFSET_RANGE, text, False)
        elif len(self.waiting) >= PURGES_MAX:
            self._fail(client, ERR_OVERLOAD, "too many purges wait here; try again", True)
        else:
            ticks = self.ctx.ticks_of(self.ctx.config.request_timeout_ms)
            self.waiting.append(Purge(client, before, ticks))
            log.want_start(before)

    def _takes_needed(self, before: int) -> bool:
        """L7, L2: whether there would be gone what a later leader may have to know."""
        needed_from = self.leading.needed_from
        return needed_from is not None and before > needed_from

    def _ids_needed(self) -> str:
        config = self.log.config
        name = config.name if config is not None else ""
        return (
            f"message ids, or producers, from offset {self.leading.needed_from} on may still be needed: "
            "purge up to there, or later, or let the stream remember none: "
            f"liftlog stream alter {name} --dedupe-window 0"
        )

    def check(self) -> None:
        """A log start, or the ISR, has moved, or something was asked for: answer what is done."""
        if not self.waiting:
            return
        record = self.leading.record
        if len(record.isr) < record.min_insync:
            return
        reached = self.leading.least_log_start(self.log.log_start)
        still = []
        for purge in self.waiting:
            if purge.before <= reached:
                self.ctx.mark("C3.purged")
                self._reply(purge.client, DoneReply(f"the log begins at or above {purge.before}"))
            else:
                if purge.before <= self.log.log_start:
                    self.ctx.mark("C3.purge-waits")
                still.append(purge)
        self.waiting = still

    def tick(self) -> None:
        waiting, self.waiting = self.waiting, []
        for purge in waiting:
            if not purge.expires():
                self.waiting.append(purge)
                self.log.want_start(purge.before)
            else:
                text = "not every replica in sync has purged yet; it goes on, ask again"
                self._fail(purge.client, ERR_TIMEOUT, text, True)

    def stop(self) -> None:
        """Another leader follows; what was purged here may not have reached it."""
        waiting, self.waiting = self.waiting, []
        for purge in waiting:
            self._fail(purge.client, ERR_NOT_LEADER, "the leader has changed; ask again", True)

    def forget(self, client: ClientRef) -> None:
        """The client's connection is gone; the purge goes on."""
        self.waiting = [purge for purge in self.waiting if purge.client != client]

    def _fail(self, client: ClientRef, code: str, text: str, retryable: bool) -> None:
        self._reply(client, ErrorReply(code, text, retryable))

    def _reply(self, client: ClientRef, reply: ClientReply) -> None:
        self.ctx.effects.append(ReplyClient(client, reply))
