"""Who the clients of a node are, and what they may ask: the rights in force, read anew when asked to.

A connection is known by the secret that was proved on it. What that secret may do is looked up again whenever
the rights are read anew, so that a client that has lost one is refused from its next request on, and one
whose secret is gone is hung up on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

import msgspec
import trio

from liftlog.eventlog import say
from liftlog.messages import ClientMessage, ClusterStatusReply, ErrorReply, StreamInfoReply
from liftlog.messages.rightstold import CLIENTS, DIGEST, MISTAKEN, NAMED, READ_AGAIN, REFUSALS
from liftlog.real.rarelog import RareLog
from liftlog.rights.book import RightsBook, shown_digest
from liftlog.rights.client import ClientRights
from liftlog.rights.needs import KnownStreams, refusal
from liftlog.types import LiftlogError, PartitionId

log = logging.getLogger("liftlog.network")


class Gate:
    """V9: the rights of a node's clients. All methods belong to the trio thread."""

    def __init__(
        self,
        book: RightsBook,
        streams: Callable[[], KnownStreams],
        read: Callable[[], RightsBook] | None = None,
    ) -> None:
        """`streams`: the metadata, as they are now. `read`: reads the files again, in a thread; raises
        LiftlogError.
        """
        self.book = book
        self._streams = streams
        self._read = read
        self._asked = trio.Event()
        self._changed: Callable[[], None] = lambda: None
        self._rare = RareLog(log)
        self._counters = dict.fromkeys((REFUSALS, READ_AGAIN, MISTAKEN), 0)

    @property
    def counters(self) -> dict[str, int]:
        """Nothing where no file says of clients."""
        if not self.book.digest:
            return {}
        return self._counters | {DIGEST: self.book.digest, CLIENTS: self.book.clients}

    def on_change(self, changed: Callable[[], None]) -> None:
        """`changed`: called when other rights are in force."""
        self._changed = changed

    def holder(self, secret: bytes) -> ClientRights | None:
        """Whose secret it is; None: nobody's any more."""
        return self.book.holders.get(secret)

    def refusal(self, client: ClientRights, request: ClientMessage) -> ErrorReply | None:
        """V9: what a client is told that may not ask this; None: it may."""
        if client.everything:
            return None
        found = refusal(client, request, self._streams())
        if found is not None and not found.retryable:
            self._counters[REFUSALS] += 1
            text = f"refused {self._words(request)}: {found.description}"
            self._rare.warning(f"right {client.name}", text)
        return found

    def _words(self, request: ClientMessage) -> str:
        """A request, for the node's own log: what a client has called by a number has its name here."""
        about = getattr(request, "partition", None)
        stream = self._streams().by_id.get(about.stream) if isinstance(about, PartitionId) else None
        kind = type(request).__name__
        return kind if stream is None else f"{kind} of stream '{stream.config.name}'"

    def shown(self, client: ClientRights, reply: object) -> object:
        """The part of an answer that a client may see: its streams, and copies of these. By the status it
        knows that it has a name here.
        """
        if client.everything:
            return reply
        if isinstance(reply, ClusterStatusReply):
            reply.counters[NAMED] = 1
        if client.operate:
            return reply
        if isinstance(reply, StreamInfoReply):
            seen = [stream for stream in reply.streams if client.sees(stream.config.name)]
            return msgspec.structs.replace(reply, streams=seen)
        if isinstance(reply, ClusterStatusReply):
            known = self._streams().by_id
            copies = [
                copy
                for copy in reply.replicas
                if copy.partition.stream in known and client.sees(known[copy.partition.stream].config.name)
            ]
            return msgspec.structs.replace(reply, replicas=copies)
        return reply

    # -- reading anew --------------------------------------------------------------------------------------

    def read_again(self) -> None:
        """Asks for it; `run` does it."""
        self._asked.set()

    async def run(self) -> None:
        """Read the files again whenever that is asked for, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked = trio.Event()
            if self._read is not None:
                await self._read_now(self._read)

    async def _read_now(self, read: Callable[[], RightsBook]) -> None:
        try:
            book = await trio.to_thread.run_sync(read)
        except LiftlogError as error:
            self._counters[MISTAKEN] = 1
            text = f"clients keep the rights that they had: {error}; correct that, and send SIGHUP again"
            say(logging.ERROR, "rights", text, digest=shown_digest(self.book.digest))
            return
        before, self.book = self.book, book
        self._counters[MISTAKEN] = 0
        self._counters[READ_AGAIN] += 1
        self._changed()
        same = "are as they were" if book.holders == before.holders else "are in force from now on"
        what = (
            f"secrets and rights of {book.clients} named clients" if book.digest else "the clients' secrets"
        )
        say(logging.INFO, "rights", f"{what} {same}", digest=shown_digest(book.digest))
