"""Linearizable reads without writing to the log (M1j; Raft paper section 8, thesis section 6.4).

A node that answers from its own state may be behind, and a leader may have been replaced without knowing. So
a read first asks for an index that covers every command acknowledged before the read began, and waits until
the node has applied that far. The leader gets it in three steps:

1. It takes its commit index, once an entry of its own term is committed: before that, earlier commands may be
   committed that it does not know to be.
2. It starts a heartbeat round, with a number of its own, after the read came in.
3. When a quorum has answered that round or a later one, nobody can have been elected in a later term before
   the round began, so the index covers all that was acknowledged by then.

Reads that come in while a round is under way wait for the next round, so that any number of reads costs one
round trip. A follower sends its reads to the leader and waits for the reply.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

REQUESTS_PER_RUN = 1 << 32


class WaitingRead(NamedTuple):
    """A read to be answered. `node` 0: it is the leader's own and `request` is its key."""

    node: int
    request: int


class ReadRound(NamedTuple):
    number: int
    commit_index: int
    reads: list[WaitingRead]


class LeaderReads:
    """The reads that wait at a leader."""

    __slots__ = ("_limit", "rounds", "waiting")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.waiting: list[WaitingRead] = []
        self.rounds: deque[ReadRound] = deque()

    def add(self, read: WaitingRead) -> bool:
        """False if too many reads wait (L3)."""
        if len(self.waiting) >= self._limit:
            return False
        self.waiting.append(read)
        return True

    def begin_round(self, number: int, commit_index: int) -> None:
        """All reads that came in so far depend on round `number`, and will see at least `commit_index`."""
        if self.waiting:
            self.rounds.append(ReadRound(number, commit_index, self.waiting))
            self.waiting = []

    def confirmed(self, number: int) -> list[ReadRound]:
        """A quorum has answered round `number`: take out what it answers."""
        done: list[ReadRound] = []
        while self.rounds and self.rounds[0].number <= number:
            done.append(self.rounds.popleft())
        return done

    def drop_all(self) -> list[WaitingRead]:
        """The leader is none any more: nobody can answer these."""
        dropped = [read for reads in self.rounds for read in reads.reads] + self.waiting
        self.rounds.clear()
        self.waiting = []
        return dropped


class FollowerReads:
    """The reads that a follower has sent to its leader.

    Requests are numbered from the number of this start on: a reply that was meant for an earlier run of this
    node must not answer a read of this run, for it may be older than the read.
    """

    __slots__ = ("_limit", "_next_request", "_sent")

    def __init__(self, nonce: int, limit: int) -> None:
        self._next_request = (nonce % (1 << 30)) * REQUESTS_PER_RUN + 1
        self._limit = limit
        self._sent: dict[int, tuple[int, int]] = {}

    def add(self, key: int, deadline_tick: int) -> int | None:
        """Number of the request to send for read `key`; None if too many reads wait (L3)."""
        if len(self._sent) >= self._limit:
            return None
        request = self._next_request
        self._next_request += 1
        self._sent[request] = (key, deadline_tick)
        return request

    def take(self, request: int) -> int | None:
        """The key of the read that `request` stands for, once."""
        found = self._sent.pop(request, None)
        return None if found is None else found[0]

    def expire(self, tick: int) -> list[int]:
        """Keys of the reads whose reply did not come in time. All deadlines are equally far, so in order."""
        keys: list[int] = []
        while self._sent:
            request = next(iter(self._sent))
            key, deadline_tick = self._sent[request]
            if deadline_tick > tick:
                break
            del self._sent[request]
            keys.append(key)
        return keys

    def drop_all(self) -> list[int]:
        keys = [key for key, _ in self._sent.values()]
        self._sent.clear()
        return keys

    def __len__(self) -> int:
        return len(self._sent)
