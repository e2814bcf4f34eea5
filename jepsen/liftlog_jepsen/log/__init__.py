"""The log checks: every anomaly of an offset-addressed log, computed over columns.

*Why this is cheap.* Checking linearizability is NP-hard in general, but a log names the position of every
value: the offsets *are* the linearization order, so each promise becomes one pass over columns or one pass
in offset order. docs/log-checks.md defines every anomaly.

Three kinds of checks, each with what it needs side by side: `values` (all rows of one value), `places` (all
values of a log, or of a stretch of it, in the order of offsets) and `sessions` (what one process did with one
log, in its own order). `whole` runs the three over complete logs in one task; `tiles` runs the same three
over parts of logs that are too large for one.
"""

from liftlog_jepsen.log.columns import ASSIGN, FAIL, INFO, OK, POLL, REBALANCE, SEND
from liftlog_jepsen.log.found import ANOMALIES
from liftlog_jepsen.log.table import EVIDENCE, INPUT_COLUMNS, OUTPUT_DDL, anomaly_order, check_table
from liftlog_jepsen.log.whole import GAPS, UNSEEN, Rules, check_whole

__all__ = [
    "ANOMALIES",
    "ASSIGN",
    "EVIDENCE",
    "FAIL",
    "GAPS",
    "INFO",
    "INPUT_COLUMNS",
    "OK",
    "OUTPUT_DDL",
    "POLL",
    "REBALANCE",
    "SEND",
    "UNSEEN",
    "Rules",
    "anomaly_order",
    "check_table",
    "check_whole",
]
