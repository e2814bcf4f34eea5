"""What `liftlog bench subjects` reads and prints."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from liftlog.bench.checks import check_folder, check_ranges
from liftlog.scratch import Scratch
from liftlog.terminal import Activity, figure_table, large_number, print_figures
from liftlog.version import VERSION

NOTES = """\
CPU times of one thread. Cost: medians of rounds in which the index takes turns with the parser and the
encoder of the ingest path, over the same messages of 128 bytes, 512 to a read from the socket; the ratios
are medians of those within the rounds. Sealing is work for the background. Each question is timed by itself.

Process: all of it, interpreter and libraries included. Rebuild from subjects: what the index takes while the
log is read, without the reading.
"""
STEP_ROWS = {
    "ready_s": "ready, s",
    "first_ack_s": "first message acknowledged, s",
    "answered_s": "first question answered, s",
    "publish_p50_ms": "publish meanwhile, p50, ms",
    "publish_most_ms": "and the slowest, ms",
    "cpu_s": "processor time, s",
    "peak_mb": "peak memory, MB",
    "files_mb": "subject files, MB",
}
STEP_NOTES = """\
first: the first question about a log that was written without the node; the node reads all of it. again: the
node was killed, and takes what subject files have. read: killed again, without these files.
"""
QUESTIONS = 20_000
ROUND_MESSAGES = 1 << 16


def add_subjects(kinds: Any) -> None:
    subjects = kinds.add_parser(
        "subjects",
        help="the subject index: what it costs beside ingest, its lookups, memory, rebuild",
        description="Runs in this process; its chunks lie in a temporary folder meanwhile.",
    )
    subjects.add_argument(
        "--messages", type=large_number, default=500_000, help="in the index, such as 10M (default 500k)"
    )
    subjects.add_argument("--subjects", type=large_number, default=50_000, help="drawn from (default 50k)")
    subjects.add_argument("--rounds", type=int, default=5, help="rounds for the cost (default 5)")
    subjects.add_argument("--dir", type=Path, help="where chunks are written meanwhile (default /var/tmp)")
    subjects.add_argument(
        "--node",
        action="store_true",
        help="instead: how long a node takes after SIGKILL until it stores, and until it answers again",
    )
    subjects.add_argument("--json", action="store_true", help="print one JSON object")
    subjects.set_defaults(run=run_subjects)


def run_subjects(options: argparse.Namespace) -> int:
    ranges = (("messages", 1_000, 100_000_000), ("subjects", 10, 10_000_000), ("rounds", 1, 1000))
    check_ranges(options, ranges)
    check_folder(options.dir)
    with Scratch("bench", options.dir) as scratch, Activity() as activity:
        if options.node:
            from liftlog.bench.subjects_node import measure_node

            steps = measure_node(scratch, options.messages, options.subjects, activity.show)
        else:
            found = _measure(options, scratch.folder, activity)
    if options.node:
        _print_steps(options, steps)
        return 0
    if options.json:
        document = {"version": VERSION, "python": platform.python_version(), "rounds": options.rounds}
        asked = {"messages": options.messages, "subjects": options.subjects}
        print(json.dumps(document | asked | found, indent=2))
    else:
        _print(options, found)
    return 0


def _print_steps(options: argparse.Namespace, steps: dict[str, dict[str, float]]) -> None:
    if options.json:
        document = {"version": VERSION, "python": platform.python_version()}
        asked = {"messages": options.messages, "subjects": options.subjects}
        print(json.dumps(document | asked | {"node": steps}, indent=2))
        return
    console = Console(file=sys.stdout, highlight=False)
    console.print(f"{options.messages:,} messages over {options.subjects:,} subjects, one node\n")
    table = figure_table("from the start of the process", ["", *steps])
    for name, text in STEP_ROWS.items():
        table.add_row(text, *(f"{step[name]:,.1f}" for step in steps.values()))
    print_figures(console, table)
    console.print(STEP_NOTES, end="", soft_wrap=True)


def _measure(options: argparse.Namespace, folder: Path, activity: Activity) -> dict[str, Any]:
    # numpy is loaded here: no other command waits for it.
    from liftlog.bench import subjects as bench

    begun_mb = bench.resident_mb()
    store = bench.FolderStore(folder)
    index = bench.empty(store)
    fill_s = bench.filled(index, options.messages, options.subjects, activity.show)
    memory = bench.memory_of(index, store) | {"process_before_mb": begun_mb}
    cost = bench.costs(index, options.subjects, options.rounds, ROUND_MESSAGES, activity.show)
    lookups = bench.lookups(index, options.subjects, QUESTIONS, activity.show)
    leo = index.next
    del index
    activity.show("rebuild")
    rebuild = bench.reopened(store, leo) | {"from_subjects": fill_s}
    return {"cost_ns": cost, "lookups_us": lookups, "memory": memory, "rebuild_s": rebuild}


def _print(options: argparse.Namespace, found: dict[str, Any]) -> None:
    console = Console(file=sys.stdout, highlight=False)
    cost, memory, rebuild = found["cost_ns"], found["memory"], found["rebuild_s"]
    console.print(f"{options.messages:,} messages over {options.subjects:,} subjects\n")
    table = figure_table("ns of CPU time for a message", ["", "ns", "of parse and encode"])
    table.add_row("parse and encode", f"{cost['ingest']:,.0f}", "1.00")
    table.add_row("append to the index", f"{cost['append']:,.0f}", f"{cost['ratio']:.2f}")
    both = cost["append"] + cost["seal"]
    table.add_row("and seal its chunk", f"{both:,.0f}", f"{cost['ratio_with_sealing']:.2f}")
    print_figures(console, table)
    table = figure_table("us of CPU time for a question", ["", "p50", "p99", "most"])
    for name, values in found["lookups_us"].items():
        table.add_row(name, *(f"{values[key]:,.1f}" for key in ("p50", "p99", "most")))
    print_figures(console, table)
    table = figure_table("memory and rebuild", ["", ""])
    table.add_row("bytes for a subject, in memory", f"{memory['for_each_subject']:,.0f}")
    table.add_row("bytes for a message, in sealed chunks", f"{memory['chunks_for_each_message']:,.1f}")
    table.add_row("process, when all was in", f"{memory['process_mb']:,.0f} MB")
    table.add_row("its peak until then", f"{memory['process_peak_mb']:,.0f} MB")
    table.add_row("before there was an index", f"{memory['process_before_mb']:,.0f} MB")
    table.add_row("rebuild from sealed chunks", f"{rebuild['from_chunks']:,.2f} s")
    table.add_row("rebuild from all subjects", f"{rebuild['from_subjects']:,.2f} s")
    print_figures(console, table)
    console.print(NOTES, end="", soft_wrap=True)
