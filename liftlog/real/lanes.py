"""What is on its way to one peer, in two lanes: what keeps the cluster together goes before data.

    control   Raft, heartbeats, commands, and their answers: short, and late they cost an office
    data      fetches and their answers, damaged ranges, chunks of snapshots: as much as there is

A frame gets its number and its tag (V6) when it is taken for the socket, and not when it is queued: until
then another one may go first. Within a lane the order stays. No more than a PIECE is taken at a time, so that
a heartbeat waits for that, for one frame of data at most beyond it, and for what the kernel holds; never for
the megabytes behind. The protocol relies on no order between two messages: the simulated network loses,
repeats and reorders them.

An eighth of a connection's bound is the control lane's own (V7): data that a peer does not take in keeps no
vote out.
"""

from __future__ import annotations

from collections import deque

import trio

from liftlog.api.tags import FrameSealer
from liftlog.messages import (
    Fetch,
    FetchProgress,
    FetchReply,
    MirrorFetch,
    MirrorReply,
    PeerMessage,
    RangeFetch,
    RangeReply,
    SnapshotChunk,
)
from liftlog.real.budget import Budget
from liftlog.real.tlsstream import Direct, TcpStream

DATA = frozenset(
    (*(Fetch, FetchProgress, FetchReply, RangeFetch, RangeReply), SnapshotChunk, MirrorFetch, MirrorReply)
)
PIECE_BYTES = 128 * 1024
OWN_SHARE = 8
"""One part in so many of the bound is kept free for control."""


class PeerLanes:
    """Messages for one connection; belongs to the trio thread. Bounded in bytes (V7)."""

    def __init__(self, sealer: FrameSealer, limit_bytes: int, budget: Budget, socket: Direct | None) -> None:
        """`socket`: where `flush` may send by itself; without it, it wakes the task that does."""
        self._sealer = sealer
        self._limit = limit_bytes
        self._budget = budget
        self._socket = socket
        self._control: deque[bytearray] = deque()
        self._data: deque[bytearray] = deque()
        self._rest: bytes = b""
        """Of the piece that was taken last: what the kernel had no room for."""
        self.held = 0
        """Bytes that wait, or are on their way into the socket."""
        self.used = False
        """Set whenever something is queued, for who wants to know; unset by him."""
        self._pumping = False
        self._wake = trio.Event()
        self._closed = False

    def send(self, message: PeerMessage) -> bool:
        """Queue a message, to leave with `flush`; False if there is no room, here or in the budget."""
        is_data = type(message) in DATA
        limit = self._limit - self._limit // OWN_SHARE if is_data else self._limit
        return self._add(self._data if is_data else self._control, self._sealer.encode(message), limit)

    def say_alive(self) -> None:
        """Queue a frame without a message; a peer that does not take in what is there needs none."""
        self._add(self._control, self._sealer.nothing(), self._limit)

    def _add(self, lane: deque[bytearray], frame: bytearray, limit: int) -> bool:
        cost = len(frame)
        # A frame always fits into an empty lane.
        if self._closed or (lane and self.held + cost > limit) or not self._budget.take(cost):
            return False
        lane.append(frame)
        self.held += cost
        self.used = True
        return True

    def flush(self) -> None:
        """Send what is queued: now, as far as the kernel takes it, and the rest as soon as it does."""
        if self._pumping or not (self._control or self._data or self._rest):
            return
        socket = self._socket
        while socket is not None:
            piece = self._take()
            if not piece:
                return
            sent = socket.send(piece)
            self._let_go(sent)
            if sent < len(piece):
                self._rest = piece[sent:]
                break
        self._wake.set()

    async def pump(self, stream: TcpStream, timeout_s: float) -> None:
        """Send until the connection breaks. Raises one of NETWORK_ERRORS. Nothing can be queued after it."""
        try:
            while True:
                self._pumping = True
                while piece := self._take():
                    with trio.fail_after(timeout_s):
                        await stream.send_all(piece)
                    self._let_go(len(piece))
                self._pumping = False
                self._wake = trio.Event()
                await self._wake.wait()
        finally:
            self.close()

    def close(self) -> None:
        """Let go of everything. Nothing can be queued afterwards; a second time does nothing."""
        self._closed = True
        self._control.clear()
        self._data.clear()
        self._rest = b""
        self._let_go(self.held)

    def _take(self) -> bytes:
        """What goes next, sealed: what was begun, else all of control and then data, up to a piece."""
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        seal, frames, size = self._sealer.close, [], 0
        for lane in (self._control, self._data):
            while lane and size < PIECE_BYTES:
                frame = lane.popleft()
                size += len(frame)
                frames.append(seal(frame))
        return frames[0] if len(frames) == 1 else b"".join(frames)

    def _let_go(self, count: int) -> None:
        count = min(count, self.held)
        self.held -= count
        self._budget.give(count)
