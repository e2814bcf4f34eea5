"""The truth about the metadata: the state after each committed command, and whether an answer shows one.

The simulator applies what the metadata group commits, in its order, to a state machine of its own, and keeps
for each stream name and each partition what was so from which Raft index on. A linearizable read is then easy
to judge from outside, as one would judge a history: the answer must be what held, all of it at one index, at
some index between what was committed when the read was asked for and what is committed when it is answered.
(Read-index promises no less: Raft paper, section 8.)
"""

from __future__ import annotations

from binascii import crc32
from bisect import bisect_right
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

import msgspec
from msgspec import UNSET

from liftlog.core.describe import describe_partition
from liftlog.core.guards import Guards
from liftlog.core.metadata.commands import decode_command
from liftlog.core.metadata.elsewhere import named_origin
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.origins import position_key, sources_of
from liftlog.core.metadata.outbox import ROOM
from liftlog.core.metadata.records import StreamState
from liftlog.core.raft.members import decode_members, is_change
from liftlog.core.replica.copying.passing import taking
from liftlog.messages import PartitionInfo, StreamInfo
from liftlog.messages.copying import Start, elsewhere, start_in
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.options.marking import marker_ms
from liftlog.types import NUMBER_MAX, Entry, InvariantViolation, PartitionId, Record
from liftlog_sim.truth.activity import ActivityTruth
from liftlog_sim.truth.fronts import FrontLeast
from liftlog_sim.truth.invariants import Violation

_encode = msgspec.msgpack.Encoder().encode
Value = TypeVar("Value")


class _Versions(Generic[Value]):
    """What one thing was, from which Raft index on; before its first index it did not exist."""

    __slots__ = ("indexes", "values")

    def __init__(self) -> None:
        self.indexes: list[int] = []
        self.values: list[Value] = []

    def note(self, index: int, value: Value) -> None:
        if not self.values or self.values[-1] != value:
            self.indexes.append(index)
            self.values.append(value)

    def at(self, index: int) -> Value | None:
        position = bisect_right(self.indexes, index) - 1
        return self.values[position] if position >= 0 else None

    def changes(self, first: int, last: int) -> list[int]:
        """The indexes in (first, last] at which it changed."""
        return self.indexes[bisect_right(self.indexes, first) : bisect_right(self.indexes, last)]


STATE = ("nodes", "streams", "partitions", "deletions, level and activity", "results", "their ends", "loads")


def state_of(metadata: Metadata) -> tuple[int, ...]:
    """A number for each part of all that commands are judged by: equal for equal ones."""
    loads = metadata.loads
    ends = {until: sorted(requests) for until, requests in metadata._ends.items() if requests}
    parts = (
        list(metadata.nodes.values()),
        list(metadata.streams.values()),
        list(metadata.partitions.values()),
        (metadata.deleted_at, metadata.level, metadata.outbox.head, list(metadata.outbox.events)),
        list(metadata.results.items()),
        sorted(ends.items()),
        [
            sorted((node, number) for node, number in counted.items() if number)
            for counted in (loads.replicas, loads.preferred, loads.leads)
        ],
    )
    return tuple(crc32(_encode(part)) for part in parts)


AFAR = 0
"""In the place of an origin's id: it is of another cluster."""


class Naming(NamedTuple):
    """R28: which stream of another cluster a mirror copies, and how many partitions it had when that was
    said.
    """

    identity: str
    partitions: int


class MetadataTruth:
    """The committed metadata, now and at every index so far."""

    def __init__(
        self,
        mutants: Mutants = NO_MUTANTS,
        activity_room: int = ROOM,
        counts: dict[str, int] | None = None,
    ) -> None:
        self._checks = counts if counts is not None else {}
        self._state = Metadata(Guards(mutants), activity_room=activity_room)
        self._states: dict[int, tuple[int, ...]] | None = None
        self._streams: dict[str, _Versions[int]] = {}
        """Id of the stream of a name; 0 = there is none."""
        self._counts: dict[int, _Versions[int]] = {}
        """How many partitions a stream has (R19)."""
        self._partitions: dict[PartitionId, _Versions[PartitionInfo]] = {}
        self.subject_limits: dict[int, int] = {}
        """R22: by stream, the least number of messages of a subject that it was ever to keep."""
        self.subject_room: dict[int, int] = {}
        """C6: by stream, the greatest number of messages of a subject that it was ever to hold at most."""
        self.byte_room: dict[int, int] = {}
        """C6: by stream, the greatest number of bytes that a partition was ever to hold at most;
        NUMBER_MAX, if it was not bounded once."""
        self.front_limits: dict[int, FrontLeast] = {}
        """R25: by stream, how few messages it was ever to keep, and for how short a time."""
        self.marking: set[int] = set()
        """R24: streams that leave markers, from their creation."""
        self.queues: set[int] = set()
        """R26: streams that are work queues."""
        self.interests: set[int] = set()
        """R27: streams whose messages were ever to go by interest."""
        self.firsts: dict[int, int] = {}
        """C7: of each stream that begins elsewhere than at 0, where."""
        self.mirrors: dict[int, int] = {}
        """R28: of each mirror, by its id, the stream that it was made a mirror of."""
        self.taking: dict[int, Callable[[Record], bool]] = {}
        """Of each mirror, whether it has such a record of that."""
        self.named: dict[tuple[int, str], Naming] = {}
        """Of each copy, and what it calls so of another cluster, which stream that is."""
        self.saying: set[int] = set()
        """Those that have a journal."""
        self.activity: dict[int, ActivityTruth] = {}
        """N12: of each activity stream that there ever was, by its id."""
        self.sources: dict[int, dict[int, tuple[tuple[str, Start], ...]]] = {}
        """R29: of each stream with sources, by its id, what it has copied, with all filters of that,
        and where it began.
        """

    @property
    def committed(self) -> int:
        """Index of the last committed entry."""
        return self._state.applied

    def keep_states(self) -> None:
        """Snapshots are taken in this world: remember what each entry has made of the state."""
        self._states = {0: state_of(self._state)}

    def began_anew(self, metadata: Metadata) -> None:
        """M5: a recovery has made this of what is committed."""
        index = metadata.applied
        self._state = metadata
        if self._states is not None:
            self._states[index] = state_of(metadata)
        self._note(index, list(metadata.partitions))
        metadata.changed.clear()

    def unlike(self, metadata: Metadata) -> str:
        """How a node's state differs from what the commands up to its end have made; empty if it does not."""
        if self._states is None:
            return ""
        known = self._states.get(metadata.applied)
        if known is None:
            return f"{self.committed} entries are committed"
        found = state_of(metadata)
        differing = [name for name, one, other in zip(STATE, known, found, strict=True) if one != other]
        return f"what they have made differs in {', '.join(differing)}" if differing else ""

    def commit(self, entry: Entry) -> None:
        """The next entry is committed. Raises Violation if it breaks what holds for every record."""
        state = self._state
        try:
            ordinary = entry.data and not is_change(entry.data)
            state.apply(entry.index, decode_command(entry.data) if ordinary else None)
            if entry.data and not ordinary:
                state.grouped(decode_members(entry.data))
        except InvariantViolation as broken:
            raise Violation("NodeInvariant", f"entry {entry.index}: {broken}") from None
        if self._states is not None:
            self._states[entry.index] = state_of(state)
        if stream := state.outbox.stream:
            self.activity.setdefault(stream, ActivityTruth(stream, self._checks)).happened(state)
        if not state.changed:
            return
        self._note(entry.index, list(state.changed))
        state.changed.clear()

    def _note(self, index: int, changed: list[PartitionId]) -> None:
        """What is so from this index on."""
        state = self._state
        for name in self._streams:
            if name not in state.streams:
                self._streams[name].note(index, 0)
        for name, stream in state.streams.items():
            self._streams.setdefault(name, _Versions()).note(index, stream.id)
            self._counts.setdefault(stream.id, _Versions()).note(index, len(stream.partitions))
            if marker_ms(stream.config):
                self.marking.add(stream.id)
            if stream.config.is_queue:
                self.queues.add(stream.id)
            if stream.config.interest is True:
                self.interests.add(stream.id)
            if stream.config.first_offset is not UNSET:
                self.firsts[stream.id] = stream.config.first_offset
            for called, identity in () if stream.config.origins is UNSET else stream.config.origins:
                self.named.setdefault((stream.id, called), Naming(identity, stream.config.partitions))
            if stream.config.mirrors and stream.id not in self.mirrors:
                afar = elsewhere(stream.config.mirrors) is not None
                self.mirrors[stream.id] = AFAR if afar else state.streams[stream.config.mirrors].id
                filter = stream.config.mirror_filter
                begin = start_in(stream.config, stream.config.mirrors)
                self.taking[stream.id] = taking("" if filter is UNSET else filter, begin)
                if stream.config.has_journal:
                    self.saying.add(stream.id)
            if stream.config.sources is not UNSET:
                self._gathers(stream)
            if keeps := stream.config.keeps_of_subject:
                self.subject_limits[stream.id] = min(keeps, self.subject_limits.get(stream.id, keeps))
            if holds := stream.config.holds_of_subject:
                self.subject_room[stream.id] = max(holds, self.subject_room.get(stream.id, holds))
            room = stream.config.holds_bytes or NUMBER_MAX
            self.byte_room[stream.id] = max(room, self.byte_room.get(stream.id, 0))
            self.front_limits[stream.id] = self.front_limits.get(stream.id, FrontLeast()).with_(stream.config)
        for partition in changed:
            record = state.partitions.get(partition)
            if record is not None:
                versions = self._partitions.setdefault(partition, _Versions())
                versions.note(index, describe_partition(record))

    def _gathers(self, stream: StreamState) -> None:
        """R29: of one of another cluster nothing is copied before it is named."""
        known, config = self.sources.setdefault(stream.id, {}), stream.config
        for name, filter in sources_of(config).items():
            id = position_key(self._state, stream, name)
            if elsewhere(name) is not None and not named_origin(config, name):
                continue
            had = (filter, start_in(config, name))
            if id is not None and had not in known.get(id, ()):
                known[id] = (*known.get(id, ()), had)

    def judge(self, name: str, answer: list[StreamInfo], asked_at: int) -> str:
        """What is wrong with an answer to "which streams are there" (`name` empty) or "what is this stream"
        (an empty answer: there is none of that name); empty if nothing is.

        `asked_at`: `committed` when the request was made.
        """
        last = self.committed
        moments = {asked_at}
        for names in self._streams.values():
            moments.update(names.changes(asked_at, last))
        for records in self._partitions.values():
            moments.update(records.changes(asked_at, last))
        if any(self._shows(name, answer, moment) for moment in sorted(moments)):
            return ""
        shown = ", ".join(
            f"{stream.config.name} = {stream.id} with "
            + " ".join(f"{p.index}: leader {p.leader}, version {p.version}" for p in stream.partitions)
            for stream in answer
        )
        earlier = self._earlier(name, answer, asked_at)
        known = f"it was so at index {earlier}" if earlier else "it was so at no index"
        return (
            f"[{shown}] was answered to a read of '{name or 'all streams'}' made when index {asked_at} was "
            f"committed and answered at {last}; {known}"
        )

    def _shows(self, name: str, answer: list[StreamInfo], index: int) -> bool:
        """Whether this is the whole answer by the state at an index."""
        wanted = {
            known: stream
            for known, versions in self._streams.items()
            if (stream := versions.at(index)) and (not name or known == name)
        }
        if {stream.config.name: stream.id for stream in answer} != wanted:
            return False
        for told in answer:
            count = self._counts[told.id].at(index)
            if [info.index for info in told.partitions] != list(range(count or 0)):
                return False
        return all(self._shown(stream, info, index) for stream in answer for info in stream.partitions)

    def _shown(self, stream: StreamInfo, info: PartitionInfo, index: int) -> bool:
        versions = self._partitions.get(PartitionId(stream.id, info.index))
        return versions is not None and versions.at(index) == info

    def _earlier(self, name: str, answer: list[StreamInfo], asked_at: int) -> int:
        """The last index before the request at which the answer would have been right; 0 = none."""
        return next((i for i in range(asked_at - 1, 0, -1) if self._shows(name, answer, i)), 0)
