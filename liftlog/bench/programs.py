"""Programs of which each run of a benchmark starts one anew: they get their work as JSON, and tell JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from liftlog.real import interrupts
from liftlog.types import LiftlogError


@contextmanager
def program(module: str, work: dict[str, Any]) -> Iterator[subprocess.Popen[str]]:
    """`python -m module`, with pipes; whatever it does then, it is over when it is left."""
    command = [sys.executable, "-m", module, json.dumps(work)]
    pipe = subprocess.PIPE
    process: subprocess.Popen[str] | None = None
    try:
        with interrupts.held():
            process = subprocess.Popen(
                command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, start_new_session=True
            )
        yield process
    finally:
        if process is not None:
            process.kill()
            process.communicate()


def result_of(output: str, said: str, failed: str) -> dict[str, Any]:
    """The last line of its output: an error may come behind figures. `said`: what it wrote to stderr.

    Raises LiftlogError, which begins with `failed`.
    """
    lines = output.splitlines()
    result: dict[str, Any] = json.loads(lines[-1]) if lines else {"error": said.strip()[-500:]}
    if "error" in result:
        raise LiftlogError(f"{failed}: {result['error']}")
    return result
