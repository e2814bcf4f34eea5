"""Which cluster this node belongs to, and who else does (M5).

Two clusters of one name whose founders have the same numbers look alike: each has terms and commands from 1
on. A disk of one that is started in the other would take that one's commands behind its own, lead with what
it holds, and be begun anew. So the cluster is called after its *birth*: the name of its first epoch follows
from the certificate that its first disks have signed (I2), which no other cluster has.

A recovery from a total loss forms a new quorum out of what is left. Who was left out of it may come back,
with a disk that was taken for destroyed: it knows decisions that the others have never heard of. So the
cluster has an *epoch*, which each recovery raises, and which stands in each disk's identity and in each
snapshot. Whoever sends says of which epoch it is, and a node hears nobody of another one. Neither side then
takes anything from the other, nor gives anything up: no entry, no vote, no record, no deletion.

A founder reads the birth off its own certificate. Any other disk is told by the first leader that sends it
something to keep, and takes nothing of it before the name is durable: a log without a name would be believed
anywhere. While it has kept nothing it may be told of another one: what it heard first may have been late.
Release 0.1.0 does not say the birth: who has not heard it takes a cluster of the first epoch for its own, as
that release does. The model is `births`.

A disk that belongs to no cluster yet is heard, and hears everybody: it has nothing that could contradict.
"""

from __future__ import annotations

import msgspec

from liftlog.core.context import Context
from liftlog.core.raft.birth import birth_name
from liftlog.core.raft.raft import Raft
from liftlog.messages import (
    AppendReply,
    AppendRequest,
    Received,
    SaveIdentity,
    SnapshotChunk,
    VoteReply,
    VoteRequest,
)
from liftlog.types import FIRST_CLUSTER, NO_CLUSTER, NO_TICKET, ClusterEpoch, Recovered, Ticket

KEPT = (AppendRequest, SnapshotChunk)
"""What a leader sends to be kept."""


class Lineage:
    """The epoch that this node is of, and what its disk says of that."""

    __slots__ = ("_certified", "_ctx", "_identity", "_raft", "_taken", "_ticket", "epoch", "strangers")

    def __init__(self, ctx: Context, raft: Raft, recovered: Recovered) -> None:
        """The metadata are those of the disk's snapshot, if it has one."""
        self._ctx = ctx
        self._raft = raft
        self._identity = recovered.identity
        known = recovered.identity.belongs_to
        if recovered.snapshot is not None:
            known = max(known, ctx.metadata.epoch)
        in_use = bool(recovered.raft_entries or recovered.hard_state.peer_disks)
        self.epoch: ClusterEpoch = FIRST_CLUSTER if not known.number and in_use else known
        """Number 0: it is of none yet. A log without a snapshot is of the first. Of that the name is empty
        while this disk does not know the birth."""
        self._certified = False
        """The name was read off a certificate: this disk is of that birth, whatever else it was told."""
        self._taken: ClusterEpoch | None = None
        """What a leader has told, which is not durable yet."""
        self._ticket = NO_TICKET
        self.strangers: dict[int, str] = {}
        """Nodes that are of another cluster, or of another epoch of this one, and why they are not heard."""
        self.born()

    @property
    def text(self) -> str:
        """For people: the epoch's number and name."""
        return f"{self.epoch.number}-{self.epoch.name}" if self.epoch.number else ""

    def born(self) -> None:
        """Look whether this disk has signed a certificate: then it can be of no other birth, and believes no
        leader of another one before its own is complete.
        """
        if not self._certified and self.epoch.number <= FIRST_CLUSTER.number and self._raft.signed:
            self._certified = True
            self.epoch = ClusterEpoch(FIRST_CLUSTER.number, birth_name(self._raft.signed))

    def _is_bound(self) -> bool:
        """Whether this disk has signed, kept or been granted anything: only then it is of a cluster."""
        raft = self._raft
        return bool(raft.signed or raft.raft_log.last_index or self._identity.incarnation)

    def applied(self) -> None:
        """The metadata have moved on: a disk that was of no cluster is of this one."""
        if self.epoch.number < self._ctx.metadata.epoch.number:
            self.epoch = self._ctx.metadata.epoch

    # -- what the disk says ----------------------------------------------------------------------------------

    def remember(self, incarnation: int = 0) -> Ticket:
        """Write down who this disk is, and in which run: it was granted `incarnation`; 0: as before."""
        epoch = self._taken or self.epoch
        self._identity = msgspec.structs.replace(
            self._identity,
            incarnation=incarnation or self._identity.incarnation,
            cluster_epoch=epoch.number,
            recovery=epoch.name,
        )
        ticket = self._ctx.new_ticket()
        self._ctx.effects.append(SaveIdentity(self._identity, ticket))
        return ticket

    def durable(self, ticket: Ticket) -> bool:
        """True if this was what a leader has told: what it sends is taken from now on."""
        if self._taken is None or ticket != self._ticket:
            return False
        if not self._certified and self.epoch.number <= self._taken.number:
            self.epoch = self._taken
        self._taken = None
        return True

    # -- who is heard ----------------------------------------------------------------------------------------

    def refuses(self, event: Received) -> bool:
        """Whether the message is not to be taken in: its sender is of another cluster, or of what this one
        was before a recovery or is since one without us; or it is to be kept, and the birth is not durable.
        """
        self.born()
        bound = self._is_bound()
        mine, theirs = self.epoch if bound else NO_CLUSTER, event.epoch
        known = bool(mine.number and theirs.number)
        first = mine.number == theirs.number == FIRST_CLUSTER.number
        fits = self._ctx.decides(
            ("M5.other-epoch", not known or first or mine == theirs),
            ("M5.other-birth", not first or not (mine.name and theirs.name) or mine == theirs),
        )
        if fits or self._lets_pass(event):
            self.strangers.pop(event.sender, None)
            return fits and self._waits(event, bound)
        reason = _reason(mine, theirs)
        if self.strangers.get(event.sender) != reason:
            # Said once, and not with each message, of which there are many a second.
            self.strangers[event.sender] = reason
            self._ctx.refuse("M5", event.sender, event.message, reason)
        return True

    def _lets_pass(self, event: Received) -> bool:
        mutants, first = self._ctx.mutants, self.epoch.number == event.epoch.number == FIRST_CLUSTER.number
        if not first:
            return False
        votes = mutants.other_birth_votes and isinstance(event.message, (VoteRequest, VoteReply))
        return votes or (mutants.other_birth_appends and isinstance(event.message, (*KEPT, AppendReply)))

    def _waits(self, event: Received, bound: bool) -> bool:
        """Take up whose log a leader sends, before anything else of it."""
        theirs = event.epoch
        if not theirs.name or theirs == self.epoch:
            return False
        if bound and (self.epoch.name or theirs.number != FIRST_CLUSTER.number):
            return False
        if not isinstance(event.message, KEPT) or self._ctx.mutants.birth_not_kept:
            return False
        if self._taken is None:
            self._ctx.mark("M5.told-birth")
            self._taken = theirs
            self._ticket = self.remember()
        return True


def _reason(mine: ClusterEpoch, theirs: ClusterEpoch) -> str:
    if theirs.number > mine.number:
        return (
            f"the cluster was recovered without this disk and is of epoch {theirs.number} now, this disk of "
            f"{mine.number}: it keeps what it has; take from it what you need with 'liftlog log dump', then "
            "start this node with an empty data folder"
        )
    if theirs.number < mine.number:
        return f"the cluster was recovered without its disk, which is of epoch {theirs.number}"
    if mine.number == FIRST_CLUSTER.number:
        return (
            f"its data folder is of another cluster of this name, born as {theirs.name}, ours is of the one "
            f"born as {mine.name}: neither takes anything from the other, and each disk keeps what it holds; "
            "the one that does not belong here is to be started with the node's own data folder or an empty "
            "one, or, if it is in the wrong place, with [peers] and 'cluster' of its own cluster"
        )
    return (
        f"two recoveries have begun epoch {mine.number}, {mine.name} here and {theirs.name} there: stop the "
        "nodes of the one that was not meant, and start them with empty data folders"
    )
