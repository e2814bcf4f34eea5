"""Traces of a real cluster, read from the files that its nodes have written (liftlog/trace/file.py).

    report = check_traces([Path("node-1.jsonl"), ...])

Every line is read twice: once to learn which process each run of a node was, once to be checked. The lines of
all nodes are brought into one order (`order.py`), those about partitions go to `checker.py`, those about the
metadata group to `raft.py`.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from liftlog.trace.file import VERSION, Line, TraceHeader
from liftlog.trace.raft_lines import RaftStep
from liftlog.trace.replica_lines import ReplicaStep
from liftlog_spec.lang.types import SpecError
from liftlog_spec.refine.checker import Mismatch, Refinement
from liftlog_spec.refine.order import CausalOrder, Incomplete
from liftlog_spec.refine.raft import RaftChecker, RaftDisagreement

_DECODER = msgspec.json.Decoder(Line)


class TraceReport(msgspec.Struct):
    """What came of it. `finding`: what contradicts the specification, empty = nothing."""

    files: list[str]
    lines: int = 0
    partitions: int = 0
    actions: dict[str, int] = {}
    stutters: int = 0
    outside: dict[str, int] = {}
    """Steps that the models do not contain, by what they are."""
    finding: str = ""

    @property
    def good(self) -> bool:
        return not self.finding


def read_lines(path: Path) -> Iterator[Line]:
    """The lines of one file. A torn line is left out where a process could have left it: before a header and
    at the end. Raises SpecError that names the line.
    """
    torn = ""
    count = 0
    try:
        with path.open("rb") as file:
            for number, text in enumerate(file, 1):
                try:
                    line = _DECODER.decode(text)
                except msgspec.MsgspecError as error:
                    if torn:
                        raise SpecError(torn) from None
                    torn = f"{path} line {number}: {error}; is it a trace of this version of liftlog?"
                    continue
                if torn and not isinstance(line, TraceHeader):
                    raise SpecError(torn)
                torn = ""
                if isinstance(line, TraceHeader) and line.version != VERSION:
                    raise SpecError(
                        f"{path} line {number}: trace of version {line.version}, this program reads {VERSION}"
                    )
                if not count and not isinstance(line, TraceHeader):
                    raise SpecError(f"{path} line {number}: a trace begins with a line of type 'trace'")
                count += 1
                yield line
    except OSError as error:
        raise SpecError(f"cannot read {path}: {error.strerror}") from None
    if not count:
        raise SpecError(f"{path}: no trace; write one with 'liftlog serve --trace FILE'")


class TracedNodes(NamedTuple):
    """Whose traces these are."""

    voters: tuple[int, ...]
    learners: tuple[int, ...]


def check_headers(headers: Iterable[TraceHeader], files: dict[int, Path]) -> TracedNodes:
    """The nodes, if the processes are of one cluster and none of its voters is missing. Raises SpecError."""
    headers = list(headers)
    # Who was admitted later does not know the first voters (I3).
    first = next((header for header in headers if header.voters), None)
    nodes: dict[int, None] = {}
    for header in headers:
        nodes[header.node] = None
        if first is None:
            break
        if (header.cluster, header.voters or first.voters) != (first.cluster, first.voters):
            raise SpecError(
                f"{files.get(header.node, 'a trace')} is of cluster {header.cluster!r} with voters "
                f"{list(header.voters)}, another of {first.cluster!r} with {list(first.voters)}; give the "
                "traces of one cluster"
            )
    if first is None:
        raise SpecError("there is no trace in these files; write some with 'liftlog serve --trace FILE'")
    missing = [voter for voter in first.voters if voter not in nodes]
    if missing:
        raise SpecError(f"the traces of voters {missing} are missing; give those of all nodes")
    return TracedNodes(first.voters, tuple(node for node in nodes if node not in first.voters))


def survey(paths: Iterable[Path]) -> tuple[dict[tuple[int, int], int], TracedNodes]:
    """((node, incarnation) -> process, nodes). Raises SpecError if the files do not belong together."""
    runs: dict[tuple[int, int], int] = {}
    headers: list[TraceHeader] = []
    files: dict[int, Path] = {}
    for path in paths:
        for line in read_lines(path):
            if isinstance(line, TraceHeader):
                headers.append(line)
                if files.setdefault(line.node, path) != path:
                    raise SpecError(f"{path} and {files[line.node]} are both of node {line.node}; give one")
            elif isinstance(line, ReplicaStep) and line.incarnation:
                runs.setdefault((line.node, line.incarnation), line.start)
    return runs, check_headers(headers, files)


def in_order(paths: list[Path], runs: dict[tuple[int, int], int]) -> Iterator[Line]:
    """All lines of all files in one order. Raises Incomplete, SpecError."""
    order = CausalOrder(runs)
    for line in heapq.merge(*(read_lines(path) for path in paths), key=lambda line: line.at_us):
        yield from order.take(line)
    order.close()


class Checkers:
    """Both models, and what came of holding lines against them."""

    def __init__(self, nodes: TracedNodes) -> None:
        self._refinement, self._raft = Refinement(), RaftChecker(nodes.voters, nodes.learners)
        self.lines = 0
        self.finding = ""

    @contextmanager
    def judging(self) -> Iterator[None]:
        """A contradiction ends the block, and is the finding."""
        try:
            yield
        except (Mismatch, RaftDisagreement, Incomplete) as error:
            self.finding = str(error)

    def take(self, line: Line) -> None:
        """Raises Mismatch, Disagreement."""
        self.lines += 1
        if isinstance(line, RaftStep):
            self._raft.step(line)
        elif not isinstance(line, TraceHeader):
            self._refinement.take(line)

    def report(self, files: list[str]) -> TraceReport:
        refinement, raft = self._refinement, self._raft
        return TraceReport(
            files,
            self.lines,
            len(refinement.partitions),
            _named("isr", refinement.counts) | _named("raft", raft.actions),
            refinement.stutters + raft.stutters,
            _named("isr", refinement.outside) | _named("raft", raft.outside),
            self.finding,
        )


def check_traces(paths: list[Path]) -> TraceReport:
    """Hold the traces of all nodes against the models. Raises SpecError for files that cannot be used."""
    runs, nodes = survey(paths)
    checkers = Checkers(nodes)
    with checkers.judging():
        for line in in_order(paths, runs):
            checkers.take(line)
    return checkers.report([str(path) for path in paths])


def _named(model: str, counts: dict[str, int]) -> dict[str, int]:
    return {f"{model}.{name}": number for name, number in sorted(counts.items()) if number}
