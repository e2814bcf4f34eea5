"""A wall clock that has jumped ahead is not believed before it has stood there (R24, R25): on whole nodes.

Each of these was found by reading the program beside the model `times-to-live`: the doubt belonged to one
leader in one epoch, and was looked at in its ticks alone.
"""

from __future__ import annotations

from typing import Any

import pytest

from liftlog.core.status import JUMP_MS, STANDS_MS, Status
from liftlog.messages import SettleRequest
from liftlog.mutants import Mutants
from liftlog.nodeconfig import NodeConfig
from liftlog.types import PartitionId
from tests.core.node_harness import WALL_START_MS, NodePorts, World
from tests.core.test_front_limits import limited
from tests.core.test_front_limits import put as put_old
from tests.core.test_journal import marks
from tests.core.test_lifetimes import living, put, send
from tests.core.test_roll_ups import new_leader
from tests.core.test_subject_limits import entries, shows

MINUTE_MS = 60_000


@pytest.fixture
def ahead(monkeypatch: pytest.MonkeyPatch) -> dict[int, int]:
    """By node: how far its wall clock is ahead."""
    by: dict[int, int] = {}

    def wall_ms(ports: Any) -> int:
        return WALL_START_MS + int(ports.world.now * 1000) + by.get(ports.node, 0)

    monkeypatch.setattr(NodePorts, "wall_ms", wall_ms)
    return by


def nine_seconds(**kwargs: Any) -> tuple[World, PartitionId, int]:
    """A message that is to stay for nine seconds, and its leader."""
    world, partition = living(**kwargs)
    put(world, partition, "9.")
    world.run(0.3)
    return world, partition, world.leader(partition)


def test_r24_who_begins_to_lead_doubts_it_too(ahead: dict[int, int]) -> None:
    world, partition, leader = nine_seconds()
    ahead.update(dict.fromkeys(world.nodes, MINUTE_MS))
    world.run(0.5)
    new_leader(world, partition)
    assert world.run_until(lambda: world.leader(partition) != leader and partition in world.subscriptions)
    world.run(1.0)
    ahead.clear()
    world.run(1.0)
    assert shows(world, partition, 0, 1) and entries(world, partition) == 0
    world.run(8.0)
    assert shows(world, partition, 1)


def test_r24_a_clock_that_comes_back_by_a_part_has_not_come_back(ahead: dict[int, int]) -> None:
    world, partition, leader = nine_seconds()
    ahead[leader] = MINUTE_MS
    world.run(1.0)
    ahead[leader] -= 3 * JUMP_MS // 2
    world.run(0.5)
    assert entries(world, partition) == 0
    ahead.clear()
    world.run(0.5)
    assert shows(world, partition, 0, 1) and entries(world, partition) == 0


@pytest.mark.parametrize("wait_ms", range(0, 50, 10))
def test_r24_another_timer_may_show_it_first(ahead: dict[int, int], wait_ms: int) -> None:
    """Before the next tick, and then more is committed."""
    world, partition, leader = nine_seconds()
    world.run(wait_ms / 1000)
    ahead[leader] = MINUTE_MS
    world.ask(leader, SettleRequest(partition, 1, "ack", [(0, 1)]))
    send(world, partition, ".")
    world.run(0.2)
    assert entries(world, partition) == 0
    ahead.clear()
    world.run(0.2)
    assert shows(world, partition, 0, 1, 2)


@pytest.mark.parametrize("guard", [False, True])
def test_r25_nor_do_messages_go_by_their_age_then(ahead: dict[int, int], guard: bool) -> None:
    world, partition = limited(0, age_ms=9000, mutants=Mutants(without="" if guard else "R25.clock"))
    put_old(world, partition, "ab")
    leader = world.leader(partition)
    ahead[leader] = MINUTE_MS
    if not guard:
        assert world.run_until(lambda: entries(world, partition) > 0, 1.0)
        return
    assert world.run_until(lambda: "R25.clock" in marks(world, partition))
    assert marks(world, partition)["R25.clock"] == 1
    world.run(1.0)
    assert entries(world, partition) == 0
    ahead.clear()
    world.run(1.0)
    assert shows(world, partition, 0, 1)
    ahead[leader] = MINUTE_MS
    world.run(STANDS_MS / 1000 + 1.0)
    assert shows(world, partition)


def status() -> Status:
    return Status(NodeConfig(1, voters=(1, 2, 3)))


def seen(*looks: tuple[float, int]) -> list[bool]:
    """Whether a node doubts its wall clock after each look, at these times by the monotonic one, when the
    wall clock is so far ahead of it.
    """
    one, found = status(), []
    for now_ms, apart_ms in looks:
        one.see_clocks(now_ms, int(now_ms) + 10**6 + apart_ms)
        found.append(one.wall_doubted)
    return found


def test_r24_when_a_clock_is_doubted() -> None:
    assert seen((1, 5000), (2, 5000)) == [False, False], "as it is found it is right"
    assert seen((1, 0), (2, 900), (3, 1800), (4, 2700)) == [False] * 4, "it is put right, bit by bit"
    assert seen((1, 0), (2, 5000), (3, 0), (4, 0)) == [False, True, False, False]
    assert seen((1, 0), (2, 5000), (10_001, 5000), (10_002, 5000)) == [False, True, True, False]
    in_part = seen((1, 0), (2, 5000), (9000, 3500), (10_002, 3500), (19_000, 3500))
    assert in_part == [False, True, True, True, False]
    assert seen((1, 0), (2, -5000), (3, 0)) == [False, False, True], "back, and ahead again"


def test_a_look_without_a_wall_clock_says_nothing() -> None:
    one = status()
    one.see_clocks(1.0, 100)
    one.see_clocks(2.0, 9000)
    assert one.wall_doubted
    one.see_clocks(99_000.0)
    assert one.wall_doubted
