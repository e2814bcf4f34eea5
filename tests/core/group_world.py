"""A group's processes around one register, each step held against the model `groups`; no clock and no IO.

Processes are read and written to as the coordinator would: a read is of now, a write arrives at any later
time and counts if nobody has written meanwhile, answers are lost, late or come in another order. Processes
crash, come back under their names, are taken for dead while they live on, and work all the while.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from liftlog.groups.member import GroupMembership
from liftlog.groups.state import (
    MISSING,
    Assigned,
    Committed,
    GivenUp,
    Granted,
    GroupRefused,
    GroupState,
    GroupStep,
    Grown,
    Joined,
    Left,
    Reset,
    decode_group,
    encode_group,
    share_name,
    take_step,
)
from liftlog_spec.models.groups import Groups
from liftlog_spec.run.stepwise import Stepper
from tests.core.beside import Beside, Disagrees

PARTITIONS = 3
IDS = 12
BOUNDS: dict[str, Any] = {
    "Members": IDS,
    "Partitions": PARTITIONS,
    "Records": 30,
    "Generations": 10**6,
    "Failovers": 10**6,
    "Delays": 10**6,
    "Resets": 10**6,
}
STEPPER = Stepper(Groups(**BOUNDS))
INVARIANTS = ("OneOwnerPerPartition", "FencedCommit", "CursorMonotone", "NoSkippedRecord")
SHARES = [share_name("s", index) for index in range(PARTITIONS)]


class Write(NamedTuple):
    """A write on its way."""

    author: GroupMembership
    seen: int
    state: GroupState
    steps: list[GroupStep]


class GroupWorld(Beside):
    """See the module."""

    def __init__(self, seed: int) -> None:
        super().__init__(STEPPER, seed)
        self.version = MISSING
        self.data: bytes | None = None
        self.ids = 0
        self.processes = [self.process(name) for name in ("", "fixed", "")]
        self.writes: list[Write] = []
        self.answers: list[tuple[GroupMembership, int, GroupState]] = []

    @property
    def state(self) -> GroupState:
        return decode_group(self.data)

    def process(self, name: str) -> GroupMembership:
        self.ids += 1
        return GroupMembership(f"m{self.ids - 1:02}", name, 1000, ["s"])

    # -- the model beside it -------------------------------------------------------------------------------

    def late(self, kind: str, m: int, p: int, generation: int, position: int) -> None:
        """A message that was sent when it was allowed, and arrives now."""
        message = (Groups.Late.fields["kind"].names.index(kind), m, p, generation, position)
        self.model = STEPPER.with_values(self.model, {"late": (message,)})

    def check(self) -> None:
        state = self.state
        shares = [state.shares.get(name) for name in SHARES]
        told = {
            "members": sum(1 << number(member) for member in state.members),
            "generation": state.generation,
            "target": tuple(number(one.target) if one and one.target else -1 for one in shares),
            "owner": tuple(number(one.owner) if one and one.owner else -1 for one in shares),
            "granted": tuple(one.granted if one else 0 for one in shares),
            "cursor": tuple(one.cursor if one else MISSING for one in shares),
        }
        for name, value in told.items():
            if self.value(name) != value:
                raise Disagrees(f"{name}: {value} in the code, {self.value(name)} in the model")
        for process in self.processes:
            for share, holding in process.held.items():
                place = number(process.id), SHARES.index(share)
                held = self.value("held")[place[0]][place[1]], self.value("position")[place[0]][place[1]]
                if holding.revoked and not held[0]:
                    # It has stopped, and has not heard yet that this was written.
                    continue
                if held != (holding.generation, holding.position):
                    raise Disagrees(f"{process.id} holds {share} {held} in the model")
        self.hold(INVARIANTS)

    # -- what happens --------------------------------------------------------------------------------------

    def hear(self, process: GroupMembership, version: int, state: GroupState) -> None:
        before = {share: holding.generation for share, holding in process.held.items()}
        process.hear(version, state)
        for share, holding in process.held.items():
            m, p = number(process.id), SHARES.index(share)
            if before.get(share) == holding.generation:
                continue
            start = self.value("start")[p]
            if version == self.version:
                self.take("HearGrant", m, p)
            else:
                began = start if holding.position == MISSING else holding.position
                self.late("grant", m, p, holding.generation, began)
                self.take("LateGrantArrives", m, p)
            if holding.position == MISSING:
                holding.position = start

    def read(self, process: GroupMembership, leaves: bool = False) -> None:
        """It reads the register, and sends what it would write."""
        state = self.state
        if self.version != MISSING:
            self.hear(process, self.version, state)
        others = [member for member in state.members if member != process.id]
        silent = [member for member in others if self.random.random() < 0.05]
        try:
            if leaves:
                after, steps = process.leave(state, process.id)
            else:
                after, steps = process.turn(state, [Grown("s", 7, PARTITIONS)], silent, process.id)
        except GroupRefused as error:
            raise Disagrees(f"a turn is refused: {error}") from error
        if steps:
            self.writes.append(Write(process, self.version, after, steps))

    def arrive(self, write: Write) -> None:
        if write.seen != self.version:
            return
        for step in write.steps:
            self.step_of_model(write.author, step)
        self.version += 1
        self.data = encode_group(write.state)
        if self.random.random() < 0.8:
            self.answers.append((write.author, self.version, write.state))

    def step_of_model(self, author: GroupMembership, step: GroupStep) -> None:
        match step:
            case Joined(member):
                self.take("Join", number(member))
            case Left(member):
                self.take("Leave" if member == author.id else "Expire", number(member))
            case Assigned(share, member):
                self.take("Assign", SHARES.index(share), number(member))
            case Granted(share):
                self.take("Grant", SHARES.index(share))
            case GivenUp(member, share):
                m, p = number(member), SHARES.index(share)
                if self.value("held")[m][p]:
                    self.take("HearRevocation", m, p)
                self.take("ConfirmRevocation", m, p)
            case Committed(member, share, generation, position):
                m, p = number(member), SHARES.index(share)
                held = self.value("held")[m][p], self.value("position")[m][p]
                if held == (generation, position):
                    self.take("Commit", m, p)
                elif position > self.value("cursor")[p]:
                    self.late("commit", m, p, generation, position)
                    self.take("LateCommitArrives")

    def work(self, process: GroupMembership) -> None:
        """A message is taken in hand, or the one in hand is done."""
        if process.working is not None:
            (share, generation), process.working = process.working, None
            self.finish(process, share, generation)
            return
        shares = [share for share, holding in process.held.items() if not holding.revoked]
        if shares:
            share = self.random.choice(shares)
            process.working = share, process.held[share].generation

    def finish(self, process: GroupMembership, share: str, generation: int) -> None:
        m, p = number(process.id), SHARES.index(share)
        there = process.held.get(share)
        if there is None or there.generation != generation:
            return
        if there.position < self.value("start")[p]:
            self.take("SkipWhatIsGone", m, p)
            there.position = self.value("start")[p]
        if there.position < self.value("end")[p]:
            self.take("Process", m, p)
            process.done(share, generation, there.position)

    def crash(self, place: int) -> None:
        process = self.processes[place]
        if self.ids == IDS:
            return
        if any(self.value("held")[number(process.id)]):
            self.take("Crash", number(process.id))
        self.processes[place] = self.process(process.name)

    def reset(self) -> None:
        p = self.random.randrange(PARTITIONS)
        share, start = self.state.shares.get(SHARES[p]), self.value("start")[p]
        if share is None or share.owner or share.cursor <= start:
            return
        after = take_step(self.state, Reset(SHARES[p], start))
        self.take("Reset", p)
        self.version += 1
        self.data = encode_group(after)

    def step(self) -> None:
        """Anything."""
        random = self.random
        process = random.choice(self.processes)
        what = random.choices(
            ("read", "arrive", "answer", "work", "write", "retain", "crash", "leave", "reset", "fail over"),
            (20, 25, 15, 40, 10, 1, 1, 1, 1, 1),
        )[0]
        p = random.randrange(PARTITIONS)
        if what == "read":
            self.read(process)
        elif what == "leave" and self.ids < IDS:
            self.read(process, leaves=True)
            self.processes[self.processes.index(process)] = self.process(process.name)
        elif what == "arrive" and self.writes:
            self.arrive(self.writes.pop(random.randrange(len(self.writes))))
        elif what == "answer" and self.answers:
            author, version, state = self.answers.pop(random.randrange(len(self.answers)))
            if author in self.processes:
                self.hear(author, version, state)
        elif what == "work":
            self.work(process)
        elif what == "write" and self.value("end")[p] < BOUNDS["Records"]:
            self.take("Write", p)
        elif what == "retain" and self.value("start")[p] < self.value("end")[p]:
            self.take("Retain", p)
        elif what == "crash":
            self.crash(self.processes.index(process))
        elif what == "reset":
            self.reset()
        elif what == "fail over":
            self.take("FailOver")
            self.take("Replay")
        self.check()


def number(member: str) -> int:
    return int(member[1:])
