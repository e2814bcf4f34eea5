"""`liftlog jepsen`: histories, checked on Spark. Each verb has a module in `liftlog_jepsen/commands`."""

from __future__ import annotations

from typing import Any

from liftlog_jepsen.commands import bench, check, convert, generate, watch

VERBS = (check, watch, convert, generate, bench)
"""Each has `add_parser(verbs)`, which adds its verb."""


def add_parser(subparsers: Any) -> None:
    """Add `jepsen` and its verbs."""
    jepsen = subparsers.add_parser("jepsen", help="check histories on Spark")
    verbs = jepsen.add_subparsers(dest="verb", required=True)
    for module in VERBS:
        module.add_parser(verbs)
