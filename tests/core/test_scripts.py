"""What nodes do in the scripts is what stands there (tests/core/scripts.py says how to read them)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.core.scripts import ScriptError, parse, play

FOLDER = Path(__file__).resolve().parent.parent / "golden" / "scripts"
SCRIPTS = sorted(FOLDER.glob("*.txt"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_says_what_happens(path: Path, request: pytest.FixtureRequest) -> None:
    found = play(path.read_text())
    if request.config.getoption("--rewrite"):
        path.write_text(found)
    assert path.read_text() == found


def test_there_are_scripts() -> None:
    assert {path.stem for path in SCRIPTS} >= {"publish", "failover"}


def test_a_script_that_is_played_twice_says_the_same() -> None:
    text = SCRIPTS[0].read_text()
    assert play(text) == play(play(text))


def test_comments_and_the_end_stay_as_they_are() -> None:
    text = "# A comment.\n\nnodes 1\n----\n\n# The end.\n"
    paragraphs, rest = parse(text)
    assert [(each.command, each.output) for each in paragraphs] == [("nodes 1", "")]
    assert rest.strip() == "# The end."
    assert play(text).startswith("# A comment.\n\nnodes 1\n----\nnode 1 is the controller\n\n# The end.")


@pytest.mark.parametrize(
    "text, problem",
    [
        ("nodes 3\n", "no line ----"),
        ("dance\n----\n", "no command 'dance'"),
        ("publish a\n----\n", "the first command must be `nodes`"),
        ("nodes 1\n----\n\nread 1 0\n----\n", "`create` one"),
        ("nodes 1\n----\n\nuntil tea\n----\n", "settled or led"),
        ("nodes 1\n----\n\nshow tea\n----\n", "raft, upkeep, idle can"),
    ],
)
def test_what_cannot_be_carried_out_is_named(text: str, problem: str) -> None:
    with pytest.raises(ScriptError, match=problem):
        play(text)


# -- the page that quotes them ----------------------------------------------------------------------------

PAGE = FOLDER.parents[2] / "docs" / "life-of-a-message.md"
BOX = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"`([\w.]+)` in `(liftlog/[\w/]+\.py)`")


def test_the_page_quotes_what_the_scripts_say() -> None:
    boxes = BOX.findall(PAGE.read_text())
    assert len(boxes) > 10
    wrong = [text for name, text in boxes if text not in (FOLDER / f"{name}.txt").read_text()]
    assert wrong == []


def test_the_page_names_functions_that_are_there() -> None:
    named = NAMED.findall(" ".join(PAGE.read_text().split()))
    assert len(named) > 20
    root = PAGE.parents[1]
    wrong = [f"{path}: {name}" for name, path in named if name not in functions(root / path)]
    assert wrong == []


def functions(path: Path) -> set[str]:
    """Names of a module's functions, and of its classes' methods."""
    found = set()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{each.name}"
                for each in node.body
                if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
            }
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found
