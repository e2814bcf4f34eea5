"""Prints how many crash points the storage tests tried."""

from __future__ import annotations

import pytest

from tests.storage.crash_report import TRIED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if TRIED:
        kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(TRIED.items()))
        terminalreporter.write_line(f"crash points tried: {sum(TRIED.values())} ({kinds})")
