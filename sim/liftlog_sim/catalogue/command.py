"""`liftlog sim mutants`: plant each known protocol bug and see it caught; or tell what is known of them.

Exit codes: 0 all were caught (and shrunk as far as they should be); 1 one was not; 2 wrong use.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from liftlog.types import LiftlogError
from liftlog_sim.catalogue.history import ORIGINS
from liftlog_sim.catalogue.page import (
    NOT_PLANTED,
    RECORD,
    listing,
    recorded,
    switch,
    table,
    waiting,
    with_table,
)
from liftlog_sim.catalogue.smallest import MOST_S, Sought, smallest, summary, told
from liftlog_sim.catalogue.unplanted import WAITING
from liftlog_sim.explain.commands import check_budget
from liftlog_sim.explain.failures import FOLDER, check_folder
from liftlog_sim.profiles.mutants import MUTANTS, Mutant, mutant_named
from liftlog_sim.sweeps.catching import Caught, KnownCatch, catch, each_of, known_of, record
from liftlog_sim.sweeps.record import sources_hash
from liftlog_sim.sweeps.seeds import progress
from liftlog_sim.sweeps.sweep import default_jobs


def add_mutants(verbs: Any) -> None:
    """Add the verb `mutants`."""
    parser = verbs.add_parser("mutants", help="plant each known protocol bug and see it caught")
    parser.add_argument(
        "--only", default="", metavar="NAME", help="one mutant, or several separated by commas"
    )
    parser.add_argument(
        "--record", default="", metavar="FILE", help="write down which seed catches each, if all are caught"
    )
    parser.add_argument(
        "--keep",
        action="store_true",
        help="with --record: look first where each was found before, and keep what the record says if it is "
        "found there again, and of those that --only leaves out",
    )
    parser.add_argument(
        "--shrink",
        action="store_true",
        help="also shrink the world that caught each, and tell what is left of it and its story",
    )
    parser.add_argument(
        "--seconds", type=float, metavar="S", help=f"of CPU time to shrink one, at most; default: {MOST_S:g}"
    )
    parser.add_argument(
        "--failures",
        type=Path,
        metavar="FOLDER",
        help=f"where bundles, plans and tests of what is shrunk are written; default: {FOLDER}",
    )
    parser.add_argument("--list", action="store_true", help="only list them: a history of the field's bugs")
    parser.add_argument(
        "--page", type=Path, default=None, metavar="FILE", help="write the table of docs/mutants.md anew"
    )
    parser.add_argument("--jobs", type=int, default=0, metavar="N", help="processes (default: one a core)")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.set_defaults(run=run_mutants)


def run_mutants(arguments: argparse.Namespace) -> int:
    """Exit code 1 if one survived, or is not shrunk as far as it should be."""
    names = [name.strip() for name in arguments.only.split(",") if name.strip()]
    if arguments.record and (arguments.list or (names and not arguments.keep)):
        raise LiftlogError("--record is for all mutants: leave --list out, and say --keep with --only")
    if arguments.keep and not arguments.record:
        raise LiftlogError("--keep says how --record looks: say that too")
    if arguments.keep and not RECORD.is_file():
        raise LiftlogError(f"--keep goes by {RECORD}, which a compiled copy has not: leave it out there")
    chosen = [mutant_named(name) for name in names] or list(MUTANTS)
    if arguments.shrink and (arguments.list or arguments.page is not None):
        raise LiftlogError("--shrink looks for them anew: leave --list and --page out")
    if not arguments.shrink and (arguments.seconds is not None or arguments.failures is not None):
        raise LiftlogError("--seconds and --failures are for --shrink: say that too, or leave them out")
    if arguments.page is not None:
        _write_page(arguments.page)
        return 0
    if arguments.list:
        _list(chosen, whole=not names, as_json=arguments.json)
        return 0
    if arguments.shrink:
        return _shrink(chosen, arguments)
    before = recorded() if arguments.keep else {}
    sources = sources_hash() if arguments.record else ""
    with progress(len(chosen), enabled=not arguments.json) as advance:
        jobs = arguments.jobs or default_jobs()
        asked = [(mutant, _seed(before, mutant)) for mutant in chosen]
        found = each_of(asked, _caught, jobs, lambda caught: advance(""))
    if arguments.json:
        caught = sum(one.caught for one in found)
        _print_json({"mutants": found, "caught": caught, "survived": len(found) - caught})
    else:
        _tell(found)
    if arguments.record:
        known = {one.name: _kept(one, before) for one in found}
        _record(arguments.record, found, before, known, sources)
    return 0 if all(caught.caught for caught in found) else 1


def _seed(known: Mapping[str, KnownCatch], mutant: Mutant) -> int:
    """In which one it was found before; -1 = none."""
    return known[mutant.name].seed if mutant.name in known else -1


def _caught(asked: tuple[Mutant, int]) -> Caught:
    """A mutant, and the seed in which it is looked for first."""
    mutant, known = asked
    return catch(mutant, known=known)


def _kept(caught: Caught, before: Mapping[str, KnownCatch]) -> KnownCatch:
    """What was known of it, if it was found there again."""
    known = before.get(caught.name)
    if known is not None and (known.seed, known.invariant) == (caught.seed, caught.invariant):
        return known
    return known_of(caught)


def _record(
    path: str,
    found: Sequence[Caught],
    before: Mapping[str, KnownCatch],
    known: Mapping[str, KnownCatch],
    sources: str,
) -> None:
    """Write down what is known now; of those that were not looked for, what was known `before`. `sources`: of
    which code it is, by its hash when the search began.
    """
    survived = [caught.name for caught in found if not caught.caught]
    if survived:
        raise LiftlogError(f"nothing was recorded: {', '.join(survived)} survived")
    if sources != sources_hash():
        raise LiftlogError("nothing was recorded: the code was changed during the search; search again")
    now = {name: msgspec.structs.replace(one, sources=sources) for name, one in known.items()}
    whole = {**before, **now}
    record(Path(path), {mutant.name: whole[mutant.name] for mutant in MUTANTS if mutant.name in whole})


def _shrink(chosen: Sequence[Mutant], arguments: argparse.Namespace) -> int:
    """Unless a record is to be written anew, each is looked for where it was found before."""
    seconds = MOST_S if arguments.seconds is None else arguments.seconds
    folder = FOLDER if arguments.failures is None else arguments.failures
    check_budget(seconds)
    check_folder(folder)
    known = {} if arguments.record and not arguments.keep else recorded()
    sources = sources_hash() if arguments.record else ""
    sought = [
        Sought(
            name=mutant.name,
            seconds=seconds,
            folder=folder,
            known=_seed(known, mutant),
        )
        for mutant in chosen
    ]
    with progress(len(chosen), enabled=not arguments.json) as advance:
        jobs = arguments.jobs or default_jobs()
        found = each_of(sought, smallest, jobs, lambda one: advance(""))
    if arguments.json:
        _print_json({"mutants": found})
    else:
        for one in found:
            print("\n".join([*told(one), ""]))
        print("\n".join(summary(found)))
    if arguments.record:
        caught = [one.caught for one in found]
        before = known if arguments.keep else {}
        sizes = {one.caught.name: one.known(_kept(one.caught, before)) for one in found}
        _record(arguments.record, caught, before, sizes, sources)
    return 0 if all(one.good for one in found) else 1


def _tell(found: Sequence[Caught]) -> None:
    for caught in found:
        how = f"{caught.invariant} in seed {caught.seed} ({caught.profile})" if caught.caught else "SURVIVED"
        effort = f"{caught.searched} seeds, {caught.simulated_s:,.0f} s simulated, {caught.cpu_s:.1f} s CPU"
        print(f"{caught.name:<36} {caught.rule:<3} {how}, {effort}")
        if caught.caught:
            print(f"    {caught.replay}")
    print(f"median: {median(caught.searched for caught in found):g} seeds of a mutant's profiles")


def _list(chosen: Sequence[Mutant], *, whole: bool, as_json: bool) -> None:
    known = recorded()
    if not as_json:
        print("\n".join(listing(chosen, known) + (waiting() if whole else [])))
        return
    rows = [
        {
            **msgspec.structs.asdict(mutant),
            **msgspec.structs.asdict(ORIGINS.get(mutant.name, NOT_PLANTED)),
            "switch": switch(mutant.name),
            "record": known.get(mutant.name),
        }
        for mutant in chosen
    ]
    _print_json({"mutants": rows, "waiting": WAITING if whole else ()})


def _write_page(path: Path) -> None:
    try:
        path.write_text(with_table(path.read_text(encoding="utf-8"), table(MUTANTS, recorded())), "utf-8")
    except OSError as error:
        text = f"cannot write {path}: {error.strerror}; name docs/mutants.md of a checkout"
        raise LiftlogError(text) from None


def _print_json(value: object) -> None:
    sys.stdout.buffer.write(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
