"""What the parts of one node share: limits, effects, tickets, marks, and the way to the metadata group.

A `Context` carries no protocol state of its own; it saves passing ten arguments to every part.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.core.commands import Command, RequestId
from liftlog.core.diskreads import DiskReads
from liftlog.core.guards import Guards
from liftlog.core.metadata import Metadata
from liftlog.messages import Effect
from liftlog.types import NodeConfig, PartitionId, Ticket


class Context:
    """Shared by everything that runs inside one `Node`. `effects` is drained by the node after each step."""

    __slots__ = (
        "bus_up",
        "config",
        "decides",
        "effects",
        "fenced",
        "incarnation",
        "last_refusal",
        "leaving",
        "mark",
        "marks",
        "metadata",
        "mutants",
        "node",
        "nonce",
        "now_ms",
        "owners",
        "reads",
        "refused",
        "replica_count",
        "request_counter",
        "stalled",
        "ticket",
        "ticks",
        "touched",
        "wall_ms",
        "want",
    )

    def __init__(self, config: NodeConfig, metadata: Metadata, nonce: int, guards: Guards) -> None:
        self.config = config
        self.node = config.node
        self.metadata = metadata
        self.mutants = guards.mutants
        self.marks = guards.marks
        self.mark = guards.mark
        self.decides = guards.decides
        self.nonce = nonce
        self.reads = DiskReads(config, guards.mutants)
        self.effects: list[Effect] = []
        self.refused = 0
        self.last_refusal = ""
        """Why the newest message that was refused was refused, for people."""
        self.incarnation = 0
        """This run's incarnation once it is durable here, else 0 (I2)."""
        self.fenced = False
        """N2: contact to the controller is too old to take messages from NATS."""
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
        """The node's wall clock at the last tick: for the ages of records only (C2, C3)."""
        self.replica_count = 0
        self.ticket = 0
        self.owners: dict[int, PartitionId] = {}
        self.touched: dict[PartitionId, None] = {}
        """Replicas that the present step has changed, made or removed (`Outcome.touched`)."""
        self.request_counter = 0
        self.want: Callable[[Command], RequestId | None] = lambda command: None
        """What this node itself wants of the group, to be said on every tick; None while there is no room."""

    def touch(self, partition: PartitionId) -> None:
        """This step changes something of a replica."""
        self.touched[partition] = None

    def new_ticket(self, owner: PartitionId | None = None) -> Ticket:
        """A fresh ticket; `owner` is the partition that wants to hear of it."""
        self.ticket += 1
        if owner is not None:
            self.owners[self.ticket] = owner
        return Ticket(self.ticket)

    def new_request(self) -> RequestId:
        """A request id that no other start of any node uses, and its bound (M3)."""
        self.request_counter += 1
        until = self.metadata.applied + self.config.raft_proposal_span
        return RequestId(self.nonce, self.request_counter, until)

    def refuse(self, rule: str, sender: int, message: object, reason: str) -> None:
        """V2 to V4: what a peer sent is not acted on. Counted by rule and kind of message."""
        self.refused += 1
        self.mark(f"{rule}.{type(message).__name__}")
        self.last_refusal = f"{type(message).__name__} of node {sender}: {reason}"

    def ticks_of(self, duration_ms: int) -> int:
        """Number of whole ticks that last at least `duration_ms`."""
        return max(1, -(-duration_ms // self.config.tick_ms))
