"""What the parts of one node share: its status, what the step under way asks for, and the way to the group.

Every part is handed the one `Context` of its node. It reads what the process is (`liftlog.core.status`) and
what the group has decided (`metadata`), and says what is to be done: effects, which the node drains after a
step, in order; which replicas the step touched; and what this node wants of the group (`want`). Tickets and
request ids are numbered here. What one part alone decides is that part's own and stands there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from liftlog.core.batchroom import BatchRoom
from liftlog.core.diskreads import DiskReads
from liftlog.core.guards import Guards
from liftlog.core.looked import Looked
from liftlog.core.metadata.commands import Command, RequestId
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.status import Status
from liftlog.messages import (
    AskLasts,
    AskSubjects,
    Effect,
    LookupTime,
    MirrorFetch,
    MirrorReply,
    ReadLog,
    ReplyClient,
    Send,
)
from liftlog.nodeconfig import NodeConfig
from liftlog.types import GroupInDoubt, InvariantViolation, PartitionId, Ticket


class Context(Status):
    """See the module."""

    __slots__ = (
        "_failures",
        "_owners",
        "_requests",
        "_want",
        "batches",
        "contains",
        "decides",
        "effects",
        "last_refusal",
        "looked",
        "mark",
        "marks",
        "metadata",
        "mutants",
        "nonce",
        "reads",
        "refused",
        "ticket",
        "to_self",
        "touched",
    )

    def __init__(
        self, config: NodeConfig, metadata: Metadata, nonce: int, guards: Guards, contains: bool = False
    ) -> None:
        super().__init__(config)
        self.contains = contains
        """A replica that breaks a promise ends alone, and not the process (`Replica.end`)."""
        self.metadata = metadata
        self.mutants = guards.mutants
        self.marks = guards.marks
        self.mark = guards.mark
        self.decides = guards.decides
        self.nonce = nonce
        self.reads = DiskReads(config, guards)
        self.batches = BatchRoom()
        self.looked = Looked()
        self.effects: list[Effect] = []
        self.to_self: list[MirrorFetch | MirrorReply] = []
        """What this node says to itself: it is taken in when the step is over, as if a peer had said it."""
        self.touched: dict[PartitionId, None] = {}
        """Replicas that the present step has changed, made or removed (`Outcome.touched`)."""
        self.refused = 0
        self.last_refusal = ""
        """Why the newest message that was refused was refused, for people."""
        self.ticket = 0
        self._owners: dict[int, PartitionId] = {}
        """Of tickets that are not durable: which partition wants to hear of it."""
        self._requests = 0
        self._failures = 0
        self._want: Callable[[Command], RequestId | None] = lambda command: None

    def propose_by(self, want: Callable[[Command], RequestId | None]) -> None:
        """Who takes what this node wants of the group; until then nothing is wanted."""
        self._want = want

    @property
    def founders(self) -> Collection[int]:
        """I3: the voters of the configuration; by the metadata, if they say it."""
        told = self.metadata.founders
        return [node for node, _ in told] if told else self.config.voters

    def want(self, command: Command) -> RequestId | None:
        """What this node itself wants of the group, to be said on every tick; None while there is no room."""
        try:
            return self._want(command)
        except InvariantViolation as broken:
            # Who wants something here, a replica say, is not what is broken.
            raise GroupInDoubt(str(broken)) from broken

    def send(self, node: int, message: MirrorFetch | MirrorReply) -> None:
        """Say something to a node that may be this one."""
        if node == self.node:
            self.to_self.append(message)
        else:
            self.effects.append(Send(node, message))

    def take_to_self(self) -> list[MirrorFetch | MirrorReply]:
        """What this node has said to itself."""
        said, self.to_self = self.to_self, []
        return said

    def touch(self, partition: PartitionId) -> None:
        """This step changes something of a replica."""
        self.touched[partition] = None

    def drop_effects(self, begun: int, logs: Collection[PartitionId]) -> None:
        """What this step has asked for from its effect `begun` on for these logs, it now does not ask for.
        What is not any log's is the metadata group's.
        """
        taken = self.effects[begun:]
        del self.effects[begun:]
        for effect in taken:
            if not _asked_by(effect, logs):
                self.effects.append(effect)
            elif isinstance(effect, ReadLog | LookupTime | AskSubjects | AskLasts):
                self.reads.done(effect.request)

    def new_ticket(self, owner: PartitionId | None = None) -> Ticket:
        """A fresh ticket; `owner` is the partition that wants to hear of it."""
        self.ticket += 1
        if owner is not None:
            self._owners[self.ticket] = owner
        return Ticket(self.ticket)

    def take_owner(self, ticket: Ticket) -> PartitionId | None:
        """The partition that wants to hear what became of a ticket, once."""
        return self._owners.pop(ticket, None)

    def owner_of(self, ticket: Ticket) -> PartitionId | None:
        """The same, to be asked again."""
        return self._owners.get(ticket)

    @property
    def tickets_open(self) -> int:
        """How many jobs of storage partitions wait for."""
        return len(self._owners)

    def new_request(self) -> RequestId:
        """A request id that no other start of any node uses, and its bound (M3)."""
        self._requests += 1
        until = self.metadata.applied + self.config.raft_proposal_span
        return RequestId(self.nonce, self._requests, until)

    def new_failure(self) -> int:
        """R5: the number of a failure of a log: greater than those of all before in this run."""
        self._failures += 1
        return self._failures

    def refuse(self, rule: str, sender: int, message: object, reason: str) -> None:
        """V2 to V4: what a peer sent is not acted on. Counted by rule and kind of message."""
        self.refused += 1
        self.mark(f"{rule}.{type(message).__name__}")
        self.last_refusal = f"{type(message).__name__} of node {sender}: {reason}"


def _asked_by(effect: Effect, logs: Collection[PartitionId]) -> bool:
    """Whether an effect of a call of a replica is one of these logs'."""
    if isinstance(effect, Send):
        return getattr(effect.message, "partition", None) in logs
    asked = getattr(effect, "log", None), getattr(effect, "partition", None)
    return isinstance(effect, ReplyClient) or any(log is not None and log in logs for log in asked)
