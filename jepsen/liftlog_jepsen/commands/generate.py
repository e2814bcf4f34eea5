"""`liftlog jepsen generate`: make up histories of any size, valid or with planted anomalies.

Three kinds: a log's history as Parquet, written straight to disk in constant memory (`--operations`); a small
one through the recorders' writer, also as JSON lines; and Jepsen's EDN for the other families of checks
(`--family`).
"""

from __future__ import annotations

import argparse
import itertools
import time
from pathlib import Path
from typing import Any

from liftlog.terminal import Activity, large_number
from liftlog.types import LiftlogError
from liftlog_jepsen.generate import fill, plant
from liftlog_jepsen.generate.answers import Answer, Planted, write_answer
from liftlog_jepsen.generate.families import FAMILIES, write_family
from liftlog_jepsen.generate.shape import Shape
from liftlog_jepsen.generate.wanted import Wanted, parse_wanted
from liftlog_jepsen.history import HistoryWriter
from liftlog_jepsen.jsonl import write_jsonl

SMALL = (
    ("sends", 1000, "values sent"),
    ("keys", 2, "logs"),
    ("readers", 3, "processes that read everything at the end"),
)
LARGE = (
    ("streams", "logs"),
    ("zipf", "above 0, stream n gets traffic in proportion to n ** -ZIPF"),
    ("producers", "processes that send"),
    ("consumers", "processes that poll"),
    ("reads", "how many consumers read each stream"),
    ("final_readers", "processes that read everything once more at the end"),
    ("concurrency", "sends that are open at a time, a power of two"),
    ("info", "share of sends whose outcome nobody knows"),
    ("fail", "share of sends that failed"),
    ("sends_per_op", "above 1, transactions that send to so many streams"),
    ("assign_every", "rounds between new assignments of each consumer"),
    ("gap_every", "records between two offsets that are left out"),
)


def add_parser(verbs: Any) -> None:
    """Add the verb `generate`."""
    generate = verbs.add_parser(
        "generate",
        help="make up a history of any size, valid or with planted anomalies",
        description="Make up the history of a correct log, or one with anomalies, to try or measure checks. "
        "A history with planted anomalies has their answers beside it in planted.json.",
    )
    generate.add_argument(
        "path", type=Path, metavar="PATH", help="a new FILE.jsonl, Parquet folder, or FILE.edn with --family"
    )
    generate.add_argument(
        "--operations",
        type=large_number,
        metavar="N",
        help="a large log history as Parquet with so many sends and polled records, such as 100M",
    )
    generate.add_argument("--family", choices=FAMILIES, help="another family of histories, as Jepsen's EDN")
    generate.add_argument(
        "--seed", type=int, default=0, metavar="N", help="what chance starts from (default 0)"
    )
    generate.add_argument(
        "--batch", type=int, default=100, metavar="N", help="records of a poll (default 100)"
    )
    generate.add_argument(
        "--plant",
        action="append",
        default=[],
        metavar="NAME[@traffic][:COUNT]",
        help="plant this anomaly, or 'all', on logs of its own or amid the traffic; "
        "may be given several times",
    )
    small = generate.add_argument_group("small log histories")
    for name, default, words in SMALL:
        small.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{words} (default {default})"
        )
    large = generate.add_argument_group("large log histories, with --operations")
    for name, words in LARGE:
        default = Shape._field_defaults[name]
        shown = words if name == "producers" else f"{words} (default {default})"
        large.add_argument(
            f"--{name.replace('_', '-')}", type=type(default), default=default, metavar="N", help=shown
        )
    generate.set_defaults(run=_generate)


def _generate(arguments: argparse.Namespace) -> int:
    if arguments.family is not None:
        return _generate_family(arguments)
    wanted = parse_wanted(arguments.plant)
    if arguments.operations is not None:
        return _generate_large(arguments, wanted)
    return _generate_small(arguments, wanted)


def _generate_large(arguments: argparse.Namespace, wanted: list[Wanted]) -> int:
    from liftlog_jepsen.generate.large import write_large

    options = {name: getattr(arguments, name) for name, _ in LARGE}
    shape = Shape(operations=arguments.operations, batch=arguments.batch, seed=arguments.seed, **options)
    if arguments.path.suffix in (".jsonl", ".edn"):
        raise LiftlogError(
            f"cannot write {arguments.path}: a large history becomes a Parquet folder; leave out the ending"
        )
    started = time.monotonic()
    with Activity() as activity:
        written = write_large(shape, arguments.path, wanted, show=activity.show)
    print(
        f"wrote {arguments.path}: {written.ops:,} operations, {written.mops:,} micro-operations "
        f"in {time.monotonic() - started:.1f} s"
    )
    return 0


def _generate_small(arguments: argparse.Namespace, wanted: list[Wanted]) -> int:
    for name in ("sends", "keys", "readers", "batch"):
        if getattr(arguments, name) < 1:
            raise LiftlogError(f"--{name} {getattr(arguments, name)}: give a number of 1 or more")
    if any(each.amid for each in wanted):
        raise LiftlogError("anomalies amid the traffic need a large history: add --operations")
    planted: list[Planted] = []
    milliseconds = itertools.count(0, 1_000_000)
    meta = {"planted": ", ".join(each.anomaly for each in wanted)}
    writer = HistoryWriter(arguments.path.stem, clock_ns=lambda: next(milliseconds), meta=meta)
    with Activity() as activity:
        activity.show(f"generating {arguments.sends:,} sends")
        keys = [f"log/{number}" for number in range(arguments.keys)]
        fill(writer, keys, arguments.sends, arguments.readers, arguments.batch)
        for number, (name, turn) in enumerate(
            (each.anomaly, turn) for each in wanted for turn in range(each.number)
        ):
            key = f"planted/{name}" if turn == 0 else f"planted/{name}/{turn}"
            planted += plant(writer, name, key, process=2000 + 10 * number)
        history = writer.close()
        activity.show(f"writing {arguments.path}")
        if arguments.path.suffix == ".jsonl":
            write_jsonl(history, arguments.path)
        else:
            from liftlog_jepsen.parquet import write_parquet

            write_parquet(history, arguments.path)
            write_answer(Answer(history.name, planted), arguments.path)
    print(f"wrote {arguments.path}: {len(history):,} operations")
    return 0


def _generate_family(arguments: argparse.Namespace) -> int:
    if len(arguments.plant) > 1:
        raise LiftlogError("--plant: one anomaly at a time with --family")
    operations = 1000 if arguments.operations is None else arguments.operations
    anomaly = arguments.plant[0] if arguments.plant else None
    answer = write_family(arguments.family, arguments.path, operations, arguments.seed, anomaly)
    print(f"wrote {arguments.path}: {operations:,} operations of {arguments.family}")
    if answer is not None:
        print(f"planted {answer}")
    return 0
