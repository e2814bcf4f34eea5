"""`liftlog sim scenario`: run directed scenarios, explain them, print their format.

Exit codes: 0 all ended as expected; 1 one did not; 2 wrong use, or a file that cannot be read.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from typing import Any

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.directed.form import Scenario, load, names, schema
from liftlog_sim.directed.scenario import compare, run_scenario
from liftlog_sim.directed.telling import told
from liftlog_sim.profiles.mutants import planted


def add_scenario(verbs: Any) -> None:
    """Add the verb `scenario`."""
    parser = verbs.add_parser("scenario", help="run directed fault scenarios, or tell what they are about")
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help="or a path ending in .toml; default: all there are"
    )
    parser.add_argument("--gear", choices=("step", "trio", "both"), default="step")
    parser.add_argument(
        "--mutant", default="", metavar="NAME", help="plant a bug (see 'liftlog sim mutants --list')"
    )
    parser.add_argument("--explain", action="store_true", help="tell the story instead of playing it")
    parser.add_argument("--schema", action="store_true", help="print the JSON schema of the format")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=run_scenarios)


def run_scenarios(arguments: argparse.Namespace) -> int:
    """Exit code 1 if one did not end as expected."""
    if arguments.schema:
        if arguments.names or arguments.explain or arguments.mutant:
            raise LiftlogError("--schema prints the format and nothing else: leave the rest out")
        _print_json(schema())
        return 0
    planted(arguments.mutant)
    given = arguments.names or names()
    chosen = [load(name) for name in given]
    if arguments.explain:
        if arguments.mutant or arguments.gear != "step":
            raise LiftlogError("--explain plays nothing: leave --mutant and --gear out")
        _explain(chosen, as_json=arguments.json)
        return 0
    rows = [_play(name, scenario, arguments) for name, scenario in zip(given, chosen, strict=True)]
    good = all(row["good"] for row in rows)
    if arguments.json:
        _print_json({"scenarios": rows, "good": good})
    return 0 if good else 1


def _play(given: str, scenario: Scenario, arguments: argparse.Namespace) -> dict[str, Any]:
    gears = ("step", "trio") if arguments.gear == "both" else (arguments.gear,)
    outcomes = [run_scenario(scenario, gear, arguments.mutant) for gear in gears]
    problems = [f"{one.invariant}: {one.finding}" for one in outcomes if one.invariant]
    problems += [f"not as expected: {text}" for one in outcomes for text in one.unexpected]
    if len(outcomes) == 2 and not problems:
        problems += compare(*outcomes)
    if not arguments.json:
        print(f"{'ok  ' if not problems else 'FAIL'} {scenario.name:<36} {scenario.title}")
        mutant = f" --mutant {arguments.mutant}" if arguments.mutant else ""
        for problem in problems:
            print(f"     {problem}")
        if problems:
            again = f"liftlog sim scenario {shlex.quote(given)} --gear {arguments.gear}{mutant}"
            print(f"     replay with: {again}")
    return {"name": scenario.name, "title": scenario.title, "good": not problems, "problems": problems}


def _explain(chosen: list[Scenario], *, as_json: bool) -> None:
    if as_json:
        _print_json({"scenarios": [{"scenario": one, "told": told(one)} for one in chosen]})
        return
    print("\n\n".join("\n".join(told(scenario)) for scenario in chosen))


def _print_json(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
