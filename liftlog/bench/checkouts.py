"""Nodes of two checkouts beside each other: what scripts that compare them have in common.

Nodes of both are up at once, and one works at a time, in alternating rounds (`rounds.py`); the programs are
those of the checkout that runs the script.
"""

from __future__ import annotations

import argparse
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from liftlog.bench.cluster import LiftlogCluster
from liftlog.bench.rounds import ratios, turns
from liftlog.real.local_cluster import LocalNode
from liftlog.scratch import Scratch

CHECKOUT = "NAME=FOLDER"
"""How a checkout is named; its folder holds a `liftlog` package."""


class Named(Protocol):
    name: str


S = TypeVar("S", bound=Named)


def parsed(text: str) -> tuple[str, str]:
    """Name and folder of a `CHECKOUT`, a type of argparse. Raises ArgumentTypeError."""
    name, _, folder = text.partition("=")
    if not name or not folder or not (Path(folder) / "liftlog").is_dir():
        said = f"{text!r} names no checkout: say {CHECKOUT}, of a folder with a liftlog package"
        raise argparse.ArgumentTypeError(said)
    return name, folder


def run_from(nodes: Iterable[LocalNode], folder: str) -> None:
    """Have nodes, before they start, run the package of a checkout."""
    for node in nodes:
        node.packages = os.fspath(Path(folder).resolve())


def started(scratch: Scratch, checkout: tuple[str, str], subject: str, stream: str) -> LiftlogCluster:
    """One node of a checkout (`parsed`) that runs, with a stream that has a journal."""
    name, folder = checkout
    system = LiftlogCluster(scratch, 1, subject, stream, name, removal=True)
    run_from(system.local.nodes.values(), folder)
    system.start()
    return system


def threads_us(pid: int) -> tuple[float, float]:
    """Processor time of a process's first thread so far, and of all its others, in microseconds."""
    first = rest = 0.0
    for task in Path(f"/proc/{pid}/task").iterdir():
        spent = int((task / "schedstat").read_text().split()[0]) / 1000
        first, rest = (spent, rest) if int(task.name) == pid else (first, rest + spent)
    return first, rest


def in_turns(
    systems: Sequence[S], rounds: int, one_round: Callable[[S, int], list[float]]
) -> dict[str, list[list[float]]]:
    """What each round gave, by the system's name. `one_round` is told which it is; round 0 does not count."""
    by_name = {system.name: system for system in systems}
    found: dict[str, list[list[float]]] = {name: [] for name in by_name}
    for number, name in turns(list(by_name), rounds):
        row = one_round(by_name[name], number)
        if number:
            found[name].append(row)
    return found


def beside(old: Sequence[float], new: Sequence[float], digits: int = 1, unit: str = "") -> str:
    """Medians of both, and the ratios within the rounds: median (least to greatest)."""
    over = ratios(new, old)
    medians = " and ".join(f"{statistics.median(each):.{digits}f}" for each in (old, new))
    return f"{medians}{unit}, {statistics.median(over):.2f} ({min(over):.2f} to {max(over):.2f})"
