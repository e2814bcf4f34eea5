"""Raft's own code against its model: random schedules are explained, planted bugs are not.

The harness of the core's tests (tests/core/raft_harness.py) drives the voters; each of their steps becomes a
line of the trace, which `RaftChecker` has to explain at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given, settings

from liftlog.messages import (
    AppendRequest,
    Event,
    Outcome,
    VoteReply,
)
from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.trace.raft_lines import RaftCause, RaftJob, RaftLetter, RaftState, RaftStep
from liftlog.trace.raft_recorder import RaftRecorder, letter_of
from liftlog_spec.lang.types import SpecError
from liftlog_spec.refine.raft import RaftChecker, RaftDisagreement
from liftlog_spec.refine.raft_group import _stepper
from liftlog_spec.refine.raft_members import Disks, config_text
from tests.core.raft_harness import Group, Packet
from tests.core.test_raft_mutants import NAMES, TABLE, Schedule
from tests.core.test_raft_random import FAULTS, FAULTS_AND_WIPES, RANDOM, Action, play, schedules

FEWER = settings(RANDOM, max_examples=25)


class RefinedGroup(Group):
    """A group whose every step is explained to the model."""

    def __init__(
        self, size: int, mutants: Mutants = NO_MUTANTS, learners: int = 0, born: bool = True
    ) -> None:
        self.checker = RaftChecker(range(1, size + 1), range(size + 1, size + learners + 1))
        self.lines: list[RaftStep] = []
        self._recorders: dict[int, RaftRecorder] = {}
        super().__init__(size, mutants, learners, born)

    def begin(self, node: int) -> None:
        machine = self.machines[node]
        self._recorders[node] = RaftRecorder(machine.raft, self.starts, machine.disk.disk_id)
        super().begin(node)

    def arrive(self, packet: Packet) -> None:
        super().arrive(self._let_send(packet))

    def _let_send(self, packet: Packet) -> Packet:
        """A schedule may make up a message that a leader could have sent: then it has sent it."""
        message, sender = packet.message, self.machines.get(packet.sender)
        if isinstance(message, AppendRequest) and sender is not None and sender.raft.is_leader:
            message = msgspec.structs.replace(message, commit=min(message.commit, sender.raft.commit))
            letter = letter_of(message, packet.sender, packet.to, 0)
            if not any(letter in line.sent for line in self.lines):
                last = next(line for line in reversed(self.lines) if line.node == packet.sender)
                said = msgspec.structs.replace(last, cause=RaftCause("Test"), jobs=(), sent=(letter,))
                self.checker.step(said)
                return Packet(packet.sender, packet.to, message)
        return packet

    def stepped(self, node: int, event: Event | None, outcome: Outcome) -> None:
        super().stepped(node, event, outcome)
        line = self._recorders[node].stepped(event, outcome)
        if line is not None:
            self.lines.append(line)
            self.checker.step(line)


def withhold(group: Group, which: int) -> None:
    """A voter is told that its disk lacks something (I2), unless two have been already."""
    node = group.nodes[which % len(group.nodes)]
    withheld = [n for n in group.nodes if group.disks[n].hard_state.vote_withheld]
    if node in group.machines and not withheld:
        group.step(node, group.raft(node).withhold_vote)


@pytest.mark.parametrize("size", [3, 5])
@FEWER
@given(schedule=schedules(FAULTS))
def test_any_schedule_is_explained(size: int, schedule: list[tuple[Action, int]]) -> None:
    group = RefinedGroup(size)
    group.elect(1)
    play(group, schedule)
    group.network.clear()
    group.heal()
    assert group.checker.outside == {}


@pytest.mark.parametrize("size", [1, 3])
@FEWER
@given(schedule=schedules([*FAULTS_AND_WIPES, withhold]))
def test_i2_from_the_birth_on_with_disks_that_are_replaced(
    size: int, schedule: list[tuple[Action, int]]
) -> None:
    group = RefinedGroup(size, born=False)
    play(group, schedule)
    assert set(group.checker.outside) <= {"a disk replaced before its birth"}


def test_one_long_schedule_takes_every_action() -> None:
    """A checker that sees nothing but stutters proves nothing."""
    group = RefinedGroup(3)
    number = 12345
    for _ in range(4000):
        # A linear congruential generator: the same schedule on every machine.
        number = (number * 1103515245 + 12345) % (1 << 31)
        FAULTS[(number >> 8) % len(FAULTS)](group, (number >> 3) % 256)
    withhold(group, 0)
    group.crash(3)
    group.wipe(3)
    group.restart(3)
    checker = group.checker
    assert [name for name, times in checker.actions.items() if not times] == ["Add", "Promote", "Remove"]
    assert checker.outside == {}
    assert checker.replaced == 1
    assert 0 < checker.stutters < checker.steps


@pytest.mark.parametrize(("mutants", "size", "schedule", "_invariant"), TABLE, ids=NAMES)
def test_a_planted_bug_is_found_before_it_does_harm(
    mutants: Mutants, size: int, schedule: Schedule, _invariant: str
) -> None:
    """`InvariantBroken`, which the same schedule ends in without the checker, never comes."""
    with pytest.raises(RaftDisagreement):
        schedule(RefinedGroup(size, mutants))


@pytest.mark.parametrize(("_mutants", "size", "schedule", "_invariant"), TABLE, ids=NAMES)
def test_the_correct_code_is_explained_under_the_same_schedule(
    _mutants: Mutants, size: int, schedule: Schedule, _invariant: str
) -> None:
    schedule(RefinedGroup(size))


def test_learners_are_servers_that_do_not_count() -> None:
    group = RefinedGroup(3, learners=1)
    group.elect(1)
    group.propose(1, b"x")
    group.settle()
    group.tick(times=10)
    group.settle()
    assert len(group.raft(4).log) == 2
    assert group.checker.outside == {}
    assert group.checker.state[group.checker._log_at][3] == (1, 1)


# -- members -----------------------------------------------------------------------------------------------


class ChangingGroup(RefinedGroup):
    """Three voters and a learner, whose core knows of no change. Entries are ordinary ones, of which the
    checker is told that they change the members; so it follows as long as both have the same quorums.
    """

    def __init__(self) -> None:
        super().__init__(3, learners=1)
        self.elect(1)
        self.settle()

    def propose_members(self, voters: str, learners: str = "") -> None:
        """The leader's next entry says that. Nodes by their digits."""
        last = self.raft(1).raft_log.last_index
        self.checker.tell(last + 1, self.raft(1).term, self.named(voters), self.named(learners))
        self.propose(1, b"")

    def named(self, nodes: str) -> Disks:
        return tuple((int(node), self.disks[int(node)].disk_id) for node in nodes)

    def members(self) -> str:
        """What node 1 goes by, in the model."""
        checker = self.checker
        log = checker.state[checker._log_at][0]
        config = checker._steps.evaluate("ConfigAt", (log, len(log)), checker.state)
        return config_text(config, checker._servers.name)


def test_members_are_added_promoted_and_removed() -> None:
    group = ChangingGroup()
    for voters, learners in [("123", "4"), ("12", "4"), ("124", ""), ("12", "")]:
        group.propose_members(voters, learners)
        # What votes in the core and in the model alike.
        group.network[:] = [packet for packet in group.network if {packet.sender, packet.to} != {1, 3}]
        group.settle()
    assert group.raft(1).commit == 5
    assert group.members() == "voters node 1, node 2"
    checker = group.checker
    assert [checker.actions[name] for name in ("Add", "Promote", "Remove")] == [1, 1, 2]


def test_a_disk_in_the_place_of_another_is_added_as_another_server() -> None:
    group = ChangingGroup()
    group.propose_members("12")
    group.settle()
    group.crash(3)
    group.wipe(3)
    group.restart(3)
    group.settle()
    group.propose_members("12", "3")
    group.settle()
    assert group.members() == f"voters node 1, node 2, learners node 3 (disk {group.disks[3].disk_id})"
    assert group.checker.replaced == 1


def test_a_disk_may_be_added_before_its_process_begins() -> None:
    group = ChangingGroup()
    group.propose_members("12")
    group.settle()
    group.crash(3)
    group.wipe(3)
    group.propose_members("12", "3")
    assert group.checker.replaced == 0
    group.restart(3)
    group.settle()
    assert group.members() == f"voters node 1, node 2, learners node 3 (disk {group.disks[3].disk_id})"
    assert (group.checker.replaced, group.checker.outside) == (1, {})


def test_a_disk_that_comes_back_is_the_server_that_it_was() -> None:
    group = ChangingGroup()
    former = group.disks[3]
    for disk in (None, former):
        group.crash(3)
        if disk is None:
            group.wipe(3)
        else:
            group.disks[3] = disk
        group.restart(3)
        group.settle()
    assert group.checker.outside == {}
    assert (group.checker.replaced, group.checker.actions["Restart"]) == (1, 1)


def test_a_change_needs_the_one_before_to_be_committed() -> None:
    group = ChangingGroup()
    group.propose_members("123", "4")
    with pytest.raises(RaftDisagreement, match=r"Remove is refused at raft_steps.py.*Newest"):
        group.propose_members("12", "4")


def test_a_change_needs_a_committed_entry_of_the_leaders_term() -> None:
    group = ChangingGroup()
    group.forget_leader(2, 3)
    group.fire(2)
    group.settle_votes(2, (3,))
    assert group.raft(2).is_leader
    group.checker.tell(3, group.raft(2).term, group.named("12"))
    with pytest.raises(RaftDisagreement, match=r"Remove is refused at raft_steps.py.*s.TermAt"):
        group.propose(2, b"")


def test_a_learner_is_promoted_once_it_has_what_is_committed() -> None:
    group = ChangingGroup()
    group.propose_members("123", "4")
    group.settle()
    group.crash(4)
    group.propose(1, b"")
    group.settle()
    with pytest.raises(RaftDisagreement, match=r"Promote is refused at raft_steps.py.*Acknowledged"):
        group.propose_members("1234")


@pytest.mark.parametrize(("voters", "learners"), [("1", ""), ("1234", ""), ("123", ""), ("12", "34")])
def test_what_is_no_single_change_is_refused(voters: str, learners: str) -> None:
    """Two removed, one added as a voter at once, none, a voter that is to learn."""
    group = ChangingGroup()
    with pytest.raises(RaftDisagreement, match=r"it changes voters node 1, node 2, node 3 to .*no action"):
        group.propose_members(voters, learners)


def test_who_is_removed_is_not_counted() -> None:
    group = ChangingGroup()
    group.propose_members("12")
    group.crash(2)
    with pytest.raises(RaftDisagreement, match=r"Commit is refused at raft.py.*s.enough"):
        group.settle()


def test_a_leader_that_removed_itself_is_not_counted() -> None:
    group = ChangingGroup()
    group.propose_members("23")
    group.crash(3)
    with pytest.raises(RaftDisagreement, match=r"Commit is refused at raft.py.*s.enough"):
        group.settle()


def test_a_learner_that_is_promoted_makes_a_quorum_larger() -> None:
    group = ChangingGroup()
    group.propose_members("123", "4")
    group.settle()
    group.propose_members("1234")
    group.crash(3)
    group.crash(4)
    with pytest.raises(RaftDisagreement, match=r"Commit is refused at raft.py.*s.enough"):
        group.settle()


def test_an_entry_is_one_change_and_its_leaders() -> None:
    group = ChangingGroup()
    group.propose_members("12")
    with pytest.raises(RaftDisagreement, match=r"entry 2 of term 1: it is told as .* and as"):
        group.checker.tell(2, 1, group.named("13"))
    group = ChangingGroup()
    group.checker.tell(1, 1, group.named("12"))
    with pytest.raises(RaftDisagreement, match="entry 1 of term 1 changes the members, which nobody"):
        group.propose(1, b"")


def test_a_disk_that_nobody_named_must_not_vote() -> None:
    group = ChangingGroup()
    group.crash(3)
    group.wipe(3)
    group.restart(3)
    born = with_state(may_vote=True)(group.lines[-1])
    with pytest.raises(RaftDisagreement, match="it may vote, in the model no configuration names its disk"):
        group.checker.step(born)


# -- what the checker says -----------------------------------------------------------------------------------


def lines_of_an_election() -> list[RaftStep]:
    """Node 1 is elected by node 2 and has both followers accept one entry."""
    group = RefinedGroup(3)
    group.elect(1)
    group.propose(1, b"x")
    group.settle()
    return group.lines


def told(lines: list[RaftStep]) -> str:
    """What the checker finds wrong with these lines."""
    checker = RaftChecker((1, 2, 3))
    with pytest.raises(RaftDisagreement) as caught:
        for line in lines:
            checker.step(line)
    return str(caught.value)


def doctored(wanted: Callable[[RaftStep], bool], change: Callable[[RaftStep], RaftStep]) -> list[RaftStep]:
    """The lines of an election, of which the first that is wanted is changed."""
    lines = lines_of_an_election()
    place = next(place for place, line in enumerate(lines) if wanted(line))
    return [*lines[:place], change(lines[place]), *lines[place + 1 :]]


def with_state(**changes: object) -> Callable[[RaftStep], RaftStep]:
    def change(line: RaftStep) -> RaftStep:
        state: RaftState = msgspec.structs.replace(line.state, **changes)
        return msgspec.structs.replace(line, state=state)

    return change


def with_sent(**changes: object) -> Callable[[RaftStep], RaftStep]:
    def change(line: RaftStep) -> RaftStep:
        sent: list[RaftLetter] = [msgspec.structs.replace(letter, **changes) for letter in line.sent]
        return msgspec.structs.replace(line, sent=tuple(sent))

    return change


def with_jobs(**changes: object) -> Callable[[RaftStep], RaftStep]:
    def change(line: RaftStep) -> RaftStep:
        jobs: list[RaftJob] = [msgspec.structs.replace(job, **changes) for job in line.jobs]
        return msgspec.structs.replace(line, jobs=tuple(jobs))

    return change


def leads(line: RaftStep) -> bool:
    return line.state.role == "leader"


def sends_acks(line: RaftStep) -> bool:
    return any(letter.kind == "ack" and letter.terms == () and letter.index for letter in line.sent)


def sends_votes(line: RaftStep) -> bool:
    return any(letter.kind == "vote" and letter.yes and not letter.pre for letter in line.sent)


def commits(line: RaftStep) -> bool:
    return leads(line) and line.state.commit == 1


CASES: list[tuple[Callable[[RaftStep], bool], Callable[[RaftStep], RaftStep], list[str]]] = [
    (leads, with_state(vote=2), ["node 1", "after", "vote is 2, in the model 1"]),
    (leads, with_state(last=2), ["Propose writes its log, but the node submits no such job"]),
    (leads, with_state(durable=1), ["it takes 1 entries for synced", "an empty log"]),
    (commits, with_state(commit=2), ["Commit(n=node 1, index=2)", "raft.py:", "index"]),
    (sends_acks, with_sent(index=2), ["Accept(", "acked <= known"]),
    (sends_acks, with_sent(after=0), ["leaves, but its disk holds only"]),
    (sends_acks, with_sent(term=9), ["which no action of the model sends"]),
    (sends_votes, with_sent(after=0), ["vote of term 1", "leaves, but its disk holds only term 0"]),
    (sends_votes, with_sent(receiver=3), ["which no action of the model sends"]),
    (leads, lambda line: msgspec.structs.replace(line, jobs=()), ["Propose writes its log, but the node"]),
    (leads, with_jobs(index=1), ["it appends behind 1 to a log of 0"]),
    (leads, with_jobs(terms=((1, 2),)), ["Propose writes its log, but the node submits no such job"]),
    (sends_votes, with_jobs(vote=3), ["it writes term 1, vote 3", "which no action of the model writes"]),
]


@pytest.mark.parametrize(("wanted", "change", "texts"), CASES)
def test_what_is_wrong_is_said(
    wanted: Callable[[RaftStep], bool], change: Callable[[RaftStep], RaftStep], texts: list[str]
) -> None:
    found = told(doctored(wanted, change))
    for text in texts:
        assert text in found


def test_a_message_that_nobody_sent_is_named() -> None:
    group = RefinedGroup(3)
    with pytest.raises(
        RaftDisagreement, match="vote of term 1 from node 2 to node 1, but nobody has sent it"
    ):
        group.arrive(Packet(2, 1, VoteReply(1, 2, True, False)))
    with pytest.raises(RaftDisagreement, match=r"append of term 1 .* but nobody has sent it"):
        group.arrive(Packet(2, 3, AppendRequest(1, 2, 0, 0, 0, 0, [])))


def test_a_message_that_is_held_back_is_named() -> None:
    """The voter has decided, and its disk is not done: nobody can have heard of it."""
    group = RefinedGroup(3)
    group.forget_leader(1, 2)
    group.fire(1)
    group.settle_votes(1, (2,))
    group = RefinedGroup(3)
    group.forget_leader(1, 2, 3)
    group.fire(1)
    for _ in range(3):
        group.deliver()
        group.sync(1)
    assert group.machines[2].held
    with pytest.raises(RaftDisagreement, match=r"vote of term 1 .* but the model still holds it back"):
        group.arrive(Packet(2, 1, VoteReply(1, 2, True, False)))


def test_a_disk_that_forgot_is_refused_unless_it_was_struck() -> None:
    def forget(group: RefinedGroup) -> None:
        group.elect(1)
        group.propose(1, b"x")
        group.settle()
        group.crash(2)
        del group.disks[2].entries[1:]

    group = RefinedGroup(3)
    forget(group)
    with pytest.raises(RaftDisagreement, match=r"no crash leaves what it found .*synced was term 1"):
        group.restart(2)
    group = RefinedGroup(3)
    forget(group)
    group.checker.struck(2, "set back")
    group.restart(2)
    group.settle()
    assert group.checker.outside == {"a disk set back": 1}


def test_lines_may_be_written_and_read_as_json() -> None:
    lines = lines_of_an_election()
    text = [msgspec.json.encode(line) for line in lines]
    again = [msgspec.json.decode(line, type=RaftStep) for line in text]
    assert again == lines
    checker = RaftChecker((1, 2, 3))
    for line in again:
        checker.step(line)
    assert checker.actions["Commit"] == 2


def test_what_is_remembered_of_a_line_depends_on_its_node_alone() -> None:
    """The checker takes a line that changed nothing for explained when it comes again: every action that can
    change nothing reads the values of its own node and nothing else.
    """
    stepper = _stepper(3)
    for action in ("Replicate", "Accept", "GrantVote"):
        with pytest.raises(SpecError):
            stepper.apply(action, (), stepper.first())  # Generates the code.
        source = stepper.sources[action].partition("= state\n")[2]
        read = re.findall(r"v_(\w+)\[(\w+)\]", source)
        assert read and {place for _, place in read} == {"p0"}, action
