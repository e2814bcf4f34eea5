"""I2 for voters: which disks may vote, and how a cluster is born exactly once.

A voter's promise is only as good as its memory. A disk that was replaced, or emptied, has forgotten the votes
it gave and the entries it acknowledged; if it voted again, a quorum could elect a leader that lacks committed
entries. An empty disk therefore has to find out what it is: one of the first disks of a new cluster, which
may vote, or a replacement in an old one, which may not. It cannot tell by itself, and it cannot trust a
majority, since a majority may be exactly those who know nothing.

The answer is a certificate that is unanimous. It names the disk of every voter, and each voter signs at most
one certificate in the life of its disk; signing means storing it durably.

1. *Fresh*: nothing is signed. The voter asks all other voters who they are, on each tick.
2. *Signed*: all others have answered, none of them was born, and none had signed anything else. The voter
   signs the certificate that names exactly these disks.
3. *Born*: all others have answered that they signed the same certificate, or one of them was born with it.
   Only now may the voter vote, stand for election and be counted.

Why there is at most one birth. Suppose two certificates were signed by all whom they name. Both name one disk
for each voter. If they share a disk, that disk signed twice, which it never does. If they share none, every
disk was replaced, and there is nothing left that could be contradicted. A wiped voter in a living cluster
stays fresh for ever, since some born voter tells it so (or does not answer): its disk is in no certificate
that others signed. Waiting for answers that are all *fresh*, without signing, is not enough: the answers may
be of different ages, and in between one of those disks may have been born, have voted, and been replaced.

A fresh disk that a born voter knows by name has signed and forgotten: it was rolled back, and stays out.

Until its birth a voter still follows a leader and stores what it is sent, so that the node learns the
metadata. It says `counts = False` in each acknowledgement, and which disk it is, and the leader counts it
for nothing: not for commit, not for check-quorum, not for read-index. What the same node acknowledged before
its disk was wiped may go on being counted: such an entry is on a quorum less one, but the one does not vote
again, so every quorum of those that still vote meets one that has the entry.

A disk that has signed nothing and hears a leader, or holds what one has sent, knows by that alone that the
cluster was born without it: it signs nothing any more and says so. Once every first disk has been replaced
nobody has the certificate, and it is this that keeps the cluster from being born again.

A disk that is in no certificate becomes a voter through the log: as another member, once the one that it has
replaced is out (M2, `liftlog.core.raft.members`).
"""

from __future__ import annotations

from hashlib import sha256

import msgspec

from liftlog.messages import BirthReply
from liftlog.types import Disks, HardState, LiftlogError

Certificate = Disks


def birth_name(certificate: Certificate) -> str:
    """What the cluster that was born with this certificate is called after (M5)."""
    return sha256(msgspec.json.encode(certificate)).hexdigest()[:16]


FRESH, SIGNED, BORN = "fresh", "signed", "born"
"""Compared with `is`: these very objects are the stages."""

EAGER_TICKS = 50
LAZY_TICKS = 10


def asks_at(tick: int) -> bool:
    """An unborn voter asks on each tick at first, then every tenth tick: a wiped one asks for ever."""
    return tick <= EAGER_TICKS or tick % LAZY_TICKS == 0


def stage_of(state: HardState, node: int, disk_id: str, voters: tuple[int, ...]) -> str:
    """Where a voter stands by what its disk remembers.

    Raises LiftlogError if the configuration names other voters than the certificate: a quorum of one set of
    voters need not meet a quorum of the other.
    """
    if not state.peer_disks:
        return FRESH
    named = tuple(voter for voter, _ in state.peer_disks)
    if named != tuple(sorted(voters)):
        raise LiftlogError(
            f"node {node}: the cluster was born with the voters {_listed(named)}, but the configuration "
            f"names {_listed(voters)}; restore the list of voters, or, if the disk is another cluster's, "
            "this node's own data folder"
        )
    # A certificate that names another disk for this node came with a copied folder: it is somebody else's.
    if dict(state.peer_disks).get(node) != disk_id:
        return FRESH
    return BORN if state.born else SIGNED


def _listed(nodes: tuple[int, ...]) -> str:
    return ", ".join(str(node) for node in sorted(nodes))


class Birth:
    """What a voter that is not born yet has heard from the others. Pure bookkeeping; `Raft` persists."""

    __slots__ = ("_answers", "_disk_id", "_late", "_node", "certificate", "others", "stage")

    def __init__(self, node: int, disk_id: str, voters: tuple[int, ...], state: HardState) -> None:
        self._node = node
        self._disk_id = disk_id
        self.others = [voter for voter in sorted(voters) if voter != node]
        self._answers: dict[int, BirthReply] = {}
        self._late = False
        """There is a cluster already."""
        self.stage = stage_of(state, node, disk_id, voters)
        self.certificate: Certificate = state.peer_disks if self.stage is not FRESH else ()

    @property
    def shut_out(self) -> bool:
        """The others formed a cluster without this disk: it replaced another one, or was rolled back."""
        known = self._late or any(answer.born for answer in self._answers.values())
        return self.stage is FRESH and known

    def come_late(self) -> None:
        """Whoever leads is in office since the birth, or has been elected after it."""
        self._late = True

    def reply_to(self, asker: int, disk_id: str) -> BirthReply:
        """What this disk answers. To be sent only when the certificate is durable."""
        knows = (asker, disk_id) in self.certificate
        born = self.stage is BORN or self.shut_out
        return BirthReply(self._disk_id, not self.certificate, knows, list(self.certificate), born)

    def note(self, sender: int, reply: BirthReply) -> bool:
        """Take in an answer; True if the stage moved, which the caller must persist before anything else."""
        if self.stage is BORN or sender not in self.others:
            return False
        self._answers[sender] = reply
        return self.advance()

    def advance(self) -> bool:
        """Move as far as the answers allow: sign, be born. A single voter does both at once."""
        before = self.stage
        if self.stage is FRESH:
            self._sign()
        if self.stage is SIGNED and self._is_witnessed():
            self.stage = BORN
        return self.stage is not before

    def _sign(self) -> None:
        answers = self._answers
        if len(answers) < len(self.others) or self.shut_out:
            return
        disks = [(node, answer.disk_id) for node, answer in answers.items()]
        certificate = tuple(sorted([*disks, (self._node, self._disk_id)]))
        if all(not answer.signed or _signed(answer) == certificate for answer in answers.values()):
            self.certificate = certificate
            self.stage = SIGNED

    def _is_witnessed(self) -> bool:
        same = [answer for answer in self._answers.values() if _signed(answer) == self.certificate]
        return len(same) == len(self.others) or any(answer.born for answer in same)


def _signed(answer: BirthReply) -> Certificate:
    return tuple((node, disk_id) for node, disk_id in answer.signed)
