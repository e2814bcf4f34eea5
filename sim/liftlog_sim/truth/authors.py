"""Who asked the metadata group for what, and what came of it (M3, I1, R19).

A command may be sent again and again, held back by the network, kept in the log of a leader that was cut off.
Whatever a node does about that, three things must come out, and all are judged by what the first node that
applies an entry then shows, not by what commands say of themselves:

- A command changes the metadata at most once, however often it is in the log (CommandOnce).
- An alteration makes of a stream's configuration what it names, and nothing else (OnlyAsAltered, R19).
- What a client's command changes was there while its author waited for the answer: the stream that is
  deleted bore the name, a stream that is made anew was not deleted after he had gone, a partition was in the
  state in which he wanted another leader. And each request of a client accounts for one change. The vote that
  a controller gives to a spare is that of a node which is gone. A copy that he moves by himself is one of a
  node that somebody had drained, or had wanted to retire, and goes to its heir if one was named; and a node
  that he removes was to retire, had no copy and no vote, and was nobody's heir (CommandAsMeant).

An author may have gone without an answer: then what he asked for may happen later, to what he knew.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from liftlog.core.metadata.commands import (
    AdmitNode,
    AlterStream,
    Command,
    CreateStream,
    DeleteStream,
    DrainNode,
    ElectLeader,
    MoveReplicas,
    PassVote,
    PromoteSpare,
    Rebalance,
    RemoveNode,
    ReplicaFailed,
    RetireNode,
    SetVoter,
)
from liftlog.core.metadata.metadata import Metadata
from liftlog.core.metadata.records import CONFIGURED, DOES_NOT_VOTE, GONE, VOTES
from liftlog.messages import (
    AddNodeRequest,
    AlterStreamRequest,
    ClientMessage,
    CreateStreamRequest,
    DeleteStreamRequest,
    DrainNodeRequest,
    ElectLeaderRequest,
    MoveReplicasRequest,
    RebalanceRequest,
    RemoveNodeRequest,
    RetireNodeRequest,
    SetVoterRequest,
)
from liftlog.types import OPTIONAL, PartitionId, StreamConfig
from liftlog_sim.kernel import SECOND, Kernel
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.meanings import kept_starts, meant_by

FOR_EVER_US = 1 << 62


class Author:
    """One request of a client. `until_us`: when he stopped waiting."""

    __slots__ = ("change", "from_us", "until_us")

    def __init__(self, from_us: int) -> None:
        self.from_us = from_us
        self.until_us = FOR_EVER_US
        self.change: Change | None = None
        """The change that he may have caused."""

    def fits(self, change: Change) -> bool:
        return self.from_us <= change.at_us and self.until_us >= change.since_us


class Change(NamedTuple):
    """Something was changed at `at_us` that had been there since `since_us`."""

    at_us: int
    since_us: int


class PartitionShape(NamedTuple):
    """What a command may change of a partition, and which leadership it is in."""

    version: int
    epoch: int
    ready: bool
    reports: tuple[tuple[int, int], ...]
    round: int
    assignment: int
    """R20."""
    minimum: int
    """In sync, by its record (R19)."""
    replicas: tuple[int, ...]
    target: tuple[int, ...]


class MetadataPicture(NamedTuple):
    """The metadata, as far as commands change it."""

    streams: dict[int, str]
    altered: dict[int, tuple[int, StreamConfig]]
    """Of each stream: its revision and its configuration."""
    partitions: dict[PartitionId, PartitionShape]
    nodes: dict[int, tuple[int, str, str]]
    drains: dict[int, tuple[int, bool]]
    """Of each node: which command has said so last, and whether it is drained (R20)."""
    wishes: dict[int, tuple[int, bool, int]]
    """Of each node: which command has said so last, whether it retires, and its heir (I3)."""
    admitted: dict[int, tuple[int, str, bool]]
    """Of each node of which an operator has said so: the command, the address, whether it is removed (I3)."""


def picture_of(metadata: Metadata) -> MetadataPicture:
    return MetadataPicture(
        {stream.id: name for name, stream in metadata.streams.items()},
        {stream.id: (stream.revision, stream.config) for stream in metadata.streams.values()},
        {
            partition.id: PartitionShape(
                partition.version,
                partition.epoch,
                partition.ready,
                tuple(partition.reports.items()),
                partition.report_round,
                partition.assignment,
                partition.min_insync,
                partition.replicas,
                partition.target,
            )
            for partition in metadata.partitions.values()
        },
        {node.node: (node.incarnation, node.state, node.voter) for node in metadata.nodes.values()},
        {node.node: (node.drains_at, node.drains) for node in metadata.nodes.values()},
        {node.node: (node.retires_at, node.retires, node.heir) for node in metadata.nodes.values()},
        {one.node: (one.at, one.address, one.removed) for one in metadata.admissions.values()},
    )


OF_CLIENTS = (
    AdmitNode,
    CreateStream,
    DeleteStream,
    AlterStream,
    DrainNode,
    ElectLeader,
    MoveReplicas,
    Rebalance,
    RemoveNode,
    RetireNode,
    SetVoter,
)
"""Commands that somebody has to have asked for."""


def _wish_for_a_node(command: Command) -> tuple[tuple[object, ...], str] | None:
    """What an operator has asked for who wanted this of a node, and what it does; None if it is about no
    node.
    """
    match command:
        case AdmitNode():
            return ("add", command.node, command.address), f"admits node {command.node}"
        case RetireNode():
            asked = ("retire", command.node, command.retires, command.heir)
            return asked, f"has node {command.node} retire, or ends that"
        case DrainNode():
            return ("drain", command.node, command.drains), f"drains node {command.node}, or ends that"
        case SetVoter():
            return ("vote", command.node, command.votes), f"sets node {command.node}'s vote"
        case _:
            return None


class Authors:
    """All requests of one world, and the metadata as the first node that applies an entry sees it."""

    def __init__(self, checks: dict[str, int], kernel: Kernel) -> None:
        self._checks = checks
        self._kernel = kernel
        self._authors: dict[tuple[object, ...], list[Author]] = {}
        self._index = 0
        self._picture = MetadataPicture({}, {}, {}, {}, {}, {}, {})
        self._effects: dict[tuple[object, ...], int] = {}
        """Which command has changed something, and at which index."""
        self._born_us: dict[int, int] = {}
        self._gone_us: dict[str, int] = {}
        self._altered_us: dict[int, int] = {}
        self._assigned_us: dict[PartitionId, int] = {}
        self._emptied: dict[int, list[tuple[int, int, int]]] = {}
        """Of each node: from when until when it was to give its copies away, and to whom (0: to anybody)."""
        self._since_us: dict[PartitionId, int] = {}
        """When the present version of each partition was first seen."""
        self._led_us: dict[PartitionId, int] = {}
        self.violation: Violation | None = None
        """The first one; a node is in the middle of its step then."""

    def asks(self, request: ClientMessage) -> Author | None:
        """A client sends a request; None if it changes nothing of the metadata."""
        match request:
            case CreateStreamRequest():
                wanted: tuple[object, ...] = ("create", request.config.name)
            case AlterStreamRequest():
                wanted = ("alter", request.name, *sorted(request.changes.named.items()))
            case DeleteStreamRequest():
                wanted = ("delete", request.name)
            case ElectLeaderRequest():
                wanted = ("elect", request.name, request.partition, request.node)
            case MoveReplicasRequest():
                wanted = ("move", request.id, request.partition, *request.replicas)
            case DrainNodeRequest():
                wanted = ("drain", request.node, request.drains)
            case AddNodeRequest():
                wanted = ("add", request.node, request.address)
            case RemoveNodeRequest():
                wanted = ("remove", request.node)
            case RetireNodeRequest():
                wanted = ("retire", request.node, request.retires, request.heir if request.retires else 0)
            case RebalanceRequest():
                wanted = ("rebalance",)
            case SetVoterRequest():
                wanted = ("vote", request.node, request.votes)
            case _:
                return None
        author = Author(self._kernel.now_us)
        self._authors.setdefault(wanted, []).append(author)
        return author

    def applied(self, index: int, command: Command, metadata: Metadata) -> None:
        """A node has applied a command; `metadata` is what it has now."""
        if index > self._index and self.violation is None:
            self._index = index
            self._judge(index, command, metadata)

    def began_anew(self, metadata: Metadata) -> None:
        """M5: a recovery has made this of the metadata, and nobody has asked for it."""
        self._index = metadata.applied
        before, self._picture = self._picture, picture_of(metadata)
        self._note(before, self._picture)

    # -- judging -------------------------------------------------------------------------------------------

    def _judge(self, index: int, command: Command, metadata: Metadata) -> None:
        before, after = self._picture, picture_of(metadata)
        self._picture = after
        if after == before:
            return
        try:
            self._once(index, command)
            self._as_meant(index, command, before, after)
            if isinstance(command, RemoveNode):
                self._removed(index, command, before, metadata)
        except Violation as violation:
            self.violation = violation
        self._note(before, after)

    def _once(self, index: int, command: Command) -> None:
        self._checks["CommandOnce"] += 1
        names: list[tuple[object, ...]] = [tuple(command.request)]
        if isinstance(command, ReplicaFailed):
            names.append((command.partition, command.incarnation, command.failure))
        for name in names:
            first = self._effects.setdefault(name, index)
            if first != index:
                raise Violation(
                    "CommandOnce",
                    f"{type(command).__name__} {name} has changed something at index {first}, "
                    f"and again at {index}",
                )

    def _as_meant(
        self, index: int, command: Command, before: MetadataPicture, after: MetadataPicture
    ) -> None:
        self._only_as_altered(index, command, before, after)
        self._only_as_drained(index, command, before, after)
        if isinstance(command, PromoteSpare):
            self._spared(index, command, before)
        if isinstance(command, PassVote):
            self._passed(index, command, before)
        if not isinstance(command, OF_CLIENTS):
            return
        self._checks["CommandAsMeant"] += 1
        if isinstance(command, AlterStream) and [*command.changes.named] == ["origins"]:
            return  # A mirror's leader names what it copies (R28): MirrorIsPrefix judges what comes of it.
        if isinstance(command, AlterStream):
            asked: tuple[object, ...] = ("alter", command.name, *sorted(command.changes.named.items()))
            since_us = self._altered_us.get(command.stream, self._born_us[command.stream])
            self._account(index, asked, since_us, f"alters stream {command.stream}")
            return
        if isinstance(command, MoveReplicas):
            self._moved(index, command, before)
            return
        if isinstance(command, RemoveNode):
            return
        wish = _wish_for_a_node(command)
        if wish is not None:
            asked, what = wish
            self._account(index, asked, 0, what)
            return
        for stream, name in before.streams.items():
            if stream not in after.streams:
                self._account(index, ("delete", name), self._born_us[stream], f"deletes stream {stream}")
        for stream, name in after.streams.items():
            if stream not in before.streams:
                gone_us = self._gone_us.get(name, 0)
                self._account(index, ("create", name), gone_us, f"makes stream {stream}")
        moved = [
            partition
            for partition, shape in after.partitions.items()
            if partition in before.partitions and shape.epoch != before.partitions[partition].epoch
        ]
        if isinstance(command, ElectLeader):
            for partition in moved:
                name = after.streams[partition.stream]
                wanted = ("elect", name, partition.index, command.node)
                self._account(index, wanted, self._since_us[partition], f"gives {partition} a leader")
        elif moved:
            since_us = max(self._led_us[partition] for partition in moved)
            self._account(index, ("rebalance",), since_us, f"gives {moved[0]} another leader")

    def _moved(self, index: int, command: MoveReplicas, before: MetadataPicture) -> None:
        """R20: somebody wanted the copies there, or a move undone; or the controller empties a node."""
        partition = command.partition
        undone: tuple[object, ...] = ("move", partition.stream, partition.index)
        since_us = self._assigned_us.get(partition, self._born_us[partition.stream])
        self._assigned_us[partition] = self._kernel.now_us
        what = f"moves {partition} to {list(command.replicas)}"
        if self._gives_away(command, before, since_us):
            return
        self._account(index, (*undone, *command.replicas), since_us, what, undone)

    def _gives_away(self, command: MoveReplicas, before: MetadataPicture, since_us: int) -> bool:
        """R20, I3: whether this is what a controller may do: each copy that goes elsewhere is one of a node
        that was to give its copies away, at some time since the partition was moved last, to this one.
        """
        shape = before.partitions[command.partition]
        present = shape.target or shape.replicas
        if len(present) != len(command.replicas):
            return False
        for old, new in zip(present, command.replicas, strict=True):
            if old == new:
                continue
            heirs = [heir for _, until_us, heir in self._emptied.get(old, ()) if until_us >= since_us]
            if not any(heir in (0, new) or heir in present for heir in heirs):
                return False
        return True

    def _passed(self, index: int, command: PassVote, before: MetadataPicture) -> None:
        """I3: a vote passes from a node that retires to its heir, or if it has none to whom nobody has told
        not to vote."""
        self._checks["CommandAsMeant"] += 1
        said = before.wishes[command.node]
        to_spare = said[2] == 0 and before.nodes[command.heir][2] != DOES_NOT_VOTE if command.heir else False
        if said[1:] != (True, command.heir) and not (said[1] and to_spare):
            raise Violation(
                "CommandAsMeant",
                f"index {index} gives the vote of node {command.node} to {command.heir}; the last word about "
                f"that node, of index {said[0]}, was: retires {said[1]}, heir {said[2]}",
            )

    def _removed(self, index: int, command: RemoveNode, before: MetadataPicture, now: Metadata) -> None:
        """I3: somebody wanted a node to be removed, now or when it has nothing left; and it had nothing."""
        node, said = command.node, before.wishes.get(command.node)
        what = f"index {index} removes node {node}"
        if said is None or not said[1]:
            self._account(index, ("remove", node), 0, f"removes node {node}")
        for partition, shape in before.partitions.items():
            if node in shape.replicas:
                raise Violation(
                    "CommandAsMeant", f"{what}, which has a copy of {partition}: {list(shape.replicas)}"
                )
        founders = [founder for founder, _ in now.founders]
        voter = before.nodes[node][2] if node in before.nodes else DOES_NOT_VOTE
        members = now.members.nodes if now.members is not None else ()
        if voter == VOTES or (voter == CONFIGURED and node in founders) or node in members:
            raise Violation("CommandAsMeant", f"{what}, which votes: members {members}, wish {voter!r}")
        for other, wish in before.wishes.items():
            if wish[1:] == (True, node) and other in now.nodes:
                raise Violation("CommandAsMeant", f"{what}, which is to take the place of node {other}")

    def _spared(self, index: int, command: PromoteSpare, before: MetadataPicture) -> None:
        """M2: the vote that a spare gets is that of a node which is gone."""
        self._checks["CommandAsMeant"] += 1
        state = before.nodes[command.node][1]
        if state not in GONE:
            raise Violation(
                "CommandAsMeant",
                f"index {index} gives node {command.spare} the vote of node {command.node}, which is {state}",
            )

    def _only_as_altered(
        self, index: int, command: Command, before: MetadataPicture, after: MetadataPicture
    ) -> None:
        """R19: a configuration is what it was, with what its alteration names, and nothing else."""
        for stream, (revision, config) in before.altered.items():
            now = after.altered.get(stream)
            if now is None:
                continue
            self._all_partitions(index, stream, now[1], before, after)
            self._checks["OnlyAsAltered"] += 1
            expected, at = msgspec.structs.asdict(config), revision
            if isinstance(command, AlterStream) and command.stream == stream:
                expected |= command.changes.named
                if command.changes.mirror == "" or command.changes.sources == ():
                    expected |= dict.fromkeys(("origins", "starts", "mirror_filter"), msgspec.UNSET)
                elif command.changes.sources is not msgspec.UNSET:
                    if command.changes.starts is msgspec.UNSET:
                        expected["starts"] = kept_starts(config, command.changes.sources)
                    names = {one.name: (id, one) for id, (_, one) in before.altered.items()}
                    expected["origins"] = meant_by(stream, names, command.changes.sources)
                for name in OPTIONAL:
                    expected[name] = expected[name] or msgspec.UNSET
                at = index
            if (at, expected) != (now[0], msgspec.structs.asdict(now[1])):
                raise Violation(
                    "OnlyAsAltered",
                    f"index {index} makes the configuration of stream {stream} {now[1]}, at {now[0]}; it was "
                    f"{config}, and {type(command).__name__} asks for {expected}, at {at}",
                )
        for partition, shape in after.partitions.items():
            known = before.partitions.get(partition)
            if known is None or known.minimum == shape.minimum:
                continue
            meant = after.altered[partition.stream][1].min_insync_replicas
            named = isinstance(command, AlterStream) and command.stream == partition.stream
            if not named or shape.minimum != meant:
                raise Violation(
                    "OnlyAsAltered",
                    f"index {index}, a {type(command).__name__}, makes the minimum in sync of {partition} "
                    f"{shape.minimum}; it was {known.minimum}, and its stream's is {meant}",
                )

    def _all_partitions(
        self, index: int, stream: int, config: StreamConfig, before: MetadataPicture, after: MetadataPicture
    ) -> None:
        """R19: a stream has the partitions that its configuration says, and keeps those that it had."""
        found = [partition.index for partition in after.partitions if partition.stream == stream]
        had = [partition for partition in before.partitions if partition.stream == stream]
        if sorted(found) != list(range(config.partitions)) or len(found) < len(had):
            raise Violation(
                "OnlyAsAltered",
                f"index {index}: stream {stream} had {len(had)} partitions, has {found}, and is configured "
                f"to have {config.partitions}",
            )

    def _only_as_drained(
        self, index: int, command: Command, before: MetadataPicture, after: MetadataPicture
    ) -> None:
        """R20: whether a node is drained, or retires, is what the last command about that says."""
        for node, wish in before.wishes.items():
            meant = isinstance(command, RetireNode) and command.node == node
            if not meant and after.wishes.get(node, wish) != wish:
                how = "retires" if wish[1] else "does not retire"
                text = f"index {index}, a {type(command).__name__}, changes that node {node} {how}"
                raise Violation("CommandAsMeant", text)
        for node, said in before.drains.items():
            meant = isinstance(command, DrainNode) and command.node == node
            if not meant and after.drains.get(node, said) != said:
                how = "drained" if said[1] else "not drained"
                text = f"index {index}, a {type(command).__name__}, changes that node {node} is {how}"
                raise Violation("CommandAsMeant", text)

    def _account(
        self,
        index: int,
        wanted: tuple[object, ...],
        since_us: int,
        what: str,
        otherwise: tuple[object, ...] = (),
    ) -> None:
        """One who wanted that must have waited at `since_us` or later, when what is changed was there.

        `otherwise`: what else he may have said to mean the same.
        """
        authors = [*self._authors.get(wanted, ()), *self._authors.get(otherwise, ())]
        if not _assign(Change(self._kernel.now_us, since_us), authors, set()):
            text = " ".join(str(part) for part in wanted)
            raise Violation(
                "CommandAsMeant",
                f"index {index} {what}, there since {since_us / SECOND:.3f} s, but nobody who wanted that "
                f"({text}) has waited since then",
            )

    def _note(self, before: MetadataPicture, after: MetadataPicture) -> None:
        """When what is there now began."""
        now_us = self._kernel.now_us
        for node in {**before.drains, **after.drains}:
            was, now = _heir(before, node), _heir(after, node)
            if was == now:
                continue
            times = self._emptied.setdefault(node, [])
            if was is not None and times:
                times[-1] = (times[-1][0], now_us, times[-1][2])
            if now is not None:
                times.append((now_us, FOR_EVER_US, now))
        for stream in after.streams:
            self._born_us.setdefault(stream, now_us)
        for stream, name in before.streams.items():
            if stream not in after.streams:
                self._gone_us[name] = now_us
        for stream, (revision, _) in after.altered.items():
            if stream in before.altered and before.altered[stream][0] != revision:
                self._altered_us[stream] = now_us
        for partition, shape in after.partitions.items():
            known = before.partitions.get(partition)
            if known is None or known.version != shape.version:
                self._since_us[partition] = now_us
            if known is None or known.epoch != shape.epoch:
                self._led_us[partition] = now_us


def _heir(picture: MetadataPicture, node: int) -> int | None:
    """Who is to have the copies of a node: its heir, anybody (0), or nobody else than itself (None)."""
    _, retires, heir = picture.wishes.get(node, (0, False, 0))
    _, drains = picture.drains.get(node, (0, False))
    return heir if retires else 0 if drains else None


def _assign(change: Change, authors: list[Author], asked: set[int]) -> bool:
    """Find an author for a change, if need be by finding another one for what was thought to be his."""
    for place, author in enumerate(authors):
        if place in asked or not author.fits(change):
            continue
        asked.add(place)
        if author.change is None or _assign(author.change, authors, asked):
            author.change = change
            return True
    return False
