"""The two steps of scripts/constraints.sh that need to know what is installed.

    constraints.py needed          name==version of everything that liftlog and its extras need, a line each
    constraints.py write HASHED    constraints.txt, from the same lines with hashes
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEAD = """\
# Exact versions that the tests ran with, and the hashes of all their files: no others are installed.
# Above each package stand the extras that need it. Kept by scripts/constraints.sh.
"""
BUILD = ("setuptools", "wheel")
"""Tools that build liftlog and packages that come as source. They keep the versions that they have here: what
an environment holds of them came with its Python. To change one, change its line in constraints.txt first."""


def needed_by(wanted: Iterable[str]) -> set[str]:
    """Canonical names of what these requirements need here, themselves included. Exits if one is missing."""
    found: set[str] = set()
    waiting = [(Requirement(line), "") for line in wanted]
    seen: set[tuple[str, str]] = set()
    while waiting:
        one, extra_of_parent = waiting.pop()
        if one.marker is not None and not one.marker.evaluate({"extra": extra_of_parent}):
            continue
        name = canonicalize_name(one.name)
        found.add(name)
        for extra in ("", *one.extras):
            if (name, extra) not in seen:
                seen.add((name, extra))
                try:
                    lines = metadata.requires(name) or []
                except metadata.PackageNotFoundError:
                    raise SystemExit(f"{name} is not installed; install all extras first") from None
                waiting += [(Requirement(line), extra) for line in lines]
    return found


def packages() -> dict[str, list[str]]:
    """Every package, with the extras that need it."""
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    base = needed_by(project["dependencies"])
    found = {name: ["base"] for name in base}
    for extra, wanted in project["optional-dependencies"].items():
        for name in needed_by(wanted) - base:
            found.setdefault(name, []).append(extra)
    for name in BUILD:
        found.setdefault(name, []).append("build")
    return found


def version(name: str) -> str:
    if name not in BUILD:
        return metadata.version(name)
    match = re.search(rf"^{name}==(\S+)", Path("constraints.txt").read_text(), re.M)
    if match is None:
        raise SystemExit(f"constraints.txt does not say which {name} builds packages")
    return match[1]


def write(hashed: str) -> None:
    extras = packages()
    print(HEAD, end="")
    for block in re.split(r"\n(?=\S)", hashed.strip()):
        name = canonicalize_name(block.partition("==")[0])
        if "--hash=sha256:" not in block:
            raise SystemExit(f"the index tells no hashes for {name}")
        print(f"# for {','.join(sorted(extras[name]))}\n{block}")


if __name__ == "__main__":
    if sys.argv[1] == "needed":
        print("".join(f"{name}=={version(name)}\n" for name in sorted(packages())), end="")
    else:
        write(Path(sys.argv[2]).read_text())
