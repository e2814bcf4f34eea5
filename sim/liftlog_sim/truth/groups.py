"""What is known for sure of a consumer group: who did what, and what its committed states say (G1-G4).

    OneOwner             of the members of a group one at most works on a partition, and a grant is one's own
    CommitsFenced        a position moves by a commit of its partition's owner, and forward
    NothingLeftOut       what lies below a position was done by somebody

A group is a register (ADR 0070). Its states are the committed records of one subject, in their order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from liftlog.groups.member import GroupMembership
from liftlog.groups.state import MISSING, GroupState
from liftlog_sim.truth.invariants import PartitionTruth, Violation


class GroupTruth:
    """Of one group. `register`: the partition where it lies; `living`: its processes, those that are paused
    too."""

    __slots__ = ("_done", "_grants", "_judged", "_living", "_register", "_subject", "state", "states")

    def __init__(
        self, register: PartitionTruth, subject: bytes, living: Callable[[], Iterable[GroupMembership]]
    ) -> None:
        self._register = register
        self._subject = subject
        self._living = living
        self._judged = 0
        self.states: dict[bytes, tuple[str, GroupState]] = {}
        """By the value of its message: who wrote it, and what it says."""
        self.state = GroupState()
        """The newest that is committed."""
        self._done: dict[str, set[int]] = {}
        self._grants: dict[tuple[str, int], str] = {}

    def known(self) -> GroupState:
        """By what is committed so far. CommitsFenced, NothingLeftOut."""
        committed = self._register.contents.committed
        for offset in range(self._judged, len(committed)):
            record = committed[offset]
            if record is not None and record.subject == self._subject:
                author, state = self.states[(record.value or b"").rstrip(b".")]
                self._judge(author, state)
                self.state = state
        self._judged = len(committed)
        return self.state

    def said(self, version: int) -> GroupState:
        """What the register said in this version, which is committed."""
        record = self._register.contents.committed[version]
        assert record is not None
        return self.states[(record.value or b"").rstrip(b".")][1]

    def _judge(self, author: str, after: GroupState) -> None:
        self._register.checks["CommitsFenced"] += 1
        self._register.checks["NothingLeftOut"] += 1
        for name, share in after.shares.items():
            before = self.state.shares.get(name)
            was, owner = (MISSING, "") if before is None else (before.cursor, before.owner)
            if share.cursor != was and (owner != author or share.cursor < was):
                whose = f"{owner}'s" if owner else "nobody's"
                text = f"{author} moved {name} from {was} to {share.cursor}, which was {whose}"
                raise Violation("CommitsFenced", self._says(text))
            done = self._done.get(name, set())
            missing = [offset for offset in range(max(0, was), share.cursor) if offset not in done]
            if missing:
                text = f"{author} committed {share.cursor} in {name}, and nobody has done {missing[:3]}"
                raise Violation("NothingLeftOut", self._says(text))

    def done(self, share: str, offset: int) -> None:
        """Somebody has."""
        self._done.setdefault(share, set()).add(offset)

    def works(self, who: GroupMembership, share: str, generation: int) -> None:
        """A member takes a message in hand. OneOwner."""
        self._register.checks["OneOwner"] += 1
        owner = self._grants.setdefault((share, generation), who.id)
        if owner != who.id:
            text = f"{who.id} works on {share} by the grant of generation {generation}, which is {owner}'s"
            raise Violation("OneOwner", self._says(text))
        members = self.known().members
        for other in self._living():
            at_it = other.working is not None and other.working[0] == share
            if other is not who and at_it and who.id in members and other.id in members:
                text = f"{who.id} and {other.id}, members both, work on {share}"
                raise Violation("OneOwner", self._says(text))

    def _says(self, text: str) -> str:
        return f"group {self._subject.decode()}: {text}"
