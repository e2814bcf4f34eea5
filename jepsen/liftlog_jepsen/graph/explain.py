"""Cycles over logs in words: the last kernel, on a handful of rows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from liftlog_jepsen.graph.kernels import LIMIT, Batches
from liftlog_jepsen.transactions.reading import name

CYCLE_DDL = (
    "words string, "
    "cycle array<struct<`from`: bigint, `to`: bigint, edge: string, key: string, words: string>>"
)
"""What cycles have beside the columns of all anomalies: the whole in words, and each step as
`liftlog_jepsen.judgement.Problem.detail` has it under "cycle", with the ids of operations.
"""


def tell(batches: Batches, schema: pa.Schema) -> Batches:
    """One anomaly for each cycle. Rows: a step, joined with micro-operations of its source.

    Columns: anomaly, first, step, source, target, edge, log, value as the search has them; and of the source
    history_id, op_id, process, idx_inv, idx_ret; and key, text, matches: whether this is the micro-operation
    that the step is about.
    """
    steps: dict[tuple[str, int], dict[tuple[int, str], dict[str, Any]]] = defaultdict(dict)
    for batch in batches:
        for row in batch.to_pylist():
            place = (row["step"], row["edge"])
            kept = steps[row["anomaly"], row["first"]].get(place)
            if kept is None or (row["matches"], row["text"] or "") > (kept["matches"], kept["text"] or ""):
                steps[row["anomaly"], row["first"]][place] = row
    told = [_told(kind, [found[at] for at in sorted(found)]) for (kind, _), found in sorted(steps.items())]
    yield from pa.Table.from_pylist(told, schema=schema).to_batches()


def _told(anomaly: str, steps: Sequence[dict[str, Any]]) -> dict[str, Any]:
    if anomaly == LIMIT:
        return _limit(steps)
    ids = {step["source"]: step["op_id"] for step in steps}
    data = [step for step in steps if step["log"] is not None]
    cycle = [
        {
            "from": step["op_id"],
            "to": ids[step["target"]],
            "edge": step["edge"],
            "key": step["key"] if step["log"] is not None else None,
            "words": _because(step, ids),
        }
        for step in steps
    ]
    values = [step["text"] for step in data]
    return {
        "history_id": steps[0]["history_id"],
        "anomaly": anomaly,
        "key": data[0]["key"],
        "ops": [step["op_id"] for step in steps],
        "evidence": {
            "value": values[0],
            "other_value": values[1] if len(values) > 1 else None,
            "process": steps[0]["process"],
            "position": steps[0]["idx_inv"],
            "other_position": steps[0]["idx_ret"],
        },
        "words": cycle_words(cycle),
        "cycle": cycle,
    }


def _because(step: dict[str, Any], ids: dict[int, int]) -> str:
    source, target = name(step["op_id"]), name(ids[step["target"]])
    if step["edge"] == "wr":
        return f"{source} sent {step['text']} to {step['key']}, and {target} polled it"
    if step["edge"] == "ww":
        return f"{source} sent {step['text']} to {step['key']}, just before what {target} sent there"
    if step["edge"] == "process":
        return f"process {step['process']} ran {source} before {target}"
    return f"{source} ended before {target} began"


def cycle_words(cycle: Sequence[dict[str, Any]]) -> str:
    """Each step in words, and the contradiction."""
    told = [f"{name(step['from'])} is before {name(step['to'])}: {step['words']}" for step in cycle]
    return f"{'; '.join(told)}. So {name(cycle[0]['from'])} would be before itself."


def _limit(steps: Sequence[dict[str, Any]]) -> dict[str, Any]:
    step = steps[0]
    kinds = sorted({each["edge"] for each in steps})
    return {
        "history_id": step["history_id"],
        "anomaly": LIMIT,
        "key": step["key"],
        "ops": [step["op_id"]],
        "evidence": {"process": step["process"], "position": step["idx_inv"]},
        "words": (
            f"From position {step['idx_inv']} on, over {step['target'] - step['source']} positions, "
            f"operations depend on each other too densely: the search for {_listed(kinds)} was cut short"
        ),
        "cycle": [],
    }


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else ", ".join(parts[:-1]) + " and " + parts[-1]
