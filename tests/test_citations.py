"""Files that docstrings and pages name: each is there.

A name may leave out the folders in front (`models/raft.py`, `search.py`), as long as some file of the project
ends so. Links of pages are followed from where they stand.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("liftlog", "sim", "spec", "jepsen", "tests", "scripts")
EXAMPLES = frozenset(
    (
        *("FILE.py", "maximum.py", "path/to/file.py", "orders.py", "liftlog.toml", "json/decoder.py"),
        *("IsrTruncateToHw.tla", "IsrTruncateToHw.cfg"),
        "liftlog_spec.tla",
        "name.py",
    )
)
"""What a reader would write, files of other projects, and a room that is called like a file."""
NAMED = re.compile(r"(?<![\w/.:*<{-])[\w-]+(?:/[\w.-]+)*\.(?:py|md|tla|cfg|sh|svg|toml)(?![\w/*])")
LINKED = re.compile(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)")

MADE = "failures/"
"""Where the simulator puts what it finds."""
SHOWN = re.compile(r"`([\w-]+\.py)`:$", re.MULTILINE)
"""A file that a page shows whole, for readers to write."""
OUTPUT = re.compile(r"^```\n\$ .*?^```$", re.MULTILINE | re.DOTALL)
"""What commands print: they may make files."""


def without_outputs(text: str) -> str:
    """A page with as many lines, of which those of its commands' outputs are empty."""
    return OUTPUT.sub(lambda found: "\n" * found[0].count("\n"), text)


def project_files() -> list[str]:
    """All files that belong to the project, as git has them, with those that are new."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [name for name in listed.splitlines() if (ROOT / name).exists()]


def endings(files: list[str]) -> set[str]:
    """Every way to name a file by its end."""
    return {"/".join(name.split("/")[at:]) for name in files for at in range(name.count("/") + 1)}


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """(line, text) of all strings that stand for themselves."""
    for node in ast.walk(ast.parse(path.read_text())):
        value = node.value if isinstance(node, ast.Expr) else None
        if isinstance(value, ast.Constant) and isinstance(value.value, str):
            yield value.lineno, value.value


def missing(text: str, known: set[str]) -> list[str]:
    """The files that a text names and that are not there."""
    named = (found[0] for found in NAMED.finditer(text))
    return [name for name in named if name not in known and name not in EXAMPLES and MADE not in name]


@pytest.fixture(scope="module")
def files() -> list[str]:
    return project_files()


def test_docstrings_name_files_that_are_there(files: list[str]) -> None:
    known = endings(files)
    wrong = [
        f"{name}:{line}: {each}"
        for name in files
        if name.endswith(".py") and name.startswith(FOLDERS)
        for line, text in docstrings(ROOT / name)
        for each in missing(text, known)
    ]
    assert wrong == []


def test_pages_name_files_that_are_there(files: list[str]) -> None:
    known = endings(files)
    wrong = []
    for name in files:
        if not name.endswith(".md"):
            continue
        text = (ROOT / name).read_text()
        shown = set(SHOWN.findall(text))
        for number, line in enumerate(without_outputs(text).split("\n"), 1):
            absent = (each for each in missing(LINKED.sub("]", line), known) if each not in shown)
            wrong += [f"{name}:{number}: {each}" for each in absent]
            for found in LINKED.finditer(line):
                target = found[1]
                if "://" not in target and not (ROOT / name).parent.joinpath(target).exists():
                    wrong.append(f"{name}:{number}: {target}")
    assert wrong == []


def test_a_name_that_is_nowhere_is_found() -> None:
    known = endings(["docs/checking.md", "spec/liftlog_spec/models/raft.py"])
    assert missing("See docs/checks.md, models/raft.py and raft.py; FILE.py.", known) == ["docs/checks.md"]
    assert missing("`sim/nothing.py`", known) == ["sim/nothing.py"]
