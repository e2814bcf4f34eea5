"""Nodes of two checkouts beside each other: what a message costs the door's and the core's thread.

    .venv/bin/python scripts/beside.py before=FOLDER after=. --works replay pull --rounds 5

Each FOLDER holds a `liftlog` package. Nodes of both are up at once, each with JetStream's door, and one works
at a time, in alternating rounds: the programs of `liftlog bench jetstream`, of the checkout that runs this.
Printed are medians of both, and ratios within the rounds: median (least to greatest). Rates are messages a
second, the others microseconds a message: `core` of trio's thread, in which a node is stepped, `door` of all
other threads of the node, above all that of the door.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

from liftlog.bench import door
from liftlog.bench.checkouts import CHECKOUT, beside, in_turns, parsed, run_from, threads_us
from liftlog.bench.door_systems import DoorCluster, fill
from liftlog.bench.door_user import WORKS, Visit
from liftlog.bench.usage import Usage, usage_of
from liftlog.scratch import Scratch

COLUMNS = ("rate", "core", "door", "client")


class Checkout(DoorCluster):
    """A node of one checkout."""

    def __init__(self, scratch: Scratch, name: str, folder: str) -> None:
        self.name = name
        super().__init__(scratch, 1)
        run_from(self._cluster.nodes.values(), folder)


@contextmanager
def threads_noted(system: Checkout) -> Iterator[list[tuple[float, float]]]:
    """What its threads had spent when the benchmark looked at its processes."""
    noted: list[tuple[float, float]] = []

    def look(pids: list[int]) -> Usage:
        if pids == system.parts["nodes"]:
            noted.append(threads_us(*pids))
        return usage_of(pids)

    with patch.object(door, "usage_of", look):
        yield noted


def one_round(system: Checkout, visit: Visit) -> list[float]:
    with threads_noted(system) as noted:
        found = door.visited(system, visit)
    before, after = noted
    core, beside = ((b - a) / found.messages for a, b in zip(before, after, strict=True))
    return [found.rate, core, beside, found.client_cpu_us]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("checkouts", nargs=2, type=parsed, metavar=CHECKOUT)
    parser.add_argument("--works", nargs="+", choices=WORKS, default=["replay", "pull"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--count", type=int, default=20_000)
    parser.add_argument("--size", type=int, default=128)
    parser.add_argument("--seconds", type=float, default=8)
    options = parser.parse_args()
    visit = Visit("", "", "", options.count, options.size, seconds_max=options.seconds)
    with Scratch("bench", None) as scratch:
        systems = [Checkout(scratch, *one) for one in options.checkouts]
        for system in systems:
            system.start()
            fill(system, options.count, options.size)
        for work in options.works:

            def worked(system: Checkout, number: int, work: str = work) -> list[float]:
                return one_round(system, replace(visit, work=work, name=f"r{number}"))

            found = in_turns(systems, options.rounds, worked)
            for place, column in enumerate(COLUMNS):
                old, new = ([row[place] for row in found[system.name]] for system in systems)
                print(f"{work} {column}: {beside(old, new)}", flush=True)


if __name__ == "__main__":
    main()
