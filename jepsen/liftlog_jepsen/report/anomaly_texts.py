"""What each anomaly of a foreign history means, in one line, and what the check of a model covers.

Anomalies of transactions are Adya's and Elle's; those of tallies come from `liftlog_jepsen.tallies`, those of
logs from `liftlog_jepsen.result`.
"""

from __future__ import annotations

from liftlog_jepsen.result import EVERY_MEANING
from liftlog_jepsen.result import MEANINGS as LOG_MEANINGS
from liftlog_jepsen.tallies import ANOMALIES as TALLY_MEANINGS

NONLINEARIZABLE = "nonlinearizable"

TRANSACTION_MEANINGS = {
    "G0": "write cycle: transactions overwrote each other in opposite orders",
    "G1c": "circular information flow: each transaction saw or overwrote the next one's writes",
    "G-single": "read skew: a cycle in which exactly one read missed a later write",
    "G-nonadjacent": "a cycle in which several reads missed later writes, no two of them in a row",
    "G2-item": "write skew: a cycle in which reads missed later writes",
    "G1a": "aborted read: a value was read although the transaction that wrote it failed",
    "G1b": "intermediate read: a value was read that its own transaction overwrote later",
    "dirty-update": "a committed transaction built on the write of one that failed",
    "lost-update": "transactions read one version and both replaced it, so one of the updates is lost",
    "internal": "a transaction's read contradicts what the same transaction did or read before",
    "duplicate-elements": "one element is in a list twice",
    "incompatible-order": "two reads saw the elements of one list in different orders",
    "cyclic-versions": "the versions of one object follow each other in a circle",
    "no-serial-order": "no order in which the transactions ran one after the other explains what they read",
    "no-snapshot-order": "no order of snapshots and commits explains what the transactions read",
    "future-read": "a transaction read what only it wrote later",
    "phantom": "a value was read that nobody wrote",
}
SUFFIXES = {
    "-process": ", in part only by the order of one process's transactions",
    "-realtime": ", in part only because one transaction had ended before another began",
}

OBJECT_LIMITS = (
    "each key on its own: order between different keys is not part of linearizability",
    "operations without an answer count as possible at any later time, or never",
)
TRANSACTION_LIMITS = (
    "predicates: reads and writes name their items, so phantoms in Adya's sense cannot show",
    "a history that shows no anomaly is not proven free of them: version orders come from what was read",
)
TALLY_LIMITS = ("anything but this tally: order and isolation of other operations",)


def meaning_in_log(anomaly: str) -> str:
    """One line on an anomaly of a log, where some names mean something else than between transactions."""
    return EVERY_MEANING.get(anomaly) or meaning(anomaly)


def meaning(anomaly: str) -> str:
    """One line on an anomaly; nothing for one that is not known here, such as a custom model's own."""
    base, suffix = anomaly, ""
    for name in SUFFIXES:
        if anomaly.endswith(name):
            base, suffix = anomaly.removesuffix(name), SUFFIXES[name]
    if base == NONLINEARIZABLE:
        return "no order of the operations respects both real time and what the object allows"
    if base in TRANSACTION_MEANINGS:
        return TRANSACTION_MEANINGS[base] + suffix
    if base in TALLY_MEANINGS:
        # Those begin with the names of their checks, which a report has said already.
        return TALLY_MEANINGS[base].partition(": ")[2]
    return EVERY_MEANING.get(base, "")


def covered(model: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The anomalies that the check of a model looks for, and what it leaves open, in words."""
    if model in ("list-append", "rw-register"):
        cycles = ("G0", "G1c", "G-single", "G-nonadjacent", "G2-item")
        listed = {
            "list-append": (
                "duplicate-elements",
                "incompatible-order",
                "dirty-update",
                "phantom",
                "future-read",
            ),
            "rw-register": (
                "cyclic-versions",
                "phantom",
                "future-read",
                "no-serial-order",
                "no-snapshot-order",
            ),
        }[model]
        return (*cycles, "G1a", "G1b", "lost-update", "internal", *listed), TRANSACTION_LIMITS
    if model == "kafka":
        return tuple(LOG_MEANINGS), ()
    tallied = {
        "bank": ("unexpected-key", "nil-balance", "wrong-total", "negative-value"),
        "jepsen-set": ("lost", "unexpected"),
        "set-full": ("lost", "stale", "duplicated"),
        "jepsen-counter": ("out-of-bounds",),
        "long-fork": ("long-fork",),
        "comments": ("missing-comment",),
    }
    if model in tallied:
        return tallied[model], TALLY_LIMITS
    return (NONLINEARIZABLE,), OBJECT_LIMITS
