"""The catalogue in words: for a terminal, and as the table of docs/mutants.md.

Both are made of the same sources: `profiles/mutants.py` and `history.py` say what a bug is, the record of
the last search for all of them (`liftlog sim mutants --record`) says how it was caught.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from liftlog.core.guards import REMOVABLE
from liftlog.types import LiftlogError
from liftlog_sim.catalogue.history import ORIGINS, Origin
from liftlog_sim.catalogue.unplanted import WAITING
from liftlog_sim.explain.words import many
from liftlog_sim.profiles.mutants import Mutant
from liftlog_sim.sweeps.catching import KnownCatch, known_seeds

RECORD = Path(__file__).resolve().parents[3] / "tests" / "golden" / "mutants.json"
"""In a checkout; what is installed has none."""
COMMAND = "liftlog sim mutants --page docs/mutants.md"
BEGIN, END = "<!-- made by: " + COMMAND + " -->", "<!-- end of what is made -->"
NOT_PLANTED = Origin(0, "", "guard", "a second line of defence: what it keeps, another one keeps as well")


def recorded() -> dict[str, KnownCatch]:
    """How each was caught when all were searched for; empty where there is no record."""
    return known_seeds(RECORD) if RECORD.is_file() else {}


def switch(name: str) -> str:
    """How it is planted."""
    return f'Mutants(without="{name}")' if name in REMOVABLE else f"Mutants({name}=True)"


def listing(chosen: Sequence[Mutant], known: Mapping[str, KnownCatch]) -> list[str]:
    """For people: some lines for each."""
    lines: list[str] = []
    for mutant in chosen:
        origin = ORIGINS.get(mutant.name, NOT_PLANTED)
        row = f" (row {origin.row})" if origin.row else ""
        lines += [
            f"{mutant.name:<36} {mutant.rule:<3} {_caught(known.get(mutant.name))}",
            f"    bug     {mutant.breaks}",
            f"    source  {origin.source}{row}",
            f"    lesson  {origin.lesson}",
            f"    switch  {switch(mutant.name)}",
        ]
    return lines


def waiting() -> list[str]:
    """Bugs of the literature that are not planted, and why."""
    lines = ["", "rows of the literature that are not planted:"]
    for one in WAITING:
        lines += [f"  {one.row:>2}  {one.bug} ({one.source})", f"      {one.why}"]
    return lines


def _caught(known: KnownCatch | None) -> str:
    if known is None:
        return "no record of a search"
    text = f"{known.invariant}, seed {known.seed}, the {_ordinal(known.searched)} of its profiles"
    if known.simulated_s is not None and known.cpu_s is not None:
        text += f"; {known.simulated_s:,.0f} s simulated in {known.cpu_s:.1f} s of CPU"
    if known.shrunk is not None:
        text += f"; shrunk to {many(known.shrunk, 'fault or operation', 'faults and operations')}"
        text += f", {many(known.fates, 'message fate')}" if known.fates else ""
        text += f", in {known.shrink_cpu_s:.1f} s" if known.shrink_cpu_s is not None else ""
    return text


def _ordinal(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"


def table(chosen: Sequence[Mutant], known: Mapping[str, KnownCatch]) -> list[str]:
    """The table of docs/mutants.md. A column that the record has nothing for is left out."""
    timed = any(known[one.name].cpu_s for one in chosen if one.name in known)
    shrunk = any(known[one.name].shrunk is not None for one in chosen if one.name in known)
    titles = ["bug", "row", "rule", "what is wrong", "source", "lesson", "before", "caught by", "seeds"]
    titles += ["simulated s", "CPU s"] * timed
    titles += ["shrunk to", "and fates", "in CPU s"] * shrunk
    lines = [_row(titles), "|" + "---|" * len(titles)]
    for mutant in chosen:
        origin = ORIGINS[mutant.name]
        cells = [f"`{mutant.name}`", str(origin.row or ""), mutant.rule, mutant.breaks]
        cells += [origin.source, origin.lesson, origin.before]
        found = known.get(mutant.name, KnownCatch(-1, 0, ""))
        cells += [found.invariant, f"{found.searched or ''}{' *r*' * mutant.refine}"]
        times = ("", "")
        if found.simulated_s is not None and found.cpu_s is not None:
            times = (f"{found.simulated_s:,.0f}", f"{found.cpu_s:.1f}")
        sizes = (_number(found.shrunk), _number(found.fates), _number(found.shrink_cpu_s))
        cells += [*times] * timed + [*sizes] * shrunk
        lines.append(_row(cells))
    lines += ["", "Of the literature these rows are not planted:", "", "| row | bug | source | why |"]
    lines.append("|---|---|---|---|")
    return lines + [_row([str(one.row), one.bug, one.source, one.why]) for one in WAITING]


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.1f}" if isinstance(value, float) else str(value)


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def with_table(page: str, lines: Sequence[str]) -> str:
    """The page with its table made anew. Raises LiftlogError if it has no place for one."""
    head, begin, rest = page.partition(BEGIN + "\n")
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise LiftlogError(f"the page has no lines '{BEGIN}' and '{END}': put them where the table goes")
    return "\n".join([head + BEGIN, "", *lines, "", END + tail])
