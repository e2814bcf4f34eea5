"""What `liftlog bench life` reads and prints."""

from __future__ import annotations

import argparse
import platform
import sys
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from liftlog.bench.checks import check_folder, check_ranges
from liftlog.bench.life import EPISODES, FOUNDERS, JOINERS, Life, Lived, medians
from liftlog.demo.checking import SparkResult, check_on_spark, java_problem, require_parts
from liftlog.demo.display import Display
from liftlog.real.local_cluster import LocalCluster
from liftlog.rooms import room_module
from liftlog.scratch import Scratch
from liftlog.terminal import Activity, figure_table, print_figures
from liftlog.types import LiftlogError
from liftlog.version import VERSION

NOTES = """\
longest stop: the longest time between two acks, from the moment in which an episode begins until all is
whole: everybody has a session, every copy is in sync and where it is to be, everybody votes who is to. At
rest it is the grain of the machine, which all processes share.
"""
EXIT_GOOD, EXIT_VIOLATION, EXIT_INCOMPLETE = 0, 1, 2


def add_life(kinds: Any) -> None:
    life = kinds.add_parser(
        "life",
        help="what a cluster goes through in years: how long writes stop, and whether anything is lost",
        description="Three nodes in a temporary folder, later five, under a steady load: killed, paused, "
        "restarted, disks replaced, grown, shrunk, with --older upgraded. Every copy is read back and the "
        "history is checked on Spark. Exit codes: 0 all good, 1 something was lost or the history is not "
        "valid, 2 Java is missing, so that it was not checked.",
    )
    life.add_argument("--rate", type=float, default=500.0, help="messages a second (default 500)")
    life.add_argument("--rounds", type=int, default=2, help="of each fault (default 2)")
    life.add_argument(
        "--only", action="append", choices=EPISODES, help="this; may be repeated. shrink needs grow"
    )
    life.add_argument(
        "--older", type=Path, metavar="FOLDER", help="a checkout of an older release: it begins with that"
    )
    life.add_argument("--store", type=Path, default=Path("store"), metavar="DIR", help="for the history")
    life.add_argument("--dir", type=Path, help="where the logs are written meanwhile (default /var/tmp)")
    life.add_argument("--json", action="store_true", help="print one JSON object")
    life.set_defaults(run=run_life)


def run_life(options: argparse.Namespace) -> int:
    check_ranges(options, (("rate", 1, 20_000), ("rounds", 1, 100)), "g")
    wanted = options.only or EPISODES
    if "shrink" in wanted and "grow" not in wanted:
        raise LiftlogError("--only shrink has nothing to remove; add --only grow")
    if "upgrade" in (options.only or ()) and options.older is None:
        raise LiftlogError("--only upgrade needs an older release; name its checkout with --older")
    check_folder(options.dir)
    older = options.older.resolve() if options.older is not None else None
    if older is not None and not (older / "liftlog" / "__main__.py").is_file():
        raise LiftlogError(
            f"--older {options.older} is no checkout of liftlog: liftlog/__main__.py is missing"
        )
    require_parts()
    folder: Path = room_module("liftlog_jepsen.store").new_run(options.store, "life")
    with Activity() as activity, Scratch("life", options.dir) as scratch:
        cluster = LocalCluster(scratch.folder / "cluster", len(FOUNDERS) + len(JOINERS))
        present = cluster.nodes[FOUNDERS[0]].packages
        if older is not None:
            for number in FOUNDERS:
                cluster.nodes[number].packages = str(older)
        life = Life(
            cluster,
            rate=options.rate,
            rounds=options.rounds,
            only=wanted,
            newer=present if older is not None else "",
            show=activity.show,
        )
        activity.show("starting nats-server and three nodes")
        with cluster:
            lived = life.run(folder / "history")
    missing = java_problem()
    spark = check_on_spark(folder, Display()) if not missing else None
    if options.json:
        found = {
            "version": VERSION,
            "python": platform.python_version(),
            "lived": lived,
            "spark": spark,
            "history": str(folder),
        }
        print(msgspec.json.format(msgspec.json.encode(found)).decode())
    else:
        _print(lived, spark, missing, folder)
    if lived.lost or (spark is not None and spark.verdict != "valid"):
        return EXIT_VIOLATION
    return EXIT_GOOD if spark is not None else EXIT_INCOMPLETE


def _print(lived: Lived, spark: SparkResult | None, missing: str, folder: Path) -> None:
    console = Console(file=sys.stdout, highlight=False)
    title = f"{lived.acked:,} messages in {lived.seconds:.0f} s, {lived.rate:g} a second"
    table = figure_table(title, ["episode", "times", "longest stop, p50", "max", "whole again, p50"])
    for name, times, p50, longest, whole in medians(lived.stops):
        table.add_row(name, str(times), f"{p50:,.0f} ms", f"{longest:,.0f} ms", f"{whole:.1f} s")
    print_figures(console, table)
    console.print(
        f"{lived.lost} acknowledged messages lost on {lived.copies} copies; {lived.refused} attempts were "
        f"refused and {lived.unknown} not answered, all made again.",
        soft_wrap=True,
    )
    if spark is None:
        console.print(f"The history in {folder} was not checked: {missing}", soft_wrap=True)
    else:
        console.print(f"History, checked on Spark: {spark.verdict}, in {folder}", soft_wrap=True)
    console.print(NOTES, end="", soft_wrap=True)
