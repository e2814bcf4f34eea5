"""What `liftlog bench matching` reads and prints."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from rich.console import Console

from liftlog.bench.checks import check_ranges
from liftlog.bench.matching import (
    ARTICLE_MEMORY_RATIO,
    ARTICLE_OPERATIONS,
    ARTICLE_THROUGHPUT,
    SIZES,
    STRUCTURES,
    THREADS,
    WILDCARDS,
    Progress,
    Values,
    article_messages,
    article_patterns,
    concurrency_of,
    each_structure,
    medians,
    memory_of,
    nats_workload,
    operations_on,
    size_of,
    throughput_of,
)
from liftlog.terminal import Activity, figure_table, print_figures
from liftlog.version import VERSION

NOTES = """\
article: the figures of Tyler Treat's "Fast Topic Matching" (Go, a 2.6 GHz Core i7). Ours are Python's, on
this machine: compare the columns of one side with each other, and the two orders. Its cs-trie stands beside
our persistent trie. It subscribes and removes one subscriber again and again, which changes nothing after the
first time; ours are new each time and really leave. Its hot inverted bitmap has refused all 1,000
subscriptions, since their topics are not in its space.

Times are CPU times of one thread; medians of rounds in which the structures take turns. Memory: what the
interpreter has taken (tracemalloc), without the patterns' own text; of the inverted bitmap with the rows of
all messages' topics.

Threads: operations per second of wall time, of all threads together. One thread runs at a time in this Python
(the interpreter lock), so that more of them cannot be faster: what is seen is what waiting for each other
costs. All structures but the persistent trie are behind one lock; its readers take none.
"""

Found = dict[str, Any]


def add_matching(kinds: Any) -> None:
    matching = kinds.add_parser(
        "matching",
        help="five structures that match subjects with patterns, beside an article's figures",
        description="Runs in this process: no files, no NATS.",
    )
    matching.add_argument("--rounds", type=int, default=3, help="rounds for each structure (default 3)")
    matching.add_argument(
        "--seconds", type=float, default=0.3, help="a measurement in a round ends after this (default 0.3)"
    )
    matching.add_argument(
        "--tables", nargs="+", choices=tuple(MEASURED), metavar="TABLE", help=f"of {', '.join(MEASURED)}"
    )
    matching.add_argument("--json", action="store_true", help="print one JSON object")
    matching.set_defaults(run=run_matching)


def run_matching(options: argparse.Namespace) -> int:
    check_ranges(options, (("rounds", 1, 1000), ("seconds", 0.001, 60)))
    wanted = options.tables or list(MEASURED)
    found: Found = {}
    with Activity() as activity:
        for name, measure in MEASURED.items():
            if name in wanted:
                found[name] = measure(options.rounds, options.seconds, activity.show)
    if options.json:
        document = {"version": VERSION, "python": platform.python_version(), "rounds": options.rounds}
        print(json.dumps(document | {"tables": found, "article": _article()}, indent=2))
    else:
        console = Console(file=sys.stdout, highlight=False)
        for name, figures in found.items():
            PRINTED[name](console, figures)
        console.print(NOTES, end="", soft_wrap=True)
    return 0


def _article() -> Found:
    return {
        "operations": ARTICLE_OPERATIONS,
        "throughput": ARTICLE_THROUGHPUT,
        "memory_ratio": ARTICLE_MEMORY_RATIO,
    }


# --- what is measured -------------------------------------------------------------------------------------


def _operations(rounds: int, seconds: float, progress: Progress) -> Found:
    return {
        start: medians(
            each_structure(partial(operations_on, hot=start == "hot", seconds=seconds)),
            rounds,
            f"operations, {start}",
            progress,
        )
        for start in ("cold", "hot")
    }


def _throughput(rounds: int, seconds: float, progress: Progress) -> Found:
    patterns = article_patterns()
    messages = article_messages(patterns)
    contenders = each_structure(partial(throughput_of, patterns=patterns, messages=messages, seconds=seconds))
    return medians(contenders, rounds, "throughput", progress)


def _memory(rounds: int, seconds: float, progress: Progress) -> Found:
    """Nothing to repeat: it is the same each time."""
    patterns = article_patterns()
    subjects = sorted(set(article_messages(patterns)))
    progress("memory")
    return {name: {"bytes": memory_of(name, patterns, subjects)} for name in STRUCTURES}


def _concurrency(rounds: int, seconds: float, progress: Progress) -> Found:
    return {
        mix: {
            str(threads): medians(
                each_structure(partial(concurrency_of, threads=threads, mix=mix, seconds=seconds)),
                rounds,
                f"{threads} threads, {mix}",
                progress,
            )
            for threads in THREADS
        }
        for mix in ("50-50", "90-10")
    }


def _sizes(rounds: int, seconds: float, progress: Progress) -> Found:
    found: Found = {}
    for share, wildcards in WILDCARDS.items():
        found[share] = {}
        for count in SIZES:
            workload = nats_workload(count, wildcards)
            contenders = each_structure(partial(size_of, workload=workload, seconds=seconds))
            figures = medians(contenders, rounds, f"{count} subscriptions, {share} wildcards", progress)
            subjects = sorted(set(workload.subjects))
            for name, values in figures.items():
                values["bytes"] = memory_of(name, workload.patterns, subjects)
            found[share][str(count)] = figures
    return found


MEASURED: dict[str, Callable[[int, float, Progress], Found]] = {
    "operations": _operations,
    "throughput": _throughput,
    "memory": _memory,
    "threads": _concurrency,
    "sizes": _sizes,
}

# --- what is printed --------------------------------------------------------------------------------------


def _print_operations(console: Console, found: Found) -> None:
    kinds = ("subscribe", "unsubscribe", "lookup")
    columns = [f"{who}{kind}" for kind in kinds for who in ("", "article ")]
    table = figure_table("ns for each operation", ["structure", "", *columns])
    for name in STRUCTURES:
        for start, figures in found.items():
            ours, theirs = figures[name], ARTICLE_OPERATIONS[name][start]
            cells = [f"{side[kind]:,.0f}" for kind in kinds for side in (ours, theirs)]
            table.add_row(name, start, *cells)
    print_figures(console, table)


def _print_throughput(console: Console, found: Found) -> None:
    title = "matches per second: 1,000 subscriptions of 3 words"
    table = figure_table(title, ["structure", "ours", "/ trie", "article", "/ trie"])
    of_trie, their_trie = found["trie"]["matches_per_second"], ARTICLE_THROUGHPUT["trie"]
    for name in STRUCTURES:
        ours, theirs = found[name]["matches_per_second"], ARTICLE_THROUGHPUT[name]
        table.add_row(
            name, f"{ours:,.0f}", f"{ours / of_trie:.2f}", f"{theirs:,.0f}", f"{theirs / their_trie:.2f}"
        )
    print_figures(console, table)


def _print_memory(console: Console, found: Found) -> None:
    table = figure_table("memory of the same 1,000 subscriptions", ["structure", "bytes each"])
    for name in STRUCTURES:
        table.add_row(name, f"{found[name]['bytes']:,.0f}")
    print_figures(console, table)
    ratio = found["inverted bitmap"]["bytes"] / found["optimized inverted bitmap"]["bytes"]
    console.print(
        f"inverted / optimized inverted bitmap: {ratio:.1f}; the article says {ARTICLE_MEMORY_RATIO}.",
        soft_wrap=True,
    )


def _print_concurrency(console: Console, found: Found) -> None:
    for mix, by_threads in found.items():
        title = f"operations per second, {mix} reading and writing"
        table = figure_table(title, ["structure", *(f"{threads} threads" for threads in by_threads)])
        for name in STRUCTURES:
            cells = [f"{figures[name]['operations_per_second']:,.0f}" for figures in by_threads.values()]
            table.add_row(name, *cells)
        print_figures(console, table)


def _print_sizes(console: Console, found: Found) -> None:
    for share, by_count in found.items():
        counts = [f"{int(count):,}" for count in by_count]
        title = f"subjects as with NATS, {WILDCARDS[share]:.0%} of the patterns with wildcards"
        columns = [f"{kind} {count}" for kind in ("match us", "subscribe us", "bytes") for count in counts]
        table = figure_table(title, ["structure", *columns])
        for name in STRUCTURES:
            values: list[Values] = [figures[name] for figures in by_count.values()]
            cells = [f"{one[key]:,.1f}" for key in ("match_us", "subscribe_us") for one in values]
            table.add_row(name, *cells, *(f"{one['bytes']:,.0f}" for one in values))
        print_figures(console, table)


PRINTED: dict[str, Callable[[Console, Found], None]] = {
    "operations": _print_operations,
    "throughput": _print_throughput,
    "memory": _print_memory,
    "threads": _print_concurrency,
    "sizes": _print_sizes,
}
