"""The log of a node with many copies: what is looked at, and when."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import cast

import pytest

from liftlog.core.node import Node
from liftlog.eventlog import Sparing
from liftlog.messages import TIMER_REST, TIMER_TICK, LogOpened, Outcome, TimerFired
from liftlog.types import LogSummary, PartitionId, TailState
from liftlog.watching import COPIES_A_TICK, Watcher

COPIES = [PartitionId(1, index) for index in range(5 * COPIES_A_TICK)]
QUIET = Outcome([], [])


@pytest.fixture
def looked(monkeypatch: pytest.MonkeyPatch) -> Counter[PartitionId]:
    """How often each copy was looked at; of a node nothing else is."""
    count: Counter[PartitionId] = Counter()

    def counted(watcher: Watcher, partition: PartitionId) -> None:
        count[partition] += 1

    monkeypatch.setattr(Watcher, "_look_at_copy", counted)
    for name in ("in_sync", "group", "snapshot", "members", "ends", "sessions"):
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
