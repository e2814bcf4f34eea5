"""The protocol trace of a real node: what `liftlog serve --trace FILE` writes.

One line of JSON for each thing that a step did (`replica_lines.py` and `raft_lines.py` say what is in it),
written before any effect of the step is carried out. So whatever another process has heard from this one is
in the file, also after a SIGKILL; a power loss may take the end of it. A process adds to the file that it
finds, behind a first line that names it. `liftlog spec refine` reads the files of all nodes and holds them
against the specification.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from pathlib import Path

import msgspec

from liftlog.core.node import Node
from liftlog.messages import Event, Outcome
from liftlog.trace.raft_lines import RaftStep
from liftlog.trace.raft_recorder import RaftRecorder
from liftlog.trace.replica_lines import GroupStep, ReplicaStep
from liftlog.trace.replica_recorder import Recorder
from liftlog.types import LiftlogError

VERSION = 1

log = logging.getLogger("liftlog.trace")


class TraceHeader(msgspec.Struct, frozen=True, tag="trace", tag_field="type"):
    """The first line of a process. `start`: its nonce, which its lines repeat. `voters`: none if the node
    was admitted later and does not know the first (I3). `at_us`: wall clock.
    """

    version: int
    cluster: str
    node: int
    start: int
    voters: tuple[int, ...]
    at_us: int = 0


Line = TraceHeader | GroupStep | ReplicaStep | RaftStep
"""What a trace file contains, a line each."""


class TraceFile:
    """Appends lines. A file that cannot be written ends the trace, not the node."""

    def __init__(self, path: Path) -> None:
        """Raises LiftlogError."""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            size = os.fstat(self._file).st_size
            torn = size > 0 and os.pread(self._file, 1, size - 1) != b"\n"
        except OSError as error:
            raise LiftlogError(
                f"--trace {path}: cannot write it: {error.strerror}; choose another file"
            ) from None
        self._path = path
        self._encoder = msgspec.json.Encoder()
        self._open = True
        if torn:
            self._write(b"\n")

    def add(self, lines: Sequence[msgspec.Struct]) -> None:
        """All lines of a step at once."""
        if lines and self._open:
            self._write(b"".join(self._encoder.encode(line) + b"\n" for line in lines))

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError as error:
            # A trace with a hole would accuse the node of what it did not do.
            log.error("the trace in %s ends here: %s", self._path, error.strerror)
            self.close()

    def close(self) -> None:
        if self._open:
            self._open = False
            os.close(self._file)


class TraceWriter:
    """Writes the steps of a node down. Create it before the node is started; `applied` and `installed` are
    the node's hooks of these names, `stepped` observes it.
    """

    def __init__(self, node: Node, cluster: str, disk_id: str, file: TraceFile) -> None:
        self._node = node
        self._file = file
        self._recorder = Recorder(node)
        self.applied = self._recorder.applied
        self.installed = self._recorder.jumped
        self._raft = RaftRecorder(node.raft, node.ctx.nonce, disk_id)
        self._refused = node.ctx.refused
        self._last_us = 0
        header = TraceHeader(
            version=VERSION,
            cluster=cluster,
            node=node.config.node,
            start=node.ctx.nonce,
            voters=() if node.config.joins else node.config.voters,
            at_us=now_us(),
        )
        file.add([header])

    def stepped(self, event: Event | None, outcome: Outcome) -> None:
        before, self._refused = self._refused, self._node.ctx.refused
        if self._refused != before and not outcome.effects:
            return  # V3: a message that is refused is as good as lost.
        lines: list[msgspec.Struct] = []
        raft = self._raft.stepped(event, outcome)
        if raft is not None:
            lines.append(raft)
        lines += self._recorder.stepped(event, outcome)
        if lines:
            # A clock that is set back must not change the order of our own lines.
            now = self._last_us = max(self._last_us, now_us())
            for line in lines:
                msgspec.structs.force_setattr(line, "at_us", now)
            self._file.add(lines)


def now_us() -> int:
    """Wall clock in microseconds."""
    return time.time_ns() // 1000
