"""The observer sees what nodes do: each test doctors a running cluster and names the invariant to fire."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from liftlog.core.metadata.commands import UNSENT, ExpireNode
from liftlog.core.replica.replica import Replica
from liftlog.core.replica.state.log import FAILED, READY
from liftlog.messages import (
    TIMER_TICK,
    AppendRequest,
    OffsetReply,
    PurgeRequest,
    Received,
    Scrubbed,
    SnapshotChunk,
    SnapshotReply,
    TimerFired,
)
from liftlog.types import NUMBER_MAX, Entry, OffsetRange
from liftlog_sim.devices.knobs import Knobs
from liftlog_sim.devices.machine import Machine
from liftlog_sim.kernel import SECOND
from liftlog_sim.runs.runner import run_seed
from liftlog_sim.runs.runs import RunOptions
from liftlog_sim.runs.step_gear import StepProcess
from liftlog_sim.truth.invariants import Violation
from liftlog_sim.workload.clients import ClientHub
from liftlog_sim.world import World


def running_world(seed: int) -> World:
    world = World(seed, Knobs(duration_us=60 * SECOND, tick_ms=100, admin_interval_us=0), StepProcess)
    world.start()
    world.kernel.run_until(8 * SECOND)
    assert any(truth.hw > 0 for truth in world.observer.partitions.values())
    return world


def replica_of(world: World, role: str) -> tuple[Machine, Replica]:
    for machine in world.machines.values():
        if machine.node is not None:
            for replica in machine.node.replicas.values():
                if replica.role == role:
                    return machine, replica
    raise AssertionError(f"no {role}")


def tick_of(machine: Machine) -> TimerFired:
    return TimerFired(TIMER_TICK, machine.clock.monotonic_ms())


def fires(world: World, invariant: str, action: Callable[[], object]) -> None:
    with pytest.raises(Violation) as caught:
        action()
        world.kernel.run_until(world.kernel.now_us + 5 * SECOND)
    assert caught.value.invariant == invariant
    assert world.account.violation is caught.value


def test_a_healthy_cluster_fires_nothing() -> None:
    world = running_world(1)
    world.kernel.run_until(20 * SECOND)
    assert world.account.violation is None


def test_a_hw_over_another_history_than_the_committed_one_fires() -> None:
    world = running_world(2)
    machine, replica = replica_of(world, "follower")
    entry = replica.history.entries[0]
    replica.history.entries[0] = entry._replace(epoch=entry.epoch + 7)
    world.observer._views[machine.number].replicas[replica.id].hw -= 1
    fires(world, "LogMatching", lambda: machine.post(tick_of(machine)))


def test_a_lost_durable_end_of_an_isr_member_fires() -> None:
    world = running_world(3)
    machine, replica = replica_of(world, "follower")

    def lose() -> None:
        replica.log.durable_leo = 0
        machine.post(tick_of(machine))

    fires(world, "CommittedOnISR", lose)


def test_an_unsynced_promise_fires_when_the_machine_recovers() -> None:
    world = running_world(4)
    machine, _replica = replica_of(world, "follower")
    content = machine.disk.files()
    path = next(path for path in content if path.startswith("streams/") and machine.disk.content(path))
    machine.kill()
    file = machine.disk.open(path)
    file.truncate(0)
    file.sync()
    machine.disk.kill()
    fires(world, "CommittedOnISR", machine.start)


def test_damage_that_nobody_inflicted_fires() -> None:
    world = running_world(9)
    machine, replica = replica_of(world, "follower")
    found = Scrubbed(replica.id, 1, OffsetRange(0, 1))
    fires(world, "NoFalseDamage", lambda: machine.post(found))


@pytest.mark.parametrize("content", [b"", b"LIFTSTA1", b"nonsense that is long enough for a head"])
def test_a_state_file_that_was_changed_in_place_fires(content: bytes) -> None:
    world = running_world(4)
    machine, _replica = replica_of(world, "follower")
    machine.kill()
    file = machine.disk.open("hw", create=True)
    file.truncate(0)
    file.append([content])
    file.sync()
    machine.disk.kill()
    fires(world, "AtomicStateFiles", machine.start)


def test_a_leader_that_goes_on_without_contact_fires() -> None:
    world = running_world(10)
    machine, _replica = replica_of(world, "leader")
    assert machine.node is not None
    for other in world.machines:
        if other != machine.number:
            world.network.block(machine.number, other)
            world.network.block(other, machine.number)
    # The node takes itself to be in contact for ever.
    machine.node.session.contact_ms = 1e12
    fires(world, "FencedInTime", lambda: None)


def test_a_copy_that_is_used_again_though_nobody_has_heard_of_its_failure_fires() -> None:
    """R5. It takes it that the group has heard: of a failure with this number, which was another one."""
    world = running_world(10)
    machine, replica = replica_of(world, "follower")
    assert machine.node is not None
    record = machine.node.metadata.partitions[replica.id]
    told = (machine.node.incarnation, 1)
    for other in world.machines.values():
        assert other.node is not None
        failures = {**record.failures, machine.number: told}
        other.node.metadata.partitions[replica.id] = msgspec.structs.replace(record, failures=failures)
    machine.disk.fail_next_sync("streams/")
    fires(world, "FailureHeard", lambda: None)


def test_who_is_sent_a_snapshot_is_in_contact() -> None:
    """Seed 580: for a second the only other node that ran answered chunks of a snapshot, and nothing else."""
    world = running_world(10)
    machine = next(each for each in world.machines.values() if each.node and each.node.raft.leadership)
    other = next(number for number in world.machines if number != machine.number)
    node, contact = machine.node, world.observer._contacts.of(machine)
    assert node is not None
    term, later = node.raft.term, 1_000_000
    contact.sent(SnapshotChunk(term, machine.number, 1, 1, 0, 1, 0, later, b""))
    contact.heard(other, SnapshotReply(term, other, 1, 0, later, counts=False))
    contact.settle()
    held_ms = contact.granted_ms()
    contact.heard(other, SnapshotReply(term, other, 1, 0, later, disk="another"))
    contact.settle()
    assert contact.granted_ms() == held_ms
    disk = node.raft.members.member(other).disk  # type: ignore[union-attr]
    contact.heard(other, SnapshotReply(term, other, 1, 0, later, disk=disk))
    contact.settle()
    assert contact.granted_ms() > held_ms


def test_a_session_that_ends_before_its_lease_fires_unless_it_was_never_confirmed() -> None:
    """Seeds 175 and 413: a slow disk held the incarnation back until the session of the registration ended.
    Nobody takes over from a node that leads nothing, is granted nothing and joins nothing.
    """
    world = running_world(12)
    machine, _replica = replica_of(world, "leader")
    assert machine.node is not None
    state = machine.node.metadata.nodes[machine.number]
    contacts = world.observer._contacts
    registered = ExpireNode(UNSENT, machine.number, state.incarnation, state.incarnation)
    contacts.session_ended(machine, machine.node.metadata.applied + 1, registered)
    assert contacts.violation is None
    assert contacts.of(machine).granted_ms() > 0
    confirmed = ExpireNode(UNSENT, machine.number, state.incarnation, state.since)
    contacts.session_ended(machine, machine.node.metadata.applied + 2, confirmed)
    fires(world, "SilentBeforeReplaced", lambda: None)


def test_a_lookup_by_time_is_judged_by_what_the_copy_can_give(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seed 158: a copy that had lost its unsynced end told where it ends now (D5), or lost it just then."""
    world = running_world(13)
    reader, target = world.workload._readers[0], world.workload.targets[0]
    nodes = [machine.node for machine in world.machines.values()]
    logs = [node.replicas[target.partition].log for node in nodes if node is not None]
    assert len(logs) == len(nodes) and all(log.hw > 1 for log in logs)
    rebuilt = 0

    def request(
        hub: object, name: str, server: int, asked: object, answered: Callable[[object], None], _: int
    ) -> None:
        for _rebuild in range(rebuilt):
            world.account.count("rebuilds")
        answered(OffsetReply(target.partition, 0, 1))

    def ask() -> None:
        for _ in range(20):
            turn = reader._turns.next()
            assert turn is not None
            reader._ask_time(target, turn)

    monkeypatch.setattr(ClientHub, "request", request)
    judged = world.account.checks.counts["TimeLookup"]
    for log in logs:
        log.state, log.keep_below = FAILED, 0
    ask()
    for log in logs:
        log.state = READY
    rebuilt = 1
    ask()
    assert world.account.checks.counts["TimeLookup"] == judged + 40
    rebuilt = 0
    fires(world, "TimeLookup", ask)


def test_a_second_leader_of_an_epoch_fires() -> None:
    world = running_world(5)
    machine, replica = replica_of(world, "leader")
    truth = world.observer.truth(replica.id)
    node, incarnation = truth.leaders[replica.epoch]
    truth.leaders[replica.epoch] = (node, incarnation - 1)
    world.observer._views[machine.number].replicas[replica.id].leading = False
    fires(world, "OneLeaderPerEpoch", lambda: machine.post(tick_of(machine)))


def test_a_second_raft_leader_of_a_term_fires() -> None:
    world = running_world(6)
    machine = next(m for m in world.machines.values() if m.node is not None and m.node.raft.is_leader)
    assert machine.node is not None
    world.observer.raft.leaders[machine.node.raft.term] = 99
    world.observer._views[machine.number].led_term = 0
    fires(world, "ElectionSafety", lambda: machine.post(tick_of(machine)))


def test_a_changed_committed_raft_entry_fires() -> None:
    world = running_world(7)
    machine, _replica = replica_of(world, "follower")
    assert machine.node is not None
    log = machine.node.raft.log
    log[0] = Entry(log[0].index, log[0].term + 5, log[0].data)
    world.observer._views[machine.number].commit = 0
    fires(world, "StateMachineSafety", lambda: machine.post(tick_of(machine)))


def test_a_node_that_raises_is_a_violation_of_its_own() -> None:
    world = running_world(8)
    machine, _replica = replica_of(world, "follower")

    def raise_now() -> None:
        assert machine.process is not None
        machine.process.post("no event")  # type: ignore[arg-type]

    fires(world, "NodeError", raise_now)


def test_a_reset_above_what_anybody_asked_to_purge_fires() -> None:
    world = running_world(10)
    machine, replica = replica_of(world, "follower")
    # Else the first thing to be wrong is that a member of the ISR gives up what is committed.
    machine.damaged_run = machine.restarts
    assert world.observer.truth(replica.id).purge_asked == 0

    def step() -> None:
        replica.log.reset(1, (), consent=True)
        machine.post(tick_of(machine))

    fires(world, "LogStartMonotone", step)


def test_a_reset_is_where_a_log_begins_once_storage_has_done_it_and_it_may_go_back() -> None:
    world = running_world(11)
    machine, replica = replica_of(world, "follower")
    key = (machine.number, replica.id)
    world.observer.truth(replica.id).purge_asked = 3
    for number in world.machines:
        world.clients.request("test", number, PurgeRequest(replica.id, 3), lambda reply: None, SECOND)
    world.kernel.run_until(world.kernel.now_us + 3 * SECOND)
    assert world.account.log_starts[key] == replica.log_start == 3
    machine.damaged_run = machine.restarts
    for asked in (0, 3):
        replica.log.reset(asked, (), consent=True)
        machine.post(tick_of(machine))
        assert world.account.log_starts[key] == 0, "until then the lower of what it was and what it is to be"
        while replica.pending:
            world.kernel.run_until(world.kernel.now_us + 10)
        assert world.account.log_starts[key] == asked


RESTARTS: dict[str, Callable[[Machine], None]] = {
    "kill": Machine.kill,
    "power": Machine.lose_power,
    "stop": Machine.terminate,
    "its own end": lambda machine: machine.stop("a test says so"),
}


@pytest.mark.parametrize("gear", ["step", "trio"])
@pytest.mark.parametrize("how", RESTARTS)
@pytest.mark.parametrize("lied", [True, False], ids=["a lie", "no lie"])
def test_a_node_that_does_not_start_on_what_it_was_told_fires(gear: str, how: str, lied: bool) -> None:
    """It believes in a term that no group gets to, writes it down, and finds it at its next start (V4)."""

    def watch(world: World) -> None:
        machine = world.machines[1]

        def tell(first: object, second: object) -> None:
            event = Received(2, AppendRequest(NUMBER_MAX - 1000, 2, 0, 0, 0, 0, []))
            if lied:
                world.faults.liars.told(event)
            machine.post(event)

        world.kernel.at(5 * SECOND, tell)
        world.kernel.at(6 * SECOND, lambda first, second: RESTARTS[how](machine))
        world.kernel.at(12 * SECOND, lambda first, second: machine.start())

    options = RunOptions(seed=1, nodes=3, duration_s=20, faults="none", gear=gear)
    result = run_seed(msgspec.structs.replace(options, mutant="term_jump_believed"), watch)
    assert result.invariant == ("NoInputEndsNode" if lied else "NodeError")
    assert "node 1 cannot start: node 1: its disk holds term" in result.finding
    sound = run_seed(options, watch)
    assert sound.invariant == ("" if lied else "HonestHeard"), sound.finding
