"""Prints what the storage tests tried: crash points, flipped bits, cut and deleted files."""

from __future__ import annotations

import pytest

from tests.storage.crash_report import lines


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in lines():
        terminalreporter.write_line(line)
