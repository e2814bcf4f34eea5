"""What a voter remembers, and how its disk came to vote (M1a, I2): the part of Raft that outlives a process.

Every promise waits for the sync of what it promises: `answer` sends a message once term, vote and certificate
as they are now are durable.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence

from liftlog.core.guards import Guards
from liftlog.core.hints import Hints
from liftlog.core.raft.birth import BORN, Birth, Certificate
from liftlog.core.raft.members import founders
from liftlog.core.raft.state import RaftState, Refuse
from liftlog.messages import BirthQuery, BirthReply, Effect, PeerMessage, SaveHardState, Send
from liftlog.nodeconfig import NodeConfig
from liftlog.types import BEGINNING, NO_TICKET, Entry, HardState, Identity, LogBase, Members, Snapshot, Ticket


class VoterMemory(RaftState):
    """See the module. Raises LiftlogError if the configured voters are not those of the cluster's birth."""

    def __init__(
        self,
        config: NodeConfig,
        hard_state: HardState,
        entries: list[Entry],
        identity: Identity,
        effects: list[Effect],
        new_ticket: Callable[[], Ticket],
        guards: Guards,
        refuse: Refuse | None = None,
        hints: Hints | None = None,
        snapshot: Snapshot | None = None,
        base: LogBase = BEGINNING,
        members: Members | None = None,
    ) -> None:
        super().__init__(
            config=config,
            hard_state=hard_state,
            entries=entries,
            effects=effects,
            new_ticket=new_ticket,
            guards=guards,
            disk_id=identity.votes_as,
            refuse=refuse,
            hints=hints,
            snapshot=snapshot,
            base=base,
            members=members,
        )
        self._new_ticket = new_ticket
        self._state_ticket = NO_TICKET
        self._is_founder = config.node in config.voters and not config.joins
        """Whether this node takes part in the cluster's birth (I2)."""
        self._birth = Birth(config.node, identity.votes_as, config.voters, hard_state)
        if self.raft_log.last_index or identity.vote_id:
            self._come_late()
        self._know_founders()

    @abstractmethod
    def _begin_voting(self) -> None:
        """This disk may vote from now on."""

    # -- memory (M1a) -------------------------------------------------------------------------------------

    @property
    def certificate(self) -> Certificate:
        """The disks that the cluster was born from, as far as this disk knows (I2)."""
        return self._birth.certificate if self._birth.stage is BORN else ()

    @property
    def signed(self) -> Certificate:
        """What this disk has signed, once and for ever: if it is in a birth, it is in this one."""
        return self._birth.certificate

    def _save(self) -> None:
        self.saved()
        self._state_ticket = self._new_ticket()
        state = HardState(
            term=self.term,
            voted_for=self.voted_for,
            voted_disk=self.voted_disk,
            peer_disks=self._birth.certificate,
            vote_withheld=self.withheld,
            born=self._birth.stage is BORN,
        )
        self.effects.append(SaveHardState(state, self._state_ticket))

    def _is_saved(self, ticket: Ticket) -> bool:
        """Whether this ticket is of the newest write of term and vote, which is durable now."""
        if ticket != self._state_ticket:
            return False
        self._state_ticket = NO_TICKET
        return True

    def _answer(self, to: int, message: PeerMessage, after: Ticket = NO_TICKET) -> None:
        """Send a message once term, vote and certificate as they are now are synced, and `after` too."""
        if self.unsaved:
            self._save()
        # Storage completes in order, so the later of two tickets covers both.
        self.effects.append(Send(to, message, max(after, self._state_ticket)))

    # -- birth (I2) ---------------------------------------------------------------------------------------

    def _know_founders(self) -> None:
        """Whether the cluster was born with this disk, and who the first voters are."""
        if self._birth.stage is BORN:
            if not self.membership.first_is_known:
                self.founded(founders(self.config.voters, self._birth.certificate))
            self.be_born()

    def told_founders(self, nodes: Sequence[int]) -> None:
        """I3: who the first voters were, for a node that joins. Their disks are not known here."""
        if not self.membership.first_is_known:
            self.founded(founders(nodes, ()))

    def _come_late(self) -> None:
        """There is a cluster: this disk is not one of its first if it has not signed yet."""
        if not self.mutants.cluster_born_again:
            self._birth.come_late()

    def _ask_for_birth(self) -> None:
        if self._is_founder and self._birth.stage is not BORN:
            for voter in self._birth.others:
                self._answer(voter, BirthQuery(self.disk_id))

    def _on_birth_query(self, sender: int, query: BirthQuery) -> None:
        if self._is_founder and sender in self._birth.others:
            self._answer(sender, self._birth.reply_to(sender, query.disk_id))

    def _on_birth_reply(self, sender: int, reply: BirthReply) -> None:
        if not self._is_founder:
            return
        if self._birth.note(sender, reply):
            self._birth_moved()
        elif self._birth.shut_out:
            self.mark("I2.wiped")

    def _birth_moved(self) -> None:
        """The certificate was signed, or everybody is known to have signed it: store that, then tell it."""
        self._save()
        for voter, disk_id in self._birth.certificate:
            if voter != self.node:
                self._answer(voter, self._birth.reply_to(voter, disk_id))
        if self._birth.stage is BORN:
            self.mark("I2.birth")
            self._know_founders()
            if self.stands:
                self._begin_voting()
