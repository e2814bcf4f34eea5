"""docs/glossary.md: one page for the words of all pages: in order, each in use, with rules that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
GLOSSARY = ROOT / "docs" / "glossary.md"
SHARED_BY = ("README.md", "docs/ARCHITECTURE.md", "spec/README.md")
ENTRY = re.compile(r"^\| (\*\*.+?) \| (.+) \|$", re.MULTILINE)


def entries(text: str) -> list[list[str]]:
    """The words of each row, one list a section."""
    return [
        [", ".join(re.findall(r"\*\*(.+?)\*\*", words)) for words, _ in ENTRY.findall(section)]
        for section in re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    ]


def unused(words: list[str], everything: str) -> list[str]:
    """Words, also in their plural, that stand nowhere."""
    return [word for word in words if not re.search(rf"\b{re.escape(word.lower())}(s|es)?\b", everything)]


@pytest.fixture(scope="module")
def everything() -> str:
    """All pages and sources but the glossary, as plain words."""
    pages = [ROOT / "README.md", ROOT / "spec" / "README.md", *(ROOT / "docs").rglob("*.md")]
    sources = [
        path for folder in ("liftlog", "sim", "spec", "jepsen") for path in (ROOT / folder).rglob("*.py")
    ]
    texts = (path.read_text() for path in [*pages, *sources] if path != GLOSSARY)
    return "\n".join(texts).lower().replace("*", "")


@pytest.mark.parametrize("page", SHARED_BY)
def test_the_pages_that_share_the_glossary_point_at_it(page: str) -> None:
    targets = re.findall(r"\]\(([^)#]*glossary\.md)\)", (ROOT / page).read_text())
    assert targets and (ROOT / page).parent.joinpath(targets[0]).resolve() == GLOSSARY


@pytest.mark.parametrize("short", ["HW", "ISR", "LEO"])
def test_the_readme_says_what_an_abbreviation_means_where_it_is_first_used(short: str) -> None:
    text = (ROOT / "README.md").read_text()
    first = re.search(rf"\b{short}\b", text)
    assert first is not None and re.search(rf"\*[\w -]+\* \({short}$", text[: first.end()])


def test_every_section_is_in_order_and_no_word_is_defined_twice() -> None:
    sections = entries(GLOSSARY.read_text())
    assert len(sections) >= 6 and all(sections)
    for words in sections:
        assert words == sorted(words, key=str.lower)
    every = [word for words in sections for row in words for word in row.split(", ")]
    assert sorted(every) == sorted(set(every))


def test_every_word_is_in_use(everything: str) -> None:
    words = [word for words in entries(GLOSSARY.read_text()) for row in words for word in row.split(", ")]
    assert unused(words, everything) == []
    assert unused([*words, "zyzzyva"], everything) == ["zyzzyva"]


def test_every_rule_that_is_named_exists() -> None:
    rules = set(re.findall(r"^- \*\*([A-Z]\d+)\*\*", (ROOT / "spec" / "README.md").read_text(), re.MULTILINE))
    named = set(re.findall(r"\b[A-Z]\d+\b", GLOSSARY.read_text()))
    assert len(named) > 15 and sorted(named - rules) == []
