"""Random schedules: whatever the network, the disks and the power supply do, the invariants hold.

A schedule is a list of pairs (what, which), so that hypothesis can shrink a failure to its few decisive
steps. The harness checks every invariant after each step; this test adds that a group to which nothing more
happens elects a leader and commits.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.raft_harness import Group

pytestmark = pytest.mark.slow

Action = Callable[[Group, int], None]


def deliver_one(group: Group, which: int) -> None:
    """Any message may come next: reordering."""
    if group.network:
        group.arrive(group.network.pop(which % len(group.network)))


def deliver_all(group: Group, _which: int) -> None:
    packets, group.network = group.network, []
    for packet in packets:
        group.arrive(packet)


def deliver_all_to_one(group: Group, which: int) -> None:
    group.deliver(to=group.nodes[which % len(group.nodes)])


def double(group: Group, which: int) -> None:
    if group.network:
        group.arrive(group.network[which % len(group.network)])


def lose(group: Group, which: int) -> None:
    if group.network:
        group.network.pop(which % len(group.network))


def cut(group: Group, which: int) -> None:
    """Everything to and from one node is lost."""
    node = group.nodes[which % len(group.nodes)]
    group.take(to=node)
    group.take(sender=node)


def a_running(group: Group, which: int) -> int:
    running = sorted(group.machines)
    return running[which % len(running)] if running else 0


def sync_some(group: Group, which: int) -> None:
    node = a_running(group, which)
    if node:
        group.sync(node, 1 + which // 16 % 3)


def sync_one_node(group: Group, which: int) -> None:
    node = a_running(group, which)
    if node:
        group.sync(node)


def tick(group: Group, _which: int) -> None:
    group.tick()


def wait(group: Group, which: int) -> None:
    """An election timeout passes at one node, and its timer fires."""
    node = a_running(group, which)
    if node:
        group.forget_leader(node)
        group.fire(node)


def fire(group: Group, which: int) -> None:
    node = a_running(group, which)
    if node:
        group.fire(node)


def propose(group: Group, which: int) -> None:
    leading = [node for node in sorted(group.machines) if group.raft(node).is_leader]
    if leading:
        node = leading[which % len(leading)]
        group.step(node, lambda: group.raft(node).propose(b"%d" % which))


def read(group: Group, which: int) -> None:
    node = a_running(group, which)
    if node:
        group.read(node)


def transfer(group: Group, which: int) -> None:
    node, to = group.leader(), group.nodes[which % len(group.nodes)]
    if node:
        group.step(node, lambda: group.raft(node).transfer(to))


def crash(group: Group, which: int) -> None:
    """Power loss; of what is not synced, some may be on the disk."""
    node = a_running(group, which)
    if node:
        group.crash(node, keep=which // 16 % 4)


def restart(group: Group, which: int) -> None:
    down = [node for node in group.nodes if node not in group.machines]
    if down:
        group.restart(down[which % len(down)])


def wipe(group: Group, which: int) -> None:
    """A disk is replaced. Never all of them: a cluster without any memory is a new cluster."""
    down = [node for node in group.nodes if node not in group.machines]
    kept = [node for node in group.nodes if group.disks[node].disk_id == f"disk-{node}"]
    if down and (len(kept) > 1 or down[which % len(down)] not in kept):
        group.wipe(down[which % len(down)])


WEIGHTS: list[tuple[Action, int]] = [
    (deliver_one, 20),
    (deliver_all, 14),
    (deliver_all_to_one, 10),
    (sync_one_node, 14),
    (sync_some, 6),
    (tick, 8),
    (wait, 7),
    (fire, 3),
    (propose, 10),
    (read, 4),
    (transfer, 1),
    (double, 3),
    (lose, 4),
    (cut, 2),
    (crash, 3),
    (restart, 5),
]
FAULTS = [action for action, weight in WEIGHTS for _ in range(weight)]
FAULTS_AND_WIPES = [*FAULTS, wipe, wipe]


def schedules(actions: list[Action]) -> st.SearchStrategy[list[tuple[Action, int]]]:
    return st.lists(st.tuples(st.sampled_from(actions), st.integers(0, 255)), min_size=50, max_size=250)


def play(group: Group, schedule: list[tuple[Action, int]]) -> None:
    for action, which in schedule:
        action(group, which)


RANDOM = settings(
    max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)


@pytest.mark.parametrize("size", [3, 5])
@RANDOM
@given(schedule=schedules(FAULTS))
def test_a_group_keeps_the_invariants_under_any_schedule_and_recovers_after_it(
    size: int, schedule: list[tuple[Action, int]]
) -> None:
    group = Group(size)
    group.elect(1)
    play(group, schedule)
    group.network.clear()
    leader = group.heal()
    index = group.propose(leader, b"after all")
    key = group.read(2)
    group.settle()
    group.tick()
    group.settle()
    assert {group.raft(node).commit for node in group.nodes} == {index}
    assert key in group.reads_done
    assert [group.applied[node] == group.applied[leader] for node in group.nodes] == [True] * size


@pytest.mark.parametrize("size", [3, 5])
@RANDOM
@given(schedule=schedules(FAULTS_AND_WIPES))
def test_i2_a_group_keeps_the_invariants_from_its_birth_on_even_if_disks_are_replaced(
    size: int, schedule: list[tuple[Action, int]]
) -> None:
    group = Group(size, born=False)
    play(group, schedule)
    certificates = {
        group.disks[node].hard_state.peer_disks for node in group.nodes if group.disks[node].hard_state.born
    }
    assert len(certificates) <= 1


def test_random_schedules_reach_what_they_are_meant_to_test() -> None:
    """A schedule that never elects or truncates proves nothing: count what one long one does."""
    group = Group(3)
    number = 12345
    for _ in range(6000):
        # A linear congruential generator: the same schedule on every machine.
        number = (number * 1103515245 + 12345) % (1 << 31)
        FAULTS[(number >> 8) % len(FAULTS)](group, (number >> 3) % 256)
    reached = {name for name, count in group.marks.items() if count > 0}
    assert reached >= {
        "M1.election",
        "M1.prevote",
        "M1.vote",
        "M1.sticky",
        "M1.commit",
        "M1.truncate",
        "M1.stepdown",
        "M1.readindex",
    }
    assert len(group.committed) > 50
