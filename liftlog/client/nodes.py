"""A client's TCP connections to nodes: calls with numbers, answers in any order."""

from __future__ import annotations

import asyncio

from liftlog.api import wire
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.messages import ClientMessage, ClientReply, ErrorReply, intake

READ_BYTES = 512 * 1024


class NodeConnection:
    """One connection to one node. Made by `open`; after `Unreachable` it is of no more use."""

    def __init__(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.address = address
        self._reader = reader
        self._writer = writer
        self._waiting: dict[int, asyncio.Future[ClientReply]] = {}
        self._next = 1
        self._lost = ""
        self._task = asyncio.create_task(self._read_answers())

    @classmethod
    async def open(cls, address: str, cluster: str, timeout_s: float) -> NodeConnection:
        """Connect and greet. Raises Unreachable."""
        host, _, port = address.rpartition(":")
        try:
            connecting = asyncio.open_connection(host.strip("[]"), int(port))
            reader, writer = await asyncio.wait_for(connecting, timeout_s)
        except (TimeoutError, OSError, ValueError) as error:
            raise Unreachable(f"node at {address} is not reachable: {str(error) or 'no answer'}") from None
        writer.write(wire.encode_frame(wire.Hello(wire.PROTOCOL_VERSION, cluster, wire.CLIENT_NODE)))
        return cls(address, reader, writer)

    @property
    def usable(self) -> bool:
        return not self._lost

    async def call(self, request: ClientMessage, timeout_s: float) -> ClientReply:
        """Ask, wait for the answer. Raises Unreachable, or RequestFailed for an `ErrorReply`."""
        if self._lost:
            raise Unreachable(self._lost)
        number = self._next
        self._next += 1
        future: asyncio.Future[ClientReply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        try:
            self._writer.write(wire.encode_frame((number, request)))
            reply = await asyncio.wait_for(future, timeout_s)
        except TimeoutError:
            raise Unreachable(f"node at {self.address} did not answer within {timeout_s:.1f} s") from None
        finally:
            self._waiting.pop(number, None)
        if isinstance(reply, ErrorReply):
            raise RequestFailed(reply.code, reply.description, reply.retryable, reply.leader)
        return reply

    async def close(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._writer.close()

    async def _read_answers(self) -> None:
        splitter = wire.FrameSplitter()
        reason = "it closed the connection"
        try:
            while data := await self._reader.read(READ_BYTES):
                for frame in splitter.feed(data):
                    answer = wire.client_answer(frame)
                    future = self._waiting.get(answer.number)
                    if future is not None and not future.done():
                        future.set_result(answer.reply)
        except (OSError, intake.InputRefused) as error:
            reason = str(error)
        finally:
            self._lost = f"node at {self.address}: {reason}"
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(Unreachable(self._lost))


class NodePool:
    """Connections to the nodes of one cluster, by address, opened when first needed."""

    def __init__(self, cluster: str, connect_timeout_s: float) -> None:
        self._cluster = cluster
        self._connect_timeout_s = connect_timeout_s
        self._connections: dict[str, NodeConnection] = {}

    async def call(self, address: str, request: ClientMessage, timeout_s: float) -> ClientReply:
        """Ask the node at `address`. Raises Unreachable, RequestFailed."""
        connection = self._connections.get(address)
        if connection is None or not connection.usable:
            if connection is not None:
                await connection.close()
            opening = NodeConnection.open(address, self._cluster, min(timeout_s, self._connect_timeout_s))
            connection = self._connections[address] = await opening
        return await connection.call(request, timeout_s)

    async def close(self) -> None:
        for connection in self._connections.values():
            await connection.close()
        self._connections.clear()
