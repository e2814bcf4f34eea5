"""The numbered rules stand in three places: spec/README.md, the source that keeps them, and tests.

A rule that is said to hold must be named in every source file that spec/README.md gives for it, and in the
name or the docstring of at least one test. The second half of this file checks the checker.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import NamedTuple

import pytest

from liftlog.core.guards import GUARDS, REMOVABLE, Guards
from liftlog.mutants import Mutants
from liftlog_sim.audit.coverage import EXPLAINED

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "spec" / "README.md"
SOURCES = ("core", "storage", "driver", "real", "api", "messages", "rights")

# Every rule there is. One may be refined, but is dropped only together with an ADR that says why.
EXPECTED = (
    *(f"I{n}" for n in range(1, 4)),
    *(f"R{n}" for n in range(1, 30)),
    *(f"N{n}" for n in range(1, 13)),
    *(f"M{n}" for n in range(1, 6)),
    *(f"D{n}" for n in range(1, 6)),
    *(f"C{n}" for n in range(1, 8)),
    *(f"L{n}" for n in range(1, 13)),
    *(f"K{n}" for n in range(1, 11)),
    *(f"G{n}" for n in range(1, 7)),
    *(f"V{n}" for n in range(1, 10)),
    *(f"U{n}" for n in range(1, 4)),
    *("S1", "S2"),
)
# Rules on which no acknowledged message may be lost: they hold, and none of them may slide back to "partly".
NEVER_LESS = (
    *("I1", "I2", "R1", "R2", "R3", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "R14", "R15", "R16"),
    *("N1", "N2", "N3", "N4", "M3", "M4", "D1"),
)

RULE_LINE = re.compile(
    r"^- ((?:\*\*[A-Z]\d+\*\*(?:, )?)+) \((holds|partly|later)([^;)]*)(?:; ([^)]*))?\)", re.M
)
RULE_ID = re.compile(r"\b([IRNMDCLKGVUS]\d{1,2})([a-q])?\b")
FILE_NAME = re.compile(r"`([a-z_/]+\.py)`")


class Rule(NamedTuple):
    """One rule of the page. `status` is holds, partly or later; `files` are the sources said to keep it.

    A bare file name lies beside the file that is named before it.
    """

    id: str
    status: str
    files: tuple[str, ...]


def rules_of(page: str) -> list[Rule]:
    found = []
    for match in RULE_LINE.finditer(page):
        files: list[str] = []
        for name in FILE_NAME.findall(match[4] or ""):
            beside = f"{files[-1].rpartition('/')[0]}/" if files and "/" not in name else ""
            files.append(beside + name)
        found += [Rule(name, match[2], tuple(files)) for name in re.findall(r"[A-Z]\d+", match[1])]
    return found


def ids_in(text: str) -> set[str]:
    """The rules that a text names; M1a counts as M1, and so does m1a in a test's name."""
    return {match[1] for match in RULE_ID.finditer(text)}


def ids_of_tests(source: str) -> set[str]:
    """The rules in the names and docstrings of a test file's test functions."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test_"):
            words = [word[:1].upper() + word[1:] for word in node.name.split("_")]
            found |= ids_in(" ".join(words)) | ids_in(ast.get_docstring(node) or "")
    return found


@pytest.fixture(scope="module")
def rules() -> list[Rule]:
    return rules_of(PAGE.read_text())


def test_the_page_lists_every_rule_once(rules: list[Rule]) -> None:
    assert sorted(rule.id for rule in rules) == sorted(EXPECTED)


def test_the_rules_that_guard_acknowledged_messages_hold(rules: list[Rule]) -> None:
    holding = {rule.id for rule in rules if rule.status == "holds"}
    assert set(NEVER_LESS) - holding == set()


def test_each_rule_is_named_in_the_source_that_keeps_it(rules: list[Rule]) -> None:
    missing = [
        f"{rule.id}: {file} {'does not name it' if (ROOT / file).is_file() else 'does not exist'}"
        for rule in rules
        if rule.status != "later"
        for file in rule.files
        if not (ROOT / file).is_file() or rule.id not in ids_in((ROOT / file).read_text())
    ]
    missing += [
        f"{rule.id}: no source is given" for rule in rules if rule.status == "holds" and not rule.files
    ]
    assert not missing, "\n" + "\n".join(missing)


def test_each_rule_that_holds_is_named_by_a_test(rules: list[Rule]) -> None:
    tested: set[str] = set()
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path != Path(__file__).resolve():
            tested |= ids_of_tests(path.read_text())
    untested = [rule.id for rule in rules if rule.status != "later" and rule.id not in tested]
    assert not untested, f"no test names {', '.join(untested)}"


def test_the_source_names_no_rule_that_does_not_exist() -> None:
    unknown = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in SOURCES
        for path in sorted((ROOT / "liftlog" / folder).rglob("*.py"))
        for name in sorted(ids_in(path.read_text()) - set(EXPECTED))
    ]
    assert unknown == []


# Rules that hold and say no to nothing in the core: what they forbid is done by a shape, not by a condition.
WITHOUT_GUARD = {
    "S1": "R3's guards say who answers; what an index holds: tests/storage/test_subject_indexes.py",
    "S2": "R3's guards say who answers; what is picked: tests/core/test_picking.py",
    "U3": "storage and readers: tests/storage/test_older_formats.py",
    "U1": "a range in a handshake, before the core: tests/core/test_handshake.py, tests/test_releases.py",
    "N8": "a switch of the stream",
    "N9": "kept where N7 is: one question to the group when a stream is created",
    "N11": "NATS chooses; who is in a group is asked when a stream is created: a planted bug",
    "N12": "a number that rises, and a leader that goes by it: five planted bugs",
    "N10": "the same; and `Listening`, a count of what NATS has confirmed: two planted bugs",
    **{f"G{n}": "in the client: liftlog/groups/, tests/core/test_groups.py" for n in range(1, 6)},
    "G6": "L9's guards, asked by the client: tests/integration/test_groups.py",
    "C7": "a copy is made where it begins: two planted bugs",
    "K8": "a sum, which the fold makes: tests/core/test_consumers.py",
    "K10": "a choice, of which nothing is written: tests/core/test_priorities.py, three planted bugs",
    "D1": "a checksum, in liftlog/format.py",
    "D4": "storage: tests/storage/ stops it after every call to the disk",
    "V1": "decoding, before the core: tests/core/test_input.py",
    "V2": "the same",
    "V3": "refusals are counted by kind of message (`Context.refuse`)",
    "V4": "the same",
    "V5": "bounds of what is stored, asked when a command is made",
    "V6": "the door, before the core: liftlog/api/handshake.py",
    "V7": "the same: liftlog/real/budget.py",
    "V8": "storage: liftlog/storage/openlogs.py",
    "V9": "the door, before the core: liftlog/rights/needs.py",
}
GUARD_NAME = re.compile(r'"([A-Z]\d{1,2}\.[a-z-]+)"')


def guards_of_source() -> dict[str, list[str]]:
    """Every name of a guard that the core counts, with the files."""
    found: dict[str, list[str]] = {}
    for path in sorted((ROOT / "liftlog" / "core").rglob("*.py")):
        if path.name != "guards.py":
            for name in GUARD_NAME.findall(path.read_text()):
                found.setdefault(name, []).append(path.name)
    return found


def test_every_guard_is_counted_somewhere_and_belongs_to_a_rule() -> None:
    counted = guards_of_source()
    assert [name for name in GUARDS if name not in counted] == []
    assert [name for name in GUARDS if name.partition(".")[0] not in EXPECTED] == []
    assert [name for name in EXPLAINED if name not in GUARDS] == []
    directly = "".join(path.read_text() for path in sorted((ROOT / "tests" / "core").glob("test_*.py")))
    assert [name for name in EXPLAINED if f'["{name}"] == 1' not in directly] == []


def test_what_decides_is_declared() -> None:
    """Every condition that is given to `decides` is one of the guards, and a node can be made to lack it."""
    unknown = []
    removable = set()
    for path in sorted((ROOT / "liftlog" / "core").rglob("*.py")):
        for call in ast.walk(ast.parse(path.read_text())):
            if not isinstance(call, ast.Call):
                continue
            function = call.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            asking = name in ("decides", "_decides")
            conditions = [each for each in call.args if asking and isinstance(each, ast.Tuple)]
            asked = [condition.elts[0] for condition in conditions]
            removable.update(guard.value for guard in asked if isinstance(guard, ast.Constant))
            unknown += [
                f"{path.name}: {ast.unparse(guard)}"
                for guard in asked
                if not isinstance(guard, ast.Constant) or guard.value not in GUARDS
            ]
    assert unknown == []
    assert removable == set(REMOVABLE)


def test_each_rule_that_holds_has_a_guard_or_says_why_not(rules: list[Rule]) -> None:
    guarded = {name.partition(".")[0] for name in GUARDS}
    holding = [rule.id for rule in rules if rule.status != "later"]
    assert [rule for rule in holding if rule not in guarded and rule not in WITHOUT_GUARD] == []
    assert [rule for rule in WITHOUT_GUARD if rule in guarded] == []


def test_only_a_condition_that_stands_alone_has_decided() -> None:
    guards = Guards()
    assert guards.decides(("one", True), ("two", True))
    assert not guards.decides(("one", False), ("two", False))
    assert guards.marks == {}
    assert not guards.decides(("one", True), ("two", False))
    assert guards.marks == {"two": 1}


def test_a_node_without_a_guard_goes_by_the_others_alone() -> None:
    guards = Guards(Mutants(without="two"))
    assert guards.decides(("one", True), ("two", False))
    assert guards.marks == {}
    assert not guards.decides(("one", False), ("two", False))
    assert guards.marks == {"one": 1}


# --- the checker catches what it should ---------------------------------------------------------------------


def test_a_rule_line_is_read_with_status_and_files() -> None:
    page = (
        "- **R1** (holds; `liftlog/core/a.py`, `liftlog/core/b.py`) An epoch ...\n"
        "- **R4** (holds for policy `all`; `liftlog/core/a.py`, beside it `b.py`) An ack ...\n"
        "- **D3** (partly) Damage ...\n"
        "- **C1**, **C2** (later) Compaction.\n"
        "- R9 (holds) is no rule line.\n"
    )
    assert rules_of(page) == [
        Rule("R1", "holds", ("liftlog/core/a.py", "liftlog/core/b.py")),
        Rule("R4", "holds", ("liftlog/core/a.py", "liftlog/core/b.py")),
        Rule("D3", "partly", ()),
        Rule("C1", "later", ()),
        Rule("C2", "later", ()),
    ]


def test_rules_are_found_in_names_and_docstrings_of_tests_only() -> None:
    source = (
        '"""A module docstring that names R9 proves nothing."""\n'
        "def test_r1_a_claim(): ...\n"
        "def test_m1b_votes(): ...\n"
        "def test_other():\n    '''R12: a claim.'''\n"
        "def helper_r8(): '''R10'''\n"
    )
    assert ids_of_tests(source) == {"R1", "M1", "R12"}


@pytest.mark.parametrize(
    ("text", "ids"),
    [("(R2, R10)", {"R2", "R10"}), ("M1a to M1n", {"M1"}), ("R1x CRC32 N2O", set()), ("R14.", {"R14"})],
)
def test_rule_ids_are_told_from_other_words(text: str, ids: set[str]) -> None:
    assert ids_in(text) == ids
