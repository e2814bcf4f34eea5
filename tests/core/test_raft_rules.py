"""The protocol page, the essay of raft.py and the code name the same rules."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from liftlog_sim.truth.names import (
    COMPACTION_INVARIANTS,
    GROUP_INVARIANTS,
    RECOVERY_INVARIANTS,
    SNAPSHOT_INVARIANTS,
    STEP_INVARIANTS,
)

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "spec" / "README.md").read_text()
RAFT = ROOT / "liftlog" / "core" / "raft"

RULES = [
    *("I1", "I2", "I3"),
    *(f"R{number}" for number in range(1, 30)),
    *(f"K{number}" for number in range(1, 11)),
    *(f"G{number}" for number in range(1, 7)),
    *(f"N{number}" for number in range(1, 13)),
    *(f"M{number}" for number in range(1, 6)),
    *(f"D{number}" for number in range(1, 6)),
    *(f"C{number}" for number in range(1, 8)),
    *(f"L{number}" for number in range(1, 13)),
    *(f"V{number}" for number in range(1, 10)),
    *(f"U{number}" for number in range(1, 4)),
    *("S1", "S2"),
]


def test_the_page_has_each_rule_once_in_order_with_status_and_module() -> None:
    found = re.findall(r"^- \*\*([A-Z]\d+)\*\* \((holds|partly|later)[^;]*; (`[^)]+)\)", PAGE, re.MULTILINE)
    assert [rule for rule, _, _ in found] == RULES


def test_the_page_names_only_modules_that_exist() -> None:
    named = re.findall(r"`((?:liftlog|sim|spec|jepsen)/[\w/]*(?:\.\w+)?)`", PAGE)
    assert named
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_page_names_the_invariants_that_the_simulator_checks() -> None:
    heading, *table = re.findall(r"^\| ([A-Z]\w+) \| ", PAGE, re.MULTILINE)
    assert heading == "Invariant"
    everywhere = (*STEP_INVARIANTS, *COMPACTION_INVARIANTS, *SNAPSHOT_INVARIANTS)
    assert sorted(table) == sorted((*everywhere, *GROUP_INVARIANTS, *RECOVERY_INVARIANTS))


def sub_rules() -> list[str]:
    essay = ast.get_docstring(ast.parse((RAFT / "raft.py").read_text()))
    assert essay is not None
    return re.findall(r"^- \*\*(M1[a-z])\*\*", essay, re.MULTILINE)


def test_the_essay_numbers_its_sub_rules_without_gap() -> None:
    assert sub_rules() == [f"M1{letter}" for letter in "abcdefghijklmnopq"]


@pytest.mark.parametrize("rule", sub_rules())
def test_each_sub_rule_is_named_where_the_code_keeps_it(rule: str) -> None:
    code = ""
    for module in sorted(RAFT.glob("*.py")):
        text = module.read_text()
        essay = ast.get_docstring(ast.parse(text), clean=False)
        code += text.replace(essay or "", "", 1)
    assert re.search(rf"\b{rule}\b", code)
