"""Histories of transactions: lists that grow by appends, and registers that are read and written.

    from liftlog_jepsen.events import pair
    from liftlog_jepsen.transactions import Options, check_list_append

    judgement = check_list_append(pair(events, "h.edn"), Options(consistency_model="serializable"))

Every dependency between transactions that a history shows is an edge; a cycle of them is an anomaly.
docs/transactions.md says what is found and how.
"""

from liftlog_jepsen.transactions.classify import CYCLES, Cycle, Edge, classify, find_cycles, shorten
from liftlog_jepsen.transactions.consistency import ANOMALIES, DEFAULT_MODEL
from liftlog_jepsen.transactions.list_append import check_list_append
from liftlog_jepsen.transactions.options import Options
from liftlog_jepsen.transactions.rw_register import check_rw_register

__all__ = [
    "ANOMALIES",
    "CYCLES",
    "DEFAULT_MODEL",
    "Cycle",
    "Edge",
    "Options",
    "check_list_append",
    "check_rw_register",
    "classify",
    "find_cycles",
    "shorten",
]
