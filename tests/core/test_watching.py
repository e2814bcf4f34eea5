"""The log of a node with many copies: what is looked at, and when."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import cast

import pytest

from liftlog.core.node import Node
from liftlog.eventlog import Sparing
from liftlog.messages import TIMER_REST, TIMER_TICK, LogOpened, Outcome, TimerFired
from liftlog.nodeconfig import NodeConfig
from liftlog.types import HardState, Identity, LogSummary, PartitionId, Recovered, TailState
from liftlog.watching import ALONE_TICKS, COPIES_A_TICK, Watcher

COPIES = [PartitionId(1, index) for index in range(5 * COPIES_A_TICK)]
QUIET = Outcome([], [])


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Counter[PartitionId]:
    """How often each copy was looked at; of a node nothing else is."""
    count: Counter[PartitionId] = Counter()

    def counted(watcher: Watcher, partition: PartitionId) -> None:
        count[partition] += 1

    monkeypatch.setattr(Watcher, "_look_at_copy", counted)
    for name in ("in_sync", "letters", "group", "snapshot", "members", "ends", "sessions"):
        monkeypatch.setattr(Watcher, f"_look_at_{name}", lambda *_: None)
    monkeypatch.setattr(Watcher, "_registered", lambda watcher: setattr(watcher, "_incarnation", 1))
    return count


def watcher() -> Watcher:
    node = SimpleNamespace(
        raft=SimpleNamespace(snapshot=None, members=None, standing=""),
        metadata=SimpleNamespace(applied=0),
        ctx=SimpleNamespace(refused=0),
        incarnation=1,
        replicas=dict.fromkeys(COPIES),
    )
    return Watcher(cast("Node", node), cast("Sparing", SimpleNamespace(tell=lambda _: None)))


def test_a_tick_looks_at_some_copies_and_each_has_its_turn(looked: Counter[PartitionId]) -> None:
    """It was all of them, on every timer: a third of the CPU of nodes with a thousand copies."""
    watching = watcher()
    for ticks in range(1, 6):
        watching.stepped(TimerFired(TIMER_TICK, 0.0), QUIET)
        assert looked.total() == ticks * COPIES_A_TICK
        watching.stepped(TimerFired(TIMER_REST, 0.0), QUIET)
        assert looked.total() == ticks * COPIES_A_TICK
    assert set(looked) == set(COPIES)


def test_a_copy_whose_log_was_opened_is_looked_at_alone_and_at_once(looked: Counter[PartitionId]) -> None:
    opened = LogOpened(LogSummary(COPIES[7], 0, 0, 0, (), TailState.CLEAN))
    watcher().stepped(opened, QUIET)
    assert looked == {COPIES[7]: 1}


@pytest.mark.parametrize("joins", [True, False])
def test_I3_who_joins_and_hears_nobody_says_whom_it_has_asked(
    joins: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """A `[peers]` that names only a founder that was removed since: nobody answers, and nobody said so."""
    config = NodeConfig(4, (1,), peers=((1, "a:1"), (4, "d:4")), joins=joins)
    node = Node(config, Recovered(Identity(4, "d4"), HardState(), [], [], False, 7))
    watching = Watcher(node, cast("Sparing", SimpleNamespace(tell=lambda _: None)))
    for ticks in range(2 * ALONE_TICKS):
        watching.stepped(TimerFired(TIMER_TICK, 100.0 * ticks, 100), QUIET)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == joins
    if joins:
        assert said[0].startswith("nobody of nodes 1 has told this node who leads, for 30 s: [peers] has to")
        assert "'liftlog cluster add 4 HOST:PORT'" in said[0]
