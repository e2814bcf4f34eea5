"""`liftlog jepsen bench`: how long the checks take, and what they need, on generated histories.

Exit codes: 0 every planted anomaly was found, and no other; 1 a check found something else; 2 it could not
run.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

from liftlog.terminal import Activity, large_number
from liftlog.types import LiftlogError
from liftlog_jepsen.commands.shared import add_session, require_master, stdout_console

FOLDER = Path("store") / "bench-histories"


def add_parser(verbs: Any) -> None:
    """Add the verb `bench`."""
    bench = verbs.add_parser(
        "bench",
        help="measure the checks on generated histories",
        description="Measure time, CPU and memory of the checks on generated histories, and hold what they "
        "find against what was planted. Exit code 0 found exactly, 1 not, 2 could not run.",
    )
    bench.add_argument(
        "--operations", default="1M,10M", metavar="N,…", help="sizes, such as 1M,10M,100M (default 1M,10M)"
    )
    bench.add_argument("--streams", default="100", metavar="N,…", help="logs of each history (default 100)")
    bench.add_argument("--hot", action="store_true", help="also with all operations on a single log")
    bench.add_argument(
        "--sends-per-op", type=int, default=1, metavar="N", help="above 1: transactions (default 1)"
    )
    bench.add_argument("--cycles", action="store_true", help="also look for cycles")
    add_session(bench, memory="8g")
    bench.add_argument(
        "--folder",
        type=Path,
        default=FOLDER,
        metavar="DIR",
        help=f"where histories are kept (default {FOLDER})",
    )
    bench.add_argument("--json", action="store_true", help="one JSON object instead of the table")
    bench.set_defaults(run=_bench)


def _bench(arguments: argparse.Namespace) -> int:
    from liftlog_jepsen.spark.session import require_spark

    require_master(arguments)
    require_spark(arguments.master)
    from liftlog_jepsen.bench.plan import cases, require
    from liftlog_jepsen.bench.table import Measured, as_json, print_table
    from liftlog_jepsen.spark.bench import run_case, to_nothing
    from liftlog_jepsen.spark.frames import read_frames
    from liftlog_jepsen.spark.run import running

    chosen = cases(
        _numbers("operations", arguments.operations),
        _numbers("streams", arguments.streams),
        hot=arguments.hot,
        sends_per_op=arguments.sends_per_op,
    )
    measured: list[Measured] = []
    with tempfile.TemporaryDirectory(prefix="liftlog-bench-") as temporary, Activity() as activity:
        paths = []
        for case in chosen:
            activity.show(f"generating {case.name}")
            paths.append(require(case, arguments.folder, activity.show))
        with running(
            arguments.master,
            arguments.driver_memory,
            source=str(arguments.folder),
            java_log=Path(temporary) / "java.log",
            show=activity.show,
            quick=False,
        ) as (session, _):
            activity.show("warming up")
            to_nothing(read_frames(session, paths[0]).mops)
            for case, path in zip(chosen, paths, strict=True):
                plain = 0.0
                for stage in run_case(session, case, path, cycles=arguments.cycles, show=activity.show):
                    plain = plain or stage.usage.seconds
                    measured.append(Measured(case, stage, stage.usage.seconds / plain))
                    usage = stage.usage
                    activity.show(
                        f"{case.name}: {stage.name} took {usage.seconds:.1f} s, {usage.cpu_seconds:.1f} CPU s"
                    )
    if arguments.json:
        print(json.dumps({"measured": as_json(measured)}, indent=2))
    else:
        print_table(stdout_console(), measured)
    return int(any(one.stage.differences for one in measured))


def _numbers(option: str, text: str) -> list[int]:
    try:
        numbers = [large_number(part) for part in text.split(",")]
    except argparse.ArgumentTypeError as error:
        raise LiftlogError(f"--{option} {text}: {error}") from None
    if min(numbers) < 1:
        raise LiftlogError(f"--{option} {text}: give numbers of 1 or more")
    return numbers
