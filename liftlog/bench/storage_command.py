"""The command `liftlog bench storage`: the log on disk beside raw file calls on the same bytes."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from liftlog.bench.checks import check_folder, check_range
from liftlog.bench.rounds import Figure
from liftlog.bench.stall import Latency, measure_stall
from liftlog.bench.storage_io import Progress, measure_append, measure_read, measure_send
from liftlog.bench.storage_life import (
    Compaction,
    ManyKeys,
    OpeningTimes,
    measure_compaction,
    measure_keys,
    measure_open,
)
from liftlog.bench.store import Folders
from liftlog.scratch import Scratch
from liftlog.terminal import Activity, figure_table, print_figures
from liftlog.types import LiftlogError
from liftlog.version import VERSION

DEFAULT_FOLDER = Path("store")
RECORD_BYTES = (128, 1024, 65536)
SPARE_BYTES = 2_000_000_000
"""Left free on the disk whatever is measured."""
BYTES_PER_KEY = 64

NOTES = """\
Rounds alternate between the contenders; medians are shown, and the median of the ratios within the rounds.
raw: the same bytes with pwrite + fdatasync, pread, sendfile. Appends: one sync a batch of 1 MiB. read and
send: from the page cache; send goes over TCP to a process that throws the bytes away. Other work on this
machine moves the digits more than the ratios.
"""


@dataclass
class Results:
    """What was measured; what was not, with the reason."""

    append: dict[int, dict[str, Figure]] = field(default_factory=dict)
    read: dict[str, Figure] = field(default_factory=dict)
    send: dict[str, Figure] = field(default_factory=dict)
    opened: list[OpeningTimes] = field(default_factory=list)
    compaction: dict[int, dict[str, Figure]] = field(default_factory=dict)
    compacted: dict[int, Compaction] = field(default_factory=dict)
    latency: dict[str, Latency] = field(default_factory=dict)
    keys: list[ManyKeys] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class BenchTarget:
    """One figure that was promised. `wanted` as a bound: at least for rates, at most for costs."""

    name: str
    wanted: str
    measured: float
    met: bool


def add_storage(kinds: Any) -> None:
    storage = kinds.add_parser(
        "storage",
        help="the log on disk, beside raw file calls",
        description="Appending, reading, sending, opening and compacting in a folder of its own, "
        "which is removed again.",
    )
    storage.add_argument("--mb", type=int, default=64, help="megabytes a round (default 64)")
    storage.add_argument("--rounds", type=int, default=5, help="rounds for each contender (default 5)")
    sizes = "sizes of the logs to open (default 128 512; --full: 1000 10000)"
    storage.add_argument("--open-mb", type=int, nargs="+", help=sizes)
    storage.add_argument("--keys", type=int, help="different keys (default 200000; --full: 10000000)")
    storage.add_argument("--seconds", type=float, default=3.0, help="appends beside compaction (default 3)")
    storage.add_argument("--full", action="store_true", help="the sizes of the published figures")
    storage.add_argument("--folder", type=Path, help="where files are written meanwhile (default ./store)")
    storage.add_argument("--check", action="store_true", help="exit 1 if a target is missed")
    storage.add_argument("--json", action="store_true", help="print one JSON object")
    storage.set_defaults(run=run_storage)


def run_storage(options: argparse.Namespace) -> int:
    _check_options(options)
    folder = _folder(options.folder)
    sizes_mb = options.open_mb or ([1000, 10_000] if options.full else [128, 512])
    keys = options.keys or (10_000_000 if options.full else 200_000)
    results = Results()
    with Scratch("bench", folder) as scratch, Activity() as activity:
        _measure(results, Folders(scratch.folder), options, sizes_mb, keys, activity.show)
    targets = targets_of(results)
    if options.json:
        print(json.dumps(document(results, targets, folder), indent=2))
    else:
        _print(results, targets, folder)
    return 1 if options.check and not all(target.met for target in targets) else 0


def _check_options(options: argparse.Namespace) -> None:
    numbers = [
        ("mb", options.mb, 1, 100_000),
        ("rounds", options.rounds, 1, 1000),
        ("seconds", options.seconds, 0.1, 3600),
        ("keys", 1 if options.keys is None else options.keys, 1, 1_000_000_000),
        *(("open-mb", size, 1, 1_000_000) for size in options.open_mb or ()),
    ]
    for name, value, low, high in numbers:
        check_range(name, value, low, high)


def _folder(given: Path | None) -> Path:
    check_folder(given, "folder")
    folder = given or DEFAULT_FOLDER
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        text = f"cannot create {folder.absolute()}: {error.strerror}; name a folder with --folder"
        raise LiftlogError(text) from None
    if _file_system(folder) in ("tmpfs", "ramfs"):
        raise LiftlogError(f"{folder.absolute()} lies in memory; name a folder on a disk with --folder")
    return folder


def _file_system(folder: Path) -> str:
    """Type of the file system that holds the folder, as the kernel names it; empty if it does not say."""
    try:
        lines = Path("/proc/mounts").read_text().splitlines()
    except OSError:
        return ""
    place = str(folder.resolve())
    mounts = [line.split()[1:3] for line in lines]
    fitting = [(point, kind) for point, kind in mounts if os.path.commonpath((point, place)) == point]
    return max(fitting, key=lambda mount: len(mount[0]), default=("", ""))[1]


def _measure(
    results: Results,
    folders: Folders,
    options: argparse.Namespace,
    sizes_mb: list[int],
    keys: int,
    progress: Progress,
) -> None:
    size, rounds = options.mb * 1_000_000, options.rounds
    for record_bytes in RECORD_BYTES:
        results.append[record_bytes] = measure_append(folders, record_bytes, size, rounds, progress)
    results.read = measure_read(folders, 1024, size, rounds, progress)
    results.send = measure_send(folders, 1024, 4 * size, rounds, progress)
    for record_bytes in (1024, 128):
        figures, last = measure_compaction(folders, record_bytes, size, rounds, progress)
        results.compaction[record_bytes], results.compacted[record_bytes] = figures, last
    results.latency = measure_stall(folders, 2 * size, options.seconds, progress)
    for size_mb in sizes_mb:
        wanted = size_mb * 1_000_000
        if _has_room(results, folders, f"open {wanted / 1e9:g} GB", wanted):
            results.opened.append(measure_open(folders, wanted, rounds, progress))
    if _has_room(results, folders, f"{keys:,} keys", 2 * BYTES_PER_KEY * keys):
        results.keys.append(measure_keys(folders, keys, progress))


def _has_room(results: Results, folders: Folders, what: str, wanted_bytes: int) -> bool:
    """Whether the disk has room for so much; if not, the measurement is noted as skipped."""
    needed = wanted_bytes + SPARE_BYTES
    free = shutil.disk_usage(folders.parent).free
    if free < needed:
        results.skipped.append(f"{what}: {needed / 1e9:.1f} GB are needed, {free / 1e9:.1f} GB are free")
    return free >= needed


def targets_of(results: Results) -> list[BenchTarget]:
    """What the project promises of this machine, and whether this run kept it."""
    found = []
    for record_bytes, figures in results.append.items():
        ratio = figures["liftlog"].ratio
        found.append(BenchTarget(f"append {record_bytes} B / raw", ">= 0.7", ratio, ratio >= 0.7))
    ratio = results.send["liftlog"].ratio
    found.append(BenchTarget("sendfile / raw sendfile", ">= 0.8", ratio, ratio >= 0.8))
    for opened in results.opened:
        name = f"seconds to open {opened.log_bytes / 1e9:.1f} GB"
        found.append(BenchTarget(name, "<= 0.5", opened.seconds, opened.seconds <= 0.5))
    rate = results.compaction[1024]["liftlog"].median
    found.append(BenchTarget("compaction MB/s, 1024 B", ">= 80", rate, rate >= 80))
    for many in results.keys:
        peak = many.memory_peak_mb
        found.append(BenchTarget(f"peak MB for {many.keys:,} keys", "< 300", peak, peak < 300))
    return found


def document(results: Results, targets: list[BenchTarget], folder: Path) -> dict[str, Any]:
    """The JSON object of `--json`."""
    return {
        "version": VERSION,
        "python": platform.python_version(),
        "processors": os.cpu_count(),
        "file_system": _file_system(folder),
        "unit": "MB/s, MB = 10^6 bytes",
        **asdict(results),
        "targets": [asdict(target) for target in targets],
    }


# -- for people --------------------------------------------------------------------------------------------


def _print(results: Results, targets: list[BenchTarget], folder: Path) -> None:
    console = Console(file=sys.stdout, highlight=False)
    title = f"MB/s in {folder} ({_file_system(folder) or 'unknown file system'})"
    table = figure_table(title, ["", "liftlog", "spread", "raw", "ratio"])
    for record_bytes, figures in results.append.items():
        _add_row(table, f"append {record_bytes} B", figures, "liftlog")
        _add_row(table, f"append {record_bytes} B, encoded", figures, "liftlog, encoded")
    _add_row(table, "read, verified", results.read, "liftlog")
    _add_row(table, "send to a socket", results.send, "liftlog")
    for record_bytes, figures in results.compaction.items():
        _add_row(table, f"compaction {record_bytes} B", figures, "liftlog")
    print_figures(console, table)
    for opened in results.opened:
        console.print(
            f"open {opened.log_bytes / 1e9:.2f} GB, {opened.segments} segments: {opened.seconds:.3f} s; "
            f"lookup by time: {opened.lookup_median_us:.0f} us, p99 {opened.lookup_p99_us:.0f} us, "
            f"the first {opened.first_lookup_us:.0f} us",
            soft_wrap=True,
        )
    for name, latency in results.latency.items():
        console.print(
            f"append latency, {name}: p50 {latency.p50_ms:.1f} ms, p99 {latency.p99_ms:.1f} ms, "
            f"greatest {latency.greatest_ms:.1f} ms ({latency.appends} appends, {latency.slices} slices)",
            soft_wrap=True,
        )
    for many in results.keys:
        done = many.compaction
        text = f"peak {many.memory_peak_mb:.0f} MB, {done.passes} passes, {done.seconds:.1f} s"
        console.print(f"compaction of {many.keys:,} keys: {text}", soft_wrap=True)
    for text in results.skipped:
        console.print(f"skipped: {text}", soft_wrap=True)
    shown = figure_table("targets", ["", "wanted", "measured", ""])
    for target in targets:
        shown.add_row(target.name, target.wanted, f"{target.measured:.3g}", "met" if target.met else "MISSED")
    console.print(shown)
    console.print(NOTES, end="", soft_wrap=True)


def _add_row(table: Table, name: str, figures: dict[str, Figure], contender: str) -> None:
    ours, raw = figures[contender], figures["raw"]
    rate, spread, ratio = f"{ours.median:,.0f}", f"{ours.spread:.0%}", f"{ours.ratio:.2f}"
    table.add_row(name, rate, spread, f"{raw.median:,.0f}", ratio)
