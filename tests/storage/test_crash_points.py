"""A crash at every Disk call of two scripted lives, enumerated; and at every call of the recovery after it.

What must hold afterwards is written in `crash_script.Promises`: every record whose ticket was reported
durable is there with the same bytes, nothing is invented, offsets are contiguous, HW <= LEO, the vote is
the old or the new one, no crash is taken for damage. Besides, a recovery stands still: to recover once
more, after a kill or a power loss, finds the same; and the log can be written again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest

from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.storage.engine import StorageEngine
from liftlog.types import EpochStart, PartitionId, Recovered
from liftlog_sim.devices.disk import SimDisk, SimulatedCrash
from tests.storage.crash_report import TRIED
from tests.storage.crash_script import Content, Life, SegmentLife, read_all
from tests.storage.storage_harness import LOG, SMALL

pytestmark = pytest.mark.slow

Crash = Callable[[SimDisk, Random], None]
Found = tuple[object, ...]


def kill(disk: SimDisk, random: Random) -> None:
    """The process dies, the page cache lives."""
    disk.kill()


def power_loss(disk: SimDisk, random: Random) -> None:
    disk.power_loss(random)


def kill_then_power_loss(disk: SimDisk, random: Random) -> None:
    """A new process recovers what the killed one had left in the page cache; then the power goes."""
    disk.kill()
    recover(disk)
    disk.power_loss(random)


CRASHES: dict[str, tuple[Crash, int]] = {
    "kill": (kill, 2),
    "power": (power_loss, 4),
    "kill-power": (kill_then_power_loss, 3),
}
"""How to crash, and how many random outcomes each crash point gets."""


def recover(disk: SimDisk, mutants: Mutants = NO_MUTANTS) -> tuple[StorageEngine, Recovered]:
    engine = StorageEngine(disk, SMALL, mutants)
    # An empty disk may take any id; one that had an identity must keep its own.
    return engine, engine.recover(1, "disk-of-the-restart", 2)


def crashed_life(
    at_call: int, seed: int, mutants: Mutants = NO_MUTANTS, kind: type[Life] = Life
) -> tuple[Life, bool]:
    """A life that dies instead of its `at_call`-th Disk call; False if it ended before that."""
    life = kind(SimDisk(Random(seed)), mutants)
    life.crash_after(at_call)
    try:
        life.run()
    except SimulatedCrash:
        return life, True
    return life, False


def lives(seed: int, mutants: Mutants = NO_MUTANTS, kind: type[Life] = Life) -> Iterator[tuple[int, Life]]:
    """A life for every crash point, and one that ended cleanly."""
    at_call = 0
    crashed = True
    while crashed:
        at_call += 1
        life, crashed = crashed_life(at_call, seed * 100_003 + at_call, mutants, kind)
        yield at_call, life


def state(engine: StorageEngine, found: Recovered) -> Found:
    """All that must not change from one recovery to the next."""
    logs: list[tuple[PartitionId, int, int, int, tuple[EpochStart, ...], dict[int, Content]]] = [
        (
            one.log,
            one.log_start,
            one.leo,
            one.hw,
            one.epochs,
            read_all(engine, one.log, one.log_start, one.damage),
        )
        for one in found.logs
    ]
    return found.identity, found.hard_state, found.raft_entries, logs


def check_life_after(life: Life, random: Random, mutants: Mutants = NO_MUTANTS) -> str:
    """Recover, twice more, and write again. What is wrong, or nothing."""
    disk, promises = life.disk, life.promises
    engine, found = recover(disk, mutants)
    problem = promises.broken(engine, found)
    if problem:
        return problem
    promises.clean = False
    before = state(engine, found)
    for crash in (kill, power_loss):
        crash(disk, random)
        engine, found = recover(disk, mutants)
        problem = promises.broken(engine, found)
        if problem:
            return f"after another {crash.__name__}: {problem}"
        if state(engine, found) != before:
            return f"after another {crash.__name__}: {state(engine, found)} instead of {before}"
    summary = next((one for one in found.logs if one.log == LOG), None)
    if summary is not None:
        life.engine = engine
        life.group(life.records(LOG, summary.leo, 9, 2))
        disk.power_loss(random)
        engine, found = recover(disk, mutants)
        problem = promises.broken(engine, found)
        if problem:
            return f"after an append to the recovered log: {problem}"
    return ""


OUTCOMES = [
    pytest.param(name, outcome, marks=pytest.mark.nightly if outcome else ())
    for name, (_, outcomes) in sorted(CRASHES.items())
    for outcome in range(outcomes)
]
"""Every kind of crash; its further random outcomes take time."""


@pytest.mark.parametrize(("name", "outcome"), OUTCOMES)
@pytest.mark.parametrize("kind", [Life, SegmentLife])
def test_D4_R5_R7_a_crash_at_any_disk_call_loses_nothing_durable_and_invents_nothing(
    kind: type[Life], name: str, outcome: int
) -> None:
    crash, _ = CRASHES[name]
    for at_call, life in lives(outcome, kind=kind):
        random = Random(outcome * 1_000_003 + at_call)
        crash(life.disk, random)
        # The process between a kill and a power loss was the one that learned of a clean stop.
        life.promises.clean &= name != "kill-power"
        problem = check_life_after(life, random)
        assert not problem, f"{name} at call {at_call}, outcome {outcome}: {problem}"
        TRIED[f"life, {name}"] += 1


@pytest.mark.nightly
@pytest.mark.parametrize("kind", [Life, SegmentLife])
@pytest.mark.parametrize("first", ["kill", "power"])
@pytest.mark.parametrize("second", ["kill", "power"])
def test_D4_a_crash_at_any_disk_call_of_a_recovery_is_recovered_from(
    kind: type[Life], first: str, second: str
) -> None:
    """Every 29th crash point of the life, another row for each pair; every call of the recovery."""
    row = {"kill": 1, "power": 2}[first] * 3 + {"kill": 1, "power": 2}[second]
    at_call = row
    while at_call:
        within = 0
        crashed = True
        while crashed:
            within += 1
            life, alive = crashed_life(at_call, at_call, kind=kind)
            random = Random(at_call * 1009 + within)
            CRASHES[first][0](life.disk, random)
            life.disk.crash_after(within)
            try:
                recover(life.disk)
                crashed = False
            except SimulatedCrash:
                TRIED[f"recovery, {first} then {second}"] += 1
            CRASHES[second][0](life.disk, random)
            # The recovery may have died after it had removed the clean-stop marker.
            life.promises.clean = False
            problem = check_life_after(life, random)
            assert not problem, (
                f"{first} at call {at_call}, {second} at call {within} of the recovery: {problem}"
            )
        at_call = at_call + 29 if alive else 0
