"""Consumer groups: programs that share the partitions of streams, each partition one program's at a time
(G1-G5).

    async with client.group("billing", ["orders"]) as member:
        async for message in member:
            ...                                     # message.record, message.stream, message.partition

A message is done when the next one is asked for. What is done is committed at each beat, and when the block
is left; `member.commit()` commits at once. A program that stops or dies is replaced by the others, who go on
where it had committed: a message may be worked on twice, none is left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Literal, NamedTuple, Protocol

from msgspec.structs import replace

from liftlog.client.bounds import FOREVER, Start
from liftlog.client.errors import RequestFailed, Unreachable
from liftlog.client.progress import OnProgress, ProgressTeller, ReadingProgress
from liftlog.client.reader import EARLIEST
from liftlog.client.reading import Gap, ReadingOwner, StreamReading
from liftlog.client.registers import Register, RegisterOwner, Registers, checked_name
from liftlog.groups.member import GroupMembership
from liftlog.groups.state import (
    MISSING,
    NOT_HELD,
    Committed,
    GroupFenced,
    GroupRefused,
    GroupState,
    GroupStep,
    Grown,
    Reset,
    decode_group,
    encode_group,
    owns,
    share_name,
    share_place,
    take_step,
)
from liftlog.groups.streams import GROUPS
from liftlog.groups.watching import Watch
from liftlog.messages import ERR_NOT_FOUND, StreamInfo
from liftlog.types import NUMBER_MAX, LiftlogError, Record

SESSION_MS = 10_000
SESSION_MS_MIN = 1000
LOOKS_IN_A_SESSION = 8
LOOK_MS_MAX = 1000
"""So often a member looks what the others have written, and writes itself if there are few."""
WRITES_A_SECOND = 20
"""More than so many of all members together would mostly come behind each other."""
BEATS_IN_A_SESSION = 4
"""So often a member writes at least that it is there, and what is done."""
BACKOFF_MS = 10
PARTITIONS_S = 2.0
"""How often is looked for partitions that were added."""
WAITING_MAX = 64
"""Messages that were read and not asked for yet."""
ROUNDS_MAX = 50
"""How often one write may come behind others' before that is an error."""


class GroupMessage(NamedTuple):
    """A message that a member was given. `generation`: of the grant of its partition."""

    stream: str
    partition: int
    record: Record
    generation: int


class ShareLag(NamedTuple):
    """Where a group is in a partition. `owner`: whose it is, "" = nobody's; `end`: behind what is committed
    there; `lag`: so many offsets are left."""

    stream: str
    partition: int
    owner: str
    generation: int
    cursor: int
    end: int
    lag: int


class GroupOwner(RegisterOwner, ReadingOwner, Protocol):
    """What a group is joined with: the client."""

    async def group_state(self, name: str) -> GroupState: ...


class Feed(NamedTuple):
    """The reading of one grant."""

    generation: int
    task: asyncio.Task[None]
    view: FeedView


class FeedView:
    """What a feed has seen of its partition. `first`: the offset of its first record; MISSING: none came."""

    __slots__ = ("first", "reading")

    def __init__(self) -> None:
        self.first = MISSING
        self.reading: StreamReading | None = None

    def end(self, partition: int) -> int:
        """Where what is committed ended when a server last answered; MISSING: none has."""
        return MISSING if self.reading is None else self.reading.ends.get(partition, MISSING)


class GroupReading:
    """See `Client.group`: an async context and iterator of `GroupMessage`."""

    def __init__(
        self,
        client: GroupOwner,
        group: str,
        membership: GroupMembership,
        on_gap: Callable[[Gap], object] | None,
        on_progress: OnProgress | None,
        replica: Literal["leader", "any"] | int,
    ) -> None:
        self._client = client
        self._registers = Registers(client, GROUPS)
        self._group = group
        self._membership = membership
        self._on_gap = on_gap
        self._progress = ProgressTeller(on_progress)
        self._replica: Literal["leader", "any"] | int = replica
        self._watch = Watch()
        self._look_s = min(membership.session_ms / LOOKS_IN_A_SESSION, LOOK_MS_MAX) / 1000
        self._streams: dict[str, StreamInfo] = {}
        self._looked_s = float("-inf")
        self._state = GroupState()
        self._turns = 0
        self._committed: dict[str, tuple[int, int]] = {}
        """By share: of which grant, and how far, this member has committed last."""
        self._feeds: dict[str, Feed] = {}
        self._waiting: asyncio.Queue[GroupMessage] = asyncio.Queue(WAITING_MAX)
        self._in_hand: GroupMessage | None = None
        self._alive_s = float("-inf")
        """When the last write was begun that has counted."""
        self._lock = asyncio.Lock()
        self._soon = asyncio.Event()
        self._leaving = False
        self._problem: Exception | None = None
        self._moved = asyncio.Event()
        self._beating: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        """Under which the group knows this process."""
        return self._membership.id

    @property
    def generation(self) -> int:
        """Of the group's newest decision about who owns what, as far as this member has heard."""
        return self._state.generation

    @property
    def assigned(self) -> list[tuple[str, int]]:
        """The partitions that are this member's, as far as it has heard."""
        held = self._membership.held
        return sorted(share_place(share) for share, one in held.items() if not one.revoked)

    async def __aenter__(self) -> GroupReading:
        await self._turn()
        self._beating = asyncio.create_task(self._beat())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """The message in hand is not done; what was done is committed, and the group told at once."""
        self._leaving = True
        self._soon.set()
        if self._beating is not None:
            await self._beating
        for feed in self._feeds.values():
            feed.task.cancel()
        await asyncio.gather(*(feed.task for feed in self._feeds.values()), return_exceptions=True)
        self._membership.working = None
        if self._problem is None:
            # Who cannot say so is found out.
            with contextlib.suppress(Unreachable):
                await self._turn(leaves=True)

    def __aiter__(self) -> GroupReading:
        return self

    async def __anext__(self) -> GroupMessage:
        self._done()
        while True:
            if self._problem is not None:
                raise self._problem
            if not self._fresh():
                # The others may have given up this member, and gone on: nothing is begun before it has asked.
                await self._move(self._look_s)
                continue
            try:
                found = self._waiting.get_nowait()
            except asyncio.QueueEmpty:
                await self._move(self._look_s)
                continue
            share = share_name(found.stream, found.partition)
            there = self._membership.held.get(share)
            if there is None or not self._membership.holds(share, found.generation):
                continue
            if found.record.offset >= there.position:
                self._in_hand = found
                self._membership.working = (share, found.generation)
                return found

    async def commit(self) -> None:
        """The message in hand is done; when this returns, so it is for the group, whatever fails. Raises
        GroupFenced if its partition is another member's by now, who may be doing it again; Unreachable.
        """
        in_hand = self._in_hand
        self._done()
        await self._turn()
        if in_hand is None:
            return
        share, grant = share_name(in_hand.stream, in_hand.partition), in_hand.generation
        generation, position = self._committed.get(share, (NOT_HELD, MISSING))
        if owns(self._state, self.id, share, grant):
            generation, position = grant, self._state.shares[share].cursor
        if generation != grant or position <= in_hand.record.offset:
            raise GroupFenced(
                f"partition {in_hand.partition} of '{in_hand.stream}' was taken from this member, which was "
                "silent for too long: the message comes again, to another one, if it has not come yet"
            )

    def _done(self) -> None:
        """The message in hand is done."""
        in_hand, self._in_hand = self._in_hand, None
        self._membership.working = None
        if in_hand is None:
            return
        share = share_name(in_hand.stream, in_hand.partition)
        there = self._membership.held.get(share)
        if there is None or there.revoked:
            self._soon.set()
        self._membership.done(share, in_hand.generation, in_hand.record.offset)

    def _fresh(self) -> bool:
        now_s = asyncio.get_running_loop().time()
        return now_s - self._alive_s < self._membership.session_ms / 1000

    async def _move(self, most_s: float) -> None:
        """Wait until something has come, for so long at most."""
        self._moved.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(most_s):
                await self._moved.wait()

    # -- turns ---------------------------------------------------------------------------------------------

    async def _beat(self) -> None:
        """Look, and write that this member is there, again and again. What cannot be mended ends it, and
        iterating raises it."""
        while not self._leaving and self._problem is None:
            self._soon.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_s):
                    await self._soon.wait()
            if self._leaving:
                return
            try:
                await (self._turn() if self._soon.is_set() or self._is_due() else self._look())
            except Unreachable:
                continue
            except RequestFailed as error:
                if not error.retryable:
                    self._problem = error
            except Exception as error:
                self._problem = error
            self._moved.set()

    def _is_due(self) -> bool:
        """Whether the others should hear of this member before it looks again. Many write less often each:
        who writes while another one does has to begin anew."""
        session_s = self._membership.session_ms / 1000
        every_s = max(self._look_s, len(self._state.members) / WRITES_A_SECOND)
        due_s = self._alive_s + min(every_s, session_s / BEATS_IN_A_SESSION)
        return asyncio.get_running_loop().time() > due_s - self._look_s / 2

    async def _look(self) -> None:
        """Hear what the others have written; what has to be said to that is said at once."""
        async with self._lock:
            state = self._hear(await self._registers.get(self._group))
            silent = self._watch.look(int(asyncio.get_running_loop().time() * 1000), state, self.id)
            if not silent and not self._membership.has_to_say(state):
                await self._arrange()
                return
        await self._turn()

    async def _turn(self, leaves: bool = False) -> None:
        """One write that counts. Raises Unreachable, RequestFailed, GroupRefused."""
        async with self._lock:
            loop = asyncio.get_running_loop()
            begun_s = loop.time()
            if not leaves and begun_s - self._looked_s > PARTITIONS_S:
                for name in self._membership.streams:
                    self._streams[name] = await self._client.stream(name)
                self._looked_s = begun_s
            there = [Grown(name, info.id, len(info.partitions)) for name, info in self._streams.items()]
            for place in range(ROUNDS_MAX):
                register = await self._registers.get(self._group)
                state = self._hear(register)
                silent = self._watch.look(int(loop.time() * 1000), state, self.id)
                self._turns += 1
                by = f"{self.id}/{self._turns}"
                if leaves:
                    after, steps = self._membership.leave(state, by)
                else:
                    after, steps = self._membership.turn(state, there, silent, by)
                if not steps:
                    return
                done = await self._registers.put(self._group, encode_group(after), register.version)
                self._hear(done.register)
                if done.mine:
                    self._alive_s = begun_s
                    self._remember(steps)
                    if not leaves:
                        await self._arrange()
                        self._progress.tell(self._reached())
                    return
                # Somebody was faster. Who writes again at once would meet them all again.
                most_ms = min(BACKOFF_MS << min(place, 10), int(self._look_s * 1000))
                await asyncio.sleep(secrets.randbelow(most_ms) / 1000)
            raise Unreachable(
                f"group '{self._group}': {ROUNDS_MAX} writes came behind others'; it has too many "
                "members for so short a session: use a longer session_ms"
            )

    def _remember(self, steps: Sequence[GroupStep]) -> None:
        """These count."""
        for step in steps:
            if isinstance(step, Committed):
                self._committed[step.share] = (step.generation, step.position)

    def _reached(self) -> list[ReadingProgress]:
        """How far this member is in its partitions, as the group knows it now."""
        found: list[ReadingProgress] = []
        for share, feed in sorted(self._feeds.items()):
            there = self._membership.held.get(share)
            stream, partition = share_place(share)
            end = feed.view.end(partition)
            position = MISSING if there is None else there.position
            if position == MISSING:
                position = feed.view.first
            if MISSING not in (position, end):
                found.append(ReadingProgress(stream, partition, position, end))
        return found

    def _hear(self, register: Register) -> GroupState:
        state = decode_group(register.value)
        self._membership.hear(register.version, state)
        self._state = state
        return state

    async def _arrange(self) -> None:
        """Read what is ours, and stop reading what is not."""
        held = self._membership.held
        for share, feed in list(self._feeds.items()):
            if not self._membership.holds(share, feed.generation):
                feed.task.cancel()
                del self._feeds[share]
        for share, holding in held.items():
            if share not in self._feeds and not holding.revoked:
                view = FeedView()
                work = self._feed(share, holding.generation, holding.position, view)
                self._feeds[share] = Feed(holding.generation, asyncio.create_task(work), view)

    async def _feed(self, share: str, generation: int, position: int, view: FeedView) -> None:
        """Everything of one partition from a position on, as long as it is ours."""
        stream, partition = share_place(share)
        try:
            start: Start = EARLIEST if position == MISSING else position
            reading = await self._client.read(
                self._streams[stream],
                partition,
                start=start,
                until=FOREVER,
                replica=self._replica,
                # What retention took nobody can do: the group goes on behind it.
                on_gap=self._on_gap or (lambda _: None),
            )
            view.reading = reading
            async with reading:
                async for _, record in reading:
                    view.first = record.offset if view.first == MISSING else view.first
                    await self._waiting.put(GroupMessage(stream, partition, record, generation))
                    self._moved.set()
        except Exception as error:
            if self._membership.holds(share, generation):
                self._problem = error
                self._moved.set()


class UsesGroups:
    """A client's ways to groups. All raise LiftlogError, RequestFailed, Unreachable."""

    def group(
        self: GroupOwner,
        name: str,
        streams: Sequence[str],
        *,
        member: str = "",
        session_ms: int = SESSION_MS,
        replica: Literal["leader", "any"] | int = "leader",
        on_gap: Callable[[Gap], object] | None = None,
        on_progress: OnProgress | None = None,
    ) -> GroupReading:
        """A member of a group that reads these streams, an async context; the group begins with the first.

        `member`: a name of a process that may be restarted: who joins under it replaces the one before, and
        has its partitions. `session_ms`: who is silent for so long is replaced. `on_gap` is called with what
        retention has removed before it was read, `on_progress` at each beat with a `ReadingProgress` of each
        partition of this member's in which something has come or was done. The streams are those of all
        members.
        """
        checked_name("group", name)
        if not streams:
            raise LiftlogError(f"group '{name}' reads no stream: name at least one")
        for stream in streams:
            checked_name("stream", stream)
        if member:
            checked_name("member", member)
        if session_ms < SESSION_MS_MIN:
            raise LiftlogError(f"session_ms={session_ms} is too short; give at least {SESSION_MS_MIN}")
        id = f"{member or 'member'}-{secrets.token_hex(6)}"
        return GroupReading(
            self, name, GroupMembership(id, member, session_ms, streams), on_gap, on_progress, replica
        )

    async def groups(self: GroupOwner) -> list[str]:
        """The names of all groups."""
        registers = Registers(self, GROUPS)
        found = await registers.keys()
        return [name for name in found if (await registers.get(name)).value is not None]

    async def group_state(self: GroupOwner, name: str) -> GroupState:
        """Members, partitions and cursors of a group. Raises RequestFailed, with code "not-found"."""
        register = await Registers(self, GROUPS).get(checked_name("group", name))
        if register.value is None:
            raise RequestFailed(ERR_NOT_FOUND, f"there is no group '{name}'; see: liftlog group ls")
        return decode_group(register.value)

    async def group_lag(self: GroupOwner, name: str) -> list[ShareLag]:
        """Where a group is in each of its partitions."""
        state = await self.group_state(name)
        infos = {stream: await self.stream(stream) for stream in sorted(state.streams)}
        found: list[ShareLag] = []
        for place, share in sorted((share_place(one), share) for one, share in state.shares.items()):
            stream, partition = place
            reader = self.reader(infos[stream], partition)
            end, start = await reader.offset("new"), await reader.offset(EARLIEST)
            lag = max(0, end - max(share.cursor, start))
            found.append(ShareLag(*place, share.owner, share.granted, share.cursor, end, lag=lag))
        return found

    async def reset_group(
        self: GroupOwner,
        name: str,
        stream: str,
        to: int | Literal["earliest", "new"],
        partition: int | None = None,
    ) -> None:
        """Have a group go on elsewhere in a stream, or in one partition of it, while nobody reads there: at
        an offset, at the front, or at what comes from now on. Raises GroupRefused while somebody does.
        """
        if isinstance(to, int) and not 0 <= to <= NUMBER_MAX:
            raise LiftlogError(f"offset {to} is none; use 0 to {NUMBER_MAX}")
        info = await self.stream(stream)
        targets: dict[str, int] = {}
        for index in range(len(info.partitions)) if partition is None else [partition]:
            at = to if isinstance(to, int) else await self.reader(info, index).offset(to)
            targets[share_name(stream, index)] = at
        await _change(self, name, lambda state: [Reset(share, at) for share, at in sorted(targets.items())])

    async def delete_group(self: GroupOwner, name: str) -> None:
        """Remove a group that has no members, with its cursors. Raises GroupRefused while it has some."""
        registers = Registers(self, GROUPS)
        for _ in range(ROUNDS_MAX):
            register = await registers.get(checked_name("group", name))
            if register.value is None:
                return
            if members := decode_group(register.value).members:
                raise GroupRefused(f"group '{name}' has {len(members)} members: stop them first")
            if (await registers.put(name, None, register.version)).register.value is None:
                return
        raise Unreachable(f"group '{name}' is written to all the time; stop its members")


async def _change(client: GroupOwner, name: str, decide: Callable[[GroupState], Sequence[GroupStep]]) -> None:
    """Take these steps, on whatever the group is. Raises GroupRefused."""
    registers = Registers(client, GROUPS)
    by = secrets.token_hex(8)
    for turn in range(ROUNDS_MAX):
        register = await registers.get(checked_name("group", name))
        if register.value is None:
            raise RequestFailed(ERR_NOT_FOUND, f"there is no group '{name}'; see: liftlog group ls")
        state = decode_group(register.value)
        for step in decide(state):
            state = take_step(state, step)
        state = replace(state, by=f"{by}/{turn}")
        if (await registers.put(name, encode_group(state), register.version)).mine:
            return
    raise Unreachable(f"group '{name}' is written to all the time; stop its members")
