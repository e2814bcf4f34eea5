"""What every test gave on every server when the whole matrix was last run: tests/golden/jetstream.json.

    {"commits": {"liftlog": "3f2a...", ...}, "tests": {"test_pull.py::test_x[case]": "++-?", ...}}

One letter for each of NAMES: `+` passed, `-` failed, `?` was not run. A test that failed on liftlog says
"not yet" in the table, and is expected to fail until this file is written anew:

    pytest tests/jetstream -m "real or nightly" --rewrite
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.jetstream.servers import NAMES

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "jetstream.json"


class Results:
    """The file's contents."""

    def __init__(self, commits: dict[str, str], tests: dict[str, str]) -> None:
        self.commits = commits
        self.tests = tests

    @classmethod
    def read(cls) -> Results:
        if not GOLDEN.exists():
            return cls({}, {})
        kept = json.loads(GOLDEN.read_text())
        return cls(kept["commits"], kept["tests"])

    def of(self, test: str, server: str) -> str:
        return self.tests.get(test, "?" * len(NAMES))[NAMES.index(server)]

    def write(self) -> None:
        kept = {"commits": dict(sorted(self.commits.items())), "tests": dict(sorted(self.tests.items()))}
        GOLDEN.write_text(json.dumps(kept, indent=0) + "\n")


class Recorder:
    """A plugin that writes the results of this run into the file; tests that were not run keep theirs."""

    def __init__(self) -> None:
        self._run: dict[tuple[str, str], str] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        found = split(report.nodeid)
        if found is None or report.skipped:
            return
        if report.failed:
            self._run[found] = "-"
        elif report.when == "call":
            self._run.setdefault(found, "+")

    def pytest_sessionfinish(self) -> None:
        before = Results.read()
        for (test, server), letter in self._run.items():
            old = before.tests.get(test, "?" * len(NAMES))
            at = NAMES.index(server)
            before.tests[test] = old[:at] + letter + old[at + 1 :]
        head = subprocess.run(
            ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
        before.commits |= {server: head.stdout.strip() for _, server in self._run}
        before.write()


def split(nodeid: str) -> tuple[str, str] | None:
    """`tests/jetstream/test_pull.py::test_x[liftlog-case]` as its name without the server, and the server."""
    path, _, name = nodeid.partition("::")
    function, _, identifier = name.removesuffix("]").partition("[")
    for server in sorted(NAMES, key=len, reverse=True):
        if identifier == server or identifier.startswith(server + "-"):
            case = identifier[len(server) + 1 :]
            return f"{Path(path).name}::{function}" + (f"[{case}]" if case else ""), server
    return None
