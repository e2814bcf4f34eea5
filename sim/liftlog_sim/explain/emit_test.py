"""Writes a world that fails as a test to commit: it fails while the bug is there, and passes without."""

from __future__ import annotations

import re
import textwrap
from pprint import pformat

from liftlog_sim.chance.plan import encode
from liftlog_sim.explain.again import stated
from liftlog_sim.explain.candidates import Candidate, Fingerprint
from liftlog_sim.explain.shrink import sizes
from liftlog_sim.runs.runs import RunOptions

_WIDTH = 100


def snake(name: str) -> str:
    """`CommittedOnISR` as `committed_on_isr`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()


def file_of(
    options: RunOptions, candidate: Candidate, fingerprint: Fingerprint, finding: str, found_in: int
) -> str:
    """The source of a test module. `found_in`: the seed that was shrunk."""
    bug = re.sub(r"\W", "_", options.mutant)
    what = " ".join(finding.split())
    head = f"{fingerprint} in a world of {sizes(candidate.plan)}; shrunk from seed {found_in}."
    about = "\n".join(textwrap.wrap(what, _WIDTH)[:4])
    knobs = pformat(stated(candidate.knobs), width=_WIDTH, sort_dicts=False)
    extra = ", refine=True" if options.refine else ""
    if options.gear != "step":
        extra += f', gear="{options.gear}"'
    if options.studies:
        extra += f", studies={list(options.studies)!r}".replace("'", '"')
    call = f"run_again({options.seed}, WORLD, PLAN"
    lines = [
        f'"""{head}',
        "",
        about.replace("\\", "\\\\").replace('"""', "'''"),
        '"""',
        "",
        "from liftlog_sim.explain.again import run_again",
        "",
        f"WORLD = {knobs}",
        f'PLAN = """{encode(candidate.plan).decode().strip()}"""',
    ]
    broken = snake(fingerprint.invariant)
    if options.mutant:
        lines += [
            "",
            "",
            f"def test_{snake(bug)}_shows_as_{snake(fingerprint.invariant)}() -> None:",
            f'    found = {call}, mutant="{options.mutant}"{extra})',
            f'    assert found.invariant == "{fingerprint.invariant}"',
        ]
    lines += [
        "",
        "",
        f"def test_no_{broken}_without_{snake(bug)}() -> None:"
        if bug
        else f"def test_no_{broken}() -> None:",
        f"    found = {call}{extra})",
        "    assert found.good, found.finding",
        "",
    ]
    return "\n".join(lines)
