"""Registers in an internal stream: each subject is one, replaced only by who has seen its value (L9).

The stream is compacted, and the key of each message is its subject, so that the last value stays and the
rest goes. It is made when it is first written to. An answer that is lost is no loss: the same write, sent
again, is refused if the first one was stored, and what is read then says whose it is. So each value says who
wrote it, and which one of the writer's it is.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol

from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.publisher import PublishResult, expecting_last
from liftlog.client.reading import PartitionRecord
from liftlog.client.streams import key_headers
from liftlog.groups.streams import INTERNAL, register_stream
from liftlog.messages import ERR_EXISTS, ERR_NOT_FOUND, StreamInfo, intake
from liftlog.types import NO_OFFSET, LiftlogError, StreamConfig

ATTEMPT_MS = 3000
RETRY_S = 0.1


class Register(NamedTuple):
    """A value, None if there is none, and its version: the offset of its message, -1 if there is none."""

    value: bytes | None
    version: int


class Replaced(NamedTuple):
    """What became of a write: the register as it was seen last, and whether that is what was written."""

    register: Register
    mine: bool


class RegisterOwner(Protocol):
    """What registers are kept with: the client."""

    timeout_ms: int

    async def stream(self, name: str, timeout_ms: int = 0) -> StreamInfo: ...

    async def create_stream(self, config: StreamConfig, timeout_ms: int = 0) -> StreamInfo: ...

    async def last(
        self, stream: str | StreamInfo, subject: str, *, timeout_ms: int = 0
    ) -> PartitionRecord | None: ...

    async def subjects(
        self,
        stream: str | StreamInfo,
        filter: str = ">",
        partition: int | None = None,
        *,
        timeout_ms: int = 0,
    ) -> dict[bytes, int]: ...

    async def _send(
        self, what: tuple[str, bytes, dict[str, str]], time_ms: int, ack: str
    ) -> PublishResult: ...


class Registers:
    """The registers of one internal stream. All calls raise RequestFailed, Unreachable, LiftlogError."""

    def __init__(self, client: RegisterOwner, name: str) -> None:
        self._client = client
        self._name = name
        self._stream: StreamInfo | None = None

    def _subject(self, key: str) -> str:
        return f"{self._name}.{key}"

    async def _found(self) -> StreamInfo | None:
        """The stream, if it is there."""
        if self._stream is None:
            try:
                self._stream = await self._client.stream(self._name)
            except RequestFailed as error:
                if error.code != ERR_NOT_FOUND:
                    raise
        if self._stream is not None and not self._stream.config.compact:
            raise LiftlogError(
                f"stream '{self._name}' is not one that liftlog has made, since it is not compacted: names "
                f"with '{INTERNAL}' in front are for its own; remove it with: liftlog stream rm {self._name}"
            )
        return self._stream

    async def _made(self) -> StreamInfo:
        """The stream, which is made if it is not there: of the cluster's default number of copies."""
        found = await self._found()
        if found is None:
            try:
                found = self._stream = await self._client.create_stream(register_stream(self._name))
            except RequestFailed as error:
                if error.code != ERR_EXISTS:
                    raise
                found = self._stream = await self._client.stream(self._name)
        return found

    async def get(self, key: str) -> Register:
        """As it is now: everything that was answered before is in it (S1)."""
        stream = await self._found()
        if stream is None:
            return Register(None, NO_OFFSET)
        found = await self._client.last(stream, self._subject(key))
        return (
            Register(None, NO_OFFSET) if found is None else Register(found.record.value, found.record.offset)
        )

    async def keys(self, pattern: str = ">") -> list[str]:
        """Of the registers that have a value, or had one not long ago."""
        stream = await self._found()
        if stream is None:
            return []
        found = await self._client.subjects(stream, self._subject(pattern))
        return sorted(subject.decode()[len(self._name) + 1 :] for subject in found)

    async def put(self, key: str, value: bytes | None, version: int) -> Replaced:
        """Replace what has this version; None: remove it. Whoever was faster, or overtook this write, is seen
        in the answer. `value` must be one that nobody has written before.
        """
        await self._made()
        subject = self._subject(key)
        headers = {**key_headers(subject, value is None), **expecting_last(version)}
        loop = asyncio.get_running_loop()
        until = loop.time() + self._client.timeout_ms / 1000
        sent = 0
        while True:
            result = await self._client._send((subject, value or b"", headers), ATTEMPT_MS, "all")
            sent += 1
            if result.outcome == "ok":
                return Replaced(Register(value, result.offset), True)
            if result.last_offset is not None:
                now = await self.get(key)
                # One that has no value says of nobody who removed it: if it is not the first attempt, we may.
                mine = now.value == value and (value is not None or sent > 1) and now.version != version
                return Replaced(now, mine)
            if loop.time() + RETRY_S > until:
                raise Unreachable(
                    f"{subject}: whether it was written is unknown: {result.error}; see 'liftlog stream info "
                    f"{self._name}'"
                )
            await asyncio.sleep(RETRY_S)


def checked_name(what: str, name: str) -> str:
    """A name that can be one token of a subject. Raises LiftlogError."""
    if intake.name_problem(name):
        raise LiftlogError(f"{what} {name!r} is invalid: use 1 to 64 letters, digits, '_' or '-'")
    return name
