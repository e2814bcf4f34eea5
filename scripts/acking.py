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
from dataclasses import replace

from liftlog.bench.checkouts import CHECKOUT, beside, in_turns, parsed, started, threads_us
from liftlog.bench.cluster import LiftlogCluster
from liftlog.bench.consume import OUR_WAYS, STREAM, SUBJECT, consuming, duties_for, fill
from liftlog.bench.consumer import SINGLE, Duties
from liftlog.scratch import Scratch

COLUMNS = ("rate", "core", "rest", "client")


def one_round(system: LiftlogCluster, duties: Duties) -> list[float]:
    os.sync()
    (pid,) = (node.pid for node in system.local.nodes.values())
    with consuming(duties_for(system, duties)) as finish:
        before = threads_us(pid)
        found = finish()
        after = threads_us(pid)
    messages = max(1, found["messages"])
    core, rest = ((b - a) / messages for a, b in zip(before, after, strict=True))
    return [found["rate"], core, rest, found["client_cpu_seconds"] * 1e6 / messages]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("checkouts", nargs=2, type=parsed, metavar=CHECKOUT)
    parser.add_argument("--ways", nargs="+", choices=OUR_WAYS, default=[SINGLE])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=8)
    options = parser.parse_args()
    duties = Duties("", STREAM, "", "", options.count, options.batch, options.seconds)
    with Scratch("bench", None) as scratch:
        systems = [started(scratch, one, SUBJECT, STREAM) for one in options.checkouts]
        for system in systems:
            fill(system, options.count, options.size)
        for way in options.ways:

            def acked(system: LiftlogCluster, number: int, way: str = way) -> list[float]:
                return one_round(system, replace(duties, way=way, name=f"r{number}-{way}"))

            found = in_turns(systems, options.rounds, acked)
            for place, column in enumerate(COLUMNS):
                old, new = ([row[place] for row in found[system.name]] for system in systems)
                print(f"{way} {column}: {beside(old, new)}", flush=True)


if __name__ == "__main__":
    main()
