"""The stream that is being made, in liftlog."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence

from liftlog.client.client import Client
from liftlog.client.errors import RequestFailed
from liftlog.client.reader import EARLIEST, NEW
from liftlog.jetstream.configs import stream_changes
from liftlog.jetstream.errors import JsError
from liftlog.jetstream.streams import refuse_overlap
from liftlog.messages import ERR_NOT_FOUND, MATCHING_SUBJECTS, StreamInfo
from liftlog.messages.intake import name_problem
from liftlog.moving.plan import NOTE_MOVED, NOTE_MOVING, MovePlan, Provenance, provenance_of
from liftlog.types import LiftlogError, Record, StreamConfig

DELETED_AT_ONCE = 16


class MoveTarget:
    """The target of this name. `info` is None until it is there."""

    def __init__(self, client: Client, name: str) -> None:
        self.client = client
        self.name = name
        self.info: StreamInfo | None = None

    @property
    def stream(self) -> StreamInfo:
        if self.info is None:
            raise LiftlogError(f"stream '{self.name}' was not made yet")
        return self.info

    async def look(self) -> Provenance | None:
        """Whose copy is there, half made; None: there is no such stream. Raises LiftlogError for any other
        stream of this name.
        """
        problem = name_problem(self.name)
        if problem:
            raise LiftlogError(f"{problem}: choose another one for it here with --as NAME")
        try:
            info = await self.client.stream(self.name)
        except RequestFailed as error:
            if error.code != ERR_NOT_FOUND:
                raise
            return None
        there = provenance_of(info.config, NOTE_MOVING)
        if there is None:
            moved = provenance_of(info.config, NOTE_MOVED)
            if moved is not None:
                text = f"stream '{self.name}' is ready: it was moved from '{moved.stream}' before"
                raise LiftlogError(text)
            text = f"stream '{self.name}' is there already, and is no copy of another one"
            raise LiftlogError(f"{text}: choose another name with --as NAME")
        self.info = info
        return there

    async def prepare(self, plan: MovePlan) -> None:
        """Have it as it is while it is copied: made, or altered if the origin was meanwhile."""
        others = [info for info in await self.client.streams() if info.config.name != self.name]
        try:
            refuse_overlap(others, plan.ready)
        except JsError as error:
            raise LiftlogError(f"'{self.name}' cannot be made: {error.description} of this cluster") from None
        if self.info is None:
            self.info = await self.client.create_stream(plan.staged)
        else:
            await self.alter(plan.staged)

    async def finish(self, plan: MovePlan) -> None:
        """Have it as it is to be. An attempt without an answer may have done it."""
        info = await self.client.stream(self.name)
        if provenance_of(info.config, NOTE_MOVED) == plan.provenance:
            self.info = info
        else:
            await self.alter(plan.ready)

    async def refresh(self) -> None:
        """See it as it is now. Raises LiftlogError if it is not the half made copy any more."""
        try:
            found = await self.client.stream(self.name)
        except RequestFailed as error:
            if error.code != ERR_NOT_FOUND:
                raise
            raise self._removed() from None
        if found.id != self.stream.id:
            raise self._removed()
        if provenance_of(found.config, NOTE_MOVING) is None:
            raise LiftlogError(f"'{self.name}' is ready: another command has opened it meanwhile")
        self.info = found

    def _removed(self) -> LiftlogError:
        text = f"'{self.name}' was removed while it was being made"
        return LiftlogError(f"{text}: start it again to begin anew")

    async def alter(self, wanted: StreamConfig) -> None:
        """Have the half made copy with this configuration."""
        await self.refresh()
        try:
            changes = stream_changes(self.stream.config, wanted)
        except JsError as error:
            raise LiftlogError(
                f"stream '{self.name}' was begun as it cannot be now: {error.description}; delete it, and "
                "begin anew"
            ) from None
        if changes.named:
            await self.client.alter_stream(self.name, changes)
            self.info = await self.client.stream(self.name)

    async def end(self) -> int:
        """The offset that comes next."""
        try:
            return await self.client.reader(self.stream, 0).offset(NEW)
        except RequestFailed as error:
            if error.code != ERR_NOT_FOUND:
                raise
            raise self._removed() from None

    async def records(self, offset: int, until: int) -> AsyncGenerator[Record, None]:
        """What is there of these offsets, in order."""
        reader = self.client.reader(self.stream, 0)
        offset = max(offset, await reader.offset(EARLIEST))
        while offset < until:
            for record in await reader.fetch(offset):
                if record.offset < until:
                    yield record
            offset = reader.position

    async def drop_fillers(self, plan: MovePlan, until: int) -> None:
        """Delete the fillers below this offset."""
        while await self.client.purge_subjects(self.name, 0, plan.packet_subject, 0, until):
            pass

    async def delete(self, offsets: Sequence[int]) -> None:
        """Delete these messages."""
        for begin in range(0, len(offsets), DELETED_AT_ONCE):
            some = offsets[begin : begin + DELETED_AT_ONCE]
            await asyncio.gather(*(self.client.delete(self.name, 0, offset) for offset in some))

    async def messages(self) -> int:
        """How many are there now."""
        reader = self.client.reader(self.stream, 0)
        return (await reader.ask_subjects(MATCHING_SUBJECTS, ">", limit=1)).messages
