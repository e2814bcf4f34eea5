"""A consumer group as a value, and the steps that it can take (G1-G4).

A group is one register: the last message of one subject of an internal stream, replaced only by who has
seen it (L9). Whoever writes it takes some of the steps below, all at once; the partition's leader, which says
whose write follows on which, is the group's coordinator. So each step is atomic, is on disk on all in sync
when it is answered, and a write that is late, or of somebody who knows an older state, changes nothing. The
steps are the actions of the model `groups` (spec/liftlog_spec/models/groups.py), which says what each is for.

    Joined, Left         a member, by an id of its process. Left: it said so, or is thought dead
    Grown                partitions that there are, of a stream by its id
    Assigned             a new generation, in which a partition shall be a member's
    Granted              a partition without an owner gets the one that shall have it
    GivenUp              an owner that shall not have it any more has stopped
    Committed            everything of a partition below a position is done
    Reset                an operator has the group go on elsewhere, while nobody owns the partition
    Beat                 a member is there
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from liftlog.types import LiftlogError

FORMAT = 1
MISSING = -1
"""A cursor that was never committed."""
NOBODY = ""
NOT_HELD = 0
"""In place of a grant's generation; the first generation is 1."""
MEMBERS_MAX = 64
SHARES_MAX = 1024
"""Partitions of a group. Its register is written at each beat of each member."""


class GroupRefused(LiftlogError):
    """A step that the group does not take."""


class NotAMember(GroupRefused):
    """Who asks is no member, or not any more: it was silent for too long."""


class GroupFenced(GroupRefused):
    """The partition was granted anew since: to somebody else, or in a later generation."""


class MemberRecord(msgspec.Struct, frozen=True):
    """One process in the group. `name`: of a static member, which keeps its partitions across restarts."""

    name: str
    session_ms: int
    beat: int = 0
    """It grows while the member is there."""


class GroupShare(msgspec.Struct, frozen=True):
    """One partition: who shall own it (`target`), who was granted it and has not given it up (`owner`), in
    which generation, and the first offset that is not done."""

    target: str = NOBODY
    owner: str = NOBODY
    granted: int = NOT_HELD
    cursor: int = MISSING


class GroupState(msgspec.Struct, frozen=True):
    """All of a group. Shares are called after stream and partition: "orders/0"."""

    streams: dict[str, int] = {}
    """Name -> id: of a stream that was made anew nothing is known (I1)."""
    members: dict[str, MemberRecord] = {}
    shares: dict[str, GroupShare] = {}
    generation: int = 0
    by: str = ""
    """Whose write this is, and which one of it."""
    format: int = FORMAT


class Joined(NamedTuple):
    member: str
    name: str
    session_ms: int


class Left(NamedTuple):
    member: str


class Grown(NamedTuple):
    stream: str
    id: int
    partitions: int


class Assigned(NamedTuple):
    share: str
    member: str


class Granted(NamedTuple):
    share: str


class GivenUp(NamedTuple):
    member: str
    share: str


class Committed(NamedTuple):
    member: str
    share: str
    generation: int
    position: int


class Reset(NamedTuple):
    share: str
    offset: int


class Beat(NamedTuple):
    member: str


GroupStep = Joined | Left | Grown | Assigned | Granted | GivenUp | Committed | Reset | Beat



class _Format(msgspec.Struct):
    """What every release writes."""

    format: int


_format_decoder = msgspec.json.Decoder(_Format)
_decoder = msgspec.json.Decoder(GroupState)
_encoder = msgspec.json.Encoder(order="deterministic")


def share_name(stream: str, partition: int) -> str:
    return f"{stream}/{partition}"


def share_place(share: str) -> tuple[str, int]:
    """Stream and partition."""
    stream, _, partition = share.rpartition("/")
    return stream, int(partition)


def encode_group(state: GroupState) -> bytes:
    return _encoder.encode(state)


def decode_group(data: bytes | None) -> GroupState:
    """The group that a register holds; one that nobody has written is empty. Raises LiftlogError."""
    if data is None:
        return GroupState()
    try:
        written = _format_decoder.decode(data).format
        if written != FORMAT:
            raise LiftlogError(f"a group's state has format {written}, of a later release; use that release")
        state = _decoder.decode(data)
        for share in state.shares:
            share_place(share)
    except (msgspec.DecodeError, ValueError) as error:
        raise LiftlogError(f"a group's state cannot be read: {error}; did something else write it?") from None
    return state


def owns(state: GroupState, member: str, share: str, generation: int) -> bool:
    """G3: whether this is the partition's present grant."""
    there = state.shares.get(share)
    return there is not None and there.owner == member and there.granted == generation


def may_grant(share: GroupShare) -> bool:
    """G2: it shall be somebody's, and the last owner has given it up or is gone."""
    return share.target != NOBODY and share.owner == NOBODY


def take_step(state: GroupState, step: GroupStep) -> GroupState:
    """The group after this step. Raises GroupRefused, which says why it is none."""
    match step:
        case Joined():
            return _joined(state, step)
        case Left(member):
            return _left(state, member)
        case Grown():
            return _grown(state, step)
        case Assigned(share, member):
            _known(state, member)
            there = _share(state, share)
            if there.target == member:
                raise GroupRefused(f"{share} is to be {member}'s already")
            after = replace(there, target=member)
            return replace(_with(state, share, after), generation=state.generation + 1)
        case Granted(share):
            there = _share(state, share)
            if not may_grant(there):
                raise GroupRefused(f"{share} has an owner, or is to have none")
            return _with(state, share, replace(there, owner=there.target, granted=state.generation))
        case GivenUp(member, share):
            there = _share(state, share)
            if there.owner != member or there.target == member:
                raise GroupRefused(f"{share} is not {member}'s to be given up")
            return _with(state, share, replace(there, owner=NOBODY, granted=NOT_HELD))
        case Committed():
            return _committed(state, step)
        case Reset(share, offset):
            there = _share(state, share)
            if there.owner != NOBODY:
                raise GroupRefused(
                    f"{share} is being read by a member: stop the group's members, or wait until their "
                    "sessions are over, and reset then"
                )
            return _with(state, share, replace(there, cursor=offset))
        case Beat(member):
            there_is = _known(state, member)
            members = {**state.members, member: replace(there_is, beat=there_is.beat + 1)}
            return replace(state, members=members)


def _with(state: GroupState, share: str, after: GroupShare) -> GroupState:
    return replace(state, shares={**state.shares, share: after})


def _share(state: GroupState, share: str) -> GroupShare:
    there = state.shares.get(share)
    if there is None:
        raise GroupRefused(f"the group has no partition {share}")
    return there


def _known(state: GroupState, member: str) -> MemberRecord:
    there = state.members.get(member)
    if there is None:
        raise NotAMember(f"{member} is no member: it was silent for too long, or has left")
    return there


def _joined(state: GroupState, step: Joined) -> GroupState:
    if step.member in state.members:
        raise GroupRefused(f"{step.member} is a member already")
    if len(state.members) >= MEMBERS_MAX:
        raise GroupRefused(f"the group has {MEMBERS_MAX} members, and takes no more: use another group")
    return replace(state, members={**state.members, step.member: MemberRecord(step.name, step.session_ms)})


def _left(state: GroupState, member: str) -> GroupState:
    """G1: what it owned has no owner, and nothing is to be its."""
    _known(state, member)
    members = {one: known for one, known in state.members.items() if one != member}
    shares = {}
    for name, share in state.shares.items():
        if share.owner == member:
            share = replace(share, owner=NOBODY, granted=NOT_HELD)
        if share.target == member:
            share = replace(share, target=NOBODY)
        shares[name] = share
    return replace(state, members=members, shares=shares)


def _grown(state: GroupState, step: Grown) -> GroupState:
    known = state.streams.get(step.stream, 0)
    if step.id < known:
        raise GroupRefused(f"stream '{step.stream}' was made anew since")
    shares = dict(state.shares)
    if step.id > known:
        shares = {name: share for name, share in shares.items() if share_place(name)[0] != step.stream}
    for index in range(step.partitions):
        shares.setdefault(share_name(step.stream, index), GroupShare())
    if len(shares) > SHARES_MAX:
        raise GroupRefused(
            f"the group would have {len(shares)} partitions; it can have {SHARES_MAX}: use a group a stream"
        )
    return replace(state, streams={**state.streams, step.stream: step.id}, shares=shares)


def _committed(state: GroupState, step: Committed) -> GroupState:
    """G3, and G4: of two commits of one grant the greater position counts."""
    share = _share(state, step.share)
    if not owns(state, step.member, step.share, step.generation):
        raise GroupFenced(
            f"{step.share} is not {step.member}'s in generation {step.generation} any more: another member "
            "goes on with it, from the last position that was committed"
        )
    return _with(state, step.share, replace(share, cursor=max(share.cursor, step.position)))
