"""docs/simulator.md shows what its commands print: they are run, in order, in one empty folder, and compared.

A block that begins with "$ " is commands with their outputs; a Python block after a line that ends in
"`name.py`:" is that file. Where the page says `...`, anything may stand: alone in a line any lines, within a
line whatever differs between machines (times, hashes of the code) or would be too long. A block after the
comment `<!-- nightly -->` takes long, and is run at night; one after `<!-- shown elsewhere -->` is not run.

`pytest tests/sim/test_simulator_page.py --rewrite` writes anew what has changed, as short as it was: lines
left out stay left out, and of a list that ends in ", ..." as many items are shown.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from liftlog.cli import main

PAGE = Path(__file__).resolve().parents[2] / "docs" / "simulator.md"
ELIDED = "..."
NIGHTLY, ELSEWHERE = "<!-- nightly -->", "<!-- shown elsewhere -->"
TIMES = (
    (re.compile(r"(?<= simulated in )[\d.]+(?= s)"), ELIDED),
    (re.compile(r"\([\d.]+ s a seed"), f"({ELIDED} s a seed"),
    (re.compile(r"(?<=tried, )[\d.]+(?= s\))"), ELIDED),
    (re.compile(r"^ *[\d.]+ s(?= +\d+ runs?, )", re.M), f"   {ELIDED} s"),
    (re.compile(r"(?<= runs in )[\d.]+(?= s )"), ELIDED),
    (re.compile(r"(?<= (?:passed|failed) in )[\d.]+s"), ELIDED),
)


class Shown(msgspec.Struct):
    """One command and what the page says that it prints, or a file. `line`: where that begins, from 0 on."""

    command: str
    line: int
    output: list[str]
    indent: str
    nightly: bool


def blocks(lines: list[str]) -> Iterator[tuple[int, list[str], str, str]]:
    """(line, lines, the line above, indent) of each block: fenced, or indented by four."""
    place, above = 0, ""
    while place < len(lines):
        line, start = lines[place], place
        if line.startswith("```"):
            place = lines.index("```", start + 1)
            yield start + 1, lines[start + 1 : place], above, ""
        elif line.startswith("    ") and not lines[start - 1]:
            while place + 1 < len(lines) and lines[place + 1].startswith("    "):
                place += 1
            yield start, [text[4:] for text in lines[start : place + 1]], above, "    "
        above = line or above
        place += 1


def shown(page: str) -> list[Shown]:
    """All that the page shows and that can be run, files included (`command` empty)."""
    found: list[Shown] = []
    for start, block, above, indent in blocks(page.splitlines()):
        named = re.search(r"`(\w+\.py)`:$", above)
        if named is not None and not indent:
            found.append(Shown(f"write {named[1]}", start, block, indent, False))
        if not block[0].startswith("$ ") or above == ELSEWHERE:
            continue
        for offset, text in enumerate(block):
            if text.startswith("$ "):
                found.append(Shown(text[2:], start + offset, [], indent, above == NIGHTLY))
            else:
                found[-1].output.append(text)
    return found


def matches(said: list[str], printed: str) -> bool:
    """Whether an output is what the page says."""
    pattern = "".join(
        r"(?:.*\n)*?" if line == ELIDED else re.escape(line).replace(r"\.\.\.", ".*") + "\n" for line in said
    )
    text = "".join(f"{line.rstrip()}\n" for line in printed.strip("\n").splitlines())
    return re.fullmatch(pattern, text) is not None


def run(command: str) -> str:
    """What it prints, in the present folder."""
    words = shlex.split(command)
    if words[0] == "cat":
        return Path(words[1]).read_text()
    if words[0] == "liftlog":
        out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            main(words[1:])
        assert isinstance(out.buffer, io.BytesIO)
        return out.buffer.getvalue().decode()
    assert words[0] == "pytest", f"nobody knows how to run {command}"
    # What somebody has pytest print besides is not on the page.
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTEST_ADDOPTS": ""}
    done = subprocess.run(
        [sys.executable, "-m", *words, "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    return done.stdout


FAILS, CLEAN = "is violated at", "no invariant was violated"


def without_times(text: str) -> str:
    for pattern, to in TIMES:
        text = pattern.sub(to, text)
    return text


def head(line: str) -> str:
    """How lines of one kind begin."""
    return re.split(r"[\d:]|\.\.\.", line, maxsplit=1)[0]


def shortened(said: list[str], printed: list[str]) -> list[str]:
    """What is printed, with left out what the page has left out."""
    new: list[str] = []
    place = 0
    for number, line in enumerate(said):
        if line == ELIDED:
            new.append(line)
            continue
        rest = range(place, len(printed))
        found = next((at for at in rest if printed[at] == line), None)
        if found is None:
            found = next((at for at in rest if head(printed[at]) == head(line)), None)
        if found is None:
            continue
        if not number or said[number - 1] != ELIDED:
            new += printed[place:found]
        items = line.count(", ") if line.endswith(f", {ELIDED}") else 0
        text = printed[found]
        new.append(", ".join([*text.split(", ")[:items], ELIDED]) if items else text)
        place = found + 1
    return new if said and said[-1] == ELIDED else new + printed[place:]


def shows_nothing_now(said: list[str], printed: str) -> bool:
    """Whether an example of a failure has become one of a clean run, which teaches nothing."""
    return FAILS in "\n".join(said) and CLEAN in printed


def hold(nightly: bool, rewrite: bool) -> None:
    """Run the page; by day without what takes long."""
    page = PAGE.read_text()
    lines = page.splitlines()
    wrong: list[str] = []
    empty: list[str] = []
    for one in reversed_after_run(shown(page), nightly):
        each, printed = one
        if matches(each.output, printed):
            continue
        wrong.append(f"line {each.line + 1}: {each.command}\n{printed}")
        if shows_nothing_now(each.output, printed):
            empty.append(f"line {each.line + 1}: {each.command}")
        now = [line.rstrip() for line in without_times(printed).strip("\n").splitlines()]
        new = [each.indent + line for line in shortened(each.output, now)]
        lines[each.line + 1 : each.line + 1 + len(each.output)] = new
    assert not rewrite or empty == [], f"find other seeds for these, which fail no more: {empty}"
    if rewrite and wrong:
        PAGE.write_text("\n".join(lines) + "\n")
    assert wrong == [], "the page says otherwise: " + "\n".join(reversed(wrong))


def reversed_after_run(all_shown: list[Shown], nightly: bool) -> list[tuple[Shown, str]]:
    """Run in order, what is shown twice once; the last comes first, so that lines can be put in its place."""
    found: list[tuple[Shown, str]] = []
    printed: dict[str, str] = {}
    for one in all_shown:
        if one.command.startswith("write "):
            Path(one.command.removeprefix("write ")).write_text("\n".join(one.output) + "\n")
        elif nightly or not one.nightly:
            if one.command not in printed:
                printed[one.command] = run(one.command)
            found.append((one, printed[one.command]))
    return found[::-1]


@pytest.mark.slow
def test_what_the_page_shows_is_what_its_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    hold(nightly=False, rewrite=bool(request.config.getoption("--rewrite")))


@pytest.mark.nightly
def test_what_takes_long_is_what_its_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.chdir(tmp_path)
    hold(nightly=True, rewrite=bool(request.config.getoption("--rewrite")))


def test_the_page_has_a_step_for_each_part_of_a_study_and_elides_times() -> None:
    commands = [one.command for one in shown(PAGE.read_text())]
    assert {"write leaders.py", "write brownout.py", "write own_writes.py"} <= set(commands)
    assert sum(command.startswith("liftlog sim") for command in commands) >= 12
    for one in shown(PAGE.read_text()):
        assert without_times("\n".join(one.output)) == "\n".join(one.output), f"{one.command}: elide times"


def test_what_is_written_anew_is_as_short_as_before() -> None:
    said = ["a 1", "...", "list: 1, 2, ...", "...", "end 5"]
    printed = ["a 2", "x", "list: 3, 4, 5, 6", "y", "z", "end 7", "more"]
    assert shortened(said, printed) == ["a 2", "...", "list: 3, 4, ...", "...", "end 7", "more"]
    assert shortened([], ["a", "b"]) == ["a", "b"] and shortened(["..."], ["a", "b"]) == ["..."]


def test_a_failure_that_is_none_any_more_is_not_written_over() -> None:
    failure = ["...", "verdict: X is violated at 3 s"]
    assert shows_nothing_now(failure, "verdict: no invariant was violated\n")
    assert not shows_nothing_now(failure, "verdict: Y is violated at 4 s\n")
    assert not shows_nothing_now([f"verdict: {CLEAN}"], f"verdict: {CLEAN}\n")


def test_what_differs_is_seen() -> None:
    file = "Look, `a.py`:\n\n```python\nx = 1\n```\n"
    page = f"{file}\n    $ liftlog one\n    a\n    ...\n    b ... c\n    $ liftlog two\n"
    found = shown(page)
    assert [one.command for one in found] == ["write a.py", "liftlog one", "liftlog two"]
    assert found[1].output == ["a", "...", "b ... c"] and found[2].output == []
    assert matches(found[1].output, "a\nx\ny\nb 1.2 c\n") and matches(found[1].output, "a\nb  c\n")
    assert not matches(found[1].output, "a\nx\nb 1.2 d\n") and not matches(found[2].output, "x\n")
    assert matches([], "") and without_times("3.0 s simulated in 0.22 s: x") == "3.0 s simulated in ... s: x"
