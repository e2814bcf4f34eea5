"""The demo from beginning to end, and its summary."""

from __future__ import annotations

import time
from pathlib import Path

import msgspec

from liftlog.demo.checking import SparkResult, check_on_spark, java_problem, require_parts
from liftlog.demo.display import Display
from liftlog.demo.lines import input_lines
from liftlog.demo.real import RealResult, run_real
from liftlog.demo.simulation import PlantedResult, SimulationResult, catch_planted_bug, sweep
from liftlog.rooms import room_module

EXIT_GOOD, EXIT_VIOLATION, EXIT_INCOMPLETE = 0, 1, 2


class DemoOptions(msgspec.Struct, frozen=True):
    """What the user may choose."""

    source: Path | None
    messages: int
    seeds: int
    jobs: int
    store: Path


class DemoSummary(msgspec.Struct):
    """What the demo leaves in `summary.json`."""

    simulation: SimulationResult
    planted: PlantedResult
    real: RealResult
    spark: SparkResult | None
    missing: str
    """Why Spark did not check the history; empty if it did."""
    seconds: float
    folder: str
    exit_code: int


def run_demo(options: DemoOptions, display: Display) -> DemoSummary:
    """Run all parts. Raises LiftlogError when a part cannot do its work at all."""
    started_s = time.monotonic()
    require_parts()
    lines = input_lines(options.source, options.messages)
    folder: Path = room_module("liftlog_jepsen.store").new_run(options.store, "demo")
    missing = java_problem()
    if missing:
        display.line(f"Note: {missing}. The demo does everything else; its last part is left out.")

    display.heading("1/6  Simulation: whole clusters, with faults drawn from a seed")
    simulation = sweep(options.seeds, options.jobs, display)

    display.heading("2/6  A planted bug: after a restart, truncate the log to the HW")
    planted = catch_planted_bug(display)

    real = run_real(lines, folder, display)

    display.heading("6/6  The recorded history, checked on Spark")
    spark = None
    if missing:
        display.line(f"left out: {missing}")
    else:
        spark = check_on_spark(folder, display)

    violated = bool(
        simulation.violations > 0
        or simulation.unreached
        or not planted.caught
        or not planted.clean_without
        or real.lost > 0
        or real.consumer.never_acked > 0
        or real.consumer.acked_again > 0
        or real.processor.wrong > 0
        or (spark is not None and spark.verdict != "valid")
    )
    summary = DemoSummary(
        simulation=simulation,
        planted=planted,
        real=real,
        spark=spark,
        missing=missing,
        seconds=time.monotonic() - started_s,
        folder=str(folder),
        exit_code=EXIT_VIOLATION if violated else EXIT_INCOMPLETE if missing else EXIT_GOOD,
    )
    (folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(summary)) + b"\n")
    return summary
