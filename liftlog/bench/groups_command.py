"""What `liftlog bench groups` reads and prints."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console

from liftlog.bench.checks import check_folder, check_ranges
from liftlog.bench.groups import AIM_S, GroupFigures, GroupSize, measure_group
from liftlog.groups.state import MEMBERS_MAX, SHARES_MAX
from liftlog.scratch import Scratch
from liftlog.terminal import Activity, figure_table, print_figures
from liftlog.types import LiftlogError
from liftlog.version import VERSION

NOTES = """\
Seconds from the SIGKILL of a member's process until the first, and the last, of its partitions had a message
in another member's hands; each partition gets ten a second. over: what the last took beyond the session.
"""


def add_groups(kinds: Any) -> None:
    groups = kinds.add_parser(
        "groups",
        help="how long a dead member's partitions wait, and what a group costs at rest",
        description="Nodes in a temporary folder, a group that shares a stream; in each round a member dies.",
    )
    groups.add_argument("--members", type=int, default=50, help="how many (default 50)")
    groups.add_argument("--partitions", type=int, default=100, help="of the stream (default 100)")
    groups.add_argument("--session-ms", type=int, default=10_000, help="of each member (default 10000)")
    groups.add_argument("--replicas", type=int, default=1, help="nodes, and copies of each (default 1)")
    groups.add_argument("--deaths", type=int, default=5, help="how many members are killed (default 5)")
    groups.add_argument("--seconds", type=float, default=10.0, help="for how long it is at rest (default 10)")
    groups.add_argument("--dir", type=Path, help="where the logs are written meanwhile (default /var/tmp)")
    groups.add_argument("--json", action="store_true", help="print one JSON object")
    groups.set_defaults(run=run_groups)


def run_groups(options: argparse.Namespace) -> int:
    ranges = (
        ("members", 2, MEMBERS_MAX),
        ("partitions", 2, SHARES_MAX),
        ("session_ms", 1000, 600_000),
        ("replicas", 1, 5),
        ("deaths", 1, 1000),
        ("seconds", 1, 3600),
    )
    check_ranges(options, ranges)
    if options.partitions < options.members:
        text = f"--partitions {options.partitions} are fewer than --members {options.members}"
        raise LiftlogError(f"{text}: a member that dies would have none; take as many")
    check_folder(options.dir)
    size = GroupSize(options.members, options.partitions, options.session_ms, options.replicas)
    with Scratch("bench", options.dir) as scratch, Activity() as activity:
        found = measure_group(scratch, size, options.deaths, options.seconds, activity.show)
    if options.json:
        about = {"version": VERSION, "python": platform.python_version(), **asdict(size)}
        print(json.dumps({**about, **asdict(found), "aim_s": AIM_S}, indent=2))
    else:
        _print(size, found)
    return 0


def _print(size: GroupSize, found: GroupFigures) -> None:
    console = Console(file=sys.stdout, highlight=False)
    session_s = size.session_ms / 1000
    copies = f"{size.replicas} replica{'s' * (size.replicas > 1)}"
    title = f"{size.members} members, {size.partitions} partitions, {copies}, a session of {session_s:g} s"
    table = figure_table(title, ["death", "partitions", "first s", "last s", "over s"])
    for number, death in enumerate(found.deaths, 1):
        times = (death.first_s, death.last_s, death.last_s - session_s)
        table.add_row(str(number), str(death.partitions), *(f"{one:.2f}" for one in times))
    print_figures(console, table)
    over = [death.last_s - session_s for death in found.deaths]
    met = "met" if max(over) <= AIM_S else "missed"
    console.print(
        f"over the session: median {median(over):.2f} s, at most {max(over):.2f} (aim {AIM_S:g}: {met}). "
        f"The group was whole {found.formed_s:.1f} s after its start. At rest: {found.writes:.0f} writes a "
        f"second of its state, {found.cpu_share:.2f} of a core in nodes and NATS.",
        soft_wrap=True,
    )
    console.print(NOTES, end="", soft_wrap=True)
