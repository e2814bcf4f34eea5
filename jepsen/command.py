"""`liftlog jepsen`: histories, checked on Spark. Each verb has a module of its own."""

from __future__ import annotations

from typing import Any

from jepsen import bench_command, check_command, foreign_convert, generate_command, watch_command

VERBS = (check_command, watch_command, foreign_convert, generate_command, bench_command)
"""Each has `add_parser(verbs)`, which adds its verb."""


def add_parser(subparsers: Any) -> None:
    """Add `jepsen` and its verbs."""
    jepsen = subparsers.add_parser("jepsen", help="check histories on Spark")
    verbs = jepsen.add_subparsers(dest="verb", required=True)
    for module in VERBS:
        module.add_parser(verbs)
