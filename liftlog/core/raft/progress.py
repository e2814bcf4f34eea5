"""What a leader knows of one follower: how far it is, and how much is under way to it (M1l).

A follower that needs what the leader has dropped gets a snapshot first (`liftlog.core.raft.snapshots`).

Two states. *Probing*: the leader does not know where the logs agree. It has one message out at a time and
moves `next_index` back on each refusal. *Replicating*: the logs agree up to `match_index`; the leader sends
ahead without waiting, up to a bounded number of messages, its *window*.

Nothing here is needed for safety except `counted_index`, so loss, duplication and reordering cost only
repetition: a refusal that is out of date sends the leader back to probing, and a lost acknowledgement is made
good by the reply to any later heartbeat, which says how far the follower is.

Repetition must not feed on itself. Where messages overtake each other, each of those sent ahead may be
refused, and answers of before go on arriving. So a refusal that says nothing new is not answered, and after
one that does the window is a single message; it grows with what is acknowledged. What is sent ahead is then
never more than twice what was taken in, and nothing that follows a refusal can be refused for being early.

Sources: Raft paper 5.3; the two states follow Ongaro's thesis 10.2 and the practice of etcd's raft; the
window is TCP's slow start (Jacobson 1988).
"""

from __future__ import annotations

from collections import deque

from liftlog.core.raft.snapshots import Transfer
from liftlog.mutants import Mutants
from liftlog.types import Snapshot

APPENDS_IN_FLIGHT_MAX = 16
"""Messages with entries that may be under way to one follower: times raft_append_max_bytes bounds memory."""


class Progress:
    """One follower or learner, as its leader sees it during one term."""

    __slots__ = (
        "accepted_round",
        "acked_round",
        "contact_ms",
        "counted_index",
        "counts",
        "disk",
        "in_flight",
        "match_index",
        "next_index",
        "node",
        "paused",
        "probing",
        "sent_index",
        "transfer",
        "voter",
        "window",
    )

    def __init__(self, node: int, next_index: int, now_ms: float) -> None:
        self.node = node
        self.disk = ""
        """Of the member that this node is (M2); empty: it is none, and counts for nothing."""
        self.voter = False
        self.next_index = next_index
        self.match_index = 0
        """Durable on the follower, as far as its replies tell. For flow control only."""
        self.counted_index = 0
        """The same, from replies of the disk that is the member and may vote (I2, M2b). Only this commits
        anything.
        """
        self.counts = False
        self.sent_index = 0
        """V3: the last index that any message to it reached; it can have acknowledged no more."""
        self.probing = True
        self.paused = False
        """Probing, and a probe is under way: wait for a reply. Heartbeats go on, and probe as well."""
        self.in_flight: deque[int] = deque()
        """Last index of each message with entries that was sent and not acknowledged."""
        self.window = APPENDS_IN_FLIGHT_MAX
        """So many messages with entries may be under way."""
        self.accepted_round = 0
        """The newest round of which a message was accepted: refusals of older ones are out of date."""
        self.transfer: Transfer | None = None
        """A snapshot is on its way to it, since it needs entries that are gone (M1q)."""
        self.contact_ms = now_ms
        """When the newest message began its way that this follower has answered. A new leader gives every
        follower the benefit of the doubt."""
        self.acked_round = 0

    def is_member(self, disk: str, voter: bool) -> None:
        """M2: what the configuration says of the node. What another disk of it has is not this one's."""
        if disk != self.disk:
            self.disk = disk
            self.counts = False
            self.counted_index = 0
            self.acked_round = 0
        self.voter = voter

    def may_send(self) -> bool:
        return not self.paused if self.probing else len(self.in_flight) < self.window

    def sent(self, last_index: int) -> None:
        """Entries up to `last_index` went out."""
        if self.probing:
            self.paused = True
        else:
            self.in_flight.append(last_index)
            self.next_index = last_index + 1

    def reached(self, index: int) -> None:
        """A message that reaches up to `index` went out."""
        self.sent_index = max(self.sent_index, index)

    def send_snapshot(self, snapshot: Snapshot) -> Transfer:
        """It cannot go on without a snapshot: this one, from its first chunk on."""
        self.transfer = Transfer(snapshot)
        return self.transfer

    def needs_no_snapshot(self) -> None:
        self.transfer = None

    def heard(self, counts: bool, began_ms: float, round: int) -> bool:
        """It has answered a round that began then. True if it counts and no later one was answered yet."""
        self.counts = counts
        if not counts:
            return False
        self.contact_ms = max(self.contact_ms, began_ms)
        newer = round > self.acked_round
        self.acked_round = max(self.acked_round, round)
        return newer

    def counted(self, index: int) -> bool:
        """M1h: a disk that may vote has everything up to `index`; True if that is more than was known."""
        if index <= self.counted_index:
            return False
        self.counted_index = index
        return True

    def accepted(self, match_index: int, round: int) -> None:
        """The follower's durable log equals the leader's up to `match_index`, says an answer to a message of
        that round.
        """
        self.accepted_round = max(self.accepted_round, round)
        if match_index > self.match_index:
            self.match_index = match_index
        in_flight = self.in_flight
        while in_flight and in_flight[0] <= match_index:
            in_flight.popleft()
            self.window = min(self.window + 1, APPENDS_IN_FLIGHT_MAX)
        if self.probing:
            self.probing = self.paused = False
            self.next_index = self.match_index + 1
        elif self.next_index <= match_index:
            self.next_index = match_index + 1

    def refused(self, hint: int, round: int, mutants: Mutants) -> bool:
        """The logs did not agree where the leader tried: probe from `hint` on. False if that says nothing
        new: what was sent later was accepted, or the leader is back there already. Then nothing is sent; if
        the probe is lost, the next heartbeat is one.

        A refusal below `match_index` is out of date, or comes from a disk that was replaced. Both are
        answered by going back: the first costs a repetition, and ignoring the second would leave the
        follower behind for ever.
        """
        if not mutants.refusals_multiply:
            if round < self.accepted_round or (self.probing and hint >= self.next_index - 1):
                return False
            self.window = 1
        self.match_index = min(self.match_index, hint)
        self.next_index = min(hint, self.next_index - 1) + 1
        self.probing = True
        self.paused = True
        self.in_flight.clear()
        return True
