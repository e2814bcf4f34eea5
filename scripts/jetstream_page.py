"""Writes the table of docs/jetstream.md anew: calls, fields, headers, statuses, by the tests that prove them.

    pytest tests/jetstream -m "real or nightly" --rewrite  # what each test gives: tests/golden/jetstream.json
    .venv/bin/python scripts/jetstream_page.py             # or --check: is the page as it would be written?
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.jetstream.results import Results  # noqa: E402
from tests.jetstream.servers import NAMES  # noqa: E402
from tests.jetstream.table import SECTIONS, Proof  # noqa: E402

PAGE = ROOT / "docs" / "jetstream.md"
BEGIN, END = "<!-- table -->\n", "<!-- end of table -->"
WORKS, NOT_YET = "works", "not yet"


def proofs() -> Iterator[tuple[str, Proof]]:
    """Every test, or case of one, by its name without the server."""
    for path in sorted((ROOT / "tests" / "jetstream").glob("test_*.py")):
        spec = importlib.util.spec_from_file_location(f"tests.jetstream.{path.stem}", path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        for name, function in vars(module).items():
            known: Proof | None = getattr(function, "proof", None)
            if not name.startswith("test_") or known is None:
                continue
            for case, its in known.cases.items():
                shared = Proof(its.lines, its.differs or known.differs, its.refused or known.refused)
                yield f"{path.name}::{name}[{case}]", shared
            if not known.cases:
                yield f"{path.name}::{name}", known


def verdict(test: str, its: Proof, results: Results) -> str:
    """What stands in the table of a line that this test proves."""
    letters = {name: results.of(test, name) for name in NAMES}
    if letters["liftlog"] == "-":
        return NOT_YET
    if letters["liftlog"] == "?":
        return "not run"
    if letters["liftlog-3"] == "-":
        return "not yet with 3 replicas"
    if its.refused:
        return f"refused: {its.refused}".replace("refused: for now", "refused for now")
    return f"differs: {its.differs}" if its.differs else WORKS


def table(results: Results) -> str:
    """The page's part between the markers."""
    lines: dict[tuple[str, str], dict[str, str]] = {}
    counts = dict.fromkeys(NAMES, 0)
    tests = 0
    for test, its in proofs():
        tests += 1
        for name in NAMES:
            counts[name] += results.of(test, name) == "+"
        found = verdict(test, its, results)
        for section, call, what in its.lines:
            known = lines.setdefault((section, call), {})
            # Of several tests of one line, what is not as it is with nats-server counts.
            if known.get(what, WORKS) == WORKS:
                known[what] = found
    passed = ", ".join(f"{counts[name]} on {name}" for name in NAMES if counts[name])
    commit = results.commits.get("liftlog", "")[:12]
    text = [f"{tests} tests prove this table; of them passed at the last whole run: {passed} (`{commit}`).\n"]
    for section in SECTIONS:
        text += [f"\n### {section}\n\n", "| call | liftlog | what |\n|---|---|---|\n"]
        for (of, call), whats in lines.items():
            if of != section:
                continue
            for status in sorted(set(whats.values()), key=lambda one: (one != WORKS, one)):
                named = "; ".join(what or "itself" for what, its in whats.items() if its == status)
                text.append(f"| {escaped(call)} | {escaped(status)} | {escaped(named)} |\n")
    return "".join(text)


def escaped(text: str) -> str:
    """For a cell of a table: no bars, and outside of code nothing that Markdown takes for its own."""
    parts = text.replace("|", "\\|").split("`")
    for at in range(0, len(parts), 2):
        parts[at] = parts[at].replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")
    return "`".join(parts)


def page() -> str:
    """The whole page as it is to be."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    assert END in rest, f"{PAGE} has no {END}"
    return before + BEGIN + table(Results.read()) + END + rest.partition(END)[2]


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        if PAGE.read_text() != page():
            raise SystemExit(f"{PAGE} is not of these tests: run .venv/bin/python scripts/jetstream_page.py")
    else:
        kept = Results.read()
        kept.tests = {test: kept.tests[test] for test, _ in proofs() if test in kept.tests}
        kept.write()
        PAGE.write_text(page())
