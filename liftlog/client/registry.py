"""Who will ack a message on a subject: which streams take it, and how many answers a publisher may wait for.

A message is stored by every stream that listens on its subject, and answered by those that are to answer
(N8, N9). What is told here is what the metadata says; whoever else answers on that subject, a service or
a stream of JetStream's, is not known to it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

import msgspec
from msgspec import UNSET

from liftlog.api.plain import to_plain
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.core.metadata.subjects import listened_to
from liftlog.messages import PartitionInfo, StreamInfo, StreamInfoReply
from liftlog.subjects.grammar import matches, publish_problem
from liftlog.types import LiftlogError, StreamConfig

READY = "ready"
READ_ONLY = "read-only"
PAUSED = "paused"
NO_LEADER = "no leader"
NOT_LISTENING = "not listening yet"
REFUSED = "refused by NATS"
FEW_IN_SYNC = "too few in sync"

MAX_AGE_MS = 1000


class Listener(msgspec.Struct, frozen=True):
    """One partition whose subject matches. `state`: READY, or why nothing is stored there now."""

    stream: str
    partition: int
    subject: str
    state: str
    answers: bool
    """Whether its stream is one that answers at all (`ack_reply`)."""
    leader: int
    """0 = it has none."""
    detail: str = ""
    """What to do about it if it is not READY."""


class AckView(msgspec.Struct, frozen=True):
    """Who listens on `subject`, as of `age_ms` ago."""

    subject: str
    listeners: tuple[Listener, ...]
    age_ms: int
    """How old what it is made of is, in milliseconds; -1 = older than who told it has run."""
    linearizable: bool
    """It held everything that was decided when it was asked for."""

    @property
    def acks(self) -> int:
        """How many acks a message that is published now will get."""
        return sum(one.answers and one.state == READY for one in self.listeners)

    @property
    def answers(self) -> int:
        """How many answers: acks, and errors of those that refuse at once."""
        return sum(one.answers and one.state in (READY, READ_ONLY) for one in self.listeners)

    @property
    def acks_when_well(self) -> int:
        """How many acks there will be when nothing is paused, without a leader or read-only any more."""
        return sum(one.answers for one in self.listeners)

    @property
    def copies(self) -> int:
        """How many streams store such a message now, silent ones too."""
        return sum(one.state == READY for one in self.listeners)


def differences(wanted: StreamConfig, there: StreamConfig) -> dict[str, object]:
    """What a stream that is there has otherwise than wanted, by field, None for what it has not; a number of
    copies that was left to the cluster is none.
    """
    asked, has = to_plain(wanted), to_plain(there)
    by_itself = ("replication_factor", "min_insync_replicas")
    return {
        name: has.get(name)
        for name in wanted.__struct_fields__
        if has.get(name) != asked.get(name) and not (name in by_itself and asked[name] == 0)
    }


def who_listens(streams: Sequence[StreamInfo], subject: str) -> tuple[Listener, ...]:
    """By stream and partition. Raises LiftlogError for what nobody can publish to."""
    problem = publish_problem(subject)
    if problem:
        raise LiftlogError(f"subject {subject!r} cannot be published to: {problem}")
    found = []
    for info in sorted(streams, key=lambda info: info.config.name):
        for partition in info.partitions:
            patterns = listened_to(info.config, partition.index)
            own = next((pattern for pattern in patterns if matches(pattern, subject)), None)
            if own is not None:
                state, detail = _state(info.config, partition)
                found.append(
                    Listener(
                        stream=info.config.name,
                        partition=partition.index,
                        subject=own,
                        state=state,
                        answers=info.config.ack_reply,
                        leader=partition.leader,
                        detail=detail,
                    )
                )
    return tuple(found)


def _state(config: StreamConfig, partition: PartitionInfo) -> tuple[str, str]:
    """What keeps a partition from storing, and the remedy."""
    name = config.name
    if config.paused is not UNSET and config.paused:
        return PAUSED, f"take messages again with: liftlog stream resume {name}"
    if not partition.leader:
        return NO_LEADER, "see: liftlog cluster status"
    if partition.refusal:
        return REFUSED, f"NATS says {partition.refusal}: allow it in the server's permissions"
    if not partition.ready:
        return NOT_LISTENING, "its leader has just been elected; try again"
    if config.sealed is True:
        return READ_ONLY, "it is sealed, for ever: publish to another stream"
    if config.read_only:
        return READ_ONLY, f"take messages again with: liftlog stream alter {name} --read-write"
    if len(partition.isr) < partition.min_insync:
        return FEW_IN_SYNC, "nothing is committed until more copies are in sync; see: liftlog cluster status"
    return READY, ""


class AckRegistry:
    """What is known of all streams, asked for again when it is older than is wanted.

    `ask`: gets "whether what some node knows will do" and returns it.
    """

    def __init__(self, ask: Callable[[bool], Awaitable[StreamInfoReply]]) -> None:
        self._ask = ask
        self._reply: StreamInfoReply | None = None
        self._asked_s = 0.0

    async def who_acks(self, subject: str, max_age_ms: int = MAX_AGE_MS) -> AckView:
        """Who listens, by what is at most so old; 0 = ask now. If no quorum answers, by what some node knows,
        which may be older: see the view's `age_ms`. Raises Unreachable, LiftlogError.
        """
        who_listens((), subject)
        reply = self._reply
        if reply is None or not 0 <= self._age_ms(reply) < max_age_ms:
            reply = await self._refresh()
        return AckView(subject, who_listens(reply.streams, subject), self._age_ms(reply), reply.linearizable)

    def _age_ms(self, reply: StreamInfoReply) -> int:
        """Of what it tells when it was asked for, and of the time since."""
        if reply.age_ms < 0:
            return -1
        told_ms = 0 if reply.linearizable else reply.age_ms
        return told_ms + int((asyncio.get_running_loop().time() - self._asked_s) * 1000)

    async def _refresh(self) -> StreamInfoReply:
        asked_s = asyncio.get_running_loop().time()
        try:
            reply = await self._ask(False)
        except RequestFailed as error:
            if not error.retryable:
                raise
            reply = await self._ask(True)
        except Unreachable:
            reply = await self._ask(True)
        self._reply, self._asked_s = reply, asked_s
        return reply
