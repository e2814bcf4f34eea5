"""The simulated network loses, delays, duplicates and cuts exactly as told."""

from __future__ import annotations

from liftlog.messages import Heartbeat, Received
from liftlog.types import ClusterEpoch
from liftlog_sim.chance.chances import Chances
from liftlog_sim.devices.network import NetworkPort, SimNetwork
from liftlog_sim.devices.options import NetworkOptions
from liftlog_sim.faults.liars import Lie
from liftlog_sim.kernel import SECOND, Kernel


class Setup:
    def __init__(self, options: NetworkOptions, seed: int = 1) -> None:
        self.kernel = Kernel()
        self.arrived: list[tuple[int, Received]] = []
        self.chances = Chances(self.kernel, seed)
        self.network = SimNetwork(
            self.chances, options, lambda to, event: self.arrived.append((to, event))
        )

    def send(self, count: int, sender: int = 1, to: int = 2) -> list[int]:
        """Sequence numbers in the order of arrival."""
        for number in range(count):
            self.network.send(sender, to, Heartbeat(1, number, 0))
        self.kernel.run_until(self.kernel.now_us + 10 * SECOND)
        found = [event.message.sequence for _, event in self.arrived if isinstance(event.message, Heartbeat)]
        self.arrived.clear()
        return found


def test_a_perfect_network_keeps_order() -> None:
    assert Setup(NetworkOptions(100, 0)).send(20) == list(range(20))


def test_every_receiver_gets_an_object_of_its_own() -> None:
    setup = Setup(NetworkOptions(100, 0))
    message = Heartbeat(1, 1, 0)
    setup.network.send(1, 2, message)
    setup.kernel.run_until(SECOND)
    ((to, received),) = setup.arrived
    assert to == 2 and received.sender == 1
    assert received.message == message and received.message is not message


def test_loss_duplication_and_delay_happen_at_about_the_stated_rate() -> None:
    lost = 1000 - len(Setup(NetworkOptions(100, 0, loss=0.2)).send(1000))
    assert 130 < lost < 270
    doubled = len(Setup(NetworkOptions(100, 0, duplicate=0.2)).send(1000)) - 1000
    assert 130 < doubled < 270
    late = Setup(NetworkOptions(100, 0, delay=0.2, delay_max_us=100_000)).send(1000)
    assert sorted(late) == list(range(1000)) and late != sorted(late)


def test_what_is_held_back_arrives_late_and_is_overtaken_after_its_release() -> None:
    setup = Setup(NetworkOptions(100, 0))
    setup.network.hold(1, 2, Heartbeat, SECOND)
    setup.network.send(1, 2, Heartbeat(1, 1, 0))
    setup.network.release(1, 2)
    setup.network.send(1, 2, Heartbeat(1, 2, 0))
    setup.kernel.run_until(SECOND - 1)
    assert [event.message.sequence for _, event in setup.arrived] == [2]
    setup.kernel.run_until(SECOND)
    assert [event.message.sequence for _, event in setup.arrived] == [2, 1]


def test_cuts_are_one_way_and_add_up() -> None:
    setup = Setup(NetworkOptions(100, 0))
    setup.network.block(1, 2)
    setup.network.block(1, 2)
    assert setup.send(3) == []
    assert setup.send(3, sender=2, to=1) == [0, 1, 2]
    setup.network.unblock(1, 2)
    assert setup.send(3) == []
    setup.network.unblock(1, 2)
    assert setup.network.is_whole()
    assert setup.send(3) == [0, 1, 2]


def test_a_cut_swallows_what_is_under_way() -> None:
    setup = Setup(NetworkOptions(1000, 0))
    setup.network.send(1, 2, Heartbeat(1, 1, 0))
    setup.network.block(1, 2)
    setup.kernel.run_until(SECOND)
    assert setup.arrived == []
    assert setup.network.dropped == 1


def test_a_dead_process_sends_nothing() -> None:
    setup = Setup(NetworkOptions(100, 0))
    port = NetworkPort(setup.network, 1)
    port.detach()
    port.send(2, Heartbeat(1, 1, 0))
    setup.kernel.run_until(SECOND)
    assert setup.arrived == []


def test_a_slow_node_is_slow_in_both_directions_until_it_is_not() -> None:
    setup = Setup(NetworkOptions(100, 0))
    setup.network.slow_down(2, 50_000)
    assert setup.send(50) != list(range(50))
    assert setup.send(50, sender=2, to=3) != list(range(50))
    setup.network.slow_down(2, 0)
    assert setup.send(50) == list(range(50))


def test_what_was_sent_to_a_process_may_come_once_more_at_the_next_one() -> None:
    setup = Setup(NetworkOptions(100, 0, echo=1.0))
    assert setup.send(3) == [0, 1, 2]
    setup.network.started(2)
    assert sorted(setup.send(0)) == [0, 1, 2]
    setup.network.started(2)
    assert setup.send(0) == [], "only what the last process was sent, and once"
    assert setup.network.duplicated == 3


def test_what_a_broken_peer_alters_is_still_said_to_be_its_own_cluster_s() -> None:
    """Seed 496: a lie without a birth came as of release 0.1.0, and another cluster's disk took it (M5)."""
    setup, ours = Setup(NetworkOptions(100, 0)), ClusterEpoch(1, "ours")
    network = SimNetwork(setup.chances, setup.network.options, setup.network._post, lambda node: ours)
    network.tamper = lambda sender, to, message, data, name: [data, Lie(data)]
    network.on_lie = lambda event: None
    network.send(1, 2, Heartbeat(1, 1, 0))
    setup.kernel.run_until(SECOND)
    assert [event.epoch for _, event in setup.arrived] == [ours, ours]
