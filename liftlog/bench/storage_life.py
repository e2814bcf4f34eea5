"""Opening, looking up, compacting: what a log costs over its life.

Opening: a log that was closed cleanly, with its files dropped from the page cache, until the engine can say
where it ends. Looking up: by random times, in the same log.

Compacting: a log in which every key stands twice, so that half of it goes, read, rewritten, synced and
swapped in; its rate counts the bytes of the log as it was. The raw contender reads the same bytes and writes
half of them with a sync per megabyte. Keys: a log of many different keys, compacted in a process of its own,
whose peak memory is what the kernel says.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from liftlog.bench.rounds import Figure, alternate
from liftlog.bench.storage_io import BATCH_BYTES, MEGABYTE, Progress, encoded, message_groups
from liftlog.bench.store import FIRST_MS, LOG, Folders, Store
from liftlog.bench.usage import usage_of
from liftlog.core.replica.upkeep import SLICE_BYTES
from liftlog.format import encode_messages, encode_records
from liftlog.real import interrupts
from liftlog.types import Batch, CompactionPolicy, LiftlogError, LogOptions, Message, Record

LOOKUPS = 2000
SMALL_BATCH_BYTES = 64 * 1024
BATCHES_PER_SYNC = 64
KEYS_TIMEOUT_S = 3600.0
POLICY = CompactionPolicy(dirty_ratio_percent=1)


@dataclass(frozen=True, slots=True)
class OpeningTimes:
    """How long it took to open one log, and to look up times in it."""

    log_bytes: int
    segments: int
    seconds: float
    """Median over the rounds."""
    seconds_greatest: float
    first_lookup_us: float
    lookup_median_us: float
    lookup_p99_us: float


def measure_open(folders: Folders, log_bytes: int, rounds: int, progress: Progress) -> OpeningTimes:
    """Build a log of so many bytes, then open it `rounds` times."""
    what = f"open {log_bytes / 1e9:g} GB"
    with folders.new() as folder:
        progress(f"{what}: writing the log")
        with Store(folder) as store:
            store.create()
            milliseconds = 0
            several: list[Batch] = []
            for batch in encoded(message_groups(1024, log_bytes, SMALL_BATCH_BYTES)):
                several.append(batch)
                milliseconds += 1
                if len(several) == BATCHES_PER_SYNC:
                    store.append(*several)
                    several.clear()
            if several:
                store.append(*several)
            end = store.end
        segments = len(list(folder.rglob("*.log")))
        seconds: list[float] = []
        for number in range(rounds):
            progress(f"{what}: round {number + 1} of {rounds}")
            _drop_from_cache(folder)
            started = time.perf_counter()
            with Store(folder) as store:
                seconds.append(time.perf_counter() - started)
                if store.recovered is None or not store.recovered.clean or store.end != end:
                    raise LiftlogError(f"the log of {log_bytes} bytes was not found as it was left")
                if number + 1 == rounds:
                    progress(f"{what}: looking up times")
                    times_us = _lookups(store, milliseconds)
        return OpeningTimes(
            log_bytes=sum(path.stat().st_size for path in folder.rglob("*.log")),
            segments=segments - 1,
            seconds=statistics.median(seconds),
            seconds_greatest=max(seconds),
            first_lookup_us=times_us[0],
            lookup_median_us=statistics.median(times_us),
            lookup_p99_us=sorted(times_us)[len(times_us) * 99 // 100],
        )


def _lookups(store: Store, milliseconds: int) -> list[float]:
    """Microseconds of each lookup of a random time; every batch has a millisecond of its own."""
    draws = random.Random(1)
    times_us: list[float] = []
    for _ in range(LOOKUPS):
        wanted = FIRST_MS + draws.randrange(milliseconds)
        started = time.perf_counter()
        store.find_time(wanted)
        times_us.append((time.perf_counter() - started) * 1e6)
    return times_us


def _drop_from_cache(folder: Path) -> None:
    """Let the kernel forget the files, so that opening reads the disk."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


# -- compaction --------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Compaction:
    """What one compaction did."""

    seconds: float
    passes: int
    bytes_before: int
    bytes_after: int
    slice_longest_ms: float


def measure_compaction(
    folders: Folders, record_bytes: int, log_bytes: int, rounds: int, progress: Progress
) -> tuple[dict[str, Figure], Compaction]:
    """MB/s of "liftlog" and "raw", and what the last compaction did."""
    what = f"compaction {record_bytes} B"
    done: list[Compaction] = []
    with folders.new() as original:
        progress(f"{what}: writing the log")
        records = max(2, log_bytes // (record_bytes + 40))
        write_keyed(original, records // 2, records, record_bytes, segment_bytes=max(1 << 20, log_bytes // 8))

        def ours() -> float:
            with folders.new() as folder:
                shutil.copytree(original, folder, dirs_exist_ok=True)
                os.sync()
                done.append(compact_all(folder))
            return done[-1].bytes_before / MEGABYTE / done[-1].seconds

        def raw() -> float:
            with folders.new() as folder:
                return _copy_half(sorted(original.rglob("*.log")), folder / "copy")

        contenders = {"liftlog": ours, "raw": raw}
        figures = alternate(contenders, "raw", rounds, lambda text: progress(f"{what}, {text}"))
    return figures, done[-1]


def write_keyed(folder: Path, keys: int, records: int, record_bytes: int, segment_bytes: int) -> None:
    """A clean log of `records` records whose keys are 0 to `keys` - 1, over and over."""
    with Store(folder) as store:
        store.create(LogOptions(segment_bytes=segment_bytes))
        for batch in _keyed_batches(keys, records, record_bytes):
            store.append(batch)
        # Only complete segments are compacted: one more record, which begins a new one.
        store.configure(LogOptions(segment_bytes=1))
        store.append(encode_messages(LOG, store.end, 1, FIRST_MS, [Message(b"", b"", b"", b"")]))


def _keyed_batches(keys: int, records: int, record_bytes: int) -> Iterator[Batch]:
    value = os.urandom(record_bytes)
    per_batch = max(1, BATCH_BYTES // 4 // (record_bytes + 40))
    for start in range(0, records, per_batch):
        yield encode_records(
            LOG,
            1,
            [
                Record(
                    offset=offset,
                    timestamp_ms=FIRST_MS,
                    subject=b"",
                    reply=b"",
                    headers=b"",
                    key=b"key-%012d" % (offset % keys),
                    value=value,
                )
                for offset in range(start, min(records, start + per_batch))
            ],
        )


def compact_all(folder: Path) -> Compaction:
    """Compact the log in a folder, slice by slice, until nothing is left to do."""
    with Store(folder) as store:
        before = _log_bytes(folder)
        longest_s, passes, clean_point = 0.0, 0, 0
        started = time.perf_counter()
        while True:
            slice_started = time.perf_counter()
            event = store.compact(POLICY, SLICE_BYTES)
            longest_s = max(longest_s, time.perf_counter() - slice_started)
            if event.clean_point > clean_point:
                clean_point = event.clean_point
                passes += 1
            if event.done:
                break
        seconds = time.perf_counter() - started
    return Compaction(seconds, passes, before, _log_bytes(folder), longest_s * 1000)


def _log_bytes(folder: Path) -> int:
    """Bytes of all segments but the last, which is never compacted."""
    sizes = [path.stat().st_size for path in sorted((folder / "streams").rglob("*.log"))]
    return sum(sizes[:-1])


def _copy_half(sources: list[Path], target: Path) -> float:
    started = time.perf_counter()
    total, unsynced = 0, 0
    output = os.open(target, os.O_WRONLY | os.O_CREAT)
    for source in sources:
        descriptor = os.open(source, os.O_RDONLY)
        while data := os.read(descriptor, SLICE_BYTES):
            total += len(data)
            unsynced += os.write(output, memoryview(data)[: len(data) // 2])
            if unsynced >= 1 << 20:
                os.fdatasync(output)
                unsynced = 0
        os.close(descriptor)
    os.fdatasync(output)
    os.close(output)
    return total / MEGABYTE / (time.perf_counter() - started)


# -- many keys ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ManyKeys:
    """Compaction of a log with many different keys."""

    keys: int
    memory_peak_mb: float
    """Of the whole process, interpreter and all."""
    compaction: Compaction


def measure_keys(folders: Folders, keys: int, progress: Progress) -> ManyKeys:
    """Every key once and every tenth again, compacted by a process that does nothing else."""
    with folders.new() as folder:
        progress(f"{keys} keys: writing the log")
        write_keyed(folder, keys, keys + keys // 10, 16, segment_bytes=64 * 1024 * 1024)
        progress(f"{keys} keys: compacting")
        command = [sys.executable, "-m", "liftlog.bench.storage_life", str(folder)]
        pipe = subprocess.PIPE
        with interrupts.running(command, stdout=pipe, stderr=pipe, text=True) as process:
            try:
                output, errors = process.communicate(timeout=KEYS_TIMEOUT_S)
            except subprocess.TimeoutExpired as error:
                raise LiftlogError(f"compacting {keys} keys failed: {error}") from None
        if process.returncode:
            raise LiftlogError(f"compacting {keys} keys failed: {errors.strip()}")
        found = json.loads(output)
        return ManyKeys(keys, found["memory_peak_mb"], Compaction(**found["compaction"]))


def _compact_and_report(folder: Path) -> None:
    compaction = compact_all(folder)
    peak_mb = usage_of([os.getpid()]).memory_peak_mb
    print(json.dumps({"memory_peak_mb": peak_mb, "compaction": asdict(compaction)}))


if __name__ == "__main__":
    _compact_and_report(Path(sys.argv[1]))
