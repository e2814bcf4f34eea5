"""Publishing beside a busy consumer, with nodes of two checkouts: how much longer an ack takes, and where.

    .venv/bin/python scripts/publishing_beside.py before=FOLDER after=. --rounds 7 --seconds 3

Each FOLDER holds a `liftlog` package. Nodes of both are up at once, each with a stream that has a journal,
and one works at a time, in alternating rounds: messages at a fixed rate, without and with a consumer of the
partition that takes and acks them. Printed are medians of both, and ratios within the rounds, of the one with
a consumer over the one without: median (least to greatest). `queue` and `sync` are stages of
`liftlog cluster breakdown`.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace

from liftlog.bench.checkouts import CHECKOUT, beside, in_turns, parsed, started
from liftlog.bench.cluster import LiftlogCluster
from liftlog.bench.consume import STREAM, SUBJECT, _publish
from liftlog.bench.openloop import OpenLoad
from liftlog.client.client import Client
from liftlog.commands.asking import ask_all
from liftlog.local import ask
from liftlog.real.breakdown import LEADER, read_counters
from liftlog.scratch import Scratch

COLUMNS = ("p50", "p99", "queue p90", "sync p50")
BATCH = 100


def counters_of(system: LiftlogCluster) -> Mapping[str, int]:
    """Of the node that leads: there is but one."""

    async def look(client: Client) -> Mapping[str, int]:
        answers, _ = await ask_all(client, 0)
        return next(iter(answers.values())).counters

    return ask(system.local, look)


def one_round(system: LiftlogCluster, load: OpenLoad, busy: bool, number: int) -> list[float]:
    before = dict(counters_of(system))
    found = _publish(system, replace(load, port=system.port), BATCH, busy, number)
    stages = read_counters(dict(counters_of(system)), before)[LEADER]
    of = {stage.name: stage for stage in stages}
    return [found.p50_ms, found.p99_ms, of["queue"].p90_ms, of["sync"].p50_ms]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("checkouts", nargs=2, type=parsed, metavar=CHECKOUT)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--rate", type=float, default=1000)
    parser.add_argument("--dir", help="where the logs are written meanwhile")
    options = parser.parse_args()
    load = OpenLoad(0, SUBJECT, STREAM, rate=options.rate, size=128, seconds=options.seconds)
    with Scratch("bench", options.dir) as scratch:
        systems = [started(scratch, one, SUBJECT, STREAM) for one in options.checkouts]

        def without_and_with(system: LiftlogCluster, number: int) -> list[float]:
            return [*one_round(system, load, False, number), *one_round(system, load, True, number)]

        for name, rows in in_turns(systems, options.rounds, without_and_with).items():
            for place, column in enumerate(COLUMNS):
                free, busy = ([row[place + at] for row in rows] for at in (0, len(COLUMNS)))
                print(f"{name} {column}: {beside(free, busy, 2, ' ms')}", flush=True)


if __name__ == "__main__":
    main()
