"""A disk whose memory of the metadata group is gone begins anew in the group, and keeps everything else (M4).

What a voter has promised stands in `vote` and in `raft/`. If these cannot be read, or if the disk was found
to have forgotten something (I2), its word counts for nothing any more, and it can never be trusted again. The
logs of the streams are another matter: they are told from one another, and judged, by other means. So the
disk stays what it is for the streams and becomes another member of the group: it gets a new id to vote under,
forgets the group's log, and is sent it by the others, who let the new member in (M2).

It never takes part in the birth of a cluster again: it knows that there is one (I2). A disk that is the only
voter is not renewed, since nobody could send it anything.

The id is written first, and together with it that a renewal is under way: a start that finds this goes on
with it. Whatever is left of the old promises is out of the way before the renewal is over: the group's log
lies in quarantine/ then, for people to look at.
"""

from __future__ import annotations

import msgspec

from liftlog.ports import Disk
from liftlog.storage.layout import (
    CLEAN,
    HW,
    IDENTITY,
    QUARANTINE,
    RAFT,
    RECOVERED,
    ROOT,
    VOTE,
    make_directory_durable,
    next_number,
)
from liftlog.storage.statefile import CorruptState, read_state, write_state
from liftlog.types import RAFT_LOG, HardState, Identity, PartitionId

_encode = msgspec.msgpack.encode


def may_renew(disk: Disk) -> bool:
    """Whether others can send this disk what it has lost: not if it is known to be the only voter."""
    try:
        content = read_state(disk, VOTE)
        state = None if content is None else msgspec.msgpack.decode(content, type=HardState)
    except (CorruptState, msgspec.MsgspecError):
        return True
    return state is None or len(state.peer_disks) != 1


def begin_renewal(disk: Disk, identity: Identity, vote_id: str) -> Identity:
    """From now on this disk votes under another id, and has promised nothing under it."""
    drop_prepared(disk)
    renewed = msgspec.structs.replace(identity, vote_id=vote_id, renewing=True)
    write_state(disk, IDENTITY, _encode(renewed))
    return finish_renewal(disk, renewed)


def finish_renewal(disk: Disk, identity: Identity) -> Identity:
    """Forget the group's log and what was promised; the identity that the disk has then."""
    if disk.exists(CLEAN):
        # It says of logs that they need no look, and of the group's that it is there.
        disk.remove(CLEAN)
        disk.sync_directory(ROOT)
    if disk.exists(RAFT) and (disk.exists(RECOVERED) or not identity.recovering):
        # It may be of use to somebody yet: nothing is deleted because it could not be read.
        make_directory_durable(disk, QUARANTINE)
        disk.rename(RAFT, f"{QUARANTINE}/{next_number(disk, QUARANTINE):06d}-raft")
        disk.sync_directory(QUARANTINE)
        disk.sync_directory(ROOT)
    if identity.recovering and disk.exists(RECOVERED):
        disk.rename(RECOVERED, RAFT)
        disk.sync_directory(ROOT)
    _forget_checkpoint(disk)
    write_state(disk, VOTE, _encode(HardState()))
    renewed = msgspec.structs.replace(identity, renewing=False, recovering=False)
    write_state(disk, IDENTITY, _encode(renewed))
    return renewed


def drop_prepared(disk: Disk) -> None:
    """What a recovery has prepared and did not come to use (M5)."""
    if disk.exists(RECOVERED):
        disk.remove_tree(RECOVERED)
        disk.sync_directory(ROOT)


def _forget_checkpoint(disk: Disk) -> None:
    """That of the group's log: the new one begins at its beginning."""
    try:
        content = read_state(disk, HW)
        known = [] if content is None else msgspec.msgpack.decode(content, type=list[tuple[PartitionId, int]])
    except (CorruptState, msgspec.MsgspecError):
        return
    left = [(log, hw) for log, hw in known if log != RAFT_LOG]
    if len(left) < len(known):
        write_state(disk, HW, _encode(left))
