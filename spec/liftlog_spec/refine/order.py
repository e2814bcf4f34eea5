"""One order for the lines of many traces, in which no effect comes before its cause.

Each node of a real cluster writes its own trace, on its own clock. The checkers want all lines in one order.
Any order will do in which the lines of a process stay in theirs, a message is sent before it comes, and the
metadata group does nothing before somebody has asked for it: steps that do not depend on each other can be
exchanged. Where that leaves a choice the clocks decide, so they need not be good.

    order = CausalOrder()
    for line in lines:                    # each node's in the order of its file
        for ready in order.take(line): ...
    order.close()                         # raises Incomplete if something still waits
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from liftlog.messages import FETCH_BELOW_START, FETCH_DIVERGED, FETCH_OK
from liftlog.trace.file import Line, TraceHeader
from liftlog.trace.raft_lines import RaftLetter, RaftStep
from liftlog.trace.replica_lines import GroupStep, ReplicaStep
from liftlog.types import PartitionId

RAFT = "raft"


class Incomplete(Exception):
    """Lines wait for something that no trace contains, or a trace has a gap. Says which, and what to do."""


class CausalOrder:
    """Lines in, lines out, as soon as all that they depend on is out. Keeps what waits, and what was said."""

    def __init__(self, runs: Mapping[tuple[int, int], int] | None = None, *, whole: bool = True) -> None:
        """`runs`: which process each (node, incarnation) was, if that is known beforehand. `whole`: every
        line of a process comes, so that a missing number is a gap."""
        self._whole = whole
        self._queues: dict[int, deque[Line]] = {}
        self._said: set[Any] = set()
        self._held: dict[tuple[int, int, int], list[RaftLetter]] = {}
        self._numbers: dict[tuple[int, int, str], int] = {}
        self._started: dict[int, dict[int, None]] = {}
        """Processes of each node that are out, or have begun to come out."""
        self._runs = dict(runs or {})
        """The same, completed by the lines that have come in."""

    def take(self, line: Line) -> Iterator[Line]:
        """The next line of its node's trace. Yields what is ready. Raises Incomplete for a gap."""
        self._check_number(line)
        if isinstance(line, ReplicaStep) and line.incarnation:
            self._runs.setdefault((line.node, line.incarnation), line.start)
        self._queues.setdefault(line.node, deque()).append(line)
        yield from self._ready()

    def close(self) -> None:
        """Raises Incomplete if a line still waits."""
        waiting = [queue[0] for queue in self._queues.values() if queue]
        if waiting:
            first = min(waiting, key=_time)
            raise Incomplete(
                f"node {first.node} {_describe(first)}, but no trace says where that comes from; give the "
                "traces of all nodes, from their beginning"
            )

    def _check_number(self, line: Line) -> None:
        if isinstance(line, TraceHeader) or not self._whole:
            return
        kind = RAFT if isinstance(line, RaftStep) else "log"
        key = (line.node, line.start, kind)
        expected = self._numbers.get(key, 0) + 1
        if line.number != expected:
            raise Incomplete(
                f"node {line.node}: line {line.number} of process {line.start} ({kind}) follows line "
                f"{expected - 1}; the trace has lost what lies between"
            )
        self._numbers[key] = expected

    # -- what is ready -------------------------------------------------------------------------------------

    def _ready(self) -> Iterator[Line]:
        """All lines that can come out, the earliest by the clock first."""
        heads = [(_time(queue[0]), node) for node, queue in self._queues.items() if queue]
        heapq.heapify(heads)
        blocked: list[tuple[int, int]] = []
        while heads:
            time, node = heapq.heappop(heads)
            queue = self._queues[node]
            if not self._may_come(queue[0]):
                blocked.append((time, node))
                continue
            line = queue.popleft()
            self._note(line)
            yield line
            # It may be what others have waited for.
            for each in blocked:
                heapq.heappush(heads, each)
            blocked.clear()
            if queue:
                heapq.heappush(heads, (_time(queue[0]), node))

    def _may_come(self, line: Line) -> bool:
        match line:
            case ReplicaStep() | RaftStep():
                letter = line.cause.letter
                return letter is None or _is_empty(letter) or (_place(line), _bare(letter)) in self._said
            case GroupStep():
                return self._asked_for(line)
        return True

    def _asked_for(self, line: GroupStep) -> bool:
        """Whether what led to the command is out. A command that somebody has applied is."""
        if (line.partition, line.index) in self._said:
            return True
        match line.command:
            case "ChangeIsr":
                return (line.partition, line.about, line.version, "pending") in self._said
            case "ReplicaFailed" | "PairFailed" if line.told is not None:
                told = (line.told.epoch, line.told.leo, line.shortfall)
                return (line.partition, line.about, told) in self._said
            case "RegisterNode":
                return self._is_last_run(line.about, line.incarnation)
        return True

    def _is_last_run(self, node: int, incarnation: int) -> bool:
        """Whether every line of the node's earlier processes is out."""
        start = self._runs.get((node, incarnation))
        started = self._started.get(node, {})
        return start is None or start in started

    def _note(self, line: Line) -> None:
        """What has happened with this line."""
        said = self._said
        match line:
            case TraceHeader():
                self._started.setdefault(line.node, {})[line.start] = None
            case GroupStep():
                said.add((line.partition, line.index))
            case ReplicaStep():
                said.update((line.partition, letter) for letter in line.sent)
                after = line.after
                if after is not None and after.office is not None and after.office.pending is not None:
                    said.add((line.partition, line.node, after.office.pending.version, "pending"))
                for report in line.reports:
                    told = (report.epoch, report.leo, report.shortfall)
                    said.add((line.partition, line.node, told))
            case RaftStep():
                self._note_raft(line)

    def _note_raft(self, line: RaftStep) -> None:
        """A message leaves when the write that it waits for is durable."""
        for letter in line.sent:
            if letter.after:
                self._held.setdefault((line.node, line.start, letter.after), []).append(letter)
            else:
                self._said.add((RAFT, _bare(letter)))
        if line.cause.ticket:
            for letter in self._held.pop((line.node, line.start, line.cause.ticket), ()):
                self._said.add((RAFT, _bare(letter)))


def _time(line: Line) -> int:
    return line.at_us


def _place(line: ReplicaStep | RaftStep) -> PartitionId | str:
    """What a message belongs to: of another partition the same may be said in the same words."""
    return line.partition if isinstance(line, ReplicaStep) else RAFT


def _bare(letter: Any) -> Any:
    """A message as the receiver knows it."""
    if isinstance(letter, RaftLetter) and letter.after:
        values = [getattr(letter, name) for name in letter.__struct_fields__]
        return RaftLetter(*values[:-1])
    return letter


def _is_empty(letter: Any) -> bool:
    """A refusal: it says nothing of logs, and a node that has no such replica sends it without a line."""
    return letter.kind == "answer" and letter.status not in (FETCH_OK, FETCH_DIVERGED, FETCH_BELOW_START)


def _describe(line: Line) -> str:
    if isinstance(line, GroupStep):
        return f"applies {line.command} {line.index} to partition {line.partition}"
    if isinstance(line, TraceHeader):
        return "starts"
    letter = line.cause.letter
    assert letter is not None
    return f"takes in {letter.kind} from node {letter.sender}"
