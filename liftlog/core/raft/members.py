"""Who votes in the metadata group, and from when on (M2).

A *member* is a disk, not a machine: a node that comes back with another disk is another member, which has
promised nothing. A *configuration* (`Members`) says who votes and who learns. It is an entry of the log like
any other, and a node goes by the last one in its log, committed or not. The first is that of the cluster's
birth (I2): the disks of its certificate.

Each configuration differs from the one before by one voter at most, so that a quorum of one meets every
quorum of the other, and one change at a time is enough:

    add       as a learner, which gets the log and is in no quorum
    promote   a learner that has what is committed becomes a voter
    remove    a voter or learner, the leader itself not excepted

- **M2a** A leader writes a change only when the one before it is committed, and only when it has committed an
  entry of its own term. Without the first, two changes could part the group. Without the second, a change
  that an earlier leader left on few nodes goes unseen, and its successor's change differs from it by two.
- **M2b** A node counts by the last configuration in its log, whether it is committed or not, and itself only
  if that names its disk as a voter. What another node says counts only if it says it on the disk that is
  meant.
- **M2c** A node stands for election if its last configuration names its disk as a voter, or the one before it
  does, which is committed (M2a), and it does not know the last one to be: it may be the only one that can be
  elected, as who has written its own removal and restarts before anybody else has that. It answers who asks
  for its vote as soon as some configuration in its log has named its disk, as a voter or as a learner: it may
  have been promoted without knowing it.
- **M2d** A leader that its last configuration does not name as a voter steps down once that is committed, and
  asks the voter that has most of its log to stand at once.
- **M2e** One node has one member at a time, and there are at most `MEMBERS_MAX`; the last voter stays.

- **M2f** A leader writes a change only if it has heard a quorum of the voters that there would be then,
  within the minimum election timeout. Without that the removal of one that lives, while another one is
  down, would leave a group that can never decide anything again, not even to take that back.

Sources: Ongaro, "Consensus: Bridging Theory and Practice" (2014), 4.1 to 4.3, with his correction of 2015
(raft-dev, "bug in single-server membership changes"). The model is `spec/liftlog_spec/models/raft_steps.py`;
that the rule keeps election safety and leader completeness is proved in `spec/liftlog_spec/proofs`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from liftlog.messages import intake
from liftlog.types import Disks, Entry, GroupMember, InvariantViolation, Members, invariant

MARK = b"\x00"
"""What the data of an entry begins with that is a configuration. No command does: that is an array."""
MEMBERS_MAX = 64
ADD, PROMOTE, REMOVE = "add", "promote", "remove"

_encode = msgspec.msgpack.encode
_decoder = msgspec.msgpack.Decoder(Members)


def is_change(data: bytes) -> bool:
    """Whether an entry's data are a configuration."""
    return data.startswith(MARK)


def encode_members(members: Members) -> bytes:
    return MARK + _encode(members)


def decode_members(data: bytes) -> Members:
    """Raises InputRefused for what no leader writes (V5)."""
    members = intake.decode(_decoder, data[len(MARK) :], "a configuration of the metadata group")
    nodes = [member.node for member in (*members.voters, *members.learners)]
    if not members.voters or len(nodes) > MEMBERS_MAX or len(set(nodes)) < len(nodes):
        raise intake.InputRefused(f"not a configuration of the metadata group: {members.text}")
    return members


def founders(voters: Sequence[int], disks: Disks) -> Members:
    """The first configuration: `voters` on the disks that are known, which the certificate says (I2)."""
    known = dict(disks)
    return Members(tuple(GroupMember(node, known.get(node, "")) for node in sorted(voters)))


def changed(now: Members, kind: str, member: GroupMember) -> Members | str:
    """The configuration after one change, or why there is none (M2e)."""
    at = now.member(member.node)
    voters, learners = now.voters, now.learners
    if kind == ADD:
        if at is not None:
            return f"node {member.node} is a member already, with disk {at.disk}"
        if len(voters) + len(learners) >= MEMBERS_MAX:
            return f"the group has {MEMBERS_MAX} members, which is all it can have"
        return Members(voters, tuple(sorted((*learners, member))))
    if at != member:
        found = f"with disk {at.disk}" if at is not None else "which is none"
        return f"node {member.node} with disk {member.disk} is not a member: {found}"
    rest = tuple(learner for learner in learners if learner != member)
    if kind == PROMOTE:
        if member in voters:
            return f"node {member.node} votes already"
        return Members(tuple(sorted((*voters, member))), rest)
    left = tuple(voter for voter in voters if voter != member)
    return Members(left, rest) if left else "the group would be left without a voter"


class Configurations:
    """The configurations of one log: that before its first entry, and those among its entries."""

    __slots__ = ("_changes", "_first", "index", "now")

    def __init__(self, first: Members, entries: Iterable[Entry]) -> None:
        """`first`: what the entries go on from."""
        self._first = first
        self._changes: list[tuple[int, Members]] = []
        """(index, configuration) of each entry that is one, ascending."""
        self.now = first
        """What the node goes by."""
        self.index = 0
        """Of the entry that says so; 0: it lies before the log's beginning."""
        self.appended(entries)

    def _set(self) -> None:
        self.index, self.now = self._changes[-1] if self._changes else (0, self._first)

    def appended(self, entries: Iterable[Entry]) -> bool:
        """These continue the log. True if one is a configuration."""
        found = [entry for entry in entries if is_change(entry.data)]
        try:
            self._changes += [(entry.index, decode_members(entry.data)) for entry in found]
        except intake.InputRefused as error:
            # V5: nothing gets into a log without having been decoded, so this is our own state.
            raise InvariantViolation(f"in the metadata log: {error}") from None
        self._set()
        return bool(found)

    def cut(self, keep: int) -> bool:
        """Entries above index `keep` are gone. True if one was a configuration."""
        before = len(self._changes)
        while self._changes and self._changes[-1][0] > keep:
            self._changes.pop()
        self._set()
        return len(self._changes) < before

    def forget(self, upto: int) -> None:
        """The log begins behind index `upto` now; what it goes on from stays known."""
        self._first = self.at(upto)
        self._changes = [change for change in self._changes if change[0] > upto]
        self._set()

    def begin_anew(self, first: Members) -> None:
        """No entry is left: a snapshot stands in their place, with this configuration."""
        self._first = first
        self._changes.clear()
        self._set()

    def founded(self, first: Members) -> None:
        """The cluster's birth has told who its first voters are."""
        invariant(not self._first.known, f"voters {self._first.text}, then {first.text}")
        self._first = first
        self._set()

    @property
    def first_is_known(self) -> bool:
        return self._first.known

    @property
    def indexes(self) -> list[int]:
        """Of the entries that are configurations."""
        return [index for index, _ in self._changes]

    def at(self, index: int) -> Members:
        """The configuration that the entries up to `index` end with; none before the log's beginning."""
        for changed_at, members in reversed(self._changes):
            if changed_at <= index:
                return members
        return self._first

    def names(self, member: GroupMember) -> bool:
        """Whether a configuration that is known here names this disk, as a voter or as a learner (M2c)."""
        return any(
            members.member(member.node) == member
            for members in (self._first, *(members for _, members in self._changes))
        )
