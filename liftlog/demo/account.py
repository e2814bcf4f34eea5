"""Turns what the publisher and the readers saw into a history: invocations, and ok, fail or info for each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from liftlog.demo.publisher import FAIL, INFO, OK, OPEN, Attempts
from liftlog.demo.readback import Poll, ReplicaRead
from liftlog.rooms import room_module

OUTCOMES = {OK: "ok", FAIL: "fail", INFO: "info", OPEN: "info"}


class Kill(NamedTuple):
    """A node that was killed, and when it was started again."""

    node: int
    killed_ns: int
    restarted_ns: int


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
    module = room_module("liftlog_jepsen.history")
    writer = module.HistoryWriter(name, meta=meta)
    # One process has one epoch per call: group the attempts of a process by epoch and leader of their acks.
    groups: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    for number in range(len(attempts)):
        groups[attempts.process[number], attempts.epoch[number], attempts.leader[number]].append(number)
    for (process, epoch, leader), numbers in groups.items():
        answered = [attempts.outcome[n] in (OK, FAIL) for n in numbers]
        writer.record_sends(
            process,
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
    first_reader = max(attempts.process) + 1
    for process, read in enumerate(reads, start=first_reader):
        writer.client(process, f"node {read.node}")
        # A replica that has nothing is a reader, too: one that missed everything.
        for poll in read.polls or [Poll(0, [], max(attempts.t_ret_ns), max(attempts.t_ret_ns))]:
            writer.record_poll(
                process, key, poll.first, poll.values, poll.t_inv_ns, poll.t_ret_ns, f=module.FINAL_POLL
            )
    for kill in kills:
        writer.fault("kill", f"node {kill.node}", kill.killed_ns, kill.restarted_ns)
    history = writer.close()
    room_module("liftlog_jepsen.parquet").write_parquet(history, folder)
    return history
