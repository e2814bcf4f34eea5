"""Every broken promise by name, and one of them in a sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from liftlog_jepsen.judgement import Judgement, Problem
from liftlog_jepsen.promises.kernel import anomaly_order
from liftlog_jepsen.result import PROMISE_MEANINGS as PROMISES
from liftlog_jepsen.result import shorten


def explain(row: Mapping[str, Any]) -> str:
    """One row of the result in one sentence, with its values, offsets and operations."""
    e = row["evidence"]
    ops = row["ops"]
    first, last = f"#{ops[0]}", f"#{ops[-1]}"
    value, other, subject = shorten(e["value"]), shorten(e["other_value"]), shorten(e["subject"])
    offset, before = e["offset"], e["other_offset"]
    told = "no cursor" if offset is None else f"cursor {offset}"
    sequence = f"number {e['sequence']} of producer {subject}, epoch {e['epoch']},"
    sentences = {
        "hw-back": (
            f"process {e['process']} was told HW {before} by operation {first}, then HW {offset} by {last}"
        ),
        "read-above-hw": (
            f"operation {first} returned {value} at offset {offset}, but the HW it told is {before}"
        ),
        "read-truncated": (
            f"{value} was read at offset {offset} by operation {first}, then process {e['other_process']} "
            f"cut it off (operation {last}), and no later read has it"
        ),
        "sequence-duplicate": (
            f"{sequence} lies at offsets {offset} and {before} (operations {first} and {last})"
        ),
        "sequence-reordered": (
            f"{sequence} lies at offset {offset} (operation {last}), above number {e['other_sequence']} at "
            f"offset {before} (operation {first})"
        ),
        "sequence-gap": (
            f"{sequence} lies at offset {offset} (operation {last}), the next after number "
            f"{e['other_sequence']} at offset {before} (operation {first}): what lies between belongs to "
            "others"
        ),
        "fenced-producer": (
            f"producer {subject} stored {value} of epoch {e['epoch']} at offset {offset} (operation {last}), "
            f"above {other} of its epoch {e['other_epoch']} at offset {before} (operation {first})"
        ),
        "last-value-lost": (
            f"the last record of key {subject} is {value} at offset {offset} (operation {first}), but the "
            f"final read of process {e['process']} does not have it (operation {last})"
        ),
        "deleted-value-back": (
            f"key {subject} was deleted at offset {offset} (operation {first}), but the final read of "
            f"process {e['process']} shows {other} at offset {before} and no tombstone (operation {last})"
        ),
        "generation-back": (
            f"group {subject} told generation {e['epoch']} (operation {last}) after it had told generation "
            f"{e['other_epoch']} (operation {first})"
        ),
        "two-owners": (
            f"in generation {e['epoch']} of group {subject} process {e['other_process']} owns {row['key']} "
            f"(operation {first}), and so does process {e['process']} (operation {last})"
        ),
        "stale-commit": (
            f"group {subject} accepted a commit of generation {e['epoch']} (operation {last}) though it had "
            f"told generation {e['other_epoch']} before (operation {first})"
        ),
        "cursor-back": (
            f"group {subject}: {told} (operation {last}) after cursor {before} had been committed "
            f"(operation {first})"
        ),
        "phantom-cursor": f"group {subject} told cursor {offset} (operation {first}), which nobody committed",
        "output-duplicate": (
            f"group {subject} transformed the record at offset {offset} in operations {first} and {last}"
        ),
        "output-missing": (
            f"group {subject} committed cursor {before} (operation {last}), but never transformed the record "
            f"at offset {offset} (operation {first})"
        ),
        "cursor-apart": (
            f"group {subject} transformed the record at offset {offset} in operation {first}, which commits "
            f"{'no cursor' if before is None else f'cursor {before}'}"
        ),
        **_compared(row),
        **_consumed(row),
    }
    return sentences[row["anomaly"]]


def _compared(row: Mapping[str, Any]) -> dict[str, str]:
    """Sentences on compare and set."""
    e, ops = row["evidence"], row["ops"]
    first, last = f"#{ops[0]}", f"#{ops[-1]}"
    value, other = shorten(e["value"]), shorten(e["other_value"])
    offset, before = e["offset"], e["other_offset"]
    refused = f"{value} was refused by operation {last if row['anomaly'] == 'stale-refusal' else first}"
    refused += ", " if e["expected"] is None else f", which expected offset {e['expected']}, "
    refused += f"and told that the log ended at {offset}"
    seen = "was told that it lies" if first == last else f"was read by operation {last}"
    return {
        "misplaced": (
            f"{value} of operation {first} expected offset {e['expected']}, but {seen} at offset {offset}: "
            "it should lie there or not at all"
        ),
        "refused-as-expected": f"{refused}, which is just what it expected: it should have been stored",
        "stale-refusal": (
            f"{refused}; but before that began, operation {first} of process {e['other_process']} had ended, "
            f"which shows that it ended at {before} or later"
        ),
        "dirty-refusal": (
            f"{refused}; but nobody was ever told of, or read, an offset above {before}, final reads that "
            "began later included: what it rests on was never committed"
            if first == last
            else f"{refused}; but {other}, at offset {before}, was sent by operation {last} only after that "
            "had ended: what it rested on was cut"
        ),
        "late-append": (
            f"{value} lies at offset {offset}, but operation {last} sent it after operation {first} had read "
            f"{other} at offset {before}: it was put below what was there"
        ),
        "phantom-offset": (
            f"operation {first} shows that the log had {before} records, but nobody can have sent what lies "
            f"at offset {offset}: a writer is missing from the history, or the log counts what is not there"
        ),
    }


def _consumed(row: Mapping[str, Any]) -> dict[str, str]:
    """Sentences on durable consumers."""
    e, ops = row["evidence"], row["ops"]
    first, last = f"#{ops[0]}", f"#{ops[-1]}"
    offset, before, sequence, other = e["offset"], e["other_offset"], e["sequence"], e["other_sequence"]
    consumer = f"consumer {e['subject']} was given offset {offset}"
    alone = first == last
    below = f"consumer {e['subject']} says that all below offset {before} is done (operation {last})"
    return {
        "acked-again": (
            f"{consumer} by operation {last}, recorded at {sequence} of the journal; its ack, operation "
            f"{first}, stands below {other}"
        ),
        "delivered-too-often": (
            f"{consumer} {sequence} times, and told count {other}; the limit is {e['expected']} (operation"
            f"{f' {first}' if alone else f's {first} and {last}'})"
        ),
        "count-back": (
            f"{consumer} as delivery {other} (operation {first}), then, further on in the journal, as "
            f"delivery {sequence} (operation {last})"
        ),
        "unrecorded-again": (
            f"{consumer} without a record as delivery {sequence} (operation {last})"
            f"{'' if alone else f', and without one before (operation {first})'}"
        ),
        "unrecorded-elsewhere": (
            f"{consumer} without a record in epoch {e['epoch']} (operation {last}), but it was acknowledged "
            f"in epoch {e['other_epoch']} (operation {first})"
        ),
        "first-out-of-order": (
            f"{consumer} for the first time by operation {last}, after offset {before} by operation {first}"
        ),
        "delivered-otherwise": (
            f"{consumer} as {shorten(e['value'])} (operation {last}); operation {first} knows it as "
            f"{shorten(e['other_value'])}"
        ),
        "skipped": f"{below}, but nobody was given offset {offset}, which is there (operation {first})",
        "done-unsaid": (
            f"{below}, but nobody acked, or gave up, offset {offset}, which is there (operation {first})"
        ),
    }


def judge(rows: Iterable[Mapping[str, Any]], totals: Mapping[str, int] | None = None) -> Judgement:
    """The judgement on one history from rows of the result; `totals` if the rows are only examples."""
    ranks = {name: rank for rank, name in enumerate(PROMISES)}
    ordered = sorted(rows, key=lambda row: (ranks[row["anomaly"]], anomaly_order(row)))
    counted: dict[str, int] = {}
    for row in ordered:
        counted[row["anomaly"]] = counted.get(row["anomaly"], 0) + 1
    problems = tuple(
        Problem(
            row["anomaly"],
            row["key"],
            tuple(row["ops"]),
            explain(row),
            {name: fact for name, fact in row["evidence"].items() if fact is not None},
        )
        for row in ordered
    )
    return Judgement(not problems, problems, dict(sorted((totals or counted).items())))
