"""Options of `liftlog bench`, looked at before anything starts."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from liftlog.types import LiftlogError


def check_range(option: str, value: float, low: float, high: float, form: str = "") -> None:
    """Raises LiftlogError for a value that is not in [low, high]; `form`: how it is written then."""
    if not low <= value <= high:
        raise LiftlogError(f"--{option} {value:{form}} is out of range; choose {low} to {high}")


def check_ranges(
    options: argparse.Namespace, ranges: Sequence[tuple[str, float, float]], form: str = ""
) -> None:
    """As `check_range`, of several: what argparse calls them, least and greatest."""
    for name, low, high in ranges:
        check_range(name.replace("_", "-"), getattr(options, name), low, high, form)


def check_folder(folder: Path | None, option: str = "dir") -> None:
    """Raises LiftlogError for what is no folder. None: none was named."""
    if folder is not None and not folder.is_dir():
        raise LiftlogError(f"--{option} {folder} is not a folder; create it or name another")
