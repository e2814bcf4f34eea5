"""What replicas did, from the protocol traces of real nodes, as the facts of docs/promises.md.

    known = LogRecorder(...)                     # which was told what lies where, and under which epoch
    recorder = ReplicaRecorder(writer, known.key, (info.id, 0), known.contents, first_process=1000)
    for path in sorted(traces.iterdir()):
        recorder.trace(path)                     # of `liftlog serve --trace`
    history = writer.close()

A trace says at each step where the log of a replica ends, how far it is committed, and where each epoch
begins; what is there no more in the next step of the same process was cut off. It has no contents: (epoch,
offset) names a record, and whoever was told of it knows its value. Of what was cut and told to nobody there
is nothing to say: nobody can have read it.

A trace has times of the wall clock, so that the history's writer has to be one with that clock
(`clock_ns=time.time_ns`). What is found when a log is opened is compared with nothing: a tail that a crash
has torn is no cut.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from liftlog_jepsen.history import HistoryWriter, Mop, Value
from liftlog_jepsen.recording import ClientRecorder

REPLICA = "replica"
NS_PER_US = 1000


class Tail(NamedTuple):
    """Of a log: from where on it is there, where it ends, and (epoch, first offset) of each epoch in it."""

    start: int
    end: int
    history: tuple[tuple[int, int], ...]

    def epoch_of(self, offset: int) -> int:
        """Of a record that is there; -1 where the history does not tell."""
        epochs = [epoch for epoch, first in self.history if first <= offset]
        return epochs[-1] if epochs else -1


def cut_off(before: Tail, after: Tail) -> Iterator[tuple[int, int]]:
    """(Offset, epoch) of each record at the end of `before` that `after` has not. What is below the start of
    one of them is no end.
    """
    first, known = max(before.start, after.start), len(before.history)
    goes_on = after.history[:known] == before.history
    if goes_on and after.end >= before.end and all(begin >= before.end for _, begin in after.history[known:]):
        return
    for offset in range(first, before.end):
        epoch = before.epoch_of(offset)
        if offset >= after.end or after.epoch_of(offset) != epoch:
            yield offset, epoch


class _State(msgspec.Struct, frozen=True, gc=False):
    state: str
    epoch: int
    leo: int
    hw: int
    log_start: int
    history: tuple[tuple[int, int], ...]


class _Line(msgspec.Struct, frozen=True, gc=False):
    """Of a trace, as `liftlog.trace.replica_lines` has it; of lines of other kinds nothing is needed."""

    type: str
    node: int = 0
    start: int = 0
    partition: tuple[int, int] = (0, 0)
    after: _State | None = None
    at_us: int = 0


class _Kind(msgspec.Struct, frozen=True, gc=False):
    type: str


_KIND, _LINE = msgspec.json.Decoder(_Kind), msgspec.json.Decoder(_Line)


class ReplicaFacts:
    """Of one run of one replica, from when its log was opened on: what each step adds to what was told.
    `contents`: values by offset and epoch.
    """

    def __init__(self, key: str, contents: Mapping[tuple[int, int], Value]) -> None:
        self.cut = 0
        """How many records were cut off, whether anybody knows them or not."""
        self._key = key
        self._contents = contents
        self._tail: Tail | None = None
        self._told = (-1, -1)

    def stepped(self, tail: Tail, epoch: int, hw: int) -> list[Mop]:
        """After a step."""
        before, self._tail = self._tail, tail
        facts: list[Mop] = []
        for offset, written in cut_off(before, tail) if before is not None else ():
            self.cut += 1
            if (offset, written) in self._contents:
                value = self._contents[offset, written]
                facts.append(Mop("truncate", self._key, offset, value, epoch))
        if self._told != (epoch, hw):
            self._told = epoch, hw
            facts.append(Mop("hw", self._key, hw, None, epoch))
        return facts


class ReplicaRecorder(ClientRecorder):
    """Of the replicas of one partition, (stream id, index). `contents`: as of `ReplicaFacts`."""

    def __init__(
        self,
        writer: HistoryWriter,
        key: str,
        partition: tuple[int, int],
        contents: Mapping[tuple[int, int], Value],
        *,
        first_process: int = 1,
    ) -> None:
        super().__init__(writer, first_process)
        self.key, self.partition = key, partition
        self.cut = 0
        """How many records the replicas have cut off, whether anybody knows them or not."""
        self._contents = contents

    def trace(self, path: Path) -> None:
        """What the trace of one node says. A torn line, as a killed process leaves it, says nothing."""
        runs: dict[int, tuple[int, ReplicaFacts]] = {}
        with path.open("rb") as lines:
            for text in lines:
                line = _line(text)
                if line is not None and line.partition == self.partition:
                    self._stepped(line, runs)
        self.cut += sum(facts.cut for _, facts in runs.values())

    def _stepped(self, line: _Line, runs: dict[int, tuple[int, ReplicaFacts]]) -> None:
        """`runs`: by process of the node, that whose log is open now."""
        state = line.after
        if state is None or state.state != "ready":
            _, closed = runs.pop(line.start, (0, None))
            self.cut += closed.cut if closed is not None else 0
            return
        if line.start not in runs:
            runs[line.start] = self.process(), ReplicaFacts(self.key, self._contents)
        process, facts = runs[line.start]
        told = facts.stepped(Tail(state.log_start, state.leo, state.history), state.epoch, state.hw)
        if told:
            at_ns = line.at_us * NS_PER_US
            self.writer.record(process, REPLICA, told, at_ns, at_ns + NS_PER_US)


def _line(text: bytes) -> _Line | None:
    """A line about a replica; None for any other."""
    try:
        return _LINE.decode(text) if _KIND.decode(text).type == REPLICA else None
    except msgspec.MsgspecError:
        return None
