"""Turns what the publisher and the readers saw into a history: invocations, and ok, fail or info for each."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from liftlog.demo.publisher import FAIL, INFO, OK, OPEN, Attempts
from liftlog.demo.readback import Poll, ReplicaRead
from liftlog.rooms import room_module

OUTCOMES = {OK: "ok", FAIL: "fail", INFO: "info", OPEN: "info"}
FINAL_POLL = "final-poll"


class Kill(NamedTuple):
    """A node that was killed, and when it was started again."""

    node: int
    killed_ns: int
    restarted_ns: int


def new_history(name: str, meta: dict[str, str]) -> Any:
    """A `liftlog_jepsen.history.HistoryWriter`, for all that the run will tell."""
    return room_module("liftlog_jepsen.history").HistoryWriter(name, meta=meta)


def write_history(
    folder: Path,
    name: str,
    key: str,
    attempts: Attempts,
    reads: Sequence[ReplicaRead],
    kills: Sequence[Kill],
    meta: dict[str, str],
) -> Any:
    """Write the history as Parquet into `folder`; returns it (a `liftlog_jepsen.history.History`)."""
    return end_history(folder, new_history(name, meta), key, attempts, reads={key: reads}, kills=kills)


def end_history(
    folder: Path,
    writer: Any,
    key: str,
    attempts: Attempts,
    *,
    reads: Mapping[str, Sequence[ReplicaRead]],
    kills: Sequence[Kill],
    first_process: int = 0,
) -> Any:
    """As `write_history`, of a `writer` that has something already, by processes below `first_process`.
    `attempts` are at the log `key`; `reads` has for each log what its replicas have.
    """
    _record_attempts(writer, key, attempts, first_process)
    process = first_process + max(attempts.process) + 1
    now_ns = time.monotonic_ns()
    for log, replicas in reads.items():
        for read in replicas:
            writer.client(process, f"node {read.node}")
            # A replica that has nothing is a reader, too: one that missed everything.
            for poll in read.polls or [Poll(0, [], now_ns, now_ns)]:
                writer.record_poll(
                    process, log, poll.first, poll.values, poll.t_inv_ns, poll.t_ret_ns, f=FINAL_POLL
                )
            process += 1
    for kill in kills:
        writer.fault("kill", f"node {kill.node}", kill.killed_ns, kill.restarted_ns)
    history = writer.close()
    room_module("liftlog_jepsen.parquet").write_parquet(history, folder)
    return history


def _record_attempts(writer: Any, key: str, attempts: Attempts, first_process: int) -> None:
    # One process has one epoch per call: group the attempts of a process by epoch and leader of their acks.
    groups: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for number in range(len(attempts)):
        groups[attempts.process[number], attempts.epoch[number], attempts.leader[number]].append(number)
    for (process, epoch, leader), numbers in groups.items():
        answered = [attempts.outcome[n] in (OK, FAIL) for n in numbers]
        writer.record_sends(
            first_process + process,
            key,
            values=[attempts.value[n] for n in numbers],
            t_inv_ns=[attempts.t_inv_ns[n] for n in numbers],
            t_ret_ns=[
                attempts.t_ret_ns[n] if known else None for n, known in zip(numbers, answered, strict=True)
            ],
            offsets=[attempts.offset[n] if attempts.outcome[n] == OK else None for n in numbers],
            outcomes=[OUTCOMES[attempts.outcome[n]] for n in numbers],
            epoch=epoch if epoch >= 0 else None,
            leader=leader if leader >= 0 else None,
        )
