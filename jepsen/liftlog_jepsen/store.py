"""Where runs are kept: `store/<name>/<time>/`, with a link `latest` beside the times; and finding a history
there.

A run folder holds `history.jsonl` or a Parquet folder `history/`, and whatever reports were made of it.
"""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

from liftlog.types import LiftlogError
from liftlog_jepsen.history import History
from liftlog_jepsen.jsonl import read_jsonl

JSONL_NAME = "history.jsonl"
PARQUET_NAME = "history"
OPS_FILE = "ops.parquet"


def new_run(root: Path, name: str) -> Path:
    """Create `root/<name>/<UTC time>/`, point `root/<name>/latest` at it and return it.

    Raises LiftlogError if the folder cannot be made or the name is not a plain folder name.
    """
    if not name or name.startswith(".") or "/" in name or name == "latest":
        raise LiftlogError(f"run name {name!r} is not a folder name: use letters, digits, '-' and '_'")
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%f")[:-3] + "Z"
    parent = root / name
    try:
        parent.mkdir(parents=True, exist_ok=True)
        run = parent / stamp
        attempt = 1
        while True:
            try:
                run.mkdir()
                break
            except FileExistsError:
                attempt += 1
                run = parent / f"{stamp}-{attempt}"
        _link(parent / "latest", run.name)
    except OSError as error:
        raise LiftlogError(f"cannot create a run folder in {parent}: {error.strerror}") from None
    return run


def _link(link: Path, target: str) -> None:
    """Replace a link in one step, so that it never dangles between two runs."""
    temporary = link.with_name(f".latest-{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)


def find_history(path: Path) -> Path:
    """The .jsonl file or Parquet folder that `path` means: itself, or the history of a run or of the latest
    run.
    """
    if not path.exists():
        raise LiftlogError(
            f"no history at {path}: give a .jsonl file, a Parquet folder or a run folder of the store"
        )
    if path.is_file() or (path / OPS_FILE).exists():
        return path
    for folder in (path, path / "latest"):
        if (folder / PARQUET_NAME / OPS_FILE).exists():
            return folder / PARQUET_NAME
        if (folder / JSONL_NAME).exists():
            return folder / JSONL_NAME
    raise LiftlogError(
        f"no history in folder {path}: expected {OPS_FILE} (a Parquet history), {JSONL_NAME} "
        f"or {PARQUET_NAME}/"
    )


def read_history(path: Path, *, salvage: bool = False) -> History:
    """Read and validate a history of either form. Raises LiftlogError naming the file and what is wrong."""
    found = find_history(path)
    if found.is_file():
        return read_jsonl(found, salvage=salvage)
    from liftlog_jepsen.parquet import read_parquet

    return read_parquet(found)
