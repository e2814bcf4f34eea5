"""Long traces on Spark: each partition's steps, and the metadata group's, are checked in a task of their own.

What happens to one partition depends on no other, so the lines are shuffled by partition and sorted by the
clock; a task reads its lines as a stream, brings causes before effects (`order.py`) and holds only what
waits. One partition is one task: a cluster with a single busy partition gains nothing here.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from liftlog.trace.file import Line, TraceHeader
from liftlog.trace.raft_lines import RaftStep
from liftlog.trace.replica_lines import ReplicaStep
from liftlog_spec.lang.types import SpecError
from liftlog_spec.refine.order import CausalOrder
from liftlog_spec.refine.traces import Checkers, TracedNodes, TraceReport, check_headers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Key = tuple[str, int, int, int]
"""(partition or "raft", microseconds, node, number): what lines are sorted by."""
RAFT = "raft"
TASKS_MAX = 64


class _Facts(NamedTuple):
    """What every task has to know: small, whatever the length of the traces."""

    headers: tuple[TraceHeader, ...]
    runs: dict[tuple[int, int], int]


def check_on_spark(paths: list[Path], session: SparkSession) -> TraceReport:
    """As `traces.check_traces`, on Spark. Raises SpecError for files that cannot be used."""
    for path in paths:
        if not path.is_file():
            raise SpecError(f"cannot read {path}: no such file")
    context = session.sparkContext
    files = [path.resolve().as_uri() for path in paths]
    texts = context.union([context.textFile(file) for file in files])
    facts, numbers = _survey(texts.mapPartitions(_facts_of).collect())
    nodes = check_headers(facts.headers, {})
    _check_numbers(numbers)
    tasks = min(TASKS_MAX, max(2, context.defaultParallelism * 4))
    keyed = texts.mapPartitions(_keyed)
    shuffled = keyed.repartitionAndSortWithinPartitions(tasks, lambda key: zlib.crc32(key[0].encode()))
    found = shuffled.mapPartitions(lambda lines: _check(lines, facts, nodes)).collect()
    return merged([str(path) for path in paths], found)


def _decoded(texts: Iterable[str]) -> Iterator[tuple[str, Line]]:
    """Lines that can be read. A line that was cut short is missed where numbers are counted."""
    decoder = msgspec.json.Decoder(Line)
    for text in texts:
        try:
            yield text, decoder.decode(text)
        except msgspec.MsgspecError:
            continue


Numbers = dict[tuple[int, int, bool], tuple[int, int]]
"""(node, process, about Raft) -> how many lines, and the greatest number of one."""


def _facts_of(texts: Iterable[str]) -> Iterator[tuple[_Facts, Numbers]]:
    headers: list[TraceHeader] = []
    runs: dict[tuple[int, int], int] = {}
    numbers: Numbers = {}
    for _, line in _decoded(texts):
        if isinstance(line, TraceHeader):
            headers.append(line)
            continue
        if isinstance(line, ReplicaStep) and line.incarnation:
            runs[line.node, line.incarnation] = line.start
        key = (line.node, line.start, isinstance(line, RaftStep))
        count, greatest = numbers.get(key, (0, 0))
        numbers[key] = (count + 1, max(greatest, line.number))
    yield _Facts(tuple(headers), runs), numbers


def _survey(found: list[tuple[_Facts, Numbers]]) -> tuple[_Facts, Numbers]:
    headers = sorted((one for facts, _ in found for one in facts.headers), key=lambda one: one.at_us)
    runs: dict[tuple[int, int], int] = {}
    numbers: Numbers = {}
    for facts, counted in found:
        runs.update(facts.runs)
        for key, (count, greatest) in counted.items():
            before = numbers.get(key, (0, 0))
            numbers[key] = (before[0] + count, max(before[1], greatest))
    return _Facts(tuple(headers), dict(sorted(runs.items()))), numbers


def _check_numbers(numbers: Numbers) -> None:
    for (node, process, _), (count, greatest) in sorted(numbers.items()):
        if count != greatest:
            raise SpecError(
                f"node {node}: process {process} has {count} lines up to number {greatest}: the trace has a "
                "gap, or a line that this version of liftlog cannot read"
            )


def _keyed(texts: Iterable[str]) -> Iterator[tuple[Key, str]]:
    for text, line in _decoded(texts):
        if isinstance(line, TraceHeader):
            continue
        name = RAFT if isinstance(line, RaftStep) else str(line.partition)
        yield (name, line.at_us, line.node, line.number), text


def _check(lines: Iterable[tuple[Key, str]], facts: _Facts, nodes: TracedNodes) -> Iterator[TraceReport]:
    for _, group in itertools.groupby(lines, key=lambda pair: pair[0][0]):
        checkers = Checkers(nodes)
        with checkers.judging():
            order = CausalOrder(facts.runs, whole=False)
            for line in _with_headers((text for _, text in group), facts.headers):
                for ready in order.take(line):
                    checkers.take(ready)
            order.close()
        yield checkers.report([])


def _with_headers(texts: Iterable[str], headers: tuple[TraceHeader, ...]) -> Iterator[Line]:
    waiting = list(headers)
    for _, line in _decoded(texts):
        while waiting and waiting[0].at_us <= line.at_us:
            yield waiting.pop(0)
        yield line
    yield from waiting


def merged(files: list[str], reports: list[TraceReport]) -> TraceReport:
    """One report of all tasks; of several findings the first by name of what it is about."""
    total = TraceReport(files)
    for report in reports:
        total.lines += report.lines
        total.partitions += report.partitions
        total.stutters += report.stutters
        for mine, theirs in ((total.actions, report.actions), (total.outside, report.outside)):
            for name, number in theirs.items():
                mine[name] = mine.get(name, 0) + number
    total.actions = dict(sorted(total.actions.items()))
    total.outside = dict(sorted(total.outside.items()))
    findings = sorted(report.finding for report in reports if report.finding)
    total.finding = findings[0] if findings else ""
    return total
