"""Anomalies as columns of numbers, while they are being found.

A value is named by one micro-operation that carries it (operation and position), from which its text can be
looked up later; so can the key's name, from any operation of the log.
"""

from __future__ import annotations

import numpy as np

from liftlog_jepsen.log.columns import NONE, Block, Ints, concatenate

ANOMALIES = (
    "inconsistent-offsets",
    "duplicate",
    "lost-write",
    "unseen",
    "missing-in-final-read",
    "G1a",
    "precommitted-read",
    "phantom",
    "future-read",
    "realtime-order",
    "nonmonotonic-epoch",
    "two-leaders",
    "nonmonotonic-send",
    "int-nonmonotonic-send",
    "int-send-skip",
    "nonmonotonic-poll",
    "int-nonmonotonic-poll",
    "poll-skip",
    "int-poll-skip",
    "reused-value",
)
"""Their numbers are the places in this list."""
NUMBER = {name: number for number, name in enumerate(ANOMALIES)}

FACTS = (
    "offset", "other_offset", "process", "position", "other_position",
    "epoch", "other_epoch", "leader", "other_leader",
)  # fmt: skip
REFERENCES = ("value_op", "value_pos", "other_op", "other_pos")
FOUND_COLUMNS = ("history", "log", "anomaly", "op_1", "op_2", *REFERENCES, *FACTS)


class LogFindings:
    """Collects anomalies. What does not apply is NONE."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []

    def add(self, anomaly: str, history: Ints, log: Ints, op_1: Ints, **columns: Ints) -> None:
        """One kind of anomaly: a row for each element of the columns."""
        if not len(log):
            return
        nothing = np.full(len(log), NONE, np.int64)
        block = {name: columns.get(name, nothing) for name in FOUND_COLUMNS}
        block.update(history=history, log=log, op_1=op_1, anomaly=np.full(len(log), NUMBER[anomaly]))
        # An operation that is missing leaves its place to the next.
        first = op_1 == NONE
        if first.any():
            block["op_1"] = np.where(first, block["op_2"], op_1)
            block["op_2"] = np.where(first, NONE, block["op_2"])
            # A value that nobody sent, and that only polls without ok returned: one of these shows it.
            nobody = block["op_1"] == NONE
            block["op_1"] = np.where(nobody, block["value_op"], block["op_1"])
        self._blocks.append(block)

    def extend(self, block: Block) -> None:
        if len(block["log"]):
            self._blocks.append(block)

    def block(self) -> Block:
        return concatenate(self._blocks, FOUND_COLUMNS)
