#!/usr/bin/env python3
"""From nothing to insight: planted bugs are found, shrunk, told and shown by the commands that a user types.

    scripts/insight.py [MUTANT ...]       ten of them, if none is named

Each is run with the seed of the record (tests/golden/mutants.json), its failure is shrunk, and the page of
what is left is written; the times of the three commands are printed. Then pytest runs the test that
shrinking wrote: it has to pass as it is, and to fail where the bug is planted into every world. Exit code 1
if something of this does not hold, or if the three commands took longer than `--seconds` together.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TEN = (
    "raft_quorum_half",
    "raft_vote_before_sync",
    "truncate_to_hw",
    "ack_at_append",
    "hw_over_shrunk_isr",
    "wiped_replica_rejoins",
    "sync_failure_retried",
    "tombstone_dropped_by_age",
    "never_fenced",
    "header_ignored",
)
PLANTED = """
from functools import partial

from liftlog_sim.explain import again

again.run_again = partial(again.run_again, mutant={mutant!r})
"""
"""A conftest.py that plants the bug into every world."""


class Failed(Exception):
    """A step did not do what it should."""


def command(words: list[str], folder: Path, expected: int) -> tuple[str, float]:
    """Run one, in the folder; what it said, and how long it took."""
    started = time.monotonic()
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True)
    took_s = time.monotonic() - started
    if done.returncode != expected:
        raise Failed(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done.stdout, took_s


def insight(mutant: str, known: dict[str, object], refine: bool, folder: Path) -> list[float]:
    """The seconds that `run`, `shrink` and `report` took."""
    python = sys.executable
    liftlog = [python, "-m", "liftlog", "sim"]
    run = [*liftlog, "run", "--seed", str(known["seed"]), "--mutant", mutant, "--quiet"]
    _, run_s = command([*run, "--refine"] if refine else run, folder, 1)
    (bundle,) = (folder / "failures").glob("*.json.gz")
    _, shrink_s = command([*liftlog, "shrink", str(bundle)], folder, 0)
    (shrunk,) = (folder / "failures").glob("*.shrunk.json.gz")
    _, report_s = command([*liftlog, "report", str(shrunk)], folder, 0)
    (test,) = (folder / "failures").glob("test_*.py")
    pytest = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), str(test)]
    command(pytest, folder, 0)
    (test.parent / "conftest.py").write_text(PLANTED.format(mutant=mutant))
    said, _ = command(pytest, folder, 1)
    if "1 failed, 1 passed" not in said:
        raise Failed(f"with {mutant} planted the test should fail for what it violates:\n{said}")
    return [run_s, shrink_s, report_s]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("mutants", nargs="*", metavar="MUTANT", default=TEN)
    parser.add_argument("--seconds", type=float, default=60, metavar="S", help="default: 60")
    arguments = parser.parse_args()
    from liftlog_sim.profiles.mutants import mutant_named

    record = json.loads((ROOT / "tests" / "golden" / "mutants.json").read_bytes())
    os.environ["PYTHONPATH"] = os.pathsep.join(str(ROOT / part) for part in (".", "sim", "spec"))
    good = True
    print(f"{'mutant':<28} {'run':>6} {'shrink':>7} {'report':>7} {'all':>6}  its test")
    for mutant in arguments.mutants:
        with tempfile.TemporaryDirectory() as folder:
            try:
                took = insight(mutant, record[mutant], mutant_named(mutant).refine, Path(folder))
            except Failed as failed:
                good = False
                print(f"{mutant:<28} {failed}", flush=True)
                continue
        late = sum(took) > arguments.seconds
        good = good and not late
        times = " ".join(
            f"{each:>{width}.1f}" for each, width in zip([*took, sum(took)], (6, 7, 7, 6), strict=True)
        )
        print(f"{mutant:<28} {times}  fails with it, passes without{', TOO LATE' * late}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
