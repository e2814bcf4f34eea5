"""Makes histories: small random ones that may break any promise, and large ones with planted anomalies.

`liftlog_jepsen.generate.large` writes histories of any size; it needs numpy and pyarrow and is imported where
it is used.
"""

from liftlog_jepsen.generate.anomalies import CYCLES, PLANTABLE, near_miss, plant
from liftlog_jepsen.generate.answers import Planted, check_planted, read_answer
from liftlog_jepsen.generate.small import fill, large_history, random_history

__all__ = [
    "CYCLES",
    "PLANTABLE",
    "Planted",
    "check_planted",
    "fill",
    "large_history",
    "near_miss",
    "plant",
    "random_history",
    "read_answer",
]
