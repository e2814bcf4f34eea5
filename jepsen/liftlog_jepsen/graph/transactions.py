"""What Spark's workers run for cycles of transactions over lists or registers: Arrow batches in and out.

Version orders and edges are a matter of one key (`liftlog_jepsen.transactions.list_append`, `rw_register`),
so keys are dealt to tasks: `parts` cuts operations into what they did to each key, `depend` finds the
anomalies and the edges of each key. The edges of all keys then meet by piece, as those of logs do, and `tell`
says in words why the edges of the few cycles are there.
"""

from __future__ import annotations

import json
import pickle
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa

from liftlog_jepsen.events import OK as OK_OUTCOME
from liftlog_jepsen.foreign.rows import operations_of
from liftlog_jepsen.formats import edn
from liftlog_jepsen.graph.explain import cycle_words
from liftlog_jepsen.graph.kernels import EDGE, LATE, LIMIT, OK, PROCESS_SHIFT, Batches
from liftlog_jepsen.graph.order import OPEN
from liftlog_jepsen.judgement import Problem
from liftlog_jepsen.transactions import list_append, rw_register
from liftlog_jepsen.transactions.classify import KINDS, PROCESS, REALTIME, Edge
from liftlog_jepsen.transactions.findings import Findings, Reason
from liftlog_jepsen.transactions.options import Options
from liftlog_jepsen.transactions.reading import (
    ReadOrWrite,
    Transaction,
    freeze,
    name,
    read_transactions,
    text,
)

LIST_APPEND, RW_REGISTER = "list-append", "rw-register"
WRITES = {LIST_APPEND: "append", RW_REGISTER: "w"}
PROBLEM = -3
"""In place of the kind of an edge: an anomaly that is no cycle."""
REUSED = "reused-value"
"""A key with a value that was written twice: nothing is proven there, so a verdict is at best unknown."""

_NUMBER, _TEXT = pa.int64(), pa.string()
PART_SCHEMA = pa.schema(
    [
        ("file", _TEXT),
        ("key", _TEXT),
        ("number", _NUMBER),
        ("process", _NUMBER),
        ("outcome", _TEXT),
        ("start", _NUMBER),
        ("end", _NUMBER),
        ("parts", pa.binary()),
        ("problem", _TEXT),
    ]
)
PART_DDL = (
    "file string, key string, number bigint, process bigint, outcome string, start bigint, end bigint, "
    "parts binary, problem string"
)
ANOMALY_SCHEMA = pa.schema(
    [
        ("file", _TEXT),
        ("anomaly", _TEXT),
        ("key", _TEXT),
        ("operations", pa.list_(_NUMBER)),
        ("words", _TEXT),
        ("detail", _TEXT),
    ]
)
ANOMALY_DDL = "file string, anomaly string, key string, operations array<bigint>, words string, detail string"
FOUND_SCHEMA = pa.schema([*((name, _NUMBER) for name in EDGE), ("file", _TEXT), ("problem", _TEXT)])
FOUND_DDL = ", ".join([*(f"{name} bigint" for name in EDGE), "file string", "problem string"])
_ALL = 1 << 60


def parts(batches: Batches, model: str, options: Sequence[Any]) -> Batches:
    """What each operation did to each key; and what it shows to be wrong by itself, as JSON in `problem`."""
    checks = checks_of(model)
    for batch in batches:
        rows = []
        transactions = read_transactions(list(operations_of(batch)), WRITES[model])
        for file, each in zip(batch["file"].to_pylist(), transactions, strict=True):
            by_key: dict[Any, list[ReadOrWrite]] = defaultdict(list)
            for part in each.parts:
                by_key[part.key].append(part)
            shared = {name: getattr(each, name) for name in ("number", "process", "outcome", "start", "end")}
            rows += [
                {"file": file, "key": edn.write(key), "parts": pickle.dumps(mine), **shared}
                for key, mine in by_key.items()
            ]
            if each.outcome == OK_OUTCOME:
                found = findings(options)
                checks.inside(each, found)
                rows += [{"file": file, "problem": problem} for problem in _problems(found)]
        yield from pa.Table.from_pylist(rows, schema=PART_SCHEMA).to_batches()


def findings(options: Sequence[Any]) -> Findings:
    """What collects anomalies, and describes every one."""
    return Findings(Options(*options)._replace(examples=_ALL))


class KeyChecks(NamedTuple):
    """The checks of one model, one key at a time."""

    inside: Callable[[Transaction, Findings], None]
    of_key: Callable[[Sequence[Transaction], Findings], Any]
    """Checks all that transactions did to one key, and returns them with the order of versions."""
    explain: Callable[[Edge, Transaction, Any], Reason]


def checks_of(model: str) -> KeyChecks:
    """The checks of a model, LIST_APPEND or RW_REGISTER."""
    if model == LIST_APPEND:
        return KeyChecks(list_append._check_inside, _check_list, list_append._explain)
    return KeyChecks(rw_register._check_inside, _check_register, rw_register._explain)


def _check_list(transactions: Sequence[Transaction], found: Findings) -> Any:
    lists = list_append._collect(transactions)
    for one in list(lists.values()):
        if one.reused:
            found.doubt_reused(one.key, one.reused, "appended")
            del lists[one.key]
            continue
        one.settle()
        list_append._check_reads(one, found)
        list_append._check_dirty_updates(one, found)
    list_append._check_lost_updates(transactions, lists, found)
    return lists


def _check_register(transactions: Sequence[Transaction], found: Findings) -> Any:
    registers = rw_register._collect(transactions, freeze(found.options.initial))
    for register in registers.values():
        if register.reused:
            found.doubt_reused(register.key, register.reused, "written")
        register.find_versions(found.options, found)
    for transaction in transactions:
        if transaction.outcome == OK_OUTCOME:
            rw_register._check_reads(transaction, registers, found)
    rw_register._check_lost_updates(transactions, registers, found)
    return registers


def depend(batches: Batches, model: str, options: Sequence[Any]) -> Batches:
    """Anomalies and edges of keys, from the sorted parts of whole keys; columns base and log besides."""
    checks = checks_of(model)
    waiting: list[dict[str, Any]] = []
    for (file, _), rows in groupby(_rows(batches), lambda row: (row["file"], row["key"])):
        listed = list(rows)
        found = findings(options)
        objects = checks.of_key([_transaction(row) for row in listed], found)
        waiting += [
            dict.fromkeys(EDGE, 0) | {"kind": PROBLEM, "file": file, "problem": problem}
            for problem in _problems(found)
        ]
        by_number = {row["number"]: row for row in listed}
        for one in objects.values():
            waiting += [
                _edge(by_number[source], by_number[target], kind) for source, target, kind in one.edges()
            ]
        if len(waiting) > 100_000:
            yield from pa.Table.from_pylist(waiting, schema=FOUND_SCHEMA).to_batches()
            waiting = []
    yield from pa.Table.from_pylist(waiting, schema=FOUND_SCHEMA).to_batches()


def _rows(batches: Batches) -> Iterator[dict[str, Any]]:
    return (row for batch in batches for row in batch.to_pylist())


def _transaction(row: dict[str, Any]) -> Transaction:
    # Written by `parts`, a moment ago, in the same job.
    mine = tuple(pickle.loads(row["parts"]))
    return Transaction(row["number"], row["process"], row["outcome"], row["start"], row["end"], mine)


def _edge(source: dict[str, Any], target: dict[str, Any], kind: str) -> dict[str, int]:
    first, second = _stand(source), _stand(target)
    return {
        "log": source["log"],
        "value": 0,
        **first,
        "kind": KINDS.index(kind),
        **{f"to_{name}": value for name, value in second.items()},
    }


def _stand(row: dict[str, Any]) -> dict[str, int]:
    ok = row["outcome"] == OK_OUTCOME and row["end"] is not None
    return {
        "at": row["start"] + row["base"],
        "ret": row["end"] + row["base"] if ok else int(OPEN),
        "who": row["process"] << PROCESS_SHIFT | (OK | LATE) * ok,
    }


def _problems(found: Findings) -> Iterator[str]:
    """Anomalies and doubts as JSON: anomaly, key, operations, words."""
    for anomaly in sorted(found.problems):
        for problem in found.problems[anomaly]:
            yield json.dumps([*problem[:4]])
    for reason in found.unsure:
        yield json.dumps([REUSED, None, [], reason])


def problems(batches: Batches) -> Batches:
    """The anomalies that are no cycles, from rows with columns file and problem."""
    for batch in batches:
        told = [_anomaly(row["file"], Problem(*json.loads(row["problem"]))) for row in batch.to_pylist()]
        yield from pa.Table.from_pylist(told, schema=ANOMALY_SCHEMA).to_batches()


def _anomaly(file: str, problem: Problem) -> dict[str, Any]:
    detail = json.dumps(problem.detail) if problem.detail else None
    return {
        "file": file,
        "anomaly": problem.anomaly,
        "key": problem.key,
        "operations": list(problem.operations),
        "words": problem.words,
        "detail": detail,
    }


def tell(batches: Batches, model: str, options: Sequence[Any]) -> Batches:
    """Cycles in words, from the steps of whole cycles, each with all parts of its key: columns of a part and
    of a step, `step_log` and `step_first` among them.
    """
    cycles: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for row in _rows(batches):
        cycles[row["anomaly"], row["first"]].append(row)
    told = [_told(kind, cycles[kind, first], model, options) for kind, first in sorted(cycles)]
    yield from pa.Table.from_pylist(told, schema=ANOMALY_SCHEMA).to_batches()


def _told(anomaly: str, rows: Sequence[dict[str, Any]], model: str, options: Sequence[Any]) -> dict[str, Any]:
    file = rows[0]["file"]
    at = {row["start"] + row["base"]: row for row in rows}
    if anomaly == LIMIT:
        kinds = ", ".join(sorted({row["edge"] for row in rows}))
        first = at[rows[0]["source"]]["number"]
        words = f"around {name(first)}, transactions depend on each other too densely to search for {kinds}"
        return _anomaly(file, Problem(LIMIT, None, (first,), words))
    by_step: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        by_step[row["step"]].append(row)
    steps: list[dict[str, Any]] = []
    where = None
    for number in sorted(by_step):
        step = by_step[number][0]
        if where is not None and where != step["source"]:
            steps.append(_timed(at[where], at[step["source"]], anomaly))
        steps.append(_explained(step, by_step[number], at, model, options))
        where = step["target"]
    start = by_step[min(by_step)][0]["source"]
    if where != start:
        steps.append(_timed(at[where], at[start], anomaly))
    turn = min(range(len(steps)), key=lambda place: steps[place]["from"])
    steps = steps[turn:] + steps[:turn]
    numbers = tuple(step["from"] for step in steps)
    return _anomaly(file, Problem(anomaly, None, numbers, cycle_words(steps), {"cycle": steps}))


def _timed(source: dict[str, Any], target: dict[str, Any], anomaly: str) -> dict[str, Any]:
    """The edge of time between two edges of data; no two such edges follow each other in a smallest cycle."""
    first, second = name(source["number"]), name(target["number"])
    process = anomaly.endswith(f"-{PROCESS}")
    words = (
        f"process {source['process']} ran {first} before {second}"
        if process
        else f"{first} ended before {second} began"
    )
    edge = PROCESS if process else REALTIME
    return {"from": source["number"], "to": target["number"], "edge": edge, "key": None, "words": words}


def _explained(
    step: dict[str, Any],
    rows: Iterable[dict[str, Any]],
    at: dict[int, dict[str, Any]],
    model: str,
    options: Sequence[Any],
) -> dict[str, Any]:
    """Why an edge of data is there."""
    checks = checks_of(model)
    listed = [_transaction(row) for row in sorted(rows, key=lambda row: row["start"])]
    source, target = at[step["source"]]["number"], at[step["target"]]["number"]
    reason = checks.explain(
        Edge(source, target, step["edge"]),
        next(each for each in listed if each.number == target),
        checks.of_key(listed, findings(options)),
    )
    return {
        "from": source,
        "to": target,
        "edge": step["edge"],
        "key": text(reason.key),
        "words": reason.words,
    }
