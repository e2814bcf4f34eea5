"""What one process of a group knows: which partitions it works on, how far it is, and what it writes next.

It is told the group's state whenever that was read or written (`hear`), of newer versions only, and makes of
it the state that it would like to write (`turn`): itself in it, its positions, what it gives up, and what
anybody may decide: who is dead, who shall own what, what is granted. If the write is refused since somebody
was faster, it is told the new state and takes its turn again.

A position moves when a message is *done*, never when it is handed out: what lies below a commit is done (at
least once, G4). Of a partition that is revoked no message is handed out any more; it is given up when the one
that is being worked on is done, in the write that has its last position (G2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from liftlog.groups.assigning import assignments
from liftlog.groups.state import (
    MISSING,
    Assigned,
    Beat,
    Committed,
    GivenUp,
    Granted,
    GroupRefused,
    GroupState,
    GroupStep,
    Grown,
    Joined,
    Left,
    may_grant,
    owns,
    take_step,
)
from liftlog.mutants import NO_MUTANTS, Mutants


class Holding:
    """A grant that a member has heard of. `position`: the first offset that is not done; MISSING: the log
    start."""

    def __init__(self, generation: int, position: int) -> None:
        self.generation = generation
        self.position = position
        self.revoked = False


class GroupMembership:
    """One process in one group."""

    def __init__(
        self, id: str, name: str, session_ms: int, streams: Sequence[str], mutants: Mutants = NO_MUTANTS
    ) -> None:
        self.id = id
        self.name = name
        self.session_ms = session_ms
        self.streams = sorted(set(streams))
        self.held: dict[str, Holding] = {}
        self.working: tuple[str, int] | None = None
        """The share, and the grant's generation, of which a message is being worked on."""
        self._mutants = mutants
        self.heard = MISSING
        """The version that it has heard last: the offset of the register's message."""

    def holds(self, share: str, generation: int) -> bool:
        """Whether a message of this grant may be handed out."""
        there = self.held.get(share)
        return there is not None and there.generation == generation and not there.revoked

    def done(self, share: str, generation: int, offset: int) -> bool:
        """The message at `offset` is done; False: the partition was lost meanwhile, it will come again."""
        there = self.held.get(share)
        if there is None or there.generation != generation:
            return False
        there.position = max(there.position, offset + 1)
        return True

    def hear(self, version: int, state: GroupState) -> None:
        """The group is as `state` says. An older version than one that was heard is not used (G2)."""
        if version < self.heard:
            return
        self.heard = version
        for share, holding in list(self.held.items()):
            if self.id not in state.members or not owns(state, self.id, share, holding.generation):
                if not self._mutants.group_loss_unheeded and not self._mutants.group_commit_unfenced:
                    del self.held[share]
            else:
                holding.revoked = state.shares[share].target != self.id
        for share, there in state.shares.items():
            if there.owner == self.id and there.target == self.id and share not in self.held:
                self.held[share] = Holding(there.granted, there.cursor)

    def has_to_say(self, state: GroupState) -> bool:
        """Whether others wait for what it would write on this state, which it has heard: it is no member any
        more, or has stopped to work on what was taken from it."""
        return self.id not in state.members or any(map(self._given_up, self.held, self.held.values()))

    def _given_up(self, share: str, holding: Holding) -> bool:
        return holding.revoked and self.working != (share, holding.generation)

    def turn(
        self, state: GroupState, there: Iterable[Grown], silent: Iterable[str], by: str
    ) -> tuple[GroupState, list[GroupStep]]:
        """What it would write on this state, which it has heard, and by which steps. `there`: the partitions
        that there are. `silent`: who is to be taken for dead. No steps: it was expired, and does not join
        again before the message in hand is done, which may be another member's by now (G2). Raises
        GroupRefused.
        """
        if self.working is not None and self.id not in state.members:
            return state, []
        writing = Writing(state)
        self._join(writing)
        for grown in there:
            if grown.id >= state.streams.get(grown.stream, 0):
                writing.add(grown)
        if self.id in state.members:
            self._report(writing)
        for member in silent:
            if member in writing.state.members:
                writing.add(Left(member))
        decide(writing)
        writing.add(Beat(self.id))
        return replace(writing.state, by=by), writing.steps

    def leave(self, state: GroupState, by: str) -> tuple[GroupState, list[GroupStep]]:
        """The last write: how far it is, and that it goes. Who was expired has nothing to say."""
        writing = Writing(state)
        if self.id in state.members:
            self._report(writing)
            writing.add(Left(self.id))
            decide(writing)
        return replace(writing.state, by=by), writing.steps

    def _join(self, writing: Writing) -> None:
        state = writing.state
        if self.id in state.members:
            return
        lost = [name for name in state.streams if name not in self.streams]
        added = [name for name in self.streams if name not in state.streams]
        if lost or (added and state.members):
            theirs, ours = ", ".join(sorted(state.streams)), ", ".join(self.streams)
            raise GroupRefused(
                f"this group reads {theirs}, and this member would read {ours}: name the same streams, or "
                "use another group; streams can be added while the group has no members"
            )
        inherited: list[str] = []
        for other, known in state.members.items():
            if self.name and known.name == self.name:
                inherited += [name for name, share in state.shares.items() if share.target == other]
                writing.add(Left(other))
        writing.add(Joined(self.id, self.name, self.session_ms))
        for share in inherited:
            writing.add(Assigned(share, self.id))

    def _report(self, writing: Writing) -> None:
        for share, holding in sorted(self.held.items()):
            known = writing.state.shares.get(share)
            if known is None:
                continue
            position = holding.position
            if not owns(writing.state, self.id, share, holding.generation):
                if self._mutants.group_commit_unfenced and position > known.cursor:
                    writing.commit_unfenced(share, position)
                continue
            if self._mutants.group_counts_work_in_hand and self.working == (share, holding.generation):
                position = max(position, 0) + 1
            if position > max(known.cursor, 0):
                writing.add(Committed(self.id, share, holding.generation, position))
            if self._given_up(share, holding) and known.target != self.id:
                writing.add(GivenUp(self.id, share))


class Writing:
    """A state that is being made, and by which steps."""

    def __init__(self, state: GroupState) -> None:
        self.state = state
        self.steps: list[GroupStep] = []

    def add(self, step: GroupStep) -> None:
        self.state = take_step(self.state, step)
        self.steps.append(step)

    def commit_unfenced(self, share: str, position: int) -> None:
        """A planted bug: nobody compares whose the partition is, and in which generation."""
        there = replace(self.state.shares[share], cursor=position)
        self.state = replace(self.state, shares={**self.state.shares, share: there})


def decide(writing: Writing) -> None:
    """What anybody may decide who writes: who shall own what, and what is granted."""
    for assigned in assignments(writing.state):
        writing.add(assigned)
    for name, share in list(writing.state.shares.items()):
        if may_grant(share):
            writing.add(Granted(name))
