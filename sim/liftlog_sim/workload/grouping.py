"""Members of consumer groups: they join, work, pause, die and come back under their names (G1-G5).

What a member knows and decides is liftlog's own code (`liftlog/groups/`). Around it a process asks the leader
for the group's newest state, publishes the next one to be stored behind that only (L9), and hears of it or
does not. Values are unique here (`workload/workload.py`), so a message of the register is a name, and what it
stands for is looked up. A process that is paused hears what came meanwhile when it wakes, and goes on as if
nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable

from liftlog.groups.member import GroupMembership
from liftlog.groups.state import GroupState, Grown, share_place
from liftlog.groups.watching import Watch
from liftlog.messages import LAST_OF_SUBJECT, AckPublishes, RefusePublishes, SubjectReply, SubjectRequest
from liftlog.types import NO_OFFSET, Message
from liftlog_sim.chance.chances import Turn
from liftlog_sim.chance.draws import Draws
from liftlog_sim.kernel import SECOND
from liftlog_sim.truth.groups import GroupTruth
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.truth.lasts import ExpectedLast
from liftlog_sim.workload.clients import Clientele
from liftlog_sim.workload.group_facts import MemberFacts
from liftlog_sim.workload.operations import ClientOperation
from liftlog_sim.workload.rivalling import Rivalry
from liftlog_sim.workload.targets import Target

REGISTERS = "groups"
"""The stream in which groups lie; the others are what they read."""
FIRST_NUMBER = 1000
"""Members are numbered from here on, as clients."""
SESSION_MS = 2500
TIMEOUT_US = 2 * SECOND
WAIT_MS = 800
PAUSE_US = 8 * SECOND
LEADER_SHARE = 0.9
LONG_SHARE, LONG_US = 0.1, 3 * SECOND
"""How often a message takes long, and how long at most."""
DIES, PAUSES, LEAVES, ASKS = 0.003, 0.006, 0.003, 0.4
"""What a member does in a turn, by chance; else it works."""
INBOX = b"_INBOX.sim."


class GroupRoom:
    """One group, its members and what is known of them."""

    __slots__ = ("_shared", "members", "truth")

    def __init__(self, shared: Clientele, count: int) -> None:
        self._shared = shared
        self.truth: GroupTruth | None = None
        numbers = range(FIRST_NUMBER, FIRST_NUMBER + count)
        self.members = {
            number: MemberProcess(shared, self, number, "fixed" if number == FIRST_NUMBER + 1 else "")
            for number in numbers
        }

    def start(self) -> None:
        for member in self.members.values():
            member.start()

    def living(self) -> list[GroupMembership]:
        """Those who run, or are paused."""
        return [member.membership for member in self.members.values()]

    def register(self) -> Target | None:
        """The partition of the register, when its stream is there."""
        for target in self._shared.targets:
            if target.stream == REGISTERS:
                if self.truth is None:
                    truth = self._shared.account.truth(target.partition)
                    self.truth = GroupTruth(truth, target.subject_with("work"), self.living)
                return target
        return None

    def streams(self) -> list[Grown]:
        """What the group reads, as far as clients know."""
        counts: dict[tuple[str, int], int] = {}
        for target in self._shared.targets:
            if target.stream != REGISTERS:
                place = target.stream, target.partition.stream
                counts[place] = max(counts.get(place, 0), target.partition.index + 1)
        return [Grown(name, id, count) for (name, id), count in sorted(counts.items())]

    def target_of(self, share: str) -> Target | None:
        stream, index = share_place(share)
        for target in self._shared.targets:
            if target.stream == stream and target.partition.index == index:
                return target
        return None


class MemberProcess:
    """One program, in all its runs."""

    __slots__ = (
        "_account",
        "_asleep",
        "_busy_until_us",
        "_cluster",
        "_facts",
        "_name",
        "_number",
        "_rivalry",
        "_room",
        "_runs",
        "_sent",
        "_shared",
        "_turns",
        "_waiting",
        "_watch",
        "_writes",
        "membership",
    )

    def __init__(self, shared: Clientele, room: GroupRoom, number: int, name: str) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._account = shared.account
        self._room = room
        self._number = number
        self._name = name
        self._rivalry = Rivalry(shared)
        self._runs = 0
        self._writes = 0
        self._turns = self._cluster.chances.turns(f"member/{number}", self._cluster.knobs.member_interval_us)
        self._asleep: list[Callable[[], None]] | None = None
        """What came while it is paused; None: it runs."""
        self._sent: dict[bytes, tuple[GroupMembership, list[ClientOperation]]] = {}
        """States on their way, each as a send, and as a commit if it has one."""
        self._waiting = False
        self._busy_until_us = 0
        self._watch = Watch()
        self.membership = self._begun()

    def _begun(self) -> GroupMembership:
        """Another run of the program."""
        self._runs += 1
        self._facts = MemberFacts(self._shared, self._number, self._runs)
        self._watch = Watch()
        self._waiting = False
        self._busy_until_us = 0
        streams = [config.name for config in self._cluster.knobs.streams if config.name != REGISTERS]
        id, mutants = f"p{self._number}-{self._runs}", self._account.mutants
        return GroupMembership(id, self._name, SESSION_MS, streams, mutants)

    def start(self) -> None:
        self._turns.take(self._fire)

    def _fire(self, turn: Turn, second: object) -> None:
        if self._shared.stopping:
            return
        turn.noted()
        register = self._room.register()
        if register is not None and self._asleep is None:
            try:
                self._act(register, turn)
            except Violation as violation:
                self._account.fail(violation)
        self._turns.take(self._fire)

    def _act(self, register: Target, turn: Turn) -> None:
        chance = turn.draws.random()
        if chance < DIES:
            self._account.count("members died")
            self.membership = self._begun()
        elif chance < DIES + PAUSES:
            self._account.count("members paused")
            self._asleep = []
            after_us = turn.draws.part("pause").randrange(PAUSE_US)
            self._cluster.kernel.after(after_us, self._wake)
        elif chance < DIES + PAUSES + LEAVES:
            self._ask(register, turn, leaves=True)
        elif chance < ASKS:
            if not self._waiting:
                self._ask(register, turn)
        else:
            self._work(turn.draws.part("work"))

    def _wake(self, first: object, second: object) -> None:
        came, self._asleep = self._asleep or [], None
        for hear in came:
            self._hears(hear)

    def _hears(self, hear: Callable[[], None]) -> None:
        """Something came for this process."""
        if self._asleep is not None:
            self._asleep.append(hear)
            return
        try:
            hear()
        except Violation as violation:
            self._account.fail(violation)

    # -- the register --------------------------------------------------------------------------------------

    def _ask(self, register: Target, turn: Turn, leaves: bool = False) -> None:
        """What does the group say now?"""
        who, draws = self.membership, turn.draws.part("ask")
        truth, node = self._account.truth(register.partition), self._shared.any_node(draws)
        if truth.leaders and draws.random() < LEADER_SHARE:
            node = truth.newest_leader
        subject = register.subject_with("work")
        request = SubjectRequest(
            partition=register.partition,
            what=LAST_OF_SUBJECT,
            pattern=subject.decode(),
            offset=0,
            known=False,
            wait_ms=WAIT_MS,
        )
        self._waiting = True
        asked = self._facts.asks(register, leaves)

        def answered(reply: object) -> None:
            self._hears(lambda: self._told(who, register, reply, leaves, asked))

        self._shared.hub.request(turn.name, node, request, answered, TIMEOUT_US)

    def _told(
        self,
        who: GroupMembership,
        register: Target,
        reply: object,
        leaves: bool,
        asked: ClientOperation | None,
    ) -> None:
        if who is not self.membership:
            return
        self._waiting = False
        assert self._room.truth is not None
        if not isinstance(reply, SubjectReply):
            self._facts.told(asked, who.id, None)
            return
        version, state = reply.offset, GroupState()
        if version != NO_OFFSET:
            state = self._room.truth.said(version)
        self._facts.told(asked, who.id, state)
        self._room.truth.known()
        if version != NO_OFFSET:
            who.hear(version, state)
        held = {share: one.generation for share, one in who.held.items()}
        silent = self._watch.look(self._cluster.kernel.now_us // 1000, state, who.id)
        self._writes += 1
        value = f"{self._number}-{self._writes}".encode()
        if leaves:
            after, steps = who.leave(state, value.decode())
            self.membership = self._begun()
            self._account.count("members left")
        else:
            self._account.count("members expired", len(silent))
            after, steps = who.turn(state, self._room.streams(), silent, value.decode())
        if steps:
            commits = self._facts.writes(register, state, after, held)
            self._write(who, register, value, version, after, [commits] if commits is not None else [])

    def _write(
        self,
        who: GroupMembership,
        register: Target,
        value: bytes,
        version: int,
        after: GroupState,
        commits: list[ClientOperation],
    ) -> None:
        """Have this state follow on that version."""
        shared, subject = self._shared, register.subject_with("work")
        assert self._room.truth is not None
        self._room.truth.states[value] = (who.id, after)
        shared.lasts[value] = ExpectedLast(version, subject, self._account.truth(register.partition).hw)
        shared.sent_on[value] = subject
        shown = b"none" if version == NO_OFFSET else b"%d" % version
        lines = [b"Liftlog-Ack: full", b"Liftlog-Key: " + subject]
        lines.append(b"Liftlog-Expected-Last-Subject-Offset: " + shown)
        headers = b"NATS/1.0\r\n%b\r\n" % b"".join(b"%b\r\n" % line for line in lines)
        reply = INBOX + b"%d." % self._number + value
        operation = ClientOperation("send", self._number, register, self._cluster.kernel.now_us, value)
        self._sent[value] = who, [operation, *commits]
        shared.perform([operation])
        self._account.count("states of groups sent")
        if not self._cluster.bus.publish(subject, [Message(subject, reply, headers, value)]):
            for one in (operation, *commits):
                one.end("fail", self._cluster.kernel.now_us, error="no responders")

    def acked(self, value: bytes, acks: AckPublishes, offset: int) -> None:
        """A state is the group's."""
        self._rivalry.acked(value, acks.partition, offset)
        who, operations = self._sent.pop(value)
        epoch, incarnation = acks.epoch, acks.incarnation
        for one in operations:
            one.end("ok", self._cluster.kernel.now_us, epoch=epoch, incarnation=incarnation, offset=offset)
        self._account.count("acks received")
        self._account.count("states of groups stored")

        def hear() -> None:
            assert self._room.truth is not None
            if who is self.membership:
                who.hear(offset, self._room.truth.states[value][1])

        self._hears(hear)

    def refused(self, value: bytes, refusal: RefusePublishes, place: int) -> None:
        """Somebody was faster, or it cannot be told."""
        if refusal.last_offset is not None:
            self._rivalry.refused(value, refusal)
            self._account.count("states of groups refused")
        self.ended(value, refusal.code)

    def ended(self, value: bytes, code: str) -> None:
        found = self._sent.pop(value, None)
        for one in found[1] if found is not None else ():
            one.end("info", self._cluster.kernel.now_us, error=code)

    # -- work ----------------------------------------------------------------------------------------------

    def _work(self, draws: Draws) -> None:
        """A message is taken in hand, or the one in hand is done. Some take their time."""
        who, truth = self.membership, self._room.truth
        if truth is None or self._cluster.kernel.now_us < self._busy_until_us:
            return
        if who.working is not None:
            (share, generation), who.working = who.working, None
            holding = who.held.get(share)
            if holding is not None and holding.generation == generation:
                offset = max(0, holding.position)
                truth.done(share, offset)
                who.done(share, generation, offset)
                self._account.count("messages of groups done")
            return
        for share in sorted(who.held):
            holding, target = who.held[share], self._room.target_of(share)
            there = target is not None and max(0, holding.position) < self._account.truth(target.partition).hw
            if there and who.holds(share, holding.generation):
                truth.works(who, share, holding.generation)
                who.working = (share, holding.generation)
                if draws.random() < LONG_SHARE:
                    self._busy_until_us = self._cluster.kernel.now_us + draws.randrange(LONG_US)
                return
