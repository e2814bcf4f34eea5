"""Writes down what members of a consumer group are told, as the facts of docs/promises.md, as they are told.

    writer = HistoryWriter("billing", stream=JsonlStream(run / "history.jsonl"))
    recorder = GroupRecorder(writer, "billing")
    async with recorder.member(client.group("billing", ["orders"])) as member:
        async for message in member:
            await member.commit()
    await recorder.state(lambda: client.group_state("billing"))

All calls raise what the client raises. Any client will do that has the calls of `liftlog.client`. A
generation is of a grant here, so that what the facts call a group is a group's share: one partition of one
stream. One recorder for all members of a group, in one thread; while nobody resets the group, or makes a
stream anew.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeVar

from liftlog.types import Record
from liftlog_jepsen.history import HistoryWriter, Mop
from liftlog_jepsen.recording import ClientRecorder, RecordedClient


class GivenMessage(Protocol):
    """What a member was given."""

    @property
    def stream(self) -> str: ...
    @property
    def partition(self) -> int: ...
    @property
    def record(self) -> Record: ...
    @property
    def generation(self) -> int: ...


class Joining(Protocol):
    """A client's member of a group: an async context, and an iterator of messages."""

    async def __aenter__(self) -> Any: ...
    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None: ...
    async def __anext__(self) -> GivenMessage: ...
    async def commit(self) -> None: ...


class GroupTold(Protocol):
    """What a group says of itself: each share has `owner`, `granted` and `cursor`."""

    @property
    def shares(self) -> Mapping[str, Any]: ...


S = TypeVar("S", bound=GroupTold)


class GroupRecorder(ClientRecorder):
    """Of one group."""

    def __init__(self, writer: HistoryWriter, group: str, *, first_process: int = 1) -> None:
        super().__init__(writer, first_process)
        self.group = group

    def group_of(self, share: str) -> str:
        """What the facts call the group of a share."""
        return f"{self.group} of {share}"

    def member(self, member: Joining) -> RecordedMember:
        """Somebody who joins."""
        return RecordedMember(self, member)

    async def state(self, ask: Callable[[], Awaitable[S]]) -> S:
        """What the group says of itself: who has a partition by which grant, and how far it is."""
        op_id, state = await self.doing("group-info", self.process(), ask)
        facts: list[Mop] = []
        for share, its in sorted(state.shares.items()):
            group = self.group_of(share)
            facts += [Mop("join", group, None, None, its.granted)] if its.owner else []
            facts += [Mop("fetch-commit", share, its.cursor, group)] if its.cursor >= 0 else []
        self.writer.ok(op_id, mops=facts)
        return state


class RecordedMember(RecordedClient):
    """A member whose commits are written down."""

    def __init__(self, recorder: GroupRecorder, member: Joining) -> None:
        super().__init__(recorder)
        self.member = member
        self._recorder = recorder
        self._in_hand: GivenMessage | None = None
        self._owned: set[tuple[str, int]] = set()
        """Grants of which it was told that they are its own: once each, as it may go on as somebody else."""

    async def __aenter__(self) -> RecordedMember:
        await self.member.__aenter__()
        return self

    async def __aexit__(self, kind: Any, error: Any, trace: Any) -> None:
        await self.member.__aexit__(kind, error, trace)

    def __aiter__(self) -> RecordedMember:
        return self

    async def __anext__(self) -> GivenMessage:
        """As the client's. What is done is committed some time, and it is not said when."""
        writer, done = self._recorder.writer, self._in_hand
        self._in_hand = None
        if done is not None:
            op_id = writer.invoke(self._recorder.process(), "commit")
            writer.mops(op_id, [self._commit_of(done)])
            writer.info(op_id, "it is committed with the next beat, if the partition is still this member's")
        self._in_hand = await self.member.__anext__()
        return self._in_hand

    def _commit_of(self, done: GivenMessage) -> Mop:
        share = f"{done.stream}/{done.partition}"
        return Mop("commit", share, done.record.offset + 1, self._recorder.group_of(share), done.generation)

    async def commit(self) -> None:
        """As the client's. One that was replaced may have committed it, and only the answer is lost."""
        done, self._in_hand = self._in_hand, None
        if done is None:
            await self.member.commit()
            return
        fact = self._commit_of(done)
        op_id, _ = await self._doing("commit", self.member.commit, fact)
        grant = fact.key, done.generation
        own = [Mop("own", fact.key, None, fact.value, done.generation)] if grant not in self._owned else []
        self._owned.add(grant)
        self._recorder.writer.ok(op_id, mops=[fact, *own])
