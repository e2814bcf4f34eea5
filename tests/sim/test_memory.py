"""What a run holds of memory: bounded however long it lasts, and nothing of that changes what happens."""

from __future__ import annotations

import gc
import tracemalloc
from random import Random

import msgspec
import pytest

from liftlog.core.node import Node
from liftlog.types import BEGINNING, Entry, EpochStart
from liftlog_sim.bench.measuring import long_run
from liftlog_sim.devices.inode import Inode
from liftlog_sim.kernel import SECOND
from liftlog_sim.profiles.lasting import ENTRIES, MESSAGES, SPAN
from liftlog_sim.profiles.profiles import draw_knobs
from liftlog_sim.runs import memory
from liftlog_sim.runs.runner import RunOptions, run_seed
from liftlog_sim.truth.invariants import Checks
from liftlog_sim.truth.leaders_log import LeadersLog
from liftlog_sim.truth.raft import RaftTruth
from liftlog_sim.world import World

GROWTH_BYTES = 22_000_000
"""Seen: 17.0 MB at minute 10, 34.1 at minute 30."""
LOOKS_US = (40 * SECOND, 120 * SECOND)


def test_a_run_that_is_tidied_up_is_the_same_run(monkeypatch: pytest.MonkeyPatch) -> None:
    options = RunOptions(seed=2, nodes=3, duration_s=20)
    untouched = run_seed(options)
    tidied: list[int] = []
    monkeypatch.setattr(memory, "USUAL_US", 0)
    monkeypatch.setattr(memory, "TIDY_EVERY_US", 3 * SECOND)
    monkeypatch.setattr(memory, "tidy", lambda: tidied.append(1))
    assert run_seed(options).trace_hash == untouched.trace_hash
    assert len(tidied) >= 6


def test_a_usual_run_is_not_stopped_to_tidy() -> None:
    assert list(memory.tidied([70 * SECOND, 71 * SECOND], 70 * SECOND)) == [70 * SECOND, 71 * SECOND]


def test_a_long_run_is_stopped_at_each_minute() -> None:
    duration_us = 301 * SECOND
    ends = [end_us // SECOND for end_us in memory.tidied([duration_us, 302 * SECOND], duration_us)]
    assert ends == [60, 120, 180, 240, 300, 301, 302]


def test_what_a_sync_wrote_is_held_once() -> None:
    file = Inode()
    for number in range(10):
        file.cache += bytes([number]) * 1000
        file.sync()
    assert not file.apart
    assert file.durable == file.cache


def test_cache_and_platter_part_where_they_differ() -> None:
    file = Inode()
    file.cache += b"0123456789"
    file.sync()
    file.cut(4)
    file.cache += b"ab"
    assert (file.cache, file.durable) == (b"0123ab", b"0123456789")
    file.sync()
    assert (file.cache, file.durable, bytes(file.apart)) == (b"0123ab", b"0123ab", b"")
    file.overwrite(1, b"XY", platter_only=True)
    assert (file.cache, file.durable) == (b"0123ab", b"0XY3ab")
    file.cache += b"cd"
    file.sync()
    assert (file.cache, file.durable) == (b"0123abcd", b"0XY3abcd")
    file.overwrite(2, b"ZZZ", platter_only=False)
    assert (file.cache, file.durable) == (b"01ZZZbcd", b"0XZZZbcd")
    file.evict()
    assert (file.cache, file.durable, bytes(file.apart)) == (b"0XZZZbcd", b"0XZZZbcd", b"")
    file.cache += b"e"
    file.fail_sync()
    assert file.durable == b"0XZZZbcd"
    file.sync()
    assert (file.cache, file.durable) == (b"0XZZZbcde", b"0XZZZbcd\0")
    file.lose_power(Random(1))
    assert file.cache == file.durable == b"0XZZZbcd\0"


def test_of_a_raft_leaders_log_only_what_was_not_committed_is_kept() -> None:
    truth = RaftTruth(Checks())
    log = [Entry(index, 1, b"") for index in range(1, 101)]
    truth.led(1, 1)
    truth.elected(1, 1, [])
    truth.committed(1, 1, log, 0, 98)
    truth.led(2, 2)
    truth.elected(2, 2, log, BEGINNING)
    assert truth.elected_with[2] == (98, [1, 1])


def test_of_a_leaders_history_what_is_committed_is_kept_once() -> None:
    committed = [EpochStart(epoch, 10 * epoch) for epoch in range(1, 50)]
    for history in (
        committed[:7],
        [*committed[:7], EpochStart(9, 75)],
        [*committed, EpochStart(60, 600)],
        [],
    ):
        log = LeadersLog.of(history, committed, 0, 700)
        assert log.history([*committed, EpochStart(70, 700)]) == history
        assert len(log.rest) <= 1


def test_what_a_run_retains_grows_with_what_was_committed_and_with_nothing_else() -> None:
    """At two lengths of one run: no node but those that run, however many have ended; each disk once; of what
    leaders began with, what was not committed; and some objects a record and an entry of the metadata group.
    """
    gc.collect()
    others = len(gc.get_objects())
    other_nodes = _nodes()
    looks: list[tuple[int, int]] = []

    def attach(world: World) -> None:
        def stepped(*step: object) -> None:
            if len(looks) == len(LOOKS_US) or world.kernel.now_us < LOOKS_US[len(looks)]:
                return
            gc.collect()
            machines, observer = list(world.machines.values()), world.observer
            committed = sum(truth.hw for truth in observer.partitions.values())
            committed += len(observer.raft.committed_terms)
            assert _nodes() - other_nodes == sum(machine.up for machine in machines)
            assert len(gc.get_objects()) - others < 3000 + 6 * committed
            logs = [log for truth in observer.partitions.values() for log in truth.elected_with.values()]
            assert sum(len(log.rest) for log in logs) <= len(logs)
            terms = [terms for _, terms in observer.raft.elected_with.values()]
            assert sum(map(len, terms)) <= 8 * len(terms)
            files = [machine.disk.inode(path) for machine in machines for path in machine.disk.files()]
            assert sum(len(file.apart) for file in files) < 0.05 * sum(len(file.cache) for file in files)
            looks.append((sum(machine.restarts for machine in machines), committed))

        world.observer.on_step = stepped

    run_seed(RunOptions(seed=2, nodes=3, duration_s=125), attach)
    (starts, committed), (later_starts, later_committed) = looks
    assert later_starts > starts + 20 and later_committed > 2 * committed


def test_a_world_that_lasts_bounds_what_it_stores_and_no_other_is_changed() -> None:
    usual = draw_knobs(2, nodes=3, duration_s=300)
    assert usual.streams == draw_knobs(2, nodes=3).streams and not usual.takes_snapshots
    lasting = draw_knobs(2, nodes=3, duration_s=301)
    assert (lasting.snapshot_entries, lasting.proposal_span) == (ENTRIES, SPAN)
    assert [one.retention_messages for one in lasting.streams] == [MESSAGES]
    assert msgspec.structs.replace(lasting, **_OF_LENGTH) == msgspec.structs.replace(usual, **_OF_LENGTH)


_OF_LENGTH = {"duration_us": 0, "streams": (), "snapshot_entries": 0, "proposal_span": 0}


@pytest.mark.nightly
def test_an_hour_of_a_world_stays_small() -> None:
    """580 MB before long runs were tidied up, 260 before they kept short what they store."""
    hour = long_run(2, 60)
    assert max(hour.mb) < 150 and max(hour.disks_mb) < 8
    process_kb, _ = hour.growth_kb()
    assert process_kb < 1500


@pytest.mark.nightly
def test_what_lives_grows_little_between_10_and_30_simulated_minutes() -> None:
    """Of what Python has allocated, the simulated disks and the models' states among it."""
    held: list[int] = []

    def attach(world: World) -> None:
        def stepped(*step: object) -> None:
            if len(held) < 2 and world.kernel.now_us >= (10, 30)[len(held)] * 60 * SECOND:
                gc.collect()
                held.append(tracemalloc.get_traced_memory()[0])

        world.observer.on_step = stepped

    tracemalloc.start(1)
    try:
        assert run_seed(RunOptions(seed=2, nodes=3, duration_s=1801, refine=True), attach).good
    finally:
        tracemalloc.stop()
    at_10, at_30 = held
    assert at_10 < 25_000_000 and at_30 - at_10 < GROWTH_BYTES


def _nodes() -> int:
    return sum(isinstance(one, Node) for one in gc.get_objects())
