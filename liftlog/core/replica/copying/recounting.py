"""N12: the leader of the activity stream writes what the metadata group has done to the end of its log.

    told       up to this id this leader has written, or the one before it had, and it was trimmed
    committed  up to this id what it has written is committed: so much may leave the metadata

It takes the events from its own copy of the metadata, in the order of their ids, once a tick, when all that
it has written before is committed. A new leader begins behind what is trimmed, whatever its log ends with:
what the one before had committed and not trimmed comes again. What had no room in the metadata is told in
its place.
"""

from __future__ import annotations

import msgspec

from liftlog.core.metadata.activity import missing
from liftlog.core.metadata.commands import UNSENT, TrimActivity
from liftlog.core.metadata.outbox import ActivityEvent, ActivityOutbox
from liftlog.core.replica.publishing.sequencer import sequence
from liftlog.core.replica.state.log import LogState
from liftlog.core.replica.state.role import LeaderState
from liftlog.types import Message

EVENTS_MAX = 512
"""So many events are written at once."""
_EMPTY = ActivityEvent(1, "")
_encode = msgspec.json.Encoder().encode


def body_of(event: ActivityEvent) -> bytes:
    """The event as JSON: its id and kind, and of the rest what is not empty."""
    said = {"id": event.id, "event": event.event}
    for name in event.__struct_fields__[2:]:
        if name != "partitions" and (value := getattr(event, name)) != getattr(_EMPTY, name):
            said[name] = value
    if event.partitions:
        said["partitions"] = [msgspec.structs.asdict(change) for change in event.partitions]
    return _encode(said)


class Recounting:
    """Of one leader of a partition; of a stream that is not the activity stream it does nothing."""

    __slots__ = ("_committed", "_ctx", "_leading", "_log", "_told")

    def __init__(self, log: LogState, leading: LeaderState) -> None:
        self._ctx = log.ctx
        self._log = log
        self._leading = leading
        outbox = log.ctx.metadata.outbox
        self._told = self._committed = outbox.trimmed
        if log.ctx.mutants.activity_goes_on_at_end and outbox.events:
            self._told = outbox.events[-1].id

    @property
    def on(self) -> bool:
        """Whether this is the activity stream's data."""
        log = self._log
        return log.id.stream == self._ctx.metadata.outbox.stream and not log.id.is_journal

    def tick(self) -> bool:
        """Write what has come; have what is committed leave the metadata. Whether there is more here now."""
        ctx, log = self._ctx, self._log
        if not self.on or ctx.fenced or ctx.leaving:
            return False
        outbox = ctx.metadata.outbox
        settled = log.leo <= log.hw
        if settled or ctx.mutants.activity_trimmed_when_appended:
            self._committed = self._told
        if self._committed > outbox.trimmed:
            ctx.want(TrimActivity(UNSENT, log.id.stream, self._committed))
        return settled and self._write(outbox)

    def _write(self, outbox: ActivityOutbox) -> bool:
        ctx, log = self._ctx, self._log
        self._told = max(self._told, outbox.trimmed)
        events = outbox.behind(self._told, EVENTS_MAX)
        if outbox.missed > self._told:
            ctx.mark("N12.loss-told")
            if not ctx.mutants.activity_loss_not_told:
                events = [missing(outbox.missed), *events]
        if not events:
            return False
        name = ctx.metadata.by_id[log.id.stream].config.name
        messages = [
            Message(f"{name}.{event.event}".encode(), b"", b"", body_of(event)) for event in events
        ]
        config = log.config
        log.append(
            sequence(
                partition=log.id,
                base_offset=log.leo,
                epoch=self._leading.epoch,
                timestamp_ms=ctx.wall_ms,
                messages=messages,
                wishes=None,
                batch_max_bytes=ctx.config.batch_max_bytes,
                codec=config.codec if config is not None else "none",
            )
        )
        self._told = events[-1].id
        ctx.mark("N12.told")
        return True
