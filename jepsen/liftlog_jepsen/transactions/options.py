"""What the caller of a check may choose."""

from __future__ import annotations

from typing import Any, NamedTuple

from liftlog_jepsen.transactions.classify import STEPS
from liftlog_jepsen.transactions.orders import STEPS as ORDER_STEPS


class Options(NamedTuple):
    """How transactions are judged. All assumptions beyond what histories show are off.

    consistency_model: the model, or several with commas between them, that the history must obey; None is
    strict serializability. Names: `liftlog_jepsen.transactions.consistency`.
    anomalies: more anomalies that must not be there, whatever the model says.
    initial: the value of a register before anybody wrote, besides nil, if the history's writers know one.
    wfr_keys: a transaction that reads a register and then writes it has overwritten what it read.
    sequential_keys: each register is sequentially consistent: versions follow the order of each process.
    linearizable_keys: each register is linearizable: versions follow real time.
    examples: problems of one kind that are described; the others are counted.
    steps: edges that the search for one kind of cycle in one component may follow.
    order_steps: steps of z3 in the search for an order of transactions over registers.
    """

    consistency_model: str | None = None
    anomalies: tuple[str, ...] = ()
    initial: Any = None
    wfr_keys: bool = False
    sequential_keys: bool = False
    linearizable_keys: bool = False
    examples: int = 8
    steps: int = STEPS
    order_steps: int = ORDER_STEPS
