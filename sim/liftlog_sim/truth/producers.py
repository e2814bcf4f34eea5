"""The truth about numbered messages: what was committed of producers, in a stream that remembers them (L2).

    ProducedOnce     no message of a run is committed twice
    ProducedInOrder  none is committed before the one that precedes it in its run
    RunsFenced       behind the first message of a run there is none of an older one

All while the producer is remembered: its last message is younger than the window, by the times in the log.
"""

from __future__ import annotations

from typing import NamedTuple

from liftlog.options.numbered import stored_number
from liftlog.types import Record
from liftlog_sim.truth.message_ids import IdsFinding


class _Last(NamedTuple):
    """The last message of a producer."""

    run: int
    sequence: int
    offset: int
    at_ms: int


class StoredNumbers:
    """Of one partition, in the order in which records are committed."""

    __slots__ = ("_last", "_runs")

    def __init__(self) -> None:
        self._last: dict[bytes, _Last] = {}
        self._runs: dict[bytes, int] = {}

    def newest_run(self, producer: bytes) -> int:
        """The newest run of which anything was ever committed; -1: there is none."""
        return self._runs.get(producer, -1)

    def committed(self, offset: int, record: Record, window_ms: int) -> IdsFinding | None:
        """This record is the next one that is committed; what is wrong with that, if anything."""
        number = stored_number(record.headers)
        if number is None:
            return None
        producer, run, sequence = number.numbered
        last = self._last.get(producer)
        self._last[producer] = _Last(run, sequence, offset, record.timestamp_ms)
        self._runs[producer] = max(run, self._runs.get(producer, -1))
        if last is None or record.timestamp_ms >= last.at_ms + window_ms:
            last = _Last(-1, -1, -1, 0)
        what = f"offset {offset} has message {sequence} of run {run} of {producer.decode()}"
        before = f"the one before it is {last.sequence} of run {last.run}, at {last.offset}"
        due = last.sequence + 1 if last.run == run else 0
        if run < last.run:
            return IdsFinding("RunsFenced", f"{what}; {before}")
        if sequence < due:
            return IdsFinding("ProducedOnce", f"{what}; {before}")
        if sequence > due:
            return IdsFinding("ProducedInOrder", f"{what}; {before}")
        return None
