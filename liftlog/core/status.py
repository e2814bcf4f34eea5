"""What this process is at the moment, for every part of its node to read.

Each field has one who moves it: the session its incarnation and its fence, the stop that it leaves, the node
what it hears of clocks, disk and NATS.
"""

from __future__ import annotations

from liftlog.core.hints import Hints
from liftlog.nodeconfig import NodeConfig
from liftlog.types import InvariantViolation, invariant

JUMP_MS, STANDS_MS = 1000, 10_000
"""A wall clock that comes so much further than the monotonic one between two looks has jumped; it is believed
when it has gone like that one for so long.
"""


class Status:
    """See the module. Written by its transitions only."""

    __slots__ = (
        "_apart",
        "_believed",
        "_believed_from",
        "bus_up",
        "config",
        "fenced",
        "hints",
        "incarnation",
        "leaving",
        "move_credit",
        "node",
        "now_ms",
        "replica_count",
        "stalled",
        "ticks",
        "wall_doubted",
        "wall_ms",
    )

    def __init__(self, config: NodeConfig) -> None:
        self.config = config
        self.node = config.node
        self.incarnation = 0
        """This run's incarnation once it is durable here, else 0 (I2)."""
        self.fenced = False
        """N2: contact to the controller is too old to take messages from NATS."""
        self.hints = Hints()
        self.bus_up = False
        self.stalled = ""
        """D5: why the disk takes no metadata; empty while it does."""
        self.leaving = False
        """An orderly stop is under way: take up no office and no messages any more (`leaving.py`)."""
        self.ticks = 0
        """How long this node has been listening. A pause of the process is one tick, however long it was, so
        that others are not blamed for it: silence of peers and leaders, lag, the sessions that this node
        grants as controller, patience with requests, and repeats all count ticks."""
        self.now_ms = 0.0
        """How long the world has gone on: the monotonic clock at the last tick, which is less than a tick ago
        whenever anything is handled. What this node was *granted* for a time ends by this clock, paused or
        not: its session (N2), and the controller's certainty that there is no other (M1e)."""
        self.wall_ms = 0
        """The node's wall clock at the last timer: for the ages of records only (C2, C3, R24)."""
        self.wall_doubted = False
        """R24, R25: it has jumped ahead, and nothing goes by its time yet. It is the node that doubts it: who
        begins to lead meanwhile does as well."""
        self._apart: float | None = None
        """How far the wall clock was ahead of the monotonic one when it was looked at last, if ever."""
        self._believed = 0.0
        """The same when it was believed last."""
        self._believed_from = 0.0
        """Where it stays as it is, it is believed when the monotonic clock shows this."""
        self.replica_count = 0
        self.move_credit = 0
        """R20: bytes that may be sent now to copies that moves have begun; below 0 it was overdrawn."""

    def ticks_of(self, duration_ms: int) -> int:
        """Number of whole ticks that last at least `duration_ms`."""
        ticks = -(-duration_ms // self.config.tick_ms)
        return ticks if ticks > 1 else 1

    # -- transitions -----------------------------------------------------------------------------------

    def begin_run(self, incarnation: int) -> None:
        """The incarnation is durable: once in the life of a process (I2)."""
        invariant(not self.incarnation, f"incarnation {incarnation} in the run of {self.incarnation}")
        self.incarnation = incarnation

    def fence(self, fenced: bool) -> None:
        self.fenced = fenced

    def leave(self) -> None:
        """An orderly stop begins; it is not taken back."""
        self.leaving = True

    def pass_tick(self) -> None:
        """What was not used of the credit for moves is lost: a burst of a tick is enough."""
        self.ticks += 1
        earned = self.config.move_bytes_per_s * self.config.tick_ms // 1000
        self.move_credit = min(self.move_credit + earned, earned)

    def spend_on_moves(self, number_bytes: int) -> None:
        self.move_credit -= number_bytes

    def see_clocks(self, monotonic_ms: float, wall_ms: int = 0) -> None:
        """`wall_ms` 0: nobody has looked."""
        if monotonic_ms < self.now_ms:
            raise InvariantViolation(f"the clock goes back from {self.now_ms} to {monotonic_ms} ms")
        self.now_ms = monotonic_ms
        if wall_ms:
            self._see_apart(wall_ms - monotonic_ms)
            self.wall_ms = wall_ms

    def _see_apart(self, apart: float) -> None:
        """A doubt ends when the clock is back where it was believed, or has stood where it is. If it jumps
        once more meanwhile, also back by a part, that begins anew.
        """
        before, self._apart = self._apart, apart
        if before is None or apart <= self._believed + JUMP_MS:
            self.wall_doubted = False
        elif not self.wall_doubted or abs(apart - before) > JUMP_MS:
            self.wall_doubted, self._believed_from = True, self.now_ms + STANDS_MS
        elif self.now_ms >= self._believed_from:
            self.wall_doubted = False
        if not self.wall_doubted:
            self._believed = apart

    def see_bus(self, up: bool) -> None:
        self.bus_up = up

    def stall(self, error: str) -> None:
        """Why the disk takes no metadata; empty: it does again."""
        self.stalled = error

    def count_replicas(self, number: int) -> None:
        self.replica_count = number
