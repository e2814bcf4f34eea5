"""A crash at every Disk call of a compaction: each segment is old or new, nobody is told too much (D4)."""

from __future__ import annotations

import pickle
from itertools import count
from random import Random

import pytest

from liftlog.mutants import NO_MUTANTS, Mutants
from liftlog.storage.cleanstate import load_clean_state
from liftlog.storage.compaction import Compactor
from liftlog.storage.log import Log
from liftlog_sim.devices.disk import SimDisk, SimulatedCrash
from tests.storage.crash_report import TRIED
from tests.storage.upkeep_harness import (
    LATER_MS,
    check_fold_preserved,
    compact,
    contents,
    fill,
    keyed,
    make,
    put,
    reopened,
)

pytestmark = pytest.mark.slow

UNCHANGING = ("read", "exists", "list", "size")
"""Calls that leave a disk as it is."""


class Crashes:
    """A log that was compacted once, and the run that drops tombstones: cut short at each Disk call."""

    def __init__(self, mutants: Mutants = NO_MUTANTS) -> None:
        self.mutants = mutants
        disk, log, compactor = make([(b"deleted", b"1"), *keyed(20, 6), (b"deleted", None), *keyed(20, 6)])
        compact(log, compactor)
        fill(log, keyed(40, 9, seed=7))
        put(log, [(b"k1", b"active")])
        log.close()
        disk.kill()
        self.base = pickle.dumps(disk)
        disk, log, compactor = self.start()
        self.old = contents(log)
        self.run(log, compactor)
        self.new = contents(log)
        self.spans = [(one.base_offset, one.end_offset) for one in log.sealed]
        self.leo = log.leo
        gone = [one for offset, (_, one) in self.old.items() if offset not in self.new]
        assert any(one.value is None and one.offset < compactor.dropped_below for one in gone)

    def start(self) -> tuple[SimDisk, Log, Compactor]:
        disk: SimDisk = pickle.loads(self.base)
        log = reopened(disk)
        return disk, log, Compactor(log, disk, self.mutants)

    def run(self, log: Log, compactor: Compactor) -> None:
        tombstones_below = compactor.clean_point
        compact(log, compactor, now_ms=LATER_MS + 5000, tombstones_below=tombstones_below, max_bytes=1500)

    def check(self, disk: SimDisk) -> str:
        """What is wrong with what a new process finds; it must be able to compact on."""
        log = reopened(disk)
        compactor = Compactor(log, disk)
        if log.damage or (log.log_start, log.leo) != (0, self.leo):
            return f"damage {log.damage}, log [{log.log_start}, {log.leo})"
        if [path for path in disk.files() if path.endswith(".tmp")]:
            return f"left behind: {disk.files()}"
        found = contents(log)
        for base, end in self.spans:
            one, old, new = (
                {offset: line for offset, line in each.items() if base <= offset < end}
                for each in (found, self.old, self.new)
            )
            if one != old and one != new:
                return f"[{base}, {end}) is neither old nor new"
        for offset, (_, record) in self.old.items():
            last = all(one.key != record.key or one.offset <= offset for _, one in self.old.values())
            if last and record.value is None and offset not in found and offset >= compactor.dropped_below:
                return f"the tombstone at {offset} is gone, dropped_below is {compactor.dropped_below}"
        reached = load_clean_state(disk, log).rewritten_below
        check_fold_preserved(self.old, found, compactor.clean_point, self.leo, reached)
        self.run(log, compactor)
        check_fold_preserved(self.old, contents(log), compactor.clean_point, self.leo)
        log.close()
        return ""

    def everywhere(self, problems_max: int = 20) -> tuple[int, list[str]]:
        """How many Disk calls a run makes, and what went wrong after a crash at one of them."""
        problems: list[str] = []
        before = ""
        for number in count(1):
            disk, log, compactor = self.start()
            disk.crash_after(number)
            try:
                self.run(log, compactor)
                return number - 1, problems
            except SimulatedCrash as crash:
                where = f"call {number} ({crash})"
                before, operation = str(crash).partition(" ")[0], before
            TRIED["compaction, crash"] += 1
            if operation in UNCHANGING and before != "append":
                # The disk is as it was one call before.
                continue
            disk.detach()
            dead = pickle.dumps(disk)
            for kind, outcome in (("kill", 0), ("power", 0), ("power", 1), ("power", 2), ("kill-power", 0)):
                after: SimDisk = pickle.loads(dead)
                if kind != "power":
                    after.kill()
                if kind == "kill-power":
                    reopened(after)
                if kind != "kill":
                    after.power_loss(Random(number * 7 + outcome))
                problem = self.check(after)
                if problem:
                    problems.append(f"{where}, {kind} {outcome}: {problem}")
            TRIED["compaction, crash"] += 1
            if len(problems) >= problems_max:
                return number, problems
        raise AssertionError


def test_a_crash_at_every_disk_call_leaves_each_segment_old_or_new_d4() -> None:
    calls, problems = Crashes().everywhere()
    assert problems == []
    assert calls > 100


def test_mutant_42_a_swap_that_is_not_atomic_loses_what_it_replaces() -> None:
    _, problems = Crashes(Mutants(compaction_swap_not_atomic=True)).everywhere(1)
    assert any("damage" in problem for problem in problems)
