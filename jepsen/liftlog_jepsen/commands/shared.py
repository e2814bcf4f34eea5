"""What several verbs share: arguments, what is wrong with them in the same words, and where results go."""

from __future__ import annotations

import argparse
import re
import sys

from rich.console import Console

from liftlog.types import LiftlogError
from liftlog_jepsen.result import EVERY_MEANING

DEFAULT_MASTER = "local[2]"
MASTER = re.compile(r"local(-cluster)?(\[.+\])?$|spark://.+|k8s://.+|yarn$")
WIDTH_WITHOUT_TERMINAL = 140


def add_session(parser: argparse.ArgumentParser, memory: str | None = None) -> None:
    """--master and --driver-memory. `memory` None = what `liftlog_jepsen.spark.session` finds fitting."""
    parser.add_argument(
        "--master", default=DEFAULT_MASTER, metavar="URL", help=f"Spark master (default {DEFAULT_MASTER})"
    )
    words = "4g, or less where less is free" if memory is None else memory
    parser.add_argument(
        "--driver-memory",
        default=memory,
        metavar="SIZE",
        help=f"memory of Spark's driver (default {words})",
    )


def add_judging(parser: argparse.ArgumentParser) -> None:
    """--gaps and --allow."""
    parser.add_argument(
        "--gaps",
        choices=("known", "any"),
        default="known",
        help="what a reader must not pass over: offsets known to exist (default), or any offset at all",
    )
    parser.add_argument(
        "--allow",
        action="append",
        default=[],
        metavar="ANOMALY",
        help="report this anomaly, but do not count it; may be given several times",
    )


def require_master(arguments: argparse.Namespace) -> None:
    """Raise LiftlogError for what is no Spark master."""
    if not MASTER.match(arguments.master):
        raise LiftlogError(
            f"--master {arguments.master} is no Spark master: "
            "give local[2], spark://HOST:PORT, yarn or k8s://URL"
        )


def require_allowed(arguments: argparse.Namespace) -> None:
    """Raise LiftlogError for an anomaly to allow that does not exist."""
    for name in arguments.allow:
        if name not in EVERY_MEANING:
            raise LiftlogError(
                f"--allow {name}: there is no such anomaly; there are {', '.join(EVERY_MEANING)}"
            )


def stdout_console() -> Console:
    """For results: as wide as the terminal, or wide enough for tables where there is none."""
    return Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH_WITHOUT_TERMINAL)
