"""Prints what the storage tests tried: crash points, flipped bits, cut and deleted files.

If several processes share the tests, each hands its counts to the one that prints.
"""

from __future__ import annotations

from typing import Any

import pytest

from tests.storage.crash_report import add, counts, lines

HANDED = "storage_tried"


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[HANDED] = counts()


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    add(getattr(node, "workeroutput", {}).get(HANDED, {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in lines():
        terminalreporter.write_line(line)
