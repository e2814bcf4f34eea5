"""Nodes of two checkouts beside each other: what an acked message costs their threads.

    .venv/bin/python scripts/acking.py before=FOLDER after=. --ways single joined --rounds 7

Each FOLDER holds a `liftlog` package. Nodes of both are up at once, each with a stream that has a journal,
and one works at a time, in alternating rounds: the consuming program of `liftlog bench consume`, of the
checkout that runs this, acks in one of its ways. Printed are medians of both, and ratios within the rounds:
median (least to greatest). The rate is messages a second, the others microseconds a message: `core` of trio's
thread, in which a node is stepped and its door stands, `rest` of all other threads of the node, above all
that of the storage, `client` of the program.
"""

from __future__ import annotations

import argparse
import os
import statistics
from dataclasses import replace
from pathlib import Path

from liftlog.bench.cluster import LiftlogCluster
from liftlog.bench.consume import OUR_WAYS, STREAM, SUBJECT, consuming, duties_for, fill
from liftlog.bench.consumer import SINGLE, Duties
from liftlog.bench.rounds import ratios
from liftlog.scratch import Scratch

COLUMNS = ("rate", "core", "rest", "client")


def threads_us(system: LiftlogCluster) -> tuple[float, float]:
    """Processor time of the node's first thread, and of all its others."""
    (node,) = system.local.nodes.values()
    first = rest = 0.0
    for task in Path(f"/proc/{node.pid}/task").iterdir():
        spent = int((task / "schedstat").read_text().split()[0]) / 1000
        first, rest = (spent, rest) if int(task.name) == node.pid else (first, rest + spent)
    return first, rest


def one_round(system: LiftlogCluster, duties: Duties) -> list[float]:
    os.sync()
    with consuming(duties_for(system, duties)) as finish:
        before = threads_us(system)
        found = finish()
        after = threads_us(system)
    messages = max(1, found["messages"])
    core, rest = ((b - a) / messages for a, b in zip(before, after, strict=True))
    return [found["rate"], core, rest, found["client_cpu_seconds"] * 1e6 / messages]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("checkouts", nargs=2, metavar="NAME=FOLDER")
    parser.add_argument("--ways", nargs="+", choices=OUR_WAYS, default=[SINGLE])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=8)
    options = parser.parse_args()
    duties = Duties("", STREAM, "", "", options.count, options.batch, options.seconds)
    with Scratch("bench", None) as scratch:
        systems = []
        for one in options.checkouts:
            name, folder = one.split("=", 1)
            system = LiftlogCluster(scratch, 1, SUBJECT, STREAM, name, removal=True)
            for node in system.local.nodes.values():
                node.packages = os.fspath(Path(folder).resolve())
            system.start()
            fill(system, options.count, options.size)
            systems.append(system)
        for way in options.ways:
            found: dict[str, list[list[float]]] = {system.name: [] for system in systems}
            for number in range(options.rounds + 1):
                for system in systems if number % 2 else systems[::-1]:
                    row = one_round(system, replace(duties, way=way, name=f"r{number}-{way}"))
                    if number:
                        found[system.name].append(row)
            for place, column in enumerate(COLUMNS):
                old, new = ([row[place] for row in found[system.name]] for system in systems)
                over = ratios(new, old)
                middle = f"{statistics.median(old):.1f} and {statistics.median(new):.1f}"
                spread = f"{statistics.median(over):.2f} ({min(over):.2f} to {max(over):.2f})"
                print(f"{way} {column}: {middle}, {spread}", flush=True)


if __name__ == "__main__":
    main()
