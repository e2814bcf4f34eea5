"""Prints the part of constraints.txt that some extras of liftlog need, for `pip install --require-hashes`.

    python scripts/locked.py nats,dev > requirements.txt

`build` is what builds liftlog itself and packages that come as source. A comment above each package of
constraints.txt says which extras need it, `base` for liftlog without any (scripts/constraints.sh).
"""

from __future__ import annotations

import sys
from pathlib import Path

CONSTRAINTS = Path(__file__).resolve().parent.parent / "constraints.txt"
MARK = "# for "


def blocks(text: str) -> list[tuple[set[str], str]]:
    """Every package: the extras that need it, and its lines."""
    found: list[tuple[set[str], str]] = []
    for line in text.splitlines():
        if line.startswith(MARK):
            found.append((set(line.removeprefix(MARK).split(",")), ""))
        elif line and not line.startswith("#"):
            if not found or not (found[-1][1] or "==" in line):
                raise SystemExit(f"constraints.txt: no '{MARK}' before {line!r}; run scripts/constraints.sh")
            needed, lines = found[-1]
            found[-1] = needed, f"{lines}{line}\n"
    return found


def locked(text: str, extras: set[str]) -> str:
    """The lines of all packages that one of `extras` needs. Exits if an extra is unknown."""
    found = blocks(text)
    known = set().union(*(needed for needed, _ in found))
    if not extras <= known:
        unknown = ", ".join(sorted(extras - known))
        raise SystemExit(f"no such extra: {unknown}; there are: {', '.join(sorted(known))}")
    return "".join(lines for needed, lines in found if needed & extras)


if __name__ == "__main__":
    print(locked(CONSTRAINTS.read_text(), set(sys.argv[1].split(","))), end="")
